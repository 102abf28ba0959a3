//! A switch's call control: calls from port to port, with admission and routes, without input, output or a clock.
//!
//! In: SDUs of the ports' signalling channels, the time. Out: SDUs, and commands for the table of circuits. A port is
//! the network side of a UNI, or either side of an IISP link. A call takes its labels from both ports' ranges and its
//! bandwidth from both ports' links, in both directions; all of it is given back when the call ends, however it ends.

mod admission;
mod contract;
mod multipoint;
mod ports;
mod routes;

#[cfg(test)]
mod tests;

pub use contract::contracts;
pub use ports::CallInfo;
pub use routes::Routes;

use crate::call::{self, CallId, ElementList, Event, Index};
use crate::port::Port;
use crate::slots::Slots;
use multipoint::Tree;
use std::collections::VecDeque;
use traffic::{Admission, Contract};
use wire::aesa::{Aesa, Prefix};
use wire::q2931::{Cause, CauseValue, ConnectionId, Location, Number};
use wire::{CellRate, Time};

/// A port of a switch.
#[derive(Debug, Clone)]
pub struct PortConfig {
    /// Call control.
    pub call: call::Config,
    /// The link's rate; `None` admits all.
    pub rate: Option<CellRate>,
    /// The user's addresses; calls from others are not let through under their own name. A user of a UNI without any
    /// calls without a number.
    pub addresses: Vec<Aesa>,
    /// Of an IISP link: whether the neighbour belongs to this network, which then has checked its numbers. Another
    /// network's numbers are passed on as not checked, and only those to which a route leads by this port.
    pub is_inner: bool,
    /// What the link adds to a call's transit delay, in milliseconds.
    pub delay_ms: u16,
}

/// A circuit at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The port.
    pub port: usize,
    /// Its label there.
    pub connection: ConnectionId,
}

/// What the table of circuits is to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Command {
    /// Join the ends, with these contracts from the first to the second and back.
    Connect([End; 2], [Contract; 2]),
    /// Part them.
    Disconnect([End; 2]),
    /// Let the first end, a root, send to the second too, with this contract.
    AddLeaf([End; 2], Contract),
    /// Let the root send to the second no more.
    DropLeaf([End; 2]),
}

/// A call at a port.
type Leg = (usize, CallId);

/// A call through the switch.
#[derive(Debug)]
struct Through {
    incoming: Leg,
    outgoing: Option<Leg>,
    contracts: [Contract; 2],
    /// Until the call is answered.
    search: Option<Box<Search>>,
    /// The two ends, once the call is answered.
    ends: Option<[End; 2]>,
}

// A switch has one for each call.
const _: () = assert!(size_of::<Through>() <= 272);

/// What the next best route is found by.
#[derive(Debug)]
struct Search {
    called: Aesa,
    /// What SETUP said.
    elements: ElementList,
    /// The port at which it came, and those that were tried.
    tried: Vec<usize>,
}

/// A call in its slot.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most calls are of the large variant")]
enum Entry {
    /// From one port to another.
    Through(Through),
    /// From one port to several.
    Tree(Box<Tree>),
    /// A tree that is being changed.
    Growing,
}

/// A call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// When.
    pub at: Time,
    /// Who was called, if that much was understood.
    pub called: Option<Aesa>,
    /// Why.
    pub cause: Cause,
}

/// How many failures are remembered.
const FAILURES: usize = 100;

#[derive(Debug)]
struct NodePort {
    port: Port,
    config: PortConfig,
    /// Bandwidth into the switch, and out of it.
    bandwidth: [Admission; 2],
    /// Which call through the switch a call at this port belongs to.
    legs: Index,
}

/// Call control of a switch.
#[derive(Debug)]
pub struct Node {
    ports: Vec<NodePort>,
    routes: Routes,
    calls: Slots<Entry>,
    /// Ports that are gone.
    vacant: Vec<usize>,
    commands: VecDeque<Command>,
    failures: VecDeque<Failure>,
    location: Location,
}

impl Node {
    /// A switch with these ports, whose links are down.
    pub fn new(ports: Vec<PortConfig>) -> Self {
        let mut routes = Routes::new();
        for (i, config) in ports.iter().enumerate() {
            for address in &config.addresses {
                routes.add(Prefix::new(*address, 152), i);
            }
        }
        let ports = ports.into_iter().map(NodePort::new).collect();
        Node {
            ports,
            routes,
            calls: Slots::default(),
            vacant: Vec::new(),
            commands: VecDeque::new(),
            failures: VecDeque::new(),
            location: Location::PRIVATE_LOCAL,
        }
    }

    /// Establishes the signalling links.
    pub fn start(&mut self, now: Time) {
        for port in &mut self.ports {
            port.port.start(now);
        }
    }

    /// Routes, to be changed.
    pub const fn routes_mut(&mut self) -> &mut Routes {
        &mut self.routes
    }

    /// A port.
    pub fn port(&self, port: usize) -> Option<&Port> {
        self.ports.get(port).map(|p| &p.port)
    }

    /// How many calls pass through the switch or are being set up.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there are no calls.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cells per second that are promised into the switch and out of it at a port.
    pub fn promised(&self, port: usize) -> Option<[f64; 2]> {
        self.ports.get(port).map(|p| p.bandwidth.map(|b| b.promised_cells_per_s()))
    }

    /// The last calls that failed, the latest last.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.failures.iter()
    }

    /// A user's address was registered at a port, or is no more.
    pub fn set_address(&mut self, port: usize, address: Aesa, present: bool) {
        let Some(p) = self.ports.get_mut(port) else { return };
        let prefix = Prefix::new(address, 152);
        p.config.addresses.retain(|a| a.without_selector() != address.without_selector());
        if present {
            p.config.addresses.push(address);
            self.routes.add(prefix, port);
        } else {
            self.routes.remove(prefix, port);
        }
    }

    /// An SDU of a port's signalling channel.
    pub fn handle_pdu(&mut self, port: usize, octets: &[u8], now: Time) {
        if let Some(p) = self.ports.get_mut(port) {
            p.port.handle_pdu(octets, now);
            self.settle(now);
        }
    }

    /// The next SDU for a port's signalling channel.
    pub fn poll_transmit(&mut self, port: usize, now: Time) -> Option<Vec<u8>> {
        self.ports.get_mut(port)?.port.poll_transmit(now)
    }

    /// The next command for the table of circuits.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.ports.iter().filter_map(|p| p.port.poll_timeout()).min()
    }

    /// The time has come that [`Self::poll_timeout`] gave.
    pub fn handle_timeout(&mut self, now: Time) {
        for p in &mut self.ports {
            if p.port.poll_timeout().is_some_and(|at| at <= now) {
                p.port.handle_timeout(now);
            }
        }
        self.settle(now);
    }

    fn settle(&mut self, now: Time) {
        // What one port reports can make another report something.
        let mut quiet = false;
        while !quiet {
            quiet = true;
            for port in 0..self.ports.len() {
                while let Some(event) = self.ports[port].port.poll() {
                    quiet = false;
                    self.on_event(port, event, now);
                }
            }
        }
    }

    fn control(&mut self, leg: Leg) -> (&mut call::Calls, CallId) {
        (self.ports[leg.0].port.calls_mut(), leg.1)
    }

    fn on_event(&mut self, port: usize, event: Event, now: Time) {
        if let Some((index, leg)) = event.call().and_then(|call| Some((self.ports[port].legs.get(call)?, (port, call))))
            && let Some(entry) = self.calls.get_mut(index).filter(|entry| matches!(entry, Entry::Tree(_)))
            && let Entry::Tree(tree) = std::mem::replace(entry, Entry::Growing)
        {
            return self.on_tree_event(index, tree, leg, event, now);
        }
        match event {
            Event::Setup { call, elements, .. } => self.on_setup((port, call), elements, now),
            Event::Alerting(call) => {
                if let Some(incoming) = self.incoming_of((port, call)) {
                    let (calls, id) = self.control(incoming);
                    // An alert that comes again is none.
                    let _ = calls.alert(id, now);
                }
            }
            Event::Connected { call, elements, connection } => {
                self.on_connected((port, call), elements, connection, now)
            }
            Event::Released { call, cause } => self.on_released((port, call), cause, now),
            Event::Notified { call, elements } => {
                if let Some(other) = self.other_leg((port, call)) {
                    let (calls, id) = self.control(other);
                    let _ = calls.notify(id, &elements);
                }
            }
            Event::AddParty { party, .. } => {
                let cause = self.cause(CauseValue::BEARER_NOT_IMPLEMENTED);
                let _ = self.ports[port].port.calls_mut().drop_party(party, cause, now);
            }
            Event::Proceeding(_)
            | Event::Active(_)
            | Event::Restarted(_)
            | Event::EstablishLink
            | Event::PartyAlerting(_)
            | Event::PartyAdded { .. }
            | Event::PartyDropped { .. } => {}
        }
    }

    fn through(&mut self, leg: Leg) -> Option<(u32, &mut Through)> {
        let index = self.ports.get(leg.0)?.legs.get(leg.1)?;
        match self.calls.get_mut(index)? {
            Entry::Through(through) => Some((index, through)),
            _ => None,
        }
    }

    fn incoming_of(&mut self, outgoing: Leg) -> Option<Leg> {
        self.through(outgoing).filter(|(_, t)| t.outgoing == Some(outgoing)).map(|(_, t)| t.incoming)
    }

    fn other_leg(&mut self, leg: Leg) -> Option<Leg> {
        self.through(leg).and_then(|(_, t)| if t.incoming == leg { t.outgoing } else { Some(t.incoming) })
    }

    fn cause(&self, value: CauseValue) -> Cause {
        Cause::new(self.location, value)
    }

    fn record_failure(&mut self, called: Option<Aesa>, cause: Cause, now: Time) {
        if self.failures.len() >= FAILURES {
            self.failures.pop_front();
        }
        self.failures.push_back(Failure { at: now, called, cause });
    }

    fn refuse(&mut self, leg: Leg, called: Option<Aesa>, cause: Cause, now: Time) {
        self.record_failure(called, cause, now);
        let (calls, id) = self.control(leg);
        let _ = calls.release(id, cause, now);
    }

    fn on_setup(&mut self, incoming: Leg, mut elements: ElementList, now: Time) {
        let number = elements.called();
        let called = number.and_then(|number: Number| number.as_aesa());
        let refused = match self.check(incoming.0, called, &mut elements) {
            Ok((called, contracts)) => {
                if self.reserve(incoming.0, contracts, true) {
                    if elements.bearer().is_some_and(|bearer| bearer.multipoint) {
                        return self.plant(incoming, called, elements, contracts, now);
                    }
                    let (calls, id) = self.control(incoming);
                    let _ = calls.proceed(id, now);
                    let through = Through {
                        incoming,
                        outgoing: None,
                        contracts,
                        search: Some(Box::new(Search { called, elements, tried: vec![incoming.0] })),
                        ends: None,
                    };
                    let index = self.calls.insert(Entry::Through(through));
                    self.ports[incoming.0].legs.insert(incoming.1, index);
                    return self.route(index, self.cause(CauseValue::NO_ROUTE), now);
                }
                CauseValue::CELL_RATE
            }
            Err(value) => value,
        };
        self.refuse(incoming, called, self.cause(refused), now);
    }

    /// Sends the call on by the best route that has not been tried; without one, it fails for the reason of the last.
    fn route(&mut self, index: u32, mut why: Cause, now: Time) {
        let Some(Entry::Through(through)) = self.calls.get(index) else { return };
        let (incoming, contracts) = (through.incoming, through.contracts);
        let Some(search) = &through.search else { return };
        let called = search.called;
        let candidates: Vec<usize> = self.routes.lookup(&called).filter(|port| !search.tried.contains(port)).collect();
        for port in candidates {
            let Some(Entry::Through(Through { search: Some(search), .. })) = self.calls.get_mut(index) else {
                return;
            };
            if search.tried.contains(&port) {
                continue;
            }
            search.tried.push(port);
            let elements = search.elements.clone();
            if !self.reserve(port, contracts, false) {
                why = self.cause(CauseValue::CELL_RATE);
                continue;
            }
            match self.ports[port].port.calls_mut().setup(elements, now) {
                Ok(call) => {
                    self.ports[port].legs.insert(call, index);
                    if let Some(Entry::Through(through)) = self.calls.get_mut(index) {
                        through.outgoing = Some((port, call));
                    }
                    return;
                }
                Err(refused) => {
                    self.give_back(port, contracts, false);
                    why = self.cause(refused.cause());
                }
            }
        }
        self.forget(index);
        self.refuse(incoming, Some(called), why, now);
    }

    fn on_connected(&mut self, outgoing: Leg, elements: ElementList, connection: ConnectionId, now: Time) {
        let Some((_, through)) = self.through(outgoing) else { return };
        through.search = None;
        let (incoming, contracts) = (through.incoming, through.contracts);
        let (calls, id) = self.control(incoming);
        let Some(at_incoming) = calls.connection(id) else { return };
        let _ = calls.connect(id, &elements, now);
        let ends = [End { port: incoming.0, connection: at_incoming }, End { port: outgoing.0, connection }];
        if let Some((_, through)) = self.through(outgoing) {
            through.ends = Some(ends);
        }
        self.commands.push_back(Command::Connect(ends, contracts));
    }

    fn on_released(&mut self, leg: Leg, cause: Cause, now: Time) {
        let Some((index, through)) = self.through(leg) else { return };
        let is_incoming = through.incoming == leg;
        let waiting = through.search.as_ref().map(|search| search.called);
        if !is_incoming && waiting.is_some() && is_of_the_network(cause.value) {
            // The way is blocked, not the called user: the next best route is tried.
            through.outgoing = None;
            let contracts = through.contracts;
            self.ports[leg.0].legs.remove(leg.1);
            self.give_back(leg.0, contracts, false);
            return self.route(index, cause, now);
        }
        let other = if is_incoming { through.outgoing } else { Some(through.incoming) };
        self.forget(index);
        match (other, waiting) {
            (Some(other), Some(called)) if !is_incoming => self.refuse(other, Some(called), cause, now),
            (Some(other), _) => {
                let (calls, id) = self.control(other);
                let _ = calls.release(id, cause, now);
            }
            (None, _) => {}
        }
    }

    /// The call leaves the switch: its bandwidth and its circuit.
    fn forget(&mut self, index: u32) {
        let Some(Entry::Through(through)) = self.calls.remove(index) else { return };
        self.ports[through.incoming.0].legs.remove(through.incoming.1);
        self.give_back(through.incoming.0, through.contracts, true);
        if let Some(outgoing) = through.outgoing {
            self.ports[outgoing.0].legs.remove(outgoing.1);
            self.give_back(outgoing.0, through.contracts, false);
        }
        if let Some(ends) = through.ends {
            self.commands.push_back(Command::Disconnect(ends));
        }
    }
}

/// Causes for which another route may do better: those of the network and its resources, not those of the called user.
const fn is_of_the_network(value: CauseValue) -> bool {
    matches!(value.0, 2 | 3 | 18 | 27 | 35 | 36 | 37 | 38 | 41 | 45 | 47 | 49 | 51 | 58 | 63 | 102)
}
