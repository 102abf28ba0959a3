//! How long to look before going to sleep: bounded, and as long as it has been worth it lately.
//!
//! A look that succeeds costs nothing but the look; a sleep costs a wake-up (tens of microseconds where the core went
//! idle). So: after a wait that ended while looking, look a few times as long as that wait took; after one that slept but
//! would have ended soon, look longer; after a long sleep, look half as long. Pure arithmetic over times that are given.

use std::time::Duration;

/// Bounds of the look, and its length now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spin {
    least: Duration,
    most: Duration,
    now: Duration,
}

impl Default for Spin {
    /// From 2 to 50 microseconds; none at all where there is one processor only, since nothing can come meanwhile.
    fn default() -> Self {
        // Not `available_parallelism`, which counts those that this process may use: the other side may use others.
        let alone = std::fs::read_to_string("/sys/devices/system/cpu/online").is_ok_and(|online| online.trim() == "0");
        if alone { Spin::none() } else { Spin::new(Duration::from_micros(2), Duration::from_micros(50)) }
    }
}

impl Spin {
    /// Between `least` and `most`, beginning with the most.
    pub fn new(least: Duration, most: Duration) -> Self {
        Spin { least: least.min(most), most, now: most }
    }

    /// Sleeps at once.
    pub fn none() -> Self {
        Spin::new(Duration::ZERO, Duration::ZERO)
    }

    /// Never sleeps before the caller's own timeout.
    pub fn forever() -> Self {
        Spin::new(Duration::MAX, Duration::MAX)
    }

    /// How long to look this time.
    pub fn length(&self) -> Duration {
        self.now
    }

    /// A wait has ended after `waited`, by a sleep or by looking.
    pub fn handle_wait(&mut self, waited: Duration, slept: bool) {
        let wanted = match slept {
            false => (self.now - self.now / 8).max(waited.saturating_mul(4)),
            true if waited <= self.most.saturating_mul(2) => self.now.saturating_mul(2).max(self.least),
            true => self.now / 2,
        };
        self.now = wanted.clamp(self.least, self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    #[test]
    fn an_idle_circuit_is_looked_at_ever_shorter_and_a_busy_one_longer_again() {
        let mut spin = Spin::new(US(2), US(50));
        for _ in 0..10 {
            spin.handle_wait(US(10_000), true);
        }
        assert_eq!(spin.length(), US(2));
        for _ in 0..5 {
            spin.handle_wait(US(60), true);
        }
        assert_eq!(spin.length(), US(50));
        for _ in 0..50 {
            spin.handle_wait(Duration::from_nanos(300), false);
        }
        assert_eq!(spin.length(), US(2));
    }

    proptest! {
        #[test]
        fn the_look_stays_in_its_bounds(waits in prop::collection::vec((0u64..1 << 40, any::<bool>()), 0..50)) {
            let mut spin = Spin::new(US(2), US(50));
            let mut forever = Spin::forever();
            for (nanos, slept) in waits {
                spin.handle_wait(Duration::from_nanos(nanos), slept);
                forever.handle_wait(Duration::from_nanos(nanos), slept);
                prop_assert!((US(2)..=US(50)).contains(&spin.length()));
                prop_assert_eq!(forever.length(), Duration::MAX);
            }
        }
    }
}
