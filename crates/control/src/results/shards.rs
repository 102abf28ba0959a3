//! What `cellway bench shards` prints with `--json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `bench shards`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchShards {
    /// The benchmark's name.
    pub bench: String,
    /// The processor, as the machine names it.
    pub processor: Option<String>,
    /// Runs of each case; medians are given.
    pub runs: usize,
    /// Length of a run.
    pub run_seconds: f64,
    /// One cell to another shard and back, both threads awake: half of a round trip, in nanoseconds.
    pub crossing_ns: f64,
    /// Streams of cells over one link.
    pub streams: Vec<StreamRow>,
    /// A switch with its load in each shard, a thread for each.
    pub switches: Vec<ScaleRow>,
    /// Pairs of applications, each with two hosts and a switch of its own.
    pub pairs: Vec<PairRow>,
}

/// Cells over one link, within a shard and between two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamRow {
    /// Cells that the link's queue holds.
    pub queue_cells: usize,
    /// Nanoseconds for each cell within one shard, of one thread.
    pub within_ns: f64,
    /// The same between two shards of two threads.
    pub across_ns: f64,
}

/// How much more two threads do than one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleRow {
    /// Shards at work.
    pub shards: usize,
    /// Cells switched each second, in sum.
    pub cells_per_s: f64,
    /// Cells copied each second by as many threads, in sum.
    pub copy_cells_per_s: f64,
    /// The switches' rate to that of one shard.
    pub scale: f64,
    /// The copies' rate to that of one thread.
    pub copy_scale: f64,
}

/// Pairs of applications that flood circuits with credits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PairRow {
    /// Pairs.
    pub pairs: usize,
    /// Shards of the network.
    pub shards: usize,
    /// Whether each shard has a processor of its own, on which its pair stays too; the system places them otherwise.
    pub placed: bool,
    /// Octets of a PDU.
    pub pdu_octets: usize,
    /// PDUs a second, in sum.
    pub pdus_per_s: f64,
    /// The same to that of one pair in one shard.
    pub vs_one_pair: f64,
    /// The largest share that was lost in a run.
    pub lost_share: f64,
}
