//! Streams over an endpoint's channel.

use super::{HEAD_OCTETS, Receiver, Sender};
use endpoint::{ChannelId, Endpoint, SendError};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};
use wire::Time;

/// How long to wait for the other side to show a sign of life.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a transfer did not end well.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The service or the endpoint.
    #[error(transparent)]
    Endpoint(#[from] endpoint::Error),
    /// The file or pipe.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Nothing came.
    #[error("the other side has not answered for {0:?} (is a receiver running on this circuit?)")]
    Silent(Duration),
    /// A receiver is there, and not for this stream.
    #[error("the receiver follows another stream, or began in the middle of this one: start it before the sender")]
    Refused,
    /// The caller said stop.
    #[error("interrupted")]
    Interrupted,
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
    let mut ahead = read_full(from, size)?;
    let mut total = 0;
    while !sender.is_done() {
        while sender.has_room() {
            let next = if ahead.len() < size { Vec::new() } else { read_full(from, size)? };
            total += ahead.len() as u64;
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
        if !progress(total) {
            return Err(TransferError::Interrupted);
        }
        if sender.is_refused() && !sender.is_done() {
            return Err(TransferError::Refused);
        }
        if now().since(sender.last_progress()) > PATIENCE {
            return Err(TransferError::Silent(PATIENCE));
        }
    }
    Ok((total, sender.repeated))
}

const MIN_WAIT: Duration = Duration::from_millis(1);
const MAX_WAIT: Duration = Duration::from_millis(200);

/// Receives one stream into `into`; gives its octets. Waits for its beginning as long as the caller's `progress` lets
/// it.
///
/// # Errors
/// Writing fails, the service goes, or the sender falls silent in the middle.
pub fn receive_stream(
    endpoint: &mut Endpoint,
    channel: ChannelId,
    into: &mut impl Write,
    progress: Progress<'_>,
) -> Result<u64, TransferError> {
    let mut receiver = Receiver::new();
    let mut total = 0;
    let mut heard = Instant::now();
    loop {
        let mut idle = true;
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
        while let Some(octets) = receiver.poll_octets() {
            into.write_all(&octets)?;
            total += octets.len() as u64;
        }
        acknowledge(endpoint, channel, &mut receiver, idle)?;
        if receiver.is_done() {
            into.flush()?;
            // The last acknowledgement may be lost: answer the sender's questions a little longer.
            let end = Instant::now() + Duration::from_millis(100);
            while let Some(left) = end.checked_duration_since(Instant::now()) {
                if let Some(pdu) = endpoint.receive(Some(left))? {
                    receiver.handle_pdu(&pdu);
                }
                acknowledge(endpoint, channel, &mut receiver, true)?;
            }
            return Ok(total);
        }
        if !progress(total) {
            return Err(TransferError::Interrupted);
        }
        if receiver.has_begun() && heard.elapsed() > PATIENCE {
            return Err(TransferError::Silent(PATIENCE));
        }
    }
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
