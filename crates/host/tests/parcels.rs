//! SDUs that pass in parcels, mixed with those that become cells: what arrives is what was sent, in order, and a buffer is its sender's
//! again only once its SDU has been read.
//!
//! Whoever looks at a link (a capture) has all that passes it made into cells, so the same circuit changes between the two again and
//! again. `PARCELS_SEED` repeats a failure.

mod pair;

use endpoint::layout::Descriptor;
use endpoint::{Aal, Events};
use host::{CircuitConfig, HostInterface};
use pair::{TO_SEND, World, circuit};
use rand::Rng;
use std::time::Duration;
use wire::DropReason;

#[test]
fn what_arrives_is_what_was_sent_in_order_whether_it_passed_as_parcels_or_as_cells() {
    let one = std::env::var("PARCELS_SEED").ok().and_then(|seed| seed.parse().ok());
    let long = if std::env::var_os("CELLWAY_LONG").is_some() { 2000 } else { 40 };
    for seed in one.map_or(1..long, |seed: u64| seed..seed + 1) {
        let failed = |_| panic!("PARCELS_SEED={seed} cargo test -p host --test parcels");
        std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            let mut busy = world.random.random_range(2..40);
            for step in 0..3000 {
                match world.random.random_range(0..40) {
                    0 => world.tap(),
                    1 => busy = world.random.random_range(2..40),
                    at if at < busy => world.push(),
                    at if at % 3 == 0 => world.pass(),
                    at if at % 3 == 1 => world.take(at % 2, 1 + step % 5),
                    _ => world.reclaim(),
                }
            }
            world.settle();
            world.check();
            for end in &world.ends {
                assert_eq!(end.idle.len(), TO_SEND as usize, "all buffers are back");
                assert!(end.got.iter().all(|n| *n > 10), "{:?}", end.got);
                let credits = [1, 2].map(|at| end.away[at].len());
                assert_eq!(credits, [0, 0], "SDUs of circuits with credits have not come");
            }
        })
        .unwrap_or_else(failed);
    }
}

#[test]
fn an_sdu_that_is_too_long_for_its_circuit_or_its_receivers_buffers_is_dropped_as_such() {
    let mut kept = World::new(2);
    let host: &mut HostInterface = kept.network.node_mut(kept.hosts[1]).unwrap();
    let at = circuit(100);
    assert!(host.remove_circuit(at));
    host.add_circuit(at, CircuitConfig { max_sdu_octets: 1000, ..CircuitConfig::default() });
    let channel = host.open(kept.ends[1].id, at, Aal::Aal5).unwrap();
    kept.ends[1].channels[0] = channel;
    for octets in [1001, 1000, 1001, 64] {
        let end = &mut kept.ends[0];
        let buffer = end.idle.pop().unwrap();
        let d = Descriptor { channel: end.channels[0].0, octets, ..Descriptor::of_buffer(buffer) };
        assert!(end.local.send.push(d));
    }
    (0..10).for_each(|_| kept.pass());
    let mut came = Vec::new();
    while let Some(d) = kept.ends[1].local.receive.pop() {
        came.push(d.octets);
    }
    assert_eq!(came, [1000, 64]);
    let host: &mut HostInterface = kept.network.node_mut(kept.hosts[1]).unwrap();
    assert_eq!(host.circuit_counts(at).unwrap().received.dropped(DropReason::Oversize), 2);
    kept.check();
}

/// Two hosts of which the second keeps SDUs of circuit 0.101 that its application has no room for: how many have come.
fn kept_back() -> (World, usize) {
    let mut world = World::with(1, Events::Interrupt);
    (0..10).for_each(|_| world.pass());
    for _ in 0..TO_SEND {
        let end = &mut world.ends[0];
        let buffer = end.idle.pop().unwrap();
        let d = Descriptor { channel: end.channels[1].0, octets: 1000, ..Descriptor::of_buffer(buffer) };
        assert!(end.local.send.push(d));
    }
    let (sender, host) = (world.ends[0].id, world.hosts[0]);
    world.network.node_mut::<HostInterface>(host).unwrap().handle_doorbell(sender);
    (0..10).for_each(|_| world.pass());
    let came = world.ends[1].local.receive.waiting_now() as usize;
    assert_eq!(came, 4, "the ring has so many slots");
    (world, came)
}

#[test]
fn a_host_that_has_delivered_all_that_it_kept_has_nothing_to_do() {
    let (mut world, mut came) = kept_back();
    for _ in 0..100 {
        while let Some(d) = world.ends[1].local.receive.pop() {
            assert!(world.ends[1].local.free.push(Descriptor::of_buffer(d.buffer)));
            came += 1;
        }
        world.pass();
    }
    assert_eq!(came, 4 + TO_SEND as usize);
    assert_eq!(world.ends[0].local.send.consumed(), TO_SEND);
    // Until the last timer of the circuits' credits has fired.
    for _ in 0..100 {
        world.now += Duration::from_millis(10);
        while world.network.run(world.now) {}
    }
    let due = world.network.poll_timeout();
    assert!(due.is_none_or(|due| due > world.now + Duration::from_secs(1)), "{due:?} at {}", world.now);
    world.check();
}

#[test]
fn parcels_that_were_kept_are_cells_to_who_opens_the_circuit_as_such() {
    let (mut world, _) = kept_back();
    let at = circuit(101);
    let host: &mut HostInterface = world.network.node_mut(world.hosts[1]).unwrap();
    host.close(world.ends[1].id, world.ends[1].channels[1]).unwrap();
    let channel = host.open(world.ends[1].id, at, Aal::Aal0).unwrap();
    let (mut sdus, mut cells) = (0, 0);
    for _ in 0..2000 {
        while let Some(d) = world.ends[1].local.receive.pop() {
            match d.octets {
                1000 => sdus += 1,
                52 => cells += usize::from(d.channel == channel.0),
                octets => panic!("{octets} octets"),
            }
            if d.buffer != Descriptor::INLINE {
                assert!(world.ends[1].local.free.push(Descriptor::of_buffer(d.buffer)));
            }
        }
        world.pass();
    }
    // 1000 octets are 21 cells.
    assert_eq!((sdus, cells), (4, (TO_SEND as usize - 4) * 21));
    world.check();
}
