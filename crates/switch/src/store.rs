//! The cell store: queued cells, linked to chains by circuit.
//!
//! A cell in the store uses its time field for the number of the next cell, so that one write stores cell and link. A
//! chain's last link means nothing: a circuit knows how many cells it has. Whoever puts cells in has checked the bounds of
//! its port and circuit before; their sum is the store's capacity.

use crate::prefetch;
use wire::{Cell, Time};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Store {
    cells: Vec<Cell>,
    free: Vec<u32>,
    capacity: usize,
}

impl Store {
    pub(crate) fn new(capacity: usize) -> Self {
        let mut cells = Vec::with_capacity(capacity);
        prefetch::large_pages(&mut cells);
        Store { cells, free: Vec::with_capacity(capacity), capacity }
    }

    /// As [`crate::Switch::touch`].
    pub(crate) fn touch(&mut self) {
        prefetch::first_pages(&mut self.cells);
        prefetch::first_pages(&mut self.free);
    }

    /// Lets it hold as many, now or when others have left.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.cells.reserve_exact(capacity.saturating_sub(self.cells.len()));
        self.free.reserve_exact(capacity.saturating_sub(self.free.len()));
    }

    /// Cells it holds.
    pub(crate) fn len(&self) -> usize {
        self.cells.len() - self.free.len()
    }

    /// Cells it can hold.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Stores a copy of `cell` under the header `word`; `None` if the store is full.
    #[inline(always)]
    pub(crate) fn put(&mut self, cell: &Cell, word: u32) -> Option<u32> {
        let at = match self.free.pop() {
            Some(at) => at,
            None => self.first_use()?,
        };
        self.cells[at as usize].copy_as(cell, word);
        Some(at)
    }

    /// A place that was never used: memory that is not needed stays untouched.
    #[cold]
    fn first_use(&mut self) -> Option<u32> {
        if self.cells.len() >= self.capacity {
            return None;
        }
        self.cells.push(Cell::default());
        Some(self.cells.len() as u32 - 1)
    }

    /// Links `next` behind `at`.
    #[inline(always)]
    pub(crate) fn link(&mut self, at: u32, next: u32) {
        self.cells[at as usize].set_at(Time::from_nanos(next.into()));
    }

    /// The cell at `at`, and what is linked behind it.
    #[inline(always)]
    pub(crate) fn get(&self, at: u32) -> (&Cell, u32) {
        let cell = &self.cells[at as usize];
        (cell, cell.at().as_nanos() as u32)
    }

    /// Makes a cell an unassigned one of its path (I.361: VCI 0), without its payload. It keeps its place and its payload type.
    pub(crate) fn blank(&mut self, at: u32) {
        let cell = &mut self.cells[at as usize];
        cell.set_header_word(cell.header_word() & !(0xffff << 4));
        cell.payload = [0; wire::cell::PAYLOAD_OCTETS];
    }

    /// Gives the place of a cell back.
    #[inline(always)]
    pub(crate) fn free(&mut self, at: u32) {
        self.free.push(at);
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, at: u32) {
        prefetch::line(&self.cells, at as usize);
    }
}
