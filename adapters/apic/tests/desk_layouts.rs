//! Circuits of a desk whose layout changes: which have their ways in other chips, and which have them again in those of before.

use crate::device::{Device, number_of, numbered, vc};
use crate::of_desk::with_devices;
use apic::Config;
use apic::desk::Shape;
use apic::desk::{Desk, Layout};
use net::{Label, Network, NodeId, RouteError, RouteOptions, RouteTable};
use std::collections::BTreeSet;
use traffic::{Category, Contract};
use wire::{Cell, CellHeader, CellRate, Time};

/// A ring of four with a device at each port.
struct World {
    network: Network,
    desk: NodeId,
    devices: Vec<NodeId>,
    now: Time,
}

fn layout(chips: usize, cache: usize) -> Layout {
    Layout { shape: Shape::Ring, chips, chip: Config { cache, ..Config::default() }, ..Layout::default() }
}

fn label(port: u16, vci: u16) -> (u16, Label) {
    (port, Label::Vc(vc(vci)))
}

impl World {
    fn new(layout: Layout) -> Self {
        let (network, desk, devices) = with_devices(layout);
        World { network, desk, devices, now: Time::ZERO }
    }

    fn desk(&mut self) -> &mut Desk {
        self.network.node_mut(self.desk).unwrap()
    }

    /// A circuit has one branch more, under the same label.
    fn add(&mut self, vci: u16, from: u16, to: u16, category: Category) -> Result<(), RouteError> {
        let contract = Contract { category, pcr: CellRate::from_cells_per_s(1000.0), ..Contract::default() };
        let options = RouteOptions { contract, ..RouteOptions::default() };
        self.desk().add_route(label(from, vci), label(to, vci), options)
    }

    /// Circuits over it, and how many other chips had no room for.
    fn counts(&mut self) -> (usize, u64) {
        let report = self.desk().report();
        (report.routes, report.lost_routes)
    }

    /// Which devices get a cell that is sent at a port, each its circuit's.
    fn reached(&mut self, from: u16, vci: u16) -> BTreeSet<usize> {
        let cell = Cell::new(CellHeader { circuit: vc(vci), ..CellHeader::default() }, numbered(vci.into(), 1));
        let now = self.now;
        let sender: &mut Device = self.network.node_mut(self.devices[usize::from(from)]).unwrap();
        sender.to_send.push_back((now, cell));
        loop {
            while self.network.run(self.now) {}
            match self.network.poll_timeout() {
                Some(next) => self.now = next.max(self.now),
                None => break,
            }
        }
        assert_eq!(self.desk().mismatch(), None);
        let mut reached = BTreeSet::new();
        for (n, device) in self.devices.clone().into_iter().enumerate() {
            let device: &mut Device = self.network.node_mut(device).unwrap();
            for (_, cell) in core::mem::take(&mut device.got) {
                assert_eq!((cell.circuit(), number_of(&cell)), (vc(vci), (vci.into(), 1)));
                assert!(reached.insert(n), "twice at {n}");
            }
        }
        reached
    }

    /// Which of some circuits between two devices carry cells.
    fn carried(&mut self, circuits: impl IntoIterator<Item = u16>) -> Vec<u16> {
        circuits.into_iter().filter(|vci| self.reached(0, *vci) == BTreeSet::from([2])).collect()
    }
}

#[test]
fn circuits_that_other_chips_have_no_room_for_have_their_ways_again_in_those_of_before() {
    let mut world = World::new(layout(4, 8));
    for vci in 40..47 {
        world.add(vci, 0, 2, Category::Cbr).unwrap();
    }
    // One of low latency fits on each chip.
    world.desk().set_layout(layout(4, 2)).unwrap();
    assert_eq!((world.counts(), world.carried(40..47)), ((1, 6), vec![40]));
    // What has no way can be taken away, once, and can have no other branch.
    assert!(world.desk().remove_route(0, label(0, 46).1, None));
    assert!(!world.desk().remove_route(0, label(0, 46).1, None));
    let refused = world.add(45, 0, 1, Category::Cbr).unwrap_err().to_string();
    assert!(refused.contains("no room"), "{refused}");
    world.desk().set_layout(layout(4, 8)).unwrap();
    assert_eq!((world.counts(), world.carried(40..47)), ((6, 6), (40..46).collect()));
    // Another contract counts from the next chips on.
    world.desk().set_layout(layout(4, 2)).unwrap();
    world.desk().change_route(label(0, 45), label(2, 45), RouteOptions::default()).unwrap();
    assert_eq!((world.counts(), world.carried(40..47)), ((1, 11), vec![40]));
    let other = Config { queue_cells: 99, ..layout(4, 2).chip };
    world.desk().set_layout(Layout { chip: other, ..layout(4, 2) }).unwrap();
    assert_eq!((world.counts(), world.carried(40..47)), ((2, 11), vec![40, 45]));
}

#[test]
fn what_had_its_way_until_now_has_it_before_what_had_none() {
    let mut world = World::new(layout(4, 5));
    for vci in 40..44 {
        world.add(vci, 0, 2, Category::Cbr).unwrap();
    }
    world.desk().set_layout(layout(4, 3)).unwrap();
    assert_eq!(world.carried(40..50), [40, 41]);
    // Their places are others' now, with higher labels than those that have none.
    for vci in [40, 41] {
        assert!(world.desk().remove_route(0, label(0, vci).1, None));
    }
    for vci in [48, 49] {
        world.add(vci, 0, 2, Category::Cbr).unwrap();
    }
    assert_eq!(world.carried(40..50), [48, 49]);
    for cache in [2, 3] {
        world.desk().set_layout(layout(4, cache)).unwrap();
        assert_eq!(world.carried(40..50), if cache == 2 { vec![48] } else { vec![48, 49] });
    }
    world.desk().set_layout(layout(4, 5)).unwrap();
    assert_eq!((world.carried(40..50), world.counts().0), (vec![42, 43, 48, 49], 4));
}

#[test]
fn circuits_to_and_from_chips_that_go_have_their_ways_again_when_the_chips_come_back() {
    let mut world = World::new(layout(4, 64));
    for to in [1, 3] {
        world.add(40, 0, to, Category::Ubr).unwrap();
    }
    world.add(41, 0, 3, Category::Ubr).unwrap();
    world.add(42, 3, 1, Category::Ubr).unwrap();
    world.desk().set_layout(layout(2, 64)).unwrap();
    assert_eq!(world.counts(), (1, 2));
    assert_eq!([40, 41].map(|vci| world.reached(0, vci)), [BTreeSet::from([1]), BTreeSet::new()]);
    world.desk().set_layout(layout(4, 64)).unwrap();
    assert_eq!(world.counts(), (3, 2));
    let reached = [(0, 40), (0, 41), (3, 42)].map(|(from, vci)| world.reached(from, vci));
    assert_eq!(reached, [BTreeSet::from([1, 3]), BTreeSet::from([3]), BTreeSet::from([1])]);
}

#[test]
fn branches_come_and_go_one_by_one_in_any_shape_and_the_others_stay() {
    for shape in [Shape::Chain, Shape::Ring, Shape::Shuffle] {
        let mut world = World::new(Layout { shape, ..layout(16, 64) });
        let mut reached = BTreeSet::new();
        for to in (0..16).map(|n| n * 7 % 16) {
            world.add(40, 5, to, Category::Ubr).unwrap();
            reached.insert(usize::from(to));
            assert_eq!(world.reached(5, 40), reached, "{shape:?}");
        }
        // All anew, and with the bypass.
        world.desk().set_layout(Layout { shape, ..layout(16, 32) }).unwrap();
        assert_eq!(world.reached(5, 40), reached, "{shape:?}");
        let contract = Contract { low_latency: true, ..Contract::default() };
        let options = RouteOptions { contract, ..RouteOptions::default() };
        world.desk().change_route(label(5, 40), label(0, 40), options).unwrap();
        for to in (0..16).map(|n| n * 11 % 16) {
            assert!(world.desk().remove_route(5, label(5, 40).1, Some(to)));
            reached.remove(&usize::from(to));
            assert_eq!(world.reached(5, 40), reached, "{shape:?}");
        }
        assert_eq!(world.counts(), (0, 0));
        // Nothing of it is left in the chips: each takes as many of low latency as it ever did.
        for vci in 100..131 {
            world.add(vci, 0, 2, Category::Cbr).unwrap();
        }
    }
}

#[test]
fn chips_lose_their_power_a_few_at_once_and_a_change_in_between_begins_anew() {
    let mut world = World::new(layout(40, 64));
    let off = |n: usize| Desk::new(Layout { off: (0..n).collect(), ..layout(40, 64) }).unwrap();
    let powered = |world: &mut World| world.desk().report().chips.iter().filter(|chip| chip.power).count();
    drop(world.desk().become_like(off(40)));
    assert_eq!(powered(&mut world), 40);
    assert!(world.desk().settle(128));
    assert_eq!(powered(&mut world), 24, "eight links cost as much as a chip");
    // Half of what is off already shall have power again.
    drop(world.desk().become_like(off(8)));
    assert!((0..3).all(|_| world.desk().settle(128)) && !world.desk().settle(128));
    assert_eq!(powered(&mut world), 32);
    // Chips that are new have it when they come.
    drop(world.desk().become_like(off(40)));
    let chips = Layout { off: [3].into(), ..layout(30, 32) };
    drop(world.desk().become_like(Desk::new(chips).unwrap()));
    assert_eq!(powered(&mut world), 29);
    assert!(!world.desk().settle(128));
    assert_eq!(powered(&mut world), 29);
}
