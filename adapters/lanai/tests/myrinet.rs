//! A Myrinet as an element of a network: circuits' PDUs in at one port and out at another.

use lanai::MulticastBy;
use lanai::myrinet::{Cable, Job, Layout, Myrinet, Pace, Plug, Refused};
use net::{Carries, End, FrameAal, FramePool, Label, LinkConfig, LinkId, Network, NodeId, RouteOptions, RouteTable};
use proptest::prelude::*;
use sar::SduMeta;
use std::time::Duration;
use wire::{CircuitId, DropReason, Time};

/// Hosts at two switches in turn, which two cables join.
fn layout(hosts: usize) -> Layout {
    let cable = |a, b| Cable { ends: [a, b], metres: 10.0 };
    let trunks = (0..2).map(|n| cable(Plug::Switch(0, 6 + n), Plug::Switch(1, 6 + n)));
    let own = (0..hosts).map(|n| cable(Plug::Host(n), Plug::Switch(n % 2, n / 2)));
    Layout {
        hosts: (0..hosts).map(|n| format!("h{n}")).collect(),
        switches: vec![("m1".into(), 8), ("m2".into(), 8)],
        cables: trunks.chain(own).collect(),
        ..Layout::default()
    }
}

/// A Myrinet with a frame link at each port, whose other end is the test's.
struct World {
    network: Network,
    node: NodeId,
    links: Vec<LinkId>,
    now: Time,
}

fn vc(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

impl World {
    fn new(layout: Layout) -> Self {
        // More frames than all senders' queues hold: one that came finds one too.
        let mut network = Network::new(FramePool::new(512, 65_536));
        let ports = layout.hosts.len() as u16;
        let node = network.add_node("net", Box::new(Myrinet::new(layout)));
        let config = LinkConfig { carries: Carries::Frames, ..LinkConfig::default() };
        let link = |port| network.connect(End::External, End::Port(node, port), config.clone()).unwrap();
        let links = (0..ports).map(link).collect();
        let mut world = World { network, node, links, now: Time::ZERO };
        world.run(Duration::from_millis(1));
        world
    }

    fn myrinet(&mut self) -> &mut Myrinet {
        self.network.node_mut(self.node).unwrap()
    }

    fn route(&mut self, from: (u16, u16), to: (u16, u16)) {
        let label = |(port, vci)| (port, Label::Vc(vc(vci)));
        self.myrinet().add_route(label(from), label(to), RouteOptions::default()).unwrap();
    }

    /// As the engine does: until nothing is to be done now, then to the next time.
    fn run(&mut self, duration: Duration) {
        let until = self.now + duration;
        loop {
            while self.network.run(self.now) {}
            match self.network.poll_timeout().filter(|at| *at <= until) {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
        }
        self.now = until;
    }

    fn send(&mut self, port: usize, vci: u16, sdu: &[u8]) -> bool {
        let meta = SduMeta { uu: 7, cpi: 0, clp: true, congestion: false };
        let put = |io: &mut net::NodeIo<'_>| {
            let Some(frame) = io.pool_mut().copy_in(vc(vci), FrameAal::Aal5, meta, sdu) else { return false };
            io.put_frame(0, frame).map_err(|frame| io.pool_mut().release(frame)).is_ok()
        };
        self.network.external(self.links[port], self.now, put).unwrap()
    }

    fn received(&mut self, port: usize) -> Vec<(CircuitId, Vec<u8>)> {
        let take = |io: &mut net::NodeIo<'_>| {
            let mut all = Vec::new();
            while let Some(frame) = io.take_frame(0) {
                assert_eq!((frame.aal, frame.meta.uu, frame.meta.clp), (FrameAal::Aal5, 7, true));
                all.push((frame.circuit, io.pool().octets(&frame).to_vec()));
                io.pool_mut().release(frame);
            }
            all
        };
        self.network.external(self.links[port], self.now, take).unwrap()
    }
}

fn sdu(octets: usize, number: usize) -> Vec<u8> {
    (0..octets).map(|n| (n * 7 + number) as u8).collect()
}

#[test]
fn pdus_of_any_length_pass_both_ways_in_order_under_the_label_of_the_far_side() {
    let mut world = World::new(layout(4));
    world.route((0, 40), (3, 50));
    world.route((3, 50), (0, 40));
    let lengths = [0, 1, 60_000, 40, 9180, 1012, 1013, 65_535, 3, 8192, 8180, 500];
    let mut got = [Vec::new(), Vec::new()];
    for (n, octets) in lengths.iter().enumerate() {
        assert!(world.send(0, 40, &sdu(*octets, n)));
        assert!(world.send(3, 50, &sdu(*octets, n + 100)));
        got[0].extend(world.received(3));
        got[1].extend(world.received(0));
    }
    world.run(Duration::from_millis(20));
    got[0].extend(world.received(3));
    got[1].extend(world.received(0));
    for (side, (vci, first)) in [(50, 0), (40, 100)].into_iter().enumerate() {
        let want: Vec<_> = lengths.iter().enumerate().map(|(n, octets)| (vc(vci), sdu(*octets, n + first))).collect();
        assert!(got[side] == want, "{:?}", got[side].iter().map(|(_, sdu)| sdu.len()).collect::<Vec<_>>());
    }
    assert_eq!(world.network.pool().in_use(), 0);
}

#[test]
fn a_pdu_that_comes_to_a_resting_myrinet_is_out_again_within_the_time_that_its_interfaces_take() {
    let mut world = World::new(layout(4));
    world.route((0, 40), (3, 50));
    world.run(Duration::from_millis(5));
    // Pauses that meet the mapper at work, between two of its messages and between two of its runs.
    for pause in (0..40).map(|n| Duration::from_micros(n * 3701)) {
        world.run(pause);
        assert!(world.send(0, 40, &[1; 40]));
        let begin = world.now;
        // As an engine that sleeps until it is due.
        loop {
            let worked = world.network.run(world.now);
            if !world.received(3).is_empty() {
                assert!(worked, "the link to its host would wait for the next time");
                break;
            }
            if !worked {
                world.now = world.now.max(world.network.poll_timeout().unwrap());
            }
        }
        let took = world.now.since(begin);
        assert!(took < Duration::from_micros(100), "{took:?} after {pause:?}");
    }
}

/// Runs of the mappers so far.
fn maps(world: &mut World) -> u64 {
    world.myrinet().report().hosts.iter().map(|host| host.maps).sum()
}

/// The mapper begins again so soon after each run, so that a test of some tenths of a second sees many. A description's
/// default is ten times as long.
const PERIOD: Duration = Duration::from_millis(10);

#[test]
fn nothing_is_lost_while_senders_offer_more_than_a_receiver_gets_over_many_runs_of_the_mapper() {
    for octets in [1, 256, 1024, 9180, 65_535] {
        let mut layout = layout(4);
        layout.mapping.period = PERIOD;
        let mut world = World::new(layout);
        for from in 0..3 {
            world.route((from, 40), (3, 50 + from));
        }
        let (mut sent, mut got, first) = (0, 0, maps(&mut world));
        for _ in 0..3000 {
            for from in 0..3 {
                while world.send(from, 40, &sdu(octets, from)) {
                    sent += 1;
                }
            }
            world.run(Duration::from_micros(100));
            got += world.received(3).len();
        }
        let runs = maps(&mut world) - first;
        assert!(runs >= 5, "{octets} octets: the mapper has run {runs} times");
        for _ in 0..5000 {
            world.run(Duration::from_millis(1));
            got += world.received(3).len();
            if got == sent {
                break;
            }
        }
        assert_eq!(got, sent, "{octets} octets");
        assert!(got > 100, "{octets} octets: {got}");
    }
}

#[test]
fn a_multipoint_circuit_reaches_each_leaf_once_around_the_cycle_and_by_repetition() {
    for multicast in [MulticastBy::Cycle, MulticastBy::Repetition] {
        let mut layout = layout(5);
        layout.lanai.switches.multicast = multicast;
        let mut world = World::new(layout);
        for leaf in 1..4 {
            world.route((0, 40), (leaf, 60 + leaf));
        }
        for n in 0..5 {
            assert!(world.send(0, 40, &sdu(2000, n)));
        }
        world.run(Duration::from_millis(10));
        for leaf in 1..4 {
            let want: Vec<_> = (0..5).map(|n| (vc(60 + leaf), sdu(2000, n))).collect();
            assert!(world.received(leaf.into()) == want, "{multicast:?} {leaf}");
        }
        assert!(world.received(4).is_empty() && world.received(0).is_empty());
        let forwarded: u64 = world.myrinet().report().hosts.iter().map(|host| host.monitor.forwarded).sum();
        // Each of three messages on the way is passed on by two of three receivers.
        assert_eq!(forwarded, if multicast == MulticastBy::Cycle { 10 } else { 0 });
        // One leaf less.
        assert!(world.myrinet().remove_route(0, Label::Vc(vc(40)), Some(2)));
        assert!(world.send(0, 40, &sdu(100, 9)));
        world.run(Duration::from_millis(10));
        assert_eq!([1, 2, 3].map(|leaf| world.received(leaf).len()), [1, 0, 1]);
    }
}

#[test]
fn without_a_route_or_a_cable_a_pdu_is_counted_and_dropped() {
    let mut world = World::new(layout(3));
    world.route((0, 40), (1, 40));
    assert!(world.send(0, 41, b"no route"));
    world.run(Duration::from_millis(1));
    assert_eq!(world.myrinet().report().hosts[0].sent.dropped(DropReason::UnknownCircuit), 1);
    let mut cut = layout(3);
    let at = cut.cables.iter().position(|cable| cable.ends[0] == Plug::Host(1)).unwrap();
    let cable = cut.cables.remove(at);
    world.myrinet().set_layout(cut.clone());
    world.run(Duration::from_millis(250));
    assert!(world.send(0, 40, b"no cable"));
    world.run(Duration::from_millis(1));
    let report = world.myrinet().report();
    assert_eq!(report.hosts[0].sent.dropped(DropReason::LinkDown), 1);
    assert!(report.map_agrees() && report.map().unwrap().hosts.len() == 2);
    cut.cables.push(cable);
    world.myrinet().set_layout(cut);
    world.run(Duration::from_millis(250));
    assert!(world.send(0, 40, b"again"));
    world.run(Duration::from_millis(1));
    assert_eq!(world.received(1), [(vc(40), b"again".to_vec())]);
}

#[test]
fn circuits_go_on_after_hosts_and_switches_have_become_others() {
    let mut world = World::new(layout(3));
    world.route((0, 40), (1, 40));
    for leaf in [1, 2] {
        world.route((0, 50), (leaf, 50));
    }
    let mut more = layout(4);
    more.switches[1].1 = 16;
    world.myrinet().set_layout(more);
    world.run(Duration::from_millis(1));
    assert!(world.send(0, 40, b"one") && world.send(0, 50, b"two"));
    world.run(Duration::from_millis(2));
    assert_eq!(world.received(1), [(vc(40), b"one".to_vec()), (vc(50), b"two".to_vec())]);
    assert_eq!(world.received(2), [(vc(50), b"two".to_vec())]);
}

#[test]
fn a_myrinet_that_has_become_another_carries_nothing_and_is_visited_as_seldom_as_a_new_one() {
    let visits = |world: &mut World| {
        let (until, mut visits) = (world.now + Duration::from_millis(100), 0);
        loop {
            while world.network.run(world.now) {}
            let Some(at) = world.network.poll_timeout().filter(|at| *at <= until) else { return visits };
            world.now = world.now.max(at);
            visits += 1;
        }
    };
    let mut new = World::new(layout(4));
    new.run(Duration::from_millis(5));
    let mut changed = World::new(layout(3));
    changed.route((0, 40), (1, 40));
    changed.run(Duration::from_millis(500));
    assert!(changed.send(0, 40, &sdu(40, 0)));
    changed.run(Duration::from_micros(100));
    assert_eq!(changed.received(1), [(vc(40), sdu(40, 0))]);
    changed.myrinet().set_layout(layout(4));
    changed.run(Duration::from_millis(5));
    let [new, changed] = [visits(&mut new), visits(&mut changed)];
    assert!(changed <= new + 10, "{changed} visits, and {new} of a new one");
}

#[test]
fn the_generator_tells_what_arrived_and_how_long_it_took() {
    let mut world = World::new(layout(4));
    let job = Job { from: 0, to: vec![1], octets: 8192, count: 100, ..Job::default() };
    world.myrinet().generate(job.clone()).unwrap();
    assert_eq!(world.myrinet().generate(job.clone()), Err(Refused::Busy));
    world.run(Duration::from_millis(100));
    let all = world.myrinet().report().generated.unwrap();
    assert_eq!((all.sent, all.received, all.damaged, all.done), (100, 100, 0, true));
    let mbit_s = 100.0 * 8192.0 * 8.0 / all.took.as_secs_f64() / 1e6;
    assert!((300.0..480.0).contains(&mbit_s), "{mbit_s}");
    let job = Job { to: vec![1, 2, 3], octets: 16, count: 50, pace: Pace::Acknowledged, immediate: true, ..job };
    world.myrinet().generate(job.clone()).unwrap();
    world.run(Duration::from_millis(100));
    let all = world.myrinet().report().generated.unwrap();
    assert_eq!((all.received, all.round_trip_count, all.done), (150, 50, true));
    assert!(all.round_trips[0] > Duration::from_micros(20) && all.round_trips[2] < Duration::from_micros(300));
    for (bad, refused) in [
        (Job { to: vec![0], ..job.clone() }, Refused::Hosts),
        (Job { to: vec![], ..job.clone() }, Refused::Hosts),
        (Job { from: 9, ..job.clone() }, Refused::Hosts),
        (Job { octets: 1025, ..job.clone() }, Refused::Octets(1025, 1024)),
        (Job { count: 0, ..job.clone() }, Refused::Count(0)),
    ] {
        assert_eq!(world.myrinet().generate(bad), Err(refused));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn whatever_is_sent_arrives_at_whom_its_route_names_alone_and_all_frames_come_back(
        routes in proptest::collection::vec((0u16..3, 32u16..36, 0u16..3, 32u16..40), 0..8),
        frames in proptest::collection::vec((0usize..3, 32u16..37, 0usize..3000), 0..30),
    ) {
        let mut world = World::new(layout(3));
        let mut known: Vec<((u16, u16), (u16, u16))> = Vec::new();
        for (from, vci, to, out) in routes {
            if from != to && !known.iter().any(|(way, branch)| *way == (from, vci) && branch.0 == to) {
                world.route((from, vci), (to, out));
                known.push(((from, vci), (to, out)));
            }
        }
        let mut want = [Vec::new(), Vec::new(), Vec::new()];
        for (n, (port, vci, octets)) in frames.into_iter().enumerate() {
            prop_assert!(world.send(port, vci, &sdu(octets, n)));
            for (_, (to, out)) in known.iter().filter(|(way, _)| *way == (port as u16, vci)) {
                want[usize::from(*to)].push((vc(*out), sdu(octets, n)));
            }
        }
        world.run(Duration::from_millis(20));
        for (port, mut want) in want.into_iter().enumerate() {
            let mut got = world.received(port);
            got.sort();
            want.sort();
            prop_assert!(got == want, "port {}", port);
        }
        prop_assert_eq!(world.network.pool().in_use(), 0);
    }
}
