//! The CRC-10 of a cell's payload (AAL3/4), which is too short to fold: its six 64-bit words are multiplied,
//! carry-less, each by the power of x that its place stands for, added, and reduced by Barrett's method. Where there is
//! no such multiplication, by `wire`'s tables.

#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::*;
use wire::cell::PAYLOAD_OCTETS;

/// Gives the remainder of a payload, as `wire::crc::remainder10` does.
pub(crate) type Remainder = fn(&[u8; PAYLOAD_OCTETS]) -> u16;

pub(super) fn by_table(payload: &[u8; PAYLOAD_OCTETS]) -> u16 {
    wire::crc::remainder10(payload)
}

/// x^10 + x^9 + x^5 + x^4 + x + 1 (I.363.3).
#[cfg(target_arch = "x86_64")]
const GENERATOR: u64 = 0x633;

/// x^n modulo the generator.
#[cfg(target_arch = "x86_64")]
const fn power(n: usize) -> i64 {
    let mut r = 1;
    let mut i = 0;
    while i < n {
        r <<= 1;
        if r >> 10 != 0 {
            r ^= GENERATOR;
        }
        i += 1;
    }
    r as i64
}

/// The quotient of x^63 by the generator, times x: the upper half of a 64-bit value's product with it is that value's
/// quotient (Barrett).
#[cfg(target_arch = "x86_64")]
const BARRETT: u64 = {
    let mut quotient = 0u64;
    let mut rest = 1u128 << 63;
    let mut bit = 63;
    while bit >= 10 {
        if rest >> bit & 1 == 1 {
            quotient |= 1 << (bit - 10);
            rest ^= (GENERATOR as u128) << (bit - 10);
        }
        bit -= 1;
    }
    quotient << 1
};

/// For kernels that need PCLMULQDQ and SSE4.2 at least, and so exist only where these are.
#[cfg(target_arch = "x86_64")]
pub(super) fn by_pclmul(payload: &[u8; PAYLOAD_OCTETS]) -> u16 {
    // SAFETY: this function is handed out by `Kernel::remainder10` alone, for kernels found to have these features.
    unsafe { pclmul(payload) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2,pclmulqdq")]
fn pclmul(payload: &[u8; PAYLOAD_OCTETS]) -> u16 {
    let turn = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let (lanes, _) = payload.as_chunks::<16>();
    let product = |lane: &[u8; 16], upper: i64, lower: i64| {
        // SAFETY: a lane has 16 octets; no alignment is needed.
        let lane = unsafe { _mm_loadu_si128(lane.as_ptr().cast()) };
        let (lane, by) = (_mm_shuffle_epi8(lane, turn), _mm_set_epi64x(upper, lower));
        _mm_xor_si128(_mm_clmulepi64_si128::<0x11>(lane, by), _mm_clmulepi64_si128::<0x00>(lane, by))
    };
    let first = product(&lanes[0], const { power(320) }, const { power(256) });
    let second = product(&lanes[1], const { power(192) }, const { power(128) });
    let third = product(&lanes[2], const { power(64) }, 1);
    // 64 + 10 bits; then 64.
    let sum = _mm_xor_si128(_mm_xor_si128(first, second), third);
    let over = _mm_clmulepi64_si128::<0x01>(sum, _mm_set_epi64x(0, const { power(64) }));
    let sum = _mm_xor_si128(sum, over);
    let constants = _mm_set_epi64x(BARRETT as i64, GENERATOR as i64);
    let quotient = _mm_clmulepi64_si128::<0x10>(sum, constants);
    let multiple = _mm_clmulepi64_si128::<0x01>(quotient, constants);
    (_mm_cvtsi128_si32(_mm_xor_si128(sum, multiple)) & 0x3ff) as u16
}

#[cfg(test)]
mod tests {
    use crate::Kernel;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn every_kernel_has_the_remainder_that_the_tables_have(payload: [u8; 32], more: [u8; 16]) {
            let mut whole = [0; 48];
            whole[..32].copy_from_slice(&payload);
            whole[32..].copy_from_slice(&more);
            for kernel in Kernel::all() {
                prop_assert_eq!(kernel.remainder10()(&whole), wire::crc::remainder10(&whole), "{:?}", kernel);
            }
        }
    }

    #[test]
    fn each_bit_alone_has_the_right_remainder() {
        for kernel in Kernel::all() {
            for bit in 0..384 {
                let mut payload = [0; 48];
                payload[bit / 8] = 0x80 >> (bit % 8);
                assert_eq!(kernel.remainder10()(&payload), wire::crc::remainder10(&payload), "{kernel:?}, bit {bit}");
            }
        }
    }
}
