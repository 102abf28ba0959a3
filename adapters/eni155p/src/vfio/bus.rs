//! The time that DMA takes on the card's bus: PCI of 32 bits and 33 MHz, four octets each 30 ns.
//!
//! So what a guest asks for by one write to a register takes the bus's time, and hardly any of the processor's. A line at
//! OC-3c in both directions needs a quarter of it.

use std::time::Duration;
use wire::Time;

const PICOS_PER_OCTET: u64 = 7500;
/// A thread that is late makes up for so much: a PDU of the longest ring moves at once on a bus that was free before.
const LATE: Duration = Duration::from_millis(1);

/// See the module's head.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bus {
    free: Time,
}

impl Bus {
    /// When it is free.
    pub(super) fn free(&self) -> Time {
        self.free
    }

    /// Something takes the time of so many octets.
    pub(super) fn take(&mut self, octets: usize, now: Time) {
        let earliest = Time::from_nanos(now.as_nanos().saturating_sub(LATE.as_nanos() as u64));
        let nanos = (octets as u64).saturating_mul(PICOS_PER_OCTET) / 1000;
        self.free = self.free.max(earliest) + Duration::from_nanos(nanos);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_moves_as_the_bus_moves_and_what_a_late_thread_makes_up_for() {
        for round in [Duration::from_micros(10), Duration::from_micros(300), Duration::from_millis(5)] {
            let (mut bus, mut moved, mut now) = (Bus::default(), 0, Time::from_millis(1000));
            while now < Time::from_millis(1100) {
                while bus.free() <= now {
                    bus.take(65_536, now);
                    moved += 65_536;
                }
                now += round;
            }
            // A tenth of a second, by rounds that are not further apart than what is made up for.
            let least = if round > LATE { 0 } else { 13_000_000 };
            assert!((least..13_333_334 + 133_334 + 65_536).contains(&moved), "{moved} by rounds of {round:?}");
        }
    }
}
