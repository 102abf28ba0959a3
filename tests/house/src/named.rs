//! What a page of the documentation names: files below `crates/`, and tests that run.

use std::fs;
use std::path::{Path, PathBuf};

/// The project's folder.
///
/// # Panics
/// If it is not there.
pub fn root() -> PathBuf {
    fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).unwrap()
}

/// A file of the table: below `crates/`, or a test of other programs.
pub fn file(root: &Path, named: &str) -> PathBuf {
    match named.strip_prefix("interop/") {
        Some(test) => root.join("tests/interop/tests").join(test),
        None => root.join("crates").join(named),
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
