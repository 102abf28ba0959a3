//! No verdict is written by hand: what a prediction rests on, and what takes it away.

use super::all;
use lab::audit::audit;
use lab::choices::CHOICES;
use lab::evidence::papers;
use lab::experiment::{Claim, ExperimentOutcome, Mechanism, Row, Verdict, run_on, run_without};
use lab::experiments::named;
use lab::findings::Findings;
use lab::model::memo::Memo;
use lab::model::{Profile, ProfileError};
use std::collections::BTreeSet;

fn rows() -> impl Iterator<Item = (&'static ExperimentOutcome, &'static Row)> {
    all().iter().flat_map(|outcome| outcome.rows.iter().map(move |row| (outcome, row)))
}

/// Experiments that the audit has run.
fn audited() -> BTreeSet<&'static str> {
    Findings::built_in().rows.keys().filter_map(|key| key.split(' ').next()).collect()
}

#[test]
fn every_row_of_an_audited_experiment_says_by_which_rule_it_has_its_verdict_and_no_other_is_evidence() {
    let audited = audited();
    for (outcome, row) in rows().filter(|(_, row)| matches!(row.claim, Claim::Number | Claim::Phrase)) {
        let name = format!("{} {} {}", outcome.experiment, row.id, row.fact);
        assert!(!row.because.is_empty() || !row.holds(), "{name} has no reason");
        if audited.contains(outcome.experiment.as_str()) {
            assert_ne!(
                row.verdict,
                Verdict::Unaudited,
                "{name}: cellway-lab audit --out lab/predictions/findings.toml"
            );
        } else {
            assert!(matches!(row.verdict, Verdict::Unaudited | Verdict::Contradicted), "{name}");
        }
    }
}

#[test]
fn a_prediction_names_a_mechanism_and_is_of_no_id_that_was_chosen_after_a_result() {
    let chosen: BTreeSet<&str> = CHOICES.iter().map(|choice| choice.id).collect();
    let foretold: Vec<&Row> = rows().map(|(_, row)| row).filter(|row| row.verdict == Verdict::Prediction).collect();
    assert!(!foretold.is_empty());
    for row in foretold {
        assert!(row.mechanism.is_some() && !chosen.contains(row.id.as_str()), "{} {}", row.id, row.fact);
    }
    assert!(CHOICES.iter().all(|choice| choice.commit.len() == 8 && choice.what.len() > 20));
}

/// Rows of an experiment that were predictions and are contradicted without a mechanism.
fn fallen(experiment: &str, off: Mechanism) -> (usize, usize) {
    let with = all().iter().find(|outcome| outcome.experiment == experiment).unwrap();
    let without = run_without(off, &Memo::default(), named(experiment).unwrap(), 7, true).unwrap();
    let pairs = with.rows.iter().zip(&without.rows);
    let own = pairs.filter(|(with, _)| with.verdict == Verdict::Prediction && with.mechanism == Some(off));
    own.fold((0, 0), |(all, fell), (_, without)| (all + 1, fell + usize::from(!without.holds())))
}

#[test]
fn a_prediction_is_contradicted_without_its_mechanism_in_the_long_run() {
    let mut switches: BTreeSet<(String, Mechanism)> = rows()
        .filter(|(_, row)| row.verdict == Verdict::Prediction)
        .filter_map(|(outcome, row)| Some((outcome.experiment.clone(), row.mechanism?)))
        .collect();
    if std::env::var_os("CELLWAY_LONG").is_none() {
        // A share of them: the cheapest to run.
        switches.retain(|(_, off)| matches!(off, Mechanism::PageMapping | Mechanism::Repetition));
    }
    assert!(!switches.is_empty());
    for (experiment, off) in switches {
        let (all, fell) = fallen(&experiment, off);
        assert!(all > 0 && fell == all, "{experiment} without {}: {fell} of {all} fall", off.name());
    }
}

/// The ordinary run audits one experiment of little cost; the long one all of them, with all seeds and in full.
#[test]
fn what_decides_each_row_is_what_the_findings_say_in_the_long_run() {
    let long = std::env::var_os("CELLWAY_LONG").is_some();
    let only: BTreeSet<String> = ["seed000-adapters".to_owned()].into();
    let kept = Findings::built_in();
    let all: BTreeSet<String> = audited().into_iter().map(String::from).collect();
    let seeds = kept.rows.values().map(|finding| u64::from(finding.seeds[1])).max().unwrap();
    let found = audit(seeds, long, Some(if long { &all } else { &only })).unwrap();
    assert!(!found.rows.is_empty());
    for (key, mut finding) in found.rows {
        let kept = kept.rows.get(&key).unwrap_or_else(|| panic!("no finding of {key}"));
        // What holds in short runs only is no finding of a short audit.
        match (finding.full, kept.full) {
            (Some(false), None) => panic!("{key} does not hold in the full run"),
            (_, full) => finding.full = full,
        }
        assert_eq!(finding, *kept, "{key}");
    }
}

#[test]
fn a_model_that_gives_no_result_is_an_error_and_not_zero() {
    let mut machine = Profile::named("myrinet-lanai").unwrap();
    machine.set("logic_symbols", 60.0).unwrap();
    let outcome = run_on(&[machine], named("seed002-mechanisms").unwrap(), 1, true, None);
    assert!(matches!(&outcome, Err(ProfileError::Failed(why)) if why.contains("gave no result")), "{outcome:?}");
}

#[test]
fn constants_count_for_the_paper_whose_rows_use_them_and_fewer_than_forty_are_behind_predictions() {
    let papers = papers(all()).unwrap();
    let of = |letter| papers.iter().find(|paper| paper.letter == letter).unwrap();
    // Fitted to the tables of seed 003, and used by the figures of seed 000.
    assert!(of('A').calibrated >= 2, "{:?}", of('A'));
    assert!(!of('F').seed && papers.iter().filter(|paper| paper.seed).count() == 5);
    let behind: usize = papers.iter().filter(|paper| paper.seed).map(|paper| paper.behind_predictions).sum();
    assert!(behind < 40, "{behind}");
}
