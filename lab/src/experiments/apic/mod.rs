//! Seed 002 (Kazantzidis 1997), section 3: the APIC's mechanisms on the real chips in virtual time, each with and without.

mod area;
mod chip;

use super::networks::chip_of;
use crate::experiment::{Experiment, Figure, Origin, Run, Test};
use crate::model::ProfileError;
use apic::desk::Shape;
use apic::desk::device::{Camera, CameraSettings, Display, DisplaySettings, Shell};
use apic::desk::{Desk, Layout};
use apic::{Config, LOW_LATENCY_SLOTS, Switches};
use area::Area;
use core::time::Duration;
use net::{CircuitNotice, End, FrameAal, FramePool, Label, LinkConfig, Network, RouteOptions, RouteTable};
use traffic::{Category, Contract};
use wire::{CellRate, CircuitId, Time};

/// See the module's head.
#[derive(Debug)]
pub struct Apic;

impl Experiment for Apic {
    fn name(&self) -> &'static str {
        "seed002-apic"
    }

    fn title(&self) -> &'static str {
        "APICs and desks of them in virtual time, each mechanism with and without"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let machine = run.machine("apic")?;
        let config = chip_of(&machine)?;
        shapes(run, config);
        bottleneck(run, config);
        streams(run, config);
        memory(run, config);
        low_latency(run, config);
        connections(run, config);
        Ok(())
    }
}

/// Cells all the way along a chain of 16 chips, or none.
fn chain(config: Config) -> Option<bool> {
    let mut area = Area::new(Shape::Chain, 16, config)?;
    let slot = Duration::from_nanos(1000);
    for (vci, from, to) in [(100, 0, 15), (101, 15, 0), (102, 3, 12), (103, 12, 3)] {
        area.connect(vci, from, &[to], false)?;
        area.send(vci, from, 400, slot)?;
    }
    area.settle();
    Some([(100, 15), (101, 0), (102, 12), (103, 3)].into_iter().all(|(vci, port)| area.has_all(port, vci, 400)))
}

/// Circuits from each of 64 chips to another: the most chips that one of them passes, and whether all cells came.
fn shuffle(config: Config) -> Option<(usize, bool)> {
    const CHIPS: usize = 64;
    let mut area = Area::new(Shape::Shuffle, CHIPS, config)?;
    // Seven and 64 have no common divisor: each chip is at the end of one circuit.
    let pairs: Vec<(u16, usize, usize)> = (0..CHIPS).map(|n| (100 + n as u16, n, (n * 7 + 5) % CHIPS)).collect();
    let mut most = 0;
    for (vci, from, to) in &pairs {
        area.connect(*vci, *from, &[*to], false)?;
        area.send(*vci, *from, 50, Duration::from_nanos(353 * 16))?;
        most = most.max(area.desk()?.chips_of(*from as u16, CircuitId::new(0, *vci)?).len());
    }
    area.settle();
    let all = pairs.iter().filter(|(vci, _, to)| area.has_all(*to, *vci, 50)).count();
    Some((most, all == CHIPS))
}

fn shapes(run: &mut Run<'_>, config: Config) {
    let (along, across) = (chain(config), shuffle(config));
    run.words(
        "C-14",
        "The linear topology for interconnecting the I/O devices is not constraining",
        Test::new(
            along == Some(true) && across.is_some_and(|(_, all)| all),
            "a chain of 16 chips and a perfect shuffle of 64 deliver each cell of each circuit once and in order",
            "a cell less, twice, or out of order",
        ),
        "four circuits along the chain with 400 cells each, one from each chip of the shuffle with 50",
    );
    let most = across.map_or(0, |(most, _)| most);
    run.words(
        "C-14",
        "perfect shuffle network which would guarantee a O(logn) hops for every device",
        Test::new(
            (1..=7).contains(&most),
            "no circuit of 64 chips passes more than log2 64 links, which are seven chips",
            "a circuit that passes eight chips",
        ),
        format!("the longest of 64 circuits passes {most} chips; a chain would have up to 64"),
    );
}

fn bottleneck(run: &mut Run<'_>, config: Config) {
    let full = run.ran(chip::full_load(config, true), "a part of the model");
    run.identity("C-15", "sustained aggregate bi-directional data rate", "Gbit/s", 2.4, 1, full.transit_gbit_s)
        .note("two links of 1.2 Gbit/s each way, of 53 octets a cell; no cell is lost in transit");
    let gift = Config { memory_bits_per_s: 1e10, memory_setup: Duration::ZERO, ..config };
    let (alone, fast) = (
        run.ran(chip::full_load(config, false), "a part of the model"),
        run.ran(chip::full_load(gift, true), "a part of the model"),
    );
    run.words(
        "C-15",
        "The effective memory bandwidth is normally no more than 500Mbps",
        Test::new(
            full.memory_mbit_s < 500.0
                && fast.memory_mbit_s > 900.0
                && full.lost_in_transit + alone.lost_in_transit == 0
                && full.transit_gbit_s > 0.999 * alone.transit_gbit_s,
            "one direction is copied to memory: less than 500 Mbit/s get there and more than 900 with a memory of 10 Gbit/s; transit \
             does not suffer",
            "as much with either memory, or a cell of the transit lost",
        ),
        format!(
            "{:.2} Gbit/s pass the chip, {:.0} Mbit/s get to memory, {} PDUs are dropped whole before they begin; with a memory of 10 \
             Gbit/s {:.0} Mbit/s",
            full.transit_gbit_s, full.memory_mbit_s, full.discarded, fast.memory_mbit_s
        ),
    );
}

/// A camera and displays along a chain: frames shown at each, frames that were not as they should be, and transfers of
/// the chips' Host Memory Interfaces.
fn film(config: Config, displays: &[usize], chips: usize) -> Option<(Vec<u64>, u64, u64)> {
    let mut network = Network::new(FramePool::new(1, 64));
    let layout = Layout { chips, chip: config, ..Layout::default() };
    let desk = network.add_node("desk", Box::new(Desk::new(layout).ok()?));
    let camera = Camera::new(CameraSettings { size: [64, 48], ..CameraSettings::default() }, Vec::new());
    let circuit = CircuitId::new(0, 100)?;
    let contract = Contract { category: Category::Cbr, pcr: CellRate::from_cells_per_s(1e4), ..Contract::default() };
    let options = RouteOptions { contract, ..RouteOptions::default() };
    let link = network.connect(End::External, End::Port(desk, 0), LinkConfig::default()).ok()?;
    network.attach(link, Box::new(Shell::new(camera)));
    let mut links = vec![link];
    for port in displays {
        let link = network.connect(End::External, End::Port(desk, *port as u16), LinkConfig::default()).ok()?;
        network.attach(link, Box::new(Shell::new(Display::new(DisplaySettings::default()))));
        links.push(link);
        let (from, to) = ((0, Label::Vc(circuit)), (*port as u16, Label::Vc(circuit)));
        network.node_mut::<Desk>(desk)?.add_route(from, to, options).ok()?;
    }
    for link in &links {
        network.set_circuit(*link, circuit, Some(CircuitNotice { aal: FrameAal::Aal5, contract }));
    }
    let (mut now, end) = (Time::ZERO, Time::from_millis(500));
    while now <= end {
        while network.run(now) {}
        now = network.poll_timeout()?.max(now);
    }
    let mut counters = Vec::new();
    for link in &links[1..] {
        let (_, device) = network.externals().find(|(id, _)| id == link)?;
        counters.push(device.counters());
    }
    let sum = |names: &[&str]| -> Vec<u64> {
        let own = |counters: &Vec<(&str, wire::Counters)>| {
            counters.iter().filter(|(name, _)| names.contains(name)).map(|(_, counter)| counter.pdus).sum()
        };
        counters.iter().map(own).collect()
    };
    let bad = sum(&["late", "broken", "missing", "damaged", "refused"]).iter().sum();
    let transfers = network.node_mut::<Desk>(desk)?.report().chips.iter().map(|chip| chip.monitor.transfers).sum();
    Some((sum(&["shown"]), bad, transfers))
}

fn streams(run: &mut Run<'_>, config: Config) {
    let (shown, bad, transfers) = run.ran(film(config, &[2], 3), "a part of the model");
    run.words(
        "C-16",
        "could traverse the interconnect to reach the local display device without crossing the system bus",
        Test::new(
            shown.iter().all(|n| *n >= 11) && shown.len() == 1 && bad == 0 && transfers == 0,
            "half a second of frames is shown, each whole and in time, and no chip makes a transfer from or to a memory",
            "a transfer, or a frame that is late, broken or missing",
        ),
        format!("{shown:?} frames of 25 a second shown, {bad} late, broken, missing or damaged, {transfers} transfers"),
    );
    let (shown, bad, transfers) = run.ran(film(config, &[1, 3], 4), "a part of the model");
    run.words(
        "C-18",
        "allows for example a video stream from a camera to be viewed in the local display and be sent out over the network at the same time",
        Test::new(
            shown.iter().all(|n| *n >= 11) && shown.len() == 2 && bad == 0 && transfers == 0,
            "a display beside the camera and one three chips further show the same frames, whole and in time",
            "a frame that one of them lacks",
        ),
        format!("{shown:?} frames shown, {bad} late, broken, missing or damaged"),
    );
    let looped = run.ran(chip::loopback(config), "a part of the model");
    run.words(
        "C-18",
        "Multipoint Connections and Loopback",
        Test::new(
            looped == (300, 0),
            "300 messages of 1 to 9000 octets that a chip sends to itself are in memory as they were sent",
            "one that is not",
        ),
        format!("{} messages came back, {} other than they were", looped.0, looped.1),
    );
}

fn memory(run: &mut Run<'_>, config: Config) {
    let mut own = |switches| run.ran(chip::reserved(Config { switches, ..config }), "a part of the model");
    let (paced, unpaced) = (own(config.switches), own(Switches { pacing: false, ..config.switches }));
    run.words(
        "C-17",
        "pacing control that provides for single-parameter bandwidth reservation",
        Test::new(
            (paced[0] - 100.0).abs() < 2.0 && (unpaced[0] - 100.0).abs() > 20.0,
            "a channel with an interval for 100 Mbit/s of cells gets 98 to 102 beside three that send all they can, and other than 80 \
             to 120 without pacing",
            "another rate with the Pacer, or the same without",
        ),
        format!(
            "{:.1} Mbit/s beside {:.0} of the others; {:.0} without pacing",
            paced[0],
            paced[1..].iter().sum::<f64>(),
            unpaced[0]
        ),
    );
    let batches = [1, 2, 4, 8, 16];
    let rates = batches.map(|batch| run.ran(chip::sends(Config { batch, ..config }), "a part of the model"));
    run.words(
        "C-19",
        "batches of more then one ATM cells are used for transfers",
        Test::new(
            rates.windows(2).all(|pair| pair[0] < pair[1]) && rates[0] < 0.85 * rates[4],
            "each doubling of the batch from 1 to 16 cells sends more, and single cells send less than 85 % of what batches of 16 do",
            "a larger batch that sends no more",
        ),
        format!(
            "batches of 1, 4 and 16 cells: {:.0}, {:.0} and {:.0} Mbit/s of messages out of a memory of 500 Mbit/s",
            rates[0], rates[2], rates[4]
        ),
    );
    let mut figure = Figure::new(
        "seed002-apic-batches",
        "Cells of one transfer",
        ["cells of a batch", "Mbit/s out of memory"],
        [true, false],
    );
    figure.add("messages of 8192 octets", Origin::Modelled, batches.iter().map(|n| *n as f64).zip(rates));
    run.figure(figure);
}

/// Slots that cells of one circuit take along a chain whose chips are each offered twice what a link carries: at most.
fn beside_bulk(config: Config, chips: usize) -> Option<f64> {
    let mut area = Area::new(Shape::Chain, chips, config)?;
    let slot = area.desk()?.chip(0)?.slot_nanos();
    area.connect(50, 0, &[chips - 1], true)?;
    let interval = Duration::from_nanos((100.0 * slot) as u64);
    area.send(50, 0, 40, interval)?;
    for at in 1..chips - 1 {
        // From each chip to the next but one: two circuits on a link, each with all that a device can send.
        area.connect(200 + at as u16, at, &[(at + 2).min(chips - 1)], false)?;
        area.send(200 + at as u16, at, 4400, Duration::from_nanos(slot as u64))?;
    }
    area.settle();
    let got = area.got(chips - 1, 50);
    let took = |(number, at): &(u32, Time)| at.since(Time::ZERO + interval * *number).as_nanos() as f64 / slot;
    (got.len() == 40).then(|| got.iter().map(took).fold(0.0, f64::max))
}

fn low_latency(run: &mut Run<'_>, config: Config) {
    let lengths = [4usize, 8, 16];
    let without = Config { switches: Switches { bypass: false, ..config.switches }, ..config };
    // Without the bypass some are lost: as if they never came.
    let slots = |config| lengths.map(|chips| beside_bulk(config, chips).unwrap_or(f64::INFINITY));
    let (with, without) = (slots(config), slots(without));
    let bound = |chips: usize| f64::from(LOW_LATENCY_SLOTS) * chips as f64 + 1.0;
    run.words(
        "C-20",
        "Whenever queuing occurs inside the APIC there is always a bypass queue for low latency traffic",
        Test::new(
            lengths.iter().zip(with).all(|(chips, slots)| slots <= bound(*chips))
                && lengths.iter().zip(without).all(|(chips, slots)| slots > bound(*chips)),
            "beside twice what a link carries, no cell takes more than three slots a chip with the bypass, and some more without",
            "a cell that takes longer, or none that does without",
        ),
        format!("16 chips: {:.0} slots at most of the bound's {:.0}; without the bypass {:.0}", with[2], bound(16), without[2]),
    );
    let mut figure = Figure::new(
        "seed002-apic-bypass",
        "A low-latency circuit beside twice what a link carries",
        ["chips of a chain", "slots at most"],
        [true, true],
    );
    let curve = |slots: [f64; 3]| lengths.iter().map(|n| *n as f64).zip(slots).filter(|(_, y)| y.is_finite());
    figure.add("with the bypass", Origin::Modelled, curve(with));
    figure.add("without", Origin::Modelled, curve(without));
    run.figure(figure);
}

fn connections(run: &mut Run<'_>, config: Config) {
    let places = [4usize, 8, 16, 32, 64];
    let found = places.map(|cache| run.ran(chip::cached(Config { cache, ..config }, 32), "a part of the model"));
    run.words(
        "C-21",
        "Only active connections' are kept in a static RAM memory on-chip",
        Test::new(
            found[3].misses == 32 && found[3].lost == 0 && found[4] == found[3] && found[0].misses > 1000 && found[0].lost > 0,
            "32 connections in turns at the link's rate: as many places miss once for each and lose nothing, four places miss again and \
             again and lose cells",
            "misses with a place for each, or none with four",
        ),
        format!(
            "of 6400 cells, {} misses and {} lost with 32 places; {} and {} with 4",
            found[3].misses, found[3].lost, found[0].misses, found[0].lost
        ),
    );
    let mut figure = Figure::new(
        "seed002-apic-cache",
        "32 active connections in turns",
        ["connections on the chip", "share of the cells"],
        [true, false],
    );
    let curve = |of: fn(&chip::Cached) -> u64| {
        places
            .iter()
            .map(|n| *n as f64)
            .zip(found.iter().map(move |found| of(found) as f64 / 6400.0))
            .collect::<Vec<_>>()
    };
    figure.add("passed", Origin::Modelled, curve(|found| 6400 - found.lost));
    figure.add("fetched their connection", Origin::Modelled, curve(|found| found.misses));
    run.figure(figure);
    let [transit, own] = run.ran(chip::ways(config), "a part of the model");
    run.words(
        "C-22",
        "The Dispatcher will eventually take this entry and schedule the cell contents to be read from SRAM into the Output Framer",
        Test::new(
            (2.0..=f64::from(LOW_LATENCY_SLOTS)).contains(&transit),
            "a cell leaves an idle chip two to three slots after it came: its look-up, and its time on the link",
            "sooner, or later",
        ),
        format!("{transit:.2} slots from input to output"),
    );
    run.words(
        "C-23",
        "the Dispatcher treats the cell exactly the same way as if it was a transit cell, and forwards it to the output port",
        Test::new(
            own > 0.9 && own < 1.1,
            "the chip's own cells leave one slot after another, as transit cells do, while the memory keeps up",
            "gaps between cells of one batch",
        ),
        format!("{own:.2} slots from cell to cell of a batch, after pacing tag, fetch, Transmit FIFO and Transmit Formatter"),
    );
}
