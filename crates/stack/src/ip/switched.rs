//! An interface whose circuits are calls (RFC 2225): a packet goes to no station but its own, the server's circuit
//! comes and goes, and whoever sets up calls learns to whom. [`crate::classical`] decides when.

use super::{Circuit, IpInterface};
use crate::atmarp::Client;
use std::net::Ipv4Addr;
use wire::Time;
use wire::atmarp::{AtmAddress, End, Packet};

/// Stations that wait for a call at once; beyond, the next packet asks again.
const MAX_WANTED: usize = 64;

impl IpInterface {
    /// Circuits are calls from now on. With `has_server` it is a client, which asks once
    /// [`IpInterface::set_server_circuit`] says where.
    pub fn set_switched(&mut self, has_server: bool, now: Time) {
        self.is_switched = true;
        if has_server {
            self.client = Some((None, Client::new(self.own(), now)));
        }
        self.index_anew();
        self.review();
    }

    /// The circuit to the ATMARP server has come up, or is gone. The client registers anew; what the server has said
    /// stays.
    pub fn set_server_circuit(&mut self, circuit: Option<u32>, now: Time) {
        if let Some((on, client)) = &mut self.client {
            *on = circuit;
            if circuit.is_some() {
                client.register_again(now);
            }
        }
        self.review();
    }

    /// Whether packets have passed on a circuit since this was asked last.
    pub fn take_used(&mut self, circuit: u32) -> bool {
        self.circuits.get_mut(&circuit).is_some_and(|c| std::mem::take(&mut c.used))
    }

    /// A station that packets want to go to, and to which no circuit leads: for whoever can open one.
    pub fn poll_wanted(&mut self) -> Option<End> {
        self.wanted.pop_front()
    }

    /// Whether [`IpInterface::poll_wanted`] has something.
    pub fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// A circuit to a station is wanted.
    pub(super) fn want(&mut self, end: End) {
        if self.wanted.len() < MAX_WANTED && !self.wanted.contains(&end) {
            self.wanted.push_back(end);
        }
    }

    /// The station that the server's table has for an address, if a call leads there.
    pub(super) fn entered(&self, ip: Ipv4Addr) -> Option<End> {
        let (end, _) = self.server.as_ref().and_then(|server| server.entry(ip))?;
        Some(*end).filter(|end| end.number != AtmAddress::NONE)
    }

    /// Whether a packet's sender is who is at the far end of a call, as far as the network has said. Selectors may
    /// differ.
    pub(super) fn speaks_for_itself(&self, circuit: u32, packet: &Packet) -> bool {
        let known = self.circuits.get(&circuit).map_or(AtmAddress::NONE, |c| c.number);
        let said = packet.sender.number;
        let (a, b) = (known.octets(), said.octets());
        !self.is_switched || a.is_empty() || b.is_empty() || a.split_last().map(|l| l.1) == b.split_last().map(|l| l.1)
    }

    /// Whether two circuits lead to the same station, as where both ends have called each other.
    pub(super) fn is_same_station(&self, a: u32, b: u32) -> bool {
        let far_number = |c: &Circuit| c.far_number(self.is_switched);
        let number = |circuit| self.circuits.get(&circuit).map_or(AtmAddress::NONE, far_number);
        a == b || self.is_switched && number(a) != AtmAddress::NONE && number(a) == number(b)
    }
}

impl Circuit {
    /// The number at the far end: the caller's word, or on a permanent circuit the peer's. Over calls a peer's word is
    /// no proof.
    pub(super) fn far_number(&self, is_switched: bool) -> AtmAddress {
        let said = self.inverse.peer().filter(|_| !is_switched && self.number == AtmAddress::NONE);
        said.map_or(self.number, |peer| peer.number)
    }
}
