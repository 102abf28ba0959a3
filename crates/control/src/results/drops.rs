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
    /// The element that dropped it: a host, a port of a switch, a link, an endpoint, a socket.
    pub place: String,
    /// The circuit as its ends are written, or the VPI and VCI; `null` where the place does not know it.
    pub circuit: Option<String>,
    /// Which way it went: `from_a`, `from_b` on a link; `sent`, `received` at an end.
    pub direction: String,
    /// Why: a name that `explain` knows.
    pub reason: String,
    /// How many cells or PDUs: since the network began, or with `--follow` since the line before.
    pub count: u64,
    /// The first octets of the last one, in hexadecimal digits; `null` where they are not known.
    pub head: Option<String>,
}
