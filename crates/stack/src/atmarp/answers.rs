//! What a server has to say, until its interface takes it: within bounds, with a share for each circuit.

use crate::shares::Shares;
use std::collections::BTreeMap;
use wire::atmarp::Packet;

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queued {
    /// It waits.
    Taken,
    /// It waits, and another circuit's last packet was dropped for it.
    Displaced,
    /// It was not taken: no circuit has at least two more that wait.
    Refused,
}

/// Packets in their order, and how many wait for each circuit.
#[derive(Debug)]
pub(super) struct Answers {
    queue: BTreeMap<u64, (u32, Packet)>,
    shares: Shares<u64>,
    next: u64,
    max: usize,
}

impl Answers {
    pub(super) fn new(max: usize) -> Self {
        Answers { queue: BTreeMap::new(), shares: Shares::default(), next: 0, max }
    }

    pub(super) fn push(&mut self, circuit: u32, packet: Packet) -> Queued {
        let is_full = self.queue.len() >= self.max;
        if is_full && !self.makes_room(circuit) {
            return Queued::Refused;
        }
        self.queue.insert(self.next, (circuit, packet));
        self.shares.insert(circuit, self.next);
        self.next += 1;
        if is_full { Queued::Displaced } else { Queued::Taken }
    }

    fn makes_room(&mut self, circuit: u32) -> bool {
        let Some(most) = self.shares.who_yields(circuit) else { return false };
        let Some(last) = self.shares.entries(most).next_back() else { return false };
        self.shares.remove(most, last);
        self.queue.remove(&last).is_some()
    }

    pub(super) fn pop(&mut self) -> Option<(u32, Packet)> {
        let (number, (circuit, packet)) = self.queue.pop_first()?;
        self.shares.remove(circuit, number);
        Some((circuit, packet))
    }

    /// Drops all for a circuit; gives how many there were.
    pub(super) fn forget(&mut self, circuit: u32) -> u64 {
        let gone = self.shares.forget(circuit);
        self.queue.retain(|number, _| !gone.contains(number));
        gone.len() as u64
    }
}
