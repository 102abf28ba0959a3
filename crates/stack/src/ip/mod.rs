//! IP over ATM: one interface over many circuits (RFC 2684, 2225, 1626).
//!
//! In: packets (or Ethernet frames, where the encapsulation is bridged) and SDUs, in the caller's buffers. Out: where a packet
//! goes, SDUs made in place, packets as parts of SDUs. Nothing is copied or allocated on the way of a packet; memory is one
//! entry for each circuit and the bounded tables of address resolution.

mod bridge;
mod checksum;
mod encapsulation;
mod fcs;
mod fragment;
mod offload;

pub use encapsulation::{CELLWAY, Content, Encapsulation, ethertype_of};
pub use fragment::{Fragments, MAX_MESSAGE_OCTETS, too_big};
pub use offload::{Cut, VNET_OCTETS, VnetHeader};

use crate::atmarp::{Client, Inverse, Resolution, Server};
use bridge::Bridge;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use wire::atmarp::{AtmAddress, End, Operation, Packet};
use wire::llc::{ARP, Protocol, ROUTED_OCTETS};
use wire::{Counters, DropReason, Time};

/// Default MTU for IP over AAL5 (RFC 1626, kept by RFC 2225).
pub const MTU: usize = 9180;
/// Longest AAL5 SDU.
const MAX_SDU_OCTETS: usize = 65_535;
/// The offer to take packets with their work left over: version 1.
const OFFER: [u8; 1] = [1];

/// What an interface is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Its IPv4 address.
    pub address: Ipv4Addr,
    /// Its ATM number; [`AtmAddress::NONE`] on permanent circuits.
    pub number: AtmAddress,
    /// Octets of the longest packet, or of the longest frame's payload.
    pub mtu: usize,
    /// What stands around packets, on all its circuits.
    pub encapsulation: Encapsulation,
    /// Whether packets whose checksum or cutting is left over are offered to, and taken from, peers that do the same.
    pub offload: bool,
}

impl Config {
    /// LLC/SNAP routed, MTU 9180, no offload.
    pub fn new(address: Ipv4Addr) -> Self {
        Config { address, number: AtmAddress::NONE, mtu: MTU, encapsulation: Encapsulation::LlcRouted, offload: false }
    }
}

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// On this circuit.
    To(u32),
    /// On all circuits ([`IpInterface::circuit_after`]).
    All,
    /// On this circuit, which has a smaller MTU: cut it ([`Fragments`]) or answer it ([`too_big`]).
    TooLong {
        /// The circuit.
        circuit: u32,
        /// Octets of the longest packet there.
        mtu: usize,
    },
    /// Nowhere; it is counted.
    Dropped,
}

/// What an SDU brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// The packet or frame.
    pub packet: &'a [u8],
    /// What the sender left to be done.
    pub header: VnetHeader,
}

#[derive(Debug)]
struct Circuit {
    inverse: Inverse,
    /// The ATM number of the far end, as the caller says.
    number: AtmAddress,
    mtu: usize,
    /// The peer takes packets with work left over.
    takes: bool,
    /// It has said so since its last InATMARP packet.
    offered: bool,
    /// Our offer has been said since our last InATMARP packet.
    said: bool,
}

#[derive(Debug, Clone, Copy)]
struct Way {
    circuit: u32,
    /// By the client's table, which wants to know that it is used.
    resolved: bool,
}

/// An IP interface over circuits that the caller numbers as it likes (channels).
#[derive(Debug)]
pub struct IpInterface {
    config: Config,
    circuits: BTreeMap<u32, Circuit>,
    by_ip: BTreeMap<Ipv4Addr, Way>,
    routes: Vec<(Ipv4Addr, u8, Ipv4Addr)>,
    client: Option<(u32, Client)>,
    server: Option<Server>,
    wanted: Option<End>,
    bridge: Bridge,
    /// Something may have to be said.
    speak: bool,
    deadline: Option<Time>,
    /// Packets to circuits.
    pub sent: Counters,
    /// Packets from circuits.
    pub received: Counters,
}

impl IpInterface {
    /// An interface without circuits.
    pub fn new(config: Config) -> Self {
        IpInterface {
            config,
            circuits: BTreeMap::new(),
            by_ip: BTreeMap::new(),
            routes: Vec::new(),
            client: None,
            server: None,
            wanted: None,
            bridge: Bridge::default(),
            speak: false,
            deadline: None,
            sent: Counters::default(),
            received: Counters::default(),
        }
    }

    /// What it was made of.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// This end, as ATMARP names it.
    fn own(&self) -> End {
        End { number: self.config.number, ip: Some(self.config.address), ..End::default() }
    }

    /// Octets to leave free before a packet in the buffer that becomes its SDU.
    pub fn headroom(&self) -> usize {
        self.config.encapsulation.headroom()
    }

    /// A circuit is open: asks who is there, unless `peer` says it.
    pub fn add_circuit(&mut self, circuit: u32, peer: Option<Ipv4Addr>, now: Time) {
        let inverse = Inverse::new(peer, now);
        let fresh = Circuit {
            inverse,
            number: AtmAddress::NONE,
            mtu: self.config.mtu,
            takes: false,
            offered: false,
            said: false,
        };
        self.circuits.insert(circuit, fresh);
        if let Some(server) = &mut self.server {
            server.add_circuit(circuit, now);
        }
        self.changed();
    }

    /// Says the ATM number at a circuit's far end, so that what the server knows of it leads there.
    pub fn set_number(&mut self, circuit: u32, number: AtmAddress) {
        if let Some(c) = self.circuits.get_mut(&circuit) {
            c.number = number;
            self.changed();
        }
    }

    /// Gives a circuit a smaller MTU than the interface's.
    pub fn set_circuit_mtu(&mut self, circuit: u32, mtu: usize) {
        if let Some(c) = self.circuits.get_mut(&circuit) {
            c.mtu = mtu.min(self.config.mtu);
        }
    }

    /// Packets to a network go to the peer `via`. The longest prefix counts; 0.0.0.0/0 is everything.
    pub fn add_route(&mut self, network: Ipv4Addr, prefix: u8, via: Ipv4Addr) {
        self.routes.push((network, prefix.min(32), via));
        self.routes.sort_by_key(|(_, prefix, _)| std::cmp::Reverse(*prefix));
    }

    /// Registers with the ATMARP server at the far end of a circuit, and asks it for others.
    pub fn use_server(&mut self, circuit: u32, now: Time) {
        self.client = Some((circuit, Client::new(self.own(), now)));
        self.changed();
    }

    /// Is the ATMARP server of its subnet, for at most `max_entries` stations.
    pub fn serve(&mut self, max_entries: usize, now: Time) {
        let mut server = Server::new(self.own(), max_entries);
        self.circuits.keys().for_each(|c| server.add_circuit(*c, now));
        self.server = Some(server);
        self.changed();
    }

    /// A circuit is gone.
    pub fn remove_circuit(&mut self, circuit: u32) {
        self.circuits.remove(&circuit);
        self.bridge.forget(circuit);
        if let Some(server) = &mut self.server {
            server.remove_circuit(circuit);
        }
        self.changed();
    }

    /// Who is known to be where.
    pub fn peers(&self) -> impl Iterator<Item = (u32, Option<Ipv4Addr>)> + '_ {
        let entered = |circuit| self.by_ip.iter().find(|(_, w)| w.circuit == circuit).map(|(ip, _)| *ip);
        self.circuits.keys().map(move |c| (*c, entered(*c)))
    }

    /// The next circuit after `circuit` (from the first with `None`).
    pub fn circuit_after(&self, circuit: Option<u32>) -> Option<u32> {
        let from = circuit.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.circuits.range((from, std::ops::Bound::Unbounded)).next().map(|(c, _)| *c)
    }

    /// The ATMARP client, if there is one.
    pub fn client(&self) -> Option<&Client> {
        self.client.as_ref().map(|(_, client)| client)
    }

    /// The ATMARP server, if there is one.
    pub fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// A station that packets want to go to, and to which no circuit leads: for whoever can open one.
    pub fn poll_wanted(&mut self) -> Option<End> {
        self.wanted.take()
    }

    /// Tables follow what is known now.
    fn changed(&mut self) {
        self.by_ip.clear();
        let mut enter = |ip: Option<Ipv4Addr>, circuit, resolved| {
            if let Some(ip) = ip {
                self.by_ip.entry(ip).or_insert(Way { circuit, resolved });
            }
        };
        for (circuit, c) in &self.circuits {
            enter(c.inverse.peer().and_then(|p| p.ip), *circuit, false);
        }
        for (ip, _, circuit) in self.server.iter().flat_map(Server::entries) {
            enter(Some(ip), circuit, false);
        }
        for (ip, end) in self.client.iter().flat_map(|(_, client)| client.known()) {
            let numbered = |c: &Circuit| {
                let number = c
                    .inverse
                    .peer()
                    .map_or(c.number, |p| if c.number == AtmAddress::NONE { p.number } else { c.number });
                number == end.number && number != AtmAddress::NONE
            };
            let circuit = self.circuits.iter().find(|(_, c)| numbered(c)).map(|(c, _)| *c);
            if let Some(circuit) = circuit {
                enter(Some(ip), circuit, true);
            }
        }
        self.speak = true;
        self.set_deadline();
    }

    fn set_deadline(&mut self) {
        let asks = self.config.encapsulation == Encapsulation::LlcRouted;
        let circuits =
            self.circuits.values().filter(|_| asks && self.server.is_none()).filter_map(|c| c.inverse.poll_timeout());
        let client = self.client.as_ref().and_then(|(_, c)| c.poll_timeout());
        let server = self.server.as_ref().and_then(Server::poll_timeout);
        self.deadline = circuits.chain(client).chain(server).min();
    }

    /// The circuit for a destination: its own, its router's, or the only one there is.
    fn circuit_for(&mut self, to: Option<Ipv4Addr>, now: Time) -> Option<u32> {
        let only = || self.circuits.keys().next().copied().filter(|_| self.circuits.len() == 1);
        let Some(to) = to else { return only() };
        let via = |(network, prefix, via): &(Ipv4Addr, u8, Ipv4Addr)| {
            let mask = u32::MAX.checked_shl(32 - u32::from(*prefix)).unwrap_or(0);
            (u32::from(to) & mask == u32::from(*network) & mask).then_some(*via)
        };
        let hop = if self.by_ip.contains_key(&to) { to } else { self.routes.iter().find_map(via).unwrap_or(to) };
        match self.by_ip.get(&hop) {
            Some(way) if !way.resolved => return Some(way.circuit),
            _ => {}
        }
        if let Some((_, client)) = &mut self.client {
            let known = client.resolve(hop, now);
            if let Some(way) = self.by_ip.get(&hop) {
                return Some(way.circuit);
            }
            match known {
                Resolution::Known(end) => self.wanted = Some(end),
                Resolution::Asking => {
                    self.speak = true;
                    self.set_deadline();
                }
                Resolution::Unreachable => {}
            }
            return None;
        }
        only()
    }

    /// Where a packet goes. What goes nowhere is counted.
    pub fn route(&mut self, packet: &[u8], now: Time) -> Verdict {
        if self.config.encapsulation.is_bridged() {
            return self.bridge_route(packet, now);
        }
        let to = match packet.first().map(|o| o >> 4) {
            Some(4) if packet.len() >= 20 => Some(Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19])),
            Some(6) if packet.len() >= 40 => None,
            _ => {
                self.sent.drop_one(DropReason::Malformed);
                return Verdict::Dropped;
            }
        };
        match self.circuit_for(to, now) {
            Some(circuit) => {
                let mtu = self.circuits.get(&circuit).map_or(self.config.mtu, |c| c.mtu);
                if packet.len() > mtu { Verdict::TooLong { circuit, mtu } } else { Verdict::To(circuit) }
            }
            None => {
                self.sent.drop_one(DropReason::UnknownCircuit);
                Verdict::Dropped
            }
        }
    }

    fn bridge_route(&mut self, frame: &[u8], now: Time) -> Verdict {
        if frame.len() < 14 {
            self.sent.drop_one(DropReason::Malformed);
            return Verdict::Dropped;
        }
        // Room for one VLAN tag.
        if frame.len() > self.config.mtu + 18 {
            self.sent.drop_one(DropReason::Oversize);
            return Verdict::Dropped;
        }
        match (self.bridge.circuit(frame, now), self.circuits.len()) {
            (Some(circuit), _) => Verdict::To(circuit),
            (None, 0) => {
                self.sent.drop_one(DropReason::UnknownCircuit);
                Verdict::Dropped
            }
            (None, 1) => self.circuit_after(None).map_or(Verdict::Dropped, Verdict::To),
            (None, _) => Verdict::All,
        }
    }

    /// Whether a circuit ends at the packet's own destination, in this subnet: then the AAL5 CRC covers it all the way, and
    /// its transport checksum may be left out. Not if a router is at the far end.
    pub fn ends_at_destination(&self, circuit: u32, packet: &[u8]) -> bool {
        match packet {
            [first, ..] if first >> 4 == 4 && packet.len() >= 20 => {
                let to = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
                self.by_ip.get(&to).is_some_and(|way| way.circuit == circuit)
            }
            _ => false,
        }
    }

    /// Whether a packet may go on a circuit with its checksum and its cutting left over: both ends do that, and the far one
    /// is the packet's destination.
    pub fn takes_offload(&self, circuit: u32, packet: &[u8]) -> bool {
        let long = packet.len() + ROUTED_OCTETS + VNET_OCTETS;
        long <= MAX_SDU_OCTETS
            && self.circuits.get(&circuit).is_some_and(|c| c.takes)
            && self.ends_at_destination(circuit, packet)
    }

    /// Makes the SDU of the packet that stands at [`IpInterface::headroom`] in `sdu`; gives its length, and counts. `None`,
    /// counted, if it cannot be one.
    pub fn encapsulate(&mut self, sdu: &mut [u8], octets: usize) -> Option<usize> {
        let made = self.config.encapsulation.emit(sdu, octets).filter(|n| *n <= MAX_SDU_OCTETS);
        self.count_sent(made, octets)
    }

    /// As [`IpInterface::encapsulate`], for a packet with work left over ([`IpInterface::takes_offload`]).
    pub fn encapsulate_offloaded(&mut self, sdu: &mut [u8], octets: usize, header: VnetHeader) -> Option<usize> {
        let end = ROUTED_OCTETS + octets;
        let made = sdu.get_mut(end..end + VNET_OCTETS).map(|trailer| trailer.copy_from_slice(&header.to_octets()));
        let made = made.map(|()| {
            Protocol::Routed(CELLWAY).emit(sdu);
            end + VNET_OCTETS
        });
        self.count_sent(made, octets)
    }

    fn count_sent(&mut self, made: Option<usize>, octets: usize) -> Option<usize> {
        match made {
            Some(_) => {
                self.sent.pdus += 1;
                self.sent.octets += octets as u64;
            }
            None => self.sent.drop_one(DropReason::Oversize),
        }
        made
    }

    /// An SDU that came on a circuit; gives the packet in it, if it is one and not the interface's own business.
    pub fn handle_pdu<'a>(&mut self, circuit: u32, sdu: &'a [u8], now: Time) -> Option<Delivery<'a>> {
        let Some(state) = self.circuits.get_mut(&circuit) else {
            self.received.drop_one(DropReason::UnknownCircuit);
            return None;
        };
        let plain = |packet| Delivery { packet, header: VnetHeader::default() };
        let delivery = match self.config.encapsulation.parse(sdu) {
            Ok(Content::Packet(packet)) => {
                let soon = if let Some(server) = &mut self.server {
                    server.handle_sign_of_life(circuit, now).then(|| server.poll_timeout()).flatten()
                } else if state.inverse.peer().is_none() {
                    state.inverse.handle_sign_of_life(now);
                    state.inverse.poll_timeout()
                } else {
                    None
                };
                if soon.is_some() {
                    self.deadline = self.deadline.into_iter().chain(soon).min();
                }
                plain(packet)
            }
            Ok(Content::Frame(frame)) => {
                self.bridge.learn(frame, circuit, now);
                plain(frame)
            }
            Ok(Content::Arp(packet)) => {
                match Packet::parse(packet) {
                    Ok(packet) => self.handle_arp(circuit, &packet, now),
                    Err(_) => self.received.drop_one(DropReason::Malformed),
                }
                return None;
            }
            Ok(Content::Cellway(rest)) if rest == OFFER => {
                state.offered = self.config.offload;
                return None;
            }
            Ok(Content::Cellway(rest)) => match offloaded(rest).filter(|_| self.config.offload) {
                Some(delivery) => delivery,
                None => {
                    self.received.drop_one(DropReason::Malformed);
                    return None;
                }
            },
            Err(reason) => {
                self.received.drop_one(reason);
                return None;
            }
        };
        self.received.pdus += 1;
        self.received.octets += delivery.packet.len() as u64;
        Some(delivery)
    }

    fn handle_arp(&mut self, circuit: u32, packet: &Packet, now: Time) {
        let Some(state) = self.circuits.get_mut(&circuit) else { return };
        if matches!(packet.operation, Operation::InverseRequest | Operation::InverseReply) {
            // Offers stand before what they belong to, so that one of an earlier life of the peer does not outlive it.
            state.takes = std::mem::take(&mut state.offered);
        }
        if let Some(server) = &mut self.server {
            server.handle(circuit, packet, now);
            return self.changed();
        }
        match packet.operation {
            Operation::InverseRequest | Operation::InverseReply => {
                // An address that is ours, or another circuit's, is not believed; the question is answered all the same.
                let elsewhere =
                    |ip| ip == self.config.address || self.by_ip.get(&ip).is_some_and(|w| w.circuit != circuit);
                let mut packet = *packet;
                if packet.sender.ip.is_some_and(elsewhere) {
                    self.received.drop_one(DropReason::NotPermitted);
                    packet.sender.ip = None;
                }
                if state.inverse.handle(&packet, now) {
                    self.changed();
                }
                self.speak = true;
                self.set_deadline();
            }
            Operation::Reply | Operation::Nak => match &mut self.client {
                Some((on, client)) if *on == circuit => {
                    client.handle(packet, now);
                    self.changed();
                }
                _ => self.received.drop_one(DropReason::NotPermitted),
            },
            Operation::Request => self.received.drop_one(DropReason::NotPermitted),
        }
    }

    /// Asks where it is time, and forgets who has not been heard of for too long.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.deadline.is_none_or(|at| at > now) {
            return;
        }
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
        if let Some((circuit, client)) = &mut self.client
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

/// A packet with its work left over: the packet, then the header.
fn offloaded(rest: &[u8]) -> Option<Delivery<'_>> {
    let (packet, header) = rest.split_last_chunk::<VNET_OCTETS>()?;
    ethertype_of(packet)?;
    Some(Delivery { packet, header: VnetHeader::parse(header, packet.len())? })
}

#[cfg(test)]
mod tests;
