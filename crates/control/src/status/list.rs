//! Circuits as a list shows them: a row for each end, without the way. The answer is a quarter of that with everything,
//! and so is the time to write and to read it.

use super::harvest::EndCounts;
use super::opened;
use super::rows::{Row, Rows, Shown};
use super::{CircuitStatus, HopStatus};
use crate::openers::Opener;
use schemars::JsonSchema;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A circuit in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CircuitRow {
    /// Service category.
    pub category: String,
    /// Its ends, the first of which is the root of one with several.
    pub ends: Vec<EndRow>,
    /// What switches on the way make of it; of circuits with a contract, and of all where there are at most 1000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<HopStatus>,
}

/// An end of a circuit in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndRow {
    /// As it was written.
    pub end: String,
    /// The adaptation layer that it is open with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<String>,
    /// Who has it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opener: Option<Opener>,
    /// PDUs from its application; left out where no host of this network has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pdus_sent: Option<u64>,
    /// PDUs to its application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pdus_received: Option<u64>,
    /// What was dropped of what came to it, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dropped: BTreeMap<String, u64>,
}

impl From<&CircuitStatus> for CircuitRow {
    fn from(circuit: &CircuitStatus) -> Self {
        let ends = circuit.ends.iter().map(|end| EndRow {
            end: end.end.clone(),
            open: end.open.clone(),
            opener: end.opener.clone(),
            pdus_sent: end.sent.as_ref().map(|c| c.pdus),
            pdus_received: end.received.as_ref().map(|c| c.pdus),
            dropped: end.received.as_ref().map(|c| c.dropped.clone()).unwrap_or_default(),
        });
        CircuitRow { category: circuit.category.clone(), ends: ends.collect(), hops: circuit.hops.clone() }
    }
}

/// The same, written straight from where it is.
pub(super) struct List<'a>(pub(super) &'a Rows<'a>);

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(None)?;
        for row in self.0.rows() {
            list.serialize_element(&Listed(row))?;
        }
        list.end()
    }
}

struct Listed<'a>(Row<'a>);

impl Serialize for Listed<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut row = to.serialize_map(None)?;
        row.serialize_entry("category", self.0.placed.description.contract.category.name())?;
        row.serialize_entry("ends", &Ends(&self.0))?;
        if !self.0.hops.is_empty() {
            row.serialize_entry("hops", self.0.hops)?;
        }
        row.end()
    }
}

struct Ends<'a>(&'a Row<'a>);

impl Serialize for Ends<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.ends().map(|(end, counts)| End(Shown(end), counts)))
    }
}

struct End<'a>(Shown<&'a net::topology::CircuitEnd>, Option<&'a EndCounts>);

impl Serialize for End<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut row = to.serialize_map(None)?;
        row.serialize_entry("end", &self.0)?;
        if let Some(counts) = self.1 {
            if let Some(aal) = counts.open {
                row.serialize_entry("open", opened(aal))?;
            }
            if let Some(opener) = &counts.opener {
                row.serialize_entry("opener", opener)?;
            }
            row.serialize_entry("pdus_sent", &counts.sent.pdus)?;
            row.serialize_entry("pdus_received", &counts.received.pdus)?;
            if let Some(dropped) = &counts.received.dropped {
                let dropped: BTreeMap<&str, u64> = dropped.drops().map(|(reason, n)| (reason.name(), n)).collect();
                row.serialize_entry("dropped", &dropped)?;
            }
        }
        row.end()
    }
}
