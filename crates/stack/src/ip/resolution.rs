//! Who is at the other ends: what the interface asks and answers by InATMARP and ATMARP (RFC 2225), what it offers to its peers,
//! and the table that packets are routed by.

use super::{CELLWAY, Encapsulation, IpInterface, OFFER, Way};
use crate::atmarp::Server;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::atmarp::{AtmAddress, Operation, Packet};
use wire::llc::{ARP, Protocol, ROUTED_OCTETS};
use wire::{DropReason, Time};

/// Between two questions on all circuits because of packets.
const ASK_AGAIN: Duration = Duration::from_secs(1);

impl IpInterface {
    /// Tables follow what is known now.
    pub(super) fn changed(&mut self) {
        self.by_ip.clear();
        let mut enter = |ip: Option<Ipv4Addr>, circuit, resolved| {
            if let Some(ip) = ip {
                self.by_ip.entry(ip).or_insert(Way { circuit, resolved });
            }
        };
        for (circuit, c) in &self.circuits {
            enter(c.inverse.peer().and_then(|p| p.ip), *circuit, false);
        }
        // Where a station can be reached by its number.
        let numbered = |number: AtmAddress| {
            let mut found = self.circuits.iter().filter(|_| number != AtmAddress::NONE);
            found.find(|(_, c)| c.far_number() == number).map(|(circuit, _)| *circuit)
        };
        for (ip, end, circuit) in self.server.iter().flat_map(Server::entries) {
            let known = self.circuits.contains_key(&circuit).then_some(circuit).or_else(|| numbered(end.number));
            if let Some(circuit) = known {
                enter(Some(ip), circuit, false);
            }
        }
        for (ip, end) in self.client.iter().flat_map(|(_, client)| client.known()) {
            if let Some(circuit) = numbered(end.number) {
                enter(Some(ip), circuit, true);
            }
        }
        self.speak = true;
        self.asked_around = None;
        self.review_kept();
        self.set_deadline();
    }

    /// Whether somebody's address may be learnt yet by InATMARP: asks on all circuits on which nobody is known, though no more
    /// often than each second.
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
                for c in self.circuits.values_mut().filter(|c| c.inverse.peer().is_none()) {
                    c.inverse.handle_sign_of_life(now);
                    any = true;
                }
            }
        }
        self.asked_around = Some((now, any));
        self.set_deadline();
        any
    }

    pub(super) fn set_deadline(&mut self) {
        let asks = self.config.encapsulation == Encapsulation::LlcRouted;
        let circuits =
            self.circuits.values().filter(|_| asks && self.server.is_none()).filter_map(|c| c.inverse.poll_timeout());
        let client = self.client.as_ref().and_then(|(_, c)| c.poll_timeout());
        let server = self.server.as_ref().and_then(Server::poll_timeout);
        self.deadline = circuits.chain(client).chain(server).chain(self.waiting.poll_timeout()).min();
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
            server.handle(circuit, packet, now);
            return self.changed();
        }
        match packet.operation {
            Operation::InverseRequest | Operation::InverseReply => {
                // An address that is ours, or another circuit's, is not believed; the question is answered all the same.
                let is_other = |w: &Way| !self.is_same_station(w.circuit, circuit);
                let elsewhere = |ip| ip == self.config.address || self.by_ip.get(&ip).is_some_and(is_other);
                let mut packet = *packet;
                if packet.sender.ip.is_some_and(elsewhere) {
                    self.received.drop_one(DropReason::NotPermitted);
                    packet.sender.ip = None;
                }
                let state = self.circuits.get_mut(&circuit);
                if state.is_some_and(|state| state.inverse.handle(&packet, now)) {
                    self.changed();
                }
                self.speak = true;
                self.set_deadline();
            }
            Operation::Reply | Operation::Nak => match &mut self.client {
                Some((on, client)) if *on == Some(circuit) => {
                    client.handle(packet, now);
                    self.changed();
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
        let asks = self.config.encapsulation == Encapsulation::LlcRouted && self.server.is_none();
        if asks {
            for c in self.circuits.values_mut() {
                if c.inverse.handle_timeout(now) {
                    c.takes = false;
                }
            }
        }
        if let Some((_, client)) = &mut self.client {
            client.handle_timeout(now);
        }
        if let Some(server) = &mut self.server {
            server.handle_timeout(now);
        }
        self.changed();
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
        if self.server.is_none() {
            for (circuit, c) in &mut self.circuits {
                if !c.inverse.has_packet() {
                    continue;
                }
                if self.config.offload && !c.said {
                    c.said = true;
                    Protocol::Routed(CELLWAY).emit(sdu);
                    sdu[ROUTED_OCTETS..ROUTED_OCTETS + OFFER.len()].copy_from_slice(&OFFER);
                    return Some((*circuit, ROUTED_OCTETS + OFFER.len()));
                }
                c.said = false;
                if let Some(packet) = c.inverse.poll(own) {
                    return said(*circuit, packet, sdu);
                }
            }
        }
        self.speak = false;
        None
    }
}
