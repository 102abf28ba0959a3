//! Where things stand, and what a page of the documentation names: files of a package, and tests that run.

use std::fs;
use std::path::{Path, PathBuf};

/// The project's folder.
///
/// # Panics
/// If it is not there.
pub fn root() -> PathBuf {
    fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).unwrap()
}

/// Folders of packages, besides the laboratory's.
const FOLDERS: [&str; 4] = ["adapters", "bindings", "crates", "tests"];

/// The folders of all packages.
///
/// # Panics
/// If a folder cannot be read.
pub fn packages() -> Vec<PathBuf> {
    let root = root();
    let folders = |room: &str| fs::read_dir(root.join(room)).unwrap().map(|entry| entry.unwrap().path());
    let all = FOLDERS.iter().flat_map(|room| folders(room)).chain([root.join("lab")]);
    all.filter(|folder| folder.join("Cargo.toml").is_file()).collect()
}

/// A file of the table: of a package by its folder's name, or, as `interop/` and `hostile/`, of its tests.
pub fn file(root: &Path, named: &str) -> PathBuf {
    match named.split_once('/') {
        Some(("interop", test)) => root.join("tests/interop/tests").join(test),
        Some(("hostile" | "house" | "fuzz-targets", _)) => root.join("tests").join(named),
        Some(("lab", _)) => root.join(named),
        _ => {
            let adapter = root.join("adapters").join(named);
            if adapter.exists() { adapter } else { root.join("crates").join(named) }
        }
    }
}

/// Whether a file has a test of this name, one that runs.
pub fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let head = format!("fn {name}(");
    let at = lines.iter().position(|line| line.starts_with(&head));
    at.is_some_and(|at| {
        let attributes: Vec<&&str> = lines[..at].iter().rev().take_while(|line| line.starts_with("#[")).collect();
        attributes.iter().any(|line| **line == "#[test]") && !attributes.iter().any(|line| line.starts_with("#[ignore"))
    })
}

/// The words in backquotes of a cell.
pub fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}
