//! What the table of `docs/features.md` says of sections of a description holds: an example has them, and a daemon runs it.

use house::named::root;
use std::fs;

/// The section that a row names: `[myrinet.NAME]`.
fn section(row: &str) -> Option<&str> {
    row.split_once("`[")?.1.split_once(".NAME]`").map(|(section, _)| section)
}

#[test]
fn a_row_of_the_features_that_names_a_section_says_that_it_runs_and_an_example_has_it() {
    let page = fs::read_to_string(root().join("docs/features.md")).unwrap();
    let examples: String = fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let rows: Vec<_> =
        page.lines().filter(|line| line.starts_with("| ")).filter_map(|row| Some((row, section(row)?))).collect();
    assert!(rows.len() >= 2, "{rows:?}");
    for (row, section) in rows {
        assert!(row.contains("in virtual time and running"), "{row}");
        assert!(examples.contains(&format!("\n[{section}.")), "no example has a {section}");
    }
}
