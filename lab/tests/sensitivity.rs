//! Which constant decides which row: every constant that no paper gives is changed by 20 %, and the rows that move are the ones that
//! `docs/lab/sensitivity.md` names.

use lab::experiment::Verdict;
use lab::sensitivity::{all, page};

#[test]
fn a_constant_changed_by_a_fifth_moves_its_anchor_and_exactly_the_rows_that_the_page_names() {
    let found = all(1, true, 1.2).unwrap();
    for s in &found {
        assert!(!s.moves.is_empty(), "{}.{} decides nothing: it is no degree of freedom", s.machine, s.constant);
        if s.calibrated {
            let id = s.origin.split(':').next().unwrap();
            let anchored = |verdict| matches!(verdict, Verdict::Anchor | Verdict::Words | Verdict::ReAnchored);
            let moved = s.moves.iter().any(|m| m.row.id == id && anchored(m.row.verdict));
            assert!(moved, "{}.{} is fitted on {}, which does not move", s.machine, s.constant, s.origin);
        }
    }
    let (made, kept) = (page(&found, 1.2), include_str!("../../docs/lab/sensitivity.md"));
    let other = made.lines().zip(kept.lines()).find(|(made, kept)| made != kept);
    if made != kept {
        let there = concat!(env!("CARGO_TARGET_TMPDIR"), "/sensitivity.md");
        std::fs::write(there, &made).unwrap();
        panic!(
            "docs/lab/sensitivity.md is not what the models say: {there} is, as `cellway-lab sensitivity` makes it. {other:?}"
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
