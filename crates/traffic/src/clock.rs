//! Moments between nanoseconds, and the clock that says when a line can take its next cell.

use wire::{CellRate, Time};

/// A moment or a length of time in units of 2^-32 nanosecond: a rate's cell interval is kept to within 2^-33 ns, so
/// that 10^9 cells later the error is below a nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Fine(u128);

impl Fine {
    /// Nothing, or the epoch.
    pub const ZERO: Fine = Fine(0);
    /// One nanosecond.
    pub const NANOSECOND: Fine = Fine(1 << 32);

    /// `nanos` whole nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Fine((nanos as u128) << 32)
    }

    /// The interval between two cells at `rate`, to the nearest 2^-32 ns.
    pub fn interval(rate: CellRate) -> Self {
        // A rate below 10^-9 cells/s or so saturates: centuries between two cells.
        let units = (rate.interval_nanos() * 4_294_967_296.0).round();
        Fine((units as u128).max(1))
    }

    /// The first whole nanosecond that is not before this moment.
    pub const fn ceil(self) -> Time {
        let nanos = (self.0 + 0xffff_ffff) >> 32;
        Time::from_nanos(if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 })
    }

    /// In units of 2^-32 nanosecond.
    pub const fn units(self) -> u128 {
        self.0
    }

    /// The sum; at most about 2^95 ns, beyond any moment.
    #[must_use]
    pub const fn plus(self, other: Fine) -> Fine {
        Fine(self.0.saturating_add(other.0))
    }

    /// The difference, or zero.
    #[must_use]
    pub const fn minus(self, other: Fine) -> Fine {
        Fine(self.0.saturating_sub(other.0))
    }

    /// `self` times `n`.
    #[must_use]
    pub const fn times(self, n: u64) -> Fine {
        Fine(self.0.saturating_mul(n as u128))
    }

    /// How often `other` fits into `self`.
    pub const fn divided_by(self, other: Fine) -> u128 {
        let (all, one) = (self.0, if other.0 == 0 { 1 } else { other.0 });
        // Up to four seconds, by one instruction.
        if all <= u64::MAX as u128 && one <= u64::MAX as u128 { (all as u64 / one as u64) as u128 } else { all / one }
    }
}

impl From<Time> for Fine {
    fn from(t: Time) -> Fine {
        Fine::from_nanos(t.as_nanos())
    }
}

impl From<core::time::Duration> for Fine {
    fn from(d: core::time::Duration) -> Fine {
        Fine::from_nanos(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A line that sends one cell each interval: when the cell that is handed to it now will have left.
#[derive(Debug, Clone, Copy)]
pub struct CellClock {
    interval: Fine,
    free_at: Fine,
}

impl CellClock {
    /// A line of `rate`, free from the epoch on.
    pub fn new(rate: CellRate) -> Self {
        CellClock { interval: Fine::interval(rate), free_at: Fine::ZERO }
    }

    /// Takes the time of `cells` cells handed over at `now`, and returns when the last of them has left.
    pub fn send(&mut self, cells: u64, now: Time) -> Time {
        // Within a nanosecond of the last cell's end the line counts as busy without a gap: `now` is a rounded moment.
        let now = Fine::from(now);
        if now >= self.free_at.plus(Fine::NANOSECOND) {
            self.free_at = now;
        }
        self.free_at = self.free_at.plus(self.interval.times(cells));
        self.free_at.ceil()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_does_not_drift_over_a_thousand_million_cells() {
        let mut line = CellClock::new(CellRate::OC3C);
        let mut left = Time::ZERO;
        for _ in 0..1000 {
            left = line.send(1_000_000, left);
        }
        let exact = 1e9 / CellRate::OC3C.cells_per_s() * 1e9;
        assert!((left.as_nanos() as f64 - exact).abs() <= 2.0, "{left} {exact}");
    }

    #[test]
    fn cells_handed_over_one_by_one_leave_when_a_batch_would() {
        let (mut one, mut batch) = (CellClock::new(CellRate::OC3C), CellClock::new(CellRate::OC3C));
        let mut left = Time::ZERO;
        for _ in 0..10_000 {
            left = one.send(1, left);
        }
        assert_eq!(left, batch.send(10_000, Time::ZERO));
    }

    #[test]
    fn an_idle_line_saves_up_nothing() {
        let mut line = CellClock::new(CellRate::from_cells_per_s(1000.0).unwrap());
        assert_eq!(line.send(1, Time::ZERO), Time::from_millis(1));
        assert_eq!(line.send(1, Time::from_millis(10)), Time::from_millis(11));
    }
}
