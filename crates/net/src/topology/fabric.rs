//! What exists, by name, and the steps that bring a network from one description to the next.

use super::graph::{Graph, GraphLink, Way, other};
use super::{CircuitDescription, CircuitOptions, Description, LinkDescription, Station, TopologyError};
use crate::external::CircuitNotice;
use crate::network::{End, LinkId, Network, NodeId, Side};
use crate::node::Node;
use crate::switch::{Label, RouteOptions, Switch, SwitchConfig};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use wire::CircuitId;

/// The host's part of a circuit: what a host interface implements.
pub trait CircuitTable: Node {
    /// Lets a circuit end here, at `port`.
    ///
    /// # Errors
    /// Why not, in words.
    fn add_circuit(&mut self, port: u16, circuit: CircuitId, options: &CircuitOptions) -> Result<(), String>;

    /// Ends it; unknown ones are ignored.
    fn remove_circuit(&mut self, port: u16, circuit: CircuitId);
}

/// What [`Fabric::apply`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Circuits that were not touched.
    pub unchanged_circuits: usize,
    /// Circuits that are gone.
    pub removed_circuits: usize,
    /// Circuits that are new.
    pub added_circuits: usize,
    /// Links that are gone.
    pub removed_links: usize,
    /// Links that are new.
    pub added_links: usize,
    /// Stations that are gone.
    pub removed_stations: usize,
    /// Stations that are new.
    pub added_stations: usize,
}

/// A switch's name, and port and label in and out.
type SwitchRoute<'a> = (&'a str, (u16, Label), (u16, Label));

#[derive(Debug)]
struct Installed {
    description: CircuitDescription,
    way: Way,
}

/// Names, links and circuits of one [`Network`], whose hosts are of type `H`.
#[derive(Debug)]
pub struct Fabric<H> {
    graph: Graph,
    nodes: BTreeMap<String, NodeId>,
    /// How many ports each switch has.
    switch_ports: BTreeMap<String, u16>,
    link_ids: BTreeMap<u32, LinkId>,
    next_link: u32,
    circuits: Vec<Installed>,
    hosts: PhantomData<fn() -> H>,
}

impl<H> Default for Fabric<H> {
    fn default() -> Self {
        Fabric {
            graph: Graph::default(),
            nodes: BTreeMap::new(),
            switch_ports: BTreeMap::new(),
            link_ids: BTreeMap::new(),
            next_link: 0,
            circuits: Vec::new(),
            hosts: PhantomData,
        }
    }
}

impl<H: CircuitTable + 'static> Fabric<H> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The node of a host or switch.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.get(name).copied()
    }

    /// All names and what they stand for.
    pub fn stations(&self) -> impl Iterator<Item = (&str, Station)> {
        self.graph.stations.iter().map(|(name, station)| (name.as_str(), *station))
    }

    /// All links with the ports they were given.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &LinkDescription, [u16; 2])> {
        self.graph.links.iter().filter_map(|(k, l)| Some((*self.link_ids.get(k)?, &l.description, l.ports)))
    }

    /// All circuits.
    pub fn circuits(&self) -> impl Iterator<Item = &CircuitDescription> {
        self.circuits.iter().map(|c| &c.description)
    }

    /// A link's name in output: `alpha:0 - s1:0`.
    pub fn link_name(&self, id: LinkId) -> Option<String> {
        let (key, _) = self.link_ids.iter().find(|(_, l)| **l == id)?;
        Some(self.graph.links.get(key)?.name())
    }

    /// Adds a host.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_host(&mut self, network: &mut Network, name: &str, host: H) -> Result<NodeId, TopologyError> {
        self.add_station(name, Station::Host)?;
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
        config: SwitchConfig,
    ) -> Result<NodeId, TopologyError> {
        self.add_station(name, Station::Switch)?;
        self.switch_ports.insert(name.to_owned(), config.ports);
        let id = network.add_node(name, Box::new(Switch::new(config)));
        self.nodes.insert(name.to_owned(), id);
        Ok(id)
    }

    /// Adds the name of something outside.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_outside(&mut self, name: &str) -> Result<(), TopologyError> {
        self.add_station(name, Station::Outside)
    }

    fn add_station(&mut self, name: &str, station: Station) -> Result<(), TopologyError> {
        if self.graph.stations.contains_key(name) {
            return Err(TopologyError::StationExists(name.to_owned()));
        }
        self.graph.stations.insert(name.to_owned(), station);
        Ok(())
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
        if self.graph.ends_at(name).next().is_some() {
            return Err(TopologyError::StationInUse(name.to_owned()));
        }
        self.graph.stations.remove(name).ok_or_else(|| TopologyError::NoStation(name.to_owned()))?;
        self.switch_ports.remove(name);
        Ok(self.nodes.remove(name).and_then(|id| network.remove_node(id)))
    }

    /// Adds a link.
    ///
    /// # Errors
    /// An end is unknown or its port taken; nothing has changed.
    pub fn add_link(&mut self, network: &mut Network, description: &LinkDescription) -> Result<LinkId, TopologyError> {
        let [a, b] = &description.ends;
        let written = || format!("{a} - {b}");
        if a.station == b.station {
            return Err(TopologyError::Loop(written()));
        }
        let port_a = self.graph.settle_port(a, None);
        let port_b = self.graph.settle_port(b, None);
        for (attachment, port) in [(a, port_a), (b, port_b)] {
            if let Some(&ports) = self.switch_ports.get(&attachment.station)
                && port >= ports
            {
                let (switch, last) = (attachment.station.clone(), ports.saturating_sub(1));
                return Err(TopologyError::NoPort { switch, port, last });
            }
        }
        let end = |name: &str, port| match (self.graph.stations.get(name), self.nodes.get(name)) {
            (None, _) => Err(TopologyError::NoStation(name.to_owned())),
            (Some(_), Some(node)) => Ok(End::Port(*node, port)),
            (Some(_), None) => Ok(End::External),
        };
        let (end_a, end_b) = (end(&a.station, port_a)?, end(&b.station, port_b)?);
        let id = network
            .connect(end_a, end_b, description.config.clone())
            .map_err(|cause| TopologyError::Connect { link: written(), cause })?;
        let key = self.next_link;
        self.next_link += 1;
        self.graph.links.insert(key, GraphLink::new(description.clone(), [port_a, port_b]));
        self.link_ids.insert(key, id);
        Ok(id)
    }

    /// Removes a link and the circuits over it; returns those.
    ///
    /// # Errors
    /// There is no such link.
    pub fn remove_link(&mut self, network: &mut Network, id: LinkId) -> Result<Vec<CircuitDescription>, TopologyError> {
        let key = self.link_ids.iter().find(|(_, l)| **l == id).map(|(k, _)| *k);
        let key = key.ok_or_else(|| TopologyError::NoLink(format!("{id:?}")))?;
        let over = |c: &Installed| c.way.hops.iter().any(|h| h.link == key);
        let gone: Vec<_> = self.circuits.iter().filter(|c| over(c)).map(|c| c.description.clone()).collect();
        for circuit in &gone {
            self.remove_circuit(network, circuit)?;
        }
        self.link_ids.remove(&key);
        self.graph.links.remove(&key);
        network.remove_link(id);
        Ok(gone)
    }

    /// Routes a circuit and installs it hop by hop.
    ///
    /// # Errors
    /// Why it cannot be; nothing has changed.
    pub fn add_circuit(&mut self, network: &mut Network, circuit: &CircuitDescription) -> Result<(), TopologyError> {
        for end in &circuit.ends {
            if self.circuits.iter().any(|c| c.description.ends.contains(end)) {
                return Err(TopologyError::CircuitExists(end.to_string()));
            }
        }
        let way = self.graph.find_way(circuit)?;
        self.graph.take(&way, &circuit.contract, !circuit.is_multipoint())?;
        if let Err(error) = self.install(network, circuit, &way) {
            self.uninstall(network, circuit, &way);
            self.graph.give_back(&way, &circuit.contract, !circuit.is_multipoint());
            return Err(error);
        }
        self.circuits.push(Installed { description: circuit.clone(), way });
        Ok(())
    }

    /// Takes a circuit out of all hops.
    ///
    /// # Errors
    /// There is none with these ends.
    pub fn remove_circuit(&mut self, network: &mut Network, circuit: &CircuitDescription) -> Result<(), TopologyError> {
        let place = self.circuits.iter().position(|c| c.description.ends == circuit.ends);
        let name = || circuit.ends.iter().map(ToString::to_string).collect::<Vec<_>>().join(" - ");
        let Installed { description, way } =
            self.circuits.remove(place.ok_or_else(|| TopologyError::NoCircuit(name()))?);
        self.uninstall(network, &description, &way);
        self.graph.give_back(&way, &description.contract, !description.is_multipoint());
        Ok(())
    }

    /// The ends of a circuit's way that are stations' own: at each hop, (station, port, label) of both sides.
    fn install(&self, network: &mut Network, circuit: &CircuitDescription, way: &Way) -> Result<(), TopologyError> {
        for (switch, from, to) in self.routes(way, !circuit.is_multipoint()) {
            let Some(node) = self.node(switch).and_then(|id| network.node_mut::<Switch>(id)) else { continue };
            node.add_route(from, to, RouteOptions { aal: circuit.aal, ..RouteOptions::default() })
                .map_err(|cause| TopologyError::Route { switch: switch.to_owned(), cause })?;
        }
        self.tell(network, circuit, way, true);
        for (i, end) in circuit.ends.iter().enumerate() {
            let Some(host) = self.host(network, &end.station) else { continue };
            let options = CircuitOptions {
                aal: circuit.aal,
                contract: circuit.contract,
                sends: i == 0 || !circuit.is_multipoint(),
                receives: i > 0 || !circuit.is_multipoint(),
            };
            let port = self.port_of_end(way, &end.station).unwrap_or_default();
            host.add_circuit(port, end.circuit, &options).map_err(|cause| TopologyError::Host {
                host: end.station.clone(),
                circuit: end.circuit,
                cause,
            })?;
        }
        Ok(())
    }

    /// Tells the shells at a circuit's outside ends.
    fn tell(&self, network: &mut Network, circuit: &CircuitDescription, way: &Way, exists: bool) {
        for hop in &way.hops {
            let Some(link) = self.link_ids.get(&hop.link) else { continue };
            for side in [Side::A, Side::B] {
                let Some((station, _)) = self.graph.end(hop, side) else { continue };
                let Some(end) = circuit.ends.iter().find(|e| e.station == station) else { continue };
                if self.graph.stations.get(station) == Some(&Station::Outside) {
                    let notice = CircuitNotice { aal: circuit.aal, contract: circuit.contract };
                    network.set_circuit(*link, end.circuit, exists.then_some(notice));
                }
            }
        }
    }

    /// Tells the shells of all links about all circuits: for shells that were attached after circuits were added.
    pub fn tell_all(&self, network: &mut Network) {
        for Installed { description, way } in &self.circuits {
            self.tell(network, description, way, true);
        }
    }

    fn uninstall(&self, network: &mut Network, circuit: &CircuitDescription, way: &Way) {
        self.tell(network, circuit, way, false);
        for end in &circuit.ends {
            let port = self.port_of_end(way, &end.station).unwrap_or_default();
            if let Some(host) = self.host(network, &end.station) {
                host.remove_circuit(port, end.circuit);
            }
        }
        for (switch, (port, label), _) in self.routes(way, !circuit.is_multipoint()) {
            if let Some(node) = self.node(switch).and_then(|id| network.node_mut::<Switch>(id)) {
                node.remove_route(port, label, None);
            }
        }
    }

    fn host<'a>(&self, network: &'a mut Network, name: &str) -> Option<&'a mut H> {
        network.node_mut::<H>(self.node(name)?)
    }

    fn port_of_end(&self, way: &Way, station: &str) -> Option<u16> {
        let ends = way.hops.iter().flat_map(|h| [self.graph.end(h, Side::A), self.graph.end(h, Side::B)]);
        ends.flatten().find(|(name, _)| *name == station).map(|(_, port)| port)
    }

    /// What each switch on the way has to do: from each hop into it to each hop out of it, and back if both ways.
    fn routes<'a>(&'a self, way: &'a Way, both_ways: bool) -> Vec<SwitchRoute<'a>> {
        let mut routes = Vec::new();
        for into in &way.hops {
            let Some((station, port)) = self.graph.end(into, other(into.from)) else { continue };
            for out in &way.hops {
                let Some((_, out_port)) = self.graph.end(out, out.from).filter(|(name, _)| *name == station) else {
                    continue;
                };
                let (from, to) = ((port, Label::Vc(into.label)), (out_port, Label::Vc(out.label)));
                routes.push((station, from, to));
                if both_ways {
                    routes.push((station, to, from));
                }
            }
        }
        routes
    }

    /// Makes `wanted` so. Stations, links and circuits that are the same in both are not touched; a circuit over a link that
    /// changes is routed anew.
    ///
    /// # Errors
    /// The first thing that cannot be; what came before it has been done, and a second call with a better description
    /// goes on from there.
    pub fn apply(
        &mut self,
        network: &mut Network,
        wanted: &Description,
        mut make_host: impl FnMut(&str) -> H,
    ) -> Result<Applied, TopologyError> {
        let mut done = Applied::default();
        let before = self.circuits.len();
        let gone: Vec<_> = self.circuits().filter(|c| !wanted.circuits.contains(c)).cloned().collect();
        for circuit in &gone {
            self.remove_circuit(network, circuit)?;
        }
        let gone: Vec<_> = self.links().filter(|(_, l, _)| !wanted.links.contains(l)).map(|(id, ..)| id).collect();
        for link in gone {
            self.remove_link(network, link)?;
            done.removed_links += 1;
        }
        let gone: Vec<String> = self
            .stations()
            .filter(|(name, station)| wanted.stations.get(*name) != Some(station))
            .map(|(name, _)| name.to_owned())
            .collect();
        for name in gone {
            self.remove_station(network, &name)?;
            done.removed_stations += 1;
        }
        done.unchanged_circuits = self.circuits.len();
        done.removed_circuits = before - done.unchanged_circuits;
        for (name, station) in &wanted.stations {
            if self.graph.stations.contains_key(name) {
                continue;
            }
            match station {
                Station::Host => drop(self.add_host(network, name, make_host(name))?),
                Station::Switch => drop(self.add_switch(network, name, SwitchConfig::default())?),
                Station::Outside => self.add_outside(name)?,
            }
            done.added_stations += 1;
        }
        for link in &wanted.links {
            if self.links().all(|(_, l, _)| l != link) {
                self.add_link(network, link)?;
                done.added_links += 1;
            }
        }
        for circuit in &wanted.circuits {
            if self.circuits().all(|c| c != circuit) {
                self.add_circuit(network, circuit)?;
                done.added_circuits += 1;
            }
        }
        Ok(done)
    }
}
