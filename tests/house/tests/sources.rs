//! The shape of the sources: sizes, where unsafe code lives, no path of one machine.

use std::fs;
use std::path::{Path, PathBuf};

/// Above this a file has more than one reason to exist.
const MAX_LINES: usize = 700;

/// Above this a function of the product or of an adapter does more than one thing.
const MAX_FUNCTION_LINES: usize = 100;
/// Longer ones, each a dispatch over all requests, that are to be divided.
const LONG_FUNCTIONS: &[&str] = &["crates/host/src/service.rs serve", "crates/host/src/service/client.rs serve"];

/// Where unsafe code lives (rings, vector kernels, system-call shells, borders to other languages): every other crate forbids it.
const UNSAFE_HOMES: &[&str] =
    &["crates/sar/", "crates/endpoint/", "crates/host/", "crates/compat/", "bindings/c/", "bindings/python/"];

/// Crates that deny it, and the only file of each that may allow it.
const UNSAFE_FILES: &[(&str, &str)] = &[
    ("crates/stack/src/lib.rs", "crates/stack/src/device/tun/sys.rs"),
    ("crates/links/src/lib.rs", "crates/links/src/sys/mod.rs"),
    ("crates/switch/src/lib.rs", "crates/switch/src/prefetch.rs"),
    ("lab/src/lib.rs", "lab/src/sys/mod.rs"),
    // No unsafe block: the names of exported functions are what the lint means.
    ("lab/explorer/src/lib.rs", "lab/explorer/src/exports.rs"),
];

fn root() -> PathBuf {
    fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).unwrap()
}

/// All files under version control or about to be, without build output.
fn files() -> Vec<PathBuf> {
    fn walk(folder: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = entry.file_name();
            let path = entry.path();
            let skipped = ["target", "out", ".git", "corpus", "artifacts"].iter().any(|skipped| name == *skipped);
            if skipped {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                walk(&path, out);
            } else {
                out.push(path);
            }
        }
    }
    let mut out = Vec::new();
    walk(&root(), &mut out);
    out
}

fn sources() -> impl Iterator<Item = (String, String)> {
    let root = root();
    files().into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs")).map(move |path| {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        (name, fs::read_to_string(path).unwrap())
    })
}

/// The functions of a formatted source, with their lines: each ends with a brace under its first letter.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let of_line = |(at, line): (usize, &&str)| {
        let start = line.trim_start();
        let head = start.split('(').next().unwrap_or_default();
        let name = head.split_once("fn ")?.1.split('<').next()?.to_owned();
        let is_function = head.split_once("fn ")?.0.split_whitespace().all(|word| {
            ["pub", "const", "unsafe", "async", "extern", "\"C\""].contains(&word) || word.starts_with("pub(")
        });
        let end = format!("{}}}", &line[..line.len() - start.len()]);
        let length = lines[at..].iter().position(|line| **line == end)? + 1;
        is_function.then_some((name, length))
    };
    lines.iter().enumerate().filter_map(of_line).collect()
}

#[test]
fn no_function_of_the_product_does_more_than_one_thing() {
    let shipped = |name: &str| {
        (name.starts_with("crates/") || name.starts_with("adapters/"))
            && name.contains("/src/")
            && !name.contains("test")
    };
    let mut long: Vec<String> = Vec::new();
    for (name, text) in sources().filter(|(name, _)| shipped(name)) {
        let lengths = functions(&text).into_iter().filter(|(_, lines)| *lines > MAX_FUNCTION_LINES);
        long.extend(lengths.map(|(function, _)| format!("{name} {function}")));
    }
    long.sort();
    assert_eq!(long, LONG_FUNCTIONS);
    let planted = format!("impl A {{\n    pub fn long(&self) {{\n{}    }}\n}}\n", "        a();\n".repeat(99));
    assert_eq!(functions(&planted), [("long".to_owned(), 101)]);
}

#[test]
fn no_source_file_is_longer_than_one_reason_to_exist() {
    let long: Vec<String> = sources()
        .map(|(name, text)| (name, text.lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(name, lines)| format!("{name}: {lines} lines"))
        .collect();
    assert!(sources().count() > 20);
    assert!(long.is_empty(), "more than {MAX_LINES} lines:\n{}", long.join("\n"));
}

#[test]
fn every_crate_outside_the_homes_of_unsafe_code_forbids_it() {
    let mut bad = Vec::new();
    for (name, text) in sources().filter(|(name, _)| name.ends_with("src/lib.rs") || name.ends_with("/main.rs")) {
        let home = UNSAFE_HOMES.iter().any(|home| name.starts_with(home))
            || UNSAFE_FILES.iter().any(|(root, _)| name == *root) && text.contains("#![deny(unsafe_code)]");
        if !home && !text.contains("#![forbid(unsafe_code)]") {
            bad.push(name);
        }
    }
    let allowing = concat!("allow(", "unsafe_code)");
    for (name, text) in sources().filter(|(name, _)| UNSAFE_FILES.iter().all(|(_, file)| name != file)) {
        if !UNSAFE_HOMES.iter().any(|home| name.starts_with(home)) && text.contains(allowing) {
            bad.push(name);
        }
    }
    assert!(bad.is_empty(), "without #![forbid(unsafe_code)]:\n{}", bad.join("\n"));
}

#[test]
fn every_crate_opens_by_saying_what_it_is_for() {
    let bad: Vec<String> = sources()
        .filter(|(name, text)| name.contains("/src/") && !text.starts_with("//!"))
        .map(|(name, _)| name)
        .collect();
    assert!(bad.is_empty(), "these begin without a sentence on what they are for:\n{}", bad.join("\n"));
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    // Put together here, so that this file does not name them either.
    let marks = [["/", "home/"].concat(), ["/", "root/"].concat(), ["/", "Users/"].concat(), ["/", "work/"].concat()];
    let mut bad = Vec::new();
    for path in files() {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            if marks.iter().any(|mark| line.match_indices(mark.as_str()).any(|(at, _)| starts_a_path(line, at))) {
                bad.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Whether a path begins at `at`, rather than going on there (`target/debug/x`, `https://example.org/home/`).
fn starts_a_path(line: &str, at: usize) -> bool {
    line[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric() && !"._-$}/".contains(before))
}
