//! Named hosts, switches and links, and the circuits over them.
//!
//! Three parts: the inventory knows stations, ports and links by name; the [`Router`] finds a circuit's way over them,
//! and keeps what circuits have taken of labels and rates; the [`Fabric`] installs what these decide in a
//! [`crate::Network`], hop by hop. The router touches no network: a change can be tried on a router alone first.

mod fabric;
mod inventory;
mod labels;
mod rate;
mod rename;
mod router;

pub use fabric::{CircuitTable, Fabric};
pub use inventory::{LinkKey, StationKind};
pub use rate::{RateError, parse_circuit_bound, parse_circuit_rate, parse_link_rate};
pub use rename::{renamed_circuit, renamed_link};
pub use router::{Hop, Route, RoutedCircuit, Router, SwitchHop};

use crate::frame::FrameAal;
use crate::network::{ConnectError, LinkConfig};
use crate::switch::{Label, RouteError};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use traffic::{Contract, Refused};
use wire::{CircuitId, Vci, Vpi};

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

/// One end of a circuit as written: `alpha 0.100`; `alpha:1 0.100` with the station's port; `s1:0 0.100` for what comes
/// in at a switch's port; `s1:0 7.*` for a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircuitEnd {
    /// Name of a host, of something outside, or of a switch.
    pub station: String,
    /// The port at which the circuit is, where the station has several; a switch's must be said.
    pub port: Option<u16>,
    /// The circuit as that station names it; of a path, VCI 0.
    pub circuit: CircuitId,
    /// Whether it is the path with all its channels.
    pub path: bool,
}

impl CircuitEnd {
    /// A channel at a host or at something outside.
    pub fn new(station: impl Into<String>, circuit: CircuitId) -> Self {
        CircuitEnd { station: station.into(), port: None, circuit, path: false }
    }

    /// What a switch goes by.
    pub fn label(&self) -> Label {
        if self.path { Label::Vp(self.circuit.vpi) } else { Label::Vc(self.circuit) }
    }
}

impl FromStr for CircuitEnd {
    type Err = TopologyError;
    fn from_str(s: &str) -> Result<Self, TopologyError> {
        let bad = || TopologyError::BadCircuitEnd(s.to_owned());
        let mut words = s.split_whitespace();
        let (Some(station), Some(circuit), None) = (words.next(), words.next(), words.next()) else {
            return Err(bad());
        };
        let Attachment { station, port } = station.parse().map_err(|_| bad())?;
        let (circuit, path) = match circuit.strip_suffix(".*").or_else(|| circuit.strip_suffix("/*")) {
            Some(vpi) => {
                let vpi = vpi.parse().ok().and_then(Vpi::new).ok_or_else(bad)?;
                (CircuitId { vpi, vci: Vci(0) }, true)
            }
            None => (circuit.parse().map_err(|_| bad())?, false),
        };
        Ok(CircuitEnd { station, port, circuit, path })
    }
}

impl fmt::Display for CircuitEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.station)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        write!(f, " {}", self.label())
    }
}

/// A circuit as described. Two ends: both ways, unless it is one way. More: from the first to all others, one way.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CircuitDescription {
    /// Its ends, the root first.
    pub ends: Vec<CircuitEnd>,
    /// Adaptation layer.
    pub aal: FrameAal,
    /// Traffic contract, of the direction from the first end; of the other too if [`CircuitDescription::back`] says
    /// nothing.
    pub contract: Contract,
    /// Traffic contract of the direction to the first end, where it is another.
    pub back: Option<Contract>,
    /// Whether data goes from the first end to the other only.
    pub one_way: bool,
    /// What its end points do from the beginning.
    pub oam: OamOptions,
    /// Labels of links between its two ends, in order, each at a switch's port. Links that are not named have a label
    /// that the router chooses.
    pub via: Vec<CircuitEnd>,
}

/// What the OAM end points of a circuit do, at both ends (I.610).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OamOptions {
    /// Continuity check both ways.
    pub continuity: bool,
    /// Performance monitoring both ways, in blocks of so many cells.
    pub monitoring: Option<u16>,
}

impl CircuitDescription {
    /// Whether it has more than two ends.
    pub fn is_multipoint(&self) -> bool {
        self.ends.len() > 2
    }

    /// Whether data goes both ways.
    pub fn is_both_ways(&self) -> bool {
        !self.one_way && !self.is_multipoint()
    }

    /// The contract of the direction to the first end.
    pub fn contract_back(&self) -> Contract {
        self.back.unwrap_or(self.contract)
    }

    /// The contract of what goes away from the first end, or to it.
    pub(crate) fn contract_of(&self, away: bool) -> Contract {
        if away { self.contract } else { self.contract_back() }
    }

    /// Its name in output: its ends.
    pub fn name(&self) -> String {
        self.ends.iter().map(ToString::to_string).collect::<Vec<_>>().join(" - ")
    }
}

/// What a host is told of a circuit that ends at it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CircuitOptions {
    /// Adaptation layer.
    pub aal: FrameAal,
    /// Traffic contract of what it sends.
    pub contract: Contract,
    /// Whether the host may send: not at the leaves of a multipoint circuit.
    pub sends: bool,
    /// Whether the host receives: not at the root of a multipoint circuit.
    pub receives: bool,
    /// What its end point does from the beginning.
    pub oam: OamOptions,
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
    #[error(
        "\"{0}\" is no end of a circuit: write a host and vpi.vci, such as alpha 0.100, or a path, such as s1:0 7.*"
    )]
    BadCircuitEnd(String),
    #[error("nothing is named {0}")]
    NoStation(String),
    #[error("{0} exists already")]
    StationExists(String),
    #[error("{0} still has links")]
    StationInUse(String),
    #[error("{0} is a switch: circuits end at hosts, or at a switch's port, such as {0}:0")]
    EndsAtSwitch(String),
    #[error("no link is at port {port} of {station}")]
    NoLinkAt { station: String, port: u16 },
    #[error("a path ends in paths and a channel in channels: write vpi.* at all ends or at none")]
    MixedEnds,
    #[error("the path {0} still carries circuits: remove those first")]
    PathInUse(String),
    #[error("{station} has {what}: {bound} is less than it uses, {used}; remove what uses it first")]
    BelowUse { station: String, what: &'static str, bound: usize, used: usize },
    #[error("{0} has no bounds that could be changed")]
    NoBounds(String),
    #[error("the link {link} cannot change its {what} while it exists: remove it and add it again")]
    FixedProperty { link: String, what: &'static str },
    #[error(
        "the switch {switch} has room for {bound} routes, and this circuit needs {needed} more than it has: give it more max_routes"
    )]
    NoRoutes { switch: String, bound: usize, needed: usize },
    #[error("the link {0} still carries circuits: remove those first")]
    LinkInUse(String),
    #[error("a circuit to many ends chooses its links and labels itself: remove `via`")]
    ViaManyEnds,
    #[error("{at}: a circuit has one label on each link, and this link has {label} by another part of the description")]
    TwoLabels { at: String, label: Label },
    #[error("a circuit needs two ends at least, at different hosts")]
    TooFewEnds,
    #[error("no way from {from} to {to}")]
    NoWay { from: String, to: String },
    #[error("{label} is in use already on the link {link}")]
    LabelInUse { label: Label, link: String },
    #[error(
        "{end}: calls on the link {link} may be given this label, and a host has one circuit of a label: choose another, or other labels of calls (signalling = {{ labels = ... }})"
    )]
    LabelOfCalls { end: String, link: String },
    #[error("{label} does not pass the link {link}, whose cell headers hold VPIs up to {most}: choose another VPI")]
    VpiTooLarge { label: Label, link: String, most: u16 },
    #[error("no switch between {from} and {to} could translate {from_label} into {to_label}")]
    NoTranslation { from: String, from_label: Label, to: String, to_label: Label },
    #[error("no free circuit on the link {0}")]
    NoFreeLabel(String),
    #[error("no link {0}")]
    NoLink(String),
    #[error("no circuit {0}")]
    NoCircuit(String),
    #[error("a circuit with the end {0} exists already")]
    CircuitExists(String),
    #[error("port {port} of {station} has a link already")]
    PortTaken { station: String, port: u16 },
    #[error("the link {0} would lead from outside to outside")]
    BothOutside(String),
    #[error("the link {0} would lead from a station to itself")]
    Loop(String),
    #[error("{switch} has the ports 0 to {last}, and no port {port}: give it more ports, or the link another")]
    NoPort { switch: String, port: u16, last: u16 },
    #[error("the link {link}: {cause}")]
    Connect { link: String, cause: ConnectError },
    #[error("the switch {switch}: {cause}")]
    Route { switch: String, cause: RouteError },
    #[error("the link {link}, from {from}: {cause}")]
    Admission { link: String, from: String, cause: Refused },
    #[error(
        "{parameter} from {from} to {to} is {allowed_us} us, and the hops take {sum_us} us: {hops}; {} us too few",
        sum_us - allowed_us
    )]
    Delay { parameter: &'static str, from: String, to: String, allowed_us: u64, sum_us: u64, hops: String },
    #[error("the host {host} refuses {circuit}: {cause}")]
    Host { host: String, circuit: CircuitId, cause: String },
}
