//! What should be and what is, without an engine: the desired state by source, and the plan of each change, tried on a
//! model.
//!
//! In: wishes (a description, commands, peers). Out: a [`Prepared`] change, whose plan somebody carries out. Then it is
//! kept ([`Intent::commit`]) or given up ([`Intent::abandon`]). One change is under way at a time.

mod joining;
mod renaming;
mod trials;

use crate::asking::Asking;
use crate::config::{self, Config, Shell};
use crate::deviations::{Deviation, deviations};
use crate::history::History;
use crate::objects::{Change, LinkSpec, Object, ObjectId, Objects, Owner, Spec, difference};
use crate::once::Book;
pub use crate::outcome::ChangeOutcome;
use crate::plan::{Impossible, Plan, Problem, gives_way, roll_back};
use crate::sources::commands::{Commands, Written};
use crate::sources::peers::{PeerCircuits, Peers};
use crate::sources::waiting::{Understood, Waiting};
use crate::sources::{self, file};
use crate::state::stored::Stored;
use crate::state_writer::StateWriter;
use crate::step::{Model, Step};
use crate::trial::{Trial, TrialState};
use anyhow::{Result, anyhow, bail};
use net::PeerCircuit;
use net::topology::CircuitEnd;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Numbers of changes that are set apart in the state together: a change of a peer's is written to no disk.
const REVISIONS_AHEAD: u64 = 1024;

/// A change whose plan is in order: the model is what the network will be.
pub struct Prepared {
    verb: &'static str,
    changes: Vec<Change>,
    plan: Plan,
    undo: Vec<Step>,
    unchanged_circuits: usize,
    dropped: Vec<ObjectId>,
    next: Next,
    /// Whether the description is on trial once it is applied.
    trial: TrialState,
}

/// What the sources want once a change is done.
enum Next {
    Description {
        config: Box<Config>,
        file: Objects,
        commands: Commands,
    },
    Added(Vec<(ObjectId, Object, Option<Written>)>),
    /// A circuit in the place of those that it is made of.
    Joined(Vec<ObjectId>, (ObjectId, Object, Option<Written>)),
    Removed(Vec<ObjectId>),
    Up(ObjectId, bool),
    /// What a peer wants is known already.
    Peer(ObjectId),
    /// All that there is has another name of a station in it.
    Renamed {
        config: Box<Config>,
        file: Objects,
        commands: Commands,
        applied: Objects,
        names: [String; 2],
    },
}

impl Prepared {
    /// The steps that are to be carried out. They are given once.
    pub fn work(&mut self) -> Plan {
        Plan {
            steps: std::mem::take(&mut self.plan.steps),
            subjects: std::mem::take(&mut self.plan.subjects),
            ..Plan::default()
        }
    }

    /// What is to be that is not so, by name.
    pub fn wanted(&self) -> impl Iterator<Item = (&ObjectId, &Spec)> {
        self.changes.iter().filter_map(|change| Some((&change.id, &change.wanted.as_ref()?.spec)))
    }

    /// The description is to be on trial.
    pub fn put_on_trial(&mut self, trial: Trial) {
        self.trial = TrialState::Pending(Box::new(trial));
    }

    /// The trial that is to begin.
    pub fn trial(&self) -> Option<&Trial> {
        self.trial.pending()
    }

    /// What becomes of objects that do not stay as they are.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    fn outcome(&mut self, revision: u64) -> ChangeOutcome {
        ChangeOutcome {
            revision,
            summary: self.plan.summary(),
            lines: std::mem::take(&mut self.plan.lines),
            unchanged_circuits: self.unchanged_circuits,
            interrupted: std::mem::take(&mut self.plan.interrupted),
            dropped: self.dropped.iter().map(ToString::to_string).collect(),
            confirm_within: self.trial().map(|trial| trial.within),
            ..ChangeOutcome::default()
        }
    }
}

/// See the module's head.
#[derive(Default)]
pub struct Intent {
    /// The description that was read last.
    config: Arc<Config>,
    file: Objects,
    commands: Commands,
    peers: Peers,
    /// What is: each object as it was made.
    applied: Objects,
    model: Model,
    revision: u64,
    /// No change has a higher number, as far as the state says.
    reserved: u64,
    state_writer: Arc<StateWriter>,
    /// What the state folder had has been taken up.
    restored: bool,
    /// The last changes.
    history: History,
    /// Answers to changes that were asked for under an id.
    book: Arc<Book>,
    /// Whether the description is on trial.
    trial: TrialState,
}

impl Intent {
    /// For an empty network. `state_writer`: stores command-made objects for restart.
    pub fn new(state_writer: Arc<StateWriter>) -> Self {
        let before = state_writer.before();
        let (revision, book) = before.map_or((0, Arc::default()), |kept| (kept.revision, Book::of(&kept.answered)));
        Intent { state_writer, revision, reserved: revision, book, ..Intent::default() }
    }

    /// The description that was read last.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The same, to be kept.
    pub fn shared_config(&self) -> Arc<Config> {
        self.config.clone()
    }

    /// What is: each object as it was made.
    pub fn applied(&self) -> &Objects {
        &self.applied
    }

    /// The stations of a registered kind, by its section.
    pub fn stations_of(&self, section: &str) -> Vec<String> {
        let all = self.applied.iter().filter_map(|(id, object)| match (id, &object.spec) {
            (ObjectId::Station(name), Spec::OfKind(layout)) if layout.section() == section => Some(name.clone()),
            _ => None,
        });
        all.collect()
    }

    /// Ways, labels and rates of what is.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The number of the last change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// What commands want beside the description.
    pub fn commands(&self) -> &Commands {
        &self.commands
    }

    /// The far end of a link has ended: it counts as none, so that the next description makes it again.
    pub fn forget_shell(&mut self, link: &ObjectId) {
        if let Some(Object { spec: Spec::Link(link), .. }) = self.applied.get_mut(link) {
            link.shell = None;
        }
    }

    /// Links of commands that wait for the next description.
    pub fn waiting_links(&self) -> Waiting {
        match self.state_writer.before().filter(|_| !self.restored) {
            Some(kept) => Commands::restore(kept.commands.clone()).waiting_links(),
            None => self.commands.waiting_links(),
        }
    }

    /// Refuses a description that is empty, as one is that an editor has emptied to write it anew, or has no station of
    /// the one before.
    ///
    /// # Errors
    /// It is such a one.
    pub fn refuse_empty(&self, wanted: &Config) -> Result<()> {
        let (had, has) = (&self.config.description.stations, &wanted.description.stations);
        let what = match had.keys().any(|name| has.contains_key(name)) {
            _ if wanted.source.is_blank() => "is empty".to_owned(),
            false if !had.is_empty() => format!("has none of the {} stations that there are", had.len()),
            _ => return Ok(()),
        };
        bail!("{} {what}: to remove them all the same, use `cellway apply --allow-empty`", wanted.source.name)
    }

    /// Another description, with what commands and peers have added as far as it fits. `links`: what those that wait
    /// mean.
    ///
    /// # Errors
    /// All that cannot be.
    pub fn prepare_description(&mut self, wanted: Config, links: &Understood) -> Result<Prepared, Impossible> {
        let mut commands = self.commands.clone();
        // A restart: what commands had added and removed is so again.
        if let Some(kept) = self.state_writer.before().filter(|_| !self.restored) {
            commands = Commands::restore(kept.commands.clone());
        }
        let wanted = Self::with_names(wanted, &mut commands);
        let file = file::objects(&wanted);
        for wrong in commands.take_up(&file, links) {
            tracing::warn!("not restored, and tried again when a description is read: {wrong}");
        }
        commands.yield_to(&file);
        commands.settle(&file);
        let mut unfit = misfits(&wanted, &file, &commands);
        unfit.iter().for_each(|id| commands.set_aside(id));
        let mut reconciled = self.reconcile(&file, &commands);
        if reconciled.is_err() && commands.removed().next().is_some() {
            // The description may be another one than that from which commands removed something.
            for id in self.needed_again(&file, &commands)? {
                tracing::warn!("{id} is there again, though a command removed it: the description needs it");
                commands.bring_back(&id);
            }
            // What commands added in its place may not fit beside it.
            let more = misfits(&wanted, &file, &commands);
            more.iter().for_each(|id| commands.set_aside(id));
            unfit.extend(more);
            reconciled = self.reconcile(&file, &commands);
        }
        let (mut prepared, mut dropped) = reconciled?;
        dropped.iter().for_each(|id| commands.set_aside(id));
        dropped.splice(0..0, unfit);
        prepared.dropped = dropped;
        if !self.restored {
            // A start with the description before one that nobody has confirmed.
            prepared.trial = self.trial.clone();
        }
        prepared.next = Next::Description { config: Box::new(wanted), file, commands };
        Ok(prepared)
    }

    /// A description alone: what commands have added, removed, taken down or up is forgotten. What peers have opened
    /// stays as far as it fits.
    ///
    /// # Errors
    /// All that cannot be.
    pub fn prepare_exactly(&mut self, wanted: Config) -> Result<Prepared, Impossible> {
        let mut commands = self.commands.names_alone();
        let wanted = Self::with_names(wanted, &mut commands);
        let file = file::objects(&wanted);
        let waiting: Vec<ObjectId> = self.commands.waiting().cloned().collect();
        let (mut prepared, dropped) = self.reconcile(&file, &commands)?;
        prepared.dropped = waiting.into_iter().chain(dropped).collect();
        prepared.next = Next::Description { config: Box::new(wanted), file, commands };
        Ok(prepared)
    }

    /// What commands have made of the description that was read last.
    pub fn deviations(&self) -> Vec<Deviation> {
        deviations(&self.commands, &self.file, |id| self.link_name(id))
    }

    /// One object more, by command. `outside`: a name for what is at its far end.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn prepare_added(
        &mut self,
        spec: Spec,
        outside: Option<String>,
        written: Option<Written>,
    ) -> Result<(ObjectId, Prepared)> {
        if let (Spec::Circuit(_), Some(Written::Circuit(circuit))) = (&spec, &written) {
            let (circuit, parts) = self.joined(circuit)?;
            let spec = Spec::Circuit(circuit.describe()?);
            return self.prepare_circuit(spec, Some(Written::Circuit(Box::new(circuit))), parts);
        }
        let id = match &spec {
            Spec::Circuit(circuit) => ObjectId::circuit(circuit),
            Spec::Link(link) => {
                let mut taken = signalling_stations(&self.file, &self.commands);
                let others = links_of(&self.commands).into_iter().filter(|(_, other)| other.signalling.is_some());
                taken.extend(others.flat_map(|(_, other)| &other.description.ends).map(|end| end.station.clone()));
                let LinkSpec { description, shell, signalling, .. } = &**link;
                config::added(&self.config, description, shell.as_ref(), signalling.as_ref(), &mut taken)?;
                let ids = (0..).map(|nth| ObjectId::link(&link.description, nth));
                let free = ids.into_iter().find(|id| !self.applied.contains_key(id) && !self.file.contains_key(id));
                free.ok_or_else(|| anyhow!("too many links of these ends"))?
            }
            _ => bail!("only links and circuits are added by command"),
        };
        if self.applied.contains_key(&id) {
            bail!("{id} exists already");
        }
        let mut added = Vec::new();
        if let Some(name) = outside {
            let id = ObjectId::Station(name);
            if !self.applied.contains_key(&id) {
                added.push((id, self.commands.object(Spec::Outside, 0), None));
            }
        }
        added.push((id.clone(), self.commands.object(spec, added.len()), written));
        let wanted = |(id, object, _): &(ObjectId, Object, _)| Change { id: id.clone(), wanted: Some(object.clone()) };
        let changes = added.iter().map(wanted).collect();
        let prepared = self.check(changes).map_err(Impossible)?;
        Ok((id, Prepared { verb: "add", next: Next::Added(added), ..prepared }))
    }

    /// Objects less, by command; with links, the circuits over them. Gives all that goes.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn prepare_removed(&mut self, id: &ObjectId) -> Result<(Vec<ObjectId>, Prepared)> {
        let mut ids = vec![id.clone()];
        if self.commands.waits(id) {
            let prepared = self.check(Vec::new()).map_err(Impossible)?;
            return Ok((ids.clone(), Prepared { verb: "remove", next: Next::Removed(ids), ..prepared }));
        }
        if let ObjectId::Link(..) = id {
            let key = self.model.link(id)?;
            ids.extend(self.model.router.circuits_over(key).into_iter().map(ObjectId::circuit));
            // What was named by this link alone goes with it.
            if let Some(Object { spec: Spec::Link(link), .. }) = self.applied.get(id) {
                let ends = link.description.ends.iter().map(|end| ObjectId::Station(end.station.clone()));
                let of_command = |station: &ObjectId| {
                    self.applied.get(station).is_some_and(|o| o.owner == Owner::Command && o.spec == Spec::Outside)
                };
                ids.extend(ends.filter(of_command));
            }
        }
        let changes = ids.iter().map(|id| Change { id: id.clone(), wanted: None }).collect();
        let prepared = self.check(changes).map_err(Impossible)?;
        let next = Next::Removed(ids.clone());
        Ok((ids, Prepared { verb: "remove", next, ..prepared }))
    }

    /// A link down, or up again, by command.
    ///
    /// # Errors
    /// There is no such link.
    pub fn prepare_up(&mut self, id: &ObjectId, up: bool) -> Result<Prepared> {
        let Some(Object { spec: Spec::Link(link), owner, order, .. }) = self.applied.get(id) else {
            bail!("no link `{id}`");
        };
        let link = LinkSpec { enabled: up, ..(**link).clone() };
        let spec = Spec::Link(Box::new(link));
        let object = Object { spec, owner: owner.clone(), revision: 0, order: *order };
        let changes = vec![Change { id: id.clone(), wanted: Some(object) }];
        let prepared = self.check(changes).map_err(Impossible)?;
        let verb = if up { "link up" } else { "link down" };
        Ok(Prepared { verb, next: Next::Up(id.clone(), up), ..prepared })
    }

    /// What a peer has opened or closed; `None` if nothing comes of it.
    pub fn prepare_peer(&mut self, link: &str, peer: &PeerCircuits, event: &PeerCircuit) -> Option<Result<Prepared>> {
        let change = match self.peers.handle(link, peer, event) {
            Ok(change) => change?,
            Err(too_many) => return Some(Err(too_many.into())),
        };
        // Where the description or a command has the same circuit, the peer's is that one.
        let here = self.applied.get(&change.id);
        if here.is_some_and(|object| !matches!(object.owner, Owner::Peer(_))) {
            return None;
        }
        let id = change.id.clone();
        Some(match self.check(vec![change]) {
            Ok(prepared) => Ok(Prepared { verb: "peer", next: Next::Peer(id), ..prepared }),
            Err(problems) => {
                self.peers.forget(&id);
                Err(Impossible(problems).into())
            }
        })
    }

    /// The links whose peers' circuits lead somewhere: object, name, and where. Others' peers want nothing any more.
    pub fn peer_circuits(&mut self) -> Vec<(ObjectId, String, PeerCircuits)> {
        let links = self.applied.range(ObjectId::Link(String::new(), 0)..);
        let peer_circuits: Vec<(ObjectId, String, PeerCircuits)> = links
            .take_while(|(id, _)| matches!(id, ObjectId::Link(..)))
            .filter_map(|(id, object)| {
                let Spec::Link(link) = &object.spec else { return None };
                let Some(Shell::AtmTcp { peer_circuits_to: Some(host), .. }) = &link.shell else { return None };
                let is_outside = |name: &str| self.model.router.station(name) == Some(net::topology::Station::Outside);
                let outside = link.description.ends.iter().find(|end| is_outside(&end.station))?;
                let peer = PeerCircuits { outside: outside.station.clone(), host: host.clone() };
                Some((id.clone(), self.link_name(id), peer))
            })
            .collect();
        self.peers.keep_links(|link| peer_circuits.iter().any(|(_, name, _)| name == link));
        peer_circuits
    }

    /// A change has been carried out.
    pub fn commit<'a>(&mut self, mut prepared: Prepared, asking: impl Into<Asking<'a>>) -> ChangeOutcome {
        let asking = asking.into();
        let changes = !prepared.changes.is_empty() || matches!(prepared.next, Next::Renamed { .. });
        self.revision += u64::from(changes);
        let (kept, (subject, removed_circuits)) = (self.deviations_after(&prepared), self.subject_of(&prepared.next));
        let outcome = ChangeOutcome { kept, subject, removed_circuits, ..prepared.outcome(self.revision) };
        for Change { id, wanted } in prepared.changes {
            match wanted {
                Some(object) => self.applied.insert(id, Object { revision: self.revision, ..object }),
                None => self.applied.remove(&id),
            };
        }
        let mut of_commands = true;
        match prepared.next {
            Next::Description { config, file, commands } => {
                prepared.dropped.iter().for_each(|id| self.peers.forget(id));
                (self.config, self.file, self.commands) = (config.into(), file, commands);
                (self.restored, self.trial) = (true, prepared.trial);
            }
            Next::Added(added) => {
                added.into_iter().for_each(|(id, object, written)| self.commands.insert(id, object, written));
            }
            Next::Joined(parts, (id, object, written)) => {
                parts.iter().for_each(|part| self.commands.remove(part, self.file.contains_key(part)));
                self.commands.insert(id, object, written);
            }
            Next::Removed(ids) => {
                for id in &ids {
                    self.commands.remove(id, self.file.contains_key(id));
                    self.peers.forget(id);
                }
            }
            Next::Up(id, up) => {
                self.commands.set_up(&id, up);
                self.commands.settle(&self.file);
            }
            Next::Peer(_) => of_commands = false,
            Next::Renamed { config, file, commands, applied, names: [from, to] } => {
                (self.config, self.file, self.commands, self.applied) = (config.into(), file, commands, applied);
                self.peers.rename(&from, &to);
            }
        }
        if changes {
            self.history.note(asking.who, prepared.verb, outcome.revision, &outcome.lines);
        }
        // Before the state is made: it has the answer with what it answers for.
        asking.settle(&outcome);
        let keeps = self.reserve() || of_commands;
        let state = || keeps.then(|| self.stored());
        self.state_writer.record(state, asking.who, prepared.verb, outcome.revision, &outcome.lines);
        outcome
    }

    /// Sets numbers apart where few are left; says whether it did.
    fn reserve(&mut self) -> bool {
        let few = self.revision + REVISIONS_AHEAD / 2 > self.reserved;
        if few {
            self.reserved = self.revision + REVISIONS_AHEAD;
        }
        few
    }

    /// What is kept for a restart: of a description on trial, what was before.
    fn stored(&self) -> Stored {
        let commands = self.trial.pending().map_or(&self.commands, |trial| &trial.commands).kept();
        Stored { revision: self.reserved, commands, answered: self.book.kept(), trial: self.trial.record().cloned() }
    }

    /// What a command named, in output, and the circuits that go with it.
    fn subject_of(&self, next: &Next) -> (String, Vec<String>) {
        let named = |id: &ObjectId| match id {
            ObjectId::Link(..) => self.link_name(id),
            ObjectId::Circuit(name) | ObjectId::Station(name) => name.clone(),
        };
        match next {
            Next::Added(added) => (added.last().map(|(id, ..)| named(id)).unwrap_or_default(), Vec::new()),
            Next::Joined(_, (id, ..)) | Next::Up(id, _) => (named(id), Vec::new()),
            Next::Removed(ids) => {
                let circuits = ids.iter().filter_map(|id| match id {
                    ObjectId::Circuit(name) => Some(name.clone()),
                    _ => None,
                });
                (ids.first().map(named).unwrap_or_default(), circuits.collect())
            }
            Next::Description { .. } | Next::Peer(_) | Next::Renamed { .. } => Default::default(),
        }
    }

    /// A change is not to be, or could not be carried out: all is as it was. Gives what it would have been.
    pub fn abandon(&mut self, mut prepared: Prepared) -> ChangeOutcome {
        if let Next::Peer(id) = &prepared.next {
            self.peers.forget(id);
        }
        if prepared.trial().is_some() {
            // The state may have it already.
            self.state_writer.keep(|| self.stored());
        }
        // Names of links are those that the model has once the change is done.
        let kept = self.deviations_after(&prepared);
        roll_back(&mut self.model, std::mem::take(&mut prepared.undo));
        ChangeOutcome { kept, ..prepared.outcome(self.revision) }
    }

    /// What commands will have made of a description that is about to be.
    fn deviations_after(&self, prepared: &Prepared) -> Vec<Deviation> {
        match &prepared.next {
            Next::Description { file, commands, .. } => deviations(commands, file, |id| self.link_name(id)),
            _ => Vec::new(),
        }
    }

    /// The object of a link's name, or of its ends as they were written. Some of commands may wait until they can be.
    pub fn find_link(&self, name: &str) -> Option<&ObjectId> {
        let there = self.model.router.find_link(name).and_then(|key| self.model.find_link(key));
        there.or_else(|| self.commands.find_waiting(name).filter(|id| matches!(id, ObjectId::Link(..))))
    }

    /// The circuit of these ends, which may wait as links do.
    pub fn find_circuit(&self, ends: &[CircuitEnd]) -> Option<ObjectId> {
        let ends = &*self.settled_ends(ends);
        if let Some(placed) = self.model.router.find_circuit(ends.first()?) {
            return (placed.description.ends == ends).then(|| ObjectId::circuit(&placed.description));
        }
        let name = ends.iter().map(ToString::to_string).collect::<Vec<_>>().join(" - ");
        self.commands.find_waiting(&name).filter(|id| matches!(id, ObjectId::Circuit(_))).cloned()
    }

    /// A link's name in output.
    pub fn link_name(&self, id: &ObjectId) -> String {
        let name = self.model.link(id).ok().and_then(|key| self.model.router.link_name(key));
        name.unwrap_or_else(|| id.to_string())
    }

    /// Plans some changes and tries them on the model, which is then what the network will be.
    fn check(&mut self, changes: Vec<Change>) -> Result<Prepared, Vec<Problem>> {
        let circuits_before = self.model.router.circuit_count();
        let mut plan = Plan::new(&self.applied, &changes, &self.model);
        let undo = plan.check(&mut self.model)?;
        let unchanged_circuits = circuits_before.saturating_sub(plan.interrupted.len());
        let (verb, dropped, next) = ("apply", Vec::new(), Next::Added(Vec::new()));
        Ok(Prepared { verb, changes, plan, undo, unchanged_circuits, dropped, next, trial: TrialState::None })
    }

    /// What the network is to be with another description: with the additions of commands and peers that fit; and those
    /// that do not.
    fn reconcile(&mut self, file: &Objects, commands: &Commands) -> Result<(Prepared, Vec<ObjectId>), Impossible> {
        let mut candidate = sources::wanted(file, commands, self.peers.objects());
        let mut dropped = doubly_linked(&candidate);
        dropped.iter().for_each(|id| drop(candidate.remove(id)));
        let problems = match self.check(difference(&self.applied, &candidate)) {
            Ok(prepared) => return Ok((prepared, dropped)),
            Err(problems) => problems,
        };
        let mut additions: Vec<(ObjectId, Object)> = Vec::new();
        candidate.retain(|id, object| {
            let stays = !gives_way(&object.owner);
            if !stays {
                additions.push((id.clone(), object.clone()));
            }
            stays
        });
        if additions.is_empty() {
            return Err(Impossible(problems));
        }
        additions.sort_by_key(|(_, object)| object.order);
        // The description alone; then each addition, as far as it fits.
        let mut plan = Plan::new(&self.applied, &difference(&self.applied, &candidate), &self.model);
        let mut undo = plan.check(&mut self.model).map_err(Impossible)?;
        for (id, object) in additions {
            let change = Change { id: id.clone(), wanted: Some(object.clone()) };
            let mut plan = Plan::new(&candidate, std::slice::from_ref(&change), &self.model);
            match plan.check(&mut self.model) {
                Ok(steps) => {
                    undo.extend(steps);
                    candidate.insert(id, object);
                }
                Err(_) => dropped.push(id),
            }
        }
        roll_back(&mut self.model, undo);
        let prepared = self.check(difference(&self.applied, &candidate)).map_err(Impossible)?;
        Ok((prepared, dropped))
    }
}

impl Intent {
    /// What commands removed and the description cannot do without.
    fn needed_again(&mut self, file: &Objects, commands: &Commands) -> Result<Vec<ObjectId>, Impossible> {
        let mut candidate = file.clone();
        let mut plan = Plan::new(&self.applied, &difference(&self.applied, &candidate), &self.model);
        let mut undo = plan.check(&mut self.model).map_err(Impossible)?;
        // Circuits before the links that they go over.
        let mut removed: Vec<&ObjectId> = commands.removed().filter(|id| file.contains_key(id)).collect();
        removed.sort_by_key(|id| !matches!(id, ObjectId::Circuit(_)));
        let mut needed = Vec::new();
        for id in removed {
            let change = Change { id: id.clone(), wanted: None };
            let mut plan = Plan::new(&candidate, std::slice::from_ref(&change), &self.model);
            match plan.check(&mut self.model) {
                Ok(steps) => {
                    undo.extend(steps);
                    candidate.remove(id);
                }
                Err(_) => needed.push(id.clone()),
            }
        }
        roll_back(&mut self.model, undo);
        Ok(needed)
    }
}

/// Links of commands, in their order.
fn links_of(commands: &Commands) -> Vec<(&ObjectId, &LinkSpec)> {
    let mut links: Vec<(u64, &ObjectId, &LinkSpec)> = commands
        .added()
        .filter_map(|(id, object)| match &object.spec {
            Spec::Link(link) => Some((object.order, id, &**link)),
            _ => None,
        })
        .collect();
    links.sort_by_key(|(order, ..)| *order);
    links.into_iter().map(|(_, id, link)| (id, link)).collect()
}

/// The stations at a description's links with signalling, without the links that commands removed.
fn signalling_stations(file: &Objects, commands: &Commands) -> BTreeSet<String> {
    let stay = file.iter().filter(|(id, _)| !commands.is_removed(id));
    let links = stay.filter_map(|(_, object)| match &object.spec {
        Spec::Link(link) if link.signalling.is_some() => Some(link),
        _ => None,
    });
    links.flat_map(|link| &link.description.ends).map(|end| end.station.clone()).collect()
}

/// Links of commands that do not fit a description: what calls go by is of all links together.
fn misfits(wanted: &Config, file: &Objects, commands: &Commands) -> Vec<ObjectId> {
    let mut taken = signalling_stations(file, commands);
    let mut fits = |link: &LinkSpec| {
        config::added(wanted, &link.description, link.shell.as_ref(), link.signalling.as_ref(), &mut taken).is_ok()
    };
    links_of(commands).into_iter().filter(|(_, link)| !fits(link)).map(|(id, _)| id.clone()).collect()
}

/// Links of commands and peers to something outside that has a link of the description's: it has one only.
fn doubly_linked(candidate: &Objects) -> Vec<ObjectId> {
    let links = |owned: fn(&Owner) -> bool| {
        candidate.iter().filter(move |(_, object)| owned(&object.owner)).filter_map(|(id, object)| match &object.spec {
            Spec::Link(link) => Some((id, link.description.ends.each_ref().map(|end| &end.station))),
            _ => None,
        })
    };
    let outside = |name: &String| {
        candidate.get(&ObjectId::Station(name.clone())).is_some_and(|object| object.spec == Spec::Outside)
    };
    let of_file: BTreeSet<&String> =
        links(|owner| *owner == Owner::File).flat_map(|(_, ends)| ends).filter(|name| outside(name)).collect();
    let taken = |ends: [&String; 2]| ends.iter().any(|name| of_file.contains(name));
    links(gives_way).filter(|(_, ends)| taken(*ends)).map(|(id, _)| id.clone()).collect()
}
