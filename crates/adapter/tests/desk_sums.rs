//! Each cell of a desk is accounted for after each step: random cells, circuits that come and go, chips that lose their
//! power, and chips that are replaced while cells are in them.

mod device;
#[path = "device/desk.rs"]
mod of_desk;

use adapter::apic::Config;
use adapter::desk::{Desk, Layout};
use device::{Device, number_of, numbered, vc};
use net::random::Random;
use net::{Carries, Label, Network, NodeId, RouteOptions, RouteTable};
use of_desk::with_devices;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use traffic::{Category, Contract};
use wire::{Cell, CellHeader, CellRate, DropReason, Time};

const CHIPS: usize = 4;

fn small(queue_cells: usize) -> Config {
    Config { sram_cells: 24, reserved_cells: 4, queue_cells, cache: 3, miss_cells: 4, ..Config::default() }
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
        loop {
            while self.network.run(self.now) {}
            match self.network.poll_timeout().filter(|next| *next <= end) {
                Some(next) => self.now = next.max(self.now),
                None => break,
            }
        }
        self.now = end;
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
