//! Where a network deviates from its description by commands: what `apply` says of it, and how it ends (`--exact`,
//! `reset`), or becomes the description (`export`).

use crate::up::Net;
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);

const NETWORK: &str = "[host.alpha]\n[host.beta]\n[switch.s1]\n\
    [[link]]\nends = [\"alpha\", \"s1:0\"]\n[[link]]\nends = [\"s1:1\", \"beta\"]\nrate = \"OC-3c\"\n\
    [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n[[circuit]]\nends = [\"alpha 0.101\", \"beta 0.101\"]\n";

/// A command as a person types it: exit status, standard output, standard error.
fn typed(net: &Net, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
    command.arg("--socket").arg(net.folder.path().join("s")).args(arguments).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |octets: Vec<u8>| String::from_utf8(octets).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn path(net: &Net, name: &str) -> String {
    net.folder.path().join(name).to_str().unwrap().to_owned()
}

fn names(net: &Net, what: &str) -> Vec<String> {
    let listed = net.done(&[what, "list"]);
    listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

/// A circuit more, one less, a link down, and a link to the outside.
fn deviating() -> Net {
    let net = Net::up(WAIT, NETWORK);
    net.done(&["circuit", "add", "alpha 0.200", "beta 0.200"]);
    net.done(&["circuit", "remove", "alpha 0.101", "beta 0.101"]);
    net.done(&["link", "down", "s1:1 - beta:0"]);
    let udp = "local = \"127.0.0.1:0\", peer = \"127.0.0.1:9\", form = \"batch\"";
    net.done(&["link", "add", "s1:5", "far", "--cells-udp", udp, "--queue-cells", "64"]);
    net
}

#[test]
fn apply_shows_what_it_keeps_from_commands_and_exact_removes_it() {
    let net = deviating();
    let file = path(&net, "net.toml");
    let kept = [
        "added circuit alpha 0.200 - beta 0.200",
        "removed circuit alpha 0.101 - beta 0.101",
        "taken down: link s1:1 - beta:0",
        "added link s1:5 - far:0",
    ];
    let (status, text, _) = typed(&net, &["apply", "--dry-run", &file]);
    assert_eq!(status, Some(0), "nothing else would change: {text}");
    let below = text.split_once("kept from commands:").unwrap_or_else(|| panic!("{text}")).1;
    assert!(kept.iter().all(|line| below.contains(line)), "{text}");
    assert!(text.contains("would be done: 0 added, 0 changed, 0 removed"), "{text}");
    let applied = net.done(&["apply", &file]);
    assert_eq!(applied["kept"].as_array().map(Vec::len), Some(4), "{applied:#}");
    assert_eq!(names(&net, "circuit"), ["alpha 0.100 - beta 0.100", "alpha 0.200 - beta 0.200"]);

    let (status, text, _) = typed(&net, &["apply", "--exact", "--dry-run", &file]);
    let changes = [
        "- circuit alpha 0.200 - beta 0.200",
        "+ circuit alpha 0.101 - beta 0.101",
        "~ link s1:1 - beta:0: up",
        "- link s1:5",
    ];
    assert!(status == Some(4) && changes.iter().all(|line| text.contains(line)), "{text}");
    assert!(!text.contains("kept from commands"), "{text}");
    assert_eq!(names(&net, "circuit").len(), 2, "nothing was done");
    assert_eq!(typed(&net, &["apply", "--exact", &file]).0, Some(0));
    assert_eq!(names(&net, "circuit"), ["alpha 0.100 - beta 0.100", "alpha 0.101 - beta 0.101"]);
    assert_eq!(names(&net, "link").len(), 2);
    assert_eq!(typed(&net, &["apply", "--exact", "--dry-run", &file]).0, Some(0));
}

#[test]
fn a_network_is_exported_as_a_description_that_apply_finds_unchanged() {
    let net = deviating();
    let (status, text, _) = typed(&net, &["export"]);
    assert_eq!(status, Some(0));
    let exported = path(&net, "exported.toml");
    std::fs::write(&exported, &text).unwrap();
    for arguments in [&["apply", "--dry-run", &exported][..], &["apply", "--exact", "--dry-run", &exported]] {
        let (status, said, wrong) = typed(&net, arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {said}{wrong}\n{text}");
        assert!(!said.contains("kept from commands"), "the description has it: {said}");
    }
    // Another daemon makes the same network of it.
    let (links, circuits) = (net.done(&["link", "list"]), names(&net, "circuit"));
    drop(net);
    let again = Net::up(WAIT, &text);
    let row = |links: &Value| -> Vec<(String, bool)> {
        let all = links.as_array().unwrap().iter();
        all.map(|link| (link["name"].as_str().unwrap().to_owned(), link["enabled"] == true)).collect()
    };
    let mut both = [row(&links), row(&again.done(&["link", "list"]))];
    both.iter_mut().for_each(|rows| rows.sort());
    assert_eq!(both[0], both[1]);
    assert!(both[0].contains(&("s1:1 - beta:0".to_owned(), false)), "{both:?}");
    assert_eq!(names(&again, "circuit"), circuits);
    // A link that the description has down is taken up by a command, and that is kept.
    again.done(&["link", "up", "s1:1 - beta:0"]);
    let (status, said, _) = typed(&again, &["apply", "--dry-run", &path(&again, "net.toml")]);
    assert!(status == Some(0) && said.contains("taken up: link s1:1 - beta:0"), "{said}");
}

#[test]
fn reset_makes_a_network_what_its_description_says() {
    let net = deviating();
    let (status, text, _) = typed(&net, &["reset", "--dry-run"]);
    assert!(status == Some(4) && text.contains("- circuit alpha 0.200 - beta 0.200"), "{text}");
    assert_eq!(typed(&net, &["reset"]).0, Some(0));
    assert_eq!(names(&net, "circuit"), ["alpha 0.100 - beta 0.100", "alpha 0.101 - beta 0.101"]);
    assert_eq!(typed(&net, &["reset", "--dry-run"]).0, Some(0));
}

#[test]
fn links_of_commands_are_of_every_kind_that_a_description_has() {
    let net = Net::up(WAIT, "[host.alpha]\n[switch.s1]\n[switch.s2]\n[[link]]\nends = [\"alpha\", \"s1:0\"]\n");
    let added = |arguments: &[&str]| net.done(&[&["link", "add"], arguments].concat());
    let trunk = added(&["s1:1", "s2:1", "--delay-us", "1000", "--faults", "loss = 0.5, seed = 3", "--rate", "OC-3c"]);
    added(&["s1:2", "peer", "--atmtcp", "listen 127.0.0.1:0", "--peer-circuits-to", "alpha"]);
    added(&["s1:3", "cells", "--cells-tcp", "listen 127.0.0.1:0", "--enabled", "false"]);
    added(&["s2:4", "datagrams", "--cells-udp", "local = \"127.0.0.1:0\", peer = \"127.0.0.1:9\""]);
    let follower = added(&["s1:5", "s2:5", "--follows", trunk["link"].as_str().unwrap()]);
    let listed = net.done(&["link", "list"]);
    assert_eq!(listed.as_array().unwrap().len(), 6, "{listed:#}");
    // While the other one is down, this one is too.
    let is_up = |name: &Value| {
        let listed = net.done(&["link", "list"]);
        listed.as_array().unwrap().iter().any(|link| link["name"] == *name && link["up"] == true)
    };
    assert!(is_up(&follower["link"]), "{listed:#}");
    net.done(&["link", "down", trunk["link"].as_str().unwrap()]);
    crate::up::within(WAIT, "the follower is down", || !is_up(&follower["link"]));
    // All of it is in the description that the network is exported as.
    let text = net.done(&["export"])["description"].as_str().unwrap().to_owned();
    for key in [
        "delay_us = 1000",
        "loss = 0.5",
        "atmtcp = ",
        "cells_tcp = ",
        "enabled = false",
        "follows = ",
        "[link.cells_udp]",
    ] {
        assert!(text.contains(key), "{key}\n{text}");
    }
    let file = net.folder.path().join("exported.toml");
    std::fs::write(&file, text).unwrap();
    net.done(&["apply", "--dry-run", file.to_str().unwrap()]);
}
