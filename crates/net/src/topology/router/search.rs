//! How a circuit's way is found: inside a path that carries it, or breadth first over switches; and its label on each
//! link.

use super::{Access, Hop, Route, Router, directions};
use crate::line::Side;
use crate::switch::Label;
use crate::topology::inventory::{StationKind, other};
use crate::topology::{CircuitDescription, CircuitEnd, LinkKey, Station, TopologyError};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

impl Router {
    pub(super) fn access(&self, end: &CircuitEnd) -> Result<Access, TopologyError> {
        let state = self.inventory.station(&end.station)?;
        let link_at = |port: u16| {
            let no_link = || TopologyError::NoLinkAt { station: end.station.clone(), port };
            state.ports.get(&port).copied().ok_or_else(no_link)
        };
        match (state.kind, end.port) {
            (StationKind::Switch(_), None) => Err(TopologyError::EndsAtSwitch(end.station.clone())),
            (StationKind::Switch(_), Some(port)) => {
                let (link, side) = link_at(port)?;
                let station = self.link_state(link)?.station(other(side)).to_owned();
                Ok(Access { station, link: Some(link), label: end.label() })
            }
            (_, port) => {
                let link = port.map(link_at).transpose()?.map(|(link, _)| link);
                Ok(Access { station: end.station.clone(), link, label: end.label() })
            }
        }
    }

    /// Checks a circuit's ends and finds its way, without taking anything; and the path that carries it, if one does.
    pub(super) fn find_route(&mut self, circuit: &CircuitDescription) -> Result<(Route, Option<u32>), TopologyError> {
        let ends: Vec<Access> = circuit.ends.iter().map(|end| self.access(end)).collect::<Result<_, _>>()?;
        let [root, leaves @ ..] = ends.as_slice() else { return Err(TopologyError::TooFewEnds) };
        let distinct: BTreeSet<_> = ends.iter().map(|end| (&end.station, end.link)).collect();
        let named: BTreeSet<_> = circuit.ends.iter().map(|end| (&end.station, end.port)).collect();
        if leaves.is_empty() || distinct.len().min(named.len()) < ends.len() {
            return Err(TopologyError::TooFewEnds);
        }
        if circuit.ends.iter().any(|end| end.path != circuit.ends[0].path) {
            return Err(TopologyError::MixedEnds);
        }
        for end in &circuit.ends {
            if self.inventory.circuit_at(end).is_some() {
                return Err(TopologyError::CircuitExists(end.to_string()));
            }
            self.check_labels_of_calls(end)?;
        }
        if !circuit.via.is_empty() {
            let fixed = self.fixed_labels(circuit)?;
            let hops = self.explicit_hops(root, leaves, &fixed)?;
            let labels = fixed.iter().map(|fixed| (fixed.link, fixed.label)).collect();
            return Ok((self.choose_labels(root, leaves, &hops, &labels)?, None));
        }
        if let Some((way, carrier)) = self.find_carrier(circuit)? {
            return Ok((way, Some(carrier)));
        }
        // Where no way has all that is needed, one without regard to that says what is missing.
        let hops = match self.search(root, leaves, circuit, true) {
            Ok(hops) => hops,
            Err(_) => self.search(root, leaves, circuit, false)?,
        };
        Ok((self.choose_labels(root, leaves, &hops, &BTreeMap::new())?, None))
    }

    /// A host knows a circuit by its label alone, whatever port it is on: none may have a label that the host's calls
    /// may be given.
    fn check_labels_of_calls(&self, end: &CircuitEnd) -> Result<(), TopologyError> {
        let Some(state) = self.inventory.stations.get(&end.station).filter(|state| state.kind == StationKind::Host)
        else {
            return Ok(());
        };
        for (key, _) in state.ports.values() {
            let link = self.link_state(*key)?;
            let of_calls = link.description.config.calls.is_some_and(|calls| {
                calls.vpi == end.circuit.vpi && (calls.vcis[0]..=calls.vcis[1]).contains(&end.circuit.vci.get())
            });
            if of_calls {
                return Err(TopologyError::LabelOfCalls { end: end.to_string(), link: link.name() });
            }
        }
        Ok(())
    }

    /// The way of a channel inside a path that is switched whole from one of its ends' links to the other's.
    pub(super) fn find_carrier(&self, circuit: &CircuitDescription) -> Result<Option<(Route, u32)>, TopologyError> {
        let [a, b] = circuit.ends.as_slice() else { return Ok(None) };
        let (from, to) = (self.access(a)?, self.access(b)?);
        let (Label::Vc(near), Label::Vc(far)) = (from.label, to.label) else { return Ok(None) };
        if near.vci != far.vci {
            return Ok(None);
        }
        let links = self.links_of(&from);
        for (link, side) in links {
            let state = self.link_state(link)?;
            let Some(path) = state.paths.get(&near.vpi.get()) else { continue };
            let Some(slot) = self.slot(*path) else { continue };
            let (Some(first), Some(last)) = (slot.placed.route.hops.first(), slot.placed.route.hops.last()) else {
                continue;
            };
            if slot.placed.description.is_multipoint() {
                continue;
            }
            // From the path's root to its leaf, or back.
            let backwards = (last.link, other(last.from)) == (link, side);
            if !backwards && (first.link, first.from) != (link, side) {
                continue;
            }
            let (out, out_side) = if backwards { (first, first.from) } else { (last, other(last.from)) };
            let reaches = self.end(out, out_side).is_some_and(|(station, _)| station == to.station);
            let carries = slot.placed.description.is_both_ways() || (circuit.one_way && !backwards);
            let fixed = to.link.is_none_or(|link| link == out.link);
            if !reaches || !carries || !fixed || out.label != Label::Vp(far.vpi) {
                continue;
            }
            let mut hops = vec![Hop { link, from: side, label: from.label }];
            if out.link != link {
                hops.push(Hop { link: out.link, from: other(out_side), label: to.label });
            }
            for hop in &hops {
                let (state, Label::Vc(id)) = (self.link_state(hop.link)?, hop.label) else { continue };
                if !state.labels.is_free_inside(id) {
                    return Err(TopologyError::LabelInUse { label: hop.label, link: state.name() });
                }
            }
            return Ok(Some((Route { hops, inside: true }, *path)));
        }
        Ok(None)
    }

    pub(super) fn links_of(&self, access: &Access) -> Vec<(LinkKey, Side)> {
        let ports = self.inventory.stations.get(&access.station).into_iter().flat_map(|state| state.ports.values());
        ports.filter(|(key, _)| access.link.is_none_or(|link| link == *key)).copied().collect()
    }

    /// Breadth first from the root over switches. `strict`: only over links that have the label and the rate left.
    fn search(
        &self,
        root: &Access,
        leaves: &[Access],
        circuit: &CircuitDescription,
        strict: bool,
    ) -> Result<Vec<(LinkKey, Side)>, TopologyError> {
        let usable = |link: LinkKey, from: Side, label: Option<Label>| {
            let Ok(state) = self.link_state(link) else { return false };
            let fits = |side: Side| {
                let mut direction = state.admission[side as usize];
                direction.admit(&circuit.contract_of(side == from)).is_ok()
            };
            !strict
                || label.is_none_or(|label| state.labels.is_free(label))
                    && directions(from, circuit.is_both_ways()).all(fits)
        };
        let far = |link: LinkKey, from: Side| self.link_state(link).map(|state| state.station(other(from)));
        let mut found: Vec<Option<(LinkKey, Side)>> = vec![None; leaves.len()];
        let stations: BTreeSet<&str> = leaves.iter().map(|leaf| leaf.station.as_str()).collect();
        let is_passable = |station: &str| {
            // Circuits pass through switches, but not through one beyond their own ends.
            self.station(station) == Some(Station::Switch) && station != root.station && !stations.contains(station)
        };
        let mut reached: HashMap<&str, (LinkKey, Side)> = HashMap::new();
        let mut queue: VecDeque<&str> = VecDeque::new();
        // By which links the leaves can be entered, and from where.
        let mut entries: HashMap<&str, Vec<(usize, LinkKey, Side)>> = HashMap::new();
        for (i, leaf) in leaves.iter().enumerate() {
            for (link, side) in self.links_of(leaf) {
                entries.entry(far(link, side)?).or_default().push((i, link, other(side)));
            }
        }
        for (i, link, from) in entries.remove(root.station.as_str()).unwrap_or_default() {
            let translated = strict && root.label != leaves[i].label;
            if found[i].is_none()
                && root.link.is_none_or(|l| l == link)
                && !translated
                && usable(link, from, Some(root.label))
            {
                found[i] = Some((link, from));
            }
        }
        for (link, side) in self.links_of(root) {
            let next = far(link, side)?;
            if is_passable(next) && !reached.contains_key(next) && usable(link, side, Some(root.label)) {
                reached.insert(next, (link, side));
                queue.push_back(next);
            }
        }
        let mut missing = found.iter().filter(|way| way.is_none()).count();
        while let Some(station) = queue.pop_front() {
            for (i, link, from) in entries.remove(station).unwrap_or_default() {
                if found[i].is_none() && usable(link, from, Some(leaves[i].label)) {
                    found[i] = Some((link, from));
                    missing -= 1;
                }
            }
            if missing == 0 {
                break;
            }
            let trunks = self.inventory.stations.get(station).into_iter().flat_map(|state| state.trunks.values());
            for (link, side) in trunks {
                let next = far(*link, *side)?;
                if !reached.contains_key(next) && is_passable(next) && usable(*link, *side, None) {
                    reached.insert(next, (*link, *side));
                    queue.push_back(next);
                }
            }
        }
        let mut hops: Vec<(LinkKey, Side)> = Vec::new();
        let mut taken = BTreeSet::new();
        for (leaf, last) in leaves.iter().zip(found) {
            let no_way = || TopologyError::NoWay { from: root.station.clone(), to: leaf.station.clone() };
            let (mut path, mut next) = (Vec::new(), Some(last.ok_or_else(no_way)?));
            // Back to what leads to others already: it is a tree.
            while let Some(hop) = next.filter(|hop| taken.insert(*hop)) {
                path.push(hop);
                next = reached.get(self.link_state(hop.0)?.station(hop.1)).copied();
            }
            hops.extend(path.into_iter().rev());
        }
        Ok(hops)
    }

    /// The ends' own labels on their links; between switches the `fixed` one, the root's label if it is free, or else
    /// the first free one.
    fn choose_labels(
        &mut self,
        root: &Access,
        leaves: &[Access],
        hops: &[(LinkKey, Side)],
        fixed: &BTreeMap<LinkKey, Label>,
    ) -> Result<Route, TopologyError> {
        let mut way = Vec::with_capacity(hops.len());
        let mut at: BTreeMap<&str, Vec<&Access>> = BTreeMap::new();
        leaves.iter().for_each(|leaf| at.entry(&leaf.station).or_default().push(leaf));
        for (key, from) in hops {
            let Some(link) = self.inventory.links.get_mut(key) else { continue };
            let at_root = (link.station(*from) == root.station).then_some(root.label);
            let here = at.get(link.station(other(*from))).into_iter().flatten();
            let leaf = here.copied().find(|leaf| leaf.link.is_none_or(|fixed| fixed == *key));
            let label = match (at_root, leaf) {
                (Some(label), Some(leaf)) if label != leaf.label => {
                    return Err(TopologyError::NoTranslation {
                        from: root.station.clone(),
                        from_label: label,
                        to: leaf.station.clone(),
                        to_label: leaf.label,
                    });
                }
                (Some(label), _) => label,
                (None, Some(leaf)) => leaf.label,
                (None, None) => {
                    let free = fixed.get(key).copied().or_else(|| link.labels.first_free(root.label));
                    free.ok_or_else(|| TopologyError::NoFreeLabel(link.name()))?
                }
            };
            if let Some(other) = fixed.get(key).filter(|other| **other != label) {
                return Err(TopologyError::TwoLabels { at: link.name(), label: *other });
            }
            if !link.labels.is_free(label) {
                return Err(TopologyError::LabelInUse { label, link: link.name() });
            }
            way.push(Hop { link: *key, from: *from, label });
        }
        Ok(Route { hops: way, inside: false })
    }
}
