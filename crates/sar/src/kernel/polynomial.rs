//! Arithmetic modulo AAL5's generator polynomial, at compile time: the constants by which kernels fold and reduce.
//!
//! An octet string is a polynomial over GF(2), its first bit the highest power. Folding replaces a 128-bit piece that
//! stands some octets before the end of what has been read by a congruent one at the end: its upper and lower 64 bits
//! are multiplied, carry-less, by the powers of x that bridge the distance (Gopal et al., "Fast CRC Computation for
//! Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009).

/// x^32 + x^26 + x^23 + x^22 + x^16 + x^12 + x^11 + x^10 + x^8 + x^7 + x^5 + x^4 + x^2 + x + 1 (I.363.5).
pub(super) const GENERATOR: u64 = 0x1_04c1_1db7;

/// The quotient of x^64 by the generator: Barrett's multiplier.
pub(super) const BARRETT: u64 = {
    let mut quotient = 0u64;
    let mut rest = 1u128 << 64;
    let mut bit = 64;
    while bit >= 32 {
        if rest >> bit & 1 == 1 {
            quotient |= 1 << (bit - 32);
            rest ^= (GENERATOR as u128) << (bit - 32);
        }
        bit -= 1;
    }
    quotient
};

/// x^n modulo the generator.
pub(super) const fn power(n: usize) -> u64 {
    let mut r = 1u64;
    let mut i = 0;
    while i < n {
        r <<= 1;
        if r >> 32 != 0 {
            r ^= GENERATOR;
        }
        i += 1;
    }
    r
}

/// What folds a 128-bit lane over `octets` octets: the multiplier of its upper half above that of its lower half.
pub(super) const fn fold(octets: usize) -> u128 {
    (power(8 * octets + 64) as u128) << 64 | power(8 * octets) as u128
}

/// r / x^32 modulo the generator.
pub(super) const fn down32(r: u32) -> u32 {
    let mut r = r as u64;
    let mut i = 0;
    while i < 32 {
        if r & 1 == 1 {
            r ^= GENERATOR;
        }
        r >>= 1;
        i += 1;
    }
    r as u32
}

/// What stands before a PDU's first octet, so that its first 32 bits are taken inverted: all ones, 32 powers lower.
pub(super) const START: u128 = down32(u32::MAX) as u128;

/// The remainder of a whole PDU whose CRC is right: what is sent is the complement of the remainder before it.
pub(super) const GOOD: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    /// Long division, bit by bit.
    fn modulo(mut value: u128) -> u32 {
        for bit in (32..128).rev() {
            if value >> bit & 1 == 1 {
                value ^= u128::from(GENERATOR) << (bit - 32);
            }
        }
        value as u32
    }

    #[test]
    fn powers_agree_with_long_division() {
        for n in 0..128 {
            assert_eq!(power(n), u64::from(modulo(1 << n)), "x^{n}");
        }
        assert_eq!(BARRETT, 0x1_04d1_01df);
        assert_eq!(modulo(START << 32), u32::MAX);
        assert_eq!(down32(modulo(0xdead_beef << 32)), 0xdead_beef);
    }

    #[test]
    fn the_state_after_a_right_pdu_is_good() {
        // One cell: an SDU of 40 octets, its trailer.
        let mut pdu = [7u8; 48];
        pdu[40..44].copy_from_slice(&[0, 0, 0, 40]);
        let crc = wire::crc::crc32(&pdu[..44]);
        pdu[44..].copy_from_slice(&crc.to_be_bytes());
        let mut register = wire::crc::Crc32::new();
        register.update(&pdu);
        assert_eq!(down32(register.register()), GOOD);
    }
}
