//! A pacer: when a circuit's next cell may leave, so that its contract holds to the cell.
//!
//! Cells leave at most at the peak rate and, where there is one, within the sustainable rate and burst. A pacer that is
//! asked late (a live thread wakes when it can) catches up by no more than the tolerance it was made with, so that
//! lateness costs no rate; one that is asked in time, as in virtual time, spaces cells exactly.

use crate::clock::Fine;
use crate::contract::Contract;
use wire::{CellRate, Time};

/// One rate with the lateness it may catch up.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    interval: Fine,
    tolerance: Fine,
    next: Fine,
}

impl Schedule {
    fn new(rate: CellRate, tolerance: Fine) -> Self {
        // `now` is rounded up to whole nanoseconds by whoever waits for `next_time`: less than that is not lateness.
        Schedule { interval: Fine::interval(rate), tolerance: tolerance.max(Fine::NANOSECOND), next: Fine::ZERO }
    }

    /// The earliest moment the next cell can be booked for.
    fn start(&self, now: Fine) -> Fine {
        self.next.max(now.minus(self.tolerance))
    }

    fn allowed(&self, now: Fine, most: u64) -> u64 {
        let start = self.start(now);
        if start > now {
            return 0;
        }
        u64::try_from(now.minus(start).divided_by(self.interval)).unwrap_or(u64::MAX).saturating_add(1).min(most)
    }

    fn sent(&mut self, cells: u64, now: Fine) {
        self.next = self.start(now).plus(self.interval.times(cells));
    }
}

/// See the module's head.
#[derive(Debug, Clone, Copy)]
pub struct Pacer {
    peak: Schedule,
    sustainable: Option<Schedule>,
}

impl Pacer {
    /// One cell each interval of `rate`, with as much catching up as `tolerance` holds.
    pub fn new(rate: CellRate, tolerance: core::time::Duration) -> Self {
        Pacer { peak: Schedule::new(rate, tolerance.into()), sustainable: None }
    }

    /// The pacer of a contract: peak rate with its CDVT; of VBR also sustainable rate with its burst. `None` if nothing
    /// bounds the circuit.
    pub fn of_contract(contract: &Contract) -> Option<Self> {
        let cdvt = Fine::from(contract.cdvt);
        let mut pacer = Pacer { peak: Schedule::new(contract.pcr?, cdvt), sustainable: None };
        if let (Some(scr), Some(tolerance)) = (contract.scr, contract.burst_tolerance()) {
            pacer.sustainable = Some(Schedule::new(scr, tolerance.plus(cdvt)));
        }
        Some(pacer)
    }

    /// How many cells may leave at `now`, `most` at most.
    pub fn allowed(&self, now: Time, most: usize) -> usize {
        let (fine, most) = (Fine::from(now), most as u64);
        let by_peak = self.peak.allowed(fine, most);
        let both = self.sustainable.map_or(by_peak, |s| s.allowed(fine, by_peak));
        // Not beyond `most`, which was a usize.
        both as usize
    }

    /// `cells` have left at `now`.
    pub fn sent(&mut self, cells: usize, now: Time) {
        self.peak.sent(cells as u64, now.into());
        if let Some(sustainable) = &mut self.sustainable {
            sustainable.sent(cells as u64, now.into());
        }
    }

    /// The first moment at which a cell may leave.
    pub fn next_time(&self) -> Time {
        self.sustainable.map_or(self.peak.next, |s| s.next.max(self.peak.next)).ceil()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Category;
    use core::time::Duration;
    use proptest::prelude::*;

    #[test]
    fn a_cbr_circuits_cells_leave_at_its_rate_to_the_cell() {
        let rate = CellRate::from_payload_bits_per_s(20e6).unwrap();
        let mut pacer = Pacer::new(rate, Duration::ZERO);
        let mut now = Time::ZERO;
        for n in 0..1_000_000u64 {
            assert_eq!(pacer.allowed(now, 64), 1);
            pacer.sent(1, now);
            assert_eq!(pacer.allowed(now, 64), 0);
            now = pacer.next_time();
            let exact = (n + 1) as f64 * rate.interval_nanos();
            assert!((now.as_nanos() as f64 - exact).abs() <= 1.01, "cell {n} at {now}, not {exact}");
        }
    }

    #[test]
    fn an_idle_circuit_saves_up_no_more_than_its_tolerance() {
        let mut pacer = Pacer::new(CellRate::from_cells_per_s(1e6).unwrap(), Duration::from_micros(5));
        pacer.sent(1, Time::ZERO);
        assert_eq!(pacer.allowed(Time::from_millis(100), 1000), 6);
        let mut strict = Pacer::new(CellRate::from_cells_per_s(1e6).unwrap(), Duration::ZERO);
        strict.sent(1, Time::ZERO);
        assert_eq!(strict.allowed(Time::from_millis(100), 1000), 1);
    }

    #[test]
    fn lateness_within_the_tolerance_costs_no_rate() {
        let mut pacer = Pacer::new(CellRate::from_cells_per_s(1e6).unwrap(), Duration::from_micros(200));
        let mut sent = 0;
        for wake in 1..=1000u64 {
            let now = Time::from_micros(wake * 100);
            let n = pacer.allowed(now, 1000);
            pacer.sent(n, now);
            sent += n;
        }
        assert!((100_000..=100_201).contains(&sent), "{sent}");
    }

    proptest! {
        #[test]
        fn what_a_pacer_lets_go_conforms_to_its_contract(
            pcr in 1e3f64..1e6, share in 0.05f64..1.0, mbs in 1u32..50, cdvt in 0u64..20_000,
            gaps in proptest::collection::vec(0u64..200_000, 1..200),
        ) {
            let contract = Contract {
                category: Category::NrtVbr,
                pcr: CellRate::from_cells_per_s(pcr),
                scr: CellRate::from_cells_per_s(pcr * share),
                mbs: Some(mbs),
                // A nanosecond for rounding `now` up, as the pacer allows itself.
                cdvt: Duration::from_nanos(cdvt + 1),
                ..Contract::default()
            };
            let mut pacer = Pacer::of_contract(&contract).unwrap();
            let (mut peak, mut sustainable) = (contract.peak().unwrap(), contract.sustainable().unwrap());
            let mut now = Time::ZERO;
            for gap in gaps {
                now += Duration::from_nanos(gap);
                let n = pacer.allowed(now, 100);
                for _ in 0..n {
                    prop_assert!(peak.arrive(now));
                    prop_assert!(sustainable.arrive(now));
                }
                pacer.sent(n, now);
            }
        }
    }
}
