//! Cells and PDUs that are wrong on purpose: each is dropped for the reason that it should be, and counted where.

use crate::captures::Running;
use crate::up::{Net, within};
use serde_json::{Value, json};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(120);
const LINK: &str = "alpha:0 - s1:0";
const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[host.gamma]
[host.delta]
[switch.s1]
[[link]]
ends = ["alpha", "s1:0"]
[[link]]
ends = ["beta", "s1:1"]
[[link]]
ends = ["gamma", "delta"]
carries = "frames"
[[circuit]]
ends = ["alpha 8.35", "beta 8.35"]
"#;

/// How often a reason stands anywhere in what `drops` says.
fn dropped(net: &Net, reason: &str) -> u64 {
    fn sum(value: &Value, reason: &str) -> u64 {
        match value {
            Value::Array(values) => values.iter().map(|value| sum(value, reason)).sum(),
            Value::Object(fields) if fields.get("reason") == Some(&json!(reason)) => {
                ["count", "dropped", "n"].iter().filter_map(|key| fields.get(*key)?.as_u64()).sum()
            }
            Value::Object(fields) => fields.values().map(|value| sum(value, reason)).sum(),
            _ => 0,
        }
    }
    sum(&net.done(&["drops"]), reason)
}

fn inject(net: &Net, arguments: &[&str]) -> Value {
    net.done(&[&["inject"], arguments].concat())
}

/// A receiver of so many single PDUs, as hexadecimal digits.
fn receiver(net: &Net, count: &str) -> Running {
    Running::start(net, &["receive", "beta", "8.35", "--count", count, "--format", "hex"])
}

#[test]
fn what_is_right_arrives_from_a_host_or_on_a_link_in_each_notation() {
    let net = Net::up(WAIT, NETWORK);
    let file = net.folder.path().join("input");
    let lines = "# two notations\n68656c6c6f\n{\"circuit\":\"8.35\",\"sdu\":\"68656c6c6f\"}\n";
    std::fs::write(&file, lines).unwrap();
    let receiving = receiver(&net, "4");
    let done = inject(&net, &["alpha", "8.35", "--input", file.to_str().unwrap()]);
    assert_eq!((&done["units"], &done["cells"], &done["from"]), (&json!(2), &json!(2), &json!("alpha:0")));
    let done = inject(&net, &[LINK, "--label", "8.35", "--hex", "68656c6c6f", "--count", "2", "--rate", "1000"]);
    assert_eq!((&done["units"], &done["cells"]), (&json!(2), &json!(2)));
    assert_eq!(receiving.output(), b"68656c6c6f\n".repeat(4));
}

#[test]
fn wrong_headers_and_crcs_are_dropped_for_what_they_are() {
    let net = Net::up(WAIT, NETWORK);
    let _receiving = receiver(&net, "1000");
    let bad = inject(&net, &["alpha", "8.35", "--hex", "00", "--bad-hec", "2", "--count", "3"]);
    assert_eq!((&bad["cells"], &bad["header_errors"]), (&json!(0), &json!(3)));
    within(WAIT, "three header errors", || dropped(&net, "header_error") == 3);
    let corrected = inject(&net, &["alpha", "8.35", "--hex", "00", "--bad-hec", "1"]);
    assert_eq!((&corrected["cells"], &corrected["corrected"]), (&json!(1), &json!(1)));
    inject(&net, &["alpha", "8.35", "--hex", "00", "--bad-crc", "--count", "5"]);
    within(WAIT, "five CRCs", || dropped(&net, "crc") == 5);
    inject(&net, &[LINK, "--label", "9.99", "--hex", "00", "--count", "7"]);
    within(WAIT, "seven cells of no circuit", || dropped(&net, "unknown_circuit") == 7);
}

#[test]
fn a_seed_repeats_what_is_lost_doubled_and_late() {
    let net = Net::up(WAIT, NETWORK);
    let faults = ["--lose", "0.1", "--double", "0.1", "--reorder", "0.1", "--delay", "0.1", "--delay-cells", "3"];
    let digits = "5a".repeat(400);
    let arguments = [&["alpha", "8.35", "--hex", &digits, "--count", "50"][..], &faults].concat();
    let seeded = |seed: &str| inject(&net, &[&arguments[..], &["--seed", seed]].concat());
    let (first, again, other) = (seeded("7"), seeded("7"), seeded("8"));
    assert_eq!(first, again);
    assert_ne!(first["lost"], json!(0));
    assert_ne!(first, other);
    let count = |key: &str| first[key].as_u64().unwrap();
    assert_eq!(count("cells"), 50 * 9 - count("lost") + count("doubled"));
    // One that nobody has named is in the result.
    assert!(inject(&net, &arguments)["seed"].is_u64());
}

#[test]
fn an_alarm_reaches_the_far_end_of_its_circuit() {
    let net = Net::up(WAIT, NETWORK);
    let _receiving = receiver(&net, "1000");
    inject(&net, &["alpha", "8.35", "--oam", "ais"]);
    within(WAIT, "the alarm is seen", || {
        let said = net.run(&["oam", "status", "beta", "8.35"]);
        String::from_utf8_lossy(&said.stdout).to_lowercase().contains("ais")
    });
}

#[test]
fn what_cannot_be_is_refused_with_a_sentence() {
    let net = Net::up(WAIT, NETWORK);
    for (arguments, code, says) in [
        (&["gamma:0 - delta:0", "--label", "8.35", "--hex", "00"][..], 1, "carries whole SDUs"),
        (&[LINK, "--hex", "00"], 2, "--label"),
        (&[LINK, "--label", "8.35", "--from", "beta", "--hex", "00"], 1, "no end `beta`"),
        (&["nowhere", "--label", "8.35", "--hex", "00"], 1, "no link"),
        (&[LINK, "--label", "8.35", "--hex", "0"], 2, "two"),
        (&[LINK, "--label", "8.35", "--hex", "00", "--lose", "2"], 2, "probability"),
        (&[LINK, "--label", "8.35"], 2, "nothing to send"),
    ] {
        let refused = net.run(&[&["inject"], arguments].concat());
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
}
