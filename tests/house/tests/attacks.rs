//! The table of attacks in `docs/security.md` names tests that exist and run, in the classes of its rules.

use house::named::{file, has_test, quoted, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The rows of the table: class, attack, tests.
fn rows(page: &str) -> Vec<[&str; 3]> {
    let section = page.split("\n## ").find(|section| section.starts_with("Attacks")).unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix('|'));
    let cells = rows.filter_map(|row| <[&str; 3]>::try_from(row.split('|').collect::<Vec<_>>()).ok());
    cells.map(|cells| cells.map(str::trim)).filter(|[class, ..]| class.len() == 1).collect()
}

/// What is wrong with a row: each file that it names is followed by tests there.
fn wrong(root: &Path, [class, attack, tests]: [&str; 3]) -> Option<String> {
    let mut text = None;
    let mut any = false;
    for word in quoted(tests) {
        if word.ends_with(".rs") {
            text = fs::read_to_string(file(root, word)).ok();
            if text.is_none() {
                return Some(format!("{class} {attack}: no file {word}"));
            }
        } else if text.as_deref().is_some_and(|text| has_test(text, word)) {
            any = true;
        } else {
            return Some(format!("{class} {attack}: no test {word}"));
        }
    }
    (!any).then(|| format!("{class} {attack}: no test is named"))
}

#[test]
fn each_attack_that_the_page_on_security_names_has_a_test_that_runs() {
    let page = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let rows = rows(&page);
    let classes: BTreeSet<&str> = rows.iter().map(|[class, ..]| *class).collect();
    assert_eq!(classes.into_iter().collect::<String>(), "ABCDEFGH");
    let bad: Vec<String> = rows.iter().filter_map(|row| wrong(&root(), *row)).collect();
    assert!(bad.is_empty(), "docs/security.md:\n{}", bad.join("\n"));
}

#[test]
fn an_attack_without_a_test_is_refused() {
    let row = |tests| wrong(&root(), ["A", "an attack", tests]);
    assert_eq!(row("`eni155p/tests/eni.rs` `loop_backs_bring_cells_back`"), None);
    assert!(row("").is_some() && row("`eni155p/tests/eni.rs`").is_some() && row("`no_file_before`").is_some());
    assert!(row("`eni155p/tests/eni.rs` `no_such_test`").is_some() && row("`eni155p/tests/none.rs` `x`").is_some());
    let page = "# Page\n\n## Attacks\n\n| class | attack | test |\n|---|---|---|\n| A | an attack | `x` |\n";
    assert_eq!(rows(page), [["A", "an attack", "`x`"]]);
}
