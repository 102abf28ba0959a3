//! The engine's threads: sums, and each shard.

use super::harvest::EngineCounts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One of the engine's threads, and what it carries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShardStatus {
    /// Stations in it, by name.
    pub stations: Vec<String>,
    /// Share of the time in which its thread did not sleep.
    pub busy_share: f64,
    /// Rounds over its stations.
    pub rounds: u64,
    /// Sleeps of its thread.
    pub sleeps: u64,
    /// Processor time of its longest round, in seconds.
    pub longest_round_s: f64,
    /// The same of the last one to two minutes.
    pub longest_recent_round_s: f64,
    /// Buffers of frames in use.
    pub frames_in_use: usize,
    /// Buffers of frames that there are.
    pub frames: usize,
}

/// The threads that carry everything: sums over the shards, and the longest of each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineStatus {
    /// Since it began, in seconds.
    pub uptime_s: f64,
    /// Share of that in which it did not sleep: the mean of the shards.
    pub busy_share: f64,
    /// Rounds over the network.
    pub rounds: u64,
    /// Sleeps.
    pub sleeps: u64,
    /// Commands that it has carried out between rounds.
    pub commands: u64,
    /// Processor time of the longest of them, in seconds; of one that is carried out in slices, of its longest slice.
    pub longest_command_s: f64,
    /// Processor time of the longest round, with the command or the slice before it, in seconds.
    #[serde(default)]
    pub longest_round_s: f64,
    /// What most of that round was: `network` (running it), or the part of the program whose command or slice came
    /// before, such as `change`, `status`, `service`, `calls` or `capture`.
    #[serde(default)]
    pub longest_round_work: String,
    /// The same of the last one to two minutes.
    #[serde(default)]
    pub longest_recent_round_s: f64,
    /// Buffers of frames in use.
    pub frames_in_use: usize,
    /// Buffers of frames that there are.
    pub frames: usize,
    /// Each shard, where there are several (`[engine] shards`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardStatus>,
    /// Lines of the daemon's log that were dropped, because nobody read those before them.
    #[serde(default)]
    pub log_lines_dropped: u64,
}

/// As counted.
pub(super) fn status(counts: &EngineCounts) -> EngineStatus {
    let (uptime, stats) = (counts.uptime_s, counts.stats);
    let busy = |slept: Duration, threads: usize| {
        let share: f64 = 1.0 - slept.as_secs_f64() / (uptime * threads as f64);
        if uptime > 0.0 { share.clamp(0.0, 1.0) } else { 0.0 }
    };
    let frames = |which: usize| counts.shards.iter().map(|(_, frames)| frames[which]).sum();
    let shard = |(number, (stats, frames)): (usize, &(host::engine::EngineStats, [usize; 2]))| ShardStatus {
        stations: counts.stations.iter().filter(|(_, s)| *s == number).map(|(name, _)| name.clone()).collect(),
        busy_share: busy(stats.slept, 1),
        rounds: stats.rounds,
        sleeps: stats.sleeps,
        longest_round_s: stats.longest_round.as_secs_f64(),
        longest_recent_round_s: stats.longest_round_lately.as_secs_f64(),
        frames_in_use: frames[0],
        frames: frames[1],
    };
    let several = counts.shards.len() > 1;
    EngineStatus {
        uptime_s: uptime,
        busy_share: busy(stats.slept, counts.shards.len().max(1)),
        rounds: stats.rounds,
        sleeps: stats.sleeps,
        commands: stats.commands,
        longest_command_s: stats.longest_command.as_secs_f64(),
        longest_round_s: stats.longest_round.as_secs_f64(),
        longest_round_work: stats.longest_round_work.to_owned(),
        longest_recent_round_s: stats.longest_round_lately.as_secs_f64(),
        frames_in_use: frames(0),
        frames: frames(1),
        shards: counts.shards.iter().enumerate().filter(|_| several).map(shard).collect(),
        log_lines_dropped: crate::lines::dropped(),
    }
}
