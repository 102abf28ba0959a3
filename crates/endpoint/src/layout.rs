//! The shared segment, octet by octet. All numbers are in the machine's byte order.
//!
//! | octets | what |
//! |---|---|
//! | 0..8 | magic, `CELLWAY1` |
//! | 8..12 | version, 3 |
//! | 12..16 | octets of a descriptor's head, 16 |
//! | 16..40 | slots of the send, receive and free ring; buffers; octets of a buffer; zero (u32 each) |
//! | 64..68 | host sleeps: the client rings its doorbell after pushing |
//! | 68..72 | host sleeps until the client has room: the client rings once half of its receive ring is free |
//! | 72..76 | the processor that the host's thread runs on, counted from 1; 0: unknown |
//! | 128..132 | client sleeps: 1, wake it after pushing or after taking a descriptor; 2, after pushing only; 3, when half of the send ring is free, or the host takes no more for now; 4 more: as a futex |
//! | 192..196 | client waits for room: its bell is emptied when half of the send ring is free |
//! | 256.. | send ring, receive ring, free ring, each: 64 octets with the consumer's index, 64 with the producer's, heads, bodies |
//! | page | buffers, one after another |
//!
//! An index counts descriptors since the beginning and wraps at 2^32; the slot is its remainder by the ring's size.
//! A slot has a head and a body. Heads are 16 octets, so that four descriptors pass from core to core in a line; a
//! body, 64 octets, is read only if its head says that something is in it. Producer: client for send and free, host for
//! receive. Each side trusts its own index only. A slot of the send ring that the consumer has passed tells by channel
//! and buffer which descriptor came back with it.
//!
//! A descriptor's head:
//!
//! | octets | what |
//! |---|---|
//! | 0..4 | channel: its place (16 bits), and the place's generation (the high 16 bits) |
//! | 4..8 | octets of the SDU |
//! | 8..12 | buffer, counted from 0; all ones: the SDU is in the descriptor; one less: in the application's own memory; two less: on pages of it; the highest bit set otherwise: in memory that the sender lends ([`Lent`]) |
//! | 12 | user-to-user indication |
//! | 13 | common part indicator |
//! | 14 | bit 0 cell loss priority, bit 1 congestion |
//! | 15 | zero |
//!
//! Its body:
//!
//! | octets | what |
//! |---|---|
//! | 0..8 | own memory: its address in the application (in the free ring, octets are those that it has room for) |
//! | 8..48 | an SDU of up to 40 octets: U-Net's single-cell message |
//! | 48..64 | unused |
//!
//! An SDU on pages: octets 0..8 are where the application has the region, 8..10 where in its first page the SDU begins,
//! 10..44 the numbers of its pages in the region, 16 bits each, in order.

pub mod direct;

use serde::{Deserialize, Serialize};

/// What the segment begins with.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CELLWAY1");
/// Version of this layout.
pub const VERSION: u32 = 3;
/// Octets of a descriptor's head.
pub const HEAD_OCTETS: usize = 16;
/// Octets of a descriptor's body.
pub const BODY_OCTETS: usize = 64;
/// Longest SDU that travels inside a descriptor: what one AAL5 cell carries.
pub const INLINE_OCTETS: usize = 40;
/// Where the word is that says that the host sleeps.
pub const HOST_SLEEPS: usize = 64;
/// Where the word is that says that the host rests because the client is behind with its receive ring.
pub const HOST_RESTS: usize = 68;
/// Where the host says which processor its thread runs on, counted from 1.
pub const HOST_PROCESSOR: usize = 72;
/// Where the word is that says that the client sleeps.
pub const CLIENT_SLEEPS: usize = 128;
/// Its value when the client wants to hear of anything.
pub const ANY_NEWS: u32 = 1;
/// Its value when the client wants to hear of SDUs only.
pub const NEWS_OF_SDUS: u32 = 2;
/// Its value when the client wants to hear of room in its send ring only: when half of it is free, or no more becomes
/// so.
pub const NEWS_OF_ROOM: u32 = 3;
/// Added to either when the client waits on the word itself, as a futex, and not on its bell.
pub const BY_FUTEX: u32 = 4;
/// Where the word is that says that the client waits for room in the send ring.
pub const CLIENT_WAITS: usize = 192;
const RINGS: usize = 256;
const RING_INDEX_OCTETS: usize = 128;
const PAGE: usize = 4096;
/// Most pages of an SDU, wherever it begins in the first one.
pub const MAX_PAGES: usize = 17;
/// Most octets of one segment.
pub const MAX_SEGMENT_OCTETS: usize = 1 << 30;

/// Sizes of a segment's parts. [`Geometry::checked`] says whether they can be.
///
/// ```
/// let geometry = endpoint::Geometry { send_ring: 100, ..endpoint::Geometry::default() };
/// assert!(geometry.checked().is_err(), "100 is no power of two");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Slots of the send ring, a power of two.
    pub send_ring: u32,
    /// Slots of the receive ring, a power of two.
    pub receive_ring: u32,
    /// Slots of the free ring, a power of two.
    pub free_ring: u32,
    /// Buffers.
    pub buffers: u32,
    /// Octets of a buffer, a multiple of 64: the longest SDU.
    pub buffer_octets: u32,
}

impl Default for Geometry {
    fn default() -> Self {
        Geometry { send_ring: 256, receive_ring: 256, free_ring: 256, buffers: 256, buffer_octets: 65_536 }
    }
}

/// Why sizes are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// A ring's size.
    #[error("a ring of {0} slots: a power of two from 2 to 65536 is needed")]
    Ring(u32),
    /// The buffers' number or size.
    #[error("{buffers} buffers of {octets} octets: 1 to 65536 buffers, octets a multiple of 64 up to 65536")]
    Buffers {
        /// How many.
        buffers: u32,
        /// Octets of each.
        octets: u32,
    },
    /// The sum.
    #[error("a segment of {0} octets: at most {MAX_SEGMENT_OCTETS}")]
    Segment(usize),
}

impl Geometry {
    /// Whether all parts can be.
    ///
    /// # Errors
    /// The first part that cannot.
    pub fn checked(self) -> Result<Self, GeometryError> {
        for ring in [self.send_ring, self.receive_ring, self.free_ring] {
            if !ring.is_power_of_two() || !(2..=65_536).contains(&ring) {
                return Err(GeometryError::Ring(ring));
            }
        }
        let Geometry { buffers, buffer_octets: octets, .. } = self;
        if !(1..=65_536).contains(&buffers) || !(64..=65_536).contains(&octets) || octets % 64 != 0 {
            return Err(GeometryError::Buffers { buffers, octets });
        }
        match self.octets() {
            sum if sum > MAX_SEGMENT_OCTETS => Err(GeometryError::Segment(sum)),
            _ => Ok(self),
        }
    }

    const fn ring_octets(slots: u32) -> usize {
        let heads = (slots as usize * HEAD_OCTETS).next_multiple_of(BODY_OCTETS);
        RING_INDEX_OCTETS + heads + slots as usize * BODY_OCTETS
    }

    /// Where the heads of the ring at `ring` begin.
    pub const fn heads_at(ring: usize) -> usize {
        ring + RING_INDEX_OCTETS
    }

    /// Where the bodies of the ring of `slots` slots at `ring` begin.
    pub const fn bodies_at(ring: usize, slots: u32) -> usize {
        ring + Self::ring_octets(slots) - slots as usize * BODY_OCTETS
    }

    /// Where the send ring begins.
    pub const fn send_at(&self) -> usize {
        RINGS
    }

    /// Where the receive ring begins.
    pub const fn receive_at(&self) -> usize {
        self.send_at() + Self::ring_octets(self.send_ring)
    }

    /// Where the free ring begins.
    pub const fn free_at(&self) -> usize {
        self.receive_at() + Self::ring_octets(self.receive_ring)
    }

    /// Where the buffers begin.
    pub const fn buffers_at(&self) -> usize {
        (self.free_at() + Self::ring_octets(self.free_ring)).next_multiple_of(PAGE)
    }

    /// Octets of the whole segment.
    pub const fn octets(&self) -> usize {
        (self.buffers_at() + self.buffers as usize * self.buffer_octets as usize).next_multiple_of(PAGE)
    }

    /// Where buffer `index` begins, if there is one of that number.
    pub const fn buffer_at(&self, index: u32) -> Option<usize> {
        Buffers::of(self).at(index)
    }
}

/// Where a segment's buffers are, for who asks for each SDU: to add up the sizes of all rings takes longer than the
/// rest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffers {
    at: usize,
    count: u32,
    octets: u32,
}

impl Buffers {
    pub(crate) const fn of(geometry: &Geometry) -> Self {
        Buffers { at: geometry.buffers_at(), count: geometry.buffers, octets: geometry.buffer_octets }
    }

    /// [`Geometry::buffer_at`].
    #[inline]
    pub(crate) const fn at(&self, index: u32) -> Option<usize> {
        if index < self.count { Some(self.at + index as usize * self.octets as usize) } else { None }
    }
}

/// A descriptor's head: all that there is of one whose SDU is in a buffer. What a peer wrote is only as good as its
/// checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Channel.
    pub channel: u32,
    /// Octets of the SDU.
    pub octets: u32,
    /// Buffer, or one of [`Descriptor::INLINE`], [`Descriptor::OWN`] and [`Descriptor::PAGES`].
    pub buffer: u32,
    /// User-to-user indication.
    pub uu: u8,
    /// Common part indicator.
    pub cpi: u8,
    /// Cell loss priority.
    pub clp: bool,
    /// Congestion experienced.
    pub congestion: bool,
}

impl Head {
    /// Names a buffer and nothing else: what the free ring holds.
    #[inline]
    pub const fn of_buffer(buffer: u32) -> Self {
        Head { channel: 0, octets: 0, buffer, uu: 0, cpi: 0, clp: false, congestion: false }
    }

    /// Whether a body follows.
    #[inline]
    pub(crate) const fn has_body(&self) -> bool {
        self.buffer >= Descriptor::PAGES
    }

    #[inline(always)]
    pub(crate) fn to_words(self) -> [u64; HEAD_WORDS] {
        let flags = u32::from(self.clp) | u32::from(self.congestion) << 1;
        let octets = u32::from(self.uu) | u32::from(self.cpi) << 8 | flags << 16;
        let rest = if cfg!(target_endian = "little") { octets } else { octets.swap_bytes() };
        [pair(self.channel, self.octets), pair(self.buffer, rest)]
    }

    #[inline]
    pub(crate) const fn from_words([first, second]: [u64; HEAD_WORDS]) -> Self {
        let ((channel, octets), (buffer, rest)) = (halves(first), halves(second));
        let [uu, cpi, flags, _] = rest.to_ne_bytes();
        Head { channel, octets, buffer, uu, cpi, clp: flags & 1 != 0, congestion: flags & 2 != 0 }
    }
}

/// A descriptor as either side means it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Whose SDU, how long, and where it is.
    pub head: Head,
    /// Where the SDU is in the application's own memory, if it is there.
    pub address: u64,
    /// The SDU, if it is here.
    pub inline: [u8; INLINE_OCTETS],
}

impl From<Head> for Descriptor {
    /// With nothing in its body.
    #[inline]
    fn from(head: Head) -> Self {
        Descriptor { head, address: 0, inline: [0; INLINE_OCTETS] }
    }
}

/// Where an SDU is that its sender lends: the region's number in 15 bits, of which all ones are none, and in the low 16
/// bits the buffer in it, under the highest bit. The receiver gives the same number back by its free ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lent {
    /// Which memory: the host numbers them for each receiving endpoint, and uses no number twice.
    pub region: u16,
    /// Which of its buffers.
    pub buffer: u16,
}

impl Lent {
    const FLAG: u32 = 1 << 31;
    /// Regions that an endpoint can have, ever.
    pub const MAX_REGIONS: u16 = 0x7fff;

    /// As a descriptor's buffer. Regions from [`Lent::MAX_REGIONS`] on have none.
    #[inline]
    pub const fn to_buffer(self) -> Option<u32> {
        let number = Self::FLAG | (self.region as u32) << 16 | self.buffer as u32;
        if self.region < Self::MAX_REGIONS { Some(number) } else { None }
    }

    /// What a descriptor's buffer says. `None`: it is not of memory that is lent.
    #[inline]
    pub const fn from_buffer(buffer: u32) -> Option<Self> {
        let lent = Lent { region: (buffer >> 16) as u16 & Self::MAX_REGIONS, buffer: buffer as u16 };
        if buffer & Self::FLAG != 0 && lent.region != Self::MAX_REGIONS { Some(lent) } else { None }
    }
}

impl Descriptor {
    /// The buffer number that says that the SDU is in the descriptor.
    pub const INLINE: u32 = u32::MAX;
    /// The buffer number that says that the SDU is in the application's own memory.
    pub const OWN: u32 = u32::MAX - 1;
    /// The buffer number that says that the SDU is on pages of the application's own memory.
    pub const PAGES: u32 = u32::MAX - 2;

    /// Whether the body's last octets say something: an SDU, or a list of pages.
    #[inline]
    pub(crate) const fn has_inline(&self) -> bool {
        matches!(self.head.buffer, Descriptor::INLINE | Descriptor::PAGES)
    }

    /// Puts a list of pages where an SDU would be: `offset` is where in the first one it begins.
    pub fn set_pages(&mut self, offset: u16, pages: &[u16; MAX_PAGES]) {
        let numbers = core::iter::once(&offset).chain(pages);
        for (place, number) in self.inline.as_chunks_mut::<2>().0.iter_mut().zip(numbers) {
            *place = number.to_ne_bytes();
        }
    }

    /// The list of pages, whatever it holds.
    pub fn pages(&self) -> (u16, [u16; MAX_PAGES]) {
        let number = |n: usize| u16::from_ne_bytes([self.inline[2 * n], self.inline[2 * n + 1]]);
        (number(0), core::array::from_fn(|n| number(1 + n)))
    }

    /// As two words of a head and the six of a body that are used.
    pub fn to_words(self) -> [u64; 8] {
        let mut words = [0; 8];
        words[..HEAD_WORDS].copy_from_slice(&self.head.to_words());
        words[HEAD_WORDS] = self.address;
        for (word, part) in words[HEAD_WORDS + 1..].iter_mut().zip(self.inline.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*part);
        }
        words
    }

    /// From such words, whatever they hold.
    pub fn from_words(words: [u64; 8]) -> Self {
        let mut descriptor = Descriptor::from(Head::from_words([words[0], words[1]]));
        descriptor.address = words[HEAD_WORDS];
        for (part, word) in descriptor.inline.as_chunks_mut::<8>().0.iter_mut().zip(&words[HEAD_WORDS + 1..]) {
            *part = word.to_ne_bytes();
        }
        descriptor
    }
}

/// Words of a head.
pub(crate) const HEAD_WORDS: usize = HEAD_OCTETS / 8;

/// Two numbers of 32 bits that follow each other in memory, as one of 64.
const fn pair(first: u32, second: u32) -> u64 {
    if cfg!(target_endian = "little") {
        first as u64 | (second as u64) << 32
    } else {
        (first as u64) << 32 | second as u64
    }
}

const fn halves(word: u64) -> (u32, u32) {
    let (low, high) = (word as u32, (word >> 32) as u32);
    if cfg!(target_endian = "little") { (low, high) } else { (high, low) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_do_not_overlap_and_lines_are_whole() {
        let g = Geometry::default().checked().unwrap();
        for at in [g.send_at(), g.receive_at(), g.free_at(), g.buffers_at()] {
            assert_eq!(at % 64, 0);
        }
        for slots in [2, 4, 256, 65_536] {
            let (heads, bodies) = (Geometry::heads_at(1024), Geometry::bodies_at(1024, slots));
            assert_eq!((heads, bodies % 64), (1024 + 128, 0));
            assert!(heads + slots as usize * 16 <= bodies && bodies < heads + slots as usize * 16 + 64);
            assert_eq!(bodies + slots as usize * 64, 1024 + Geometry::ring_octets(slots));
        }
        assert!(g.send_at() < g.receive_at() && g.receive_at() < g.free_at() && g.free_at() < g.buffers_at());
        assert_eq!(g.buffer_at(255).unwrap() + 65_536, g.octets());
        assert_eq!(g.buffer_at(256), None);
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let g = Geometry::default();
        assert!(Geometry { send_ring: 3, ..g }.checked().is_err());
        assert!(Geometry { free_ring: 0, ..g }.checked().is_err());
        assert!(Geometry { buffers: 0, ..g }.checked().is_err());
        assert!(Geometry { buffer_octets: 65_537, ..g }.checked().is_err());
        assert!(Geometry { buffers: 65_536, buffer_octets: 65_536, ..g }.checked().is_err());
    }

    #[test]
    fn a_buffer_is_of_lent_memory_or_one_of_the_other_kinds() {
        for lent in [Lent { region: 0, buffer: 0 }, Lent { region: Lent::MAX_REGIONS - 1, buffer: u16::MAX }] {
            assert_eq!(lent.to_buffer().and_then(Lent::from_buffer), Some(lent));
        }
        assert_eq!(Lent { region: Lent::MAX_REGIONS, buffer: 0 }.to_buffer(), None);
        for other in [0, 65_535, (1 << 31) - 1, Descriptor::INLINE, Descriptor::OWN, Descriptor::PAGES] {
            assert_eq!(Lent::from_buffer(other), None);
        }
    }

    proptest! {
        #[test]
        fn any_words_are_a_descriptor(words: [u64; 8]) {
            let d = Descriptor::from_words(words);
            prop_assert_eq!(Descriptor::from_words(d.to_words()), d);
        }
    }
}
