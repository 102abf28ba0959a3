//! The same network in one shard and in several: nothing is lost, and the same seed gives the same result.

use lab::{Station, Trace, World, for_seeds};
use net::{Carries, FrameAal, LinkConfig};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;
use traffic::Contract;
use wire::{CellRate, CircuitId};

const STATIONS: usize = 6;

/// What each station has got on its circuit, in order, and the trace of all.
type Outcome = (Vec<Vec<Vec<u8>>>, Trace);

/// A ring of switches with a station at each, links of all kinds; each station sends to the one two switches on.
fn run(seed: u64, shards: usize) -> Outcome {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut world = World::sharded(seed, shards);
    for n in 0..STATIONS {
        world.add_host(&format!("h{n}"), Station::default());
        world.add_switch(&format!("s{n}"));
    }
    let link = |rng: &mut StdRng| LinkConfig {
        carries: if rng.random_bool(0.3) { Carries::Frames } else { Carries::Cells },
        rate: rng.random_bool(0.7).then_some(CellRate::OC3C),
        delay: Duration::from_micros(rng.random_range(0..3) * 40),
        queue_cells: 16_384,
        ..LinkConfig::default()
    };
    for n in 0..STATIONS {
        world.add_link(&format!("h{n}"), &format!("s{n}:0"), link(&mut rng));
        world.add_link(&format!("s{n}:1"), &format!("s{}:2", (n + 1) % STATIONS), link(&mut rng));
    }
    let mut sent = vec![0u32; STATIONS];
    for n in 0..STATIONS {
        let ends = [format!("h{n} 0.{}", 100 + n), format!("h{} 0.{}", (n + 2) % STATIONS, 100 + n)];
        world.add_circuit(&[&ends[0], &ends[1]], FrameAal::Aal5, Contract::default()).unwrap();
    }
    for _ in 0..10 {
        for (n, sent) in sent.iter_mut().enumerate() {
            for _ in 0..rng.random_range(0..4) {
                let mut sdu = vec![n as u8; rng.random_range(4..3000)];
                sdu[..4].copy_from_slice(&sent.to_be_bytes());
                *sent += 1;
                world.host(&format!("h{n}")).send(CircuitId::new(0, 100 + n as u16).unwrap(), sdu);
            }
        }
        world.settle(Duration::from_micros(rng.random_range(0..300)));
    }
    assert!(world.settle(Duration::from_secs(10)), "something still waits");
    assert!(world.network().pools().all(|pool| pool.in_use() == 0));
    let got: Vec<_> = (0..STATIONS)
        .map(|n| {
            let circuit = CircuitId::new(0, 100 + n as u16).unwrap();
            let got = world.host(&format!("h{}", (n + 2) % STATIONS)).received(circuit);
            got.into_iter().map(|(_, sdu)| sdu).collect::<Vec<_>>()
        })
        .collect();
    for (got, sent) in got.iter().zip(sent) {
        let numbers = got.iter().map(|sdu| u32::from_be_bytes(sdu[..4].try_into().unwrap()));
        assert!(numbers.eq(0..sent), "{} of {sent} came in {shards} shards", got.len());
    }
    (got, world.trace())
}

#[test]
fn any_number_of_shards_carries_the_same_and_each_does_so_again() {
    for_seeds("any_number_of_shards_carries_the_same_and_each_does_so_again", 2, |seed| {
        let (of_one, _) = run(seed, 1);
        for shards in [2, 5, 12] {
            let (got, trace) = run(seed, shards);
            assert!(got == of_one, "{shards} shards");
            assert_eq!(trace, run(seed, shards).1, "{shards} shards, again");
        }
    });
}
