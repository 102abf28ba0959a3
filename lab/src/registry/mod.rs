//! Preregistration: what is foretold before the model has run, in `lab/predictions/*.toml`, and what came of it.
//!
//! In: registrations with the hash of model and constants that they were made for, and outcomes as
//! `cellway-lab predictions --record` writes them. Out: how many came true, failed, or were void.

mod trial;

pub use trial::{Ask, Side};

use crate::findings::constants_hash;
use crate::model::{Profile, ProfileError};
use crate::trace::Trace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The files that come with the program.
const FILES: &[&str] =
    &[include_str!("../../predictions/combinations.toml"), include_str!("../../predictions/papers.toml")];
const OUTCOMES: &str = include_str!("../../predictions/outcomes.toml");

/// The models that a registration can ask.
const MODELS: &[&str] = &[
    include_str!("../model/pair.rs"),
    include_str!("../model/carrier.rs"),
    include_str!("../model/machine.rs"),
    include_str!("../model/write.rs"),
    include_str!("../model/netperf.rs"),
    include_str!("../model/ubr.rs"),
    include_str!("../model/bottleneck.rs"),
    include_str!("../model/bulk.rs"),
    include_str!("../model/networks/unet.rs"),
    include_str!("../model/networks/apic.rs"),
    include_str!("../model/networks/myrinet.rs"),
    include_str!("../model/networks/flows.rs"),
    include_str!("../model/networks/ground.rs"),
    include_str!("../model/networks/stream.rs"),
];

/// How the two sides are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// The left side is more than `factor` times the right one.
    Above,
    /// The left side is less than `factor` times the right one.
    Below,
    /// The two differ by `factor` at most, relative to the right one.
    Within,
}

/// Something foretold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// Its name.
    pub id: String,
    /// The paper and its place, or that it is a combination of mechanisms that nothing has run.
    pub from: String,
    /// What is foretold.
    pub says: String,
    /// Why it could come out otherwise.
    pub otherwise: String,
    /// Whether its author had seen the published number, or a result of the model for it: then it is known, not foretold.
    pub seen: bool,
    /// What is asked of the model.
    pub left: Ask,
    /// How it is compared.
    pub relation: Relation,
    /// With what: a number, or another question.
    pub right: Side,
    /// See [`Relation`].
    #[serde(default = "one")]
    pub factor: f64,
}

const fn one() -> f64 {
    1.0
}

/// A file of registrations.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registrations {
    /// The hash of the models' sources.
    pub model: String,
    /// The hash of all machines' constants.
    pub constants: String,
    /// What is foretold.
    pub prediction: Vec<Registration>,
}

/// What became of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It was foretold, and came true.
    CameTrue,
    /// It was foretold, and failed.
    Failed,
    /// The author had seen it, and the model gives it.
    KnownMet,
    /// The author had seen it, and the model does not give it.
    KnownMissed,
    /// The model gave no result, or model or constants had changed before it ran.
    Void,
    /// It has not run.
    Open,
}

impl Fate {
    /// As reports print it.
    pub const fn name(self) -> &'static str {
        match self {
            Fate::CameTrue => "came true",
            Fate::Failed => "failed",
            Fate::KnownMet => "known, met",
            Fate::KnownMissed => "known, missed",
            Fate::Void => "void",
            Fate::Open => "open",
        }
    }
}

/// What came of one registration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Fulfilment {
    /// See there.
    pub fate: Fate,
    /// What the model gave for the left side.
    pub left: Option<f64>,
    /// What it gave for the right side, or the number.
    pub right: Option<f64>,
}

/// The file of outcomes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcomes {
    /// By the registration's name.
    #[serde(default)]
    pub outcome: BTreeMap<String, Fulfilment>,
}

/// The hashes of this program's models and constants.
///
/// # Errors
/// A profile that comes with the program is broken.
pub fn hashes() -> Result<[String; 2], ProfileError> {
    let mut trace = Trace::default();
    MODELS.iter().for_each(|text| trace.add(text.as_bytes()));
    Ok([format!("{:016x}", trace.hash()), constants_hash(&Profile::built_in()?)])
}

/// Reads a file of registrations.
///
/// # Errors
/// It is not of this shape.
pub fn parse(text: &str) -> Result<Registrations, ProfileError> {
    toml::from_str(text).map_err(|e| ProfileError::Shape(format!("registrations: {e}")))
}

/// The registrations that come with the program.
///
/// # Errors
/// A file is broken; a test says that none is.
pub fn built_in() -> Result<Vec<Registrations>, ProfileError> {
    FILES.iter().map(|text| parse(text)).collect()
}

/// What came of them when they ran.
///
/// # Errors
/// The file is broken; a test says that it is not.
pub fn recorded() -> Result<Outcomes, ProfileError> {
    toml::from_str(OUTCOMES).map_err(|e| ProfileError::Shape(format!("outcomes: {e}")))
}

impl Registration {
    /// Whether two numbers are in the relation that was foretold.
    pub fn holds(&self, left: f64, right: f64) -> bool {
        match self.relation {
            Relation::Above => left > self.factor * right,
            Relation::Below => left < self.factor * right,
            Relation::Within => (left - right).abs() <= self.factor * right.abs(),
        }
    }

    /// Asks the model. A side without a result, or one that is not finite, makes it void.
    ///
    /// # Errors
    /// A machine lacks a constant.
    pub fn run(&self) -> Result<Fulfilment, ProfileError> {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        let left = finite(self.left.ask()?);
        let right = finite(match &self.right {
            Side::Number(number) => Some(*number),
            Side::Run(ask) => ask.ask()?,
        });
        let fate = match left.zip(right).map(|(left, right)| (self.holds(left, right), self.seen)) {
            None => Fate::Void,
            Some((true, false)) => Fate::CameTrue,
            Some((false, false)) => Fate::Failed,
            Some((true, true)) => Fate::KnownMet,
            Some((false, true)) => Fate::KnownMissed,
        };
        Ok(Fulfilment { fate, left, right })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all() -> Vec<Registration> {
        built_in().unwrap().into_iter().flat_map(|file| file.prediction).collect()
    }

    #[test]
    fn each_registration_says_why_it_could_fail_and_has_a_name_of_its_own() {
        let all = all();
        let names: BTreeSet<&String> = all.iter().map(|registration| &registration.id).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.len() >= 30, "{}", all.len());
        for registration in &all {
            let said = [&registration.says, &registration.otherwise, &registration.from];
            assert!(said.iter().all(|text| text.len() >= 10), "{}", registration.id);
        }
    }

    #[test]
    fn each_outcome_is_of_a_registration_and_agrees_with_its_numbers() {
        let (all, recorded) = (all(), recorded().unwrap());
        for (id, outcome) in &recorded.outcome {
            let registration = all.iter().find(|registration| registration.id == *id).unwrap();
            let Some((left, right)) = outcome.left.zip(outcome.right) else {
                assert_eq!(outcome.fate, Fate::Void, "{id}");
                continue;
            };
            let met = matches!(outcome.fate, Fate::CameTrue | Fate::KnownMet);
            assert_eq!(registration.holds(left, right), met, "{id}: {left} and {right}");
            let known = matches!(outcome.fate, Fate::KnownMet | Fate::KnownMissed);
            assert_eq!(registration.seen, known, "{id}");
        }
        assert_eq!(recorded.outcome.len(), all.len(), "each registration has run");
    }

    #[test]
    fn a_registration_whose_model_gives_nothing_is_void_and_one_that_is_missed_has_failed() {
        let text = |left: &str, right: &str| {
            let text = format!(
                "model = ''\nconstants = ''\n[[prediction]]\nid = 'T'\nfrom = 'a test'\nsays = 'x'\notherwise = 'y'\nseen = false\n\
                 left = {left}\nrelation = 'above'\nright = {right}\n"
            );
            parse(&text).unwrap().prediction.remove(0).run().unwrap().fate
        };
        let write = "{ run = 'write', machine = 'rs6000-320', driver = 'user-buffer', octets = 65536 }";
        assert_eq!(text(write, "100.0"), Fate::CameTrue);
        assert_eq!(text(write, "142.3"), Fate::Failed);
        assert_eq!(text(write, "nan"), Fate::Void);
    }
}
