//! Each quantity in each of its usual notations is one value, in every key that has such a quantity.

use control::config::{Config, parse};

const STATIONS: &str = "[host.alpha]\n[host.beta]\n[switch.s1]\nprefix = \"47000580ffe100000000000001\"\n[switch.s2]\n";

/// A description with one value in a key.
fn described(key: &str, value: &str) -> Config {
    let text = TEMPLATES.iter().find(|(name, _)| *name == key).map(|(_, text)| text.replace("VALUE", value)).unwrap();
    parse(&(STATIONS.to_owned() + &text), "x").unwrap_or_else(|e| panic!("{key} = {value}: {e}"))
}

/// Keys of labels, of rates and of times, each with a description around its value.
const TEMPLATES: &[(&str, &str)] = &[
    ("ends", "[[circuit]]\nends = [\"alpha VALUE\", \"beta VALUE\"]\n"),
    (
        "via",
        "[[link]]\nends = [\"s1:1\", \"s2:1\"]\n[[circuit]]\nends = [\"alpha 8.35\", \"beta 8.35\"]\nvia = [\"s1:1 VALUE\"]\n",
    ),
    (
        "atmarp_server",
        "[interface.i]\nhost = \"in\"\naddress = \"10.0.0.1/24\"\natmarp_server = \"VALUE\"\n[[link]]\nends = [\"in\", \"s1:5\"]\ncarries = \"frames\"\n",
    ),
    ("circuits", "[[allow]]\nusers = [7]\ncircuits = [\"VALUE\"]\n"),
    ("rate", "[[link]]\nends = [\"alpha\", \"s1:0\"]\nrate = VALUE\n"),
    (
        "signalling.rate",
        "[[link]]\nends = [\"alpha\", \"s1:0\"]\nrate = \"OC-12c\"\nsignalling = { version = \"uni31\", rate = VALUE }\n",
    ),
    ("pcr", "[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\npcr = VALUE\n"),
    (
        "scr",
        "[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\ncategory = \"nrt-vbr\"\npcr = \"1 Gbit/s\"\nmbs = 9\nscr = VALUE\n",
    ),
    ("mcr", "[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\nmcr = VALUE\n"),
    ("back.pcr", "[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\nback = { pcr = VALUE }\n"),
    ("max_bandwidth", "[[allow]]\nusers = [7]\ncircuits = [\"*\"]\nmax_bandwidth = VALUE\n"),
    ("delay_us", "[[link]]\nends = [\"alpha\", \"s1:0\"]\ndelay_us = VALUE\n"),
    ("link.cdvt_us", "[[link]]\nends = [\"alpha\", \"s1:0\"]\ncdvt_us = VALUE\n"),
    ("cdvt_us", "[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\ncdvt_us = VALUE\n"),
    (
        "max_ctd_us",
        "[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\ncategory = \"cbr\"\npcr = 1\nmax_ctd_us = VALUE\n",
    ),
    (
        "max_cdv_us",
        "[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\ncategory = \"cbr\"\npcr = 1\nmax_cdv_us = VALUE\n",
    ),
    ("back.cdvt_us", "[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\nback = { cdvt_us = VALUE, pcr = 1 }\n"),
    (
        "cells_udp",
        "[outside.far]\n[[link]]\nends = [\"s1:0\", \"far\"]\ncells_udp = { local = \"VALUE:4000\", peer = \"VALUE:4001\" }\n",
    ),
    ("cells_tcp", "[outside.far]\n[[link]]\nends = [\"s1:0\", \"far\"]\ncells_tcp = \"listen VALUE:4000\"\n"),
];

/// What a description means, without how it is written.
fn meaning(config: &Config) -> String {
    format!("{:?}\n{:?}\n{:?}", config.description, config.shells, config.rules)
}

fn same(key: &str, notations: &[&str]) {
    let mut meanings = notations.iter().map(|value| (value, meaning(&described(key, value))));
    let (first, expected) = meanings.next().unwrap();
    for (value, meaning) in meanings {
        assert_eq!(meaning, expected, "{key}: {value} and {first}");
    }
}

#[test]
fn a_label_has_one_meaning_in_each_notation_and_key() {
    for key in ["ends", "via", "atmarp_server"] {
        same(key, &["8.35", "8/35", "0.8.35"]);
    }
    same("circuits", &["8.35", "8/35"]);
}

#[test]
fn a_rate_has_one_meaning_in_each_notation_and_key() {
    for key in ["rate", "signalling.rate"] {
        same(
            key,
            &[
                "\"42.4 Mbit/s\"",
                "\"42400 kbit/s\"",
                "\"42.4Mbps\"",
                "\"42400 kbps\"",
                "\"100000 cell/s\"",
                "\"100000cps\"",
            ],
        );
        same(key, &["\"OC-3c\"", "\"OC3\"", "\"STM-1\"", "\"149.76 Mbit/s\""]);
        same(key, &["\"E3\"", "\"80000 cells/s\""]);
        same(key, &["\"DS3\"", "\"T3\"", "\"96000 cps\""]);
    }
    for key in ["pcr", "scr", "mcr", "back.pcr", "max_bandwidth"] {
        same(
            key,
            &[
                "\"384 kbit/s\"",
                "\"384 kbps\"",
                "\"0.384 Mbps\"",
                "1000",
                "\"1000\"",
                "\"1000 cells/s\"",
                "\"1000 cps\"",
                "1000.0",
            ],
        );
        same(key, &["\"E1\"", "\"e1\""]);
        same(key, &["\"STM-1\"", "\"OC-3c\""]);
    }
    let unlimited = "[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n";
    let without = parse(&(STATIONS.to_owned() + unlimited), "x").unwrap();
    assert_eq!(meaning(&described("pcr", "\"unlimited\"")), meaning(&without));
    assert_eq!(described("rate", "\"unlimited\"").description.links[0].config.rate, None);
}

#[test]
fn a_time_has_one_meaning_in_each_notation_and_key() {
    for key in ["delay_us", "link.cdvt_us", "cdvt_us", "max_ctd_us", "max_cdv_us", "back.cdvt_us"] {
        same(key, &["1500", "\"1500\"", "\"1500 us\"", "\"1.5ms\"", "\"1.5 ms\"", "\"0.0015 s\""]);
    }
    let wrong = STATIONS.to_owned() + "[[link]]\nends = [\"alpha\", \"s1:0\"]\ndelay_us = \"5 parsecs\"\n";
    let e = parse(&wrong, "net.toml").unwrap_err().to_string();
    assert!(e.contains("net.toml:8:12") && e.contains("5 ms"), "{e}");
}

#[test]
fn this_machine_has_one_meaning_in_each_notation_and_key() {
    for key in ["cells_udp", "cells_tcp"] {
        same(key, &["127.0.0.1", "localhost"]);
    }
}

#[test]
fn a_refusal_that_turns_on_bits_says_which() {
    let text = "[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\nrate = \"10 Mbit/s\"\n\
        [[circuit]]\nends = [\"alpha 8.35\", \"beta 8.35\"]\ncategory = \"cbr\"\npcr = \"10 Mbit/s\"\n";
    let e = control::description::rehearse(&parse(text, "x").unwrap()).unwrap_err().to_string();
    // 10 Mbit/s of line are 10e6 / 424 cells each second, and these carry 9.057 Mbit/s of payload.
    assert!(e.contains("9.057 Mbit/s left and 10.000 asked for of payload"), "{e}");
    assert!(e.contains("10.000 Mbit/s left and 11.042 asked for of line"), "{e}");
}
