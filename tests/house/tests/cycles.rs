//! No modules of a crate import from each other in a circle: who reads one can begin at the bottom.

use house::modules::{Modules, Name, between_siblings, cycles};
use house::named::{packages, root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The roots of all crates: libraries and programs.
fn crates() -> Vec<PathBuf> {
    let names = ["src/lib.rs", "src/main.rs", "src/program/main.rs"];
    let roots = packages().into_iter().flat_map(|package| names.map(|name| package.join(name)));
    roots.filter(|file| file.exists()).collect()
}

fn written(name: &Name) -> String {
    if name.is_empty() { "the root".to_owned() } else { name.join("::") }
}

/// The circles among the modules of a crate, each with the imports that make it.
fn circles(modules: &Modules) -> Vec<String> {
    let mut found = Vec::new();
    for between in between_siblings(&modules.imports()).into_values() {
        let mut edges: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
        for (_, from, to) in &between {
            edges.entry(from.clone()).or_default().insert(to.clone());
        }
        for set in cycles(&edges) {
            let names: Vec<String> = set.iter().map(written).collect();
            let mut text = format!("{}:", names.join(", "));
            for (import, from, to) in &between {
                if set.contains(from) && set.contains(to) {
                    text.push_str(&format!("\n    {} imports {}", written(&import.from), import.path));
                }
            }
            found.push(text);
        }
    }
    found
}

fn name_of(file: &Path) -> String {
    file.strip_prefix(root()).unwrap().display().to_string()
}

#[test]
fn no_modules_of_a_crate_import_from_each_other_in_a_circle() {
    let crates = crates();
    assert!(crates.len() > 12, "{crates:?}");
    let mut bad = Vec::new();
    for file in crates {
        let modules = Modules::read(&file);
        let name = name_of(&file);
        let circles = circles(&modules);
        bad.extend(circles.into_iter().map(|circle| format!("{name}: {circle}")));
    }
    assert!(bad.is_empty(), "import cycles:\n{}", bad.join("\n"));
}

#[test]
fn a_circle_is_found_through_what_is_imported_and_what_is_written_out() {
    let circle = |text: &str| circles(&Modules::of_text(text)).len();
    assert_eq!(circle("mod a { pub struct A; } mod b { use crate::a::A; pub struct B; }"), 0);
    for (what, text) in [
        ("use", "mod a { use crate::b::B; pub struct A; } mod b { use super::a::A; pub struct B; }"),
        ("group", "mod a { use crate::{b::{self, B}}; pub struct A; } mod b { use crate::a::A; pub struct B; }"),
        ("path", "mod a { fn f() { crate::b::g() } pub fn h() {} } mod b { use crate::a::h; pub fn g() {} }"),
        (
            "macro",
            "mod a { fn f() { println!(\"{}\", crate::b::N) } pub fn h() {} } mod b { use crate::a::h; pub const N: u8 = 0; }",
        ),
        ("type", "mod a { pub struct A(super::b::B); } mod b { pub struct B; impl From<crate::a::A> for B {} }"),
        ("re-export", "pub use b::B; mod a { use crate::B; pub struct A; } mod b { use crate::a::A; pub struct B; }"),
        ("glob", "pub use b::*; mod a { use crate::B; pub struct A; } mod b { use crate::a::A; pub struct B; }"),
        (
            "beneath",
            "mod a { pub mod x { use crate::b::B; } pub struct A; } mod b { pub struct B; mod y { use crate::a::A; } }",
        ),
        (
            "three",
            "mod a { use crate::b::B; pub struct A; } mod b { use crate::c::C; pub struct B; } mod c { use crate::a::A; pub struct C; }",
        ),
    ] {
        assert_eq!(circle(text), 1, "{what}");
    }
    // What is not for tests counts under whatever condition, and what is only for tests does not.
    let under = |cfg: &str| {
        circle(&format!(
            "#[cfg({cfg})] mod a {{ use crate::b::B; pub struct A; }} mod b {{ #[cfg({cfg})] use crate::a::A; pub struct B; }}"
        ))
    };
    for cfg in [
        "not(loom)",
        "not(test)",
        "unix",
        "any(test, unix)",
        "not(all(test, loom))",
        "feature = \"test\"",
        "all(unix, not(any(test, loom)))",
    ] {
        assert_eq!(under(cfg), 1, "{cfg}");
    }
    for cfg in ["test", "loom", "all(test, unix)", "any(test, loom)", "not(not(test))", "all(loom, not(test))"] {
        assert_eq!(under(cfg), 0, "{cfg}");
    }
    // For tests, and between a module and those beneath it, there is nothing to order.
    assert_eq!(
        circle(
            "mod a { #[cfg(test)] mod tests { use crate::b::B; } pub struct A; } mod b { use crate::a::A; pub struct B; }"
        ),
        0
    );
    assert_eq!(circle("mod a { mod x { use super::A; pub struct X; } use x::X; pub struct A; }"), 0);
}
