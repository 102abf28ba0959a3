//! `cellway receive`.

use super::forms::{Form, Pdus};
use super::{DATAGRAMS, Hashing, RELIABLE, Receive, hex, speaks, text};
use crate::client::{self, goes_on, interrupted};
use crate::context::Context;
use crate::names::Destination;
use crate::outfile::OutFile;
use crate::output;
use crate::target::{self, Held, Purpose, Reliable, Role, Target};
use crate::terminal::data_out;
use crate::usage;
use anyhow::{Result, bail};
use control::results::Transferred;
use endpoint::{ChannelId, Endpoint};
use indicatif::ProgressBar;
use sha2::{Digest, Sha256};
use stack::transfer::{self, TransferError};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Between two looks at Ctrl-C, and between two invitations.
const LOOK: Duration = Duration::from_millis(100);

/// How long a sender outside this network may be silent in the middle of a stream.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at whether a sender in this network is still there.
const LIVENESS: Duration = Duration::from_secs(2);

/// What comes, and how far it is.
struct Output {
    to: Hashing<Box<dyn Write>>,
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
    /// How long nothing may come.
    patience: Option<Duration>,
    octets: u64,
    pdus: u64,
    /// When the first octets came.
    begin: Option<Instant>,
    heard: Instant,
}

impl Output {
    fn open(receive: &Receive) -> Result<Self> {
        let stop = interrupted()?;
        receive.timeout.into_iter().for_each(client::within);
        let to: Box<dyn Write> = match &receive.file {
            Some(path) => Box::new(OutFile::open(path, receive.overwriting)?),
            None => data_out(),
        };
        Ok(Output {
            to: Hashing { inner: to, hash: Sha256::new() },
            bar: output::progress(None),
            stop,
            patience: receive.timeout,
            octets: 0,
            pdus: 0,
            begin: None,
            heard: Instant::now(),
        })
    }

    fn is_silent(&self) -> bool {
        self.patience.is_some_and(|patience| self.heard.elapsed() > patience)
    }

    /// So much has come by now.
    fn note(&mut self, octets: u64) {
        if octets != self.octets {
            self.begin.get_or_insert_with(Instant::now);
            self.heard = Instant::now();
            self.octets = octets;
        }
        self.bar.set_position(octets);
    }

    fn took(&self) -> Duration {
        self.begin.map_or(Duration::ZERO, |begin| begin.elapsed())
    }
}

/// `cellway receive`
pub(crate) fn run_receive(context: &Context, receive: &Receive) -> Result<()> {
    if receive.reliable && receive.format != Form::Raw {
        usage!("--format is for single PDUs, and --reliable for a stream: leave one out");
    }
    let mut output = Output::open(receive)?;
    receive.ready.check()?;
    let reliable = speaks(receive.reliable, receive.takes_datagrams());
    let ready = Some(receive.ready);
    let purpose = Purpose { sap: receive.sap, reliable, ready, ..Purpose::new(Role::Listens) };
    let (mut endpoint, channel, mut held) =
        target::open(context, &receive.host, receive.circuit.resolve(context)?, purpose)?;
    output.heard = Instant::now();
    let stream = match reliable {
        Reliable::Always => Some(Vec::new()),
        _ => datagrams((&mut endpoint, channel), receive, reliable, &mut held, &mut output)?,
    };
    let (done, lost) = match stream {
        Some(first) => (as_stream((&mut endpoint, channel), &first, &mut held, output)?, false),
        None => {
            let delivery = held.path.received()?;
            let lost = delivery.as_ref().is_some_and(control::delivery::Delivery::is_partial);
            output.bar.finish_and_clear();
            let done = Transferred::new(output.octets, output.took(), hex(output.to.hash));
            let transfer = Some(DATAGRAMS.to_owned());
            (Transferred { pdus: Some(output.pdus), transfer, delivery, ..done }, lost)
        }
    };
    output::print_beside(context, receive.file.is_none(), &done, || text(&done))?;
    if lost && receive.strict {
        bail!(done.delivery.and_then(|delivery| delivery.text()).unwrap_or_default());
    }
    Ok(())
}

/// Takes single PDUs, until Ctrl-C, the call's end, or as many as were asked for. Gives the first PDU of a stream, if one
/// comes from a sender that is known to speak reliable transfer.
fn datagrams(
    (endpoint, channel): (&mut Endpoint, ChannelId),
    receive: &Receive,
    reliable: Reliable,
    held: &mut Held,
    output: &mut Output,
) -> Result<Option<Vec<u8>>> {
    let negotiates = reliable == Reliable::Negotiated;
    let circuit = match receive.circuit {
        Destination::Target(Target::Circuit(circuit)) => Some(circuit),
        _ => None,
    };
    let mut pdus = Pdus::new(receive.format, receive.circuit.to_string(), circuit);
    if negotiates && held.offered {
        transfer::invite(endpoint, channel)?;
    }
    while goes_on(&output.stop) && receive.count.is_none_or(|n| output.pdus < n) {
        if let Some(sdu) = endpoint.receive(Some(LOOK))? {
            if negotiates && transfer::may_begin(&sdu) && (held.offered || held.path.takes_streams_now()?) {
                return Ok(Some(sdu.to_vec()));
            }
            pdus.write(&mut output.to, &sdu)?;
            output.pdus += 1;
            output.note(output.octets + sdu.len() as u64);
            continue;
        }
        if output.pdus > 0 {
            output.to.flush()?;
        }
        if held.is_over()? {
            break;
        }
        if output.is_silent() {
            bail!("nothing came for {:?}", output.patience.unwrap_or_default());
        }
        if negotiates && held.offered && output.pdus == 0 {
            // The one before may have come before the caller had its circuit open.
            transfer::invite(endpoint, channel)?;
        }
    }
    // If nothing has come, what was in the file stays.
    if output.pdus > 0 {
        output.to.flush()?;
    }
    Ok(None)
}

/// Takes a stream.
fn as_stream(
    (endpoint, channel): (&mut Endpoint, ChannelId),
    first: &[u8],
    held: &mut Held,
    mut output: Output,
) -> Result<Transferred> {
    let (mut over, mut gone, before) = (false, false, output.octets);
    // A sender that is known to be there may pause as long as it likes.
    let patience = if held.hears_of_the_end() { None } else { Some(PATIENCE) };
    let (is_known, mut looked) = (held.path.knows_far_end(), Instant::now());
    let mut to = std::mem::replace(&mut output.to.inner, Box::new(std::io::sink()));
    let mut into = Hashing { inner: &mut to, hash: output.to.hash.clone() };
    let mut tell = |octets| {
        output.note(before + octets);
        over = over || held.is_over().unwrap_or(true);
        if is_known && looked.elapsed() > LIVENESS {
            looked = Instant::now();
            gone = !held.path.takes_streams_now().unwrap_or(true);
        }
        goes_on(&output.stop) && !over && !gone && !output.is_silent()
    };
    let received = transfer::receive_stream_from(endpoint, channel, first, &mut into, (patience, &mut tell));
    output.bar.finish_and_clear();
    let octets = match received {
        Ok(octets) => before + octets,
        Err(TransferError::Interrupted { octets }) if over => {
            bail!("the call was released: {octets} octets have arrived, and the rest is missing")
        }
        Err(TransferError::Interrupted { octets }) if gone => {
            bail!("the sender has gone: {octets} octets have arrived, and the rest is missing")
        }
        Err(TransferError::Interrupted { octets }) if goes_on(&output.stop) => {
            let patience = output.patience.unwrap_or_default();
            bail!("nothing came for {patience:?}: {octets} octets have arrived, and the rest is missing")
        }
        Err(e) => return Err(e.into()),
    };
    let done = Transferred::new(octets, output.took(), hex(into.hash));
    Ok(Transferred { transfer: Some(RELIABLE.to_owned()), ..done })
}
