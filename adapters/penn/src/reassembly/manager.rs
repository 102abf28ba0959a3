//! The Cell Manager: is this cell intact, and what does it name?
//!
//! In: a cell, as 53 octets with HEC or in a slot. Out: the key that the lookup takes, what stands beside the body, and
//! how many octets of the body count; or the reason to flush it. In hardware the body is in a FIFO by the time its
//! CRC-10 is known and is flushed from there; here it is still where the caller has it, so that a flush costs nothing.

use wire::aal34::{Segment, SegmentType};
use wire::cell::{CELL_OCTETS, PAYLOAD_OCTETS};
use wire::crc::remainder10;
use wire::octets::{Format, parse53};
use wire::{Cell, CellHeader, DropReason, PayloadType};

/// The VCI's most significant bit marks connectionless traffic, carried by AAL3/4 (Traw and Smith, 1993).
pub const CONNECTIONLESS: u16 = 0x8000;

/// What names a list (Traw and Smith, 1993).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A virtual circuit.
    Circuit {
        /// Its VCI; the VPI is ignored.
        vci: u16,
    },
    /// A connectionless PDU (CS-PDU).
    Pdu {
        /// The VCI it comes on; its highest bit is set.
        vci: u16,
        /// Its multiplexing identification on that VCI, 10 bits.
        mid: u16,
    },
}

impl Key {
    /// As the CAM holds it: 16 bits of VCI, or 26 of VCI and MID.
    pub(super) const fn word(self) -> u32 {
        match self {
            Key::Circuit { vci } => vci as u32,
            Key::Pdu { vci, mid } => (vci as u32) << 10 | mid as u32 & 0x3ff,
        }
    }

    pub(super) const fn circuit(word: u32) -> Self {
        Key::Circuit { vci: word as u16 }
    }

    pub(super) const fn pdu(word: u32) -> Self {
        Key::Pdu { vci: (word >> 10) as u16, mid: word as u16 & 0x3ff }
    }
}

/// What stands beside a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tag {
    /// The first cell of a PDU, where the cell says so: BOM and SSM of AAL3/4.
    pub begin: bool,
    /// The last cell of a PDU: EOM and SSM of AAL3/4; on a circuit the payload type's end bit, as AAL5 sets it.
    pub end: bool,
    /// The sender gives the PDU up with this cell (AAL3/4 EOM, LI 63).
    pub abort: bool,
    /// Cell loss priority.
    pub clp: bool,
    /// Congestion experienced.
    pub congestion: bool,
    /// Octets of the body: 48 on a circuit, LI of a CS-PDU.
    pub octets: u8,
}

/// An intact cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intake<'a> {
    /// What it belongs to.
    pub key: Key,
    /// What stands beside its body.
    pub tag: Tag,
    /// The body: 48 octets, or the 44 between AAL3/4's header and trailer.
    pub body: &'a [u8],
}

/// What is not an intact user cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reject {
    /// The cell is no user cell: OAM and resource management have no place in a reassembly.
    Management,
    /// The body is flushed.
    Flush(DropReason),
}

/// Reads a cell from a wire. The header is checked and not corrected, as the hardware does.
pub fn receive(octets: &[u8; CELL_OCTETS]) -> Result<Cell, DropReason> {
    parse53(octets, Format::Uni).map_err(|_| DropReason::HeaderError)
}

/// Checks a cell's body and says where it belongs.
pub fn examine(cell: &Cell) -> Result<Intake<'_>, Reject> {
    let good = cell.circuit().vci.get() & CONNECTIONLESS == 0 || remainder10(&cell.payload) == 0;
    extract(cell.header(), &cell.payload, good)
}

/// Says where a cell belongs, if its body's CRC-10, where it has one, is `good`.
pub fn extract(header: CellHeader, payload: &[u8; PAYLOAD_OCTETS], good: bool) -> Result<Intake<'_>, Reject> {
    let PayloadType::User { congestion, end } = header.payload_type else { return Err(Reject::Management) };
    let vci = header.circuit.vci.get();
    let tag = Tag { begin: false, end, abort: false, clp: header.clp, congestion, octets: PAYLOAD_OCTETS as u8 };
    if vci & CONNECTIONLESS == 0 {
        return Ok(Intake { key: Key::Circuit { vci }, tag, body: payload });
    }
    if !good {
        return Err(Reject::Flush(DropReason::Crc));
    }
    // The sequence number is not looked at: loss shows in the CS-PDU's length (Traw and Smith, 1993).
    let (segment, body) = Segment::fields(payload);
    let abort = segment.is_abort();
    let octets = match segment.payload_octets() {
        Some(octets) => octets as u8,
        None if abort => 0,
        None => return Err(Reject::Flush(DropReason::Malformed)),
    };
    let begin = matches!(segment.segment_type, SegmentType::Begin | SegmentType::Single);
    let end = matches!(segment.segment_type, SegmentType::End | SegmentType::Single);
    Ok(Intake { key: Key::Pdu { vci, mid: segment.mid }, tag: Tag { begin, end, abort, octets, ..tag }, body })
}
