//! Networks of several shards: links between them in one thread, in virtual time, and in a thread for each.

use crate::virtual_time::settle;
use net::{
    Bell, Carries, End, FrameAal, LinkConfig, LinkId, Network, Node, NodeId, NodeIo, Shard, Side, TapBuffer, TapConfig,
};
use sar::SduMeta;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};
use wire::{Cell, CellHeader, CellRate, CircuitId, DropReason, PayloadType, Time};

/// Sends numbers, in cells or frames; keeps those that arrive, unless it is to take nothing.
#[derive(Default)]
struct Probe {
    next: u32,
    end: u32,
    deaf: bool,
    got: Vec<u32>,
    /// What arrives is of no later moment than this.
    early: u32,
}

fn circuit() -> CircuitId {
    CircuitId::new(0, 100).unwrap()
}

fn cell(n: u32) -> Cell {
    let payload_type = PayloadType::User { congestion: false, end: n % 10 == 9 };
    let mut cell = Cell::new(CellHeader { circuit: circuit(), payload_type, clp: false }, [0; 48]);
    cell.payload[..4].copy_from_slice(&n.to_be_bytes());
    cell
}

fn number(octets: &[u8]) -> u32 {
    u32::from_be_bytes(octets[..4].try_into().unwrap())
}

impl Node for Probe {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let before = (self.next, self.got.len());
        while !self.deaf {
            if let Some((frame, octets)) = io.frame_in(0) {
                self.early += u32::from(frame.at() > now);
                self.got.push(number(octets));
                io.release_frame(0);
                continue;
            }
            let n = io.cells_in(0).len();
            self.got.extend(io.cells_in(0).iter().map(|c| number(&c.payload)));
            self.early += io.cells_in(0).iter().filter(|c| c.at() > now).count() as u32;
            io.consume(0, n);
            if n == 0 {
                break;
            }
        }
        while self.next < self.end {
            let sent = match io.carries(0) {
                Some(Carries::Cells) => io.put_cell(0, &cell(self.next)),
                _ if io.room(0) == 0 => false,
                _ => {
                    let mut sdu = vec![self.next as u8; 4 + self.next as usize % 900];
                    sdu[..4].copy_from_slice(&self.next.to_be_bytes());
                    let frame = io.pool_mut().copy_in(circuit(), FrameAal::Aal5, SduMeta::default(), &sdu);
                    match frame.map(|frame| io.put_frame(0, frame)) {
                        Some(Ok(())) => true,
                        Some(Err(frame)) => {
                            io.pool_mut().release(frame);
                            false
                        }
                        None => false,
                    }
                }
            };
            if !sent {
                break;
            }
            self.next += 1;
        }
        before != (self.next, self.got.len())
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn rests(&self) -> bool {
        self.next == self.end && !self.deaf
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Two probes in two shards of three, joined by a link.
fn pair(config: LinkConfig) -> (Network, [NodeId; 2], LinkId) {
    let mut network = Network::sharded(3, 8, 2048);
    let nodes = ["a", "b"].map(|name| network.add_node(name, Box::<Probe>::default()));
    assert!(network.move_node(nodes[0], 2) && network.move_node(nodes[1], 1));
    let link = network.connect(End::Port(nodes[0], 0), End::Port(nodes[1], 0), config).unwrap();
    assert_eq!(network.shards_of(link), Some([2, 1]));
    assert_eq!(network.nodes().map(|(_, name)| name).collect::<Vec<_>>(), ["a", "b"]);
    (network, nodes, link)
}

fn probe(network: &mut Network, node: NodeId) -> &mut Probe {
    network.node_mut(node).unwrap()
}

fn configs() -> [LinkConfig; 4] {
    let timed = |carries| LinkConfig {
        carries,
        rate: Some(CellRate::OC3C),
        delay: Duration::from_micros(300),
        queue_cells: 32,
        ..LinkConfig::default()
    };
    let at_once = |carries| LinkConfig { carries, queue_cells: 32, ..LinkConfig::default() };
    [Carries::Cells, Carries::Frames].map(|carries| [timed(carries), at_once(carries)]).concat().try_into().unwrap()
}

#[test]
fn what_crosses_comes_whole_in_order_and_is_counted_once() {
    for config in configs() {
        let (mut network, [a, b], link) = pair(config.clone());
        probe(&mut network, a).end = 1000;
        probe(&mut network, b).end = 700;
        settle(&mut network, Time::ZERO);
        assert_eq!(probe(&mut network, b).got, (0..1000).collect::<Vec<_>>(), "{config:?}");
        assert_eq!(probe(&mut network, a).got, (0..700).collect::<Vec<_>>(), "{config:?}");
        let info = network.link_info(link).unwrap();
        for (counters, n) in [(info.from_a, 1000), (info.from_b, 700)] {
            assert!(counters.add_up(config.carries), "{counters:?}");
            assert_eq!((counters.given(config.carries), counters.taken(config.carries)), (n, n));
            assert_eq!((counters.unread, counters.waiting), (0, 0));
        }
        assert!(network.pools().all(|pool| pool.in_use() == 0));
    }
}

#[test]
fn what_a_far_end_does_not_take_fills_three_queues_and_no_more_and_goes_on_later() {
    for config in configs() {
        let (mut network, [a, b], link) = pair(config.clone());
        probe(&mut network, a).end = 10_000;
        probe(&mut network, b).deaf = true;
        let mut now = Time::ZERO;
        for _ in 0..1000 {
            network.run(now);
            now += Duration::from_micros(10);
        }
        let counters = network.link_info(link).unwrap().from_a;
        let given = counters.given(config.carries);
        assert_eq!(given, counters.unread + counters.waiting, "all of it waits: {config:?}");
        let flight = if config.rate.is_some() { 2 * 32 + 150 } else { 0 };
        let frames = if config.carries == Carries::Frames { 256 * 1024 / 2048 + 900 } else { 0 };
        assert!(given <= 3 * 32 + flight + frames, "{given} wait: {config:?}");
        assert!(given >= 8);
        probe(&mut network, b).deaf = false;
        settle(&mut network, now);
        assert_eq!(probe(&mut network, b).got, (0..10_000).collect::<Vec<_>>(), "{config:?}");
    }
}

#[test]
fn a_link_between_shards_that_goes_down_loses_what_has_not_crossed_and_is_down_in_both() {
    let (mut network, [a, b], link) = pair(configs()[1].clone());
    let other = network.add_node("c", Box::<Probe>::default());
    // Another link between two more shards follows this one.
    let d = network.add_node("d", Box::<Probe>::default());
    assert!(network.move_node(d, 1));
    let following = network.connect(End::Port(other, 0), End::Port(d, 0), LinkConfig::default()).unwrap();
    assert!(network.follow(following, Some(link)));
    assert!(network.set_link_up(link, false));
    while network.run(Time::ZERO) {}
    assert!(!network.link_info(link).unwrap().up && !network.link_info(following).unwrap().up);
    for node in [a, b, other, d] {
        probe(&mut network, node).end = 50;
    }
    while network.run(Time::ZERO) {}
    for link in [link, following] {
        let info = network.link_info(link).unwrap();
        assert_eq!([info.from_a, info.from_b].map(|line| line.sent.dropped(DropReason::LinkDown)), [50; 2]);
    }
    assert!(network.set_link_up(link, true));
    while network.run(Time::ZERO) {}
    for node in [a, b, other, d] {
        probe(&mut network, node).end = 60;
    }
    while network.run(Time::ZERO) {}
    for node in [a, b, other, d] {
        assert_eq!(probe(&mut network, node).got, (50..60).collect::<Vec<_>>());
    }
    // A link that is gone is down for those that follow it.
    assert!(network.remove_link(link) && network.link_info(link).is_none());
    while network.run(Time::ZERO) {}
    assert!(!network.link_info(following).unwrap().up);
    let e = network.add_node("e", Box::<Probe>::default());
    assert_eq!(network.nodes().count(), 5);
    assert!(network.remove_node(e).is_some() && network.remove_node(d).is_some());
    assert_eq!(network.links().count(), 0);
}

#[test]
fn a_tap_shows_both_directions_in_the_order_of_time() {
    let (mut network, [a, b], link) = pair(configs()[0].clone());
    assert!(network.set_tap(link, Some(TapConfig::of_mib(1, Vec::new()))));
    let mut now = Time::ZERO;
    for round in 1..=20 {
        for node in [a, b] {
            probe(&mut network, node).end = round;
            now += Duration::from_micros(5);
            network.run(now);
        }
    }
    settle(&mut network, now);
    let mut seen = TapBuffer::default();
    assert!(network.drain_tap(link, &mut seen));
    let records: Vec<_> = seen.records().collect();
    assert_eq!(records.len(), 40);
    assert!(records.windows(2).all(|two| two[0].at <= two[1].at));
    for (side, turn) in [(Side::A, 0), (Side::B, 1)] {
        let of_side: Vec<_> = records.iter().enumerate().filter(|(_, r)| r.from == side).collect();
        for (n, (place, record)) in of_side.into_iter().enumerate() {
            let net::tap::Tapped::Cell(seen) = record.what else { panic!("{record:?}") };
            assert_eq!((place % 2, number(&seen.payload)), (turn, n as u32));
        }
    }
}

#[test]
fn a_node_with_links_stays_in_its_shard() {
    let (mut network, [a, _], link) = pair(LinkConfig::default());
    assert!(!network.move_node(a, 0) && network.move_node(a, 2));
    assert!(network.remove_link(link));
    assert!(!network.move_node(a, 3) && network.move_node(a, 0));
    assert_eq!(network.shard_of(a), Some(0));
    assert!(network.lend(0).is_none());
}

struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What the threads have in common: how many have all they wait for, and the bells of all.
struct Common {
    done: AtomicUsize,
    bells: Vec<Arc<Bell>>,
    begun: Instant,
}

/// Runs a shard until its probe and the other have got so many, sleeping where there is nothing to do.
fn run(mut shard: Box<Shard>, node: NodeId, wanted: usize, common: &Common) -> Box<Shard> {
    shard.bell().set_waker(Waker::from(Arc::new(Parked(std::thread::current()))));
    let mut is_done = false;
    loop {
        while shard.run(Time::ZERO + common.begun.elapsed()) {}
        let probe = shard.node_mut::<Probe>(node).unwrap();
        if !is_done && probe.got.len() == wanted {
            is_done = true;
            common.done.fetch_add(1, Ordering::Relaxed);
            common.bells.iter().for_each(|bell| bell.rouse());
        }
        if common.done.load(Ordering::Relaxed) == 2 {
            return shard;
        }
        if shard.bell().prepare_sleep() {
            let before = Instant::now();
            if common.done.load(Ordering::Relaxed) < 2 {
                std::thread::park_timeout(Duration::from_secs(20));
            }
            assert!(before.elapsed() < Duration::from_secs(19), "nobody has woken shard {}", shard.number());
            shard.bell().awake();
        }
    }
}

#[test]
fn shards_of_two_threads_exchange_all_they_have_and_wake_each_other() {
    for carries in [Carries::Cells, Carries::Frames] {
        let n = if carries == Carries::Cells { 300_000 } else { 30_000 };
        let (mut network, nodes, _) = pair(LinkConfig { carries, queue_cells: 64, ..LinkConfig::default() });
        for node in nodes {
            probe(&mut network, node).end = n;
        }
        let (done, bells, begun) = (AtomicUsize::new(0), network.bells().to_vec(), Instant::now());
        let common = Arc::new(Common { done, bells, begun });
        let threads = [(2, nodes[0]), (1, nodes[1])].map(|(number, node)| {
            let (shard, common) = (network.lend(number).unwrap(), common.clone());
            std::thread::spawn(move || run(shard, node, n as usize, &common))
        });
        assert!(network.shard(1).is_none() && network.node_name(nodes[0]).is_none());
        for thread in threads {
            network.take_back(thread.join().unwrap());
        }
        while network.run(Time::ZERO + begun.elapsed()) {}
        for node in nodes {
            let probe = probe(&mut network, node);
            assert!(probe.got.iter().copied().eq(0..n));
            assert_eq!(probe.early, 0, "nothing comes from the future");
        }
        assert!(network.pools().all(|pool| pool.in_use() == 0));
    }
}
