//! Calls through several switches in virtual time.

mod backlog;
mod failures;
mod multipoint;
mod resynchronised;

use super::*;
use crate::call::{Config, PartyId, Side, State, Version};
use crate::simulation::{Simulation, WireEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::q2931::{AalParameters, Bearer, Direction, Element, LowLayer, Party, Qos, Traffic, TransitDelay};

const DELAY: Duration = Duration::from_millis(1);

/// The address of host `n` at switch `s`.
fn address(s: usize, n: usize) -> Aesa {
    let prefix: Prefix = "47000580ffde000000000000".parse().unwrap();
    let mut octets = *prefix.octets();
    octets[12] = s as u8;
    octets[18] = n as u8 + 1;
    Aesa(octets)
}

fn port(side: Side, version: Version, addresses: Vec<Aesa>) -> PortConfig {
    let call = Config { labels: (0, 32, 531), ..Config::new(side, version) };
    PortConfig { call, rate: Some(CellRate::OC3C), addresses, is_inner: true, delay_ms: 3 }
}

/// Switch `s` of a row: ports 0 and 1 are hosts, 2 leads to the switch before, 3 to the one behind.
fn node_of_row(s: usize, switches: usize) -> Node {
    let user = |n| port(Side::Network, Version::Uni31, vec![address(s, n)]);
    let between = |side| port(side, Version::Iisp, Vec::new());
    let mut node = Node::new(vec![user(0), user(1), between(Side::User), between(Side::Network)]);
    for other in 0..switches {
        if other != s {
            node.routes_mut().add(Prefix::new(address(other, 0), 104), if other < s { 2 } else { 3 });
        }
    }
    node
}

/// Switches in a row, two hosts at each.
fn row(switches: usize) -> Simulation {
    let mut nodes = Vec::new();
    let mut hosts = Vec::new();
    for s in 0..switches {
        nodes.push(node_of_row(s, switches));
        for _ in 0..2 {
            hosts.push(Port::new(Config { labels: (0, 32, 531), ..Config::new(Side::User, Version::Uni31) }));
        }
    }
    let mut net = Simulation::new(hosts, nodes);
    for s in 0..switches {
        net.join(WireEnd::Host(2 * s), WireEnd::Switch(s, 0), DELAY);
        net.join(WireEnd::Host(2 * s + 1), WireEnd::Switch(s, 1), DELAY);
        if s + 1 < switches {
            net.join(WireEnd::Switch(s, 3), WireEnd::Switch(s + 1, 2), DELAY);
        }
    }
    net.start();
    net.run_for(Duration::from_secs(3));
    net
}

fn setup(from: Aesa, to: Aesa, traffic: Traffic) -> ElementList {
    ElementList::from([
        Element::Aal(AalParameters::aal5(9188)),
        Element::Traffic(traffic),
        Element::Bearer(Bearer::X),
        Element::LowLayer(LowLayer::LLC),
        Element::Called(Number::aesa(to)),
        Element::Calling(Party::aesa(from)),
        Element::Qos(Qos::default()),
        Element::TransitDelay(TransitDelay { cumulative: Some(0), maximum: None, network: false }),
    ])
}

fn cbr(cells: u32) -> Traffic {
    let side = Direction { pcr: Some(cells), ..Direction::default() };
    Traffic { forward: side, backward: side, best_effort: false }
}

/// Hosts that answer every call; how each call of a host ended, and who is up.
#[derive(Default)]
struct Book {
    up: BTreeSet<(usize, CallId)>,
    ended: BTreeMap<(usize, CallId), Cause>,
    setups: Vec<(usize, ElementList)>,
    /// Parties that were added to a host's calls, and how the others ended.
    added: BTreeSet<(usize, PartyId)>,
    dropped: BTreeMap<(usize, PartyId), CauseValue>,
}

impl Book {
    fn serve(&mut self, net: &mut Simulation, time: Duration) {
        let end = net.now() + time;
        loop {
            while let Some((host, event)) = net.poll() {
                self.on_event(net, host, event);
            }
            if !net.step(end) {
                break;
            }
        }
        net.run_until(end);
    }

    fn on_event(&mut self, net: &mut Simulation, host: usize, event: Event) {
        let now = net.now();
        match event {
            Event::Setup { call, elements, .. } => {
                self.setups.push((host, elements));
                net.host_mut(host).calls_mut().connect(call, &ElementList::default(), now).unwrap();
                net.flush(host);
            }
            Event::Connected { call, .. } | Event::Active(call) => drop(self.up.insert((host, call))),
            Event::Released { call, cause } => {
                self.up.remove(&(host, call));
                self.ended.insert((host, call), cause);
            }
            Event::AddParty { party, .. } => {
                net.host_mut(host).calls_mut().accept_party(party, &ElementList::default()).unwrap();
                net.flush(host);
            }
            Event::PartyAdded { party, .. } => drop(self.added.insert((host, party))),
            Event::PartyDropped { party, cause } => {
                self.added.remove(&(host, party));
                self.dropped.insert((host, party), cause.value);
            }
            _ => {}
        }
    }
}

fn call(net: &mut Simulation, from: usize, to: Aesa, traffic: Traffic) -> CallId {
    let now = net.now();
    let elements = setup(address(from / 2, from % 2), to, traffic);
    let call = net.host_mut(from).calls_mut().setup(elements, now).unwrap();
    net.flush(from);
    call
}

/// No call, label or bandwidth is left anywhere.
fn assert_clean(net: &Simulation, switches: usize) {
    for s in 0..switches {
        assert!(net.switch(s).is_empty(), "switch {s}");
        for p in 0..4 {
            let port = net.switch(s).port(p).unwrap();
            assert_eq!((port.calls().len(), port.calls().labels().in_use()), (0, 0), "switch {s} port {p}");
            assert_eq!(net.switch(s).promised(p), Some([0.0; 2]), "switch {s} port {p}");
        }
    }
}

/// The table that the commands of a switch make: it never joins an end twice, nor parts what is not joined.
fn tables(net: &mut Simulation, tables: &mut BTreeMap<usize, Vec<[End; 2]>>) {
    while let Some((switch, command)) = net.poll_command() {
        let table = tables.entry(switch).or_default();
        match command {
            Command::Connect(ends, _) => {
                assert!(!table.iter().flatten().any(|end| ends.contains(end)), "switch {switch}: {ends:?} twice");
                table.push(ends);
            }
            Command::Disconnect(ends) => {
                let at = table.iter().position(|e| *e == ends).expect("what is parted was joined");
                table.swap_remove(at);
            }
            Command::AddLeaf(ends, _) => {
                let taken = |[root, leaf]: &[End; 2]| *leaf == ends[1] || *root == ends[1] || *leaf == ends[0];
                assert!(!table.iter().any(taken), "switch {switch}: {ends:?} twice");
                table.push(ends);
            }
            Command::DropLeaf(ends) => {
                let at = table.iter().position(|e| *e == ends).expect("a leaf that is dropped was added");
                table.swap_remove(at);
            }
        }
    }
}

#[test]
fn a_call_crosses_five_switches_and_leaves_nothing_behind() {
    let mut net = row(5);
    let mut book = Book::default();
    let id = call(&mut net, 0, address(4, 1), cbr(1000));
    book.serve(&mut net, Duration::from_secs(1));
    assert!(book.up.contains(&(0, id)), "{:?}", book.ended);
    assert_eq!(book.up.len(), 2, "both ends are up");
    let (host, seen) = &book.setups[0];
    assert_eq!(*host, 9);
    assert_eq!(seen.calling().unwrap().number.as_aesa(), Some(address(0, 0)));
    let mut all = BTreeMap::new();
    tables(&mut net, &mut all);
    // The circuits of the switches, one after another, are one path from host 0 to host 9.
    let mut at = net.host(0).calls().connection(id).unwrap();
    for (s, table) in &all {
        assert_eq!((table.len(), table[0][0].connection), (1, at), "switch {s}");
        assert_eq!(net.switch(*s).promised(table[0][1].port), Some([1000.0; 2]));
        at = table[0][1].connection;
    }
    assert_eq!(all.len(), 5);
    let now = net.now();
    net.host_mut(0).calls_mut().release(id, Cause::new(Location::USER, CauseValue::NORMAL), now).unwrap();
    net.flush(0);
    book.serve(&mut net, Duration::from_secs(1));
    assert!(book.ended.values().all(|cause| cause.value == CauseValue::NORMAL));
    assert_clean(&net, 5);
    tables(&mut net, &mut all);
    assert!(all.values().all(Vec::is_empty));
}

#[test]
fn failures_have_their_causes_and_are_remembered() {
    let mut net = row(2);
    let mut book = Book::default();
    let mut elsewhere = address(1, 0);
    elsewhere.0[0] = 0x39;
    let cases = [
        (elsewhere, cbr(1000), CauseValue::NO_ROUTE),
        (address(1, 7), cbr(1000), CauseValue::NO_ROUTE),
        (address(1, 0), cbr(400_000), CauseValue::CELL_RATE),
        (address(1, 0), Traffic::default(), CauseValue::TRAFFIC_COMBINATION),
    ];
    for (to, traffic, expected) in cases {
        let id = call(&mut net, 0, to, traffic);
        book.serve(&mut net, Duration::from_secs(1));
        assert_eq!(book.ended.get(&(0, id)).map(|cause| cause.value), Some(expected), "{to}");
        assert_eq!(net.switch(0).failures().last().unwrap().cause.value, expected);
    }
    assert_clean(&net, 2);
}

#[test]
fn bandwidth_is_promised_once_and_can_be_promised_again() {
    let mut net = row(2);
    let mut book = Book::default();
    let ids: Vec<CallId> = (0..4).map(|_| call(&mut net, 0, address(1, 0), cbr(100_000))).collect();
    book.serve(&mut net, Duration::from_secs(1));
    let up = |book: &Book, id: CallId| book.up.contains(&(0, id));
    assert_eq!(ids.iter().map(|id| up(&book, *id)).collect::<Vec<_>>(), [true, true, true, false]);
    assert_eq!(book.ended[&(0, ids[3])].value, CauseValue::CELL_RATE);
    let now = net.now();
    net.host_mut(0).calls_mut().release(ids[0], Cause::new(Location::USER, CauseValue::NORMAL), now).unwrap();
    net.flush(0);
    book.serve(&mut net, Duration::from_secs(1));
    let again = call(&mut net, 0, address(1, 0), cbr(100_000));
    book.serve(&mut net, Duration::from_secs(1));
    assert!(up(&book, again));
}

#[test]
fn the_network_names_a_caller_that_pretends_to_be_another() {
    let mut net = row(1);
    let mut book = Book::default();
    let now = net.now();
    let lies = setup(address(0, 5), address(0, 1), cbr(10));
    net.host_mut(0).calls_mut().setup(lies, now).unwrap();
    net.flush(0);
    book.serve(&mut net, Duration::from_secs(1));
    let seen = book.setups[0].1.calling().unwrap();
    assert_eq!((seen.number.as_aesa(), seen.indicators), (Some(address(0, 0)), Some((0, 3))));
}

#[test]
fn another_networks_numbers_are_passed_on_as_not_checked_and_only_where_a_route_leads_back() {
    // What host 1 at switch 1 sees of a call that comes from switch 0 under a number.
    let seen = |claimed: Aesa, is_inner: bool| {
        let user = |address| port(Side::Network, Version::Uni31, vec![address]);
        let mut first = Node::new(vec![user(claimed), port(Side::Network, Version::Iisp, Vec::new())]);
        first.routes_mut().add(Prefix::ALL, 1);
        let between = PortConfig { is_inner, ..port(Side::User, Version::Iisp, Vec::new()) };
        let mut second = Node::new(vec![user(address(1, 0)), between, user(address(1, 1))]);
        second.routes_mut().add(Prefix::new(address(0, 0), 104), 1);
        let hosts = (0..2).map(|_| Port::new(Config::new(Side::User, Version::Uni31))).collect();
        let mut net = Simulation::new(hosts, vec![first, second]);
        net.join(WireEnd::Host(0), WireEnd::Switch(0, 0), DELAY);
        net.join(WireEnd::Host(1), WireEnd::Switch(1, 0), DELAY);
        net.join(WireEnd::Switch(0, 1), WireEnd::Switch(1, 1), DELAY);
        net.start();
        net.run_for(Duration::from_secs(3));
        let (mut book, now) = (Book::default(), net.now());
        net.host_mut(0).calls_mut().setup(setup(claimed, address(1, 0), cbr(10)), now).unwrap();
        net.flush(0);
        book.serve(&mut net, Duration::from_secs(1));
        assert_eq!(book.setups[0].0, 1);
        book.setups[0].1.calling().map(|party| (party.number.as_aesa(), party.indicators, party.is_checked()))
    };
    let (there, ours) = (address(0, 5), address(1, 1));
    assert_eq!(seen(there, true), Some((Some(there), Some((0, 1)), true)));
    assert_eq!(seen(ours, true), Some((Some(ours), Some((0, 1)), true)), "a switch of this network is believed");
    assert_eq!(seen(there, false), Some((Some(there), Some((0, 0)), false)));
    assert_eq!(seen(ours, false), None, "a number that the network has itself");
    assert_eq!(seen(Aesa([0x39; 20]), false), None, "a number that no route knows");
}

#[test]
fn a_dead_switch_takes_its_calls_with_it_and_no_others() {
    let mut net = row(3);
    let mut book = Book::default();
    let through = call(&mut net, 0, address(2, 0), cbr(10));
    let beside = call(&mut net, 2 * 2, address(2, 1), cbr(10));
    book.serve(&mut net, Duration::from_secs(1));
    assert_eq!(book.up.len(), 4);
    net.kill(1);
    // NO-RESPONSE of SSCOP within 22 s in the idle phase, then T309.
    book.serve(&mut net, Duration::from_secs(40));
    assert_eq!(book.ended.get(&(0, through)).map(|cause| cause.value), Some(CauseValue::OUT_OF_ORDER));
    assert!(book.up.contains(&(4, beside)), "a call beside the dead switch goes on");
    assert_eq!((net.switch(0).len(), net.switch(2).len()), (0, 1));
    let again = call(&mut net, 0, address(2, 0), cbr(10));
    book.serve(&mut net, Duration::from_secs(1));
    assert_eq!(book.ended.get(&(0, again)).map(|cause| cause.value), Some(CauseValue::OUT_OF_ORDER));
}

#[test]
fn the_next_best_route_takes_over() {
    // Two switches with two links between them; the first, of the longer prefix, has no bandwidth left.
    let narrow = PortConfig { rate: CellRate::from_cells_per_s(5.0), ..port(Side::Network, Version::Iisp, Vec::new()) };
    let wide = port(Side::Network, Version::Iisp, Vec::new());
    let user = |s, n| port(Side::Network, Version::Uni31, vec![address(s, n)]);
    let mut a = Node::new(vec![user(0, 0), narrow.clone(), wide.clone()]);
    a.routes_mut().add(Prefix::new(address(1, 0), 104), 1);
    a.routes_mut().add(Prefix::ALL, 2);
    let b_side =
        |config: &PortConfig| PortConfig { call: Config { side: Side::User, ..config.call }, ..config.clone() };
    let b = Node::new(vec![user(1, 0), b_side(&narrow), b_side(&wide)]);
    let hosts = (0..2).map(|_| Port::new(Config::new(Side::User, Version::Uni31))).collect();
    let mut net = Simulation::new(hosts, vec![a, b]);
    net.join(WireEnd::Host(0), WireEnd::Switch(0, 0), DELAY);
    net.join(WireEnd::Host(1), WireEnd::Switch(1, 0), DELAY);
    net.join(WireEnd::Switch(0, 1), WireEnd::Switch(1, 1), DELAY);
    net.join(WireEnd::Switch(0, 2), WireEnd::Switch(1, 2), DELAY);
    net.start();
    net.run_for(Duration::from_secs(3));
    let mut book = Book::default();
    let id = call(&mut net, 0, address(1, 0), cbr(1000));
    book.serve(&mut net, Duration::from_secs(1));
    assert!(book.up.contains(&(0, id)), "{:?}", book.ended);
    assert_eq!(net.switch(0).promised(2), Some([1000.0; 2]));
    assert_eq!(net.switch(0).promised(1), Some([0.0; 2]));
}

/// A small generator (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }
}

#[test]
fn after_an_hour_of_random_calls_nothing_is_left_and_every_caller_was_told_in_the_long_run() {
    let rounds = if std::env::var_os("CELLWAY_LONG").is_some() { 36_000 } else { 1_200 };
    const SWITCHES: usize = 4;
    let mut net = row(SWITCHES);
    let mut book = Book::default();
    let mut random = Random(18);
    let mut begun = Vec::new();
    let mut all = BTreeMap::new();
    for _ in 0..rounds {
        let host = random.below(2 * SWITCHES as u64) as usize;
        let now = net.now();
        match random.below(10) {
            0..=4 => {
                let to = address(random.below(SWITCHES as u64 + 1) as usize, random.below(2) as usize);
                let traffic = cbr(random.below(60_000) as u32 + 1);
                let elements = setup(address(host / 2, host % 2), to, traffic);
                if let Ok(id) = net.host_mut(host).calls_mut().setup(elements, now) {
                    begun.push((host, id));
                }
            }
            5..=8 => {
                let mine: Vec<CallId> = book.up.iter().filter(|(h, _)| *h == host).map(|(_, id)| *id).collect();
                if !mine.is_empty() {
                    let id = mine[random.below(mine.len() as u64) as usize];
                    let cause = Cause::new(Location::USER, CauseValue::NORMAL);
                    book.up.remove(&(host, id));
                    book.ended.insert((host, id), cause);
                    net.host_mut(host).calls_mut().release(id, cause, now).unwrap();
                }
            }
            _ if random.below(20) == 0 => {
                let _ = net.host_mut(host).calls_mut().restart(wire::q2931::RestartClass::All, None, now);
            }
            _ => {}
        }
        net.flush(host);
        book.serve(&mut net, Duration::from_millis(random.below(200)));
        tables(&mut net, &mut all);
    }
    book.serve(&mut net, Duration::from_secs(200));
    for host in 0..2 * SWITCHES {
        let now = net.now();
        let _ = net.host_mut(host).calls_mut().restart(wire::q2931::RestartClass::All, None, now);
        net.flush(host);
    }
    book.serve(&mut net, Duration::from_secs(200));
    tables(&mut net, &mut all);
    assert_clean(&net, SWITCHES);
    assert!(book.up.is_empty());
    assert!(all.values().all(Vec::is_empty), "{all:?}");
    assert!(begun.len() > rounds / 4);
    for (host, id) in begun {
        assert!(book.ended.contains_key(&(host, id)) || net.host(host).calls().state(id).is_none());
        assert_ne!(net.host(host).calls().state(id), Some(State::OutgoingInitiated));
    }
}
