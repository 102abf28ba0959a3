//! A reliable stream over a circuit in both directions: numbered PDUs, a window, selective acknowledgement.
//!
//! AAL5 says whether a PDU is whole, not whether it came. This adds only that. A PDU of the sender:
//!
//! | octets | what |
//! |---|---|
//! | 0..2 | `Cw` |
//! | 2 | 1: data; 3: data, and the stream ends with it |
//! | 3 | zero |
//! | 4..8 | number of the stream, chosen by its sender |
//! | 8..16 | number of the PDU, from 0 |
//! | 16.. | octets of the stream |
//!
//! and of the receiver, for each few PDUs: kind 2, the stream's number, the number of the first PDU that is missing,
//! and 64 bits that say which of the 64 after that one have come. Kind 4, without more, answers a PDU of a stream that
//! the receiver does not follow: its sender gives up at once rather than waiting. Kind 5 is the sender's last PDU, with
//! the number of PDUs that are acknowledged. Kind 6 is a receiver's invitation on a call, before a stream.
//! `docs/transfer.md` has all of them octet by octet.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use wire::Time;

mod shell;
#[cfg(test)]
mod tests;

pub use shell::{Progress, TransferError, await_invitation, invite, receive_stream, receive_stream_from, send_stream};

/// Octets before the stream's.
pub const HEAD_OCTETS: usize = 16;
const ACK_OCTETS: usize = 24;
const DATA: u8 = 1;
const ACK: u8 = 2;
const LAST: u8 = 3;
const REFUSED: u8 = 4;
const CLOSED: u8 = 5;
const INVITATION: u8 = 6;
/// PDUs on their way at most: as many as an acknowledgement can speak of.
pub const WINDOW: u64 = 64;
/// Longest wait for an acknowledgement.
const MAX_RTO: Duration = Duration::from_secs(2);
/// Shortest. A full window queues for 35 ms at the sender of an OC-3c link: less would send again what is only waiting.
const MIN_RTO: Duration = Duration::from_millis(100);

fn head(kind: u8, stream: u32, number: u64) -> [u8; HEAD_OCTETS] {
    let mut h = [0; HEAD_OCTETS];
    h[..2].copy_from_slice(b"Cw");
    h[2] = kind;
    h[4..8].copy_from_slice(&stream.to_be_bytes());
    h[8..].copy_from_slice(&number.to_be_bytes());
    h
}

fn parse(pdu: &[u8]) -> Option<(u8, u32, u64, &[u8])> {
    let (h, rest) = pdu.split_first_chunk::<HEAD_OCTETS>()?;
    let kind = h[2];
    if h[..2] != *b"Cw" || !matches!(kind, DATA | ACK | LAST | REFUSED | CLOSED | INVITATION) {
        return None;
    }
    let stream = u32::from_be_bytes([h[4], h[5], h[6], h[7]]);
    let number = u64::from_be_bytes([h[8], h[9], h[10], h[11], h[12], h[13], h[14], h[15]]);
    Some((kind, stream, number, rest))
}

/// Whether a PDU may be one with which a stream begins.
pub fn may_begin(pdu: &[u8]) -> bool {
    matches!(parse(pdu), Some((DATA | LAST, _, number, _)) if number < WINDOW)
}

/// Whether a receiver on a call says by this PDU that it takes streams.
pub fn is_invitation(pdu: &[u8]) -> bool {
    matches!(parse(pdu), Some((INVITATION, ..)))
}

#[derive(Debug)]
struct Slot {
    pdu: Vec<u8>,
    sent_at: Time,
    /// Sent once only: its acknowledgement measures the round trip.
    once: bool,
    arrived: bool,
    due: bool,
}

/// The sending side.
#[derive(Debug)]
pub struct Sender {
    stream: u32,
    first: u64,
    slots: VecDeque<Slot>,
    ended: bool,
    srtt: Option<Duration>,
    deviation: Duration,
    rto: Duration,
    last_progress: Time,
    refused: bool,
    /// Octets of the stream that have arrived, those behind a gap left out.
    acknowledged: u64,
    /// PDUs sent again.
    pub repeated: u64,
}

impl Sender {
    /// A stream of this number.
    pub fn new(stream: u32, now: Time) -> Self {
        Sender {
            stream,
            first: 0,
            slots: VecDeque::new(),
            ended: false,
            srtt: None,
            deviation: Duration::ZERO,
            rto: Duration::from_millis(200),
            last_progress: now,
            refused: false,
            acknowledged: 0,
            repeated: 0,
        }
    }

    /// Whether more of the stream can be taken.
    pub fn has_room(&self) -> bool {
        !self.ended && (self.slots.len() as u64) < WINDOW
    }

    /// Takes the stream's next octets, as one PDU; `last` ends it.
    pub fn push(&mut self, octets: &[u8], last: bool, now: Time) {
        debug_assert!(self.has_room());
        if self.slots.is_empty() {
            // While nothing was to be sent, nobody owed an answer.
            self.last_progress = now;
        }
        let number = self.first + self.slots.len() as u64;
        let mut pdu = head(if last { LAST } else { DATA }, self.stream, number).to_vec();
        pdu.extend_from_slice(octets);
        self.ended |= last;
        self.slots.push_back(Slot { pdu, sent_at: now, once: true, arrived: false, due: true });
    }

    /// The next PDU that is due; call [`Sender::sent`] when it is on its way.
    pub fn poll_transmit(&self) -> Option<&[u8]> {
        self.slots.iter().find(|s| s.due).map(|s| &s.pdu[..])
    }

    /// The PDU that [`Sender::poll_transmit`] gave has been sent.
    pub fn sent(&mut self, now: Time) {
        if let Some(slot) = self.slots.iter_mut().find(|s| s.due) {
            slot.due = false;
            slot.sent_at = now;
        }
    }

    /// A PDU that came from the receiver.
    pub fn handle_pdu(&mut self, pdu: &[u8], now: Time) {
        let Some((kind @ (ACK | REFUSED), stream, missing, rest)) = parse(pdu) else { return };
        if kind == REFUSED {
            self.refused |= stream == self.stream;
            return;
        }
        let Some(bits) = rest.first_chunk::<8>().filter(|_| stream == self.stream) else { return };
        let bits = u64::from_be_bytes(*bits);
        if missing < self.first || missing > self.first + self.slots.len() as u64 {
            return;
        }
        let mut newest: Option<Time> = None;
        let mut arrived = |slot: &mut Slot| {
            if !slot.arrived {
                slot.arrived = true;
                slot.due = false;
                newest = newest.max(slot.once.then_some(slot.sent_at));
                self.last_progress = now;
            }
        };
        while self.first < missing {
            if let Some(mut slot) = self.slots.pop_front() {
                arrived(&mut slot);
                self.acknowledged += (slot.pdu.len() - HEAD_OCTETS) as u64;
            }
            self.first += 1;
        }
        let mut highest = None;
        for (i, slot) in self.slots.iter_mut().enumerate().skip(1) {
            if i <= 64 && bits >> (i - 1) & 1 == 1 {
                arrived(slot);
                highest = highest.max(Some(slot.sent_at));
            }
        }
        if let Some(sent_at) = newest {
            self.measure(now.since(sent_at));
        }
        // What was sent before something that has come is lost: circuits keep their order (I.150).
        if let Some(highest) = highest {
            for slot in self.slots.iter_mut().filter(|s| !s.arrived && !s.due && s.sent_at < highest) {
                slot.due = true;
                slot.once = false;
                self.repeated += 1;
            }
        }
    }

    /// RFC 6298.
    fn measure(&mut self, rtt: Duration) {
        let srtt = match self.srtt {
            None => {
                self.deviation = rtt / 2;
                rtt
            }
            Some(srtt) => {
                self.deviation = (self.deviation * 3 + srtt.abs_diff(rtt)) / 4;
                (srtt * 7 + rtt) / 8
            }
        };
        self.srtt = Some(srtt);
        self.rto = (srtt + self.deviation * 4).clamp(MIN_RTO, MAX_RTO);
    }

    fn oldest(&self) -> Option<Time> {
        self.slots.iter().filter(|s| !s.arrived && !s.due).map(|s| s.sent_at).min()
    }

    /// When the oldest PDU without an acknowledgement is sent again.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.oldest().map(|sent| sent + self.rto)
    }

    /// Sends again what has waited too long, and waits longer next time.
    pub fn handle_timeout(&mut self, now: Time) {
        let Some(oldest) = self.oldest().filter(|sent| *sent + self.rto <= now) else { return };
        for slot in self.slots.iter_mut().filter(|s| !s.arrived && !s.due && s.sent_at <= oldest) {
            slot.due = true;
            slot.once = false;
            self.repeated += 1;
        }
        self.rto = (self.rto * 2).min(MAX_RTO);
    }

    /// Whether the whole stream has arrived.
    pub fn is_done(&self) -> bool {
        self.ended && self.slots.is_empty()
    }

    /// Octets of the stream that are known to have arrived.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The last PDU: nothing of the stream is sent from here on, be it whole or not.
    pub fn closing(&self) -> [u8; HEAD_OCTETS] {
        head(CLOSED, self.stream, self.first)
    }

    /// Whether the receiver has given up, follows another stream, or has missed the beginning of this one.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// When something was last acknowledged.
    pub fn last_progress(&self) -> Time {
        self.last_progress
    }
}

/// The receiving side.
#[derive(Debug, Default)]
pub struct Receiver {
    stream: Option<u32>,
    next: u64,
    early: BTreeMap<u64, (Vec<u8>, bool)>,
    ready: VecDeque<Vec<u8>>,
    ended: bool,
    /// PDUs since the last acknowledgement.
    unacknowledged: u32,
    urgent: bool,
    /// A stream to be refused.
    stranger: Option<u32>,
    /// The sender sends nothing more.
    closed: bool,
}

impl Receiver {
    /// Waits for the first stream that begins.
    pub fn new() -> Self {
        Receiver::default()
    }

    /// A PDU that came from the sender. True if it belongs to the stream that is followed.
    pub fn handle_pdu(&mut self, pdu: &[u8]) -> bool {
        let Some((kind @ (DATA | LAST | CLOSED), stream, number, octets)) = parse(pdu) else { return false };
        if kind == CLOSED {
            self.closed |= self.stream == Some(stream);
            return self.stream == Some(stream);
        }
        if self.stream.is_none() && number < WINDOW {
            self.stream = Some(stream);
        }
        if self.stream != Some(stream) {
            // Too late for the beginning, or somebody else's. After the end, what comes is for the next receiver on
            // this circuit, who will answer.
            self.stranger = (!self.ended).then_some(stream);
            return false;
        }
        if number >= self.next.saturating_add(WINDOW) {
            return false;
        }
        self.unacknowledged += 1;
        let last = kind == LAST;
        if self.ended {
            self.urgent = true;
            return true;
        }
        if number == self.next {
            self.take(octets.to_vec(), last);
            while let Some((octets, last)) = self.early.remove(&self.next).filter(|_| !self.ended) {
                self.take(octets, last);
            }
        } else {
            self.urgent = true;
            if number > self.next {
                self.early.entry(number).or_insert_with(|| (octets.to_vec(), last));
            }
        }
        true
    }

    fn take(&mut self, octets: Vec<u8>, last: bool) {
        self.next += 1;
        self.ended |= last;
        self.urgent |= last;
        self.ready.push_back(octets);
    }

    /// A refusal, if a PDU of another stream has come.
    pub fn poll_refusal(&mut self) -> Option<[u8; HEAD_OCTETS]> {
        self.stranger.take().map(|stream| head(REFUSED, stream, 0))
    }

    /// A refusal of the stream that is followed: the receiver gives up.
    pub fn refusal(&self) -> Option<[u8; HEAD_OCTETS]> {
        self.stream.map(|stream| head(REFUSED, stream, 0))
    }

    /// Whether the sender sends nothing more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The next octets of the stream.
    pub fn poll_octets(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    /// An acknowledgement, if one is due; `idle` says that nothing more has come for now.
    pub fn poll_transmit(&mut self, idle: bool) -> Option<[u8; ACK_OCTETS]> {
        let stream = self.stream?;
        if self.unacknowledged == 0 || !(idle || self.urgent || self.unacknowledged >= 8) {
            return None;
        }
        self.unacknowledged = 0;
        self.urgent = false;
        let bits = self.early.keys().filter_map(|n| n.checked_sub(self.next + 1)).filter(|n| *n < 64);
        let bits = bits.fold(0u64, |bits, n| bits | 1 << n);
        let mut ack = [0; ACK_OCTETS];
        ack[..HEAD_OCTETS].copy_from_slice(&head(ACK, stream, self.next));
        ack[HEAD_OCTETS..].copy_from_slice(&bits.to_be_bytes());
        Some(ack)
    }

    /// Whether the stream has ended and all of it has been fetched.
    pub fn is_done(&self) -> bool {
        self.ended && self.ready.is_empty()
    }

    /// Whether a stream has begun.
    pub fn has_begun(&self) -> bool {
        self.stream.is_some()
    }
}
