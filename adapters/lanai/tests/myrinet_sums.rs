//! Each PDU, message and packet of a Myrinet is accounted for after each step: random PDUs, circuits that come and go, cables that
//! are pulled, interfaces that are full, packets that stand until the time-out, links that nobody empties, damaged symbols, and
//! mechanisms that change while PDUs are under way.

use lanai::MulticastBy;
use lanai::fabric::Config as Links;
use lanai::myrinet::{Cable, Job, Layout, Myrinet, Plug};
use net::random::Random;
use net::{Carries, End, FrameAal, FramePool, Label, LinkConfig, LinkId, Network, NodeId, RouteOptions, RouteTable};
use sar::SduMeta;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::{CircuitId, Counters, DropReason, Time};

const HOSTS: usize = 5;

fn cable(a: Plug, b: Plug) -> Cable {
    Cable { ends: [a, b], metres: 10.0 }
}

/// Hosts at two switches in turn, which two cables join.
fn layout() -> Layout {
    let trunks = (0..2).map(|n| cable(Plug::Switch(0, 6 + n), Plug::Switch(1, 6 + n)));
    let own = (0..HOSTS).map(|n| cable(Plug::Host(n), Plug::Switch(n % 2, n / 2)));
    Layout {
        hosts: (0..HOSTS).map(|n| format!("h{n}")).collect(),
        switches: vec![("m1".into(), 8), ("m2".into(), 8)],
        cables: trunks.chain(own).collect(),
        // Packets stand for longer than this before hosts that are slow.
        links: Links { timeout: Duration::from_micros(400), errors: 1e-5, seed: 5, ..Links::default() },
        ..Layout::default()
    }
}

fn vc(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

struct World {
    network: Network,
    node: NodeId,
    links: Vec<LinkId>,
    random: Random,
    now: Time,
    /// Whether somebody empties the link of a port.
    read: [bool; HOSTS],
    got: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut network = Network::new(FramePool::new(48, 65_536));
        let node = network.add_node("net", Box::new(Myrinet::new(layout())));
        let config = LinkConfig { carries: Carries::Frames, ..LinkConfig::default() };
        let link = |port| network.connect(End::External, End::Port(node, port), config.clone()).unwrap();
        let links = (0..HOSTS as u16).map(link).collect();
        let (random, read) = (Random::new(seed), [true; HOSTS]);
        let mut world = World { network, node, links, random, now: Time::ZERO, read, got: 0 };
        world.run(Duration::from_millis(1));
        world
    }

    fn myrinet(&mut self) -> &mut Myrinet {
        self.network.node_mut(self.node).unwrap()
    }

    fn port(&mut self) -> usize {
        self.random.below(HOSTS as u64) as usize
    }

    fn run(&mut self, duration: Duration) {
        let until = self.now + duration;
        loop {
            while self.network.run(self.now) {
                self.read();
            }
            match self.network.poll_timeout().filter(|at| *at <= until) {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
        }
        self.now = until;
        self.read();
    }

    fn read(&mut self) {
        for (link, _) in self.links.iter().zip(self.read).filter(|(_, read)| *read) {
            let take = |io: &mut net::NodeIo<'_>| {
                let frames: Vec<_> = std::iter::from_fn(|| io.take_frame(0)).collect();
                frames.into_iter().map(|frame| io.pool_mut().release(frame)).count() as u64
            };
            self.got += self.network.external(*link, self.now, take).unwrap();
        }
    }

    fn send(&mut self, port: usize, vci: u16, octets: usize) {
        let put = |io: &mut net::NodeIo<'_>| {
            let sdu = vec![octets as u8; octets];
            if let Some(frame) = io.pool_mut().copy_in(vc(vci), FrameAal::Aal5, SduMeta::default(), &sdu) {
                let _ = io.put_frame(0, frame).map_err(|frame| io.pool_mut().release(frame));
            }
        };
        self.network.external(self.links[port], self.now, put).unwrap();
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..7 => {
                let (port, vci, n) = (self.port(), 100 + self.random.below(5) as u16, self.random.below(12));
                for _ in 0..n {
                    let most = [40, 2000, 30_000][self.random.below(3) as usize];
                    let octets = 1 + self.random.below(most) as usize;
                    self.send(port, vci, octets);
                }
            }
            7..13 => {
                let most = if self.random.below(5) == 0 { 20_000_000 } else { 500_000 };
                let nanos = self.random.below(most);
                self.run(Duration::from_nanos(nanos));
            }
            13 | 14 => {
                let label = |(port, vci): (usize, u16)| (port as u16, Label::Vc(vc(vci)));
                let vci = 100 + self.random.below(4) as u16;
                let (from, to) = (label((self.port(), vci)), label((self.port(), vci + 100)));
                // One that is there is refused.
                let _ = self.myrinet().add_route(from, to, RouteOptions::default());
            }
            15 => {
                let (port, vci) = (self.port(), 100 + self.random.below(4) as u16);
                for _ in 0..4 {
                    self.send(port, vci, 1000);
                }
                // While some are under way.
                self.run(Duration::from_micros(60));
                self.myrinet().remove_route(port as u16, Label::Vc(vc(vci)), None);
            }
            16 => {
                let mut other = self.myrinet().layout().clone();
                let all = layout().cables;
                let at = self.random.below(all.len() as u64) as usize;
                if other.cables.contains(&all[at]) {
                    other.cables.retain(|cable| *cable != all[at]);
                } else {
                    other.cables.push(all[at]);
                }
                self.myrinet().set_layout(other);
            }
            17 => {
                let port = self.port();
                self.read[port] = !self.read[port];
            }
            18 => {
                let job = Job { from: self.port(), to: vec![self.port()], octets: 3000, count: 20, ..Job::default() };
                // Another is under way, or no route leads there.
                let _ = self.myrinet().generate(job);
                // New maps are drawn.
                let millis = self.random.below(4) * 60;
                self.run(Duration::from_millis(millis));
            }
            _ => {
                let mut other = self.myrinet().layout().clone();
                other.lanai.host_mb_s = [60.0, 2.0][self.random.below(2) as usize];
                other.lanai.switches.stop_link = self.random.below(2) == 0;
                let by = [MulticastBy::Cycle, MulticastBy::Repetition];
                other.lanai.switches.multicast = by[self.random.below(2) as usize];
                self.myrinet().set_layout(other);
            }
        }
    }

    fn mismatch(&mut self) -> Option<String> {
        let lines: Vec<_> = self.network.links().map(|link| (link.from_a, link.from_b)).collect();
        let net = self.myrinet();
        let ports = lines.iter().zip(0..).find_map(|((into, out), port)| {
            let came = net.intake_mismatch(port, Carries::Frames, into);
            came.or_else(|| net.output_mismatch(port, Carries::Frames, out))
        });
        ports.or_else(|| net.mismatch())
    }
}

fn reasons(counters: &Counters) -> BTreeSet<DropReason> {
    counters.drops().map(|(reason, _)| reason).collect()
}

#[test]
fn each_pdu_of_a_myrinet_is_accounted_for_after_each_step() {
    let mut seen: BTreeMap<&str, BTreeSet<DropReason>> = BTreeMap::new();
    for seed in 1..=8 {
        let mut world = World::new(seed);
        for step in 0..400 {
            world.step();
            assert_eq!(world.mismatch(), None, "seed {seed}, step {step}");
        }
        let cables = Layout { cables: layout().cables, ..world.myrinet().layout().clone() };
        world.myrinet().set_layout(cables);
        world.read = [true; HOSTS];
        world.run(Duration::from_millis(1500));
        assert_eq!(world.mismatch(), None, "seed {seed}, at the end");
        let sums = world.myrinet().sums();
        let lanais = &sums.network.lanais;
        assert_eq!((sums.under_way, lanais.sending, sums.received.pdus), (0, 0, world.got), "seed {seed}");
        assert_eq!(world.network.pool().in_use(), 0, "seed {seed}");
        let monitor = &lanais.monitor;
        for (what, counters) in [
            ("PDUs in", &sums.sent),
            ("PDUs out", &sums.received),
            ("messages in", &monitor.sent),
            ("messages out", &monitor.received),
            ("packets in", &monitor.packets_sent),
            ("packets out", &monitor.packets_received),
            ("fabric", &sums.network.fabric.counters),
        ] {
            seen.entry(what).or_default().extend(reasons(counters));
        }
    }
    use DropReason::{Crc, LinkDown, NoBuffer, QueueFull, Sequence, Timeout, UnknownCircuit};
    let wanted = [
        ("PDUs in", vec![UnknownCircuit, LinkDown]),
        ("PDUs out", vec![UnknownCircuit, QueueFull]),
        ("messages in", vec![UnknownCircuit, LinkDown]),
        ("messages out", vec![LinkDown]),
        ("packets in", vec![UnknownCircuit]),
        ("packets out", vec![Crc, NoBuffer, Sequence]),
        ("fabric", vec![LinkDown, Timeout]),
    ];
    for (what, wanted) in wanted {
        let missing: Vec<_> = wanted.iter().filter(|reason| !seen[what].contains(reason)).collect();
        assert!(missing.is_empty(), "{what}: {missing:?} missing of {:?}", seen[what]);
    }
}

#[test]
fn what_a_change_of_the_layout_takes_with_it_is_dropped_as_link_down_and_the_next_pdu_arrives() {
    let mut seen = BTreeMap::<&str, u64>::new();
    for nanos in (0..2_000_000).step_by(9_970) {
        let mut world = World::new(1);
        let label = |(port, vci): (usize, u16)| (port as u16, Label::Vc(vc(vci)));
        for from in 0..HOSTS - 1 {
            world
                .myrinet()
                .add_route(label((from, 100)), label((HOSTS - 1, 200 + from as u16)), Default::default())
                .unwrap();
            (0..4).for_each(|_| world.send(from, 100, 9000));
        }
        world.run(Duration::from_nanos(nanos));
        let before = world.myrinet().sums();
        let mut other = world.myrinet().layout().clone();
        other.lanai.host_mb_s /= 2.0;
        world.myrinet().set_layout(other);
        assert_eq!(world.mismatch(), None, "{nanos} ns");
        let after = world.myrinet().sums();
        let (had, has) = (&before.network, &after.network);
        let held = [
            ("PDUs under way", before.under_way, [&before.sent, &after.sent]),
            ("PDUs that came", had.lanais.untold.iter().sum(), [&before.received, &after.received]),
            ("messages", had.lanais.sending, [&had.lanais.monitor.sent, &has.lanais.monitor.sent]),
            ("messages in part", had.lanais.open, [&had.lanais.monitor.received, &has.lanais.monitor.received]),
            ("packets", had.lanais.waiting, [&had.lanais.monitor.packets_sent, &has.lanais.monitor.packets_sent]),
            ("packets at cables", had.fabric.held, [&had.fabric.counters, &has.fabric.counters]),
        ];
        for (what, held, counters) in held {
            let [before, after] = counters.map(|counters| counters.dropped(DropReason::LinkDown));
            assert_eq!(after - before, held, "{nanos} ns: {what}");
            seen.entry(what).and_modify(|most| *most = held.max(*most)).or_insert(held);
        }
        let now = &has.lanais;
        assert_eq!(
            (after.under_way, now.sending, now.open, now.waiting, has.fabric.held),
            (0, 0, 0, 0, 0),
            "{nanos} ns"
        );
        let got = world.got;
        world.run(Duration::from_millis(2));
        world.send(0, 100, 500);
        world.run(Duration::from_millis(2));
        assert_eq!((world.got - got, world.mismatch()), (1, None), "{nanos} ns: the PDU after that");
    }
    assert!(seen.values().all(|most| *most > 0), "never held: {seen:?}");
}
