//! The fabric: timing, blocking, marks, faults, cables.

use super::*;
use crate::packet::{Kind as PacketKind, Packet, Turn, emit, packet_octets};
use core::time::Duration;
use wire::DropReason;

fn packet(route: &[(usize, usize)], octets: usize) -> Vec<u8> {
    let route: Vec<Turn> = route.iter().map(|(input, output)| Turn::between(*input, *output).unwrap()).collect();
    let payload: Vec<u8> = (0..octets).map(|n| (n * 7) as u8).collect();
    let mut out = vec![0; packet_octets(route.len(), octets)];
    emit(&route, PacketKind::MESSAGE, &payload, &mut out);
    out
}

/// Hosts on the first ports of one switch of 16.
fn star(config: Config, hosts: usize, metres: f64) -> (Fabric, Vec<HostId>) {
    let mut fabric = Fabric::new(config);
    let switch = fabric.add_switch(16).unwrap();
    let hosts: Vec<_> = (0..hosts).map(|_| fabric.add_host()).collect();
    for (port, host) in hosts.iter().enumerate() {
        fabric.connect(End::Host(*host), End::Port(switch, port), metres).unwrap();
    }
    (fabric, hosts)
}

fn arrivals(fabric: &mut Fabric) -> Vec<(Time, HostId, Vec<u8>)> {
    let all = std::iter::from_fn(|| fabric.poll_outcome());
    all.filter_map(|(at, host, outcome)| match outcome {
        PacketOutcome::Arrived(octets) => Some((at, host, octets)),
        PacketOutcome::Sent(_) | PacketOutcome::GivenUp(_) => None,
    })
    .collect()
}

#[test]
fn a_packet_takes_its_own_length_and_each_hops_delay_and_no_more() {
    let (mut fabric, hosts) = star(Config::default(), 2, 10.0);
    fabric.send(hosts[0], &packet(&[(0, 1)], 1000), 0, Time::ZERO).unwrap();
    fabric.run(Time::from_millis(1));
    let got = arrivals(&mut fabric);
    // Two cables of 6 + 4 symbols, 2 for routing, 1000 octets, type, CRC and GAP; the route octet was stripped before.
    let symbols = 10 + 2 + 10 + 1000 + 4 + 1 + 1;
    assert_eq!(got[0].0, Time::from_nanos((symbols * 25_u64).div_ceil(2)));
    assert_eq!(Packet::new_checked(&got[0].2).unwrap().payload().len(), 1000);
    // Stored whole before it is passed on, it takes its length twice.
    let (mut slow, hosts) = star(Config { switching: Switching::StoreAndForward, ..Config::default() }, 2, 10.0);
    slow.send(hosts[0], &packet(&[(0, 1)], 1000), 0, Time::ZERO).unwrap();
    slow.run(Time::from_millis(1));
    let late = arrivals(&mut slow)[0].0;
    assert!(late - got[0].0 > Duration::from_micros(12), "{late}");
}

#[test]
fn senders_to_one_receiver_take_turns_and_nothing_is_lost() {
    let (mut fabric, hosts) = star(Config::default(), 5, 25.0);
    for n in 0..20 {
        for (host, id) in hosts.iter().enumerate().take(4) {
            fabric.send(*id, &packet(&[(host, 4)], 500 + host), n, Time::ZERO).unwrap();
        }
    }
    fabric.run(Time::from_millis(5));
    let lengths: Vec<usize> = arrivals(&mut fabric).iter().map(|(_, _, octets)| octets.len()).collect();
    assert_eq!(lengths.len(), 80);
    // The first four come in the order of asking; from then on each has every fourth place.
    assert!(lengths.chunks(4).all(|round| round.iter().sum::<usize>() == 4 * 505 + 6), "{lengths:?}");
    assert_eq!(fabric.losses(), (0, 0));
    assert_eq!(fabric.counters().dropped_total(), 0);
}

/// Two senders at full load to one receiver, packets of `octets`: the share of the receiver's cable that carries
/// octets.
fn shared(config: Config, metres: f64, octets: usize) -> (f64, (u64, u64)) {
    let (mut fabric, hosts) = star(config, 3, metres);
    let packets: Vec<_> = (0..2).map(|host| packet(&[(host, 2)], octets)).collect();
    let (end, mut carried) = (Time::from_millis(2), 0);
    for micros in 0..2000 {
        for (host, packet) in packets.iter().enumerate() {
            while fabric.send(hosts[host], packet, 0, Time::from_micros(micros)).is_ok() {}
        }
        fabric.run(Time::from_micros(micros + 1));
        carried += arrivals(&mut fabric).iter().map(|(_, _, octets)| octets.len() + 1).sum::<usize>();
    }
    (carried as f64 * 8.0 / (end.as_secs_f64() * 640e6), fabric.losses())
}

#[test]
fn a_cable_of_ten_metres_is_full_and_one_of_twenty_five_loses_the_gaps_that_its_buffer_cannot_hide() {
    let config = Config::default();
    for metres in [1.0, 5.0, 10.0] {
        assert_eq!(config.gap(metres), Some(0));
        let (share, losses) = shared(config, metres, 95);
        assert!(share > 0.97, "{metres} m: {share}");
        assert_eq!(losses, (0, 0));
    }
    assert_eq!(config.gap(25.0), Some(23));
    let (share, losses) = shared(config, 25.0, 95);
    assert!((0.7..0.85).contains(&share), "{share}");
    assert_eq!(losses, (0, 0));
    // With long packets there are few gaps; with a larger buffer there are none.
    assert!(shared(config, 25.0, 4000).0 > 0.95);
    assert!(shared(Config { slack: 66, ..config }, 25.0, 95).0 > 0.97);
}

#[test]
fn the_slack_buffer_never_overflows_with_the_marks_chosen_and_does_with_marks_too_high() {
    let config = Config::default();
    let (size, stop, go) = config.buffer(25.0).unwrap();
    assert_eq!((size, stop, go), (42, 10, 9));
    for octets in [1, 10, 40, 95, 1000] {
        assert_eq!(shared(config, 25.0, octets).1, (0, 0));
    }
    // The highest mark that is safe, and one symbol more.
    let fixed = |stop| Config { marks: Marks::Fixed { stop, go }, ..config };
    assert_eq!(shared(fixed(stop), 25.0, 95).1.0, 0);
    assert!(shared(fixed(stop + 1), 25.0, 95).1.0 > 0);
    assert!(shared(fixed(30), 25.0, 95).1.0 > 100);
}

/// A ring of three switches, a host at each.
fn cabled_ring(timeout: Duration) -> (Fabric, Vec<HostId>) {
    let mut fabric = Fabric::new(Config { timeout, ..Config::default() });
    let switches: Vec<_> = (0..3).map(|_| fabric.add_switch(4).unwrap()).collect();
    let hosts: Vec<_> = (0..3).map(|_| fabric.add_host()).collect();
    for n in 0..3 {
        fabric.connect(End::Host(hosts[n]), End::Port(switches[n], 0), 10.0).unwrap();
        fabric.connect(End::Port(switches[n], 2), End::Port(switches[(n + 1) % 3], 1), 10.0).unwrap();
    }
    (fabric, hosts)
}

/// The same; each host sends two switches on, so that the three routes close a circle.
fn ring(timeout: Duration) -> (Fabric, Vec<HostId>) {
    let (mut fabric, hosts) = cabled_ring(timeout);
    for host in &hosts {
        fabric.send(*host, &packet(&[(0, 2), (1, 2), (1, 0)], 2000), 0, Time::ZERO).unwrap();
    }
    (fabric, hosts)
}

#[test]
fn routes_in_a_circle_stand_for_ever_and_the_time_out_ends_it() {
    let (mut fabric, _) = ring(Duration::ZERO);
    fabric.run(Time::from_millis(60_000));
    assert_eq!(arrivals(&mut fabric).len(), 0);
    assert_eq!(fabric.poll_timeout(), None, "nothing will ever happen here");

    let (mut fabric, hosts) = ring(Duration::from_millis(50));
    fabric.run(Time::from_micros(49_990));
    assert_eq!(arrivals(&mut fabric).len(), 0);
    fabric.run(Time::from_millis(51));
    let lost = fabric.counters().dropped(DropReason::Timeout);
    let whole = arrivals(&mut fabric).iter().filter(|(_, _, octets)| Packet::new_checked(octets).is_ok()).count();
    assert!(lost >= 1 && whole + lost as usize == 3, "{lost} lost, {whole} came");
    // The ring is free again.
    fabric.send(hosts[0], &packet(&[(0, 2), (1, 2), (1, 0)], 2000), 0, Time::from_millis(60)).unwrap();
    fabric.run(Time::from_millis(61));
    assert_eq!(arrivals(&mut fabric).len(), 1);
}

#[test]
fn a_packet_of_mapping_in_a_circle_is_given_up_before_those_of_users_and_is_counted_apart() {
    for timeout in [Duration::ZERO, Duration::from_millis(50)] {
        let (mut fabric, hosts) = cabled_ring(timeout);
        let (route, mut of_mapping) = ([2, 1, -1].map(|n| Turn::new(n).unwrap()), [0; packet_octets(3, 2000)]);
        emit(&route, PacketKind::MAPPING, &[0; 2000], &mut of_mapping);
        fabric.send(hosts[0], &of_mapping, 0, Time::ZERO).unwrap();
        for host in &hosts[1..] {
            fabric.send(*host, &packet(&[(0, 2), (1, 2), (1, 0)], 2000), 0, Time::ZERO).unwrap();
        }
        fabric.run(Time::from_millis(10));
        assert_eq!(arrivals(&mut fabric).len(), 0, "they stand");
        fabric.run(Time::from_millis(20));
        let whole = arrivals(&mut fabric).iter().filter(|(_, _, octets)| Packet::new_checked(octets).is_ok()).count();
        assert_eq!((whole, fabric.losses(), fabric.counters().dropped_total()), (2, (0, 0), 0), "{timeout:?}");
        assert!(fabric.sums().add_up() && fabric.sums().held == 0);
    }
}

#[test]
fn what_a_host_does_not_take_stands_in_the_network_until_it_does() {
    let (mut fabric, hosts) = star(Config::default(), 3, 10.0);
    fabric.set_accepting(hosts[2], false);
    for (host, id) in hosts.iter().enumerate().take(2) {
        fabric.send(*id, &packet(&[(host, 2)], 3000), 0, Time::ZERO).unwrap();
    }
    fabric.run(Time::from_millis(40));
    assert_eq!(arrivals(&mut fabric).len(), 0);
    fabric.set_accepting(hosts[2], true);
    fabric.run(Time::from_millis(41));
    assert_eq!(arrivals(&mut fabric).len(), 2);
    assert_eq!(fabric.losses(), (0, 0));
}

#[test]
fn a_packet_on_a_cable_that_is_pulled_arrives_damaged_or_not_at_all_and_the_next_one_whole() {
    for nanos in (0..6000).step_by(37) {
        for pulled in [0, 1] {
            let (mut fabric, hosts) = star(Config::default(), 2, 10.0);
            fabric.send(hosts[0], &packet(&[(0, 1)], 300), 0, Time::ZERO).unwrap();
            fabric.run(Time::from_nanos(nanos));
            let far = fabric.disconnect(End::Host(hosts[pulled])).unwrap().unwrap();
            assert_eq!(fabric.far_end(far), None);
            fabric.run(Time::from_micros(20));
            fabric.connect(End::Host(hosts[pulled]), far, 10.0).unwrap();
            fabric.send(hosts[0], &packet(&[(0, 1)], 299), 0, Time::from_micros(20)).unwrap();
            fabric.run(Time::from_micros(100));
            let got = arrivals(&mut fabric);
            let whole = |octets: &[u8]| Packet::new_checked(octets).map(|packet| packet.payload().len()).ok();
            let last = got.last().map(|(_, _, octets)| whole(octets));
            assert_eq!(last, Some(Some(299)), "{nanos} ns, cable {pulled}");
            assert_eq!(got.len() as u64 + fabric.counters().dropped_total(), 2, "{nanos} ns, cable {pulled}");
            let sums = fabric.sums();
            assert!(sums.add_up() && (sums.accepted, sums.held) == (2, 0), "{nanos} ns, cable {pulled}: {sums:?}");
        }
    }
}

#[test]
fn each_packet_that_a_host_queued_has_left_or_was_given_up_and_arrived_or_was_dropped() {
    let config = Config { timeout: Duration::from_millis(50), ..Config::default() };
    let (mut fabric, hosts) = star(config, 3, 10.0);
    // One host takes a symbol at a time, so that switches pass some on and senders stand for longer than they do.
    fabric.set_accepting(hosts[2], false);
    let mut numbers = Vec::new();
    for number in 0..8 {
        for (host, to) in [(0, 2), (1, 2), (2, 9)] {
            fabric.send(hosts[host], &packet(&[(host, to)], 3000), number, fabric.now()).unwrap();
            numbers.push((hosts[host], number));
        }
    }
    let (mut over, mut given_up, mut arrived) = (Vec::new(), 0, 0);
    for millis in 1..2000 {
        fabric.run(Time::from_millis(millis));
        if millis % 20 == 0 {
            fabric.set_accepting(hosts[2], true);
            fabric.run(Time::from_millis(millis) + Duration::from_nanos(12));
            fabric.set_accepting(hosts[2], millis > 1000);
        }
        let sums = fabric.sums();
        assert!(sums.add_up() && sums.accepted == 24, "{millis} ms: {sums:?}");
        while let Some((_, host, outcome)) = fabric.poll_outcome() {
            match outcome {
                PacketOutcome::Sent(number) => over.push((host, number)),
                PacketOutcome::GivenUp(number) => {
                    given_up += 1;
                    over.push((host, number));
                }
                PacketOutcome::Arrived(octets) => arrived += u64::from(!octets.is_empty()),
            }
        }
    }
    over.sort_unstable();
    numbers.sort_unstable();
    assert_eq!(over, numbers);
    assert!(given_up > 0, "no packet stood at its sender");
    let counters = fabric.sums().counters;
    assert_eq!((fabric.sums().held, counters.dropped(DropReason::Timeout) + arrived), (0, 16), "{counters:?}");
    assert_eq!(counters.dropped(DropReason::LinkDown), 8);
}

#[test]
fn a_route_to_nowhere_costs_its_own_packet_only() {
    let (mut fabric, hosts) = star(Config::default(), 2, 10.0);
    let mut ended = packet(&[(0, 1)], 20);
    ended[0] = 0x12;
    for octets in
        [packet(&[(0, 9)], 400), packet(&[(0, 20)], 400), ended, packet(&[(0, 1), (0, 1)], 30), packet(&[(0, 1)], 50)]
    {
        fabric.send(hosts[0], &octets, 0, Time::ZERO).unwrap();
    }
    fabric.run(Time::from_micros(100));
    let counters = fabric.counters();
    assert_eq!((counters.dropped(DropReason::Malformed), counters.dropped(DropReason::LinkDown)), (2, 1));
    let got = arrivals(&mut fabric);
    assert_eq!(got.len(), 2);
    assert!(Packet::new_checked(&got[0].2).is_err(), "its route had not ended");
    assert!(Packet::new_checked(&got[1].2).is_ok());
}

#[test]
fn damaged_bits_are_seen_by_the_crc_and_their_number_is_as_asked() {
    let config = Config { errors: 1e-4, seed: 3, ..Config::default() };
    let (mut fabric, hosts) = star(config, 2, 10.0);
    let (mut sent, mut good) = (0, 0);
    for micros in 0..20_000 {
        while fabric.send(hosts[0], &packet(&[(0, 1)], 500), 0, Time::from_micros(micros)).is_ok() {
            sent += 1;
        }
        fabric.run(Time::from_micros(micros + 1));
        good += arrivals(&mut fabric).iter().filter(|(_, _, octets)| Packet::new_checked(octets).is_ok()).count();
    }
    fabric.run(Time::from_millis(30));
    good += arrivals(&mut fabric).iter().filter(|(_, _, octets)| Packet::new_checked(octets).is_ok()).count();
    // Two cables with about 506 octets each, at 1 in 10 000.
    let expected = (1.0 - 1e-4_f64).powi(1012);
    let share = good as f64 / f64::from(sent);
    assert!((share - expected).abs() < 0.02, "{share} of {sent}, expected {expected}");
}

#[test]
fn the_same_buffer_covers_ten_metres_at_twice_the_rate_and_twenty_five_at_this_one() {
    let lan = Config { logic: 0, ..Config::default() };
    let san = Config { symbol_ps: 6_250, ..lan };
    assert_eq!((san.under_way(10.0), lan.under_way(25.0)), (16, 20));
}
