//! Real host interfaces in the world: SDUs from one endpoint's rings to another's, in virtual time.

use crate::application::Application;
use endpoint::DataPath;
use host::HostInterface;
use lab::{World, for_seeds};
use net::{Carries, FaultConfig, LinkConfig};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use std::time::Duration;
use traffic::Contract;
use wire::CellRate;

fn sdus(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = StdRng::seed_from_u64(seed);
    let sdu = |_| {
        let octets = if rng.random() { rng.random_range(1..=40) } else { rng.random_range(41..=9180) };
        let mut sdu = vec![0; octets];
        rng.fill_bytes(&mut sdu);
        sdu
    };
    (0..40).map(sdu).collect()
}

/// Sends the seed's SDUs from alpha to beta over two links; what beta's application gets.
fn exchange(seed: u64, links: [LinkConfig; 2], path: DataPath) -> Vec<Vec<u8>> {
    let mut world = world(seed);
    world.add_host("alpha", HostInterface::new(4));
    world.add_host("beta", HostInterface::new(4));
    world.add_switch("s1");
    let [a, b] = links;
    world.add_link("alpha", "s1:0", a);
    world.add_link("beta", "s1:1", b);
    world.add_circuit(&["alpha 0.100", "beta 0.100"], net::FrameAal::Aal5, Contract::default()).unwrap();
    let mut alpha = Application::open(&mut world, "alpha", path);
    let mut beta = Application::open(&mut world, "beta", path);
    let mut got = Vec::new();
    for (n, sdu) in (0..).zip(sdus(seed)) {
        alpha.send(n, &sdu);
        assert!(world.settle(Duration::from_secs(10)), "something still waits");
        got.extend(std::iter::from_fn(|| beta.receive()));
    }
    assert!(world.network().pools().all(|pool| pool.in_use() == 0));
    got
}

/// A network of one to three shards, by the seed.
fn world(seed: u64) -> World<HostInterface> {
    World::sharded(seed, seed as usize % 3 + 1)
}

fn link(carries: Carries) -> LinkConfig {
    LinkConfig { carries, rate: Some(CellRate::OC3C), delay: Duration::from_micros(50), ..LinkConfig::default() }
}

#[test]
fn sdus_pass_from_endpoint_to_endpoint_over_cell_and_frame_links() {
    for_seeds("sdus_pass_from_endpoint_to_endpoint_over_cell_and_frame_links", 20, |seed| {
        for links in [[Carries::Cells; 2], [Carries::Frames; 2], [Carries::Cells, Carries::Frames]] {
            for path in [DataPath::Copying, DataPath::Shared] {
                assert_eq!(exchange(seed, links.map(link), path), sdus(seed), "{links:?} {path:?}");
            }
        }
    });
}

#[test]
fn over_bad_links_an_endpoint_gets_no_sdu_that_was_not_sent() {
    let (mut arrived, mut cases) = (0, 0);
    for_seeds("over_bad_links_an_endpoint_gets_no_sdu_that_was_not_sent", 100, |seed| {
        let reorder_by = Duration::from_micros(20);
        let (loss, duplication, corruption, reordering) = (0.002, 0.002, 0.002, 0.002);
        let faults = FaultConfig { loss, duplication, corruption, reordering, reorder_by, ..FaultConfig::default() };
        let bad = LinkConfig { faults: Some(faults), ..link(Carries::Cells) };
        let sent = sdus(seed);
        let got = exchange(seed, [bad.clone(), bad], DataPath::Shared);
        assert!(got.iter().all(|sdu| sent.contains(sdu)));
        arrived += got.len();
        cases += 1;
    });
    let share = arrived as f64 / f64::from(cases * 40);
    assert!(cases == 1 || (0.2..0.99).contains(&share), "{share} of all SDUs arrived");
}

#[test]
fn a_circuit_with_credits_loses_nothing_however_slow_its_receiver_is() {
    for_seeds("a_circuit_with_credits_loses_nothing_however_slow_its_receiver_is", 6, |seed| {
        let mut world = world(seed);
        world.add_host("alpha", HostInterface::new(4));
        world.add_host("beta", HostInterface::new(4));
        world.add_switch("s1");
        // The first link is a hundred times as fast as the second, and both lose cells, but no credits for ever.
        let lossy = seed % 2 == 1;
        let faults = |loss| lossy.then(|| FaultConfig { loss, ..FaultConfig::default() });
        let fast = LinkConfig { faults: faults(0.001), ..LinkConfig::default() };
        let slow = LinkConfig { faults: faults(0.001), ..link(Carries::Cells) };
        world.add_link("alpha", "s1:0", fast);
        world.add_link("beta", "s1:1", slow);
        let contract = Contract { flow: traffic::Flow::Credit, ..Contract::default() };
        world.add_circuit(&["alpha 0.100", "beta 0.100"], net::FrameAal::Aal5, contract).unwrap();
        let mut alpha = Application::open(&mut world, "alpha", DataPath::Shared);
        let mut beta = Application::open(&mut world, "beta", DataPath::Shared);
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut got, mut sent) = (Vec::new(), Vec::new());
        // More than beta has buffers for, and it looks seldom.
        for _ in 0..20 {
            while alpha.local.send.room() > 0 && sent.len() - got.len() < 64 {
                let mut sdu = vec![0; rng.random_range(41..=9180)];
                rng.fill_bytes(&mut sdu);
                alpha.send(sent.len() as u32, &sdu);
                sent.push(sdu);
            }
            world.settle(Duration::from_millis(rng.random_range(0..20)));
            for _ in 0..rng.random_range(0..40) {
                got.extend(beta.receive());
            }
        }
        for _ in 0..200 {
            world.settle(Duration::from_millis(50));
            got.extend(std::iter::from_fn(|| beta.receive()));
        }
        if lossy {
            assert!(got.len() * 2 > sent.len(), "{} of {} came", got.len(), sent.len());
            // The circuit still moves.
            alpha.send(sent.len() as u32, b"one more, and whole, if nothing happens to it: and if so, the next");
            alpha.send(sent.len() as u32 + 1, b"this");
            world.settle(Duration::from_millis(500));
            assert!(beta.receive().is_some());
        } else {
            assert_eq!(got.len(), sent.len());
            assert!(got == sent);
        }
    });
}
