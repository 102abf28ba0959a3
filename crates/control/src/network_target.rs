//! Steps performed on a running network, between two of its rounds.

use crate::adapters::{Adapters, Refused};
use crate::config::Shell;
use crate::ended::{Ended, Record};
use crate::kinds::StationLayout;
use crate::objects::ObjectId;
use crate::placement::Placement;
use crate::step::{PreparedResource, Step, StepError, Target};
use host::HostInterface;
use net::topology::{CircuitDescription, Fabric, StationKind, TopologyError};
use net::{LinkId, Network, Room};
use std::collections::{HashMap, VecDeque};
use wire::Time;

/// Circuits of a link of which its far end is told at once.
const TOLD: usize = 64;
/// Ports of a switch that come or go at once.
const RESIZED: usize = 64;

/// The links of a network by what control calls them.
#[derive(Debug, Default)]
pub struct Links {
    /// Where the counters of links go that are removed.
    ended: Ended,
    ids: HashMap<ObjectId, LinkId>,
    /// Links whose far ends are new, and the circuit from which on they are to be told of those that end there.
    telling: VecDeque<(LinkId, u32)>,
    /// The switch whose ports come or go, and what its tables grow by.
    resizing: Option<(String, Box<Room>)>,
    /// Stations of registered kinds whose layout has changed: some of the change may be left to do.
    settling: Vec<(String, StationLayout)>,
}

impl Links {
    /// No links yet; the counters of those that are removed go to `ended`.
    pub fn noting(ended: Ended) -> Self {
        Links { ended, ..Links::default() }
    }

    /// A link.
    pub fn find(&self, link: &ObjectId) -> Option<LinkId> {
        self.ids.get(link).copied()
    }

    /// The objects of some links.
    pub fn of(&self, some: impl Fn(LinkId) -> bool) -> Vec<ObjectId> {
        self.ids.iter().filter(|(_, id)| some(**id)).map(|(link, _)| link.clone()).collect()
    }
}

/// A network, for as long as steps are performed on it.
pub struct NetworkTarget<'a> {
    /// Nodes and links.
    pub network: &'a mut Network,
    /// Their names, and the circuits.
    pub fabric: &'a mut Fabric<HostInterface>,
    /// Links by what control calls them.
    pub links: &'a mut Links,
    /// Virtual adapters.
    pub adapters: &'a Adapters,
    /// The shards of stations that the description has; others are made where the fewest are.
    pub placement: &'a Placement,
    /// The moment.
    pub now: Time,
    /// What was taken off links: to be dropped by whoever performs the steps, not by the network's thread.
    pub dropped: Vec<Box<dyn Send>>,
}

impl NetworkTarget<'_> {
    fn link(&self, link: &ObjectId) -> Result<LinkId, TopologyError> {
        self.links.find(link).ok_or_else(|| TopologyError::NoLink(link.to_string()))
    }

    /// Keeps the counters of a link that is to be removed.
    fn note_ended(&self, id: LinkId) {
        let (Some(name), Some(info)) = (self.fabric.link_name(id), self.network.link_info(id)) else { return };
        let Some((description, _)) = self.fabric.link(id) else { return };
        let lines = [info.from_a, info.from_b].into_iter().zip(&description.ends);
        self.links.ended.note(lines.map(|(line, end)| Record {
            kind: "link",
            name: format!("{name} from {end}"),
            counters: [line.sent, line.delivered],
        }));
    }

    /// Puts a station that was just made into its shard.
    fn place(&mut self, name: &str) {
        let Some(id) = self.fabric.node(name) else { return };
        let stations = |network: &Network, shard: usize| network.shard(shard).map_or(0, |shard| shard.nodes().count());
        let fewest = || (0..self.network.shards()).min_by_key(|shard| stations(self.network, *shard));
        let shard = self.placement.get(name).copied().or_else(fewest).unwrap_or(0);
        self.network.move_node(id, shard);
    }

    fn remove_station(&mut self, name: &str, layout: Option<&StationLayout>) -> Result<Step, StepError> {
        let kind = self.fabric.router().kind(name);
        let kind = kind.ok_or_else(|| TopologyError::NoStation(name.to_owned()))?;
        let max_endpoints = self.host(name).map_or(0, |host| host.max_endpoints());
        if let Some(node) = self.fabric.remove_station(self.network, name)? {
            self.dropped.push(Box::new(node));
        }
        Ok(match layout {
            Some(layout) => Step::AddElement { name: name.to_owned(), layout: layout.clone() },
            None => Step::AddStation { name: name.to_owned(), kind, max_endpoints },
        })
    }

    fn remove_link(&mut self, link: &ObjectId) -> Result<Step, StepError> {
        let id = self.link(link)?;
        let gone = || TopologyError::NoLink(link.to_string());
        let key = self.fabric.link_key(id).ok_or_else(gone)?;
        let (description, ports) = self.fabric.link(id).ok_or_else(gone)?;
        let description = Box::new(description.clone());
        if self.fabric.router().circuit_count_over(key) > 0 {
            return Err(TopologyError::LinkInUse(link.to_string()).into());
        }
        self.note_ended(id);
        let (_, removed) = self.fabric.take_link(self.network, id)?;
        self.dropped.extend(removed.map(|link| Box::new(link) as Box<dyn Send>));
        self.links.ids.remove(link);
        Ok(Step::AddLink { link: link.clone(), description, restored: Some((key, ports)) })
    }

    fn add_station(
        &mut self,
        name: &str,
        kind: StationKind,
        max_endpoints: usize,
        made: Option<PreparedResource>,
    ) -> Result<(), StepError> {
        match (kind, made) {
            (StationKind::Host, _) => {
                self.fabric.add_host(self.network, name, HostInterface::new(max_endpoints).named(name)).map(drop)?;
            }
            (StationKind::Switch(config), Some(PreparedResource::Switch(switch))) => {
                self.fabric.add_element(self.network, name, config, *switch).map(drop)?;
            }
            (StationKind::Switch(_), _) => return Err(nothing_made(name)),
            (StationKind::Outside, _) => self.fabric.add_outside(name)?,
        }
        self.place(name);
        Ok(())
    }

    fn host(&mut self, name: &str) -> Result<&mut HostInterface, TopologyError> {
        let host = self.fabric.node(name).and_then(|id| self.network.node_mut::<HostInterface>(id));
        host.ok_or_else(|| TopologyError::NoStation(name.to_owned()))
    }

    /// Puts at a link what is to be outside there.
    fn attach(&mut self, link: LinkId, shell: Option<&Shell>, made: Option<PreparedResource>) -> Result<(), StepError> {
        match (shell, made) {
            (None, _) => {
                self.clear(link);
                return Ok(());
            }
            (Some(Shell::Adapter(served)), Some(PreparedResource::Adapter(plug))) => {
                if let Err(refused) = self.adapters.check(self.network, self.fabric, served, link, &plug) {
                    self.dropped.push(Box::new(plug));
                    return Err(match refused {
                        Refused::Anew => StepError::Anew,
                        refused => StepError::Shell(refused.to_string()),
                    });
                }
                self.clear(link);
                self.adapters.plug(self.network, served, link, plug);
            }
            (Some(_), Some(PreparedResource::Shell(made))) => {
                self.clear(link);
                if !self.network.attach(link, made) {
                    return Err(StepError::Shell("the link has no outside end".into()));
                }
            }
            (Some(_), made) => {
                self.dropped.extend(made.map(|made| Box::new(made) as Box<dyn Send>));
                return Err(StepError::Shell("nothing was made for the far end of the link".into()));
            }
        }
        self.links.telling.push_back((link, 0));
        Ok(())
    }

    /// Takes off a link what is outside there.
    fn clear(&mut self, link: LinkId) {
        self.adapters.unplug(self.network, link);
        if let Some(old) = self.network.detach(link) {
            self.dropped.push(Box::new(old));
        }
    }
}

fn nothing_made(station: &str) -> StepError {
    StepError::Shell(format!("nothing was made for station {station}"))
}

impl Target for NetworkTarget<'_> {
    fn perform(&mut self, step: &Step, made: Option<PreparedResource>) -> Result<Step, StepError> {
        Ok(match step {
            Step::AddStation { name, kind, max_endpoints } => {
                self.add_station(name, *kind, *max_endpoints, made)?;
                Step::RemoveStation { name: name.clone(), layout: None }
            }
            Step::RemoveStation { name, layout } => self.remove_station(name, layout.as_ref())?,
            Step::RenameStation { from, to } => {
                self.fabric.rename_station(self.network, from, to)?;
                let links = std::mem::take(&mut self.links.ids).into_iter();
                self.links.ids = links.map(|(link, id)| (link.renamed(from, to), id)).collect();
                Step::RenameStation { from: to.clone(), to: from.clone() }
            }
            Step::ChangeHost { name, max_endpoints } => {
                let host = self.host(name)?;
                let had = host.max_endpoints();
                host.set_max_endpoints(*max_endpoints);
                Step::ChangeHost { name: name.clone(), max_endpoints: had }
            }
            Step::ChangeSwitch { name, config, .. } => {
                let mut room = match made {
                    Some(PreparedResource::Room(room)) => room,
                    _ => Box::default(),
                };
                let changed = self.fabric.change_switch(self.network, name, *config, &mut room);
                // Also what it has no use for goes when it has settled.
                self.links.resizing = Some((name.clone(), room));
                let had = changed?;
                Step::ChangeSwitch { name: name.clone(), had: *config, config: had }
            }
            Step::AddElement { name, layout } => {
                let Some(PreparedResource::Station(station)) = made else { return Err(nothing_made(name)) };
                station.add(self.network, self.fabric, name)?;
                self.place(name);
                Step::RemoveStation { name: name.clone(), layout: Some(layout.clone()) }
            }
            Step::ChangeElement { name, layout } => {
                let Some(PreparedResource::Station(made)) = made else { return Err(nothing_made(name)) };
                let (had, former) = made.replace(self.network, self.fabric, name)?;
                self.dropped.push(former);
                self.links.settling.push((name.clone(), layout.clone()));
                Step::ChangeElement { name: name.clone(), layout: had }
            }
            Step::AddLink { link, description, restored } => {
                let id = match restored {
                    Some((key, ports)) => self.fabric.restore_link(self.network, *key, description, *ports)?,
                    None => self.fabric.add_link(self.network, description)?,
                };
                // The engine may run before the step that brings the shell: a line with nobody at it has not failed.
                self.network.await_shell(id);
                self.links.ids.insert(link.clone(), id);
                Step::RemoveLink(link.clone())
            }
            Step::RemoveLink(link) => self.remove_link(link)?,
            Step::ChangeLink(link, config) => {
                let id = self.link(link)?;
                let had = self.fabric.change_link(self.network, id, config, self.now)?;
                Step::ChangeLink(link.clone(), Box::new(had))
            }
            Step::SetLink { link, up } => {
                let id = self.link(link)?;
                let had = self.network.link_info(id).is_some_and(|info| info.enabled);
                self.network.set_link_up(id, *up);
                Step::SetLink { link: link.clone(), up: had }
            }
            Step::Follow { link, other, had } => {
                // A link that is not there is down; whoever makes it has those follow it that shall.
                let other_id = other.as_ref().map(|other| self.links.find(other).unwrap_or(LinkId::GONE));
                let id = self.link(link)?;
                self.network.follow(id, other_id);
                Step::Follow { link: link.clone(), other: had.clone(), had: other.clone() }
            }
            Step::Attach { link, shell, had } => {
                let id = self.link(link)?;
                self.attach(id, shell.as_deref(), made)?;
                Step::Attach { link: link.clone(), shell: had.clone(), had: shell.clone() }
            }
            Step::AddCircuit(circuit) => {
                self.fabric.add_circuit(self.network, circuit)?;
                Step::RemoveCircuit(circuit.ends.clone())
            }
            Step::RestoreCircuit(placed) => {
                self.fabric.restore_circuit(self.network, (**placed).clone())?;
                Step::RemoveCircuit(placed.description.ends.clone())
            }
            Step::RemoveCircuit(ends) => {
                let circuit = CircuitDescription { ends: ends.clone(), ..CircuitDescription::default() };
                Step::RestoreCircuit(Box::new(self.fabric.remove_circuit(self.network, &circuit)?))
            }
            Step::ChangeContract(ends, contract) => {
                let had = self.fabric.change_contract(self.network, ends, contract.0, contract.1)?;
                Step::ChangeContract(ends.clone(), Box::new(had))
            }
        })
    }

    fn advance(&mut self) -> bool {
        if let Some((name, room)) = &mut self.links.resizing {
            if !self.fabric.settle_switch(self.network, name, RESIZED, room) {
                self.dropped.extend(self.links.resizing.take().map(|(_, room)| room as Box<dyn Send>));
            }
            return true;
        }
        if let Some((name, layout)) = self.links.settling.last() {
            if !self.fabric.node(name).is_some_and(|node| layout.settle(self.network, node)) {
                self.links.settling.pop();
            }
            return true;
        }
        let Some((link, from)) = self.links.telling.pop_front() else { return false };
        if let Some(next) = self.fabric.tell_link(self.network, link, from, TOLD) {
            self.links.telling.push_front((link, next));
        }
        true
    }
}
