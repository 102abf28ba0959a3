//! All that a report is made of, and how a field of it is written as CSV.

use super::provenance::Provenance;
use ::lab::experiment::ExperimentOutcome;
use serde::{Deserialize, Serialize};

/// All that a report is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Data {
    pub(super) seed: u64,
    pub(super) quick: bool,
    /// The machine at hand, and what else it had to do; not in a run without measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) measured_on: Option<String>,
    /// Program and machines; not in a report of an older program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) provenance: Option<Provenance>,
    pub(super) outcomes: Vec<ExperimentOutcome>,
}

/// A field of CSV (RFC 4180).
pub(super) fn field(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
