//! Whether each cell is accounted for: what came in, what was made of it, where it went.

use crate::Switch;
use crate::circuit::flag;
use crate::port::PortCounters;

/// What became of all cells of a switch, ports that are no more included. Counters wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    /// What was counted at all ports.
    pub ports: PortCounters,
    /// Cells of point-to-multipoint circuits for leaves beyond the first.
    pub copied: u64,
    /// Cells that wait, as the ports count them.
    pub queued: u64,
    /// The same, as the circuits count them.
    pub queued_of_circuits: u64,
    /// The same, as the store of cells counts them.
    pub stored: u64,
    /// Cells of the switch's own that wait.
    pub own: u64,
}

impl Sums {
    /// Whether each cell is accounted for: received, copied or made; and sent, waiting, ended here or dropped for a
    /// reason.
    pub fn add_up(&self) -> bool {
        let PortCounters { received, sent, ended, made } = &self.ports;
        let came = received.cells.wrapping_add(self.copied).wrapping_add(*made);
        let went = [received.dropped_total(), *ended, sent.cells, sent.dropped_total(), self.queued, self.own];
        came == went.into_iter().fold(0, u64::wrapping_add)
            && self.queued == self.queued_of_circuits
            && self.queued == self.stored
    }
}

impl Switch {
    /// Cells of point-to-multipoint circuits for leaves beyond the first, so far. It wraps.
    pub fn copied(&self) -> u64 {
        self.plane.copied
    }

    /// Whether there are point-to-multipoint circuits.
    pub fn copies(&self) -> bool {
        self.plane.roots.len() > self.plane.free_roots.len()
    }

    /// What became of all cells. It looks at each circuit: for tests.
    pub fn sums(&self) -> Sums {
        let plane = &self.plane;
        let mut sums = Sums {
            ports: plane.gone,
            copied: plane.copied,
            queued: 0,
            queued_of_circuits: 0,
            stored: plane.store.len() as u64,
            own: 0,
        };
        for port in plane.ports.iter() {
            sums.ports.add(&port.counters);
            sums.queued += u64::from(port.used + port.held + port.management.waiting());
            sums.own += port.control.len() as u64;
        }
        let live = plane.circuits.iter().filter(|circuit| circuit.is(flag::LIVE));
        sums.queued_of_circuits = live.map(|circuit| u64::from(circuit.queued)).sum();
        sums
    }
}
