//! What `explain` and `drops` print with `--json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::DropReason;

/// A reason to drop, explained: `explain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedReason {
    /// Its name in `status`, metrics and JSON.
    pub reason: String,
    /// What it means.
    pub meaning: String,
    /// What one can do about it.
    pub cure: String,
}

impl From<DropReason> for ExplainedReason {
    fn from(reason: DropReason) -> Self {
        ExplainedReason {
            reason: reason.name().to_owned(),
            meaning: reason.meaning().to_owned(),
            cure: reason.cure().to_owned(),
        }
    }
}

/// What was dropped at a place of a circuit or link in one direction, for one reason: `drops`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dropped {
    /// What dropped it: a host, a port of a switch, a link (with its socket), an endpoint, an adapter.
    pub place: String,
    /// The circuit's name; `null` where the place counts no circuits.
    pub circuit: Option<String>,
    /// Which way it went: `from_a` or `from_b` on a link; `sent` or `received` at an end; `forward` or `backward` of a
    /// circuit at a switch; `through` at a port.
    pub direction: String,
    /// Why: a name that `explain` knows.
    pub reason: String,
    /// How many cells or PDUs: since the network began, or with `--follow` since the line before.
    pub count: u64,
}
