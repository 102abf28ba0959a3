//! What the demonstration measured: `demo`.

use super::{Captured, Pinged, Transferred};
use crate::status::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A PDU has crossed the system.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Demo {
    /// The file that two client processes carried.
    pub file: DemoFile,
    /// OAM loopback.
    pub oam: DemoOam,
    /// Pings by IP over ATM.
    pub ip_ping: DemoIpPing,
    /// A transfer by TCP over IP over ATM.
    pub tcp: DemoTransfer,
    /// What was recorded meanwhile.
    pub capture: DemoCapture,
    /// The network after that.
    pub status: Status,
    /// Cargo's profile of the program, after its folder: `release`, `demo` (only the data path is optimised), `debug`. None if it is
    /// installed elsewhere.
    pub profile: Option<String>,
    /// Throughput over the size of the PDU.
    pub ttcp: Vec<DemoThroughput>,
    /// How long the demonstration took.
    pub seconds: f64,
}

/// A file that was carried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DemoFile {
    /// Its path.
    pub path: String,
    /// Its length.
    pub octets: u64,
    /// At the sender.
    pub sent: Transferred,
    /// At the receiver.
    pub received: Transferred,
}

/// OAM loopback.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DemoOam {
    /// To the first switch.
    pub segment: Pinged,
    /// To the far end.
    pub end_to_end: Pinged,
}

/// Pings by IP over ATM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DemoIpPing {
    /// Of 56 octets.
    pub octets_56: Pinged,
    /// Of 9000 octets.
    pub octets_9000: Pinged,
}

/// A transfer at both ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DemoTransfer {
    /// At the sender.
    pub sent: Transferred,
    /// At the receiver.
    pub received: Transferred,
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DemoCapture {
    /// The figures.
    #[serde(flatten)]
    pub captured: Captured,
    /// The file.
    pub path: PathBuf,
}

/// Throughput with PDUs of one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DemoThroughput {
    /// Octets of a PDU.
    pub pdu_octets: usize,
    /// Rate of what arrived.
    pub gbit_s: f64,
    /// Rate of memcpy with blocks of this size, in the same run.
    pub memcpy_gbit_s: f64,
    /// The first as a share of the second.
    pub vs_memcpy: f64,
    /// PDUs sent.
    pub sent: u64,
    /// PDUs that arrived.
    pub arrived: u64,
    /// Of these, PDUs that the receiver read where the sender had written them.
    pub in_place: u64,
}
