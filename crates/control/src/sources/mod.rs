//! Who wants objects: a module for each source. [`wanted`] puts them together.

pub mod commands;
pub mod file;
pub mod peers;
pub mod waiting;

use crate::objects::{ObjectId, Objects, Spec};

/// What all sources together want. The description wins over commands, but for what they removed; and those win over
/// peers.
pub fn wanted(file: &Objects, commands: &commands::Commands, peers: &Objects) -> Objects {
    let mut all = peers.clone();
    all.extend(commands.added().map(|(id, object)| (id.clone(), object.clone())));
    all.extend(file.iter().filter(|(id, _)| !commands.is_removed(id)).map(|(id, object)| (id.clone(), object.clone())));
    for (id, object) in &mut all {
        if let (ObjectId::Link(..), Spec::Link(link)) = (id, &mut object.spec) {
            link.enabled = commands.enables(id, link.enabled);
        }
    }
    all
}
