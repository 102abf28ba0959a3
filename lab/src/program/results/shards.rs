//! What `cellway-lab bench shards` prints with `--json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `bench shards`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchShards {
    /// The benchmark's name.
    pub(crate) bench: String,
    /// The processor, as the machine names it.
    pub(crate) processor: Option<String>,
    /// Runs of each case; medians are given.
    pub(crate) runs: usize,
    /// Length of a run.
    pub(crate) run_seconds: f64,
    /// One cell to another shard and back, both threads awake: half of a round trip, in nanoseconds.
    pub(crate) crossing_ns: f64,
    /// Streams of cells over one link.
    pub(crate) streams: Vec<StreamRow>,
    /// A switch with its load in each shard, a thread for each.
    pub(crate) switches: Vec<ScaleRow>,
    /// Pairs of applications, each with two hosts and a switch of its own.
    pub(crate) pairs: Vec<PairRow>,
}

/// Cells over one link, within a shard and between two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamRow {
    /// Cells that the link's queue holds.
    pub(crate) queue_cells: usize,
    /// Nanoseconds for each cell within one shard, of one thread.
    pub(crate) within_ns: f64,
    /// The same between two shards of two threads.
    pub(crate) across_ns: f64,
}

/// How much more two threads do than one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScaleRow {
    /// Shards at work.
    pub(crate) shards: usize,
    /// Cells switched each second, in sum.
    pub(crate) cells_per_s: f64,
    /// Cells copied each second by as many threads, in sum.
    pub(crate) copy_cells_per_s: f64,
    /// The switches' rate to that of one shard.
    pub(crate) scale: f64,
    /// The copies' rate to that of one thread.
    pub(crate) copy_scale: f64,
}

/// Pairs of applications that flood circuits with credits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PairRow {
    /// Pairs.
    pub(crate) pairs: usize,
    /// Shards of the network.
    pub(crate) shards: usize,
    /// Whether each shard has a processor of its own, on which its pair stays too; the system places them otherwise.
    pub(crate) placed: bool,
    /// Octets of a PDU.
    pub(crate) pdu_octets: usize,
    /// PDUs a second, in sum.
    pub(crate) pdus_per_s: f64,
    /// The same to that of one pair in one shard.
    pub(crate) vs_one_pair: f64,
    /// The largest share that was lost in a run.
    pub(crate) lost_share: f64,
}
