//! Numbers from a seed (SplitMix64: Steele, Lea and Flood, OOPSLA 2014): the same on every machine.

/// A generator.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub const fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// From a seed and a name, so that what one experiment draws does not change what another does.
    pub fn named(seed: u64, name: &str) -> Self {
        let mut trace = crate::Trace::default();
        trace.add(&seed.to_be_bytes());
        trace.add(name.as_bytes());
        Random(trace.hash())
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Uniform, 0 inclusive to 1 exclusive.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform over `0..below`; 0 if `below` is 0.
    pub fn below(&mut self, below: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(below)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence_of_seed_0_and_even_numbers() {
        let mut random = Random::new(0);
        assert_eq!(random.bits(), 0xe220_a839_7b1d_cdaf);
        let mean = (0..10_000).map(|_| random.uniform()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert!((0..1000).all(|_| random.below(7) < 7));
    }
}
