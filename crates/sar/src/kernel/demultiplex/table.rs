//! The table of circuits: half a cache line each, found by the circuit's header. How far its PDU is, its CRC state, how
//! many have been whole. What is seldom needed lies apart.

use wire::CircuitId;
use wire::cell::PAYLOAD_OCTETS;

/// No circuit: PTI and CLP of a circuit's `head` are zero.
pub(crate) const FREE: u32 = u32::MAX;
/// PTI and CLP in a cell's first four octets, first octet lowest.
pub(crate) const VARIABLE: u32 = 0x0f00_0000;

/// How far a circuit's PDU is, in one word; zero between PDUs.
///
/// | bits | |
/// |---|---|
/// | 0 to 15 | how many further cells have room |
/// | 16 | a cell had CLP set |
/// | 17 | a PDU has begun |
/// | 18 | it is lost; its cells are passed over |
/// | 19 | its circuit has been met in a window of cells; never between calls |
/// | 28 to 63 | the octet of the pool where the next payload goes |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PduPlace(u64);

impl PduPlace {
    pub(crate) const IDLE: PduPlace = PduPlace(0);
    const BEGUN: u64 = 1 << 17;
    pub(crate) const LOST: PduPlace = PduPlace(1 << 18);
    const MARK: u64 = 1 << 19;
    const OCTET: u32 = 28;

    /// The beginning of a buffer with room for `cells`.
    pub(crate) fn fresh(octet: u64, cells: u64) -> PduPlace {
        PduPlace(octet << Self::OCTET | Self::BEGUN | cells)
    }

    /// Where the next payload goes.
    #[inline(always)]
    pub(crate) fn octet(self) -> usize {
        (self.0 >> Self::OCTET) as usize
    }

    /// For how many cells there is room: none between PDUs, in one that has its most, and in a lost one.
    #[inline(always)]
    pub(crate) fn room(self) -> usize {
        self.0 as u16 as usize
    }

    #[inline(always)]
    pub(crate) fn has_room(self) -> bool {
        self.0 & 0xffff != 0
    }

    /// After some more cells, for which there was room.
    #[inline(always)]
    pub(crate) fn after(self, cells: usize) -> PduPlace {
        const STEP: u64 = ((PAYLOAD_OCTETS as u64) << PduPlace::OCTET) - 1;
        PduPlace(self.0.wrapping_add(STEP.wrapping_mul(cells as u64)))
    }

    /// With the CLP bit of a cell taken note of, whose first four octets these are, first octet lowest.
    #[inline(always)]
    pub(crate) fn or_clp(self, head: u32) -> PduPlace {
        PduPlace(self.0 | u64::from(head >> 8 & 1 << 16))
    }

    #[inline(always)]
    pub(crate) fn clp(self) -> bool {
        self.0 >> 16 & 1 != 0
    }

    #[inline(always)]
    pub(crate) fn is_marked(self) -> bool {
        self.0 & Self::MARK != 0
    }

    #[inline(always)]
    pub(crate) fn marked(self) -> PduPlace {
        PduPlace(self.0 | Self::MARK)
    }

    #[inline(always)]
    pub(crate) fn unmarked(self) -> PduPlace {
        PduPlace(self.0 & !Self::MARK)
    }

    #[inline(always)]
    pub(crate) fn is_in_pdu(self) -> bool {
        self.0 & Self::BEGUN != 0
    }
}

/// A circuit's place in the table.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Entry {
    pub(crate) state: u128,
    pub(crate) place: PduPlace,
    /// The circuit, as the first four octets of its cells are read, first octet lowest, without PTI and CLP.
    pub(crate) head: u32,
    /// The lower half of how many PDUs were whole.
    pub(crate) pdus: u32,
}

const _: () = assert!(size_of::<Entry>() == ENTRY);

/// Octets of an entry.
const ENTRY: usize = 32;
/// What homes are counted in: eight octets, which an address can be scaled by.
const PIECE: usize = 8;
/// Pieces of an entry.
const PIECES: u32 = (ENTRY / PIECE) as u32;
/// What a home has no bits of.
pub(crate) const WITHIN: u32 = PIECES - 1;

/// What is seldom needed of a circuit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rest {
    /// How often the entry's count of PDUs has gone round.
    pub(crate) rounds: u32,
    pub(crate) dropped: u32,
}

impl Entry {
    pub(crate) const EMPTY: Entry = Entry { state: 0, place: PduPlace::IDLE, head: FREE, pdus: 0 };
    /// What cells of no circuit are led to.
    pub(crate) const NOWHERE: Entry = Entry { place: PduPlace::LOST, ..Entry::EMPTY };
}

/// A PDU whose last cell has come, to be judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) place: PduPlace,
    /// Whose it is.
    pub(crate) entry: *mut Entry,
    /// Its last eight octets, first octet lowest.
    pub(crate) trailer: u64,
    pub(crate) congestion: bool,
    /// Whether its CRC is right.
    pub(crate) good: bool,
}

/// The table's place and size, for the time of one call.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    pub(crate) first: *mut Entry,
    pub(crate) mask: usize,
    pub(crate) shift: u32,
}

impl Table {
    /// Whether it is so large (from 32 769 circuits, 4 MiB) that to fetch what is needed soon is worth the
    /// instructions.
    #[inline(always)]
    pub(crate) fn is_large(&self) -> bool {
        self.mask >= 1 << 16
    }

    /// How far a multiplied header is shifted to give where its search begins, in pieces of entries.
    #[inline(always)]
    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }

    /// The entry at a [`home`].
    #[inline(always)]
    pub(crate) fn entry(&self, home: u32) -> *mut Entry {
        self.first.cast::<[u8; PIECE]>().wrapping_add(home as usize).cast()
    }

    /// Where an entry is, as a [`home`].
    ///
    /// # Safety
    /// It is one of the table's.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn home_of(&self, entry: *const Entry) -> u32 {
        // SAFETY: the caller's: of the same allocation, and not before its first.
        unsafe { entry.offset_from(self.first) as u32 * PIECES }
    }

    /// The entry of a cell's circuit. At most half of the entries are taken, so a search ends.
    ///
    /// # Safety
    /// The table exists.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn find(&self, head: u32) -> Option<*mut Entry> {
        let head = head & !VARIABLE;
        let mut at = index(home(head, self.shift));
        loop {
            let entry = self.first.wrapping_add(at);
            // SAFETY: `home` gives less than the table's size, and so does its mask.
            match unsafe { (*entry).head } {
                found if found == head => return Some(entry),
                FREE => return None,
                _ => at = (at + 1) & self.mask,
            }
        }
    }
}

/// Consecutive VCIs spread evenly (Fibonacci hashing; Knuth, volume 3, section 6.4): the multiplier is the golden
/// ratio's for the header's number without its last four bits. Where a search begins, in pieces of eight octets.
#[inline(always)]
pub(crate) const fn home(head: u32, shift: u32) -> u32 {
    (head & !VARIABLE).swap_bytes().wrapping_mul(SPREAD) >> shift & !WITHIN
}

/// The same, counted in entries.
#[inline(always)]
pub(crate) const fn index(home: u32) -> usize {
    (home / PIECES) as usize
}

/// What [`home`] multiplies by.
pub(crate) const SPREAD: u32 = 0x9e37_79b1 >> 4;

/// A circuit as the first four octets of its cells are read.
pub(crate) const fn head_of(circuit: CircuitId) -> u32 {
    (circuit.key() << 4).swap_bytes()
}

/// The circuit that is so read.
#[inline(always)]
pub(crate) fn circuit_of(head: u32) -> CircuitId {
    CircuitId::from_key(head.swap_bytes() >> 4)
}
