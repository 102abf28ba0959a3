//! A Myrinet in a running network: circuits over it, its map, its routes, its traffic generator.

use crate::up::{Net, within};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

fn example() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/myrinet.toml")).unwrap()
}

/// The example, once its first map is drawn.
fn mapped() -> Net {
    let net = Net::up(PATIENCE, &example());
    within(PATIENCE, "a first map", || count(&net.done(&["myrinet", "map"])["hosts"]) == 6);
    net
}

fn count(value: &Value) -> usize {
    value.as_array().map(Vec::len).or(value.as_object().map(serde_json::Map::len)).unwrap_or(0)
}

#[test]
fn a_file_passes_a_circuit_over_a_myrinet_and_status_says_so() {
    let net = Net::up(PATIENCE, &example());
    let (from, to) = (net.folder.path().join("from"), net.folder.path().join("to"));
    let octets: Vec<u8> = (0..300_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(&from, &octets).unwrap();
    let command = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
        command.arg("--socket").arg(net.folder.path().join("s")).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut receiver = command(&["receive", "--reliable", "temple", "0.101", to.to_str().unwrap()]).spawn().unwrap();
    within(PATIENCE, "the receiver is there", || count(&net.done(&["status"])["endpoints"]) == 1);
    assert!(command(&["send", "--reliable", "barbican", "0.101", from.to_str().unwrap()]).status().unwrap().success());
    within(PATIENCE, "the file is there", || receiver.try_wait().unwrap().is_some());
    assert!(std::fs::read(&to).unwrap() == octets);
    let status = net.done(&["status"]);
    let myrinet = &status["myrinets"][0];
    let pdus = |host: usize, way: &str| myrinet["hosts"][host][way]["pdus"].as_u64().unwrap();
    assert!(pdus(0, "sent") > 0 && pdus(0, "sent") == pdus(5, "received"), "{myrinet}");
    assert_eq!((&status["stations"]["ssn"], count(&status["switches"])), (&Value::from("myrinet"), 0));
    assert_eq!(myrinet["overflowed_symbols"], 0);
}

#[test]
fn the_map_follows_a_cable_and_messages_are_sent_over_it() {
    let net = mapped();
    let hosts = || count(&net.done(&["myrinet", "map"])["hosts"]);
    let map = net.done(&["myrinet", "map"]);
    assert_eq!((&map["switches"], count(&map["hosts"]), count(&map["cables"])), (&Value::from(5), 6, 5));
    let routes = net.done(&["myrinet", "routes", "ssn"]);
    assert_eq!((count(&routes), count(&routes["barbican"]), count(&routes["barbican"]["temple"])), (6, 5, 4));

    let run = net.done(&["myrinet", "send", "barbican", "temple", "--octets", "8192", "--count", "200"]);
    assert_eq!((&run["received"], &run["damaged"]), (&Value::from(200), &Value::from(0)));
    assert!((100.0..640.0).contains(&run["mbit_s"].as_f64().unwrap()), "{run}");
    let group = ["myrinet", "send", "barbican", "shloomiel", "aldgate", "--octets", "64", "--count", "20"];
    let run = net.done(&[&group[..], &["--acknowledged", "--immediate"]].concat());
    assert_eq!(run["received"], 40);
    assert!(run["round_trip_us"][0].as_f64().unwrap() > 10.0);
    let refused = net.run(&["myrinet", "send", "barbican", "nobody"]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("none of its hosts"));

    // A cable less, the mapper's, so that another one maps; and again.
    let without: String =
        example().lines().filter(|line| !line.contains("temple\", \"m5")).map(|line| format!("{line}\n")).collect();
    let file = net.folder.path().join("net.toml");
    std::fs::write(&file, without).unwrap();
    let applied = net.done(&["apply", file.to_str().unwrap()]);
    assert_eq!((&applied["changed"], count(&applied["interrupted"])), (&Value::from(1), 0), "{applied}");
    within(PATIENCE, "the map has five hosts", || hosts() == 5);
    std::fs::write(&file, example()).unwrap();
    net.done(&["apply", file.to_str().unwrap()]);
    within(PATIENCE, "the map has six hosts", || hosts() == 6);
    let monitor = net.done(&["myrinet", "monitor"]);
    assert_eq!(monitor["map_agrees"], true);
    assert!(monitor["hosts"][0]["monitor"]["sent"]["pdus"].as_u64().unwrap() > 200);
}

#[test]
fn a_busy_myrinet_loses_nothing_and_shows_no_malformed_packets() {
    let net = mapped();
    let monitored = |monitor: &Value, key: &str| monitor[key].as_u64().unwrap();
    for _ in 0..20 {
        let run = net.done(&["myrinet", "send", "barbican", "shloomiel", "aldgate", "milanet"]);
        assert_eq!(run["received"].as_u64(), run["count"].as_u64().map(|count| 3 * count), "{run}");
    }
    let monitor = net.done(&["myrinet", "monitor"]);
    assert_eq!((count(&monitor["packets"]["dropped"]), &monitor["map_agrees"]), (0, &Value::from(true)), "{monitor}");
    for host in monitor["hosts"].as_array().unwrap() {
        for counters in ["sent", "received", "packets_sent", "packets_received", "mapping_sent", "mapping_received"] {
            assert_eq!(count(&host["monitor"][counters]["dropped"]), 0, "{counters}: {host}");
        }
    }
    assert!(monitored(&monitor, "mapping_packets") > 0 && monitored(&monitor, "mapping_unfound") > 0, "{monitor}");
}

#[test]
fn a_myrinet_that_maps_each_ten_minutes_is_mapped_at_the_start_and_after_a_change() {
    let seldom = example().replace("switches = { m1", "map_every_ms = 600000\nswitches = { m1");
    let net = Net::up(PATIENCE, &seldom);
    let hosts = || count(&net.done(&["myrinet", "map"])["hosts"]);
    within(PATIENCE, "a first map", || hosts() == 6);
    let file = net.folder.path().join("net.toml");
    // A host's cable, then the mapper's.
    for cable in ["aldgate\", \"m2", "temple\", \"m5"] {
        let without: Vec<&str> = seldom.lines().filter(|line| !line.contains(cable)).collect();
        std::fs::write(&file, without.join("\n")).unwrap();
        net.done(&["apply", file.to_str().unwrap()]);
        within(PATIENCE, "a map of five hosts", || hosts() == 5);
        std::fs::write(&file, &seldom).unwrap();
        net.done(&["apply", file.to_str().unwrap()]);
        within(PATIENCE, "a map of six hosts", || hosts() == 6);
    }
}
