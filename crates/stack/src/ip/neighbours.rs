//! IPv6 on permanent circuits (RFC 2492). In: the source of each packet that comes on a circuit. Out: the circuit of a
//! destination.
//!
//! Each circuit is a point-to-point link for RFC 2492, without link-layer addresses. An interface that joins several
//! learns from the sources of packets which neighbour is at which circuit's far end, as a bridge does. What Neighbour
//! Discovery sends to a multicast group goes on all circuits, as does a packet for a neighbour that nobody has heard of:
//! the neighbour's answer teaches its circuit. This is the part of RFC 2491 that permanent circuits need.

use super::bridge::{Bridge, Side};
use super::{IpInterface, Verdict};
use std::net::Ipv6Addr;
use wire::{DropReason, Time};

const ADDRESS_OCTETS: usize = 16;
/// Where source and destination stand in a packet (RFC 8200 section 3).
const SOURCE: usize = 8;
const DESTINATION: usize = 24;

/// Who is at which circuit, and the routers that lead elsewhere.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    link: Option<(Ipv6Addr, u8)>,
    table: Bridge<[u8; ADDRESS_OCTETS]>,
    /// Networks, their prefixes, and the neighbour that leads there; longest prefix first.
    routes: Vec<(Ipv6Addr, u8, Ipv6Addr)>,
}

/// Whether an address is in a network.
fn is_within(address: Ipv6Addr, network: Ipv6Addr, prefix: u8) -> bool {
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
    (u128::from(address) ^ u128::from(network)) & mask == 0
}

impl Neighbours {
    pub(super) fn new(own: Option<(Ipv6Addr, u8)>) -> Self {
        let mut neighbours = Neighbours { link: own, ..Neighbours::default() };
        if let Some((address, _)) = own {
            neighbours.table.fix(address.octets(), Side::Device);
        }
        neighbours
    }

    /// Whether an address is on the link itself, so that no router is between.
    fn is_on_link(&self, address: Ipv6Addr) -> bool {
        address.is_unicast_link_local()
            || self.link.is_some_and(|(network, prefix)| is_within(address, network, prefix))
    }

    pub(super) fn forget(&mut self, circuit: u32) {
        self.table.forget(circuit);
    }

    /// A packet has come on a circuit. False if its source is this interface's own address.
    pub(super) fn learn(&mut self, packet: &[u8], circuit: u32, now: Time) -> bool {
        let Some(source) = address_at(packet, SOURCE) else { return true };
        // What comes through a router has its source elsewhere, and says nothing of the link.
        if source.is_multicast() || source.is_unspecified() || !self.is_on_link(source) {
            return true;
        }
        self.table.learn_address(&source.octets(), Side::Circuit(circuit), now)
    }

    fn circuit(&self, neighbour: Ipv6Addr, now: Time) -> Option<u32> {
        match self.table.side_of(&neighbour.octets(), now)? {
            Side::Circuit(circuit) => Some(circuit),
            Side::Device => None,
        }
    }

    /// The neighbour that a packet for `to` goes to: itself, or a router.
    fn next_hop(&self, to: Ipv6Addr) -> Option<Ipv6Addr> {
        if self.is_on_link(to) {
            return Some(to);
        }
        let mut routes = self.routes.iter();
        routes.find(|(network, prefix, _)| is_within(to, *network, *prefix)).map(|(.., via)| *via)
    }
}

fn address_at(packet: &[u8], at: usize) -> Option<Ipv6Addr> {
    packet.get(at..)?.first_chunk::<ADDRESS_OCTETS>().map(|octets| Ipv6Addr::from(*octets))
}

impl IpInterface {
    /// An IPv6 neighbour is at the far end of a circuit, whatever packets say.
    pub fn set_neighbour(&mut self, address: Ipv6Addr, circuit: u32) {
        self.neighbours.table.fix(address.octets(), Side::Circuit(circuit));
    }

    /// IPv6 packets to a network go to the neighbour `via`. The longest prefix counts; `::/0` is everything.
    pub fn add_route6(&mut self, network: Ipv6Addr, prefix: u8, via: Ipv6Addr) {
        self.neighbours.routes.push((network, prefix.min(128), via));
        self.neighbours.routes.sort_by_key(|(_, prefix, _)| std::cmp::Reverse(*prefix));
    }

    /// Where an IPv6 packet goes; one that goes nowhere is counted.
    pub(super) fn route6(&mut self, packet: &[u8], now: Time) -> Verdict {
        let verdict = address_at(packet, DESTINATION).and_then(|to| self.way6(to, now));
        verdict.unwrap_or_else(|| {
            self.sent.drop_one(DropReason::UnknownCircuit);
            Verdict::Dropped
        })
    }

    fn way6(&self, to: Ipv6Addr, now: Time) -> Option<Verdict> {
        // A call leads to one IPv4 station of the ATMARP server's: RFC 2492's switched circuits are not here.
        if self.is_switched {
            return None;
        }
        if let (Some(only), 1) = (self.circuit_after(None), self.circuit_count()) {
            return Some(Verdict::To(only));
        }
        let any = self.circuit_after(None).map(|_| Verdict::All);
        if to.is_multicast() {
            return any;
        }
        let hop = self.neighbours.next_hop(to)?;
        // The circuit of a static neighbour may be gone.
        let known = self.neighbours.circuit(hop, now).filter(|circuit| self.has_circuit(*circuit));
        known.map(Verdict::To).or(any)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;
    use wire::llc::{IPV6, Protocol, ROUTED_OCTETS};

    const OWN: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 1);

    fn at(n: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, n)
    }

    fn interface(circuits: u32) -> IpInterface {
        let mut interface = IpInterface::new(Config { ipv6: Some((OWN, 64)), ..Config::new(None) });
        (0..circuits).for_each(|circuit| interface.add_circuit(circuit, None, Time::ZERO));
        interface
    }

    fn packet(from: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
        [&[0x60, 0, 0, 0, 0, 0, 59, 64][..], &from.octets(), &to.octets()].concat()
    }

    fn deliver(interface: &mut IpInterface, circuit: u32, from: Ipv6Addr, now: Time) -> bool {
        let mut sdu = vec![0; ROUTED_OCTETS];
        Protocol::Routed(IPV6).emit(&mut sdu);
        sdu.extend_from_slice(&packet(from, OWN));
        interface.handle_pdu(circuit, &sdu, now).is_some()
    }

    #[test]
    fn with_one_circuit_everything_goes_there_and_with_none_nothing() {
        let outside = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        for to in [at(2), outside, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)] {
            assert_eq!(interface(1).route(&packet(OWN, to), Time::ZERO), Verdict::To(0));
            let mut none = interface(0);
            assert_eq!(none.route(&packet(OWN, to), Time::ZERO), Verdict::Dropped);
            assert_eq!(none.sent.dropped(DropReason::UnknownCircuit), 1);
        }
    }

    #[test]
    fn a_neighbour_is_on_the_circuit_that_it_was_heard_on_and_an_unknown_one_may_be_on_any() {
        let mut three = interface(3);
        let link_local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);
        assert_eq!(three.route(&packet(OWN, at(2)), Time::ZERO), Verdict::All);
        assert!(deliver(&mut three, 1, at(2), Time::ZERO));
        assert!(deliver(&mut three, 2, link_local, Time::ZERO));
        assert_eq!(three.route(&packet(OWN, at(2)), Time::ZERO), Verdict::To(1));
        assert_eq!(three.route(&packet(OWN, link_local), Time::ZERO), Verdict::To(2));
        assert_eq!(three.route(&packet(OWN, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)), Time::ZERO), Verdict::All);
        // Another circuit under the same address does not move it while its owner speaks.
        assert!(deliver(&mut three, 0, at(2), Time::ZERO));
        assert_eq!(three.route(&packet(OWN, at(2)), Time::ZERO), Verdict::To(1));
        three.remove_circuit(1);
        assert_eq!(three.route(&packet(OWN, at(2)), Time::ZERO), Verdict::All);
        three.set_neighbour(at(9), 0);
        assert!(deliver(&mut three, 2, at(9), Time::ZERO));
        let later = Time::ZERO + Duration::from_secs(1000);
        assert_eq!(three.route(&packet(OWN, at(9)), later), Verdict::To(0), "by configuration");
    }

    #[test]
    fn our_own_address_from_a_circuit_is_refused_and_counted() {
        let mut two = interface(2);
        assert!(!deliver(&mut two, 0, OWN, Time::ZERO));
        assert_eq!(two.received.dropped(DropReason::NotPermitted), 1);
    }

    #[test]
    fn beyond_the_link_a_packet_goes_to_the_router_of_the_longest_prefix_or_nowhere() {
        let mut two = interface(2);
        let outside = |n| Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, 1);
        assert_eq!(two.route(&packet(OWN, outside(1)), Time::ZERO), Verdict::Dropped);
        two.add_route6(Ipv6Addr::UNSPECIFIED, 0, at(2));
        two.add_route6(outside(5), 48, at(3));
        deliver(&mut two, 0, at(2), Time::ZERO);
        deliver(&mut two, 1, at(3), Time::ZERO);
        // A source beyond the link has come through a router: it is nobody's neighbour.
        assert!(deliver(&mut two, 0, outside(5), Time::ZERO));
        assert_eq!(two.route(&packet(OWN, outside(1)), Time::ZERO), Verdict::To(0));
        assert_eq!(two.route(&packet(OWN, outside(5)), Time::ZERO), Verdict::To(1));
    }

    proptest! {
        #[test]
        fn no_packet_panics_and_each_goes_to_a_circuit_that_exists(
            circuits in 0u32..4, octets in proptest::collection::vec(any::<u8>(), 0..80), on in 0u32..4
        ) {
            let mut interface = interface(circuits);
            let mut octets = octets;
            if let Some(first) = octets.first_mut() {
                *first = 0x60;
            }
            interface.handle_pdu(on, &octets, Time::ZERO);
            let _ = interface.neighbours.learn(&octets, on, Time::ZERO);
            match interface.route(&octets, Time::ZERO) {
                Verdict::To(circuit) => prop_assert!(circuit < circuits),
                Verdict::All => prop_assert!(circuits > 0),
                Verdict::Dropped => prop_assert!(interface.sent.dropped_total() == 1),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
