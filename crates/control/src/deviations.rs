//! Where a running network deviates from its description because commands said so: what they added, removed, took down
//! and took up. `apply` shows it under "kept from commands".

use crate::objects::{ObjectId, Objects, Spec};
use crate::sources::commands::Commands;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a command did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The description does not have it.
    Added,
    /// The description has it, and a command put another in its place.
    Replaced,
    /// The description has it.
    Removed,
    /// A link that the description has up, or that a command added.
    Down,
    /// A link that the description has down.
    Up,
    /// It was added and cannot be now; it is tried again when a description is applied.
    Waiting,
}

/// One difference between a description and its network that a command has made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Deviation {
    /// What the command did.
    pub action: Action,
    /// `link`, `circuit` or `outside`.
    pub kind: String,
    /// The object's name.
    pub name: String,
}

impl Deviation {
    /// `added circuit alpha 0.200 - beta 0.200`
    pub fn text(&self) -> String {
        let Deviation { action, kind, name } = self;
        let word = match action {
            Action::Added => "added",
            Action::Replaced => "replaced",
            Action::Removed => "removed",
            Action::Down => "taken down:",
            Action::Up => "taken up:",
            Action::Waiting => "waiting:",
        };
        format!("{word} {kind} {name}")
    }
}

/// What commands have made of a description with these objects. `link_name`: how a link is called in output.
pub fn deviations(commands: &Commands, file: &Objects, link_name: impl Fn(&ObjectId) -> String) -> Vec<Deviation> {
    let one = |action, id: &ObjectId| {
        let (kind, name) = match id {
            ObjectId::Station(name) => ("outside", name.clone()),
            ObjectId::Link(..) => {
                let name = link_name(id);
                // One that is not there is called by its kind and its ends.
                ("link", name.strip_prefix("link ").unwrap_or(&name).to_owned())
            }
            ObjectId::Circuit(name) => ("circuit", name.clone()),
        };
        Deviation { action, kind: kind.to_owned(), name }
    };
    let added = commands.added().filter(|(_, object)| object.spec != Spec::Outside);
    let added = added.map(|(id, _)| {
        let replaces = file.contains_key(id);
        one(if replaces { Action::Replaced } else { Action::Added }, id)
    });
    let removed = commands.removed().filter(|id| file.contains_key(*id) && !commands.is_added(id));
    let there = |id: &&ObjectId| commands.is_added(id) || (file.contains_key(*id) && !commands.is_removed(id));
    added
        .chain(removed.map(|id| one(Action::Removed, id)))
        .chain(commands.down().filter(there).map(|id| one(Action::Down, id)))
        .chain(commands.up().filter(there).map(|id| one(Action::Up, id)))
        .chain(commands.waiting().map(|id| one(Action::Waiting, id)))
        .collect()
}
