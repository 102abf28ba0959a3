//! What a circuit was promised: its service category and traffic parameters (TM 4.0 section 2).

use crate::clock::Fine;
use crate::gcra::Gcra;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use wire::CellRate;

/// Service categories of TM 4.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Category {
    /// Constant bit rate.
    Cbr,
    /// Variable bit rate, real time.
    RtVbr,
    /// Variable bit rate, not real time.
    NrtVbr,
    /// Available bit rate.
    Abr,
    /// Unspecified bit rate: best effort.
    #[default]
    Ubr,
}

impl Category {
    /// All of them, by falling priority.
    pub const ALL: [Category; 5] = [Category::Cbr, Category::RtVbr, Category::NrtVbr, Category::Abr, Category::Ubr];

    /// The name in files and output.
    pub const fn name(self) -> &'static str {
        match self {
            Category::Cbr => "cbr",
            Category::RtVbr => "rt-vbr",
            Category::NrtVbr => "nrt-vbr",
            Category::Abr => "abr",
            Category::Ubr => "ubr",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Category {
    type Err = ContractError;
    fn from_str(s: &str) -> Result<Self, ContractError> {
        Category::ALL.into_iter().find(|c| c.name() == s).ok_or(ContractError::UnknownCategory)
    }
}

/// Why a contract is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ContractError {
    /// No such category.
    #[error("category is none of cbr, rt-vbr, nrt-vbr, abr, ubr")]
    UnknownCategory,
    /// A parameter that the category needs is missing.
    #[error("{category} needs {parameter}")]
    Missing {
        /// The category.
        category: Category,
        /// The parameter.
        parameter: &'static str,
    },
    /// A parameter that the category does not have.
    #[error("{category} has no {parameter}")]
    Unwanted {
        /// The category.
        category: Category,
        /// The parameter.
        parameter: &'static str,
    },
    /// The sustainable rate is beyond the peak.
    #[error("scr is greater than pcr")]
    SustainableBeyondPeak,
}

/// What becomes of a circuit's cells where the next queue has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Flow {
    /// Whole PDUs are dropped and counted.
    #[default]
    BestEffort,
    /// Nothing is dropped: each hop sends only what the next one has granted.
    Credit,
}

impl Flow {
    /// As descriptions write it.
    pub const fn name(self) -> &'static str {
        match self {
            Flow::BestEffort => "best-effort",
            Flow::Credit => "credit",
        }
    }
}

/// A traffic contract.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Contract {
    /// Service category.
    pub category: Category,
    /// Peak cell rate.
    pub pcr: Option<CellRate>,
    /// Sustainable cell rate (VBR).
    pub scr: Option<CellRate>,
    /// Maximum burst size in cells (VBR).
    pub mbs: Option<u32>,
    /// Cell delay variation tolerance: how early against the peak rate a cell may come.
    pub cdvt: Duration,
    /// Whether cells may be dropped where there is no room for them.
    pub flow: Flow,
}

impl Contract {
    /// Checks that the category has the parameters it needs and no others.
    ///
    /// # Errors
    /// [`ContractError`] with the parameter at fault.
    pub fn checked(self) -> Result<Self, ContractError> {
        let category = self.category;
        let vbr = matches!(category, Category::RtVbr | Category::NrtVbr);
        for (parameter, given) in [("scr", self.scr.is_some()), ("mbs", self.mbs.is_some())] {
            match (vbr, given) {
                (true, false) => return Err(ContractError::Missing { category, parameter }),
                (false, true) => return Err(ContractError::Unwanted { category, parameter }),
                _ => {}
            }
        }
        if category != Category::Ubr && self.pcr.is_none() {
            return Err(ContractError::Missing { category, parameter: "pcr" });
        }
        match (self.scr, self.pcr) {
            (Some(scr), Some(pcr)) if scr > pcr => Err(ContractError::SustainableBeyondPeak),
            _ => Ok(self),
        }
    }

    /// The test of the peak rate: GCRA(1/PCR, CDVT).
    pub fn peak(&self) -> Option<Gcra> {
        self.pcr.map(|pcr| Gcra::new(Fine::interval(pcr), self.cdvt.into()))
    }

    /// The test of the sustainable rate: GCRA(1/SCR, BT + CDVT).
    pub fn sustainable(&self) -> Option<Gcra> {
        let scr = self.scr?;
        Some(Gcra::new(Fine::interval(scr), self.burst_tolerance()?.plus(self.cdvt.into())))
    }

    /// BT = (MBS - 1)(1/SCR - 1/PCR).
    pub fn burst_tolerance(&self) -> Option<Fine> {
        let gap = Fine::interval(self.scr?).minus(Fine::interval(self.pcr?));
        Some(gap.times(u64::from(self.mbs?).saturating_sub(1)))
    }

    /// What admission reserves: the peak rate, except of best effort (UBR), which has no reservation.
    pub fn reserved(&self) -> Option<CellRate> {
        self.pcr.filter(|_| self.category != Category::Ubr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(cells_per_s: f64) -> Option<CellRate> {
        CellRate::from_cells_per_s(cells_per_s)
    }

    #[test]
    fn a_category_asks_for_its_own_parameters() {
        let cbr = Contract { category: Category::Cbr, ..Contract::default() };
        assert_eq!(cbr.checked(), Err(ContractError::Missing { category: Category::Cbr, parameter: "pcr" }));
        assert!(Contract { pcr: rate(1e3), ..cbr }.checked().is_ok());
        let with_scr = Contract { pcr: rate(1e3), scr: rate(1e2), ..cbr };
        assert_eq!(with_scr.checked(), Err(ContractError::Unwanted { category: Category::Cbr, parameter: "scr" }));
        let vbr = Contract { category: Category::NrtVbr, pcr: rate(1e3), scr: rate(1e4), mbs: Some(5), ..cbr };
        assert_eq!(vbr.checked(), Err(ContractError::SustainableBeyondPeak));
        assert!(Contract::default().checked().is_ok());
    }

    #[test]
    fn categories_are_read_by_the_names_they_are_printed_with() {
        for category in Category::ALL {
            assert_eq!(category.name().parse(), Ok(category));
        }
        assert!("vbr".parse::<Category>().is_err());
    }

    #[test]
    fn a_burst_of_mbs_cells_at_peak_rate_passes_the_sustainable_test_and_one_more_does_not() {
        let vbr = Contract {
            category: Category::RtVbr,
            pcr: rate(1e5),
            scr: rate(1e4),
            mbs: Some(20),
            ..Contract::default()
        };
        let mut test = vbr.checked().unwrap().sustainable().unwrap();
        let burst = (0..100).take_while(|n| test.arrive(wire::Time::from_micros(n * 10))).count();
        assert_eq!(burst, 20);
    }
}
