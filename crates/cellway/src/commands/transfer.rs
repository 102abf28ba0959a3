//! `cellway send` and `cellway receive`.

use crate::client::{goes_on, interrupted};
use crate::context::Context;
use crate::outfile::OutFile;
use crate::output;
use crate::target::{self, Purpose, Role, Target};
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

/// Sends standard input, or a file, over a circuit. Without --reliable each PDU goes once: the peer may be anything
/// that speaks AAL5, such as aread on Linux. With it, the peer is `cellway receive --reliable`, and every octet
/// arrives.
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The host to send from
    host: String,
    /// The circuit there, vpi.vci, or the address to call
    circuit: Target,
    /// The file; standard input if it is not given
    file: Option<PathBuf>,
    /// Octets in each PDU
    #[arg(long, default_value_t = 9180, value_parser = clap::value_parser!(u32).range(1..=65535))]
    pdu: u32,
    /// Number PDUs, wait for acknowledgements, send again what is lost
    #[arg(long)]
    reliable: bool,
    /// An address is called for this service access point: any, llc, l2:0c, l3:0b, snap:00a03e-0001 or
    /// vendor:0060d7-01000003
    #[arg(long, default_value_t = Sap::ANY)]
    sap: Sap,
    /// The longest SDU, in octets, that a call asks for; what listens under a stock atmsigd wants its own
    /// [default: 9188, or --pdu if that is more]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    sdu: Option<u16>,
}

/// Receives from a circuit to standard output, or to a file, until Ctrl-C; with --reliable or --count, to the end.
#[derive(Debug, Args)]
pub(crate) struct Receive {
    /// The host to receive at
    host: String,
    /// The circuit there, vpi.vci, or the host's address: the first call to it is answered
    circuit: Target,
    /// The file; standard output if it is not given. What is in it stays until something comes
    file: Option<PathBuf>,
    /// A stream from `cellway send --reliable`; ends with it
    #[arg(long)]
    reliable: bool,
    /// End after so many PDUs
    #[arg(long)]
    count: Option<u64>,
    /// Give up if nothing comes for so many seconds
    #[arg(long)]
    timeout: Option<u64>,
    /// Answer calls for this service access point only, where the circuit is an address
    #[arg(long, default_value_t = Sap::ANY)]
    sap: Sap,
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
        None => (Box::new(std::io::stdin().lock()), None),
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
    let out: Box<dyn Write> = match &receive.file {
        Some(path) => Box::new(OutFile::open(path)?),
        None => Box::new(output::stdout()),
    };
    let mut out = Hashing { inner: out, hash: Sha256::new() };
    let purpose = Purpose { sap: receive.sap, ..Purpose::new(Role::Listens) };
    let (mut endpoint, channel, mut held) = target::open(context, &receive.host, receive.circuit, purpose)?;
    let bar = output::progress(None);
    let mut begin = Instant::now();
    let mut heard = Instant::now();
    let patience = receive.timeout.map(Duration::from_secs);
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
                    bail!("nothing came for {} s", patience.unwrap_or_default().as_secs());
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
