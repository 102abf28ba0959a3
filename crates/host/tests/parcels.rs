//! SDUs that pass in parcels, mixed with those that become cells: what arrives is what was sent, in order, and a buffer is its sender's
//! again only once its SDU has been read.
//!
//! Whoever looks at a link (a capture) has all that passes it made into cells, so the same circuit changes between the two again and
//! again. `PARCELS_SEED` repeats a failure.

use crate::pair::{Application, Sdu, TO_SEND, World, circuit};
use endpoint::layout::{BY_FUTEX, CLIENT_SLEEPS, Head, NEWS_OF_ROOM};
use endpoint::{Aal, Events};
use host::{CircuitConfig, HostInterface};
use rand::Rng;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use switch::oam::Request;
use wire::DropReason;
use wire::oam::BlockCode;

#[test]
fn what_arrives_is_what_was_sent_in_order_whether_it_passed_as_parcels_or_as_cells() {
    let one = std::env::var("PARCELS_SEED").ok().and_then(|seed| seed.parse().ok());
    let long = if std::env::var_os("CELLWAY_LONG").is_some() { 2000 } else { 40 };
    for seed in one.map_or(1..long, |seed: u64| seed..seed + 1) {
        let failed = |_| panic!("PARCELS_SEED={seed} cargo test -p cellway-host --test all parcels::");
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
        let d = Head { channel: end.channels[0].0, octets, ..Head::of_buffer(buffer) };
        assert!(end.local.send.push(d));
    }
    (0..10).for_each(|_| kept.pass());
    let mut came = Vec::new();
    while let Some(d) = kept.ends[1].local.receive.pop() {
        came.push(d.head.octets);
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
    for n in 0..TO_SEND {
        let end = &mut world.ends[0];
        let buffer = end.idle.pop().unwrap();
        let sdu = Sdu { octets: vec![n as u8; 1000], uu: 0, clp: false };
        end.local.segment.copy_in(end.local.segment.geometry().buffer_at(buffer).unwrap(), &sdu.octets);
        let d = Head { channel: end.channels[1].0, octets: 1000, ..Head::of_buffer(buffer) };
        assert!(end.local.send.push(d));
        end.away[1].push_back(sdu);
    }
    let (sender, host) = (world.ends[0].id, world.hosts[0]);
    world.network.node_mut::<HostInterface>(host).unwrap().handle_doorbell(sender);
    (0..10).for_each(|_| world.pass());
    let came = world.ends[1].local.receive.waiting_now() as usize;
    assert_eq!(came, 4, "the ring has so many slots");
    (world, came)
}

#[test]
fn who_sleeps_until_there_is_room_is_woken_once_its_parcels_have_been_read() {
    let (mut world, _) = kept_back();
    let segment = world.ends[0].local.segment.clone();
    let sleeps = segment.word32(CLIENT_SLEEPS);
    sleeps.store(NEWS_OF_ROOM | BY_FUTEX, Relaxed);
    (0..10).for_each(|_| world.pass());
    assert_ne!(sleeps.load(Relaxed), 0, "its slots and buffers are in use");
    for _ in 0..100 {
        while let Some(d) = world.ends[1].local.receive.pop() {
            assert!(world.ends[1].local.free.push(Head::of_buffer(d.head.buffer)));
        }
        world.pass();
        let read = world.ends[0].local.send.consumed();
        assert!(sleeps.load(Relaxed) != 0 || read > 0, "it was woken in vain");
    }
    assert_eq!(sleeps.load(Relaxed), 0, "all is read, and it sleeps");
}

#[test]
fn a_host_that_has_delivered_all_that_it_kept_has_nothing_to_do() {
    let (mut world, mut came) = kept_back();
    for _ in 0..100 {
        while let Some(d) = world.ends[1].local.receive.pop() {
            assert!(world.ends[1].local.free.push(Head::of_buffer(d.head.buffer)));
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

/// So many milliseconds pass, and nobody takes anything.
fn rest(world: &mut World, millis: u32) {
    for _ in 0..millis * 100 {
        world.now += Duration::from_micros(10);
        world.network.run(world.now);
    }
}

#[test]
fn what_an_application_makes_no_room_for_is_kept_as_cells_and_its_senders_memory_comes_back() {
    let (mut world, _) = kept_back();
    rest(&mut world, 40);
    assert!(world.ends[0].local.send.consumed() < TO_SEND, "so long it is kept in parcels");
    rest(&mut world, 20);
    assert_eq!(world.ends[0].local.send.consumed(), TO_SEND);
    // What is in the buffers now is not what was sent.
    world.reclaim();
    world.settle();
    assert_eq!((world.ends[1].got[1], world.ends[0].away[1].len()), (TO_SEND.into(), 0));
    world.check();
}

#[test]
fn the_memory_of_a_sender_that_is_gone_is_not_kept_for_a_receiver_that_takes_nothing() {
    for release in [true, false] {
        let (mut world, _) = kept_back();
        let host: &mut HostInterface = world.network.node_mut(world.hosts[0]).unwrap();
        let gone = std::mem::replace(&mut world.ends[0], Application::other(host));
        let (memory, id) = (Arc::downgrade(&gone.local.segment), gone.id);
        drop(gone);
        assert!(if release { host.release_endpoint(id) } else { host.depart(id) });
        assert!(host.departs(id), "its memory counts as long as it is there");
        rest(&mut world, 70);
        let host: &mut HostInterface = world.network.node_mut(world.hosts[0]).unwrap();
        assert!(!host.departs(id));
        world.check();
        let within = std::time::Instant::now() + Duration::from_secs(5);
        while memory.strong_count() > 0 {
            assert!(std::time::Instant::now() < within, "its memory is kept, release {release}");
            std::thread::yield_now();
        }
    }
}

#[test]
fn an_application_that_takes_an_sdu_now_and_then_keeps_its_senders_memory_no_longer() {
    let (mut world, came) = kept_back();
    for _ in 0..4 {
        rest(&mut world, 15);
        world.take(1, 1);
    }
    let taken = world.ends[1].got[1];
    assert!(taken == 4 && (came as u64 + taken) < TO_SEND.into());
    assert_eq!(world.ends[0].local.send.consumed(), TO_SEND);
    world.reclaim();
    world.settle();
    assert_eq!(world.ends[1].got[1], u64::from(TO_SEND));
    world.check();
}

#[test]
fn who_opens_a_circuit_next_gets_nothing_that_was_kept_for_the_one_before() {
    for aal in [Aal::Aal5, Aal::Aal0] {
        let (mut world, came) = kept_back();
        let (id, channel) = (world.ends[1].id, world.ends[1].channels[1]);
        let host: &mut HostInterface = world.network.node_mut(world.hosts[1]).unwrap();
        // Between two rounds.
        host.close(id, channel).unwrap();
        let mut next = Application::other(host);
        host.open(next.id, circuit(101), aal).unwrap();
        rest(&mut world, 5);
        assert!(next.local.receive.pop().is_none());
        let host: &mut HostInterface = world.network.node_mut(world.hosts[1]).unwrap();
        let kept = (TO_SEND as usize - came) * wire::aal5::cells(1000);
        let received = host.circuit_counts(circuit(101)).unwrap().received;
        assert_eq!(received.dropped(DropReason::Closed), kept as u64);
        assert_eq!(world.ends[0].local.send.consumed(), TO_SEND);
        world.check();
    }
}

#[test]
fn a_circuit_that_is_monitored_passes_as_cells_which_monitoring_counts() {
    let mut world = World::new(2);
    let at = circuit(100);
    (0..10).for_each(|_| world.pass());
    let host: &mut HostInterface = world.network.node_mut(world.hosts[0]).unwrap();
    host.request_oam(at, Request::monitoring(true, BlockCode::of_cells(128).unwrap())).unwrap();
    (0..100).for_each(|_| world.pass());
    for _ in 0..60 {
        // 126 cells.
        for _ in 0..6 {
            let end = &mut world.ends[0];
            let buffer = end.idle.pop().unwrap();
            let d = Head { channel: end.channels[0].0, octets: 1000, ..Head::of_buffer(buffer) };
            assert!(end.local.send.push(d));
        }
        (0..10).for_each(|_| world.pass());
        while let Some(d) = world.ends[1].local.receive.pop() {
            assert!(world.ends[1].local.free.push(Head::of_buffer(d.head.buffer)));
        }
        world.reclaim();
    }
    let host: &mut HostInterface = world.network.node_mut(world.hosts[1]).unwrap();
    let found = host.oam(at).unwrap().received.unwrap();
    assert!(found.cells > 50 * 126, "{found:?}");
    assert_eq!((found.lost, found.misinserted, found.errored_blocks), (0, 0, 0));
    assert_eq!(host.circuit_counts(at).unwrap().received.pdus, 360);
    world.check();
}
