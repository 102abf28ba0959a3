//! Alarms and monitoring of I.610, as `status`, metrics and `cellway oam` tell them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use switch::Indication;
use switch::oam::{Alarm, Results};
use wire::Time;

/// An alarm of a circuit's end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AlarmStatus {
    /// `ais`, `loc` or `rdi`.
    pub alarm: String,
    /// The defect's type: `link`, `path`, `continuity`, `unspecified`, or a code of others.
    pub defect: String,
    /// Where the defect is: a point's name, or octets of others.
    pub location: String,
    /// Since when, in seconds of the engine's uptime.
    pub since_s: f64,
}

fn seconds(at: Time) -> f64 {
    at.as_nanos() as f64 * 1e-9
}

impl From<&Alarm> for AlarmStatus {
    fn from(alarm: &Alarm) -> Self {
        AlarmStatus {
            alarm: alarm.kind.name().to_owned(),
            defect: alarm.defect.kind.to_string(),
            location: alarm.defect.location.to_string(),
            since_s: seconds(alarm.since),
        }
    }
}

/// Everything that has an alarm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OamAlarms {
    /// Switches whose links or paths have a defect.
    pub switches: Vec<SwitchAlarms>,
    /// Ends of circuits with an alarm.
    pub circuits: Vec<EndAlarms>,
}

/// A switch's defects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchAlarms {
    /// The switch.
    pub switch: String,
    /// By port and path.
    pub alarms: Vec<SwitchAlarmStatus>,
}

/// The alarms of one end of a circuit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndAlarms {
    /// The circuit's name.
    pub circuit: String,
    /// The end, `host:port vpi.vci`.
    pub end: String,
    /// What it has.
    pub alarms: Vec<AlarmStatus>,
}

/// A defect at a switch's port, of which it tells circuits by AIS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchAlarmStatus {
    /// The port.
    pub port: u16,
    /// The path that has the alarm; `null`: the link is down.
    pub path: Option<u16>,
    /// The defect's type.
    pub defect: String,
    /// Where it is.
    pub location: String,
    /// Since when, in seconds of the engine's uptime.
    pub since_s: f64,
    /// Circuits that are told.
    pub circuits: u32,
}

impl From<&Indication> for SwitchAlarmStatus {
    fn from(told: &Indication) -> Self {
        SwitchAlarmStatus {
            port: told.port,
            path: told.path.map(|vpi| vpi.get()),
            defect: told.defect.kind.to_string(),
            location: told.defect.location.to_string(),
            since_s: seconds(told.since),
            circuits: told.circuits,
        }
    }
}

/// What performance monitoring has found in one direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MonitoringStatus {
    /// Cells of a block, as this end sends it; `null` of what comes.
    pub block: Option<u16>,
    /// Blocks that were judged.
    pub blocks: u64,
    /// User cells that were sent in them.
    pub cells: u64,
    /// Cells that did not arrive.
    pub lost: u64,
    /// Of these, cells of CLP 0.
    pub lost_clp0: u64,
    /// Cells that arrived and were not sent.
    pub misinserted: u64,
    /// Blocks with errored parities.
    pub errored_blocks: u64,
    /// Parities that differ.
    pub errored_parities: u64,
    /// Monitoring cells, or reports, that did not arrive.
    pub monitoring_lost: u64,
}

impl MonitoringStatus {
    fn new(block: Option<u16>, found: &Results) -> Self {
        MonitoringStatus {
            block,
            blocks: found.blocks,
            cells: found.cells,
            lost: found.lost,
            lost_clp0: found.lost_clp0,
            misinserted: found.misinserted,
            errored_blocks: found.errored_blocks,
            errored_parities: found.errored_parities,
            monitoring_lost: found.monitoring_lost,
        }
    }
}

/// OAM of one end of a circuit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OamStatus {
    /// The host.
    pub host: String,
    /// The circuit there.
    pub circuit: String,
    /// States of alarm, the most important first.
    pub alarms: Vec<AlarmStatus>,
    /// Whether this end sends continuity check cells.
    pub continuity_sent: bool,
    /// Whether it expects them.
    pub continuity_checked: bool,
    /// What the other end reports of what this one sends.
    pub sent: Option<MonitoringStatus>,
    /// What this end has found of what comes.
    pub received: Option<MonitoringStatus>,
    /// What came of the last request made here: `asking`, `confirmed`, `denied` or `timed out`.
    pub request: Option<String>,
    /// Requests of the other end that were denied.
    pub refused: u64,
}

impl OamStatus {
    /// What a host says of a circuit.
    pub fn new(host: String, circuit: String, said: &host::OamStatus) -> Self {
        OamStatus {
            host,
            circuit,
            alarms: said.alarms.iter().map(Into::into).collect(),
            continuity_sent: said.continuity[0],
            continuity_checked: said.continuity[1],
            sent: said.sent.as_ref().map(|(block, found)| MonitoringStatus::new(Some(*block), found)),
            received: said.received.as_ref().map(|found| MonitoringStatus::new(None, found)),
            request: said.request.map(|(_, outcome)| outcome.name().to_owned()),
            refused: said.refused,
        }
    }
}
