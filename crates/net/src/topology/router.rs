//! The way of a circuit: shortest over switches whose links have its label and rate left, with a label on each link. It
//! also keeps what circuits have taken. Pure: [`super::Fabric`] installs what is decided here.

mod explicit;
mod hops;
mod search;

use super::inventory::{Inventory, LinkState, StationKind, other};
use super::{CircuitDescription, CircuitEnd, LinkDescription, LinkKey, Station, TopologyError};
use crate::line::Side;
use crate::network::LinkConfig;
use crate::switch::{Label, SwitchElementConfig};
use std::collections::BTreeMap;
use std::time::Duration;
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
pub struct Route {
    /// The links.
    pub hops: Vec<Hop>,
    /// Whether a path that is switched whole carries it: switches have no route of its own then.
    pub inside: bool,
}

/// A circuit with its way.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutedCircuit {
    /// As it was described.
    pub description: CircuitDescription,
    /// Where it goes.
    pub route: Route,
}

#[derive(Debug, Clone)]
struct Slot {
    placed: RoutedCircuit,
    /// The path that carries it, by number.
    carrier: Option<u32>,
    /// Circuits that it carries.
    riders: usize,
}

/// What a switch has to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct SwitchRoute<'a> {
    pub(super) switch: &'a str,
    /// Port and label in.
    pub(super) from: (u16, Label),
    /// Port and label out.
    pub(super) to: (u16, Label),
    /// Whether it leads away from the root.
    pub(super) away: bool,
    /// The hop by which cells come in, as the way counts them.
    pub(super) hop: usize,
}

/// A circuit in one direction at a switch that it passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchHop {
    /// The switch, or what stands in its place.
    pub switch: String,
    /// Port and label in.
    pub from: (u16, Label),
    /// Port and label out.
    pub to: (u16, Label),
    /// Whether it leads away from the first end.
    pub forward: bool,
}

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
    /// What each hop adds to the variation of delay by being looked after late.
    round: Duration,
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
    pub fn add_station(&mut self, name: &str, kind: StationKind) -> Result<(), TopologyError> {
        self.inventory.add_station(name, kind)
    }

    /// Removes a station that has no links any more; gives what it was.
    ///
    /// # Errors
    /// It is unknown or has links.
    pub fn remove_station(&mut self, name: &str) -> Result<StationKind, TopologyError> {
        self.inventory.remove_station(name)
    }

    /// Gives a switch other bounds; gives those that it had.
    ///
    /// # Errors
    /// It uses more than they allow.
    pub fn change_switch(
        &mut self,
        name: &str,
        config: SwitchElementConfig,
    ) -> Result<SwitchElementConfig, TopologyError> {
        self.inventory.change_switch(name, config)
    }

    /// All names and what they stand for.
    pub fn stations(&self) -> impl Iterator<Item = (&str, StationKind)> {
        self.inventory.stations.iter().map(|(name, state)| (name.as_str(), state.kind))
    }

    /// What a name stands for, with its bounds.
    pub fn kind(&self, name: &str) -> Option<StationKind> {
        self.inventory.stations.get(name).map(|state| state.kind)
    }

    /// The link after another one by its key, or the first.
    pub fn link_after(&self, key: Option<LinkKey>) -> Option<LinkKey> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = key.map_or(Unbounded, Excluded);
        self.inventory.links.range((from, Unbounded)).next().map(|(key, _)| *key)
    }

    /// What a name stands for.
    pub fn station(&self, name: &str) -> Option<Station> {
        self.inventory.stations.get(name).map(|state| state.kind.station())
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
        for (direction, side) in admission.iter_mut().zip([Side::A, Side::B]) {
            let from = link.station(side).to_owned();
            let refused = |cause| TopologyError::Admission { link: link.name(), from, cause };
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

    /// The station and port at the far end of the link at a station's port, and what the station is.
    pub fn neighbour(&self, station: &str, port: u16) -> Option<(&str, u16, Station)> {
        let (key, side) = self.link_at(station, port)?;
        let link = self.inventory.links.get(&key)?;
        let far = link.station(other(side));
        Some((far, link.ports[other(side) as usize], self.station(far)?))
    }

    /// How many links a station has.
    pub fn links_at(&self, station: &str) -> usize {
        self.inventory.stations.get(station).map_or(0, |state| state.ports.len())
    }

    /// A link by its name, or by its ends as they were written.
    pub fn find_link(&self, name: &str) -> Option<LinkKey> {
        self.inventory.find_link(name)
    }

    /// A link's name: `alpha:0 - s1:0`.
    pub fn link_name(&self, key: LinkKey) -> Option<String> {
        self.inventory.links.get(&key).map(LinkState::name)
    }

    /// Cells each second that circuits with a contract have of a link, from A and from B, and how many labels are in
    /// use.
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

    /// Circuits over a link by their numbers from `from` on, `most` at most, and the number to go on from; `None` at
    /// the end.
    pub fn circuits_over_from(&self, key: LinkKey, from: u32, most: usize) -> (Vec<&RoutedCircuit>, Option<u32>) {
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

    pub(super) fn placed_mut(&mut self) -> impl Iterator<Item = &mut RoutedCircuit> {
        self.slots.values_mut().map(|slot| &mut slot.placed)
    }

    fn slot(&self, number: u32) -> Option<&Slot> {
        self.slots.get(&number)
    }

    /// All circuits.
    pub fn circuits(&self) -> impl Iterator<Item = &RoutedCircuit> {
        self.slots.values().map(|slot| &slot.placed)
    }

    /// How many circuits there are.
    pub fn circuit_count(&self) -> usize {
        self.slots.len()
    }

    /// The circuit that has this end.
    pub fn find_circuit(&self, end: &CircuitEnd) -> Option<&RoutedCircuit> {
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
    pub fn add_circuit(&mut self, circuit: &CircuitDescription) -> Result<&RoutedCircuit, TopologyError> {
        let (way, carrier) = self.find_route(circuit)?;
        self.place(RoutedCircuit { description: circuit.clone(), route: way }, carrier)
    }

    /// Puts a circuit back on the way that it had.
    ///
    /// # Errors
    /// Something of it is taken; nothing has changed.
    pub fn restore_circuit(&mut self, placed: RoutedCircuit) -> Result<&RoutedCircuit, TopologyError> {
        let carrier = if placed.route.inside {
            self.find_carrier(&placed.description)?.map(|(_, carrier)| carrier)
        } else {
            None
        };
        for hop in &placed.route.hops {
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

    /// The path that a circuit is inside of.
    pub(super) fn carrier(&self, placed: &RoutedCircuit) -> Option<&RoutedCircuit> {
        let number = self.find(&placed.description.ends).ok()?;
        self.slot(self.slot(number)?.carrier?).map(|slot| &slot.placed)
    }

    fn place(&mut self, placed: RoutedCircuit, carrier: Option<u32>) -> Result<&RoutedCircuit, TopologyError> {
        for hop in &placed.route.hops {
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
        let routes = self.routes_by_switch(&placed.route, both_ways);
        self.check_routes(&routes)?;
        let changed = match carrier {
            None => self.admitted(&placed.route, &placed.description, None)?,
            Some(_) => Vec::new(),
        };
        for (link, admission) in changed {
            if let Some(link) = self.inventory.links.get_mut(&link) {
                link.admission = admission;
            }
        }
        let number = self.free.pop().unwrap_or(self.slots.len() as u32);
        for hop in &placed.route.hops {
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
    pub fn remove_circuit(&mut self, ends: &[CircuitEnd]) -> Result<RoutedCircuit, TopologyError> {
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
        let both_ways = placed.description.is_both_ways();
        for hop in &placed.route.hops {
            let Some(link) = self.inventory.links.get_mut(&hop.link) else { continue };
            link.labels.give_back(hop.label);
            link.circuits.remove(&number);
            if let Label::Vp(vpi) = hop.label {
                link.paths.remove(&vpi.get());
            }
            if carrier.is_none() {
                for side in directions(hop.from, both_ways) {
                    link.admission[side as usize].release(&placed.description.contract_of(side == hop.from));
                }
            }
        }
        let routes = self.routes_by_switch(&placed.route, both_ways);
        self.count_routes(&routes, -1);
        for end in &placed.description.ends {
            self.inventory.set_circuit_at(end, None);
        }
        Ok(placed)
    }

    /// Gives a circuit other contracts, away from its first end and back, on the way that it has; gives what it had.
    ///
    /// # Errors
    /// A link has too little left, or delays become too long; nothing has changed.
    pub fn change_contract(
        &mut self,
        ends: &[CircuitEnd],
        contract: Contract,
        back: Option<Contract>,
    ) -> Result<RoutedCircuit, TopologyError> {
        let number = self.find(ends)?;
        let Some(slot) = self.slot(number) else { return Err(TopologyError::NoCircuit(String::new())) };
        let had = slot.placed.clone();
        let wanted = CircuitDescription { contract, back, ..had.description.clone() };
        let changed = match slot.carrier {
            None => self.admitted(&had.route, &wanted, Some(&had.description))?,
            Some(_) => Vec::new(),
        };
        for (link, admission) in changed {
            if let Some(link) = self.inventory.links.get_mut(&link) {
                link.admission = admission;
            }
        }
        if let Some(slot) = self.slots.get_mut(&number) {
            slot.placed.description = wanted;
        }
        Ok(had)
    }

    fn link_state(&self, key: LinkKey) -> Result<&LinkState, TopologyError> {
        self.inventory.links.get(&key).ok_or_else(|| TopologyError::NoLink(format!("{}", key.0)))
    }

    /// The station and port at one end of a hop.
    pub fn end(&self, hop: &Hop, side: Side) -> Option<(&str, u16)> {
        let link = self.inventory.links.get(&hop.link)?;
        Some((link.station(side), link.ports[side as usize]))
    }

    /// The ends of a circuit at which a host has it, with the port there.
    pub fn hosted<'a>(
        &'a self,
        placed: &'a RoutedCircuit,
    ) -> impl Iterator<Item = (&'a CircuitEnd, CircuitId, u16)> + 'a {
        let here = |end: &&CircuitEnd| !end.path && self.station(&end.station) == Some(Station::Host);
        let mut ports = BTreeMap::new();
        for hop in &placed.route.hops {
            for (station, port) in [Side::A, Side::B].into_iter().filter_map(|side| self.end(hop, side)) {
                ports.entry(station).or_insert(port);
            }
        }
        let port = move |end: &CircuitEnd| ports.get(end.station.as_str()).copied().unwrap_or_default();
        placed.description.ends.iter().filter(here).map(move |end| (end, end.circuit, port(end)))
    }
}

/// The sides that send: the one nearer to the root, and the other where data goes both ways.
fn directions(from: Side, both_ways: bool) -> impl Iterator<Item = Side> {
    std::iter::once(from).chain(both_ways.then(|| other(from)))
}
