//! What tests of random changes share: their generator, and a step that fails.

use control::network_target::NetworkTarget;
use control::step::{PreparedResource, Step, StepError, Target};

/// A small random generator (xorshift64*), the same on all machines.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Performs steps, but for one.
pub struct Failing<'a> {
    pub live: NetworkTarget<'a>,
    pub left: usize,
}

impl Target for Failing<'_> {
    fn perform(&mut self, step: &Step, made: Option<PreparedResource>) -> Result<Step, StepError> {
        if self.left == 0 {
            self.left = usize::MAX;
            return Err(StepError::Shell("this one fails".into()));
        }
        self.left = self.left.saturating_sub(1);
        self.live.perform(step, made)
    }

    fn advance(&mut self) -> bool {
        self.live.advance()
    }
}
