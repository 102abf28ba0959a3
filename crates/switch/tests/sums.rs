//! Each cell is accounted for after each step, whatever happens: random cells of all kinds, labels, changes, links that go.

use std::collections::BTreeSet;
use std::time::Duration;
use switch::{Bucket, Excess, Flow as Loss, Outputs, Police, Profile, Room, Switch, SwitchConfig, Transaction};
use traffic::Fine;
use wire::credit::{self, Entry, Kind};
use wire::oam::{
    Activation, BlockCode, Defect, DefectType, Directions, Flow, Function, Location, Loopback, Message, Subject,
};
use wire::{Cell, CellHeader, CircuitId, DropReason, Label, PayloadType, Time, Vci, Vpi};

const CONFIG: SwitchConfig = SwitchConfig {
    ports: 4,
    circuits: 40,
    index_pages: 200,
    queue_cells: 60,
    credit_cells: 200,
    control_cells: 8,
    management_cells: 40,
    profiles: 64,
    incarnation: 7,
};
/// Ports that are there at times.
const MOST_PORTS: u16 = 6;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

fn vc(vpi: u16, vci: u16) -> Label {
    Label::Vc(CircuitId::new(vpi, vci).unwrap())
}

/// Links that take so many cells.
struct Links {
    room: usize,
    slots: [Cell; 64],
}

impl Outputs for Links {
    fn slots(&mut self, _port: u16) -> &mut [Cell] {
        &mut self.slots[..self.room]
    }

    fn commit(&mut self, _port: u16, n: usize) {
        self.room -= n;
    }
}

struct World {
    random: Random,
    switch: Switch,
    now: Time,
}

impl World {
    fn port(&mut self) -> u16 {
        self.random.below(self.switch.config().ports.into()) as u16
    }

    fn label(&mut self) -> Label {
        match self.random.below(8) {
            0 => Label::Vp(Vpi::new(3).unwrap()),
            n => vc((n % 2) as u16, 100 + self.random.below(4) as u16),
        }
    }

    fn profile(&mut self) -> Profile {
        let pdu_cells = if self.random.one_in(3) { None } else { Some(8) };
        let profile = Profile { pdu_cells, queue_cells: 30, ..Profile::default() };
        match self.random.below(4) {
            0 => Profile { flow: Loss::Credit { window: 12 }, ..profile },
            1 => {
                // A cell each 20 ms, and 200 ms early.
                let peak = Bucket::new(Fine::from_nanos(20_000_000), Fine::from_nanos(200_000_000));
                let police = Police { peak, sustainable: None, high_priority_only: false, excess: Excess::Discard };
                Profile { police: Some(police), ..profile }
            }
            _ => profile,
        }
    }

    fn cell(&mut self) -> Cell {
        let (vpi, vci) = (self.random.below(3) as u16, 100 + self.random.below(5) as u16);
        let circuit = CircuitId::new(if self.random.one_in(6) { 3 } else { vpi }, vci).unwrap();
        let header = CellHeader { circuit, ..CellHeader::default() };
        let defect = Defect { kind: DefectType::LINK, location: Location([7; 16]) };
        let function = match self.random.below(5) {
            0 => Function::Ais(defect),
            1 => Function::Rdi(defect),
            2 => Function::ContinuityCheck,
            3 => Function::Activation(Activation {
                message: Message::Activate,
                subject: Subject::ContinuityCheck,
                directions: Directions::Both,
                tag: 1,
                blocks: [BlockCode::default(); 2],
            }),
            _ => Function::Loopback(Loopback::request(9)),
        };
        match self.random.below(12) {
            0 => Cell::new(Flow::F5Segment.header(header), function.emit()),
            1 => Cell::new(Flow::F5EndToEnd.header(header), function.emit()),
            2 => Cell::new(Flow::F4EndToEnd.header(header), function.emit()),
            3 => {
                let kind = [Kind::Limit, Kind::Check, Kind::Start][self.random.below(3) as usize];
                let label = self.label();
                let entry = Entry { kind, incarnation: 7, label, cells: self.random.below(20) as u32 };
                let mut cell = credit::emit(&[entry, Entry { label: vc(0, 999), ..entry }]);
                cell.payload[20] ^= u8::from(self.random.one_in(4));
                cell
            }
            n => {
                let payload_type = PayloadType::User { congestion: false, end: self.random.one_in(5) };
                Cell::new(CellHeader { payload_type, clp: n == 4, ..header }, [n as u8; 48])
            }
        }
    }

    fn step(&mut self) {
        match self.random.below(21) {
            0..8 => {
                let (port, n) = (self.port(), self.random.below(60));
                let alike = self.random.one_in(3).then(|| self.cell());
                let cells: Vec<Cell> = (0..n).map(|_| alike.unwrap_or_else(|| self.cell())).collect();
                let mut links = Links { room: self.random.below(40) as usize, slots: [Cell::default(); 64] };
                if self.random.one_in(2) {
                    links.room = 0;
                }
                self.switch.handle_cells(port, &cells, self.now, &mut links);
            }
            8..12 => {
                let (port, n) = (self.port(), self.random.below(50) as usize);
                let mut out = [Cell::default(); 50];
                self.switch.poll_transmit(port, &mut out[..n], self.now);
            }
            12..14 => {
                self.now += Duration::from_millis(self.random.below(300));
                self.switch.handle_timeout(self.now);
            }
            14..17 => {
                let (from, to) = ((self.port(), self.label()), (self.port(), self.label()));
                let profile = self.profile();
                let mut change = Transaction::new();
                change.add(from, to, &profile);
                let _ = self.switch.apply(change);
            }
            17 => {
                let at = self.port();
                let routes: Vec<_> = self.switch.routes(at).collect();
                if let Some(route) = routes.get(self.random.below(4) as usize) {
                    let mut change = Transaction::new();
                    let leaf = route.branches.get(self.random.below(3) as usize);
                    match leaf.filter(|_| route.branches.len() > 1 || self.random.one_in(8)) {
                        Some(leaf) => change.remove_leaf(route.from, leaf.to),
                        None => change.remove(route.from),
                    }
                    self.switch.apply(change).unwrap();
                }
            }
            18 => {
                let (port, on) = (self.port(), !self.random.one_in(3));
                if self.random.one_in(2) {
                    self.switch.set_up(port, on);
                } else {
                    self.switch.set_signal(port, on, self.now);
                }
            }
            19 => {
                // A channel of the path becomes another circuit's, those of its F4 flows too.
                let vci = [3, 4, 100, 101][self.random.below(4) as usize];
                let port = self.port();
                self.switch.blank_channel((port, Label::Vp(Vpi::new(3).unwrap())), Vci(vci));
            }
            _ => {
                let ports = CONFIG.ports + self.random.below(u64::from(MOST_PORTS - CONFIG.ports) + 1) as u16;
                let (had, circuits) = (self.switch.config(), CONFIG.circuits + self.random.below(9) as u32);
                let mut room = Room::new(&had, &SwitchConfig { ports, circuits, ..had }).unwrap();
                if self.switch.begin_bounds(ports, circuits, &mut room).is_ok() {
                    while self.switch.settle(1, &mut room) {}
                    (0..ports).for_each(|port| self.switch.set_credit(port, true));
                    (had.ports..ports).for_each(|port| self.switch.set_up(port, true));
                }
            }
        }
    }
}

/// Runs one world; what its ports have dropped cells for, and how many cells were made, copied and have ended.
fn run(seed: u64) -> (BTreeSet<DropReason>, [u64; 3]) {
    let mut switch = Switch::new(CONFIG);
    switch.set_location(Location::named("s1"));
    (0..CONFIG.ports).for_each(|port| switch.set_credit(port, true));
    let mut world = World { random: Random(seed), switch, now: Time::ZERO };
    for step in 0..4000 {
        world.step();
        let sums = world.switch.sums();
        assert!(sums.add_up(), "seed {seed}, step {step}: {sums:?}");
        for route in (0..MOST_PORTS).flat_map(|port| world.switch.routes(port)) {
            assert_eq!(route.mismatch(), None, "seed {seed}, step {step}: {:?}", route.counters);
        }
    }
    let sums = world.switch.sums();
    let reasons = sums.ports.received.drops().chain(sums.ports.sent.drops()).map(|(reason, _)| reason).collect();
    (reasons, [sums.ports.made, sums.copied, sums.ports.ended])
}

#[test]
fn each_cell_is_accounted_for_after_each_step() {
    let (mut reasons, mut counted) = (BTreeSet::new(), [0; 3]);
    for seed in 1..=20 {
        let (of_seed, more) = run(seed);
        reasons.extend(of_seed);
        counted = [0, 1, 2].map(|n| counted[n] + more[n]);
    }
    let wanted = [
        DropReason::UnknownCircuit,
        DropReason::NotOpen,
        DropReason::Crc,
        DropReason::QueueFull,
        DropReason::ManagementFull,
        DropReason::EarlyDiscard,
        DropReason::PartialDiscard,
        DropReason::NonConforming,
        DropReason::LinkDown,
        DropReason::Closed,
    ];
    let missing: Vec<_> = wanted.iter().filter(|reason| !reasons.contains(reason)).collect();
    assert!(missing.is_empty() && counted.iter().all(|n| *n > 1000), "{missing:?}, {counted:?}");
}
