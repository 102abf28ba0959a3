//! A checked number or phrase: published, modelled, measured, and the kind of evidence that the three make together.

use crate::mechanism::Mechanism;
use serde::{Deserialize, Serialize};

/// The unit of ttcp's rates.
pub const MEBIBIT: &str = "Mbit/s (2^20)";

/// A published value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Published {
    /// A number.
    Number(f64),
    /// From, to.
    Range(f64, f64),
    /// No number: the paper's words.
    Words(String),
}

/// A median of this machine, with the extremes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Measured {
    /// The middle value.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
}

/// What kind of evidence a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A formula of the paper or of a standard, evaluated.
    Arithmetic,
    /// It follows from another row, or from a configured constant, whatever the model does.
    Identity,
    /// A constant, or a choice of structure, was fitted to this number: no evidence.
    Anchor,
    /// Another output of what was fitted.
    ReAnchored,
    /// It could have come out otherwise, and nothing was tuned to it.
    Prediction,
    /// The model meets it, and no audit says yet what decides it.
    Unaudited,
    /// A phrase of the paper, with the test that decides it.
    Words,
    /// The model gives something else.
    Contradicted,
    /// The material cannot give it, or the model cannot.
    Absent,
    /// The question put to the machine at hand: there is no published number, and a model, if any, has its constants.
    Today,
}

impl Verdict {
    /// All of them, strongest evidence first.
    pub const ALL: [Verdict; 10] = [
        Verdict::Prediction,
        Verdict::Contradicted,
        Verdict::Unaudited,
        Verdict::Words,
        Verdict::Arithmetic,
        Verdict::Identity,
        Verdict::ReAnchored,
        Verdict::Anchor,
        Verdict::Absent,
        Verdict::Today,
    ];

    /// As reports print it.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Arithmetic => "arithmetic",
            Verdict::Identity => "identity",
            Verdict::Anchor => "anchor",
            Verdict::ReAnchored => "re-anchored",
            Verdict::Prediction => "prediction",
            Verdict::Unaudited => "unaudited",
            Verdict::Words => "words",
            Verdict::Contradicted => "contradicted",
            Verdict::Absent => "absent",
            Verdict::Today => "today",
        }
    }

    /// What it means, in a sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Verdict::Arithmetic => "a formula of the paper or of a standard, evaluated",
            Verdict::Identity => "follows from another row or from a configured constant, whatever the model does",
            Verdict::Anchor => "a constant or a choice of structure was fitted to it: no evidence",
            Verdict::ReAnchored => "a fitted or copied constant decides it, or a choice that was made after a result",
            Verdict::Prediction => {
                "without its mechanism the model contradicts it; no fitted or copied constant and no later choice decides it"
            }
            Verdict::Unaudited => "met by the model; no audit says yet what decides it",
            Verdict::Words => "a phrase of the paper; the row names the test that decides it",
            Verdict::Contradicted => {
                "the model gives something else: in this run, in the full run, or with another seed"
            }
            Verdict::Absent => "the material or the model cannot give it; the row says why",
            Verdict::Today => "the question put to this machine: nothing was published for it",
        }
    }
}

/// What a row compares, as its experiment states it. The verdict follows by [`crate::verdict`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// Nothing: absent, or of this machine only.
    #[default]
    Nothing,
    /// A formula of the paper or of a standard.
    Formula,
    /// What follows from another row or from a configured constant.
    Identity,
    /// The number that a constant was fitted to.
    Fitted,
    /// A published number.
    Number,
    /// A published phrase, with the test that decides it.
    Phrase,
}

impl Claim {
    /// What a row is before any rule, where the model gives what was published.
    const fn met(self) -> Verdict {
        match self {
            Claim::Nothing => Verdict::Absent,
            Claim::Formula => Verdict::Arithmetic,
            Claim::Identity => Verdict::Identity,
            Claim::Fitted => Verdict::Anchor,
            Claim::Number | Claim::Phrase => Verdict::Unaudited,
        }
    }
}

/// What decides a phrase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Test {
    /// Whether the phrase holds.
    pub holds: bool,
    /// The condition, with its threshold.
    pub threshold: String,
    /// What would have contradicted the phrase.
    pub otherwise: String,
}

impl Test {
    /// A condition that was evaluated, in words, and what would have contradicted the phrase.
    pub fn new(holds: bool, threshold: impl Into<String>, otherwise: impl Into<String>) -> Self {
        Test { holds, threshold: threshold.into(), otherwise: otherwise.into() }
    }
}

/// How near a model has to come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    /// To so many decimals.
    Decimals(i32),
    /// Within a relative deviation from the number, or from the range.
    Relative(f64),
}

/// One checked number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Row {
    /// The checklist's id of the source.
    pub id: String,
    /// What it is.
    pub what: String,
    /// Its unit.
    pub unit: String,
    /// The paper's.
    pub published: Published,
    /// The model's.
    pub modelled: Option<f64>,
    /// Today's machine's, where the question has a meaning there.
    pub measured: Option<Measured>,
    /// Of the model from the number, or from the nearer end of the range, relative.
    pub deviation: Option<f64>,
    /// The deviation that the verdict allows, relative.
    pub bound: Option<f64>,
    /// What is compared.
    #[serde(default)]
    pub claim: Claim,
    /// The mechanism that is said to decide it: its off switch has to contradict it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<Mechanism>,
    /// See there.
    pub verdict: Verdict,
    /// The rule that gave the verdict, and what it rests on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub because: String,
    /// The published fact: rows about one fact share it, and count once.
    pub fact: String,
    /// Whether the model gives the printed digits, or lies in the printed range; not for words.
    #[serde(default)]
    pub to_the_digit: Option<bool>,
    /// What decides a phrase.
    #[serde(default)]
    pub test: Option<Test>,
    /// Inconsistencies, other units, evidence.
    pub note: String,
}

/// Half a unit of the last digit that a number is printed with.
fn half_a_digit(number: f64) -> f64 {
    let decimals = number.to_string().split_once('.').map_or(0, |(_, decimals)| decimals.len());
    0.5 * 10f64.powi(-(decimals as i32)) + 1e-9
}

impl Row {
    pub(crate) fn new(id: &str, what: &str, unit: &str, published: Published) -> Self {
        let said = match &published {
            Published::Words(words) if what == "in words" => words,
            _ => what,
        };
        Row {
            id: id.into(),
            what: what.into(),
            unit: unit.into(),
            fact: format!("{id}: {said}"),
            published,
            modelled: None,
            measured: None,
            deviation: None,
            bound: None,
            claim: Claim::Nothing,
            mechanism: None,
            verdict: Verdict::Absent,
            because: String::new(),
            to_the_digit: None,
            test: None,
            note: String::new(),
        }
    }

    /// Compares the model's number with the published one.
    pub(crate) fn judge(&mut self, claim: Claim, bound: Bound, modelled: f64) -> &mut Self {
        let (from, to) = match self.published {
            Published::Number(n) => (n, n),
            Published::Range(from, to) => (from, to),
            Published::Words(_) => (modelled, modelled),
        };
        let nearest = modelled.clamp(from, to);
        let deviation = if nearest == 0.0 { modelled } else { modelled / nearest - 1.0 };
        let same = (modelled - nearest).abs() <= half_a_digit(nearest);
        let holds = match bound {
            Bound::Decimals(digits) => (modelled - nearest).abs() <= 0.5 * 10f64.powi(-digits) + 1e-9,
            Bound::Relative(bound) => same || deviation.abs() <= bound,
        };
        self.modelled = Some(modelled);
        self.deviation = Some(deviation);
        self.bound = if let Bound::Relative(bound) = bound { Some(bound) } else { None };
        self.to_the_digit = Some(same);
        self.claim = claim;
        self.verdict = if holds { claim.met() } else { Verdict::Contradicted };
        self
    }

    /// Half a unit of the last printed digit, where a number is printed.
    pub fn half_a_digit(&self) -> Option<f64> {
        self.target().map(half_a_digit)
    }

    /// The number that the model's is compared with: of a range the nearer end, none for words.
    pub fn target(&self) -> Option<f64> {
        match self.published {
            Published::Number(n) => Some(n),
            Published::Range(from, to) => self.modelled.map(|modelled| modelled.clamp(from, to)),
            Published::Words(_) => None,
        }
    }

    /// Names the published fact that the row is about, where several rows are about one.
    pub fn fact(&mut self, fact: &str) -> &mut Self {
        self.fact = format!("{}: {fact}", self.id);
        self
    }

    /// Where the paper's unit is ttcp's, of 2^20 bit, the note has the model's number in 10^6.
    pub(crate) fn both_units(&mut self) -> &mut Self {
        if let Some(modelled) = self.modelled.filter(|_| self.unit == MEBIBIT) {
            self.note(format!("modelled {:.1} in 10^6 bit/s", modelled * 1.048_576));
        }
        self
    }

    /// Compares a phrase with the model by a test.
    pub(crate) fn decide(&mut self, test: Test) -> &mut Self {
        self.claim = Claim::Phrase;
        self.verdict = if test.holds { self.claim.met() } else { Verdict::Contradicted };
        self.test = Some(test);
        self
    }

    /// Whether the model gives what was published, before any rule.
    pub fn holds(&self) -> bool {
        match (&self.test, self.bound.zip(self.deviation)) {
            (Some(test), _) => test.holds,
            (None, Some((bound, deviation))) if deviation.abs() <= bound => true,
            _ => self.to_the_digit == Some(true),
        }
    }

    /// Makes it the row of a model that did not run.
    pub(crate) fn fail(&mut self, why: &str) {
        (self.verdict, self.modelled, self.deviation, self.to_the_digit) = (Verdict::Contradicted, None, None, None);
        if let Some(test) = &mut self.test {
            test.holds = false;
        }
        self.note(why);
    }

    /// Names the mechanism that decides the row. Without its off switch a row is no prediction.
    pub fn by(&mut self, mechanism: Mechanism) -> &mut Self {
        self.mechanism = Some(mechanism);
        self
    }

    /// Adds to the note.
    pub fn note(&mut self, text: impl AsRef<str>) -> &mut Self {
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(text.as_ref());
        self
    }

    /// Sets what was measured.
    pub fn measured(&mut self, measured: Option<Measured>) -> &mut Self {
        self.measured = measured;
        self
    }
}

impl From<f64> for Published {
    fn from(number: f64) -> Self {
        Published::Number(number)
    }
}

impl From<(f64, f64)> for Published {
    fn from((from, to): (f64, f64)) -> Self {
        Published::Range(from, to)
    }
}

impl Measured {
    /// The same in another unit: `f` says how, and may turn least and greatest round.
    #[must_use]
    pub fn map(self, f: impl Fn(f64) -> f64) -> Measured {
        let (a, b) = (f(self.least), f(self.greatest));
        Measured { median: f(self.median), least: a.min(b), greatest: a.max(b) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(published: impl Into<Published>, bound: Bound, modelled: f64) -> (Verdict, Option<bool>) {
        let mut row = Row::new("A-1", "a rate", "Mbit/s", published.into());
        row.judge(Claim::Number, bound, modelled);
        (row.verdict, row.to_the_digit)
    }

    #[test]
    fn a_number_is_met_to_the_digit_or_within_a_bound_that_the_row_names_or_not_at_all() {
        assert_eq!(judged(101.0, Bound::Relative(0.05), 101.4), (Verdict::Unaudited, Some(true)));
        assert_eq!(judged(101.0, Bound::Relative(0.05), 103.0), (Verdict::Unaudited, Some(false)));
        assert_eq!(judged(101.0, Bound::Relative(0.05), 120.0), (Verdict::Contradicted, Some(false)));
        assert_eq!(judged(3.9, Bound::Decimals(1), 3.94), (Verdict::Unaudited, Some(true)));
        assert_eq!(judged(3.9, Bound::Decimals(1), 3.96), (Verdict::Contradicted, Some(false)));
        assert_eq!(judged((73.0, 82.0), Bound::Relative(0.0), 80.0), (Verdict::Unaudited, Some(true)));
        assert_eq!(judged((73.0, 82.0), Bound::Relative(0.0), 84.0), (Verdict::Contradicted, Some(false)));
        // Nothing lost where nothing is to be lost.
        assert_eq!(judged((0.0, 0.0), Bound::Relative(0.0), 0.0), (Verdict::Unaudited, Some(true)));
    }
}
