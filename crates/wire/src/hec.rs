//! Header error control (I.432.1 section 4.3): generation, checking, single-bit correction, and the receiver that
//! changes between correction and detection.

use crate::crc::crc8;

/// Added to the CRC so that headers of zeros do not have a HEC of zero.
pub const COSET: u8 = 0x55;

/// The HEC of four header octets.
pub fn generate(header: [u8; 4]) -> u8 {
    crc8(&header) ^ COSET
}

/// The syndrome of a five-octet header: zero if it is right, else one of 40 values for a single wrong bit.
pub fn syndrome([a, b, c, d, hec]: [u8; 5]) -> u8 {
    generate([a, b, c, d]) ^ hec
}

/// The bit (0 the first sent, 39 the last) whose inversion has this syndrome.
pub fn single_bit(syndrome: u8) -> Option<u32> {
    /// Syndromes of the 40 single-bit errors, first sent bit first.
    const fn syndromes() -> [u8; 40] {
        let mut all = [0; 40];
        let mut bit = 0;
        while bit < 40 {
            // The CRC of one bit followed by zeros: shift 1 up by its distance from the end.
            let mut r: u32 = 1;
            let mut step = 39 - bit;
            while step > 0 {
                r <<= 1;
                if r & 0x100 != 0 {
                    r ^= 0x107;
                }
                step -= 1;
            }
            all[bit] = r as u8;
            bit += 1;
        }
        all
    }
    static SYNDROMES: [u8; 40] = syndromes();
    SYNDROMES.iter().position(|&s| s == syndrome).map(|bit| bit as u32)
}

/// What a receiver makes of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The header was right.
    Good,
    /// One bit was wrong and has been put right.
    Corrected,
    /// The cell is to be dropped.
    Bad,
}

/// A receiver's mode (I.432.1 figure 3): corrects one error after a good header, then only detects until the next
/// good one, because errors come in bursts and a "correction" inside a burst would misdeliver cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receiver {
    detecting: bool,
}

impl Receiver {
    /// Checks `header` and, in correction mode, puts a single wrong bit right.
    pub fn check(&mut self, header: &mut [u8; 5]) -> Verdict {
        let syndrome = syndrome(*header);
        if syndrome == 0 {
            self.detecting = false;
            return Verdict::Good;
        }
        let was_detecting = core::mem::replace(&mut self.detecting, true);
        match single_bit(syndrome) {
            Some(bit) if !was_detecting => {
                header[(bit / 8) as usize] ^= 0x80 >> (bit % 8);
                Verdict::Corrected
            }
            _ => Verdict::Bad,
        }
    }

    /// Whether the receiver only detects at present.
    pub const fn is_detecting(self) -> bool {
        self.detecting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn published_headers_have_their_published_hec() {
        for (header, hec) in
            [(0x0000_0001, 0x52), (0, 0x55), (0x50, 0xe2), (0x100, 0x40), (0x0102_0304, 0xb6_u8)] as [(u32, u8); 5]
        {
            assert_eq!(generate(header.to_be_bytes()), hec, "{header:08x}");
        }
    }

    #[test]
    fn the_40_single_bit_errors_have_their_published_syndromes() {
        const PUBLISHED: [u8; 40] = [
            0x31, 0x9b, 0xce, 0x67, 0xb0, 0x58, 0x2c, 0x16, 0x0b, 0x86, 0x43, 0xa2, 0x51, 0xab, 0xd6, 0x6b, 0xb6, 0x5b,
            0xae, 0x57, 0xa8, 0x54, 0x2a, 0x15, 0x89, 0xc7, 0xe0, 0x70, 0x38, 0x1c, 0x0e, 0x07, 0x80, 0x40, 0x20, 0x10,
            0x08, 0x04, 0x02, 0x01,
        ];
        for (bit, s) in PUBLISHED.iter().enumerate() {
            assert_eq!(single_bit(*s), Some(bit as u32));
        }
        assert_eq!((1..=255).filter(|s| single_bit(*s).is_some()).count(), 40);
    }

    #[test]
    fn a_second_error_in_a_row_is_not_corrected() {
        let good = |w: u32| {
            let [a, b, c, d] = w.to_be_bytes();
            [a, b, c, d, generate([a, b, c, d])]
        };
        let mut receiver = Receiver::default();
        let mut header = good(0x0012_3450);
        header[2] ^= 4;
        assert_eq!(receiver.check(&mut header), Verdict::Corrected);
        assert_eq!(header, good(0x0012_3450));
        header[2] ^= 4;
        assert_eq!(receiver.check(&mut header), Verdict::Bad);
        assert_eq!(receiver.check(&mut good(0x50)), Verdict::Good);
        assert!(!receiver.is_detecting());
    }

    proptest! {
        #[test]
        fn any_one_wrong_bit_is_put_right(word: u32, bit in 0u32..40) {
            let [a, b, c, d] = word.to_be_bytes();
            let sent = [a, b, c, d, generate([a, b, c, d])];
            let mut got = sent;
            got[(bit / 8) as usize] ^= 0x80 >> (bit % 8);
            prop_assert_eq!(Receiver::default().check(&mut got), Verdict::Corrected);
            prop_assert_eq!(got, sent);
        }
    }
}
