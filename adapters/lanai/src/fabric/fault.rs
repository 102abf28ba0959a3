//! Bits that a cable damages, from a seed.

use net::random::Random;

/// Damages octets with a probability each.
#[derive(Debug)]
pub(super) struct Faults {
    rate: f64,
    random: Random,
    /// Octets that pass before the next that is damaged.
    left: u64,
}

impl Faults {
    pub(super) fn new(rate: f64, seed: u64) -> Self {
        let mut faults = Faults { rate, random: Random::new(seed), left: u64::MAX };
        faults.draw();
        faults
    }

    /// The distance to the next damaged octet is geometric.
    fn draw(&mut self) {
        self.left = if self.rate > 0.0 {
            let uniform = 1.0 - self.random.share();
            (uniform.ln() / (1.0 - self.rate.min(0.999_999)).ln()) as u64
        } else {
            u64::MAX
        };
    }

    pub(super) fn damage(&mut self, octets: &mut [u8]) {
        let mut rest = octets;
        while self.left < rest.len() as u64 {
            let (_, after) = rest.split_at_mut(self.left as usize);
            after[0] ^= 1 << self.random.below(8);
            rest = &mut after[1..];
            self.draw();
        }
        if self.rate > 0.0 {
            self.left -= rest.len() as u64;
        }
    }
}
