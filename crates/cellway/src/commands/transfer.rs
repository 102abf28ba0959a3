//! `cellway send` and `cellway receive`.

use crate::client::{self, Input, goes_on, interrupted};
use crate::context::Context;
use crate::outfile::{OutFile, Overwriting};
use crate::output;
use crate::target::{self, Purpose, Role, Target};
use crate::terminal::data_out;
use crate::units;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use control::results::Transferred;
use endpoint::SendError;
use endpoint::calls::Sap;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Sends standard input, or a file, over a circuit. Without --reliable it sends each PDU once, to any AAL5 peer, such
/// as aread on Linux. With --reliable the peer is `cellway receive --reliable`, and every octet arrives.
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The host to send from
    host: String,
    /// The circuit there, vpi.vci, or the address to call
    circuit: Target,
    /// The file [default: standard input]
    file: Option<PathBuf>,
    /// Octets in each PDU
    #[arg(long, default_value_t = 9180, value_parser = clap::value_parser!(u32).range(1..=65535))]
    pdu: u32,
    /// Number PDUs, wait for acknowledgements, retransmit lost PDUs
    #[arg(long)]
    reliable: bool,
    /// The service access point to call at an address: any, llc, l2:0c, l3:0b, snap:00a03e-0001 or
    /// vendor:0060d7-01000003
    #[arg(long, default_value_t = Sap::ANY)]
    sap: Sap,
    /// The longest SDU, in octets, that a call requests; a listener under a stock atmsigd accepts only its own value
    /// [default: 9188, or --pdu if that is more]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    sdu: Option<u16>,
}

/// Receives from a circuit to standard output, or to a file, until Ctrl-C; with --reliable or --count, until all has
/// arrived.
#[derive(Debug, Args)]
pub(crate) struct Receive {
    /// The host to receive at
    host: String,
    /// The circuit there, vpi.vci, or the host's address: the first call to it is answered
    circuit: Target,
    /// The file [default: standard output]. It is not changed until the first PDU arrives
    file: Option<PathBuf>,
    /// Receive a stream from `cellway send --reliable`, and end with it
    #[arg(long)]
    reliable: bool,
    /// End after so many PDUs
    #[arg(long)]
    count: Option<u64>,
    /// Give up after so many seconds without a PDU
    #[arg(long, value_name = "SECONDS", value_parser = units::seconds)]
    timeout: Option<Duration>,
    /// If the circuit is an address: answer calls for this service access point only
    #[arg(long, default_value_t = Sap::ANY)]
    sap: Sap,
    #[command(flatten)]
    overwriting: Overwriting,
}

impl Receive {
    /// Whether it runs until Ctrl-C and can begin anew.
    pub(crate) fn is_endless(&self) -> bool {
        self.file.is_none() && self.count.is_none() && !self.reliable
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

fn text(done: &Transferred) -> String {
    let Transferred { octets, seconds, mbit_per_s, sha256, .. } = done;
    format!("{octets} octets in {seconds:.3} s, {mbit_per_s:.1} Mbit/s, SHA-256 {sha256}")
}

/// `cellway send`
pub(crate) fn run_send(context: &Context, send: &Send) -> Result<()> {
    let stop = interrupted()?;
    let (input, size): (Box<dyn Read>, _) = match &send.file {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("{}", path.display()))?;
            let size = file.metadata()?.len();
            (Box::new(file), Some(size))
        }
        None => (Box::new(Input::new()?), None),
    };
    let mut input = Hashing { inner: input, hash: Sha256::new() };
    let mut purpose = Purpose { sap: send.sap, ..Purpose::new(Role::Calls) };
    // With --reliable a header comes before what a PDU carries: 9180 octets and the header are within the default.
    purpose.sdu_octets = send.sdu.unwrap_or(purpose.sdu_octets.max(u16::try_from(send.pdu)?));
    let (mut endpoint, channel, _held) = target::open(context, &send.host, send.circuit, purpose)?;
    let bar = output::progress(size);
    let begin = Instant::now();
    if send.reliable {
        let mut tell = |octets| {
            bar.set_position(octets);
            goes_on(&stop)
        };
        let (octets, repeated) =
            stack::transfer::send_stream(&mut endpoint, channel, &mut input, send.pdu as usize, &mut tell)?;
        bar.finish_and_clear();
        let done = Transferred::new(octets, begin.elapsed(), hex(input.hash));
        let done = Transferred { pdus_repeated: Some(repeated), ..done };
        return output::print(context, &done, || text(&done));
    }
    let (mut octets, mut pdus) = (0, 0);
    let mut buffer = vec![0; send.pdu as usize];
    while goes_on(&stop) {
        let n = input.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        while let Err(e) = endpoint.send_copy(channel, &buffer[..n]) {
            match e {
                SendError::Full => endpoint.wait_send(Some(Duration::from_millis(200)))?,
                e => bail!(e),
            };
            if !goes_on(&stop) {
                bail!("interrupted");
            }
        }
        octets += n as u64;
        pdus += 1;
        bar.set_position(octets);
    }
    while !endpoint.wait_sent(Some(Duration::from_millis(200)))? && goes_on(&stop) {}
    bar.finish_and_clear();
    let done = Transferred { pdus: Some(pdus), ..Transferred::new(octets, begin.elapsed(), hex(input.hash)) };
    output::print(context, &done, || text(&done))
}

/// `cellway receive`
pub(crate) fn run_receive(context: &Context, receive: &Receive) -> Result<()> {
    let stop = interrupted()?;
    let patience = receive.timeout;
    patience.into_iter().for_each(client::within);
    let out: Box<dyn Write> = match &receive.file {
        Some(path) => Box::new(OutFile::open(path, receive.overwriting)?),
        None => data_out(),
    };
    let mut out = Hashing { inner: out, hash: Sha256::new() };
    let purpose = Purpose { sap: receive.sap, ..Purpose::new(Role::Listens) };
    let (mut endpoint, channel, mut held) = target::open(context, &receive.host, receive.circuit, purpose)?;
    let bar = output::progress(None);
    let mut begin = Instant::now();
    let mut heard = Instant::now();
    let silent = |heard: Instant| patience.is_some_and(|p| heard.elapsed() > p);
    if receive.reliable {
        let mut last = 0;
        let mut tell = |octets| {
            bar.set_position(octets);
            if octets != last || last == 0 {
                if last == 0 && octets > 0 {
                    begin = Instant::now();
                }
                if octets != last {
                    heard = Instant::now();
                }
                last = octets;
            }
            goes_on(&stop) && !silent(heard)
        };
        let octets = stack::transfer::receive_stream(&mut endpoint, channel, &mut out, &mut tell)?;
        bar.finish_and_clear();
        let done = Transferred::new(octets, begin.elapsed(), hex(out.hash));
        return output::print_beside(context, receive.file.is_none(), &done, || text(&done));
    }
    let (mut octets, mut pdus) = (0u64, 0u64);
    while goes_on(&stop) && receive.count.is_none_or(|n| pdus < n) {
        match endpoint.receive(Some(Duration::from_millis(100)))? {
            Some(sdu) => {
                if pdus == 0 {
                    begin = Instant::now();
                }
                out.write_all(&sdu)?;
                octets += sdu.len() as u64;
                pdus += 1;
                heard = Instant::now();
                bar.set_position(octets);
            }
            None => {
                if pdus > 0 {
                    out.flush()?;
                }
                if held.is_over()? {
                    break;
                }
                if silent(heard) {
                    bail!("nothing came for {:?}", patience.unwrap_or_default());
                }
            }
        }
    }
    // If nothing has come, what was in the file stays.
    if pdus > 0 {
        out.flush()?;
    }
    bar.finish_and_clear();
    let done = Transferred { pdus: Some(pdus), ..Transferred::new(octets, begin.elapsed(), hex(out.hash)) };
    output::print_beside(context, receive.file.is_none(), &done, || text(&done))
}
