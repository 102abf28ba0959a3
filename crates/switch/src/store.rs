//! The cell store: queued cells, linked to chains by circuit.
//!
//! A cell in the store uses its time field for the number of the next cell, so that one write stores cell and link. A
//! chain's last link means nothing: a circuit knows how many cells it has. Whoever puts cells in has checked the bounds
//! of its port and circuit before; their sum is the store's capacity.

use crate::prefetch;
use crate::table::Table;
use wire::{Cell, Time};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Store {
    cells: Table<Cell>,
    /// Places that are free again; those that there is no room for here are in one of `more`.
    free: Vec<u32>,
    more: Vec<Vec<u32>>,
    capacity: usize,
}

impl Store {
    pub(crate) fn new(capacity: usize) -> Self {
        let mut cells = Vec::with_capacity(capacity);
        prefetch::large_pages(&mut cells);
        Store { cells: Table::from(cells), free: Vec::with_capacity(capacity), more: Vec::new(), capacity }
    }

    /// As [`crate::Switch::touch`].
    pub(crate) fn touch(&mut self) {
        self.cells.touch();
        prefetch::first_pages(&mut self.free);
    }

    /// Lets it hold as many, now or when others have left, by parts with room for them.
    pub(crate) fn set_capacity(&mut self, capacity: usize, cells: &mut Vec<Cell>, free: &mut Vec<u32>) {
        self.capacity = capacity;
        self.cells.add_part(cells, capacity);
        if self.free.capacity() + self.more.iter().map(Vec::capacity).sum::<usize>() < capacity {
            self.more.push(std::mem::take(free));
        }
    }

    /// Cells it holds.
    pub(crate) fn len(&self) -> usize {
        self.cells.len() - self.free.len() - self.more.iter().map(Vec::len).sum::<usize>()
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

    /// A place that is noted elsewhere, or was never used: memory that is not needed stays untouched.
    #[cold]
    fn first_use(&mut self) -> Option<u32> {
        if let Some(at) = self.more.iter_mut().find_map(Vec::pop) {
            return Some(at);
        }
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

    /// Makes a cell an unassigned one of its path (I.361: VCI 0), without its payload. It keeps its place and its
    /// payload type.
    pub(crate) fn blank(&mut self, at: u32) {
        let cell = &mut self.cells[at as usize];
        cell.set_header_word(cell.header_word() & !(0xffff << 4));
        cell.payload = [0; wire::cell::PAYLOAD_OCTETS];
    }

    /// Gives the place of a cell back.
    #[inline(always)]
    pub(crate) fn free(&mut self, at: u32) {
        if self.free.len() < self.free.capacity() {
            self.free.push(at);
        } else {
            self.free_beyond(at);
        }
    }

    #[cold]
    fn free_beyond(&mut self, at: u32) {
        match self.more.iter_mut().find(|part| part.len() < part.capacity()) {
            Some(part) => part.push(at),
            None => self.free.push(at),
        }
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, at: u32) {
        self.cells.prefetch(at as usize);
    }
}
