//! The papers' experiments. A new one: a type that implements [`Experiment`] and a line in [`ALL`].

use crate::experiment::Experiment;

mod adapters;
mod apic;
mod board;
mod clocks;
mod competition;
mod mechanisms;
mod myrinet;
pub(crate) mod networks;
mod pacing;
mod prediction;
mod seed000;
mod seed001;
mod seed002;
mod seed003;
mod seed004;
mod today;
mod ubr;
mod units;

/// All of them, by paper.
pub const ALL: &[&dyn Experiment] = &[
    &seed000::Arithmetic,
    &seed000::OneWay,
    &seed000::Loopback,
    &prediction::Prediction,
    &mechanisms::SingleCopy,
    &adapters::Adapters,
    &pacing::Pacing,
    &seed001::Pipeline,
    &seed001::Writes,
    &seed001::Polling,
    &competition::Competition,
    &seed002::Myrinet,
    &myrinet::Mechanisms,
    &apic::Apic,
    &networks::Networks,
    &seed003::Tables,
    &seed004::Capacity,
    &clocks::Clocks,
    &clocks::Region,
    &board::Board,
    &seed004::Latency,
    &seed004::Livelock,
    &seed004::Buffers,
    &ubr::TcpOverUbr,
];

/// One by name.
pub fn named(name: &str) -> Option<&'static dyn Experiment> {
    ALL.iter().copied().find(|e| e.name() == name)
}

/// The ones of shard `k` of `n` (1 to `n`): every `n`-th, so that neighbours, which take as long, are parted.
pub fn shard(k: usize, n: usize) -> impl Iterator<Item = &'static dyn Experiment> {
    ALL.iter().copied().skip(k.saturating_sub(1)).step_by(n.max(1))
}
