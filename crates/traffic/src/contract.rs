//! What a circuit was promised: its service category and traffic parameters (TM 4.0 section 2).

use crate::category::Category;
use crate::clock::Fine;
use crate::conformance::Conformance;
use crate::frame::FrameGcra;
use crate::gcra::Gcra;
use core::str::FromStr;
use core::time::Duration;
use wire::CellRate;

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
    #[error("category is none of cbr, rt-vbr, nrt-vbr, abr, gfr, ubr")]
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
    /// The minimum rate is beyond the peak.
    #[error("mcr is greater than pcr")]
    MinimumBeyondPeak,
    /// A burst or a frame without a cell, or a burst shorter than a frame.
    #[error("{parameter} must be at least {least}")]
    TooSmall {
        /// The parameter.
        parameter: &'static str,
        /// Its least value.
        least: u32,
    },
    /// A conformance definition of another category.
    #[error("{category} has no conformance definition {conformance}: write {allowed}")]
    WrongConformance {
        /// The category.
        category: Category,
        /// The definition that was asked for.
        conformance: Conformance,
        /// Those that it has.
        allowed: &'static str,
    },
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

/// What a switch drops of a circuit without credits where there is congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Discard {
    /// Whole PDUs for which there is no room (EPD with room kept for those under way).
    #[default]
    Early,
    /// Cells one by one.
    Cells,
    /// Cells, and the rest of a PDU that has lost one (PPD).
    Partial,
    /// Whole PDUs, and beyond a threshold those of circuits with more than their share of the queue (selective drop).
    Selective,
    /// Whole PDUs, and those of circuits beyond a share that shrinks as the queue grows (fair buffer allocation).
    Fair,
}

impl Discard {
    /// All of them.
    pub const ALL: [Discard; 5] = [Discard::Early, Discard::Cells, Discard::Partial, Discard::Selective, Discard::Fair];

    /// As descriptions write it.
    pub const fn name(self) -> &'static str {
        match self {
            Discard::Early => "early",
            Discard::Cells => "cells",
            Discard::Partial => "partial",
            Discard::Selective => "selective",
            Discard::Fair => "fair",
        }
    }
}

/// A traffic contract of one direction of a circuit. Rates are in cells/s; [`CellRate`] gives them in bit/s of payload
/// too.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Contract {
    /// Service category.
    pub category: Category,
    /// Peak cell rate, of cells of both loss priorities (CLP 0+1).
    pub pcr: Option<CellRate>,
    /// Sustainable cell rate (VBR): of CLP 0+1 by VBR.1, of CLP 0 by VBR.2 and VBR.3.
    pub scr: Option<CellRate>,
    /// Maximum burst size in cells (VBR, GFR).
    pub mbs: Option<u32>,
    /// Minimum cell rate: guaranteed to whole CLP 0 frames (GFR), or desired (UBR, ABR).
    pub mcr: Option<CellRate>,
    /// Maximum frame size in cells (GFR).
    pub mfs: Option<u32>,
    /// The conformance definition; without, the first one of the category.
    pub conformance: Option<Conformance>,
    /// Whether its cells go before those of all other circuits wherever cells queue.
    pub low_latency: bool,
    /// What is dropped of it where there is congestion.
    pub discard: Discard,
    /// Cell delay variation tolerance of CLP 0+1: how early against the peak rate a cell may come where it enters a
    /// network.
    pub cdvt: Duration,
    /// The longest that a cell may be on its way: maxCTD of TM 4.1 (CBR, rt-VBR). Admission adds up the hops.
    pub max_ctd: Option<Duration>,
    /// By how much cells' delays may differ: peak-to-peak CDV (CBR, rt-VBR).
    pub max_cdv: Option<Duration>,
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
        let gfr = category == Category::Gfr;
        let may_have_minimum = gfr || matches!(category, Category::Ubr | Category::Abr);
        let real_time = self.is_real_time();
        // Each with whether the category needs it, and whether it may have it.
        let parameters = [
            ("scr", self.scr.is_some(), vbr, vbr),
            ("mbs", self.mbs.is_some(), vbr || gfr, vbr || gfr),
            ("mcr", self.mcr.is_some(), gfr, may_have_minimum),
            ("mfs", self.mfs.is_some(), gfr, gfr),
            ("pcr", self.pcr.is_some(), category != Category::Ubr, true),
            ("max_ctd_us", self.max_ctd.is_some(), false, real_time),
            ("max_cdv_us", self.max_cdv.is_some(), false, real_time),
            ("low_latency", self.low_latency, false, real_time),
        ];
        for (parameter, given, needed, allowed) in parameters {
            match given {
                false if needed => return Err(ContractError::Missing { category, parameter }),
                true if !allowed => return Err(ContractError::Unwanted { category, parameter }),
                _ => {}
            }
        }
        let least = [("mbs", self.mbs, if gfr { self.mfs.unwrap_or(1).max(1) } else { 1 }), ("mfs", self.mfs, 1)];
        if let Some((parameter, _, least)) =
            least.into_iter().find(|(_, value, least)| value.is_some_and(|v| v < *least))
        {
            return Err(ContractError::TooSmall { parameter, least });
        }
        if let Some(conformance) = self.conformance.filter(|conformance| !conformance.is_of(category)) {
            return Err(ContractError::WrongConformance {
                category,
                conformance,
                allowed: Conformance::names_of(category),
            });
        }
        match (self.scr, self.mcr, self.pcr) {
            (Some(scr), _, Some(pcr)) if scr > pcr => Err(ContractError::SustainableBeyondPeak),
            (_, Some(mcr), Some(pcr)) if mcr > pcr => Err(ContractError::MinimumBeyondPeak),
            _ => Ok(self),
        }
    }

    /// Whether its cells' delay is bounded: CBR and rt-VBR.
    pub const fn is_real_time(&self) -> bool {
        matches!(self.category, Category::Cbr | Category::RtVbr)
    }

    /// The conformance definition that applies.
    pub fn conformance(&self) -> Conformance {
        self.conformance.unwrap_or(Conformance::default_of(self.category))
    }

    /// Whether nothing but the category's default is asked for: best effort without rates.
    pub fn is_plain(&self) -> bool {
        *self == Contract { flow: self.flow, cdvt: self.cdvt, ..Contract::default() }
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

    /// The test of frames against the minimum rate (GFR): F-GCRA(1/MCR, BT + CDVT).
    pub fn minimum(&self) -> Option<FrameGcra> {
        let mcr = self.mcr.filter(|_| self.category == Category::Gfr)?;
        FrameGcra::of_contract(self, mcr, self.mbs?)
    }

    /// What admission reserves. CBR and rt-VBR: the peak rate, so that their delay is bounded. Nrt-VBR: the sustainable
    /// rate. ABR, GFR and best effort (UBR): the minimum rate if one is given; without, of ABR the peak rate, at which
    /// it is sent here, and of UBR nothing.
    pub fn reserved(&self) -> Option<CellRate> {
        match self.category {
            Category::Cbr | Category::RtVbr => self.pcr,
            Category::NrtVbr => self.scr.or(self.pcr),
            Category::Abr => self.mcr.or(self.pcr),
            Category::Gfr | Category::Ubr => self.mcr,
        }
    }

    /// The contract as it enters the hop after one that delays cells by up to `variation` more than at best: its
    /// tolerance grows by that.
    #[must_use]
    pub fn delayed_by(self, variation: Duration) -> Self {
        Contract { cdvt: self.cdvt.saturating_add(variation), ..self }
    }
}

impl FrameGcra {
    /// The test of a minimum rate `mcr` for bursts of `mbs` cells at the peak rate of `contract`.
    pub fn of_contract(contract: &Contract, mcr: CellRate, mbs: u32) -> Option<Self> {
        let increment = Fine::interval(mcr);
        let tolerance = increment.minus(Fine::interval(contract.pcr?)).times(u64::from(mbs).saturating_sub(1));
        Some(Self::new(increment, tolerance.plus(contract.cdvt.into())))
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
    fn gfr_has_a_minimum_rate_frames_and_a_burst_of_a_frame_at_least() {
        let gfr = Contract {
            category: Category::Gfr,
            pcr: rate(1e5),
            mcr: rate(1e4),
            mfs: Some(32),
            mbs: Some(64),
            ..Contract::default()
        };
        assert!(gfr.checked().is_ok());
        assert_eq!(gfr.reserved(), rate(1e4));
        let missing = |parameter| Err(ContractError::Missing { category: Category::Gfr, parameter });
        assert_eq!(Contract { mfs: None, ..gfr }.checked(), missing("mfs"));
        assert_eq!(Contract { mcr: None, ..gfr }.checked(), missing("mcr"));
        let short = Contract { mbs: Some(31), ..gfr };
        assert_eq!(short.checked(), Err(ContractError::TooSmall { parameter: "mbs", least: 32 }));
        assert_eq!(Contract { mcr: rate(2e5), ..gfr }.checked(), Err(ContractError::MinimumBeyondPeak));
        let other = Contract { conformance: Some(Conformance::Vbr3), ..gfr };
        assert!(matches!(other.checked(), Err(ContractError::WrongConformance { allowed: "gfr.1 or gfr.2", .. })));
        assert!(gfr.minimum().is_some());
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
