//! When the cells of a batch count as having come in, for policing.
//!
//! Whoever runs a switch hands it many cells at once, which came one after another. A link that knows when each did
//! stamps them; of others the time since the last batch is shared out evenly.

use crate::police::{Ticks, Verdict, ticks};
use std::time::Duration;
use wire::{Cell, Time};

/// How the cells of a port are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arrival {
    /// All cells of a batch come at the moment at which it is handed over.
    #[default]
    Together,
    /// Each cell comes at its own time ([`Cell::at`]), if it has one that is not later than the batch and at most a
    /// second before it.
    Stamped,
    /// Evenly spaced since the batch before, or over so long before this one, whichever is shorter.
    Spaced(Duration),
}

/// The times of one batch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Batch {
    now: Ticks,
    stamped: bool,
    /// Distance of spaced cells, and where the batch begins in memory and how many cells it has.
    step: Ticks,
    begin: usize,
    cells: usize,
    /// The cells are those of one frame of a link that carries frames.
    pub(crate) frame: Option<FrameSoFar>,
}

/// What is known of a frame whose cells are tested.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FrameSoFar {
    /// What was said of its first cell.
    pub(crate) first: Option<Verdict>,
}

/// A stamp older than this is none.
const OLDEST_STAMP_NANOS: u64 = 1_000_000_000;

impl Batch {
    pub(crate) fn new(arrival: Arrival, cells: &[Cell], last: Time, now: Time) -> Self {
        let together = Batch { now: ticks(now), ..Batch::default() };
        match arrival {
            Arrival::Together => together,
            Arrival::Stamped => Batch { stamped: true, ..together },
            Arrival::Spaced(most) => {
                let since = now.as_nanos().saturating_sub(last.as_nanos());
                let span = since.min(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX)).min(OLDEST_STAMP_NANOS);
                let step = (span << 16) / (cells.len() as u64).max(1);
                Batch { step, begin: cells.as_ptr().addr(), cells: cells.len(), ..together }
            }
        }
    }

    /// When it was handed over.
    pub(crate) fn now(&self) -> Ticks {
        self.now
    }

    /// The distance of cells that stand side by side in the batch, if it is the same for all of these.
    #[inline]
    pub(crate) fn step_of(&self, cells: &[Cell]) -> Option<Ticks> {
        if self.stamped {
            // Of an unlimited link's, those of one batch all have its moment.
            let at = cells.first()?.at();
            let same = cells.chunks(16).all(|cells| cells.iter().fold(true, |same, cell| same & (cell.at() == at)));
            return same.then_some(0);
        }
        let begin = cells.as_ptr().addr().wrapping_sub(self.begin) / size_of::<Cell>();
        (self.step == 0 || begin.saturating_add(cells.len()) <= self.cells).then_some(self.step)
    }

    /// When a cell of the batch came in.
    #[inline]
    pub(crate) fn time_of(&self, cell: &Cell) -> Ticks {
        if self.stamped {
            let (at, now) = (cell.at().as_nanos() << 16, self.now);
            return if at != 0 && now.wrapping_sub(at) <= OLDEST_STAMP_NANOS << 16 { at } else { now };
        }
        if self.step == 0 {
            return self.now;
        }
        // Cells that are no part of the batch, such as those of a gateway, count as its last.
        let place = std::ptr::from_ref(cell).addr().wrapping_sub(self.begin) / size_of::<Cell>();
        self.now.wrapping_sub(self.step * self.cells.saturating_sub(place.saturating_add(1)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_a_batch_are_spaced_over_the_time_since_the_last_one() {
        let cells = [Cell::default(); 4];
        let (last, now) = (Time::from_nanos(1000), Time::from_nanos(1400));
        let times = |arrival| {
            let batch = Batch::new(arrival, &cells, last, now);
            cells.each_ref().map(|cell| batch.time_of(cell) >> 16)
        };
        assert_eq!(times(Arrival::Together), [1400; 4]);
        assert_eq!(times(Arrival::Spaced(Duration::from_secs(1))), [1100, 1200, 1300, 1400]);
        assert_eq!(times(Arrival::Spaced(Duration::from_nanos(40))), [1370, 1380, 1390, 1400]);
    }

    #[test]
    fn cells_side_by_side_have_one_distance_unless_their_stamps_differ_or_they_are_of_another_batch() {
        let (mut cells, others) = ([Cell::default(); 4], [Cell::default(); 4]);
        let (last, now) = (Time::from_nanos(1000), Time::from_nanos(1400));
        let step = |arrival, cells: &[Cell], of: &[Cell]| Batch::new(arrival, cells, last, now).step_of(of);
        let spaced = Arrival::Spaced(Duration::from_secs(1));
        assert_eq!(step(spaced, &cells, &cells[1..]), Some(100 << 16));
        assert_eq!(step(spaced, &cells, &others), None);
        assert_eq!(step(Arrival::Together, &cells, &others), Some(0));
        assert_eq!(step(Arrival::Stamped, &cells, &cells), Some(0));
        cells[3].set_at(Time::from_nanos(1001));
        assert_eq!(step(Arrival::Stamped, &cells, &cells), None);
        assert_eq!(step(Arrival::Stamped, &cells, &cells[..3]), Some(0));
    }

    #[test]
    fn a_stamp_counts_unless_it_is_later_than_the_batch_or_long_before_it() {
        let mut cells = [Cell::default(); 3];
        let now = Time::from_millis(5000);
        cells[0].set_at(Time::from_millis(4990));
        cells[1].set_at(Time::from_millis(5001));
        cells[2].set_at(Time::from_millis(1));
        let batch = Batch::new(Arrival::Stamped, &cells, Time::ZERO, now);
        assert_eq!(cells.each_ref().map(|cell| (batch.time_of(cell) >> 16) / 1_000_000), [4990, 5000, 5000]);
        // What came by a link without a rate has no stamp.
        let early = Batch::new(Arrival::Stamped, &cells, Time::ZERO, Time::from_millis(7));
        assert_eq!(early.time_of(&Cell::default()) >> 16, 7_000_000);
    }
}
