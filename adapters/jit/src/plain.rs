//! An adapter without an adaptation layer, as early ones were (Almesberger 1995, section 2.1): two FIFOs of cells and a line. The host's
//! processor makes every cell and takes every cell.
//!
//! In: words of cells from the host, cells from the line, the time. Out: cells for the line, words for the host, an interrupt while cells
//! wait. What does not fit into a FIFO is counted and dropped. Its driver is [`driver`].

pub mod driver;

use core::time::Duration;
use std::collections::VecDeque;
use traffic::Pacer;
use wire::{Cell, CellRate, Counters, DropReason, Time};

/// Words of a cell that the processor moves: the header without its checksum, and the payload.
pub const CELL_WORDS: u64 = 13;

/// The adapter.
#[derive(Debug)]
pub struct Plain {
    capacity: usize,
    leaving: VecDeque<Cell>,
    arrived: VecDeque<Cell>,
    line: Pacer,
    counters: [Counters; 2],
}

impl Plain {
    /// An adapter on a line of OC-3c, with room for so many cells each way.
    pub fn new(capacity: usize) -> Self {
        let fifo = || VecDeque::with_capacity(capacity);
        let line = Pacer::new(CellRate::OC3C, Duration::ZERO);
        Plain { capacity, leaving: fifo(), arrived: fifo(), line, counters: Default::default() }
    }

    /// The host writes a cell; false if there is no room.
    pub fn write(&mut self, cell: &Cell) -> bool {
        let fits = self.leaving.len() < self.capacity;
        if fits {
            self.leaving.push_back(*cell);
        }
        fits
    }

    /// The host reads a cell.
    pub fn read(&mut self) -> Option<Cell> {
        self.arrived.pop_front()
    }

    /// Whether the interrupt is asserted.
    pub fn interrupt(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// Cells that leave at `now`, to the front of `out`; gives how many.
    pub fn fill(&mut self, out: &mut [Cell], now: Time) -> usize {
        let mut filled = 0;
        while filled < out.len() && self.line.allowed(now, 1) > 0 {
            let Some(cell) = self.leaving.pop_front() else { break };
            out[filled] = cell;
            filled += 1;
            self.line.sent(1, now);
            self.counters[0].cells = self.counters[0].cells.wrapping_add(1);
        }
        filled
    }

    /// Cells come from the line.
    pub fn handle_cells(&mut self, cells: &[Cell]) {
        for cell in cells {
            if self.arrived.len() < self.capacity {
                self.arrived.push_back(*cell);
                self.counters[1].cells = self.counters[1].cells.wrapping_add(1);
            } else {
                self.counters[1].drop_one(DropReason::QueueFull);
            }
        }
    }

    /// When a cell leaves.
    pub fn poll_timeout(&self) -> Option<Time> {
        (!self.leaving.is_empty()).then(|| self.line.next_time())
    }

    /// Cells that were sent.
    pub const fn sent(&self) -> &Counters {
        &self.counters[0]
    }

    /// Cells that came; those that found no room.
    pub const fn received(&self) -> &Counters {
        &self.counters[1]
    }
}
