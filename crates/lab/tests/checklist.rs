//! Every experiment that the papers describe is a row: the list is `checklist.toml` beside this file.

use lab::experiment::{Published, Row, Verdict, run};
use lab::experiments::ALL;
use lab::model::Profile;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Checklist {
    checked: Vec<Checked>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Checked {
    id: String,
    what: String,
    #[serde(default)]
    numbers: Vec<f64>,
    #[serde(default)]
    words: Vec<String>,
    #[serde(default)]
    withheld: bool,
}

fn rows() -> Vec<Row> {
    ALL.iter().flat_map(|e| run(*e, 1, true, None).unwrap().rows).collect()
}

fn prints(row: &Row, number: f64) -> bool {
    match row.published {
        Published::Number(n) => n == number,
        Published::Range(from, to) => from == number || to == number,
        Published::Words(_) => false,
    }
}

fn says(row: &Row, words: &str) -> bool {
    row.what.contains(words) || matches!(&row.published, Published::Words(quote) if quote.contains(words))
}

#[test]
fn every_number_of_the_checklist_is_a_row_with_a_verdict_or_says_why_not() {
    let list: Checklist = toml::from_str(include_str!("checklist.toml")).unwrap();
    let rows = rows();
    let mut missing = Vec::new();
    for entry in &list.checked {
        let own: Vec<&Row> = rows.iter().filter(|row| row.id == entry.id).collect();
        let judged = own.iter().any(|row| row.verdict != Verdict::Absent);
        if own.is_empty() || !judged && !entry.withheld {
            missing.push(format!("{} ({})", entry.id, entry.what));
        }
        let numbers = entry.numbers.iter().filter(|n| !own.iter().any(|row| prints(row, **n)));
        missing.extend(numbers.map(|n| format!("{} ({}): {n}", entry.id, entry.what)));
        let words = entry.words.iter().filter(|w| !own.iter().any(|row| says(row, w)));
        missing.extend(words.map(|w| format!("{} ({}): \"{w}\"", entry.id, entry.what)));
    }
    assert!(missing.is_empty(), "no row for {missing:#?}");
    assert!(list.checked.len() >= 36, "{} entries", list.checked.len());
}

#[test]
fn what_is_absent_has_a_reason_and_what_was_calibrated_is_within_five_per_cent() {
    for row in rows() {
        match row.verdict {
            Verdict::Absent => assert!(row.note.len() >= 40, "{} {}: {:?} is no reason", row.id, row.what, row.note),
            // A row's own bound says how near it has to be; nothing that a machine's constants enter is allowed more.
            Verdict::Within | Verdict::Anchor => {
                assert!(row.bound.is_some_and(|bound| bound <= 0.05), "{} {}: {:?}", row.id, row.what, row.bound);
            }
            _ => {}
        }
    }
}

#[test]
fn each_anchor_of_a_machine_is_a_row_that_is_no_evidence_and_no_constant_is_a_number_that_it_gives() {
    let rows = rows();
    for profile in Profile::built_in().unwrap() {
        for (name, anchor) in profile.anchors() {
            let id = anchor.split(':').next().unwrap();
            let said = rows.iter().any(|row| row.id == id && matches!(row.verdict, Verdict::Anchor | Verdict::BornOut));
            assert!(said, "{}: {name} is calibrated on {anchor}, and no row says so", profile.name);
        }
        for (name, constant) in &profile.constants {
            let Some(id) = constant.source.as_ref().and_then(|source| source.split([':', ',']).next()) else {
                continue;
            };
            let same = rows.iter().find(|row| {
                row.id == id && prints(row, constant.value) && matches!(row.verdict, Verdict::Exact | Verdict::Within)
            });
            assert!(same.is_none(), "{}: {name} goes in and comes out as {same:?}", profile.name);
        }
    }
}
