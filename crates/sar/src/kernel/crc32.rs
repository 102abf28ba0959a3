//! The CRC-32 of AAL5 over octets that lie where they are, for those who keep PDUs in rings of their own: lanes of 128
//! bits are folded, carry-less, and the last one is reduced by Barrett's method. Where there is no such multiplication,
//! and for what is left beyond the last whole lane, by `wire`'s tables.

#[cfg(target_arch = "x86_64")]
use super::polynomial::{BARRETT, GENERATOR, fold, power};
#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::*;
use wire::crc::Crc32;

/// Takes octets into a running CRC.
pub type Checksum = fn(Crc32, &[u8]) -> Crc32;

pub(super) fn by_table(mut crc: Crc32, octets: &[u8]) -> Crc32 {
    crc.update(octets);
    crc
}

/// Octets of a lane.
#[cfg(target_arch = "x86_64")]
const LANE: usize = 16;

/// For kernels that need PCLMULQDQ and SSE4.2 at least, and so exist only where these are.
#[cfg(target_arch = "x86_64")]
pub(super) fn by_pclmul(crc: Crc32, octets: &[u8]) -> Crc32 {
    let (lanes, rest) = octets.as_chunks::<16>();
    let Some((first, more)) = lanes.split_first() else { return by_table(crc, rest) };
    // SAFETY: this function is handed out by `Kernel::checksum` alone, for kernels found to have these features.
    let register = unsafe { pclmul(crc.register(), first, more) };
    by_table(Crc32::from_register(register), rest)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2,pclmulqdq")]
fn pclmul(register: u32, first: &[u8; 16], more: &[[u8; 16]]) -> u32 {
    let turn = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let load = |lane: &[u8; 16]| {
        // SAFETY: a lane has 16 octets; no alignment is needed.
        let lane = unsafe { _mm_loadu_si128(lane.as_ptr().cast()) };
        _mm_shuffle_epi8(lane, turn)
    };
    // What folds a lane over so many others: its halves' multipliers.
    let over = |multipliers: u128| _mm_set_epi64x((multipliers >> 64) as i64, multipliers as i64);
    let (over_lane, over_four) = (over(const { fold(LANE) }), over(const { fold(4 * LANE) }));
    let add = |sum, by, lane| {
        let folded = _mm_xor_si128(_mm_clmulepi64_si128::<0x11>(sum, by), _mm_clmulepi64_si128::<0x00>(sum, by));
        _mm_xor_si128(folded, lane)
    };
    // What came before adds to the first 32 bits.
    let mut sum = _mm_xor_si128(load(first), _mm_set_epi64x((u64::from(register) << 32) as i64, 0));
    let mut left = more;
    // Each multiplication waits for the one before it in its own sum: four sums have four at once.
    if let Some(([second, third, fourth], others)) = more.split_first_chunk()
        && others.len() >= 4
    {
        let mut sums = [sum, load(second), load(third), load(fourth)];
        let (fours, rest) = others.as_chunks::<4>();
        for four in fours {
            for (sum, lane) in sums.iter_mut().zip(four) {
                *sum = add(*sum, over_four, load(lane));
            }
        }
        // What each has yet to pass over, side by side too.
        let [a, b, c, d] = sums;
        let (over_three, over_two) = (over(const { fold(3 * LANE) }), over(const { fold(2 * LANE) }));
        sum = add(a, over_three, add(b, over_two, add(c, over_lane, d)));
        left = rest;
    }
    for lane in left {
        sum = add(sum, over_lane, load(lane));
    }
    // The sum times x^32, in 96 bits: its upper half by x^96, its lower half moved up; then in 64 bits.
    let powers = _mm_set_epi64x(const { power(96) as i64 }, const { power(64) as i64 });
    let lower = _mm_slli_si128::<4>(_mm_move_epi64(sum));
    let sum = _mm_xor_si128(_mm_clmulepi64_si128::<0x11>(sum, powers), lower);
    let sum = _mm_xor_si128(_mm_clmulepi64_si128::<0x01>(sum, powers), sum);
    let constants = _mm_set_epi64x(BARRETT as i64, GENERATOR as i64);
    let quotient = _mm_clmulepi64_si128::<0x10>(_mm_srli_epi64::<32>(sum), constants);
    let multiple = _mm_clmulepi64_si128::<0x00>(_mm_srli_epi64::<32>(quotient), constants);
    _mm_cvtsi128_si32(_mm_xor_si128(sum, multiple)) as u32
}

#[cfg(test)]
mod tests {
    use crate::Kernel;
    use proptest::prelude::*;
    use wire::crc::Crc32;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        #[test]
        fn every_kernel_has_the_checksum_that_the_tables_have(
            register: u32,
            octets in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            let mut expected = Crc32::from_register(register);
            expected.update(&octets);
            for kernel in Kernel::all() {
                prop_assert_eq!(kernel.checksum()(Crc32::from_register(register), &octets), expected, "{:?}", kernel);
            }
        }
    }

    #[test]
    fn each_bit_alone_has_the_right_checksum() {
        for kernel in Kernel::all() {
            for bit in 0..384 {
                let mut octets = [0; 48];
                octets[bit / 8] = 0x80 >> (bit % 8);
                let mut expected = Crc32::from_register(0);
                expected.update(&octets);
                assert_eq!(kernel.checksum()(Crc32::from_register(0), &octets), expected, "{kernel:?}, bit {bit}");
            }
        }
    }
}
