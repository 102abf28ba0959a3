//! Mapping goes on while interfaces carry all that they can: nothing is lost, of messages of any length, over many runs of the mapper.

use bus::HostMemory;
use lanai::fabric::mapper::Settings;
use lanai::fabric::random::{Limits, fabric};
use lanai::fabric::{Config as Links, End, Fabric, HostId};
use lanai::network::Network;
use lanai::{Config, Destination, Event, Lanai, MulticastBy, Posted, Switches};
use net::random::Random;
use std::time::Duration;
use wire::Time;

const LONGEST: u32 = 65_535;
const PLACE: u64 = 0x1_0000;
/// As many as messages that may be open, and as an interface may be sent at once.
const BUFFERS: u64 = 32;
const PERIOD: Duration = Duration::from_millis(10);

fn octet(n: usize) -> u8 {
    (n * 31 / 8) as u8
}

/// Interfaces whose maps are drawn, each with a message in its memory and buffers for others; host `n` has the address `n + 1`.
fn network(fabric: Fabric, hosts: &[HostId], config: Config) -> Network {
    let mut network = Network::new(fabric);
    let message: Vec<u8> = (0..LONGEST as usize).map(octet).collect();
    let config = Config { queue: BUFFERS as usize, ..config };
    let settings = Settings { period: PERIOD, ..Settings::default() };
    for (host, address) in hosts.iter().zip(1..) {
        let number = network.add(*host, address, config, settings, ((1 + BUFFERS) * PLACE) as usize);
        let station = network.station(number).unwrap();
        station.memory.write(0, &message).unwrap();
        for n in 1..=BUFFERS {
            station.lanai.post(1, Posted { address: n * PLACE, octets: LONGEST }).unwrap();
        }
    }
    let mapped = |network: &Network| {
        network.stations().iter().all(|station| station.lanai.mapping().routes().1.len() == hosts.len() - 1)
    };
    while !mapped(&network) {
        assert!(network.now() < Time::from_millis(2000), "no map");
        let until = network.now() + Duration::from_millis(1);
        network.run(until, |_, _, _, _| false);
    }
    network
}

fn star(hosts: usize, config: Config) -> Network {
    let mut fabric = Fabric::new(Links::default());
    let switch = fabric.add_switch(16).unwrap();
    let ids: Vec<_> = (0..hosts).map(|_| fabric.add_host()).collect();
    for (port, host) in ids.iter().enumerate() {
        fabric.connect(End::Host(*host), End::Port(switch, port), 10.0).unwrap();
    }
    network(fabric, &ids, config)
}

/// What a host sends next: for whom, and how many octets.
type Next<'a> = &'a mut dyn FnMut(usize) -> Option<(Destination, u32)>;

/// Each host sends as fast as its interface takes it, until `length` is over and all has come. Gives the messages that came.
fn carry(network: &mut Network, length: Duration, next: Next<'_>) -> Result<u64, String> {
    let (end, hosts) = (network.now() + length, network.stations().len());
    let first: Vec<u64> = network.stations().iter().map(|station| station.lanai.mapping().maps()).collect();
    let (mut sent, mut came) = ([0u64; 2], [0u64; 2]);
    let mut give = |number: usize, lanai: &mut Lanai| {
        let Some((to, octets)) = next(number) else { return };
        let receivers = if matches!(to, Destination::Group(_)) { hosts as u64 - 1 } else { 1 };
        lanai.send(1, to, 0, octets).unwrap();
        sent = [sent[0] + receivers, sent[1] + receivers * u64::from(octets)];
    };
    for number in 0..hosts {
        (0..8).for_each(|_| give(number, &mut network.station(number).unwrap().lanai));
    }
    let mut wrong = None;
    network.run(end + Duration::from_secs(1), |number, event, station, now| {
        match event {
            Event::Sent { whole, .. } => {
                wrong = wrong.take().or((!whole).then(|| format!("{now:?}: host {number} could not send")));
                if now < end {
                    give(number, &mut station.lanai);
                }
            }
            Event::Received { buffer, octets, .. } => {
                let message = station.memory.slice(buffer.address, octets as usize).unwrap();
                let ends = [0, octets as usize / 2, octets as usize - 1];
                if ends.iter().any(|n| message[*n] != octet(*n)) {
                    wrong = Some(format!("{now:?}: host {number} has another message"));
                }
                came = [came[0] + 1, came[1] + u64::from(octets)];
                station.lanai.post(1, buffer).unwrap();
            }
        }
        false
    });
    let sums = network.sums();
    let monitor = &sums.lanais.monitor;
    let all = [monitor.sent, monitor.received, monitor.packets_sent, monitor.packets_received, sums.fabric.counters];
    let drops: Vec<_> = all.iter().flat_map(|counters| counters.drops()).collect();
    let maps: u64 = network.stations().iter().zip(&first).map(|(station, n)| station.lanai.mapping().maps() - n).sum();
    if wrong.is_some() || came != sent || !drops.is_empty() || network.fabric.losses() != (0, 0) || maps < 5 {
        return Err(format!("{wrong:?}: {sent:?} messages and octets sent, {came:?} came, {drops:?}, {maps} maps"));
    }
    assert_eq!(network.mismatch(), None);
    Ok(came[0])
}

#[test]
fn one_sender_at_full_rate_loses_nothing_whatever_the_length() {
    for octets in [1, 256, 1024, 8192, LONGEST] {
        // The mapper is whoever sends, whoever receives, and neither.
        for (from, to) in [(5, 0), (0, 5), (0, 1)] {
            let mut network = star(6, Config::default());
            let host = Destination::Host(to + 1, 1);
            let came = carry(&mut network, Duration::from_millis(300), &mut |n| (n == from).then_some((host, octets)));
            assert!(came.as_ref().is_ok_and(|n| *n > 100), "{octets} octets from {from} to {to}: {came:?}");
        }
    }
}

#[test]
fn a_receiver_that_all_send_to_stays_in_the_map() {
    for (hosts, octets, host_mb_s) in [(6, 1024, 60.0), (16, 256, 60.0), (16, LONGEST, 60.0), (5, 8192, 5.0)] {
        let mut network = star(hosts, Config { host_mb_s, ..Config::default() });
        for to in [0, hosts - 1] {
            let host = Destination::Host(to as u64 + 1, 1);
            let came = carry(&mut network, Duration::from_millis(300), &mut |n| (n != to).then_some((host, octets)));
            assert!(came.is_ok(), "{octets} octets from {hosts} hosts to {to}: {came:?}");
        }
    }
}

#[test]
fn a_group_loses_nothing_around_the_cycle_and_by_repetition() {
    for multicast in [MulticastBy::Cycle, MulticastBy::Repetition] {
        for octets in [64, 8192, LONGEST] {
            let config = Config { switches: Switches { multicast, ..Config::default().switches }, ..Config::default() };
            let mut network = star(4, config);
            network.set_group(7, vec![1, 2, 3, 4]);
            let group = Some((Destination::Group(7), octets));
            let came = carry(&mut network, Duration::from_millis(300), &mut |n| group.filter(|_| n == 0));
            assert!(came.as_ref().is_ok_and(|n| *n > 30), "{multicast:?}, {octets} octets: {came:?}");
        }
    }
}

/// Hosts of a random topology send messages of all lengths to random others, or all to one.
fn all_to_all(seed: u64) -> Result<u64, String> {
    let limits = Limits { switches: 8, hosts: 3, ..Limits::default() };
    let (fabric, hosts) = fabric(Links::default(), limits, seed).unwrap();
    let mut random = Random::new(!seed);
    let most = [60, 1024, 9000, LONGEST][random.index(4)];
    let count = hosts.len();
    let one = (random.index(3) == 0).then(|| random.index(count));
    let mut network = network(fabric, &hosts, Config::default());
    carry(&mut network, Duration::from_millis(400), &mut |from| {
        let to = one.unwrap_or((from + random.within(1..=count.max(2) - 1)) % count);
        (to != from).then(|| (Destination::Host(to as u64 + 1, 1), random.within(1..=most as usize) as u32))
    })
}

#[test]
fn nothing_is_lost_at_full_load_of_any_lengths_in_any_topology_while_the_mapper_maps_in_the_long_run() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let count = if std::env::var_os("CELLWAY_LONG").is_some() { 300 } else { 4 };
    for seed in number("CELLWAY_SEED").map_or(0..count, |seed| seed..seed + 1) {
        let came = all_to_all(seed);
        assert!(came.is_ok(), "{came:?}; repeat with CELLWAY_SEED={seed}");
    }
}

#[test]
fn a_healthy_network_drops_nothing_and_counts_its_scouts_apart() {
    let mut network = star(6, Config::default());
    network.run(Time::from_millis(500), |_, _, _, _| false);
    let sums = network.sums();
    assert_eq!((sums.fabric.counters, sums.lanais.monitor.packets_received), Default::default());
    assert_eq!(sums.lanais.monitor.packets_sent, Default::default());
    let (sent, received) = (&sums.lanais.monitor.mapping_sent, &sums.lanais.monitor.mapping_received);
    assert!(sums.fabric.mapping.dropped_total() > 1000, "scouts that find nothing: {:?}", sums.fabric.mapping);
    assert!(sent.pdus > received.pdus && received.pdus > 200 && sent.dropped_total() == 0, "{sent:?} {received:?}");
    assert_eq!(network.mismatch(), None);
}
