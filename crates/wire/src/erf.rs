//! ERF, the extensible record format of capture cards, as pcapng packets of link type 197: cells as type 3, whole AAL5
//! PDUs as type 4. tshark decodes both, and checks the AAL5 CRC of the latter.
//!
//! | octets | what |
//! |---|---|
//! | 0..8 | time: 32.32 fixed-point seconds since 1970, little-endian |
//! | 8 | type |
//! | 9 | flags: bits 0 and 1 the interface |
//! | 10..12 | octets of the record, this head included |
//! | 12..14 | loss counter, or colour |
//! | 14..16 | octets on the wire |
//! | 16..20 | cell header without HEC |
//! | 20.. | cell payload, or the CPCS-PDU with padding and trailer |

use crate::Error;
use crate::cell::CellHeader;
use core::time::Duration;

/// pcapng's link type.
pub const LINKTYPE: u16 = 197;
/// Octets before the payload.
pub const HEAD_OCTETS: usize = 20;

/// What a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One cell.
    Cell,
    /// One AAL5 CPCS-PDU.
    Aal5,
}

/// What stands before a record's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Time since 1970 (to about a quarter of a nanosecond).
    pub time: Duration,
    /// Cell or PDU.
    pub kind: Kind,
    /// Capture interface, 0 to 3.
    pub interface: u8,
    /// The cell's header, or the header of the PDU's last cell.
    pub header: CellHeader,
    /// Octets of payload in the record.
    pub payload_octets: u16,
}

impl Head {
    /// Reads a record's head; gives it and the payload.
    pub fn parse(record: &[u8]) -> Result<(Self, &[u8]), Error> {
        const WHAT: &str = "ERF record";
        let Some((h, payload)) = record.split_first_chunk::<HEAD_OCTETS>() else {
            return Err(Error::Truncated { what: WHAT, need: HEAD_OCTETS, got: record.len() });
        };
        let kind = match h[8] & 0x7f {
            3 => Kind::Cell,
            4 => Kind::Aal5,
            other => return Err(Error::Field { what: WHAT, field: "type", value: other.into() }),
        };
        let length = usize::from(u16::from_be_bytes([h[10], h[11]]));
        let Some(payload) = length.checked_sub(HEAD_OCTETS).and_then(|n| payload.get(..n)) else {
            return Err(Error::Field { what: WHAT, field: "rlen", value: length as u64 });
        };
        let fraction = u64::from(u32::from_le_bytes([h[0], h[1], h[2], h[3]]));
        let seconds = u32::from_le_bytes([h[4], h[5], h[6], h[7]]);
        let nanos = (fraction * 1_000_000_000 + (1 << 31)) >> 32;
        let head = Head {
            time: Duration::from_secs(seconds.into()) + Duration::from_nanos(nanos),
            kind,
            interface: h[9] & 3,
            header: CellHeader::from_word(u32::from_be_bytes([h[16], h[17], h[18], h[19]])),
            payload_octets: payload.len() as u16,
        };
        Ok((head, payload))
    }

    /// The head's octets. `payload_octets` beyond what a record's length field can say is clipped.
    pub fn emit(&self) -> [u8; HEAD_OCTETS] {
        let mut h = [0; HEAD_OCTETS];
        let fraction = ((u64::from(self.time.subsec_nanos()) << 32) / 1_000_000_000) as u32;
        h[..4].copy_from_slice(&fraction.to_le_bytes());
        h[4..8].copy_from_slice(&(self.time.as_secs() as u32).to_le_bytes());
        h[8] = match self.kind {
            Kind::Cell => 3,
            Kind::Aal5 => 4,
        };
        h[9] = self.interface & 3 | 4; // varying record lengths
        let length = self.payload_octets.saturating_add(HEAD_OCTETS as u16);
        h[10..12].copy_from_slice(&length.to_be_bytes());
        h[14..16].copy_from_slice(&self.payload_octets.saturating_add(4).to_be_bytes());
        h[16..].copy_from_slice(&self.header.to_word().to_be_bytes());
        h
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn a_record_written_is_the_record_read(secs: u32, nanos in 0u32..1_000_000_000, cell: bool, interface in 0u8..4, word: u32, payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            let head = Head {
                time: Duration::new(secs.into(), nanos),
                kind: if cell { Kind::Cell } else { Kind::Aal5 },
                interface,
                header: CellHeader::from_word(word),
                payload_octets: payload.len() as u16,
            };
            let mut record = head.emit().to_vec();
            record.extend_from_slice(&payload);
            let (back, rest) = Head::parse(&record).unwrap();
            prop_assert_eq!(back, head);
            prop_assert_eq!(rest, &payload[..]);
        }

        #[test]
        fn no_octets_panic(octets: Vec<u8>) {
            let _ = Head::parse(&octets);
        }
    }
}
