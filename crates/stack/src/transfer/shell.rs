//! Streams over an endpoint's channel.

use super::{HEAD_OCTETS, INVITATION, Receiver, Sender, head, is_invitation};
use endpoint::{ChannelId, Endpoint, SendError};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};
use wire::Time;

/// How long to wait for the other side to show a sign of life.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a receiver that has all answers repetitions, unless the sender says that it knows: more than the longest
/// time-out of a sender.
const LINGER: Duration = Duration::from_secs(3);

/// Why a transfer did not end well.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The service or the endpoint.
    #[error(transparent)]
    Endpoint(#[from] endpoint::Error),
    /// The file or pipe.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// No acknowledgement came.
    #[error(
        "the receiver has not answered for {patience:?}: of {sent} octets sent, {} are missing there (is a receiver \
         running on this circuit?)", sent - acknowledged
    )]
    Silent {
        /// For so long.
        patience: Duration,
        /// Octets sent.
        sent: u64,
        /// Octets that have arrived.
        acknowledged: u64,
    },
    /// A receiver is there, and not for this stream.
    #[error(
        "the receiver has given up, follows another stream, or began in the middle of this one: of {sent} octets sent, \
         {} are missing there", sent - acknowledged
    )]
    Refused {
        /// Octets sent.
        sent: u64,
        /// Octets that have arrived.
        acknowledged: u64,
    },
    /// No more of the stream came.
    #[error("the sender has been silent for {patience:?}: {octets} octets have arrived, and the rest is missing")]
    Cut {
        /// For so long.
        patience: Duration,
        /// Octets that have arrived.
        octets: u64,
    },
    /// The sender said that no more comes.
    #[error("the sender has given up: {octets} octets have arrived, and the rest is missing")]
    GivenUp {
        /// Octets that have arrived.
        octets: u64,
    },
    /// The caller said stop.
    #[error("interrupted: {octets} octets have arrived, and the rest is missing")]
    Interrupted {
        /// Octets that have arrived.
        octets: u64,
    },
}

/// What a transfer tells on its way; return false to stop it.
pub type Progress<'a> = &'a mut dyn FnMut(u64) -> bool;

/// Sends all that `from` gives, `pdu_octets` of it in each PDU; waits until it has arrived. Gives octets and PDUs sent
/// again.
///
/// # Errors
/// Reading fails, the service goes, or the receiver is silent.
pub fn send_stream(
    endpoint: &mut Endpoint,
    channel: ChannelId,
    from: &mut impl Read,
    pdu_octets: usize,
    progress: Progress<'_>,
) -> Result<(u64, u64), TransferError> {
    let epoch = Instant::now();
    let now = || Time::ZERO + epoch.elapsed();
    let stream = std::process::id() ^ (std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.subsec_nanos()));
    let mut sender = Sender::new(stream, now());
    let size = pdu_octets.min(endpoint.buffer_octets()).saturating_sub(HEAD_OCTETS).max(1);
    let mut total = 0;
    let sent = send_all((endpoint, channel), &mut sender, (from, size), (&mut total, progress), &now);
    // The receiver need not wait for repetitions, or for the rest of a stream that has none.
    let _ = endpoint.send_copy(channel, &sender.closing());
    let _ = endpoint.wait_sent(Some(MAX_WAIT));
    sent.map(|()| (total, sender.repeated))
}

fn send_all(
    (endpoint, channel): (&mut Endpoint, ChannelId),
    sender: &mut Sender,
    (from, size): (&mut impl Read, usize),
    (total, progress): (&mut u64, Progress<'_>),
    now: &dyn Fn() -> Time,
) -> Result<(), TransferError> {
    let mut ahead = read_full(from, size)?;
    while !sender.is_done() {
        while sender.has_room() {
            let next = if ahead.len() < size { Vec::new() } else { read_full(from, size)? };
            *total += ahead.len() as u64;
            sender.push(&ahead, next.is_empty(), now());
            ahead = next;
        }
        while let Some(pdu) = sender.poll_transmit() {
            match endpoint.send_copy(channel, pdu) {
                Ok(()) => sender.sent(now()),
                Err(SendError::Full) => break,
                Err(e) => return Err(io::Error::other(e).into()),
            }
        }
        let wait = sender.poll_timeout().map_or(MIN_WAIT, |t| t.since(now())).clamp(MIN_WAIT, MAX_WAIT);
        // While PDUs wait for a place in the ring, only a short sleep: it empties soon.
        let wait = if sender.poll_transmit().is_some() { MIN_WAIT } else { wait };
        if let Some(pdu) = endpoint.receive(Some(wait))? {
            sender.handle_pdu(&pdu, now());
        }
        while let Some(pdu) = endpoint.try_receive() {
            sender.handle_pdu(&pdu, now());
        }
        sender.handle_timeout(now());
        let (sent, acknowledged) = (*total, sender.acknowledged());
        if !progress(sent) {
            return Err(TransferError::Interrupted { octets: acknowledged });
        }
        if sender.is_refused() && !sender.is_done() {
            return Err(TransferError::Refused { sent, acknowledged });
        }
        if now().since(sender.last_progress()) > PATIENCE {
            return Err(TransferError::Silent { patience: PATIENCE, sent, acknowledged });
        }
    }
    Ok(())
}

const MIN_WAIT: Duration = Duration::from_millis(1);
const MAX_WAIT: Duration = Duration::from_millis(200);

/// Says to the caller of a call that streams are taken here.
///
/// # Errors
/// The channel is closed, or the service has gone.
pub fn invite(endpoint: &mut Endpoint, channel: ChannelId) -> Result<(), TransferError> {
    match endpoint.send_copy(channel, &head(INVITATION, 0, 0)) {
        Ok(()) | Err(SendError::Full) => Ok(()),
        Err(e) => Err(io::Error::other(e).into()),
    }
}

/// Waits for the called side of a call to say that it takes streams; false if it does not for so long.
///
/// # Errors
/// The service has gone.
pub fn await_invitation(endpoint: &mut Endpoint, patience: Duration) -> Result<bool, TransferError> {
    let end = Instant::now() + patience;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        if endpoint.receive(Some(left))?.is_some_and(|pdu| is_invitation(&pdu)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Receives one stream into `into`; gives its octets. Waits for its beginning as long as the caller's `progress` lets
/// it.
///
/// # Errors
/// Writing fails, the service goes, or the sender falls silent or gives up in the middle.
pub fn receive_stream(
    endpoint: &mut Endpoint,
    channel: ChannelId,
    into: &mut impl Write,
    progress: Progress<'_>,
) -> Result<u64, TransferError> {
    receive_stream_from(endpoint, channel, &[], into, (Some(PATIENCE), progress))
}

/// The same where the stream's first PDU has come already, from a sender that may be silent for so long; `None`: as long
/// as the caller's `progress` lets it.
///
/// # Errors
/// As [`receive_stream`].
pub fn receive_stream_from(
    endpoint: &mut Endpoint,
    channel: ChannelId,
    first: &[u8],
    into: &mut impl Write,
    (patience, progress): (Option<Duration>, Progress<'_>),
) -> Result<u64, TransferError> {
    let mut receiver = Receiver::new();
    receiver.handle_pdu(first);
    let mut total = 0;
    let received = receive_all((endpoint, channel), &mut receiver, into, (&mut total, patience, &mut *progress));
    if received.is_err()
        && let Some(refusal) = receiver.refusal()
    {
        // The sender need not find out by itself that nobody takes the rest.
        let _ = endpoint.send_copy(channel, &refusal);
        let _ = endpoint.wait_sent(Some(MAX_WAIT));
    }
    received?;
    linger(endpoint, channel, &mut receiver, &mut || progress(total))?;
    Ok(total)
}

fn receive_all(
    (endpoint, channel): (&mut Endpoint, ChannelId),
    receiver: &mut Receiver,
    into: &mut impl Write,
    (total, patience, progress): (&mut u64, Option<Duration>, Progress<'_>),
) -> Result<(), TransferError> {
    let mut heard = Instant::now();
    loop {
        let mut idle = true;
        while let Some(octets) = receiver.poll_octets() {
            into.write_all(&octets)?;
            *total += octets.len() as u64;
        }
        if receiver.is_done() {
            return Ok(into.flush()?);
        }
        let octets = *total;
        if receiver.is_closed() {
            return Err(TransferError::GivenUp { octets });
        }
        if !progress(octets) {
            return Err(TransferError::Interrupted { octets });
        }
        if let Some(patience) = patience.filter(|patience| receiver.has_begun() && heard.elapsed() > *patience) {
            return Err(TransferError::Cut { patience, octets });
        }
        if let Some(pdu) = endpoint.receive(Some(MAX_WAIT))? {
            if receiver.handle_pdu(&pdu) {
                heard = Instant::now();
            }
            idle = false;
        }
        for _ in 0..super::WINDOW {
            let Some(pdu) = endpoint.try_receive() else {
                idle = true;
                break;
            };
            if receiver.handle_pdu(&pdu) {
                heard = Instant::now();
            }
            idle = false;
        }
        // Only what is written is acknowledged.
        while let Some(octets) = receiver.poll_octets() {
            into.write_all(&octets)?;
            *total += octets.len() as u64;
        }
        acknowledge(endpoint, channel, receiver, idle)?;
    }
}

/// The acknowledgement of the end may be lost: answers the sender's repetitions until it says that it knows.
fn linger(
    endpoint: &mut Endpoint,
    channel: ChannelId,
    receiver: &mut Receiver,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<(), TransferError> {
    acknowledge(endpoint, channel, receiver, true)?;
    let mut end = Instant::now() + LINGER;
    while !receiver.is_closed() && goes_on() {
        let Some(left) = end.checked_duration_since(Instant::now()) else { break };
        if let Some(pdu) = endpoint.receive(Some(left.min(MAX_WAIT)))?
            && receiver.handle_pdu(&pdu)
        {
            end = Instant::now() + LINGER;
        }
        // A call's circuit may have gone with the sender that knows.
        if acknowledge(endpoint, channel, receiver, true).is_err() {
            break;
        }
    }
    Ok(())
}

fn acknowledge(
    endpoint: &mut Endpoint,
    channel: ChannelId,
    receiver: &mut Receiver,
    idle: bool,
) -> Result<(), TransferError> {
    let ack = receiver.poll_transmit(idle);
    let refusal = receiver.poll_refusal();
    for answer in ack.iter().map(|a| &a[..]).chain(refusal.iter().map(|r| &r[..])) {
        match endpoint.send_copy(channel, answer) {
            // A full ring loses the acknowledgement; the sender asks again.
            Ok(()) | Err(SendError::Full) => {}
            Err(e) => return Err(io::Error::other(e).into()),
        }
    }
    Ok(())
}

/// Reads until `size` octets or the end.
fn read_full(from: &mut impl Read, size: usize) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::with_capacity(size);
    from.take(size as u64).read_to_end(&mut buffer)?;
    Ok(buffer)
}
