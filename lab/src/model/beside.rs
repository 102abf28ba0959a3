//! What a machine does beside an experiment: processes of its system that wake up at moments of their own.
//!
//! In: a machine's constants and a seed. Out: when the next of them wakes up, and its work. Two runs of one experiment differ by these
//! moments, which is what bars over several runs show.

use super::machine::Work;
use super::profile::{Profile, ProfileError};
use super::random::Random;
use std::time::Duration;
use wire::Time;

/// The system's processes of one machine.
#[derive(Debug)]
pub struct Beside {
    next: Time,
    interval: f64,
    work: Work,
    random: Random,
}

impl Beside {
    /// Those of a machine; `seed` says when they wake up.
    ///
    /// # Errors
    /// The machine lacks a constant.
    pub fn new(machine: &Profile, seed: u64) -> Result<Self, ProfileError> {
        let (interval, work) =
            (machine.get("system_interval_ms")? * 1e-3, Work::cached(machine.get("system_ms")? * 1e-3));
        let mut random = Random::new(seed);
        // The first is somewhere in an interval that had begun before.
        let next = Time::ZERO + Duration::from_secs_f64(interval * random.uniform());
        Ok(Beside { next, interval, work, random })
    }

    /// When the next one wakes up.
    pub fn poll_timeout(&self) -> Time {
        self.next
    }

    /// The work of one that has woken up by `now`.
    pub fn handle_timeout(&mut self, now: Time) -> Option<Work> {
        if self.next > now {
            return None;
        }
        // Half an interval to one and a half; never no time at all.
        let after = self.interval * (0.5 + self.random.uniform());
        self.next += Duration::from_secs_f64(after.max(1e-6));
        Some(self.work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_s_own_processes_take_their_share_at_moments_that_the_seed_decides() {
        let machine = Profile::named("pentium90-neptune").unwrap();
        let interval = machine.get("system_interval_ms").unwrap() * 1e-3;
        let woken = |seed| {
            let (mut beside, mut moments) = (Beside::new(&machine, seed).unwrap(), Vec::new());
            while beside.poll_timeout() < Time::from_millis(100_000) {
                let now = beside.poll_timeout();
                assert!(beside.handle_timeout(Time::from_nanos(now.as_nanos() - 1)).is_none());
                assert!(beside.handle_timeout(now).is_some());
                moments.push(now);
            }
            moments
        };
        let (one, other) = (woken(1), woken(2));
        assert_eq!(one, woken(1));
        assert_ne!(one, other);
        for moments in [one, other] {
            let wanted = 100.0 / interval;
            assert!((moments.len() as f64 / wanted - 1.0).abs() < 0.1, "{} of {wanted}", moments.len());
        }
    }
}
