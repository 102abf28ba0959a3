//! What the laboratory's claims rest on: published facts that were foretold, counted against everything that could be turned to
//! meet them. In: outcomes and profiles. Out: counts by paper.

use crate::experiment::{ExperimentOutcome, Verdict};
use crate::model::{Profile, ProfileError};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Papers by the letter of their ids.
pub const PAPERS: [(char, &str, &str); 6] = [
    ('A', "000", "Almesberger 1995"),
    ('B', "001", "Traw and Smith 1993"),
    ('C', "002", "Kazantzidis 1997"),
    ('D', "003", "ATM on Linux 0.4"),
    ('E', "004", "Smith 2002"),
    ('F', "ubr", "Romanow and Floyd 1995"),
];

/// Choices of structure that were made after the result of another had been seen, by the id of the number that decided. Each is a
/// degree of freedom as much as a constant is.
pub const CHOICES: &[(&str, &str)] = &[
    ("A-10", "a delay that misses the printed digit is let pass, as the paper's line rate is approximate"),
    ("A-14", "a delay is compared within 1 % on both sides"),
    ("A-22", "of two streams on one PC what the line carries counts, not what ttcp prints"),
    (
        "A-56",
        "what ttcp sends over and over is read out of the cache; the adapter reads memory (three ways were tried)",
    ),
    ("A-56", "what is left of the time slices differs from run to run"),
    ("A-58", "the cost of short receive bursts is the I/O bus's, not the processor's"),
    ("B-37", "Cell Manager and buffer are left out of the pipeline's limit"),
    ("B-40", "the set-up of a transfer is hidden in the IOCC's load"),
    ("E-5", "copying and streaming do not overlap"),
    ("C-31", "messages of some 50 octets and less are moved by a processor"),
    ("C-31", "a message of more than 8192 octets takes a second buffer"),
    ("C-15", "an APIC's links hold 16 cells where 256 were tried first"),
    ("C-20", "the load beside the paced stream"),
    ("C-30", "how near the modelled figure has to come"),
    ("C-43", "runs of TCP are longer, and what is under way at their end is waited for"),
    ("D-10", "half of what a PDU costs on arrival is spent in interrupts"),
    ("E-17", "what waits before an echo is drawn evenly between two anchors"),
    ("E-17", "ping is woken by its host's clock"),
    (
        "F-1",
        "one phrase became two rows: that throughput is low at some place, and (F-11) that it is so at certain ones",
    ),
    ("F-1", "low is below half of the line, and below 0.8 of a packet switch"),
    ("F-7", "a fall by less than 0.05 from one queue to the next is let pass"),
    ("F-3", "an order holds where it is missed by less than 0.05 of the line"),
];

/// What stands for and against one paper's rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Paper {
    /// The letter of its ids.
    pub letter: char,
    /// Its name.
    pub name: &'static str,
    /// Facts that were foretold and met; of these, to the printed digits or by a phrase's test.
    pub predictions: usize,
    /// Facts foretold to the printed digits or by a phrase's test.
    pub to_the_digit: usize,
    /// Facts that were contradicted.
    pub contradicted: usize,
    /// Constants calibrated on the paper's numbers.
    pub calibrated: usize,
    /// Constants assumed for the paper's sake.
    pub assumed: usize,
    /// Choices of structure made after seeing a result.
    pub choices: usize,
}

impl Paper {
    /// Everything that could be turned.
    pub const fn freedom(&self) -> usize {
        self.calibrated + self.assumed + self.choices
    }
}

/// The distinct facts of rows of one verdict, by paper. A fact with one contradicted row is no prediction.
fn facts(outcomes: &[ExperimentOutcome], letter: char) -> [BTreeSet<&str>; 3] {
    let rows = || outcomes.iter().flat_map(|o| &o.rows).filter(move |row| row.id.starts_with(letter));
    let of = |verdict: Verdict| rows().filter(move |row| row.verdict == verdict).map(|row| row.fact.as_str());
    let contradicted: BTreeSet<&str> = of(Verdict::Contradicted).collect();
    let predictions: BTreeSet<&str> = of(Verdict::Prediction).filter(|fact| !contradicted.contains(fact)).collect();
    let near: BTreeSet<&str> = rows()
        .filter(|row| row.verdict == Verdict::Prediction && row.to_the_digit == Some(false))
        .map(|row| row.fact.as_str())
        .collect();
    let digit = predictions.iter().copied().filter(|fact| !near.contains(fact)).collect();
    [predictions, digit, contradicted]
}

/// Counts by paper.
///
/// # Errors
/// A profile that comes with the program is broken.
pub fn papers(outcomes: &[ExperimentOutcome]) -> Result<Vec<Paper>, ProfileError> {
    let mut calibrated: BTreeMap<char, BTreeSet<String>> = BTreeMap::new();
    let mut assumed = calibrated.clone();
    for profile in Profile::built_in()? {
        for (name, constant) in profile.free() {
            let (kind, said) = match (&constant.anchor, &constant.assumed) {
                (Some(anchor), _) => (&mut calibrated, anchor),
                (None, said) => (&mut assumed, said.as_ref().unwrap_or(&constant.unit)),
            };
            // The same constant of the same anchor on three models of one series is one.
            let letter = said.chars().next().unwrap_or(' ');
            kind.entry(letter).or_default().insert(format!("{name}: {said}"));
        }
    }
    let count = |of: &BTreeMap<char, BTreeSet<String>>, letter: char| of.get(&letter).map_or(0, BTreeSet::len);
    Ok(PAPERS
        .into_iter()
        .map(|(letter, _, name)| {
            let [predictions, to_the_digit, contradicted] = facts(outcomes, letter).map(|facts| facts.len());
            Paper {
                letter,
                name,
                predictions,
                to_the_digit,
                contradicted,
                calibrated: count(&calibrated, letter),
                assumed: count(&assumed, letter),
                choices: CHOICES.iter().filter(|(id, _)| id.starts_with(letter)).count(),
            }
        })
        .collect())
}
