//! `[[circuit]]`: its ends, its traffic contract, its adaptation layer.

use super::traffic::{Traffic, cdvt_us, early, is_early, ubr};
use super::word;
use crate::fault::Faults;
use crate::quantity;
use net::FrameAal;
use net::topology::{CircuitDescription, CircuitEnd, OamOptions};
use serde::{Deserialize, Serialize};
use traffic::{Category, Flow};
use wire::{AddressError, CircuitId};

/// `[[circuit]]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Circuit {
    /// `"alpha 0.100"` for each end, or `"s1:0 7.*"` for a path; more than two: from the first to all others.
    pub ends: Vec<String>,
    /// Labels of links on the way, in order, each at a switch's port: `"s1:3 100.150"`. Other links have labels that
    /// are free.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<String>,
    /// `cbr`, `rt-vbr`, `nrt-vbr`, `gfr` or `ubr`.
    #[serde(default = "ubr")]
    pub category: String,
    /// Conformance definition of TM 4.1: `cbr.1`, `vbr.1`, `vbr.2`, `vbr.3`, `gfr.1`, `gfr.2`, `ubr.1` or `ubr.2`;
    /// without, the category's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conformance: Option<String>,
    /// Peak cell rate of CLP 0+1.
    #[serde(deserialize_with = "quantity::rate", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<quantity::RateText>")]
    pub pcr: Option<String>,
    /// Sustainable cell rate: of CLP 0+1 by `vbr.1`, of CLP 0 by `vbr.2` and `vbr.3`.
    #[serde(deserialize_with = "quantity::rate", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<quantity::RateText>")]
    pub scr: Option<String>,
    /// Maximum burst size in cells (VBR, GFR).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mbs: Option<u32>,
    /// Minimum cell rate, of CLP 0: guaranteed to whole frames (GFR), or a share (UBR).
    #[serde(deserialize_with = "quantity::rate", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<quantity::RateText>")]
    pub mcr: Option<String>,
    /// Maximum frame size in cells (GFR).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mfs: Option<u32>,
    /// Cell delay variation tolerance in microseconds.
    #[serde(deserialize_with = "quantity::micros", default = "cdvt_us")]
    #[schemars(with = "quantity::TimeText")]
    pub cdvt_us: u64,
    /// The longest delay of a cell in microseconds: maxCTD (CBR, rt-VBR).
    #[serde(deserialize_with = "quantity::optional_micros", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<quantity::TimeText>")]
    pub max_ctd_us: Option<u64>,
    /// By how much delays may differ, in microseconds: peak-to-peak CDV (CBR, rt-VBR).
    #[serde(deserialize_with = "quantity::optional_micros", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<quantity::TimeText>")]
    pub max_cdv_us: Option<u64>,
    /// Whether its cells go before all others at each switch (CBR, rt-VBR).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub low_latency: bool,
    /// What a switch drops where there is congestion: `early`, `cells`, `partial`, `selective` or `fair`.
    #[serde(default = "early", skip_serializing_if = "is_early")]
    #[schemars(extend("default" = "early"))]
    pub discard: String,
    /// What is promised to the first end, where it is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<Traffic>,
    /// `best-effort`, or `credit`: no cell is dropped for want of room.
    #[serde(default = "best_effort")]
    pub flow: String,
    /// `aal5`, `aal0` or `aal34`.
    #[serde(default = "aal5")]
    pub aal: String,
    /// Whether data goes from the first end to the second only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub one_way: bool,
    /// What OAM does at its ends from the beginning: `{ continuity = true, monitoring = 1024 }`.
    #[serde(default, skip_serializing_if = "Oam::is_nothing")]
    pub oam: Oam,
}

/// `oam` of a circuit: what its two ends do from the beginning (I.610).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Oam {
    /// Continuity check both ways.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub continuity: bool,
    /// Performance monitoring both ways, in blocks of 128, 256, 512 or 1024 cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<u16>,
}

impl Oam {
    fn is_nothing(&self) -> bool {
        *self == Oam::default()
    }
}

fn best_effort() -> String {
    "best-effort".into()
}

fn aal5() -> String {
    "aal5".into()
}
impl Default for Circuit {
    /// Best effort, without ends.
    fn default() -> Self {
        let Traffic { category, cdvt_us, discard, .. } = Traffic::default();
        Circuit {
            ends: Vec::new(),
            via: Vec::new(),
            category,
            conformance: None,
            pcr: None,
            scr: None,
            mbs: None,
            mcr: None,
            mfs: None,
            cdvt_us,
            max_ctd_us: None,
            max_cdv_us: None,
            low_latency: false,
            discard,
            back: None,
            flow: best_effort(),
            aal: aal5(),
            one_way: false,
            oam: Oam::default(),
        }
    }
}

impl Circuit {
    /// Its keys for the direction from the first end.
    fn traffic(&self) -> Traffic {
        let Circuit { pcr, scr, mcr, mbs, mfs, cdvt_us, max_ctd_us, max_cdv_us, low_latency, .. } = self.clone();
        let (category, conformance, discard) = (self.category.clone(), self.conformance.clone(), self.discard.clone());
        Traffic {
            category,
            conformance,
            pcr,
            scr,
            mbs,
            mcr,
            mfs,
            cdvt_us,
            max_ctd_us,
            max_cdv_us,
            low_latency,
            discard,
        }
    }

    /// What it means.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn describe(&self) -> Result<CircuitDescription, Faults> {
        let mut faults = Faults::default();
        let meant = self.understand(&mut faults);
        faults.or(meant)
    }

    /// The same where something is wrong: what can be understood, best effort for a contract that cannot be. `None`
    /// without its ends.
    pub(super) fn understand(&self, faults: &mut Faults) -> Option<CircuitDescription> {
        if self.ends.len() < 2 {
            faults.add("ends", "a circuit has two ends at least, such as [\"alpha 0.100\", \"beta 0.100\"]");
        }
        let ends: Vec<Option<CircuitEnd>> =
            self.ends.iter().enumerate().map(|(n, text)| faults.take(("ends", n), end(text))).collect();
        let via: Vec<Option<CircuitEnd>> =
            self.via.iter().enumerate().map(|(n, text)| faults.take(("via", n), end(text))).collect();
        let flow = word(faults, "flow", &self.flow, &[("best-effort", Flow::BestEffort), ("credit", Flow::Credit)]);
        let layers = [("aal5", FrameAal::Aal5), ("aal0", FrameAal::Aal0), ("aal34", FrameAal::Aal34)];
        let aal = word(faults, "aal", &self.aal, &layers).unwrap_or_default();
        let flow = flow.unwrap_or_default();
        let contract = self.traffic().understand(flow, &[], faults);
        let back = self.back.as_ref().map(|back| back.understand(flow, &["back"], faults));
        if self.back.is_some() && (self.one_way || self.ends.len() > 2) {
            faults.add("back", "back: nothing goes to the first end of such a circuit; remove it");
        }
        for (key, contract) in [("category", Some(contract)), ("back", back)] {
            let of_frames = contract.is_some_and(|contract| contract.category == Category::Gfr);
            if of_frames && aal != FrameAal::Aal5 {
                faults.add(key, format!("gfr guarantees frames of aal5, and aal = \"{}\": write aal5", self.aal));
            }
        }
        let back = back.filter(|back| *back != contract);
        let oam = OamOptions { continuity: self.oam.continuity, monitoring: self.oam.monitoring };
        if let Some(cells) = oam.monitoring {
            if wire::oam::BlockCode::of_cells(cells).is_none() {
                faults.add("oam", format!("blocks of {cells} cells: expected 128, 256, 512 or 1024"));
            }
            if self.one_way || self.ends.len() > 2 || flow == Flow::Credit {
                faults.add("oam", "monitoring is for circuits both ways between two ends, without credits");
            }
        }
        let ends: Option<Vec<CircuitEnd>> = ends.into_iter().collect();
        Some(CircuitDescription {
            ends: ends.filter(|ends| ends.len() > 1)?,
            aal,
            contract,
            back,
            one_way: self.one_way,
            oam,
            via: via.into_iter().flatten().collect(),
        })
    }
}

/// An end; a label whose numbers are out of range is told apart from what is no label.
fn end(text: &str) -> anyhow::Result<CircuitEnd> {
    text.parse::<CircuitEnd>().map_err(|e| {
        let label = text.split_whitespace().nth(1).unwrap_or_default();
        let path = label.strip_suffix(".*").or_else(|| label.strip_suffix("/*"));
        let numbers = path.map_or_else(|| label.to_owned(), |vpi| format!("{vpi}.0"));
        match numbers.parse::<CircuitId>() {
            Err(out @ (AddressError::Vpi(_) | AddressError::Vci(_))) => anyhow::anyhow!("\"{text}\": {out}"),
            _ => e.into(),
        }
    })
}
