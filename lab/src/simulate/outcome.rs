//! What came of a simulation: for each source, each place where something was dropped, and each expectation.

use schemars::JsonSchema;
use serde::Serialize;

/// A simulation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Outcome {
    /// The seed of all that is random.
    pub seed: u64,
    /// Virtual time that passed, in seconds.
    pub seconds: f64,
    /// What happened on all links, as a hash: the same whenever the seed is.
    pub trace: String,
    /// Cells and frames on links.
    pub carried: u64,
    /// By source.
    pub sources: Vec<SourceOutcome>,
    /// What links and switches dropped.
    pub dropped: Vec<DroppedAt>,
    /// What was expected.
    pub expectations: Vec<ExpectationOutcome>,
}

/// What came of a source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct SourceOutcome {
    /// Its name.
    pub source: String,
    /// The end of a circuit that it sent from.
    pub from: String,
    /// The circuit's service category.
    pub category: String,
    /// SDUs that it sent.
    pub sent: u64,
    /// SDUs that it could not send: its host was behind, or the circuit was not there.
    pub refused: u64,
    /// SDUs that arrived at every other end of the circuit.
    pub received: u64,
    /// SDUs that did not.
    pub lost: u64,
    /// Their cells.
    pub lost_cells: u64,
    /// Octets of SDUs that arrived, each second of the scenario, in bits.
    pub bits_per_s: f64,
    /// From sending to the last arrival, in seconds; `null` if none arrived.
    pub delay_s: Option<Delay>,
}

/// Delays of SDUs, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Delay {
    /// The shortest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// Of a hundred SDUs, 99 had no longer one.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// What was dropped at a place for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DroppedAt {
    /// A link, or a switch and its port.
    pub place: String,
    /// `from_a` or `from_b` of a link, `through` a port.
    pub direction: String,
    /// Why: a name that `cellway explain` knows.
    pub reason: String,
    /// Cells, or frames.
    pub count: u64,
}

/// What came of an expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExpectationOutcome {
    /// What was expected.
    pub says: String,
    /// Whether it is so.
    pub met: bool,
    /// What was found.
    pub found: String,
}
