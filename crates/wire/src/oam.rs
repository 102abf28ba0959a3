//! OAM cells (I.610): their common frame and the loopback cell.
//!
//! | payload octets | what |
//! |---|---|
//! | 0 | OAM type (upper four bits), function (lower four) |
//! | 1..46 | for the function; unused octets are 6A |
//! | 46..48 | six bits reserved, CRC-10 over the payload |
//!
//! Which flow a cell belongs to stands in its header: F5 by payload type, F4 by VCI 3 or 4.

use crate::Error;
use crate::address::Vci;
use crate::cell::{CellHeader, PAYLOAD_OCTETS, PayloadType};
use crate::crc::remainder10;

/// What unused octets hold.
pub const UNUSED: u8 = 0x6a;

/// The flow of an OAM cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flow {
    /// Virtual path, segment.
    F4Segment,
    /// Virtual path, end to end.
    F4EndToEnd,
    /// Virtual channel, segment.
    F5Segment,
    /// Virtual channel, end to end.
    F5EndToEnd,
}

impl Flow {
    /// The flow that a header names, if it is an OAM cell's.
    pub fn of(header: CellHeader) -> Option<Flow> {
        match (header.circuit.vci, header.payload_type) {
            (Vci::F4_SEGMENT, _) => Some(Flow::F4Segment),
            (Vci::F4_END_TO_END, _) => Some(Flow::F4EndToEnd),
            (_, PayloadType::OamSegment) => Some(Flow::F5Segment),
            (_, PayloadType::OamEndToEnd) => Some(Flow::F5EndToEnd),
            _ => None,
        }
    }

    /// Whether the flow ends at the next segment end point rather than at the circuit's.
    pub const fn is_segment(self) -> bool {
        matches!(self, Flow::F4Segment | Flow::F5Segment)
    }

    /// The header of this flow's cells on the circuit of `header`.
    pub fn header(self, mut header: CellHeader) -> CellHeader {
        match self {
            Flow::F4Segment => header.circuit.vci = Vci::F4_SEGMENT,
            Flow::F4EndToEnd => header.circuit.vci = Vci::F4_END_TO_END,
            Flow::F5Segment => header.payload_type = PayloadType::OamSegment,
            Flow::F5EndToEnd => header.payload_type = PayloadType::OamEndToEnd,
        }
        header
    }
}

/// What an OAM cell is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// Alarm indication signal.
    Ais,
    /// Remote defect indication.
    Rdi,
    /// Continuity check.
    ContinuityCheck,
    /// Loopback.
    Loopback(Loopback),
    /// Another, by type and function.
    Other(u8),
}

/// A loopback cell: sent with `request` true, returned with it false.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loopback {
    /// The indication bit: this cell is on its way out.
    pub request: bool,
    /// Chosen by the sender to know its own cells again.
    pub correlation: u32,
    /// Where to turn round. In an answer to a request for every point: who answers.
    pub location: Location,
    /// Who sent it; all ones if not said.
    pub source: Location,
}

impl Loopback {
    /// A request to the flow's end point from a sender that gives no name.
    pub const fn request(correlation: u32) -> Self {
        Loopback { request: true, correlation, location: Location::END_POINT, source: Location::END_POINT }
    }

    /// The cell that goes back from a point of this name; one that was meant for every point says who answers.
    pub fn returned(self, name: Option<Location>) -> Self {
        let location = name.filter(|_| self.location == Location::EVERY_POINT).unwrap_or(self.location);
        Loopback { request: false, location, ..self }
    }
}

/// A loopback location identifier (I.610 section 9.2.1.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Location(pub [u8; 16]);

impl Location {
    /// The end point of the flow.
    pub const END_POINT: Location = Location([0xff; 16]);
    /// Every connecting point, and the end point.
    pub const EVERY_POINT: Location = Location([0; 16]);

    /// The identifier of a point with this name: its first 16 octets, filled with zeroes. What identifiers hold is left to
    /// who runs the network.
    pub fn named(name: &str) -> Option<Location> {
        let mut octets = [0; 16];
        let n = name.len().min(octets.len());
        octets[..n].copy_from_slice(&name.as_bytes()[..n]);
        Some(Location(octets)).filter(|location| !matches!(*location, Self::END_POINT | Self::EVERY_POINT))
    }

    /// The name, if it is printable ASCII.
    pub fn name(&self) -> Option<&str> {
        let end = self.0.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
        let name = str::from_utf8(&self.0[..end]).ok()?;
        Some(name).filter(|name| !name.is_empty() && name.bytes().all(|octet| octet.is_ascii_graphic()))
    }
}

impl core::fmt::Display for Location {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}")),
        }
    }
}

impl Function {
    /// Reads an OAM cell's payload.
    pub fn parse(payload: &[u8; PAYLOAD_OCTETS]) -> Result<Self, Error> {
        let got = u32::from(u16::from_be_bytes([payload[46] & 3, payload[47]]));
        let mut without = *payload;
        without[46] &= 0xfc;
        without[47] = 0;
        let want = u32::from(checksum(&without));
        if got != want {
            return Err(Error::Checksum { what: "OAM cell", got, want });
        }
        Ok(match payload[0] {
            0x10 => Function::Ais,
            0x11 => Function::Rdi,
            0x14 => Function::ContinuityCheck,
            0x18 => {
                let mut location = [0; 16];
                let mut source = [0; 16];
                location.copy_from_slice(&payload[6..22]);
                source.copy_from_slice(&payload[22..38]);
                Function::Loopback(Loopback {
                    request: payload[1] & 1 != 0,
                    correlation: u32::from_be_bytes([payload[2], payload[3], payload[4], payload[5]]),
                    location: Location(location),
                    source: Location(source),
                })
            }
            other => Function::Other(other),
        })
    }

    /// The payload of an OAM cell.
    pub fn emit(self) -> [u8; PAYLOAD_OCTETS] {
        let mut p = [UNUSED; PAYLOAD_OCTETS];
        p[0] = match self {
            Function::Ais => 0x10,
            Function::Rdi => 0x11,
            Function::ContinuityCheck => 0x14,
            Function::Loopback(l) => {
                p[1] = u8::from(l.request);
                p[2..6].copy_from_slice(&l.correlation.to_be_bytes());
                p[6..22].copy_from_slice(&l.location.0);
                p[22..38].copy_from_slice(&l.source.0);
                0x18
            }
            Function::Other(other) => other,
        };
        p[46] = 0;
        p[47] = 0;
        let [high, low] = checksum(&p).to_be_bytes();
        p[46] = high;
        p[47] = low;
        p
    }
}

/// The CRC-10 of a payload whose last ten bits, where the CRC will stand, are zero.
fn checksum(payload: &[u8; PAYLOAD_OCTETS]) -> u16 {
    remainder10(payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn computed_vectors_of_the_four_fault_management_cells() {
        let loopback = Loopback { request: true, correlation: 1, ..Loopback::request(1) };
        let mut lb = Function::Loopback(loopback).emit();
        for (function, crc) in [(Function::Ais, 0x3b9), (Function::Rdi, 0x0af), (Function::ContinuityCheck, 0x387)] {
            let p = function.emit();
            assert_eq!(u16::from_be_bytes([p[46], p[47]]), crc);
            assert_eq!(Function::parse(&p), Ok(function));
        }
        // The vector has a source of 6A.
        lb[22..38].fill(UNUSED);
        lb[46] = 0;
        lb[47] = 0;
        assert_eq!(checksum(&lb), 0x309);
    }

    #[test]
    fn flows_stand_in_the_header() {
        let user = CellHeader { circuit: crate::CircuitId::new(1, 100).unwrap(), ..CellHeader::default() };
        assert_eq!(Flow::of(user), None);
        for flow in [Flow::F4Segment, Flow::F4EndToEnd, Flow::F5Segment, Flow::F5EndToEnd] {
            assert_eq!(Flow::of(flow.header(user)), Some(flow));
        }
    }

    #[test]
    fn names_are_locations_and_printed_as_such() {
        for name in ["s1", "sixteen-octets-x"] {
            assert_eq!(Location::named(name).unwrap().to_string(), name);
        }
        assert_eq!(Location::named("seventeen-octets-x").unwrap().name(), Some("seventeen-octets"));
        assert_eq!(Location::named(""), None);
        assert_eq!(Location([0x6a; 16]).to_string(), "jjjjjjjjjjjjjjjj");
        for odd in ["a b", "a\0b", "\u{e9}", "a\n"] {
            let location = Location::named(odd).unwrap();
            assert_eq!((location.name(), location.to_string().len()), (None, 32), "{odd:?}");
        }
        assert_eq!(Location::END_POINT.to_string(), "ff".repeat(16));
    }

    proptest! {
        #[test]
        fn a_loopback_cell_comes_back_and_damage_is_seen(request: bool, correlation: u32, location: [u8; 16], source: [u8; 16], bit in 0usize..384) {
            let (location, source) = (Location(location), Location(source));
            let function = Function::Loopback(Loopback { request, correlation, location, source });
            let mut p = function.emit();
            prop_assert_eq!(Function::parse(&p), Ok(function));
            p[bit / 8] ^= 0x80 >> (bit % 8);
            // The six reserved bits are covered by the CRC as well.
            prop_assert!(Function::parse(&p).is_err());
        }
    }
}
