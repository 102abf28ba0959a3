//! Who is at the other ends: what the interface asks and answers by InATMARP and ATMARP (RFC 2225), what it offers to
//! its peers, and the table that packets are routed by.

use super::{CELLWAY, Encapsulation, IpInterface, OFFER, Way};
use crate::atmarp::Server;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::atmarp::{Operation, Packet};
use wire::llc::{ARP, Protocol, ROUTED_OCTETS};
use wire::{DropReason, Time};

/// Between two questions on all circuits because of packets.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Circuits that are asked in one go. The next go follows at once.
const MAX_TURN: usize = 256;

impl IpInterface {
    /// What is known of addresses and circuits is other than before.
    pub(super) fn review(&mut self) {
        self.speak = true;
        self.asked_around = None;
        self.review_kept();
        self.set_deadline();
    }

    /// What is known of one address is other than before, or there is something to say.
    fn review_address(&mut self, ip: Option<Ipv4Addr>) {
        self.speak = true;
        if let Some(ip) = ip {
            self.review_hop(ip);
        }
        self.set_deadline();
    }

    /// A packet has come on a circuit: if nobody is known there, ask soon.
    pub(super) fn handle_sign_of_life(&mut self, circuit: u32, is_unknown: bool, now: Time) {
        let asks = if let Some(server) = &mut self.server {
            server.handle_sign_of_life(circuit, now)
        } else {
            let asks = is_unknown && self.asks_each();
            asks && self.with_circuit(circuit, |c| c.inverse.handle_sign_of_life(now)).is_some()
        };
        if asks {
            self.deadline = self.deadline.into_iter().chain(self.next_question()).min();
        }
    }

    /// When somebody is asked for an address, or a server's entry ages.
    fn next_question(&self) -> Option<Time> {
        let server = self.server.as_ref().and_then(Server::poll_timeout);
        self.index.next_ask().map(|(at, _)| at).into_iter().chain(server).min()
    }

    /// Whether somebody's address may be learnt yet by InATMARP: asks on all circuits on which nobody is known, though
    /// no more often than each second.
    pub(super) fn ask_around(&mut self, now: Time) -> bool {
        if self.config.encapsulation != Encapsulation::LlcRouted {
            return false;
        }
        if let Some((_, any)) = self.asked_around.filter(|(at, _)| now < *at + ASK_AGAIN) {
            return any;
        }
        let mut any = false;
        match &mut self.server {
            Some(server) => self.circuits.keys().for_each(|c| any |= server.handle_sign_of_life(*c, now)),
            None => {
                let unknown = self.circuits.iter().filter(|(_, c)| c.inverse.peer().is_none());
                let unknown: Vec<_> = unknown.map(|(circuit, _)| *circuit).collect();
                any = !unknown.is_empty();
                for circuit in unknown {
                    self.with_circuit(circuit, |c| c.inverse.handle_sign_of_life(now));
                }
            }
        }
        self.asked_around = Some((now, any));
        self.set_deadline();
        any
    }

    pub(super) fn set_deadline(&mut self) {
        let client = self.client.as_ref().and_then(|(_, c)| c.poll_timeout());
        self.deadline = self.next_question().into_iter().chain(client).chain(self.waiting.poll_timeout()).min();
    }

    pub(super) fn handle_arp(&mut self, circuit: u32, packet: &Packet, now: Time) {
        let Some(state) = self.circuits.get_mut(&circuit) else { return };
        if matches!(packet.operation, Operation::InverseRequest | Operation::InverseReply) {
            // Offers stand before what they belong to, so that one of an earlier life of the peer does not outlive it.
            state.takes = std::mem::take(&mut state.offered);
        }
        let speaks = matches!(packet.operation, Operation::Reply | Operation::Nak);
        if !speaks && !self.speaks_for_itself(circuit, packet) {
            return self.received.drop_one(DropReason::NotPermitted);
        }
        if let Some(server) = &mut self.server {
            let entered = server.handle(circuit, packet, now);
            return self.review_address(entered);
        }
        match packet.operation {
            Operation::InverseRequest | Operation::InverseReply => {
                // An address that is ours, or another circuit's, is not believed; the question is answered all the
                // same.
                let is_other = |w: Way| !self.is_same_station(w.circuit, circuit);
                let elsewhere = |ip| Some(ip) == self.config.address || self.way(ip).is_some_and(is_other);
                let mut packet = *packet;
                if packet.sender.ip.is_some_and(elsewhere) {
                    self.received.drop_one(DropReason::NotPermitted);
                    packet.sender.ip = None;
                }
                if self.with_circuit(circuit, |c| c.inverse.handle(&packet, now)) == Some(true) {
                    self.asked_around = None;
                }
                self.review_address(packet.sender.ip);
            }
            Operation::Reply | Operation::Nak => match &mut self.client {
                Some((on, client)) if *on == Some(circuit) => {
                    let resolved = client.handle(packet, now);
                    self.review_address(resolved);
                }
                _ => self.received.drop_one(DropReason::NotPermitted),
            },
            Operation::Request => self.received.drop_one(DropReason::NotPermitted),
        }
    }

    /// Asks where it is time, and forgets who has not been heard of, and which packets have waited, for too long.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.deadline.is_none_or(|at| at > now) {
            return;
        }
        self.expire_kept(now);
        for _ in 0..MAX_TURN {
            let Some((_, circuit)) = self.index.next_ask().filter(|(at, _)| *at <= now) else { break };
            self.with_circuit(circuit, |c| {
                if c.inverse.handle_timeout(now) {
                    c.takes = false;
                }
            });
        }
        if let Some((_, client)) = &mut self.client {
            client.handle_timeout(now);
        }
        if let Some(server) = &mut self.server {
            server.handle_timeout(now);
        }
        self.review();
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.deadline
    }

    /// Whether the interface itself may have something to say.
    pub fn has_pdu(&self) -> bool {
        self.speak
    }

    /// What the interface itself says: its circuit, and the octets at the start of `sdu`, which has at least
    /// [`wire::atmarp::MAX_OCTETS`] and 8.
    pub fn poll_pdu(&mut self, sdu: &mut [u8]) -> Option<(u32, usize)> {
        if !self.speak {
            return None;
        }
        if self.config.encapsulation != Encapsulation::LlcRouted {
            self.speak = false;
            return None;
        }
        let own = self.own();
        let said = |circuit, packet: Packet, sdu: &mut [u8]| {
            Protocol::Routed(ARP).emit(sdu);
            packet.emit(&mut sdu[ROUTED_OCTETS..]);
            Some((circuit, ROUTED_OCTETS + packet.buffer_len()))
        };
        if let Some(server) = &mut self.server
            && let Some((circuit, packet)) = server.poll()
        {
            return said(circuit, packet, sdu);
        }
        if let Some((Some(circuit), client)) = &mut self.client
            && let Some(packet) = client.poll()
        {
            return said(*circuit, packet, sdu);
        }
        if let Some(circuit) = self.index.speaker().filter(|_| self.server.is_none()) {
            let offers = self.config.offload;
            let says = self.with_circuit(circuit, |c| {
                c.said = offers && !c.said;
                if c.said { None } else { c.inverse.poll(own) }
            });
            if let Some(packet) = says.flatten() {
                return said(circuit, packet, sdu);
            }
            Protocol::Routed(CELLWAY).emit(sdu);
            sdu[ROUTED_OCTETS..ROUTED_OCTETS + OFFER.len()].copy_from_slice(&OFFER);
            return Some((circuit, ROUTED_OCTETS + OFFER.len()));
        }
        self.speak = false;
        None
    }
}
