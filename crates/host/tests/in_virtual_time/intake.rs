//! Cells and frames that a link delivered to a host = those that the host took or dropped for a reason, each once: random traffic of
//! each adaptation layer, management of circuits and paths, credit cells, unknown circuits and damage.
//!
//! A plain model says for each cell whose it is and what becomes of it.

use endpoint::layout::{Descriptor, Head};
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events, Geometry, Local};
use host::{CircuitConfig, EndpointId, HostEndpoint, HostInterface};
use net::{Carries, End, FramePool, LinkConfig, LinkId, Network, NodeId};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sar::{SduMeta, Segmentation, aal0, aal34};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use traffic::Contract;
use wire::credit::{self, Entry, Kind};
use wire::oam::{Defect, Flow, Function, Loopback};
use wire::{Cell, CellHeader, CircuitId, Counters, DropReason, Label, PayloadType, Time};

/// Rings and buffers that are too few at times.
const GEOMETRY: Geometry = Geometry { send_ring: 4, receive_ring: 16, free_ring: 16, buffers: 8, buffer_octets: 512 };
const MAX_SDU_OCTETS: usize = 600;
const NEITHER: u16 = 109;

/// A circuit of the host: its VPI is its port.
#[derive(Debug, Clone, Copy)]
struct Known {
    id: CircuitId,
    aal: Option<Aal>,
    management: bool,
    credit: bool,
}

fn known() -> Vec<Known> {
    let of = |vpi, vci, aal| Known { id: CircuitId::new(vpi, vci).unwrap(), aal, management: false, credit: false };
    let mut all = Vec::new();
    for port in 0..3 {
        all.push(of(port, 100, Some(Aal::Aal5)));
        all.push(of(port, 101, Some(Aal::Aal0)));
        all.push(of(port, 102, Some(Aal::Aal34)));
        all.push(of(port, 103, None));
        all.push(Known { management: true, ..of(port, 104, Some(Aal::Aal5)) });
    }
    all.push(Known { credit: true, ..of(0, 105, Some(Aal::Aal5)) });
    all.push(Known { credit: true, ..of(0, 106, None) });
    all
}

struct Application {
    local: Local,
    id: EndpointId,
}

impl Application {
    /// Takes what has come and gives the buffers back.
    fn take(&mut self) -> u64 {
        let mut n = 0;
        while let Some(d) = self.local.receive.pop() {
            n += 1;
            if d.head.buffer != Descriptor::INLINE {
                self.local.free.push(Head::of_buffer(d.head.buffer));
            }
        }
        n
    }
}

/// A host with links of cells at ports 0 and 1 and one of frames at port 2.
struct Bench {
    network: Network,
    node: NodeId,
    links: [LinkId; 3],
    /// Of each open circuit.
    applications: Vec<(CircuitId, Application)>,
    /// What the host has granted at port 0.
    limits: Vec<Entry>,
    now: Time,
}

impl Bench {
    fn new() -> Self {
        let mut network = Network::new(FramePool::new(64, 2048));
        let node = network.add_node("host", Box::new(HostInterface::new(64).named("host")));
        let links = [0, 1, 2].map(|port| {
            let carries = if port == 2 { Carries::Frames } else { Carries::Cells };
            let config = LinkConfig { carries, peer_takes_credits: port == 0, ..LinkConfig::default() };
            network.connect(End::External, End::Port(node, port), config).unwrap()
        });
        let host = network.node_mut::<HostInterface>(node).unwrap();
        let mut applications = Vec::new();
        for circuit in known() {
            let flow = if circuit.credit { traffic::Flow::Credit } else { traffic::Flow::default() };
            let contract = Contract { flow, ..Contract::default() };
            let port = circuit.id.vpi.get();
            let config = CircuitConfig { contract, port, max_sdu_octets: MAX_SDU_OCTETS, ..CircuitConfig::default() };
            host.add_circuit(circuit.id, config);
            let Some(aal) = circuit.aal else { continue };
            let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
            let mut local = Local::new(&segment);
            (0..GEOMETRY.buffers).for_each(|buffer| _ = local.free.push(Head::of_buffer(buffer)));
            let id = host.attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
            host.open(id, circuit.id, aal).unwrap();
            if circuit.management {
                host.open(id, circuit.id, Aal::Oam).unwrap();
            }
            applications.push((circuit.id, Application { local, id }));
        }
        Bench { network, node, links, applications, limits: Vec::new(), now: Time::ZERO }
    }

    fn host(&mut self) -> &mut HostInterface {
        self.network.peek_node(self.node).unwrap()
    }

    fn round(&mut self) {
        while self.network.run(self.now) {}
        // What the host answers leaves.
        for link in self.links {
            let limits = &mut self.limits;
            self.network.external(link, self.now, |io| {
                while !io.cells_in(0).is_empty() {
                    let credits = io.cells_in(0).iter().filter(|cell| credit::is_credit(cell.header_word()));
                    let entries = credits.flat_map(|cell| credit::parse(&cell.payload).unwrap());
                    limits.extend(entries.filter(|entry| entry.kind == Kind::Limit));
                    io.consume(0, io.cells_in(0).len());
                }
                while io.frame_in(0).is_some() {
                    io.release_frame(0);
                }
            });
        }
        self.now += Duration::from_micros(10);
    }

    fn put_cells(&mut self, port: usize, cells: &[Cell]) {
        for some in cells.chunks(32) {
            let put = self.network.external(self.links[port], self.now, |io| some.iter().all(|c| io.put_cell(0, c)));
            assert_eq!(put, Some(true));
            self.round();
        }
    }

    fn put_frame(&mut self, id: CircuitId, aal: net::FrameAal, octets: &[u8]) {
        let put = self.network.external(self.links[2], self.now, |io| {
            let frame = io.pool_mut().copy_in(id, aal, SduMeta::default(), octets).unwrap();
            io.put_frame(0, frame).is_ok()
        });
        assert_eq!(put, Some(true));
        self.round();
    }

    fn line(&self, port: usize) -> u64 {
        let info = self.network.link_info(self.links[port]).unwrap();
        info.from_a.taken(info.config.carries)
    }
}

/// What becomes of a cell or frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is an open circuit's.
    Circuit(CircuitId),
    /// It is a management cell that the application of the circuit gets.
    Management(CircuitId),
    /// The end point of a circuit takes it, or nobody waits for it there.
    Point(CircuitId),
    /// The host takes it for itself.
    Own,
    /// The host takes or answers it, or nobody waits for it, or too many wait for an answer.
    Path,
    /// A circuit that is here does not get it.
    Refused(CircuitId, DropReason),
    /// No circuit's.
    Stray(DropReason),
}

/// The model.
fn fate(port: u16, cell: &Cell, known: &[Known]) -> Fate {
    let header = cell.header();
    let here = match known.iter().find(|known| known.id == header.circuit) {
        Some(known) if known.id.vpi.get() == port => Ok(known),
        Some(_) => Err(DropReason::WrongPort),
        None => Err(DropReason::UnknownCircuit),
    };
    if port == 0 && header.circuit == credit::HEADER.circuit && header.payload_type == credit::HEADER.payload_type {
        return match credit::parse(&cell.payload) {
            Err(wire::Error::Checksum { .. }) => Fate::Stray(DropReason::Crc),
            Err(_) => Fate::Stray(DropReason::Malformed),
            Ok(entries) => {
                let ours = |e: Entry| known.iter().any(|k| k.credit && Label::Vc(k.id) == e.label);
                if entries.into_iter().any(ours) { Fate::Own } else { Fate::Stray(DropReason::NotOpen) }
            }
        };
    }
    let function = Function::parse(&cell.payload);
    let request = matches!(function, Ok(Function::Loopback(Loopback { request: true, .. })));
    match Flow::of(header) {
        Some(Flow::F4Segment | Flow::F4EndToEnd) => match function {
            _ if header.circuit.vpi.get() != port => Fate::Stray(DropReason::UnknownCircuit),
            Err(_) => Fate::Stray(DropReason::Crc),
            Ok(_) => Fate::Path,
        },
        Some(_) => match here {
            Err(reason) => Fate::Stray(reason),
            // Answered, and the application does not see it.
            Ok(known) if request => Fate::Point(known.id),
            Ok(known) if known.management => Fate::Management(known.id),
            Ok(known) if function.is_err() => Fate::Refused(known.id, DropReason::Crc),
            Ok(known) => Fate::Point(known.id),
        },
        None => match here {
            Err(reason) => Fate::Stray(reason),
            Ok(known) => match known.aal {
                None => Fate::Refused(known.id, DropReason::NotOpen),
                Some(aal) if aal != Aal::Aal0 && header.payload_type.bits() & 4 != 0 => {
                    Fate::Refused(known.id, DropReason::WrongAal)
                }
                Some(_) => Fate::Circuit(known.id),
            },
        },
    }
}

/// What the model counts.
#[derive(Debug, Default)]
struct Expected {
    /// By port: units that the host takes or drops at its own discretion, ...
    either: [u64; 3],
    /// ... those that it takes, and those that it drops by reason.
    taken: [u64; 3],
    dropped: [BTreeMap<DropReason, u64>; 3],
    /// Cells that circuits get, open or not, and those that are nobody's; cells of paths.
    circuits: u64,
    of_endpoints: BTreeMap<CircuitId, u64>,
    stray: u64,
    of_paths: u64,
    /// Cells of bare messages and of management, by the endpoint that gets each as a message.
    messages: BTreeMap<CircuitId, u64>,
}

impl Expected {
    fn note(&mut self, port: usize, fate: Fate, known: &[Known]) {
        match fate {
            Fate::Circuit(id) | Fate::Management(id) => {
                self.circuits += 1;
                self.taken[port] += 1;
                *self.of_endpoints.entry(id).or_default() += 1;
                let bare = known.iter().any(|known| known.id == id && known.aal == Some(Aal::Aal0));
                if bare || matches!(fate, Fate::Management(_)) {
                    *self.messages.entry(id).or_default() += 1;
                }
            }
            Fate::Point(_) => {
                self.circuits += 1;
                self.either[port] += 1;
            }
            Fate::Own => self.taken[port] += 1,
            Fate::Path => {
                self.of_paths += 1;
                self.either[port] += 1;
            }
            Fate::Refused(_, reason) => {
                self.circuits += 1;
                *self.dropped[port].entry(reason).or_default() += 1;
            }
            Fate::Stray(reason) => {
                self.stray += 1;
                *self.dropped[port].entry(reason).or_default() += 1;
            }
        }
    }
}

fn vpi_vci(random: &mut StdRng) -> CircuitId {
    let vci = if random.random_bool(0.1) { NEITHER } else { random.random_range(100..107) };
    CircuitId::new(random.random_range(0..3), vci).unwrap()
}

fn function(random: &mut StdRng) -> Function {
    match random.random_range(0..6) {
        0 => Function::Loopback(Loopback::request(random.random())),
        1 => Function::Loopback(Loopback::request(random.random()).returned(None)),
        2 => Function::Ais(Defect::UNSPECIFIED),
        3 => Function::Rdi(Defect::UNSPECIFIED),
        4 => Function::ContinuityCheck,
        _ => Function::Other(random.random_range(0xf0..=0xff)),
    }
}

/// Some cells: a PDU, whole or damaged, or others.
fn some_cells(random: &mut StdRng) -> Vec<Cell> {
    let id = vpi_vci(random);
    let octets = random.random_range(1..700);
    let payload = [random.random(); 48];
    let of_type = |payload_type| CellHeader { circuit: id, payload_type, ..CellHeader::default() };
    let mut cells = match random.random_range(0..8) {
        0 | 1 => {
            let mut cells = vec![Cell::default(); wire::aal5::cells(octets)];
            let meta = SduMeta::default();
            Segmentation::new(id, octets, meta).unwrap().fill(&vec![1; octets], &mut cells);
            cells
        }
        2 => {
            let mut cells = vec![Cell::default(); aal34::cells(octets)];
            let mut sender = aal34::Sender::new(id, random.random_range(0..30)).unwrap();
            sender.begin(octets, SduMeta::default()).unwrap().fill(&vec![1; octets], &mut cells);
            cells
        }
        3 => vec![Cell::new(of_type(PayloadType::from_bits(random.random_range(0..4))), payload); 3],
        // Of resource management and reserved.
        4 => vec![Cell::new(of_type(PayloadType::from_bits(random.random_range(6..8))), payload)],
        5 => {
            let flow = [Flow::F5Segment, Flow::F5EndToEnd][random.random_range(0..2)];
            vec![Cell::new(flow.header(of_type(PayloadType::default())), function(random).emit())]
        }
        6 => {
            let flow = [Flow::F4Segment, Flow::F4EndToEnd][random.random_range(0..2)];
            vec![Cell::new(flow.header(of_type(PayloadType::default())), function(random).emit())]
        }
        _ => {
            let kind = [Kind::Limit, Kind::Check, Kind::Start][random.random_range(0..3)];
            let entry = |id| Entry { kind, incarnation: 1, label: Label::Vc(id), cells: 7 };
            vec![credit::emit(&[entry(id), entry(vpi_vci(random))])]
        }
    };
    for cell in &mut cells {
        match random.random_range(0..60) {
            0 => cell.payload[random.random_range(0..48)] ^= 1 << random.random_range(0..8),
            1 => cell.set_header_word(cell.header_word() ^ 1 << random.random_range(4..8)),
            _ => {}
        }
    }
    if random.random_bool(0.2) {
        cells.remove(random.random_range(0..cells.len()));
    }
    cells
}

impl Bench {
    fn some_frame(&mut self, random: &mut StdRng, expected: &mut Expected, known: &[Known]) {
        let id = CircuitId { vpi: CircuitId::new(random.random_range(1..3), 1).unwrap().vpi, ..vpi_vci(random) };
        if random.random_bool(0.3) {
            let mut cell = some_cells(random).pop().unwrap_or_default();
            cell.set_header(CellHeader { circuit: id, ..cell.header() });
            let mut message = aal0::to_message(&cell).to_vec();
            let short = random.random_bool(0.2);
            if short {
                message.pop();
            }
            let fate = if short { Fate::Stray(DropReason::Malformed) } else { fate(2, &cell, known) };
            expected.note(2, fate, known);
            return self.put_frame(id, net::FrameAal::Aal0, &message);
        }
        let aal = [net::FrameAal::Aal5, net::FrameAal::Aal34][random.random_range(0..2)];
        let octets = if random.random_bool(0.1) { 0 } else { random.random_range(1..2 * MAX_SDU_OCTETS) };
        let reason = match known.iter().find(|known| known.id == id) {
            None => Err(DropReason::UnknownCircuit),
            Some(known) if known.id.vpi.get() != 2 => Err(DropReason::WrongPort),
            Some(Known { aal: None, .. }) => Err(DropReason::NotOpen),
            Some(known) if known.aal != Some(if aal == net::FrameAal::Aal5 { Aal::Aal5 } else { Aal::Aal34 }) => {
                Err(DropReason::WrongAal)
            }
            _ if octets == 0 => Err(DropReason::Malformed),
            _ if octets > MAX_SDU_OCTETS => Err(DropReason::Oversize),
            _ => Ok(()),
        };
        match reason {
            Ok(()) => expected.taken[2] += 1,
            Err(reason) => {
                let stray = matches!(reason, DropReason::UnknownCircuit | DropReason::WrongPort);
                expected.stray += u64::from(stray);
                *expected.dropped[2].entry(reason).or_default() += 1;
            }
        }
        self.put_frame(id, aal, &vec![3; octets]);
    }

    fn assert_sums(&mut self, expected: &Expected, messages: &BTreeMap<CircuitId, u64>) {
        // What nobody waits for, has no room for, or was damaged in a way that only an end point sees.
        let open_reasons =
            [DropReason::NotOpen, DropReason::QueueFull, DropReason::TableFull, DropReason::ManagementFull];
        for port in 0..3 {
            let came = self.line(port);
            let intake = self.host().intake(port as u16);
            assert_eq!(came, intake.cells + intake.pdus + intake.dropped_total(), "port {port}: {intake:?}");
            let (mut undecided, mut dropped) = (0, expected.dropped[port].clone());
            for (reason, n) in intake.drops() {
                let said = dropped.remove(&reason).unwrap_or_default();
                if open_reasons.contains(&reason) {
                    assert!(n >= said, "port {port}, {reason}: {intake:?}, {expected:?}");
                    undecided += n - said;
                } else {
                    assert_eq!(n, said, "port {port}, {reason}: {intake:?}, {expected:?}");
                }
            }
            assert!(dropped.values().all(|n| *n == 0), "port {port}: {dropped:?} of {expected:?}");
            let taken = intake.cells + intake.pdus;
            assert_eq!(taken + undecided, expected.taken[port] + expected.either[port], "port {port}");
        }
        // What `status` shows counts each cell once too: at a circuit, or as nobody's.
        let circuits: u64 = self.host().circuits().iter().map(|circuit| circuit.received.cells).sum();
        assert_eq!(circuits, expected.circuits);
        let stray = self.host().stray().dropped_total();
        assert!((expected.stray..=expected.stray + expected.of_paths).contains(&stray), "{stray}: {expected:?}");
        let endpoints: BTreeMap<EndpointId, Counters> =
            self.host().endpoints().into_iter().map(|endpoint| (endpoint.id, endpoint.received)).collect();
        for (id, application) in &self.applications {
            let counts = &endpoints[&application.id];
            assert_eq!(counts.cells, expected.of_endpoints.get(id).copied().unwrap_or_default(), "{id}: {counts:?}");
            // Each bare cell and each management cell is a message, or was dropped.
            if id.vci.get() == 101 && id.vpi.get() < 2 {
                let (sent, got) = (expected.messages.get(id), messages.get(id));
                let got = got.copied().unwrap_or_default() + counts.dropped_total();
                assert_eq!(sent.copied().unwrap_or_default(), got, "{id}: {counts:?}");
            }
        }
        assert_eq!(self.host().mismatch(), None);
    }
}

fn try_traffic(seed: u64, steps: usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut bench, known) = (Bench::new(), known());
    let (mut expected, mut messages) = (Expected::default(), BTreeMap::<CircuitId, u64>::new());
    for _ in 0..steps {
        let port = random.random_range(0..3);
        if port == 2 {
            bench.some_frame(&mut random, &mut expected, &known);
        } else {
            // PDUs of several circuits, one after another or mixed.
            let mut cells: Vec<Cell> = (0..random.random_range(1..5)).flat_map(|_| some_cells(&mut random)).collect();
            if random.random_bool(0.3) {
                cells.sort_by_key(|cell| cell.payload[0]);
            }
            cells.iter().for_each(|cell| expected.note(port, fate(port as u16, cell, &known), &known));
            bench.put_cells(port, &cells);
        }
        for (id, application) in &mut bench.applications {
            if random.random_bool(0.4) {
                *messages.entry(*id).or_default() += application.take();
            }
        }
    }
    for (id, application) in &mut bench.applications {
        *messages.entry(*id).or_default() += application.take();
    }
    bench.assert_sums(&expected, &messages);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn what_links_deliver_is_taken_or_dropped_for_a_reason_once(seed: u64, steps in 1usize..60) {
        try_traffic(seed, steps);
    }
}

fn of_circuit(vci: u16, flow: Flow, function: Function) -> Cell {
    let circuit = CircuitId::new(0, vci).unwrap();
    Cell::new(flow.header(CellHeader { circuit, ..CellHeader::default() }), function.emit())
}

fn counts(bench: &mut Bench, port: u16) -> (u64, u64, Counters) {
    let intake = bench.host().intake(port);
    (bench.line(usize::from(port)), intake.cells + intake.dropped_total(), intake)
}

#[test]
fn requests_beyond_what_can_be_answered_are_counted_once() {
    for (flow, of_circuit_is_told) in [(Flow::F5EndToEnd, true), (Flow::F4EndToEnd, false)] {
        let mut bench = Bench::new();
        let request = of_circuit(100, flow, Function::Loopback(Loopback::request(1)));
        let put = bench.network.external(bench.links[0], bench.now, |io| (0..100).all(|_| io.put_cell(0, &request)));
        assert_eq!(put, Some(true));
        bench.round();
        let (came, counted, intake) = counts(&mut bench, 0);
        assert_eq!((came, counted, intake.cells), (100, 100, 4));
        assert_eq!(intake.dropped(DropReason::ManagementFull), 96);
        let circuit = bench.host().circuit(CircuitId::new(0, 100).unwrap()).unwrap().received;
        let (cells, dropped) = (circuit.cells, circuit.dropped(DropReason::ManagementFull));
        assert_eq!((cells, dropped), if of_circuit_is_told { (100, 96) } else { (0, 0) });
        assert_eq!(bench.host().stray().dropped_total(), if of_circuit_is_told { 0 } else { 96 });
    }
}

#[test]
fn cells_beyond_a_window_that_nobody_empties_are_counted_once() {
    let mut bench = Bench::new();
    let id = CircuitId::new(0, 105).unwrap();
    let mut cells = [Cell::default(); 2];
    Segmentation::new(id, 50, SduMeta::default()).unwrap().fill(&[1; 50], &mut cells);
    bench.put_cells(0, &cells.repeat(2000));
    let (came, counted, intake) = counts(&mut bench, 0);
    assert_eq!((came, counted), (4000, 4000));
    let beyond = intake.dropped(DropReason::QueueFull);
    assert!(beyond > 1000 && intake.dropped_total() == beyond, "{intake:?}");
    let endpoint = bench.applications.iter().find(|(circuit, _)| *circuit == id).unwrap().1.id;
    let endpoints = bench.host().endpoints();
    let received = endpoints.iter().find(|of| of.id == endpoint).unwrap().received;
    assert_eq!(received.cells, intake.cells);
}

#[test]
fn management_cells_at_another_port_grant_no_credit() {
    let mut bench = Bench::new();
    let id = CircuitId::new(0, 105).unwrap();
    let start = Entry { kind: Kind::Start, incarnation: 1, label: Label::Vc(id), cells: 0 };
    bench.put_cells(0, &[credit::emit(&[start])]);
    let granted = |bench: &Bench| bench.limits.iter().filter(|e| e.label == Label::Vc(id)).map(|e| e.cells).max();
    let before = granted(&bench).expect("a first limit");
    let forged = of_circuit(105, Flow::F5EndToEnd, Function::ContinuityCheck);
    bench.put_cells(1, &vec![forged; 5000]);
    assert_eq!(granted(&bench), Some(before));
    assert_eq!(bench.host().intake(1).dropped(DropReason::WrongPort), 5000);
    // At its own port each is one cell of the circuit's.
    bench.put_cells(0, &vec![forged; 5000]);
    assert!(granted(&bench).unwrap() > before);
}
