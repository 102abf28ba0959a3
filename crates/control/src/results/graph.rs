//! What `graph` prints with `--json`, and what it draws: stations and the links between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A network's topology: `graph`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Topology {
    /// Seconds over which rates were measured; `null` of a description, which has none.
    pub seconds: Option<f64>,
    /// Hosts, switches, other stations and what is outside, by name.
    pub stations: Vec<TopologyStation>,
    /// Links, in the order of the description.
    pub links: Vec<TopologyLink>,
}

/// A station.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopologyStation {
    /// Its name.
    pub name: String,
    /// `host`, `switch`, `outside`, or the section of another kind.
    pub kind: String,
    /// Whether it has an alarm, or an end of a circuit at it has one.
    pub alarm: bool,
}

/// A link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopologyLink {
    /// Its ends: a station, and the port where it is known.
    pub ends: [TopologyEnd; 2],
    /// Whether it passes anything.
    pub up: bool,
    /// Cells each second; `null`: as fast as memory is.
    pub rate_cells_per_s: Option<f64>,
    /// Circuits over it; `null` of a description, which has no ways.
    pub circuits: Option<usize>,
    /// Cells that arrived from each end, each second; `null` of a description.
    pub cells_per_s: Option<[f64; 2]>,
    /// What was dropped on it, both ways, each second; `null` of a description.
    pub dropped_per_s: Option<f64>,
}

/// An end of a link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopologyEnd {
    /// The station.
    pub station: String,
    /// Its port.
    pub port: Option<u16>,
}
