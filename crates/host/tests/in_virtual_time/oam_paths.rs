//! OAM of paths (F4) that end at hosts: VCI 3 and 4 of a VPI, through switches that switch the path as a whole.

use host::HostInterface;
use net::topology::{CircuitOptions, CircuitTable, OamOptions};
use net::{
    End, FramePool, Label, LinkConfig, LinkId, Network, NodeId, RouteOptions, SwitchElement, SwitchElementConfig,
};
use std::time::Duration;
use switch::oam::AlarmKind;
use wire::oam::{
    Activation, BlockCode, Defect, DefectType, Directions, Flow, Function, Location, Loopback, Message, Subject,
};
use wire::{Cell, CellHeader, CellRate, CircuitId, DropReason, Time, Vci, Vpi};

/// alpha - s1 - s2 - beta, back from s2 by s3 to s1: the path 5 goes there by the short way and comes back by the long one. The
/// path 8 takes the long way both ways.
struct Bench {
    network: Network,
    hosts: [NodeId; 2],
    switches: [NodeId; 3],
    /// From s1 to s2.
    short: LinkId,
    /// Where alpha is, if it is outside.
    outside: LinkId,
    now: Time,
}

fn vp(vpi: u16) -> Label {
    Label::Vp(Vpi::new(vpi).unwrap())
}

fn id(vpi: u16, vci: u16) -> CircuitId {
    CircuitId { vpi: Vpi::new(vpi).unwrap(), vci: Vci(vci) }
}

const CHANNELS: [u16; 3] = [100, 101, 4000];

fn seconds(n: f64) -> Duration {
    Duration::from_secs_f64(n)
}

impl Bench {
    fn new(alpha_is_here: bool) -> Self {
        let mut network = Network::new(FramePool::new(16, 2048));
        let hosts = ["alpha", "beta"].map(|n| network.add_node(n, Box::new(HostInterface::new(4).named(n))));
        let switches = ["s1", "s2", "s3"].map(|name| {
            let config = SwitchElementConfig { ports: 3, kept_ports: 0, max_routes: 100 };
            network.add_node(name, Box::new(SwitchElement::new(config).named(name)))
        });
        let [s1, s2, s3] = switches;
        let rate =
            || LinkConfig { rate: Some(CellRate::OC3C), delay: Duration::from_micros(50), ..LinkConfig::default() };
        let first = if alpha_is_here { End::Port(hosts[0], 0) } else { End::External };
        let outside = network.connect(first, End::Port(s1, 0), rate()).unwrap();
        let short = network.connect(End::Port(s1, 1), End::Port(s2, 0), rate()).unwrap();
        network.connect(End::Port(s2, 1), End::Port(hosts[1], 0), rate()).unwrap();
        network.connect(End::Port(s2, 2), End::Port(s3, 0), rate()).unwrap();
        network.connect(End::Port(s3, 1), End::Port(s1, 2), rate()).unwrap();
        let routes = [
            (s1, (0, 5), (1, 6)),
            (s2, (0, 6), (1, 5)),
            (s2, (1, 5), (2, 7)),
            (s3, (0, 7), (1, 7)),
            (s1, (2, 7), (0, 5)),
            (s1, (0, 8), (2, 8)),
            (s3, (1, 8), (0, 8)),
            (s2, (2, 8), (1, 8)),
            (s2, (1, 8), (2, 9)),
            (s3, (0, 9), (1, 9)),
            (s1, (2, 9), (0, 8)),
        ];
        for (switch, (from, vpi), (to, out)) in routes {
            let switch = network.node_mut::<SwitchElement>(switch).unwrap();
            switch.add_route((from, vp(vpi)), (to, vp(out)), RouteOptions::default()).unwrap();
        }
        let (contract, oam) = (traffic::Contract::default(), OamOptions::default());
        let options = CircuitOptions { aal: net::FrameAal::Aal5, contract, sends: true, receives: true, oam };
        for host in hosts {
            let host = network.node_mut::<HostInterface>(host).unwrap();
            for (vpi, vci) in [5, 8].into_iter().flat_map(|vpi| CHANNELS.map(|vci| (vpi, vci))) {
                CircuitTable::add_circuit(host, 0, id(vpi, vci), &options).unwrap();
            }
        }
        Bench { network, hosts, switches, short, outside, now: Time::ZERO }
    }

    fn host(&mut self, n: usize) -> &mut HostInterface {
        self.network.node_mut(self.hosts[n]).unwrap()
    }

    /// The alarms of a path's channels, which all have the same.
    fn alarms(&mut self, host: usize, vpi: u16) -> Vec<(AlarmKind, Defect)> {
        let host = self.host(host);
        let [first, others @ ..] = CHANNELS.map(|vci| {
            host.alarms(id(vpi, vci)).into_iter().map(|alarm| (alarm.kind, alarm.defect)).collect::<Vec<_>>()
        });
        assert!(others.iter().all(|other| *other == first), "{first:?} {others:?}");
        first
    }

    fn is_calm(&mut self) -> bool {
        (0..2).all(|host| [5, 8].iter().all(|vpi| self.alarms(host, *vpi).is_empty()))
    }

    /// Lets time pass; the cells that have come outside.
    fn pass(&mut self, time: Duration) -> Vec<Cell> {
        let until = self.now + time;
        let mut got = Vec::new();
        loop {
            while self.network.run(self.now) {}
            self.network.external(self.outside, self.now, |io| {
                let n = io.cells_in(0).len();
                got.extend_from_slice(io.cells_in(0));
                io.consume(0, n);
            });
            match self.network.poll_timeout() {
                Some(next) if next <= until => self.now = next.max(self.now + Duration::from_nanos(1)),
                _ => break,
            }
        }
        self.now = until;
        got
    }

    fn send(&mut self, cell: Cell) {
        self.network.external(self.outside, self.now, |io| assert!(io.put_cell(0, &cell)));
    }

    fn stray(&mut self, host: usize, reason: DropReason) -> u64 {
        self.host(host).stray().dropped(reason)
    }
}

fn f4(flow: Flow, vpi: u16, function: Function) -> Cell {
    let header = CellHeader { circuit: id(vpi, 0), ..CellHeader::default() };
    Cell::new(flow.header(header), function.emit())
}

fn user(vpi: u16, vci: u16) -> Cell {
    Cell::new(CellHeader { circuit: id(vpi, vci), ..CellHeader::default() }, [0; 48])
}

fn said(cells: &[Cell]) -> Vec<(CircuitId, Function)> {
    let of_oam = cells.iter().filter(|cell| Flow::of(cell.header()).is_some());
    of_oam.map(|cell| (cell.circuit(), Function::parse(&cell.payload).unwrap())).collect()
}

#[test]
fn a_path_that_is_cut_one_way_is_ais_of_each_channel_behind_it_and_rdi_of_each_at_its_beginning_until_it_is_mended() {
    let mut bench = Bench::new(true);
    bench.pass(seconds(0.1));
    let cut = bench.now;
    let link = bench.short;
    assert!(bench.network.set_link_up(link, false));
    bench.pass(seconds(0.002));
    let defect = Defect::found(DefectType::LINK, Location::named("s2"));
    assert_eq!(bench.alarms(1, 5), [(AlarmKind::Ais, defect)]);
    assert_eq!(bench.alarms(0, 5), [(AlarmKind::Rdi, defect)]);
    let since = bench.host(1).alarms(id(5, 100))[0].since;
    assert!(since.since(cut) < Duration::from_micros(500), "{since:?}");
    // It lasts as long as the cut, and the other path has no part in it.
    for _ in 0..100 {
        bench.pass(seconds(0.1));
        assert_eq!((bench.alarms(1, 5).len(), bench.alarms(0, 5).len()), (1, 1));
        assert!(bench.alarms(0, 8).is_empty() && bench.alarms(1, 8).is_empty());
    }
    assert!(bench.network.set_link_up(link, true));
    // 2.5 s after the last AIS cell of the path, then of its channels, and after the last RDI cell.
    bench.pass(seconds(2.6 + 2.6 + 2.6));
    assert!(bench.is_calm());
    assert_eq!([bench.host(0).oam_points(), bench.host(1).oam_points()], [0, 0]);
    assert_eq!(bench.network.poll_timeout(), None);
}

#[test]
fn a_user_cell_of_any_channel_ends_the_alarm_of_its_path() {
    let mut bench = Bench::new(false);
    bench.send(f4(Flow::F4EndToEnd, 5, Function::Ais(Defect::found(DefectType::LINK, Location::named("far")))));
    bench.pass(seconds(0.01));
    assert_eq!(bench.alarms(1, 5).len(), 1);
    CHANNELS.iter().for_each(|vci| bench.send(user(5, *vci)));
    let events = |bench: &mut Bench| std::iter::from_fn(|| bench.host(1).poll_alarm()).filter(|(_, e)| e.began).count();
    bench.pass(seconds(0.01));
    assert!(bench.alarms(1, 5).is_empty());
    assert_eq!(events(&mut bench), 1 + CHANNELS.len());
    // The path does not raise it again.
    for _ in 0..40 {
        bench.pass(seconds(0.1));
        assert!(bench.alarms(1, 5).is_empty());
    }
    assert_eq!(events(&mut bench), 0);
}

#[test]
fn loopback_on_a_path_is_answered_by_its_next_switch_on_the_segment_and_by_its_end_end_to_end() {
    let mut bench = Bench::new(false);
    for (flow, vci, tag) in [(Flow::F4Segment, 3, 1), (Flow::F4EndToEnd, 4, 2)] {
        bench.send(f4(flow, 5, Function::Loopback(Loopback::request(tag))));
        let got = said(&bench.pass(seconds(0.01)));
        let [(circuit, Function::Loopback(answer))] = got[..] else { panic!("{got:?}") };
        assert_eq!((circuit, answer.request, answer.correlation), (id(5, vci), false, tag));
    }
    // Every point of the path: both switches that a request passes, and its end.
    let every = Loopback { location: Location::EVERY_POINT, ..Loopback::request(3) };
    bench.send(f4(Flow::F4EndToEnd, 5, Function::Loopback(every)));
    let mut names: Vec<String> = said(&bench.pass(seconds(0.01)))
        .iter()
        .map(|(circuit, function)| {
            let Function::Loopback(answer) = function else { panic!("{function:?}") };
            assert!(*circuit == id(5, 4) && !answer.request && answer.correlation == 3);
            answer.location.name().unwrap_or_default().to_owned()
        })
        .collect();
    names.sort_unstable();
    // s2 answers at the port of arrival, on which nothing of the path goes back.
    assert_eq!(names, ["beta", "s1"]);
}

#[test]
fn rdi_and_refused_requests_of_a_path_stay_with_it() {
    let mut bench = Bench::new(false);
    let block = [BlockCode::of_cells(128).unwrap(); 2];
    let ask = |subject, tag| {
        let (message, directions) = (Message::Activate, Directions::Both);
        Function::Activation(Activation { subject, message, directions, tag, blocks: block })
    };
    for (subject, tag) in [(Subject::Monitoring, 9), (Subject::ContinuityCheck, 10)] {
        bench.send(f4(Flow::F4EndToEnd, 5, ask(subject, tag)));
        let got = said(&bench.pass(seconds(0.01)));
        let [(circuit, Function::Activation(answer))] = got[..] else { panic!("{got:?}") };
        let message = Message::ActivationDenied;
        assert_eq!((circuit, answer.message, answer.tag), (id(5, 4), message, tag));
    }
    let defect = Defect { kind: DefectType(3), location: Location([9; 16]) };
    bench.send(f4(Flow::F4EndToEnd, 5, Function::Rdi(defect)));
    assert_eq!(said(&bench.pass(seconds(0.01))), []);
    let events: Vec<_> = std::iter::from_fn(|| bench.host(1).poll_alarm()).map(|(c, e)| (c, e.alarm.kind)).collect();
    assert_eq!(events, [(id(5, 4), AlarmKind::Rdi)]);
    // A path without circuits, and what nobody waits for, is counted.
    let other = f4(Flow::F4EndToEnd, 5, Function::ContinuityCheck);
    bench.send(other);
    bench.send(f4(Flow::F4EndToEnd, 77, Function::Ais(defect)));
    assert_eq!(said(&bench.pass(seconds(5.0))), []);
    assert!(bench.is_calm());
    assert_eq!(bench.stray(1, DropReason::UnknownCircuit), 0);
    let s1 = bench.switches[0];
    let s1 = bench.network.node_mut::<SwitchElement>(s1).unwrap();
    assert_eq!(s1.port_drops(0).dropped(DropReason::UnknownCircuit), 1);
    assert_eq!(bench.network.poll_timeout(), None);
}
