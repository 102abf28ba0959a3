//! `[[circuit]]`: its ends, its traffic contract, its adaptation layer.

use super::word;
use crate::fault::Faults;
use net::Aal;
use net::topology::{CircuitDescription, CircuitEnd, parse_circuit_rate};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use traffic::{Category, Contract, ContractError, Flow};
use wire::{AddressError, CircuitId};

/// `[[circuit]]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Circuit {
    /// `"alpha 0.100"` for each end, or `"s1:0 7.*"` for a path; more than two: from the first to all others.
    pub ends: Vec<String>,
    /// `cbr`, `rt-vbr`, `nrt-vbr`, `abr` or `ubr`.
    #[serde(default = "ubr")]
    pub category: String,
    /// `best-effort`, or `credit`: no cell is dropped for want of room.
    #[serde(default = "best_effort")]
    pub flow: String,
    /// Peak cell rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcr: Option<String>,
    /// Sustainable cell rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scr: Option<String>,
    /// Maximum burst size in cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mbs: Option<u32>,
    /// Cell delay variation tolerance in microseconds.
    #[serde(default = "cdvt_us")]
    pub cdvt_us: u64,
    /// `aal5`, `aal0` or `aal34`.
    #[serde(default = "aal5")]
    pub aal: String,
    /// Whether data goes from the first end to the second only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_way: bool,
}

fn best_effort() -> String {
    "best-effort".into()
}

fn ubr() -> String {
    "ubr".into()
}
fn aal5() -> String {
    "aal5".into()
}
/// A thread on a general-purpose machine wakes this late now and then; it may catch up then.
fn cdvt_us() -> u64 {
    1000
}

impl Circuit {
    /// What it means.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn describe(&self) -> Result<CircuitDescription, Faults> {
        let mut faults = Faults::default();
        let meant = self.understand(&mut faults);
        faults.or(meant)
    }

    /// The same where something is wrong: what can be understood, best effort for a contract that cannot be. `None` without
    /// its ends.
    pub(super) fn understand(&self, faults: &mut Faults) -> Option<CircuitDescription> {
        if self.ends.len() < 2 {
            faults.add("ends", "a circuit has two ends at least, such as [\"alpha 0.100\", \"beta 0.100\"]");
        }
        let ends: Vec<Option<CircuitEnd>> =
            self.ends.iter().enumerate().map(|(n, text)| faults.take(("ends", n), end(text))).collect();
        let categories = Category::ALL.map(|category| (category.name(), category));
        let category = word(faults, "category", &self.category, &categories);
        let flow = word(faults, "flow", &self.flow, &[("best-effort", Flow::BestEffort), ("credit", Flow::Credit)]);
        let layers = [("aal5", Aal::Aal5), ("aal0", Aal::Aal0), ("aal34", Aal::Aal34)];
        let aal = word(faults, "aal", &self.aal, &layers).unwrap_or_default();
        let (flow, mut sound) = (flow.unwrap_or_default(), category.is_some());
        let mut rate = |key: &str, text: &Option<String>| {
            let rate = text.as_deref().map(|text| faults.take(key, parse_circuit_rate(text)));
            sound &= rate != Some(None);
            rate.flatten()
        };
        let (pcr, scr) = (rate("pcr", &self.pcr), rate("scr", &self.scr));
        let cdvt = Duration::from_micros(self.cdvt_us);
        let contract = Contract { category: category.unwrap_or_default(), pcr, scr, mbs: self.mbs, cdvt, flow };
        let contract = match contract.checked() {
            Ok(contract) => contract,
            Err(e) => {
                if sound {
                    faults.add(key_of(&e), e);
                }
                Contract { flow, ..Contract::default() }
            }
        };
        let ends: Option<Vec<CircuitEnd>> = ends.into_iter().collect();
        Some(CircuitDescription { ends: ends.filter(|ends| ends.len() > 1)?, aal, contract, one_way: self.one_way })
    }
}

/// The key that an error of a contract is about.
fn key_of(e: &ContractError) -> &'static str {
    match e {
        ContractError::Missing { parameter, .. } | ContractError::Unwanted { parameter, .. } => parameter,
        ContractError::SustainableBeyondPeak => "scr",
        ContractError::UnknownCategory => "category",
    }
}

/// An end; a label whose numbers are out of range is told apart from what is no label.
fn end(text: &str) -> anyhow::Result<CircuitEnd> {
    text.parse::<CircuitEnd>().map_err(|e| {
        let label = text.split_whitespace().nth(1).unwrap_or_default();
        let numbers = label.strip_suffix(".*").map_or_else(|| label.to_owned(), |vpi| format!("{vpi}.0"));
        match numbers.parse::<CircuitId>() {
            Err(out @ (AddressError::Vpi(_) | AddressError::Vci(_))) => anyhow::anyhow!("\"{text}\": {out}"),
            _ => e.into(),
        }
    })
}
