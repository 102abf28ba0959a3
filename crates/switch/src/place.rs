//! Where accepted cells go: out at once if nothing waits before them, else into their circuit's queue.

use crate::circuit::{NONE, ends_pdu, flag};
use crate::forward::count_cells;
use crate::{CellPlane, Outputs};
use wire::{Cell, DropReason};

impl CellPlane {
    /// Sends or queues accepted cells of one circuit. `tag` is the CLP bit to be set.
    #[inline]
    pub(crate) fn place(&mut self, id: u32, cells: &[Cell], tag: u32, outputs: &mut impl Outputs) {
        let circuit = &self.circuits[id as usize];
        let idle = self.ports[usize::from(circuit.port)].is_idle() && circuit.queued == 0;
        let paced = || self.profiles.get(circuit.profile).shape.is_some_and(|shape| shape.is_paced());
        let passed = match idle && !(self.contract_of(id).is_some() && paced()) {
            true => self.cut_through(id, cells, tag, outputs),
            false => 0,
        };
        if passed < cells.len() {
            self.enqueue(id, &cells[passed..], tag);
        }
    }

    /// Copies cells to the port's link as far as it has room, and says how many.
    #[inline]
    pub(crate) fn cut_through(&mut self, id: u32, cells: &[Cell], tag: u32, outputs: &mut impl Outputs) -> usize {
        let mut passed = self.fill_slots(id, cells, tag, outputs);
        if passed > 0 && passed < cells.len() {
            // The link may go on at the beginning of its ring. One cell in a queue would send all behind it there.
            passed += self.fill_slots(id, &cells[passed..], tag, outputs);
        }
        passed
    }

    /// Copies cells to the slots that the port's link has side by side.
    #[inline]
    fn fill_slots(&mut self, id: u32, cells: &[Cell], tag: u32, outputs: &mut impl Outputs) -> usize {
        let circuit = &mut self.circuits[id as usize];
        let slots = outputs.slots(circuit.port);
        let n = slots.len().min(cells.len());
        if n == 0 {
            return 0;
        }
        let (label, kept) = (circuit.label | tag, circuit.kept_bits());
        let mut pdus = 0;
        for (slot, cell) in slots.iter_mut().zip(&cells[..n]) {
            let word = cell.header_word();
            slot.copy_as(cell, label | word & kept);
            pdus += u64::from(ends_pdu(word));
        }
        if let Some(last) = cells[..n].iter().rev().map(Cell::header_word).find(|word| word & 8 == 0) {
            circuit.sent_part = !ends_pdu(last);
        }
        outputs.commit_pdus(circuit.port, n, pdus);
        count_cells(&mut self.ports[usize::from(circuit.port)].counters.sent, n as u64, pdus);
        n
    }

    /// Appends cells to their circuit's queue.
    #[inline]
    pub(crate) fn enqueue(&mut self, id: u32, cells: &[Cell], tag: u32) {
        let circuit = &mut self.circuits[id as usize];
        let port = &mut self.ports[usize::from(circuit.port)];
        for cell in cells {
            let Some(at) = self.store.put(cell, circuit.translate(cell.header_word()) | tag) else {
                // The bounds of ports and windows add up to the store's, so that this does not happen.
                circuit.dropped = circuit.dropped.wrapping_add(1);
                port.counters.sent.drop_one(DropReason::QueueFull);
                continue;
            };
            match circuit.queued {
                0 => circuit.head = at,
                _ => self.store.link(circuit.tail, at),
            }
            circuit.tail = at;
            circuit.queued += 1;
            if circuit.is(flag::CREDIT) {
                port.held += 1;
            } else if circuit.is_management(cell.header_word()) {
                port.management.queue(circuit);
            } else {
                port.used += 1;
            }
        }
        let mut paced = false;
        let managed = circuit.is(flag::MANAGED) && !circuit.is(flag::CREDIT) && circuit.side != NONE;
        let shape = self.profiles.get(circuit.profile).shape.filter(|_| managed && circuit.queued > 0);
        if let Some(shape) = shape {
            paced = shape.is_paced();
            port.ready += u32::from(self.contracts.note_backlog(circuit.side, &shape, self.now));
        }
        let circuit = &mut self.circuits[id as usize];
        if circuit.queued > 0 && !paced && !circuit.is(flag::LISTED) && !circuit.is(flag::CREDIT) {
            let port = &mut self.ports[usize::from(circuit.port)];
            circuit.flags |= flag::LISTED;
            port.classes[self.profiles.get(circuit.profile).class as usize].queue.push(&mut self.pool, id);
            port.ready += 1;
        }
    }
}
