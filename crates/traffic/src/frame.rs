//! The guaranteed frame rate (GFR, TM 4.1 section 4.5.5): which frames conform, and which of them are eligible for the
//! guarantee, by the frame-based generic cell rate algorithm F-GCRA(T, L).
//!
//! T = 1/MCR and L = BT + CDVT with BT = (MBS - 1)(1/MCR - 1/PCR). Only a frame's first cell is tested; the others of
//! an eligible frame always pass and move the schedule, those of any other frame touch nothing. Two forms that decide
//! alike (a property test says so): [`FrameGcra`] schedules virtually, [`FrameBucket`] is a leaky bucket and its
//! witness.

use crate::clock::Fine;
use crate::gcra::Gcra;
use wire::Time;

/// A cell of an AAL5 PDU, as a test by frames sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameCell {
    /// Its cell loss priority bit.
    pub clp: bool,
    /// It is the last of its frame.
    pub end: bool,
}

/// F-GCRA(T, L) by virtual scheduling.
#[derive(Debug, Clone, Copy)]
pub struct FrameGcra {
    increment: Fine,
    limit: Fine,
    theoretical_arrival: Fine,
    inside: bool,
    eligible: bool,
}

impl FrameGcra {
    /// `increment` T: the interval of the guaranteed rate; `limit` L: how early a frame may begin.
    pub fn new(increment: Fine, limit: Fine) -> Self {
        FrameGcra { increment, limit, theoretical_arrival: Fine::ZERO, inside: false, eligible: false }
    }

    /// Whether the frame that this cell belongs to is eligible for the guarantee.
    pub fn arrive(&mut self, cell: FrameCell, now: Time) -> bool {
        let now = Fine::from(now);
        if !self.inside {
            self.eligible = !cell.clp && now.plus(self.limit) >= self.theoretical_arrival;
        }
        self.inside = !cell.end;
        if self.eligible {
            self.theoretical_arrival = self.theoretical_arrival.max(now).plus(self.increment);
        }
        self.eligible
    }
}

/// F-GCRA(T, L) as a leaky bucket that drains continuously.
#[derive(Debug, Clone, Copy)]
pub struct FrameBucket {
    increment: Fine,
    limit: Fine,
    content: Fine,
    last: Fine,
    inside: bool,
    eligible: bool,
}

impl FrameBucket {
    /// `increment` T and `limit` L as for [`FrameGcra::new`].
    pub fn new(increment: Fine, limit: Fine) -> Self {
        FrameBucket { increment, limit, content: Fine::ZERO, last: Fine::ZERO, inside: false, eligible: false }
    }

    /// As [`FrameGcra::arrive`]. Times must not go backwards.
    pub fn arrive(&mut self, cell: FrameCell, now: Time) -> bool {
        let now = Fine::from(now);
        let content = self.content.minus(now.minus(self.last));
        if !self.inside {
            self.eligible = !cell.clp && content <= self.limit;
        }
        self.inside = !cell.end;
        if self.eligible {
            (self.content, self.last) = (content.plus(self.increment), now);
        }
        self.eligible
    }
}

/// Why a frame does not conform; the first reason that was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameFault {
    /// A cell came faster than the peak rate.
    Peak,
    /// A cell's loss priority is not that of the frame's first.
    Priority,
    /// It has more cells than the maximum frame size.
    Size,
}

/// Whether frames conform: each cell to GCRA(1/PCR, CDVT), each with the first one's loss priority, and no more of them
/// than the maximum frame size (MFS).
#[derive(Debug, Clone, Copy)]
pub struct FrameConformance {
    peak: Gcra,
    max_cells: u32,
    cells: u32,
    clp: bool,
    fault: Option<FrameFault>,
}

impl FrameConformance {
    /// A test of the peak rate's bucket and frames of at most `max_cells` cells.
    pub fn new(peak: Gcra, max_cells: u32) -> Self {
        FrameConformance { peak, max_cells, cells: 0, clp: false, fault: None }
    }

    /// What is wrong with this cell's frame so far. A cell beyond the peak rate moves no schedule.
    pub fn arrive(&mut self, cell: FrameCell, now: Time) -> Option<FrameFault> {
        if self.cells == 0 {
            (self.clp, self.fault) = (cell.clp, None);
        }
        self.cells = self.cells.saturating_add(1);
        let faults = [
            (!self.peak.arrive(now), FrameFault::Peak),
            (cell.clp != self.clp, FrameFault::Priority),
            (self.cells > self.max_cells, FrameFault::Size),
        ];
        self.fault = self.fault.or(faults.into_iter().find(|(is, _)| *is).map(|(_, fault)| fault));
        if cell.end {
            self.cells = 0;
        }
        self.fault
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Contract;
    use proptest::prelude::*;
    use wire::CellRate;

    fn frame(cells: u32, clp: bool) -> impl Iterator<Item = FrameCell> {
        (1..=cells).map(move |n| FrameCell { clp, end: n == cells })
    }

    #[test]
    fn eligible_frames_have_the_minimum_rate_whatever_is_offered() {
        // Frames of 10 cells at the peak rate, back to back, of which a quarter is guaranteed.
        let contract = Contract { pcr: CellRate::from_cells_per_s(100_000.0), ..Contract::default() };
        let mcr = CellRate::from_cells_per_s(25_000.0).unwrap();
        let mut test = FrameGcra::of_contract(&contract, mcr, 20).unwrap();
        let (mut micros, mut eligible) = (0, 0);
        for _ in 0..4000 {
            for cell in frame(10, false) {
                eligible += u64::from(test.arrive(cell, Time::from_micros(micros)));
                micros += 10;
            }
        }
        // A frame that begins in time is eligible as a whole, so that the rate is exceeded by a burst and a frame at
        // most.
        let guaranteed = micros / 40;
        assert!((guaranteed..=guaranteed + 30).contains(&eligible), "{eligible} of {guaranteed}");
        assert_eq!(eligible % 10, 0, "a part of a frame was eligible");
    }

    #[test]
    fn frames_of_low_priority_are_never_eligible_and_cost_the_others_nothing() {
        let (mut alone, mut beside) = (FrameGcra::new(Fine::from_nanos(1000), Fine::ZERO), None);
        let other = beside.get_or_insert(alone);
        for n in 0..1000u64 {
            assert!(frame(3, true).all(|cell| !other.arrive(cell, Time::from_nanos(n * 700))));
            for cell in frame(2, false) {
                let now = Time::from_nanos(n * 700 + 1);
                assert_eq!(alone.arrive(cell, now), other.arrive(cell, now));
            }
        }
    }

    #[test]
    fn a_frame_conforms_by_rate_priority_and_size() {
        let new = || FrameConformance::new(Gcra::new(Fine::from_nanos(1000), Fine::ZERO), 3);
        let run = |test: &mut FrameConformance, cells: &[(u64, bool)]| {
            let last = cells.len() - 1;
            let arrive = |(n, (at, clp)): (usize, &(u64, bool))| {
                test.arrive(FrameCell { clp: *clp, end: n == last }, Time::from_micros(*at))
            };
            cells.iter().enumerate().map(arrive).last().flatten()
        };
        assert_eq!(run(&mut new(), &[(1, false), (2, false), (3, false)]), None);
        assert_eq!(run(&mut new(), &[(1, true), (2, true)]), None);
        assert_eq!(run(&mut new(), &[(1, false), (1, false)]), Some(FrameFault::Peak));
        assert_eq!(run(&mut new(), &[(1, false), (2, true)]), Some(FrameFault::Priority));
        assert_eq!(run(&mut new(), &[(1, false), (2, false), (3, false), (4, false)]), Some(FrameFault::Size));
        // The next frame is judged by itself.
        let mut test = new();
        run(&mut test, &[(1, false), (2, true)]);
        assert_eq!(run(&mut test, &[(3, true), (4, true)]), None);
    }

    proptest! {
        #[test]
        fn both_definitions_decide_alike_and_frames_are_eligible_as_a_whole(
            increment in 1u64..100_000, limit in 0u64..500_000,
            cells in proptest::collection::vec((0u64..60_000, any::<bool>(), 0u8..4), 1..400),
        ) {
            let (t, l) = (Fine::from_nanos(increment), Fine::from_nanos(limit));
            let (mut scheduling, mut bucket) = (FrameGcra::new(t, l), FrameBucket::new(t, l));
            let (mut now, mut frame) = (0, None);
            for (gap, clp, end) in cells {
                now += gap;
                let (cell, at) = (FrameCell { clp, end: end == 0 }, Time::from_nanos(now));
                let eligible = scheduling.arrive(cell, at);
                prop_assert_eq!(eligible, bucket.arrive(cell, at));
                prop_assert_eq!(*frame.get_or_insert(eligible), eligible);
                frame = frame.filter(|_| !cell.end);
            }
        }
    }
}
