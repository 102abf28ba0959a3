//! A lane in plain arithmetic, for tests: what the vector engine does, on any machine and under any checker.

use super::lanes::{Lane, lane_is_wide};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Model(u128);

fn multiply(a: u64, b: u64) -> u128 {
    (0..64).filter(|bit| a >> bit & 1 == 1).fold(0, |sum, bit| sum ^ u128::from(b) << bit)
}

// The safety conditions are the trait's: pointers give 16 octets.
impl Lane for Model {
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: 16 octets.
        Model(u128::from_le_bytes(unsafe { from.cast::<[u8; 16]>().read_unaligned() }))
    }

    unsafe fn store(self, to: *mut u8) {
        // SAFETY: 16 octets.
        unsafe { to.cast::<[u8; 16]>().write_unaligned(self.0.to_le_bytes()) }
    }

    unsafe fn of(value: u128) -> Self {
        Model(value)
    }

    unsafe fn value(self) -> u128 {
        self.0
    }

    unsafe fn xor(self, other: Self) -> Self {
        Model(self.0 ^ other.0)
    }

    unsafe fn turn(self) -> Self {
        Model(self.0.swap_bytes())
    }

    unsafe fn pick(self, index: Self) -> Self {
        let (octets, index) = (self.0.to_le_bytes(), index.0.to_le_bytes());
        Model(u128::from_le_bytes(index.map(|i| if i & 0x80 != 0 { 0 } else { octets[usize::from(i & 15)] })))
    }

    unsafe fn fold(self, by: Self) -> Self {
        Model(multiply((self.0 >> 64) as u64, (by.0 >> 64) as u64) ^ multiply(self.0 as u64, by.0 as u64))
    }

    unsafe fn multiply_upper(self, by: Self) -> Self {
        Model(multiply((self.0 >> 64) as u64, by.0 as u64))
    }

    unsafe fn multiply_lower(self, by: Self) -> Self {
        Model(multiply(self.0 as u64, by.0 as u64))
    }

    unsafe fn lower(self) -> Self {
        Model(u128::from(self.0 as u64))
    }

    unsafe fn shift32(self) -> Self {
        let half = |v: u64| u128::from(v >> 32);
        Model(half((self.0 >> 64) as u64) << 64 | half(self.0 as u64))
    }
}

lane_is_wide!(Model);
