//! An emulated LAN in virtual time: a network that delays calls and frames, each call in its own order, and that
//! refuses and releases calls and loses frames as it likes.

use super::super::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;
use wire::Time;
use wire::q2931::Octets;

pub(super) const LECS: usize = 0;
pub(super) const LES: usize = 1;
pub(super) const BUS: usize = 2;
pub(super) const FIRST: usize = 3;

pub(super) fn aesa(node: usize) -> Aesa {
    let mut octets = [0x47; 20];
    octets[18] = node as u8;
    Aesa(octets)
}

pub(super) fn mac(node: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, node as u8]
}

pub(super) fn name() -> Octets<32> {
    Octets::new(b"lab").unwrap()
}

pub(super) fn frame(to: [u8; 6], from: usize, number: u32) -> Vec<u8> {
    [&to[..], &mac(from), &[8, 0], &number.to_be_bytes(), &[0; 42]].concat()
}

pub(super) fn config(node: usize) -> Config {
    Config { own: aesa(node), mac: mac(node), name: name(), configuration: aesa(LECS), server: None }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Incoming(u64),
    Up,
    Party(Aesa, bool),
    Released,
    Frame(Vec<u8>),
}

pub(super) struct Call {
    pub(super) root: (usize, Link),
    pub(super) service: Service,
    pub(super) multipoint: bool,
    pub(super) is_up: bool,
    /// Node, its name for the call, whether it has answered.
    pub(super) leaves: Vec<(usize, Link, bool)>,
}

/// When, in which order, at which node, on which call, what.
type Due = (Time, u64, usize, Link, Event);

pub(super) struct World {
    pub(super) lecs: Configuration,
    pub(super) les: Server,
    pub(super) bus: Unknown,
    pub(super) clients: Vec<Client>,
    /// What each client has heard: sender, number.
    pub(super) heard: Vec<Vec<(usize, u32)>>,
    pub(super) calls: BTreeMap<u64, Call>,
    pub(super) events: BinaryHeap<Reverse<Due>>,
    /// The last event of each end of a call: the next one comes later.
    pub(super) last: BTreeMap<(usize, Link), Time>,
    pub(super) now: Time,
    pub(super) serial: u64,
    pub(super) random: u64,
    pub(super) bad: u64,
    pub(super) made: usize,
}

impl World {
    pub(super) fn new(clients: usize) -> Self {
        let configs: Vec<Config> = (FIRST..FIRST + clients).map(config).collect();
        World {
            lecs: Configuration::new(vec![Lan { name: name(), server: aesa(LES) }]),
            les: Server::new(name(), aesa(BUS), 16),
            bus: Unknown::new(16),
            heard: vec![Vec::new(); clients],
            clients: configs.into_iter().map(Client::new).collect(),
            calls: BTreeMap::new(),
            events: BinaryHeap::new(),
            last: BTreeMap::new(),
            now: Time::ZERO,
            serial: 1,
            random: 1,
            bad: 0,
            made: 0,
        }
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn fails(&mut self) -> bool {
        self.roll(256) < self.bad
    }

    fn schedule(&mut self, node: usize, link: Link, event: Event) {
        // The BUS is slower than a direct call.
        let base = if node < FIRST || matches!(link, Link::Taken(_)) { 8000 } else { 1000 };
        let at = self.now + Duration::from_micros(base + self.roll(5000));
        let last = self.last.entry((node, link)).or_default();
        *last = at.max(*last + Duration::from_nanos(1));
        self.serial += 1;
        self.events.push(Reverse((*last, self.serial, node, link, event)));
    }

    fn leaf(&mut self, call: u64, node: usize) {
        self.serial += 1;
        let link = Link::Taken(self.serial);
        self.calls.get_mut(&call).unwrap().leaves.push((node, link, false));
        self.schedule(node, link, Event::Incoming(call));
    }

    pub(super) fn nodes(&self) -> usize {
        FIRST + self.clients.len()
    }

    fn callee(&mut self, to: Aesa) -> Option<usize> {
        (0..self.nodes()).find(|node| aesa(*node) == to).filter(|_| !self.fails())
    }

    /// The call of an end; and which leaf, if it is one.
    fn call_of(&self, node: usize, link: Link) -> Option<(u64, Option<usize>)> {
        self.calls.iter().find_map(|(number, call)| {
            let leaf = call.leaves.iter().position(|(n, l, _)| (*n, *l) == (node, link));
            (call.root == (node, link) || leaf.is_some()).then_some((*number, leaf))
        })
    }

    pub(super) fn end(&mut self, number: u64) {
        let call = self.calls.remove(&number).unwrap();
        self.schedule(call.root.0, call.root.1, Event::Released);
        for (node, link, _) in call.leaves {
            self.schedule(node, link, Event::Released);
        }
    }

    /// A leaf leaves, or fails; the last one takes the call along.
    fn cut(&mut self, number: u64, leaf: usize) {
        let call = self.calls.get_mut(&number).unwrap();
        if !call.multipoint || call.leaves.len() == 1 {
            return self.end(number);
        }
        let (node, link, _) = call.leaves.remove(leaf);
        let root = call.root;
        self.schedule(node, link, Event::Released);
        self.schedule(root.0, root.1, Event::Party(aesa(node), false));
    }

    fn carry_out(&mut self, node: usize, action: Action) {
        match action {
            Action::Call { link, to, service, multipoint } => {
                self.made += 1;
                let Some(callee) = self.callee(to) else { return self.schedule(node, link, Event::Released) };
                self.serial += 1;
                let call = Call { root: (node, link), service, multipoint, is_up: false, leaves: Vec::new() };
                let number = self.serial;
                self.calls.insert(number, call);
                self.leaf(number, callee);
            }
            Action::AddParty { link, to } => match (self.call_of(node, link), self.callee(to)) {
                (Some((number, None)), Some(callee)) => self.leaf(number, callee),
                (Some(_), _) => self.schedule(node, link, Event::Party(to, false)),
                (None, _) => {}
            },
            Action::DropParty { link, to } => {
                let Some((number, None)) = self.call_of(node, link) else { return };
                let leaves = &self.calls[&number].leaves;
                if let Some(leaf) = leaves.iter().position(|(node, ..)| aesa(*node) == to) {
                    let (node, link, _) = self.calls.get_mut(&number).unwrap().leaves.remove(leaf);
                    self.schedule(node, link, Event::Released);
                }
            }
            Action::Answer(link) => {
                let Some((number, Some(leaf))) = self.call_of(node, link) else { return };
                if self.fails() {
                    return self.cut(number, leaf);
                }
                let call = self.calls.get_mut(&number).unwrap();
                call.leaves[leaf].2 = true;
                let (root, was_up) = (call.root, std::mem::replace(&mut call.is_up, true));
                let event = if was_up { Event::Party(aesa(node), true) } else { Event::Up };
                self.schedule(root.0, root.1, event);
                self.schedule(node, link, Event::Up);
            }
            Action::Release(link) => match self.call_of(node, link) {
                Some((number, None)) => {
                    let call = self.calls.remove(&number).unwrap();
                    call.leaves.into_iter().for_each(|(node, link, _)| self.schedule(node, link, Event::Released));
                }
                Some((number, Some(leaf))) => {
                    let call = self.calls.get_mut(&number).unwrap();
                    call.leaves.remove(leaf);
                    let (root, is_last) = (call.root, call.leaves.is_empty());
                    let event = if is_last { Event::Released } else { Event::Party(aesa(node), false) };
                    if is_last {
                        self.calls.remove(&number);
                    }
                    self.schedule(root.0, root.1, event);
                }
                None => {}
            },
        }
    }

    fn transmit(&mut self, node: usize, link: Link, octets: &[u8]) {
        // A call may have been released while its end has not heard of it.
        let Some((number, leaf)) = self.call_of(node, link) else { return };
        let call = &self.calls[&number];
        let to: Vec<(usize, Link)> = match leaf {
            Some(_) => vec![call.root],
            None => call.leaves.iter().filter(|(.., answered)| *answered).map(|(n, l, _)| (*n, *l)).collect(),
        };
        assert!(leaf.is_none() || !call.multipoint, "nothing is sent back on a point-to-multipoint call");
        for (node, link) in to {
            if !self.fails() {
                self.schedule(node, link, Event::Frame(octets.to_vec()));
            }
        }
    }

    fn happen(&mut self, node: usize, link: Link, event: Event) {
        let now = self.now;
        match event {
            Event::Incoming(call) => {
                let Some(call) = self.calls.get(&call) else { return };
                let (from, service) = (Some(aesa(call.root.0)), call.service);
                match node {
                    LECS => self.lecs.handle_incoming(link, from, service, now),
                    LES => self.les.handle_incoming(link, from, service, now),
                    BUS => self.bus.handle_incoming(link, from, service),
                    _ => self.clients[node - FIRST].handle_incoming(link, from, service, now),
                }
            }
            Event::Up => match node {
                LECS => {}
                LES => self.les.handle_up(link),
                BUS => self.bus.handle_up(link),
                _ => self.clients[node - FIRST].handle_up(link, now),
            },
            Event::Party(party, joined) => match node {
                LES => self.les.handle_party(link, party, joined),
                BUS => self.bus.handle_party(link, party, joined),
                _ => panic!("{node} is no root"),
            },
            Event::Released => match node {
                LECS => self.lecs.handle_released(link),
                LES => self.les.handle_released(link),
                BUS => self.bus.handle_released(link),
                _ => self.clients[node - FIRST].handle_released(link, now),
            },
            Event::Frame(octets) => match node {
                _ if self.call_of(node, link).is_none() => {}
                LECS => self.lecs.handle_frame(link, &octets),
                LES => self.les.handle_frame(link, &octets),
                BUS => self.bus.handle_frame(link, &octets),
                _ => {
                    if let Some(frame) = self.clients[node - FIRST].handle_frame(link, &octets, now) {
                        let number = u32::from_be_bytes(frame[14..18].try_into().unwrap());
                        self.heard[node - FIRST].push((frame[11].into(), number));
                    }
                }
            },
        }
    }

    fn settle(&mut self) {
        let now = self.now;
        self.lecs.handle_timeout(now);
        self.les.handle_timeout(now);
        self.bus.handle_timeout(now);
        self.clients.iter_mut().for_each(|client| client.handle_timeout(now));
        for node in 0..self.nodes() {
            loop {
                let (action, octets) = match node {
                    LECS => (self.lecs.poll(), self.lecs.poll_frame()),
                    LES => (self.les.poll(), self.les.poll_frame()),
                    BUS => (self.bus.poll(), self.bus.poll_frame()),
                    _ => (self.clients[node - FIRST].poll(), self.clients[node - FIRST].poll_frame()),
                };
                if action.is_none() && octets.is_none() {
                    break;
                }
                octets.into_iter().for_each(|(link, octets)| self.transmit(node, link, &octets));
                action.into_iter().for_each(|action| self.carry_out(node, action));
            }
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        let mut rounds = 0;
        loop {
            let timers = self.clients.iter().filter_map(Client::poll_timeout);
            let timers = timers.chain(self.lecs.poll_timeout()).chain(self.les.poll_timeout());
            let timers = timers.chain(self.bus.poll_timeout()).min();
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            let next = timers.into_iter().chain(event).min();
            let Some(next) = next.filter(|at| *at <= end) else {
                self.now = end;
                return;
            };
            self.now = next.max(self.now);
            while let Some(Reverse((at, ..))) = self.events.peek()
                && *at <= self.now
                && let Some(Reverse((_, _, node, link, event))) = self.events.pop()
            {
                self.happen(node, link, event);
            }
            self.settle();
            rounds += 1;
            assert!(rounds < 1_000_000, "the machines never rest");
        }
    }

    pub(super) fn send(&mut self, from: usize, to: [u8; 6], number: u32) {
        let now = self.now;
        self.clients[from - FIRST].send(&frame(to, from, number), now);
        self.settle();
    }

    pub(super) fn all_up(&self) -> bool {
        self.clients.iter().all(Client::is_up)
    }

    /// Numbers that a client has heard of a sender, since the last time.
    pub(super) fn taken(&mut self, at: usize, from: usize) -> Vec<u32> {
        let heard = &mut self.heard[at - FIRST];
        let of = heard.iter().filter(|(sender, _)| *sender == from).map(|(_, number)| *number).collect();
        heard.retain(|(sender, _)| *sender != from);
        of
    }

    /// A client's own call for a service.
    pub(super) fn link_of(&self, node: usize, service: Service) -> Link {
        let own = |c: &&Call| c.root.0 == node && c.service == service && !c.multipoint;
        self.calls.values().find(own).expect("a call of this client").root.1
    }

    /// All calls that end at a node, in either direction, break off.
    pub(super) fn cut_off(&mut self, node: usize) {
        let ends = |c: &Call| c.root.0 == node || c.leaves.iter().any(|(leaf, ..)| *leaf == node);
        let numbers: Vec<u64> = self.calls.iter().filter(|(_, c)| ends(c)).map(|(number, _)| *number).collect();
        for number in numbers {
            match self.calls[&number].leaves.iter().position(|(leaf, ..)| *leaf == node) {
                Some(leaf) => self.cut(number, leaf),
                None => self.end(number),
            }
        }
    }

    /// A client's process dies, and another one with this configuration takes its place.
    pub(super) fn replace(&mut self, node: usize, config: Config) {
        self.cut_off(node);
        self.clients[node - FIRST] = Client::new(config);
        // What was on its way to the dead one reaches nobody.
        let events = std::mem::take(&mut self.events);
        self.events = events.into_iter().filter(|Reverse((_, _, to, ..))| *to != node).collect();
    }
}
