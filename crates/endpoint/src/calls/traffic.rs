//! What a call asks for in one direction.

use serde::{Deserialize, Serialize};

/// A traffic contract in the words of a description, rates in cells each second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CallTraffic"))]
#[serde(deny_unknown_fields, default)]
pub struct Traffic {
    /// `ubr`, `cbr`, `rt-vbr` or `nrt-vbr`; `none` where nothing is sent.
    pub category: String,
    /// Peak cell rate.
    pub pcr: Option<u32>,
    /// Sustainable cell rate.
    pub scr: Option<u32>,
    /// Maximum burst size in cells.
    pub mbs: Option<u32>,
    /// The longest SDU in octets.
    pub sdu_octets: u16,
}

impl Default for Traffic {
    /// Best effort, SDUs of up to 9188 octets (RFC 2225).
    fn default() -> Self {
        Traffic { category: "ubr".into(), pcr: None, scr: None, mbs: None, sdu_octets: 9188 }
    }
}

impl Traffic {
    /// The category of a direction in which nothing is sent.
    pub const NONE: &str = "none";

    /// Nothing is sent in this direction.
    pub fn none() -> Self {
        Traffic { category: Self::NONE.into(), ..Traffic::default() }
    }
}
