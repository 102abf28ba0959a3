//! Call admission: a circuit is let in if what all circuits with a contract reserve fits into the link, and if the
//! cells of those in real time do not queue for longer than each hop may add to the variation of delay.

use crate::contract::Contract;
use std::time::Duration;
use wire::CellRate;

/// Cell times that a link may add to the variation of delay of circuits in real time.
pub const HOP_CELLS: f64 = 200.0;
/// How often a cell may queue for longer than [`HOP_CELLS`]: -ln of 10^-9.
const RARITY: f64 = 20.723;

/// A link that cannot have one more circuit.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Refused {
    /// The link has less left than the circuit asks for.
    #[error(
        "the link has {left_cells_per_s:.1} cells/s left, {asked_cells_per_s:.1} are asked for: {:.1} too few ({} of \
         payload, as circuits count; {} of line, as links count)",
        asked_cells_per_s - left_cells_per_s,
        in_bits(*left_cells_per_s, *asked_cells_per_s, 384.0),
        in_bits(*left_cells_per_s, *asked_cells_per_s, 424.0)
    )]
    Rate {
        /// What is left.
        left_cells_per_s: f64,
        /// What was asked for.
        asked_cells_per_s: f64,
    },
    /// Cells in real time would wait for each other too long.
    #[error(
        "{circuits} circuits in real time at {:.1} % of the link's rate would queue up to {cells:.0} cells, {HOP_CELLS} are \
         allowed: {:.0} too many",
        load * 100.0,
        cells - HOP_CELLS
    )]
    Queue {
        /// Circuits in real time, with the one that was asked for.
        circuits: u64,
        /// The sum of their peak rates as a share of the link's rate.
        load: f64,
        /// Cells that may be queued, but for one case in 10^9.
        cells: f64,
    },
}

/// What is left and what is asked for, where a cell has so many bits.
fn in_bits(left: f64, asked: f64, cell: f64) -> String {
    let [left, asked] = [left, asked].map(|rate| rate * cell / 1e6);
    format!("{left:.3} Mbit/s left and {asked:.3} asked for")
}

/// Cells of `circuits` periodic circuits that may be queued at a link of which they take the share `load`, but for one
/// case in 10^9: the nD/D/1 queue, P(Q > q) = exp(-2q(q/N + 1 - load)).
pub fn periodic_queue(circuits: u64, load: f64) -> f64 {
    let (n, slack) = (circuits as f64, (1.0 - load).max(0.0));
    (n / 2.0 * ((slack * slack + 2.0 * RARITY / n.max(1.0)).sqrt() - slack)).min(n)
}

/// One direction of a link: its rate and what is promised of it. A link without a rate admits all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Admission {
    rate: Option<CellRate>,
    promised_cells_per_s: f64,
    circuits: u64,
    /// Of those, in real time: how many, and the sum of their rates.
    real_time: (u64, f64),
}

impl Admission {
    /// A link of which nothing is promised yet.
    pub fn new(rate: Option<CellRate>) -> Self {
        Admission { rate, ..Admission::default() }
    }

    /// Promises what `contract` reserves; best effort (UBR) without a minimum always fits.
    ///
    /// # Errors
    /// [`Refused`], and nothing is promised.
    pub fn admit(&mut self, contract: &Contract) -> Result<(), Refused> {
        let Some(asked) = contract.reserved() else { return Ok(()) };
        let asked_cells_per_s = asked.cells_per_s();
        if let Some(rate) = self.rate {
            let left_cells_per_s = rate.cells_per_s() - self.promised_cells_per_s;
            // A share of 10^-9 forgives the rounding of sums.
            if asked_cells_per_s > left_cells_per_s + rate.cells_per_s() * 1e-9 {
                return Err(Refused::Rate { left_cells_per_s, asked_cells_per_s });
            }
            if contract.is_real_time() {
                let circuits = self.real_time.0 + 1;
                let load = (self.real_time.1 + asked_cells_per_s) / rate.cells_per_s();
                let cells = periodic_queue(circuits, load);
                if cells > HOP_CELLS {
                    return Err(Refused::Queue { circuits, load, cells });
                }
            }
        }
        self.promised_cells_per_s += asked_cells_per_s;
        self.circuits += 1;
        if contract.is_real_time() {
            self.real_time = (self.real_time.0 + 1, self.real_time.1 + asked_cells_per_s);
        }
        Ok(())
    }

    /// Gives the link another rate; all that is promised stays so.
    ///
    /// # Errors
    /// [`Refused`] if more is promised, and nothing has changed.
    pub fn change_rate(&mut self, rate: Option<CellRate>) -> Result<(), Refused> {
        if let Some(rate) = rate {
            let (left_cells_per_s, asked_cells_per_s) = (rate.cells_per_s(), self.promised_cells_per_s);
            if asked_cells_per_s > left_cells_per_s * (1.0 + 1e-9) {
                return Err(Refused::Rate { left_cells_per_s, asked_cells_per_s });
            }
        }
        self.rate = rate;
        Ok(())
    }

    /// Takes back a promise that [`Admission::admit`] made.
    pub fn release(&mut self, contract: &Contract) {
        let Some(rate) = contract.reserved() else { return };
        self.circuits = self.circuits.saturating_sub(1);
        // With no circuit left nothing is promised, whatever the rounding of many sums has left.
        let left = (self.promised_cells_per_s - rate.cells_per_s()).max(0.0);
        self.promised_cells_per_s = if self.circuits == 0 { 0.0 } else { left };
        if contract.is_real_time() {
            let (circuits, sum) = self.real_time;
            let circuits = circuits.saturating_sub(1);
            let sum = if circuits == 0 { 0.0 } else { (sum - rate.cells_per_s()).max(0.0) };
            self.real_time = (circuits, sum);
        }
    }

    /// Circuits that have a promise.
    pub fn circuits(&self) -> u64 {
        self.circuits
    }

    /// By how much the delays of cells in real time may differ at this link, beyond what whoever runs it adds: what of
    /// the promised rates queues, one cell that is being sent, and two at the sender.
    pub fn variation(rate: Option<CellRate>) -> Duration {
        rate.map_or(Duration::ZERO, |rate| Duration::from_nanos((rate.interval_nanos() * (HOP_CELLS + 3.0)) as u64))
    }

    /// Cells per second that are promised.
    pub fn promised_cells_per_s(&self) -> f64 {
        self.promised_cells_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Category;

    #[test]
    fn a_link_promises_no_more_than_it_has() {
        let cbr = |share: f64| Contract {
            category: Category::Cbr,
            pcr: CellRate::from_cells_per_s(CellRate::OC3C.cells_per_s() * share),
            ..Contract::default()
        };
        let mut link = Admission::new(Some(CellRate::OC3C));
        for _ in 0..10 {
            link.admit(&cbr(0.1)).unwrap();
        }
        assert!(link.admit(&cbr(0.01)).is_err());
        assert!(link.admit(&Contract { category: Category::Ubr, ..cbr(5.0) }).is_ok());
        link.release(&cbr(0.1));
        assert!(link.admit(&cbr(0.1)).is_ok());
        for _ in 0..10 {
            link.release(&cbr(0.1));
        }
        assert_eq!(link.promised_cells_per_s(), 0.0);
        assert!(Admission::new(None).admit(&cbr(1000.0)).is_ok());
    }

    #[test]
    fn a_queue_of_periodic_cells_is_bounded_and_many_circuits_need_more_room_than_few() {
        // The published approximation: 1000 circuits at 95 % need about 80 cells, 10 000 about 160.
        assert!((75.0..85.0).contains(&periodic_queue(1000, 0.95)));
        assert!((150.0..165.0).contains(&periodic_queue(10_000, 0.95)));
        assert_eq!(periodic_queue(1, 1.0), 1.0);
        let of = |share: f64| Contract {
            category: Category::Cbr,
            pcr: CellRate::from_cells_per_s(CellRate::OC3C.cells_per_s() * share),
            ..Contract::default()
        };
        let mut link = Admission::new(Some(CellRate::OC3C));
        let circuit = of(0.999 / 20_000.0);
        let admitted = (0..20_000).take_while(|_| link.admit(&circuit).is_ok()).count();
        assert!((10_000..20_000).contains(&admitted), "{admitted}");
        assert!(matches!(link.admit(&circuit), Err(Refused::Queue { .. })));
        assert!(link.admit(&of(1.0)).is_err());
        (0..admitted).for_each(|_| link.release(&circuit));
        assert_eq!(link.circuits(), 0);
        assert!(link.admit(&of(1.0)).is_ok());
    }

    #[test]
    fn a_link_does_not_become_slower_than_what_it_promises() {
        let half = CellRate::from_cells_per_s(CellRate::OC3C.cells_per_s() * 0.5);
        let mut link = Admission::new(Some(CellRate::OC3C));
        let contract = Contract { category: Category::Cbr, pcr: half, ..Contract::default() };
        link.admit(&contract).unwrap();
        link.change_rate(half).unwrap();
        assert!(link.change_rate(CellRate::from_cells_per_s(1000.0)).is_err());
        assert!(link.admit(&contract).is_err());
        link.change_rate(None).unwrap();
        assert!(link.admit(&contract).is_ok());
    }
}
