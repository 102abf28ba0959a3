//! `cellway send`.

use super::{DATAGRAMS, Hashing, RELIABLE, Send, hex, speaks, text};
use crate::client::{self, goes_on, interrupted};
use crate::context::Context;
use crate::far_end::UNATTENDED;
use crate::output;
use crate::target::{self, Held, Purpose, Reliable, Role};
use anyhow::{Context as _, Result, bail};
use control::results::Transferred;
use endpoint::{ChannelId, Endpoint, SendError};
use indicatif::ProgressBar;
use sha2::{Digest, Sha256};
use stack::transfer::{self, TransferError};
use std::fs::File;
use std::io::Read;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How long the called side of a call outside this network may take to say that it takes streams. Without that it is
/// sent single PDUs.
const INVITED: Duration = Duration::from_secs(2);
/// Between two looks at Ctrl-C.
const LOOK: Duration = Duration::from_millis(200);

/// What is sent, and how far it is.
struct Input {
    from: Hashing<Box<dyn Read>>,
    bar: ProgressBar,
    begin: Instant,
}

fn input(send: &Send) -> Result<Input> {
    let (from, size): (Box<dyn Read>, _) = match &send.file {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("{}", path.display()))?;
            let size = file.metadata()?.len();
            (Box::new(file), Some(size))
        }
        None => (Box::new(client::Input::new()?), None),
    };
    let from = Hashing { inner: from, hash: Sha256::new() };
    Ok(Input { from, bar: output::progress(size), begin: Instant::now() })
}

/// `cellway send`
pub(crate) fn run_send(context: &Context, send: &Send) -> Result<()> {
    let stop = interrupted()?;
    let mut input = input(send)?;
    let reliable = speaks(send.reliable, send.datagrams);
    let mut purpose = Purpose { sap: send.sap, reliable, sends: true, ..Purpose::new(Role::Calls) };
    // A header comes before what a PDU of a stream carries: 9180 octets and the header are within the default.
    purpose.sdu_octets = send.sdu.unwrap_or(purpose.sdu_octets.max(u16::try_from(send.pdu)?));
    let (mut endpoint, channel, mut held) = target::open(context, &send.host, send.circuit.resolve(context)?, purpose)?;
    input.begin = Instant::now();
    let is_stream = match reliable {
        Reliable::Never => false,
        Reliable::Always => true,
        Reliable::Negotiated if held.path.knows_far_end() => held.path.takes_streams(),
        Reliable::Negotiated => held.offered && transfer::await_invitation(&mut endpoint, INVITED)?,
    };
    if is_stream {
        if let Some(missing) = held.missing.take_if(|_| reliable != Reliable::Always) {
            return Err(missing);
        }
        return as_stream(context, send, (&mut endpoint, channel), &held, input, &stop);
    }
    as_datagrams(context, send, (&mut endpoint, channel), held, input, &stop)
}

fn as_stream(
    context: &Context,
    send: &Send,
    (endpoint, channel): (&mut Endpoint, ChannelId),
    held: &Held,
    mut input: Input,
    stop: &AtomicBool,
) -> Result<()> {
    let bar = &input.bar;
    let mut tell = |octets| {
        bar.set_position(octets);
        goes_on(stop)
    };
    let sent = transfer::send_stream(endpoint, channel, &mut input.from, send.pdu as usize, &mut tell);
    input.bar.finish_and_clear();
    let (octets, repeated) = sent.map_err(|e| explained(e, held))?;
    let done = Transferred::new(octets, input.begin.elapsed(), hex(input.from.hash));
    let done = Transferred { pdus_repeated: Some(repeated), transfer: Some(RELIABLE.to_owned()), ..done };
    output::print(context, &done, || text(&done))
}

/// An error with what is missing on the circuit's path, where that is why nobody answers.
fn explained(e: TransferError, held: &Held) -> anyhow::Error {
    let silent = matches!(e, TransferError::Silent { .. });
    let e = anyhow::Error::from(e);
    match held.path.check_now() {
        Err(missing) if silent => e.context(missing.to_string()),
        _ => e,
    }
}

fn as_datagrams(
    context: &Context,
    send: &Send,
    (endpoint, channel): (&mut Endpoint, ChannelId),
    held: Held,
    mut input: Input,
    stop: &AtomicBool,
) -> Result<()> {
    let (mut octets, mut pdus) = (0, 0);
    let mut buffer = vec![0; send.pdu as usize];
    while goes_on(stop) && (held.missing.is_none() || pdus < UNATTENDED) {
        let n = input.from.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        push(endpoint, channel, &buffer[..n], stop)?;
        octets += n as u64;
        pdus += 1;
        input.bar.set_position(octets);
        if held.offered && endpoint.try_receive().is_some_and(|pdu| transfer::is_invitation(&pdu)) {
            bail!(
                "the called side was late to say that it takes a stream: nothing is known of the {octets} octets sent"
            );
        }
    }
    while !endpoint.wait_sent(Some(LOOK))? && goes_on(stop) {}
    input.bar.finish_and_clear();
    if let Some(missing) = held.missing {
        return Err(missing);
    }
    let took = input.begin.elapsed();
    let sent = held.path.sent(&|| goes_on(stop))?;
    let done = Transferred {
        pdus: Some(pdus),
        transfer: Some(DATAGRAMS.to_owned()),
        delivery: sent.as_ref().map(|sent| sent.delivery.clone()),
        ..Transferred::new(octets, took, hex(input.from.hash))
    };
    output::print(context, &done, || text(&done))?;
    sent.map_or(Ok(()), |sent| sent.check(send.strict))
}

/// Sends one PDU, once there is room.
fn push(endpoint: &mut Endpoint, channel: ChannelId, pdu: &[u8], stop: &AtomicBool) -> Result<()> {
    while let Err(e) = endpoint.send_copy(channel, pdu) {
        match e {
            SendError::Full => endpoint.wait_send(Some(LOOK))?,
            e => bail!(e),
        };
        if !goes_on(stop) {
            bail!("interrupted");
        }
    }
    Ok(())
}
