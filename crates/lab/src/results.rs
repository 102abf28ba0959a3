//! What `cellway lab` prints with `--json`.

use crate::evidence::Paper;
use crate::model::Profile;
use crate::row::Row;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The experiments that there are: `lab list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LabList {
    /// In the order in which they run.
    pub experiments: Vec<Listed>,
}

/// An experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its title.
    pub title: String,
}

/// Experiments that ran: `lab run`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LabRun {
    /// `run`.
    pub lab: String,
    /// The seed of all that is random.
    pub seed: u64,
    /// Whether the runs were short.
    pub quick: bool,
    /// The machine that `measured` of the rows is of, and what else it had to do; `null` in a run without measurements.
    pub measured_on: Option<String>,
    /// Checked numbers.
    pub rows: Vec<ExperimentRow>,
    /// How many rows there are of each kind of evidence.
    pub summary: BTreeMap<String, usize>,
    /// Predictions against degrees of freedom, by paper.
    pub evidence: Vec<Paper>,
    /// Cells that were carried in virtual time.
    pub cells: u64,
    /// What happened in virtual time, as a hash, by experiment.
    pub traces: BTreeMap<String, String>,
}

/// A checked number of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ExperimentRow {
    /// The experiment.
    pub experiment: String,
    /// The number.
    #[serde(flatten)]
    pub row: Row,
}

/// A report was written: `lab report`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LabReport {
    /// `report`.
    pub lab: String,
    /// Where it is.
    pub folder: PathBuf,
    /// Its files.
    pub files: Vec<String>,
    /// How many rows there are of each kind of evidence.
    pub summary: BTreeMap<String, usize>,
    /// The seed of all that is random.
    pub seed: u64,
    /// How long it took.
    pub seconds: f64,
}

/// A constant was moved over a range: `lab sweep`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LabSweep {
    /// `sweep`.
    pub lab: String,
    /// Rows of the table.
    pub rows: usize,
    /// The table; `null` where none was asked for.
    pub file: Option<PathBuf>,
}

/// Each constant was moved: `lab sensitivity`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LabSensitivity {
    /// `sensitivity`.
    pub lab: String,
    /// Constants.
    pub constants: usize,
    /// Rows that moved.
    pub moves: usize,
    /// Constants that move no row.
    pub idle: Vec<String>,
}

/// This machine's constants: `lab calibrate`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Calibrated {
    /// What the machine is called in experiments.
    pub name: String,
    /// What it is.
    pub title: String,
    /// Its constants.
    pub constants: BTreeMap<String, CalibratedConstant>,
}

/// A constant of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CalibratedConstant {
    /// The number.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// What measured it.
    pub source: Option<String>,
    /// The published number that it was calibrated on.
    pub anchor: Option<String>,
    /// Why it was assumed.
    pub assumed: Option<String>,
    /// Why it is as it is.
    pub why: Option<String>,
}

impl From<&Profile> for Calibrated {
    fn from(profile: &Profile) -> Self {
        let constants = profile.constants.iter().map(|(name, c)| {
            let (unit, source, anchor) = (c.unit.clone(), c.source.clone(), c.anchor.clone());
            let (assumed, why) = (c.assumed.clone(), c.why.clone());
            (name.clone(), CalibratedConstant { value: c.value, unit, source, anchor, assumed, why })
        });
        Calibrated { name: profile.name.clone(), title: profile.title.clone(), constants: constants.collect() }
    }
}
