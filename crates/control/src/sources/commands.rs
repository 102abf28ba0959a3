//! Commands as a source: what they added, removed and took down. This is what a state folder keeps ([`crate::state`]).

use crate::config::{self, Circuit, Link, Shell};
use crate::objects::{LinkSpec, Object, ObjectId, Objects, Owner, Spec};
use crate::sources::waiting::{Understood, Waiting};
use anyhow::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// After everything that a description has.
const FIRST_ORDER: u64 = 1 << 32;

/// What commands have asked for since the description was read.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    added: Objects,
    /// Links and circuits that were added, as they were written.
    written: BTreeMap<ObjectId, (u64, Written)>,
    /// What was added and cannot be now, such as a link whose certificates are not there, in the order of the commands.
    waiting: Vec<(u64, ObjectId, Written)>,
    removed: BTreeSet<ObjectId>,
    down: BTreeSet<ObjectId>,
    /// Links that the description has down, and a command has taken up.
    up: BTreeSet<ObjectId>,
    /// Former names of stations of the description, with those that commands gave them.
    names: BTreeMap<String, String>,
    order: u64,
}

/// An object as a command wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Written {
    /// A circuit.
    Circuit(Box<Circuit>),
    /// A link.
    Link(Box<Link>),
}

impl Written {
    /// What it is called as long as it is not understood.
    fn id(&self) -> ObjectId {
        match self {
            Written::Circuit(circuit) => ObjectId::Circuit(circuit.ends.join(" - ")),
            Written::Link(link) => ObjectId::Link(link.ends.join(" - "), 0),
        }
    }
}

/// What is kept of commands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Added, in this order.
    pub added: Vec<Written>,
    /// What each of them is called: of links that are written alike, one may have gone.
    #[serde(default)]
    pub ids: Vec<ObjectId>,
    /// Removed, though the description has them.
    pub removed: Vec<ObjectId>,
    /// Links that were taken down.
    pub down: Vec<ObjectId>,
    /// Links that the description has down, and that were taken up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub up: Vec<ObjectId>,
    /// Names of stations in the description, with those that they were given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
}

impl Commands {
    /// What was added.
    pub fn added(&self) -> impl Iterator<Item = (&ObjectId, &Object)> {
        self.added.iter()
    }

    /// Whether a command added an object.
    pub fn is_added(&self, id: &ObjectId) -> bool {
        self.added.contains_key(id)
    }

    /// Whether the description's object is not to be.
    pub fn is_removed(&self, id: &ObjectId) -> bool {
        self.removed.contains(id)
    }

    /// What the description has and is not to be.
    pub fn removed(&self) -> impl Iterator<Item = &ObjectId> {
        self.removed.iter()
    }

    /// The description's object is to be after all.
    pub fn bring_back(&mut self, id: &ObjectId) {
        self.removed.remove(id);
    }

    /// Whether a link may pass anything, where it is written that it may or may not.
    pub fn enables(&self, id: &ObjectId, written: bool) -> bool {
        !self.down.contains(id) && (written || self.up.contains(id))
    }

    /// Links that were taken down.
    pub fn down(&self) -> impl Iterator<Item = &ObjectId> {
        self.down.iter()
    }

    /// Links that the description has down, and that were taken up.
    pub fn up(&self) -> impl Iterator<Item = &ObjectId> {
        self.up.iter()
    }

    /// Links and circuits that were added, as they were written.
    pub fn written(&self) -> impl Iterator<Item = (&ObjectId, &Written)> {
        let mut all: Vec<(&ObjectId, &(u64, Written))> = self.written.iter().collect();
        all.sort_by_key(|(_, (order, _))| *order);
        all.into_iter().map(|(id, (_, written))| (id, written))
    }

    /// What was added and cannot be now.
    pub fn waiting(&self) -> impl Iterator<Item = &ObjectId> {
        self.waiting.iter().map(|(_, id, _)| id)
    }

    /// An object as the next command would add it; `nth` of those that it adds.
    pub fn object(&self, spec: Spec, nth: usize) -> Object {
        Object { spec, owner: Owner::Command, revision: 0, order: FIRST_ORDER + self.order + nth as u64 }
    }

    /// Adds an object, with the written form of what a state folder is to keep.
    pub fn insert(&mut self, id: ObjectId, object: Object, written: Option<Written>) {
        self.order = self.order.max(object.order + 1 - FIRST_ORDER);
        self.waiting.retain(|(_, waits, _)| *waits != id);
        self.written.remove(&id);
        if let Some(written) = written {
            self.written.insert(id.clone(), (object.order, written));
        }
        self.added.insert(id, object);
    }

    fn add(&mut self, id: ObjectId, spec: Spec, written: Option<Written>) {
        let object = self.object(spec, 0);
        self.insert(id, object, written);
    }

    /// Removes an object; `of_file`: the description has it.
    pub fn remove(&mut self, id: &ObjectId, of_file: bool) {
        self.added.remove(id);
        self.written.remove(id);
        self.waiting.retain(|(_, waits, _)| waits != id);
        self.down.remove(id);
        self.up.remove(id);
        if of_file {
            self.removed.insert(id.clone());
        }
    }

    /// What was added does not fit. While something else waits that it may need, it waits too; otherwise it is removed.
    pub fn set_aside(&mut self, id: &ObjectId) {
        let written = self.written.remove(id).filter(|_| !self.waiting.is_empty());
        let Some((order, written)) = written else { return self.remove(id, false) };
        self.added.remove(id);
        self.waiting.push((order, id.clone(), written));
    }

    /// What was added and cannot be now, by its name or its ends as they were written.
    pub fn find_waiting(&self, wanted: &str) -> Option<&ObjectId> {
        let plain = |text: &str| text.split_whitespace().collect::<String>();
        let named = |id: &ObjectId, written: &Written| {
            let (ObjectId::Link(name, _) | ObjectId::Circuit(name)) = id else { return false };
            let (ObjectId::Link(ends, _) | ObjectId::Circuit(ends)) = written.id() else { return false };
            [name, &ends].into_iter().any(|name| plain(name) == plain(wanted))
        };
        self.waiting.iter().find(|(_, id, written)| named(id, written)).map(|(_, id, _)| id)
    }

    /// Whether an object waits.
    pub fn waits(&self, id: &ObjectId) -> bool {
        self.waiting.iter().any(|(_, waits, _)| waits == id)
    }

    /// Takes a link down, or up again.
    pub fn set_up(&mut self, id: &ObjectId, up: bool) {
        let (to, from) = if up { (&mut self.up, &mut self.down) } else { (&mut self.down, &mut self.up) };
        from.remove(id);
        to.insert(id.clone());
    }

    /// What a description says itself was asked for by no command: links up or down, and what is not there anyway.
    pub fn settle(&mut self, file: &Objects) {
        let is_up = |id: &ObjectId| match (self.written.get(id), file.get(id).map(|object| &object.spec)) {
            (Some((_, Written::Link(link))), _) => link.enabled,
            (_, Some(Spec::Link(link))) => link.enabled,
            _ => true,
        };
        let known = |id: &ObjectId| file.contains_key(id) || self.added.contains_key(id) || self.waits(id);
        let (down, up) = (&self.down, &self.up);
        let down = down.iter().filter(|id| is_up(id) && known(id)).cloned().collect();
        let up = up.iter().filter(|id| !is_up(id) && known(id)).cloned().collect();
        (self.down, self.up) = (down, up);
        self.removed.retain(|id| file.contains_key(id));
    }

    /// A description takes over what it has itself: once it has that no more, the object is gone. What was removed, and
    /// added in another form, stays in that form.
    pub fn yield_to(&mut self, file: &Objects) {
        // What was removed and added as it was is the description's.
        let same = |id: &&ObjectId| match (self.added.get(*id), file.get(*id)) {
            (Some(added), Some(own)) => added.spec == own.spec,
            _ => false,
        };
        let again: Vec<ObjectId> = self.removed.iter().filter(same).cloned().collect();
        self.removed.retain(|id| !again.contains(id));
        let removed = &self.removed;
        let stays = |id: &ObjectId| !file.contains_key(id) || removed.contains(id);
        self.added.retain(|id, _| stays(id));
        self.written.retain(|id, _| stays(id));
        self.waiting.retain(|(_, id, _)| stays(id));
    }

    /// What a state folder is to keep.
    pub fn kept(&self) -> Kept {
        let waiting = self.waiting.iter().map(|(order, id, written)| (*order, id, written));
        let mut added: Vec<(u64, &ObjectId, &Written)> =
            self.written.iter().map(|(id, (order, written))| (*order, id, written)).chain(waiting).collect();
        added.sort_by_key(|(order, ..)| *order);
        Kept {
            ids: added.iter().map(|(_, id, _)| (*id).clone()).collect(),
            added: added.into_iter().map(|(_, _, written)| written.clone()).collect(),
            removed: self.removed.iter().cloned().collect(),
            down: self.down.iter().cloned().collect(),
            up: self.up.iter().cloned().collect(),
            names: self.names.clone(),
        }
    }

    /// What was kept, again. What was added waits until it is taken up.
    pub fn restore(kept: Kept) -> Self {
        let mut commands = Commands { removed: kept.removed.into_iter().collect(), ..Self::default() };
        commands.down = kept.down.into_iter().collect();
        commands.up = kept.up.into_iter().collect();
        commands.names = kept.names;
        let mut ids = kept.ids.into_iter();
        for written in kept.added {
            let id = ids.next().unwrap_or_else(|| written.id());
            commands.waiting.push((FIRST_ORDER + commands.order, id, written));
            commands.order += 1;
        }
        commands
    }

    /// Links that wait.
    pub fn waiting_links(&self) -> Waiting {
        let links = self.waiting.iter().filter_map(|(order, _, written)| match written {
            Written::Link(link) => Some((*order, (**link).clone())),
            Written::Circuit(_) => None,
        });
        links.collect()
    }

    /// Adds what waits, as far as it can be understood; says what cannot, and goes on waiting. `links`: what those that
    /// wait mean.
    pub fn take_up(&mut self, file: &Objects, links: &Understood) -> Vec<String> {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|(order, ..)| *order);
        let mut wrong = Vec::new();
        let mut still = Vec::new();
        for (order, id, written) in waiting {
            let place = (order, id.clone());
            if let Err(e) = self.add_written(written.clone(), place, file, links) {
                wrong.push(format!("{id}: {e:#}"));
                still.push((order, id, written));
            }
        }
        self.waiting = still;
        wrong
    }

    /// The link that another one follows, by its ends as they are written.
    fn followed(&self, file: &Objects, ends: &str) -> Option<ObjectId> {
        find_by_ends(file, ends).or_else(|| find_by_ends(&self.added, ends))
    }

    fn add_written(
        &mut self,
        written: Written,
        (order, called): (u64, ObjectId),
        file: &Objects,
        links: &Understood,
    ) -> Result<()> {
        match &written {
            Written::Circuit(circuit) => {
                let description = circuit.describe()?;
                self.add(ObjectId::circuit(&description), Spec::Circuit(description), Some(written));
            }
            Written::Link(link) => {
                let (mut description, shell) = links.meaning(order, link).map_err(Error::msg)?;
                for end in &description.ends {
                    let id = ObjectId::Station(end.station.clone());
                    if shell.is_some() && !file.contains_key(&id) && !self.added.contains_key(&id) {
                        self.add(id, Spec::Outside, None);
                    }
                }
                let shell = config::far_end(guests(file), &mut description, shell)?;
                let taken = |id: &ObjectId| file.contains_key(id) || self.added.contains_key(id);
                let alike = (0..).map(|nth| ObjectId::link(&description, nth));
                let id = std::iter::once(called).chain(alike).find(|id| !taken(id));
                let Some(id) = id else { return Ok(()) };
                let (enabled, signalling) = (link.enabled, link.signalling.clone());
                let follows = link.follows.as_deref().and_then(|other| self.followed(file, other));
                let spec = LinkSpec { description, shell, follows, enabled, signalling };
                self.add(id, Spec::Link(Box::new(spec)), Some(written));
            }
        }
        Ok(())
    }
}

impl Written {
    fn renamed(&self, from: &str, to: &str) -> Self {
        let mut written = self.clone();
        match &mut written {
            Written::Circuit(circuit) => circuit.rename(from, to),
            Written::Link(link) => link.rename(from, to),
        }
        written
    }
}

impl Commands {
    /// The same with another name of a station of the description.
    #[must_use]
    pub fn renamed(&self, from: &str, to: &str) -> Self {
        let ids = |ids: &BTreeSet<ObjectId>| ids.iter().map(|id| id.renamed(from, to)).collect();
        let mut names = self.names.clone();
        names.values_mut().filter(|name| *name == from).for_each(|name| to.clone_into(name));
        if !self.names.values().any(|name| name == from) {
            names.insert(from.to_owned(), to.to_owned());
        }
        names.retain(|former, name| former != name);
        let written = |(order, written): &(u64, Written)| (*order, written.renamed(from, to));
        Commands {
            added: self.added.iter().map(|(id, object)| (id.renamed(from, to), object.renamed(from, to))).collect(),
            written: self.written.iter().map(|(id, own)| (id.renamed(from, to), written(own))).collect(),
            waiting: self
                .waiting
                .iter()
                .map(|(order, id, written)| (*order, id.renamed(from, to), written.renamed(from, to)))
                .collect(),
            removed: ids(&self.removed),
            down: ids(&self.down),
            up: ids(&self.up),
            names,
            order: self.order,
        }
    }

    /// Names of stations in the description, with those that commands gave them.
    pub fn names(&self) -> BTreeMap<String, String> {
        self.names.clone()
    }

    /// No more than the names that these have.
    #[must_use]
    pub fn names_alone(&self) -> Self {
        Commands { names: self.names.clone(), ..Commands::default() }
    }

    /// A name in the description is that of its station again.
    pub fn forget_name(&mut self, from: &str) {
        self.names.remove(from);
    }
}

/// The first link of `objects` that has these ends, as they are written.
pub fn find_by_ends<'a>(objects: impl IntoIterator<Item = (&'a ObjectId, &'a Object)>, ends: &str) -> Option<ObjectId> {
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    let mut links = objects.into_iter().map(|(id, _)| id);
    links.find(|id| matches!(id, ObjectId::Link(name, _) if plain(name) == plain(ends))).cloned()
}

/// The virtual adapters and interfaces of a description, each with its name in the network.
fn guests(file: &Objects) -> impl Iterator<Item = (&str, &Shell)> {
    let is_outside =
        |name: &str| file.get(&ObjectId::Station(name.to_owned())).is_some_and(|object| object.spec == Spec::Outside);
    file.values().filter_map(move |object| match &object.spec {
        Spec::Link(link) => {
            let ends = link.description.ends.each_ref().map(|end| end.station.as_str());
            config::guest_of(link.shell.as_ref()?, ends, is_outside)
        }
        _ => None,
    })
}
