//! Descriptions that are in order, and that are not.

use super::*;
use net::topology::Station;
use proptest::prelude::*;

const GOOD: &str = "[host.alpha]\n[host.beta]\nip = \"10.0.0.2/24\"\n[switch.s1]\n\n[[link]]\nends = [\"alpha\", \"s1:0\"]\nrate = \"OC-3c\"\n[[link]]\nends = [\"beta\", \"s1:1\"]\n\n[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\ncategory = \"cbr\"\npcr = \"20 Mbit/s\"\n";

fn error(text: &str) -> String {
    format!("{:#}", parse(text, "net.toml").unwrap_err())
}

#[test]
fn the_designs_example_is_understood() {
    let config = parse(GOOD, "x").unwrap();
    assert_eq!(config.description.links.len(), 2);
    let circuit = &config.description.circuits[0];
    assert_eq!(circuit.contract.pcr.unwrap().payload_bits_per_s().round(), 20e6);
}

#[test]
fn errors_name_file_line_and_cure() {
    let e = error(&GOOD.replace("rate =", "rat ="));
    assert!(e.starts_with("net.toml:8:1: unknown key `rat`") && e.contains("is it `rate`?"), "{e}");
    let e = error(&GOOD.replace("\"beta\", ", "\"bata\", "));
    assert!(e.starts_with("net.toml:10:9: ") && e.contains("no station `bata` (is it `beta`?)"), "{e}");
    let e = error(&GOOD.replace("20 Mbit/s", "fast"));
    assert!(e.starts_with("net.toml:15:7: ") && e.contains("fast"), "{e}");
    let e = error(&GOOD.replace("OC-3c", "OC-3d"));
    assert!(e.contains("OC-3d") && e.contains("write"), "{e}");
    assert!(error("[host.a]\n[switch.a]\n").contains("two stations"));
    assert!(error("[host.a]\nip = \"10.0.0/8\"\n").starts_with("net.toml:2:6: "));
}

#[test]
fn an_adapter_stands_for_its_guest_at_the_end_of_one_link() {
    const WITH: &str =
        "[adapter.eni0]\nhost = \"guest\"\nsocket = \"eni0.sock\"\n[switch.s]\n[[link]]\nends = [\"guest\", \"s:0\"]\n";
    let config = parse(WITH, "x").unwrap();
    assert_eq!(config.description.stations["guest"], Station::Outside);
    assert!(config.served().map(|served| served.name.as_str()).eq(["eni0"]));
    let again = format!("{WITH}[[link]]\nends = [\"guest\", \"s:1\"]\n");
    for (text, says) in [
        (again.as_str(), "has a link already"),
        (&WITH.replace("\"guest\", \"s:0\"", "\"s:0\", \"s:1\""), "no link leads to `guest`"),
        (&WITH.replace("[switch.s]", "board = \"vlsi\"\n[switch.s]"), "write asic or fpga"),
        (&WITH.replace("[switch.s]", "[switch.guest]\n[switch.s]"), "another station is called `guest`"),
        (&format!("{WITH}carries = \"frames\"\n"), "carries cells"),
    ] {
        let e = error(text);
        assert!(e.contains(says), "{e}");
    }
}

#[test]
fn every_example_is_in_order() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut n = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            load(&path).unwrap();
            n += 1;
        }
    }
    assert!(n >= 5, "{n} examples");
}

#[test]
fn what_show_prints_means_the_same() {
    let config = parse(GOOD, "x").unwrap();
    let again = parse(&toml::to_string_pretty(&config.file).unwrap(), "y").unwrap();
    assert_eq!(again.description, config.description);
}

proptest! {
    #[test]
    fn no_text_panics(text in "[\\[\\]a-z.=\"0-9 \n:{},/-]{0,200}", cut in 0usize..250) {
        let _ = parse(&text, "x");
        let _ = parse(&GOOD[..cut.min(GOOD.len())], "x");
    }
}
