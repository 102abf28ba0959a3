//! Random streams of virtual time: the same numbers from the same seed, whatever version of whatever crate is in use.
//!
//! The stream is that of ChaCha with eight rounds, which is defined octet for octet. What is made of it (shares,
//! numbers below a bound, orders) is made here, for crates change such rules between versions. The first numbers are in
//! a test.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::ops::RangeInclusive;

/// One stream.
#[derive(Debug, Clone)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// The stream of a seed: the key is the seed's eight octets, lowest first, and zeros.
    pub fn new(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Random(ChaCha8Rng::from_seed(key))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// At least 0 and below 1, in steps of 2^-53.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability. Nothing is drawn for a probability of zero.
    pub fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.share() < probability
    }

    /// A number below `n`, 0 if `n` is 0. Numbers differ in probability by 2^-64 at most.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// An index of a list of `n`.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// A number of the range.
    pub fn within(&mut self, range: RangeInclusive<usize>) -> usize {
        let (from, to) = range.into_inner();
        from + self.index(to.saturating_sub(from) + 1)
    }

    /// Brings a list into any order, all equally likely.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.index(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_that_of_chacha8_and_what_is_made_of_it_never_changes() {
        // The key stream of ChaCha8 for a key and nonce of zeros begins 3e 00 ef 2f 89 5f 40 d6.
        let mut random = Random::new(0);
        assert_eq!(random.bits(), u64::from_le_bytes([0x3e, 0x00, 0xef, 0x2f, 0x89, 0x5f, 0x40, 0xd6]));
        let mut random = Random::new(7);
        let first = [random.below(1000), random.below(1000), random.below(1000)];
        let mut list = [0, 1, 2, 3, 4, 5, 6, 7];
        random.shuffle(&mut list);
        assert_eq!((first, list), ([764, 465, 5], [3, 5, 4, 0, 1, 6, 7, 2]));
    }

    #[test]
    fn shares_and_numbers_keep_to_their_bounds_and_reach_them() {
        let mut random = Random::new(1);
        let mut seen = [false; 5];
        for _ in 0..1000 {
            assert!((0.0..1.0).contains(&random.share()));
            seen[random.within(3..=7) - 3] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!((random.below(0), random.below(1), random.within(4..=4)), (0, 0, 4));
        assert!(!random.happens(0.0) && random.happens(1.0));
    }
}
