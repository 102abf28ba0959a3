//! Call admission: a circuit is let in if the peak rates of all circuits with a contract fit into the link.

use crate::contract::Contract;
use wire::CellRate;

/// The link has less left than the circuit asks for.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("the link has {left_cells_per_s:.1} cells/s left, {asked_cells_per_s:.1} are asked for")]
pub struct Refused {
    /// What is left.
    pub left_cells_per_s: f64,
    /// What was asked for.
    pub asked_cells_per_s: f64,
}

/// One direction of a link: its rate and what is promised of it. A link without a rate admits all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Admission {
    rate: Option<CellRate>,
    promised_cells_per_s: f64,
    circuits: u64,
}

impl Admission {
    /// A link of which nothing is promised yet.
    pub fn new(rate: Option<CellRate>) -> Self {
        Admission { rate, promised_cells_per_s: 0.0, circuits: 0 }
    }

    /// Promises `contract`'s peak rate; best effort (UBR) always fits.
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
                return Err(Refused { left_cells_per_s, asked_cells_per_s });
            }
        }
        self.promised_cells_per_s += asked_cells_per_s;
        self.circuits += 1;
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
                return Err(Refused { left_cells_per_s, asked_cells_per_s });
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
    }

    /// Cells per second that are promised.
    pub fn promised_cells_per_s(&self) -> f64 {
        self.promised_cells_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Category;

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
