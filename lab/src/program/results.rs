//! What the program prints with `--json`.

pub(crate) mod am;
pub(crate) mod bench;
pub(crate) mod shards;
pub(crate) mod simulate;
pub(crate) mod study;
pub(crate) mod ttcp;

use ::lab::evidence::Paper;
use ::lab::model::Profile;
use ::lab::registry::Fulfilment;
use ::lab::row::Row;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The experiments that there are: `lab list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct LabList {
    /// In the order in which they run.
    pub(crate) experiments: Vec<Listed>,
}

/// An experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Listed {
    /// Its name.
    pub(crate) name: String,
    /// Its title.
    pub(crate) title: String,
}

/// Experiments that ran: `lab run`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct LabRun {
    /// `run`.
    pub(crate) lab: String,
    /// The seed of all that is random.
    pub(crate) seed: u64,
    /// Whether the runs were short.
    pub(crate) quick: bool,
    /// The machine that `measured` of the rows is of, and what else it had to do; `null` in a run without measurements.
    pub(crate) measured_on: Option<String>,
    /// Checked numbers.
    pub(crate) rows: Vec<ExperimentRow>,
    /// How many rows there are of each kind of evidence.
    pub(crate) summary: BTreeMap<String, usize>,
    /// Predictions against degrees of freedom, by paper.
    pub(crate) evidence: Vec<Paper>,
    /// Cells that were carried in virtual time.
    pub(crate) cells: u64,
    /// What happened in virtual time, as a hash, by experiment.
    pub(crate) traces: BTreeMap<String, String>,
}

/// A checked number of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ExperimentRow {
    /// The experiment.
    pub(crate) experiment: String,
    /// The number.
    #[serde(flatten)]
    pub(crate) row: Row,
}

/// A report was written: `lab report`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct LabReport {
    /// `report`.
    pub(crate) lab: String,
    /// Where it is.
    pub(crate) folder: PathBuf,
    /// Its files.
    pub(crate) files: Vec<String>,
    /// How many rows there are of each kind of evidence.
    pub(crate) summary: BTreeMap<String, usize>,
    /// The seed of all that is random.
    pub(crate) seed: u64,
    /// How long it took.
    pub(crate) seconds: f64,
}

/// A constant was moved over a range: `lab sweep`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct LabSweep {
    /// `sweep`.
    pub(crate) lab: String,
    /// Rows of the table.
    pub(crate) rows: usize,
    /// The table; `null` where none was asked for.
    pub(crate) file: Option<PathBuf>,
}

/// Each constant was moved: `lab sensitivity`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct LabSensitivity {
    /// `sensitivity`.
    pub(crate) lab: String,
    /// Constants.
    pub(crate) constants: usize,
    /// Rows that moved.
    pub(crate) moves: usize,
    /// Constants that move no row.
    pub(crate) idle: Vec<String>,
}

/// A report's models give the same again: `lab verify`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct LabVerify {
    /// `verify`.
    pub(crate) lab: String,
    /// Experiments that ran again.
    pub(crate) experiments: usize,
    /// Rows of the report.
    pub(crate) rows: usize,
    /// Rows with a measurement, which is of one machine and was not repeated.
    pub(crate) measured: usize,
    /// Whether the report is of this very program.
    pub(crate) same_program: bool,
}

/// What decides each row: `lab audit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct LabAudit {
    /// `audit`.
    pub(crate) lab: String,
    /// The file; `null` where none was asked for.
    pub(crate) file: Option<PathBuf>,
    /// Rows that compare something.
    pub(crate) rows: usize,
    /// Rows that differ from the findings that come with the program.
    pub(crate) changed: Vec<String>,
}

/// What was foretold: `lab predictions`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct LabPredictions {
    /// `predictions`.
    pub(crate) lab: String,
    /// The hash of this program's models.
    pub(crate) model: String,
    /// The hash of its machines' constants.
    pub(crate) constants: String,
    /// How many came true, failed, were void, or were known.
    pub(crate) summary: BTreeMap<String, usize>,
    /// By name.
    pub(crate) predictions: BTreeMap<String, Foretold>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Foretold {
    /// What is foretold.
    pub(crate) says: String,
    /// Where it is from.
    pub(crate) from: String,
    /// What came of it when it ran first.
    pub(crate) outcome: Fulfilment,
    /// What the model gives now; `null` unless asked for.
    pub(crate) now: Option<Fulfilment>,
}

/// This machine's constants: `lab calibrate`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Calibrated {
    /// What the machine is called in experiments.
    pub(crate) name: String,
    /// What it is.
    pub(crate) title: String,
    /// Its constants.
    pub(crate) constants: BTreeMap<String, CalibratedConstant>,
}

/// A constant of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct CalibratedConstant {
    /// The number.
    pub(crate) value: f64,
    /// Its unit.
    pub(crate) unit: String,
    /// What measured it.
    pub(crate) source: Option<String>,
    /// The published number that it was calibrated on.
    pub(crate) anchor: Option<String>,
    /// Why it was assumed.
    pub(crate) assumed: Option<String>,
    /// Why it is as it is.
    pub(crate) why: Option<String>,
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
