//! Bits that a cable damages, from a seed.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Damages octets with a probability each.
#[derive(Debug)]
pub(super) struct Faults {
    rate: f64,
    random: StdRng,
    /// Octets that pass before the next that is damaged.
    left: u64,
}

impl Faults {
    pub(super) fn new(rate: f64, seed: u64) -> Self {
        let mut faults = Faults { rate, random: StdRng::seed_from_u64(seed), left: u64::MAX };
        faults.draw();
        faults
    }

    /// The distance to the next damaged octet is geometric.
    fn draw(&mut self) {
        self.left = if self.rate > 0.0 {
            let uniform: f64 = 1.0 - self.random.random::<f64>();
            (uniform.ln() / (1.0 - self.rate.min(0.999_999)).ln()) as u64
        } else {
            u64::MAX
        };
    }

    pub(super) fn damage(&mut self, octets: &mut [u8]) {
        let mut rest = octets;
        while self.left < rest.len() as u64 {
            let (_, after) = rest.split_at_mut(self.left as usize);
            after[0] ^= 1 << self.random.random_range(0..8u32);
            rest = &mut after[1..];
            self.draw();
        }
        if self.rate > 0.0 {
            self.left -= rest.len() as u64;
        }
    }
}
