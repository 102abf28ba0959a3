//! Input Framer and Output Framer: between a link and the chip's clock.
//!
//! Cells of a network inside the process come without HEC: its links lose cells, and do not change headers. A link of
//! octets has [`InputFramer::handle_octets`], which checks and corrects as I.432.1 says, and [`to_octets`].

use std::collections::VecDeque;
use wire::hec::{self, Receiver, Verdict};
use wire::{Cell, CellHeader, CircuitId, Counters, DropReason};

/// Octets of a cell on a link.
pub const OCTETS: usize = wire::cell::CELL_OCTETS;

/// What has come at one port and waits for the chip's clock.
#[derive(Debug, Clone)]
pub(super) struct InputFramer {
    cells: VecDeque<Cell>,
    most: usize,
    receiver: Receiver,
    pub(super) counters: Counters,
}

impl InputFramer {
    pub(super) fn new(most: usize) -> Self {
        let most = most.max(1);
        InputFramer {
            cells: VecDeque::with_capacity(most),
            most,
            receiver: Receiver::default(),
            counters: Counters::default(),
        }
    }

    /// Cells that fit now.
    pub(super) fn room(&self) -> usize {
        self.most - self.cells.len()
    }

    pub(super) fn handle_cell(&mut self, cell: &Cell) {
        self.counters.cells += 1;
        self.counters.octets += wire::cell::PAYLOAD_OCTETS as u64;
        if self.room() == 0 {
            self.counters.drop_one(DropReason::QueueFull);
        } else {
            self.cells.push_back(*cell);
        }
    }

    pub(super) fn handle_octets(&mut self, octets: &[u8; OCTETS]) {
        let [a, b, c, d, e, payload @ ..] = octets;
        let mut header = [*a, *b, *c, *d, *e];
        if self.receiver.check(&mut header) == Verdict::Bad {
            self.counters.cells += 1;
            self.counters.drop_one(DropReason::HeaderError);
            return;
        }
        let [a, b, c, d, _] = header;
        self.handle_cell(&Cell::new(CellHeader::from_word(u32::from_be_bytes([a, b, c, d])), *payload));
    }

    /// The next cell for the Cell SRAM.
    pub(super) fn first(&self) -> Option<&Cell> {
        self.cells.front()
    }

    /// That cell is in the Cell SRAM, or is dropped for a reason.
    pub(super) fn drop_first(&mut self, reason: Option<DropReason>) {
        self.cells.pop_front();
        if let Some(reason) = reason {
            self.counters.drop_one(reason);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// A label is no connection's any more: what waits under it is dropped.
    pub(super) fn drop_label(&mut self, label: CircuitId) {
        let before = self.cells.len();
        self.cells.retain(|cell| cell.circuit() != label);
        self.counters.drop_n(DropReason::Closed, (before - self.cells.len()) as u64);
    }

    /// The power goes: what waits is lost.
    pub(super) fn clear(&mut self) {
        self.counters.drop_n(DropReason::LinkDown, self.cells.len() as u64);
        self.cells.clear();
    }
}

/// A cell as the Output Framer puts it on a link of octets.
pub fn to_octets(cell: &Cell) -> [u8; OCTETS] {
    let header = cell.header_word().to_be_bytes();
    let mut octets = [0; OCTETS];
    octets[..4].copy_from_slice(&header);
    octets[4] = hec::generate(header);
    octets[5..].copy_from_slice(&cell.payload);
    octets
}
