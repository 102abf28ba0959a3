//! AAL2's CPS packet header (I.363.2 section 9.2): three octets.
//!
//! | bits | what |
//! |---|---|
//! | 8 | CID, the channel within the circuit: 0 is padding, 8 to 255 are users |
//! | 6 | LI, octets of the packet's payload less one |
//! | 5 | UUI, handed from user to user |
//! | 5 | HEC over the 19 bits before it, x^5 + x^2 + 1 |

use crate::Error;

/// Octets of the header.
pub const HEADER_OCTETS: usize = 3;

/// A packet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketHeader {
    /// Channel identifier.
    pub cid: u8,
    /// Octets of the payload, 1 to 64.
    pub payload_octets: u8,
    /// User-to-user indication, 0 to 31.
    pub uui: u8,
}

const fn hec(word: u32) -> u32 {
    // The 19 bits stand in bits 23 to 5; below them is where the remainder comes to stand.
    let mut r = word;
    let mut bit = 23;
    while bit >= 5 {
        if r >> bit & 1 == 1 {
            r ^= 0b10_0101 << (bit - 5);
        }
        bit -= 1;
    }
    r & 0x1f
}

impl PacketHeader {
    /// The three octets. What does not fit its field is cut.
    pub const fn to_octets(self) -> [u8; HEADER_OCTETS] {
        let li = self.payload_octets.wrapping_sub(1) as u32 & 0x3f;
        let word = (self.cid as u32) << 16 | li << 10 | (self.uui as u32 & 0x1f) << 5;
        let [_, a, b, c] = (word | hec(word)).to_be_bytes();
        [a, b, c]
    }

    /// Reads a header whose HEC is right.
    pub const fn parse([a, b, c]: [u8; HEADER_OCTETS]) -> Result<Self, Error> {
        let word = (a as u32) << 16 | (b as u32) << 8 | c as u32;
        let (got, want) = (word & 0x1f, hec(word & !0x1f));
        if got != want {
            return Err(Error::Checksum { what: "AAL2 packet header", got, want });
        }
        Ok(PacketHeader { cid: a, payload_octets: (word >> 10 & 0x3f) as u8 + 1, uui: (word >> 5 & 0x1f) as u8 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_published_headers() {
        for (cid, li, uui, octets) in
            [(8, 43, 0, [0x08, 0xac, 0x13]), (8, 44, 26, [0x08, 0xb3, 0x56]), (255, 63, 31, [0xff, 0xff, 0xe9])]
        {
            assert_eq!(PacketHeader { cid, payload_octets: li + 1, uui }.to_octets(), octets);
        }
    }

    proptest! {
        #[test]
        fn a_header_comes_back_and_a_wrong_bit_is_seen(cid: u8, payload_octets in 1u8..=64, uui in 0u8..32, bit in 0usize..24) {
            let header = PacketHeader { cid, payload_octets, uui };
            let mut octets = header.to_octets();
            prop_assert_eq!(PacketHeader::parse(octets), Ok(header));
            octets[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(PacketHeader::parse(octets).is_err());
        }
    }
}
