//! Links and nodes by name, and what a link is made of.

use crate::fault::FaultConfig;
use crate::line::{Carries, LineCounters};
use std::time::Duration;
use wire::{CellRate, Vpi};

/// A node of a network. Not reused after the node is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// A link of a network. Not reused after the link is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl LinkId {
    /// Of a link that is not there, and never will be.
    pub const GONE: LinkId = LinkId { index: u32::MAX, generation: u32::MAX };
}

/// What is at an end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// A port of a node.
    Port(NodeId, u16),
    /// A shell that moves cells or frames in and out through [`crate::Network::external`].
    External,
    /// Nothing: the far end of a loose cable ([`crate::Network::hang`]).
    Nowhere,
}

/// A link's properties, the same in both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// Cells or frames.
    pub carries: Carries,
    /// Cells each second, or as fast as memory is.
    pub rate: Option<CellRate>,
    /// From one end to the other, beyond the time that sending takes.
    pub delay: Duration,
    /// Cells (or frames) that wait at the sender at most, and as many at the receiver.
    pub queue_cells: usize,
    /// Faults on purpose.
    pub faults: Option<FaultConfig>,
    /// Whether the far end outside the process understands credit cells ([`wire::credit`]) and the way there keeps the
    /// order of cells.
    pub peer_takes_credits: bool,
    /// By how much the far end outside the process lets cells come together, for its own scheduling and that of the
    /// system between: the tolerance of contracts that come in from there grows by it. It is no part of a delay that is
    /// promised.
    pub tolerance: Duration,
    /// The largest VPI that its cell headers hold: 255 where they are the UNI's (I.361).
    pub max_vpi: Vpi,
    /// The part of the link that calls have; circuits of a description take none of it.
    pub calls: Option<CallShare>,
}

/// The part of a link that belongs to calls: labels, and cells each second in either direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallShare {
    /// The virtual path of their labels.
    pub vpi: Vpi,
    /// The first and the last VCI.
    pub vcis: [u16; 2],
    /// What they may be promised; `None`: all that the link can have, which then has no rate.
    pub rate: Option<CellRate>,
}

impl LinkConfig {
    /// What of the rate is left for circuits of a description.
    pub fn rate_for_circuits(&self) -> Option<CellRate> {
        let calls = self.calls.and_then(|calls| calls.rate).map_or(0.0, |rate| rate.cells_per_s());
        // A rate is never zero: a share of all leaves one cell in a long time, which is less than any circuit asks for.
        self.rate.map(|rate| CellRate::from_cells_per_s((rate.cells_per_s() - calls).max(1e-3)).unwrap_or(rate))
    }
}

impl Default for LinkConfig {
    /// An unlimited cell link with a queue of 4096 cells.
    fn default() -> Self {
        LinkConfig {
            carries: Carries::Cells,
            rate: None,
            delay: Duration::ZERO,
            queue_cells: 4096,
            faults: None,
            peer_takes_credits: false,
            tolerance: Duration::ZERO,
            max_vpi: Vpi::MAX,
            calls: None,
        }
    }
}

/// Why two ends cannot be connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The node is not there.
    #[error("no such node")]
    NoNode,
    /// A port has one link at most.
    #[error("port {0} has a link already")]
    PortInUse(u16),
    /// Both ends are outside.
    #[error("a link needs a node at one end at least")]
    NoNodeAtAll,
}

/// What [`crate::Network::links`] tells of a link.
#[derive(Debug)]
pub struct LinkInfo<'a> {
    /// Its name in calls.
    pub id: LinkId,
    /// What it joins, A first.
    pub ends: [End; 2],
    /// As it was connected.
    pub config: &'a LinkConfig,
    /// Whether it passes anything.
    pub up: bool,
    /// Whether it may: as [`crate::Network::set_link_up`] has it.
    pub enabled: bool,
    /// Counters of the direction from A to B.
    pub from_a: LineCounters,
    /// Counters of the direction from B to A.
    pub from_b: LineCounters,
}
