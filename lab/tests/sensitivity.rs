//! Which constant decides which row: constants that no paper gives are changed by 20 %, and the rows that move are the ones that
//! `docs/lab/sensitivity.md` names. One constant in eight, by the seed of the property tests; with `CELLWAY_LONG` all, and the
//! whole page.

use lab::experiment::Verdict;
use lab::sensitivity::{Sensitivity, page, some};

const FACTOR: f64 = 1.2;
/// One constant of so many.
const SHARE: usize = 8;

/// A calibrated constant moves its anchor, and every constant something.
fn moves_its_anchor(s: &Sensitivity) {
    assert!(!s.moves.is_empty(), "{}.{} decides nothing: it is no degree of freedom", s.machine, s.constant);
    if s.calibrated {
        let id = s.origin.split(':').next().unwrap();
        let anchored = |verdict| matches!(verdict, Verdict::Anchor | Verdict::Words | Verdict::ReAnchored);
        let moved = s.moves.iter().any(|m| m.row.id == id && anchored(m.row.verdict));
        assert!(moved, "{}.{} is fitted on {}, which does not move", s.machine, s.constant, s.origin);
    }
}

/// The sections of a page that are about constants.
fn sections(page: &str) -> impl Iterator<Item = &str> {
    page.split("\n## ").filter(|section| section.starts_with('`'))
}

#[test]
fn a_constant_changed_by_a_fifth_moves_its_anchor_and_exactly_the_rows_that_the_page_names_in_the_long_run() {
    let long = std::env::var_os("CELLWAY_LONG").is_some();
    let seed: usize = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let found = some(1, true, FACTOR, |at| long || at % SHARE == seed % SHARE).unwrap();
    assert!(found.len() >= 5, "{} constants", found.len());
    found.iter().for_each(moves_its_anchor);
    let (made, kept) = (page(&found, FACTOR), include_str!("../../docs/lab/sensitivity.md"));
    let other = sections(&made).find(|section| !sections(kept).any(|other| other == *section));
    if other.is_some() || long && made != kept {
        let there = concat!(env!("CARGO_TARGET_TMPDIR"), "/sensitivity.md");
        std::fs::write(there, &made).unwrap();
        panic!(
            "docs/lab/sensitivity.md is not what the models say: `cellway-lab sensitivity` makes it anew; see {there}. {other:?}"
        );
    }
}

#[test]
fn a_row_that_is_near_and_not_to_the_digit_is_marked_so() {
    for experiment in lab::experiments::ALL {
        // Those that are slow have such rows as well; the checklist's test looks at their bounds.
        if !["seed000-adapters", "seed002-myrinet", "seed003-tables"].contains(&experiment.name()) {
            continue;
        }
        let outcome = lab::experiment::run(*experiment, 1, true, None).unwrap();
        for row in outcome.rows.iter().filter(|row| row.bound.is_some()) {
            let (Some(target), Some(modelled), Some(half)) = (row.target(), row.modelled, row.half_a_digit()) else {
                panic!("{} {}", row.id, row.what)
            };
            assert_eq!(row.to_the_digit, Some((modelled - target).abs() <= half), "{} {}", row.id, row.what);
        }
    }
}
