//! What the comparison rests on: each network carries what it is given, and the same each time.

use super::*;
use core::time::Duration;

const COSTS: HostCosts = HostCosts { send: 2e-6, receive: 3e-6, copy: 25e-9 };

fn all(hosts: usize, buffers: usize) -> [Box<dyn Interconnect>; 3] {
    let us = Duration::from_micros;
    let costs = UnetCosts { pdu: us(7), cell: us(2), switch: us(7), link_bits_per_s: 140e6 };
    let (lanai, links) = (lanai::Config::default(), lanai::fabric::Config::default());
    [
        Box::new(Unet::new(hosts, costs, buffers).unwrap()),
        Box::new(Apics::new(hosts, ::apic::Config::default(), buffers).unwrap()),
        Box::new(Myrinet::new(hosts, lanai, links, buffers).unwrap()),
    ]
}

fn carry(net: &mut dyn Interconnect, hosts: usize, flows: &[Flow], consumes: f64) -> (Vec<Carried>, usize, u64) {
    let mut ground = Ground::new(net, hosts, COSTS).consuming(consumes);
    let carried = run(&mut ground, flows, Duration::from_millis(4));
    let lost = ground.dropped().iter().map(|(_, n)| n).sum();
    (carried, ground.most_held(0), lost)
}

#[test]
fn each_member_of_a_group_has_each_message_once() {
    for mut net in all(4, BUFFERS) {
        let (carried, ..) = carry(net.as_mut(), 4, &[Flow::stream(0, To::Group(3), 2000)], 0.0);
        let came = &carried[0].came;
        assert!(came.len() == 3 && came.iter().all(|n| *n > 10 && n.abs_diff(carried[0].taken) <= 40), "{carried:?}");
        assert_eq!(carried[0].damaged, 0);
    }
}

#[test]
fn messages_for_a_receiver_that_is_too_slow_find_no_buffer_and_are_counted() {
    for mut net in all(2, 4) {
        let (carried, held, lost) = carry(net.as_mut(), 2, &[Flow::stream(1, To::Host(0), 1024)], 200e-6);
        assert!(lost > 10 && held <= 4 && carried[0].taken > 2 * carried[0].came[0], "{lost} {held} {carried:?}");
        assert_eq!(carried[0].damaged, 0);
    }
}

#[test]
fn three_senders_lose_nothing_in_a_myrinet_and_whole_messages_at_the_memory_behind_a_chip() {
    let flows = [1, 2, 3].map(|from| Flow::stream(from, To::Host(0), 4096));
    let fast = HostCosts { copy: 0.0, ..COSTS };
    let [unet, apic, myrinet] = all(4, BUFFERS).map(|mut net| {
        let mut ground = Ground::new(net.as_mut(), 4, fast);
        let carried = run_and_drain(&mut ground, &flows, Duration::from_millis(4), Duration::from_millis(50));
        let missing: u64 = carried.iter().map(|flow| flow.taken - flow.came[0]).sum();
        (missing, ground.dropped())
    });
    // The switch's queue of 16 384 cells is not full yet.
    assert_eq!((unet.0, myrinet.0), (0, 0), "{unet:?} {myrinet:?}");
    assert!(apic.0 > 10 && apic.1.iter().any(|(reason, _)| *reason == DropReason::EarlyDiscard), "{apic:?}");
}

/// Runs of a Myrinet's mappers so far.
fn maps(net: &mut Myrinet, hosts: usize) -> u64 {
    (0..hosts).map(|host| net.look(host).map_or(0, |lanai| lanai.mapping().maps())).sum()
}

#[test]
fn a_myrinet_at_full_load_loses_nothing_over_many_runs_of_its_mapper_whatever_the_size() {
    let fast = HostCosts { copy: 0.0, ..COSTS };
    let (lanai, links) = (lanai::Config::default(), lanai::fabric::Config::default());
    for octets in [16, 256, 1024, 8192] {
        for senders in [1, 3] {
            let hosts = senders + 1;
            let mut net = Myrinet::new(hosts, lanai, links, BUFFERS).unwrap();
            let first = maps(&mut net, hosts);
            let flows: Vec<Flow> = (1..hosts).map(|from| Flow::stream(from, To::Host(0), octets)).collect();
            let mut ground = Ground::new(&mut net, hosts, fast);
            // The mapper is at work as often as in a network of a description's default.
            let lengths = [Duration::from_millis(500), Duration::from_millis(50)];
            let carried = run_and_drain(&mut ground, &flows, lengths[0], lengths[1]);
            let dropped = ground.dropped();
            let runs = maps(&mut net, hosts) - first;
            assert!(runs >= 3, "{octets} octets from {senders}: the mapper has run {runs} times");
            let lost: Vec<u64> = carried.iter().map(|flow| flow.taken - flow.came[0]).collect();
            assert!(lost.iter().all(|n| *n == 0) && dropped.is_empty(), "{octets} octets: {lost:?} {dropped:?}");
            assert!(carried.iter().all(|flow| flow.damaged == 0 && flow.came[0] > 100), "{octets} octets: {carried:?}");
        }
    }
}

#[test]
fn tcp_arrives_whole_over_each_and_no_faster_than_its_processor() {
    for mut net in all(2, BUFFERS) {
        let mut ground = Ground::new(net.as_mut(), 2, COSTS);
        let protocol = Protocol { segment: 50e-6, checksum: 10e-9, octets: 1024, window: 32 * 1024 };
        let streamed = stream(&mut ground, protocol, Duration::from_millis(30), 1).unwrap();
        assert!(streamed.intact && streamed.mbit_s > 20.0, "{streamed:?}");
        assert!(streamed.mbit_s < 1024.0 * 8.0 / 60.0 && streamed.busy <= 1.0, "{streamed:?}");
    }
}

#[test]
fn each_side_copies_a_message_as_often_as_its_network_needs_and_short_ones_no_more() {
    let copies = |mut nets: [Box<dyn Interconnect>; 3]| {
        nets.each_mut().map(|net| [16, 1024, 1025, 8192].map(|octets| net.copies(octets)))
    };
    let [unet, apic, myrinet] = copies(all(2, BUFFERS));
    assert_eq!(unet, [Copies { out: 1, into: 1 }; 4]);
    assert_eq!(apic, [Copies { out: 0, into: 0 }; 4]);
    assert_eq!(myrinet, [Copies { out: 1, into: 1 }; 4]);
    // Without the copy block, only what the host writes into the interface is copied: up to 1 KB.
    let switches = lanai::Switches { copy_block: false, ..lanai::Config::default().switches };
    let config = lanai::Config { switches, ..lanai::Config::default() };
    let bare = Myrinet::new(2, config, lanai::fabric::Config::default(), BUFFERS).unwrap();
    assert_eq!([16, 1024, 1025].map(|octets| bare.copies(octets).out), [1, 1, 0]);
    assert_eq!(bare.copies(16).into, 0);
}

#[test]
fn a_processor_is_charged_for_the_copies_that_its_network_needs() {
    const OCTETS: usize = 4096;
    let [unet, apic, myrinet] = all(2, BUFFERS).map(|mut net| {
        let mut ground = Ground::new(net.as_mut(), 2, COSTS);
        let flow = [Flow::stream(0, To::Host(1), OCTETS)];
        let carried = run_and_drain(&mut ground, &flow, Duration::from_millis(10), Duration::from_millis(20));
        let given = carried[0].taken as f64;
        (ground.touched(0).0 as f64 / given / OCTETS as f64, ground.worked(0) / given)
    });
    // A copy reads an octet and writes it. The message that the interface never took is copied too.
    let slack = 0.1;
    assert!((unet.0 - 2.0).abs() < slack && (myrinet.0 - 2.0).abs() < slack && apic.0 == 0.0, "{unet:?} {myrinet:?}");
    let copying = COSTS.copy * OCTETS as f64;
    assert!((apic.1 - COSTS.send).abs() < 0.1 * COSTS.send, "{apic:?}");
    assert!((unet.1 - COSTS.send - copying).abs() < slack * copying, "{unet:?}");
}

#[test]
fn a_step_is_over_when_something_has_happened_or_the_moment_has_come_and_goes_to_what_is_next_else() {
    let mut network = Network::new(net::FramePool::new(4, 256));
    let (mut now, until, mut happened) = (Time::from_micros(5), Time::from_micros(9), VecDeque::new());
    // Nothing is under way: the rest of the time passes at once.
    assert!(!is_over(&network, &happened, &mut now, until));
    assert_eq!(now, until);
    assert!(is_over(&network, &happened, &mut now, until));
    assert!(!network.run(now));
    happened.push_back(Happened::Left(0));
    let mut now = Time::from_micros(5);
    assert!(is_over(&network, &happened, &mut now, until));
    assert_eq!(now, Time::from_micros(5));
}
