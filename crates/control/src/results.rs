//! What commands of the program print with `--json` where it is no answer of a daemon: transfers, round trips, relays,
//! guests, captures. Answers of a daemon are in [`crate::protocol`] and [`crate::status`].

pub mod demo;
pub mod doctor;
pub mod drops;
pub mod graph;
pub mod relay;
pub mod top;

use crate::delivery::Delivery;
use crate::history::WrongRevision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stack::oam::{Statistics, Tracer};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// What a command that failed, or whose usage is wrong, prints on standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failed {
    /// What was wrong, in one sentence with its causes.
    pub error: String,
    /// All that is wrong with a description; `null` where the error is about something else.
    pub problems: Option<Vec<crate::diagnostic::Diagnostic>>,
    /// With status 5: what has changed since the expected revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong_revision: Option<WrongRevision>,
    /// The status that the program ends with (docs/promises.md).
    pub exit_status: u8,
}

impl Failed {
    /// An error in words alone.
    pub fn new(error: String, exit_status: u8) -> Self {
        Failed { error, problems: None, wrong_revision: None, exit_status }
    }
}

/// A file or a stream that was carried: `send`, `receive`, `ip send`, `ip receive`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transferred {
    /// Octets carried.
    pub octets: u64,
    /// PDUs that carried them; `null` where a stream decides for itself.
    pub pdus: Option<u64>,
    /// PDUs that were sent again; `null` where nothing is, and at the receiver.
    pub pdus_repeated: Option<u64>,
    /// `reliable`: numbered PDUs with acknowledgements; `datagrams`: single PDUs. `null` for other protocols.
    #[serde(default)]
    pub transfer: Option<String>,
    /// What became of single PDUs, as far as this network knows.
    #[serde(default)]
    pub delivery: Option<Delivery>,
    /// Time from the first octet to the last.
    pub seconds: f64,
    /// Rate of the octets.
    pub mbit_per_s: f64,
    /// SHA-256 of the octets, in hexadecimal digits.
    pub sha256: String,
}

impl Transferred {
    /// So many octets in so much time.
    pub fn new(octets: u64, took: Duration, sha256: String) -> Self {
        let mbit_per_s = octets as f64 * 8.0 / 1e6 / took.as_secs_f64().max(1e-9);
        Transferred {
            octets,
            pdus: None,
            pdus_repeated: None,
            transfer: None,
            delivery: None,
            seconds: took.as_secs_f64(),
            mbit_per_s,
            sha256,
        }
    }
}

/// Requests and their answers: `ping`, `ip ping`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pinged {
    /// Requests sent.
    pub sent: u32,
    /// Answers.
    pub received: u32,
    /// Requests without an answer.
    pub lost: u32,
    /// Round trips in microseconds; `null` without any answer.
    pub rtt_us: Option<RoundTrips>,
    /// Where nothing answered: the last point of the circuit that did; `null` where something answered or no point was
    /// asked.
    #[serde(default)]
    pub last_point: Option<String>,
    /// Why OAM cells cannot reach the far end, and what became of a PDU that was sent instead; `null` where they can.
    #[serde(default)]
    pub pdu_test: Option<String>,
}

/// Round trips in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundTrips {
    /// The shortest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub median: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
    /// The standard deviation.
    pub deviation: f64,
}

impl From<&Statistics> for Pinged {
    fn from(s: &Statistics) -> Self {
        let (min, mean, median, p99, max) = (s.min_us, s.mean_us, s.median_us, s.p99_us, s.max_us);
        let rtt_us = RoundTrips { min, mean, median, p99, max, deviation: s.deviation_us };
        let lost = s.sent.saturating_sub(s.received);
        Pinged {
            sent: s.sent,
            received: s.received,
            lost,
            rtt_us: (s.received > 0).then_some(rtt_us),
            last_point: None,
            pdu_test: None,
        }
    }
}

/// The points of a circuit: `trace`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Traced {
    /// The host that asked.
    pub host: String,
    /// The circuit there.
    pub circuit: String,
    /// Probes sent.
    pub probes: u32,
    /// The switches that answered, in the order of the circuit.
    pub hops: Vec<Hop>,
    /// Round trips to the far end, in microseconds; none where it did not answer.
    pub end_rtt_us: Vec<f64>,
}

/// A point that answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// Its name, as a cell carries it.
    pub location: String,
    /// Round trips to it, in microseconds.
    pub rtt_us: Vec<f64>,
}

impl Traced {
    /// What probes of a circuit found.
    pub fn new(host: &str, circuit: wire::CircuitId, probes: u32, tracer: &Tracer) -> Self {
        let us = |rtts: &[Duration]| rtts.iter().map(|rtt| rtt.as_nanos() as f64 / 1e3).collect::<Vec<_>>();
        let hops = tracer.hops().iter();
        let hops = hops.map(|hop| Hop { location: hop.location.to_string(), rtt_us: us(&hop.rtts) }).collect();
        Traced { host: host.to_owned(), circuit: circuit.to_string(), probes, hops, end_rtt_us: us(tracer.end()) }
    }
}

/// A measurement of `ttcp`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ttcp {
    /// `transmit` or `receive`.
    pub role: String,
    /// Octets of the PDUs.
    pub octets: u64,
    /// PDUs.
    pub pdus: u64,
    /// Time from the first to the last.
    pub seconds: f64,
    /// Rate in 10^6 bit/s.
    pub mbit_per_s: f64,
    /// Rate in 2^20 bit/s, as the classic program prints it.
    pub mbit_2_20_per_s: f64,
    /// PDUs each second.
    pub pdus_per_s: f64,
    /// PDUs that the receiver expected: what the sender said, or `-n`; `null` without either, and at the sender.
    pub pdus_expected: Option<u64>,
    /// Those that did not come; `null` at the sender.
    pub pdus_lost: Option<u64>,
    /// PDUs that came otherwise than they were sent, with `--check`; `null` without it, and at the sender.
    pub pdus_changed: Option<u64>,
    /// What became of the PDUs, as far as this network knows.
    #[serde(default)]
    pub delivery: Option<Delivery>,
}

impl Ttcp {
    /// So many octets and PDUs in so much time.
    pub fn new(role: &str, octets: u64, pdus: u64, took: Duration) -> Self {
        let (bits, seconds) = (octets as f64 * 8.0, took.as_secs_f64().max(1e-9));
        Ttcp {
            role: role.to_owned(),
            octets,
            pdus,
            seconds: took.as_secs_f64(),
            mbit_per_s: bits / 1e6 / seconds,
            mbit_2_20_per_s: bits / f64::from(1 << 20) / seconds,
            pdus_per_s: pdus as f64 / seconds,
            pdus_expected: None,
            pdus_lost: None,
            pdus_changed: None,
            delivery: None,
        }
    }
}

/// The command that starts a guest: `vm`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Guest {
    /// The adapter that it gets.
    pub adapter: String,
    /// Where QEMU attaches it.
    pub socket: PathBuf,
    /// The command, word by word.
    pub command: Vec<String>,
}

/// A command is ready for what comes: `receive`, `listen` and `ttcp -r` print this on standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ready {
    /// The host with the circuit or address that is open.
    pub ready: String,
}

/// A capture has begun: `capture` prints this on standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureBegun {
    /// The link.
    pub capturing: String,
    /// Where records go; `-` is standard output.
    pub file: PathBuf,
}

/// A capture has ended: `capture`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Captured {
    /// Records written.
    pub records: u64,
    /// Cells or frames that passed and are no record.
    pub missed: u64,
    /// PDUs left out for lack of their first cells.
    pub incomplete: u64,
}

/// SDUs of one circuit in a capture or recording: `replay` prints a list of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replayed {
    /// The recording's stream, the link that they came from; of a capture 0 for what the link's first end sent, else 1.
    pub stream: u32,
    /// The circuit.
    pub circuit: String,
    /// `aal0` or `aal5`.
    pub aal: String,
    /// SDUs.
    pub sdus: u64,
    /// Their octets.
    pub octets: u64,
    /// Records that an application cannot send: OAM cells, cells beside PDUs, damaged PDUs.
    pub left_out: u64,
}

/// A single PDU: `receive --format jsonl` writes a line for each. `inject` reads such lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReceivedPdu {
    /// The circuit at the host; of a call the address.
    pub circuit: String,
    /// When it was received, in seconds since 1970.
    pub unix_seconds: f64,
    /// Its octets.
    pub octets: u64,
    /// AAL5 user-to-user indication.
    pub uu: u8,
    /// Whether a cell of it had its loss priority set.
    pub clp: bool,
    /// Whether its last cell had met congestion.
    pub congestion: bool,
    /// The SDU, two hexadecimal digits an octet.
    pub sdu: String,
}

/// What was put on a link: `inject`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InjectionDone {
    /// The link.
    pub link: String,
    /// The end that the cells seem to come from.
    pub from: String,
    /// Cells, PDUs or OAM cells of the input that were sent.
    pub units: u64,
    /// Cells that were put on the link.
    pub cells: u64,
    /// Cells that were left out on purpose.
    pub lost: u64,
    /// Cells that were sent twice.
    pub doubled: u64,
    /// Cells that changed places with the next.
    pub reordered: u64,
    /// Cells that were held back.
    pub delayed: u64,
    /// Headers with one wrong bit, which the link's receiver put right.
    pub corrected: u64,
    /// Headers that were wrong beyond that: counted `header_error` at the link.
    pub header_errors: u64,
    /// What the random choices began with: `--seed` repeats them.
    pub seed: u64,
}

/// Addresses of a host for calls: `address` prints a list of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostAddresses {
    /// The host.
    pub host: String,
    /// Its addresses, 40 hexadecimal digits each.
    pub addresses: Vec<String>,
    /// Whether its signalling link is up.
    pub up: bool,
}

/// The in-process stack answers: `ip serve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Serving {
    /// The address that answers.
    pub serving: IpAddr,
    /// The host.
    pub host: String,
    /// The circuit there.
    pub circuit: String,
}

/// The servers of an emulated LAN take calls: `lane serve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaneServing {
    /// The LAN's name.
    pub lan: String,
    /// The host.
    pub host: String,
    /// The configuration server's address.
    pub lecs: String,
    /// The LAN emulation server's address.
    pub les: String,
    /// The address of the broadcast and unknown server.
    pub bus: String,
}

/// A station has joined an emulated LAN, or has left it: `lane tap`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaneJoined {
    /// The device.
    pub device: String,
    /// The station's ATM address.
    pub address: String,
    /// Its MAC address.
    pub mac: String,
    /// Its identifier in the LAN; null when it is not in the LAN any more.
    pub lecid: Option<u16>,
}

/// The in-process stack listens: `ip receive` prints this on standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listening {
    /// Address and TCP port.
    pub listening: SocketAddr,
    /// The host.
    pub host: String,
    /// The circuit there.
    pub circuit: String,
}
