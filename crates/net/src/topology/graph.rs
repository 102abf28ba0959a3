//! The way of a circuit: shortest over switches, with a label on each link. Pure: what is computed here is installed by
//! [`super::Fabric`].

use super::{Attachment, CircuitDescription, CircuitEnd, LinkDescription, Station, TopologyError};
use crate::network::Side;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use traffic::{Admission, Contract};
use wire::{CircuitId, Vci, Vpi};

/// A link with its ports settled, and what circuits take of it.
#[derive(Debug)]
pub(super) struct GraphLink {
    pub(super) description: LinkDescription,
    pub(super) ports: [u16; 2],
    pub(super) labels: BTreeSet<CircuitId>,
    /// From A, from B.
    pub(super) admission: [Admission; 2],
}

impl GraphLink {
    pub(super) fn new(description: LinkDescription, ports: [u16; 2]) -> Self {
        let admission = [Admission::new(description.config.rate); 2];
        GraphLink { description, ports, labels: BTreeSet::new(), admission }
    }

    pub(super) fn name(&self) -> String {
        let [a, b] = [0, 1].map(|i| {
            Attachment { station: self.description.ends[i].station.clone(), port: Some(self.ports[i]) }.to_string()
        });
        format!("{a} - {b}")
    }

    fn station(&self, side: Side) -> &str {
        &self.description.ends[side as usize].station
    }
}

/// One link of a circuit's way, in the direction away from the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hop {
    /// The link, by its key.
    pub(super) link: u32,
    /// The end nearer to the root.
    pub(super) from: Side,
    /// The circuit's label on it, both ways.
    pub(super) label: CircuitId,
}

/// A circuit's way: a tree of hops, each after the one that leads to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) hops: Vec<Hop>,
}

/// Stations and links.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) stations: BTreeMap<String, Station>,
    pub(super) links: BTreeMap<u32, GraphLink>,
}

impl Graph {
    /// The port that an attachment means, and the lowest free one if it names none.
    pub(super) fn settle_port(&self, attachment: &Attachment, besides: Option<u16>) -> u16 {
        let used: BTreeSet<u16> = self.ports_of(&attachment.station).chain(besides).collect();
        attachment.port.unwrap_or_else(|| (0..=u16::MAX).find(|p| !used.contains(p)).unwrap_or(u16::MAX))
    }

    fn ports_of<'a>(&'a self, station: &'a str) -> impl Iterator<Item = u16> + 'a {
        self.ends_at(station).map(|(key, side)| self.links[&key].ports[side as usize])
    }

    /// Links at a station, with the side that it is at.
    pub(super) fn ends_at<'a>(&'a self, station: &'a str) -> impl Iterator<Item = (u32, Side)> + 'a {
        self.links.iter().flat_map(move |(key, link)| {
            [Side::A, Side::B].into_iter().filter(move |s| link.station(*s) == station).map(move |s| (*key, s))
        })
    }

    /// Checks a circuit's ends and finds its way, without taking anything.
    pub(super) fn find_way(&self, circuit: &CircuitDescription) -> Result<Way, TopologyError> {
        let [root, leaves @ ..] = circuit.ends.as_slice() else { return Err(TopologyError::TooFewEnds) };
        let names: BTreeSet<_> = circuit.ends.iter().map(|e| &e.station).collect();
        if leaves.is_empty() || names.len() < circuit.ends.len() {
            return Err(TopologyError::TooFewEnds);
        }
        for end in &circuit.ends {
            match self.stations.get(&end.station) {
                None => return Err(TopologyError::NoStation(end.station.clone())),
                Some(Station::Switch) => return Err(TopologyError::EndsAtSwitch(end.station.clone())),
                Some(_) => {}
            }
        }
        let parents = self.parents(&root.station);
        let mut hops: Vec<(u32, Side)> = Vec::new();
        for leaf in leaves {
            let mut path = self
                .path(&parents, &leaf.station)
                .ok_or_else(|| TopologyError::NoWay { from: root.station.clone(), to: leaf.station.clone() })?;
            path.retain(|hop| !hops.contains(hop));
            hops.extend(path);
        }
        self.choose_labels(root, leaves, &hops)
    }

    /// Breadth first from `root`, through switches only: the hop by which each station is reached.
    fn parents(&self, root: &str) -> BTreeMap<&str, (u32, Side)> {
        let mut parents = BTreeMap::new();
        let mut queue: VecDeque<&str> =
            self.stations.get_key_value(root).map(|(k, _)| k.as_str()).into_iter().collect();
        while let Some(station) = queue.pop_front() {
            if station != root && self.stations.get(station) != Some(&Station::Switch) {
                continue;
            }
            for (key, side) in self.ends_at(station) {
                let next = self.links[&key].station(other(side));
                if next != root && !parents.contains_key(next) {
                    parents.insert(next, (key, side));
                    queue.push_back(next);
                }
            }
        }
        parents
    }

    fn path(&self, parents: &BTreeMap<&str, (u32, Side)>, leaf: &str) -> Option<Vec<(u32, Side)>> {
        let mut path = Vec::new();
        let mut at = leaf;
        while let Some((key, side)) = parents.get(at) {
            path.push((*key, *side));
            at = self.links[key].station(*side);
        }
        path.reverse();
        (!path.is_empty()).then_some(path)
    }

    /// The ends' own labels on their links; between switches the root's label if it is free, else the first free one.
    fn choose_labels(
        &self,
        root: &CircuitEnd,
        leaves: &[CircuitEnd],
        hops: &[(u32, Side)],
    ) -> Result<Way, TopologyError> {
        let mut way = Vec::with_capacity(hops.len());
        for (key, from) in hops {
            let link = &self.links[key];
            let at_root = (link.station(*from) == root.station).then_some(root.circuit);
            let leaf = leaves.iter().find(|l| l.station == link.station(other(*from)));
            let label = match (at_root, leaf) {
                (Some(circuit), Some(leaf)) if circuit != leaf.circuit => {
                    return Err(TopologyError::NoTranslation {
                        from: root.station.clone(),
                        from_circuit: circuit,
                        to: leaf.station.clone(),
                        to_circuit: leaf.circuit,
                    });
                }
                (Some(circuit), _) => circuit,
                (None, Some(leaf)) => leaf.circuit,
                (None, None) => {
                    first_free(root.circuit, &link.labels).ok_or_else(|| TopologyError::NoFreeLabel(link.name()))?
                }
            };
            if link.labels.contains(&label) {
                return Err(TopologyError::LabelInUse { circuit: label, link: link.name() });
            }
            way.push(Hop { link: *key, from: *from, label });
        }
        Ok(Way { hops: way })
    }

    /// Takes labels and rate on all hops, or nothing.
    pub(super) fn take(&mut self, way: &Way, contract: &Contract, both_ways: bool) -> Result<(), TopologyError> {
        for (i, hop) in way.hops.iter().enumerate() {
            if let Err(error) = self.take_hop(hop, contract, both_ways) {
                way.hops[..i].iter().for_each(|h| self.give_back_hop(h, contract, both_ways));
                return Err(error);
            }
        }
        Ok(())
    }

    fn take_hop(&mut self, hop: &Hop, contract: &Contract, both_ways: bool) -> Result<(), TopologyError> {
        let Some(link) = self.links.get_mut(&hop.link) else { return Ok(()) };
        let refused = |link: &GraphLink, cause| TopologyError::Admission { link: link.name(), cause };
        let (to, back) = (hop.from as usize, other(hop.from) as usize);
        link.admission[to].admit(contract).map_err(|e| refused(link, e))?;
        if both_ways && let Err(cause) = link.admission[back].admit(contract) {
            link.admission[to].release(contract);
            return Err(refused(link, cause));
        }
        link.labels.insert(hop.label);
        Ok(())
    }

    fn give_back_hop(&mut self, hop: &Hop, contract: &Contract, both_ways: bool) {
        let Some(link) = self.links.get_mut(&hop.link) else { return };
        link.labels.remove(&hop.label);
        link.admission[hop.from as usize].release(contract);
        if both_ways {
            link.admission[other(hop.from) as usize].release(contract);
        }
    }

    /// Gives back what [`Graph::take`] took.
    pub(super) fn give_back(&mut self, way: &Way, contract: &Contract, both_ways: bool) {
        way.hops.iter().for_each(|hop| self.give_back_hop(hop, contract, both_ways));
    }

    /// The station and port at one end of a hop.
    pub(super) fn end(&self, hop: &Hop, side: Side) -> Option<(&str, u16)> {
        let link = self.links.get(&hop.link)?;
        Some((link.station(side), link.ports[side as usize]))
    }
}

pub(super) const fn other(side: Side) -> Side {
    match side {
        Side::A => Side::B,
        Side::B => Side::A,
    }
}

fn first_free(wanted: CircuitId, used: &BTreeSet<CircuitId>) -> Option<CircuitId> {
    if !used.contains(&wanted) {
        return Some(wanted);
    }
    let candidates = (0..=Vpi::MAX_UNI.get())
        .flat_map(|vpi| (Vci::FIRST_USER.get()..=u16::MAX).filter_map(move |vci| CircuitId::new(vpi, vci)));
    candidates.into_iter().find(|c| !used.contains(c))
}
