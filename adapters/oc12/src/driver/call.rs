//! What the driver's calls are given, and what they give.

use super::HEADER_OCTETS;
use bus::iocc::{Fault, Place};
use bus::memory::Unmapped;

/// How what is sent comes to the board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendPath {
    /// Copied to a kernel buffer, summed there in a pass of its own that writes back, and fetched (Kazantzidis 1997, section 1).
    Baseline,
    /// Copied and summed in one pass, and fetched.
    CopyAndSum,
    /// Fetched from the process's own pages, and summed by the board.
    Direct,
    /// Written into the board's memory by the processor, and summed by the board: Afterburner's way.
    Programmed,
}

/// How what has come gets from the board to the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceivePath {
    /// Written to a kernel buffer, summed there in a pass of its own that writes back, and copied.
    Baseline,
    /// Written to a kernel buffer, copied and summed in one pass.
    CopyAndSum,
    /// Written to a kernel buffer, summed by the board; its pages are mapped to the process where a page begins at its
    /// address, and the rest is copied.
    Mapped,
    /// Written to the process's own pages, and summed by the board.
    Direct,
    /// Read from the board's memory by the processor: Afterburner's way.
    Programmed,
}

/// What goes before the data of a PDU, and where a checksum belongs in it.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a> {
    /// At most [`HEADER_OCTETS`], an even number. The checksum's place holds what the sum begins with, such as the pseudo header's sum.
    pub octets: &'a [u8],
    /// The checksum covers the data and the header from here on: even.
    pub covers: usize,
    /// Where the checksum is, after that: even. None: the data are not summed for it.
    pub field: Option<usize>,
}

/// What is sent behind a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sdu {
    /// The circuit.
    pub vci: u16,
    /// Where the octets are.
    pub from: Place,
    /// How many: none, if there is a header.
    pub octets: usize,
    /// How they come to the board.
    pub path: SendPath,
}

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Oc12Error {
    /// No octets, or more than a block has room for.
    #[error("{0} octets cannot be moved at once")]
    Length(usize),
    /// A header that is too long, of an odd length, or without the place of its checksum.
    #[error("no such header")]
    Header,
    /// No block or buffer is free, or too much waits: look at the board, and try again.
    #[error("no block or buffer is free")]
    Busy,
    /// The process's memory.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// It cannot be reached over the bus.
    #[error(transparent)]
    Memory(#[from] Unmapped),
}

/// A PDU that has come; its data are on the board until it is read or released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Its circuit.
    pub vci: u16,
    /// Octets of its data.
    pub octets: usize,
    /// Their sum, by the board.
    pub sum: u16,
    /// Octets of its header.
    pub split: usize,
    pub(super) header: [u8; HEADER_OCTETS],
    pub(super) block: u32,
}

impl Arrival {
    /// Its header, as long as its circuit says.
    pub fn header(&self) -> &[u8] {
        &self.header[..self.split]
    }
}

/// A read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(super) u64);

/// A read or write that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Which.
    pub ticket: Ticket,
    /// The sum of its data by whoever summed them.
    pub sum: u16,
    /// Memory that is not there was met; what was to be sent is not.
    pub failed: bool,
}
