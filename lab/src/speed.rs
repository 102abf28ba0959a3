//! Scenes for measuring how fast virtual time runs: bounded pieces of work, with the real state machines in the loop.
//!
//! In: how many cells at least. Out: how many there were, from end to end: one that crosses two links counts once. Whoever
//! calls has the clock ([`Scene::run`] reads none), and should divide by the thread's time on a processor.

use crate::model::pair::{self, Scenario, Transport};
use crate::model::pipeline;
use crate::model::{Profile, ProfileError};
use crate::{Station, World};
use apic::desk::Shape;
use apic::desk::{Desk, Layout};
use lanai::fabric::routes::Map;
use lanai::fabric::{self, End, Fabric, PacketOutcome};
use lanai::packet::{Kind, TYPE_OCTETS, emit, packet_octets};
use net::{Carries, FrameAal, FramePool, Label, LinkConfig, Network, Node, NodeIo, RouteOptions, RouteTable};
use penn::reassembly::units::Build;
use penn::reassembly::{Config, Reassembler};
use std::any::Any;
use std::time::Duration;
use traffic::Contract;
use wire::{Cell, CellHeader, CellRate, CircuitId, Time, aal5};

/// Octets of the PDUs: the default MTU of IP over ATM with LLC/SNAP.
const SDU_OCTETS: usize = 9188;
/// PDUs that are given to a host at once.
const BURST: usize = 8;
/// How often lines with a rate are looked at: once in some 180 cells.
const GRAIN: Duration = Duration::from_micros(500);

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scene {
    /// Two ENI155P with their drivers, line pace and DMA, on modelled Pentium 90s; each PDU is compared on arrival.
    Adapters,
    /// Two hosts and a VP/VC switch on unlimited cell links: segmentation, switching, reassembly, and the trace over every
    /// octet on both links.
    Network,
    /// The same on OC-3c links with a propagation delay: every cell has its own nanosecond on each; they are moved twice a
    /// millisecond.
    Line,
    /// The list reassembler of seed 001 with 64 circuits interleaved.
    Lists,
    /// The same card's units side by side, each on its clock, at OC-3c, every cell drained.
    Units,
    /// Six hosts on five Myrinet switches, each at full load to the next; each packet is compared on arrival. Units of 48 octets.
    Myrinet,
    /// Eight APICs in a ring, at each a device at full load to the next one; each cell is compared on arrival.
    Desk,
}

impl Scene {
    /// All.
    pub const ALL: [Scene; 7] =
        [Scene::Adapters, Scene::Network, Scene::Line, Scene::Lists, Scene::Units, Scene::Myrinet, Scene::Desk];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Scene::Adapters => "adapters",
            Scene::Network => "network",
            Scene::Line => "line",
            Scene::Lists => "lists",
            Scene::Units => "units",
            Scene::Myrinet => "myrinet",
            Scene::Desk => "desk",
        }
    }

    /// What is in its loop.
    pub const fn what(self) -> &'static str {
        match self {
            Scene::Adapters => "two ENI155P, drivers, DMA and line pace on modelled machines",
            Scene::Network => "SAR, two cell links, switch, SAR, trace of every octet on both links",
            Scene::Line => {
                "the same on OC-3c links with delay: a nanosecond of its own for every cell, moved every 500 us"
            }
            Scene::Lists => "the list reassembler of seed 001, 64 circuits interleaved",
            Scene::Units => "its five units side by side on their clocks, at OC-3c, every cell drained",
            Scene::Myrinet => "five Myrinet switches to the symbol, six hosts at full load; units of 48 octets",
            Scene::Desk => "eight APICs in a ring by the slot, a device at full load at each",
        }
    }

    /// Runs it; cells from end to end.
    ///
    /// # Errors
    /// A machine lacks a constant.
    pub fn run(self, cells: u64) -> Result<u64, ProfileError> {
        match self {
            Scene::Adapters => adapters(cells),
            Scene::Network => Ok(network(cells, &LinkConfig::default(), None)),
            Scene::Line => {
                let (rate, delay) = (Some(CellRate::OC3C), Duration::from_micros(50));
                let link = LinkConfig { carries: Carries::Cells, rate, delay, ..LinkConfig::default() };
                Ok(network(cells, &link, Some(GRAIN)))
            }
            Scene::Lists => Ok(lists(cells)),
            Scene::Units => {
                let build = Build::published();
                let outcome = pipeline::run(build, cells, build.line.as_nanos() as u64, true).ok();
                Ok(outcome.filter(|outcome| outcome.damaged == 0).map_or(0, |outcome| outcome.read))
            }
            Scene::Myrinet => Ok(myrinet(cells).unwrap_or(0)),
            Scene::Desk => Ok(desk(cells).unwrap_or(0)),
        }
    }
}

fn adapters(cells: u64) -> Result<u64, ProfileError> {
    let machine = Profile::named("pentium90-neptune")?;
    let pdus = cells.div_ceil(aal5::cells(SDU_OCTETS) as u64);
    let plain = Scenario::new(&machine, &machine, Transport::Raw, pdus);
    let scenario = Scenario { octets: SDU_OCTETS, single_copy: true, ..plain };
    let outcome = pair::run(&scenario)?;
    Ok(if outcome.damaged == 0 { outcome.cells } else { 0 })
}

/// Cells that arrived in whole PDUs at the far host.
fn network(cells: u64, link: &LinkConfig, grain: Option<Duration>) -> u64 {
    let Some(circuit) = CircuitId::new(0, 100) else { return 0 };
    let mut world = World::new(1);
    if let Some(grain) = grain {
        world.set_grain(grain);
    }
    world.add_host("alpha", Station::default());
    world.add_host("beta", Station::default());
    world.add_switch("s1");
    world.add_link("alpha", "s1:0", link.clone());
    world.add_link("beta", "s1:1", link.clone());
    if world.add_circuit(&["alpha 0.100", "beta 0.100"], FrameAal::Aal5, Contract::default()).is_err() {
        return 0;
    }
    let sdu: Vec<u8> = (0..SDU_OCTETS).map(|i| (i * 31) as u8).collect();
    let mut arrived = 0;
    while arrived < cells {
        (0..BURST).for_each(|_| world.host("alpha").send(circuit, sdu.clone()));
        world.pass(Duration::from_secs(1));
        let got = world.host("beta").received(circuit);
        if got.len() != BURST || got.iter().any(|(_, octets)| *octets != sdu) {
            return 0;
        }
        arrived += (BURST * aal5::cells(SDU_OCTETS)) as u64;
    }
    // Here all is accounted for.
    if world.settle(Duration::from_secs(1)) { arrived } else { 0 }
}

fn lists(cells: u64) -> u64 {
    const CIRCUITS: u16 = 64;
    const EACH: u64 = 32;
    let Ok(mut lists) = Reassembler::new(Config::default()) else { return 0 };
    let mut memory = [0; 48 * EACH as usize];
    let of =
        |vci| Some(Cell::new(CellHeader { circuit: CircuitId::new(0, vci)?, ..CellHeader::default() }, [0x5a; 48]));
    let interleaved: Vec<Cell> = (32..32 + CIRCUITS).filter_map(of).collect();
    let mut open = Vec::with_capacity(CIRCUITS.into());
    let mut read = 0;
    while read < cells {
        for _ in 0..EACH {
            for cell in &interleaved {
                lists.handle_cell(cell, Time::ZERO);
            }
        }
        open.clear();
        open.extend(lists.entries().map(|(list, _)| list));
        let before = read;
        for list in &open {
            read += lists.read_into(*list, EACH as usize, &mut memory).cells as u64;
        }
        if read == before {
            return 0;
        }
    }
    read
}

/// Units of packets that arrived as they were sent.
fn myrinet(units: u64) -> Option<u64> {
    const OCTETS: usize = 8192;
    let mut fabric = Fabric::new(fabric::Config { queue: 4, ..fabric::Config::default() });
    let switches: Vec<_> = (0..5).filter_map(|_| fabric.add_switch(8).ok()).collect();
    for pair in switches.windows(2) {
        fabric.connect(End::Port(pair[0], 7), End::Port(pair[1], 6), 10.0).ok()?;
    }
    let hosts: Vec<_> = (0..6).map(|_| fabric.add_host()).collect();
    for (n, host) in hosts.iter().enumerate() {
        fabric.connect(End::Host(*host), End::Port(switches[n % 5], n / 5), 10.0).ok()?;
    }
    let routes = Map::of(&fabric, |host| hosts.iter().position(|h| *h == host).unwrap_or(0) as u64).routes();
    let payload: Vec<u8> = (0..OCTETS).map(|i| (i * 31) as u8).collect();
    let mut packets = Vec::new();
    for from in 0..hosts.len() {
        let route = routes.between(from, (from + 1) % hosts.len())?;
        let mut octets = vec![0; packet_octets(route.len(), OCTETS)];
        emit(route, Kind::MESSAGE, &payload, &mut octets);
        packets.push(octets);
    }
    let (mut arrived, mut now) = (0, Time::ZERO);
    while arrived < units {
        for (host, packet) in hosts.iter().zip(&packets) {
            while fabric.send(*host, packet, 0, now).is_ok() {}
        }
        now += Duration::from_micros(200);
        fabric.run(now);
        while let Some((_, _, outcome)) = fabric.poll_outcome() {
            if let PacketOutcome::Arrived(octets) = outcome {
                if octets.get(TYPE_OCTETS..TYPE_OCTETS + OCTETS) != Some(&payload[..]) {
                    return None;
                }
                arrived += OCTETS.div_ceil(48) as u64;
                fabric.recycle(octets);
            }
        }
    }
    Some(arrived)
}

/// A device of [`Scene::Desk`]: sends one cell over and over, and compares what comes.
struct Repeater {
    cell: Cell,
    expects: Cell,
    arrived: u64,
    wrong: u64,
}

impl Node for Repeater {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let cells = io.cells_in(0);
        let came = cells.len();
        self.arrived += came as u64;
        let Repeater { expects, .. } = self;
        let other = |cell: &&Cell| cell.payload != expects.payload || cell.circuit() != expects.circuit();
        self.wrong += cells.iter().filter(other).count() as u64;
        io.consume(0, came);
        let out = io.cells_out(0);
        let room = out.len();
        if room >= DESK_QUEUE / 2 {
            out.fill(self.cell);
            io.commit(0, room);
        }
        came > 0
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Cells of a link between a device and its chip, and a step in which it sends no more than that.
const DESK_QUEUE: usize = 4096;
const DESK_STEP: Duration = Duration::from_micros(500);

/// Cells that arrived as they were sent.
fn desk(cells: u64) -> Option<u64> {
    const CHIPS: u16 = 8;
    let layout = Layout { shape: Shape::Ring, chips: CHIPS.into(), ..Layout::default() };
    let mut network = Network::new(FramePool::new(1, 64));
    let desk = network.add_node("desk", Box::new(Desk::new(layout).ok()?));
    let cell = |device: u16| {
        let header = CellHeader { circuit: CircuitId::new(0, 100)?, ..CellHeader::default() };
        Some(Cell::new(header, [device as u8; 48]))
    };
    let mut devices = Vec::new();
    for n in 0..CHIPS {
        let (cell, expects) = (cell(n)?, cell((n + CHIPS - 1) % CHIPS)?);
        let repeater = Repeater { cell, expects, arrived: 0, wrong: 0 };
        let device = network.add_node(&format!("device{n}"), Box::new(repeater));
        let link = LinkConfig { queue_cells: DESK_QUEUE, ..LinkConfig::default() };
        network.connect(net::End::Port(device, 0), net::End::Port(desk, n), link).ok()?;
        let label = Label::Vc(cell.circuit());
        let desk: &mut Desk = network.node_mut(desk)?;
        desk.add_route((n, label), ((n + 1) % CHIPS, label), RouteOptions::default()).ok()?;
        devices.push(device);
    }
    let (mut arrived, mut now) = (0, Time::ZERO);
    while arrived < cells {
        now += DESK_STEP;
        while network.run(now) {}
        arrived = 0;
        for device in &devices {
            let repeater: &mut Repeater = network.peek_node(*device)?;
            if repeater.wrong > 0 {
                return None;
            }
            arrived += repeater.arrived;
        }
    }
    Some(arrived)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_carries_what_it_is_asked_for_and_the_same_each_time() {
        for scene in Scene::ALL {
            let cells = scene.run(5000).unwrap();
            assert!((5000..20_000).contains(&cells), "{}: {cells}", scene.name());
            assert_eq!(scene.run(5000).unwrap(), cells);
        }
    }
}
