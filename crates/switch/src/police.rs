//! Policing in a circuit's line: the generic cell rate algorithm by virtual scheduling (I.371, TM 4.0 section 4.4.2), with
//! 64-bit times in units of 2^-16 nanosecond.
//!
//! Times wrap after 78 hours. A theoretical arrival time lies at most L + T ahead of the cell that set it; one that seems to
//! lie further ahead is an old one that time has overtaken, and counts as past.

use core::hint::select_unpredictable;
use traffic::{Contract, Fine};
use wire::Time;

/// A moment or a length of time in units of 2^-16 nanosecond, modulo 2^64.
pub(crate) type Ticks = u64;

/// `now` in ticks.
#[inline(always)]
pub(crate) const fn ticks(now: Time) -> Ticks {
    now.as_nanos() << 16
}

/// GCRA(T, L): increment and limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bucket {
    increment: Ticks,
    limit: Ticks,
}

/// Longest increment and limit: a quarter of the time after which ticks wrap.
const LONGEST: Ticks = 1 << 62;

impl Bucket {
    /// GCRA(`increment`, `limit`). Both are cut to whole units of 2^-16 nanosecond and to 19 hours.
    pub fn new(increment: Fine, limit: Fine) -> Self {
        let ticks = |fine: Fine| Ticks::try_from(fine.units() >> 16).unwrap_or(LONGEST).min(LONGEST);
        Bucket { increment: ticks(increment), limit: ticks(limit) }
    }

    /// Whether a cell at `now` conforms, and the theoretical arrival time after it if it does. Without branches: which
    /// cells follow a pause, no processor foretells.
    #[inline(always)]
    fn test(self, theoretical: Ticks, now: Ticks) -> (bool, Ticks) {
        let ahead = theoretical.wrapping_sub(now);
        let past = ahead > self.limit.wrapping_add(self.increment);
        let from = select_unpredictable(past, now, theoretical);
        (past | (ahead <= self.limit), from.wrapping_add(self.increment))
    }
}

/// What happens to a cell beyond the sustainable rate. One beyond the peak rate is always discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Excess {
    /// Discarded.
    #[default]
    Discard,
    /// Sent on with CLP 1, so that it is discarded first where there is congestion.
    Tag,
}

/// How a circuit's cells are policed: the conformance definitions CBR.1, VBR.1, VBR.2, VBR.3 and UBR.1 of TM 4.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Police {
    /// The peak rate, for cells of both loss priorities.
    pub peak: Bucket,
    /// The sustainable rate.
    pub sustainable: Option<Bucket>,
    /// Whether the sustainable rate is tested on CLP 0 cells only (VBR.2, VBR.3), or on all (VBR.1).
    pub high_priority_only: bool,
    /// What happens to a CLP 0 cell beyond the sustainable rate (VBR.3 tags).
    pub excess: Excess,
}

/// What policing says about a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Conforms,
    Tagged,
    Discarded,
}

impl Police {
    /// The tests of a contract, with discard. `None` without a peak rate: there is nothing to test.
    pub fn of(contract: &Contract) -> Option<Self> {
        let peak = Bucket::new(Fine::interval(contract.pcr?), contract.cdvt.into());
        let sustainable = contract
            .scr
            .zip(contract.burst_tolerance())
            .map(|(scr, tolerance)| Bucket::new(Fine::interval(scr), tolerance.plus(contract.cdvt.into())));
        Some(Police { peak, sustainable, high_priority_only: false, excess: Excess::Discard })
    }

    /// Tests a cell of this priority; only tests that it passes move a schedule. `times` are the theoretical arrival times
    /// of peak and sustainable rate.
    #[inline(always)]
    pub(crate) fn arrive(&self, times: &mut [Ticks; 2], clp: bool, now: Ticks) -> Verdict {
        let (passes, peak) = self.peak.test(times[0], now);
        if let Some(sustainable) = self.sustainable {
            return self.arrive_at_both(sustainable, times, clp, now);
        }
        times[0] = select_unpredictable(passes, peak, times[0]);
        select_unpredictable(passes, Verdict::Conforms, Verdict::Discarded)
    }

    #[inline(never)]
    fn arrive_at_both(&self, sustainable: Bucket, times: &mut [Ticks; 2], clp: bool, now: Ticks) -> Verdict {
        let (below_peak, peak) = self.peak.test(times[0], now);
        let exempt = self.high_priority_only & clp;
        let (conforms, sustained) = sustainable.test(times[1], now);
        let tagged = below_peak & !exempt & !conforms & (self.excess == Excess::Tag);
        let passes = below_peak & (exempt | conforms | tagged);
        times[0] = select_unpredictable(passes, peak, times[0]);
        times[1] = select_unpredictable(passes & !exempt & !tagged, sustained, times[1]);
        match (passes, tagged) {
            (false, _) => Verdict::Discarded,
            (true, true) => Verdict::Tagged,
            (true, false) => Verdict::Conforms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use traffic::{Gcra, LeakyBucket};

    proptest! {
        #[test]
        fn a_bucket_decides_as_both_definitions_of_the_algorithm(
            increment in 1u64..100_000, limit in 0u64..500_000, gaps in proptest::collection::vec(0u64..150_000, 1..300),
        ) {
            let (i, l) = (Fine::from_nanos(increment), Fine::from_nanos(limit));
            let (bucket, mut gcra, mut leaky) = (Bucket::new(i, l), Gcra::new(i, l), LeakyBucket::new(i, l));
            let (mut now, mut theoretical) = (0, 0);
            for gap in gaps {
                now += gap;
                let at = Time::from_nanos(now);
                let (conforms, next) = bucket.test(theoretical, ticks(at));
                prop_assert_eq!(conforms, gcra.arrive(at));
                prop_assert_eq!(conforms, leaky.arrive(at));
                theoretical = if conforms { next } else { theoretical };
            }
        }

        #[test]
        fn two_buckets_decide_as_both_definitions_of_the_algorithm_say(
            peak in (1u64..2_000, 0u64..6_000), sustainable in (1u64..9_000, 0u64..60_000), vbr1: bool, tag: bool,
            cells in proptest::collection::vec((0u64..4_000, any::<bool>()), 1..300),
        ) {
            // VBR.1, or VBR.2 and VBR.3: a bucket of each definition for either rate; a cell must pass all that apply to it.
            fn definition<B: Copy>(
                buckets: &mut [B; 2], arrive: fn(&mut B, Time) -> bool, exempt: bool, tag: bool, at: Time,
            ) -> Verdict {
                let [mut peak, mut sustainable] = *buckets;
                if !arrive(&mut peak, at) {
                    return Verdict::Discarded;
                }
                if exempt {
                    buckets[0] = peak;
                    return Verdict::Conforms;
                }
                if arrive(&mut sustainable, at) {
                    *buckets = [peak, sustainable];
                    return Verdict::Conforms;
                }
                if tag {
                    buckets[0] = peak;
                    return Verdict::Tagged;
                }
                Verdict::Discarded
            }
            let tag = tag && !vbr1;
            let fine = |(t, l)| (Fine::from_nanos(t), Fine::from_nanos(l));
            let rates = [fine(peak), fine(sustainable)];
            let [peak, sustainable] = rates.map(|(t, l)| Bucket::new(t, l));
            let excess = if tag { Excess::Tag } else { Excess::Discard };
            let police = Police { peak, sustainable: Some(sustainable), high_priority_only: !vbr1, excess };
            let mut scheduling = rates.map(|(t, l)| Gcra::new(t, l));
            let mut leaky = rates.map(|(t, l)| LeakyBucket::new(t, l));
            let (mut now, mut times) = (0, [0; 2]);
            for (gap, clp) in cells {
                now += gap;
                let (at, exempt) = (Time::from_nanos(now), clp && !vbr1);
                let verdict = police.arrive(&mut times, clp, ticks(at));
                prop_assert_eq!(verdict, definition(&mut scheduling, Gcra::arrive, exempt, tag, at));
                prop_assert_eq!(verdict, definition(&mut leaky, LeakyBucket::arrive, exempt, tag, at));
            }
        }

        #[test]
        fn a_cell_that_fails_one_test_moves_no_schedule(
            peak in 1u64..1000, burst in 0u64..5000, gaps in proptest::collection::vec((0u64..3000, any::<bool>()), 1..200),
        ) {
            let fine = Fine::from_nanos;
            let police = Police {
                peak: Bucket::new(fine(peak), fine(100)),
                sustainable: Some(Bucket::new(fine(peak * 3), fine(burst))),
                high_priority_only: true,
                excess: Excess::Tag,
            };
            let discarding = Police { excess: Excess::Discard, ..police };
            let (mut now, mut times) = (0, [0; 2]);
            for (gap, clp) in gaps {
                now += gap;
                let before = times;
                let mut other = times;
                let verdict = police.arrive(&mut times, clp, now << 16);
                prop_assert_eq!(times[1] == before[1], clp || verdict != Verdict::Conforms);
                prop_assert_eq!(times[0] == before[0], verdict == Verdict::Discarded);
                let stern = discarding.arrive(&mut other, clp, now << 16);
                prop_assert_eq!(stern == Verdict::Discarded, verdict != Verdict::Conforms);
                prop_assert!(stern != Verdict::Discarded || other == before);
            }
        }
    }

    #[test]
    fn a_circuit_that_was_idle_for_days_conforms_whatever_its_last_time() {
        let bucket = Bucket::new(Fine::from_nanos(1000), Fine::from_nanos(5000));
        for hours in 1..200 {
            let now = ticks(Time::from_millis(hours * 3_600_000));
            assert_eq!(bucket.test(ticks(Time::from_micros(7)), now), (true, now.wrapping_add(1000 << 16)));
        }
    }
}
