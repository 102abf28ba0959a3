//! What `simulate` prints.

use ::lab::simulate::Outcome;
use schemars::JsonSchema;
use serde::Serialize;

/// A network in virtual time: `simulate`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Simulated(pub(crate) Outcome);
