//! What each side of a direct circuit shares, octet by octet. All numbers are in the machine's byte order.
//!
//! Each side has memory of its own, which it alone writes and the other side maps for reading only:
//!
//! | octets | what |
//! |---|---|
//! | 0..8 | magic, `CELLDIR1` |
//! | 8..12 | version, 2 |
//! | 12..16 | octets of a line, 64 |
//! | 16..32 | lines of the ring; entries of the return ring; blocks; octets of a block (u32 each) |
//! | 64..72 | consumed: how many lines of the *other* side's ring this side is done with (wraps at 2^32) |
//! | 72..76 | how often this side woke the other one from a doze; the other side's futex |
//! | 80..84 | the processor that this side runs on, counted from 1; 0: unknown |
//! | 128..136 | this side sleeps until a message comes: the number of the sleep, 0 when awake; highest bit set: it dozes |
//! | 192..200 | this side sleeps until there is room: the same |
//! | 256.. | ring of lines that this side sends |
//! | then | return ring: entries of 8 octets, the blocks of the *other* side that this side is done with |
//! | next page | blocks: what this side sends and what does not fit a line |
//!
//! A line carries one message, or says where it is; its sequence number is what makes it valid, so that one transfer of
//! one cache line brings a short message:
//!
//! | octets | what |
//! |---|---|
//! | 0..4 | sequence number: how many lines were sent, this one included (wraps at 2^32) |
//! | 4..8 | octets of the message |
//! | 8..12 | first block of the message; all ones: the message is in the line |
//! | 12 | user-to-user indication |
//! | 13..24 | zero |
//! | 24..64 | a message of up to 40 octets |
//!
//! An entry of the return ring: sequence number as in a line (0..4), first block of a message (4..8).

use serde::{Deserialize, Serialize};

/// What the memory begins with.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CELLDIR1");
/// Version of this layout.
pub const VERSION: u32 = 2;
/// Octets of a line, and of the cache lines of the machines that this was made for.
pub const LINE_OCTETS: usize = 64;
/// Longest message inside a line.
pub const INLINE_OCTETS: usize = 40;
/// A message up to this length is expected to be written and dealt with at once.
pub const SHORT_OCTETS: usize = 256;
/// The block number that says that the message is in the line.
pub const INLINE: u32 = u32::MAX;
/// The line with what this side has consumed.
pub const CONSUMED_LINE: usize = 1;
/// The word of that line that counts whom this side woke from a doze: its first four octets.
pub const WAKES_WORD: usize = 1;
/// Which word of that line says on which processor this side runs.
pub const PROCESSOR_WORD: usize = 2;
/// In the number of a sleep: it waits for the other side's [`WAKES_WORD`] to change, not for a bell.
pub const DOZES: u64 = 1 << 63;
/// The line that says that this side sleeps until a message comes.
pub const SLEEPS_LINE: usize = 2;
/// The line that says that this side sleeps until there is room.
pub const WAITS_LINE: usize = 3;
/// The ring's first line.
pub const RING_LINE: usize = 4;
/// The word of a line that has its sequence number and length; it is written last and read first.
pub const SEQUENCE_WORD: usize = 0;
/// The word of a line with block and indication.
pub const BLOCK_WORD: usize = 1;
/// The first word of a line that carries the message itself.
pub const INLINE_WORD: usize = 3;
/// Entries of the return ring in one line.
pub const RETURNS_PER_LINE: usize = 8;
const PAGE_OCTETS: usize = 4096;
/// Most octets that one side may share on one circuit.
pub const MAX_OCTETS: usize = 1 << 30;

// What the tables above say.
const _: () = {
    assert!(CONSUMED_LINE * LINE_OCTETS == 64);
    assert!(CONSUMED_LINE * LINE_OCTETS + WAKES_WORD * 8 == 72);
    assert!(SLEEPS_LINE * LINE_OCTETS == 128);
    assert!(WAITS_LINE * LINE_OCTETS == 192);
    assert!(RING_LINE * LINE_OCTETS == 256);
    assert!(INLINE_WORD * 8 == 24 && INLINE_WORD * 8 + INLINE_OCTETS == LINE_OCTETS);
    assert!(RETURNS_PER_LINE * 8 == LINE_OCTETS);
    assert!(size_of::<Head>() == 32);
    assert!(std::mem::offset_of!(Head, version) == 8 && std::mem::offset_of!(Head, line_octets) == 12);
    assert!(std::mem::offset_of!(Head, ring) == 16 && std::mem::offset_of!(Head, returns) == 20);
    assert!(std::mem::offset_of!(Head, blocks) == 24 && std::mem::offset_of!(Head, block_octets) == 28);
    let g = DirectGeometry { ring: 256, returns: 1024, blocks: 1024, block_octets: 1088 };
    assert!(g.returns_line() == 260 && g.blocks_at() == 28_672 && g.octets() == 1_142_784);
};

/// The beginning of the memory, for who looks at it with other tools; neither side relies on the other's.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// [`LINE_OCTETS`].
    pub line_octets: u32,
    /// Lines of the ring.
    pub ring: u32,
    /// Entries of the return ring.
    pub returns: u32,
    /// Blocks.
    pub blocks: u32,
    /// Octets of a block.
    pub block_octets: u32,
}

impl Head {
    /// Of memory of these sizes.
    pub fn new(g: &DirectGeometry) -> Self {
        Head {
            magic: MAGIC,
            version: VERSION,
            line_octets: LINE_OCTETS as u32,
            ring: g.ring,
            returns: g.returns,
            blocks: g.blocks,
            block_octets: g.block_octets,
        }
    }

    /// As four words.
    pub fn to_words(self) -> [u64; 4] {
        let pair = |low: u32, high: u32| {
            let ([a, b, c, d], [e, f, g, h]) = (low.to_ne_bytes(), high.to_ne_bytes());
            u64::from_ne_bytes([a, b, c, d, e, f, g, h])
        };
        [
            self.magic,
            pair(self.version, self.line_octets),
            pair(self.ring, self.returns),
            pair(self.blocks, self.block_octets),
        ]
    }
}

/// Sizes of one side's memory.
///
/// A message longer than [`INLINE_OCTETS`] lies in as many blocks, one after another, as it needs. Blocks of an odd
/// number of lines spread best over a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectGeometry {
    /// Lines of the ring, a power of two: messages on their way at most.
    pub ring: u32,
    /// Entries of the return ring, a power of two: at least as many as the other side has blocks.
    pub returns: u32,
    /// Blocks.
    pub blocks: u32,
    /// Octets of a block, a multiple of 64.
    pub block_octets: u32,
}

impl Default for DirectGeometry {
    fn default() -> Self {
        DirectGeometry { ring: 256, returns: 1024, blocks: 1024, block_octets: 1088 }
    }
}

/// Why sizes are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DirectGeometryError {
    /// A ring's size.
    #[error("a ring of {0}: a power of two from 8 to 65536 is needed")]
    Ring(u32),
    /// The blocks' number or size.
    #[error("{blocks} blocks of {octets} octets: 1 to 65536 blocks, octets a multiple of 64 up to 1048576")]
    Blocks {
        /// How many.
        blocks: u32,
        /// Octets of each.
        octets: u32,
    },
    /// The sum.
    #[error("{0} octets to share: at most {MAX_OCTETS}")]
    Octets(usize),
    /// The two sides do not fit.
    #[error("{blocks} blocks on one side, {returns} entries of the return ring on the other: give it at least as many")]
    Returns {
        /// Blocks of one side.
        blocks: u32,
        /// Entries of the other's return ring.
        returns: u32,
    },
}

impl DirectGeometry {
    /// Whether all parts can be.
    ///
    /// # Errors
    /// The first part that cannot.
    pub fn checked(self) -> Result<Self, DirectGeometryError> {
        for ring in [self.ring, self.returns] {
            if !ring.is_power_of_two() || !(8..=65_536).contains(&ring) {
                return Err(DirectGeometryError::Ring(ring));
            }
        }
        let DirectGeometry { blocks, block_octets: octets, .. } = self;
        if !(1..=65_536).contains(&blocks) || !(64..=1 << 20).contains(&octets) || octets % 64 != 0 {
            return Err(DirectGeometryError::Blocks { blocks, octets });
        }
        match self.octets() {
            sum if sum > MAX_OCTETS => Err(DirectGeometryError::Octets(sum)),
            _ => Ok(self),
        }
    }

    /// Whether the other side's return ring takes all blocks of this side, and the other way round.
    ///
    /// # Errors
    /// One of them does not.
    pub fn fits(&self, other: &Self) -> Result<(), DirectGeometryError> {
        for (blocks, returns) in [(self.blocks, other.returns), (other.blocks, self.returns)] {
            if blocks > returns {
                return Err(DirectGeometryError::Returns { blocks, returns });
            }
        }
        Ok(())
    }

    /// The return ring's first line.
    pub const fn returns_line(&self) -> usize {
        RING_LINE + self.ring as usize
    }

    /// Where the blocks begin.
    pub const fn blocks_at(&self) -> usize {
        (self.returns_line() * LINE_OCTETS + self.returns as usize * 8).next_multiple_of(PAGE_OCTETS)
    }

    /// Octets of the whole.
    pub const fn octets(&self) -> usize {
        (self.blocks_at() + self.blocks as usize * self.block_octets as usize).next_multiple_of(PAGE_OCTETS)
    }

    /// Longest message: all blocks.
    pub const fn max_message_octets(&self) -> usize {
        self.blocks as usize * self.block_octets as usize
    }

    /// Where a message of `octets` octets lies that begins with block `first`, if it lies inside.
    pub const fn message_at(&self, first: u32, octets: u32) -> Option<usize> {
        let begin = first as u64 * self.block_octets as u64;
        if first < self.blocks && begin + octets as u64 <= self.max_message_octets() as u64 {
            Some(self.blocks_at() + begin as usize)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let g = DirectGeometry::default();
        assert!(g.checked().is_ok() && g.fits(&g).is_ok());
        assert!(DirectGeometry { ring: 12, ..g }.checked().is_err());
        assert!(DirectGeometry { returns: 4, ..g }.checked().is_err());
        assert!(DirectGeometry { blocks: 0, ..g }.checked().is_err());
        assert!(DirectGeometry { block_octets: 96, ..g }.checked().is_err());
        assert!(DirectGeometry { blocks: 65_536, block_octets: 1 << 20, ..g }.checked().is_err());
        assert!(g.fits(&DirectGeometry { blocks: 1025, ..g }).is_err());
        assert!(g.fits(&DirectGeometry { returns: 512, ..g }).is_err());
    }

    proptest! {
        #[test]
        fn a_message_lies_inside_the_blocks_or_nowhere(first: u32, octets: u32, blocks in 1u32..100, lines in 1u32..50) {
            let g = DirectGeometry { blocks, block_octets: lines * 64, ..DirectGeometry::default() };
            if let Some(at) = g.message_at(first, octets) {
                prop_assert!(at >= g.blocks_at() && at + octets as usize <= g.octets());
            }
            let all = g.max_message_octets() as u32;
            prop_assert_eq!(g.message_at(0, all), Some(g.blocks_at()));
            prop_assert_eq!(g.message_at(0, all + 1), None);
            prop_assert_eq!(g.message_at(blocks, 0), None);
        }
    }
}
