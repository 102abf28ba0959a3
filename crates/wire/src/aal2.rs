//! AAL2 common part (I.363.2): short packets of many channels share the cells of one circuit.
//!
//! Packet header, three octets: channel (CID, 8 bits), length less one (LI, 6), user-to-user indication (UUI, 5), HEC
//! (5: x^5+x^2+1 over the 19 bits before it). Each cell starts with one octet: offset of the first packet header
//! (OSF, 6), sequence number (1), odd parity over the octet (1).

use crate::Error;
use crate::cell::PAYLOAD_OCTETS;

/// Octets of a packet's header.
pub const HEADER_OCTETS: usize = 3;
/// Octets of a cell after its start octet.
pub const CPS_PAYLOAD_OCTETS: usize = PAYLOAD_OCTETS - 1;
/// Longest payload of a packet unless the circuit has agreed on [`LONG_PAYLOAD_OCTETS`].
pub const DEFAULT_PAYLOAD_OCTETS: u8 = 45;
/// Longest payload that the header can say.
pub const LONG_PAYLOAD_OCTETS: u8 = 64;
/// The channel that no packet has: an octet of zero where a header should start is padding.
pub const CID_PADDING: u8 = 0;
/// First channel for users; 1 is layer management, 2 to 7 are reserved.
pub const CID_FIRST_USER: u8 = 8;

/// What a packet's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PacketHeader {
    /// Channel.
    pub cid: u8,
    /// Octets of payload, 1 to 64.
    pub payload_octets: u8,
    /// User-to-user indication, 0 to 31.
    pub uui: u8,
}

/// The HEC of the 19 bits of CID, LI and UUI.
const fn hec5(nineteen: u32) -> u32 {
    let mut r = nineteen << 5;
    let mut bit = 23;
    while bit >= 5 {
        if r >> bit & 1 != 0 {
            r ^= 0b10_0101 << (bit - 5);
        }
        bit -= 1;
    }
    r
}

impl PacketHeader {
    /// Reads a header whose HEC is right. Three octets of padding read as a header of channel [`CID_PADDING`].
    pub const fn parse([a, b, c]: [u8; HEADER_OCTETS]) -> Result<Self, Error> {
        let word = u32::from_be_bytes([0, a, b, c]);
        let (got, want) = (word & 31, hec5(word >> 5));
        if got != want {
            return Err(Error::Checksum { what: "AAL2 packet header", got, want });
        }
        Ok(PacketHeader { cid: a, payload_octets: (b >> 2) + 1, uui: (word >> 5 & 31) as u8 })
    }

    /// The three octets. What does not fit its field is cut.
    pub const fn to_octets(self) -> [u8; HEADER_OCTETS] {
        let li = self.payload_octets.wrapping_sub(1) & 63;
        let nineteen = (self.cid as u32) << 11 | (li as u32) << 5 | (self.uui & 31) as u32;
        let [_, a, b, c] = (nineteen << 5 | hec5(nineteen)).to_be_bytes();
        [a, b, c]
    }
}

/// The first octet of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StartField {
    /// Octets from the end of this octet to the first packet header, or to the padding; 47 if none starts here.
    pub offset: u8,
    /// Alternates from cell to cell.
    pub sequence: bool,
}

impl StartField {
    /// Reads the octet.
    pub fn parse(octet: u8) -> Result<Self, Error> {
        let bad = |field, value: u8| Err(Error::Field { what: "AAL2 start field", field, value: value.into() });
        if octet.count_ones() & 1 == 0 {
            return bad("parity", octet);
        }
        match octet >> 2 {
            offset if usize::from(offset) <= CPS_PAYLOAD_OCTETS => Ok(StartField { offset, sequence: octet & 2 != 0 }),
            offset => bad("OSF", offset),
        }
    }

    /// The octet; an offset beyond 47 is written as 47.
    pub const fn to_octet(self) -> u8 {
        let offset = if self.offset as usize > CPS_PAYLOAD_OCTETS { CPS_PAYLOAD_OCTETS as u8 } else { self.offset };
        let seven = offset << 2 | (self.sequence as u8) << 1;
        seven | (seven.count_ones() & 1 ^ 1) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_published_packet_headers() {
        for (cid, li, uui, octets) in
            [(8, 43, 0, [0x08, 0xac, 0x13]), (8, 44, 26, [0x08, 0xb3, 0x56]), (255, 63, 31, [0xff, 0xff, 0xe9])]
        {
            let header = PacketHeader { cid, payload_octets: li + 1, uui };
            assert_eq!(header.to_octets(), octets);
            assert_eq!(PacketHeader::parse(octets), Ok(header));
        }
    }

    #[test]
    fn padding_reads_as_the_channel_that_no_packet_has() {
        assert_eq!(PacketHeader::parse([0; 3]).map(|h| h.cid), Ok(CID_PADDING));
    }

    #[test]
    fn every_octet_is_a_start_field_that_comes_back_or_is_refused() {
        let read = (0..=255).filter_map(|octet| StartField::parse(octet).ok().map(|s| (octet, s)));
        assert_eq!(read.clone().count(), 96);
        for (octet, start) in read {
            assert_eq!(start.to_octet(), octet);
        }
        assert_eq!(StartField { offset: 0, sequence: false }.to_octet(), 1);
    }

    proptest! {
        #[test]
        fn a_header_sent_is_the_header_received_and_damage_is_seen(cid: u8, payload_octets in 1u8..=64, uui in 0u8..32, bit in 0usize..24) {
            let header = PacketHeader { cid, payload_octets, uui };
            let mut sent = header.to_octets();
            prop_assert_eq!(PacketHeader::parse(sent), Ok(header));
            sent[bit / 8] ^= 0x80 >> (bit % 8);
            prop_assert!(PacketHeader::parse(sent).is_err());
        }

        #[test]
        fn what_reads_as_a_header_is_written_as_it_was(octets: [u8; 3]) {
            if let Ok(header) = PacketHeader::parse(octets) {
                prop_assert_eq!(header.to_octets(), octets);
            }
        }
    }
}
