//! The Cell SRAM: each cell once, however many outputs it has.

use wire::Cell;

/// Cells, with how many outputs still want each.
#[derive(Debug, Clone)]
pub(super) struct Store {
    cells: Vec<Cell>,
    wanted: Vec<u8>,
    free: Vec<u32>,
    reserved: usize,
}

impl Store {
    pub(super) fn new(cells: usize, reserved: usize) -> Self {
        let cells = cells.max(1);
        Store {
            cells: vec![Cell::default(); cells],
            wanted: vec![0; cells],
            free: (0..cells as u32).rev().collect(),
            reserved: reserved.min(cells - 1),
        }
    }

    /// Whether a cell fits. The last places are for low-latency connections.
    pub(super) fn has_room(&self, low_latency: bool) -> bool {
        self.free.len() > if low_latency { 0 } else { self.reserved }
    }

    /// A place for a cell, wanted by nobody yet.
    pub(super) fn put(&mut self, cell: &Cell) -> Option<u32> {
        let at = self.free.pop()?;
        self.cells[at as usize] = *cell;
        self.wanted[at as usize] = 0;
        Some(at)
    }

    pub(super) fn cell(&self, at: u32) -> &Cell {
        &self.cells[at as usize]
    }

    /// One more output wants it.
    pub(super) fn want(&mut self, at: u32) {
        self.wanted[at as usize] += 1;
    }

    /// One output has it. The last one frees the place.
    pub(super) fn done(&mut self, at: u32) {
        self.wanted[at as usize] -= 1;
        self.free_unwanted(at);
    }

    /// Frees the place if no output wants it.
    pub(super) fn free_unwanted(&mut self, at: u32) {
        if self.wanted[at as usize] == 0 {
            self.free.push(at);
        }
    }

    pub(super) fn used(&self) -> usize {
        self.cells.len() - self.free.len()
    }
}
