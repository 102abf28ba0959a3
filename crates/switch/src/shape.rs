//! Shaping: when a circuit's next cell is due at its output, by the arithmetic of the GCRA (I.371) run the other way.

use crate::police::{Bucket, Ticks};
use traffic::{Contract, Fine};

/// What a schedule means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShapeKind {
    /// Cells leave when they are due and not before: the output conforms to the contract.
    Paced,
    /// Cells that are due leave before those of circuits without a guarantee; others take turns with these.
    Share,
}

/// How a circuit is shaped where it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The rate at which cells are due. The limit says how far a circuit that was kept waiting may fall behind its
    /// schedule and still catch up.
    pub peak: Bucket,
    /// The sustainable rate with its burst tolerance, as for policing.
    pub sustainable: Option<Bucket>,
    /// What the schedule means.
    pub kind: ShapeKind,
}

impl Shape {
    /// Whether cells leave only when they are due.
    #[inline]
    pub(crate) fn is_paced(&self) -> bool {
        self.kind == ShapeKind::Paced
    }

    /// The shape of a contract. CBR and VBR in real time: paced by the contract. VBR not in real time: a share of the
    /// sustainable rate. Others: a share of the minimum rate, if there is one. `catch_up` bounds what a circuit may
    /// fall behind.
    pub fn of(contract: &Contract, catch_up: Fine) -> Option<Self> {
        use traffic::Category::{Abr, Cbr, Gfr, NrtVbr, RtVbr, Ubr};
        let (rate, kind) = match contract.category {
            Cbr | RtVbr => (contract.pcr?, ShapeKind::Paced),
            NrtVbr => (contract.scr?, ShapeKind::Share),
            Abr | Gfr | Ubr => (contract.mcr?, ShapeKind::Share),
        };
        let sustainable = (kind == ShapeKind::Paced)
            .then(|| Some(Bucket::new(Fine::interval(contract.scr?), contract.burst_tolerance()?)))
            .flatten();
        Some(Shape { peak: Bucket::new(Fine::interval(rate), catch_up), sustainable, kind })
    }

    /// When the next cell is due, as a distance from `now` in ticks: at most `behind` before it. `times` are the
    /// theoretical times of both rates.
    pub(crate) fn due(&self, times: &[Ticks; 2], now: Ticks, behind: Ticks) -> i64 {
        let floor = -(behind.min(1 << 61) as i64);
        let mut due = ahead(times[0], now, self.peak.increment()).unwrap_or(floor);
        if let Some(sustainable) = self.sustainable {
            let limit = sustainable.limit() as i64;
            let by_burst = ahead(times[1], now, sustainable.limit().saturating_add(sustainable.increment()));
            due = due.max(by_burst.map_or(floor, |at| at - limit));
        }
        due.max(floor)
    }

    /// A cell that was due at `at` has left, at `now` or before.
    pub(crate) fn book(&self, times: &mut [Ticks; 2], at: Ticks, now: Ticks) {
        times[0] = at.wrapping_add(self.peak.increment());
        if let Some(sustainable) = self.sustainable {
            let most = sustainable.limit().saturating_add(sustainable.increment());
            let offset = at.wrapping_sub(now) as i64;
            let from = ahead(times[1], now, most).map_or(offset, |known| known.max(offset));
            times[1] = now.wrapping_add_signed(from).wrapping_add(sustainable.increment());
        }
    }
}

/// How far `theoretical` lies ahead of `now`, negative if behind; `None` if it seems to lie further ahead than `most`:
/// it is an old time that the clock has overtaken.
fn ahead(theoretical: Ticks, now: Ticks, most: Ticks) -> Option<i64> {
    let ahead = theoretical.wrapping_sub(now) as i64;
    (ahead <= most.min(1 << 62) as i64).then_some(ahead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::police::ticks;
    use proptest::prelude::*;
    use traffic::Gcra;
    use wire::Time;

    proptest! {
        #[test]
        fn cells_that_leave_when_they_are_due_conform_and_each_earlier_moment_would_not(
            peak in 1u64..5_000, sustainable in (0u64..20_000, 0u64..200_000), waits in proptest::collection::vec(0u64..40_000, 1..200),
        ) {
            let fine = Fine::from_nanos;
            let rate = Bucket::new(fine(peak + sustainable.0), fine(sustainable.1));
            let shape = Shape {
                peak: Bucket::new(fine(peak), fine(0)),
                sustainable: Some(rate),
                kind: ShapeKind::Paced,
            };
            let mut tests = [
                Gcra::new(fine(peak), fine(0)),
                Gcra::new(fine(peak + sustainable.0), fine(sustainable.1)),
            ];
            let (mut now, mut times) = (1_000_000, [0; 2]);
            for wait in waits {
                now += wait;
                let at = ticks(Time::from_nanos(now));
                let due = shape.due(&times, at, 0);
                prop_assert!(due >= 0 && due % (1 << 16) == 0);
                let leaves = now + (due >> 16) as u64;
                if due > 0 {
                    let earlier = Time::from_nanos(leaves - 1);
                    prop_assert!(tests.iter().any(|test| !test.would_conform(earlier)));
                }
                prop_assert!(tests.iter_mut().all(|test| test.arrive(Time::from_nanos(leaves))));
                now = leaves;
                shape.book(&mut times, ticks(Time::from_nanos(leaves)), ticks(Time::from_nanos(now)));
            }
        }
    }

    #[test]
    fn a_circuit_that_was_idle_for_days_is_due_at_once() {
        let shape = Shape {
            peak: Bucket::new(Fine::from_nanos(1000), Fine::from_nanos(0)),
            sustainable: Some(Bucket::new(Fine::from_nanos(3000), Fine::from_nanos(9000))),
            kind: ShapeKind::Paced,
        };
        for hours in 1..200 {
            let now = ticks(Time::from_millis(hours * 3_600_000));
            assert_eq!(shape.due(&[ticks(Time::from_micros(7)); 2], now, 0), 0);
        }
    }
}
