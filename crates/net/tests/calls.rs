//! Calls in a network in virtual time: switches police them by their contract, as they do permanent circuits.

use net::topology::{CircuitOptions, CircuitTable, Fabric, LinkDescription};
use net::{CircuitCounters, FramePool, Label, LinkConfig, Network, Node, NodeIo, SwitchElement, SwitchElementConfig};
use std::any::Any;
use std::collections::BTreeMap;
use std::time::Duration;
use traffic::{Category, Contract};
use wire::{Cell, CellHeader, CellRate, CircuitId, PayloadType, Time};

/// Cells at equal distances, however many the circuit's contract allows.
struct Flow {
    circuit: CircuitId,
    every: Duration,
    next: Time,
    left: u32,
}

#[derive(Default)]
struct Host {
    flows: Vec<Flow>,
    got: BTreeMap<CircuitId, u64>,
}

impl Node for Host {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let n = io.cells_in(0).len();
        for cell in io.cells_in(0) {
            *self.got.entry(cell.circuit()).or_default() += 1;
        }
        io.consume(0, n);
        let mut busy = n > 0;
        for flow in &mut self.flows {
            while flow.left > 0 && flow.next <= now {
                let payload_type = PayloadType::User { congestion: false, end: true };
                let header = CellHeader { circuit: flow.circuit, payload_type, clp: false };
                assert!(io.put_cell(0, &Cell::new(header, [1; 48])));
                (flow.next, flow.left, busy) = (flow.next + flow.every, flow.left - 1, true);
            }
        }
        busy
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.flows.iter().filter(|flow| flow.left > 0).map(|flow| flow.next).min()
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl CircuitTable for Host {
    fn add_circuit(&mut self, _: u16, _: CircuitId, _: &CircuitOptions) -> Result<(), String> {
        Ok(())
    }
    fn remove_circuit(&mut self, _: u16, _: CircuitId) {}
}

fn id(text: &str) -> CircuitId {
    text.parse().unwrap()
}

fn cbr(cells_per_s: f64) -> Contract {
    let pcr = CellRate::from_cells_per_s(cells_per_s);
    Contract { category: Category::Cbr, pcr, cdvt: Duration::from_millis(1), ..Contract::default() }
}

/// greedy and modest at s1, s1 - s2, others at s2; each link of OC-3c.
struct World {
    network: Network,
    fabric: Fabric<Host>,
    now: Time,
}

impl World {
    fn new() -> Self {
        let (mut network, mut fabric) = (Network::new(FramePool::new(8, 64)), Fabric::new());
        for name in ["greedy", "modest", "callee"] {
            fabric.add_host(&mut network, name, Host::default()).unwrap();
        }
        for name in ["s1", "s2"] {
            fabric.add_switch(&mut network, name, SwitchElementConfig::default()).unwrap();
        }
        for ends in [["greedy", "s1:0"], ["modest", "s1:1"], ["s1:2", "s2:0"], ["callee", "s2:1"]] {
            let config = LinkConfig { rate: CellRate::from_cells_per_s(353_207.5), ..LinkConfig::default() };
            let link = LinkDescription { ends: ends.map(|end| end.parse().unwrap()), config };
            fabric.add_link(&mut network, &link).unwrap();
        }
        World { network, fabric, now: Time::from_millis(1) }
    }

    fn host(&mut self, name: &str) -> &mut Host {
        let node = self.fabric.node(name).unwrap();
        self.network.node_mut(node).unwrap()
    }

    /// Joins a call from a host at a port of s1 to the callee, as it is answered: the far switch first.
    fn call(&mut self, port: u16, circuit: CircuitId, contract: Contract) {
        let (fabric, network) = (&mut self.fabric, &mut self.network);
        fabric.join_call(network, "s2", [(0, circuit), (1, circuit)], [contract; 2]).unwrap();
        fabric.join_call(network, "s1", [(port, circuit), (2, circuit)], [contract; 2]).unwrap();
    }

    fn send(&mut self, host: &str, circuit: CircuitId, every: Duration, left: u32) {
        let next = self.now;
        self.host(host).flows.push(Flow { circuit, every, next, left });
    }

    fn run(&mut self) {
        while self.network.run(self.now) {}
        while let Some(at) = self.network.poll_timeout().filter(|at| *at < Time::from_millis(10_000)) {
            self.now = self.now.max(at);
            while self.network.run(self.now) {}
        }
    }

    fn counters(&mut self, switch: &str, [from, to]: [u16; 2], circuit: CircuitId) -> CircuitCounters {
        let node = self.fabric.node(switch).unwrap();
        let switch = self.network.node_mut::<SwitchElement>(node).unwrap();
        switch.circuit_counters((from, Label::Vc(circuit)), (to, Label::Vc(circuit))).unwrap()
    }
}

#[test]
fn a_caller_that_overloads_its_call_loses_the_excess_at_the_first_switch_and_others_lose_nothing() {
    let mut world = World::new();
    let (greedy, modest) = (id("0.1024"), id("0.1025"));
    world.call(0, greedy, cbr(1000.0));
    world.call(1, modest, cbr(2000.0));
    // Twice the contract's rate, and the contract's rate, for three seconds.
    let (sent, every) = (6000, Duration::from_micros(500));
    world.send("greedy", greedy, every, sent);
    world.send("modest", modest, every, sent);
    world.run();
    // What GCRA(1 ms, CDVT) lets in, by its definition; the link adds 200 cells that queue, one that is sent and two at its sender.
    let link = Duration::from_nanos((203.0 * 1e9 / 353_207.5) as u64);
    let tolerance = Duration::from_millis(1) + link + Duration::from_micros(1);
    let span = every * (sent - 1);
    let conforming = 1 + (span + tolerance).as_micros() as u64 / 1000;
    let first = world.counters("s1", [0, 2], greedy);
    assert_eq!((first.received, first.policed), (6000, 6000 - conforming));
    let second = world.counters("s2", [0, 1], greedy);
    assert_eq!((second.received, second.policed, second.dropped), (conforming, 0, 0));
    for (switch, ports) in [("s1", [1, 2]), ("s2", [0, 1])] {
        let counters = world.counters(switch, ports, modest);
        assert_eq!((counters.received, counters.policed, counters.dropped), (6000, 0, 0), "{switch}");
    }
    assert_eq!(world.host("callee").got, BTreeMap::from([(greedy, conforming), (modest, 6000)]));
}

#[test]
fn a_call_of_no_rate_is_best_effort_and_abr_too() {
    let mut world = World::new();
    let (ubr, abr) = (id("0.1024"), id("0.1025"));
    world.call(0, ubr, Contract::default());
    world.call(1, abr, Contract { category: Category::Abr, ..cbr(10.0) });
    for (host, circuit) in [("greedy", ubr), ("modest", abr)] {
        world.send(host, circuit, Duration::from_micros(100), 1000);
    }
    world.run();
    assert_eq!(world.host("callee").got, BTreeMap::from([(ubr, 1000), (abr, 1000)]));
}
