//! Circuits on which SDUs come to a device: each with its reassembly, and with what the device keeps for it.

use sar::{Event, Reassembler, ReassemblyConfig};
use wire::{Cell, CircuitId, DropReason, Time};

#[derive(Debug)]
struct Circuit<T> {
    id: CircuitId,
    reassembler: Reassembler,
    sdu: Vec<u8>,
    own: T,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Incoming<T> {
    circuits: Vec<Circuit<T>>,
    most: usize,
}

impl<T> Incoming<T> {
    /// No circuits, and room for `most`.
    pub(super) fn new(most: usize) -> Self {
        Incoming { circuits: Vec::new(), most }
    }

    /// A circuit exists from now on, as far as there is room, or exists no more.
    pub(super) fn set_circuit(&mut self, id: CircuitId, exists: bool, own: impl FnOnce() -> T) {
        if !exists {
            self.circuits.retain(|circuit| circuit.id != id);
        } else if self.circuits.len() < self.most && self.circuits.iter().all(|circuit| circuit.id != id) {
            let (reassembler, sdu) = (Reassembler::new(ReassemblyConfig::default()), vec![0; SDU_OCTETS + 48]);
            self.circuits.push(Circuit { id, reassembler, sdu, own: own() });
        }
    }

    /// Cells have come: `take` gets each whole SDU, and the reason of each that failed. Cells of no circuit of the
    /// device: how many.
    pub(super) fn handle_cells(
        &mut self,
        mut cells: &[Cell],
        now: Time,
        mut take: impl FnMut(CircuitId, &mut T, Result<&[u8], DropReason>),
    ) -> u64 {
        let mut unknown = 0;
        while let Some(first) = cells.first() {
            let id = first.circuit();
            let run = cells.iter().take_while(|cell| cell.circuit() == id).count();
            let (mut run, rest) = cells.split_at(run);
            cells = rest;
            let Some(circuit) = self.circuits.iter_mut().find(|circuit| circuit.id == id) else {
                unknown += run.len() as u64;
                continue;
            };
            while !run.is_empty() {
                let step = circuit.reassembler.push(run, &mut circuit.sdu, now);
                run = &run[step.cells_used..];
                match step.event {
                    Event::NeedMore => {}
                    Event::Failed(reason) => take(id, &mut circuit.own, Err(reason)),
                    Event::Complete { sdu_octets, .. } => take(id, &mut circuit.own, Ok(&circuit.sdu[..sdu_octets])),
                }
            }
        }
        unknown
    }
}

/// Octets of an SDU at most.
const SDU_OCTETS: usize = wire::aal5::MAX_SDU_OCTETS;
