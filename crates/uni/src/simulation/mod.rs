//! Switches and hosts in virtual time, joined by wires with a delay: what tests and `cellway-lab bench calls` drive.

pub mod load;
pub mod loss;

use crate::call::Event;
use crate::node::{Command, Node};
use crate::port::Port;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::time::Duration;
use wire::Time;

/// One end of a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WireEnd {
    /// A host, by its number.
    Host(usize),
    /// A port of a switch: the switch's number, and the port's.
    Switch(usize, usize),
}

/// SDUs under way: when they arrive, in the order of their departure, where.
type Arrival = Reverse<(Time, u64, WireEnd, Vec<u8>)>;

/// Hosts, switches and wires.
#[derive(Debug)]
pub struct Simulation {
    now: Time,
    hosts: Vec<Port>,
    switches: Vec<Node>,
    wires: HashMap<WireEnd, (WireEnd, Duration)>,
    under_way: BinaryHeap<Arrival>,
    departures: u64,
    events: VecDeque<(usize, Event)>,
    commands: VecDeque<(usize, Command)>,
    /// Switches that are dead: what arrives there is lost, and they say nothing.
    dead: Vec<bool>,
    /// Ends of wires that are cut: what is sent there is lost.
    cut: BTreeSet<WireEnd>,
}

impl Simulation {
    /// These hosts and switches, not joined yet.
    pub fn new(hosts: Vec<Port>, switches: Vec<Node>) -> Self {
        let dead = vec![false; switches.len()];
        Simulation {
            now: Time::ZERO,
            hosts,
            switches,
            wires: HashMap::new(),
            under_way: BinaryHeap::new(),
            departures: 0,
            events: VecDeque::new(),
            commands: VecDeque::new(),
            dead,
            cut: BTreeSet::new(),
        }
    }

    /// Joins two places by a wire.
    pub fn join(&mut self, a: WireEnd, b: WireEnd, delay: Duration) {
        self.wires.insert(a, (b, delay));
        self.wires.insert(b, (a, delay));
    }

    /// Brings the signalling links up.
    pub fn start(&mut self) {
        for host in &mut self.hosts {
            host.start(self.now);
        }
        for switch in &mut self.switches {
            switch.start(self.now);
        }
        self.collect_all();
    }

    /// The time.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// A host.
    pub fn host(&self, host: usize) -> &Port {
        &self.hosts[host]
    }

    /// A host, for requests; then call [`Self::flush`].
    pub fn host_mut(&mut self, host: usize) -> &mut Port {
        &mut self.hosts[host]
    }

    /// A switch.
    pub fn switch(&self, switch: usize) -> &Node {
        &self.switches[switch]
    }

    /// A switch, for requests.
    pub fn switch_mut(&mut self, switch: usize) -> &mut Node {
        &mut self.switches[switch]
    }

    /// The switch dies: it says nothing more, and what arrives there is lost.
    pub fn kill(&mut self, switch: usize) {
        self.dead[switch] = true;
    }

    /// The switch is started anew in this state.
    pub fn revive(&mut self, switch: usize, state: Node) {
        self.switches[switch] = state;
        self.dead[switch] = false;
        self.switches[switch].start(self.now);
        self.collect(WireEnd::Switch(switch, 0));
    }

    /// The wire at a place is cut, or whole again.
    pub fn set_cut(&mut self, at: WireEnd, cut: bool) {
        let ends = [Some(at), self.wires.get(&at).map(|(other, _)| *other)];
        for end in ends.into_iter().flatten() {
            if cut {
                self.cut.insert(end);
            } else {
                self.cut.remove(&end);
            }
        }
    }

    /// Sends what a host has to send after a request.
    pub fn flush(&mut self, host: usize) {
        self.collect(WireEnd::Host(host));
    }

    /// The next event of a host's call control.
    pub fn poll(&mut self) -> Option<(usize, Event)> {
        self.events.pop_front()
    }

    /// The next command for a switch's table.
    pub fn poll_command(&mut self) -> Option<(usize, Command)> {
        self.commands.pop_front()
    }

    /// Delivers the next SDU or lets the next timer run out, if that is not after `end`; false if there is neither.
    pub fn step(&mut self, end: Time) -> bool {
        let arrival = self.under_way.peek().map(|Reverse((at, ..))| *at);
        // Timers are far apart; while an SDU is due now, none needs to be asked for.
        let timer = if arrival == Some(self.now) { None } else { self.next_timer() };
        let Some(at) = [arrival, timer].into_iter().flatten().min().filter(|at| *at <= end) else { return false };
        self.now = self.now.max(at);
        if arrival == Some(at) {
            if let Some(Reverse((_, _, place, sdu))) = self.under_way.pop() {
                self.deliver(place, &sdu);
            }
        } else {
            self.expire();
        }
        true
    }

    /// Runs until nothing is left to do before `end`.
    pub fn run_until(&mut self, end: Time) {
        while self.step(end) {}
        self.now = self.now.max(end);
    }

    /// Runs for so long.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    fn next_timer(&self) -> Option<Time> {
        let alive = self.switches.iter().zip(&self.dead).filter(|(_, dead)| !**dead);
        let switches = alive.filter_map(|(switch, _)| switch.poll_timeout());
        self.hosts.iter().filter_map(Port::poll_timeout).chain(switches).min()
    }

    fn expire(&mut self) {
        for i in 0..self.hosts.len() {
            if self.hosts[i].poll_timeout().is_some_and(|at| at <= self.now) {
                self.hosts[i].handle_timeout(self.now);
                self.collect(WireEnd::Host(i));
            }
        }
        for i in 0..self.switches.len() {
            if !self.dead[i] && self.switches[i].poll_timeout().is_some_and(|at| at <= self.now) {
                self.switches[i].handle_timeout(self.now);
                self.collect(WireEnd::Switch(i, 0));
            }
        }
    }

    fn deliver(&mut self, place: WireEnd, sdu: &[u8]) {
        match place {
            WireEnd::Host(host) => self.hosts[host].handle_pdu(sdu, self.now),
            WireEnd::Switch(switch, _) if self.dead[switch] => return,
            WireEnd::Switch(switch, port) => self.switches[switch].handle_pdu(port, sdu, self.now),
        }
        self.collect(place);
    }

    fn collect_all(&mut self) {
        (0..self.hosts.len()).for_each(|i| self.collect(WireEnd::Host(i)));
        (0..self.switches.len()).for_each(|i| self.collect(WireEnd::Switch(i, 0)));
    }

    /// Takes what a host, or all ports of a switch, have to send and to say.
    fn collect(&mut self, place: WireEnd) {
        match place {
            WireEnd::Host(host) => {
                while let Some(sdu) = self.hosts[host].poll_transmit(self.now) {
                    self.send(place, sdu);
                }
                while let Some(event) = self.hosts[host].poll() {
                    self.events.push_back((host, event));
                }
            }
            WireEnd::Switch(switch, _) => {
                for port in 0.. {
                    if self.switches[switch].port(port).is_none() {
                        break;
                    }
                    while let Some(sdu) = self.switches[switch].poll_transmit(port, self.now) {
                        self.send(WireEnd::Switch(switch, port), sdu);
                    }
                }
                while let Some(command) = self.switches[switch].poll_command() {
                    self.commands.push_back((switch, command));
                }
            }
        }
    }

    fn send(&mut self, from: WireEnd, sdu: Vec<u8>) {
        if self.cut.contains(&from) {
            return;
        }
        if let Some((to, delay)) = self.wires.get(&from) {
            self.departures += 1;
            self.under_way.push(Reverse((self.now + *delay, self.departures, *to, sdu)));
        }
    }
}
