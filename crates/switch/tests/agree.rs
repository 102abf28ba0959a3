//! The switch and the plain model agree cell for cell, over random operations, table changes in mid-stream included.
//!
//! A million operations, 10 million where the environment has `CELLWAY_LONG=1`. `SWITCH_SEED` repeats a failure.

use std::collections::BTreeSet;

use crate::model::{Contract, Frames, Kind, Model, Point, Schedule};
use std::time::Duration;
use switch::{
    Arrival, Bucket, Class, Discard, Excess, FrameExcess, FramePolice, Outputs, Police, Profile, Progress, Shape,
    ShapeKind, Switch, SwitchConfig, Transaction, Whole,
};
use traffic::Fine;
use wire::oam::{Function, Loopback};
use wire::{Cell, CellHeader, CircuitId, DropReason, Label, PayloadType, Time, Vpi};

const PORTS: u16 = 4;

/// xorshift64*: the same numbers whatever version of whatever crate is in use.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) as usize) % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Links that take so many cells more.
struct Links {
    slots: Vec<Cell>,
    room: Vec<usize>,
    taken: Vec<Vec<Cell>>,
}

impl Outputs for Links {
    fn slots(&mut self, port: u16) -> &mut [Cell] {
        &mut self.slots[..self.room[usize::from(port)]]
    }

    fn commit(&mut self, port: u16, n: usize) {
        self.room[usize::from(port)] -= n;
        self.taken[usize::from(port)].extend_from_slice(&self.slots[..n]);
    }
}

/// A change as both sides understand it.
#[derive(Clone)]
enum Change {
    Add(Point, Point, Box<Kind>),
    Remove(Point),
    RemoveLeaf(Point, Point),
}

impl Change {
    fn apply(&self, model: &mut Model) -> bool {
        match self {
            Change::Add(from, to, kind) => model.add(*from, *to, **kind),
            Change::Remove(from) => model.remove(*from),
            Change::RemoveLeaf(from, to) => model.remove_leaf(*from, *to),
        }
    }
}

/// A transaction on its way through the switch.
struct Pending {
    changes: Vec<Change>,
    steps: usize,
    linked: usize,
    fails: bool,
}

struct World {
    random: Random,
    switch: Switch,
    model: Model,
    links: Links,
    now: u64,
    pending: Option<Pending>,
    /// Cells that were made.
    cells: u64,
    /// How often PDUs passed whole.
    whole: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let (queue_cells, control_cells) = (random.pick(&[20, 60, 200]), random.pick(&[2, 8]));
        let management_cells = random.pick(&[0, 1, 4, 70, 300]);
        let config = SwitchConfig {
            ports: PORTS,
            circuits: 200,
            index_pages: 200,
            queue_cells,
            credit_cells: 0,
            control_cells,
            management_cells,
            profiles: 300,
            incarnation: 0,
        };
        let links = Links {
            slots: vec![Cell::default(); 100],
            room: vec![0; PORTS.into()],
            taken: vec![Vec::new(); PORTS.into()],
        };
        let mut switch = Switch::new(config);
        let mut model = Model::new(PORTS.into(), queue_cells as usize, control_cells.into(), management_cells as usize);
        for port in 0..PORTS {
            let spaced = Arrival::Spaced(Duration::from_nanos(random.pick(&[0, 700, 20_000])));
            let arrival = random.pick(&[Arrival::Together, Arrival::Stamped, spaced]);
            switch.set_arrival(port, arrival);
            model.ports[usize::from(port)].arrival = arrival;
        }
        World { switch, model, links, now: 0, pending: None, cells: 0, whole: 0, random }
    }

    fn label(&mut self, path: bool) -> Label {
        let vpi = self.random.pick(&[0u16, 1, 127, 128]);
        match path {
            true => Label::Vp(Vpi::new(vpi).unwrap()),
            false => Label::Vc(CircuitId::new(vpi, self.random.pick(&[32u16, 33, 255, 256, 40_000])).unwrap()),
        }
    }

    fn kind(&mut self) -> Kind {
        let random = &mut self.random;
        let queue_cells = random.pick(&[6u16, 15, 100]);
        let bucket = |(t, l)| Bucket::new(Fine::from_nanos(t), Fine::from_nanos(l));
        let frames = random.one_in(4).then(|| Frames {
            peak: (random.pick(&[0, 100, 3_000]), random.pick(&[0, 3_000, 50_000])),
            minimum: (random.pick(&[100, 8_000]), random.pick(&[0, 5_000, 90_000])),
            max_cells: random.pick(&[2, 4, 9]),
            excess: random.pick(&[FrameExcess::Keep, FrameExcess::Tag, FrameExcess::Discard]),
        });
        let schedule = random.one_in(3).then(|| Schedule {
            peak: (random.pick(&[50, 1_000, 8_001]), random.pick(&[0, 500, 30_000])),
            sustainable: random.one_in(3).then(|| (random.pick(&[900, 12_000]), random.pick(&[0, 40_000]))),
            paced: random.one_in(2),
        });
        let contract = random.one_in(3).then(|| Contract {
            peak: (random.pick(&[100, 5_000]), random.pick(&[0, 2_000, 20_000])),
            sustainable: random.one_in(2).then(|| (random.pick(&[1_000, 9_000]), random.pick(&[0, 3_000, 50_000]))),
            high_priority_only: random.one_in(2),
            excess: random.pick(&[Excess::Discard, Excess::Tag]),
        });
        let police = contract.map(|contract| Police {
            peak: bucket(contract.peak),
            sustainable: contract.sustainable.map(bucket),
            high_priority_only: contract.high_priority_only,
            excess: contract.excess,
        });
        let profile = Profile {
            class: random.pick(&Class::ALL),
            weight: random.pick(&[1, 1, 2, 5]),
            queue_cells,
            pdu_cells: random.pick(&[None, Some(1), Some(3), Some(6)]),
            police,
            frames: frames.map(|frames| {
                let (t, l) = frames.minimum;
                let (peak, most) = (bucket(frames.peak), frames.max_cells as u16);
                FramePolice::new(peak, Fine::from_nanos(t), Fine::from_nanos(l), most, frames.excess)
            }),
            shape: schedule.map(|schedule| Shape {
                peak: bucket(schedule.peak),
                sustainable: schedule.sustainable.map(bucket),
                kind: if schedule.paced { ShapeKind::Paced } else { ShapeKind::Share },
            }),
            discard: random.pick(&[
                Discard::Whole,
                Discard::Whole,
                Discard::Partial,
                Discard::Selective { threshold: 10, percent: 80 },
                Discard::Fair { threshold: 5, percent: 90 },
            ]),
            low_priority_cells: random.pick(&[None, None, Some(4), Some(30)]),
            congestion_cells: random.pick(&[None, None, Some(0), Some(12)]),
            ..Profile::default()
        };
        Kind { profile, contract, frames, schedule }
    }

    fn known(&mut self) -> Option<Point> {
        let n = self.model.routes.len();
        let at = if n == 0 { return None } else { self.random.below(n) };
        self.model.routes.keys().nth(at).copied()
    }

    fn change(&mut self) -> Change {
        let path = self.random.one_in(4);
        let port = |random: &mut Random| random.below(PORTS.into()) as u16;
        let known = self.known();
        match (self.random.below(8), known) {
            (0 | 1, Some(from)) => Change::Remove(from),
            (2, Some(from)) => {
                let leaves = &self.model.routes[&from].leaves;
                let to = leaves[self.random.below(leaves.len())].to;
                Change::RemoveLeaf(from, to)
            }
            (3 | 4, Some(from)) => {
                let to = (port(&mut self.random), self.label(from.1.is_path()));
                Change::Add(from, to, Box::new(self.kind()))
            }
            _ => {
                let from = (port(&mut self.random), self.label(path));
                let to_path = path != self.random.one_in(40);
                let to = (port(&mut self.random), self.label(to_path));
                Change::Add(from, to, Box::new(self.kind()))
            }
        }
    }

    /// Begins a transaction. Whether it will fail is tried on a table without cells.
    fn begin(&mut self) {
        let changes: Vec<Change> = (0..1 + self.random.below(5)).map(|_| self.change()).collect();
        let mut trial = Model::new(PORTS.into(), 1, 1, 1);
        for (from, route) in &self.model.routes {
            for leaf in &route.leaves {
                let kind = Kind { profile: Profile::default(), contract: None, frames: None, schedule: None };
                trial.add(*from, leaf.to, kind);
            }
        }
        let fails = !changes.iter().all(|change| change.apply(&mut trial));
        let mut transaction = Transaction::new();
        for change in &changes {
            match change {
                Change::Add(from, to, kind) => transaction.add(*from, *to, &kind.profile),
                Change::Remove(from) => transaction.remove(*from),
                Change::RemoveLeaf(from, to) => transaction.remove_leaf(*from, *to),
            }
        }
        self.switch.begin(transaction).unwrap();
        self.pending = Some(Pending { changes, steps: 0, linked: 0, fails });
    }

    fn advance(&mut self) {
        let Some(mut pending) = self.pending.take() else { return self.begin() };
        let steps = 1 + self.random.below(6);
        match self.switch.advance(steps) {
            Err(failed) => {
                assert!(pending.fails, "{failed}");
                return;
            }
            Ok(progress) => {
                // Check and prepare take a step for each change and one more each.
                pending.steps += steps;
                let n = pending.changes.len();
                let linked = pending.steps.saturating_sub(2 * n + 2).min(n);
                assert!(!pending.fails || linked == 0, "a transaction that makes no sense was applied");
                for change in &pending.changes[pending.linked..linked] {
                    assert!(change.apply(&mut self.model));
                }
                pending.linked = linked;
                if progress == Progress::Done {
                    assert_eq!(linked, n);
                    return;
                }
            }
        }
        self.pending = Some(pending);
    }

    /// A cell of a circuit. A `calm` one is user data, of high priority, and rarely ends a PDU.
    fn cell(&mut self, label: Label, calm: bool) -> Cell {
        let random = &mut self.random;
        let mut circuit = match label {
            Label::Vc(circuit) => circuit,
            Label::Vp(vpi) => CircuitId { vpi, vci: wire::Vci(random.pick(&[3u16, 4, 32, 50, 300])) },
        };
        if !calm && random.one_in(60) {
            circuit.vci = wire::Vci(random.pick(&[3u16, 4, 5]));
        }
        let user = PayloadType::User { congestion: random.one_in(9), end: random.one_in(3) };
        let special =
            [PayloadType::OamSegment, PayloadType::OamEndToEnd, PayloadType::ResourceManagement, PayloadType::Reserved];
        // Enough OAM cells now and then to fill the room that they have.
        let rare = if calm { 400 } else { random.pick(&[3, 30, 30]) };
        let payload_type = if random.one_in(rare) { random.pick(&special) } else { user };
        let header = CellHeader { circuit, payload_type, clp: random.one_in(if calm { 150 } else { 4 }) };
        self.cells += 1;
        let mut payload = [0; 48];
        payload[..8].copy_from_slice(&self.cells.to_be_bytes());
        if payload_type.bits() >= 4 || circuit.vci.get() < 5 {
            payload = match self.random.below(4) {
                0 => Function::ContinuityCheck.emit(),
                1 => payload,
                _ => Function::Loopback(Loopback::request(self.cells as u32)).emit(),
            };
        }
        let mut cell = Cell::new(header, payload);
        cell.set_at(Time::from_nanos((self.now + 500).saturating_sub(self.random.below(20_000) as u64)));
        cell
    }

    fn batch(&mut self) {
        let port = self.random.below(PORTS.into()) as u16;
        let labels: Vec<Label> = self.model.routes.keys().filter(|from| from.0 == port).map(|from| from.1).collect();
        let n = if self.random.one_in(8) { 150 } else { self.random.below(20) };
        // Now and then more than one call to the circuit's queue takes, nearly all of one kind.
        let calm = self.random.one_in(20);
        let (n, longest) = if calm { (n * 4, 500) } else { (n, 40) };
        let mut cells = Vec::new();
        while cells.len() < n {
            let label = match labels.is_empty() || self.random.one_in(30) {
                true => self.label(false),
                false => self.random.pick(&labels),
            };
            let run = if self.random.one_in(3) { 1 + self.random.below(longest) } else { 1 };
            let vci = wire::Vci(self.random.pick(&[32u16, 50]));
            for _ in 0..run {
                let mut cell = self.cell(label, calm);
                if let (true, Label::Vp(vpi)) = (calm, label) {
                    cell.set_header(CellHeader { circuit: CircuitId { vpi, vci }, ..cell.header() });
                }
                cells.push(cell);
            }
        }
        for port in 0..usize::from(PORTS) {
            let room = if self.random.one_in(2) { 0 } else { self.random.below(20) };
            (self.links.room[port], self.model.ports[port].room) = (room, room);
        }
        let now = Time::from_nanos(self.now);
        self.switch.handle_cells(port, &cells, now, &mut self.links);
        self.model.handle_cells(port, &cells, now);
        for port in 0..usize::from(PORTS) {
            let taken = std::mem::take(&mut self.links.taken[port]);
            assert_eq!(taken, std::mem::take(&mut self.model.ports[port].link), "at once by port {port}");
        }
    }

    /// Whole PDUs of one circuit, which came together: given as such, and as cells if the switch does not pass them.
    fn whole(&mut self) {
        let port = self.random.below(PORTS.into()) as u16;
        let labels: Vec<Label> = self.model.routes.keys().filter(|from| from.0 == port).map(|from| from.1).collect();
        let spaced = matches!(self.model.ports[usize::from(port)].arrival, Arrival::Spaced(_));
        if spaced || labels.is_empty() {
            return;
        }
        let circuit = match self.random.pick(&labels) {
            Label::Vc(circuit) => circuit,
            Label::Vp(vpi) => CircuitId { vpi, vci: wire::Vci(self.random.pick(&[32u16, 50])) },
        };
        if self.random.one_in(2) {
            (0..PORTS).for_each(|port| self.transmit_from(port, 500));
        }
        let (pdus, mut cells) = (1 + self.random.below(3), Vec::new());
        let now = Time::from_nanos(self.now);
        for _ in 0..pdus {
            let n = 1 + self.random.below(6);
            for at in 1..=n {
                let payload_type = PayloadType::User { congestion: false, end: at == n };
                self.cells += 1;
                let mut payload = [0; 48];
                payload[..8].copy_from_slice(&self.cells.to_be_bytes());
                let mut cell = Cell::new(CellHeader { circuit, payload_type, clp: false }, payload);
                cell.set_at(now);
                cells.push(cell);
            }
        }
        for port in 0..usize::from(PORTS) {
            let room = if self.random.one_in(3) { self.random.below(20) } else { 20 };
            (self.links.room[port], self.model.ports[port].room) = (room, room);
        }
        let header_word = circuit.key() << 4;
        let whole = Whole { header_word, cells: cells.len(), pdus };
        let room = |port: u16| self.links.room[usize::from(port)];
        let passed = self.switch.pass_whole(port, whole, now, room);
        if passed.is_none() {
            self.switch.handle_cells(port, &cells, now, &mut self.links);
        }
        self.model.handle_cells(port, &cells, now);
        for port in 0..PORTS {
            let mut taken = std::mem::take(&mut self.links.taken[usize::from(port)]);
            if let Some((_, word)) = passed.filter(|(out, _)| *out == port) {
                self.whole += 1;
                let left = |cell: &Cell| {
                    let header = CellHeader::from_word(word | cell.header_word() & 0b1110);
                    Cell::new(header, cell.payload)
                };
                taken = cells.iter().map(left).collect();
            }
            let model = std::mem::take(&mut self.model.ports[usize::from(port)].link);
            assert_eq!(taken, model, "at once by port {port}, of PDUs that were whole");
        }
    }

    fn transmit(&mut self) {
        let port = self.random.below(PORTS.into()) as u16;
        let room = if self.random.one_in(4) { 200 } else { self.random.below(12) };
        self.transmit_from(port, room);
    }

    fn transmit_from(&mut self, port: u16, room: usize) {
        let mut out = vec![Cell::default(); room];
        let now = Time::from_nanos(self.now);
        let n = self.switch.poll_transmit(port, &mut out, now);
        assert_eq!(out[..n], self.model.poll_transmit(port, room, now), "port {port}");
    }

    fn operate(&mut self) {
        match self.random.below(20) {
            0..6 => self.batch(),
            6 | 7 => self.whole(),
            8..15 => self.transmit(),
            15 if self.random.one_in(3) => {
                self.switch.handle_timeout(Time::from_nanos(self.now));
                self.model.release_due(Time::from_nanos(self.now));
            }
            15..18 => {
                let step = if self.random.one_in(50) { 300_000_000 } else { 20_000 };
                self.now += self.random.below(step) as u64;
            }
            18 => self.advance(),
            _ => {
                let port = self.random.below(PORTS.into()) as u16;
                let down = self.random.one_in(4);
                self.model.ports[usize::from(port)].down = down;
                self.switch.set_up(port, !down);
            }
        }
    }

    /// All counters, all queues.
    fn compare(&self) {
        for port in 0..PORTS {
            let (counters, model) = (self.switch.port_counters(port), &self.model.ports[usize::from(port)]);
            for reason in DropReason::ALL {
                let of = |drops: &std::collections::BTreeMap<_, u64>| drops.get(reason).copied().unwrap_or_default();
                assert_eq!(counters.received.dropped(*reason), of(&model.in_drops), "{reason} coming in at {port}");
                assert_eq!(counters.sent.dropped(*reason), of(&model.out_drops), "{reason} going out at {port}");
            }
            assert_eq!(counters.sent.cells, model.sent);
            assert_eq!(self.switch.queued_at(port), self.model.queued(port));
        }
        let sums = self.switch.sums();
        assert!(sums.add_up(), "{sums:?}");
        let routes = (0..PORTS).flat_map(|port| self.switch.routes(port));
        let mut circuits = 0;
        for info in routes {
            let route = &self.model.routes[&info.from];
            circuits += info.branches.len() + usize::from(route.many);
            let counters = info.counters;
            assert_eq!(
                (counters.received, counters.dropped, counters.excess),
                (route.received, route.dropped, route.excess)
            );
            assert_eq!(info.branches.len(), route.leaves.len());
            for (branch, leaf) in info.branches.iter().zip(&route.leaves) {
                assert_eq!((branch.to, usize::from(branch.counters.queued)), (leaf.to, Model::leaf_queued(leaf)));
                if route.many {
                    assert_eq!((branch.counters.received, branch.counters.dropped), (leaf.received, leaf.dropped));
                }
            }
        }
        if self.pending.is_none() {
            assert_eq!(self.switch.circuits(), circuits);
        }
    }
}

/// Runs one world; returns the reasons for which its ports have dropped cells, and how often PDUs passed whole.
fn run(seed: u64, operations: usize) -> (BTreeSet<DropReason>, u64) {
    let result = std::panic::catch_unwind(|| {
        let mut world = World::new(seed);
        for i in 0..operations {
            world.operate();
            if i % 50 == 0 {
                world.compare();
            }
        }
        world.compare();
        let ports = world.model.ports.iter();
        (ports.flat_map(|port| port.in_drops.keys().chain(port.out_drops.keys()).copied()).collect(), world.whole)
    });
    result.unwrap_or_else(|_| panic!("SWITCH_SEED={seed} cargo test -p cellway-switch --test all agree::"))
}

#[test]
fn the_switch_and_the_model_agree_cell_for_cell_in_the_long_run() {
    let each = 1000;
    if let Some(seed) = std::env::var("SWITCH_SEED").ok().and_then(|seed| seed.parse().ok()) {
        run(seed, each);
        return;
    }
    let operations: u64 = if std::env::var_os("CELLWAY_LONG").is_some() { 10_000_000 } else { 1_000_000 };
    let (worlds, threads) = (operations / each as u64, std::thread::available_parallelism().map_or(1, usize::from));
    let (mut seen, mut whole) = (BTreeSet::new(), 0);
    std::thread::scope(|scope| {
        let share = |thread: usize| (1 + thread as u64..=worlds).step_by(threads);
        let all: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || share(thread).map(|seed| run(seed, each)).collect::<Vec<_>>()))
            .collect();
        for (dropped, passed) in all.into_iter().flat_map(|thread| thread.join().unwrap()) {
            seen.extend(dropped);
            whole += passed;
        }
    });
    // A run in which nothing of a kind ever happened would agree for the wrong reason.
    let all = [
        DropReason::UnknownCircuit,
        DropReason::NotOpen,
        DropReason::Crc,
        DropReason::QueueFull,
        DropReason::EarlyDiscard,
        DropReason::PartialDiscard,
        DropReason::NonConforming,
        DropReason::LinkDown,
        DropReason::Closed,
    ];
    assert!(all.iter().all(|reason| seen.contains(reason)), "{seen:?}");
    assert!(whole > operations / 2000, "{whole} of {operations} operations passed PDUs whole");
}
