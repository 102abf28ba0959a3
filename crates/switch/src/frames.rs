//! Policing by frames (GFR, TM 4.1 section 4.5.5) in a circuit's line: the peak rate for each cell, one loss priority
//! and at most MFS cells for each frame, and F-GCRA(1/MCR, BT + CDVT) for the frames that the guarantee covers.
//!
//! The two times of a circuit's line hold it all: the first is that of the peak rate; the second has 48 bits of
//! theoretical arrival time in units of 2^-8 nanosecond, which wrap after 18 minutes, and 16 bits of what is known of
//! the frame.

use crate::police::{Bucket, LONGEST, Ticks, Verdict};
use traffic::{Contract, Fine};

/// What happens to a frame of high priority that the guarantee does not cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FrameExcess {
    /// It is sent on as it is (GFR.1); the guarantee holds by the circuit's share of the output.
    #[default]
    Keep,
    /// All its cells are sent on with CLP 1 (GFR.2).
    Tag,
    /// All its cells are discarded.
    Discard,
}

/// How the frames of a circuit are policed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FramePolice {
    /// The peak rate, for cells of both loss priorities.
    pub peak: Bucket,
    /// Increment and limit of F-GCRA, in whole units of 2^-8 nanosecond.
    minimum: (u64, u64),
    /// Cells of the longest frame (MFS).
    pub max_cells: u16,
    /// What happens to frames beyond the guarantee.
    pub excess: FrameExcess,
}

const TIME_BITS: u32 = 48;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
/// As for times of cells: a second.
const BACKWARDS: u64 = 1 << 38;
/// A quarter of the time after which times wrap.
const LONGEST_MINIMUM: u64 = 1 << (TIME_BITS - 2);

/// Bits of what is known of a frame, above its count of cells.
const COUNT_MASK: u64 = (1 << 12) - 1;
const INSIDE: u64 = 1 << 12;
const ELIGIBLE: u64 = 1 << 13;
const LOW: u64 = 1 << 14;
const FAULT: u64 = 1 << 15;

/// A cell as it is tested.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameCell {
    pub(crate) clp: bool,
    /// Whether it is user data, and then whether it ends its frame.
    pub(crate) end: Option<bool>,
}

impl FramePolice {
    /// A test of the peak rate and F-GCRA(`increment`, `limit`), for frames of up to `max_cells` cells, 4095 at most.
    /// Times of F-GCRA are rounded to 2^-8 nanosecond and cut to 4 minutes.
    pub fn new(peak: Bucket, increment: Fine, limit: Fine, max_cells: u16, excess: FrameExcess) -> Self {
        let units = |fine: Fine| {
            let rounded = (fine.units() + (1 << 23)) >> 24;
            u64::try_from(rounded).unwrap_or(LONGEST_MINIMUM).min(LONGEST_MINIMUM)
        };
        FramePolice { peak, minimum: (units(increment).max(1), units(limit)), max_cells: max_cells.min(4095), excess }
    }

    /// The tests of a GFR contract, whose conformance definition says whether frames are tagged. `None` of any other.
    pub fn of(contract: &Contract) -> Option<Self> {
        let (pcr, mcr, mbs) = (contract.pcr?, contract.mcr?, contract.mbs?);
        let max_cells = u16::try_from(contract.mfs?).unwrap_or(u16::MAX);
        let cdvt = Fine::from(contract.cdvt);
        let increment = Fine::interval(mcr);
        let tolerance = increment.minus(Fine::interval(pcr)).times(u64::from(mbs).saturating_sub(1));
        let excess = if contract.conformance().tags() { FrameExcess::Tag } else { FrameExcess::Keep };
        let peak = Bucket::new(Fine::interval(pcr), cdvt);
        Some(FramePolice::new(peak, increment, tolerance.plus(cdvt), max_cells, excess))
    }

    /// Tests a cell at `now`. A frame's first cell decides whether the guarantee covers it; each cell of such a frame
    /// that is not discarded moves the minimum rate's schedule.
    pub(crate) fn arrive(&self, times: &mut [Ticks; 2], cell: FrameCell, now: Ticks) -> Verdict {
        let (passes, peak) = self.peak.test(times[0], now);
        let Some(end) = cell.end else {
            // No cell of a frame.
            if passes {
                times[0] = peak;
            }
            return if passes { Verdict::Conforms } else { Verdict::Discarded };
        };
        let (mut theoretical, mut known) = (times[1] >> 16, times[1] & 0xffff);
        let (increment, limit) = self.minimum;
        let at = (now >> 8) & TIME_MASK;
        let ahead = theoretical.wrapping_sub(at) & TIME_MASK;
        let past = ahead > limit + increment + BACKWARDS;
        let first = known & INSIDE == 0;
        if first {
            let eligible = !cell.clp && (past || ahead <= limit);
            known = (u64::from(eligible) * ELIGIBLE) | (u64::from(cell.clp) * LOW);
        }
        let count = (known & COUNT_MASK).saturating_add(1).min(COUNT_MASK);
        known = known & !COUNT_MASK | count;
        let regular = (known & LOW != 0) == cell.clp && count <= u64::from(self.max_cells) && known & FAULT == 0;
        // The last cell of a frame tells where it ends, whatever came before it.
        let kept = passes && (regular || end && !first);
        let beyond = known & (ELIGIBLE | LOW) == 0;
        let verdict = match self.excess {
            _ if !kept => Verdict::Discarded,
            FrameExcess::Discard if beyond => Verdict::Discarded,
            FrameExcess::Tag if beyond => Verdict::Tagged,
            _ => Verdict::Conforms,
        };
        if !kept {
            known |= FAULT;
        }
        if verdict != Verdict::Discarded {
            times[0] = peak;
            if known & ELIGIBLE != 0 {
                theoretical = (if past { at } else { theoretical }).wrapping_add(increment) & TIME_MASK;
            }
        }
        known = if end { known & !INSIDE } else { known | INSIDE };
        times[1] = theoretical << 16 | known;
        verdict
    }
}

const _: () = assert!(LONGEST_MINIMUM <= LONGEST);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::police::ticks;
    use proptest::prelude::*;
    use traffic::{FrameBucket, FrameGcra, frame};
    use wire::Time;

    proptest! {
        #[test]
        fn frames_are_eligible_as_both_definitions_of_the_algorithm_say(
            increment in 1u64..100_000, limit in 0u64..500_000,
            cells in proptest::collection::vec((0u64..60_000, any::<bool>(), 0u8..4), 1..400),
        ) {
            let (t, l) = (Fine::from_nanos(increment), Fine::from_nanos(limit));
            let (mut scheduling, mut bucket) = (FrameGcra::new(t, l), FrameBucket::new(t, l));
            // Whatever the peak rate and the size; one priority in a frame.
            let any = Bucket::new(Fine::from_nanos(0), Fine::from_nanos(1 << 40));
            let police = FramePolice::new(any, t, l, 4095, FrameExcess::Tag);
            let (mut now, mut times, mut priority) = (0, [0; 2], None);
            for (gap, clp, end) in cells {
                now += gap;
                let (clp, end) = (*priority.get_or_insert(clp), end == 0);
                priority = priority.filter(|_| !end);
                let verdict = police.arrive(&mut times, FrameCell { clp, end: Some(end) }, ticks(Time::from_nanos(now)));
                let eligible = scheduling.arrive(frame::FrameCell { clp, end }, Time::from_nanos(now));
                prop_assert_eq!(eligible, bucket.arrive(frame::FrameCell { clp, end }, Time::from_nanos(now)));
                prop_assert_eq!(verdict == Verdict::Tagged, !eligible && !clp);
                prop_assert!(verdict != Verdict::Discarded);
            }
        }
    }

    #[test]
    fn a_frame_that_is_too_long_or_changes_its_priority_keeps_its_head_and_its_last_cell() {
        let any = Bucket::new(Fine::from_nanos(0), Fine::from_nanos(1 << 40));
        let police = FramePolice::new(any, Fine::from_nanos(1), Fine::from_nanos(1 << 20), 3, FrameExcess::Keep);
        let mut times = [0; 2];
        let mut run = |cells: &[(bool, bool)]| -> Vec<bool> {
            let arrive = |(clp, end): &(bool, bool)| {
                police.arrive(&mut times, FrameCell { clp: *clp, end: Some(*end) }, 7) != Verdict::Discarded
            };
            cells.iter().map(arrive).collect()
        };
        let long = [(false, false); 5].into_iter().chain([(false, true)]).collect::<Vec<_>>();
        assert_eq!(run(&long), [true, true, true, false, false, true]);
        assert_eq!(run(&[(true, false), (false, false), (true, false), (true, true)]), [true, false, false, true]);
        assert_eq!(run(&[(false, false), (false, true)]), [true, true]);
    }

    #[test]
    fn a_circuit_that_was_idle_for_hours_is_eligible() {
        let any = Bucket::new(Fine::from_nanos(0), Fine::from_nanos(1 << 40));
        let police = FramePolice::new(any, Fine::from_nanos(1000), Fine::from_nanos(5000), 9, FrameExcess::Discard);
        let mut times = [0; 2];
        for minutes in 1..2000u64 {
            let now = ticks(Time::from_millis(minutes * 61_003));
            assert_eq!(police.arrive(&mut times, FrameCell { clp: false, end: Some(true) }, now), Verdict::Conforms);
        }
    }
}
