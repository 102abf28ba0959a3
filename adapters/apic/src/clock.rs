//! The chip's clock: one slot for each cell time of a link, in fractions of a nanosecond, so that no rate drifts.

use wire::Time;

/// Binary digits after the nanosecond: nine years fit.
pub(super) const FRACTION: u32 = 6;
/// Bits of a cell on a link.
const CELL_BITS: f64 = 424.0;

/// When slots begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    next: u64,
    slot: u64,
}

impl Clock {
    /// Slots of a link of so many bits a second.
    pub(super) fn new(bits_per_s: f64) -> Self {
        let slot = CELL_BITS * 1e9 / bits_per_s * f64::from(1u32 << FRACTION);
        // As a cast of a float: what is not a number or too small is one fraction.
        Clock { next: 0, slot: (slot.round() as u64).max(1) }
    }

    /// When the next slot begins, as whole nanoseconds that are not before it.
    pub(super) fn next(&self) -> Time {
        time(self.next)
    }

    /// After a pause: the next slot begins no earlier than `now`.
    pub(super) fn wake(&mut self, now: Time) {
        if self.next() < now {
            self.next = now.as_nanos() << FRACTION;
        }
    }

    /// When the next slot begins, exactly.
    pub(super) fn fractions(&self) -> u64 {
        self.next
    }

    /// A slot's length, exactly.
    pub(super) fn slot(&self) -> u64 {
        self.slot
    }

    /// One slot has begun.
    pub(super) fn advance(&mut self) {
        self.next += self.slot;
    }

    /// A slot's length in nanoseconds.
    pub(super) fn slot_nanos(&self) -> f64 {
        self.slot as f64 / f64::from(1u32 << FRACTION)
    }
}

/// The first whole nanosecond that is not before.
pub(super) fn time(fractions: u64) -> Time {
    Time::from_nanos(fractions.div_ceil(1 << FRACTION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_the_links_cells_and_a_pause_is_not_caught_up() {
        let mut clock = Clock::new(1.2e9);
        for _ in 0..2_830_188 {
            clock.advance();
        }
        assert!((clock.next().as_nanos() as f64 - 1e9).abs() < 20_000.0, "{}", clock.next());
        clock.wake(Time::from_millis(500));
        assert!(clock.next() > Time::from_millis(999));
        clock.wake(Time::from_millis(5000));
        assert_eq!(clock.next(), Time::from_millis(5000));
    }
}
