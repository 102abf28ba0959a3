//! Each message and packet of interfaces on a fabric is counted once: those of which a part fails, those that the link refuses, groups
//! of which a member has no route, and messages that never become whole.

use lanai::fabric::mapper::Settings;
use lanai::fabric::{Config as Links, End, Fabric};
use lanai::network::Network;
use lanai::packet::message::Head;
use lanai::packet::{Kind, MAX_OCTETS, emit, packet_octets};
use lanai::{Config, Destination, Event, Lanai, MulticastBy, Posted, Switches};
use std::time::Duration;
use wire::{DropReason, Time};

/// Hosts at one switch whose maps are drawn; host `n` has the address `n + 1`, and buffers at its interface 1.
fn network(hosts: usize, config: Config) -> Network {
    let mut fabric = Fabric::new(Links::default());
    let switch = fabric.add_switch(8).unwrap();
    let ids: Vec<_> = (0..hosts).map(|_| fabric.add_host()).collect();
    for (port, host) in ids.iter().enumerate() {
        fabric.connect(End::Host(*host), End::Port(switch, port), 10.0).unwrap();
    }
    let mut network = Network::new(fabric);
    for (n, host) in ids.iter().enumerate() {
        let number = network.add(*host, n as u64 + 1, config, Settings::default(), 1 << 20);
        for place in 0..4 {
            let buffer = Posted { address: 0x80000 + place * 0x10000, octets: 0x10000 };
            network.station(number).unwrap().lanai.post(1, buffer).unwrap();
        }
    }
    network.run(Time::from_millis(250), |_, _, _, _| false);
    network
}

/// Runs for a while: whether each message that is over left whole, and who received one.
fn events(network: &mut Network, within: Duration) -> (Vec<bool>, Vec<usize>) {
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let until = network.now() + within;
    network.run(until, |number, event, _, _| {
        match event {
            Event::Sent { whole, .. } => sent.push(whole),
            Event::Received { .. } => received.push(number),
        }
        false
    });
    received.sort_unstable();
    assert_eq!(network.mismatch(), None);
    (sent, received)
}

fn lanai(network: &mut Network, number: usize) -> &mut Lanai {
    &mut network.station(number).unwrap().lanai
}

#[test]
fn a_message_of_which_any_part_failed_is_told_as_lost_and_counted_once() {
    let mut network = network(2, Config::default());
    for number in 0..2 {
        lanai(&mut network, number).set_group(7, &[1, 2]);
    }
    lanai(&mut network, 0).send(1, Destination::Group(7), 0, 65_536).unwrap();
    // The group is empty while parts of the message are fetched, and has a member again when the last one is.
    events(&mut network, Duration::from_micros(300));
    lanai(&mut network, 0).set_group(7, &[]);
    events(&mut network, Duration::from_micros(300));
    lanai(&mut network, 0).set_group(7, &[1, 2]);
    assert_eq!(events(&mut network, Duration::from_millis(20)), (vec![false], vec![]));
    let sums = lanai(&mut network, 0).sums();
    assert!(sums.monitor.packets_sent.pdus > 2, "parts before and after left: {sums:?}");
    assert_eq!((sums.monitor.sent.pdus, sums.monitor.sent.dropped_total(), sums.sending), (0, 1, 0));
    assert_eq!(sums.monitor.sent.dropped(DropReason::UnknownCircuit), 1);
    // The next one is whole.
    lanai(&mut network, 0).send(1, Destination::Group(7), 0, 20_000).unwrap();
    assert_eq!(events(&mut network, Duration::from_millis(20)), (vec![true], vec![1]));
}

#[test]
fn a_packet_that_the_link_refuses_was_not_sent() {
    // Parts longer than a packet may be.
    let most = MAX_OCTETS + 100;
    let mut network = network(2, Config { buffer: most, message: 2 * most, ..Config::default() });
    lanai(&mut network, 0).send(1, Destination::Host(2, 1), 0, most as u32 + 10).unwrap();
    assert_eq!(events(&mut network, Duration::from_millis(50)), (vec![false], vec![]));
    let monitor = lanai(&mut network, 0).monitor();
    assert_eq!((monitor.sent.pdus, monitor.sent.dropped(DropReason::Oversize)), (0, 1));
    assert_eq!(monitor.packets_sent.dropped(DropReason::Oversize), 1);
    lanai(&mut network, 0).send(1, Destination::Host(2, 1), 0, 1000).unwrap();
    assert_eq!(events(&mut network, Duration::from_millis(50)), (vec![true], vec![1]));
}

#[test]
fn a_group_of_which_a_member_has_no_route_counts_the_message_once_and_the_copy_that_was_lost() {
    for multicast in [MulticastBy::Repetition, MulticastBy::Cycle] {
        let config = Config { switches: Switches { multicast, ..Config::default().switches }, ..Config::default() };
        let mut network = network(3, config);
        for number in 0..3 {
            // Nobody has the address 77.
            lanai(&mut network, number).set_group(7, &[1, 2, 77, 3]);
        }
        lanai(&mut network, 0).send(1, Destination::Group(7), 0, 1000).unwrap();
        let (sent, received) = events(&mut network, Duration::from_millis(20));
        // On the cycle nobody behind the gap is reached; its neighbour before counts it.
        let (reached, counts) = if multicast == MulticastBy::Cycle { (vec![1], 1) } else { (vec![1, 2], 0) };
        assert_eq!((sent, received), (vec![true], reached), "{multicast:?}");
        let monitor = lanai(&mut network, 0).monitor();
        assert_eq!((monitor.sent.pdus, monitor.sent.dropped_total()), (1, 0), "{multicast:?}");
        let lost =
            |number: usize| network.stations()[number].lanai.monitor().packets_sent.dropped(DropReason::UnknownCircuit);
        assert_eq!([0, 1, 2].map(lost), [0, 1, 2].map(|n| u64::from(n == counts)), "{multicast:?}");
    }
}

/// The first part of a message of two octets.
fn beginning(from: u64, number: u32) -> Vec<u8> {
    let head = Head { from, to_interface: 1, number, total: 2, ..Head::default() };
    let payload = [&head.emit()[..], &[0]].concat();
    let mut octets = vec![0; packet_octets(0, payload.len())];
    emit(&[], Kind::MESSAGE, &payload, &mut octets);
    octets
}

#[test]
fn messages_that_never_become_whole_are_counted_when_their_buffer_is_anothers() {
    let mut network = network(2, Config { queue: 64, ..Config::default() });
    let station = network.station(1).unwrap();
    for n in 0..40 {
        station.lanai.post(1, Posted { address: n * 16, octets: 16 }).unwrap();
    }
    let mut now = Time::from_millis(300);
    let mut come = |lanai: &mut Lanai, octets: Vec<u8>, memory: &mut bus::memory::Flat| {
        lanai.handle_packet(octets);
        for _ in 0..100 {
            now += Duration::from_micros(5);
            lanai.run(memory, now);
        }
        assert!(lanai.sums().add_up(), "{:?}", lanai.sums());
        lanai.sums()
    };
    // The same number begins twice.
    for (times, dropped) in [(1, 0), (2, 1)] {
        let sums = come(&mut station.lanai, beginning(9, 1), &mut station.memory);
        let received = &sums.monitor.received;
        assert_eq!((sums.opened, sums.open, received.dropped(DropReason::Sequence)), (times, 1, dropped));
    }
    // More begin than may be open at once.
    let last =
        (2..=40).map(|number| come(&mut station.lanai, beginning(9, number), &mut station.memory)).last().unwrap();
    let received = &last.monitor.received;
    assert_eq!((last.opened, last.open, received.dropped(DropReason::TooManyOpen)), (41, 32, 8));
    assert_eq!(received.dropped_total(), 9);
}
