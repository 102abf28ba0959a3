//! What a user reads is written in plain words: README, the pages of `docs`, and what `--help` says.

use house::named::root;
use house::words::{findings, help_texts};
use std::fs;
use std::path::{Path, PathBuf};

/// Generated pages, whose words stand in the code.
const LEFT_OUT: [&str; 2] = ["docs/reference", "docs/lab/sensitivity.md"];

fn files(folder: &Path, kind: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if LEFT_OUT.iter().any(|left_out| path.ends_with(left_out)) {
            continue;
        }
        if path.is_dir() {
            files(&path, kind, found);
        } else if path.extension().is_some_and(|extension| extension == kind) {
            found.push(path);
        }
    }
}

fn pages() -> Vec<PathBuf> {
    let root = root();
    let named = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "adapters/ARCHITECTURE.md", "lab/ARCHITECTURE.md"];
    let mut pages = named.map(|name| root.join(name)).to_vec();
    files(&root.join("docs"), "md", &mut pages);
    pages
}

fn bad(files: &[PathBuf], text: impl Fn(&str) -> String) -> Vec<String> {
    let in_file = |file: &PathBuf| {
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        let papers = name.starts_with("docs/lab") || name.starts_with("lab") || name.contains("/mechanisms");
        let found = findings(&text(&fs::read_to_string(file).unwrap()), !papers);
        found.into_iter().map(move |finding| format!("{name}, {finding}"))
    };
    files.iter().flat_map(in_file).collect()
}

#[test]
fn pages_are_written_in_plain_words() {
    let pages = pages();
    assert!(pages.len() > 40, "{pages:?}");
    let bad = bad(&pages, str::to_owned);
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn help_is_written_in_plain_words() {
    let mut sources = Vec::new();
    files(&root().join("crates/cellway/src/commands"), "rs", &mut sources);
    assert!(sources.len() > 40, "{sources:?}");
    // Comments of sources may be wider: the program wraps them for the terminal.
    let bad: Vec<String> =
        bad(&sources, help_texts).into_iter().filter(|finding| !finding.ends_with("columns")).collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
