//! `docs/conformance.md` names tests that run, for every clause that it says a node keeps, and a reason for every other.

use house::named::{file, has_test, quoted, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The standards, and the least number of rows of each.
const STANDARDS: [(&str, usize); 4] = [("361", 15), ("432", 10), ("610", 25), ("371", 20)];

/// What is wrong with a row.
fn wrong(root: &Path, cells: &[&str]) -> Option<String> {
    let [_, clause, _, status, node, test, missing] = cells else { return Some("not seven cells".into()) };
    if clause.is_empty() {
        return Some("no clause".into());
    }
    match *status {
        "absent" => {
            let said = node.is_empty() && test.is_empty() && missing.len() >= 10;
            return (!said).then(|| "absent: no test, and why".into());
        }
        "works" if !missing.is_empty() => return Some("it works, and something is missing".into()),
        "partly" if missing.len() < 10 => return Some("what is missing".into()),
        "works" | "partly" => {}
        other => return Some(format!("status {other:?}")),
    }
    let [place, name] = quoted(test)[..] else { return Some(format!("no file and test in {test:?}")) };
    let Ok(text) = fs::read_to_string(file(root, place)) else { return Some(format!("no file {place}")) };
    (!has_test(&text, name)).then(|| format!("no test {name} in {place}"))
}

#[test]
fn each_clause_has_a_test_that_runs_or_says_why_not() {
    let root = root();
    let page = fs::read_to_string(root.join("docs/conformance.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|line| line.split('|').map(str::trim).collect())
        .filter(|cells: &Vec<&str>| cells[0].starts_with(|first: char| first.is_ascii_digit()))
        .collect();
    let ids: BTreeSet<&str> = rows.iter().map(|cells| cells[0]).collect();
    assert_eq!(ids.len(), rows.len(), "an id stands twice");
    for (standard, least) in STANDARDS {
        let of_it = ids.iter().filter(|id| id.split('-').next() == Some(standard)).count();
        assert!(of_it >= least, "{of_it} rows of {standard}");
    }
    let bad: Vec<String> =
        rows.iter().filter_map(|cells| Some(format!("{}: {}", cells[0], wrong(&root, cells)?))).collect();
    assert!(bad.is_empty(), "docs/conformance.md:\n{}", bad.join("\n"));
}

#[test]
fn a_row_without_a_test_or_a_reason_is_refused() {
    let root = root();
    let row = |status, test, missing| wrong(&root, &["361-1", "2.1", "cells", status, "", test, missing]);
    let here = "`wire/src/hec.rs` `published_headers_have_their_published_hec`";
    assert_eq!(row("works", here, ""), None);
    assert_eq!(row("partly", here, "there is no bit line"), None);
    assert_eq!(row("absent", "", "nothing asks for it"), None);
    assert!(row("works", here, "there is no bit line").is_some());
    assert!(row("partly", here, "").is_some());
    assert!(row("absent", here, "nothing asks for it").is_some());
    assert!(row("works", "`wire/src/hec.rs` `no_such_test`", "").is_some());
    assert!(row("good", here, "").is_some());
}
