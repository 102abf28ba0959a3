//! OAM of circuits between two hosts: alarms there and back, continuity check, monitoring of what a line does to cells, forged cells.

use endpoint::layout::Head;
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events, Geometry, Local};
use host::{EndpointId, HostEndpoint, HostInterface, OamStatus};
use net::topology::{CircuitOptions, CircuitTable, OamOptions};
use net::{End, FramePool, LinkConfig, LinkId, Network, Node, NodeId, NodeIo};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;
use switch::oam::{AlarmKind, Request, RequestOutcome};
use traffic::Contract;
use wire::oam::{BlockCode, Defect, DefectType, Flow, Function, Location};
use wire::{Cell, CellHeader, CellRate, CircuitId, Time};

/// What a line between the hosts does to the cells from the first to the second.
type Harm = Box<dyn FnMut(&Cell) -> Vec<Cell> + Send>;

/// A line with two ends, at port 0 and port 1.
struct Line {
    harm: Option<Harm>,
}

impl Node for Line {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let mut any = false;
        for (from, to) in [(0, 1), (1, 0)] {
            while !io.cells_in(from).is_empty() && io.room(to) > 4 {
                let cell = io.cells_in(from)[0];
                io.consume(from, 1);
                any = true;
                let passed = match &mut self.harm {
                    Some(harm) if from == 0 => harm(&cell),
                    _ => vec![cell],
                };
                passed.iter().for_each(|cell| assert!(io.put_cell(to, cell)));
            }
        }
        any
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

struct Bench {
    network: Network,
    hosts: [NodeId; 2],
    line: NodeId,
    links: [LinkId; 2],
    now: Time,
}

fn id(n: u16) -> CircuitId {
    CircuitId::new(0, 100 + n).unwrap()
}

impl Bench {
    fn new(circuits: u16, oam: OamOptions, contract: Contract) -> Self {
        let mut network = Network::new(FramePool::new(16, 2048));
        let hosts = ["alpha", "beta"].map(|n| network.add_node(n, Box::new(HostInterface::new(4).named(n))));
        let line = network.add_node("line", Box::new(Line { harm: None }));
        let rate = LinkConfig { rate: Some(CellRate::OC3C), ..LinkConfig::default() };
        let links =
            [0, 1].map(|n| network.connect(End::Port(hosts[n], 0), End::Port(line, n as u16), rate.clone()).unwrap());
        let options = CircuitOptions { aal: net::FrameAal::Aal5, contract, sends: true, receives: true, oam };
        for host in hosts {
            let host = network.node_mut::<HostInterface>(host).unwrap();
            (0..circuits).for_each(|n| CircuitTable::add_circuit(host, 0, id(n), &options).unwrap());
        }
        Bench { network, hosts, line, links, now: Time::ZERO }
    }

    fn host(&mut self, n: usize) -> &mut HostInterface {
        self.network.node_mut(self.hosts[n]).unwrap()
    }

    fn oam(&mut self, host: usize, circuit: u16) -> OamStatus {
        self.host(host).oam(id(circuit)).unwrap()
    }

    fn kinds(&mut self, host: usize, circuit: u16) -> Vec<AlarmKind> {
        self.oam(host, circuit).alarms.iter().map(|alarm| alarm.kind).collect()
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            while self.network.run(self.now) {}
            match self.network.poll_timeout() {
                Some(next) if next <= until => self.now = next.max(self.now + Duration::from_nanos(1)),
                _ => break,
            }
        }
        self.now = until;
    }

    fn harm(&mut self, harm: impl FnMut(&Cell) -> Vec<Cell> + Send + 'static) {
        self.network.node_mut::<Line>(self.line).unwrap().harm = Some(Box::new(harm));
    }
}

const GEOMETRY: Geometry =
    Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 64, buffer_octets: 9216 };

struct Application {
    local: Local,
    channel: u32,
    next: u32,
}

impl Application {
    fn open(bench: &mut Bench, host: usize, circuit: u16, aal: Aal) -> Self {
        let segment = Arc::new(Segment::anonymous(GEOMETRY).unwrap());
        let local = Local::new(&segment);
        let host = bench.host(host);
        let endpoint: EndpointId =
            host.attach(HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None)).unwrap();
        let channel = host.open(endpoint, id(circuit), aal).unwrap().0;
        Application { local, channel, next: 0 }
    }

    fn send(&mut self, octets: &[u8]) {
        let buffer = self.next % 64;
        self.next += 1;
        self.local.segment.copy_in(GEOMETRY.buffer_at(buffer).unwrap(), octets);
        let of = Head { channel: self.channel, octets: octets.len() as u32, ..Head::of_buffer(buffer) };
        assert!(self.local.send.push(of));
    }
}

fn seconds(n: f64) -> Duration {
    Duration::from_secs_f64(n)
}

#[test]
fn forged_ais_is_an_alarm_of_its_own_circuit_alone_answered_by_rdi_and_over_by_its_time() {
    let mut bench = Bench::new(3, OamOptions::default(), Contract::default());
    let mut forger = Application::open(&mut bench, 0, 1, Aal::Oam);
    let header = CellHeader { circuit: id(1), ..CellHeader::default() };
    let defect = Defect { kind: DefectType(7), location: Location::named("elsewhere").unwrap() };
    let cell = Cell::new(Flow::F5EndToEnd.header(header), Function::Ais(defect).emit());
    for _ in 0..40 {
        // As fast as it can, and on another circuit: the host writes the channel's own circuit over it.
        let other = Cell::new(CellHeader { circuit: id(2), ..cell.header() }, cell.payload);
        forger.send(&sar::aal0::to_message(&cell));
        forger.send(&sar::aal0::to_message(&other));
        bench.pass(seconds(0.05));
    }
    let alarm = bench.oam(1, 1).alarms[0];
    assert_eq!((alarm.kind, alarm.defect), (AlarmKind::Ais, defect));
    assert_eq!((bench.kinds(0, 1), bench.oam(0, 1).alarms[0].defect), (vec![AlarmKind::Rdi], defect));
    for circuit in [0, 2] {
        assert!(bench.kinds(0, circuit).is_empty() && bench.kinds(1, circuit).is_empty());
    }
    bench.pass(seconds(2.4));
    assert_eq!(bench.kinds(1, 1), [AlarmKind::Ais]);
    bench.pass(seconds(0.2));
    assert!(bench.kinds(1, 1).is_empty());
    // The last RDI cell was sent within the state: 2.5 s later the other end's is over too.
    bench.pass(seconds(2.6));
    assert!(bench.kinds(0, 1).is_empty());
    assert_eq!([bench.host(0).oam_points(), bench.host(1).oam_points()], [0, 0]);
    assert_eq!(bench.network.poll_timeout(), None);
    let events: Vec<_> = std::iter::from_fn(|| bench.host(1).poll_alarm()).map(|(c, e)| (c, e.began)).collect();
    assert_eq!(events, [(id(1), true), (id(1), false)]);
}

#[test]
fn a_link_without_signal_is_an_alarm_of_each_circuit_and_costs_no_state() {
    let mut bench = Bench::new(1000, OamOptions::default(), Contract::default());
    bench.pass(seconds(0.01));
    let link = bench.links[1];
    assert!(bench.network.set_link_up(link, false));
    bench.pass(seconds(0.01));
    let alarm = bench.oam(1, 999).alarms[0];
    let defect = Defect::found(DefectType::LINK, Location::named("beta"));
    assert_eq!((alarm.kind, alarm.defect, bench.host(1).oam_points()), (AlarmKind::Ais, defect, 0));
    assert!(bench.network.set_link_up(link, true));
    bench.pass(seconds(0.01));
    assert!(bench.kinds(1, 999).is_empty());
}

#[test]
fn continuity_that_is_lost_one_way_is_an_alarm_here_and_rdi_there_and_ends_with_the_next_cell() {
    let oam = OamOptions { continuity: true, monitoring: None };
    let mut bench = Bench::new(2, oam, Contract::default());
    bench.pass(seconds(10.0));
    assert!((0..2).all(|host| bench.kinds(host, 0).is_empty()));
    bench.harm(|cell| if cell.circuit() == id(0) { Vec::new() } else { vec![*cell] });
    let cut = bench.now;
    bench.pass(seconds(5.6));
    let alarm = bench.oam(1, 0).alarms[0];
    assert_eq!((alarm.kind, alarm.defect.kind), (AlarmKind::LossOfContinuity, DefectType::CONTINUITY));
    // 3.5 s after the last check that came, and one goes each second.
    let after = alarm.since.since(cut);
    assert!(after >= seconds(2.5) && after <= seconds(3.5), "{after:?}");
    assert_eq!(bench.kinds(0, 0), [AlarmKind::Rdi]);
    assert!((0..2).all(|host| bench.kinds(host, 1).is_empty()));
    bench.harm(|cell| vec![*cell]);
    bench.pass(seconds(1.1));
    assert!(bench.kinds(1, 0).is_empty());
    bench.pass(seconds(2.6));
    assert!(bench.kinds(0, 0).is_empty());
}

#[test]
fn an_end_asks_the_other_to_begin_and_to_end_and_one_that_nobody_answers_gives_up() {
    let mut bench = Bench::new(1, OamOptions::default(), Contract::default());
    let block = BlockCode::of_cells(256).unwrap();
    for (request, begun) in [(Request::continuity(true), true), (Request::continuity(false), false)] {
        bench.host(0).request_oam(id(0), request).unwrap();
        bench.pass(seconds(1.0));
        assert_eq!(
            bench.oam(0, 0).request,
            (request.activate).then_some((request, RequestOutcome::Confirmed)).or(bench.oam(0, 0).request)
        );
        assert_eq!([bench.oam(0, 0).continuity, bench.oam(1, 0).continuity], [[begun; 2]; 2]);
    }
    bench.host(0).request_oam(id(0), Request::monitoring(true, block)).unwrap();
    bench.pass(seconds(1.0));
    assert_eq!(bench.oam(1, 0).sent.map(|(cells, _)| cells), Some(256));
    bench.host(1).request_oam(id(0), Request::monitoring(false, block)).unwrap();
    bench.pass(seconds(1.0));
    assert_eq!((bench.oam(0, 0).sent, bench.oam(0, 0).received), (None, None));
    bench.harm(|_| Vec::new());
    bench.host(0).request_oam(id(0), Request::continuity(true)).unwrap();
    bench.pass(seconds(14.0));
    assert_eq!(bench.oam(0, 0).request.unwrap().1, RequestOutcome::Asking);
    bench.pass(seconds(2.0));
    assert_eq!(bench.oam(0, 0).request.unwrap().1, RequestOutcome::TimedOut);
}

/// What the line does to the user cells of one block.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Nothing,
    Loses,
    Inserts,
    Damages,
}

/// What it has done up to the last monitoring cell that it has passed on, and since then.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Truth {
    lost: u64,
    inserted: u64,
    errored_blocks: u64,
    parities: u64,
    cells: u64,
    missing: u64,
}

#[test]
fn monitoring_finds_exactly_the_cells_that_a_line_lost_inserted_or_damaged() {
    for seed in 0..20 {
        let paced = seed % 3 == 0;
        let contract = Contract {
            category: if paced { traffic::Category::Cbr } else { traffic::Category::default() },
            pcr: CellRate::from_cells_per_s(50_000.0).filter(|_| paced),
            ..Contract::default()
        };
        let oam = OamOptions { continuity: false, monitoring: Some(128) };
        let mut bench = Bench::new(2, oam, contract);
        let truth = Arc::new(std::sync::Mutex::new((Truth::default(), Truth::default())));
        let (told, mut random) = (truth.clone(), StdRng::seed_from_u64(seed));
        let (mut kind, mut begun, mut columns, mut whole) = (Kind::Nothing, false, 0u16, true);
        bench.harm(move |cell| {
            if cell.circuit() != id(0) {
                return vec![*cell];
            }
            let (known, since) = &mut *told.lock().unwrap();
            if Flow::of(cell.header()).is_some() {
                let Ok(Function::Monitoring(_)) = Function::parse(&cell.payload) else { return vec![*cell] };
                if begun && random.random_ratio(1, 12) {
                    // Parities of two blocks at once say nothing.
                    (since.missing, whole) = (since.missing + 1, false);
                    return Vec::new();
                }
                if !std::mem::replace(&mut begun, true) {
                    *since = Truth::default();
                } else {
                    if whole && since.lost == since.inserted {
                        since.parities += u64::from(columns.count_ones());
                        since.errored_blocks += u64::from(columns != 0);
                    }
                    known.lost += since.lost;
                    known.inserted += since.inserted;
                    known.cells += since.cells;
                    known.missing += since.missing;
                    known.parities += since.parities;
                    known.errored_blocks += since.errored_blocks;
                }
                // A reading over several blocks tells their sum: with one kind only it is exact.
                (*since, columns, whole) = (Truth::default(), 0, true);
                let kinds = [Kind::Nothing, Kind::Loses, Kind::Inserts, Kind::Damages];
                kind = kinds[random.random_range(0..kinds.len())];
                return vec![*cell];
            }
            since.cells += 1;
            if !random.random_ratio(1, 20) {
                return vec![*cell];
            }
            match kind {
                Kind::Nothing => vec![*cell],
                Kind::Loses => {
                    since.lost += 1;
                    Vec::new()
                }
                Kind::Inserts => {
                    since.inserted += 1;
                    let mut stranger = *cell;
                    stranger.payload[5] ^= 0x55;
                    vec![*cell, stranger]
                }
                Kind::Damages => {
                    let mut damaged = *cell;
                    let bit = random.random_range(0..384);
                    damaged.payload[bit / 8] ^= 0x80 >> (bit % 8);
                    columns ^= 1 << (15 - bit % 16);
                    vec![damaged]
                }
            }
        });
        let mut applications: Vec<_> = (0..2).map(|n| Application::open(&mut bench, 0, n, Aal::Aal5)).collect();
        let mut random = StdRng::seed_from_u64(seed);
        for _ in 0..300 {
            for application in &mut applications {
                application.send(&vec![seed as u8; random.random_range(1..4000)]);
            }
            bench.pass(seconds(0.004));
        }
        bench.pass(seconds(1.0));
        let (known, _) = *truth.lock().unwrap();
        assert!(known.lost > 20 && known.inserted > 20 && known.parities > 20 && known.missing > 0, "{known:?}");
        let found = bench.oam(1, 0).received.unwrap();
        let said = Truth {
            lost: found.lost,
            inserted: found.misinserted,
            errored_blocks: found.errored_blocks,
            parities: found.errored_parities,
            cells: found.cells,
            missing: found.monitoring_lost,
        };
        assert_eq!(said, known, "seed {seed}");
        // The other end hears of the same, by reports, and the circuit beside it of nothing.
        let (_, reported) = bench.oam(0, 0).sent.unwrap();
        assert_eq!((reported.lost, reported.misinserted, reported.cells), (found.lost, found.misinserted, found.cells));
        let beside = bench.oam(1, 1).received.unwrap();
        assert!(beside.blocks > 20);
        assert_eq!((beside.lost, beside.misinserted, beside.errored_blocks, beside.monitoring_lost), (0, 0, 0, 0));
    }
}

#[test]
fn a_burst_of_alarms_and_the_end_of_them_all_at_once_are_spread_over_rounds() {
    const CIRCUITS: u16 = 2000;
    const OF_A_ROUND: usize = 128;
    let mut network = Network::new(FramePool::new(4, 64));
    let node = network.add_node("host", Box::new(HostInterface::new(1).named("host")));
    let config = LinkConfig { queue_cells: 4096, ..LinkConfig::default() };
    let link = network.connect(End::Port(node, 0), End::External, config).unwrap();
    let (contract, oam) = (Contract::default(), OamOptions::default());
    let options = CircuitOptions { aal: net::FrameAal::Aal5, contract, sends: true, receives: true, oam };
    let host = network.node_mut::<HostInterface>(node).unwrap();
    (0..CIRCUITS).for_each(|n| CircuitTable::add_circuit(host, 0, id(n), &options).unwrap());
    let defect = Defect { kind: DefectType(7), location: Location::named("elsewhere").unwrap() };
    let points = |network: &mut Network| network.peek_node::<HostInterface>(node).unwrap().oam_points();
    // Takes what the host sends: RDI, one cell of each circuit.
    let told = |network: &mut Network, now: Time| {
        let take = |io: &mut NodeIo<'_>| {
            let n = io.cells_in(0).len();
            io.consume(0, n);
            n
        };
        network.external(link, now, take).unwrap()
    };
    let begin = Time::from_millis(1);
    let put = |io: &mut NodeIo<'_>| {
        (0..CIRCUITS).all(|n| {
            let header = CellHeader { circuit: id(n), ..CellHeader::default() };
            io.put_cell(0, &Cell::new(Flow::F5EndToEnd.header(header), Function::Ais(defect).emit()))
        })
    };
    assert_eq!(network.external(link, begin, put), Some(true));
    let (mut sent, mut rounds) = (0, 0);
    while points(&mut network) < usize::from(CIRCUITS) || sent < usize::from(CIRCUITS) {
        let before = points(&mut network);
        assert!(network.run(begin), "the host says that it has more to do");
        let (made, said) = (points(&mut network) - before, told(&mut network, begin));
        assert!(made <= OF_A_ROUND && said <= OF_A_ROUND, "{made} end points and {said} cells in a round");
        sent += said;
        rounds += 1;
        assert!(rounds < 100);
    }
    // All alarms end at one moment.
    let end = begin + seconds(2.5);
    rounds = 0;
    while points(&mut network) > 0 {
        let before = points(&mut network);
        network.run(end);
        told(&mut network, end);
        assert!(before - points(&mut network) <= OF_A_ROUND);
        rounds += 1;
        assert!(rounds < 200, "{} end points are left", points(&mut network));
    }
    assert!(rounds >= usize::from(CIRCUITS) / OF_A_ROUND);
}
