//! Policing in a circuit's line: the generic cell rate algorithm by virtual scheduling (I.371, TM 4.0 section 4.4.2),
//! with 64-bit times in units of 2^-16 nanosecond.
//!
//! Times wrap after 78 hours. A theoretical arrival time lies at most L + T ahead of the cell that set it; one that
//! seems to lie further ahead is an old one that time has overtaken, and counts as past.

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

/// How far before the last cell a cell may seem to come: times of a batch are reckoned, and those of neighbouring
/// batches may overlap by up to a second; and the cells of a frame count as coming when they conform, which is up to a
/// minute ahead.
const BACKWARDS: Ticks = 1 << 52;

/// Longest increment and limit: a quarter of the time after which ticks wrap.
pub(crate) const LONGEST: Ticks = 1 << 62;

impl Bucket {
    /// GCRA(`increment`, `limit`). Both are cut to whole units of 2^-16 nanosecond and to 19 hours.
    pub fn new(increment: Fine, limit: Fine) -> Self {
        let ticks = |fine: Fine| Ticks::try_from(fine.units() >> 16).unwrap_or(LONGEST).min(LONGEST);
        Bucket { increment: ticks(increment), limit: ticks(limit) }
    }

    pub(crate) const fn increment(self) -> Ticks {
        self.increment
    }

    pub(crate) const fn limit(self) -> Ticks {
        self.limit
    }

    /// Whether a cell at `now` conforms, and the theoretical arrival time after it if it does. Without branches: which
    /// cells follow a pause, no processor foretells.
    #[inline(always)]
    pub(crate) fn test(self, theoretical: Ticks, now: Ticks) -> (bool, Ticks) {
        Gate::of(self).test(theoretical, now)
    }
}

/// A bucket as the test of a cell wants it: two comparisons, nothing to reckon that is the same for each cell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gate {
    increment: Ticks,
    /// The theoretical time of a cell that conforms, and is not past, lies less than so far ahead.
    open: Ticks,
    /// From `open` to so much further, `shut` included, a cell does not conform; what lies further ahead is past.
    shut: Ticks,
}

impl Gate {
    /// Nothing conforms.
    pub(crate) const CLOSED: Gate = Gate { increment: 0, open: 0, shut: Ticks::MAX };

    #[inline(always)]
    pub(crate) const fn of(bucket: Bucket) -> Self {
        Gate { increment: bucket.increment, open: bucket.limit + 1, shut: bucket.increment + BACKWARDS - 1 }
    }

    /// As [`Bucket::test`].
    #[inline(always)]
    pub(crate) fn test(self, theoretical: Ticks, now: Ticks) -> (bool, Ticks) {
        let (beyond, in_time) = theoretical.wrapping_sub(now).overflowing_sub(self.open);
        let from = select_unpredictable(in_time, theoretical, now);
        (beyond > self.shut, from.wrapping_add(self.increment))
    }
}

/// Cells of one circuit that came one after another: the first at `first`, the others `step` apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Train {
    pub(crate) first: Ticks,
    pub(crate) step: Ticks,
    pub(crate) cells: usize,
}

impl Train {
    /// When cell `at` came.
    fn time(self, at: u64) -> Ticks {
        self.first.wrapping_add(self.step.wrapping_mul(at))
    }
}

impl Bucket {
    /// How many cells at the beginning of a train conform.
    #[inline]
    fn conforming(self, theoretical: Ticks, train: Train) -> u64 {
        let n = train.cells as u64;
        let Some(ahead) = self.ahead(theoretical, train.first) else { return 0 };
        // Each cell that conforms takes the increment, and the time to the next gives its length back.
        match self.increment.saturating_sub(train.step) {
            0 => n,
            more => n.min((self.limit - ahead) / more + 1),
        }
    }

    /// How far the theoretical time lies ahead of a cell that conforms; `None`: it does not.
    #[inline]
    fn ahead(self, theoretical: Ticks, now: Ticks) -> Option<Ticks> {
        let (conforms, next) = self.test(theoretical, now);
        conforms.then(|| next.wrapping_sub(self.increment).wrapping_sub(now))
    }

    /// The theoretical time after the first `n` cells of a train, which conform.
    #[inline]
    fn after(self, theoretical: Ticks, train: Train, n: u64) -> Ticks {
        let Some(last) = n.checked_sub(1) else { return theoretical };
        let Some(ahead) = self.ahead(theoretical, train.first) else { return theoretical };
        if self.increment >= train.step {
            // No cell finds the theoretical time past.
            return train.first.wrapping_add(ahead).wrapping_add(self.increment.wrapping_mul(n));
        }
        // Each cell gains on it until it is past.
        let gained = u128::from(train.step - self.increment) * u128::from(last);
        let left = u64::try_from(u128::from(ahead).saturating_sub(gained)).unwrap_or(u64::MAX);
        train.time(last).wrapping_add(left).wrapping_add(self.increment)
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
    /// The tests of a contract by its conformance definition. `None` without a peak rate, and of GFR, which
    /// [`crate::FramePolice`] tests.
    pub fn of(contract: &Contract) -> Option<Self> {
        if contract.category == traffic::Category::Gfr {
            return None;
        }
        let conformance = contract.conformance();
        let peak = Bucket::new(Fine::interval(contract.pcr?), contract.cdvt.into());
        let sustainable = contract
            .scr
            .zip(contract.burst_tolerance())
            .map(|(scr, tolerance)| Bucket::new(Fine::interval(scr), tolerance.plus(contract.cdvt.into())));
        let excess = if conformance.tags() && sustainable.is_some() { Excess::Tag } else { Excess::Discard };
        Some(Police { peak, sustainable, high_priority_only: conformance.exempts_low_priority(), excess })
    }

    /// The test of the peak rate, if there is no other.
    pub(crate) const fn gate(&self) -> Gate {
        match self.sustainable {
            None => Gate::of(self.peak),
            Some(_) => Gate::CLOSED,
        }
    }

    /// Tests a cell of this priority; only tests that it passes move a schedule. `times` are the theoretical arrival
    /// times of peak and sustainable rate.
    #[inline(always)]
    pub(crate) fn arrive(&self, times: &mut [Ticks; 2], clp: bool, now: Ticks) -> Verdict {
        let (passes, peak) = self.peak.test(times[0], now);
        if let Some(sustainable) = self.sustainable {
            return self.arrive_at_both(sustainable, times, clp, now);
        }
        times[0] = select_unpredictable(passes, peak, times[0]);
        select_unpredictable(passes, Verdict::Conforms, Verdict::Discarded)
    }

    /// Tests the first cells of a train of this priority, all user data, together: how many have passed as conforming.
    /// None: the first is to be tested by itself.
    pub(crate) fn arrive_together(&self, times: &mut [Ticks; 2], clp: bool, train: Train) -> usize {
        let sustainable = self.sustainable.filter(|_| !(self.high_priority_only && clp));
        let mut n = self.peak.conforming(times[0], train);
        if let Some(sustainable) = sustainable {
            n = n.min(sustainable.conforming(times[1], train));
            times[1] = sustainable.after(times[1], train, n);
        }
        times[0] = self.peak.after(times[0], train, n);
        n as usize
    }

    /// As [`Police::arrive_together`] for cells that came at these times, whatever lies between them.
    pub(crate) fn arrive_one_by_one(
        &self,
        times: &mut [Ticks; 2],
        clp: bool,
        cells: impl Iterator<Item = Ticks>,
    ) -> usize {
        let sustainable = self.sustainable.filter(|_| !(self.high_priority_only && clp));
        let (mut theoretical, mut n) = (*times, 0);
        for now in cells {
            let (below_peak, peak) = self.peak.test(theoretical[0], now);
            let (conforms, sustained) = sustainable.map_or((true, theoretical[1]), |s| s.test(theoretical[1], now));
            if !(below_peak & conforms) {
                break;
            }
            theoretical = [peak, sustained];
            n += 1;
        }
        *times = theoretical;
        n
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

    #[test]
    fn a_theoretical_time_is_past_from_one_tick_beyond_all_that_a_cell_can_set() {
        let bucket = Bucket { increment: 7 << 16, limit: 11 << 16 };
        let longest = bucket.limit + bucket.increment + BACKWARDS;
        for (ahead, conforms) in
            [(bucket.limit, true), (bucket.limit + 1, false), (longest, false), (longest + 1, true)]
        {
            assert_eq!(bucket.test(3 + ahead, 3).0, conforms, "{ahead}");
        }
    }

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
        fn nothing_passes_a_closed_gate(theoretical: Ticks, near in 0u64..3) {
            prop_assert!(!Gate::CLOSED.test(theoretical, theoretical.wrapping_add(near)).0);
            prop_assert!(!Gate::CLOSED.test(theoretical, near).0);
        }

        #[test]
        fn two_buckets_decide_as_both_definitions_of_the_algorithm_say(
            peak in (1u64..2_000, 0u64..6_000), sustainable in (1u64..9_000, 0u64..60_000), vbr1: bool, tag: bool,
            cells in proptest::collection::vec((0u64..4_000, any::<bool>()), 1..300),
        ) {
            // VBR.1, or VBR.2 and VBR.3: a bucket of each definition for either rate; a cell must pass all that apply
            // to it.
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
        fn cells_that_are_tested_together_pass_as_one_by_one(
            peak in (0u64..2_000, 0u64..6_000), sustainable in prop::option::of((0u64..9_000, 0u64..60_000)),
            vbr1: bool, fine in 0u64..1 << 16, trains in proptest::collection::vec((0u64..40_000, 0u64..3_000, 1usize..60, any::<bool>()), 1..20),
        ) {
            let bucket = |(t, l): (u64, u64)| Bucket { increment: (t << 16) + fine, limit: (l << 16) + fine };
            let (peak, sustainable) = (bucket(peak), sustainable.map(bucket));
            let police = Police { peak, sustainable, high_priority_only: !vbr1, excess: Excess::Tag };
            let (mut now, mut times, mut one_by_one) = (1 << 40, [0; 2], [0; 2]);
            for (gap, step, cells, clp) in trains {
                now += gap << 16;
                let train = Train { first: now, step: (step << 16) + fine % 7, cells };
                let verdicts: Vec<_> =
                    (0..cells as u64).map(|at| police.arrive(&mut one_by_one, clp, train.time(at))).collect();
                let mut at = 0;
                while at < cells {
                    let rest = Train { first: train.time(at as u64), cells: cells - at, ..train };
                    let n = police.arrive_together(&mut times, clp, rest);
                    prop_assert!(verdicts[at..at + n].iter().all(|verdict| *verdict == Verdict::Conforms));
                    at += n;
                    if at < cells {
                        let verdict = police.arrive(&mut times, clp, train.time(at as u64));
                        prop_assert_eq!(verdict, verdicts[at]);
                        prop_assert!(verdict != Verdict::Conforms, "cell {} could have gone with those before", at);
                        at += 1;
                    }
                }
                prop_assert_eq!(times, one_by_one);
                // The next may begin before this one's end, as batches may.
                now = train.time(cells as u64) - (gap << 15);
            }
        }

        #[test]
        fn cells_of_any_times_pass_together_as_one_by_one(
            peak in (0u64..2_000, 0u64..6_000), sustainable in prop::option::of((0u64..9_000, 0u64..60_000)),
            vbr1: bool, tag: bool, runs in proptest::collection::vec((any::<bool>(), proptest::collection::vec(0u64..4_000, 1..40)), 1..20),
        ) {
            let bucket = |(t, l): (u64, u64)| Bucket { increment: t << 16, limit: l << 16 };
            let excess = if tag { Excess::Tag } else { Excess::Discard };
            let (peak, sustainable) = (bucket(peak), sustainable.map(bucket));
            let police = Police { peak, sustainable, high_priority_only: !vbr1, excess };
            let (mut now, mut times, mut one_by_one) = (1 << 40, [0; 2], [0; 2]);
            for (clp, gaps) in runs {
                let mut at: Vec<Ticks> = Vec::new();
                for gap in gaps {
                    now += gap << 16;
                    at.push(now);
                }
                let verdicts: Vec<_> = at.iter().map(|at| police.arrive(&mut one_by_one, clp, *at)).collect();
                let mut from = 0;
                while from < at.len() {
                    let n = police.arrive_one_by_one(&mut times, clp, at[from..].iter().copied());
                    prop_assert!(verdicts[from..from + n].iter().all(|verdict| *verdict == Verdict::Conforms));
                    from += n;
                    if from < at.len() {
                        let verdict = police.arrive(&mut times, clp, at[from]);
                        prop_assert_eq!(verdict, verdicts[from]);
                        prop_assert!(verdict != Verdict::Conforms);
                        from += 1;
                    }
                }
                prop_assert_eq!(times, one_by_one);
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
