//! What `top` prints with `--json`, and what it draws: two statuses of a network as rates each second.

use crate::openers::Opener;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A running network between two moments: `top`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopSample {
    /// Seconds between the two moments; 0 if there is only one yet, and all rates are 0 then.
    pub seconds: f64,
    /// Seconds since the engine began.
    pub uptime_s: f64,
    /// Share of its time that the engine was busy.
    pub busy_share: f64,
    /// The number of the last change.
    pub revision: u64,
    /// Circuits that there are; `circuits` has at most 1000, those that are open or have counted something.
    pub circuit_count: usize,
    /// Links.
    pub links: Vec<TopLink>,
    /// Circuits.
    pub circuits: Vec<TopCircuit>,
    /// Calls of applications, and calls through switches.
    pub calls: Vec<TopCall>,
    /// Endpoints of applications.
    pub endpoints: Vec<TopEndpoint>,
    /// Queues in which something waits.
    pub queues: Vec<TopQueue>,
    /// What was dropped, by place, circuit, direction and reason.
    pub drops: Vec<TopDrop>,
    /// Alarms, and links that are down.
    pub alarms: Vec<TopAlarm>,
    /// The hops of the circuit that `--circuit` names, from its first end; `null` without it.
    pub path: Option<TopPath>,
}

/// One direction of a link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopDirection {
    /// Cells that arrived, each second.
    pub cells_per_s: f64,
    /// PDUs that arrived, each second.
    pub pdus_per_s: f64,
    /// What was dropped on it, each second.
    pub dropped_per_s: f64,
    /// Cells (or frames) that are on it now.
    pub queued: u64,
    /// Share of the link's rate; `null` of a link without one.
    pub utilization: Option<f64>,
}

/// A link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopLink {
    /// Its name.
    pub link: String,
    /// `up`, `down`, `taken down`, or what is outside, in words.
    pub state: String,
    /// Whether it passes anything.
    pub up: bool,
    /// Circuits over it.
    pub circuits: usize,
    /// From its first end.
    pub from_a: TopDirection,
    /// From its second end.
    pub from_b: TopDirection,
}

/// An end of a circuit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopEnd {
    /// As it was written.
    pub end: String,
    /// The adaptation layer that it is open with.
    pub open: Option<String>,
    /// Who has it open.
    pub opener: Option<Opener>,
    /// PDUs from its application, each second.
    pub sent_pdus_per_s: f64,
    /// PDUs to its application, each second.
    pub received_pdus_per_s: f64,
    /// What was dropped at it, each second.
    pub dropped_per_s: f64,
    /// Its alarms: `ais`, `loc`, `rdi`.
    pub alarms: Vec<String>,
}

/// A circuit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopCircuit {
    /// Its ends.
    pub circuit: String,
    /// Service category.
    pub category: String,
    /// PDUs to applications at all ends, each second.
    pub pdus_per_s: f64,
    /// Their bits, each second.
    pub bits_per_s: f64,
    /// What was dropped at its ends and in switches, each second.
    pub dropped_per_s: f64,
    /// Cells that wait in switches.
    pub queued: u64,
    /// Its ends.
    pub ends: Vec<TopEnd>,
}

/// A call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopCall {
    /// The host, or the switch that it passes.
    pub station: String,
    /// Its number at a host; `null` at a switch.
    pub call: Option<u64>,
    /// `offered`, `calling`, `alerting`, `answered`, `up`; at a switch `passing`.
    pub state: String,
    /// Who calls; at a switch the port and circuit where it came in.
    pub from: String,
    /// Who is called; at a switch the port and circuit where it goes out.
    pub to: String,
    /// VPI and VCI at the host, once they are known.
    pub circuit: Option<String>,
    /// The user whose application it is.
    pub uid: Option<u32>,
    /// Seconds since it began; `null` at a switch.
    pub seconds: Option<f64>,
}

/// An endpoint of an application.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopEndpoint {
    /// The host that it is at.
    pub host: String,
    /// Its number there.
    pub endpoint: u64,
    /// Whose it is; `null` until it has a circuit of the description open.
    pub opener: Option<Opener>,
    /// Event strategy.
    pub events: String,
    /// Data path.
    pub path: String,
    /// Channels open.
    pub channels: usize,
    /// SDUs that its application has sent and that have not left its host.
    pub waiting_sdus: usize,
    /// PDUs that its application sent, each second.
    pub sent_pdus_per_s: f64,
    /// PDUs that it was given, each second.
    pub received_pdus_per_s: f64,
    /// Bits of both, each second.
    pub bits_per_s: f64,
    /// What was dropped, each second.
    pub dropped_per_s: f64,
}

/// A queue in which something waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopQueue {
    /// The link and its direction, the switch and port, or the endpoint.
    pub place: String,
    /// Cells, frames or SDUs that wait.
    pub queued: u64,
    /// So many at most; `null` where the bound is not told.
    pub bound: Option<u64>,
}

/// What was dropped at a place for one reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopDrop {
    /// What dropped it: a host, a port of a switch, a link, an endpoint, an adapter.
    pub place: String,
    /// The circuit's name; `null` where the place counts no circuits.
    pub circuit: Option<String>,
    /// Which way it went.
    pub direction: String,
    /// Why: a name that `explain` knows.
    pub reason: String,
    /// How many since the network began.
    pub count: u64,
    /// How many each second.
    pub per_s: f64,
}

/// An alarm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopAlarm {
    /// The link, the switch and port, or the end of a circuit.
    pub place: String,
    /// `ais`, `loc`, `rdi`, `defect`, or `link down`.
    pub alarm: String,
    /// The defect's type.
    pub defect: String,
    /// Where the defect is.
    pub location: String,
    /// For how many seconds; `null` where that is not told.
    pub seconds: Option<f64>,
}

/// A circuit from its first end to its last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopPath {
    /// The circuit.
    pub circuit: String,
    /// Ends, links and switches in the order of the circuit.
    pub hops: Vec<TopHop>,
}

/// A hop of a circuit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopHop {
    /// The end, the link with the circuit's label, or the switch.
    pub place: String,
    /// `end`, `link` or `switch`.
    pub kind: String,
    /// Away from the first end, each second: PDUs at an end, cells elsewhere, of a link those of all its circuits.
    pub forward_per_s: f64,
    /// Towards the first end, each second.
    pub backward_per_s: f64,
    /// Cells that wait; of a link those of all its circuits.
    pub queued: u64,
    /// What was dropped, each second.
    pub dropped_per_s: f64,
    /// Who has an end open, a link's state, or a switch's rate beside the contract's.
    pub note: String,
}
