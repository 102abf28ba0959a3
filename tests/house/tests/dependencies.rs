//! Licences of everything that is compiled in, and the order of the crates.

use house::named::root;
use house::rooms::{ABOVE_ALL, MARKS, ROOMS, table};
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

/// What sources call a package of ours: `wire` for `cellway-wire`.
fn library(package: &Value) -> &str {
    let name = package.as_str().unwrap();
    name.strip_prefix("cellway-").unwrap_or(name)
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
fn a_crate_uses_only_crates_below_it_and_the_list_names_no_others() {
    let metadata = metadata();
    let own: Vec<&Value> = packages(&metadata).filter(|package| package["source"].is_null()).collect();
    let names: Vec<&str> = own.iter().map(|package| library(&package["name"])).collect();
    let mut bad = Vec::new();
    for package in &own {
        let name = library(&package["name"]);
        if ABOVE_ALL.contains(&name) {
            continue;
        }
        let Some(listed) = ROOMS.iter().flat_map(|room| room.crates).find(|listed| listed.name == name) else {
            bad.push(format!("{name} is in no room"));
            continue;
        };
        // A test may look upwards (kind "dev"); what is shipped may not.
        let uses = package["dependencies"].as_array().into_iter().flatten().filter(|used| used["kind"] != "dev");
        let uses: Vec<&str> = uses.map(|used| library(&used["name"])).filter(|used| names.contains(used)).collect();
        bad.extend(uses.iter().filter(|used| !listed.uses.contains(used)).map(|used| format!("{name} uses {used}")));
        bad.extend(
            listed.uses.iter().filter(|used| !uses.contains(used)).map(|used| format!("{name} does not use {used}")),
        );
    }
    assert!(names.contains(&"wire") && names.contains(&"cellway"), "{names:?}");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    // From the bottom: of what stands in one room, a crate uses those before it.
    for room in ROOMS {
        for (n, listed) in room.crates.iter().enumerate() {
            let later = room.crates[n..].iter().find(|other| listed.uses.contains(&other.name));
            assert!(later.is_none(), "{} uses {}, which stands behind it", listed.name, later.unwrap().name);
        }
    }
}

#[test]
fn pages_on_the_architecture_have_the_tables_of_crates() {
    for room in ROOMS {
        let page = root().join(room.page);
        let text = std::fs::read_to_string(&page).unwrap();
        let [begin, end] = MARKS.map(|mark| text.find(mark).unwrap_or_else(|| panic!("{}: no {mark}", room.page)));
        let begin = begin + MARKS[0].len();
        if std::env::var_os("CELLWAY_WRITE").is_some() {
            std::fs::write(&page, format!("{}{}{}", &text[..begin], table(room), &text[end..])).unwrap();
        } else {
            assert!(
                text[begin..end] == table(room),
                "{} has another table: CELLWAY_WRITE=1 cargo test -p house",
                room.page
            );
        }
    }
}
