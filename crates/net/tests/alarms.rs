//! A link that is cut between two switches: who is told, when, and when it is over.

use net::{
    End, FramePool, Label, LinkConfig, LinkId, Network, NodeId, RouteOptions, SwitchElement, SwitchElementConfig,
};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::oam::{Defect, DefectType, Flow, Function, Location};
use wire::{Cell, CellHeader, CellRate, CircuitId, Time};

const CIRCUITS: u16 = 1000;
const DELAY: Duration = Duration::from_micros(300);

struct Bench {
    network: Network,
    switches: [NodeId; 2],
    /// From outside to s1, between the switches, from s2 to outside, from elsewhere to s2.
    links: [LinkId; 4],
    now: Time,
}

fn vc(n: u16) -> Label {
    Label::Vc(CircuitId::new(1, 100 + n).unwrap())
}

fn bench() -> Bench {
    let mut network = Network::new(FramePool::new(64, 2048));
    let switches = ["s1", "s2"].map(|name| {
        let switch = SwitchElement::new(SwitchElementConfig { ports: 4, kept_ports: 0, max_routes: 3000 }).named(name);
        network.add_node(name, Box::new(switch))
    });
    let [s1, s2] = switches;
    let oc3 = || LinkConfig { rate: Some(CellRate::OC3C), delay: DELAY, ..LinkConfig::default() };
    let links = [
        network.connect(End::External, End::Port(s1, 0), oc3()).unwrap(),
        network.connect(End::Port(s1, 1), End::Port(s2, 0), oc3()).unwrap(),
        network.connect(End::Port(s2, 1), End::External, oc3()).unwrap(),
        network.connect(End::External, End::Port(s2, 2), LinkConfig::default()).unwrap(),
    ];
    for switch in switches {
        let element = network.node_mut::<SwitchElement>(switch).unwrap();
        for n in 0..CIRCUITS {
            for (from, to) in [(0, 1), (1, 0)] {
                element.add_route((from, vc(n)), (to, vc(n)), RouteOptions::default()).unwrap();
            }
        }
    }
    let element = network.node_mut::<SwitchElement>(s2).unwrap();
    element.add_route((2, vc(5000)), (1, vc(5000)), RouteOptions::default()).unwrap();
    Bench { network, switches, links, now: Time::ZERO }
}

impl Bench {
    /// Lets time pass, and says which cells came outside at which end of the chain, and when.
    fn pass(&mut self, time: Duration) -> [Vec<(Time, Cell)>; 2] {
        let until = self.now + time;
        let mut got = [Vec::new(), Vec::new()];
        loop {
            while self.network.run(self.now) {}
            for (end, link) in [self.links[0], self.links[2]].into_iter().enumerate() {
                let now = self.now;
                self.network.external(link, now, |io| {
                    while !io.cells_in(0).is_empty() {
                        got[end].extend(io.cells_in(0).iter().map(|cell| (now, *cell)));
                        let n = io.cells_in(0).len();
                        io.consume(0, n);
                    }
                });
            }
            match self.network.poll_timeout() {
                Some(next) if next <= until => self.now = next.max(self.now + Duration::from_nanos(1)),
                _ => break,
            }
        }
        self.now = until;
        got
    }

    fn send(&mut self, link: usize, circuit: CircuitId, n: usize) {
        let cell = Cell::new(CellHeader { circuit, ..CellHeader::default() }, [3; 48]);
        self.network.external(self.links[link], self.now, |io| (0..n).for_each(|_| _ = io.put_cell(0, &cell)));
    }
}

/// The AIS cells among others: when each circuit's came.
fn indicated(cells: &[(Time, Cell)], by: &str) -> BTreeMap<CircuitId, Vec<Time>> {
    let defect = Defect::found(DefectType::LINK, Location::named(by));
    let mut all = BTreeMap::<_, Vec<Time>>::new();
    for (at, cell) in cells.iter().filter(|(_, cell)| Flow::of(cell.header()).is_some()) {
        assert_eq!(Flow::of(cell.header()), Some(Flow::F5EndToEnd));
        assert_eq!(Function::parse(&cell.payload), Ok(Function::Ais(defect)));
        all.entry(cell.circuit()).or_default().push(*at);
    }
    all
}

#[test]
fn the_ais_of_the_nth_circuit_of_a_cut_link_leaves_within_n_cell_times_beside_data_and_ends_with_the_cut() {
    let mut bench = bench();
    bench.pass(Duration::from_millis(1));
    // A full queue of another circuit's data before the link on which half of the alarms leave.
    bench.send(3, CircuitId::new(1, 5100).unwrap(), 3000);
    while bench.network.run(bench.now) {}
    let cut = bench.now;
    assert!(bench.network.set_link_up(bench.links[1], false));
    let cell_time = 1e9 / CellRate::OC3C.cells_per_s();
    let got = bench.pass(Duration::from_millis(2900));
    for (cells, by, queued) in [(&got[0], "s1", 0), (&got[1], "s2", 3000)] {
        let told = indicated(cells, by);
        assert_eq!(told.len(), usize::from(CIRCUITS));
        let mut first: Vec<Time> = told.values().map(|times| times[0]).collect();
        first.sort_unstable();
        for (n, at) in first.iter().enumerate() {
            // What the line itself had taken before goes first.
            let cells = (n + 1 + queued) as f64;
            let most = cut + DELAY + Duration::from_nanos((cells * cell_time).ceil() as u64 + 1000);
            assert!(*at <= most, "circuit {n} at {by}: {at:?}, at the latest {most:?}");
        }
        for times in told.values() {
            assert_eq!(times.len(), 3);
            let gaps = times.windows(2).map(|pair| pair[1].since(pair[0]));
            assert!(gaps.clone().all(|gap| gap >= Duration::from_millis(900) && gap <= Duration::from_millis(1600)));
        }
        assert_eq!(cells.len(), 3 * usize::from(CIRCUITS) + queued);
    }
    let switch = bench.network.node_mut::<SwitchElement>(bench.switches[1]).unwrap();
    let told: Vec<_> = switch.indications().map(|i| (i.port, i.path, i.circuits)).collect();
    assert_eq!(told, [(0, None, u32::from(CIRCUITS))]);
    // It is mended: nothing more is told, and data passes.
    assert!(bench.network.set_link_up(bench.links[1], true));
    bench.send(0, CircuitId::new(1, 100).unwrap(), 5);
    let [back, on] = bench.pass(Duration::from_secs(5));
    assert_eq!((back.len(), on.len()), (0, 5));
    for switch in bench.switches {
        assert_eq!(bench.network.node_mut::<SwitchElement>(switch).unwrap().indications().count(), 0);
    }
    assert_eq!(bench.network.poll_timeout(), None);
}
