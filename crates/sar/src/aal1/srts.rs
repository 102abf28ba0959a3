//! Synchronous residual time stamp (I.363.1 section 2.5.2.2.1): the source's clock, told against the network's.
//!
//! Both ends have the network's clock, divided to f_nx so that 1 <= f_nx / f_s < 2 for a source of f_s bits per second.
//! In each period of 3008 source bits, which are the 8 x 47 octets of a cycle of cells, about 3008 f_nx / f_s ticks of
//! f_nx pass. The sender counts them and sends the lowest four bits of its counter: the whole number is never in doubt
//! while the two clocks differ by less than seven ticks a period.

/// Bits of the source in a period: a cycle of eight cells without pointers.
pub const PERIOD_BITS: u32 = 3008;

/// The four bits for a counter of network ticks, read at the end of a period.
pub const fn residual(ticks: u64) -> u8 {
    (ticks & 15) as u8
}

/// Ticks of f_nx that passed while so many periods of the source did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Periods of [`PERIOD_BITS`].
    pub periods: u32,
    /// Ticks.
    pub ticks: u64,
}

/// The receiving side: from residuals to ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    nominal_ticks: u64,
    /// The last residual, and how many periods have gone by since.
    last: Option<(u8, u32)>,
}

/// After so many periods without a residual, four bits say nothing any more: with 200 parts in a million (the tolerance
/// that I.363.1 assumes) a period is off by up to 1.2 ticks, and seven can be told.
const MAX_PERIODS: u32 = 5;

impl Recovery {
    /// For a source of `source_hz` and a derived network clock of `network_hz`; `None` unless the latter is at least
    /// the former and below its double.
    pub fn new(source_hz: u64, network_hz: u64) -> Option<Self> {
        (source_hz > 0 && network_hz / source_hz == 1).then(|| Recovery {
            nominal_ticks: (u64::from(PERIOD_BITS) * network_hz + source_hz / 2) / source_hz,
            last: None,
        })
    }

    /// Takes what a cycle of cells carried (`None` if some of it is lost). Gives the ticks since the residual before,
    /// if both can be compared.
    pub fn handle_residual(&mut self, residual: Option<u8>) -> Option<Measure> {
        let before = self.last.map(|(last, periods)| (last, periods + 1));
        let Some(residual) = residual.map(|residual| residual & 15) else {
            self.last = before.filter(|(_, periods)| *periods < MAX_PERIODS);
            return None;
        };
        self.last = Some((residual, 0));
        let (last, periods) = before?;
        let nominal = self.nominal_ticks * u64::from(periods);
        // How far beyond the nominal, from -8 to 7.
        let beyond = u64::from(residual).wrapping_sub(u64::from(last)).wrapping_sub(nominal) & 15;
        let ticks = if beyond < 8 { nominal + beyond } else { nominal - (16 - beyond) };
        Some(Measure { periods, ticks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn clocks_that_no_residual_can_tell_are_refused() {
        assert!(Recovery::new(2_048_000, 2_430_000).is_some());
        assert_eq!(Recovery::new(2_048_000, 4_860_000), None);
        assert_eq!(Recovery::new(2_430_000, 2_048_000), None);
        assert_eq!(Recovery::new(0, 1), None);
    }

    proptest! {
        #[test]
        fn every_tick_of_a_clock_within_its_tolerance_is_recovered(
            e1: bool, parts_in_a_million in -200i64..=200, present in proptest::collection::vec(0u8..4, 2..200)) {
            let source_hz = if e1 { 2_048_000 } else { 1_544_000 };
            let mut recovery = Recovery::new(source_hz, 2_430_000).unwrap();
            // Ticks after n periods of a source that is off, in exact arithmetic.
            let at = |n: u64| {
                let hz = i128::from(source_hz) * i128::from(1_000_000 + parts_in_a_million);
                (i128::from(n) * i128::from(PERIOD_BITS) * 2_430_000 * 1_000_000 / hz) as u64
            };
            for (n, present) in present.into_iter().enumerate() {
                let n = n as u64 + 1;
                if let Some(Measure { periods, ticks }) = recovery.handle_residual((present > 0).then(|| residual(at(n)))) {
                    prop_assert_eq!(ticks, at(n) - at(n - u64::from(periods)));
                }
            }
        }
    }
}
