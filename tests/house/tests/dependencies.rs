//! Licences of everything that is compiled in, and the order of the crates.

use house::named::root;
use house::satisfiable;
use house::versions::{Package, false_versions};
use serde_json::Value;
use std::process::Command;

/// Permissive licences without a duty beyond keeping the notice.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Each crate and those of the workspace that it may use. A crate that is not here has not been thought about.
const ROOMS: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("sar", &["wire"]),
    ("traffic", &["wire"]),
    ("switch", &["wire", "traffic"]),
    ("net", &["wire", "sar", "traffic", "switch"]),
    ("links", &["wire", "sar", "traffic", "net"]),
    ("remap", &["wire"]),
    ("endpoint", &["wire", "remap"]),
    ("host", &["wire", "sar", "traffic", "switch", "net", "remap", "endpoint"]),
    ("bus", &["wire", "remap"]),
    ("eni155p", &["wire", "sar", "traffic", "net", "remap", "endpoint", "bus"]),
    ("jit", &["wire", "sar", "traffic", "remap", "bus"]),
    ("penn", &["wire", "traffic", "bus"]),
    ("oc12", &["wire", "sar", "traffic", "bus", "penn"]),
    ("apic", &["wire", "sar", "traffic", "net", "bus"]),
    ("lanai", &["wire", "sar", "net", "bus"]),
    ("stack", &["wire", "sar", "traffic", "net", "endpoint"]),
    ("uni", &["wire", "traffic"]),
    (
        "control",
        &[
            "wire", "sar", "traffic", "switch", "net", "links", "remap", "endpoint", "host", "eni155p", "apic",
            "lanai", "stack", "uni",
        ],
    ),
    ("compat", &["wire", "endpoint"]),
    ("cellway", &["wire", "sar", "traffic", "switch", "net", "links", "endpoint", "host", "stack", "uni", "control"]),
];

/// These see everything: the laboratory, and what tests the whole.
const ABOVE_ALL: &[&str] = &["lab", "interop", "house", "fuzz-targets", "hostile"];

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

#[test]
fn every_dependency_can_be_used_under_a_permissive_licence() {
    let metadata = metadata();
    let bad: Vec<String> = packages(&metadata)
        .filter(|package| !satisfiable(package["license"].as_str().unwrap_or(""), ALLOWED))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(packages(&metadata).count() > 20, "cargo metadata lists too few packages to be the whole graph");
    assert!(bad.is_empty(), "licences that are not on the list:\n{}", bad.join("\n"));
}

#[test]
fn the_rust_version_that_is_stated_is_the_one_that_is_needed() {
    let metadata = metadata();
    let packages: Vec<Package> = packages(&metadata)
        .map(|package| Package {
            name: package["name"].as_str().unwrap(),
            rust_version: package["rust_version"].as_str(),
            is_ours: package["source"].is_null(),
        })
        .collect();
    let texts =
        ["README.md", "CONTRIBUTING.md"].map(|name| (name, std::fs::read_to_string(root().join(name)).unwrap()));
    let bad = false_versions(&packages, &texts.each_ref().map(|(name, text)| (*name, text.as_str())));
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn a_crate_uses_only_crates_below_it() {
    let metadata = metadata();
    let own: Vec<&Value> = packages(&metadata).filter(|package| package["source"].is_null()).collect();
    let names: Vec<&str> = own.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut bad = Vec::new();
    for package in &own {
        let name = package["name"].as_str().unwrap();
        if ABOVE_ALL.contains(&name) {
            continue;
        }
        let Some((_, below)) = ROOMS.iter().find(|(room, _)| *room == name) else {
            bad.push(format!("{name} is in no room"));
            continue;
        };
        // A test may look upwards (kind "dev"); what is shipped may not.
        let uses = package["dependencies"].as_array().into_iter().flatten().filter(|used| used["kind"] != "dev");
        for used in uses.filter_map(|used| used["name"].as_str()).filter(|used| names.contains(used)) {
            if !below.contains(&used) {
                bad.push(format!("{name} uses {used}"));
            }
        }
    }
    assert!(names.contains(&"wire") && names.contains(&"cellway"), "{names:?}");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
