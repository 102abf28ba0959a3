//! What the laboratory's claims rest on: published facts that were foretold, counted against everything that could be turned to
//! meet them. In: outcomes and profiles. Out: counts by paper.

use crate::choices::CHOICES;
use crate::experiment::{ExperimentOutcome, Row, Verdict};
use crate::findings::Findings;
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

/// What stands for and against one paper's rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Paper {
    /// The letter of its ids.
    pub letter: char,
    /// Its name.
    pub name: &'static str,
    /// Whether the project implements the paper: facts of any other are counted apart.
    pub seed: bool,
    /// Facts that were foretold and met.
    pub predictions: usize,
    /// Facts foretold to the printed digits; a phrase has none.
    pub to_the_digit: usize,
    /// Facts that were contradicted.
    pub contradicted: usize,
    /// Calibrated constants that the paper's rows use, wherever they were fitted.
    pub calibrated: usize,
    /// Assumed constants that the paper's rows use.
    pub assumed: usize,
    /// Choices of structure made after seeing a result.
    pub choices: usize,
    /// Constants of either kind that the paper's predictions use.
    pub behind_predictions: usize,
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
        .filter(|row| row.verdict == Verdict::Prediction && row.to_the_digit != Some(true))
        .map(|row| row.fact.as_str())
        .collect();
    let digit = predictions.iter().copied().filter(|fact| !near.contains(fact)).collect();
    [predictions, digit, contradicted]
}

/// Calibrated and assumed constants that rows use, as the audit has found them. The same constant of the same origin on
/// several models of one series is one.
#[derive(Debug, Default)]
struct Used {
    calibrated: BTreeSet<String>,
    assumed: BTreeSet<String>,
}

impl Used {
    fn by<'a>(
        rows: impl Iterator<Item = (&'a str, &'a Row)>,
        origins: &BTreeMap<String, (bool, String)>,
        findings: &Findings,
    ) -> Self {
        let mut used = Used::default();
        let of = |(experiment, row): (&str, &Row)| findings.of(experiment, row).map(|finding| finding.moved.clone());
        for name in rows.filter_map(of).flatten() {
            let Some((calibrated, origin)) = origins.get(&name) else { continue };
            let kind = if *calibrated { &mut used.calibrated } else { &mut used.assumed };
            kind.insert(origin.clone());
        }
        used
    }
}

/// Free constants, as `machine.constant`: whether each is calibrated, and what makes it the same as another.
fn origins() -> Result<BTreeMap<String, (bool, String)>, ProfileError> {
    let mut all = BTreeMap::new();
    for profile in Profile::built_in()? {
        for (name, constant) in profile.free() {
            let said = constant.anchor.as_ref().or(constant.assumed.as_ref()).unwrap_or(&constant.unit);
            let origin = (constant.anchor.is_some(), format!("{name}: {said}"));
            all.insert(format!("{}.{name}", profile.name), origin);
        }
    }
    Ok(all)
}

/// Counts by paper.
///
/// # Errors
/// A profile that comes with the program is broken.
pub fn papers(outcomes: &[ExperimentOutcome]) -> Result<Vec<Paper>, ProfileError> {
    let (origins, findings) = (origins()?, Findings::built_in());
    let of = |(letter, seed, name): (char, &'static str, &'static str)| {
        let rows = || {
            let all = outcomes.iter().flat_map(|o| o.rows.iter().map(|row| (o.experiment.as_str(), row)));
            all.filter(move |(_, row)| row.id.starts_with(letter))
        };
        let used = Used::by(rows(), &origins, findings);
        let foretold = rows().filter(|(_, row)| row.verdict == Verdict::Prediction);
        let behind = Used::by(foretold, &origins, findings);
        let [predictions, to_the_digit, contradicted] = facts(outcomes, letter).map(|facts| facts.len());
        Paper {
            letter,
            name,
            seed: seed.starts_with('0'),
            predictions,
            to_the_digit,
            contradicted,
            calibrated: used.calibrated.len(),
            assumed: used.assumed.len(),
            choices: CHOICES.iter().filter(|choice| choice.id.starts_with(letter)).count(),
            behind_predictions: behind.calibrated.len() + behind.assumed.len(),
        }
    };
    Ok(PAPERS.into_iter().map(of).collect())
}
