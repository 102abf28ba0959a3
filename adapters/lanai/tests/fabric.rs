//! Myrinet at any load in random topologies: nothing is lost, no buffer overflows, no packet waits for ever.
//!
//! `make test-deep` takes 10 000 of them, `CELLWAY_SEED=N` takes one.

use lanai::fabric::random::{Limits, fabric};
use lanai::fabric::routes::Map;
use lanai::fabric::{Config, End, PacketOutcome};
use lanai::packet::{Kind, Packet, emit, packet_octets};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use wire::Time;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seeds() -> std::ops::Range<u64> {
    let count = if std::env::var_os("CELLWAY_LONG").is_some() { 10_000 } else { 300 };
    number("CELLWAY_SEED").map_or(0..count, |seed| seed..seed + 1)
}

/// Every host sends to random others as fast as its cable takes it; then all is waited for.
fn all_arrives(seed: u64) {
    let (mut fabric, hosts) = fabric(Config { queue: 4, ..Config::default() }, Limits::default(), seed).unwrap();
    let map = Map::of(&fabric, |host| hosts.iter().position(|h| *h == host).unwrap() as u64);
    let routes = map.routes();
    assert!(map.is_free_of_deadlock(&routes));
    let mut random = StdRng::seed_from_u64(!seed);
    let longest = [8, 60, 400, 2000][random.random_range(0..4usize)];
    let (mut sent, mut arrived) = (HashMap::new(), 0);
    let mut packet = vec![0; packet_octets(24, 2048)];
    let mut check = |fabric: &mut lanai::fabric::Fabric, sent: &mut HashMap<u64, (usize, usize)>| {
        while let Some((_, host, outcome)) = fabric.poll_outcome() {
            let PacketOutcome::Arrived(octets) = outcome else { continue };
            let payload = Packet::new_checked(&octets).expect("a whole packet").payload();
            let number = u64::from_be_bytes(*payload.first_chunk().unwrap());
            let (to, length) = sent.remove(&number).expect("a packet that was sent, once");
            assert_eq!((hosts[to], payload.len()), (host, length));
            fabric.recycle(octets);
            arrived += 1;
        }
    };
    let mut count = 0u64;
    for micros in 0..100 {
        let now = Time::from_micros(micros);
        for (from, host) in hosts.iter().enumerate().filter(|_| hosts.len() > 1) {
            while fabric.room(*host) > 0 {
                let to = (from + random.random_range(1..hosts.len())) % hosts.len();
                let route = routes.between(from, to).expect("all hang together");
                let length = random.random_range(8..=longest);
                let mut payload = [0x5a; 2048];
                payload[..8].copy_from_slice(&count.to_be_bytes());
                let n = emit(route, Kind::MESSAGE, &payload[..length], &mut packet);
                fabric.send(*host, &packet[..n], count, now).unwrap();
                sent.insert(count, (to, length));
                count += 1;
            }
        }
        fabric.run(Time::from_micros(micros + 1));
        check(&mut fabric, &mut sent);
    }
    while let Some(next) = fabric.poll_timeout().filter(|next| *next < Time::from_millis(10_000)) {
        fabric.run(next);
        check(&mut fabric, &mut sent);
    }
    assert!(sent.is_empty(), "{} of {count} have not arrived", sent.len());
    assert_eq!((arrived, fabric.losses(), fabric.counters().dropped_total()), (count, (0, 0), 0));
}

#[test]
fn nothing_is_lost_without_faults_at_any_load_in_any_topology_in_the_long_run() {
    for seed in seeds() {
        let run = std::panic::catch_unwind(|| all_arrives(seed));
        assert!(
            run.is_ok(),
            "repeat with CELLWAY_SEED={seed} cargo test -p cellway-lanai --test all fabric:: -- --nocapture"
        );
    }
}

#[test]
fn up_down_routes_reach_every_host_and_close_no_circle_in_the_long_run() {
    for seed in seeds() {
        let (fabric, hosts) = fabric(Config::default(), Limits::default(), seed).unwrap();
        let map = Map::of(&fabric, |host| hosts.iter().position(|h| *h == host).unwrap() as u64);
        let routes = map.routes();
        assert!(map.is_free_of_deadlock(&routes), "seed {seed}");
        for from in 0..hosts.len() {
            for to in (0..hosts.len()).filter(|to| *to != from) {
                let mut end = fabric.far_end(End::Host(hosts[from])).unwrap();
                for turn in routes.between(from, to).expect("all hang together") {
                    let End::Port(switch, port) = end else { panic!("seed {seed}: the route goes on at a host") };
                    end = fabric.far_end(End::Port(switch, turn.output(port, 16).unwrap())).unwrap();
                }
                assert_eq!(end, End::Host(hosts[to]), "seed {seed}: from {from} to {to}");
            }
        }
    }
}
