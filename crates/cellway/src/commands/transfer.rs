//! `cellway send` and `cellway receive`: what both have in common. Between two ends of ours a file is a stream of
//! reliable transfer (`docs/transfer.md`); to anybody else it is single PDUs.

mod forms;
mod receive;
mod send;

pub(crate) use receive::run_receive;
pub(crate) use send::run_send;

use crate::names::Destination;
use crate::outfile::Overwriting;
use crate::ready::Ready;
use crate::target::Reliable;
use crate::units;
use clap::Args;
use control::results::Transferred;
use endpoint::calls::Sap;
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Sends standard input, or a file, over a circuit.
///
/// If the far end is `cellway receive` in the same network, or on a call, the file arrives whole or both ends fail. Any
/// other AAL5 peer, such as aread on Linux, is sent single PDUs, each once; their loss is reported. A circuit that leaves
/// the network needs --reliable at both ends. The result says which was used: reliable or datagrams.
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The host to send from
    host: String,
    /// The circuit there, vpi.vci, or who is called: a host's name, a name of /etc/hosts.atm, or an address
    circuit: Destination,
    /// The file [default: standard input]
    file: Option<PathBuf>,
    /// Octets in each PDU
    #[arg(long, default_value_t = 9180, value_parser = clap::value_parser!(u32).range(1..=65535))]
    pdu: u32,
    /// Number PDUs, wait for acknowledgements, retransmit lost PDUs, whatever is known of the far end; waits 30 s for it
    #[arg(long)]
    reliable: bool,
    /// Send single PDUs, each once, whatever the far end is
    #[arg(long, conflicts_with = "reliable")]
    datagrams: bool,
    /// Fail if any single PDU is not delivered
    #[arg(long)]
    strict: bool,
    /// The service access point to call at an address: any, llc, l2:0c, l3:0b, snap:00a03e-0001 or
    /// vendor:0060d7-01000003
    #[arg(long, default_value_t = Sap::ANY)]
    sap: Sap,
    /// The longest SDU, in octets, that a call requests; a listener under a stock atmsigd accepts only its own value
    /// [default: 9188, or --pdu if that is more]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    sdu: Option<u16>,
}

/// Receives from a circuit to standard output, or to a file: a file from `cellway send` until it is whole, single PDUs
/// until Ctrl-C, or until --count of them have arrived.
#[derive(Debug, Args)]
pub(crate) struct Receive {
    /// The host to receive at
    host: String,
    /// The circuit there, vpi.vci, or the host's own name or address: the first call to it is answered
    circuit: Destination,
    /// The file [default: standard output]. It is not changed until the first PDU arrives
    file: Option<PathBuf>,
    /// Take only a stream of reliable transfer: needed where the circuit leaves the network, there at both ends
    #[arg(long)]
    reliable: bool,
    /// Take single PDUs as they are, from any sender
    #[arg(long, conflicts_with = "reliable")]
    datagrams: bool,
    /// End after so many single PDUs; implies --datagrams
    #[arg(long, conflicts_with = "reliable")]
    count: Option<u64>,
    /// How single PDUs are written; all but raw imply --datagrams
    #[arg(long, value_enum, default_value_t)]
    format: forms::Form,
    /// Fail if any single PDU is not delivered
    #[arg(long)]
    strict: bool,
    /// Give up after so many seconds without a PDU
    #[arg(long, value_name = "SECONDS", value_parser = units::seconds)]
    timeout: Option<Duration>,
    /// If the circuit is an address: answer calls for this service access point only
    #[arg(long, default_value_t = Sap::ANY)]
    sap: Sap,
    #[command(flatten)]
    overwriting: Overwriting,
    #[command(flatten)]
    ready: Ready,
}

impl Receive {
    /// Whether it runs until Ctrl-C and can begin anew: single PDUs stand for themselves, a stream does not.
    pub(crate) fn is_endless(&self) -> bool {
        self.file.is_none() && self.takes_datagrams() && self.count.is_none()
    }

    /// Whether single PDUs are asked for.
    fn takes_datagrams(&self) -> bool {
        self.datagrams || self.count.is_some() || self.format != forms::Form::Raw
    }
}

/// Counts and hashes what passes.
struct Hashing<T> {
    inner: T,
    hash: Sha256,
}

impl<T: Read> Read for Hashing<T> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.hash.update(&buffer[..n]);
        Ok(n)
    }
}

impl<T: Write> Write for Hashing<T> {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        let n = self.inner.write(octets)?;
        self.hash.update(&octets[..n]);
        Ok(n)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// By reliable transfer, in results.
const RELIABLE: &str = "reliable";
/// By single PDUs, in results.
const DATAGRAMS: &str = "datagrams";

/// What a command speaks by its options.
fn speaks(reliable: bool, datagrams: bool) -> Reliable {
    match (reliable, datagrams) {
        (true, _) => Reliable::Always,
        (_, true) => Reliable::Never,
        _ => Reliable::Negotiated,
    }
}

fn text(done: &Transferred) -> String {
    let Transferred { octets, seconds, mbit_per_s, sha256, .. } = done;
    let how = done.transfer.as_deref().map(|how| format!(", {how}")).unwrap_or_default();
    let lost = done.delivery.as_ref().and_then(control::delivery::Delivery::text);
    let lost = lost.map(|lost| format!("\n{lost}")).unwrap_or_default();
    format!("{octets} octets in {seconds:.3} s, {mbit_per_s:.1} Mbit/s{how}, SHA-256 {sha256}{lost}")
}
