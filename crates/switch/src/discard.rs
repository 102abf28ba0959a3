//! Discard by policy: cells of low priority, whole PDUs of circuits with more than their share of the queue, rests of
//! PDUs. `docs/switch.md` publishes these rules.

use crate::circuit::{Circuit, Frame, ends_pdu, flag};
use crate::forward::{Admission, admit_all, admit_cell};
use crate::policy::Discard;
use crate::port::Port;
use crate::profile::Profile;
use crate::{CellPlane, Outputs};
use wire::{Cell, DropReason};

impl CellPlane {
    /// Accepts or drops cells of a circuit with a contract or a policy: together where the port's queue is so short
    /// that no policy asks for any of them, else one by one.
    pub(crate) fn admit_managed(&mut self, id: u32, cells: &[Cell], tag: u32, outputs: &mut impl Outputs) {
        let circuit = &mut self.circuits[id as usize];
        let port = &mut self.ports[usize::from(circuit.port)];
        let profile = self.profiles.get(circuit.profile);
        let calm = profile.calm_cells().is_some_and(|most| port.used + cells.len() as u32 <= most);
        if calm && admit_all(circuit, port, profile, cells) {
            self.place(id, cells, tag, outputs);
            return;
        }
        for cell in cells {
            let circuit = &mut self.circuits[id as usize];
            let port = &mut self.ports[usize::from(circuit.port)];
            let profile = self.profiles.get(circuit.profile);
            let word = cell.header_word() | tag;
            match admit_by_policy(circuit, port, profile, word) {
                Admission::Accepted => {
                    let congested = word & 8 == 0 && profile.congestion_cells.is_some_and(|most| port.used >= most);
                    // EFCI: the middle bit of the payload type of user data (I.361).
                    self.place(id, std::slice::from_ref(cell), tag | u32::from(congested) << 2, outputs);
                }
                Admission::Dropped(reason) => {
                    circuit.dropped = circuit.dropped.wrapping_add(1);
                    port.counters.sent.drop_one(reason);
                    self.count_early(id, reason);
                }
                Admission::Ignored => self.ignore(id),
            }
        }
    }

    /// Counts for its circuit what was dropped of PDUs by EPD and PPD.
    pub(crate) fn count_early(&mut self, id: u32, reason: DropReason) {
        if !matches!(reason, DropReason::EarlyDiscard | DropReason::PartialDiscard) {
            return;
        }
        if let Some(side) = self.contract_of(id) {
            let early = &mut self.contracts.tally_mut(side).early;
            *early = early.wrapping_add(1);
        }
    }
}

/// Decides about one cell.
fn admit_by_policy(circuit: &mut Circuit, port: &mut Port, profile: &Profile, word: u32) -> Admission {
    let of_pdus = circuit.is(flag::PDUS) && word & 8 == 0;
    let asks = if of_pdus { circuit.frame == Frame::Between } else { word & 8 == 0 };
    if asks && port.up {
        let low = word & 1 != 0 && profile.low_priority_cells.is_some_and(|most| port.used >= most);
        let waiting = port.ready;
        let share = !of_pdus || profile.discard.allows(circuit.data_queued().into(), waiting, port.used, port.limit);
        if low || !share {
            if of_pdus && !ends_pdu(word) {
                circuit.frame = Frame::Dropped;
            }
            return Admission::Dropped(if of_pdus { DropReason::EarlyDiscard } else { DropReason::QueueFull });
        }
    }
    if of_pdus && profile.discard == Discard::Partial {
        return admit_partial(circuit, port, profile, word);
    }
    admit_cell(circuit, port, profile, word)
}

/// Decides about one cell of a PDU without room kept for it.
fn admit_partial(circuit: &mut Circuit, port: &Port, profile: &Profile, word: u32) -> Admission {
    let end = ends_pdu(word);
    let full = if port.up { DropReason::QueueFull } else { DropReason::LinkDown };
    let space = port.up && port.committed() < port.limit_of(profile) && circuit.has_room(1, profile.queue_cells);
    let (next, admission) = match (circuit.frame, end) {
        (Frame::NotYet, end) => (if end { Frame::Between } else { Frame::NotYet }, Admission::Ignored),
        (Frame::Dropped, end) => {
            let next = if end { Frame::Between } else { Frame::Dropped };
            (next, Admission::Dropped(DropReason::PartialDiscard))
        }
        (Frame::Between | Frame::Accepted, end) if space => {
            (if end { Frame::Between } else { Frame::Accepted }, Admission::Accepted)
        }
        // Nothing of it has been sent, so that nothing has to be ended.
        (Frame::Between, end) => (if end { Frame::Between } else { Frame::Dropped }, Admission::Dropped(full)),
        (Frame::Accepted, _) => (Frame::Cut, Admission::Dropped(full)),
        (Frame::Cut, true) if space => (Frame::Between, Admission::Accepted),
        (Frame::Cut, _) => (Frame::Cut, Admission::Dropped(DropReason::PartialDiscard)),
    };
    circuit.frame = next;
    admission
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circuit_has_no_more_than_its_share_beyond_the_threshold() {
        let selective = Discard::Selective { threshold: 50, percent: 80 };
        assert!(selective.allows(50, 2, 50, 100));
        // Beyond it, four circuits with 60 cells have 15 each in the mean: 12 are 80 %.
        assert!(selective.allows(12, 4, 60, 100));
        assert!(!selective.allows(13, 4, 60, 100));
        let fair = Discard::Fair { threshold: 50, percent: 80 };
        // At 60 of 100 cells with 50 as the threshold the share is five times as large, when full it is the same.
        assert!(fair.allows(60, 4, 60, 100));
        assert!(!fair.allows(61, 4, 60, 100));
        assert!(fair.allows(20, 4, 100, 100));
        assert!(!fair.allows(21, 4, 100, 100));
    }
}
