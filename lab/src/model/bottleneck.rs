//! The congested port of [`super::ubr`]: the real switch of cells ([`switch::Switch`]) with a policy of discard, or a
//! model of a packet switch with a queue of as many octets.
//!
//! In: which policy, how many circuits, how long the queue and a PDU. Out: what left and what was dropped.

use std::collections::VecDeque;
use switch::{Discard, Profile, Switch, SwitchConfig, Transaction};
use wire::{CircuitId, Label};

/// The first connection's circuit.
pub(super) const FIRST_KEY: u32 = 64;

/// What happens where the bottleneck's queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// No switch of cells: packets are taken whole when their last octet has come, or dropped whole, in one queue of
    /// as many octets.
    Packets,
    /// Cells for which there is no room are dropped one by one.
    Plain,
    /// Partial packet discard.
    Partial,
    /// Early packet discard, with room kept for PDUs that have begun.
    Early,
    /// Early discard, and beyond half of the queue no PDU of a circuit with more than 80 % of the mean of all
    /// circuits that wait.
    Selective,
    /// Fair buffer allocation: as before, by a share that shrinks while the queue grows.
    Fair,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 6] =
        [Policy::Packets, Policy::Plain, Policy::Partial, Policy::Early, Policy::Selective, Policy::Fair];

    /// As figures call it.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Packets => "packet switch",
            Policy::Plain => "plain",
            Policy::Partial => "PPD",
            Policy::Early => "EPD",
            Policy::Selective => "selective discard",
            Policy::Fair => "fair buffer allocation",
        }
    }

    /// The profile of the connections' circuits in a switch with `queue` cells at the port, for PDUs of `cells`.
    fn profile(self, queue: u32, cells: u16) -> Profile {
        let (threshold, percent) = (queue / 2, 80);
        let discard = match self {
            Policy::Packets | Policy::Plain | Policy::Early => Discard::Whole,
            Policy::Partial => Discard::Partial,
            Policy::Selective => Discard::Selective { threshold, percent },
            Policy::Fair => Discard::Fair { threshold, percent },
        };
        // A queue of 16 384 cells is the bottleneck's own bound only.
        let queue_cells = u16::try_from(queue).unwrap_or(u16::MAX);
        Profile { pdu_cells: (self != Policy::Plain).then_some(cells), discard, queue_cells, ..Profile::default() }
    }
}

/// The congested port.
pub(super) enum Bottleneck {
    Cells(Box<Switch>),
    Packets(Packets),
}

/// Packets that wait for the line in the order in which they came, counted in the cells that carry them.
#[derive(Default)]
pub(super) struct Packets {
    waiting: VecDeque<(usize, Vec<u8>, usize)>,
    used: usize,
    limit: usize,
    /// Cells of the first that have left.
    sent: usize,
    dropped: u64,
}

impl Packets {
    /// A packet has come whole.
    pub(super) fn offer(&mut self, n: usize, pdu: &[u8], cells: usize) {
        if self.used + cells > self.limit {
            self.dropped += cells as u64;
            return;
        }
        self.used += cells;
        self.waiting.push_back((n, pdu.to_vec(), cells));
    }

    /// A cell time passes: whether the line carried something, and the packet whose last octet has left.
    pub(super) fn serve(&mut self) -> (bool, Option<(usize, Vec<u8>)>) {
        let Some((_, _, cells)) = self.waiting.front() else { return (false, None) };
        self.used -= 1;
        self.sent += 1;
        if self.sent < *cells {
            return (true, None);
        }
        self.sent = 0;
        (true, self.waiting.pop_front().map(|(n, pdu, _)| (n, pdu)))
    }
}

/// A circuit's label.
pub(super) fn circuit(n: usize) -> CircuitId {
    CircuitId::from_key(FIRST_KEY + n as u32)
}

impl Bottleneck {
    /// For so many circuits, a queue of so many cells and PDUs of `cells`; `None` if there is no place for so many
    /// circuits.
    pub(super) fn new(policy: Policy, connections: usize, queue: u32, cells: usize) -> Option<Self> {
        if policy == Policy::Packets {
            return Some(Bottleneck::Packets(Packets { limit: queue as usize, ..Packets::default() }));
        }
        let ports = u16::try_from(connections).ok()?;
        let config = SwitchConfig {
            ports: ports + 1,
            circuits: u32::from(ports) + 1,
            index_pages: 4 * u32::from(ports) + 4,
            queue_cells: queue,
            credit_cells: 0,
            ..SwitchConfig::default()
        };
        let mut switch = Box::new(Switch::new(config));
        let profile = policy.profile(queue, u16::try_from(cells).ok()?);
        let mut change = Transaction::new();
        for n in 0..ports {
            let label = Label::Vc(circuit(n.into()));
            change.add((n, label), (ports, label), &profile);
        }
        switch.apply(change).ok()?;
        Some(Bottleneck::Cells(switch))
    }

    /// Cells that were dropped.
    pub(super) fn dropped(&self, port: u16) -> u64 {
        match self {
            Bottleneck::Cells(switch) => switch.port_counters(port).sent.dropped_total(),
            Bottleneck::Packets(queue) => queue.dropped,
        }
    }
}
