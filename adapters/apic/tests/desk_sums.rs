//! Each cell of a desk is accounted for after each step: random cells, circuits that come and go, chips that lose their
//! power, and chips that are replaced while cells are in them. So is each PDU of computers at a desk whose channels end.

use crate::device::{Device, number_of, numbered, vc};
use crate::of_desk::with_devices;
use apic::desk::{Desk, Layout};
use apic::grant::{Area, Descriptor, Owner};
use apic::notify::Interrupt;
use apic::{Aal, ApicNode, Channel, Config, Connection, Direction, PRODUCED, Port, Ring};
use bus::HostMemory;
use bus::memory::Flat;
use net::random::Random;
use net::{Carries, End, FramePool, Label, LinkConfig, Network, NodeId, RouteOptions, RouteTable};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use traffic::{Category, Contract};
use wire::{Cell, CellHeader, CellRate, Counters, DropReason, Time};

const CHIPS: usize = 4;

fn small(queue_cells: usize) -> Config {
    Config { sram_cells: 24, reserved_cells: 4, queue_cells, cache: 3, miss_cells: 4, ..Config::default() }
}

/// Runs a network from `now` on, up to `end`.
fn run_until(network: &mut Network, now: &mut Time, end: Time) {
    loop {
        while network.run(*now) {}
        match network.poll_timeout().filter(|next| *next <= end) {
            Some(next) => *now = next.max(*now),
            None => break,
        }
    }
    *now = end;
}

struct World {
    network: Network,
    desk: NodeId,
    devices: Vec<NodeId>,
    random: Random,
    now: Time,
    number: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        let layout = Layout { chips: CHIPS, chip: small(12), ..Layout::default() };
        let (network, desk, devices) = with_devices(layout);
        World { network, desk, devices, random: Random::new(seed), now: Time::ZERO, number: 0 }
    }

    fn desk(&mut self) -> &mut Desk {
        self.network.node_mut(self.desk).unwrap()
    }

    fn port(&mut self) -> usize {
        self.random.below(self.devices.len() as u64) as usize
    }

    fn vci(&mut self) -> u16 {
        100 + self.random.below(6) as u16
    }

    fn run_until(&mut self, end: Time) {
        run_until(&mut self.network, &mut self.now, end);
    }

    fn step(&mut self) {
        match self.random.below(16) {
            0..6 => {
                let (port, n, now) = (self.port(), self.random.below(60), self.now);
                for _ in 0..n {
                    self.number += 1;
                    let (vci, number) = (self.vci(), self.number);
                    let header = CellHeader { circuit: vc(vci), ..CellHeader::default() };
                    let cell = Cell::new(header, numbered(vci.into(), number));
                    let device: &mut Device = self.network.node_mut(self.devices[port]).unwrap();
                    device.to_send.push_back((now, cell));
                }
            }
            6..10 => {
                let end = self.now + Duration::from_nanos(self.random.below(20_000));
                self.run_until(end);
            }
            10..13 => {
                let (from, to) = ((self.port() as u16, self.vci()), self.port() as u16);
                let category = if self.random.below(3) == 0 { Category::Cbr } else { Category::Ubr };
                let pcr = CellRate::from_cells_per_s(1000.0);
                let contract = Contract { category, pcr, ..Contract::default() };
                let options = RouteOptions { contract, ..RouteOptions::default() };
                // What there is no room for, or is there, is refused.
                let _ =
                    self.desk().add_route((from.0, Label::Vc(vc(from.1))), (to, Label::Vc(vc(from.1 + 1000))), options);
            }
            13 => {
                let (port, vci) = (self.port() as u16, self.vci());
                self.desk().remove_route(port, Label::Vc(vc(vci)), None);
            }
            14 => {
                let off = if self.random.below(2) == 0 { None } else { Some(self.random.below(CHIPS as u64) as usize) };
                let layout = Layout { off: off.into_iter().collect(), ..self.desk().layout().clone() };
                self.desk().set_layout(layout).unwrap();
            }
            _ => {
                let chip = small(10 + self.random.below(8) as usize);
                let layout = Layout { chip, ..self.desk().layout().clone() };
                self.desk().set_layout(layout).unwrap();
            }
        }
    }

    /// What is wrong: at the desk, or between it and its links.
    fn mismatch(&mut self) -> Option<String> {
        if let Some(wrong) = self.desk().mismatch() {
            return Some(wrong);
        }
        let sums = self.desk().sums();
        let links = self.network.links();
        let (came, went) = links.into_iter().fold((0, 0), |(came, went), link| {
            (came + link.from_a.taken(Carries::Cells), went + link.from_b.given(Carries::Cells))
        });
        (sums.entered != came || sums.left != went).then(|| format!("links: {came} came, {went} went: {sums:?}"))
    }
}

#[test]
fn each_cell_of_a_desk_is_accounted_for_after_each_step() {
    let (mut reasons, mut former): (BTreeSet<DropReason>, _) = (BTreeSet::new(), [0; 2]);
    let mut copied = 0;
    for seed in 1..=6 {
        let mut world = World::new(seed);
        for step in 0..600 {
            world.step();
            assert_eq!(world.mismatch(), None, "seed {seed}, step {step}");
        }
        let end = world.now + Duration::from_millis(50);
        world.run_until(end);
        assert_eq!(world.mismatch(), None, "seed {seed}, at the end");
        let sums = world.desk().sums();
        assert_eq!((sums.chips.waiting, sums.chips.queued), (0, 0), "seed {seed}");
        // Its chips have devices in the place of memory: what has channels is a computer's chip, at a port of the desk.
        let channels = (0..CHIPS).map(|n| *world.desk().chip(n).unwrap().former_channels());
        assert!(channels.into_iter().all(|counters| counters == Counters::default()), "seed {seed}");
        let got: u64 = world
            .devices
            .clone()
            .iter()
            .map(|device| {
                let device: &mut Device = world.network.node_mut(*device).unwrap();
                for (_, cell) in &device.got {
                    number_of(cell);
                }
                device.got.len() as u64
            })
            .sum();
        assert_eq!(got, sums.left, "seed {seed}");
        reasons.extend(sums.chips.received.drops().chain(sums.chips.sent.drops()).map(|(reason, _)| reason));
        let report = world.desk().report();
        former[0] += report.former_received.dropped(DropReason::LinkDown);
        former[1] += report.former_sent.dropped(DropReason::LinkDown);
        copied += sums.chips.copied;
    }
    let wanted = [DropReason::UnknownCircuit, DropReason::QueueFull, DropReason::LinkDown, DropReason::Closed];
    let missing: Vec<_> = wanted.iter().filter(|reason| !reasons.contains(reason)).collect();
    assert!(missing.is_empty() && copied > 100, "{missing:?}, {copied} copies");
    // Cells before their look-up, and copies after it, that were lost with chips that are no more.
    assert!(former.iter().all(|lost| *lost > 50), "{former:?}");
}

#[test]
fn cells_that_a_replaced_chip_held_are_counted_with_a_reason() {
    let mut world = World::new(1);
    let mut lost = BTreeMap::new();
    let layout = Layout { chip: Config::default(), ..world.desk().layout().clone() };
    world.desk().set_layout(layout).unwrap();
    let route = ((0, Label::Vc(vc(100))), (3, Label::Vc(vc(1100))));
    world.desk().add_route(route.0, route.1, RouteOptions::default()).unwrap();
    for number in 0..20 {
        let cell = Cell::new(CellHeader { circuit: vc(100), ..CellHeader::default() }, numbered(1, number));
        let device: &mut Device = world.network.node_mut(world.devices[0]).unwrap();
        device.to_send.push_back((Time::ZERO, cell));
    }
    world.run_until(Time::from_micros(4));
    let before = world.desk().sums();
    let held = before.chips.waiting + before.chips.queued;
    assert!(held > 0 && before.entered > before.left, "{before:?}");
    let layout = Layout { chip: small(13), ..world.desk().layout().clone() };
    world.desk().set_layout(layout).unwrap();
    let report = world.desk().report();
    for counters in [report.former_received, report.former_sent] {
        counters.drops().for_each(|(reason, n)| *lost.entry(reason).or_insert(0) += n);
    }
    assert_eq!(lost, BTreeMap::from([(DropReason::LinkDown, held)]));
    assert_eq!(report.former_received.cells, before.chips.received.cells);
    assert_eq!(world.mismatch(), None);
}

const PDUS: u32 = 4;
const OCTETS: u32 = 1000;
const RING: u64 = 0x1000;

/// Two computers at the ends of a desk's chain, each with a chip and memory of its own: PDUs from the first to the second.
struct Computers {
    network: Network,
    desk: NodeId,
    /// Sender and receiver.
    chips: [NodeId; 2],
    now: Time,
}

impl Computers {
    fn new() -> Self {
        let mut network = Network::new(FramePool::new(4, 256));
        let desk = Desk::new(Layout { chips: 2, ..Layout::default() }).unwrap();
        let desk = network.add_node("desk", Box::new(desk));
        let chips = ["sender", "receiver"].map(|name| {
            let node = ApicNode::with_memory(Config::default(), Flat::new(0, 1 << 17));
            network.add_node(name, Box::new(node))
        });
        for (n, (chip, port)) in chips.into_iter().zip([Port::Right, Port::Left]).enumerate() {
            let ends = (End::Port(chip, port.index() as u16), End::Port(desk, 2 + n as u16));
            network.connect(ends.0, ends.1, LinkConfig::default()).unwrap();
        }
        let mut computers = Computers { network, desk, chips, now: Time::ZERO };
        let desk: &mut Desk = computers.network.node_mut(desk).unwrap();
        let (from, to) = ((2, Label::Vc(vc(100))), (3, Label::Vc(vc(200))));
        desk.add_route(from, to, RouteOptions::default()).unwrap();
        computers.node(1).chip_mut().connect(Port::Left, vc(200), Connection::to_channel(0)).unwrap();
        computers.open(1);
        computers.run(Duration::from_micros(20));
        computers.open(0);
        computers
    }

    fn node(&mut self, which: usize) -> &mut ApicNode<Flat> {
        self.network.node_mut(self.chips[which]).unwrap()
    }

    /// Opens the channel of a computer, with a descriptor for each PDU.
    fn open(&mut self, which: usize) {
        let (now, node) = (self.now, self.node(which));
        let send = Direction::Transmit { connection: Connection::to(Port::Right, vc(100)), interval: 0 };
        let direction = [send, Direction::Receive { low_latency: false }][which];
        let (ring, interrupt) = (Ring { address: RING, entries: 16 }, Interrupt::Never);
        for n in 0..PDUS {
            let descriptor = Descriptor { offset: n * 0x1000, length: OCTETS, ..Descriptor::default() };
            node.memory_mut().write(RING + 16 * u64::from(n), &descriptor.to_octets()).unwrap();
        }
        let chip = node.chip_mut();
        let area = Area { owner: Owner(7), address: 0x10000, octets: 0x10000, writable: true };
        assert!(chip.set_area(0, Some(area)));
        chip.open(0, Channel { owner: Owner(7), aal: Aal::Aal5, direction, ring, interrupt }).unwrap();
        chip.write_page(0, PRODUCED, PDUS, now);
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        run_until(&mut self.network, &mut self.now, end);
        let desk: &mut Desk = self.network.node_mut(self.desk).unwrap();
        assert_eq!(desk.mismatch(), None);
        for which in 0..2 {
            let sums = self.node(which).chip().sums();
            assert!(sums.add_up(), "{sums:?}");
        }
    }

    /// What the channels of a computer have carried and lost, those that are no more included.
    fn counters(&mut self, which: usize) -> Counters {
        let chip = self.node(which).chip();
        let mut all = *chip.former_channels();
        chip.channel(0).into_iter().for_each(|counters| all.add(counters));
        all
    }
}

#[test]
fn each_pdu_of_computers_at_a_desk_was_delivered_or_dropped_when_their_channels_end() {
    const ALL: u64 = PDUS as u64;
    let mut seen = [[0; 2]; 2];
    for (nanos, which) in (10_000..90_000).step_by(700).flat_map(|nanos| [(nanos, 0), (nanos, 1)]) {
        let mut computers = Computers::new();
        computers.run(Duration::from_nanos(nanos));
        assert!(computers.node(which).chip_mut().close(0));
        let former = *computers.node(which).chip().former_channels();
        if which == 1 {
            computers.open(1);
        }
        computers.run(Duration::from_millis(10));
        let [sent, got] = [0, 1].map(|which| computers.counters(which));
        let case = format!("{nanos} ns, {which}: {sent:?} {got:?}");
        assert_eq!(former.dropped_total(), former.dropped(DropReason::Closed), "{case}");
        assert_eq!(sent.pdus + sent.dropped_total(), ALL, "{case}");
        let over = got.pdus + got.dropped_total();
        if which == 0 {
            // One may have begun to leave; its receiver is told that it has ended.
            assert!(got.pdus == sent.pdus && got.dropped_total() <= sent.dropped_total().min(1), "{case}");
        } else {
            // The rest of one that was arriving comes to the next channel, which drops it.
            assert!(over == ALL || over == ALL + 1 && former.dropped_total() > 0, "{case}");
        }
        seen[which] = [seen[which][0].max(former.pdus), seen[which][1].max(former.dropped_total())];
    }
    assert!(seen.as_flattened().iter().all(|n| *n > 0), "{seen:?}");
}
