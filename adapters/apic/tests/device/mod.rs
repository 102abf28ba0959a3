//! What is at a chip's third port in tests: cells that it sends at their times, and what has come.

use net::{Node, NodeIo};
use std::any::Any;
use std::collections::VecDeque;
use wire::{Cell, CircuitId, Time};

/// See the module's head.
#[derive(Default)]
pub struct Device {
    /// Cells to be sent, in the order of their times.
    pub to_send: VecDeque<(Time, Cell)>,
    /// Cells that came, each with its time.
    pub got: Vec<(Time, Cell)>,
}

impl Node for Device {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let n = io.cells_in(0).len();
        self.got.extend(io.cells_in(0).iter().map(|cell| (now, *cell)));
        io.consume(0, n);
        let due = self.to_send.iter().take_while(|(at, _)| *at <= now).count();
        let sent = self.to_send.iter().take(due).take_while(|(_, cell)| io.put_cell(0, cell)).count();
        self.to_send.drain(..sent);
        n + sent > 0
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.to_send.front().map(|(at, _)| *at)
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A channel of path 0.
pub fn vc(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

/// The payload of a cell that says which circuit it is of, and which of its cells.
pub fn numbered(circuit: u32, number: u32) -> [u8; 48] {
    let mut payload = [circuit as u8 ^ number as u8; 48];
    payload[..4].copy_from_slice(&circuit.to_be_bytes());
    payload[4..8].copy_from_slice(&number.to_be_bytes());
    payload
}

/// What [`numbered`] has written; the rest of the payload must be as it was.
pub fn number_of(cell: &Cell) -> (u32, u32) {
    let word = |at: usize| u32::from_be_bytes(cell.payload[at..at + 4].try_into().unwrap());
    assert_eq!(cell.payload, numbered(word(0), word(4)));
    (word(0), word(4))
}
