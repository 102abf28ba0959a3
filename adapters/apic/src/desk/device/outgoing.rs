//! Cells of one SDU at a constant rate, in groups, on each circuit of a device in turn.
//!
//! A device that was kept waiting makes up for it, but on each circuit no faster than its contract allows, and with a
//! quarter of the contract's tolerance. The rest is left to what the cells meet before they are policed: on a busy machine
//! a group may wait on its way until the next ones have come.

use core::time::Duration;
use sar::{SduMeta, Segmentation};
use traffic::{Contract, Pacer};
use wire::{Cell, CircuitId, Time};

/// Circuits that a device sends on at most; others are not served.
pub(super) const MAX_CIRCUITS: usize = 64;
/// A device that is further behind than this goes on from now. What is due within it leaves as a burst, so that rounds of
/// a busy engine do not set the rate.
const MOST_BEHIND: Duration = Duration::from_millis(5);
/// Cells that are due within so long leave together: a wake-up for each of them would cost more than the cell.
pub(super) const GROUP: Duration = Duration::from_micros(500);

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    circuits: Vec<CircuitId>,
    /// What contracts allow, in the order of the circuits.
    paces: Vec<Option<Pacer>>,
    sdu: Vec<u8>,
    /// One for each circuit, for the SDU that is under way.
    parts: Vec<Segmentation>,
    /// The circuit whose cell is next.
    turn: usize,
    /// When the next cell is due.
    due: Time,
    pub(super) cells: u64,
}

impl Outgoing {
    pub(super) fn set_circuit(&mut self, circuit: CircuitId, exists: bool) {
        if !exists {
            if let Some(place) = self.place(circuit) {
                self.circuits.remove(place);
                self.paces.remove(place);
            }
            self.parts.retain(|part| part.circuit() != circuit);
        } else if !self.circuits.contains(&circuit) && self.circuits.len() < MAX_CIRCUITS {
            self.circuits.push(circuit);
            self.paces.push(None);
        }
    }

    /// What a circuit's cells keep to from now on.
    pub(super) fn set_contract(&mut self, circuit: CircuitId, contract: &Contract) {
        let own = Contract { cdvt: contract.cdvt / 4, ..*contract };
        if let Some(place) = self.place(circuit) {
            self.paces[place] = Pacer::of_contract(&own);
        }
    }

    fn place(&self, circuit: CircuitId) -> Option<usize> {
        self.circuits.iter().position(|own| *own == circuit)
    }

    fn pace(&self, part: &Segmentation) -> Option<&Pacer> {
        self.paces.get(self.place(part.circuit())?)?.as_ref()
    }

    pub(super) fn circuits(&self) -> usize {
        self.circuits.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.parts.iter().all(Segmentation::is_done)
    }

    /// When the next cell is due, if there is one.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let waiting = self.parts.iter().filter(|part| !part.is_done());
        // A group leaves before its time, as far as its circuit's contract lets it.
        let allowed = waiting.map(|part| self.pace(part).map_or(Time::ZERO, Pacer::next_time));
        Some(self.due.max(allowed.min()?))
    }

    /// Begins an SDU, no earlier than `from`, in the buffer that `write` fills.
    pub(super) fn begin(&mut self, from: Time, write: impl FnOnce(&mut Vec<u8>)) {
        self.sdu.clear();
        write(&mut self.sdu);
        let octets = self.sdu.len();
        self.parts.clear();
        // No circuits, or no octets: nothing is sent.
        let parts =
            self.circuits.iter().filter_map(|circuit| Segmentation::new(*circuit, octets, SduMeta::default()).ok());
        self.parts.extend(parts);
        (self.turn, self.due) = (0, self.due.max(from));
    }

    /// Cells that are due, and with them those of the same group; at most as many as fit.
    pub(super) fn poll_cells(&mut self, out: &mut [Cell], interval: Duration, now: Time) -> usize {
        if now.since(self.due) > MOST_BEHIND {
            self.due = now;
        }
        if self.due > now {
            return 0;
        }
        let mut n = 0;
        while n < out.len() && self.due < now + GROUP {
            let many = self.parts.len();
            let may =
                |part: &Segmentation| !part.is_done() && self.pace(part).is_none_or(|pace| pace.allowed(now, 1) > 0);
            let Some(part) = (0..many).map(|i| (self.turn + i) % many).find(|i| may(&self.parts[*i])) else {
                break;
            };
            let place = self.place(self.parts[part].circuit());
            n += self.parts[part].fill(&self.sdu, &mut out[n..n + 1]);
            if let Some(pace) = place.and_then(|place| self.paces[place].as_mut()) {
                pace.sent(1, now);
            }
            self.turn = part + 1;
            // All circuits have the rate each.
            self.due += interval / many as u32;
        }
        self.cells += n as u64;
        n
    }
}
