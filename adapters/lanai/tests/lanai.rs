//! LANai interfaces on a fabric: messages, multicast, back-pressure, switches, hostile packets.

use bus::HostMemory;
use lanai::fabric::mapper::Settings;
use lanai::fabric::{Config as Links, End, Fabric};
use lanai::network::Network;
use lanai::{Config, Destination, Event, MulticastBy, Posted, Refused, Switches};
use proptest::prelude::*;
use std::time::Duration;
use wire::{DropReason, Time};

const MEMORY: usize = 1 << 20;

/// Hosts at one switch whose maps are drawn; host `n` has the address `n + 1`.
fn network(hosts: usize, config: Config) -> Network {
    let mut fabric = Fabric::new(Links::default());
    let switch = fabric.add_switch(8).unwrap();
    let ids: Vec<_> = (0..hosts).map(|_| fabric.add_host()).collect();
    for (port, host) in ids.iter().enumerate() {
        fabric.connect(End::Host(*host), End::Port(switch, port), 10.0).unwrap();
    }
    let mut network = Network::new(fabric);
    for (n, host) in ids.iter().enumerate() {
        network.add(*host, n as u64 + 1, config, Settings::default(), MEMORY);
    }
    network.run(Time::from_millis(250), |_, _, _, _| false);
    for station in network.stations() {
        assert_eq!(station.lanai.mapping().routes().1.len(), hosts - 1);
    }
    network
}

fn fill(network: &mut Network, number: usize, address: u64, octets: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..octets).map(|n| (n * 31 + number) as u8).collect();
    network.station(number).unwrap().memory.write(address, &data).unwrap();
    data
}

fn received(network: &mut Network, within: Duration) -> Vec<(usize, u64, Vec<u8>, Time)> {
    let mut all = Vec::new();
    let until = network.now() + within;
    network.run(until, |number, event, station, now| {
        if let Event::Received { from, buffer, octets, .. } = event {
            let mut data = vec![0; octets as usize];
            station.memory.read(buffer.address, &mut data).unwrap();
            all.push((number, from, data, now));
        }
        false
    });
    all
}

fn post(network: &mut Network, number: usize, interface: usize, count: u64) {
    for n in 0..count {
        let buffer = Posted { address: 0x80000 + n * 0x10000, octets: 0x10000 };
        network.station(number).unwrap().lanai.post(interface, buffer).unwrap();
    }
}

#[test]
fn messages_of_any_length_arrive_in_posted_buffers_whole_and_in_order() {
    let mut network = network(2, Config::default());
    for octets in [1, 4, 100, 1024, 8192, 8193, 30_000, 65_536] {
        post(&mut network, 1, 1, 1);
        let data = fill(&mut network, 0, 0x1000, octets);
        let sender = &mut network.station(0).unwrap().lanai;
        sender.send(1, Destination::Host(2, 1), 0x1000, octets as u32).unwrap();
        let got = received(&mut network, Duration::from_millis(20));
        assert_eq!(got.len(), 1, "{octets}");
        assert_eq!((got[0].0, got[0].1, &got[0].2), (1, 1, &data));
    }
}

#[test]
fn what_the_host_writes_itself_is_there_sooner_and_is_short() {
    let mut network = network(2, Config::default());
    let mut took = Vec::new();
    for immediate in [false, true] {
        post(&mut network, 1, 2, 1);
        let data = fill(&mut network, 0, 0, 64);
        let from = network.now();
        let sender = &mut network.station(0).unwrap().lanai;
        let to = Destination::Host(2, 2);
        let done = if immediate { sender.send_immediate(2, to, &data) } else { sender.send(2, to, 0, 64) };
        done.unwrap();
        took.push(received(&mut network, Duration::from_millis(5))[0].3 - from);
    }
    assert!(took[1] < took[0], "{took:?}");
    let sender = &mut network.station(0).unwrap().lanai;
    assert_eq!(sender.send_immediate(2, Destination::Host(2, 2), &[0; 1025]), Err(Refused::TooLong(1025)));
    assert_eq!(sender.send(3, Destination::Host(2, 2), 0, 1), Err(Refused::Interface(3)));
}

#[test]
fn a_group_gets_a_message_once_each_on_a_cycle_and_by_repetition_and_the_cycle_takes_longer_to_the_last() {
    let mut last = Vec::new();
    for multicast in [MulticastBy::Cycle, MulticastBy::Repetition] {
        let config = Config { switches: Switches { multicast, ..Config::default().switches }, ..Config::default() };
        let mut network = network(4, config);
        for number in 0..4 {
            network.station(number).unwrap().lanai.set_group(7, &[2, 4, 1, 3]);
            post(&mut network, number, 1, 2);
        }
        let data = fill(&mut network, 0, 0, 8192);
        let from = network.now();
        network.station(0).unwrap().lanai.send(1, Destination::Group(7), 0, 8192).unwrap();
        let got = received(&mut network, Duration::from_millis(20));
        let mut numbers: Vec<usize> = got.iter().map(|(number, ..)| *number).collect();
        // The cycle goes from address 1 to 3, 2 and 4.
        assert!(multicast == MulticastBy::Repetition || numbers == [2, 1, 3], "{numbers:?}");
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2, 3]);
        assert!(got.iter().all(|(_, sender, octets, _)| *sender == 1 && *octets == data));
        let forwarded: u64 = network.stations().iter().map(|station| station.lanai.monitor().forwarded).sum();
        assert_eq!(forwarded, if multicast == MulticastBy::Cycle { 2 } else { 0 });
        last.push(got.iter().map(|(.., at)| *at - from).max().unwrap());
    }
    assert!(last[0] > last[1], "{last:?}");
}

/// Four hosts send to one whose own bus is slow: messages that came and that were dropped.
fn overload(stop_link: bool) -> (u64, u64, u64) {
    let switches = Switches { stop_link, ..Config::default().switches };
    let mut network = network(5, Config { host_mb_s: 10.0, switches, ..Config::default() });
    for number in 0..4 {
        fill(&mut network, number, 0, 8192);
        for _ in 0..10 {
            network.station(number).unwrap().lanai.send(1, Destination::Host(5, 1), 0, 8192).unwrap();
        }
    }
    post(&mut network, 4, 1, 8);
    let until = network.now() + Duration::from_millis(200);
    network.run(until, |number, event, station, _| {
        if let (4, Event::Received { buffer, .. }) = (number, event) {
            station.lanai.post(1, buffer).unwrap();
        }
        false
    });
    let monitor = network.stations()[4].lanai.monitor();
    (monitor.received.pdus, monitor.packets_received.dropped(DropReason::NoBuffer), monitor.stopped)
}

#[test]
fn a_slow_host_stops_the_link_and_loses_nothing_and_without_that_it_drops() {
    let (came, dropped, stopped) = overload(true);
    assert_eq!((came, dropped), (40, 0));
    assert!(stopped > 0);
    let (came, dropped, _) = overload(false);
    assert!(dropped > 0 && came + dropped >= 40, "{came} {dropped}");
}

#[test]
fn forged_packets_and_descriptors_cost_their_sender_only() {
    let mut network = network(3, Config::default());
    post(&mut network, 1, 1, 1);
    // Memory that is not there.
    network.station(0).unwrap().lanai.send(1, Destination::Host(2, 1), MEMORY as u64, 100).unwrap();
    // An interface and a host that do not exist.
    fill(&mut network, 0, 0, 100);
    network.station(0).unwrap().lanai.send(1, Destination::Host(2, 9), 0, 100).unwrap();
    network.station(0).unwrap().lanai.send(1, Destination::Host(77, 1), 0, 100).unwrap();
    let data = fill(&mut network, 2, 0, 200);
    network.station(2).unwrap().lanai.send(1, Destination::Host(2, 1), 0, 200).unwrap();
    for octets in [vec![], vec![0; 5], vec![0xff; 40], (0..60).collect::<Vec<u8>>()] {
        network.station(1).unwrap().lanai.handle_packet(octets);
    }
    let got = received(&mut network, Duration::from_millis(10));
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].2, data);
    let sent = &network.stations()[0].lanai.monitor().sent;
    assert_eq!((sent.dropped(DropReason::BadDescriptor), sent.dropped(DropReason::UnknownCircuit)), (1, 1));
    let monitor = network.stations()[1].lanai.monitor();
    assert_eq!(monitor.received.dropped(DropReason::UnknownCircuit), 1);
    let came = &monitor.packets_received;
    assert_eq!(came.dropped(DropReason::Malformed) + came.dropped(DropReason::Crc), 4);
}

#[test]
fn a_message_without_a_posted_buffer_is_counted_and_dropped() {
    let mut network = network(2, Config::default());
    fill(&mut network, 0, 0, 100);
    network.station(0).unwrap().lanai.send(0, Destination::Host(2, 0), 0, 100).unwrap();
    assert!(received(&mut network, Duration::from_millis(5)).is_empty());
    assert_eq!(network.stations()[1].lanai.monitor().received.dropped(DropReason::NoBuffer), 1);
}

#[test]
fn what_is_written_into_the_sram_does_not_overtake_what_the_engine_fetches() {
    let mut network = network(2, Config::default());
    post(&mut network, 1, 1, 4);
    let long = fill(&mut network, 0, 0, 8000);
    let lanai = &mut network.station(0).unwrap().lanai;
    lanai.send(1, Destination::Host(2, 1), 0, 8000).unwrap();
    lanai.send_immediate(1, Destination::Host(2, 1), b"short").unwrap();
    let all: Vec<Vec<u8>> =
        received(&mut network, Duration::from_millis(5)).into_iter().map(|(_, _, data, _)| data).collect();
    assert!(all == [long, b"short".to_vec()], "{:?}", all.iter().map(Vec::len).collect::<Vec<_>>());
}

#[test]
fn buffers_of_messages_whose_parts_are_lost_are_free_again() {
    let mut network = network(2, Config::default());
    post(&mut network, 1, 1, 2);
    fill(&mut network, 0, 0, 40_000);
    let host = network.fabric.hosts().next().unwrap();
    for _ in 0..2 {
        network.station(0).unwrap().lanai.send(1, Destination::Host(2, 1), 0, 40_000).unwrap();
        // The cable is pulled while the message's parts are on it.
        let now = network.now();
        network.run(now + Duration::from_micros(500), |_, _, _, _| false);
        let far = network.fabric.disconnect(End::Host(host)).unwrap().unwrap();
        network.run(now + Duration::from_millis(2), |_, _, _, _| false);
        network.fabric.connect(End::Host(host), far, 10.0).unwrap();
    }
    assert_eq!(received(&mut network, Duration::from_millis(300)), []);
    let lanai = &mut network.station(0).unwrap().lanai;
    lanai.send(1, Destination::Host(2, 1), 0, 100).unwrap();
    assert_eq!(received(&mut network, Duration::from_millis(5)).len(), 1);
    assert_eq!(network.stations()[1].lanai.monitor().received.dropped(DropReason::Timeout), 2);
    assert_eq!(network.mismatch(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_a_host_puts_on_its_cable_the_messages_of_others_arrive(
        packets in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 6..200), 0u8..4), 1..40),
    ) {
        let mut network = network(3, Config::default());
        post(&mut network, 1, 1, 4);
        let hostile = network.fabric.hosts().nth(2).unwrap();
        let data = fill(&mut network, 0, 0, 5000);
        network.station(0).unwrap().lanai.send(1, Destination::Host(2, 1), 0, 5000).unwrap();
        for (mut octets, kind) in packets {
            // Routes to each of the three ports or to nowhere, then a mapping message, a message's head, or anything.
            let route = [0x80 | (octets[0] % 8), 0x80 | 0x3f, 0x80 | 0x3e, octets[0]][usize::from(kind)];
            octets[0] = route;
            match kind {
                0 => octets[1..5].copy_from_slice(&lanai::packet::Kind::MAPPING.bits().to_be_bytes()),
                1 | 2 => octets[1..5].copy_from_slice(&lanai::packet::Kind::MESSAGE.bits().to_be_bytes()),
                _ => {}
            }
            let last = octets.len() - 1;
            octets[last] = wire::crc::crc8(&octets[..last]);
            let now = network.now();
            let _ = network.fabric.send(hostile, &octets, 0, now);
        }
        let got = received(&mut network, Duration::from_millis(60));
        prop_assert!(got.iter().any(|(number, from, message, _)| (*number, *from) == (1, 1) && *message == data));
    }
}
