//! The host interface of Traw and Smith (JSAC 1993) as its driver sees it: two cards, one that
//! segments and one that reassembles, without interrupts and without a processor of their own.
//!
//! In: register accesses, the host's memory, cells, the time. Out: cells, the host's memory, status. A transfer takes the
//! time that streaming on the Micro Channel takes; the idle flag says when it is over, and the host polls for it (Traw and Smith, 1993).
//! The paper names the registers' contents and not their numbers, which are ours.
//!
//! | module | what |
//! |---|---|
//! | [`segmenter`] | the card that sends: source, length, header, MID; streams, and cells leave |
//! | [`reassembler`] | the card that receives: CAM and status blocks to read, lists to delete, cells to fetch |
//! | [`reassembly`] | what is on it: lists of cells in memory that all circuits share, in steps and on the units' clocks |
//! | [`driver`] | the character device of the paper, and one network device over the two cards |
#![forbid(unsafe_code)]

pub mod driver;
pub mod reassembler;
pub mod reassembly;
pub mod segmenter;

use core::time::Duration;

/// What both cards answer when they are asked what they are.
pub const IDENTIFIER: u32 = 0x8f93;
/// Status register: no transfer runs.
pub const IDLE: u32 = 1;
/// Status register: the last transfer met memory that is not there.
pub const FAILED: u32 = 2;

/// The times of a bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streaming {
    /// From the command to the first word.
    pub setup: Duration,
    /// From word to word.
    pub word: Duration,
}

impl Streaming {
    /// The Micro Channel: a word each 100 ns after a set-up of 200 ns (Traw and Smith, 1993).
    pub const MICRO_CHANNEL: Streaming =
        Streaming { setup: Duration::from_nanos(200), word: Duration::from_nanos(100) };

    /// How long `octets` octets take once the first word is there.
    pub fn of(&self, octets: u32) -> Duration {
        self.word * octets.div_ceil(4)
    }
}
