//! Circuits by name: routed, installed hop by hop, changed by difference.

use net::topology::TopologyError;
use net::topology::{CircuitDescription, CircuitOptions, CircuitTable, Description, Fabric, LinkDescription, Station};
use net::{Aal, FramePool, LinkConfig, Network, Node, NodeIo, Switch};
use std::any::Any;
use traffic::{Category, Contract};
use wire::{Cell, CellHeader, CellRate, CircuitId, PayloadType, Time};

/// Sends one cell per request; keeps the circuits of what arrives; counts how often circuits were installed.
#[derive(Default)]
struct Host {
    circuits: Vec<(u16, CircuitId)>,
    installs: usize,
    to_send: Vec<(u16, CircuitId)>,
    got: Vec<CircuitId>,
}

impl Node for Host {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let mut busy = false;
        for port in 0..io.ports() {
            let n = io.cells_in(port).len();
            self.got.extend(io.cells_in(port).iter().map(Cell::circuit));
            io.consume(port, n);
            busy |= n > 0;
        }
        for (port, circuit) in self.to_send.drain(..) {
            let payload_type = PayloadType::User { congestion: false, end: true };
            busy |= io.put_cell(port.into(), &Cell::new(CellHeader { circuit, payload_type, clp: false }, [1; 48]));
        }
        busy
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl CircuitTable for Host {
    fn add_circuit(&mut self, port: u16, circuit: CircuitId, _: &CircuitOptions) -> Result<(), String> {
        if circuit == id("0.666") {
            return Err("not this one".into());
        }
        self.circuits.push((port, circuit));
        self.installs += 1;
        Ok(())
    }
    fn remove_circuit(&mut self, port: u16, circuit: CircuitId) {
        self.circuits.retain(|c| *c != (port, circuit));
    }
}

fn id(s: &str) -> CircuitId {
    s.parse().unwrap()
}

fn circuit(ends: &[&str]) -> CircuitDescription {
    let ends = ends.iter().map(|e| e.parse().unwrap()).collect();
    CircuitDescription { ends, aal: Aal::Aal5, contract: Contract::default() }
}

fn link(a: &str, b: &str) -> LinkDescription {
    LinkDescription { ends: [a.parse().unwrap(), b.parse().unwrap()], config: LinkConfig::default() }
}

fn description() -> Description {
    let hosts = ["alpha", "beta", "gamma"].map(|n| (n.to_owned(), Station::Host));
    let switches = ["s1", "s2"].map(|n| (n.to_owned(), Station::Switch));
    Description {
        stations: hosts.into_iter().chain(switches).collect(),
        links: vec![link("alpha", "s1:0"), link("s1", "s2"), link("beta", "s2:5"), link("gamma", "s2")],
        circuits: vec![circuit(&["alpha 0.100", "beta 0.100"]), circuit(&["alpha 0.101", "gamma 0.100"])],
    }
}

struct World {
    network: Network,
    fabric: Fabric<Host>,
}

fn world() -> World {
    let mut world = World { network: Network::new(FramePool::new(4, 2048)), fabric: Fabric::new() };
    world.fabric.apply(&mut world.network, &description(), |_| Host::default()).unwrap();
    world
}

impl World {
    fn host(&mut self, name: &str) -> &mut Host {
        self.network.node_mut(self.fabric.node(name).unwrap()).unwrap()
    }

    fn send(&mut self, from: &str, circuit: &str) {
        let circuit = id(circuit);
        let host = self.host(from);
        let port = host.circuits.iter().find(|c| c.1 == circuit).unwrap().0;
        host.to_send.push((port, circuit));
        while self.network.run(Time::ZERO) {}
    }

    fn got(&mut self, at: &str) -> Vec<CircuitId> {
        std::mem::take(&mut self.host(at).got)
    }

    fn routes(&mut self, switch: &str) -> usize {
        self.network.node_mut::<Switch>(self.fabric.node(switch).unwrap()).unwrap().routes().count()
    }
}

#[test]
fn a_circuit_passes_both_ways_over_two_switches() {
    let mut w = world();
    w.send("alpha", "0.100");
    assert_eq!(w.got("beta"), [id("0.100")]);
    w.send("beta", "0.100");
    assert_eq!(w.got("alpha"), [id("0.100")]);
    w.send("gamma", "0.100");
    assert_eq!(w.got("alpha"), [id("0.101")]);
}

#[test]
fn a_multipoint_circuit_shares_the_way_and_has_no_way_back() {
    let mut w = world();
    w.fabric.add_circuit(&mut w.network, &circuit(&["alpha 0.200", "beta 0.201", "gamma 0.202"])).unwrap();
    w.send("alpha", "0.200");
    assert_eq!((w.got("beta"), w.got("gamma")), (vec![id("0.201")], vec![id("0.202")]));
    w.send("beta", "0.201");
    assert!(w.got("alpha").is_empty());
}

#[test]
fn a_removed_circuit_leaves_nothing_behind() {
    let mut w = world();
    let before = (w.routes("s1"), w.routes("s2"), w.host("alpha").circuits.len());
    let more = circuit(&["alpha 1.300", "gamma 2.300"]);
    w.fabric.add_circuit(&mut w.network, &more).unwrap();
    assert!(w.fabric.add_circuit(&mut w.network, &more).is_err());
    w.fabric.remove_circuit(&mut w.network, &more).unwrap();
    assert_eq!((w.routes("s1"), w.routes("s2"), w.host("alpha").circuits.len()), before);
    assert!(w.fabric.remove_circuit(&mut w.network, &more).is_err());
    w.fabric.add_circuit(&mut w.network, &more).unwrap();
}

#[test]
fn a_circuit_that_a_host_refuses_is_taken_back_everywhere() {
    let mut w = world();
    let before = (w.routes("s1"), w.routes("s2"), w.host("alpha").circuits.len());
    let error = w.fabric.add_circuit(&mut w.network, &circuit(&["alpha 0.500", "beta 0.666"])).unwrap_err();
    assert_eq!(error.to_string(), "the host beta refuses 0.666: not this one");
    assert_eq!((w.routes("s1"), w.routes("s2"), w.host("alpha").circuits.len()), before);
}

#[test]
fn a_second_description_touches_only_what_differs() {
    let mut w = world();
    let installs = w.host("alpha").installs;
    let mut wanted = description();
    wanted.circuits.remove(1);
    wanted.circuits.push(circuit(&["alpha 0.102", "gamma 0.103"]));
    let done = w.fabric.apply(&mut w.network, &wanted, |_| Host::default()).unwrap();
    assert_eq!((done.unchanged_circuits, done.removed_circuits, done.added_circuits), (1, 1, 1));
    assert_eq!((done.added_links, done.removed_links, done.added_stations), (0, 0, 0));
    assert_eq!(w.host("alpha").installs, installs + 1);
    w.send("alpha", "0.100");
    assert_eq!(w.got("beta"), [id("0.100")]);
    // A host goes with its link and circuits.
    wanted.stations.remove("gamma");
    wanted.links.remove(3);
    wanted.circuits.remove(1);
    let done = w.fabric.apply(&mut w.network, &wanted, |_| Host::default()).unwrap();
    assert_eq!((done.removed_circuits, done.removed_links, done.removed_stations), (1, 1, 1));
    assert_eq!(w.network.nodes().count(), 4);
    assert_eq!(w.fabric.apply(&mut w.network, &wanted, |_| Host::default()).unwrap().unchanged_circuits, 1);
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let mut w = world();
    let mut refusal = |ends: &[&str]| w.fabric.add_circuit(&mut w.network, &circuit(ends)).unwrap_err();
    assert_eq!(refusal(&["alpha 0.50", "delta 0.50"]), TopologyError::NoStation("delta".into()));
    assert_eq!(refusal(&["alpha 0.50", "s1 0.50"]), TopologyError::EndsAtSwitch("s1".into()));
    assert_eq!(refusal(&["alpha 0.50"]), TopologyError::TooFewEnds);
    assert_eq!(refusal(&["alpha 0.50", "alpha 0.51"]), TopologyError::TooFewEnds);
    assert_eq!(refusal(&["alpha 0.100", "beta 0.77"]), TopologyError::CircuitExists("alpha 0.100".into()));
    w.fabric.add_outside("island").unwrap();
    let error = w.fabric.add_circuit(&mut w.network, &circuit(&["alpha 0.50", "island 0.50"])).unwrap_err();
    assert_eq!(error, TopologyError::NoWay { from: "alpha".into(), to: "island".into() });
}

#[test]
fn circuits_with_a_contract_fill_a_link_and_no_more() {
    let mut w = World { network: Network::new(FramePool::new(4, 2048)), fabric: Fabric::new() };
    let mut wanted = description();
    wanted.links.iter_mut().for_each(|l| l.config.rate = CellRate::from_cells_per_s(1000.0));
    wanted.circuits.clear();
    w.fabric.apply(&mut w.network, &wanted, |_| Host::default()).unwrap();
    let cbr = |ends: &[&str], rate| {
        let pcr = CellRate::from_cells_per_s(rate);
        let contract = Contract { category: Category::Cbr, pcr, ..Contract::default() };
        CircuitDescription { contract, ..circuit(ends) }
    };
    w.fabric.add_circuit(&mut w.network, &cbr(&["alpha 0.40", "beta 0.40"], 600.0)).unwrap();
    let error = w.fabric.add_circuit(&mut w.network, &cbr(&["alpha 0.41", "beta 0.41"], 600.0)).unwrap_err();
    assert!(error.to_string().contains("400.0 cells/s left"), "{error}");
    w.fabric.remove_circuit(&mut w.network, &cbr(&["alpha 0.40", "beta 0.40"], 600.0)).unwrap();
    w.fabric.add_circuit(&mut w.network, &cbr(&["alpha 0.41", "beta 0.41"], 1000.0)).unwrap();
}

#[test]
fn what_cannot_be_is_known_before_anything_is_touched() {
    let good = description();
    let small = |_: &str| net::SwitchConfig { ports: 6, ..net::SwitchConfig::default() };
    good.rehearse(small).unwrap();
    let wrong = |change: &dyn Fn(&mut Description)| {
        let mut d = description();
        change(&mut d);
        d.rehearse(small).unwrap_err()
    };
    assert!(matches!(
        wrong(&|d| d.circuits.push(circuit(&["alpha 0.100", "gamma 0.7"]))),
        TopologyError::CircuitExists(_) | TopologyError::LabelInUse { .. }
    ));
    assert!(matches!(
        wrong(&|d| d.links.push(link("alpha:1", "s1:6"))),
        TopologyError::NoPort { port: 6, last: 5, .. }
    ));
    assert!(matches!(wrong(&|d| d.links.push(link("alpha:1", "s3"))), TopologyError::NoStation(_)));
    assert!(matches!(wrong(&|d| d.links.truncate(1)), TopologyError::NoWay { .. }));
}
