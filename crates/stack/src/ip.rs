//! IP over ATM on permanent circuits (RFC 2684 LLC/SNAP routed, RFC 2225 InATMARP, MTU 9180 by RFC 1626).
//!
//! One interface has many circuits; who is at the far end of each is learnt by InATMARP, or said. In: IP packets and
//! PDUs. Out: PDUs for circuits and IP packets. Memory: one entry for each circuit, bounded queues.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::atmarp::{End, Operation, Packet};
use wire::llc::{ARP, IPV4, IPV6, Protocol, ROUTED_OCTETS};
use wire::{Counters, DropReason, Time};

/// Default MTU for IP over AAL5 (RFC 1626).
pub const MTU: usize = 9180;
/// How long an entry is believed (RFC 2225 section 8.4.1: clients 15 minutes).
pub const AGEING: Duration = Duration::from_secs(15 * 60);
/// From one unanswered request to the next.
pub const RETRY: Duration = Duration::from_secs(1);
/// PDUs and packets that wait to be fetched.
const QUEUE: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Peer {
    ip: Option<Ipv4Addr>,
    /// When to ask (again).
    ask_at: Time,
    is_static: bool,
    /// Time of the last answer, for ageing.
    heard: Time,
}

/// An IP interface over circuits that the caller numbers as it likes (channels).
#[derive(Debug)]
pub struct IpInterface {
    address: Ipv4Addr,
    mtu: usize,
    peers: BTreeMap<u32, Peer>,
    pdus: VecDeque<(u32, Vec<u8>)>,
    packets: VecDeque<Vec<u8>>,
    /// Packets to circuits.
    pub sent: Counters,
    /// Packets from circuits.
    pub received: Counters,
}

impl IpInterface {
    /// An interface of this address.
    pub fn new(address: Ipv4Addr, mtu: usize) -> Self {
        IpInterface {
            address,
            mtu,
            peers: BTreeMap::new(),
            pdus: VecDeque::with_capacity(QUEUE),
            packets: VecDeque::with_capacity(QUEUE),
            sent: Counters::default(),
            received: Counters::default(),
        }
    }

    /// A circuit is open: asks who is there, unless `peer` says it.
    pub fn add_circuit(&mut self, circuit: u32, peer: Option<Ipv4Addr>, now: Time) {
        self.peers.insert(circuit, Peer { ip: peer, ask_at: now, is_static: peer.is_some(), heard: now });
    }

    /// A circuit is gone.
    pub fn remove_circuit(&mut self, circuit: u32) {
        self.peers.remove(&circuit);
    }

    /// Who is known to be where.
    pub fn peers(&self) -> impl Iterator<Item = (u32, Option<Ipv4Addr>)> + '_ {
        self.peers.iter().map(|(c, p)| (*c, p.ip))
    }

    /// The circuit for a destination: its own, or the only one there is.
    fn route(&self, to: Option<Ipv4Addr>) -> Option<u32> {
        let known = self.peers.iter().find(|(_, p)| p.ip.is_some() && p.ip == to).map(|(c, _)| *c);
        let only = || self.peers.keys().next().copied().filter(|_| self.peers.len() == 1);
        known.or_else(only)
    }

    /// Whether another packet can be taken.
    pub fn has_room(&self) -> bool {
        self.pdus.len() < QUEUE
    }

    /// An IP packet to be sent. False, counted, if it cannot be.
    pub fn handle_packet(&mut self, packet: &[u8]) -> bool {
        let (ethertype, to) = match packet.first().map(|o| o >> 4) {
            Some(4) if packet.len() >= 20 => {
                (IPV4, Some(Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19])))
            }
            Some(6) if packet.len() >= 40 => (IPV6, None),
            _ => {
                self.sent.drop_one(DropReason::Malformed);
                return false;
            }
        };
        if packet.len() > self.mtu {
            self.sent.drop_one(DropReason::Oversize);
            return false;
        }
        let Some(circuit) = self.route(to) else {
            self.sent.drop_one(DropReason::UnknownCircuit);
            return false;
        };
        if self.pdus.len() >= QUEUE {
            self.sent.drop_one(DropReason::QueueFull);
            return false;
        }
        let mut pdu = vec![0; ROUTED_OCTETS + packet.len()];
        Protocol::Routed(ethertype).emit(&mut pdu);
        pdu[ROUTED_OCTETS..].copy_from_slice(packet);
        self.sent.pdus += 1;
        self.sent.octets += packet.len() as u64;
        self.pdus.push_back((circuit, pdu));
        true
    }

    /// A PDU that came on a circuit.
    pub fn handle_pdu(&mut self, circuit: u32, pdu: &[u8], now: Time) {
        if !self.peers.contains_key(&circuit) {
            return self.received.drop_one(DropReason::UnknownCircuit);
        }
        match Protocol::parse(pdu) {
            Ok((Protocol::Routed(ethertype @ (IPV4 | IPV6)), packet)) => {
                // The Ethertype and the packet's own version are said by the peer: they must agree.
                let version = if ethertype == IPV4 { 4 } else { 6 };
                if packet.first().is_none_or(|o| o >> 4 != version) {
                    return self.received.drop_one(DropReason::Malformed);
                }
                if self.packets.len() >= QUEUE {
                    return self.received.drop_one(DropReason::QueueFull);
                }
                self.received.pdus += 1;
                self.received.octets += packet.len() as u64;
                self.packets.push_back(packet.to_vec());
            }
            Ok((Protocol::Routed(ARP), packet)) => match Packet::parse(packet) {
                Ok(packet) => self.handle_arp(circuit, &packet, now),
                Err(_) => self.received.drop_one(DropReason::Malformed),
            },
            _ => self.received.drop_one(DropReason::Malformed),
        }
    }

    fn handle_arp(&mut self, circuit: u32, packet: &Packet, now: Time) {
        let Some(peer) = self.peers.get_mut(&circuit) else { return };
        if !matches!(packet.operation, Operation::InverseRequest | Operation::InverseReply) {
            return self.received.drop_one(DropReason::Malformed);
        }
        if let (Some(ip), false) = (packet.sender.ip, peer.is_static) {
            peer.ip = Some(ip);
            peer.heard = now;
            // Ask again well before the entry is too old.
            peer.ask_at = now + AGEING / 2;
        }
        if packet.operation == Operation::InverseRequest {
            self.send_arp(circuit, Operation::InverseReply, packet.sender);
        }
    }

    fn send_arp(&mut self, circuit: u32, operation: Operation, target: End) {
        if self.pdus.len() >= QUEUE {
            return;
        }
        let packet = Packet { operation, sender: End { ip: Some(self.address), ..End::default() }, target };
        let mut pdu = vec![0; ROUTED_OCTETS + packet.buffer_len()];
        Protocol::Routed(ARP).emit(&mut pdu);
        packet.emit(&mut pdu[ROUTED_OCTETS..]);
        self.pdus.push_back((circuit, pdu));
    }

    /// Asks where it is time, and forgets who has not been heard for too long.
    pub fn handle_timeout(&mut self, now: Time) {
        let mut ask = Vec::new();
        for (circuit, peer) in &mut self.peers {
            if peer.is_static || peer.ask_at > now {
                continue;
            }
            if peer.ip.is_some() && peer.heard + AGEING <= now {
                peer.ip = None;
            }
            peer.ask_at = now + RETRY;
            ask.push(*circuit);
        }
        for circuit in ask {
            self.send_arp(circuit, Operation::InverseRequest, End::default());
        }
    }

    /// When to ask next.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.peers.values().filter(|p| !p.is_static).map(|p| p.ask_at).min()
    }

    /// A PDU to be sent, and its circuit.
    pub fn poll_pdu(&mut self) -> Option<(u32, Vec<u8>)> {
        self.pdus.pop_front()
    }

    /// Whether a PDU waits.
    pub fn has_pdu(&self) -> bool {
        !self.pdus.is_empty()
    }

    /// Puts a PDU that could not be sent yet back to the front.
    pub fn unpoll_pdu(&mut self, circuit: u32, pdu: Vec<u8>) {
        self.pdus.push_front((circuit, pdu));
    }

    /// An IP packet that has arrived.
    pub fn poll_packet(&mut self) -> Option<Vec<u8>> {
        self.packets.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn packet(to: Ipv4Addr, octets: usize) -> Vec<u8> {
        let mut p = vec![0; octets];
        p[0] = 0x45;
        p[16..20].copy_from_slice(&to.octets());
        p
    }

    fn exchange(a: &mut IpInterface, b: &mut IpInterface, now: Time) {
        for i in [&mut *a, &mut *b] {
            i.handle_timeout(now);
        }
        while a.has_pdu() || b.has_pdu() {
            while let Some((c, pdu)) = a.poll_pdu() {
                b.handle_pdu(c, &pdu, now);
            }
            while let Some((c, pdu)) = b.poll_pdu() {
                a.handle_pdu(c, &pdu, now);
            }
        }
    }

    #[test]
    fn each_learns_who_is_at_the_other_end_and_forgets_after_a_quarter_of_an_hour() {
        let (mut a, mut b) = (IpInterface::new(A, MTU), IpInterface::new(B, MTU));
        for i in [&mut a, &mut b] {
            i.add_circuit(7, None, Time::ZERO);
            i.add_circuit(8, None, Time::ZERO);
        }
        exchange(&mut a, &mut b, Time::ZERO);
        assert_eq!(a.peers().next(), Some((7, Some(B))));
        assert_eq!(b.peers().next(), Some((7, Some(A))));
        assert!(a.handle_packet(&packet(B, 100)));
        assert!(!a.handle_packet(&packet(Ipv4Addr::new(10, 0, 0, 9), 100)));
        assert_eq!(a.sent.dropped(DropReason::UnknownCircuit), 1);
        // Nobody answers any more.
        let late = Time::ZERO + AGEING;
        a.handle_timeout(late);
        assert_eq!(a.peers().next(), Some((7, None)));
        assert_eq!(a.poll_timeout(), Some(late + RETRY));
    }

    #[test]
    fn packets_go_through_whole_up_to_the_mtu() {
        let (mut a, mut b) = (IpInterface::new(A, MTU), IpInterface::new(B, MTU));
        a.add_circuit(1, Some(B), Time::ZERO);
        b.add_circuit(1, Some(A), Time::ZERO);
        for octets in [20, 1500, MTU] {
            assert!(a.handle_packet(&packet(B, octets)));
            exchange(&mut a, &mut b, Time::ZERO);
            assert_eq!(b.poll_packet(), Some(packet(B, octets)));
        }
        assert!(!a.handle_packet(&packet(B, MTU + 1)));
        assert_eq!(a.sent.dropped(DropReason::Oversize), 1);
    }

    #[test]
    fn a_pdu_that_contradicts_itself_or_comes_on_no_circuit_of_ours_is_counted_and_dropped() {
        let mut i = IpInterface::new(A, MTU);
        i.add_circuit(1, Some(B), Time::ZERO);
        let mut pdu = vec![0; ROUTED_OCTETS];
        Protocol::Routed(IPV6).emit(&mut pdu);
        i.handle_pdu(1, &pdu, Time::ZERO);
        pdu.extend(packet(A, 40));
        i.handle_pdu(1, &pdu, Time::ZERO);
        assert_eq!(i.received.dropped(DropReason::Malformed), 2);
        Protocol::Routed(IPV4).emit(&mut pdu);
        i.handle_pdu(2, &pdu, Time::ZERO);
        assert_eq!(i.received.dropped(DropReason::UnknownCircuit), 1);
        assert_eq!(i.poll_packet(), None);
        i.handle_pdu(1, &pdu, Time::ZERO);
        assert_eq!(i.poll_packet(), Some(packet(A, 40)));
    }

    #[test]
    fn what_the_user_said_about_a_peer_is_not_changed_by_the_peer() {
        let (mut a, mut b) = (IpInterface::new(A, MTU), IpInterface::new(B, MTU));
        let said = Ipv4Addr::new(10, 0, 0, 77);
        a.add_circuit(1, Some(said), Time::ZERO);
        b.add_circuit(1, None, Time::ZERO);
        exchange(&mut a, &mut b, Time::ZERO);
        assert_eq!(a.peers().next(), Some((1, Some(said))));
        assert_eq!(b.peers().next(), Some((1, Some(A))));
    }

    proptest! {
        #[test]
        fn no_octets_panic_or_grow_memory(pdus in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..200)) {
            let mut i = IpInterface::new(A, MTU);
            i.add_circuit(1, None, Time::ZERO);
            for pdu in &pdus {
                i.handle_pdu(1, pdu, Time::ZERO);
                let _ = i.handle_packet(pdu);
            }
            prop_assert!(i.packets.len() <= QUEUE && i.pdus.len() <= QUEUE);
        }
    }
}
