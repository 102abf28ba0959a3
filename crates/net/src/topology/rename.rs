//! Another name for a station that stays: its node, ports, links and circuits are what they were. Its former name finds
//! it too, until another station has that.

use super::inventory::Inventory;
use super::{CircuitDescription, CircuitTable, Fabric, LinkDescription, Router, TopologyError};
use crate::network::Network;

/// A link's description with another name of a station.
pub fn renamed_link(link: &LinkDescription, from: &str, to: &str) -> LinkDescription {
    let mut link = link.clone();
    for end in link.ends.iter_mut().filter(|end| end.station == from) {
        to.clone_into(&mut end.station);
    }
    link
}

/// A circuit's description with another name of a station.
pub fn renamed_circuit(circuit: &CircuitDescription, from: &str, to: &str) -> CircuitDescription {
    let mut circuit = circuit.clone();
    for end in circuit.ends.iter_mut().chain(&mut circuit.via).filter(|end| end.station == from) {
        to.clone_into(&mut end.station);
    }
    circuit
}

impl Inventory {
    /// The name that a station has now, by that or by a former one.
    pub(super) fn current<'a>(&'a self, name: &'a str) -> &'a str {
        if self.stations.contains_key(name) {
            return name;
        }
        self.former.get(name).map_or(name, String::as_str)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), TopologyError> {
        if self.stations.contains_key(to) {
            return Err(TopologyError::StationExists(to.to_owned()));
        }
        let state = self.stations.remove(from).ok_or_else(|| TopologyError::NoStation(from.to_owned()))?;
        for (key, _) in state.ports.values() {
            if let Some(link) = self.links.get_mut(key) {
                link.description = renamed_link(&link.description, from, to);
            }
        }
        self.stations.insert(to.to_owned(), state);
        self.former.values_mut().filter(|name| *name == from).for_each(|name| to.clone_into(name));
        self.former.insert(from.to_owned(), to.to_owned());
        self.former.retain(|former, name| former != name);
        Ok(())
    }
}

impl Router {
    /// Gives a station another name.
    ///
    /// # Errors
    /// It is unknown, or another one has the name.
    pub fn rename_station(&mut self, from: &str, to: &str) -> Result<(), TopologyError> {
        self.inventory.rename(from, to)?;
        for placed in self.placed_mut() {
            placed.description = renamed_circuit(&placed.description, from, to);
        }
        Ok(())
    }

    /// The name that a station has now, by that or by a former one.
    pub fn current_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.inventory.current(name)
    }
}

impl<H: CircuitTable + 'static> Fabric<H> {
    /// Gives a station another name while cells pass.
    ///
    /// # Errors
    /// It is unknown, or another one has the name.
    pub fn rename_station(&mut self, network: &mut Network, from: &str, to: &str) -> Result<(), TopologyError> {
        self.router.rename_station(from, to)?;
        if let Some(id) = self.nodes.remove(from) {
            self.nodes.insert(to.to_owned(), id);
            network.rename_node(id, to);
        }
        Ok(())
    }
}
