//! Faults of a link, on purpose: loss, duplication, reordering, corruption, outages on schedule. From a seed.

use crate::random::Random;
use std::time::Duration;
use wire::{DropReason, Time};

/// A time in which a link passes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// From this moment on.
    pub from: Time,
    /// Until just before this one.
    pub until: Time,
}

/// What goes wrong on one link, in each direction apart. Probabilities are per cell, or per frame on frame links.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FaultConfig {
    /// Same seed, same faults.
    pub seed: u64,
    /// Probability of being lost; counted `lost`.
    pub loss: f64,
    /// Probability of arriving twice.
    pub duplication: f64,
    /// Probability of arriving late by up to `reorder_by`, behind what was sent after it.
    pub reordering: f64,
    /// How late at most.
    pub reorder_by: Duration,
    /// Probability that one bit, of header or payload, arrives flipped. A frame link has no CRC to catch this with:
    /// there the frame is dropped and counted `crc`, as a receiver of its cells would.
    pub corruption: f64,
    /// When nothing passes; counted `link_down`.
    pub outages: Vec<Outage>,
}

/// What becomes of one cell or frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Dropped(DropReason),
    Arrives { twice: bool, late_by: Duration, flip: bool },
}

/// The faults of one direction.
#[derive(Debug)]
pub(crate) struct Faults {
    config: FaultConfig,
    random: Random,
}

impl Faults {
    /// `direction` sets the two directions of a link apart.
    pub(crate) fn new(config: &FaultConfig, direction: u64) -> Self {
        let seed = config.seed ^ direction.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Faults { config: config.clone(), random: Random::new(seed) }
    }

    /// The fate of what left at `at`.
    pub(crate) fn fate(&mut self, at: Time) -> Fate {
        if self.config.outages.iter().any(|o| o.from <= at && at < o.until) {
            return Fate::Dropped(DropReason::LinkDown);
        }
        if self.random.happens(self.config.loss) {
            return Fate::Dropped(DropReason::Lost);
        }
        let twice = self.random.happens(self.config.duplication);
        let late_by = if self.random.happens(self.config.reordering) {
            let most = u64::try_from(self.config.reorder_by.as_nanos()).unwrap_or(u64::MAX);
            Duration::from_nanos(self.random.below(most.saturating_add(1)))
        } else {
            Duration::ZERO
        };
        Fate::Arrives { twice, late_by, flip: self.random.happens(self.config.corruption) }
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.random.index(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_faults_and_each_direction_its_own() {
        let config = FaultConfig {
            seed: 7,
            loss: 0.2,
            duplication: 0.2,
            reordering: 0.2,
            reorder_by: Duration::from_micros(9),
            corruption: 0.2,
            outages: vec![],
        };
        let fates = |direction| {
            let mut faults = Faults::new(&config, direction);
            (0..200).map(|n| faults.fate(Time::from_micros(n))).collect::<Vec<_>>()
        };
        assert_eq!(fates(0), fates(0));
        assert_ne!(fates(0), fates(1));
        let lost = fates(0).iter().filter(|f| matches!(f, Fate::Dropped(DropReason::Lost))).count();
        assert!((15..70).contains(&lost), "{lost}");
    }

    #[test]
    fn an_outage_begins_and_ends_on_schedule() {
        let outages = vec![Outage { from: Time::from_millis(1), until: Time::from_millis(2) }];
        let mut faults = Faults::new(&FaultConfig { outages, ..FaultConfig::default() }, 0);
        let down = |f: Fate| f == Fate::Dropped(DropReason::LinkDown);
        assert!(!down(faults.fate(Time::from_nanos(999_999))));
        assert!(down(faults.fate(Time::from_millis(1))));
        assert!(!down(faults.fate(Time::from_millis(2))));
    }
}
