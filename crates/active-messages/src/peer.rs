//! One circuit's messages as a state machine: sequence numbers, cumulative acknowledgements, go-back-N, credits.
//!
//! In: messages to send, messages that came, the time. Out: octets for the circuit, messages in their order, each once. A
//! message that is not the next one is dropped, and its sender told once what is missing; so a receiver keeps nothing, and
//! a sender keeps what is not acknowledged, in slots that are made once.
//!
//! A receiver grants requests: as many as it has handled, and a window more, less the replies that it still keeps. So it
//! has a slot for each reply, and a sender with a window of grants has a slot for each request: neither ever waits for the
//! other to send a reply.

use crate::Error;
use crate::message::{self, HEADER_OCTETS, Kind, MAX_HEAD_OCTETS, MAX_WORDS, Message};
use core::time::Duration;
use wire::{Counters, DropReason, Time};

/// One of a node's circuits, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub usize);

/// Sizes and times. Both ends of a circuit have the same window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Requests on their way, 1 to 1024.
    pub window: u16,
    /// Octets of payload of a message at most.
    pub payload_octets: usize,
    /// How long an acknowledgement is waited for before all is sent again; it doubles with each time in vain.
    pub retransmit_after: Duration,
    /// How long a receiver waits for something to send that carries its acknowledgement.
    pub acknowledge_after: Duration,
    /// Times in vain before a peer is given up.
    pub attempts: u32,
    /// Bulk transfers at once.
    pub transfers: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            window: 32,
            payload_octets: 2048,
            retransmit_after: Duration::from_millis(20),
            acknowledge_after: Duration::from_millis(1),
            attempts: 12,
            transfers: 64,
        }
    }
}

impl Config {
    /// The same within its bounds.
    pub fn checked(self) -> Self {
        let least = Duration::from_micros(1);
        Config {
            window: self.window.clamp(1, 1024),
            payload_octets: self.payload_octets.min(usize::from(u16::MAX) - MAX_HEAD_OCTETS),
            retransmit_after: self.retransmit_after.max(least),
            attempts: self.attempts.clamp(1, 32),
            ..self
        }
    }
}

/// What a circuit has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Messages that were sent for the first time.
    pub sent: u64,
    /// Messages that were sent again.
    pub retransmitted: u64,
    /// Messages that carried nothing but numbers.
    pub acknowledgements: u64,
    /// Messages that came in their order.
    pub received: u64,
}

/// A message that is kept until it is acknowledged.
#[derive(Debug, Clone, Default)]
struct Slot {
    octets: Vec<u8>,
    request: bool,
    sent: bool,
}

/// What is to be said without a message of one's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Nothing,
    /// An acknowledgement, unless a message carries it before.
    Later(Time),
    Now(Kind),
}

/// Whether `a` is before `b`, as numbers that wrap.
const fn before(a: u16, b: u16) -> bool {
    (a.wrapping_sub(b) as i16) < 0
}

/// See the module's head.
#[derive(Debug, Clone)]
pub struct Peer {
    config: Config,
    slots: Box<[Slot]>,
    /// First number that is not acknowledged, next one to be sent, next one to be given.
    base: u16,
    cursor: u16,
    next: u16,
    /// Requests that were given numbers, and that the peer grants.
    requests: u16,
    granted: u16,
    /// A request was refused for want of a grant.
    starved: bool,
    /// Requests and replies among what is kept: a window of each at most.
    kept_requests: u16,
    replies: u16,
    /// The number that is expected next, requests that came, messages that are not acknowledged.
    expected: u16,
    handled: u16,
    unacknowledged: u16,
    /// The gap at `expected` has been told.
    told: bool,
    /// What the peer was told last about grants.
    granted_to_peer: u16,
    due: Due,
    retransmit_at: Option<Time>,
    attempts: u32,
    lost: bool,
    control: Vec<u8>,
    counters: Counters,
    statistics: Statistics,
}

impl Peer {
    /// A circuit on which nothing has been sent yet.
    pub fn new(config: Config) -> Self {
        let config = config.checked();
        let slots = (2 * usize::from(config.window)).next_power_of_two();
        let slot = || Slot { octets: Vec::with_capacity(MAX_HEAD_OCTETS + config.payload_octets), ..Slot::default() };
        Peer {
            slots: (0..slots).map(|_| slot()).collect(),
            base: 0,
            cursor: 0,
            next: 0,
            requests: 0,
            granted: config.window,
            starved: false,
            kept_requests: 0,
            replies: 0,
            expected: 0,
            handled: 0,
            unacknowledged: 0,
            told: false,
            granted_to_peer: config.window,
            due: Due::Nothing,
            retransmit_at: None,
            attempts: 0,
            lost: false,
            control: Vec::with_capacity(HEADER_OCTETS),
            counters: Counters::default(),
            statistics: Statistics::default(),
            config,
        }
    }

    fn slot(&mut self, number: u16) -> &mut Slot {
        let mask = self.slots.len() - 1;
        &mut self.slots[usize::from(number) & mask]
    }

    /// Requests that could be sent now.
    pub const fn credits(&self) -> u16 {
        let slots = self.config.window - self.kept_requests;
        let granted = if before(self.requests, self.granted) { self.granted.wrapping_sub(self.requests) } else { 0 };
        if granted < slots { granted } else { slots }
    }

    /// Something is to be sent that needs a grant. What told of one may have been lost, so the peer will be asked.
    pub(crate) const fn wait_for_grant(&mut self) {
        self.starved = !before(self.requests, self.granted);
    }

    /// What is granted to the peer: see the module's head.
    const fn grant(&self) -> u16 {
        self.handled.wrapping_add(self.config.window).wrapping_sub(self.replies)
    }

    /// Gives a message its number and keeps it.
    ///
    /// # Errors
    /// No grant for a request; too many words or octets; the peer is lost.
    #[inline]
    pub fn push(&mut self, kind: Kind, handler: u8, words: &[u32], payload: [&[u8]; 2]) -> Result<(), Error> {
        let octets = payload[0].len() + payload[1].len();
        if words.len() > MAX_WORDS {
            return Err(Error::Words(words.len()));
        }
        if octets > self.config.payload_octets {
            return Err(Error::Payload { octets, most: self.config.payload_octets });
        }
        if self.lost {
            return Err(Error::Lost);
        }
        let request = kind.is_request();
        if request && self.credits() == 0 {
            self.wait_for_grant();
            return Err(Error::Busy);
        }
        if !request && self.replies >= self.config.window {
            // A request that would need this was not accepted.
            return Err(Error::Busy);
        }
        let next = self.next;
        let slot = self.slot(next);
        slot.octets.clear();
        (slot.request, slot.sent) = (request, false);
        message::emit(&mut slot.octets, kind, handler, words, payload);
        self.next = next.wrapping_add(1);
        if request {
            self.requests = self.requests.wrapping_add(1);
            self.kept_requests += 1;
        } else {
            self.replies += 1;
        }
        Ok(())
    }

    /// Takes what came; gives the message, if it is the next one.
    #[inline]
    pub fn handle<'a>(&mut self, octets: &'a [u8], now: Time) -> Option<Message<'a>> {
        let Some(message) = Message::parse(octets) else {
            self.counters.drop_one(DropReason::Malformed);
            return None;
        };
        if !self.acknowledged(&message, now) {
            self.counters.drop_one(DropReason::Malformed);
            return None;
        }
        match message.kind {
            Kind::Acknowledge => return None,
            Kind::Missing => {
                self.go_back();
                return None;
            }
            Kind::Probe => {
                self.due = Due::Now(Kind::Acknowledge);
                return None;
            }
            _ => {}
        }
        if message.sequence != self.expected {
            self.out_of_order(message.sequence);
            return None;
        }
        if message.kind.is_request() && self.replies >= self.config.window {
            // More than was granted.
            self.counters.drop_one(DropReason::NotPermitted);
            return None;
        }
        self.accept(&message, now);
        Some(message)
    }

    fn accept(&mut self, message: &Message<'_>, now: Time) {
        self.expected = self.expected.wrapping_add(1);
        self.told = false;
        self.handled = self.handled.wrapping_add(u16::from(message.kind.is_request()));
        self.unacknowledged += 1;
        self.statistics.received += 1;
        let half = (self.config.window / 2).max(1);
        self.due = match self.due {
            Due::Now(kind) => Due::Now(kind),
            _ if self.unacknowledged >= half => Due::Now(Kind::Acknowledge),
            Due::Later(at) => Due::Later(at),
            Due::Nothing => Due::Later(now + self.config.acknowledge_after),
        };
    }

    fn out_of_order(&mut self, sequence: u16) {
        self.counters.drop_one(DropReason::Sequence);
        if before(sequence, self.expected) {
            // Its acknowledgement was lost.
            self.due = Due::Now(Kind::Acknowledge);
        } else if !self.told {
            (self.told, self.due) = (true, Due::Now(Kind::Missing));
        }
    }

    /// Takes a message's numbers; false, if they cannot be.
    #[inline]
    fn acknowledged(&mut self, message: &Message<'_>, now: Time) -> bool {
        let new = message.acknowledged.wrapping_sub(self.base);
        // What is older than the last one that came has been overtaken.
        let old = before(message.acknowledged, self.base);
        if !old && new > self.next.wrapping_sub(self.base) {
            return false;
        }
        let ahead = message.granted.wrapping_sub(self.granted);
        if before(self.granted, message.granted) && ahead <= 2 * self.config.window {
            self.granted = message.granted;
            self.starved = false;
        }
        if self.base == self.next {
            // The peer lives; what was waited for was a grant.
            self.attempts = 0;
            self.retransmit_at = self.retransmit_at.filter(|_| self.starved);
        }
        if old || new == 0 {
            return true;
        }
        for _ in 0..new {
            let base = self.base;
            let request = self.slot(base).request;
            self.replies -= u16::from(!request);
            self.kept_requests -= u16::from(request);
            self.base = base.wrapping_add(1);
        }
        if before(self.cursor, self.base) {
            self.cursor = self.base;
        }
        self.attempts = 0;
        self.retransmit_at = (self.base != self.cursor).then(|| now + self.config.retransmit_after);
        self.tell_grants(now);
        true
    }

    /// Acknowledged replies are grants again, of which a peer that has used most of what it had hears only by a message.
    fn tell_grants(&mut self, now: Time) {
        let half = (self.config.window / 2).max(1);
        let (more, left) =
            (self.grant().wrapping_sub(self.granted_to_peer), self.granted_to_peer.wrapping_sub(self.handled));
        if more == 0 || left >= half {
            return;
        }
        match self.due {
            Due::Now(_) => {}
            _ if more >= half => self.due = Due::Now(Kind::Acknowledge),
            Due::Nothing => self.due = Due::Later(now + self.config.acknowledge_after),
            Due::Later(_) => {}
        }
    }

    /// All that is not acknowledged is sent again.
    const fn go_back(&mut self) {
        self.cursor = self.base;
    }

    /// The next octets for the circuit; the same ones, until [`Peer::sent`] says that they have left.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time) -> Option<&[u8]> {
        if self.lost {
            return None;
        }
        let (expected, grant) = (self.expected, self.grant());
        if self.cursor != self.next {
            let cursor = self.cursor;
            let slot = self.slot(cursor);
            message::put_numbers(&mut slot.octets, cursor, expected, grant);
            return Some(&slot.octets);
        }
        if self.starved && self.retransmit_at.is_none() {
            // What told of a grant may have been lost: the peer is asked after a time.
            self.retransmit_at = Some(now + self.patience());
        }
        let kind = match self.due {
            Due::Now(kind) => kind,
            Due::Later(at) if at <= now => Kind::Acknowledge,
            _ => return None,
        };
        self.control.clear();
        message::emit(&mut self.control, kind, 0, &[], [&[], &[]]);
        message::put_numbers(&mut self.control, self.next, expected, grant);
        Some(&self.control)
    }

    /// What [`Peer::poll_transmit`] gave has left.
    #[inline]
    pub fn sent(&mut self, now: Time) {
        self.unacknowledged = 0;
        self.granted_to_peer = self.grant();
        if self.cursor == self.next {
            self.statistics.acknowledgements += 1;
            self.due = Due::Nothing;
            return;
        }
        // A gap, and a probe, are told by a message of their own.
        if !matches!(self.due, Due::Now(Kind::Missing | Kind::Probe)) {
            self.due = Due::Nothing;
        }
        let cursor = self.cursor;
        let again = core::mem::replace(&mut self.slot(cursor).sent, true);
        self.statistics.sent += u64::from(!again);
        self.statistics.retransmitted += u64::from(again);
        self.cursor = cursor.wrapping_add(1);
        if self.retransmit_at.is_none() {
            self.retransmit_at = Some(now + self.patience());
        }
    }

    fn patience(&self) -> Duration {
        self.config.retransmit_after * (1 << self.attempts.min(6))
    }

    /// When [`Peer::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        let acknowledge = if let Due::Later(at) = self.due { Some(at) } else { None };
        self.retransmit_at.into_iter().chain(acknowledge).min().filter(|_| !self.lost)
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.retransmit_at.is_none_or(|at| at > now) || self.lost {
            return;
        }
        self.attempts += 1;
        if self.attempts > self.config.attempts {
            self.give_up();
            return;
        }
        self.retransmit_at = Some(now + self.patience());
        if self.base == self.next {
            // Nothing is missing but a grant.
            self.due = Due::Now(Kind::Probe);
        }
        self.go_back();
    }

    fn give_up(&mut self) {
        self.lost = true;
        self.counters.drop_n(DropReason::Timeout, self.next.wrapping_sub(self.base).into());
        self.retransmit_at = None;
    }

    /// Whether the peer has been given up.
    pub const fn is_lost(&self) -> bool {
        self.lost
    }

    /// Messages that are not acknowledged.
    pub const fn outstanding(&self) -> u16 {
        self.next.wrapping_sub(self.base)
    }

    /// What was dropped, by reason.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What was sent and received.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Sizes and times.
    pub const fn config(&self) -> &Config {
        &self.config
    }
}
