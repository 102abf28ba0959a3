//! x86-64: 128-bit lanes (SSE4.2 and PCLMULQDQ; the same code in three-operand form with AVX2), and 256-bit vectors
//! (AVX2 and VPCLMULQDQ).

use super::engine::{PAYLOAD, Tail};
use super::lanes::{self, LANE, Lane, Wide, lane_is_wide};
use super::polynomial::{BARRETT, GENERATOR, fold, power};
use core::arch::asm;
use core::arch::x86_64::*;

// The safety conditions are the traits': the features are there, the pointers give the octets of a lane or group.
impl Lane for __m128i {
    const SSE4: bool = true;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 16 octets; no alignment needed.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: as above.
        unsafe { _mm_storeu_si128(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn of(value: u128) -> Self {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_set_epi64x((value >> 64) as i64, value as i64) }
    }

    #[inline(always)]
    unsafe fn value(self) -> u128 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            let upper = _mm_cvtsi128_si64(_mm_unpackhi_epi64(self, self)) as u64;
            u128::from(upper) << 64 | u128::from(_mm_cvtsi128_si64(self) as u64)
        }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_xor_si128(self, other) }
    }

    #[inline(always)]
    unsafe fn turn(self) -> Self {
        // SAFETY: SSSE3, implied by SSE4.2.
        unsafe { _mm_shuffle_epi8(self, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)) }
    }

    #[inline(always)]
    unsafe fn pick(self, index: Self) -> Self {
        // SAFETY: SSSE3, implied by SSE4.2.
        unsafe { _mm_shuffle_epi8(self, index) }
    }

    #[inline(always)]
    unsafe fn fold(self, by: Self) -> Self {
        // SAFETY: PCLMULQDQ is there.
        unsafe { _mm_xor_si128(_mm_clmulepi64_si128::<0x11>(self, by), _mm_clmulepi64_si128::<0x00>(self, by)) }
    }

    #[inline(always)]
    unsafe fn multiply_upper(self, by: Self) -> Self {
        // SAFETY: PCLMULQDQ is there.
        unsafe { _mm_clmulepi64_si128::<0x01>(self, by) }
    }

    #[inline(always)]
    unsafe fn multiply_lower(self, by: Self) -> Self {
        // SAFETY: PCLMULQDQ is there.
        unsafe { _mm_clmulepi64_si128::<0x00>(self, by) }
    }

    #[inline(always)]
    unsafe fn lower(self) -> Self {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_move_epi64(self) }
    }

    #[inline(always)]
    unsafe fn shift32(self) -> Self {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_srli_epi64::<32>(self) }
    }
}

lane_is_wide!(__m128i);

/// Folds by a constant: the products of the lanes' upper halves, and of their lower ones. The two multiplications stay
/// next to each other, where a compiler would put other instructions between them: Zen 3 makes several operations of
/// each, and can begin little else in the same cycles, before a row of them and after it.
///
/// # Safety
/// AVX2 and VPCLMULQDQ.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq")]
unsafe fn fold_one(mut v: __m256i, by: __m256i) -> __m256i {
    let upper: __m256i;
    // SAFETY: the caller's; registers only.
    unsafe {
        asm!(
            "vpclmulqdq {upper}, {v}, {by}, 0x11",
            "vpclmulqdq {v}, {v}, {by}, 0x00",
            v = inout(ymm_reg) v,
            by = in(ymm_reg) by,
            upper = out(ymm_reg) upper,
            options(pure, nomem, nostack, preserves_flags),
        );
        _mm256_xor_si256(v, upper)
    }
}

/// The same for three, and something added to each: the difference between 16 cycles for two cells and 12.
///
/// # Safety
/// AVX2 and VPCLMULQDQ.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq")]
unsafe fn fold_three([mut a, mut b, mut c]: [__m256i; 3], by: __m256i, [x, y, z]: [__m256i; 3]) -> [__m256i; 3] {
    let (d, e, f): (__m256i, __m256i, __m256i);
    // SAFETY: the caller's; registers only.
    unsafe {
        asm!(
            "vpclmulqdq {d}, {a}, {by}, 0x11",
            "vpclmulqdq {a}, {a}, {by}, 0x00",
            "vpclmulqdq {e}, {b}, {by}, 0x11",
            "vpclmulqdq {b}, {b}, {by}, 0x00",
            "vpclmulqdq {f}, {c}, {by}, 0x11",
            "vpclmulqdq {c}, {c}, {by}, 0x00",
            a = inout(ymm_reg) a,
            b = inout(ymm_reg) b,
            c = inout(ymm_reg) c,
            by = in(ymm_reg) by,
            d = out(ymm_reg) d,
            e = out(ymm_reg) e,
            f = out(ymm_reg) f,
            options(pure, nomem, nostack, preserves_flags),
        );
        let add = |p, q, r| _mm256_xor_si256(_mm256_xor_si256(p, r), q);
        [add(a, d, x), add(b, e, y), add(c, f, z)]
    }
}

/// The products of three vectors' upper halves and of their lower ones by a constant each, all added.
///
/// # Safety
/// AVX2 and VPCLMULQDQ.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq")]
unsafe fn fold_and_add([mut a, mut b, mut c]: [__m256i; 3], [x, y, z]: [__m256i; 3]) -> __m256i {
    let (d, e, f): (__m256i, __m256i, __m256i);
    // SAFETY: the caller's; registers only.
    unsafe {
        asm!(
            "vpclmulqdq {d}, {a}, {x}, 0x11",
            "vpclmulqdq {a}, {a}, {x}, 0x00",
            "vpclmulqdq {e}, {b}, {y}, 0x11",
            "vpclmulqdq {b}, {b}, {y}, 0x00",
            "vpclmulqdq {f}, {c}, {z}, 0x11",
            "vpclmulqdq {c}, {c}, {z}, 0x00",
            a = inout(ymm_reg) a,
            b = inout(ymm_reg) b,
            c = inout(ymm_reg) c,
            x = in(ymm_reg) x,
            y = in(ymm_reg) y,
            z = in(ymm_reg) z,
            d = out(ymm_reg) d,
            e = out(ymm_reg) e,
            f = out(ymm_reg) f,
            options(pure, nomem, nostack, preserves_flags),
        );
        let add = |p, q| _mm256_xor_si256(p, q);
        add(add(add(b, e), add(c, f)), add(a, d))
    }
}

/// The products of a vector's upper halves and of its lower ones by a constant, and those of another's lower halves,
/// all added.
///
/// # Safety
/// AVX2 and VPCLMULQDQ.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq")]
unsafe fn fold_and_lower(mut a: __m256i, mut b: __m256i, [x, y]: [__m256i; 2]) -> __m256i {
    let upper: __m256i;
    // SAFETY: the caller's; registers only.
    unsafe {
        asm!(
            "vpclmulqdq {upper}, {a}, {x}, 0x11",
            "vpclmulqdq {a}, {a}, {x}, 0x00",
            "vpclmulqdq {b}, {b}, {y}, 0x00",
            a = inout(ymm_reg) a,
            b = inout(ymm_reg) b,
            x = in(ymm_reg) x,
            y = in(ymm_reg) y,
            upper = out(ymm_reg) upper,
            options(pure, nomem, nostack, preserves_flags),
        );
        _mm256_xor_si256(_mm256_xor_si256(a, b), upper)
    }
}

/// The upper half of each lane brought to where the lower one stands: 96 bits of 128, 64 of 96.
///
/// # Safety
/// AVX2 and VPCLMULQDQ.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq")]
unsafe fn to64(v: __m256i) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        let lower = Ymm::pair(u128::from(u64::MAX), u128::from(u64::MAX));
        let down = Ymm::pair(const { power(64) as u128 }, const { power(64) as u128 });
        _mm256_xor_si256(_mm256_clmulepi64_epi128::<0x01>(v, down), _mm256_and_si256(v, lower))
    }
}

/// The remainders of two lanes of 96 bits: 64 bits, then Barrett.
///
/// # Safety
/// AVX2 and VPCLMULQDQ.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq")]
unsafe fn two_remainders(v: __m256i) -> [u32; 2] {
    // SAFETY: the caller's.
    unsafe {
        let of = |value: u64| Ymm::pair(u128::from(value), u128::from(value));
        let rest = to64(v);
        let quotient = _mm256_clmulepi64_epi128::<0x00>(_mm256_srli_epi64::<32>(rest), of(BARRETT));
        let quotient = _mm256_srli_epi64::<32>(quotient);
        let rest = _mm256_xor_si256(_mm256_clmulepi64_epi128::<0x00>(quotient, of(GENERATOR)), rest);
        let value = |v| _mm_cvtsi128_si32(v) as u32;
        [value(_mm256_castsi256_si128(rest)), value(_mm256_extracti128_si256::<1>(rest))]
    }
}

/// Copies two cells' payloads to two places; gives their remainders as PDUs.
///
/// # Safety
/// AVX2 and VPCLMULQDQ; two cells of `S` octets, two places with room for 48.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq")]
unsafe fn two_singles<const S: usize>(from: *const u8, to: [*mut u8; 2]) -> [u32; 2] {
    // SAFETY: the caller's. A PDU's first 32 bits are taken inverted. Its first two lanes are brought to 96 bits where
    // the last one stands, which is brought there itself.
    unsafe {
        let (p, q) = (Ymm::load(from.add(S - PAYLOAD)), Ymm::load(from.add(2 * S - PAYLOAD)));
        Ymm::store(p, to[0]);
        Ymm::store(q, to[1]);
        let inverted = Ymm::pair(u128::from(u32::MAX), u128::from(u32::MAX));
        let first = _mm256_xor_si256(_mm256_set_m128i(q.0, p.0), inverted);
        let second = _mm256_permute2x128_si256::<0x20>(p.1, q.1);
        let third = _mm256_permute2x128_si256::<0x31>(p.1, q.1);
        let first = Ymm::turn(first).fold(Ymm::pair(const { fold(32) }, const { fold(32) }));
        let second = Ymm::turn(second).fold(Ymm::pair(const { fold(16) }, const { fold(16) }));
        two_remainders(_mm256_xor_si256(_mm256_xor_si256(first, second), to64(Ymm::turn(third).0)))
    }
}

/// Two lanes. A group is two cells; its vectors are [first of the one, first of the other], and the last two of each.
#[derive(Clone, Copy)]
pub(super) struct Ymm(__m256i);

impl Ymm {
    /// # Safety
    /// AVX2.
    #[inline(always)]
    unsafe fn pair(lower: u128, upper: u128) -> __m256i {
        let half = |v: u128| ((v >> 64) as i64, v as i64);
        let ((d, c), (b, a)) = (half(upper), half(lower));
        // SAFETY: the caller's.
        unsafe { _mm256_set_epi64x(d, c, b, a) }
    }

    /// # Safety
    /// AVX2.
    #[inline(always)]
    unsafe fn turn(v: __m256i) -> Self {
        const TURN: u128 = 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f;
        // SAFETY: the caller's.
        unsafe { Ymm(_mm256_shuffle_epi8(v, Self::pair(TURN, TURN))) }
    }

    /// # Safety
    /// AVX2 and VPCLMULQDQ.
    #[inline(always)]
    unsafe fn fold(self, by: __m256i) -> __m256i {
        // SAFETY: the caller's.
        unsafe { fold_one(self.0, by) }
    }
}

impl Wide for Ymm {
    type Lane = __m128i;
    const CELLS: usize = 2;
    const WORTH: usize = 4;
    const PAIRS: bool = true;

    #[inline(always)]
    unsafe fn group_out<const S: usize>(from: *const u8, to: *mut u8, head: u64) -> [Self; 3] {
        // SAFETY: two payloads of 48 octets, two cells.
        unsafe {
            let first = |i: usize| _mm_loadu_si128(from.add(i * PAYLOAD).cast());
            let rest = |i: usize| _mm256_loadu_si256(from.add(i * PAYLOAD + LANE).cast());
            let (a, b) = (first(0), first(1));
            let (c, d) = (rest(0), rest(1));
            if S == 64 {
                let header = _mm256_castsi128_si256(Lane::of(u128::from(head)));
                for (i, lane, rest) in [(0, a, c), (1, b, d)] {
                    let cell = to.add(i * S);
                    _mm256_storeu_si256(cell.cast(), _mm256_inserti128_si256::<1>(header, lane));
                    _mm256_storeu_si256(cell.add(32).cast(), rest);
                }
            } else {
                for (i, lane, rest) in [(0, a, c), (1, b, d)] {
                    let cell = to.add(i * S);
                    cell.cast::<u64>().write_unaligned(head);
                    _mm_storeu_si128(cell.add(S - PAYLOAD).cast(), lane);
                    _mm256_storeu_si256(cell.add(S - PAYLOAD + LANE).cast(), rest);
                }
            }
            [Ymm::turn(_mm256_set_m128i(b, a)), Ymm::turn(c), Ymm::turn(d)]
        }
    }

    #[inline(always)]
    unsafe fn group_in<const S: usize>(from: *const u8, to: *mut u8) -> [Self; 3] {
        // SAFETY: two cells, two payloads of 48 octets.
        unsafe {
            let first = |i: usize| _mm_loadu_si128(from.add(i * S + S - PAYLOAD).cast());
            let rest = |i: usize| _mm256_loadu_si256(from.add(i * S + S - PAYLOAD + LANE).cast());
            let (a, b) = (first(0), first(1));
            let (c, d) = (rest(0), rest(1));
            for (i, lane, rest) in [(0, a, c), (1, b, d)] {
                let to = to.add(i * PAYLOAD);
                _mm_storeu_si128(to.cast(), lane);
                _mm256_storeu_si256(to.add(LANE).cast(), rest);
            }
            [Ymm::turn(_mm256_set_m128i(b, a)), Ymm::turn(c), Ymm::turn(d)]
        }
    }

    #[inline(always)]
    unsafe fn begin(state: __m128i, [a, b, c]: [Self; 3]) -> [Self; 3] {
        // SAFETY: the caller's. The group's last lane is the upper one of the third vector.
        unsafe {
            let state = state.fold(Lane::of(const { fold(96) }));
            let upper = _mm256_inserti128_si256::<1>(_mm256_setzero_si256(), state);
            [a, b, Ymm(_mm256_xor_si256(c.0, upper))]
        }
    }

    #[inline(always)]
    unsafe fn next(acc: [Self; 3], group: [Self; 3]) -> [Self; 3] {
        // SAFETY: the caller's.
        unsafe {
            let k = Ymm::pair(const { fold(96) }, const { fold(96) });
            fold_three(acc.map(|v| v.0), k, group.map(|v| v.0)).map(Ymm)
        }
    }

    #[inline(always)]
    unsafe fn gather([a, b, c]: [Self; 3]) -> __m128i {
        // SAFETY: the caller's. The lanes stand at octets 0 and 48, 16 and 32, 64 and 80 of 96; the lower ones are
        // brought to 64, the upper ones to 80, then the lower one follows.
        unsafe {
            let (a, b) = (
                a.fold(Ymm::pair(const { fold(64) }, const { fold(32) })),
                b.fold(Ymm::pair(const { fold(48) }, const { fold(48) })),
            );
            let sum = _mm256_xor_si256(_mm256_xor_si256(a, b), c.0);
            let (lower, upper) = (_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
            lower.fold(Lane::of(const { fold(16) })).xor(upper)
        }
    }

    /// The first lane, and the other two.
    type Payload = (__m128i, __m256i);

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self::Payload {
        // SAFETY: 48 octets.
        unsafe { (_mm_loadu_si128(from.cast()), _mm256_loadu_si256(from.add(LANE).cast())) }
    }

    #[inline(always)]
    unsafe fn store((a, bc): Self::Payload, to: *mut u8) {
        // SAFETY: 48 octets.
        unsafe {
            _mm_storeu_si128(to.cast(), a);
            _mm256_storeu_si256(to.add(LANE).cast(), bc);
        }
    }

    #[inline(always)]
    unsafe fn tail(tail: Tail) -> Self::Payload {
        // SAFETY: the caller's.
        unsafe {
            let [a, b, c] = lanes::tail::<__m128i>(tail);
            (a, _mm256_set_m128i(c, b))
        }
    }

    #[inline(always)]
    unsafe fn put<const S: usize>(to: *mut u8, head: u64, (a, bc): Self::Payload) {
        // SAFETY: a cell; on the wire the header's eight octets reach into the payload, which is written after them.
        unsafe {
            if S == 64 {
                _mm256_storeu_si256(to.cast(), _mm256_set_m128i(a, Lane::of(u128::from(head))));
                _mm256_storeu_si256(to.add(32).cast(), bc);
            } else {
                to.cast::<u64>().write_unaligned(head);
                Self::store((a, bc), to.add(S - PAYLOAD));
            }
        }
    }

    #[inline(always)]
    unsafe fn one(state: __m128i, (a, bc): Self::Payload) -> __m128i {
        // SAFETY: the caller's. The halves of the payload's second lane are brought to the lower halves of two lanes,
        // so that one multiplication does for both; its last lane is added as it is.
        unsafe {
            let bc = Ymm::turn(bc).0;
            let before = _mm256_set_m128i(a.turn(), state);
            let halves = _mm256_permute4x64_epi64::<0b00_01_00_00>(bc);
            let by = [
                Ymm::pair(const { fold(48) }, const { fold(32) }),
                Ymm::pair(const { fold(16) & u64::MAX as u128 }, const { fold(16) >> 64 }),
            ];
            let last = _mm256_blend_epi32::<0xf0>(_mm256_setzero_si256(), bc);
            let sum = _mm256_xor_si256(fold_and_lower(before, halves, by), last);
            _mm256_castsi256_si128(sum).xor(_mm256_extracti128_si256::<1>(sum))
        }
    }

    #[inline(always)]
    unsafe fn last(state: __m128i, (a, bc): Self::Payload) -> __m128i {
        // SAFETY: the caller's. The last lane is folded over no distance, which leaves 96 bits of it.
        unsafe {
            let before = Ymm(_mm256_set_m128i(a.turn(), state));
            let before = before.fold(Ymm::pair(const { fold(48) }, const { fold(32) }));
            let after = Ymm::turn(bc).fold(Ymm::pair(const { fold(16) }, const { fold(0) }));
            let sum = _mm256_xor_si256(before, after);
            _mm256_castsi256_si128(sum).xor(_mm256_extracti128_si256::<1>(sum))
        }
    }

    #[inline(always)]
    unsafe fn remainders([a, b]: [__m128i; 2]) -> [u32; 2] {
        // SAFETY: the caller's. As for one: folded to 96 bits, then to 64, then Barrett.
        unsafe { two_remainders(to64(_mm256_set_m128i(b, a))) }
    }

    #[inline(always)]
    unsafe fn four_singles<const S: usize>(from: *const u8, [p, q, r, s]: [*mut u8; 4]) -> [u32; 4] {
        // SAFETY: the caller's: two cells twice.
        unsafe {
            let [a, b] = two_singles::<S>(from, [p, q]);
            let [c, d] = two_singles::<S>(from.add(2 * S), [r, s]);
            [a, b, c, d]
        }
    }

    #[inline(always)]
    unsafe fn two_in<const S: usize>(state: __m128i, first: *const u8, second: *const u8, to: *mut u8) -> __m128i {
        // SAFETY: two cells, two payloads of 48 octets. The state and six lanes stand one after another; the last is
        // added.
        unsafe {
            let (from, then) = (first.add(S - PAYLOAD), second.add(S - PAYLOAD));
            let a = _mm_loadu_si128(from.cast());
            let bc = _mm256_loadu_si256(from.add(LANE).cast());
            let de = _mm256_loadu_si256(then.cast());
            let f = _mm_loadu_si128(then.add(2 * LANE).cast());
            _mm_storeu_si128(to.cast(), a);
            _mm256_storeu_si256(to.add(LANE).cast(), bc);
            _mm256_storeu_si256(to.add(PAYLOAD).cast(), de);
            _mm_storeu_si128(to.add(PAYLOAD + 2 * LANE).cast(), f);
            let lanes = [_mm256_set_m128i(a.turn(), state), Ymm::turn(bc).0, Ymm::turn(de).0];
            let by = [
                Ymm::pair(const { fold(96) }, const { fold(80) }),
                Ymm::pair(const { fold(64) }, const { fold(48) }),
                Ymm::pair(const { fold(32) }, const { fold(16) }),
            ];
            let sum = fold_and_add(lanes, by);
            f.turn().xor(_mm256_castsi256_si128(sum)).xor(_mm256_extracti128_si256::<1>(sum))
        }
    }
}
