//! Where pointers stand (I.363.1 section 2.5.2, structured data transfer): one in each cycle of eight cells, in the
//! first of the cells 0, 2, 4 and 6 behind which a block starts within 93 octets; a dummy in cell 6 if there is none.
//! Both ends follow the same rule, so a receiver knows how many octets a lost cell had.

use wire::aal1::{MAX_OFFSET, Pointer, SAR_PAYLOAD_OCTETS};

/// A block of no octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("blocks of no octets: a stream without structure has none at all")]
pub struct BlockError;

/// A place in a stream of equal blocks, and in the cycle of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Blocks {
    octets: usize,
    /// Octets of the current block before the next octet of the stream.
    at: usize,
    /// The cycle has had its pointer.
    pointed: bool,
}

impl Blocks {
    /// At the start of a block and of a cycle.
    pub(super) const fn new(octets: usize) -> Result<Self, BlockError> {
        if octets == 0 { Err(BlockError) } else { Ok(Blocks { octets, at: 0, pointed: false }) }
    }

    /// Whether there are pointers at all: every octet of a block of one is a start, which needs no pointing at.
    pub(super) const fn has_pointers(&self) -> bool {
        self.octets > 1
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Goes on to the cell of this sequence count: a cycle starts with 0.
    pub(super) const fn enter(&mut self, count: u8) {
        if count == 0 {
            self.pointed = false;
        }
    }

    /// The pointer that the rule puts into the cell of this count.
    pub(super) fn due(&self, count: u8) -> Option<Pointer> {
        if !self.has_pointers() || self.pointed || count & 1 != 0 {
            return None;
        }
        let offset = (self.octets - self.at) % self.octets;
        match u8::try_from(offset) {
            Ok(offset) if offset <= MAX_OFFSET => Some(Pointer::Offset(offset)),
            _ => (count == 6).then_some(Pointer::Dummy),
        }
    }

    pub(super) const fn point(&mut self) {
        self.pointed = true;
    }

    pub(super) const fn advance(&mut self, octets: usize) {
        self.at = (self.at + octets) % self.octets;
    }

    /// Whether a block starts `offset` octets on.
    pub(super) const fn agrees(&self, offset: u8) -> bool {
        (self.at + offset as usize).is_multiple_of(self.octets)
    }

    /// Takes a pointer's word for where a block starts.
    pub(super) const fn align(&mut self, offset: u8) {
        self.at = (self.octets - offset as usize % self.octets) % self.octets;
    }
}

/// Octets of the stream in a cell.
pub(super) const fn stream_octets(pointer: bool) -> usize {
    SAR_PAYLOAD_OCTETS - pointer as usize
}
