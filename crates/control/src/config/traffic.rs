//! What is promised to one direction of a circuit: the keys of `[[circuit]]`, and of its `back`.

use super::link::MAX_DELAY_US;
use super::word;
use crate::fault::{Faults, PartPath};
use crate::quantity;
use net::topology::parse_circuit_bound;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use traffic::{Category, Conformance, Contract, ContractError, Discard, Flow};

/// `back = { ... }` of `[[circuit]]`; the same keys stand in `[[circuit]]` for the direction from the first end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Traffic {
    /// `cbr`, `rt-vbr`, `nrt-vbr`, `gfr` or `ubr`.
    pub category: String,
    /// Conformance definition of TM 4.1: `cbr.1`, `vbr.1`, `vbr.2`, `vbr.3`, `gfr.1`, `gfr.2`, `ubr.1` or `ubr.2`;
    /// without, the category's first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conformance: Option<String>,
    /// Peak cell rate of CLP 0+1.
    #[serde(deserialize_with = "quantity::rate", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<quantity::RateText>")]
    pub pcr: Option<String>,
    /// Sustainable cell rate: of CLP 0+1 by `vbr.1`, of CLP 0 by `vbr.2` and `vbr.3`.
    #[serde(deserialize_with = "quantity::rate", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<quantity::RateText>")]
    pub scr: Option<String>,
    /// Maximum burst size in cells (VBR, GFR).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mbs: Option<u32>,
    /// Minimum cell rate, of CLP 0: guaranteed to whole frames (GFR), or a share (UBR).
    #[serde(deserialize_with = "quantity::rate", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<quantity::RateText>")]
    pub mcr: Option<String>,
    /// Maximum frame size in cells (GFR).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mfs: Option<u32>,
    /// Cell delay variation tolerance in microseconds.
    #[serde(deserialize_with = "quantity::micros")]
    #[schemars(with = "quantity::TimeText")]
    pub cdvt_us: u64,
    /// The longest delay of a cell in microseconds: maxCTD (CBR, rt-VBR).
    #[serde(deserialize_with = "quantity::optional_micros", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<quantity::TimeText>")]
    pub max_ctd_us: Option<u64>,
    /// By how much delays may differ, in microseconds: peak-to-peak CDV (CBR, rt-VBR).
    #[serde(deserialize_with = "quantity::optional_micros", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<quantity::TimeText>")]
    pub max_cdv_us: Option<u64>,
    /// Whether its cells go before all others at each switch (CBR, rt-VBR).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub low_latency: bool,
    /// What a switch drops where there is congestion: `early`, `cells`, `partial`, `selective` or `fair`.
    #[serde(skip_serializing_if = "is_early")]
    #[schemars(extend("default" = "early"))]
    pub discard: String,
}

impl Default for Traffic {
    fn default() -> Self {
        Traffic {
            category: ubr(),
            conformance: None,
            pcr: None,
            scr: None,
            mbs: None,
            mcr: None,
            mfs: None,
            cdvt_us: cdvt_us(),
            max_ctd_us: None,
            max_cdv_us: None,
            low_latency: false,
            discard: early(),
        }
    }
}

pub(super) fn ubr() -> String {
    Category::Ubr.name().into()
}

pub(super) fn early() -> String {
    Discard::Early.name().into()
}

pub(super) fn is_early(discard: &str) -> bool {
    discard == Discard::Early.name()
}

/// A thread on a general-purpose machine wakes this late now and then, in microseconds; it may catch up then.
pub(crate) const CDVT_US: u64 = 1000;

pub(super) fn cdvt_us() -> u64 {
    CDVT_US
}

impl Traffic {
    /// What it means; best effort where something is wrong. `way`: the key that it is the value of.
    pub(super) fn understand(&self, flow: Flow, way: &[&str], all_faults: &mut Faults) -> Contract {
        let mut faults = Faults::default();
        let contract = self.contract(flow, &mut faults);
        for fault in faults.0 {
            let at = way.iter().copied().map(Into::into).chain(fault.at.0).collect();
            all_faults.add(PartPath(at), fault.says);
        }
        contract
    }

    fn contract(&self, flow: Flow, faults: &mut Faults) -> Contract {
        let categories = Category::ALL.into_iter().filter(|category| *category != Category::Abr);
        let mut words: Vec<(&str, Category)> = categories.map(|category| (category.name(), category)).collect();
        words.sort_by_key(|(_, category)| *category == Category::Ubr);
        if self.category == Category::Abr.name() {
            faults.add(
                "category",
                "category = \"abr\": there is no ABR yet; write nrt-vbr for a guaranteed rate, or ubr with an mcr for a share",
            );
        } else {
            _ = word(faults, "category", &self.category, &words);
        }
        let category = words.iter().find(|(name, _)| *name == self.category).map(|(_, category)| *category);
        let mut sound = category.is_some();
        let mut rate = |key: &str, text: &Option<String>| {
            let rate = text.as_deref().map(|text| faults.take(key, parse_circuit_bound(text)));
            sound &= rate != Some(None);
            rate.flatten().flatten()
        };
        let (pcr, scr, mcr) = (rate("pcr", &self.pcr), rate("scr", &self.scr), rate("mcr", &self.mcr));
        let times = [("cdvt_us", Some(self.cdvt_us)), ("max_ctd_us", self.max_ctd_us), ("max_cdv_us", self.max_cdv_us)];
        for (key, micros) in times {
            if let Some(micros) = micros.filter(|micros| *micros > MAX_DELAY_US) {
                faults.add(key, format!("{micros} is out of bounds: write {MAX_DELAY_US} at most"));
                sound = false;
            }
        }
        let conformance = self.conformance.as_deref().map(|text| {
            let words = Conformance::ALL.into_iter().filter(|c| *c != Conformance::Abr1).map(|c| (c.name(), c));
            word(faults, "conformance", text, &words.collect::<Vec<_>>())
        });
        sound &= conformance != Some(None);
        let discards = Discard::ALL.map(|discard| (discard.name(), discard));
        let discard = word(faults, "discard", &self.discard, &discards).unwrap_or_default();
        let contract = Contract {
            category: category.unwrap_or_default(),
            pcr,
            scr,
            mbs: self.mbs,
            mcr,
            mfs: self.mfs,
            conformance: conformance.flatten(),
            low_latency: self.low_latency,
            discard,
            cdvt: Duration::from_micros(self.cdvt_us),
            max_ctd: self.max_ctd_us.map(Duration::from_micros),
            max_cdv: self.max_cdv_us.map(Duration::from_micros),
            flow,
        };
        match contract.checked() {
            Ok(contract) => contract,
            Err(e) => {
                if sound {
                    faults.add(key_of(&e), format!("{e}: {}", self.cure(&e)));
                }
                Contract { flow, ..Contract::default() }
            }
        }
    }

    /// What to do about an error of a contract, with the value that is at fault.
    fn cure(&self, e: &ContractError) -> String {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        match e {
            ContractError::Missing { parameter, .. } => {
                let example = match *parameter {
                    "mbs" => "mbs = 200",
                    "mfs" => "mfs = 192",
                    key => return format!("add {key} = \"20 Mbit/s\", or a number with cell/s"),
                };
                format!("add {example}, in cells")
            }
            ContractError::Unwanted { parameter, category } => {
                format!("remove {parameter}, or choose another category than {category}")
            }
            ContractError::SustainableBeyondPeak => {
                format!("scr = \"{}\" must be at most pcr = \"{}\"", text(&self.scr), text(&self.pcr))
            }
            ContractError::MinimumBeyondPeak => {
                format!("mcr = \"{}\" must be at most pcr = \"{}\"", text(&self.mcr), text(&self.pcr))
            }
            ContractError::TooSmall { parameter, least } => {
                let value = if *parameter == "mbs" { self.mbs } else { self.mfs };
                format!("{parameter} = {} is too small, write {least} or more", value.unwrap_or_default())
            }
            ContractError::WrongConformance { allowed, .. } => {
                format!("conformance = \"{}\" is of another category, write {allowed}", text(&self.conformance))
            }
            ContractError::UnknownCategory => "write cbr, rt-vbr, nrt-vbr, gfr or ubr".into(),
        }
    }
}

/// The key that an error of a contract is about.
fn key_of(e: &ContractError) -> &'static str {
    match e {
        ContractError::Missing { parameter, .. } | ContractError::Unwanted { parameter, .. } => parameter,
        ContractError::SustainableBeyondPeak => "scr",
        ContractError::UnknownCategory => "category",
        ContractError::MinimumBeyondPeak => "mcr",
        ContractError::TooSmall { parameter, .. } => parameter,
        ContractError::WrongConformance { .. } => "conformance",
    }
}
