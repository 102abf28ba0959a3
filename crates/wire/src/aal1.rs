//! AAL1's first payload octet (I.363.1 section 2.4.2): sequence number and its protection.
//!
//! | bits | what |
//! |---|---|
//! | 7 | CSI, convergence sublayer indication |
//! | 6..4 | sequence count |
//! | 3..1 | CRC-3 over the four bits before it, x^3 + x + 1 |
//! | 0 | even parity over all |

use crate::Error;

/// A sequence number field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceNumber {
    /// Convergence sublayer indication: structure pointer in even counts, SRTS in odd ones.
    pub csi: bool,
    /// Sequence count, 0 to 7.
    pub count: u8,
}

impl SequenceNumber {
    /// The octet. Only the lower three bits of `count` are sent.
    pub const fn to_octet(self) -> u8 {
        let sn = (self.csi as u8) << 3 | (self.count & 7);
        let mut r = sn << 3;
        let mut bit = 6;
        while bit >= 3 {
            if r >> bit & 1 == 1 {
                r ^= 0b1011 << (bit - 3);
            }
            bit -= 1;
        }
        let octet = sn << 4 | (r & 7) << 1;
        octet | (octet.count_ones() & 1) as u8
    }

    /// Reads an octet whose protection is right.
    pub const fn parse(octet: u8) -> Result<Self, Error> {
        let sn = SequenceNumber { csi: octet & 0x80 != 0, count: octet >> 4 & 7 };
        let want = sn.to_octet();
        if want == octet {
            Ok(sn)
        } else {
            Err(Error::Checksum { what: "AAL1 SN", got: octet as u32, want: want as u32 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sixteen_published_octets() {
        const PUBLISHED: [u8; 16] =
            [0x00, 0x17, 0x2d, 0x3a, 0x4e, 0x59, 0x63, 0x74, 0x8b, 0x9c, 0xa6, 0xb1, 0xc5, 0xd2, 0xe8, 0xff];
        for (i, octet) in PUBLISHED.iter().enumerate() {
            let sn = SequenceNumber { csi: i >= 8, count: i as u8 & 7 };
            assert_eq!(sn.to_octet(), *octet);
            assert_eq!(SequenceNumber::parse(*octet), Ok(sn));
        }
        let right = (0..=255).filter(|o| SequenceNumber::parse(*o).is_ok()).count();
        assert_eq!(right, 16);
    }
}
