//! What `bench am` prints with `--json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `bench am`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchAm {
    /// The benchmark's name.
    pub(crate) bench: String,
    /// Runs of each case; medians are given.
    pub(crate) runs: usize,
    /// Round trips of a run.
    pub(crate) trips: usize,
    /// Processors of the two threads.
    pub(crate) processors: Vec<usize>,
    /// What a round trip's ratio to the endpoint's is to stay below.
    pub(crate) goal_vs_raw: f64,
    /// A row for each path.
    pub(crate) rows: Vec<AmRow>,
}

/// Active Messages of one cell on one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AmRow {
    /// The path.
    pub(crate) path: String,
    /// Octets of a message.
    pub(crate) octets: usize,
    /// Round trip of a request and its reply.
    pub(crate) rtt_ns: f64,
    /// Round trip of as many octets by the endpoint itself.
    pub(crate) raw_rtt_ns: f64,
    /// The one divided by the other: the middle of the runs' ratios.
    pub(crate) rtt_vs_raw: f64,
    /// Whether the goal is reached.
    pub(crate) reaches_goal: bool,
    /// LogP's o of a sender: processor time of a request.
    pub(crate) send_ns: f64,
    /// LogP's o of a receiver: processor time of a reply that has come, its handler included.
    pub(crate) receive_ns: f64,
    /// LogP's L: half a round trip less both.
    pub(crate) latency_ns: f64,
    /// LogP's g: from one message of a flood to the next.
    pub(crate) gap_ns: f64,
}
