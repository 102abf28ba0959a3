//! What an object's counters show: [`CounterStatus`], of [`wire::Counters`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wire::Counters;

/// Counters of cells, PDUs and octets, and of what was dropped by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CounterStatus {
    /// Cells.
    pub cells: u64,
    /// PDUs.
    pub pdus: u64,
    /// Octets.
    pub octets: u64,
    /// What was dropped, by reason; reasons that have not occurred are left out.
    pub dropped: BTreeMap<String, u64>,
}

impl From<&Counters> for CounterStatus {
    fn from(c: &Counters) -> Self {
        let dropped = c.drops().map(|(reason, n)| (reason.name().to_owned(), n)).collect();
        CounterStatus { cells: c.cells, pdus: c.pdus, octets: c.octets, dropped }
    }
}
