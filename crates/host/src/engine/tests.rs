//! The engine over a network in virtual time, and as a thread.

use super::virtual_time::VirtualEngine;
use super::*;
use crate::events::machine::LINGER;
use crate::host_endpoint::HostEndpoint;
use crate::{CircuitConfig, EventCounts};
use endpoint::layout::{Descriptor, Geometry, Head};
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events, Local};
use net::{Carries, End, FramePool, LinkConfig};
use wire::CircuitId;

const QUOTA: u32 = 8;

/// A sender at alpha, an application at beta, in virtual time.
struct Pair {
    engine: VirtualEngine,
    sender: Local,
    application: Local,
}

const GEOMETRY: Geometry =
    Geometry { send_ring: 64, receive_ring: 16, free_ring: 256, buffers: 256, buffer_octets: 65_536 };

impl Pair {
    fn new(shards: usize) -> Self {
        Self::with(shards, GEOMETRY, Events::Hybrid { quota: QUOTA })
    }

    /// In so many shards, the application's host in the last.
    fn with(shards: usize, geometry: Geometry, events: Events) -> Self {
        let mut engine = VirtualEngine::new(shards);
        let core = &mut engine.core;
        let circuit = CircuitId::new(0, 100).unwrap();
        let [(alpha, sender), (beta, application)] = ["alpha", "beta"].map(|name| {
            let segment = Arc::new(Segment::anonymous(geometry).unwrap());
            let local = Local::new(&segment);
            let mut host = HostInterface::new(1);
            host.add_circuit(circuit, CircuitConfig::default());
            let id = host.attach(HostEndpoint::new(segment, events, DataPath::Shared, None)).unwrap();
            host.open(id, circuit, Aal::Aal5).unwrap();
            (core.network.add_node(name, Box::new(host)), local)
        });
        assert!(core.network.move_node(beta, shards - 1));
        let config = LinkConfig { carries: Carries::Cells, ..LinkConfig::default() };
        core.network.connect(End::Port(alpha, 0), End::Port(beta, 0), config).unwrap();
        core.find_hosts();
        Pair { engine, sender, application }
    }

    fn send(&mut self) {
        let mut d = Descriptor::from(Head::of_buffer(Descriptor::INLINE));
        d.head.octets = 40;
        self.sender.send.push(d);
        self.core.host("alpha").unwrap().1.handle_doorbell(EndpointId(1));
    }

    fn is_quiet(&mut self) -> bool {
        let Core { network, loops, .. } = &mut self.engine.core;
        loops
            .iter_mut()
            .flatten()
            .enumerate()
            .all(|(number, shard_loop)| shard_loop.is_quiet(network.shard_mut(number).unwrap()))
    }

    /// How the sender's shard was told that applications get on.
    fn pressure(&self) -> Option<crate::endpoints::Pressure> {
        self.core.loops[0].as_ref().unwrap().pressure
    }

    fn counts(&mut self, host: &str) -> EventCounts {
        self.core.host(host).unwrap().1.endpoints()[0].event_counts
    }
}

impl std::ops::Deref for Pair {
    type Target = VirtualEngine;

    fn deref(&self) -> &VirtualEngine {
        &self.engine
    }
}

impl std::ops::DerefMut for Pair {
    fn deref_mut(&mut self) -> &mut VirtualEngine {
        &mut self.engine
    }
}

const US: Duration = Duration::from_micros(1);

#[test]
fn the_engine_lingers_where_applications_get_on_and_not_where_one_is_held_up() {
    let mut pair = Pair::new(1);
    pair.pass(LINGER + US * 3);
    assert!(pair.is_quiet());
    for _ in 0..20 {
        pair.send();
        pair.pass(US * 10);
        assert!(pair.application.receive.pop().is_some());
        assert!(!pair.is_quiet(), "it lingers");
    }
    pair.pass(LINGER + US * 3);
    // Now nothing is taken, while something comes every ten microseconds.
    for _ in 0..8 {
        pair.send();
        pair.pass(US * 10);
    }
    assert!(pair.is_quiet(), "the processor is the application's");
}

#[test]
fn a_sender_rests_while_an_application_of_another_host_is_behind_and_until_it_has_caught_up() {
    for shards in [1, 2] {
        let mut pair = Pair::new(shards);
        for _ in 0..64 {
            pair.send();
        }
        pair.pass(US * 100);
        assert_eq!(pair.counts("alpha").rests, 1);
        assert!(pair.sender.send.pushed() - pair.sender.send.consumed() > 0, "the rest waits");
        assert_eq!(pair.pressure().map(|p| (p.pressed, p.awaited)), Some((true, true)));
        assert!(pair.core.host("beta").unwrap().1.prepare_sleep(), "it is asked to ring");
        while pair.application.receive.pop().is_some() {}
        pair.pass(US * 10);
        assert_eq!(pair.pressure().map(|p| p.pressed), Some(true), "the next ones have come at once");
        assert!(pair.application.receive.pop().is_some());
        for _ in 0..64 {
            while pair.application.receive.pop().is_some() {}
            pair.pass(US * 20);
        }
        assert_eq!(pair.pressure().map(|p| (p.pressed, p.awaited)), Some((false, false)), "all has come");
    }
}

#[test]
fn no_tick_passes_for_one_that_was_behind_at_the_last_and_asks_for_no_ring_meanwhile() {
    let mut pair = Pair::with(1, GEOMETRY, Events::Clocked { hertz: 1000 });
    pair.pass(US * 500);
    (0..13).for_each(|_| pair.send());
    pair.pass(US * 600);
    assert_eq!(pair.pressure().map(|p| (p.pressed, p.awaited)), Some((true, false)), "13 of 16");
    assert!(pair.is_quiet(), "the next look is at the tick, whoever catches up");
    assert!(!pair.core.host("beta").unwrap().1.prepare_sleep(), "nobody is asked to ring");
    pair.send();
    assert!(pair.application.receive.pop().is_some());
    pair.pass(US * 3);
    assert!(pair.is_quiet(), "nor does anybody look whether it gets on");
    assert_eq!(std::iter::from_fn(|| pair.application.receive.pop()).count(), 12);
    // The engine sleeps until the tick.
    pair.now = Time::from_micros(2000);
    pair.pass(US * 3);
    assert_eq!(std::iter::from_fn(|| pair.application.receive.pop()).count(), 1);
}

#[test]
fn the_engine_does_not_sleep_before_it_has_looked_at_a_sender_that_rests_no_more() {
    // A quota of these is all that an endpoint may send in a turn: the turn ends before it finds the quota used up.
    let octets = 1024 / QUOTA as usize * 48 - 8;
    let mut pair = Pair::with(1, Geometry { buffer_octets: 8192, ..GEOMETRY }, Events::Hybrid { quota: QUOTA });
    let mut d = Descriptor::from(Head::of_buffer(0));
    d.head.octets = octets as u32;
    (0..16).for_each(|buffer| assert!(pair.application.free.push(Head::of_buffer(buffer))));
    (0..32).for_each(|_| assert!(pair.sender.send.push(d)));
    pair.core.host("alpha").unwrap().1.handle_doorbell(EndpointId(1));
    let (mut came, mut rounds) = (0, 0);
    loop {
        // As the engine does: rounds until it may sleep.
        while rounds == 0 || !pair.is_quiet() {
            pair.pass(US);
            rounds += 1;
            assert!(rounds < 20_000, "it never sleeps");
        }
        let before = came;
        while let Some(d) = pair.application.receive.pop() {
            came += 1;
            assert!(pair.application.free.push(Head::of_buffer(d.head.buffer)));
        }
        if came == before {
            // The engine sleeps until its next alarm, if there is one.
            let Some(alarm) = pair.core.network.poll_timeout() else { break };
            pair.now = pair.now.max(alarm);
        }
        // Its application says that it has caught up, or the time has come.
        pair.pass(US);
    }
    assert!(came >= 16, "{came} have come");
    assert_eq!(pair.sender.send.consumed(), 32);
}

#[test]
fn nobody_rests_for_ever_for_an_application_that_takes_nothing() {
    for shards in [1, 2] {
        let mut pair = Pair::new(shards);
        for _ in 0..200 {
            for _ in 0..QUOTA {
                pair.send();
            }
            pair.pass(US * 100);
        }
        let rests = pair.counts("alpha").rests;
        assert!((2..40).contains(&rests), "{rests} rests in 20 ms");
        let before = pair.sender.send.consumed();
        pair.send();
        pair.pass(US * 1100);
        assert_ne!(pair.sender.send.consumed(), before);
    }
}

#[test]
fn a_sender_is_told_once_who_is_behind_however_many_circuits_it_has() {
    let mut host = HostInterface::new(1);
    let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
    let id = host.attach(HostEndpoint::new(segment, Events::default(), DataPath::Shared, None)).unwrap();
    let circuits: Vec<CircuitId> = (32..1032).map(|vci| CircuitId::new(0, vci).unwrap()).collect();
    for circuit in &circuits {
        host.add_circuit(*circuit, CircuitConfig::default());
        host.open(id, *circuit, Aal::Aal5).unwrap();
    }
    let backlogged = || circuits.iter().map(|circuit| circuit.key()).collect();
    let begun = processor_time();
    for _ in 0..10 {
        assert!(host.set_pressed(backlogged()) && host.set_pressed(std::collections::HashSet::new()));
    }
    let each = (processor_time() - begun) / 20;
    assert!(each < Duration::from_millis(2), "{each:?}");
}

#[test]
fn at_rest_there_are_no_wake_ups() {
    let mut network = Network::new(FramePool::new(64, 65_536));
    let mut clients = Vec::new();
    let nodes = ["alpha", "beta"].map(|name| {
        let mut host = HostInterface::new(1);
        let segment = Arc::new(Segment::anonymous(Geometry::default()).unwrap());
        clients.push(Local::new(&segment));
        host.add_circuit(CircuitId::new(0, 100).unwrap(), CircuitConfig::default());
        let id = host.attach(HostEndpoint::new(segment, Events::default(), DataPath::Shared, None)).unwrap();
        host.open(id, CircuitId::new(0, 100).unwrap(), Aal::Aal5).unwrap();
        network.add_node(name, Box::new(host))
    });
    let ends = nodes.map(|node| End::Port(node, 0));
    let config = LinkConfig { carries: Carries::Cells, ..LinkConfig::default() };
    network.connect(ends[0], ends[1], config).unwrap();
    let mut d = Descriptor::from(Head::of_buffer(Descriptor::INLINE));
    d.head.octets = 40;
    assert!(clients[0].send.push(d));
    let engine = start(network).unwrap();
    let begun = Instant::now();
    while clients[1].receive.waiting() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing has come");
        std::thread::yield_now();
    }
    assert!(clients[1].receive.pop().is_some());
    std::thread::sleep(Duration::from_millis(50));
    let before = engine.with(|core| core.stats()).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let after = engine.with(|core| core.stats()).unwrap();
    engine.stop();
    // The two questions woke it, and only they.
    assert!(after.sleeps - before.sleeps <= 3, "{} sleeps in a second of rest", after.sleeps - before.sleeps);
    assert!(after.rounds - before.rounds <= 100, "{} rounds in a second of rest", after.rounds - before.rounds);
}

#[test]
fn a_job_has_a_slice_of_each_round_and_a_command_comes_between() {
    let engine = start(Network::new(FramePool::new(1, 64))).unwrap();
    let busy = engine.clone();
    let (begun, has_begun) = sync_channel(1);
    let (mut rounds, go_on) = (Vec::new(), Arc::new(AtomicU64::new(0)));
    let goes_on = go_on.clone();
    let job = std::thread::spawn(move || {
        busy.in_slices(move |core| {
            rounds.push(core.stats().rounds);
            let _ = begun.try_send(());
            (goes_on.load(Ordering::Relaxed) == 1 && rounds.len() > 100).then(|| std::mem::take(&mut rounds))
        })
    });
    has_begun.recv().unwrap();
    for _ in 0..10 {
        assert_eq!(engine.with(|_| 7), Ok(7), "while the job is under way");
    }
    go_on.store(1, Ordering::Relaxed);
    let rounds = job.join().unwrap().unwrap();
    assert!(rounds.windows(2).all(|pair| pair[0] < pair[1]), "a round between two slices");
    engine.stop();
    assert_eq!(engine.in_slices(|_| Some(())), Err(Stopped));
}

#[test]
fn the_longest_round_is_measured_with_its_command_and_forgotten_on_request() {
    let engine = start(Network::new(FramePool::new(1, 64))).unwrap();
    let spin = |time: Duration| {
        let begun = processor_time();
        while processor_time() - begun < time {}
    };
    engine.with(move |_| spin(Duration::from_millis(20))).unwrap();
    let stats = engine.with(|core| core.stats()).unwrap();
    for longest in [stats.longest_round, stats.longest_round_lately, stats.longest_command] {
        assert!(longest >= Duration::from_millis(20), "{stats:?}");
    }
    engine.with(Core::clear_longest).unwrap();
    let stats = engine.with(|core| core.stats()).unwrap();
    assert!(stats.longest_round < Duration::from_millis(20), "{stats:?}");
    engine.stop();
}
