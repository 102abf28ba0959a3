//! The steps of a plan, and what performs them: a [`Model`], which has no network and is for trying, or a running
//! network ([`crate::network_target`]). Performing a step gives the step that undoes it.

use crate::adapters::Plug;
use crate::config::Shell;
use crate::kinds::{PreparedStation, StationLayout};
use crate::objects::ObjectId;
use net::external::External;
use net::topology::{
    CircuitDescription, CircuitEnd, LinkDescription, LinkKey, RoutedCircuit, Router, StationKind, TopologyError,
};
use net::{LinkConfig, Room, SwitchElement, SwitchElementConfig};
use std::collections::HashMap;
use traffic::Contract;

/// One step. A step is done or it is not; what it needs has been made by earlier ones.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A station that does not exist.
    AddStation {
        /// Its name.
        name: String,
        /// Its kind and bounds.
        kind: StationKind,
        /// A host's endpoints.
        max_endpoints: usize,
    },
    /// A station that has no links any more.
    RemoveStation {
        /// Its name.
        name: String,
        /// What it is made of, if it is of a registered kind.
        layout: Option<StationLayout>,
    },
    /// Another name of a station that stays.
    RenameStation {
        /// The name that it has.
        from: String,
        /// The name that it is to have.
        to: String,
    },
    /// Another bound of a host.
    ChangeHost {
        /// Its name.
        name: String,
        /// Its endpoints.
        max_endpoints: usize,
    },
    /// Other bounds of a switch.
    ChangeSwitch {
        /// Its name.
        name: String,
        /// The bounds that it has.
        had: SwitchElementConfig,
        /// Those that it is to have.
        config: SwitchElementConfig,
    },
    /// A station of a registered kind that does not exist.
    AddElement {
        /// Its name.
        name: String,
        /// What it is made of.
        layout: StationLayout,
    },
    /// Another layout of a station of a registered kind.
    ChangeElement {
        /// Its name.
        name: String,
        /// What it is made of.
        layout: StationLayout,
    },
    /// A link.
    AddLink {
        /// Which.
        link: ObjectId,
        /// What it is to be.
        description: Box<LinkDescription>,
        /// The key and the ports that it had, where it is put back.
        restored: Option<(LinkKey, [u16; 2])>,
    },
    /// A link without circuits.
    RemoveLink(ObjectId),
    /// Another rate or delay of a link.
    ChangeLink(ObjectId, Box<LinkConfig>),
    /// A link may pass something, or nothing.
    SetLink {
        /// Which.
        link: ObjectId,
        /// Whether it may.
        up: bool,
    },
    /// The link is down while `other` is down or missing. Repeated when `other` is made again.
    Follow {
        /// Which.
        link: ObjectId,
        /// The other.
        other: Option<ObjectId>,
        /// What it followed before.
        had: Option<ObjectId>,
    },
    /// What is outside at a link: what shall be, what was.
    Attach {
        /// The link.
        link: ObjectId,
        /// What shall be there; `None`: nothing.
        shell: Option<Box<Shell>>,
        /// What was.
        had: Option<Box<Shell>>,
    },
    /// A circuit, on the way that the router finds.
    AddCircuit(Box<CircuitDescription>),
    /// A circuit on the way that it had.
    RestoreCircuit(Box<RoutedCircuit>),
    /// A circuit by its ends.
    RemoveCircuit(Vec<CircuitEnd>),
    /// Other contracts of a circuit that stays: from its first end, and back.
    ChangeContract(Vec<CircuitEnd>, Box<(Contract, Option<Contract>)>),
}

/// Why a step cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The topology refuses it.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// What is outside at a link cannot be made.
    #[error("{0}")]
    Shell(String),
    /// What is there cannot be at that link: it is to be made anew.
    #[error("what is there has to be made anew")]
    Anew,
}

/// What a step needs that is made elsewhere than on the network's thread, since making it takes long.
#[derive(Debug, Clone)]
pub enum Need {
    /// What is outside at a link.
    Shell(Box<Shell>),
    /// The same, though it is there: it cannot be as it is.
    Anew(Box<Shell>),
    /// A switch: its tables are allocated, and the first pages of them touched.
    Switch {
        /// Its name.
        name: String,
        /// Its bounds.
        config: SwitchElementConfig,
    },
    /// What a switch's tables grow by is allocated.
    Room {
        /// The bounds that it has.
        had: SwitchElementConfig,
        /// Those that it is to have.
        wanted: SwitchElementConfig,
    },
    /// A station of a registered kind.
    Station(StationLayout),
}

/// A [`Need`], made.
pub enum PreparedResource {
    /// What is outside at a link.
    Shell(Box<dyn External>),
    /// An adapter, new or as it is there.
    Adapter(Plug),
    /// A switch without routes.
    Switch(Box<SwitchElement>),
    /// What a switch's tables grow by.
    Room(Box<Room>),
    /// A station of a registered kind, without circuits.
    Station(PreparedStation),
}

impl Step {
    /// What it needs, and for which object.
    pub fn need(&self) -> Option<(ObjectId, Need)> {
        match self {
            Step::AddStation { name, kind: StationKind::Switch(config), .. } => {
                let need = Need::Switch { name: name.clone(), config: *config };
                Some((ObjectId::Station(name.clone()), need))
            }
            Step::ChangeSwitch { name, had, config }
                if had.ports < config.ports || had.max_routes < config.max_routes =>
            {
                Some((ObjectId::Station(name.clone()), Need::Room { had: *had, wanted: *config }))
            }
            Step::AddElement { name, layout } | Step::ChangeElement { name, layout } => {
                Some((ObjectId::Station(name.clone()), Need::Station(layout.clone())))
            }
            Step::Attach { link, shell: Some(shell), .. } => Some((link.clone(), Need::Shell(shell.clone()))),
            _ => None,
        }
    }
}

/// What steps are performed on.
pub trait Target {
    /// Performs a step; gives the step that undoes it. `made` is what it needs ([`Step::need`]).
    ///
    /// # Errors
    /// Why not; nothing has changed.
    fn perform(&mut self, step: &Step, made: Option<PreparedResource>) -> Result<Step, StepError>;

    /// Does some of what earlier steps have left to do, a bounded amount. True if there was something.
    fn advance(&mut self) -> bool {
        false
    }
}

/// What the network is taken to be: enough to try any plan without touching it.
#[derive(Debug, Clone)]
pub struct Model {
    /// Stations, links, circuits and what they take.
    pub router: Router,
    links: HashMap<ObjectId, LinkKey>,
    names: HashMap<LinkKey, ObjectId>,
}

impl Default for Model {
    /// Nothing yet; each hop adds a round of the engine's to the variation of delay.
    fn default() -> Self {
        let mut router = Router::default();
        router.set_round(host::ROUND);
        Model { router, links: HashMap::new(), names: HashMap::new() }
    }
}

impl Model {
    /// The object of a link of the router's.
    pub fn find_link(&self, key: LinkKey) -> Option<&ObjectId> {
        self.names.get(&key)
    }

    /// The router's key of a link.
    pub fn link(&self, link: &ObjectId) -> Result<LinkKey, TopologyError> {
        self.links.get(link).copied().ok_or_else(|| TopologyError::NoLink(link.to_string()))
    }

    /// Writes into a step that was just performed what was decided: the key and the ports of a link, the way of a
    /// circuit.
    pub fn settle(&self, step: &mut Step) {
        match step {
            Step::AddLink { link, restored: restored @ None, .. } => {
                let key = self.links.get(link).copied();
                *restored = key.and_then(|key| Some((key, self.router.link(key)?.1)));
            }
            Step::AddCircuit(circuit) => {
                let placed = circuit.ends.first().and_then(|end| self.router.find_circuit(end));
                if let Some(placed) = placed {
                    *step = Step::RestoreCircuit(Box::new(placed.clone()));
                }
            }
            _ => {}
        }
    }
}

impl Target for Model {
    fn perform(&mut self, step: &Step, _: Option<PreparedResource>) -> Result<Step, StepError> {
        let router = &mut self.router;
        Ok(match step {
            Step::AddStation { name, kind, .. } => {
                router.add_station(name, *kind)?;
                Step::RemoveStation { name: name.clone(), layout: None }
            }
            Step::RemoveStation { name, layout } => {
                let kind = router.remove_station(name)?;
                match layout {
                    Some(layout) => Step::AddElement { name: name.clone(), layout: layout.clone() },
                    None => Step::AddStation { name: name.clone(), kind, max_endpoints: 0 },
                }
            }
            Step::RenameStation { from, to } => {
                router.rename_station(from, to)?;
                let links = std::mem::take(&mut self.links).into_iter();
                self.links = links.map(|(link, key)| (link.renamed(from, to), key)).collect();
                self.names.values_mut().for_each(|link| *link = link.renamed(from, to));
                Step::RenameStation { from: to.clone(), to: from.clone() }
            }
            Step::ChangeHost { .. } | Step::ChangeElement { .. } => step.clone(),
            Step::AddElement { name, layout } => {
                router.add_station(name, StationKind::Switch(layout.bounds()))?;
                Step::RemoveStation { name: name.clone(), layout: Some(layout.clone()) }
            }
            Step::ChangeSwitch { name, config, .. } => {
                let had = router.change_switch(name, *config)?;
                Step::ChangeSwitch { name: name.clone(), had: *config, config: had }
            }
            Step::AddLink { link, description, restored } => {
                let key = match restored {
                    Some((key, ports)) => router.restore_link(*key, description, *ports).map(|()| *key)?,
                    None => router.add_link(description)?,
                };
                self.links.insert(link.clone(), key);
                self.names.insert(key, link.clone());
                Step::RemoveLink(link.clone())
            }
            Step::RemoveLink(link) => {
                let key = self.link(link)?;
                let (description, ports) = self.router.remove_link(key)?;
                self.links.remove(link);
                self.names.remove(&key);
                Step::AddLink { link: link.clone(), description: Box::new(description), restored: Some((key, ports)) }
            }
            Step::ChangeLink(link, config) => {
                let key = self.link(link)?;
                Step::ChangeLink(link.clone(), Box::new(self.router.change_link(key, config)?))
            }
            Step::SetLink { link, up } => {
                self.link(link)?;
                Step::SetLink { link: link.clone(), up: !up }
            }
            Step::Follow { link, other, had } => {
                self.link(link)?;
                Step::Follow { link: link.clone(), other: had.clone(), had: other.clone() }
            }
            Step::Attach { link, shell, had } => {
                self.link(link)?;
                Step::Attach { link: link.clone(), shell: had.clone(), had: shell.clone() }
            }
            Step::AddCircuit(circuit) => {
                router.add_circuit(circuit)?;
                Step::RemoveCircuit(circuit.ends.clone())
            }
            Step::RestoreCircuit(placed) => {
                router.restore_circuit((**placed).clone())?;
                Step::RemoveCircuit(placed.description.ends.clone())
            }
            Step::RemoveCircuit(ends) => Step::RestoreCircuit(Box::new(router.remove_circuit(ends)?)),
            Step::ChangeContract(ends, contract) => {
                let had = router.change_contract(ends, contract.0, contract.1)?;
                Step::ChangeContract(ends.clone(), Box::new((had.description.contract, had.description.back)))
            }
        })
    }
}
