//! What exists by name: stations with their ports, links with the ports that they were given. Every look-up is by an
//! index.

use super::labels::Labels;
use super::{Attachment, CircuitEnd, LinkDescription, Station, TopologyError};
use crate::line::Side;
use crate::switch::{Label, SwitchElementConfig};
use std::collections::{BTreeMap, BTreeSet};
use traffic::Admission;

/// A link's number; not used again while an inventory lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkKey(pub(super) u32);

/// What a station is, and a switch's bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StationKind {
    /// A host has as many ports as it has links.
    Host,
    /// A switch's ports and routes.
    Switch(SwitchElementConfig),
    /// Something outside.
    Outside,
}

impl StationKind {
    pub(super) fn station(&self) -> Station {
        match self {
            StationKind::Host => Station::Host,
            StationKind::Switch(_) => Station::Switch,
            StationKind::Outside => Station::Outside,
        }
    }
}

/// A station.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StationState {
    pub(super) kind: StationKind,
    /// The link at each port that has one, and which of its sides is here.
    pub(super) ports: BTreeMap<u16, (LinkKey, Side)>,
    /// Of a switch: those that lead to another switch.
    pub(super) trunks: BTreeMap<u16, (LinkKey, Side)>,
    /// Routes of the circuits through a switch.
    pub(super) routes: usize,
    /// Circuits that end here, by number: a host has a label once, a switch once a port.
    ends: BTreeMap<(Option<u16>, Label), u32>,
}

/// A link, and what circuits take of it.
#[derive(Debug, Clone)]
pub(super) struct LinkState {
    pub(super) description: LinkDescription,
    pub(super) ports: [u16; 2],
    pub(super) labels: Labels,
    /// From A, from B.
    pub(super) admission: [Admission; 2],
    /// Calls with a promised rate, from A, from B.
    pub(super) calls: [u32; 2],
    /// Circuits over it, by number.
    pub(super) circuits: BTreeSet<u32>,
    /// Paths that are taken whole here, by their VPI.
    pub(super) paths: BTreeMap<u16, u32>,
}

impl LinkState {
    /// `alpha:0 - s1:0`
    pub(super) fn name(&self) -> String {
        let [a, b] = [0, 1].map(|i| {
            Attachment { station: self.description.ends[i].station.clone(), port: Some(self.ports[i]) }.to_string()
        });
        format!("{a} - {b}")
    }

    pub(super) fn station(&self, side: Side) -> &str {
        &self.description.ends[side as usize].station
    }
}

/// Stations and links.
#[derive(Debug, Clone, Default)]
pub(super) struct Inventory {
    pub(super) stations: BTreeMap<String, StationState>,
    pub(super) links: BTreeMap<LinkKey, LinkState>,
    /// Names that stations had, with those that they have.
    pub(super) former: BTreeMap<String, String>,
    next_link: u32,
}

impl Inventory {
    pub(super) fn add_station(&mut self, name: &str, kind: StationKind) -> Result<(), TopologyError> {
        if self.stations.contains_key(name) {
            return Err(TopologyError::StationExists(name.to_owned()));
        }
        self.stations.insert(
            name.to_owned(),
            StationState { kind, ports: BTreeMap::new(), trunks: BTreeMap::new(), routes: 0, ends: BTreeMap::new() },
        );
        Ok(())
    }

    pub(super) fn remove_station(&mut self, name: &str) -> Result<StationKind, TopologyError> {
        let station = self.station(name)?;
        if !station.ports.is_empty() {
            return Err(TopologyError::StationInUse(name.to_owned()));
        }
        let kind = station.kind;
        self.stations.remove(name);
        self.former.retain(|_, current| current != name);
        Ok(kind)
    }

    pub(super) fn station(&self, name: &str) -> Result<&StationState, TopologyError> {
        self.stations.get(name).ok_or_else(|| TopologyError::NoStation(name.to_owned()))
    }

    fn end_key(state: &StationState, end: &CircuitEnd) -> (Option<u16>, Label) {
        (end.port.filter(|_| matches!(state.kind, StationKind::Switch(_))), end.label())
    }

    /// The circuit that has this end, by number.
    pub(super) fn circuit_at(&self, end: &CircuitEnd) -> Option<u32> {
        let state = self.stations.get(self.current(&end.station))?;
        state.ends.get(&Self::end_key(state, end)).copied()
    }

    /// A circuit has this end from now on; `None`: none has.
    pub(super) fn set_circuit_at(&mut self, end: &CircuitEnd, circuit: Option<u32>) {
        let Some(state) = self.stations.get_mut(&end.station) else { return };
        let key = Self::end_key(state, end);
        match circuit {
            Some(circuit) => _ = state.ends.insert(key, circuit),
            None => _ = state.ends.remove(&key),
        }
    }

    /// Gives a switch other bounds; those it had come back.
    pub(super) fn change_switch(
        &mut self,
        name: &str,
        wanted: SwitchElementConfig,
    ) -> Result<SwitchElementConfig, TopologyError> {
        let state = self.station(name)?;
        let StationKind::Switch(had) = state.kind else { return Err(TopologyError::NoBounds(name.to_owned())) };
        let ports = state.ports.keys().next_back().map_or(0, |last| usize::from(*last) + 1);
        let below = |what, bound, used| TopologyError::BelowUse { station: name.to_owned(), what, bound, used };
        if usize::from(wanted.link_ports()) < ports {
            return Err(below("ports", wanted.link_ports().into(), ports));
        }
        if wanted.max_routes < state.routes {
            return Err(below("max_routes", wanted.max_routes, state.routes));
        }
        if let Some(state) = self.stations.get_mut(name) {
            state.kind = StationKind::Switch(wanted);
        }
        Ok(had)
    }

    /// The port that an attachment means: the lowest free one if it names none.
    fn settle_port(&self, attachment: &Attachment) -> Result<u16, TopologyError> {
        let station = self.station(&attachment.station)?;
        let port = attachment.port.unwrap_or_else(|| {
            // The ports are in order: the first that is not where it would be without a gap leaves one.
            let gap = station.ports.keys().zip(0u16..).find(|(port, place)| *port != place).map(|(_, place)| place);
            gap.unwrap_or(station.ports.len() as u16)
        });
        if let StationKind::Switch(config) = station.kind
            && port >= config.link_ports()
        {
            let (switch, last) = (attachment.station.clone(), config.link_ports().saturating_sub(1));
            return Err(TopologyError::NoPort { switch, port, last });
        }
        if station.ports.contains_key(&port) {
            return Err(TopologyError::PortTaken { station: attachment.station.clone(), port });
        }
        Ok(port)
    }

    pub(super) fn add_link(&mut self, description: &LinkDescription) -> Result<LinkKey, TopologyError> {
        let [a, b] = &description.ends;
        if a.station == b.station {
            return Err(TopologyError::Loop(format!("{a} - {b}")));
        }
        let ports = [self.settle_port(a)?, self.settle_port(b)?];
        let outside = |end: &Attachment| self.station(&end.station).map(|s| s.kind == StationKind::Outside);
        if outside(a)? && outside(b)? {
            return Err(TopologyError::BothOutside(format!("{a} - {b}")));
        }
        let key = LinkKey(self.next_link);
        self.next_link += 1;
        self.insert_link(key, description, ports);
        Ok(key)
    }

    /// Puts a link back at the ports that it had, under its key.
    pub(super) fn restore_link(
        &mut self,
        key: LinkKey,
        description: &LinkDescription,
        ports: [u16; 2],
    ) -> Result<(), TopologyError> {
        for (end, port) in description.ends.iter().zip(ports) {
            self.settle_port(&Attachment { station: end.station.clone(), port: Some(port) })?;
        }
        self.insert_link(key, description, ports);
        Ok(())
    }

    fn insert_link(&mut self, key: LinkKey, description: &LinkDescription, ports: [u16; 2]) {
        let [a, b] = &description.ends;
        let is_switch = |end: &Attachment| matches!(self.stations[&end.station].kind, StationKind::Switch(_));
        let is_trunk = is_switch(a) && is_switch(b);
        for (end, port, side) in [(a, ports[0], Side::A), (b, ports[1], Side::B)] {
            if let Some(station) = self.stations.get_mut(&end.station) {
                station.ports.insert(port, (key, side));
                if is_trunk {
                    station.trunks.insert(port, (key, side));
                }
            }
        }
        let admission = [Admission::new(description.config.rate_for_circuits()); 2];
        let (circuits, paths) = Default::default();
        let labels = Labels::reserving(description.config.calls.map(|calls| (calls.vpi.get(), calls.vcis)));
        let state =
            LinkState { description: description.clone(), ports, labels, admission, calls: [0; 2], circuits, paths };
        self.links.insert(key, state);
    }

    pub(super) fn remove_link(&mut self, key: LinkKey) -> Result<LinkState, TopologyError> {
        let link = self.links.get(&key).ok_or_else(|| TopologyError::NoLink(format!("{}", key.0)))?;
        if !link.circuits.is_empty() {
            return Err(TopologyError::LinkInUse(link.name()));
        }
        for (end, port) in link.description.ends.iter().zip(link.ports) {
            if let Some(station) = self.stations.get_mut(&end.station) {
                station.ports.remove(&port);
                station.trunks.remove(&port);
            }
        }
        self.links.remove(&key).ok_or_else(|| TopologyError::NoLink(format!("{}", key.0)))
    }

    /// A link by its name, `alpha:0 - s1:0`, or by its ends as they were written, `alpha - s1:0`.
    pub(super) fn find_link(&self, name: &str) -> Option<LinkKey> {
        let plain: String = name.split_whitespace().collect();
        // A station's name may have a hyphen in it.
        plain.match_indices('-').find_map(|(at, _)| {
            let [a, b]: [Attachment; 2] = [plain[..at].parse().ok()?, plain[at + 1..].parse().ok()?];
            let ports = &self.stations.get(&a.station)?.ports;
            let near: Vec<_> = match a.port {
                Some(port) => ports.get(&port).into_iter().collect(),
                None => ports.values().collect(),
            };
            near.into_iter().map(|(key, _)| *key).find(|key| {
                let Some(link) = self.links.get(key) else { return false };
                let is = |i: usize, end: &Attachment| {
                    let written = &link.description.ends[i];
                    written.station == end.station && end.port.map_or(written.port.is_none(), |p| p == link.ports[i])
                };
                is(0, &a) && is(1, &b)
            })
        })
    }
}

pub(super) const fn other(side: Side) -> Side {
    match side {
        Side::A => Side::B,
        Side::B => Side::A,
    }
}
