//! A label that a circuit has after another: what was sent on the first is not received on the second.

use lab::{Station, World, for_seeds};
use net::{Carries, FaultConfig, FrameAal, LinkConfig};
use std::time::Duration;
use traffic::Contract;
use wire::{CellRate, CircuitId, DropReason};

const MINUTE: Duration = Duration::from_secs(60);
const OLD: u8 = 0xee;

fn id(s: &str) -> CircuitId {
    s.parse().unwrap()
}

/// Slow enough that most of what is sent is under way when the circuit changes.
fn slow(carries: Carries) -> LinkConfig {
    LinkConfig {
        carries,
        rate: Some(CellRate::from_cells_per_s(50_000.0).unwrap()),
        delay: Duration::from_millis(2),
        queue_cells: 512,
        ..LinkConfig::default()
    }
}

/// By the seed: cells or frames, on links with a rate, with a delay alone, and at once; in one to three shards.
fn links(seed: u64) -> [LinkConfig; 2] {
    let carries = |n: u64| if n.is_multiple_of(2) { Carries::Cells } else { Carries::Frames };
    [seed, seed / 2].map(|n| match seed / 4 % 3 {
        0 => slow(carries(n)),
        1 => LinkConfig { rate: None, ..slow(carries(n)) },
        _ => LinkConfig { carries: carries(n), queue_cells: 64, ..LinkConfig::default() },
    })
}

/// alpha and gamma on slow links, beta and delta too, around two switches.
fn world(seed: u64, [edge, trunk]: [LinkConfig; 2]) -> World<Station> {
    let mut world = World::sharded(seed, seed as usize % 3 + 1);
    for host in ["alpha", "beta", "gamma", "delta"] {
        world.add_host(host, Station::default());
    }
    world.add_switch("s1");
    world.add_switch("s2");
    for (host, at) in [("alpha", "s1:0"), ("gamma", "s1:1"), ("beta", "s2:0"), ("delta", "s2:1")] {
        world.add_link(host, at, edge.clone());
    }
    world.add_link("s1:7", "s2:7", trunk);
    world
}

fn add(world: &mut World<Station>, ends: [&str; 2]) {
    world
        .add_circuit(
            &ends.map(|host| [host, " 0.100"].concat()).each_ref().map(String::as_str),
            FrameAal::Aal5,
            Contract::default(),
        )
        .unwrap();
}

fn remove(world: &mut World<Station>, ends: [&str; 2]) {
    world.remove_circuit(&ends.map(|host| [host, " 0.100"].concat()).each_ref().map(String::as_str)).unwrap();
}

/// SDUs of one octet's value, some of one cell and some of many. A few: frames that nobody has read yet leave others no room.
fn send(world: &mut World<Station>, host: &str, what: u8, count: usize) {
    (0..count).for_each(|n| world.host(host).send(id("0.100"), vec![what; 20 + n * 37 % 900]));
}

fn received(world: &mut World<Station>, host: &str) -> Vec<u8> {
    let got = world.host(host).received(id("0.100"));
    got.into_iter()
        .map(|(_, sdu)| {
            assert!(sdu.iter().all(|octet| *octet == sdu[0]), "{host} got an SDU of two circuits");
            sdu[0]
        })
        .collect()
}

/// What is removed, and what has its labels then: at the sender's host, at the receiver's, between the switches, and all of it.
const SUCCESSIONS: [([&str; 2], [&str; 2]); 4] = [
    (["alpha", "beta"], ["alpha", "delta"]),
    (["alpha", "beta"], ["gamma", "beta"]),
    (["alpha", "beta"], ["gamma", "delta"]),
    (["alpha", "beta"], ["alpha", "beta"]),
];

#[test]
fn what_is_under_way_on_a_circuit_that_is_removed_is_not_received_on_the_next_of_its_label() {
    for_seeds("what_is_under_way_on_a_circuit_that_is_removed_is_not_received_on_the_next_of_its_label", 96, |seed| {
        let (old, new) = SUCCESSIONS[seed as usize / 24 % 4];
        let mut world = world(seed, links(seed));
        add(&mut world, old);
        for host in old {
            send(&mut world, host, OLD, 10);
        }
        // In the middle of PDUs, while some wait at each link.
        world.settle(Duration::from_micros(100 + seed * 211 % 9000));
        remove(&mut world, old);
        add(&mut world, new);
        for host in new {
            assert_eq!(received(&mut world, host), [0; 0]);
            send(&mut world, host, 1, 8);
        }
        assert!(world.settle(MINUTE));
        for host in new {
            assert_eq!(received(&mut world, host), [1; 8], "{old:?} {new:?} at {host}");
            if !old.contains(&host) {
                assert_eq!(world.host(host).counters().dropped_total(), 0, "{old:?} {new:?} at {host}");
            }
        }
    });
}

#[test]
fn a_line_with_faults_drops_what_is_under_way_too() {
    for_seeds("a_line_with_faults_drops_what_is_under_way_too", 24, |seed| {
        let faults = FaultConfig {
            loss: 0.01,
            duplication: 0.01,
            reordering: 0.05,
            reorder_by: Duration::from_micros(500),
            ..FaultConfig::default()
        };
        let [edge, trunk] = links(seed % 4).map(|config| LinkConfig { faults: Some(faults.clone()), ..config });
        let (old, new) = SUCCESSIONS[seed as usize / 6];
        let mut world = world(seed, [edge, trunk]);
        add(&mut world, old);
        send(&mut world, old[0], OLD, 40);
        world.settle(Duration::from_micros(100 + seed * 823 % 9000));
        remove(&mut world, old);
        add(&mut world, new);
        send(&mut world, new[0], 1, 30);
        assert!(world.settle(MINUTE));
        let got = received(&mut world, new[1]);
        assert!(!got.is_empty() && !got.contains(&OLD), "{got:?}");
    });
}

#[test]
fn circuits_beside_one_that_is_made_anew_again_and_again_lose_nothing() {
    for_seeds("circuits_beside_one_that_is_made_anew_again_and_again_lose_nothing", 12, |seed| {
        let mut world = world(seed, links(seed));
        world.add_circuit(&["alpha 0.200", "beta 0.200"], FrameAal::Aal5, Contract::default()).unwrap();
        add(&mut world, ["alpha", "beta"]);
        for round in 0..40 {
            for host in ["alpha", "beta"] {
                world.host(host).send(id("0.200"), vec![round; 400]);
            }
            send(&mut world, "alpha", round, 2);
            world.settle(Duration::from_micros(700));
            let got = received(&mut world, "beta");
            assert!(got.iter().all(|what| *what == round), "{got:?} in round {round}");
            remove(&mut world, ["alpha", "beta"]);
            add(&mut world, ["alpha", "beta"]);
        }
        assert!(world.settle(MINUTE));
        for host in ["alpha", "beta"] {
            let got = world.host(host).received(id("0.200"));
            assert_eq!(got.iter().map(|(_, sdu)| sdu[0]).collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
        }
    });
}

#[test]
fn what_is_dropped_so_is_counted_as_closed_at_its_link() {
    let mut world = world(0, [slow(Carries::Cells), LinkConfig::default()]);
    add(&mut world, ["alpha", "beta"]);
    send(&mut world, "alpha", OLD, 20);
    world.settle(Duration::from_millis(3));
    remove(&mut world, ["alpha", "beta"]);
    add(&mut world, ["alpha", "delta"]);
    assert!(world.settle(MINUTE));
    let network = world.network();
    let closed: Vec<u64> = network.links().map(|link| link.from_a.sent.dropped(DropReason::Closed)).collect();
    assert!(closed[0] > 100 && closed[1] == 0, "{closed:?}");
}

#[test]
fn a_circuit_inside_a_path_gets_nothing_of_the_one_before_it_though_the_path_stays() {
    for_seeds("a_circuit_inside_a_path_gets_nothing_of_the_one_before_it_though_the_path_stays", 24, |seed| {
        let edge = [LinkConfig::default(), slow(Carries::Cells)][seed as usize % 2].clone();
        // What the link between the switches has no room for waits in the queue of the path.
        let trunk = LinkConfig { queue_cells: [512, 16][seed as usize / 2 % 2], ..slow(Carries::Cells) };
        let mut world = world(seed, [edge, trunk]);
        world.add_circuit(&["s1:0 7.*", "s2:0 9.*"], FrameAal::Aal5, Contract::default()).unwrap();
        let inside = |vci: u16| ["alpha 7", "beta 9"].map(|end| format!("{end}.{vci}"));
        let add = |world: &mut World<Station>, vci| {
            world
                .add_circuit(&inside(vci).each_ref().map(String::as_str), FrameAal::Aal5, Contract::default())
                .unwrap();
        };
        add(&mut world, 100);
        add(&mut world, 101);
        for n in 0..30 {
            for (host, vpi) in [("alpha", 7), ("beta", 9)] {
                world.host(host).send(CircuitId::new(vpi, 100).unwrap(), vec![OLD; 20 + n * 37]);
                world.host(host).send(CircuitId::new(vpi, 101).unwrap(), vec![2; 20 + n * 37]);
            }
        }
        world.settle(Duration::from_micros(50 + seed * 431));
        let came = world.host("beta").received(id("9.101")).len();
        world.remove_circuit(&inside(100).each_ref().map(String::as_str)).unwrap();
        add(&mut world, 100);
        for n in 0..8 {
            world.host("alpha").send(id("7.100"), vec![1; 20 + n * 37]);
            world.host("beta").send(id("9.100"), vec![1; 20 + n * 37]);
        }
        assert!(world.settle(MINUTE));
        for (host, vpi) in [("alpha", 7), ("beta", 9)] {
            let got = world.host(host).received(CircuitId::new(vpi, 100).unwrap());
            let got: Vec<u8> = got.into_iter().map(|(_, sdu)| sdu[0]).collect();
            assert_eq!(got, [1; 8], "{host}");
        }
        // The other channel of the path has lost nothing.
        assert_eq!(came + world.host("beta").received(id("9.101")).len(), 30);
    });
}
