//! Chips in a chain, each with a device: where cells go, what is lost and when, and what a low-latency connection has
//! of its bypass.

use crate::device::{Device, number_of, numbered, vc};
use apic::{Apic, ApicNode, Config, Connection, ConnectionError, LOW_LATENCY_SLOTS, Port, Switches, to_octets};
use bus::memory::NoMemory;
use net::{End, FramePool, LinkConfig, Network, NodeId};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{Cell, CellHeader, CircuitId, DropReason, PayloadType, Time};

/// A cell that says which circuit it is of, and which of its cells.
fn cell(label: CircuitId, circuit: u32, number: u32) -> Cell {
    let payload_type = PayloadType::User { congestion: false, end: number % 4 == 3 };
    Cell::new(CellHeader { circuit: label, payload_type, clp: false }, numbered(circuit, number))
}

/// Chips in a line, each with a device.
struct Chain {
    network: Network,
    chips: Vec<NodeId>,
    devices: Vec<NodeId>,
    now: Time,
}

impl Chain {
    fn new(chips: usize, config: Config) -> Self {
        let mut network = Network::new(FramePool::new(4, 256));
        let nodes: Vec<_> =
            (0..chips).map(|n| network.add_node(&format!("chip{n}"), Box::new(ApicNode::new(config)))).collect();
        let devices: Vec<_> =
            (0..chips).map(|n| network.add_node(&format!("device{n}"), Box::<Device>::default())).collect();
        for n in 0..chips {
            let link = LinkConfig::default();
            network.connect(End::Port(devices[n], 0), End::Port(nodes[n], 2), link.clone()).unwrap();
            if n > 0 {
                network.connect(End::Port(nodes[n - 1], 1), End::Port(nodes[n], 0), link).unwrap();
            }
        }
        Chain { network, chips: nodes, devices, now: Time::ZERO }
    }

    fn chip(&mut self, n: usize) -> &mut Apic {
        self.network.node_mut::<ApicNode>(self.chips[n]).unwrap().chip_mut()
    }

    fn device(&mut self, n: usize) -> &mut Device {
        self.network.node_mut(self.devices[n]).unwrap()
    }

    /// A circuit from one device to others, under one label everywhere but at the devices that it goes to, where it
    /// has `vci + 1000`.
    fn connect(&mut self, vci: u16, from: usize, to: &[usize], low_latency: bool) {
        let (low, high) = to.iter().fold((from, from), |(low, high), n| (low.min(*n), high.max(*n)));
        for n in low..=high {
            let mut connection = Connection { low_latency, ..Connection::default() };
            if to.contains(&n) {
                connection = connection.and(Port::Memory, vc(vci + 1000));
            }
            if n <= from && n > low {
                connection = connection.and(Port::Left, vc(vci));
            }
            if n >= from && n < high {
                connection = connection.and(Port::Right, vc(vci));
            }
            let input = match n.cmp(&from) {
                std::cmp::Ordering::Less => Port::Right,
                std::cmp::Ordering::Equal => Port::Memory,
                std::cmp::Ordering::Greater => Port::Left,
            };
            self.chip(n).connect(input, vc(vci), connection).unwrap();
        }
    }

    fn settle(&mut self) {
        loop {
            while self.network.run(self.now) {}
            match self.network.poll_timeout() {
                Some(next) => self.now = next.max(self.now),
                None => return,
            }
        }
    }

    /// What has come to a device: circuit and number of each cell, by label.
    fn got(&mut self, n: usize) -> BTreeMap<u16, Vec<(u32, u32)>> {
        let mut by_label: BTreeMap<u16, Vec<(u32, u32)>> = BTreeMap::new();
        for (_, cell) in &self.device(n).got {
            by_label.entry(cell.circuit().vci.get()).or_default().push(number_of(cell));
        }
        by_label
    }
}

/// Each cell that came in left by as many outputs as its connection has, or is counted by the reason why not.
fn assert_conserved(chip: &Apic, connections: impl Iterator<Item = (Port, CircuitId)>) {
    let (waiting, copies_waiting) = chip.held();
    let received: u64 = Port::ALL.iter().map(|port| chip.received(*port).cells).sum();
    let dropped: u64 = Port::ALL.iter().map(|port| chip.received(*port).dropped_total()).sum();
    let (mut cells, mut copies) = (0, 0);
    for (port, label) in connections {
        if let Some((connection, n)) = chip.connection(port, label) {
            cells += n;
            copies += n * connection.copies() as u64;
        }
    }
    assert_eq!(received, dropped + cells + waiting as u64);
    assert_eq!(copies, chip.monitor().copies);
    let left: u64 = Port::ALL.iter().map(|port| chip.sent(*port).cells + chip.sent(*port).dropped_total()).sum();
    assert_eq!(copies, left + copies_waiting as u64);
    assert!(chip.sums().add_up(), "{:?}", chip.sums());
}

fn small() -> Config {
    Config { sram_cells: 24, reserved_cells: 4, queue_cells: 12, cache: 3, miss_cells: 4, ..Config::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cells_of_different_circuits_never_mix_and_none_is_lost_uncounted(
        chips in 1usize..6,
        tight in any::<bool>(),
        circuits in proptest::collection::vec((0usize..6, proptest::collection::btree_set(0usize..6, 1..4)), 1..8),
        cells in proptest::collection::vec((0usize..9, 0u64..2_000), 1..400),
    ) {
        let mut chain = Chain::new(chips, if tight { small() } else { Config::default() });
        let circuits: Vec<(usize, Vec<usize>)> = circuits.into_iter().map(|(from, to)| {
            let mut to: Vec<usize> = to.into_iter().map(|n| n % chips).collect();
            to.sort_unstable();
            to.dedup();
            (from % chips, to)
        }).collect();
        for (i, (from, to)) in circuits.iter().enumerate() {
            chain.connect(100 + i as u16, *from, to, i == 0);
        }
        let mut sent = vec![0; circuits.len()];
        let mut at = Time::ZERO;
        for (circuit, gap) in cells {
            at += Duration::from_nanos(gap);
            // One more than there are: a label that leads nowhere.
            let circuit = circuit % (circuits.len() + 1);
            let (from, number) = match circuits.get(circuit) {
                Some((from, _)) => { sent[circuit] += 1; (*from, sent[circuit] - 1) }
                None => (0, 0),
            };
            let label = vc(100 + circuit as u16);
            chain.device(from).to_send.push_back((at, cell(label, circuit as u32, number)));
        }
        chain.settle();
        for device in 0..chips {
            for (label, got) in chain.got(device) {
                let circuit = usize::from(label - 1100);
                prop_assert!(circuits[circuit].1.contains(&device), "{label} came to {device}");
                prop_assert!(got.iter().all(|(of, _)| *of as usize == circuit), "{label}: {got:?}");
                prop_assert!(got.is_sorted_by(|a, b| a.1 < b.1), "{label}: {got:?}");
            }
        }
        if !tight {
            for (i, (_, to)) in circuits.iter().enumerate() {
                for device in to {
                    let got = chain.got(*device).remove(&(1100 + i as u16)).map_or(0, |got| got.len());
                    prop_assert_eq!(got, sent[i] as usize, "circuit {} at {}", i, device);
                }
            }
        }
        for n in 0..chips {
            let labels = (0..circuits.len()).flat_map(|i| Port::ALL.map(|port| (port, vc(100 + i as u16))));
            assert_conserved(chain.chip(n), labels);
            prop_assert_eq!(chain.chip(n).held(), (0, 0));
        }
    }
}

/// Longest and shortest delay of a low-latency cell every 50 slots through 16 chips, each of which is offered twice
/// what its link carries; in slots.
fn delays_beside_bulk(bypass: bool) -> (f64, f64) {
    const CHIPS: usize = 16;
    let switches = Switches { bypass, ..Config::default().switches };
    let mut chain = Chain::new(CHIPS, Config { switches, ..Config::default() });
    let slot = chain.chip(0).slot_nanos();
    chain.connect(50, 0, &[CHIPS - 1], true);
    for n in 0..CHIPS - 1 {
        chain.connect(100 + n as u16, n, &[n + 1, (n + 2).min(CHIPS - 1)], false);
    }
    for n in 0..CHIPS - 1 {
        let bulk = vc(100 + n as u16);
        let at = |i: u32| Time::from_nanos((f64::from(i) * slot) as u64);
        let own = (0..4000).map(|i| {
            // The low-latency cell is a 51st of what the first device has.
            let urgent = n == 0 && i % 50 == 25;
            (at(i), if urgent { cell(vc(50), 50, i) } else { cell(bulk, 100 + n as u32, i) })
        });
        chain.device(n).to_send.extend(own);
    }
    chain.settle();
    let got = &chain.device(CHIPS - 1).got;
    let delays: Vec<f64> = got
        .iter()
        .filter(|(_, cell)| cell.circuit() == vc(1050))
        .map(|(at, cell)| at.as_nanos() as f64 / slot - f64::from(number_of(cell).1))
        .collect();
    assert_eq!(delays.len(), 80, "each low-latency cell arrives");
    let dropped: u64 = (0..CHIPS).map(|n| chain.chip(n).sent(Port::Right).dropped(DropReason::QueueFull)).sum();
    assert!(dropped > 10_000, "the links are overloaded: {dropped}");
    delays.iter().fold((0.0f64, f64::MAX), |(most, least), delay| (most.max(*delay), least.min(*delay)))
}

#[test]
fn a_low_latency_cell_passes_16_overloaded_chips_within_three_cell_times_each() {
    let (with, least) = delays_beside_bulk(true);
    // Half a slot: the device has its cells at whole nanoseconds, and the first chip's slots begin with the first
    // cell.
    assert!(with <= 16.0 * f64::from(LOW_LATENCY_SLOTS) + 0.5, "{with}");
    assert!(least >= 16.0 * 2.0 - 0.5, "{least}");
    let (without, _) = delays_beside_bulk(false);
    assert!(without > 8.0 * with, "without the bypass {without}, with it {with}");
}

#[test]
fn a_chip_that_is_off_cuts_exactly_what_passes_through_it() {
    const CHIPS: usize = 16;
    for off in [0, 7, 15] {
        let mut chain = Chain::new(CHIPS, Config { connections: 1024, ..Config::default() });
        let pairs: Vec<(usize, usize)> = (0..CHIPS).flat_map(|a| (0..CHIPS).map(move |b| (a, b))).collect();
        for (i, (from, to)) in pairs.iter().enumerate() {
            chain.connect(100 + i as u16, *from, &[*to], false);
        }
        let send = |chain: &mut Chain, number: u32| {
            let now = chain.now;
            for (i, (from, _)) in pairs.iter().enumerate() {
                let at = now + Duration::from_micros(20 * i as u64);
                chain.device(*from).to_send.push_back((at, cell(vc(100 + i as u16), i as u32, number)));
            }
            chain.settle();
        };
        send(&mut chain, 0);
        chain.chip(off).set_power(false);
        send(&mut chain, 1);
        chain.chip(off).set_power(true);
        send(&mut chain, 2);
        let got: Vec<_> = (0..CHIPS).map(|n| chain.got(n)).collect();
        for (i, (from, to)) in pairs.iter().enumerate() {
            let numbers: Vec<u32> = got[*to][&(1100 + i as u16)].iter().map(|(_, number)| *number).collect();
            let through = (*from.min(to)..=*from.max(to)).contains(&off);
            assert_eq!(numbers, if through { vec![0, 2] } else { vec![0, 1, 2] }, "{from} to {to}, {off} off");
        }
        // What it cut is counted there.
        let cut = pairs.iter().filter(|(a, b)| (*a.min(b)..=*a.max(b)).contains(&off)).count() as u64;
        let counted: u64 = Port::ALL.iter().map(|p| chain.chip(off).received(*p).dropped(DropReason::LinkDown)).sum();
        assert_eq!(counted, cut);
    }
}

#[test]
fn a_cameras_cells_go_to_the_display_to_the_network_and_back_to_where_they_came_from() {
    let mut chain = Chain::new(3, Config::default());
    // The camera at chip 1; a display at 0, the world behind 2, and the camera's own look at its picture.
    chain.connect(40, 1, &[0, 1, 2], false);
    // A loopback at a link: what comes to 2 from its left goes back there, and on to the device of 1.
    chain.chip(1).connect(Port::Memory, vc(41), Connection::to(Port::Right, vc(41))).unwrap();
    chain.chip(2).connect(Port::Left, vc(41), Connection::to(Port::Left, vc(42))).unwrap();
    chain.chip(1).connect(Port::Right, vc(42), Connection::to(Port::Memory, vc(43))).unwrap();
    for number in 0..50 {
        let send = &mut chain.device(1).to_send;
        send.push_back((Time::ZERO, cell(vc(40), 40, number)));
        send.push_back((Time::ZERO, cell(vc(41), 41, number)));
    }
    chain.settle();
    let all = |circuit| (0..50).map(|number| (circuit, number)).collect::<Vec<_>>();
    for n in 0..3 {
        assert_eq!(chain.got(n)[&1040], all(40));
    }
    assert_eq!(chain.got(1)[&43], all(41));
    // Three copies in three chips, of which each cell was stored once.
    assert_eq!(chain.chip(1).monitor().copies, 50 * 3 + 50 + 50);
}

#[test]
fn a_miss_costs_its_fetch_and_a_connection_in_use_has_none() {
    let run = |cache: bool, circuits: u16| {
        let switches = Switches { cache, ..Config::default().switches };
        let config = Config { switches, cache: 8, ..Config::default() };
        let mut chain = Chain::new(1, config);
        for n in 0..circuits {
            chain.connect(100 + n, 0, &[0], false);
        }
        let mut sent = BTreeMap::new();
        for i in 0..400u32 {
            let at = Time::from_micros(5 * u64::from(i));
            let label = vc(100 + i as u16 % circuits);
            sent.insert(i, at);
            chain.device(0).to_send.push_back((at, cell(label, 0, i)));
        }
        chain.settle();
        let got = &chain.device(0).got;
        let delay: u64 = got.iter().map(|(at, cell)| (at.as_nanos() - sent[&number_of(cell).1].as_nanos()) / 400).sum();
        assert_eq!(got.len(), 400);
        (chain.chip(0).monitor().misses, delay)
    };
    let (none, fast) = run(false, 100);
    assert_eq!(none, 0);
    // Eight fit: each is fetched once.
    assert_eq!(run(true, 8).0, 8);
    // More than fit, in turns: each cell is a miss, and waits for 2 us longer.
    let (all, slow) = run(true, 100);
    assert_eq!(all, 400);
    assert!(slow.abs_diff(fast + 2000) < 400, "{slow} and {fast} ns");
}

#[test]
fn low_latency_connections_have_places_on_the_chip_and_in_its_memory_that_others_cannot_take() {
    let config = Config { cache: 3, sram_cells: 16, reserved_cells: 4, queue_cells: 64, ..Config::default() };
    let mut chip = Apic::new(config);
    let out = Connection::to(Port::Right, vc(1));
    for n in 0..2 {
        chip.connect(Port::Memory, vc(32 + n), out.low_latency()).unwrap();
    }
    assert_eq!(chip.connect(Port::Memory, vc(34), out.low_latency()), Err(ConnectionError::CacheFull(2)));
    assert_eq!(chip.connect(Port::Memory, vc(32), out), Err(ConnectionError::InUse(vc(32))));
    assert_eq!(chip.connect(Port::Left, vc(5000), out), Err(ConnectionError::Label(vc(5000))));
    for port in Port::ALL {
        chip.connect(port, vc(50), out).unwrap();
    }
    // Three inputs to one output: the memory fills with bulk, but for what is reserved.
    let mut now = Time::ZERO;
    for i in 0..100 {
        for port in Port::ALL {
            let urgent = port == Port::Memory && i == 90;
            chip.handle_cell(port, &cell(if urgent { vc(32) } else { vc(50) }, 0, i), now);
        }
        while !chip.handle_timeout(now, &mut NoMemory) {
            now = chip.poll_timeout().unwrap();
        }
    }
    assert_eq!(chip.monitor().most_stored, 13, "12 of others and one of low latency");
    assert!(chip.received(Port::Right).dropped(DropReason::NoBuffer) > 30);
    assert_eq!(chip.connection(Port::Memory, vc(32)).unwrap().1, 1);
}

#[test]
fn framers_correct_one_bit_of_a_header_and_drop_a_cell_of_two_wrong_bits() {
    let mut chip = Apic::new(Config::default());
    chip.connect(Port::Left, vc(77), Connection::to(Port::Right, vc(78))).unwrap();
    let octets = to_octets(&cell(vc(77), 7, 0));
    assert!(wire::hec::syndrome(octets[..5].try_into().unwrap()) == 0);
    let mut now = Time::ZERO;
    let mut left = Vec::new();
    for bits in [&[][..], &[20], &[], &[9, 30], &[3], &[]] {
        let mut octets = octets;
        bits.iter().for_each(|bit: &usize| octets[bit / 8] ^= 0x80 >> (bit % 8));
        chip.handle_octets(Port::Left, &octets, now);
        while let Some(next) = chip.poll_timeout() {
            now = next.max(now);
            chip.handle_timeout(now, &mut NoMemory);
            left.extend(chip.poll_cell(Port::Right));
        }
    }
    assert_eq!(left.len(), 4, "after an uncorrectable header one wrong bit is not corrected either (I.432.1)");
    assert!(left.iter().all(|cell| cell.circuit() == vc(78) && number_of(cell) == (7, 0)));
    assert_eq!(chip.received(Port::Left).dropped(DropReason::HeaderError), 2);
}

#[test]
fn a_connection_that_ends_drops_what_waits_for_its_state() {
    let mut chip = Apic::new(Config::default());
    chip.connect(Port::Left, vc(77), Connection::to(Port::Right, vc(78))).unwrap();
    chip.handle_cell(Port::Left, &cell(vc(77), 7, 0), Time::ZERO);
    assert!(chip.handle_timeout(Time::ZERO, &mut NoMemory));
    assert_eq!(chip.held(), (1, 0));
    assert!(chip.disconnect(Port::Left, vc(77)) && !chip.disconnect(Port::Left, vc(77)));
    assert_eq!((chip.held(), chip.received(Port::Left).dropped(DropReason::Closed)), ((0, 0), 1));
    assert!(chip.connection(Port::Left, vc(77)).is_none());
}
