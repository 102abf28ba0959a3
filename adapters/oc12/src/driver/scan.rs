//! An interrupt of one board that prompts a look at others (Smith 2002, section 3.1): what they have is served without an
//! interrupt of its own.
//!
//! In: which boards interrupt. Out: looks, a bounded number for each interrupt, the boards after the last one looked at first.

use super::{Driver, Io};
use crate::Oc12;
use bus::iocc::Memory;
use wire::Time;

/// A board with its driver.
#[derive(Debug)]
pub struct Channel {
    /// The board.
    pub board: Oc12,
    /// Its driver.
    pub driver: Driver,
}

/// Who serves the interrupts of several boards.
#[derive(Debug, Clone, Copy)]
pub struct Scanner {
    /// Boards that an interrupt of another one looks at, at most.
    others: usize,
    /// PDUs that a look takes at most.
    most: usize,
    next: usize,
    /// Interrupts served.
    pub interrupts: u64,
    /// Events found on boards that had not been asked for.
    pub prompted: u64,
}

impl Scanner {
    /// Each interrupt looks at its own board and at `others` more, and takes up to `most` PDUs from each.
    pub const fn new(others: usize, most: usize) -> Self {
        Scanner { others, most, next: 0, interrupts: 0, prompted: 0 }
    }

    /// Serves the interrupt of board `which`, if it is still asserted: a scan may have served it already.
    pub fn handle_interrupt(&mut self, channels: &mut [Channel], which: usize, memory: &mut Memory, now: Time) -> bool {
        let count = channels.len();
        let most = self.most;
        let look = |channel: &mut Channel, memory: &mut Memory| {
            channel.driver.look(&mut Io { board: &mut channel.board, memory }, most, now)
        };
        let Some(own) = channels.get_mut(which).filter(|channel| channel.board.interrupt()) else { return false };
        self.interrupts += 1;
        look(own, memory);
        let mut looked = 0;
        let first = self.next;
        for at in (0..count).map(|step| (first + step) % count) {
            if looked == self.others {
                break;
            }
            if at != which {
                looked += 1;
                self.next = (at + 1) % count;
                self.prompted += look(&mut channels[at], memory) as u64;
            }
        }
        true
    }
}
