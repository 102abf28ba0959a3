//! Desired state: objects with an owner and a revision. What should be is a set of these; what is, another.

use crate::config::{Host, Shell, Signalling};
use crate::kinds::StationLayout;
use crate::names::renamed_ends;
use net::SwitchElementConfig;
use net::topology::{CircuitDescription, LinkDescription, renamed_circuit, renamed_link};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What names an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObjectId {
    /// A host, a switch, or something outside.
    Station(String),
    /// A link by its ends as they are written, and which of those that are written so.
    Link(String, usize),
    /// A circuit by its ends.
    Circuit(String),
}

impl ObjectId {
    /// The first or only link of these ends.
    pub fn link(description: &LinkDescription, nth: usize) -> Self {
        let [a, b] = &description.ends;
        ObjectId::Link(format!("{a} - {b}"), nth)
    }

    /// The circuit of these ends.
    pub fn circuit(description: &CircuitDescription) -> Self {
        ObjectId::Circuit(description.name())
    }
}

impl ObjectId {
    /// The same object with another name of a station.
    #[must_use]
    pub fn renamed(&self, from: &str, to: &str) -> Self {
        match self {
            ObjectId::Station(name) if name == from => ObjectId::Station(to.to_owned()),
            ObjectId::Station(_) => self.clone(),
            ObjectId::Link(name, nth) => ObjectId::Link(renamed_ends(name, from, to), *nth),
            ObjectId::Circuit(name) => ObjectId::Circuit(renamed_ends(name, from, to)),
        }
    }
}

impl Object {
    /// The same object with another name of a station.
    #[must_use]
    pub fn renamed(&self, from: &str, to: &str) -> Self {
        let mut object = self.clone();
        if let Owner::Peer(link) = &mut object.owner {
            *link = renamed_ends(link, from, to);
        }
        match &mut object.spec {
            Spec::Circuit(circuit) => *circuit = renamed_circuit(circuit, from, to),
            Spec::Link(link) => {
                link.description = renamed_link(&link.description, from, to);
                link.follows = link.follows.as_ref().map(|other| other.renamed(from, to));
                if let Some(Shell::AtmTcp { peer_circuits_to: Some(host), .. }) = &mut link.shell
                    && host == from
                {
                    to.clone_into(host);
                }
            }
            Spec::Host(_) | Spec::Switch(_) | Spec::OfKind(_) | Spec::Outside => {}
        }
        object
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectId::Station(name) => write!(f, "station {name}"),
            ObjectId::Link(name, 0) => write!(f, "link {name}"),
            ObjectId::Link(name, nth) => write!(f, "link {name} ({})", nth + 1),
            ObjectId::Circuit(name) => write!(f, "circuit {name}"),
        }
    }
}

/// Who wants an object. Where two want the same one, the first of this list has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// The description.
    File,
    /// A command.
    Command,
    /// A peer, at this link.
    Peer(String),
    /// A call.
    Call(u64),
    /// A directory of many machines.
    Directory,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::File => f.write_str("file"),
            Owner::Command => f.write_str("command"),
            Owner::Peer(link) => write!(f, "peer at {link}"),
            Owner::Call(number) => write!(f, "call {number}"),
            Owner::Directory => f.write_str("directory"),
        }
    }
}

/// What an object is to be.
#[derive(Debug, Clone, PartialEq)]
pub enum Spec {
    /// A host.
    Host(Host),
    /// A switch.
    Switch(SwitchElementConfig),
    /// A station of a registered kind, which circuits pass as they pass a switch.
    OfKind(StationLayout),
    /// Something outside.
    Outside,
    /// A link.
    Link(Box<LinkSpec>),
    /// A circuit.
    Circuit(CircuitDescription),
}

/// What a link is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSpec {
    /// Its ends and properties.
    pub description: LinkDescription,
    /// What is outside at it.
    pub shell: Option<Shell>,
    /// The link without which it is down.
    pub follows: Option<ObjectId>,
    /// Whether it may pass anything.
    pub enabled: bool,
    /// Calls over it.
    pub signalling: Option<Signalling>,
}

/// An object of the desired state.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// What it is to be.
    pub spec: Spec,
    /// Who wants it.
    pub owner: Owner,
    /// The change that made it what it is.
    pub revision: u64,
    /// Its place among those that are made together.
    pub order: u64,
}

/// Objects by name.
pub type Objects = BTreeMap<ObjectId, Object>;

/// One object that is to be another, new, or gone.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Which.
    pub id: ObjectId,
    /// What it is to be; `None`: nothing.
    pub wanted: Option<Object>,
}

/// What has to change for `wanted` to be, where `have` is: the objects that differ.
pub fn difference(have: &Objects, wanted: &Objects) -> Vec<Change> {
    let gone = have.keys().filter(|id| !wanted.contains_key(id)).map(|id| Change { id: id.clone(), wanted: None });
    let differs = |(id, object): &(&ObjectId, &Object)| {
        have.get(id).is_none_or(|had| had.spec != object.spec || had.owner != object.owner)
    };
    let set = wanted.iter().filter(differs);
    gone.chain(set.map(|(id, object)| Change { id: id.clone(), wanted: Some(object.clone()) })).collect()
}
