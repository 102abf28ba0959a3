//! Named hosts, switches and links, and the circuits over them.
//!
//! In: a [`Description`] of what shall be. Out: nodes, links and routes in a [`crate::Network`] that make it so, hop by hop;
//! of a second description, only the difference, so that circuits that stay the same are not touched.

mod fabric;
mod graph;
mod rate;
mod rehearse;

pub use fabric::{Applied, CircuitTable, Fabric};
pub use rate::{RateError, parse_circuit_rate, parse_link_rate};

use crate::frame::Aal;
use crate::network::{ConnectError, LinkConfig};
use crate::switch::RouteError;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use traffic::{Contract, Refused};
use wire::CircuitId;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Station {
    /// A host of this network, with a host interface.
    Host,
    /// A switch of this network.
    Switch,
    /// Something at the far end of an external link: circuits may end there; nothing is installed in it.
    Outside,
}

/// One end of a link as written: `alpha`, or `s1:0` with its port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    /// Name of the station.
    pub station: String,
    /// Its port; without one, its first free port.
    pub port: Option<u16>,
}

impl FromStr for Attachment {
    type Err = TopologyError;
    fn from_str(s: &str) -> Result<Self, TopologyError> {
        let bad = || TopologyError::BadAttachment(s.to_owned());
        let (station, port) = match s.split_once(':') {
            Some((station, port)) => (station, Some(port.parse().map_err(|_| bad())?)),
            None => (s, None),
        };
        if station.is_empty() || station.contains(char::is_whitespace) {
            return Err(bad());
        }
        Ok(Attachment { station: station.to_owned(), port })
    }
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.station),
            None => f.write_str(&self.station),
        }
    }
}

/// A link as described.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkDescription {
    /// What it joins.
    pub ends: [Attachment; 2],
    /// Its properties.
    pub config: LinkConfig,
}

/// One end of a circuit as written: `alpha 0.100`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CircuitEnd {
    /// Name of a host, or of something outside.
    pub station: String,
    /// The circuit as that station names it.
    pub circuit: CircuitId,
}

impl FromStr for CircuitEnd {
    type Err = TopologyError;
    fn from_str(s: &str) -> Result<Self, TopologyError> {
        let bad = || TopologyError::BadCircuitEnd(s.to_owned());
        let mut words = s.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(station), Some(circuit), None) => {
                Ok(CircuitEnd { station: station.to_owned(), circuit: circuit.parse().map_err(|_| bad())? })
            }
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for CircuitEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.station, self.circuit)
    }
}

/// A circuit as described. Two ends: both ways. More: from the first to all others, one way.
#[derive(Debug, Clone, PartialEq)]
pub struct CircuitDescription {
    /// Its ends, the root first.
    pub ends: Vec<CircuitEnd>,
    /// Adaptation layer.
    pub aal: Aal,
    /// Traffic contract.
    pub contract: Contract,
}

impl CircuitDescription {
    /// Whether data goes from the first end to the others only.
    pub fn is_multipoint(&self) -> bool {
        self.ends.len() > 2
    }
}

/// What a host is told of a circuit that ends at it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CircuitOptions {
    /// Adaptation layer.
    pub aal: Aal,
    /// Traffic contract.
    pub contract: Contract,
    /// Whether the host may send: not at the leaves of a multipoint circuit.
    pub sends: bool,
    /// Whether the host receives: not at the root of a multipoint circuit.
    pub receives: bool,
}

/// What shall exist.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Description {
    /// Names and what they stand for.
    pub stations: BTreeMap<String, Station>,
    /// Links.
    pub links: Vec<LinkDescription>,
    /// Circuits.
    pub circuits: Vec<CircuitDescription>,
}

/// Why a description, or a change, cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum TopologyError {
    #[error("\"{0}\" is no end of a link: write a name, or name:port")]
    BadAttachment(String),
    #[error("\"{0}\" is no end of a circuit: write a host and vpi.vci, like alpha 0.100")]
    BadCircuitEnd(String),
    #[error("nothing is named {0}")]
    NoStation(String),
    #[error("{0} exists already")]
    StationExists(String),
    #[error("{0} still has links")]
    StationInUse(String),
    #[error("{0} is a switch: circuits end at hosts")]
    EndsAtSwitch(String),
    #[error("a circuit needs two ends at least, at different hosts")]
    TooFewEnds,
    #[error("no way from {from} to {to}")]
    NoWay { from: String, to: String },
    #[error("{circuit} is in use already on the link {link}")]
    LabelInUse { circuit: CircuitId, link: String },
    #[error("no switch between {from} and {to} could translate {from_circuit} into {to_circuit}")]
    NoTranslation { from: String, from_circuit: CircuitId, to: String, to_circuit: CircuitId },
    #[error("no free circuit on the link {0}")]
    NoFreeLabel(String),
    #[error("no link {0}")]
    NoLink(String),
    #[error("no circuit {0}")]
    NoCircuit(String),
    #[error("a circuit with the end {0} exists already")]
    CircuitExists(String),
    #[error("the link {0} would lead from a station to itself")]
    Loop(String),
    #[error("{switch} has the ports 0 to {last}, and no port {port}: give it more ports, or the link another")]
    NoPort { switch: String, port: u16, last: u16 },
    #[error("the link {link}: {cause}")]
    Connect { link: String, cause: ConnectError },
    #[error("the switch {switch}: {cause}")]
    Route { switch: String, cause: RouteError },
    #[error("the link {link}: {cause}")]
    Admission { link: String, cause: Refused },
    #[error("the host {host} refuses {circuit}: {cause}")]
    Host { host: String, circuit: CircuitId, cause: String },
}
