//! AAL5 common part (I.363.5): the trailer at the end of a PDU's last cell, and how many cells an SDU needs.
//!
//! | octets from the end | what |
//! |---|---|
//! | 8 | CPCS-UU, handed from user to user |
//! | 7 | CPI, zero |
//! | 6..4 | length of the SDU in octets; 0 means that the sender gives the PDU up |
//! | 4..0 | CRC-32 over payload, padding and the four octets before it |

use crate::Error;
use crate::cell::PAYLOAD_OCTETS;

/// Octets of the trailer.
pub const TRAILER_OCTETS: usize = 8;
/// The longest SDU.
pub const MAX_SDU_OCTETS: usize = 65_535;

/// How many cells carry an SDU of `sdu_octets` octets: payload, 0 to 47 octets of padding, trailer.
pub const fn cells(sdu_octets: usize) -> usize {
    (sdu_octets + TRAILER_OCTETS).div_ceil(PAYLOAD_OCTETS)
}

/// What an AAL5 trailer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trailer {
    /// User-to-user indication.
    pub uu: u8,
    /// Common part indicator.
    pub cpi: u8,
    /// Octets of the SDU.
    pub length: u16,
    /// CRC-32.
    pub crc: u32,
}

impl Trailer {
    /// Reads the last eight octets of `pdu`.
    pub fn parse(pdu: &[u8]) -> Result<Self, Error> {
        let Some(octets) = pdu.last_chunk::<TRAILER_OCTETS>() else {
            return Err(Error::Truncated { what: "AAL5 PDU", need: TRAILER_OCTETS, got: pdu.len() });
        };
        Ok(Self::from_octets(*octets))
    }

    /// From the eight octets.
    pub const fn from_octets([uu, cpi, l1, l0, c3, c2, c1, c0]: [u8; TRAILER_OCTETS]) -> Self {
        Trailer { uu, cpi, length: u16::from_be_bytes([l1, l0]), crc: u32::from_be_bytes([c3, c2, c1, c0]) }
    }

    /// The eight octets.
    pub const fn to_octets(self) -> [u8; TRAILER_OCTETS] {
        let [l1, l0] = self.length.to_be_bytes();
        let [c3, c2, c1, c0] = self.crc.to_be_bytes();
        [self.uu, self.cpi, l1, l0, c3, c2, c1, c0]
    }
}

/// Checks a whole CPCS-PDU (a multiple of 48 octets) and gives its SDU's length and trailer.
pub fn check(pdu: &[u8]) -> Result<Trailer, Error> {
    let trailer = Trailer::parse(pdu)?;
    let want = crate::crc::crc32(&pdu[..pdu.len() - 4]);
    if want != trailer.crc {
        return Err(Error::Checksum { what: "AAL5 PDU", got: trailer.crc, want });
    }
    let length = usize::from(trailer.length);
    if length == 0 || cells(length) * PAYLOAD_OCTETS != pdu.len() {
        return Err(Error::Field { what: "AAL5 PDU", field: "length", value: length as u64 });
    }
    Ok(trailer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crc::crc32;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// The CPCS-PDU of an SDU.
    fn pdu(sdu: &[u8], uu: u8, cpi: u8) -> Vec<u8> {
        let mut pdu = sdu.to_vec();
        pdu.resize(cells(sdu.len()) * 48 - 8, 0);
        pdu.extend_from_slice(&Trailer { uu, cpi, length: sdu.len() as u16, crc: 0 }.to_octets()[..4]);
        pdu.extend_from_slice(&crc32(&pdu).to_be_bytes());
        pdu
    }

    #[test]
    fn the_published_vectors() {
        let counting: Vec<u8> = (1..=40).collect();
        for (sdu, uu, cpi, crc) in [
            (&[0u8; 40][..], 0, 0, 0x864d_7f99u32),
            (&[0xff; 40], 0, 0, 0xc55e_457a),
            (&counting, 0, 0, 0xbf67_1ed0),
            (&counting, 0x11, 0x22, 0xacba_602a),
        ] {
            let pdu = pdu(sdu, uu, cpi);
            assert_eq!(Trailer::parse(&pdu), Ok(Trailer { uu, cpi, length: 40, crc }));
            assert!(check(&pdu).is_ok());
        }
    }

    #[test]
    fn cells_at_the_edges() {
        for (octets, n) in [(0, 1), (1, 1), (40, 1), (41, 2), (88, 2), (89, 3), (9188, 192), (65_535, 1366)] {
            assert_eq!(cells(octets), n, "{octets}");
        }
    }

    proptest! {
        #[test]
        fn a_changed_octet_is_found(sdu in proptest::collection::vec(any::<u8>(), 1..300), at: proptest::sample::Index, x in 1u8..) {
            let mut pdu = pdu(&sdu, 0, 0);
            prop_assert_eq!(usize::from(check(&pdu).unwrap().length), sdu.len());
            let i = at.index(pdu.len());
            pdu[i] ^= x;
            prop_assert!(check(&pdu).is_err());
        }

        #[test]
        fn no_octets_panic(octets: Vec<u8>) {
            let _ = check(&octets);
        }
    }
}
