//! aarch64: NEON and PMULL.

use super::lanes::{Lane, lane_is_wide};
use core::arch::aarch64::*;

// The products are functions with the feature, not `inline(always)`: a method of the trait has no features of its own,
// and the intrinsics behind PMULL are inlined only into what has theirs. Into a kernel's entry all go in the end.

/// Carry-less: the upper 64-bit word of `a` by that of `b`. The others as their names say.
#[inline]
#[target_feature(enable = "neon,aes")]
fn upper_by_upper(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
    vreinterpretq_u8_p128(vmull_high_p64(vreinterpretq_p64_u8(a), vreinterpretq_p64_u8(b)))
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn upper_by_lower(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
    let (a, b) = (vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b));
    vreinterpretq_u8_p128(vmull_p64(vgetq_lane_u64::<1>(a), vgetq_lane_u64::<0>(b)))
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn lower_by_lower(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
    let (a, b) = (vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b));
    vreinterpretq_u8_p128(vmull_p64(vgetq_lane_u64::<0>(a), vgetq_lane_u64::<0>(b)))
}

// The safety conditions are the trait's: PMULL is there (NEON is part of the architecture), the pointers give 16
// octets.
impl Lane for uint8x16_t {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 16 octets; no alignment needed.
        unsafe { vld1q_u8(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: as above.
        unsafe { vst1q_u8(to, self) }
    }

    #[inline(always)]
    unsafe fn of(value: u128) -> Self {
        // SAFETY: any 128 bits are a vector.
        unsafe { vcombine_u8(vcreate_u8(value as u64), vcreate_u8((value >> 64) as u64)) }
    }

    #[inline(always)]
    unsafe fn value(self) -> u128 {
        // SAFETY: NEON.
        unsafe {
            let words = vreinterpretq_u64_u8(self);
            u128::from(vgetq_lane_u64::<1>(words)) << 64 | u128::from(vgetq_lane_u64::<0>(words))
        }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: NEON.
        unsafe { veorq_u8(self, other) }
    }

    #[inline(always)]
    unsafe fn turn(self) -> Self {
        // SAFETY: NEON.
        unsafe {
            let turned = vrev64q_u8(self);
            vextq_u8::<8>(turned, turned)
        }
    }

    #[inline(always)]
    unsafe fn pick(self, index: Self) -> Self {
        // SAFETY: NEON; an index past 15 gives zero.
        unsafe { vqtbl1q_u8(self, index) }
    }

    #[inline(always)]
    unsafe fn fold(self, by: Self) -> Self {
        // SAFETY: PMULL is there.
        unsafe { upper_by_upper(self, by).xor(lower_by_lower(self, by)) }
    }

    #[inline(always)]
    unsafe fn multiply_upper(self, by: Self) -> Self {
        // SAFETY: PMULL is there.
        unsafe { upper_by_lower(self, by) }
    }

    #[inline(always)]
    unsafe fn multiply_lower(self, by: Self) -> Self {
        // SAFETY: PMULL is there.
        unsafe { lower_by_lower(self, by) }
    }

    #[inline(always)]
    unsafe fn lower(self) -> Self {
        // SAFETY: NEON.
        unsafe {
            let words = vreinterpretq_u64_u8(self);
            vreinterpretq_u8_u64(vsetq_lane_u64::<1>(0, words))
        }
    }

    #[inline(always)]
    unsafe fn shift32(self) -> Self {
        // SAFETY: NEON.
        unsafe { vreinterpretq_u8_u64(vshrq_n_u64::<32>(vreinterpretq_u64_u8(self))) }
    }
}

lane_is_wide!(uint8x16_t);
