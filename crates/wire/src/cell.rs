//! The ATM cell (I.361): header, and the slot in which cells travel inside Cellway.

use crate::address::{CircuitId, Vci, Vpi};
use crate::units::Time;

/// Octets of a cell on a wire: header 4, HEC 1, payload 48.
pub const CELL_OCTETS: usize = 53;
/// Octets of a cell's payload.
pub const PAYLOAD_OCTETS: usize = 48;

/// The payload type indicator, three bits (I.361).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PayloadType {
    /// User data. `end` is the ATM-user-to-ATM-user bit: the last cell of an AAL5 PDU.
    User {
        /// Explicit forward congestion indication.
        congestion: bool,
        /// ATM-user-to-ATM-user indication.
        end: bool,
    },
    /// F5 OAM, segment flow.
    OamSegment,
    /// F5 OAM, end-to-end flow.
    OamEndToEnd,
    /// Resource management.
    ResourceManagement,
    /// Reserved by the standard.
    Reserved,
}

impl PayloadType {
    /// From the three bits; higher bits are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 7 {
            4 => PayloadType::OamSegment,
            5 => PayloadType::OamEndToEnd,
            6 => PayloadType::ResourceManagement,
            7 => PayloadType::Reserved,
            user => PayloadType::User { congestion: user & 2 != 0, end: user & 1 != 0 },
        }
    }

    /// The three bits.
    pub const fn bits(self) -> u8 {
        match self {
            PayloadType::User { congestion, end } => (congestion as u8) << 1 | end as u8,
            PayloadType::OamSegment => 4,
            PayloadType::OamEndToEnd => 5,
            PayloadType::ResourceManagement => 6,
            PayloadType::Reserved => 7,
        }
    }
}

impl Default for PayloadType {
    fn default() -> Self {
        PayloadType::User { congestion: false, end: false }
    }
}

/// What a cell header says. `gfc` exists at the UNI only; inside Cellway it is zero, and then the UNI layout with its
/// 8-bit VPI and the NNI layout with its 12-bit VPI are the same 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CellHeader {
    /// Virtual path and channel.
    pub circuit: CircuitId,
    /// Payload type.
    pub payload_type: PayloadType,
    /// Cell loss priority: may be dropped first.
    pub clp: bool,
}

impl CellHeader {
    /// The header's four octets as a number, first octet highest, in NNI layout.
    pub const fn to_word(self) -> u32 {
        self.circuit.key() << 4 | (self.payload_type.bits() as u32) << 1 | self.clp as u32
    }

    /// From the header's four octets as a number, in NNI layout.
    pub const fn from_word(word: u32) -> Self {
        CellHeader {
            circuit: CircuitId { vpi: Vpi::truncated(word >> 20), vci: Vci((word >> 4) as u16) },
            payload_type: PayloadType::from_bits((word >> 1) as u8),
            clp: word & 1 != 0,
        }
    }
}

/// A cell inside Cellway: one 64-octet cache line.
///
/// | octets | what |
/// |---|---|
/// | 0..4 | header as on the wire, NNI layout |
/// | 4..8 | zero: the HEC is computed where a cell leaves for a real wire |
/// | 8..16 | when the cell may be seen, nanoseconds, set by links |
/// | 16..64 | payload: three 16-octet lanes, aligned, so that one 64-octet store writes header and payload |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Cell {
    /// The header, and four octets of zero.
    head: [u8; 8],
    at_nanos: u64,
    /// The payload.
    pub payload: [u8; PAYLOAD_OCTETS],
}

const _: () = assert!(size_of::<Cell>() == 64 && core::mem::offset_of!(Cell, payload) == 16);

impl Cell {
    /// A cell of this header and payload.
    pub const fn new(header: CellHeader, payload: [u8; PAYLOAD_OCTETS]) -> Self {
        Cell { head: head(header.to_word()), at_nanos: 0, payload }
    }

    /// What the header says.
    pub const fn header(&self) -> CellHeader {
        CellHeader::from_word(self.header_word())
    }

    /// The header as a number, first octet highest.
    pub const fn header_word(&self) -> u32 {
        let [a, b, c, d, ..] = self.head;
        u32::from_be_bytes([a, b, c, d])
    }

    /// Replaces the header.
    #[inline]
    pub const fn set_header(&mut self, header: CellHeader) {
        self.set_header_word(header.to_word());
    }

    /// Replaces the header by its number; a switch does this per cell.
    #[inline]
    pub const fn set_header_word(&mut self, word: u32) {
        self.head = head(word);
    }

    /// Gives a slot that held another cell this header and no time; its payload is left for the caller to write.
    #[inline]
    pub const fn clear(&mut self, header: CellHeader) {
        self.set_header(header);
        self.at_nanos = 0;
    }

    /// Makes this slot a copy of `cell` under the header `word`, without a time. A whole copy that is then patched
    /// costs more: the patch and the vector that spans it meet in the store buffer.
    #[inline(always)]
    pub const fn copy_as(&mut self, cell: &Cell, word: u32) {
        *self = Cell { head: head(word), at_nanos: 0, payload: cell.payload };
    }

    /// The circuit.
    pub const fn circuit(&self) -> CircuitId {
        CircuitId::from_key(self.header_word() >> 4)
    }

    /// Whether it only fills a line: an idle cell (I.432.1) or an unassigned one (I.361 section 2.2). Both have VPI 0
    /// and VCI 0, and CLP tells them apart.
    #[inline]
    pub const fn is_filler(&self) -> bool {
        self.header_word() >> 4 == 0
    }

    /// When the cell may be seen by the far end of the link it is on.
    pub const fn at(&self) -> Time {
        Time::from_nanos(self.at_nanos)
    }

    /// Sets when the cell may be seen by the far end of the link it is on.
    pub const fn set_at(&mut self, at: Time) {
        self.at_nanos = at.as_nanos();
    }
}

/// A header with the octets behind it: one store of eight octets.
const fn head(word: u32) -> [u8; 8] {
    ((word as u64) << 32).to_be_bytes()
}

/// Cells that are compared without a branch between them.
const BLOCK: usize = 8;

/// How many cells at the beginning have the header `word`, but for its bits `free`.
#[inline]
pub fn run_length(cells: &[Cell], word: u32, free: u32) -> usize {
    let differs = |cell: &Cell| (cell.header_word() ^ word) & !free != 0;
    let (blocks, rest) = cells.as_chunks::<BLOCK>();
    let mut n = 0;
    for block in blocks {
        let bits = block.iter().fold(0, |bits, cell| bits | (cell.header_word() ^ word));
        if bits & !free != 0 {
            return n + block.iter().take_while(|cell| !differs(cell)).count();
        }
        n += BLOCK;
    }
    n + rest.iter().take_while(|cell| !differs(cell)).count()
}

impl Default for Cell {
    fn default() -> Self {
        Cell::new(CellHeader::default(), [0; PAYLOAD_OCTETS])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_has_its_fields_where_i_361_puts_them() {
        let header = CellHeader {
            circuit: CircuitId::new(0x0ab, 0x1234).unwrap(),
            payload_type: PayloadType::User { congestion: false, end: true },
            clp: true,
        };
        assert_eq!(header.to_word(), 0x0ab1_2343);
        // F5 end-to-end OAM on 0.5.
        assert_eq!(CellHeader::from_word(0x0000_005a).payload_type, PayloadType::OamEndToEnd);
    }

    #[test]
    fn idle_and_unassigned_cells_fill_a_line_and_no_other_cell_does() {
        let filler = |word: u32| Cell::new(CellHeader::from_word(word), [0; PAYLOAD_OCTETS]).is_filler();
        assert!([0, 1, 0xe].into_iter().all(filler), "unassigned, idle, unassigned of another payload type");
        assert!(![0x10, 0x50, 0x0010_0000, 0x8000_0000].into_iter().any(filler));
    }

    proptest! {
        #[test]
        fn a_run_ends_where_a_header_differs_in_a_bit_that_counts(words: [u8; 40], n in 0usize..40, rare in 0u8..32, free in 0u32..4) {
            let words = words.map(|word| u32::from(if word < rare { word & 3 } else { 0 }) << 1);
            let cells = words.map(|word| Cell::new(CellHeader::from_word(word), [0; 48]));
            let (first, free) = (words[0], free << 1);
            let want = words[..n].iter().take_while(|word| (**word ^ first) & !free == 0).count();
            prop_assert_eq!(run_length(&cells[..n], first, free), want);
        }

        #[test]
        fn a_copy_has_its_own_header_and_no_time_whatever_was_in_its_slot(words: [u32; 3], octet: u8, at: u64) {
            let [mut slot, mut cell] = [words[0], words[1]].map(|word| {
                let mut cell = Cell::new(CellHeader::from_word(word), [octet ^ word as u8; 48]);
                cell.set_at(Time::from_nanos(at));
                cell
            });
            slot.copy_as(&cell, words[2]);
            prop_assert_eq!(slot, Cell::new(CellHeader::from_word(words[2]), cell.payload));
            prop_assert_eq!((slot.header_word(), slot.at()), (words[2], Time::ZERO));
            cell.set_header_word(words[2]);
            prop_assert_eq!((cell.header_word(), cell.at()), (words[2], Time::from_nanos(at)));
        }

        #[test]
        fn every_word_is_a_header_and_comes_back(word: u32) {
            prop_assert_eq!(CellHeader::from_word(word).to_word(), word);
        }
    }
}
