//! Circuits by name: routed, installed hop by hop, changed by difference.

use net::topology::TopologyError;
use net::topology::{CircuitDescription, CircuitOptions, CircuitTable, Fabric, LinkDescription, Router, StationKind};
use net::{FramePool, LinkConfig, Network, Node, NodeIo, SwitchElement};
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
    CircuitDescription { ends, ..CircuitDescription::default() }
}

fn link(a: &str, b: &str) -> LinkDescription {
    LinkDescription { ends: [a.parse().unwrap(), b.parse().unwrap()], config: LinkConfig::default() }
}

struct World {
    network: Network,
    fabric: Fabric<Host>,
}

const LINKS: [[&str; 2]; 4] = [["alpha", "s1:0"], ["s1", "s2"], ["beta", "s2:5"], ["gamma", "s2"]];

fn empty_world(config: &LinkConfig) -> World {
    let mut w = World { network: Network::new(FramePool::new(4, 2048)), fabric: Fabric::new() };
    for host in ["alpha", "beta", "gamma"] {
        w.fabric.add_host(&mut w.network, host, Host::default()).unwrap();
    }
    for switch in ["s1", "s2"] {
        w.fabric.add_switch(&mut w.network, switch, net::SwitchElementConfig::default()).unwrap();
    }
    for [a, b] in LINKS {
        let link = LinkDescription { config: config.clone(), ..link(a, b) };
        w.fabric.add_link(&mut w.network, &link).unwrap();
    }
    w
}

fn world() -> World {
    let mut w = empty_world(&LinkConfig::default());
    for ends in [["alpha 0.100", "beta 0.100"], ["alpha 0.101", "gamma 0.100"]] {
        w.fabric.add_circuit(&mut w.network, &circuit(&ends)).unwrap();
    }
    w
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
        self.network.node_mut::<SwitchElement>(self.fabric.node(switch).unwrap()).unwrap().routes().count()
    }

    fn bounds(&mut self, switch: &str, config: net::SwitchElementConfig) -> Result<(), TopologyError> {
        let had = self.network.node_mut::<SwitchElement>(self.fabric.node(switch).unwrap()).unwrap().config();
        let mut room = net::Room::new(had, config).unwrap();
        self.fabric.change_switch(&mut self.network, switch, config, &mut room)?;
        while self.fabric.settle_switch(&mut self.network, switch, 1, &mut room) {}
        Ok(())
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
    let mut w = empty_world(&LinkConfig { rate: CellRate::from_cells_per_s(1000.0), ..LinkConfig::default() });
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
fn a_contract_changes_where_it_fits_and_the_circuit_stays() {
    let mut w = empty_world(&LinkConfig { rate: CellRate::from_cells_per_s(1000.0), ..LinkConfig::default() });
    let of = |rate| Contract { category: Category::Cbr, pcr: CellRate::from_cells_per_s(rate), ..Contract::default() };
    let described = CircuitDescription { contract: of(600.0), ..circuit(&["alpha 0.40", "beta 0.40"]) };
    w.fabric.add_circuit(&mut w.network, &described).unwrap();
    assert!(w.fabric.change_contract(&mut w.network, &described.ends, of(1001.0), None).is_err());
    assert_eq!(w.fabric.change_contract(&mut w.network, &described.ends, of(1000.0), None), Ok((of(600.0), None)));
    let other = CircuitDescription { contract: of(1.0), ..circuit(&["alpha 0.41", "beta 0.41"]) };
    assert!(w.fabric.add_circuit(&mut w.network, &other).is_err());
    w.fabric.change_contract(&mut w.network, &described.ends, of(10.0), None).unwrap();
    w.fabric.add_circuit(&mut w.network, &other).unwrap();
}

#[test]
fn a_path_is_switched_whole_and_carries_channels_from_end_to_end() {
    let mut w = empty_world(&LinkConfig::default());
    let path = circuit(&["s1:0 7.*", "s2:5 9.*"]);
    w.fabric.add_circuit(&mut w.network, &path).unwrap();
    let routes = w.routes("s1");
    // A channel of the path takes no route of its own; its VCI is the same at both ends.
    w.fabric.add_circuit(&mut w.network, &circuit(&["alpha 7.40", "beta 9.40"])).unwrap();
    assert_eq!(w.routes("s1"), routes);
    w.send("alpha", "7.40");
    assert_eq!(w.got("beta"), [id("9.40")]);
    w.send("beta", "9.40");
    assert_eq!(w.got("alpha"), [id("7.40")]);
    let refused = |w: &mut World, ends: &[&str]| w.fabric.add_circuit(&mut w.network, &circuit(ends)).unwrap_err();
    assert!(matches!(refused(&mut w, &["alpha 7.41", "beta 9.42"]), TopologyError::LabelInUse { .. }));
    assert!(matches!(refused(&mut w, &["alpha 7.41", "gamma 0.41"]), TopologyError::LabelInUse { .. }));
    assert_eq!(refused(&mut w, &["s1:0 8.*", "s2:5 8.40"]), TopologyError::MixedEnds);
    let removed = w.fabric.remove_circuit(&mut w.network, &path).unwrap_err();
    assert!(matches!(removed, TopologyError::PathInUse(_)));
    w.fabric.remove_circuit(&mut w.network, &circuit(&["alpha 7.40", "beta 9.40"])).unwrap();
    w.fabric.remove_circuit(&mut w.network, &path).unwrap();
    assert_eq!((w.routes("s1"), w.routes("s2")), (0, 0));
}

#[test]
fn a_one_way_circuit_has_no_way_back_and_takes_nothing_of_it() {
    let mut w = empty_world(&LinkConfig { rate: CellRate::from_cells_per_s(1000.0), ..LinkConfig::default() });
    let pcr = CellRate::from_cells_per_s(1000.0);
    let contract = Contract { category: Category::Cbr, pcr, ..Contract::default() };
    let there = CircuitDescription { one_way: true, contract, ..circuit(&["alpha 0.40", "beta 0.40"]) };
    let back = CircuitDescription { one_way: true, contract, ..circuit(&["beta 0.41", "alpha 0.41"]) };
    w.fabric.add_circuit(&mut w.network, &there).unwrap();
    w.fabric.add_circuit(&mut w.network, &back).unwrap();
    assert_eq!((w.routes("s1"), w.routes("s2")), (2, 2));
    let host = w.fabric.node("beta").unwrap();
    let ends = |circuit: &CircuitDescription| w.fabric.find_circuit(&circuit.ends[1]).cloned();
    assert_eq!(ends(&there), Some(there.clone()));
    assert!(w.network.node_mut::<Host>(host).is_some());
}

#[test]
fn a_circuit_goes_round_a_link_that_has_no_rate_left() {
    let mut router = Router::new();
    for name in ["a", "b"] {
        router.add_station(name, StationKind::Host).unwrap();
    }
    for name in ["s1", "s2", "s3"] {
        router.add_station(name, StationKind::Switch(net::SwitchElementConfig::default())).unwrap();
    }
    for ends in [["a", "s1"], ["b", "s2"]] {
        router.add_link(&link(ends[0], ends[1])).unwrap();
    }
    let rate = CellRate::from_cells_per_s(100.0);
    for ends in [["s1", "s2"], ["s1", "s3"], ["s3", "s2"]] {
        let config = LinkConfig { rate, ..LinkConfig::default() };
        router.add_link(&LinkDescription { config, ..link(ends[0], ends[1]) }).unwrap();
    }
    let contract = Contract { category: Category::Cbr, pcr: rate, ..Contract::default() };
    let mut hops = |n: u16| {
        let ends = [format!("a 0.{n}"), format!("b 0.{n}")];
        let described = CircuitDescription { contract, ..circuit(&ends.each_ref().map(String::as_str)) };
        router.add_circuit(&described).map(|placed| placed.route.hops.len())
    };
    assert_eq!((hops(40), hops(41)), (Ok(3), Ok(4)));
    assert!(matches!(hops(42), Err(TopologyError::Admission { .. })));
}

#[test]
fn a_link_that_becomes_slower_loses_nothing_of_what_is_on_it() {
    let mut w = world();
    let alpha = w.fabric.find_link("alpha - s1:0").unwrap();
    let config = |rate, delay_ms| LinkConfig {
        rate,
        delay: std::time::Duration::from_millis(delay_ms),
        ..LinkConfig::default()
    };
    let mut now = Time::ZERO;
    let mut sent = 0;
    for (rate, delay) in
        [(None, 5), (CellRate::from_cells_per_s(1000.0), 1), (None, 0), (CellRate::from_cells_per_s(50.0), 20)]
    {
        w.fabric.change_link(&mut w.network, alpha, &config(rate, delay), now).unwrap();
        for _ in 0..20 {
            w.host("alpha").to_send.push((0, id("0.100")));
            sent += 1;
        }
        w.network.run(now);
        now += std::time::Duration::from_millis(2);
    }
    for _ in 0..2000 {
        now += std::time::Duration::from_millis(1);
        w.network.run(now);
    }
    assert_eq!(w.got("beta").len(), sent);
    let refused = w.fabric.change_link(&mut w.network, alpha, &LinkConfig { queue_cells: 9, ..config(None, 0) }, now);
    assert!(matches!(refused, Err(TopologyError::FixedProperty { what: "queue", .. })));
}

#[test]
fn a_switch_keeps_no_fewer_ports_and_routes_than_it_uses() {
    let mut w = world();
    let mut change = |ports, kept_ports, max_routes| {
        let config = net::SwitchElementConfig { ports, kept_ports, max_routes };
        w.bounds("s2", config).map_err(|e| e.to_string())
    };
    assert!(change(5, 0, 100).unwrap_err().contains("ports"));
    assert!(change(6, 1, 100).unwrap_err().contains("5 is less than it uses, 6"));
    assert!(change(6, 0, 3).unwrap_err().contains("max_routes"));
    change(7, 1, 4).unwrap();
    let more = w.fabric.add_circuit(&mut w.network, &circuit(&["alpha 0.102", "beta 0.102"])).unwrap_err();
    assert!(matches!(more, TopologyError::NoRoutes { bound: 4, needed: 2, .. }), "{more}");
    assert_eq!(w.routes("s1"), 4, "nothing of it is left");
    w.bounds("s2", net::SwitchElementConfig { ports: 8, kept_ports: 0, max_routes: 6 }).unwrap();
    w.fabric.add_circuit(&mut w.network, &circuit(&["alpha 0.102", "beta 0.102"])).unwrap();
}

#[test]
fn a_circuit_that_is_put_back_has_the_way_that_it_had() {
    let mut router = Router::new();
    router.add_station("a", StationKind::Host).unwrap();
    router.add_station("b", StationKind::Host).unwrap();
    for name in ["s1", "s2"] {
        router.add_station(name, StationKind::Switch(net::SwitchElementConfig::default())).unwrap();
    }
    for ends in [["a", "s1"], ["s1", "s2"], ["s2", "b"]] {
        router.add_link(&link(ends[0], ends[1])).unwrap();
    }
    let described = |n: u16, m: u16| circuit(&[&format!("a 0.{n}"), &format!("b 0.{m}")]);
    router.add_circuit(&described(50, 60)).unwrap();
    let trunk = router.find_link("s1 - s2").unwrap();
    let placed = router.remove_circuit(&described(50, 60).ends).unwrap();
    router.add_circuit(&described(51, 61)).unwrap();
    router.restore_circuit(placed.clone()).unwrap();
    assert_eq!(router.find_circuit(&placed.description.ends[0]), Some(&placed));
    assert!(router.restore_circuit(placed).is_err());
    assert_eq!(router.circuits_over(trunk).len(), 2);
    assert_eq!(router.link_use(trunk), Some(([0.0, 0.0], 2)));
}

#[test]
fn names_of_links_and_ends_are_read_as_they_are_written() {
    let w = world();
    let first = w.fabric.links().next().map(|(id, ..)| id);
    for name in ["alpha:0 - s1:0", "alpha - s1:0", "alpha-s1:0"] {
        assert_eq!(w.fabric.find_link(name), first, "{name}");
    }
    for name in ["alpha - s1", "s1:0 - alpha", "alpha:1 - s1:0", "alpha", ""] {
        assert_eq!(w.fabric.find_link(name), None, "{name}");
    }
    for end in ["alpha 0.100", "s1:3 0.100", "s1:0 7.*", "far:2 4095.*"] {
        assert_eq!(end.parse::<net::topology::CircuitEnd>().unwrap().to_string(), end);
    }
    for end in ["alpha", "alpha 0.100 x", "s1:x 0.1", "s1:0 *", "s1:0 4096.*", "s1:0 7.*.1", " 0.1"] {
        assert!(end.parse::<net::topology::CircuitEnd>().is_err(), "{end}");
    }
}

#[test]
fn a_vpi_that_a_link_s_headers_do_not_hold_is_refused_when_the_circuit_is_set_up() {
    let uni = LinkConfig { max_vpi: wire::Vpi::MAX_UNI, ..LinkConfig::default() };
    let mut w = empty_world(&uni);
    let refused = w.fabric.add_circuit(&mut w.network, &circuit(&["alpha 300.100", "beta 300.100"]));
    assert!(matches!(refused, Err(TopologyError::VpiTooLarge { most: 255, .. })), "{refused:?}");
    w.fabric.add_circuit(&mut w.network, &circuit(&["alpha 255.100", "beta 255.100"])).unwrap();
    let mut wide = empty_world(&LinkConfig::default());
    wide.fabric.add_circuit(&mut wide.network, &circuit(&["alpha 300.100", "beta 300.100"])).unwrap();
}

#[test]
fn contracts_from_a_link_are_tolerated_by_as_much_as_it_lets_cells_come_together() {
    // 1000 cells/s: cells that come at once are 1 ms apart by the contract.
    let burst = |tolerance_ms| {
        let tolerance = std::time::Duration::from_millis(tolerance_ms);
        let mut w = empty_world(&LinkConfig { tolerance, ..LinkConfig::default() });
        let contract =
            Contract { category: Category::Cbr, pcr: CellRate::from_cells_per_s(1000.0), ..Contract::default() };
        let described = CircuitDescription { contract, ..circuit(&["alpha 0.100", "beta 0.100"]) };
        w.fabric.add_circuit(&mut w.network, &described).unwrap();
        w.host("alpha").to_send = vec![(0, id("0.100")); 40];
        for ms in 0..200 {
            while w.network.run(Time::from_millis(ms)) {}
        }
        w.host("beta").got.len()
    };
    assert_eq!(burst(50), 40);
    assert!(burst(0) < 5);
}
