//! The installer: what the [`Router`] decides, made in a [`Network`]: nodes, links, routes in switches, circuits at
//! hosts.

mod calls;

use super::inventory::StationKind;
use super::router::{Route, RoutedCircuit, Router, SwitchRoute};
use super::{CircuitDescription, CircuitEnd, CircuitOptions, LinkDescription, LinkKey, Station, TopologyError};
use crate::external::CircuitNotice;
use crate::line::Side;
use crate::network::{End, LinkConfig, LinkId, Network, NodeId, RemovedLink};
use crate::node::Node;
use crate::switch::{Room, RouteOptions, RouteTable, SwitchElement, SwitchElementConfig};
use calls::CallTable;
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;
use std::time::Duration;
use traffic::Contract;
use wire::{CircuitId, Label, Time};

/// The host's part of a circuit: what a host interface implements.
pub trait CircuitTable: Node {
    /// Lets a circuit end here, at `port`.
    ///
    /// # Errors
    /// Why not, in words.
    fn add_circuit(&mut self, port: u16, circuit: CircuitId, options: &CircuitOptions) -> Result<(), String>;

    /// Ends it; unknown ones are ignored.
    fn remove_circuit(&mut self, port: u16, circuit: CircuitId);

    /// Gives it another contract; whoever has it open keeps it, if the host can do so.
    ///
    /// # Errors
    /// Why not, in words.
    fn change_circuit(&mut self, port: u16, circuit: CircuitId, options: &CircuitOptions) -> Result<(), String> {
        self.remove_circuit(port, circuit);
        self.add_circuit(port, circuit, options)
    }
}

/// A node of some type as what it is to circuits.
type AsTable = for<'a> fn(&'a mut dyn Any) -> Option<&'a mut dyn RouteTable>;

/// Names, links and circuits of one [`Network`], whose hosts are of type `H`.
#[derive(Debug)]
pub struct Fabric<H> {
    pub(super) router: Router,
    pub(super) nodes: BTreeMap<String, NodeId>,
    tables: HashMap<NodeId, AsTable>,
    link_ids: HashMap<LinkKey, LinkId>,
    link_keys: HashMap<LinkId, LinkKey>,
    calls: CallTable,
    hosts: PhantomData<fn() -> H>,
}

impl<H> Default for Fabric<H> {
    fn default() -> Self {
        Fabric {
            router: Router::default(),
            nodes: BTreeMap::new(),
            tables: HashMap::new(),
            link_ids: HashMap::new(),
            link_keys: HashMap::new(),
            calls: CallTable::default(),
            hosts: PhantomData,
        }
    }
}

impl<H: CircuitTable + 'static> Fabric<H> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What knows the ways.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// The node of a host or switch.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.get(name).or_else(|| self.nodes.get(self.router.current_name(name))).copied()
    }

    /// All names and what they stand for.
    pub fn stations(&self) -> impl Iterator<Item = (&str, Station)> {
        self.router.stations().map(|(name, kind)| (name, kind.station()))
    }

    /// All links with the ports they were given.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &LinkDescription, [u16; 2])> {
        self.router.links().filter_map(|(key, link, ports)| Some((*self.link_ids.get(&key)?, link, ports)))
    }

    /// All circuits.
    pub fn circuits(&self) -> impl Iterator<Item = &CircuitDescription> {
        self.router.circuits().map(|placed| &placed.description)
    }

    /// The circuit that has this end.
    pub fn find_circuit(&self, end: &CircuitEnd) -> Option<&CircuitDescription> {
        self.router.find_circuit(end).map(|placed| &placed.description)
    }

    /// A link's name in output: `alpha:0 - s1:0`.
    pub fn link_name(&self, id: LinkId) -> Option<String> {
        self.router.link_name(*self.link_keys.get(&id)?)
    }

    /// A link by its name, or by its ends as they were written.
    pub fn find_link(&self, name: &str) -> Option<LinkId> {
        self.link_ids.get(&self.router.find_link(name)?).copied()
    }

    /// A link's description, with the ports it was given.
    pub fn link(&self, id: LinkId) -> Option<(&LinkDescription, [u16; 2])> {
        self.router.link(*self.link_keys.get(&id)?)
    }

    /// The link of a key of the router's.
    pub fn link_id(&self, key: LinkKey) -> Option<LinkId> {
        self.link_ids.get(&key).copied()
    }

    /// Adds a host.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_host(&mut self, network: &mut Network, name: &str, host: H) -> Result<NodeId, TopologyError> {
        self.router.add_station(name, StationKind::Host)?;
        let id = network.add_node(name, Box::new(host));
        self.nodes.insert(name.to_owned(), id);
        Ok(id)
    }

    /// Adds a switch.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_switch(
        &mut self,
        network: &mut Network,
        name: &str,
        config: SwitchElementConfig,
    ) -> Result<NodeId, TopologyError> {
        self.add_element(network, name, config, SwitchElement::new(config).named(name))
    }

    /// Adds an element that stands in a switch's place: it has a [`crate::RouteTable`], and these bounds.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_element<E: Node + RouteTable + 'static>(
        &mut self,
        network: &mut Network,
        name: &str,
        config: SwitchElementConfig,
        element: E,
    ) -> Result<NodeId, TopologyError> {
        self.router.add_station(name, StationKind::Switch(config))?;
        let id = network.add_node(name, Box::new(element));
        self.tables.insert(id, |node| node.downcast_mut::<E>().map(|element| element as &mut dyn RouteTable));
        self.nodes.insert(name.to_owned(), id);
        Ok(id)
    }

    /// The routes of a switch, or of what stands in its place.
    fn table<'a>(&self, network: &'a mut Network, id: NodeId) -> Option<&'a mut dyn RouteTable> {
        self.tables.get(&id)?(network.any_node_mut(id)?)
    }

    /// Adds the name of something outside.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_outside(&mut self, name: &str) -> Result<(), TopologyError> {
        self.router.add_station(name, StationKind::Outside)
    }

    /// Begins to give a switch other bounds; gives those that it had. [`Fabric::settle_switch`] goes on. `room` is what
    /// its tables grow by.
    ///
    /// # Errors
    /// It uses more than they allow.
    pub fn change_switch(
        &mut self,
        network: &mut Network,
        name: &str,
        config: SwitchElementConfig,
        room: &mut Room,
    ) -> Result<SwitchElementConfig, TopologyError> {
        let had = self.router.change_switch(name, config)?;
        if let Some(switch) = self.node(name).and_then(|id| network.node_mut::<SwitchElement>(id))
            && let Err(cause) = switch.begin_config(config, room)
        {
            self.router.change_switch(name, had)?;
            return Err(TopologyError::Route { switch: name.to_owned(), cause });
        }
        Ok(had)
    }

    /// Makes or takes away some of the ports that are to come or go at a switch, `most` at most. False if there are
    /// none.
    pub fn settle_switch(&mut self, network: &mut Network, name: &str, most: usize, room: &mut Room) -> bool {
        let switch = self.node(name).and_then(|id| network.node_mut::<SwitchElement>(id));
        switch.is_some_and(|switch| switch.settle(most, room))
    }

    /// Removes a station that has no links any more; its node comes back.
    ///
    /// # Errors
    /// It is unknown or has links.
    pub fn remove_station(
        &mut self,
        network: &mut Network,
        name: &str,
    ) -> Result<Option<Box<dyn Node>>, TopologyError> {
        self.router.remove_station(name)?;
        let id = self.nodes.remove(name);
        id.map(|id| self.tables.remove(&id));
        Ok(id.and_then(|id| network.remove_node(id)))
    }

    /// Adds a link.
    ///
    /// # Errors
    /// An end is unknown or its port taken; nothing has changed.
    pub fn add_link(&mut self, network: &mut Network, description: &LinkDescription) -> Result<LinkId, TopologyError> {
        let key = self.router.add_link(description)?;
        self.connect(network, key, description)
    }

    /// Puts a link back at the ports that it had, under its key.
    ///
    /// # Errors
    /// A port is taken, or an end is gone; nothing has changed.
    pub fn restore_link(
        &mut self,
        network: &mut Network,
        key: LinkKey,
        description: &LinkDescription,
        ports: [u16; 2],
    ) -> Result<LinkId, TopologyError> {
        self.router.restore_link(key, description, ports)?;
        self.connect(network, key, description)
    }

    fn connect(
        &mut self,
        network: &mut Network,
        key: LinkKey,
        description: &LinkDescription,
    ) -> Result<LinkId, TopologyError> {
        let ports = self.router.link(key).map(|(_, ports)| ports).unwrap_or_default();
        let [a, b] = [0, 1].map(|i| match self.nodes.get(&description.ends[i].station) {
            Some(node) => End::Port(*node, ports[i]),
            None => End::External,
        });
        match network.connect(a, b, description.config.clone()) {
            Ok(id) => {
                self.link_ids.insert(key, id);
                self.link_keys.insert(id, key);
                Ok(id)
            }
            Err(cause) => {
                let [a, b] = &description.ends;
                self.router.remove_link(key)?;
                Err(TopologyError::Connect { link: format!("{a} - {b}"), cause })
            }
        }
    }

    /// The router's key of a link.
    pub fn link_key(&self, id: LinkId) -> Option<LinkKey> {
        self.link_keys.get(&id).copied()
    }

    /// Removes a link and the circuits over it; returns those.
    ///
    /// # Errors
    /// There is no such link.
    pub fn remove_link(&mut self, network: &mut Network, id: LinkId) -> Result<Vec<CircuitDescription>, TopologyError> {
        self.take_link(network, id).map(|(gone, _)| gone)
    }

    /// The same, and what the link was made of: for who drops that elsewhere ([`Network::take_link`]).
    ///
    /// # Errors
    /// There is no such link.
    pub fn take_link(
        &mut self,
        network: &mut Network,
        id: LinkId,
    ) -> Result<(Vec<CircuitDescription>, Option<RemovedLink>), TopologyError> {
        let key = *self.link_keys.get(&id).ok_or_else(|| TopologyError::NoLink(format!("{id:?}")))?;
        let gone: Vec<_> = self.router.circuits_over(key).into_iter().cloned().collect();
        for circuit in &gone {
            self.remove_circuit(network, circuit)?;
        }
        self.router.remove_link(key)?;
        self.forget_calls(network, key);
        self.link_ids.remove(&key);
        self.link_keys.remove(&id);
        Ok((gone, network.take_link(id)))
    }

    /// Changes a link's rate and delay while cells pass; gives what it had.
    ///
    /// # Errors
    /// More is promised than the new rate, or something else would change too.
    pub fn change_link(
        &mut self,
        network: &mut Network,
        id: LinkId,
        config: &LinkConfig,
        now: Time,
    ) -> Result<LinkConfig, TopologyError> {
        let key = *self.link_keys.get(&id).ok_or_else(|| TopologyError::NoLink(format!("{id:?}")))?;
        let had = self.router.change_link(key, config)?;
        network.set_link_rate(id, config.rate, config.delay, now);
        Ok(had)
    }

    /// Routes a circuit and installs it hop by hop.
    ///
    /// # Errors
    /// Why it cannot be; nothing has changed.
    pub fn add_circuit(&mut self, network: &mut Network, circuit: &CircuitDescription) -> Result<(), TopologyError> {
        self.router.add_circuit(circuit)?;
        self.install_or_undo(network, &circuit.ends)
    }

    /// Installs a circuit on the way that it had.
    ///
    /// # Errors
    /// Something of it is taken; nothing has changed.
    pub fn restore_circuit(&mut self, network: &mut Network, placed: RoutedCircuit) -> Result<(), TopologyError> {
        let ends = self.router.restore_circuit(placed)?.description.ends.clone();
        self.install_or_undo(network, &ends)
    }

    fn install_or_undo(&mut self, network: &mut Network, ends: &[CircuitEnd]) -> Result<(), TopologyError> {
        let Some(placed) = ends.first().and_then(|end| self.router.find_circuit(end)) else { return Ok(()) };
        let installed = self.install(network, placed);
        if installed.is_err() {
            self.uninstall(network, placed);
            self.router.remove_circuit(ends)?;
        }
        installed
    }

    /// Takes a circuit out of all hops; gives it with the way that it had.
    ///
    /// # Errors
    /// There is none with these ends.
    pub fn remove_circuit(
        &mut self,
        network: &mut Network,
        circuit: &CircuitDescription,
    ) -> Result<RoutedCircuit, TopologyError> {
        let placed = self.router.remove_circuit(&circuit.ends)?;
        self.uninstall(network, &placed);
        Ok(placed)
    }

    /// Gives a circuit other contracts, away from its first end and back; whoever has it open keeps it. Gives what it
    /// had.
    ///
    /// # Errors
    /// A link has too little left, delays become too long, or a switch or host refuses; nothing has changed.
    pub fn change_contract(
        &mut self,
        network: &mut Network,
        ends: &[CircuitEnd],
        contract: Contract,
        back: Option<Contract>,
    ) -> Result<(Contract, Option<Contract>), TopologyError> {
        let had = self.router.change_contract(ends, contract, back)?;
        let before = (had.description.contract, had.description.back);
        let mut placed = had.clone();
        (placed.description.contract, placed.description.back) = (contract, back);
        let changed = self.change_switches(network, &placed).and_then(|()| self.change_hosts(network, &placed));
        if let Err(error) = changed {
            self.router.change_contract(ends, before.0, before.1)?;
            self.change_switches(network, &had)?;
            self.change_hosts(network, &had)?;
            return Err(error);
        }
        self.set_windows(network, &placed.route);
        self.tell(network, &placed, true);
        Ok(before)
    }

    fn change_switches(&self, network: &mut Network, placed: &RoutedCircuit) -> Result<(), TopologyError> {
        for (route, options) in self.routes_of(placed) {
            let Some(node) = self.node(route.switch).and_then(|id| self.table(network, id)) else { continue };
            node.change_route(route.from, route.to, options)
                .map_err(|cause| TopologyError::Route { switch: route.switch.to_owned(), cause })?;
        }
        Ok(())
    }

    /// What each switch on a circuit's way is told: the contract as it is where cells come in.
    fn routes_of<'a>(&'a self, placed: &'a RoutedCircuit) -> Vec<(SwitchRoute<'a>, RouteOptions)> {
        let circuit = &placed.description;
        let routes = self.router.routes(&placed.route, circuit.is_both_ways());
        let [back, away] = [false, true].map(|away| self.router.variations(&placed.route, away));
        let options = |route: SwitchRoute<'a>| {
            let variation = if route.away { away[route.hop] } else { back[route.hop] };
            let contract = circuit.contract_of(route.away).delayed_by(variation + ROUNDING);
            (route, RouteOptions { aal: circuit.aal, contract })
        };
        routes.into_iter().map(options).collect()
    }

    /// Where something is promised of a link, its sender's queue is short: order is kept before it.
    fn set_windows(&self, network: &mut Network, way: &Route) {
        for hop in &way.hops {
            let Some(link) = self.link_ids.get(&hop.link) else { continue };
            for side in [Side::A, Side::B] {
                network.set_link_window(*link, side, self.router.window(hop.link, side));
            }
        }
    }

    /// Says how late whoever runs the network may look after it. Call it before there are circuits.
    pub fn set_round(&mut self, round: Duration) {
        self.router.set_round(round);
    }

    fn change_hosts(&self, network: &mut Network, placed: &RoutedCircuit) -> Result<(), TopologyError> {
        for (end, circuit, port) in self.router.hosted(placed) {
            let Some(host) = self.host(network, &end.station) else { continue };
            host.change_circuit(port, circuit, &options(&placed.description, end))
                .map_err(|cause| TopologyError::Host { host: end.station.clone(), circuit, cause })?;
        }
        Ok(())
    }

    fn install(&self, network: &mut Network, placed: &RoutedCircuit) -> Result<(), TopologyError> {
        let circuit = &placed.description;
        for (route, options) in self.routes_of(placed) {
            let Some(node) = self.node(route.switch).and_then(|id| self.table(network, id)) else { continue };
            node.add_route(route.from, route.to, options)
                .map_err(|cause| TopologyError::Route { switch: route.switch.to_owned(), cause })?;
        }
        self.set_up_inside(network, placed);
        self.set_windows(network, &placed.route);
        self.tell(network, placed, true);
        for (end, id, port) in self.router.hosted(placed) {
            let Some(host) = self.host(network, &end.station) else { continue };
            host.add_circuit(port, id, &options(circuit, end)).map_err(|cause| TopologyError::Host {
                host: end.station.clone(),
                circuit: id,
                cause,
            })?;
        }
        Ok(())
    }

    /// A path's switches need not know a circuit inside it. They must know that its label is new: cells on their links
    /// belong to the circuit before.
    fn set_up_inside(&self, network: &mut Network, placed: &RoutedCircuit) {
        let Some(carrier) = self.router.carrier(placed) else { return };
        let Some(Label::Vc(circuit)) = placed.route.hops.first().map(|hop| hop.label) else { return };
        for route in self.router.routes(&carrier.route, carrier.description.is_both_ways()) {
            if let Some(node) = self.node(route.switch).and_then(|id| self.table(network, id)) {
                node.set_up_channel(route.from, route.to, circuit.vci);
            }
        }
    }

    /// Tells the shells at a circuit's outside ends.
    fn tell(&self, network: &mut Network, placed: &RoutedCircuit, exists: bool) {
        for (link, circuit) in self.outside_ends(&placed.description, &placed.route) {
            let notice = CircuitNotice { aal: placed.description.aal, contract: placed.description.contract };
            network.set_circuit(link, circuit, exists.then_some(notice));
        }
    }

    fn outside_ends(&self, circuit: &CircuitDescription, way: &Route) -> Vec<(LinkId, CircuitId)> {
        let mut ends = Vec::new();
        for hop in &way.hops {
            let Some(link) = self.link_ids.get(&hop.link) else { continue };
            for side in [Side::A, Side::B] {
                let outside = |(station, _): &(&str, u16)| self.router.station(station) == Some(Station::Outside);
                let Some((station, _)) = self.router.end(hop, side).filter(outside) else { continue };
                let end = circuit.ends.iter().find(|end| end.station == station && !end.path);
                ends.extend(end.map(|end| (*link, end.circuit)));
            }
        }
        ends
    }

    /// Tells a link's shell about circuits that end at it, by their numbers from `from` on, `most` at most: for a shell
    /// that was attached after they were added. Gives the number to go on from.
    pub fn tell_link(&self, network: &mut Network, id: LinkId, from: u32, most: usize) -> Option<u32> {
        let (circuits, next) = self.router.circuits_over_from(*self.link_keys.get(&id)?, from, most);
        circuits.into_iter().for_each(|placed| self.tell(network, placed, true));
        next
    }

    fn uninstall(&self, network: &mut Network, placed: &RoutedCircuit) {
        self.tell(network, placed, false);
        for (end, id, port) in self.router.hosted(placed) {
            if let Some(host) = self.host(network, &end.station) {
                host.remove_circuit(port, id);
            }
        }
        for route in self.router.routes(&placed.route, placed.description.is_both_ways()) {
            if let Some(node) = self.node(route.switch).and_then(|id| self.table(network, id)) {
                node.remove_route(route.from.0, route.from.1, None);
            }
        }
        self.set_windows(network, &placed.route);
    }

    fn host<'a>(&self, network: &'a mut Network, name: &str) -> Option<&'a mut H> {
        network.node_mut::<H>(self.node(name)?)
    }
}

/// What rounding to a pacer's nanosecond and a wheel's slot may add up to on a way.
const ROUNDING: Duration = Duration::from_micros(1);

/// What a host is told of a circuit that has this end at it.
fn options(circuit: &CircuitDescription, end: &CircuitEnd) -> CircuitOptions {
    let is_root = circuit.ends.first() == Some(end);
    CircuitOptions {
        aal: circuit.aal,
        contract: circuit.contract_of(is_root),
        sends: is_root || circuit.is_both_ways(),
        receives: !is_root || circuit.is_both_ways(),
        oam: circuit.oam,
    }
}
