//! `docs/lab/mechanisms.md` names code and tests that exist, for every mechanism, and claims no more than it names.

use house::named::{file, has_test, quoted, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What the papers describe as mechanisms: Almesberger, Traw and Smith, Kazantzidis, the README, Smith; and with F what they
/// name in passing.
const MECHANISMS: &[(&str, &[u32])] = &[
    (
        "A",
        &[
            1, 4, 5, 6, 7, 11, 13, 14, 15, 16, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39,
            40, 41, 42, 43, 44, 47, 48, 52,
        ],
    ),
    ("B", &[1, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 19, 22, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 39]),
    (
        "C",
        &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 30, 32, 33, 36, 38, 39],
    ),
    ("D", &[1, 2, 3, 4]),
    ("E", &[2, 4, 5, 6, 7, 8, 12, 14, 18]),
    ("F", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]),
];

/// What is wrong with a row.
fn wrong(root: &Path, cells: &[&str]) -> Option<String> {
    let [_, _, status, code, test, missing] = cells else { return Some("not six cells".into()) };
    if *status == "absent" {
        let said = code.is_empty() && test.is_empty() && missing.len() >= 10;
        return (!said).then(|| "absent: no code, no test, and what is missing".into());
    }
    if (*status == "works") != missing.is_empty() || !["works", "partly"].contains(status) {
        return Some(format!("{status}, and missing: {missing:?}"));
    }
    if let Some(absent) = quoted(code).into_iter().find(|name| !file(root, name).is_file()) {
        return Some(format!("no file {absent}"));
    }
    let [place, name] = quoted(test)[..] else { return Some(format!("no file and test in {test:?}")) };
    let Ok(text) = fs::read_to_string(file(root, place)) else { return Some(format!("no file {place}")) };
    let named = !quoted(code).is_empty() && has_test(&text, name);
    (!named).then(|| format!("no code, or no test {name} in {place}"))
}

#[test]
fn each_mechanism_of_the_papers_has_code_and_a_test_or_says_what_is_missing() {
    let root = root();
    let page = fs::read_to_string(root.join("docs/lab/mechanisms.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix('|'))
        .map(|line| line.split('|').map(str::trim).collect())
        .filter(|cells: &Vec<&str>| cells[0].contains('-') && cells[0].chars().next().is_some_and(char::is_uppercase))
        .collect();
    let named: BTreeSet<String> = rows.iter().map(|cells| cells[0].to_owned()).collect();
    let wanted: BTreeSet<String> =
        MECHANISMS.iter().flat_map(|(letter, all)| all.iter().map(move |n| format!("{letter}-{n}"))).collect();
    assert_eq!(named, wanted);
    assert_eq!(rows.len(), wanted.len(), "one row for each");
    let bad: Vec<String> =
        rows.iter().filter_map(|cells| Some(format!("{}: {}", cells[0], wrong(&root, cells)?))).collect();
    assert!(bad.is_empty(), "docs/lab/mechanisms.md:\n{}", bad.join("\n"));
}

#[test]
fn a_row_without_a_test_that_runs_is_refused() {
    let root = root();
    let row = |status, test, missing| wrong(&root, &["A-1", "a mechanism", status, "`lab/src/lib.rs`", test, missing]);
    let here = "`eni155p/tests/eni.rs` `loop_backs_bring_cells_back`";
    assert_eq!(row("works", here, ""), None);
    assert!(row("works", here, "something that is missing").is_some());
    assert!(row("partly", here, "").is_some());
    assert!(row("works", "", "").is_some());
    assert!(row("works", "`eni155p/tests/eni.rs` `no_such_test`", "").is_some());
    assert!(row("works", "`eni155p/tests/none.rs` `loop_backs_bring_cells_back`", "").is_some());
    assert!(row("absent", here, "nothing of it exists").is_some());
    assert!(wrong(&root, &["A-1", "a mechanism", "absent", "", "", "nothing of it exists"]).is_none());
    assert!(has_test("#[test]\nfn a() {}", "a") && !has_test("#[test]\n#[ignore = \"x\"]\nfn a() {}", "a"));
    assert!(!has_test("fn a() {}", "a"));
}
