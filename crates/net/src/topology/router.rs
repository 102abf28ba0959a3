//! The way of a circuit: shortest over switches whose links have its label and rate left, with a label on each link. It also
//! keeps what circuits have taken. Pure: [`super::Fabric`] installs what is decided here.

mod search;

use super::inventory::{Bounds, Inventory, LinkState, other};
use super::{CircuitDescription, CircuitEnd, LinkDescription, LinkKey, Station, TopologyError};
use crate::line::Side;
use crate::network::LinkConfig;
use crate::switch::{Label, SwitchConfig};
use std::collections::BTreeMap;
use traffic::Contract;
use wire::CircuitId;

/// One link of a circuit's way, in the direction away from the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// The link.
    pub link: LinkKey,
    /// The end nearer to the root.
    pub from: Side,
    /// The circuit's label on it, both ways.
    pub label: Label,
}

/// A circuit's way: a tree of hops, each after the one that leads to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Way {
    /// The links.
    pub hops: Vec<Hop>,
    /// Whether a path that is switched whole carries it: switches have no route of its own then.
    pub inside: bool,
}

/// A circuit with its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// As it was described.
    pub description: CircuitDescription,
    /// Where it goes.
    pub way: Way,
}

#[derive(Debug, Clone)]
struct Slot {
    placed: Placed,
    /// The path that carries it, by number.
    carrier: Option<u32>,
    /// Circuits that it carries.
    riders: usize,
}

/// What a switch has to do: its name, and port and label in and out.
pub(super) type SwitchRoute<'a> = (&'a str, (u16, Label), (u16, Label));

/// Where a circuit enters or leaves: the station beyond its first link, and that link where it is fixed.
#[derive(Debug)]
struct Access {
    station: String,
    link: Option<LinkKey>,
    label: Label,
}

/// Stations, links, and the ways of circuits over them.
#[derive(Debug, Clone, Default)]
pub struct Router {
    pub(super) inventory: Inventory,
    /// Circuits by number. A tree: one circuit more costs the same however many there are, and moves none.
    slots: BTreeMap<u32, Slot>,
    free: Vec<u32>,
}

impl Router {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a station.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_station(&mut self, name: &str, bounds: Bounds) -> Result<(), TopologyError> {
        self.inventory.add_station(name, bounds)
    }

    /// Removes a station that has no links any more; gives what it was.
    ///
    /// # Errors
    /// It is unknown or has links.
    pub fn remove_station(&mut self, name: &str) -> Result<Bounds, TopologyError> {
        self.inventory.remove_station(name)
    }

    /// Gives a switch other bounds; gives those that it had.
    ///
    /// # Errors
    /// It uses more than they allow.
    pub fn change_switch(&mut self, name: &str, config: SwitchConfig) -> Result<SwitchConfig, TopologyError> {
        self.inventory.change_switch(name, config)
    }

    /// All names and what they stand for.
    pub fn stations(&self) -> impl Iterator<Item = (&str, Bounds)> {
        self.inventory.stations.iter().map(|(name, state)| (name.as_str(), state.bounds))
    }

    /// What a name stands for, with its bounds.
    pub fn bounds(&self, name: &str) -> Option<Bounds> {
        self.inventory.stations.get(name).map(|state| state.bounds)
    }

    /// The link after another one by its key, or the first.
    pub fn link_after(&self, key: Option<LinkKey>) -> Option<LinkKey> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = key.map_or(Unbounded, Excluded);
        self.inventory.links.range((from, Unbounded)).next().map(|(key, _)| *key)
    }

    /// What a name stands for.
    pub fn station(&self, name: &str) -> Option<Station> {
        self.inventory.stations.get(name).map(|state| state.bounds.station())
    }

    /// Adds a link; its ports are settled.
    ///
    /// # Errors
    /// An end is unknown or its port taken.
    pub fn add_link(&mut self, description: &LinkDescription) -> Result<LinkKey, TopologyError> {
        self.inventory.add_link(description)
    }

    /// Puts a link back at the ports that it had, under its key.
    ///
    /// # Errors
    /// A port is taken, or an end is gone.
    pub fn restore_link(
        &mut self,
        key: LinkKey,
        description: &LinkDescription,
        ports: [u16; 2],
    ) -> Result<(), TopologyError> {
        self.inventory.restore_link(key, description, ports)
    }

    /// Removes a link that carries no circuits; gives its description and its ports.
    ///
    /// # Errors
    /// It is unknown or carries circuits.
    pub fn remove_link(&mut self, key: LinkKey) -> Result<(LinkDescription, [u16; 2]), TopologyError> {
        self.inventory.remove_link(key).map(|link| (link.description, link.ports))
    }

    /// Changes a link's rate and delay; gives what it had.
    ///
    /// # Errors
    /// More is promised than the new rate, or something else would change too.
    pub fn change_link(&mut self, key: LinkKey, config: &LinkConfig) -> Result<LinkConfig, TopologyError> {
        let link = self.inventory.links.get_mut(&key).ok_or_else(|| TopologyError::NoLink(format!("{}", key.0)))?;
        let had = link.description.config.clone();
        let fixed = |what| TopologyError::FixedProperty { link: link.name(), what };
        if had.carries != config.carries {
            return Err(fixed("cells or frames"));
        }
        if had.queue_cells != config.queue_cells {
            return Err(fixed("queue"));
        }
        if had.faults != config.faults {
            return Err(fixed("faults"));
        }
        let labels = |config: &LinkConfig| config.calls.map(|calls| (calls.vpi, calls.vcis));
        if labels(&had) != labels(config) {
            return Err(fixed("labels of calls"));
        }
        let mut admission = link.admission;
        for direction in &mut admission {
            let refused = |cause| TopologyError::Admission { link: link.name(), cause };
            direction.change_rate(config.rate_for_circuits()).map_err(refused)?;
        }
        link.admission = admission;
        link.description.config = config.clone();
        Ok(had)
    }

    /// All links with the ports they were given.
    pub fn links(&self) -> impl Iterator<Item = (LinkKey, &LinkDescription, [u16; 2])> {
        self.inventory.links.iter().map(|(key, link)| (*key, &link.description, link.ports))
    }

    /// One link with the ports it was given.
    pub fn link(&self, key: LinkKey) -> Option<(&LinkDescription, [u16; 2])> {
        self.inventory.links.get(&key).map(|link| (&link.description, link.ports))
    }

    /// A link by its name, or by its ends as they were written.
    pub fn find_link(&self, name: &str) -> Option<LinkKey> {
        self.inventory.find_link(name)
    }

    /// A link's name: `alpha:0 - s1:0`.
    pub fn link_name(&self, key: LinkKey) -> Option<String> {
        self.inventory.links.get(&key).map(LinkState::name)
    }

    /// Cells each second that circuits with a contract have of a link, from A and from B, and how many labels are in use.
    pub fn link_use(&self, key: LinkKey) -> Option<([f64; 2], usize)> {
        let link = self.inventory.links.get(&key)?;
        Some((link.admission.map(|direction| direction.promised_cells_per_s()), link.labels.len()))
    }

    /// How many circuits are over a link.
    pub fn circuit_count_over(&self, key: LinkKey) -> usize {
        self.inventory.links.get(&key).map_or(0, |link| link.circuits.len())
    }

    /// Routes of the circuits through a switch.
    pub fn routes_at(&self, name: &str) -> usize {
        self.inventory.stations.get(name).map_or(0, |state| state.routes)
    }

    /// The circuits over a link; those that a path carries come before the path.
    pub fn circuits_over(&self, key: LinkKey) -> Vec<&CircuitDescription> {
        let over = self.inventory.links.get(&key).into_iter().flat_map(|link| &link.circuits);
        let mut slots: Vec<&Slot> = over.filter_map(|number| self.slot(*number)).collect();
        slots.sort_by_key(|slot| slot.carrier.is_none());
        slots.into_iter().map(|slot| &slot.placed.description).collect()
    }

    /// Circuits over a link by their numbers from `from` on, `most` at most, and the number to go on from; `None` at the end.
    pub fn circuits_over_from(&self, key: LinkKey, from: u32, most: usize) -> (Vec<&Placed>, Option<u32>) {
        let Some(link) = self.inventory.links.get(&key) else { return (Vec::new(), None) };
        let mut numbers = link.circuits.range(from..);
        let part = numbers.by_ref().take(most).filter_map(|number| self.slot(*number)).map(|slot| &slot.placed);
        (part.collect(), numbers.next().copied())
    }

    /// The channels inside a path, of those that are on this link.
    pub fn riders_at(&self, key: LinkKey, path: Label) -> impl Iterator<Item = &CircuitDescription> {
        let link = self.inventory.links.get(&key);
        let Label::Vp(vpi) = path else { return None.into_iter().flatten() };
        let carrier = link.and_then(|link| link.paths.get(&vpi.get()));
        let riders = link.into_iter().flat_map(|link| &link.circuits).filter_map(|number| self.slot(*number));
        let inside = riders.filter(move |slot| slot.carrier.is_some() && slot.carrier.as_ref() == carrier);
        Some(inside.map(|slot| &slot.placed.description)).into_iter().flatten()
    }

    fn slot(&self, number: u32) -> Option<&Slot> {
        self.slots.get(&number)
    }

    /// All circuits.
    pub fn circuits(&self) -> impl Iterator<Item = &Placed> {
        self.slots.values().map(|slot| &slot.placed)
    }

    /// How many circuits there are.
    pub fn circuit_count(&self) -> usize {
        self.slots.len()
    }

    /// The circuit that has this end.
    pub fn find_circuit(&self, end: &CircuitEnd) -> Option<&Placed> {
        self.slot(self.inventory.circuit_at(end)?).map(|slot| &slot.placed)
    }

    fn find(&self, ends: &[CircuitEnd]) -> Result<u32, TopologyError> {
        let number = ends.first().and_then(|end| self.inventory.circuit_at(end));
        number.filter(|number| self.slot(*number).is_some_and(|slot| slot.placed.description.ends == ends)).ok_or_else(
            || TopologyError::NoCircuit(ends.iter().map(ToString::to_string).collect::<Vec<_>>().join(" - ")),
        )
    }

    /// Finds a circuit's way and takes what it needs.
    ///
    /// # Errors
    /// Why it cannot be; nothing is taken.
    pub fn add_circuit(&mut self, circuit: &CircuitDescription) -> Result<&Placed, TopologyError> {
        let (way, carrier) = self.find_way(circuit)?;
        self.place(Placed { description: circuit.clone(), way }, carrier)
    }

    /// Puts a circuit back on the way that it had.
    ///
    /// # Errors
    /// Something of it is taken; nothing has changed.
    pub fn restore_circuit(&mut self, placed: Placed) -> Result<&Placed, TopologyError> {
        let carrier =
            if placed.way.inside { self.find_carrier(&placed.description)?.map(|(_, carrier)| carrier) } else { None };
        for hop in &placed.way.hops {
            let link = self.link_state(hop.link)?;
            let free = match hop.label {
                Label::Vc(id) if carrier.is_some() => link.labels.is_free_inside(id),
                label => link.labels.is_free(label),
            };
            if !free {
                return Err(TopologyError::LabelInUse { label: hop.label, link: link.name() });
            }
        }
        self.place(placed, carrier)
    }

    fn place(&mut self, placed: Placed, carrier: Option<u32>) -> Result<&Placed, TopologyError> {
        for hop in &placed.way.hops {
            let link = self.link_state(hop.link)?;
            let vpi = match hop.label {
                Label::Vc(id) => id.vpi,
                Label::Vp(vpi) => vpi,
            };
            let most = link.description.config.max_vpi;
            if vpi > most {
                return Err(TopologyError::VpiTooLarge { label: hop.label, link: link.name(), most: most.get() });
            }
        }
        for end in &placed.description.ends {
            if self.inventory.circuit_at(end).is_some() {
                return Err(TopologyError::CircuitExists(end.to_string()));
            }
        }
        let both_ways = placed.description.is_both_ways();
        let routes = self.routes_by_switch(&placed.way, both_ways);
        self.check_routes(&routes)?;
        let mut changed = Vec::new();
        if carrier.is_none() {
            for hop in &placed.way.hops {
                changed.push(self.admitted(hop, &placed.description.contract, both_ways)?);
            }
        }
        for (link, admission) in changed {
            if let Some(link) = self.inventory.links.get_mut(&link) {
                link.admission = admission;
            }
        }
        let number = self.free.pop().unwrap_or(self.slots.len() as u32);
        for hop in &placed.way.hops {
            let Some(link) = self.inventory.links.get_mut(&hop.link) else { continue };
            link.labels.take(hop.label);
            link.circuits.insert(number);
            if let Label::Vp(vpi) = hop.label {
                link.paths.insert(vpi.get(), number);
            }
        }
        self.count_routes(&routes, 1);
        for end in &placed.description.ends {
            self.inventory.set_circuit_at(end, Some(number));
        }
        if let Some(path) = carrier.and_then(|path| self.slots.get_mut(&path)) {
            path.riders += 1;
        }
        let slot = self.slots.entry(number).or_insert(Slot { placed, carrier, riders: 0 });
        Ok(&slot.placed)
    }

    /// Takes a circuit off its way, and gives it with that.
    ///
    /// # Errors
    /// There is none with these ends, or it is a path that carries others.
    pub fn remove_circuit(&mut self, ends: &[CircuitEnd]) -> Result<Placed, TopologyError> {
        let number = self.find(ends)?;
        if self.slot(number).is_some_and(|slot| slot.riders > 0) {
            return Err(TopologyError::PathInUse(ends.first().map(ToString::to_string).unwrap_or_default()));
        }
        let taken = self.slots.remove(&number);
        let Slot { placed, carrier, .. } = taken.ok_or_else(|| TopologyError::NoCircuit(String::new()))?;
        self.free.push(number);
        if let Some(path) = carrier.and_then(|path| self.slots.get_mut(&path)) {
            path.riders -= 1;
        }
        let (both_ways, contract) = (placed.description.is_both_ways(), placed.description.contract);
        for hop in &placed.way.hops {
            let Some(link) = self.inventory.links.get_mut(&hop.link) else { continue };
            link.labels.give_back(hop.label);
            link.circuits.remove(&number);
            if let Label::Vp(vpi) = hop.label {
                link.paths.remove(&vpi.get());
            }
            if carrier.is_none() {
                link.admission[hop.from as usize].release(&contract);
                if both_ways {
                    link.admission[other(hop.from) as usize].release(&contract);
                }
            }
        }
        let routes = self.routes_by_switch(&placed.way, both_ways);
        self.count_routes(&routes, -1);
        for end in &placed.description.ends {
            self.inventory.set_circuit_at(end, None);
        }
        Ok(placed)
    }

    /// Gives a circuit another contract on the way that it has; gives what it had.
    ///
    /// # Errors
    /// A link has too little left; nothing has changed.
    pub fn change_contract(&mut self, ends: &[CircuitEnd], contract: Contract) -> Result<Placed, TopologyError> {
        let number = self.find(ends)?;
        let Some(slot) = self.slot(number) else { return Err(TopologyError::NoCircuit(String::new())) };
        let (had, inside) = (slot.placed.clone(), slot.carrier.is_some());
        let both_ways = had.description.is_both_ways();
        let mut changed = Vec::new();
        for hop in had.way.hops.iter().filter(|_| !inside) {
            let link = self.link_state(hop.link)?;
            let mut admission = link.admission;
            for side in directions(hop.from, both_ways) {
                admission[side as usize].release(&had.description.contract);
                admission[side as usize]
                    .admit(&contract)
                    .map_err(|cause| TopologyError::Admission { link: link.name(), cause })?;
            }
            changed.push((hop.link, admission));
        }
        for (link, admission) in changed {
            if let Some(link) = self.inventory.links.get_mut(&link) {
                link.admission = admission;
            }
        }
        if let Some(slot) = self.slots.get_mut(&number) {
            slot.placed.description.contract = contract;
        }
        Ok(had)
    }

    fn link_state(&self, key: LinkKey) -> Result<&LinkState, TopologyError> {
        self.inventory.links.get(&key).ok_or_else(|| TopologyError::NoLink(format!("{}", key.0)))
    }

    /// A link's promises with those of one circuit more.
    fn admitted(
        &self,
        hop: &Hop,
        contract: &Contract,
        both_ways: bool,
    ) -> Result<(LinkKey, [traffic::Admission; 2]), TopologyError> {
        let link = self.link_state(hop.link)?;
        let mut admission = link.admission;
        for side in directions(hop.from, both_ways) {
            let refused = |cause| TopologyError::Admission { link: link.name(), cause };
            admission[side as usize].admit(contract).map_err(refused)?;
        }
        Ok((hop.link, admission))
    }

    /// What each switch on the way has to do: from each hop into it to each hop out of it, and back if both ways.
    pub(super) fn routes<'a>(&'a self, way: &'a Way, both_ways: bool) -> Vec<SwitchRoute<'a>> {
        let mut routes = Vec::new();
        if way.inside {
            return routes;
        }
        for into in &way.hops {
            let Some((station, port)) = self.end(into, other(into.from)) else { continue };
            for out in &way.hops {
                let Some((_, out_port)) = self.end(out, out.from).filter(|(name, _)| *name == station) else {
                    continue;
                };
                let (from, to) = ((port, into.label), (out_port, out.label));
                routes.push((station, from, to));
                if both_ways {
                    routes.push((station, to, from));
                }
            }
        }
        routes
    }

    /// How many routes each switch on the way has for it.
    fn routes_by_switch(&self, way: &Way, both_ways: bool) -> Vec<(String, usize)> {
        let all = self.routes(way, both_ways);
        let mut inputs: Vec<_> = all.into_iter().map(|(switch, from, _)| (switch, from)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        inputs.chunk_by(|a, b| a.0 == b.0).map(|same| (same[0].0.to_owned(), same.len())).collect()
    }

    fn check_routes(&self, routes: &[(String, usize)]) -> Result<(), TopologyError> {
        for (switch, more) in routes {
            let Some(state) = self.inventory.stations.get(switch) else { continue };
            let Bounds::Switch(config) = state.bounds else { continue };
            if state.routes + more > config.max_routes {
                let needed = state.routes + more - config.max_routes;
                return Err(TopologyError::NoRoutes { switch: switch.clone(), bound: config.max_routes, needed });
            }
        }
        Ok(())
    }

    fn count_routes(&mut self, routes: &[(String, usize)], sign: isize) {
        for (switch, more) in routes {
            if let Some(state) = self.inventory.stations.get_mut(switch) {
                state.routes = state.routes.saturating_add_signed(sign * *more as isize);
            }
        }
    }

    /// The station and port at one end of a hop.
    pub fn end(&self, hop: &Hop, side: Side) -> Option<(&str, u16)> {
        let link = self.inventory.links.get(&hop.link)?;
        Some((link.station(side), link.ports[side as usize]))
    }

    /// The port of a station at which a circuit ends.
    pub fn port_of_end(&self, way: &Way, station: &str) -> Option<u16> {
        let ends = way.hops.iter().flat_map(|hop| [self.end(hop, Side::A), self.end(hop, Side::B)]);
        ends.flatten().find(|(name, _)| *name == station).map(|(_, port)| port)
    }

    /// The ends of a circuit at which a host has it, with the port there.
    pub fn hosted<'a>(&'a self, placed: &'a Placed) -> impl Iterator<Item = (&'a CircuitEnd, CircuitId, u16)> + 'a {
        let here = |end: &&CircuitEnd| !end.path && self.station(&end.station) == Some(Station::Host);
        placed
            .description
            .ends
            .iter()
            .filter(here)
            .map(|end| (end, end.circuit, self.port_of_end(&placed.way, &end.station).unwrap_or_default()))
    }
}

/// The sides that send: the one nearer to the root, and the other where data goes both ways.
fn directions(from: Side, both_ways: bool) -> impl Iterator<Item = Side> {
    std::iter::once(from).chain(both_ways.then(|| other(from)))
}
