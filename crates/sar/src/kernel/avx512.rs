//! x86-64 with AVX-512 (F, BW, VL) and VPCLMULQDQ: a cell's slot is one vector.
//!
//! A cell is written by one masked load, which puts the payload beside a header that is there already, and one store.
//! The three vectors of a group's 192 octets are loaded again for the CRC, from the first-level cache: cheaper than
//! to shuffle them together.

use super::engine::{PAYLOAD, Tail};
use super::lanes::{LANE, Lane, Wide};
use super::polynomial::{BARRETT, GENERATOR, fold, power};
use super::x86::Ymm;
use core::arch::x86_64::*;

/// Four lanes, in the order of their octets; a group is four cells.
#[derive(Clone, Copy)]
pub(super) struct Zmm(__m512i);

/// 64-bit words of a vector whose last three lanes are a payload.
const PAYLOAD_WORDS: __mmask8 = 0xfc;
/// Octets of a vector that are a 53-octet cell's.
const CELL53: __mmask64 = (1 << 53) - 1;

impl Zmm {
    /// # Safety
    /// AVX-512F.
    #[inline(always)]
    unsafe fn four(lanes: [u128; 4]) -> __m512i {
        let half = |v: u128| ((v >> 64) as i64, v as i64);
        let [(b, a), (d, c), (f, e), (h, g)] = lanes.map(half);
        // SAFETY: the caller's.
        unsafe { _mm512_set_epi64(h, g, f, e, d, c, b, a) }
    }

    /// # Safety
    /// AVX-512BW.
    #[inline(always)]
    unsafe fn turn(v: __m512i) -> __m512i {
        const TURN: u128 = 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f;
        // SAFETY: the caller's.
        unsafe { _mm512_shuffle_epi8(v, Self::four([TURN; 4])) }
    }

    /// # Safety
    /// AVX-512F and VPCLMULQDQ.
    #[inline(always)]
    unsafe fn fold_and_add(v: __m512i, by: __m512i, add: __m512i) -> __m512i {
        /// a ^ b ^ c.
        const XOR3: i32 = 0x96;
        // SAFETY: the caller's.
        unsafe {
            let (upper, lower) = (_mm512_clmulepi64_epi128::<0x11>(v, by), _mm512_clmulepi64_epi128::<0x00>(v, by));
            _mm512_ternarylogic_epi64::<XOR3>(upper, lower, add)
        }
    }

    /// The lower halves of the lanes alone.
    ///
    /// # Safety
    /// AVX-512F.
    #[inline(always)]
    unsafe fn lower(v: __m512i) -> __m512i {
        // SAFETY: the caller's.
        unsafe { _mm512_maskz_mov_epi64(0x55, v) }
    }

    /// The upper halves of the lanes brought to where the lower ones stand.
    ///
    /// # Safety
    /// AVX-512F and VPCLMULQDQ.
    #[inline(always)]
    unsafe fn down(v: __m512i) -> __m512i {
        // SAFETY: the caller's.
        unsafe { _mm512_clmulepi64_epi128::<0x01>(v, Self::four([const { power(64) as u128 }; 4])) }
    }

    /// A payload from its first lane and the other two.
    ///
    /// Put together from two loads without a mask: Zen 5 does not fetch memory ahead of masked loads and stores, which
    /// halves the rate of short SDUs that lie in main memory.
    ///
    /// # Safety
    /// AVX-512F.
    #[inline(always)]
    unsafe fn payload(first: __m128i, others: __m256i) -> __m512i {
        // SAFETY: the caller's.
        unsafe {
            let lower = _mm256_inserti128_si256::<1>(_mm256_setzero_si256(), first);
            _mm512_inserti64x4::<1>(_mm512_zextsi256_si512(lower), others)
        }
    }

    /// The exclusive or of all four lanes.
    ///
    /// # Safety
    /// AVX-512F.
    #[inline(always)]
    unsafe fn sum(v: __m512i) -> __m128i {
        // SAFETY: the caller's.
        unsafe {
            let two = _mm256_xor_si256(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64::<1>(v));
            _mm_xor_si128(_mm256_castsi256_si128(two), _mm256_extracti128_si256::<1>(two))
        }
    }
}

// The safety conditions are the trait's: the features are there, the pointers give the octets of a group.
impl Wide for Zmm {
    type Lane = __m128i;
    const CELLS: usize = 4;
    const WORTH: usize = 8;
    const PAIRS: bool = true;

    #[inline(always)]
    unsafe fn group_out<const S: usize>(from: *const u8, to: *mut u8, head: u64) -> [Self; 3] {
        // SAFETY: four payloads of 48 octets, four cells. Masked octets are neither read nor written. On the wire, the
        // first three stores write 11 octets into the cell after them, which is written next.
        unsafe {
            let header = _mm512_zextsi128_si512(Lane::of(u128::from(head)));
            for i in 0..4 {
                let payload = from.wrapping_add(i * PAYLOAD).wrapping_sub(S - PAYLOAD);
                if S == 64 {
                    let slot = _mm512_mask_loadu_epi64(header, PAYLOAD_WORDS, payload.cast());
                    _mm512_storeu_si512(to.add(i * S).cast(), slot);
                } else {
                    let cell = _mm512_mask_loadu_epi8(header, CELL53 & !0x1f, payload.cast());
                    if i < 3 {
                        _mm512_storeu_si512(to.add(i * S).cast(), cell);
                    } else {
                        _mm512_mask_storeu_epi8(to.add(i * S).cast(), CELL53, cell);
                    }
                }
            }
            let part = |i: usize| Zmm(Zmm::turn(_mm512_loadu_si512(from.add(i * 64).cast())));
            [part(0), part(1), part(2)]
        }
    }

    #[inline(always)]
    unsafe fn group_in<const S: usize>(from: *const u8, to: *mut u8) -> [Self; 3] {
        // SAFETY: four cells, four payloads of 48 octets, which are three vectors of 64.
        unsafe {
            let cell = |i: usize| match S {
                64 => _mm512_loadu_si512(from.add(i * S).cast()),
                _ => Self::load(from.add(i * S + S - PAYLOAD)),
            };
            for i in 0..3 {
                // Zen 5 learns where stores go from narrower accesses only.
                _mm_prefetch::<_MM_HINT_T0>(to.wrapping_add(i * 64).cast_const().cast());
            }
            let (a, b, c, d) = (cell(0), cell(1), cell(2), cell(3));
            // Words 0 to 7 are the first vector's, 8 to 15 the second's.
            let parts = [
                _mm512_permutex2var_epi64(a, _mm512_set_epi64(11, 10, 7, 6, 5, 4, 3, 2), b),
                _mm512_permutex2var_epi64(b, _mm512_set_epi64(13, 12, 11, 10, 7, 6, 5, 4), c),
                _mm512_permutex2var_epi64(c, _mm512_set_epi64(15, 14, 13, 12, 11, 10, 7, 6), d),
            ];
            for (i, part) in parts.into_iter().enumerate() {
                _mm512_storeu_si512(to.add(i * 64).cast(), part);
            }
            parts.map(|part| Zmm(Zmm::turn(part)))
        }
    }

    #[inline(always)]
    unsafe fn begin(state: __m128i, [a, b, c]: [Self; 3]) -> [Self; 3] {
        // SAFETY: the caller's. The group's last lane is the highest of the third vector.
        unsafe {
            let state = state.fold(Lane::of(const { fold(192) }));
            let highest = _mm512_inserti32x4::<3>(_mm512_setzero_si512(), state);
            [a, b, Zmm(_mm512_xor_si512(c.0, highest))]
        }
    }

    #[inline(always)]
    unsafe fn next(acc: [Self; 3], group: [Self; 3]) -> [Self; 3] {
        // SAFETY: the caller's.
        unsafe {
            let k = Zmm::four([const { fold(192) }; 4]);
            let step = |i: usize| Zmm(Zmm::fold_and_add(acc[i].0, k, group[i].0));
            [step(0), step(1), step(2)]
        }
    }

    #[inline(always)]
    unsafe fn gather([a, b, c]: [Self; 3]) -> __m128i {
        // SAFETY: the caller's.
        unsafe {
            let sum = Zmm::fold_and_add(a.0, Zmm::four([const { fold(128) }; 4]), c.0);
            let sum = Zmm::fold_and_add(b.0, Zmm::four([const { fold(64) }; 4]), sum);
            let by = Zmm::four([const { fold(48) }, const { fold(32) }, const { fold(16) }, const { fold(0) }]);
            Zmm::sum(Zmm::fold_and_add(sum, by, _mm512_setzero_si512()))
        }
    }

    /// In the upper three lanes; the lowest is zero.
    type Payload = __m512i;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512i {
        // SAFETY: 48 octets.
        unsafe { Zmm::payload(_mm_loadu_si128(from.cast()), _mm256_loadu_si256(from.add(LANE).cast())) }
    }

    #[inline(always)]
    unsafe fn store(payload: __m512i, to: *mut u8) {
        // SAFETY: 48 octets.
        unsafe {
            _mm_storeu_si128(to.cast(), _mm512_extracti32x4_epi32::<1>(payload));
            _mm256_storeu_si256(to.add(LANE).cast(), _mm512_extracti64x4_epi64::<1>(payload));
        }
    }

    #[inline(always)]
    unsafe fn tail(tail: Tail) -> __m512i {
        // SAFETY: the caller's.
        unsafe {
            // As for `payload`: the line is asked for by something that has no mask.
            _mm_prefetch::<_MM_HINT_T0>(tail.from.cast());
            let octets = ((1u64 << tail.octets) - 1) << LANE;
            let payload = _mm512_maskz_loadu_epi8(octets, tail.from.wrapping_sub(LANE).cast());
            _mm512_or_si512(payload, Zmm::four([0, 0, 0, u128::from(tail.trailer) << 64]))
        }
    }

    #[inline(always)]
    unsafe fn put<const S: usize>(to: *mut u8, head: u64, payload: __m512i) {
        // SAFETY: a cell, which in a slot is one store; on the wire the header's eight octets reach into the payload,
        // which is written after them.
        unsafe {
            if S == 64 {
                let header = _mm512_zextsi128_si512(Lane::of(u128::from(head)));
                _mm512_storeu_si512(to.cast(), _mm512_or_si512(payload, header));
            } else {
                to.cast::<u64>().write_unaligned(head);
                Self::store(payload, to.add(S - PAYLOAD));
            }
        }
    }

    #[inline(always)]
    unsafe fn one(state: __m128i, payload: __m512i) -> __m128i {
        // SAFETY: the caller's. Two vectors make a shorter chain from state to state than one does.
        unsafe {
            let lanes = (_mm512_extracti32x4_epi32::<1>(payload), _mm512_extracti64x4_epi64::<1>(payload));
            <Ymm as Wide>::one(state, lanes)
        }
    }

    #[inline(always)]
    unsafe fn last(state: __m128i, payload: __m512i) -> __m128i {
        // SAFETY: the caller's. The last lane is folded over no distance, which leaves 96 bits of it.
        unsafe {
            let lanes = _mm512_mask_mov_epi64(Self::turn(payload), 0x03, _mm512_castsi128_si512(state));
            let by = Self::four([const { fold(48) }, const { fold(32) }, const { fold(16) }, const { fold(0) }]);
            Self::sum(Self::fold_and_add(lanes, by, _mm512_setzero_si512()))
        }
    }

    #[inline(always)]
    unsafe fn remainders(states: [__m128i; 2]) -> [u32; 2] {
        // SAFETY: the caller's; AVX2 is there.
        unsafe { <Ymm as Wide>::remainders(states) }
    }

    #[inline(always)]
    unsafe fn two_in<const S: usize>(state: __m128i, first: *const u8, second: *const u8, to: *mut u8) -> __m128i {
        // SAFETY: the caller's.
        unsafe { <Ymm as Wide>::two_in::<S>(state, first, second, to) }
    }

    #[inline(always)]
    unsafe fn four_singles<const S: usize>(from: *const u8, to: [*mut u8; 4]) -> [u32; 4] {
        // SAFETY: four cells, four places with room for 48 octets. A PDU's first 32 bits are taken inverted. The first
        // two lanes of each are brought to 96 bits where the last one stands, which is brought there itself; then 64
        // bits, then Barrett.
        unsafe {
            let one = |i: usize| Self::load(from.add(i * S + S - PAYLOAD));
            let cells = [one(0), one(1), one(2), one(3)];
            for (cell, to) in cells.into_iter().zip(to) {
                Self::store(cell, to);
            }
            let [p, q, r, s] = cells;
            // Lanes of two vectors, two of each.
            const FIRST_TWO: i32 = 0b10_01_10_01;
            const LAST: i32 = 0b11_11_11_11;
            const EVEN: i32 = 0b10_00_10_00;
            const ODD: i32 = 0b11_01_11_01;
            let (pq, rs) = (_mm512_shuffle_i64x2::<FIRST_TWO>(p, q), _mm512_shuffle_i64x2::<FIRST_TWO>(r, s));
            let (last_pq, last_rs) = (_mm512_shuffle_i64x2::<LAST>(p, q), _mm512_shuffle_i64x2::<LAST>(r, s));
            let inverted = Self::four([u128::from(u32::MAX); 4]);
            let first = Self::turn(_mm512_xor_si512(_mm512_shuffle_i64x2::<EVEN>(pq, rs), inverted));
            let second = Self::turn(_mm512_shuffle_i64x2::<ODD>(pq, rs));
            let third = Self::turn(_mm512_shuffle_i64x2::<EVEN>(last_pq, last_rs));
            let sum = Self::fold_and_add(first, Self::four([const { fold(32) }; 4]), Self::lower(third));
            let sum = Self::fold_and_add(second, Self::four([const { fold(16) }; 4]), sum);
            let sum = _mm512_xor_si512(sum, Self::down(third));
            let rest = _mm512_xor_si512(Self::lower(sum), Self::down(sum));
            let quotient =
                _mm512_clmulepi64_epi128::<0x00>(_mm512_srli_epi64::<32>(rest), Self::four([BARRETT as u128; 4]));
            let quotient = _mm512_srli_epi64::<32>(quotient);
            let product = _mm512_clmulepi64_epi128::<0x00>(quotient, Self::four([GENERATOR as u128; 4]));
            let rest = _mm512_xor_si512(product, rest);
            let order = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0);
            let four = _mm512_castsi512_si128(_mm512_permutexvar_epi32(order, rest));
            let mut remainders = [0; 4];
            _mm_storeu_si128(remainders.as_mut_ptr().cast(), four);
            remainders
        }
    }
}
