//! Round trips of ICMP echoes between two hosts, by themselves and behind netperf (seed 004, section 3.2; checklist E-17).
//!
//! In: the hosts' costs, how they learn of events. Out: what ping prints: whole milliseconds, cut off, as 4.3BSD's
//! ping did. Ping is woken by its host's clock, so with clocked interrupts it sends on a tick, and reads the answer on one
//! of the same clock's ticks: what it prints is spaced by the period. The other host's clock has a phase of its own.

use super::random::Random;
use super::signal::Strategy;

/// What is between ping's sending and its reading, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    /// A round trip by interrupts that meets nobody: a quarter of it each for the way out, in and out again at the other
    /// host, and in.
    pub alone: f64,
    /// What netperf has queued before an echo at the receiver: the least and the most, in milliseconds of work.
    pub queued: Option<[f64; 2]>,
    /// How long a socket buffer's worth keeps the receiver at work.
    pub worth: f64,
}

/// What ping prints of some echoes, the mean before it is cut off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Printed {
    /// The shortest round trip, whole milliseconds.
    pub least: f64,
    /// The mean of round trips in whole milliseconds.
    pub mean: f64,
    /// The longest, whole milliseconds.
    pub greatest: f64,
}

/// One round trip in milliseconds.
fn round_trip(path: &Path, period: Option<f64>, random: &mut Random) -> f64 {
    let quarter = path.alone / 4.0;
    // With clocks, each window's turn loses half a tick on the average at both ends: for so long the load rests.
    let rest = period.unwrap_or(0.0);
    let busy = path.queued.filter(|_| random.uniform() >= rest / (rest + path.worth));
    let wait = match (busy, period) {
        (Some([least, most]), _) => least + random.uniform() * (most - least),
        // A host that is at work takes what has come; one that rests looks at its next tick.
        (None, Some(period)) => random.uniform() * period,
        (None, None) => 0.0,
    };
    let back = 3.0 * quarter + wait;
    let seen = period.map_or(back, |period| (back / period).ceil() * period);
    seen + quarter
}

/// Prints `count` echoes.
pub fn ping(path: &Path, strategy: Strategy, count: u64, random: &mut Random) -> Printed {
    let period = match strategy {
        Strategy::Clocked(hertz) => Some(1e3 / hertz),
        Strategy::Interrupt | Strategy::Polling => None,
    };
    let all: Vec<f64> = (0..count).map(|_| round_trip(path, period, random).floor()).collect();
    Printed {
        least: all.iter().copied().fold(f64::MAX, f64::min),
        mean: all.iter().sum::<f64>() / count.max(1) as f64,
        greatest: all.iter().copied().fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_clocks_round_trips_are_spaced_by_the_period_and_without_they_are_as_they_are() {
        let path = Path { alone: 3.5, queued: None, worth: 14.6 };
        let mut random = Random::new(1);
        let plain = ping(&path, Strategy::Interrupt, 60, &mut random);
        assert_eq!(plain, Printed { least: 3.0, mean: 3.0, greatest: 3.0 });
        for _ in 0..100 {
            let trip = round_trip(&path, Some(2.0), &mut random);
            assert!((trip - 0.875) % 2.0 < 1e-9 && (4.0..7.0).contains(&trip), "{trip}");
        }
        let loaded = ping(&Path { queued: Some([2.0, 15.0]), ..path }, Strategy::Interrupt, 1000, &mut random);
        assert!(loaded.least >= 5.0 && loaded.greatest <= 18.0 && (11.0..12.0).contains(&loaded.mean), "{loaded:?}");
    }
}
