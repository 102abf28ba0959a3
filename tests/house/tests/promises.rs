//! The table of promises in `docs/promises.md` names tests that exist and run, for each kind of promise.

use house::named::{file, has_test, quoted, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const KINDS: [&str; 9] =
    ["at most once", "durability", "ends", "exit codes", "isolation", "order", "restart", "supervisor", "upgrade"];

/// The rows of the table: kind, promise, tests.
fn rows(page: &str) -> Vec<[&str; 3]> {
    let section = page.split("\n## ").find(|section| section.starts_with("What holds\n")).unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix('|'));
    let cells = rows.filter_map(|row| <[&str; 3]>::try_from(row.split('|').collect::<Vec<_>>()).ok());
    cells.map(|cells| cells.map(str::trim)).filter(|[kind, ..]| *kind != "kind").collect()
}

/// What is wrong with a row: each file that it names is followed by tests there.
fn wrong(root: &Path, [kind, promise, tests]: [&str; 3]) -> Option<String> {
    let mut text: Option<String> = None;
    let mut named = 0;
    for word in quoted(tests) {
        if word.ends_with(".rs") {
            let Ok(found) = fs::read_to_string(file(root, word)) else {
                return Some(format!("{kind}: {promise}: no file {word}"));
            };
            text = Some(found);
        } else if text.as_deref().is_some_and(|text| has_test(text, word)) {
            named += 1;
        } else {
            return Some(format!("{kind}: {promise}: no test {word}"));
        }
    }
    (named == 0).then(|| format!("{kind}: {promise}: no test is named"))
}

#[test]
fn each_promise_has_a_test_that_runs_and_each_kind_has_promises() {
    let page = fs::read_to_string(root().join("docs/promises.md")).unwrap();
    let rows = rows(&page);
    let kinds: BTreeSet<&str> = rows.iter().map(|[kind, ..]| *kind).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), KINDS);
    let bad: Vec<String> = rows.iter().filter_map(|row| wrong(&root(), *row)).collect();
    assert!(bad.is_empty(), "docs/promises.md:\n{}", bad.join("\n"));
}

#[test]
fn a_promise_without_a_test_is_refused() {
    let row = |tests| wrong(&root(), ["order", "a promise", tests]);
    assert_eq!(row("`house/tests/promises.rs` `a_promise_without_a_test_is_refused`"), None);
    assert!(row("").is_some() && row("`house/tests/promises.rs`").is_some() && row("`no_file_before`").is_some());
    assert!(row("`house/tests/promises.rs` `no_such_test`").is_some() && row("`house/tests/none.rs` `x`").is_some());
    let page = "# Page\n\n## What holds\n\n| kind | promise | tests |\n|---|---|---|\n| order | a promise | `x` |\n";
    assert_eq!(rows(page), [["order", "a promise", "`x`"]]);
}
