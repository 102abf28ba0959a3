//! What a network must do on good and bad links, from many seeds.

use lab::{Station, World, for_seeds};
use net::{Carries, FaultConfig, FrameAal, LinkConfig, Outage};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use std::time::Duration;
use traffic::{Category, Contract};
use wire::oam::Flow;
use wire::{CellRate, CircuitId, DropReason, Time};

const MINUTE: Duration = Duration::from_secs(60);
const ENDS: [&str; 2] = ["alpha 0.100", "beta 0.100"];

fn id(s: &str) -> CircuitId {
    s.parse().unwrap()
}

fn oc3() -> LinkConfig {
    let delay = Duration::from_micros(50);
    LinkConfig { rate: Some(CellRate::OC3C), delay, queue_cells: 8192, ..LinkConfig::default() }
}

fn faulty(faults: FaultConfig) -> LinkConfig {
    LinkConfig { faults: Some(faults), ..oc3() }
}

/// A network of one to three shards, by the seed.
fn world(seed: u64) -> World<Station> {
    World::sharded(seed, seed as usize % 3 + 1)
}

/// alpha and beta, joined by a switch.
fn two_hosts(seed: u64, a: LinkConfig, b: LinkConfig) -> World<Station> {
    let mut world = world(seed);
    world.add_host("alpha", Station::default());
    world.add_host("beta", Station::default());
    world.add_switch("s1");
    world.add_link("alpha", "s1:0", a);
    world.add_link("beta", "s1:1", b);
    world.add_circuit(&ENDS, FrameAal::Aal5, Contract::default()).unwrap();
    world
}

/// SDU number `n` of a seed: its length and octets follow from both, so that whoever gets it can tell a wrong one.
fn sdu(seed: u64, n: u32) -> Vec<u8> {
    let mut rng = StdRng::seed_from_u64(seed << 20 | u64::from(n));
    let octets = if n.is_multiple_of(7) { rng.random_range(4..9000) } else { rng.random_range(4..400) };
    let mut sdu = vec![0; octets];
    rng.fill_bytes(&mut sdu);
    sdu[..4].copy_from_slice(&n.to_be_bytes());
    sdu
}

/// The numbers of SDUs that arrived, each checked octet for octet.
fn numbers(seed: u64, got: Vec<(Time, Vec<u8>)>) -> Vec<u32> {
    let check = |(_, octets): (Time, Vec<u8>)| {
        let n = u32::from_be_bytes(octets[..4].try_into().unwrap());
        assert!(octets == sdu(seed, n), "a wrong SDU was delivered as number {n}");
        n
    };
    got.into_iter().map(check).collect()
}

fn send(world: &mut World<Station>, host: &str, circuit: &str, count: u32) {
    let seed = world.seed();
    (0..count).for_each(|n| world.host(host).send(id(circuit), sdu(seed, n)));
}

#[test]
fn pdus_arrive_whole_and_in_order_over_clean_links() {
    for_seeds("pdus_arrive_whole_and_in_order_over_clean_links", 100, |seed| {
        let unlimited = LinkConfig { queue_cells: 64, ..LinkConfig::default() };
        let fast_in = seed % 2 == 0;
        let mut world = two_hosts(seed, if fast_in { unlimited.clone() } else { oc3() }, unlimited);
        send(&mut world, "alpha", "0.100", 60);
        send(&mut world, "beta", "0.100", 60);
        assert!(world.settle(MINUTE));
        for host in ["alpha", "beta"] {
            let got = world.host(host).received(id("0.100"));
            assert_eq!(numbers(seed, got), (0..60).collect::<Vec<_>>());
        }
    });
}

fn bad_links(seed: u64) -> World<Station> {
    let bad = |share: f64| {
        faulty(FaultConfig {
            loss: 0.004 * share,
            duplication: 0.003,
            reordering: 0.003 * share,
            reorder_by: Duration::from_micros(20),
            corruption: 0.003,
            ..FaultConfig::default()
        })
    };
    two_hosts(seed, bad(1.0), bad(0.5))
}

#[test]
fn bad_links_never_deliver_a_wrong_sdu_and_never_stall() {
    let (mut whole, mut cases) = (0, 0);
    for_seeds("bad_links_never_deliver_a_wrong_sdu_and_never_stall", 300, |seed| {
        let mut world = bad_links(seed);
        send(&mut world, "alpha", "0.100", 60);
        assert!(world.settle(MINUTE), "something still waits after a minute");
        assert_eq!(world.host("alpha").backlog(), 0);
        whole += numbers(seed, world.host("beta").received(id("0.100"))).len();
        cases += 1;
    });
    let share = whole as f64 / f64::from(cases * 60);
    assert!(
        cases == 1 || (0.3..0.99).contains(&share),
        "{share} of all PDUs arrived: the faults do too little or too much"
    );
}

#[test]
fn the_same_seed_gives_the_same_trace_to_the_octet() {
    let run = |seed| {
        let mut world = bad_links(seed);
        send(&mut world, "alpha", "0.100", 20);
        world.settle(MINUTE);
        world.trace()
    };
    for_seeds("the_same_seed_gives_the_same_trace_to_the_octet", 20, |seed| {
        let trace = run(seed);
        assert!(trace.events() > 100);
        assert_eq!(trace, run(seed));
        assert_ne!(trace.hash(), run(seed + 1).hash());
    });
}

#[test]
fn a_multipoint_circuit_reaches_all_leaves() {
    for_seeds("a_multipoint_circuit_reaches_all_leaves", 20, |seed| {
        let mut world = two_hosts(seed, oc3(), oc3());
        world.add_host("gamma", Station::default());
        world.add_switch("s2");
        world.add_link("s1", "s2", oc3());
        world.add_link("gamma", "s2", LinkConfig { carries: Carries::Frames, ..LinkConfig::default() });
        world.add_circuit(&["alpha 0.50", "beta 0.51", "gamma 0.52"], FrameAal::Aal5, Contract::default()).unwrap();
        send(&mut world, "alpha", "0.50", 30);
        assert!(world.settle(MINUTE));
        for (host, circuit) in [("beta", "0.51"), ("gamma", "0.52")] {
            let got = world.host(host).received(id(circuit));
            assert_eq!(numbers(seed, got), (0..30).collect::<Vec<_>>());
        }
        assert_eq!(world.network().pool().in_use(), 0);
    });
}

#[test]
fn a_cbr_circuit_leaves_its_host_at_its_rate_to_the_cell() {
    let mut world = two_hosts(1, oc3(), oc3());
    let pcr = CellRate::from_payload_bits_per_s(20e6);
    let contract = Contract { category: Category::Cbr, pcr, ..Contract::default() };
    world.add_circuit(&["alpha 0.60", "beta 0.60"], FrameAal::Aal5, contract).unwrap();
    (0..100).for_each(|_| world.host("alpha").send(id("0.60"), vec![1; 4792]));
    assert!(world.settle(MINUTE));
    let departures = world.host("alpha").departures(id("0.60"));
    assert_eq!(departures.len(), 10_000);
    for (i, at) in departures.iter().enumerate() {
        let exact = i as f64 * pcr.unwrap().interval_nanos();
        assert!((at.as_nanos() as f64 - exact).abs() <= 1.01, "cell {i} at {at}");
    }
    assert_eq!(world.host("beta").received(id("0.60")).len(), 100);
}

#[test]
fn a_link_with_a_rate_is_filled_exactly() {
    let slow = LinkConfig { rate: CellRate::from_cells_per_s(100_000.0), ..oc3() };
    let mut world = two_hosts(1, slow, LinkConfig::default());
    // 100 PDUs of 100 cells at 100 000 cells/s: the last cell is there after 100 ms and the link's delay.
    (0..100).for_each(|_| world.host("alpha").send(id("0.100"), vec![1; 4792]));
    assert!(world.settle(MINUTE));
    let got = world.host("beta").received(id("0.100"));
    assert_eq!(got.last().unwrap().0, Time::from_micros(100_050));
    assert_eq!(got[0].0, Time::from_micros(1_050));
}

#[test]
fn an_outage_costs_what_is_sent_in_it_and_no_more() {
    for_seeds("an_outage_costs_what_is_sent_in_it_and_no_more", 20, |seed| {
        let outages = vec![Outage { from: Time::from_millis(100), until: Time::from_millis(200) }];
        let mut world = two_hosts(seed, faulty(FaultConfig { outages, ..FaultConfig::default() }), oc3());
        for n in 0..30 {
            world.at(Time::from_millis(u64::from(n) * 10 + 5), move |w| {
                let sdu = sdu(w.seed(), n);
                w.host("alpha").send(id("0.100"), sdu);
            });
        }
        assert!(world.settle(MINUTE));
        let got = numbers(seed, world.host("beta").received(id("0.100")));
        assert_eq!(got, (0..10).chain(20..30).collect::<Vec<_>>());
    });
}

#[test]
fn a_link_pulled_and_plugged_under_traffic_recovers() {
    for_seeds("a_link_pulled_and_plugged_under_traffic_recovers", 30, |seed| {
        let mut world = two_hosts(seed, oc3(), oc3());
        let link = world.network().links().next().unwrap().id;
        send(&mut world, "alpha", "0.100", 100);
        world.at(Time::from_micros(500 + seed * 13), move |w| assert!(w.network().set_link_up(link, false)));
        world.at(Time::from_micros(900 + seed * 13), move |w| assert!(w.network().set_link_up(link, true)));
        world.at(Time::from_millis(50), |w| {
            // The first ends what the break has left half; the second must arrive.
            for n in [1000, 1001] {
                let sdu = sdu(w.seed(), n);
                w.host("alpha").send(id("0.100"), sdu);
            }
        });
        assert!(world.settle(MINUTE));
        let got = numbers(seed, world.host("beta").received(id("0.100")));
        assert_eq!(got.last(), Some(&1001));
        assert!(world.network().link_info(link).unwrap().from_a.sent.dropped(DropReason::LinkDown) > 0);
    });
}

#[test]
fn aal0_cells_cross_a_switch() {
    let mut world = two_hosts(1, oc3(), oc3());
    world.add_circuit(&["alpha 1.40", "beta 2.40"], FrameAal::Aal0, Contract::default()).unwrap();
    (0..50u8).for_each(|n| world.host("alpha").send(id("1.40"), vec![n; 48]));
    assert!(world.settle(MINUTE));
    let got: Vec<_> = world.host("beta").received(id("2.40")).into_iter().map(|(_, cell)| cell).collect();
    assert_eq!(got, (0..50u8).map(|n| vec![n; 48]).collect::<Vec<_>>());
}

#[test]
fn loopback_is_answered_by_the_switch_and_by_the_far_host_on_cell_and_frame_links() {
    for carries in [Carries::Cells, Carries::Frames] {
        let rate = CellRate::from_cells_per_s(100_000.0);
        let link = LinkConfig { carries, rate, ..oc3() };
        let mut world = two_hosts(1, link.clone(), link);
        let circuit = id("0.100");
        world.host("alpha").ping(circuit, Flow::F5Segment, 1);
        assert!(world.settle(MINUTE));
        let segment = world.now();
        // One cell time of 10 us and 50 us of delay, there and back.
        assert_eq!(segment, Time::from_micros(120), "{carries:?}");
        assert_eq!(world.host("alpha").answers(circuit).len(), 1);
        world.host("alpha").ping(circuit, Flow::F5EndToEnd, 2);
        assert!(world.settle(MINUTE));
        let answers = world.host("alpha").answers(circuit);
        assert_eq!((answers.len(), answers[1].correlation), (2, 2), "{carries:?}");
        assert_eq!(world.now().since(segment), Duration::from_micros(240));
    }
}

#[test]
fn frame_and_cell_links_convert_in_both_directions() {
    for_seeds("frame_and_cell_links_convert_in_both_directions", 30, |seed| {
        let frames = LinkConfig { carries: Carries::Frames, ..LinkConfig::default() };
        let mut world = two_hosts(seed, frames, oc3());
        // What comes in as frames goes out at OC-3c's pace: no more at once than the queue of 8192 cells takes.
        send(&mut world, "alpha", "0.100", 40);
        send(&mut world, "beta", "0.100", 40);
        assert!(world.settle(MINUTE));
        for host in ["alpha", "beta"] {
            let got = world.host(host).received(id("0.100"));
            assert_eq!(numbers(seed, got), (0..40).collect::<Vec<_>>(), "{host}");
        }
        assert_eq!(world.network().pool().in_use(), 0);
    });
}

#[test]
fn circuits_come_and_go_under_traffic_without_touching_others() {
    for_seeds("circuits_come_and_go_under_traffic_without_touching_others", 50, |seed| {
        let mut world = two_hosts(seed, oc3(), oc3());
        let mut rng = StdRng::seed_from_u64(seed);
        send(&mut world, "alpha", "0.100", 100);
        for _ in 0..40 {
            let at = Time::from_nanos(rng.random_range(0..4_000_000));
            let vci = rng.random_range(200..204);
            world.at(at, move |w| {
                let (a, b) = (format!("alpha 0.{vci}"), format!("beta 1.{vci}"));
                let ends = [a.as_str(), b.as_str()];
                if w.remove_circuit(&ends).is_err() {
                    w.add_circuit(&ends, FrameAal::Aal5, Contract::default()).unwrap();
                    w.host("alpha").send(id(&format!("0.{vci}")), vec![9; 5000]);
                }
            });
        }
        assert!(world.settle(MINUTE));
        let got = world.host("beta").received(id("0.100"));
        assert_eq!(numbers(seed, got), (0..100).collect::<Vec<_>>());
    });
}
