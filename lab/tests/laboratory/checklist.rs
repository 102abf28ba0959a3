//! Every experiment that the papers describe is a row: the list is `checklist.toml` beside this file.

use lab::experiment::{Published, Row, Verdict, run};
use lab::experiments::ALL;
use lab::model::Profile;
use serde::Deserialize;
use std::sync::OnceLock;

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
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| ALL.iter().flat_map(|e| run(*e, 1, true, None).unwrap().rows).collect()).clone()
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
fn what_is_absent_has_a_reason_and_what_is_met_is_within_five_per_cent() {
    for row in rows() {
        match row.verdict {
            Verdict::Absent => assert!(row.note.len() >= 40, "{} {}: {:?} is no reason", row.id, row.what, row.note),
            // A row's own bound says how near it has to be; nothing that a machine's constants enter is allowed more.
            Verdict::Prediction | Verdict::Anchor | Verdict::ReAnchored if row.test.is_none() => {
                assert!(row.bound.is_some_and(|bound| bound <= 0.05), "{} {}: {:?}", row.id, row.what, row.bound);
            }
            _ => {}
        }
    }
}

#[test]
fn every_phrase_names_the_test_that_decides_it_and_what_would_have_contradicted_it() {
    for row in rows() {
        let phrase = matches!(&row.published, Published::Words(_)) && row.verdict != Verdict::Absent;
        assert_eq!(row.test.is_some(), phrase, "{} {}", row.id, row.what);
        if let Some(test) = &row.test {
            let said = [&test.threshold, &test.otherwise];
            assert!(said.iter().all(|text| text.len() >= 10), "{} {:?}", row.id, row.published);
        }
    }
}

/// What is configured and no machine's file has: code, its checklist id, the number as the paper prints it.
fn constants_in_code() -> Vec<(&'static str, &'static str, f64)> {
    let (stages, config) = (penn::reassembly::timing::Stages::PUBLISHED, penn::reassembly::Config::default());
    vec![
        ("Stages::PUBLISHED.lookup", "B-18", stages.lookup.as_nanos() as f64),
        ("Stages::PUBLISHED.lists", "B-20", stages.lists.as_nanos() as f64),
        ("Stages::PUBLISHED.store, fetch", "B-21", stages.store.as_nanos() as f64 / 1e3),
        ("Stages::PUBLISHED.cell_manager", "B-14", stages.cell_manager.as_nanos() as f64 / 1e3),
        ("Config::default().circuits", "B-15", config.circuits as f64),
    ]
}

#[test]
fn each_anchor_of_a_machine_is_a_row_that_is_no_evidence() {
    let rows = rows();
    for profile in Profile::built_in().unwrap() {
        for (name, anchor) in profile.anchors() {
            let id = anchor.split(':').next().unwrap();
            let said = rows
                .iter()
                .any(|row| row.id == id && row.verdict != Verdict::Prediction && row.verdict != Verdict::Arithmetic);
            assert!(said, "{}: {name} is calibrated on {anchor}, and no row says so", profile.name);
        }
    }
}

#[test]
fn no_constant_in_a_file_or_in_the_code_is_a_number_that_it_gives_as_evidence() {
    let rows = rows();
    let evidence = |row: &&Row| matches!(row.verdict, Verdict::Arithmetic | Verdict::Prediction);
    for (name, id, value) in constants_in_code() {
        // What a number of clocks comes to in microseconds is the paper's own formula; in the unit that is configured it is not.
        let comes_out = |row: &&Row| row.verdict == Verdict::Prediction || row.unit == "ns";
        let same = rows.iter().filter(evidence).filter(comes_out).find(|row| row.id == id && prints(row, value));
        assert!(same.is_none(), "{name} goes in and comes out as {same:?}");
    }
    for profile in Profile::built_in().unwrap() {
        for (name, constant) in &profile.constants {
            let Some(id) = constant.source.as_ref().and_then(|source| source.split([':', ',']).next()) else {
                continue;
            };
            let same = rows.iter().filter(evidence).find(|row| row.id == id && prints(row, constant.value));
            assert!(same.is_none(), "{}: {name} goes in and comes out as {same:?}", profile.name);
        }
    }
}

#[test]
fn a_published_number_that_is_an_anchor_is_no_prediction_elsewhere_in_the_same_table() {
    let rows = rows();
    for anchor in rows.iter().filter(|row| row.verdict == Verdict::Anchor) {
        let Published::Number(number) = anchor.published else { continue };
        let again = rows.iter().find(|row| {
            let same = row.id == anchor.id && row.unit == anchor.unit && prints(row, number);
            same && row.verdict == Verdict::Prediction && row.what.split(',').next() == anchor.what.split(',').next()
        });
        assert!(again.is_none(), "{anchor:?} is an anchor, and {again:?} counts as evidence");
    }
}
