//! The hops of a circuit whose description names links on its way, each with its label. Between two of them the
//! shortest way over switches is taken.

use super::{Access, Router};
use crate::line::Side;
use crate::switch::Label;
use crate::topology::inventory::other;
use crate::topology::{CircuitDescription, LinkKey, Station, TopologyError};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// A link that a description names, with the circuit's label on it.
#[derive(Debug)]
pub(super) struct FixedLabel {
    pub(super) link: LinkKey,
    pub(super) label: Label,
    /// As it is written.
    written: String,
}

/// What a leg of the way ends with.
#[derive(Debug, Clone, Copy)]
enum Goal<'a> {
    /// The crossing of a link, in either direction.
    Link(LinkKey),
    /// The crossing of one of these links, each from this side.
    Leaf(&'a [(LinkKey, Side)]),
}

impl Goal<'_> {
    fn is(&self, link: LinkKey, from: Side) -> bool {
        match self {
            Goal::Link(wanted) => *wanted == link,
            Goal::Leaf(entries) => entries.contains(&(link, from)),
        }
    }
}

impl Router {
    /// The links that a circuit's `via` names, in order. Both ends of a link may name it.
    pub(super) fn fixed_labels(&self, circuit: &CircuitDescription) -> Result<Vec<FixedLabel>, TopologyError> {
        if circuit.is_multipoint() {
            return Err(TopologyError::ViaManyEnds);
        }
        let mut fixed: Vec<FixedLabel> = Vec::with_capacity(circuit.via.len());
        for via in &circuit.via {
            let port = via.port.ok_or_else(|| TopologyError::EndsAtSwitch(via.station.clone()))?;
            self.inventory.station(&via.station)?;
            let none = || TopologyError::NoLinkAt { station: via.station.clone(), port };
            let (link, _) = self.link_at(&via.station, port).ok_or_else(none)?;
            if via.path != circuit.ends.first().is_some_and(|end| end.path) {
                return Err(TopologyError::MixedEnds);
            }
            match fixed.iter().find(|other| other.link == link) {
                Some(other) if other.label == via.label() => {}
                Some(other) => return Err(TopologyError::TwoLabels { at: via.to_string(), label: other.label }),
                None => fixed.push(FixedLabel { link, label: via.label(), written: via.to_string() }),
            }
        }
        Ok(fixed)
    }

    /// The hops from the root over each of these links in turn to the leaf.
    pub(super) fn explicit_hops(
        &self,
        root: &Access,
        leaves: &[Access],
        fixed: &[FixedLabel],
    ) -> Result<Vec<(LinkKey, Side)>, TopologyError> {
        let [leaf] = leaves else { return Err(TopologyError::ViaManyEnds) };
        let entries: Vec<(LinkKey, Side)> =
            self.links_of(leaf).into_iter().map(|(link, side)| (link, other(side))).collect();
        let mut hops: Vec<(LinkKey, Side)> = Vec::new();
        let mut at = root.station.clone();
        let mut visited = BTreeSet::from([at.clone()]);
        let goals = fixed.iter().map(|fixed| (Goal::Link(fixed.link), fixed.written.as_str()));
        for (goal, name) in goals.chain([(Goal::Leaf(&entries), leaf.station.as_str())]) {
            // A link that is named may be the leaf's own: then the last leg is done.
            if hops.last().is_some_and(|(link, from)| matches!(goal, Goal::Leaf(_)) && goal.is(*link, *from)) {
                continue;
            }
            let no_way = || TopologyError::NoWay { from: at.clone(), to: name.to_owned() };
            let leg = self.leg(root, leaf, &at, goal, &visited).ok_or_else(no_way)?;
            for (link, from) in leg {
                at = self.link_state(link)?.station(other(from)).to_owned();
                visited.insert(at.clone());
                hops.push((link, from));
            }
        }
        Ok(hops)
    }

    /// Breadth first from a station to its goal, over switches that the way has not passed yet.
    fn leg(
        &self,
        root: &Access,
        leaf: &Access,
        start: &str,
        goal: Goal<'_>,
        visited: &BTreeSet<String>,
    ) -> Option<Vec<(LinkKey, Side)>> {
        let mut reached: HashMap<&str, (LinkKey, Side)> = HashMap::new();
        let (start, _) = self.inventory.stations.get_key_value(start)?;
        let mut queue: VecDeque<&str> = VecDeque::from([start.as_str()]);
        while let Some(station) = queue.pop_front() {
            for (link, from) in self.leaving(root, station) {
                let state = self.inventory.links.get(&link)?;
                let next = state.station(other(from));
                if goal.is(link, from) && (!visited.contains(next) || next == leaf.station) {
                    let mut leg = vec![(link, from)];
                    let before = |hop: &(LinkKey, Side)| {
                        let near = self.inventory.links.get(&hop.0)?.station(hop.1);
                        reached.get(near).copied()
                    };
                    leg.extend(std::iter::successors(before(&leg[0]), before));
                    leg.reverse();
                    return Some(leg);
                }
                let passable = self.station(next) == Some(Station::Switch) && next != leaf.station;
                if passable && !visited.contains(next) && !reached.contains_key(next) {
                    reached.insert(next, (link, from));
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// The links by which a circuit may leave a station on its way: of its root, those that its first end allows.
    fn leaving(&self, root: &Access, station: &str) -> Vec<(LinkKey, Side)> {
        if station == root.station {
            return self.links_of(root);
        }
        self.inventory.stations.get(station).into_iter().flat_map(|state| state.ports.values()).copied().collect()
    }
}
