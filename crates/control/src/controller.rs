//! Who keeps a network as it should be: it holds the desired state, plans each change, has the plan checked on a model, and
//! carries it out in slices between rounds of the engine.

use crate::adapters::Adapters;
use crate::audit::{Audit, Who};
use crate::config::{Config, Shell};
use crate::execution::{Execution, Progress};
use crate::live::{Links, Live};
use crate::objects::{Change, Object, ObjectId, Objects, Owner, Spec, difference};
use crate::plan::{Impossible, Line, Plan, Problem, Summary, gives_way, roll_back};
use crate::shells;
use crate::sources::commands::{Commands, Written};
use crate::sources::peers::{Peers, Real};
use crate::sources::{self, file};
use crate::state::StateFolder;
use crate::step::{Model, Step};
use anyhow::{Context as _, Result, anyhow, bail};
use host::engine::EngineHandle;
use net::LinkId;
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Processor time of the engine's thread that one slice of a plan takes, beyond the step that it has begun.
pub const SLICE: Duration = Duration::from_micros(250);

/// What the controller knows; only its lock's holder changes the network.
struct State {
    /// The description that was read last.
    config: Config,
    file: Objects,
    commands: Commands,
    peers: Peers,
    /// What is: each object as it was made.
    applied: Objects,
    model: Model,
    revision: u64,
    store: Option<StateFolder>,
    audit: Audit,
}

/// What a change came to.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The change's number; without a change, the last one's.
    pub revision: u64,
    /// What was, or would be, done.
    pub lines: Vec<Line>,
    /// The same as numbers.
    pub summary: Summary,
    /// Circuits that stay as they were.
    pub unchanged_circuits: usize,
    /// Circuits that were, or would be, interrupted.
    pub interrupted: Vec<String>,
    /// Objects of commands and peers that do not fit any more.
    pub dropped: Vec<String>,
}

/// Keeps a network as it should be.
pub struct Controller {
    engine: EngineHandle,
    adapters: Arc<Adapters>,
    links: Arc<Mutex<Links>>,
    state: Mutex<State>,
}

impl Controller {
    /// Of an empty network.
    pub fn new(engine: EngineHandle, store: Option<StateFolder>) -> Self {
        let state = State {
            config: Config::default(),
            file: Objects::new(),
            commands: Commands::default(),
            peers: Peers::default(),
            applied: Objects::new(),
            model: Model::default(),
            revision: 0,
            store,
            audit: Audit::default(),
        };
        Controller { engine, adapters: Arc::default(), links: Arc::default(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What runs the network.
    pub fn engine(&self) -> &EngineHandle {
        &self.engine
    }

    /// The virtual adapters.
    pub fn adapters(&self) -> &Arc<Adapters> {
        &self.adapters
    }

    /// Something of the description that was read last.
    pub fn with_config<R>(&self, f: impl FnOnce(&Config) -> R) -> R {
        f(&self.state().config)
    }

    /// Where the log of changes is kept from now on.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn keep_audit(&self, path: &std::path::Path) -> Result<()> {
        self.state().audit = Audit::open(path)?;
        Ok(())
    }

    /// The number of the last change.
    pub fn revision(&self) -> u64 {
        self.state().revision
    }

    /// The objects that there are, with owner and revision.
    pub fn objects(&self) -> Vec<(ObjectId, Owner, u64)> {
        self.state().applied.iter().map(|(id, object)| (id.clone(), object.owner.clone(), object.revision)).collect()
    }

    /// Makes the network what a description says, with what commands and peers have added as far as it fits.
    ///
    /// # Errors
    /// All that cannot be; or a step failed, and everything is as it was.
    pub fn apply(&self, wanted: Config, who: &Who, dry_run: bool) -> Result<Outcome> {
        let mut state = self.state();
        let state = &mut *state;
        let placed = state.config.file.engine != wanted.file.engine;
        let file = file::objects(&wanted);
        let mut commands = state.commands.clone();
        if state.revision == 0 {
            // A restart: what commands had added and removed is so again.
            if let Some(store) = &state.store
                && let Some(kept) = store.read()
            {
                let (restored, lost) = Commands::restore(kept, &file);
                lost.iter().for_each(|lost| tracing::warn!("not restored: {lost}"));
                commands = restored;
            }
        } else {
            commands.forget_removed();
        }
        commands.yield_to(&file);
        self.forget_ended(state)?;
        let (candidate, dropped) = state.reconcile(&file, &commands)?;
        let changes = difference(&state.applied, &candidate);
        if placed && !dry_run {
            wanted.file.engine.place(&self.engine)?;
        }
        let carried_out = self.carry_out(state, changes, dry_run);
        if carried_out.is_err() && placed && !dry_run {
            // It was there before, so it can be there again.
            let _ = state.config.file.engine.place(&self.engine);
        }
        let mut outcome = carried_out?;
        if !dry_run {
            self.keep_adapters(&wanted)?;
        }
        outcome.dropped = dropped.iter().map(ToString::to_string).collect();
        if dry_run {
            return Ok(outcome);
        }
        for id in &dropped {
            commands.remove(id, false);
            state.peers.forget(id);
        }
        (state.config, state.file, state.commands) = (wanted, file, commands);
        state.settle(who, "apply", &outcome);
        Ok(outcome)
    }

    /// A far end that has ended, such as an interface whose device was deleted, counts as none: it is made again.
    fn forget_ended(&self, state: &mut State) -> Result<()> {
        let links = self.links.clone();
        let ended = self.engine.with(move |core| {
            let ended: Vec<LinkId> =
                core.network.externals().filter(|(_, shell)| shell.has_ended()).map(|(link, _)| link).collect();
            let links = links.lock().unwrap_or_else(PoisonError::into_inner);
            let of = |id: &LinkId| ended.contains(id);
            links.iter().filter(|(_, id)| of(id)).map(|(link, _)| link.clone()).collect::<Vec<_>>()
        })?;
        for id in ended {
            if let Some(Object { spec: Spec::Link(link), .. }) = state.applied.get_mut(&id) {
                link.shell = None;
            }
        }
        Ok(())
    }

    /// Ends the adapters that the description does not have any more; one whose cable alone was removed stays.
    fn keep_adapters(&self, wanted: &Config) -> Result<()> {
        let names: Vec<String> = wanted.served().map(|served| served.name.clone()).collect();
        let adapters = self.adapters.clone();
        Ok(self.engine.with(move |core| adapters.keep(&mut core.network, |served| names.contains(&served.name)))?)
    }

    /// One object more, by command. `outside`: a name for what is at its far end.
    ///
    /// # Errors
    /// Why it cannot be; everything is as it was.
    pub fn add(
        &self,
        spec: Spec,
        outside: Option<String>,
        written: Option<Written>,
        who: &Who,
    ) -> Result<(ObjectId, Outcome)> {
        let mut state = self.state();
        let state = &mut *state;
        let id = match &spec {
            Spec::Circuit(circuit) => ObjectId::circuit(circuit),
            Spec::Link(link) => {
                let ids = (0..).map(|nth| ObjectId::link(&link.description, nth));
                let free = ids.into_iter().find(|id| !state.applied.contains_key(id) && !state.file.contains_key(id));
                free.ok_or_else(|| anyhow!("too many links of these ends"))?
            }
            _ => bail!("only links and circuits are added by command"),
        };
        if state.applied.contains_key(&id) {
            bail!("{id} exists already");
        }
        let mut commands = state.commands.clone();
        let mut changes = Vec::new();
        if let Some(name) = outside {
            let id = ObjectId::Station(name);
            if !state.applied.contains_key(&id) {
                let wanted = Some(commands.add(id.clone(), Spec::Outside, None));
                changes.push(Change { id, wanted });
            }
        }
        let wanted = Some(commands.add(id.clone(), spec, written));
        changes.push(Change { id: id.clone(), wanted });
        let outcome = self.carry_out(state, changes, false)?;
        state.commands = commands;
        state.settle(who, "add", &outcome);
        Ok((id, outcome))
    }

    /// Objects less, by command; with links, the circuits over them. Gives the circuits that are gone.
    ///
    /// # Errors
    /// Why it cannot be; everything is as it was.
    pub fn remove(&self, id: &ObjectId, who: &Who) -> Result<Vec<String>> {
        let mut state = self.state();
        let state = &mut *state;
        let mut ids = vec![id.clone()];
        if let ObjectId::Link(..) = id {
            let key = state.model.link(id)?;
            ids.extend(state.model.router.circuits_over(key).into_iter().map(ObjectId::circuit));
            // What was named by this link alone goes with it.
            if let Some(Object { spec: Spec::Link(link), .. }) = state.applied.get(id) {
                let ends = link.description.ends.iter().map(|end| ObjectId::Station(end.station.clone()));
                let of_command = |station: &ObjectId| {
                    state.applied.get(station).is_some_and(|o| o.owner == Owner::Command && o.spec == Spec::Outside)
                };
                ids.extend(ends.filter(of_command));
            }
        }
        let mut commands = state.commands.clone();
        for id in &ids {
            commands.remove(id, state.file.contains_key(id));
        }
        let changes = ids.iter().map(|id| Change { id: id.clone(), wanted: None }).collect();
        let outcome = self.carry_out(state, changes, false)?;
        ids.iter().for_each(|id| state.peers.forget(id));
        state.commands = commands;
        state.settle(who, "remove", &outcome);
        let circuits = ids.into_iter().filter_map(|id| match id {
            ObjectId::Circuit(name) => Some(name),
            _ => None,
        });
        Ok(circuits.collect())
    }

    /// Takes a link down, or up again; gives its name.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn set_link(&self, name: &str, up: bool, who: &Who) -> Result<String> {
        let id = self.find_link(name)?;
        let mut state = self.state();
        let state = &mut *state;
        let Some(Object { spec: Spec::Link(link), owner, order, .. }) = state.applied.get(&id) else {
            bail!("no link `{name}`");
        };
        let mut link = link.clone();
        link.enabled = up;
        let object = Object { spec: Spec::Link(link), owner: owner.clone(), revision: 0, order: *order };
        let outcome = self.carry_out(state, vec![Change { id: id.clone(), wanted: Some(object) }], false)?;
        state.commands.set_up(&id, up);
        state.settle(who, if up { "link up" } else { "link down" }, &outcome);
        Ok(state.link_name(&id))
    }

    /// The object of a link's name, or of its ends as they were written.
    ///
    /// # Errors
    /// There is none.
    pub fn find_link(&self, name: &str) -> Result<ObjectId> {
        let state = self.state();
        let key = state.model.router.find_link(name);
        let id = key.and_then(|key| state.model.find_link(key));
        id.cloned().ok_or_else(|| anyhow!("no link `{name}` (`cellway link list` shows them)"))
    }

    /// The circuit of these ends.
    ///
    /// # Errors
    /// There is none.
    pub fn find_circuit(&self, ends: &[net::topology::CircuitEnd]) -> Result<ObjectId> {
        let state = self.state();
        let placed = ends.first().and_then(|end| state.model.router.find_circuit(end));
        let id = placed.filter(|placed| placed.description.ends == ends).map(|p| ObjectId::circuit(&p.description));
        id.ok_or_else(|| anyhow!("no circuit has these ends (`cellway circuit list` shows them)"))
    }

    /// A link's name in output.
    pub fn link_name(&self, id: &ObjectId) -> String {
        self.state().link_name(id)
    }

    /// Does what peers of links with `real` have asked for since the last time.
    pub fn serve_peers(&self) {
        let reals: Vec<(ObjectId, String, Real)> = {
            let mut state = self.state();
            let reals = state.reals();
            let names: Vec<String> = reals.iter().map(|(_, name, _)| name.clone()).collect();
            state.peers.keep_links(|link| names.iter().any(|name| name == link));
            reals
        };
        if reals.is_empty() {
            return;
        }
        let (links, asked) = (self.links.clone(), reals.clone());
        let polled = self.engine.with(move |core| {
            let links = links.lock().unwrap_or_else(PoisonError::into_inner);
            let mut events = Vec::new();
            for (id, name, real) in asked {
                let Some(link) = links.get(&id) else { continue };
                while let Some(event) = core.network.poll_peer(*link) {
                    events.push((name.clone(), real.clone(), event));
                }
            }
            events
        });
        for (name, real, event) in polled.unwrap_or_default() {
            let mut state = self.state();
            let state = &mut *state;
            let Some(change) = state.peers.handle(&name, &real, &event) else { continue };
            // Where the description or a command has the same circuit, the peer's is that one.
            let here = state.applied.get(&change.id);
            if here.is_some_and(|object| !matches!(object.owner, Owner::Peer(_))) {
                continue;
            }
            let id = change.id.clone();
            match self.carry_out(state, vec![change], false) {
                Ok(outcome) => state.settle(&Who::Peer, "peer", &outcome),
                Err(e) => {
                    state.peers.forget(&id);
                    tracing::info!("{} {}: {e:#}", real.outside, event.circuit);
                }
            }
        }
    }

    /// Plans some changes, checks the plan, and carries it out.
    fn carry_out(&self, state: &mut State, changes: Vec<Change>, dry_run: bool) -> Result<Outcome> {
        let plan = Plan::new(&state.applied, &changes, &state.model);
        let circuits_before = state.model.router.circuit_count();
        let undo = plan.check(&mut state.model).map_err(Impossible)?;
        let mut outcome = Outcome {
            revision: state.revision,
            lines: plan.lines.clone(),
            summary: plan.summary(),
            unchanged_circuits: circuits_before.saturating_sub(plan.interrupted.len()),
            interrupted: plan.interrupted.clone(),
            dropped: Vec::new(),
        };
        if dry_run {
            roll_back(&mut state.model, undo);
            return Ok(outcome);
        }
        if let Err(e) = self.execute(plan) {
            roll_back(&mut state.model, undo);
            return Err(e);
        }
        if !changes.is_empty() {
            state.revision += 1;
        }
        for Change { id, wanted } in changes {
            match wanted {
                Some(object) => state.applied.insert(id, Object { revision: state.revision, ..object }),
                None => state.applied.remove(&id),
            };
        }
        outcome.revision = state.revision;
        Ok(outcome)
    }

    fn execute(&self, plan: Plan) -> Result<()> {
        let mut execution = Execution::new(plan);
        loop {
            let (links, adapters) = (self.links.clone(), self.adapters.clone());
            let slice = self.engine.with(move |core| {
                let now = core.now();
                let mut links = links.lock().unwrap_or_else(PoisonError::into_inner);
                let mut live = Live {
                    network: &mut core.network,
                    fabric: &mut core.fabric,
                    links: &mut links,
                    adapters: &adapters,
                    now,
                    dropped: Vec::new(),
                };
                let begun = processor_time();
                let progress = execution.run(&mut live, || processor_time().saturating_sub(begun) < SLICE);
                let dropped = std::mem::take(&mut live.dropped);
                (execution, progress, dropped)
            });
            let (back, progress, dropped) = slice?;
            drop(dropped);
            execution = back;
            match progress {
                Progress::More => {}
                Progress::Make(shell) => execution.give(shells::make(&shell).map_err(|e| format!("{e:#}"))),
                Progress::Done => return Ok(()),
                Progress::Undone(failure) => {
                    return Err(anyhow!(failure)).context("a step failed, and everything is as it was");
                }
            }
        }
    }
}

/// Processor time that the calling thread has had.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}

impl State {
    fn link_name(&self, id: &ObjectId) -> String {
        let name = self.model.link(id).ok().and_then(|key| self.model.router.link_name(key));
        name.unwrap_or_else(|| id.to_string())
    }

    /// The links whose peers' circuits lead somewhere: object, name, and where.
    fn reals(&self) -> Vec<(ObjectId, String, Real)> {
        let links = self
            .applied
            .range(ObjectId::Link(String::new(), 0)..)
            .take_while(|(id, _)| matches!(id, ObjectId::Link(..)));
        links
            .filter_map(|(id, object)| {
                let Spec::Link(link) = &object.spec else { return None };
                let Some(Shell::AtmTcp { real: Some(host), .. }) = &link.shell else { return None };
                let outside = link
                    .description
                    .ends
                    .iter()
                    .find(|end| self.model.router.station(&end.station) == Some(net::topology::Station::Outside))?;
                let real = Real { outside: outside.station.clone(), host: host.clone() };
                Some((id.clone(), self.link_name(id), real))
            })
            .collect()
    }

    /// After a change: what a restart needs is kept, and the change is logged.
    fn settle(&mut self, who: &Who, verb: &str, outcome: &Outcome) {
        if let Some(store) = &mut self.store
            && let Err(e) = store.write(&self.commands.kept())
        {
            tracing::error!("the state is not kept: {e:#}");
        }
        self.audit.record(who, verb, outcome.revision, &outcome.lines);
    }

    /// What the network is to be with another description: with the additions of commands and peers that fit; and those that
    /// do not.
    fn reconcile(&mut self, file: &Objects, commands: &Commands) -> Result<(Objects, Vec<ObjectId>), Impossible> {
        let mut candidate = sources::wanted(file, commands, self.peers.objects());
        let mut dropped: Vec<ObjectId> = Vec::new();
        // Something outside has one link: the description's, if it has one.
        let linked = |objects: &Objects, owned: &dyn Fn(&Owner) -> bool| -> Vec<(ObjectId, [String; 2])> {
            objects
                .iter()
                .filter(|(_, object)| owned(&object.owner))
                .filter_map(|(id, object)| match &object.spec {
                    Spec::Link(link) => Some((id.clone(), link.description.ends.each_ref().map(|e| e.station.clone()))),
                    _ => None,
                })
                .collect()
        };
        let of_file = linked(&candidate, &|owner| *owner == Owner::File);
        for (id, ends) in linked(&candidate, &gives_way) {
            let outside = |name: &String| {
                candidate.get(&ObjectId::Station(name.clone())).is_some_and(|o| o.spec == Spec::Outside)
            };
            let taken = |name: &String| outside(name) && of_file.iter().any(|(_, others)| others.contains(name));
            if ends.iter().any(taken) {
                dropped.push(id);
            }
        }
        dropped.iter().for_each(|id| drop(candidate.remove(id)));
        let Err(problems) = self.try_out(&candidate) else { return Ok((candidate, dropped)) };
        let additions: Vec<(ObjectId, Object)> = {
            let mut all: Vec<_> = candidate.iter().filter(|(_, o)| gives_way(&o.owner)).collect();
            all.sort_by_key(|(_, object)| object.order);
            all.into_iter().map(|(id, object)| (id.clone(), object.clone())).collect()
        };
        if additions.is_empty() {
            return Err(Impossible(problems));
        }
        // The description alone; then each addition, as far as it fits.
        let mut only: Objects =
            candidate.iter().filter(|(_, o)| !gives_way(&o.owner)).map(|(id, o)| (id.clone(), o.clone())).collect();
        let plan = Plan::new(&self.applied, &difference(&self.applied, &only), &self.model);
        let mut undo = plan.check(&mut self.model).map_err(Impossible)?;
        for (id, object) in additions {
            let change = Change { id: id.clone(), wanted: Some(object.clone()) };
            let plan = Plan::new(&only, std::slice::from_ref(&change), &self.model);
            match plan.check(&mut self.model) {
                Ok(steps) => {
                    undo.extend::<Vec<Step>>(steps);
                    only.insert(id, object);
                }
                Err(_) => dropped.push(id),
            }
        }
        roll_back(&mut self.model, undo);
        match self.try_out(&only) {
            Ok(()) => Ok((only, dropped)),
            Err(problems) => Err(Impossible(problems)),
        }
    }

    /// Whether the network can become what is wanted; nothing stays changed.
    fn try_out(&mut self, wanted: &Objects) -> Result<(), Vec<Problem>> {
        let plan = Plan::new(&self.applied, &difference(&self.applied, wanted), &self.model);
        let undo = plan.check(&mut self.model)?;
        roll_back(&mut self.model, undo);
        Ok(())
    }
}
