//! What control calls set for the Segmenter's software beside VCI and MID: "bandwidth allocations, maximum delays, and
//! pacing strategies" (Traw and Smith 1993, section 4.1.2).
//!
//! In: allocations, cells that were started. Out: when a circuit's next transfer may start. A transfer that has started
//! leaves at the line's pace: the card has no rate of its own, so a strategy is how the driver cuts and spaces transfers.

use super::PennError;
use core::time::Duration;
use wire::{CellRate, Time};

/// How a circuit with a bandwidth keeps to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pacing {
    /// A whole SDU at the line's pace; the next waits for its share.
    #[default]
    Sdus,
    /// So many cells at the line's pace, then a pause. A CPCS-PDU of AAL3/4 is not cut: the card gives its cells their
    /// segment types, and begins with each transfer.
    Cells(u32),
}

/// A circuit's behaviour as a sender.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    pub(super) bandwidth: Option<CellRate>,
    pub(super) pacing: Pacing,
    /// How long an SDU may wait for the Segmenter.
    pub(super) delay: Option<Duration>,
    /// When the next transfer may start.
    pub(super) next: Time,
}

impl Pace {
    /// Octets of the next transfer, `left` at most.
    pub(super) fn cut(&self, left: u32, unit: u32) -> u32 {
        match (self.bandwidth, self.pacing) {
            (Some(_), Pacing::Cells(cells)) => left.min(cells.max(1).saturating_mul(unit)),
            _ => left,
        }
    }

    /// A transfer of `cells` starts at `now`. What the clock was late, up to `late`, is made up for.
    pub(super) fn started(&mut self, cells: u32, now: Time, late: Duration) {
        let Some(rate) = self.bandwidth else { return };
        let least = Time::from_nanos(now.as_nanos().saturating_sub(late.as_nanos() as u64));
        let interval = Duration::from_nanos((rate.interval_nanos() * f64::from(cells)) as u64);
        self.next = self.next.max(least) + interval;
    }
}

/// Whether `asked` fits the line beside what others have.
pub(super) fn admit(
    asked: CellRate,
    others: impl Iterator<Item = CellRate>,
    line_cells_per_s: u32,
) -> Result<(), PennError> {
    let free = f64::from(line_cells_per_s) - others.map(CellRate::cells_per_s).sum::<f64>();
    if asked.cells_per_s() <= free {
        return Ok(());
    }
    Err(PennError::Bandwidth { asked: asked.cells_per_s() as u64, free: free.max(0.0) as u64 })
}
