//! What the IP interface does between peers: learning, encapsulations, routes, refusals; and that no octets panic.

use super::*;
use crate::atmarp::CLIENT_AGEING;
use proptest::prelude::*;
use std::time::Duration;
use wire::DropReason;
use wire::llc::{Protocol, ROUTED_OCTETS};

pub(super) const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(super) const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

pub(super) fn interface(address: Ipv4Addr) -> IpInterface {
    IpInterface::new(Config::new(address))
}

pub(super) fn packet(to: Ipv4Addr, octets: usize) -> Vec<u8> {
    let mut p = vec![0; octets];
    p[0] = 0x45;
    p[16..20].copy_from_slice(&to.octets());
    p
}

/// A packet by way of `from`: its circuit and SDU.
fn send(from: &mut IpInterface, packet: &[u8]) -> Option<(u32, Vec<u8>)> {
    let Verdict::To(circuit) = from.route(packet, Time::ZERO) else { return None };
    let mut sdu = vec![0; from.headroom() + packet.len() + 64];
    sdu[from.headroom()..from.headroom() + packet.len()].copy_from_slice(packet);
    let n = from.encapsulate(&mut sdu, packet.len())?;
    sdu.truncate(n);
    Some((circuit, sdu))
}

pub(super) fn poll(i: &mut IpInterface) -> Option<(u32, Vec<u8>)> {
    let mut sdu = vec![0; 200];
    let (circuit, octets) = i.poll_pdu(&mut sdu)?;
    sdu.truncate(octets);
    Some((circuit, sdu))
}

pub(super) fn exchange(a: &mut IpInterface, b: &mut IpInterface, now: Time) {
    a.handle_timeout(now);
    b.handle_timeout(now);
    loop {
        let (from_a, from_b) = (poll(a), poll(b));
        if let Some((c, sdu)) = &from_a {
            assert_eq!(b.handle_pdu(*c, sdu, now), None);
        }
        if let Some((c, sdu)) = &from_b {
            assert_eq!(a.handle_pdu(*c, sdu, now), None);
        }
        if from_a.is_none() && from_b.is_none() {
            return;
        }
    }
}

#[test]
fn each_learns_who_is_at_the_other_end_and_forgets_after_a_quarter_of_an_hour() {
    let (mut a, mut b) = (interface(A), interface(B));
    for i in [&mut a, &mut b] {
        i.add_circuit(7, None, Time::ZERO);
        i.add_circuit(8, None, Time::ZERO);
    }
    a.handle_timeout(Time::ZERO);
    b.handle_timeout(Time::ZERO);
    // Nobody is on circuit 8.
    while let Some((c, sdu)) = poll(&mut a).filter(|(c, _)| *c == 7) {
        b.handle_pdu(c, &sdu, Time::ZERO);
    }
    while let Some((c, sdu)) = poll(&mut b) {
        if c == 7 {
            a.handle_pdu(c, &sdu, Time::ZERO);
        }
    }
    assert_eq!(a.peers().next(), Some((7, Some(B))));
    assert_eq!(b.peers().next(), Some((7, Some(A))));
    assert!(send(&mut a, &packet(B, 100)).is_some());
    // Nobody has said who is on circuit 8.
    let other = Ipv4Addr::new(10, 0, 0, 9);
    assert_eq!(a.route(&packet(other, 100), Time::ZERO), Verdict::Waits(other));
    // Nobody answers any more.
    a.handle_timeout(Time::ZERO + CLIENT_AGEING);
    assert_eq!(a.peers().next(), Some((7, None)));
}

#[test]
fn packets_go_through_whole_in_each_encapsulation_up_to_the_mtu() {
    use Encapsulation::*;
    for encapsulation in
        [LlcRouted, VcRouted, LlcBridged { fcs: true }, LlcBridged { fcs: false }, VcBridged { fcs: true }]
    {
        let config = |address| Config { encapsulation, ..Config::new(address) };
        let (mut a, mut b) = (IpInterface::new(config(A)), IpInterface::new(config(B)));
        a.add_circuit(1, Some(B), Time::ZERO);
        b.add_circuit(1, Some(A), Time::ZERO);
        for octets in [64, 1500, MTU] {
            let p = packet(B, octets);
            let (circuit, sdu) = send(&mut a, &p).unwrap();
            assert_eq!(b.handle_pdu(circuit, &sdu, Time::ZERO).unwrap().packet, p);
        }
    }
}

#[test]
fn a_packet_beyond_its_circuits_mtu_is_said_to_be() {
    let mut a = interface(A);
    a.add_circuit(1, Some(B), Time::ZERO);
    assert_eq!(a.route(&packet(B, MTU + 1), Time::ZERO), Verdict::TooLong { circuit: 1, mtu: MTU });
    a.set_circuit_mtu(1, 1500);
    assert_eq!(a.route(&packet(B, 1501), Time::ZERO), Verdict::TooLong { circuit: 1, mtu: 1500 });
    assert_eq!(a.route(&packet(B, 1500), Time::ZERO), Verdict::To(1));
}

#[test]
fn a_pdu_that_contradicts_itself_or_comes_on_no_circuit_of_ours_is_counted_and_dropped() {
    let mut i = interface(A);
    i.add_circuit(1, Some(B), Time::ZERO);
    let mut pdu = vec![0; ROUTED_OCTETS];
    Protocol::Routed(wire::llc::IPV6).emit(&mut pdu);
    assert_eq!(i.handle_pdu(1, &pdu, Time::ZERO), None);
    pdu.extend(packet(A, 40));
    assert_eq!(i.handle_pdu(1, &pdu, Time::ZERO), None);
    assert_eq!(i.received.dropped(DropReason::Malformed), 2);
    Protocol::Routed(wire::llc::IPV4).emit(&mut pdu);
    assert_eq!(i.handle_pdu(2, &pdu, Time::ZERO), None);
    assert_eq!(i.received.dropped(DropReason::UnknownCircuit), 1);
    assert_eq!(i.handle_pdu(1, &pdu, Time::ZERO).unwrap().packet, packet(A, 40));
}

#[test]
fn what_the_user_said_about_a_peer_is_not_changed_by_the_peer() {
    let (mut a, mut b) = (interface(A), interface(B));
    let said = Ipv4Addr::new(10, 0, 0, 77);
    a.add_circuit(1, Some(said), Time::ZERO);
    b.add_circuit(1, None, Time::ZERO);
    exchange(&mut a, &mut b, Time::ZERO);
    assert_eq!(a.peers().next(), Some((1, Some(said))));
    assert_eq!(b.peers().next(), Some((1, Some(A))));
}

#[test]
fn an_address_of_ours_or_of_another_circuit_is_not_believed() {
    let mut a = interface(A);
    a.add_circuit(1, Some(B), Time::ZERO);
    a.add_circuit(2, None, Time::ZERO);
    for claimed in [A, B] {
        let mut liar = interface(claimed);
        liar.add_circuit(2, None, Time::ZERO);
        exchange(&mut a, &mut liar, Time::ZERO);
    }
    assert!(a.received.dropped(DropReason::NotPermitted) >= 2);
    assert_eq!(a.peers().collect::<Vec<_>>(), [(1, Some(B)), (2, None)]);
}

#[test]
fn each_of_many_peers_on_one_interface_is_reached_on_its_own_circuit() {
    const PEERS: u8 = 200;
    let now = Time::ZERO;
    let mut hub = interface(A);
    let mut spokes: Vec<IpInterface> = (0..PEERS)
        .map(|n| {
            let mut spoke = interface(Ipv4Addr::new(10, 0, 0, n + 10));
            spoke.add_circuit(7, None, now);
            spoke
        })
        .collect();
    (0..PEERS).for_each(|n| hub.add_circuit(1000 + u32::from(n), None, now));
    hub.handle_timeout(now);
    spokes.iter_mut().for_each(|spoke| spoke.handle_timeout(now));
    while hub.has_pdu() || spokes.iter().any(IpInterface::has_pdu) {
        while let Some((circuit, sdu)) = poll(&mut hub) {
            assert!(spokes[circuit as usize - 1000].handle_pdu(7, &sdu, now).is_none());
        }
        for (n, spoke) in spokes.iter_mut().enumerate() {
            while let Some((7, sdu)) = poll(spoke) {
                assert!(hub.handle_pdu(1000 + n as u32, &sdu, now).is_none());
            }
        }
    }
    for (n, spoke) in (0..PEERS).zip(&mut spokes) {
        let to = Ipv4Addr::new(10, 0, 0, n + 10);
        let (circuit, sdu) = send(&mut hub, &packet(to, 100)).unwrap();
        assert_eq!(circuit, 1000 + u32::from(n), "{to}");
        assert!(spoke.handle_pdu(7, &sdu, now).is_some());
    }
    // Nobody has this one, and with many circuits none is the only one.
    assert!(send(&mut hub, &packet(Ipv4Addr::new(10, 0, 0, 250), 100)).is_none());
    assert_eq!(hub.sent.dropped(DropReason::UnknownCircuit), 1);
}

#[test]
fn the_longest_route_names_the_peer_for_a_foreign_network() {
    let mut a = interface(A);
    let c = Ipv4Addr::new(10, 0, 0, 3);
    a.add_circuit(1, Some(B), Time::ZERO);
    a.add_circuit(2, Some(c), Time::ZERO);
    a.add_route(Ipv4Addr::UNSPECIFIED, 0, B);
    a.add_route(Ipv4Addr::new(192, 168, 0, 0), 16, c);
    assert_eq!(a.route(&packet(Ipv4Addr::new(192, 168, 9, 9), 40), Time::ZERO), Verdict::To(2));
    assert_eq!(a.route(&packet(Ipv4Addr::new(8, 8, 8, 8), 40), Time::ZERO), Verdict::To(1));
    assert_eq!(a.route(&packet(c, 40), Time::ZERO), Verdict::To(2));
    // A router is not the destination: checksums have to be whole (Almesberger, 1995).
    assert!(a.ends_at_destination(2, &packet(c, 40)));
    assert!(!a.ends_at_destination(2, &packet(Ipv4Addr::new(192, 168, 9, 9), 40)));
}

#[test]
fn two_stations_that_registered_find_their_circuit_by_the_servers_answer() {
    let number = |n| AtmAddress::new(&[0x47; 20], false).map(|_| AtmAddress::new(&[n; 20], false).unwrap()).unwrap();
    let server_ip = Ipv4Addr::new(10, 0, 0, 254);
    let mut server = interface(server_ip);
    server.serve(10, Time::ZERO);
    server.add_circuit(1, None, Time::ZERO);
    server.add_circuit(2, None, Time::ZERO);
    let station = |ip, n| {
        let mut i = IpInterface::new(Config { number: number(n), ..Config::new(ip) });
        // Channel 0 leads to the server, channel 9 to the other station.
        i.add_circuit(0, None, Time::ZERO);
        i.add_circuit(9, None, Time::ZERO);
        i.use_server(0, Time::ZERO);
        i
    };
    let (mut a, mut b) = (station(A, 1), station(B, 2));
    let settle = |server: &mut IpInterface, a: &mut IpInterface, b: &mut IpInterface| {
        for i in [&mut *server, a, b] {
            i.handle_timeout(Time::ZERO);
        }
        loop {
            let mut any = false;
            while let Some((c, sdu)) = poll(server) {
                let to = if c == 1 { &mut *a } else { &mut *b };
                to.handle_pdu(0, &sdu, Time::ZERO);
                any = true;
            }
            for (i, on) in [(&mut *a, 1), (&mut *b, 2)] {
                while let Some((c, sdu)) = poll(i) {
                    if c == 0 {
                        server.handle_pdu(on, &sdu, Time::ZERO);
                    }
                    any = true;
                }
            }
            if !any {
                return;
            }
        }
    };
    settle(&mut server, &mut a, &mut b);
    assert!(a.client().unwrap().is_registered() && b.client().unwrap().is_registered());
    assert_eq!(server.server().unwrap().entries().count(), 2);
    // The first packet asks, and waits; the answer names the station; a circuit to it is wanted.
    assert_eq!(a.route(&packet(B, 40), Time::ZERO), Verdict::Waits(B));
    a.keep(B, &[0; VNET_OCTETS], &packet(B, 40), Time::ZERO);
    settle(&mut server, &mut a, &mut b);
    assert_eq!(a.route(&packet(B, 41), Time::ZERO), Verdict::Waits(B));
    assert_eq!(a.poll_wanted().map(|e| e.number), Some(number(2)));
    assert!(!a.has_kept());
    a.set_number(9, number(2));
    assert_eq!(a.poll_kept(&mut [0; 40]), Some(([0; VNET_OCTETS], 40)));
    assert_eq!(a.route(&packet(B, 40), Time::ZERO), Verdict::To(9));
    // The server itself is reached on its own circuit.
    assert_eq!(a.route(&packet(server_ip, 40), Time::ZERO), Verdict::To(0));
}

#[test]
fn work_is_left_to_a_peer_only_after_its_offer_and_no_longer_than_it_lives() {
    let config = |address, offload| Config { offload, ..Config::new(address) };
    let (mut a, mut b) = (IpInterface::new(config(A, true)), IpInterface::new(config(B, true)));
    for i in [&mut a, &mut b] {
        i.add_circuit(1, None, Time::ZERO);
    }
    let p = packet(B, 40);
    assert!(!a.takes_offload(1, &p));
    exchange(&mut a, &mut b, Time::ZERO);
    assert!(a.takes_offload(1, &p));
    assert!(!a.takes_offload(1, &packet(Ipv4Addr::new(8, 8, 8, 8), 40)), "a router is no destination");
    let header = VnetHeader::parse(&[1, 0, 0, 0, 0, 0, 20, 0, 6, 0], 40).unwrap();
    let mut sdu = vec![0; 100];
    sdu[8..48].copy_from_slice(&p);
    let n = a.encapsulate_offloaded(&mut sdu, 40, header).unwrap();
    assert_eq!(b.handle_pdu(1, &sdu[..n], Time::ZERO), Some(Delivery { packet: &p, header }));
    // The peer comes back without.
    let mut plain = IpInterface::new(config(B, false));
    plain.add_circuit(1, None, Time::ZERO);
    exchange(&mut a, &mut plain, Time::ZERO);
    assert!(!a.takes_offload(1, &p));
    assert_eq!(plain.handle_pdu(1, &sdu[..n], Time::ZERO), None);
}

#[test]
fn frames_go_to_whom_they_are_for_and_to_all_while_nobody_knows() {
    let config = Config { encapsulation: Encapsulation::LlcBridged { fcs: false }, ..Config::new(A) };
    let mut i = IpInterface::new(config);
    (1..=3).for_each(|c| i.add_circuit(c, None, Time::ZERO));
    let frame = |to: u8, from: u8| [[2, 0, 0, 0, 0, to], [2, 0, 0, 0, 0, from], [8, 0, 0, 0, 0, 0]].concat();
    assert_eq!(i.route(&frame(7, 1), Time::ZERO), Verdict::All);
    let mut sdu = vec![0; 100];
    Protocol::Ethernet.emit(&mut sdu);
    sdu[10..28].copy_from_slice(&frame(1, 7));
    assert!(i.handle_pdu(3, &sdu[..28], Time::ZERO).is_some());
    assert_eq!(i.route(&frame(7, 1), Time::ZERO), Verdict::To(3));
    assert_eq!(i.route(&frame(7, 1), Time::ZERO + Duration::from_secs(301)), Verdict::All);
    assert_eq!(i.route(&[0xff; 20], Time::ZERO), Verdict::All);
    let all: Vec<_> = std::iter::successors(i.circuit_after(None), |c| i.circuit_after(Some(*c))).collect();
    assert_eq!(all, [1, 2, 3]);
}

#[test]
fn a_frame_under_anothers_address_takes_nothing_over_and_one_under_the_devices_own_is_dropped() {
    let config = Config { encapsulation: Encapsulation::VcBridged { fcs: false }, ..Config::new(A) };
    let mut i = IpInterface::new(config);
    (1..=3).for_each(|c| i.add_circuit(c, None, Time::ZERO));
    let mac = |n: u8| [2, 0, 0, 0, 0, n];
    let frame = |to: u8, from: u8| [mac(to), mac(from), [8, 0, 0, 0, 0, 0]].concat();
    let sdu = |from: u8| [vec![0; 2], frame(1, from)].concat();
    let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
    i.set_station(mac(1), None);
    i.set_station(mac(9), Some(3));
    assert!(i.handle_pdu(1, &sdu(7), at(0)).is_some());
    assert!(i.handle_pdu(2, &sdu(7), at(19)).is_some());
    assert_eq!(i.route(&frame(7, 1), at(19)), Verdict::To(1));
    assert!(i.handle_pdu(2, &sdu(7), at(20)).is_some());
    assert_eq!(i.route(&frame(7, 1), at(20)), Verdict::To(2));
    // The device's own, a station's behind it, and one that the configuration has put somewhere.
    assert_eq!(i.route(&frame(7, 5), at(20)), Verdict::To(2));
    assert_eq!([1, 5].map(|from| i.handle_pdu(2, &sdu(from), at(21)).is_some()), [false; 2]);
    assert_eq!(i.received.dropped(DropReason::NotPermitted), 2);
    assert!(i.handle_pdu(2, &sdu(9), at(21)).is_some());
    assert_eq!(i.route(&frame(9, 1), at(1000)), Verdict::To(3));
    i.remove_circuit(3);
    assert_eq!(i.route(&frame(9, 1), at(1000)), Verdict::Dropped);
    assert_eq!(i.sent.dropped(DropReason::UnknownCircuit), 1);
    // What a circuit owned is free at once when that is gone.
    assert!(i.handle_pdu(2, &sdu(8), at(1000)).is_some());
    i.remove_circuit(2);
    assert!(i.handle_pdu(1, &sdu(8), at(1000)).is_some());
    assert_eq!(i.route(&frame(8, 1), at(1000)), Verdict::To(1));
}

proptest! {
    #[test]
    fn no_octets_panic(pdus in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..200), serve: bool) {
        let mut i = IpInterface::new(Config { offload: true, ..Config::new(A) });
        if serve {
            i.serve(4, Time::ZERO);
        }
        i.add_circuit(1, None, Time::ZERO);
        i.use_server(1, Time::ZERO);
        for pdu in &pdus {
            let _ = i.handle_pdu(1, pdu, Time::ZERO);
            let _ = i.route(pdu, Time::ZERO);
            let mut arp = vec![0xaa, 0xaa, 3, 0, 0, 0, 8, 6, 0, 0x13, 8, 0];
            arp.extend_from_slice(pdu);
            let _ = i.handle_pdu(1, &arp, Time::ZERO);
        }
        while let Some((_, sdu)) = poll(&mut i) {
            prop_assert!(sdu.len() <= 8 + wire::atmarp::MAX_OCTETS);
        }
    }
}
