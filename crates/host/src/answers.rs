//! Answers to OAM cells that wait for room on their link, or for credit of their circuit.

use net::Label;
use wire::{Cell, DropReason};

/// Answers at most.
const MOST: usize = 256;
/// Of these, for one label at a port: who asks on one circuit takes the room of that circuit.
const OF_ONE: usize = 4;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Answers {
    /// Each with its port.
    waiting: Vec<(u16, Cell)>,
}

impl Default for Answers {
    fn default() -> Self {
        Answers { waiting: Vec::with_capacity(MOST) }
    }
}

impl Answers {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Queues one.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn push(&mut self, port: u16, cell: Cell) -> Result<(), DropReason> {
        let same = |(at, waiting): &&(u16, Cell)| *at == port && waiting.circuit() == cell.circuit();
        let share = self.waiting.iter().filter(same).nth(OF_ONE - 1).is_none();
        if !share || self.waiting.len() >= MOST {
            return Err(DropReason::ManagementFull);
        }
        self.waiting.push((port, cell));
        Ok(())
    }

    /// Forgets those that `send` has sent.
    pub(crate) fn send(&mut self, mut send: impl FnMut(u16, &Cell) -> bool) {
        self.waiting.retain(|(port, cell)| !send(*port, cell));
    }

    /// Forgets those of a label at a port, which is another circuit's now.
    pub(crate) fn forget(&mut self, port: u16, label: Label) {
        self.waiting.retain(|(at, cell)| *at != port || !label.holds(cell.circuit()));
    }
}
