//! What `packaging/` has is what the sources say: the bill of materials, the units, the alert rules.

use house::named::root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

fn output(command: &mut Command) -> String {
    let output = command.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Name and version of each crate that is linked into the program, or that its build runs.
fn linked() -> BTreeSet<(String, String)> {
    let edges = ["tree", "--locked", "--target", TARGET, "--edges", "normal,build", "--prefix", "none"];
    let text = output(Command::new(env!("CARGO")).args(edges).args(["--format", "{p}", "--package", "cellway"]));
    let words = |line: &str| Some((line.split(' ').next()?.to_owned(), line.split(' ').nth(1)?[1..].to_owned()));
    text.lines().filter_map(words).collect()
}

/// Checksums of Cargo.lock by name and version.
fn checksums() -> BTreeMap<(String, String), String> {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let entry = |block: &str| Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?));
    lock.split("[[package]]").filter_map(entry).collect()
}

#[test]
fn the_bill_of_materials_has_every_crate_of_the_program_with_licence_and_checksum() {
    let text = output(Command::new("python3").args(["packaging/sbom", TARGET, "cellway"]));
    let bill: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(bill["spdxVersion"], "SPDX-2.3");
    let (mut listed, mut ids, sums) = (BTreeSet::new(), BTreeSet::new(), checksums());
    ids.insert("SPDXRef-DOCUMENT");
    for package in bill["packages"].as_array().unwrap() {
        let of = |key: &str| package[key].as_str().unwrap();
        let name = (of("name").to_owned(), of("versionInfo").to_owned());
        let licence = of("licenseDeclared");
        assert!(!licence.contains('/') && licence != "NOASSERTION", "{name:?}: {licence}");
        let checksum = package["checksums"][0]["checksumValue"].as_str();
        assert_eq!(checksum, sums.get(&name).map(String::as_str), "{name:?}");
        assert!(ids.insert(of("SPDXID")), "{name:?}: an id twice");
        listed.insert(name);
    }
    assert_eq!(listed, linked());
    let relationships = bill["relationships"].as_array().unwrap();
    assert!(relationships.len() > listed.len());
    for relationship in relationships {
        let ends = ["spdxElementId", "relatedSpdxElement"].map(|end| relationship[end].as_str().unwrap());
        assert!(ends.iter().all(|end| ids.contains(end)), "{relationship}");
    }
}

/// The lines of a unit but those that say which network it is.
fn common(unit: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("packaging/systemd").join(unit)).unwrap();
    let own = ["Description=", "ExecStart=", "StateDirectory=", "RuntimeDirectory="];
    text.lines().filter(|line| !own.iter().any(|key| line.starts_with(key))).map(str::to_owned).collect()
}

#[test]
fn the_unit_of_one_network_of_several_is_confined_as_the_only_ones() {
    let only = common("cellway.service");
    assert!(only.iter().any(|line| line == "WatchdogSec=30") && only.len() > 40, "{only:?}");
    assert_eq!(only, common("cellway@.service"));
}

/// The names of metrics in a text, without `cellway_`.
fn metrics(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !word(c)).filter_map(|name| name.strip_prefix("cellway_"));
    words.map(|name| name.trim_end_matches("_total").to_owned()).collect()
}

#[test]
fn alert_rules_name_metrics_that_the_daemon_has() {
    let rules = fs::read_to_string(root().join("packaging/prometheus/alerts.yml")).unwrap();
    let folder = root().join("crates/control/src");
    let mut sources = fs::read_to_string(folder.join("metrics.rs")).unwrap();
    for file in fs::read_dir(folder.join("metrics")).unwrap() {
        sources += &fs::read_to_string(file.unwrap().path()).unwrap();
    }
    let named = metrics(&rules);
    assert!(named.len() >= 8, "{named:?}");
    let unknown: Vec<_> = named.iter().filter(|name| !sources.contains(&format!("\"{name}\""))).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert_eq!(metrics("rate(cellway_link_dropped_total[5m]) > up"), BTreeSet::from(["link_dropped".to_owned()]));
}
