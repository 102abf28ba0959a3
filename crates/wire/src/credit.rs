//! Credit cells: flow control by credits between the two ends of one link, circuit by circuit.
//!
//! A format of Cellway's own, after the credit scheme of Kung and Morris (N23). A credit cell has the header 0.31,
//! resource management. It travels among the data cells of its link, so that a [`Kind::Check`] arrives behind every
//! cell that was sent before it. Any link between two Cellways that carries cells in order carries it: memory, UDP
//! batches ([`crate::udp`]) and AAL0 frames of ATM over TCP ([`crate::atmtcp`]).
//!
//! | payload octets | what |
//! |---|---|
//! | 0 | `C7` |
//! | 1 | number of entries, 1 to 3 |
//! | 2..38 | three entries of 12 octets; those beyond the number are 6A |
//! | 38..46 | 6A |
//! | 46..48 | six bits zero, CRC-10 over the payload |
//!
//! | entry octets | what |
//! |---|---|
//! | 0 | 1: limit, from the receiver of cells to their sender; 2: check, 3: start, from the sender to the receiver |
//! | 1 | zero |
//! | 2..4 | incarnation: the sender's number for this life of the circuit |
//! | 4..8 | label on this link: bit 31 set for a path, then VPI and VCI (28 bits), the VCI zero for a path |
//! | 8..12 | limit: cells that may have been sent in all; else: cells that have been sent in all; modulo 2^32 |
//!
//! Both counts are absolute. A later message therefore makes good any earlier one that was lost.

use crate::Error;
use crate::address::{CircuitId, Label, Vci, Vpi};
use crate::cell::{Cell, CellHeader, PAYLOAD_OCTETS, PayloadType};
use crate::crc::remainder10;
use crate::oam::UNUSED;

/// Most entries of one cell.
pub const MAX_ENTRIES: usize = 3;

/// Octet 0 of a credit cell's payload.
const MARK: u8 = 0xc7;
const ENTRY_OCTETS: usize = 12;
const PATH: u32 = 1 << 31;

/// The header of every credit cell.
pub const HEADER: CellHeader = CellHeader {
    circuit: CircuitId { vpi: Vpi::truncated(0), vci: Vci::CREDIT },
    payload_type: PayloadType::ResourceManagement,
    clp: false,
};

/// What an entry tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The receiver of a circuit's cells has room until this many have been sent.
    Limit,
    /// The sender of a circuit's cells has sent this many. The receiver counts as lost what it has not received, and
    /// answers with a limit.
    Check,
    /// A check of a sender that has no limit yet: the receiver begins to count at this number.
    Start,
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Limit or check.
    pub kind: Kind,
    /// The sender's number for this life of the circuit.
    pub incarnation: u16,
    /// The channel or path, as it is labelled on this link.
    pub label: Label,
    /// Cells, modulo 2^32.
    pub cells: u32,
}

impl Entry {
    fn parse(octets: &[u8; ENTRY_OCTETS]) -> Result<Self, Error> {
        let field = |field, value| Error::Field { what: "credit cell", field, value };
        let [kind, zero, i1, i0, l3, l2, l1, l0, c3, c2, c1, c0] = *octets;
        let word = u32::from_be_bytes([l3, l2, l1, l0]);
        let (key, path) = (word & !PATH, word & PATH != 0);
        if zero != 0 || key >> 28 != 0 || path && key & 0xffff != 0 {
            return Err(field("label", word.into()));
        }
        let kind = match kind {
            1 => Kind::Limit,
            2 => Kind::Check,
            3 => Kind::Start,
            other => return Err(field("kind", other.into())),
        };
        let circuit = CircuitId::from_key(key);
        let label = if path { Label::Vp(circuit.vpi) } else { Label::Vc(circuit) };
        let cells = u32::from_be_bytes([c3, c2, c1, c0]);
        Ok(Entry { kind, incarnation: u16::from_be_bytes([i1, i0]), label, cells })
    }

    fn emit(self) -> [u8; ENTRY_OCTETS] {
        let kind = match self.kind {
            Kind::Limit => 1,
            Kind::Check => 2,
            Kind::Start => 3,
        };
        let label = match self.label {
            Label::Vc(circuit) => circuit.key(),
            Label::Vp(vpi) => PATH | u32::from(vpi.get()) << 16,
        };
        let [i1, i0] = self.incarnation.to_be_bytes();
        let [l3, l2, l1, l0] = label.to_be_bytes();
        let [c3, c2, c1, c0] = self.cells.to_be_bytes();
        [kind, 0, i1, i0, l3, l2, l1, l0, c3, c2, c1, c0]
    }
}

/// Whether a cell is on the credit cells' channel of its link.
pub const fn is_credit(header_word: u32) -> bool {
    header_word & !1 == HEADER.to_word()
}

/// The entries of a credit cell.
///
/// # Errors
/// A payload that the format does not allow; nothing of it counts then.
pub fn parse(payload: &[u8; PAYLOAD_OCTETS]) -> Result<impl Iterator<Item = Entry> + use<>, Error> {
    let got = u32::from(u16::from_be_bytes([payload[46] & 3, payload[47]]));
    let mut without = *payload;
    without[46] &= 0xfc;
    without[47] = 0;
    let want = u32::from(remainder10(&without));
    if got != want {
        return Err(Error::Checksum { what: "credit cell", got, want });
    }
    let field = |field, value: u8| Err(Error::Field { what: "credit cell", field, value: value.into() });
    if payload[0] != MARK {
        return field("mark", payload[0]);
    }
    let count = usize::from(payload[1]);
    if count == 0 || count > MAX_ENTRIES {
        return field("number of entries", payload[1]);
    }
    let mut entries = [None; MAX_ENTRIES];
    let (octets, _) = payload[2..].as_chunks::<ENTRY_OCTETS>();
    for (entry, octets) in entries.iter_mut().zip(octets).take(count) {
        *entry = Some(Entry::parse(octets)?);
    }
    Ok(entries.into_iter().flatten())
}

/// A credit cell of the first [`MAX_ENTRIES`] of `entries`. No entries make no sense; such a cell is refused by
/// [`parse`].
pub fn emit(entries: &[Entry]) -> Cell {
    let mut p = [UNUSED; PAYLOAD_OCTETS];
    let entries = &entries[..entries.len().min(MAX_ENTRIES)];
    p[0] = MARK;
    p[1] = entries.len() as u8;
    for (entry, octets) in entries.iter().zip(p[2..].as_chunks_mut::<ENTRY_OCTETS>().0) {
        *octets = entry.emit();
    }
    p[46] = 0;
    p[47] = 0;
    let [high, low] = remainder10(&p).to_be_bytes();
    p[46] = high;
    p[47] = low;
    Cell::new(HEADER, p)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn entry() -> impl Strategy<Value = Entry> {
        (0usize..3, any::<u16>(), any::<bool>(), 0u32..1 << 28, any::<u32>()).prop_map(
            |(kind, incarnation, path, key, cells)| {
                let circuit = CircuitId::from_key(key);
                let label = if path { Label::Vp(circuit.vpi) } else { Label::Vc(circuit) };
                Entry { kind: [Kind::Limit, Kind::Check, Kind::Start][kind], incarnation, label, cells }
            },
        )
    }

    #[test]
    fn a_credit_cell_has_its_fields_where_the_table_says() {
        let label = Label::Vc(CircuitId::new(1, 0x2345).unwrap());
        let cell = emit(&[Entry { kind: Kind::Check, incarnation: 0x0607, label, cells: 0x0809_0a0b }]);
        assert_eq!(cell.header_word(), 0x0000_01fc);
        assert_eq!(cell.payload[..14], [0xc7, 1, 2, 0, 6, 7, 0, 1, 0x23, 0x45, 8, 9, 10, 11]);
        assert!(cell.payload[14..46].iter().all(|octet| *octet == 0x6a));
        assert!(is_credit(cell.header_word()) && is_credit(cell.header_word() | 1));
        assert!(!is_credit(0x0000_01f0) && !is_credit(0x0010_01fc));
    }

    proptest! {
        #[test]
        fn entries_come_back_and_damage_is_seen(entries in proptest::collection::vec(entry(), 1..=3), bit in 0usize..384) {
            let mut cell = emit(&entries);
            prop_assert_eq!(parse(&cell.payload).unwrap().collect::<Vec<_>>(), entries);
            cell.payload[bit / 8] ^= 0x80 >> (bit % 8);
            prop_assert!(parse(&cell.payload).is_err());
        }

        #[test]
        fn no_octets_panic(octets: [u8; 48]) {
            if let Ok(entries) = parse(&octets) {
                prop_assert!(entries.count() > 0);
            }
        }
    }
}
