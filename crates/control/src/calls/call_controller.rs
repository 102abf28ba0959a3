//! The signalling of all hosts and switches of a network, without input, output or a clock.
//!
//! In: SDUs of the interfaces' signalling and ILMI channels, what applications ask ([`super::applications`]), the time.
//! Out: SDUs, changes of tables ([`Change`]) that are to be carried out before anything else is sent, and events for
//! applications.

use super::layout::{self, Layout};
use super::owners::Owners;
use super::served::Program;
use super::setup;
use crate::calls::book::Book;
use std::collections::VecDeque;
use traffic::Contract;
use uni::call::{Event, Side};
use uni::ilmi::{self, Ilmi};
use uni::node::{Command, End, Failure, Node, PortConfig};
use uni::port::Port;
use wire::aesa::Aesa;
use wire::q2931::{CauseValue, ConnectionId, VciChoice};
use wire::{CircuitId, Time};

/// Which channel of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// VPI 0, VCI 5.
    Signalling,
    /// VPI 0, VCI 16.
    Ilmi,
}

impl Channel {
    /// Both.
    pub const ALL: [Channel; 2] = [Channel::Signalling, Channel::Ilmi];

    /// Its circuit on the link.
    pub fn circuit(self) -> CircuitId {
        let vci = match self {
            Channel::Signalling => wire::Vci(5),
            Channel::Ilmi => wire::Vci(16),
        };
        CircuitId { vpi: wire::Vpi::default(), vci }
    }
}

/// What is to be done to the network for calls.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Join two circuits in a switch, both ways.
    Join {
        /// The switch.
        switch: String,
        /// Ports and circuits there.
        ends: [(u16, CircuitId); 2],
        /// As call control knows the ends.
        node_ends: [End; 2],
        /// What may be sent from the first end to the second, and back.
        contracts: [Contract; 2],
    },
    /// Part them.
    Part {
        /// The switch.
        switch: String,
        /// Ports and circuits there.
        ends: [(u16, CircuitId); 2],
    },
    /// Let a root's circuit in a switch lead to one port more, or to one port less.
    Branch {
        /// The switch.
        switch: String,
        /// Ports and circuits there, the root's first.
        ends: [(u16, CircuitId); 2],
        /// As call control knows the ends.
        node_ends: [End; 2],
        /// What the root may send, if it is one more.
        contract: Option<Contract>,
    },
    /// Let a circuit end at a host.
    Add {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
        /// The circuit.
        circuit: CircuitId,
        /// What the host may send.
        contract: Contract,
        /// The call, by its number.
        call: u64,
    },
    /// End it there.
    Remove {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
        /// The circuit.
        circuit: CircuitId,
    },
}

#[derive(Debug)]
pub(super) struct Switch {
    pub(super) name: String,
    pub(super) node: Node,
    /// The switch's port, by the port's number in call control.
    pub(super) ports: Vec<u16>,
    layout: layout::Switch,
}

#[derive(Debug)]
pub(super) enum Role {
    Host(Box<Port>),
    /// A host's, whose program signals.
    Program(Box<Program>),
    /// The switch, and the port's number in its call control.
    Switch(usize, usize),
}

#[derive(Debug)]
pub(super) struct Interface {
    pub(super) config: layout::Interface,
    pub(super) role: Role,
    pub(super) ilmi: Option<Ilmi>,
    /// Of a host: as they are registered, or given.
    pub(super) addresses: Vec<Aesa>,
}

/// The signalling of a network.
#[derive(Debug, Default)]
pub struct CallController {
    pub(super) interfaces: Vec<Option<Interface>>,
    pub(super) switches: Vec<Option<Switch>>,
    pub(super) book: Book,
    owners: Owners,
    pub(super) changes: VecDeque<Change>,
}

impl CallController {
    /// Interfaces by number: where they are.
    pub fn interfaces(&self) -> impl Iterator<Item = (usize, &layout::Interface)> {
        self.interfaces.iter().enumerate().filter_map(|(at, interface)| Some((at, &interface.as_ref()?.config)))
    }

    /// A switch's port for signalling.
    pub fn control_port(&self, switch: &str) -> Option<u16> {
        self.switches.iter().flatten().find(|s| s.name == switch).map(|s| s.layout.control_port)
    }

    /// Makes the interfaces those of a layout. Calls at interfaces that are gone, or become others, are cleared.
    pub fn arrange(&mut self, layout: &Layout, now: Time) {
        for at in 0..self.interfaces.len() {
            let Some(interface) = &self.interfaces[at] else { continue };
            if !layout.interfaces.contains(&interface.config) {
                self.remove_interface(at, now);
            }
        }
        for slot in &mut self.switches {
            if slot.as_ref().is_some_and(|switch| !layout.switches.contains_key(&switch.name)) {
                *slot = None;
            }
        }
        for (name, wanted) in &layout.switches {
            self.arrange_switch(name, wanted);
        }
        for wanted in &layout.interfaces {
            if !self.interfaces.iter().flatten().any(|interface| interface.config == *wanted) {
                self.add_interface(wanted, now);
            }
        }
        // Routes are by port number in call control, which interfaces have now.
        for switch in self.switches.iter_mut().flatten() {
            for (prefix, port) in switch.layout.routes.clone() {
                if let Some(number) = switch.ports.iter().position(|p| *p == port) {
                    switch.node.routes_mut().add(prefix, number);
                }
            }
        }
        self.settle(now);
    }

    fn arrange_switch(&mut self, name: &str, wanted: &layout::Switch) {
        match self.switches.iter_mut().flatten().find(|switch| switch.name == name) {
            Some(switch) => {
                for (prefix, port) in std::mem::take(&mut switch.layout.routes) {
                    if let Some(number) = switch.ports.iter().position(|p| *p == port) {
                        switch.node.routes_mut().remove(prefix, number);
                    }
                }
                switch.layout = wanted.clone();
            }
            None => {
                let (node, name) = (Node::new(Vec::new()), name.to_owned());
                let switch = Switch { name, node, ports: Vec::new(), layout: wanted.clone() };
                put(&mut self.switches, switch);
            }
        }
    }

    fn add_interface(&mut self, wanted: &layout::Interface, now: Time) {
        let config = wanted.clone();
        let (role, prefixes) = match &wanted.host {
            Some(_) if config.program => (Role::Program(Box::default()), Vec::new()),
            Some(_) => (Role::Host(Box::new(Port::new(config.call))), Vec::new()),
            None => {
                let found = self.switches.iter_mut().enumerate().find_map(|(at, switch)| {
                    let switch = switch.as_mut().filter(|switch| switch.name == wanted.station)?;
                    Some((at, switch))
                });
                let Some((at, switch)) = found else { return };
                let port = switch.node.add_port(PortConfig {
                    call: config.call,
                    rate: config.rate,
                    addresses: config.addresses.clone(),
                    is_inner: config.is_inner,
                    delay_ms: config.delay_ms,
                });
                switch.ports.resize(switch.ports.len().max(port + 1), u16::MAX);
                switch.ports[port] = wanted.port;
                (Role::Switch(at, port), vec![switch.layout.prefix])
            }
        };
        let esi = config.host.map(|host| host.esi);
        let ilmi = config.ilmi.then(|| {
            let system = esi.unwrap_or_else(|| std::array::from_fn(|i| prefixes.first().map_or(0, |p| p[7 + i])));
            let identity = ilmi::Identity { system, interface: u32::from(config.port) + 1 };
            let side = if config.host.is_some() { Side::User } else { Side::Network };
            Ilmi::new(ilmi::Config { prefixes, esis: esi.into_iter().collect(), ..ilmi::Config::new(side, identity) })
        });
        let addresses = config.host.and_then(|host| host.address).into_iter().collect();
        let is_switch = matches!(role, Role::Switch(..));
        let at = put(&mut self.interfaces, Interface { config, role, ilmi, addresses });
        if is_switch {
            self.own_addresses(at, &wanted.addresses);
        }
        if let Some(interface) = &mut self.interfaces[at] {
            match &mut interface.role {
                Role::Host(port) => port.start(now),
                Role::Program(_) => {}
                Role::Switch(switch, port) => {
                    if let Some(switch) = &mut self.switches[*switch] {
                        switch.node.start_port(*port, now);
                    }
                }
            }
            if let Some(ilmi) = &mut interface.ilmi {
                ilmi.start(now);
            }
        }
    }

    /// The addresses that the description gives to a switch's port. A port whose user has registered one of them loses
    /// it.
    fn own_addresses(&mut self, at: usize, addresses: &[Aesa]) {
        for address in addresses {
            let Some(before) = self.owners.configure(at, address) else { continue };
            let Some(interface) = &mut self.interfaces[before] else { continue };
            if let Some(ilmi) = &mut interface.ilmi {
                ilmi.withdraw(address);
            }
            if let Role::Switch(switch, port) = interface.role
                && let Some(switch) = &mut self.switches[switch]
            {
                switch.node.set_address(port, *address, false);
            }
        }
    }

    fn remove_interface(&mut self, at: usize, now: Time) {
        self.abandon_program(at);
        match self.interfaces[at].as_mut().map(|interface| &mut interface.role) {
            Some(Role::Host(port)) => port.abandon(CauseValue::OUT_OF_ORDER),
            Some(Role::Switch(switch, port)) => {
                if let Some(switch) = &mut self.switches[*switch] {
                    switch.node.remove_port(*port, now);
                    // The commands of the calls that were there are still to be carried out under its number.
                    collect_commands(switch, &mut self.changes);
                    switch.ports[*port] = u16::MAX;
                }
            }
            Some(Role::Program(_)) | None => {}
        }
        self.settle(now);
        self.owners.forget(at);
        self.book.forget_interface(at);
        self.interfaces[at] = None;
    }

    /// An SDU of an interface's channel.
    pub fn handle_sdu(&mut self, at: usize, channel: Channel, octets: &[u8], now: Time) {
        let Some(Some(interface)) = self.interfaces.get_mut(at) else { return };
        match (channel, &mut interface.role) {
            (Channel::Ilmi, _) => {
                if let Some(ilmi) = &mut interface.ilmi {
                    ilmi.handle_sdu_beside(octets, now, |address| self.owners.is_of_another(at, address, now));
                }
            }
            (Channel::Signalling, Role::Host(port)) => port.handle_pdu(octets, now),
            (Channel::Signalling, Role::Program(_)) => {}
            (Channel::Signalling, Role::Switch(switch, port)) => {
                if let Some(switch) = &mut self.switches[*switch] {
                    switch.node.handle_pdu(*port, octets, now);
                }
            }
        }
        self.settle_interface(at, now);
    }

    /// The next SDU for an interface's channel. The changes must have been taken before.
    pub fn poll_transmit(&mut self, at: usize, channel: Channel, now: Time) -> Option<Vec<u8>> {
        let interface = self.interfaces.get_mut(at)?.as_mut()?;
        match (channel, &mut interface.role) {
            (Channel::Ilmi, _) => interface.ilmi.as_mut()?.poll_transmit(),
            (Channel::Signalling, Role::Host(port)) => port.poll_transmit(now),
            (Channel::Signalling, Role::Program(_)) => None,
            (Channel::Signalling, Role::Switch(switch, port)) => {
                self.switches.get_mut(*switch)?.as_mut()?.node.poll_transmit(*port, now)
            }
        }
    }

    /// The next change to be carried out.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// A change could not be carried out: its call is cleared.
    pub fn handle_failure(&mut self, change: &Change, now: Time) {
        match change {
            Change::Join { switch, node_ends, .. } | Change::Branch { switch, node_ends, .. } => {
                if let Some(switch) = self.switches.iter_mut().flatten().find(|s| s.name == *switch) {
                    switch.node.fail_call(node_ends, CauseValue::TEMPORARY_FAILURE, now);
                }
            }
            Change::Add { call, .. } => self.fail(*call, CauseValue::TEMPORARY_FAILURE, now),
            Change::Part { .. } | Change::Remove { .. } => {}
        }
        self.settle(now);
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        let interfaces = self.interfaces.iter().flatten().flat_map(|interface| {
            let port = match &interface.role {
                Role::Host(port) => port.poll_timeout(),
                Role::Program(_) | Role::Switch(..) => None,
            };
            [port, interface.ilmi.as_ref().and_then(Ilmi::poll_timeout)]
        });
        interfaces.flatten().chain(self.switches.iter().flatten().filter_map(|switch| switch.node.poll_timeout())).min()
    }

    /// The time has come that [`Self::poll_timeout`] gave.
    pub fn handle_timeout(&mut self, now: Time) {
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        for interface in self.interfaces.iter_mut().flatten() {
            if let Role::Host(port) = &mut interface.role
                && due(port.poll_timeout())
            {
                port.handle_timeout(now);
            }
            if let Some(ilmi) = interface.ilmi.as_mut().filter(|ilmi| due(ilmi.poll_timeout())) {
                ilmi.handle_timeout(now);
            }
        }
        for switch in self.switches.iter_mut().flatten() {
            if due(switch.node.poll_timeout()) {
                switch.node.handle_timeout(now);
            }
        }
        self.settle(now);
    }

    /// Takes what all machines have to say.
    pub(super) fn settle(&mut self, now: Time) {
        for at in 0..self.interfaces.len() {
            self.settle_interface(at, now);
        }
        for switch in self.switches.iter_mut().flatten() {
            collect_commands(switch, &mut self.changes);
        }
    }

    fn settle_interface(&mut self, at: usize, now: Time) {
        loop {
            let Some(interface) = &mut self.interfaces[at] else { return };
            if let Some(event) = interface.ilmi.as_mut().and_then(Ilmi::poll) {
                self.on_ilmi(at, &event, now);
                continue;
            }
            match &mut interface.role {
                Role::Host(port) => match port.poll() {
                    Some(event) => self.on_call(at, event, now),
                    None => return,
                },
                Role::Program(_) => return,
                Role::Switch(switch, _) => {
                    if let Some(switch) = &mut self.switches[*switch] {
                        collect_commands(switch, &mut self.changes);
                    }
                    return;
                }
            }
        }
    }

    fn on_ilmi(&mut self, at: usize, event: &ilmi::Event, now: Time) {
        let (address, present) = match event {
            ilmi::Event::Registered(address) => (*address, true),
            ilmi::Event::Withdrawn(address) => (*address, false),
            ilmi::Event::Connected(_) | ilmi::Event::Lost | ilmi::Event::Changed => return,
        };
        let Some(interface) = &mut self.interfaces[at] else { return };
        match &mut interface.role {
            Role::Host(_) | Role::Program(_) => {
                interface.addresses.retain(|known| *known != address);
                if present {
                    interface.addresses.push(address);
                }
            }
            Role::Switch(switch, port) => {
                if !self.owners.register(at, &address, present, now) {
                    return;
                }
                if let Some(switch) = &mut self.switches[*switch] {
                    switch.node.set_address(*port, address, present);
                }
            }
        }
    }

    fn on_call(&mut self, at: usize, event: Event, now: Time) {
        match event {
            Event::Setup { call, elements, connection } => self.on_setup(at, call, &elements, connection, now),
            Event::Alerting(call) => self.on_alerting(at, call),
            Event::Connected { call, connection, .. } => self.on_connected(at, call, connection, now),
            Event::Active(call) => self.on_active(at, call),
            Event::Released { call, cause } => self.on_released(at, call, cause, now),
            Event::AddParty { party, .. } => {
                // A circuit of a host leads to one application.
                if let Some(port) = self.host_port(at) {
                    let cause =
                        wire::q2931::Cause::new(wire::q2931::Location::USER, CauseValue::BEARER_NOT_IMPLEMENTED);
                    // It may be gone.
                    let _ = port.calls_mut().drop_party(party, cause, now);
                }
            }
            Event::PartyAdded { party, .. } => self.on_party_added(at, party),
            Event::PartyDropped { party, cause } => self.on_party_dropped(at, party, cause),
            Event::Proceeding(_)
            | Event::Notified { .. }
            | Event::PartyAlerting(_)
            | Event::Restarted(_)
            | Event::EstablishLink => {}
        }
    }

    pub(super) fn host_port(&mut self, at: usize) -> Option<&mut Port> {
        match &mut self.interfaces.get_mut(at)?.as_mut()?.role {
            Role::Host(port) => Some(port),
            Role::Program(_) | Role::Switch(..) => None,
        }
    }

    /// The failures of all switches, with the switch's name.
    pub(super) fn failures(&self) -> impl Iterator<Item = (&str, &Failure)> {
        self.switches.iter().flatten().flat_map(|switch| switch.node.failures().map(|f| (switch.name.as_str(), f)))
    }
}

fn collect_commands(switch: &mut Switch, changes: &mut VecDeque<Change>) {
    while let Some(command) = switch.node.poll_command() {
        let (node_ends, kind) = match command {
            Command::Connect(ends, contracts) => (ends, Kind::Join(contracts.map(setup::kept))),
            Command::Disconnect(ends) => (ends, Kind::Part),
            Command::AddLeaf(ends, contract) => (ends, Kind::Branch(Some(setup::kept(contract)))),
            Command::DropLeaf(ends) => (ends, Kind::Branch(None)),
        };
        let place = |end: &End| Some((*switch.ports.get(end.port)?, circuit_of(end.connection)?));
        let (Some(a), Some(b)) = (place(&node_ends[0]), place(&node_ends[1])) else { continue };
        let (switch, ends) = (switch.name.clone(), [a, b]);
        changes.push_back(match kind {
            Kind::Join(contracts) => Change::Join { switch, ends, node_ends, contracts },
            Kind::Part => Change::Part { switch, ends },
            Kind::Branch(contract) => Change::Branch { switch, ends, node_ends, contract },
        });
    }
}

enum Kind {
    Join([Contract; 2]),
    Part,
    Branch(Option<Contract>),
}

/// The circuit of a connection identifier; the VPCI is the VPI.
pub(super) fn circuit_of(connection: ConnectionId) -> Option<CircuitId> {
    match connection.vci {
        VciChoice::Exactly(vci) => CircuitId::new(connection.vpci, vci),
        _ => None,
    }
}

/// Puts something into the first free place.
fn put<T>(slots: &mut Vec<Option<T>>, content: T) -> usize {
    let at = slots.iter().position(Option::is_none).unwrap_or_else(|| {
        slots.push(None);
        slots.len() - 1
    });
    slots[at] = Some(content);
    at
}
