//! Verdicts by rule. In: what a row compares, whether the model meets it, and what the audit found. Out: the kind of
//! evidence, and the reason. Nobody writes a verdict: an experiment states its [`Claim`], and [`settle`] does the rest.
//!
//! The rules, in order, for a published number or phrase:
//! 1. The model gives something else, in this run, in the full run, or with one of the audit's seeds: contradicted.
//! 2. A choice of structure was made after a result of this id had been seen ([`CHOICES`]): re-anchored.
//! 3. It changes sides within the range of an anchored constant, or moves with a constant that was copied from another
//!    machine: re-anchored.
//! 4. No mechanism is named whose off switch contradicts it: a phrase is `words`; a number that moves with a free
//!    constant is re-anchored, any other an identity.
//! 5. Whatever is left could have come out otherwise: a prediction.

use crate::choices::CHOICES;
use crate::findings::{Finding, Findings};
use crate::row::{Claim, Published, Row, Verdict};

/// Applies the rules to one row.
pub fn settle(row: &mut Row, finding: Option<&Finding>) {
    if !matches!(row.claim, Claim::Number | Claim::Phrase) {
        return;
    }
    let (verdict, because) = rule(row, finding);
    row.verdict = verdict;
    row.because = because;
}

/// Applies the rules to the rows of an experiment.
pub fn settle_all(experiment: &str, rows: &mut [Row], findings: &Findings) {
    for row in rows {
        let finding = findings.of(experiment, row).cloned();
        settle(row, finding.as_ref());
    }
}

fn list(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(3).map(String::as_str).collect();
    let more = names.len().saturating_sub(3);
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

fn rule(row: &Row, finding: Option<&Finding>) -> (Verdict, String) {
    if !row.holds() {
        return (Verdict::Contradicted, String::new());
    }
    let chosen = || CHOICES.iter().find(|choice| choice.id == row.id);
    let Some(finding) = finding else {
        return (Verdict::Unaudited, "no audit has run without its mechanism and in the range of each constant".into());
    };
    if finding.full == Some(false) {
        return (Verdict::Contradicted, "it holds in short runs, and not in the full run".into());
    }
    let [held, seeds] = finding.seeds;
    if held < seeds {
        return (Verdict::Contradicted, format!("it holds with {held} of {seeds} seeds"));
    }
    if let Some(choice) = chosen() {
        return (Verdict::ReAnchored, format!("chosen after a result: {} ({})", choice.what, choice.commit));
    }
    if !finding.anchored.is_empty() {
        return (Verdict::ReAnchored, format!("changes sides in the range of {}", list(&finding.anchored)));
    }
    if !finding.copied.is_empty() {
        return (Verdict::ReAnchored, format!("moves with {}, copied from another machine", list(&finding.copied)));
    }
    match (finding.off, &row.published) {
        (Some(true), _) => {
            let by = row.mechanism.map_or("", |mechanism| mechanism.name());
            (Verdict::Prediction, format!("without {by} it is contradicted; holds with {held} of {seeds} seeds"))
        }
        (off, Published::Words(_)) => (Verdict::Words, without(off)),
        (off, _) if finding.moved.is_empty() => (Verdict::Identity, without(off)),
        (_, _) => (Verdict::ReAnchored, format!("no off switch contradicts it; moves with {}", list(&finding.moved))),
    }
}

fn without(off: Option<bool>) -> String {
    match off {
        Some(_) => "its own off switch does not contradict it".into(),
        None => "it names no mechanism whose off switch would contradict it".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Mechanism;
    use crate::row::{Bound, Test};

    fn number(id: &str) -> Row {
        let mut row = Row::new(id, "a rate", "Mbit/s", 101.0.into());
        row.judge(Claim::Number, Bound::Relative(0.05), 101.2);
        row.mechanism = Some(Mechanism::PageMapping);
        row
    }

    fn settled(mut row: Row, finding: Finding) -> Verdict {
        settle(&mut row, Some(&finding));
        row.verdict
    }

    fn clean() -> Finding {
        Finding { off: Some(true), seeds: [5, 5], full: Some(true), ..Finding::default() }
    }

    #[test]
    fn a_number_that_nothing_but_its_own_mechanism_decides_is_a_prediction() {
        assert_eq!(settled(number("A-53"), clean()), Verdict::Prediction);
    }

    #[test]
    fn a_row_is_no_prediction_after_a_choice_an_anchor_a_copy_a_seed_or_a_full_run() {
        assert_eq!(settled(number("A-56"), clean()), Verdict::ReAnchored, "a choice");
        let names = || vec!["pentium90-neptune.lock_us".to_owned()];
        assert_eq!(settled(number("A-53"), Finding { anchored: names(), ..clean() }), Verdict::ReAnchored);
        assert_eq!(settled(number("A-53"), Finding { copied: names(), ..clean() }), Verdict::ReAnchored);
        assert_eq!(settled(number("A-53"), Finding { seeds: [4, 5], ..clean() }), Verdict::Contradicted);
        assert_eq!(settled(number("A-53"), Finding { full: Some(false), ..clean() }), Verdict::Contradicted);
    }

    #[test]
    fn what_neither_constants_nor_the_own_off_switch_change_is_an_identity_or_words() {
        assert_eq!(settled(number("A-53"), Finding { off: Some(false), ..clean() }), Verdict::Identity);
        let moved = vec!["apic.miss_us".to_owned()];
        assert_eq!(settled(number("A-53"), Finding { off: None, moved, ..clean() }), Verdict::ReAnchored);
        let mut phrase = Row::new("C-29", "in words", "", Published::Words("slightly".into()));
        phrase.decide(Test::new(true, "less than 2 %", "2 % or more"));
        assert_eq!(settled(phrase, Finding { off: Some(false), ..clean() }), Verdict::Words);
    }

    #[test]
    fn without_an_audit_there_is_no_prediction_and_no_rule_lifts_what_the_model_contradicts() {
        let mut row = number("A-53");
        settle(&mut row, None);
        assert_eq!(row.verdict, Verdict::Unaudited);
        row.judge(Claim::Number, Bound::Relative(0.05), 120.0);
        settle(&mut row, Some(&clean()));
        assert_eq!(row.verdict, Verdict::Contradicted);
    }
}
