//! What a port keeps for its sums beside its counters.

use super::layout::GENERATOR;
use crate::LanaiSums;
use wire::Counters;

/// What a port has counted beside what became of PDUs.
#[derive(Debug, Default)]
pub(super) struct PortSums {
    /// Frames that were taken off the link.
    pub(super) taken: u64,
    /// Of drops on the way out, those that the link has been told.
    pub(super) told: Counters,
    /// What interfaces of this port counted that a change of hosts or switches replaced.
    pub(super) former: LanaiSums,
    /// What had been taken, put on the link, and told to it when the link came.
    pub(super) before: [u64; 3],
}

/// Of counts by user interface, those of circuits.
pub(super) fn of_circuits(counts: &[u64]) -> u64 {
    counts.iter().enumerate().filter(|(interface, _)| *interface != GENERATOR).map(|(_, n)| n).sum()
}
