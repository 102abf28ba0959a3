//! Desks of many chips in virtual time: what each circuit gets, what a chip without power cuts, and how long a cell of
//! low latency takes beside bulk data.

use crate::device::{Device, number_of, numbered, vc};
use crate::of_desk::with_devices;
use apic::desk::Shape;
use apic::desk::{Desk, Layout};
use apic::{Config, LOW_LATENCY_SLOTS, Port, Switches};
use net::random::Random;
use net::{Label, Network, NodeId, RouteError, RouteOptions, RouteTable};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use traffic::{Category, Contract};
use wire::{Cell, CellHeader, CellRate, DropReason, Time, Vpi};

fn cell(vci: u16, circuit: u32, number: u32) -> Cell {
    Cell::new(CellHeader { circuit: vc(vci), ..CellHeader::default() }, numbered(circuit, number))
}

/// A desk with a device at each port.
struct World {
    network: Network,
    desk: NodeId,
    devices: Vec<NodeId>,
    now: Time,
}

impl World {
    fn new(shape: Shape, chips: usize, chip: Config) -> Self {
        let layout = Layout { shape, chips, chip, ..Layout::default() };
        let (network, desk, devices) = with_devices(layout);
        World { network, desk, devices, now: Time::ZERO }
    }

    fn desk(&mut self) -> &mut Desk {
        self.network.node_mut(self.desk).unwrap()
    }

    fn device(&mut self, n: usize) -> &mut Device {
        self.network.node_mut(self.devices[n]).unwrap()
    }

    /// A circuit from one port to others, where it has `vci + 1000`.
    fn connect(&mut self, vci: u16, from: usize, to: &[usize], category: Category) -> Result<(), RouteError> {
        let pcr = CellRate::from_cells_per_s(1000.0);
        let options =
            RouteOptions { contract: Contract { category, pcr, ..Contract::default() }, ..RouteOptions::default() };
        for port in to {
            let (from, to) = ((from as u16, Label::Vc(vc(vci))), (*port as u16, Label::Vc(vc(vci + 1000))));
            self.desk().add_route(from, to, options)?;
        }
        Ok(())
    }

    fn settle(&mut self) {
        loop {
            while self.network.run(self.now) {}
            match self.network.poll_timeout() {
                Some(next) => self.now = next.max(self.now),
                None => break,
            }
        }
        assert_eq!(self.desk().mismatch(), None);
    }

    /// What has come to a device: circuit and number of each cell, by label.
    fn got(&mut self, n: usize) -> BTreeMap<u16, Vec<(u32, u32)>> {
        let mut by_label: BTreeMap<u16, Vec<(u32, u32)>> = BTreeMap::new();
        for (_, cell) in &self.device(n).got {
            by_label.entry(cell.circuit().vci.get()).or_default().push(number_of(cell));
        }
        by_label
    }

    /// Each cell that was given to the desk came out as often as its circuit has branches, or is counted as dropped.
    fn assert_conserved(&mut self, given: u64, copies: u64) {
        let report = self.desk().report();
        let (mut dropped, mut carried) = (0, 0);
        for chip in &report.chips {
            dropped += chip.received.iter().chain(&chip.sent).map(|counters| counters.dropped_total()).sum::<u64>();
            carried += chip.sent[Port::Memory.index()].cells;
        }
        let out: u64 = (0..self.devices.len()).map(|n| self.device(n).got.len() as u64).sum();
        assert!(out >= carried && given > 0);
        if dropped == 0 {
            assert_eq!(out, copies);
        }
    }
}

/// A circuit between each two chips, some cells each, none at the same time as others.
fn all_pairs(shape: Shape, chips: usize, off: Option<usize>) {
    // A chip in the middle of a chain has a connection for each pair that it is between.
    let config = Config { connections: 4096, ..Config::default() };
    let mut world = World::new(shape, chips, config);
    let pairs: Vec<(usize, usize)> = (0..chips).flat_map(|a| (0..chips).map(move |b| (a, b))).collect();
    // 64 chips have 4096 pairs: every fifth is as good.
    let pairs: Vec<_> = pairs.into_iter().step_by(if chips > 16 { 5 } else { 1 }).collect();
    for (i, (from, to)) in pairs.iter().enumerate() {
        world.connect(100 + i as u16, *from, &[*to], Category::Ubr).unwrap();
    }
    let send = |world: &mut World, number: u32| {
        let begin = world.now + Duration::from_micros(50);
        for (i, (from, _)) in pairs.iter().enumerate() {
            let at = begin + Duration::from_micros(20 * i as u64);
            world.device(*from).to_send.push_back((at, cell(100 + i as u16, i as u32, number)));
        }
        world.settle();
    };
    let through: Vec<BTreeSet<usize>> = pairs
        .iter()
        .enumerate()
        .map(|(i, (from, _))| world.desk().chips_of(*from as u16, vc(100 + i as u16)).into_iter().collect())
        .collect();
    send(&mut world, 0);
    if let Some(off) = off {
        let layout = Layout { off: BTreeSet::from([off]), ..world.desk().layout().clone() };
        world.desk().set_layout(layout).unwrap();
    }
    send(&mut world, 1);
    let layout = Layout { off: BTreeSet::new(), ..world.desk().layout().clone() };
    world.desk().set_layout(layout).unwrap();
    send(&mut world, 2);
    let mut got: Vec<_> = (0..chips).map(|n| world.got(n)).collect();
    let mut cut = 0;
    for (i, (from, to)) in pairs.iter().enumerate() {
        let cells = got[*to].remove(&(1100 + i as u16)).unwrap_or_default();
        assert!(cells.iter().all(|(circuit, _)| *circuit == i as u32));
        let numbers: Vec<u32> = cells.iter().map(|(_, number)| *number).collect();
        let passes = off.is_some_and(|off| through[i].contains(&off));
        cut += u64::from(passes);
        assert_eq!(numbers, if passes { vec![0, 2] } else { vec![0, 1, 2] }, "{shape:?} {from} to {to}, {off:?} off");
        assert!(through[i].contains(from) && through[i].contains(to));
    }
    assert!(got.iter().all(BTreeMap::is_empty), "nothing came elsewhere");
    let report = world.desk().report();
    let dropped = |reason| report.chips.iter().flat_map(|c| &c.received).map(|c| c.dropped(reason)).sum::<u64>();
    assert_eq!(dropped(DropReason::LinkDown), cut);
    if let Some(off) = off {
        assert!(cut > 0 && cut < pairs.len() as u64, "{shape:?}: chip {off} cuts some and not all: {cut}");
    }
}

#[test]
fn a_chain_of_16_carries_a_circuit_between_any_two_and_a_chip_that_is_off_cuts_what_passes_it() {
    all_pairs(Shape::Chain, 16, None);
    for off in [0, 7, 15] {
        all_pairs(Shape::Chain, 16, Some(off));
    }
}

#[test]
fn a_shuffle_of_64_carries_circuits_between_all_chips_and_a_chip_that_is_off_cuts_what_passes_it() {
    all_pairs(Shape::Shuffle, 64, None);
    for off in [0, 21, 63] {
        all_pairs(Shape::Shuffle, 64, Some(off));
    }
    all_pairs(Shape::Ring, 9, Some(4));
}

/// Each chip sends to one other, a cell every `gap` slots: cells that were lost, of how many.
fn lost(shape: Shape, chips: usize, gap: u32) -> (u64, u64) {
    const CELLS: u32 = 400;
    let mut world = World::new(shape, chips, Config::default());
    let slot = world.desk().chip(0).unwrap().slot_nanos();
    let mut targets: Vec<usize> = (0..chips).collect();
    Random::new(7).shuffle(&mut targets);
    for (from, to) in targets.iter().enumerate() {
        world.connect(100 + from as u16, from, &[*to], Category::Ubr).unwrap();
        let at = |n: u32| Time::from_nanos((f64::from(n * gap) * slot) as u64);
        let cells = (0..CELLS).map(|n| (at(n), cell(100 + from as u16, from as u32, n)));
        world.device(from).to_send.extend(cells);
    }
    world.settle();
    let report = world.desk().report();
    let carried: u64 = report.chips.iter().map(|chip| chip.sent[Port::Memory.index()].cells).sum();
    let dropped: u64 =
        report.chips.iter().flat_map(|c| c.received.iter().chain(&c.sent)).map(|c| c.dropped_total()).sum();
    let given = u64::from(CELLS) * chips as u64;
    assert_eq!(carried + dropped, given);
    (dropped, given)
}

#[test]
fn between_random_pairs_a_shuffle_carries_twice_what_a_chain_or_a_ring_does() {
    let [chain, ring, shuffle] = [Shape::Chain, Shape::Ring, Shape::Shuffle].map(|shape| {
        let least = [1, 2, 3, 4, 6, 8, 10, 12, 16].into_iter().find(|gap| lost(shape, 32, *gap).0 == 0).unwrap();
        println!("{shape:?} of 32, random pairs: a cell of each every {least} slots without loss");
        least
    });
    assert!(2 * shuffle <= ring.min(chain), "{shuffle} {ring} {chain}");
    // What is beyond is lost at the links that most ways share, and counted.
    let (dropped, given) = lost(Shape::Chain, 32, shuffle);
    assert!(dropped > given / 10, "{dropped} of {given}");
}

/// The longest and the shortest delay of a low-latency cell every 50 slots from the first chip to the last, beside
/// bulk data from each chip at full rate; in slots.
fn delays_beside_bulk(shape: Shape, chips: usize, bypass: bool) -> (f64, f64, usize) {
    let switches = Switches { bypass, ..Config::default().switches };
    let mut world = World::new(shape, chips, Config { switches, ..Config::default() });
    let slot = world.desk().chip(0).unwrap().slot_nanos();
    let (from, to) = (1, chips - 2);
    world.connect(50, from, &[to], Category::Cbr).unwrap();
    let hops = world.desk().chips_of(from as u16, vc(50)).len();
    for n in 0..chips {
        // Bulk to where it joins the way of the cells that matter.
        let target = if n < chips - 1 { chips - 1 } else { chips - 2 };
        world.connect(100 + n as u16, n, &[target], Category::Ubr).unwrap();
    }
    for n in 0..chips {
        let at = |i: u32| Time::from_nanos((f64::from(i) * slot) as u64);
        let own = (0..3000).map(|i| {
            let urgent = n == from && i % 50 == 25;
            (at(i), if urgent { cell(50, 50, i) } else { cell(100 + n as u16, 100 + n as u32, i) })
        });
        world.device(n).to_send.extend(own);
    }
    world.settle();
    let got = &world.device(to).got;
    let delays: Vec<f64> = got
        .iter()
        .filter(|(_, cell)| cell.circuit() == vc(1050))
        .map(|(at, cell)| at.as_nanos() as f64 / slot - f64::from(number_of(cell).1))
        .collect();
    if bypass {
        assert_eq!(delays.len(), 60, "each low-latency cell arrives");
    }
    let (most, least) = delays.iter().fold((0.0f64, f64::MAX), |(m, l), delay| (m.max(*delay), l.min(*delay)));
    (most, least, hops)
}

#[test]
fn a_circuit_of_constant_rate_keeps_its_bound_of_three_slots_a_chip_beside_bulk() {
    for (shape, chips) in [(Shape::Chain, 16), (Shape::Shuffle, 64), (Shape::Ring, 16)] {
        let (most, least, hops) = delays_beside_bulk(shape, chips, true);
        println!("{shape:?} of {chips}: {hops} chips, {least:.1} to {most:.1} slots");
        // Half a slot: the devices have their cells at whole nanoseconds.
        assert!(most <= (hops * LOW_LATENCY_SLOTS as usize) as f64 + 0.5, "{shape:?}: {most} over {hops} chips");
        assert!(least >= (2 * hops) as f64 - 0.5);
        let (without, ..) = delays_beside_bulk(shape, chips, false);
        assert!(without > 2.0 * most, "{shape:?}: without the bypass {without}, with it {most}");
    }
}

#[test]
fn a_camera_at_one_chip_reaches_a_display_a_host_that_looks_on_and_the_network_at_the_end_of_the_chain() {
    let mut world = World::new(Shape::Chain, 4, Config::default());
    let out = 4 + 1;
    world.connect(40, 1, &[3, 0, out], Category::Cbr).unwrap();
    for number in 0..100 {
        let at = Time::from_micros(10 * u64::from(number));
        world.device(1).to_send.push_back((at, cell(40, 9, number)));
    }
    world.settle();
    let all: Vec<_> = (0..100).map(|number| (9, number)).collect();
    for port in [3, 0, out] {
        assert_eq!(world.got(port), BTreeMap::from([(1040, all.clone())]), "port {port}");
    }
    assert!(world.got(2).is_empty());
    // The host looks away while cells come: the others miss nothing.
    let from = (1, Label::Vc(vc(40)));
    for number in 100..200 {
        let at = world.now + Duration::from_micros(10);
        world.device(1).to_send.push_back((at, cell(40, 9, number)));
        if number == 150 {
            assert!(world.desk().remove_route(from.0, from.1, Some(0)));
        }
        world.settle();
    }
    assert_eq!(world.got(3)[&1040].len(), 200);
    assert_eq!(world.got(0)[&1040].len(), 150);
    // The other way, from the network.
    world.connect(41, out, &[2], Category::Ubr).unwrap();
    let now = world.now;
    world.device(out).to_send.push_back((now, cell(41, 1, 1)));
    world.settle();
    assert_eq!(world.got(2), BTreeMap::from([(1041, vec![(1, 1)])]));
    assert!(world.desk().remove_route(from.0, from.1, None));
    assert!(!world.desk().remove_route(from.0, from.1, None));
    assert_eq!(world.desk().report().routes, 1);
}

#[test]
fn what_cannot_be_routed_is_refused_and_leaves_nothing_behind() {
    let mut world = World::new(Shape::Chain, 3, Config { connections: 4, cache: 2, ..Config::default() });
    assert_eq!(world.connect(40, 0, &[9], Category::Ubr), Err(RouteError::NoPort(9)));
    let path = Label::Vp(Vpi::default());
    assert_eq!(world.desk().add_route((0, path), (1, path), RouteOptions::default()), Err(RouteError::NoPaths));
    world.connect(40, 0, &[2], Category::Cbr).unwrap();
    assert_eq!(world.connect(40, 0, &[2], Category::Cbr), Err(RouteError::Exists(2)));
    // One low-latency connection fits on each chip; chip 0 is free again after the failure at chip 1.
    let refused = world.connect(41, 1, &[0], Category::Cbr).unwrap_err();
    assert!(refused.to_string().contains("low-latency"), "{refused}");
    let refused = world.connect(5000, 1, &[0], Category::Ubr).unwrap_err();
    assert!(refused.to_string().contains("VCI below 4096"), "{refused}");
    for vci in 42..45 {
        world.connect(vci, 1, &[0], Category::Ubr).unwrap();
    }
    let refused = world.connect(45, 1, &[0], Category::Ubr).unwrap_err();
    assert!(refused.to_string().contains("no entry left"), "{refused}");
    assert_eq!(world.desk().report().routes, 4);
    assert!(Desk::new(Layout { chips: 3, shape: Shape::Shuffle, ..Layout::default() }).is_err());
    assert!(Desk::new(Layout { off: BTreeSet::from([1]), ..Layout::default() }).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn in_any_shape_cells_of_different_circuits_never_mix(
        shape in prop_oneof![Just(Shape::Chain), Just(Shape::Ring), Just(Shape::Shuffle)],
        size in 1u32..5,
        circuits in proptest::collection::vec((0usize..64, proptest::collection::btree_set(0usize..64, 1..4)), 1..10),
        cells in proptest::collection::vec((0usize..10, 0u64..1_500), 1..300),
        gone in proptest::option::of(0usize..10),
    ) {
        let mut world = World::new(shape, 1 << size, Config::default());
        let ports = world.devices.len();
        let circuits: Vec<(usize, Vec<usize>)> = circuits.into_iter().map(|(from, to)| {
            let to: BTreeSet<usize> = to.into_iter().map(|n| n % ports).collect();
            (from % ports, to.into_iter().collect())
        }).collect();
        for (i, (from, to)) in circuits.iter().enumerate() {
            world.connect(100 + i as u16, *from, to, if i == 0 { Category::Cbr } else { Category::Ubr }).unwrap();
        }
        // A circuit that has ended leaves the others as they are.
        let gone = gone.filter(|gone| *gone < circuits.len());
        if let Some(gone) = gone {
            world.desk().remove_route(circuits[gone].0 as u16, Label::Vc(vc(100 + gone as u16)), None);
        }
        let mut sent = vec![0; circuits.len()];
        let (mut at, mut given, mut copies) = (Time::ZERO, 0, 0);
        for (circuit, gap) in cells {
            at += Duration::from_nanos(gap);
            let circuit = circuit % circuits.len();
            sent[circuit] += 1;
            given += 1;
            copies += if gone == Some(circuit) { 0 } else { circuits[circuit].1.len() as u64 };
            let cell = cell(100 + circuit as u16, circuit as u32, sent[circuit] - 1);
            world.device(circuits[circuit].0).to_send.push_back((at, cell));
        }
        world.settle();
        let mut out = 0;
        for port in 0..ports {
            for (label, got) in world.got(port) {
                let circuit = usize::from(label - 1100);
                prop_assert!(circuits[circuit].1.contains(&port) && gone != Some(circuit), "{label} came to {port}");
                prop_assert!(got.iter().all(|(of, _)| *of as usize == circuit), "{label}: {got:?}");
                prop_assert!(got.is_sorted_by(|a, b| a.1 < b.1), "{label}: {got:?}");
                out += got.len() as u64;
            }
        }
        prop_assert!(out <= copies);
        if gone.is_none() {
            world.assert_conserved(given, copies);
        }
    }
}
