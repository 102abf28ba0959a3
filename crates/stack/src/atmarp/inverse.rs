//! Who is at the far end of a circuit: InATMARP (RFC 2225 section 8.2). One of these for each circuit.

use super::{Backoff, CLIENT_AGEING};
use std::net::Ipv4Addr;
use wire::Time;
use wire::atmarp::{End, Operation, Packet};

/// What is known of a circuit's far end, and what is to be asked and answered there.
#[derive(Debug, Clone, Copy)]
pub struct Inverse {
    peer: Option<End>,
    is_static: bool,
    heard: Time,
    backoff: Backoff,
    ask: bool,
    /// Whom to answer. A second request before the answer was fetched takes its place.
    answer: Option<End>,
}

impl Inverse {
    /// A circuit of which nothing is known, or what the user says of it; that, no peer changes.
    pub fn new(peer: Option<Ipv4Addr>, now: Time) -> Self {
        Inverse {
            peer: peer.map(|ip| End { ip: Some(ip), ..End::default() }),
            is_static: peer.is_some(),
            heard: now,
            backoff: Backoff::new(now),
            ask: false,
            answer: None,
        }
    }

    /// The far end, if it is known.
    pub fn peer(&self) -> Option<&End> {
        self.peer.as_ref()
    }

    /// Whether the far end is whom the user has named.
    pub const fn is_static(&self) -> bool {
        self.is_static
    }

    /// An InATMARP packet has come. True if the far end's address is another than before.
    pub fn handle(&mut self, packet: &Packet, now: Time) -> bool {
        let before = self.peer.and_then(|p| p.ip);
        if packet.operation == Operation::InverseRequest {
            self.answer = Some(packet.sender);
        }
        if packet.sender.ip.is_some() && !self.is_static {
            self.peer = Some(packet.sender);
            self.heard = now;
            // Ask again well before the entry is too old.
            self.backoff = Backoff::new(now + CLIENT_AGEING / 2);
            self.ask = false;
        }
        self.peer.and_then(|p| p.ip) != before
    }

    /// Something else has come on the circuit: if nobody is known there yet, ask soon.
    pub fn handle_sign_of_life(&mut self, now: Time) {
        if self.peer.is_none() {
            self.backoff.hurry(now);
        }
    }

    /// Asks if it is time; forgets who has not been heard of for too long. True if somebody was forgotten.
    pub fn handle_timeout(&mut self, now: Time) -> bool {
        if self.is_static {
            return false;
        }
        self.ask |= self.backoff.is_due(now);
        let forget = self.peer.is_some() && self.heard + CLIENT_AGEING <= now;
        if forget {
            self.peer = None;
        }
        forget
    }

    /// What to say on the circuit. `own`: this end.
    pub fn poll(&mut self, own: End) -> Option<Packet> {
        if let Some(target) = self.answer.take() {
            return Some(Packet { operation: Operation::InverseReply, sender: own, target });
        }
        std::mem::take(&mut self.ask).then_some(Packet {
            operation: Operation::InverseRequest,
            sender: own,
            target: End::default(),
        })
    }

    /// Whether [`Inverse::poll`] would give something.
    pub fn has_packet(&self) -> bool {
        self.ask || self.answer.is_some()
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.is_static {
            return None;
        }
        let forget = self.heard + CLIENT_AGEING;
        Some(if self.peer.is_some() { self.backoff.next().min(forget) } else { self.backoff.next() })
    }
}
