//! What a machine can and cannot do: `doctor`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// All checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Doctor {
    /// What was looked for.
    pub checks: Vec<Check>,
    /// Memory that a network takes.
    pub memory: Memory,
}

/// Something that was looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// What.
    pub check: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was found.
    pub found: String,
    /// What to do about it; `null` where nothing is to be done.
    pub cure: Option<String>,
}

/// Memory that a network takes, in octets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// Buffers of frames.
    pub frame_buffers_octets: usize,
    /// An endpoint with the default geometry.
    pub default_endpoint_octets: usize,
    /// Both queues of a link with the default `queue_cells`.
    pub link_queue_octets_each: usize,
    /// Memory that all users of a daemon in this control group have together, unless its description says otherwise.
    pub users_octets: u64,
    /// What bounds it.
    pub users_octets_from: String,
}
