//! A plan: the steps from what is to what should be. It is tried as a whole on a model before anything is touched; what
//! it says to a person is [`Plan::lines`].
//!
//! The order makes each step possible where the plan as a whole is: what goes, goes first; what becomes smaller gives
//! back before what becomes larger takes; paths come before the channels inside them and go after them.

use crate::kinds::Difference;
use crate::names::carries_name;
use crate::objects::{Change, LinkSpec, Object, ObjectId, Objects, Owner, Spec};
use crate::step::{Model, Step, StepError, Target};
use net::topology::{CircuitDescription, StationKind};
use net::{LinkConfig, SwitchElementConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use traffic::{Contract, Discard};

/// What a plan does to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// It is new.
    Add,
    /// It becomes another.
    Change,
    /// It goes.
    Remove,
}

/// A line of a plan as a person reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// What is done.
    pub verb: Verb,
    /// `host`, `switch`, `outside`, `myrinet`, `desk`, `link`, `circuit`, `adapter`, `interface`, `camera`, `display`
    /// or `store`.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// What changes of it.
    pub what: String,
    /// Whether whoever uses it is interrupted.
    pub interrupts: bool,
}

impl Line {
    /// `+ circuit alpha 0.100 - beta 0.100: ubr`
    pub fn text(&self) -> String {
        let sign = match self.verb {
            Verb::Add => '+',
            Verb::Change => '~',
            Verb::Remove => '-',
        };
        let Line { kind, name, what, .. } = self;
        let what = if what.is_empty() { String::new() } else { format!(": {what}") };
        let interrupts = if self.interrupts { "  (interrupts)" } else { "" };
        format!("{sign} {kind} {name}{what}{interrupts}")
    }
}

/// What a plan comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Objects that are new.
    pub added: usize,
    /// Objects that become another.
    pub changed: usize,
    /// Objects that go.
    pub removed: usize,
    /// Circuits that are interrupted: they go, or are made again.
    pub interrupted: usize,
}

/// A plan.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// The object that each step is for.
    pub subjects: Vec<ObjectId>,
    /// What a person reads.
    pub lines: Vec<Line>,
    /// Circuits that go, or are made again.
    pub interrupted: Vec<String>,
}

/// Why a plan cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[error("{subject}: {cause}")]
pub struct Problem {
    /// The object.
    pub subject: ObjectId,
    /// What is wrong.
    pub cause: StepError,
}

/// A change that cannot be: everything that is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Impossible(pub Vec<Problem>);

/// Steps by the phase in which they are done.
#[derive(Debug, Default)]
struct Phases {
    phases: [Vec<(u64, ObjectId, Step)>; 15],
}

impl Phases {
    fn add(&mut self, phase: usize, order: u64, id: &ObjectId, step: Step) {
        self.phases[phase].push((order, id.clone(), step));
    }
}

const GROW: usize = 0;
const REMOVE_CHANNELS: usize = 1;
const REMOVE_PATHS: usize = 2;
/// What follows a link that goes; undone once all links are back.
const FOLLOWERS: usize = 3;
const REMOVE_LINKS: usize = 4;
const REMOVE_STATIONS: usize = 5;
const LESS: usize = 6;
const CHANGE_LINKS: usize = 7;
const MORE: usize = 8;
const ADD_STATIONS: usize = 9;
const ADD_LINKS: usize = 10;
const LINK_SETTINGS: usize = 11;
const ADD_PATHS: usize = 12;
const ADD_CHANNELS: usize = 13;
const SHRINK: usize = 14;

impl Plan {
    /// The plan for some changes of what `have` is, over links whose ways `model` knows. Nothing is checked yet.
    pub fn new(have: &Objects, changes: &[Change], model: &Model) -> Self {
        Planner {
            have,
            changes: changes.iter().map(|change| (&change.id, change)).collect(),
            model,
            plan: Plan::default(),
        }
        .plan(changes)
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.lines.is_empty()
    }

    /// What it comes to.
    pub fn summary(&self) -> Summary {
        let count = |verb| self.lines.iter().filter(|line| line.verb == verb).count();
        Summary {
            added: count(Verb::Add),
            changed: count(Verb::Change),
            removed: count(Verb::Remove),
            interrupted: self.interrupted.len(),
        }
    }

    /// Tries it on a model, which is then what the network will be; gives every problem, and leaves the model as it was
    /// if there is one. What the model decides, ways and ports, is in the steps from then on: whoever carries them out
    /// decides nothing anew.
    ///
    /// # Errors
    /// All that cannot be.
    pub fn check(&mut self, model: &mut Model) -> Result<Vec<Step>, Vec<Problem>> {
        let (mut undo, mut problems) = (Vec::with_capacity(self.steps.len()), Vec::new());
        for (step, subject) in self.steps.iter_mut().zip(&self.subjects) {
            match model.perform(step, None) {
                Ok(inverse) => {
                    undo.push(inverse);
                    model.settle(step);
                }
                Err(cause) => problems.push(Problem { subject: subject.clone(), cause }),
            }
        }
        if problems.is_empty() {
            return Ok(undo);
        }
        roll_back(model, undo);
        Err(problems)
    }
}

/// Undoes steps on a model, the last first.
pub fn roll_back(model: &mut Model, undo: Vec<Step>) {
    for step in undo.into_iter().rev() {
        // What has just been done can be undone: nothing has happened in between.
        if let Err(e) = model.perform(&step, None) {
            tracing::error!("cannot undo {step:?}: {e}");
        }
    }
}

struct Planner<'a> {
    have: &'a Objects,
    changes: BTreeMap<&'a ObjectId, &'a Change>,
    model: &'a Model,
    plan: Plan,
}

impl Planner<'_> {
    fn plan(mut self, changes: &[Change]) -> Plan {
        let mut phases = Phases::default();
        // Circuits that are made again though they stay as they are: their link or path does not.
        let mut again: BTreeSet<ObjectId> = BTreeSet::new();
        // Links before paths, and these before the channels inside them: whose way goes is known before it is asked.
        let mut changes: Vec<&Change> = changes.iter().collect();
        changes.sort_by_key(|change| {
            let spec = self.have.get(&change.id).or(change.wanted.as_ref()).map(|object| &object.spec);
            match spec {
                Some(Spec::Circuit(circuit)) => 1 + usize::from(!is_path(circuit)),
                _ => 0,
            }
        });
        for change in changes {
            let had = self.have.get(&change.id);
            let order = change.wanted.as_ref().map_or(0, |object| object.order);
            match (had.map(|o| &o.spec), change.wanted.as_ref().map(|o| &o.spec)) {
                (Some(had), Some(wanted)) if had == wanted => {}
                (Some(Spec::Circuit(had)), Some(Spec::Circuit(wanted))) => {
                    self.change_circuit(&mut phases, &change.id, order, had, wanted, &mut again);
                }
                (Some(Spec::Link(had)), Some(Spec::Link(wanted))) => {
                    self.change_link(&mut phases, &change.id, order, had, wanted, &mut again);
                }
                (Some(Spec::Host(had)), Some(Spec::Host(wanted))) => {
                    let ObjectId::Station(name) = &change.id else { continue };
                    if had.max_endpoints != wanted.max_endpoints {
                        let max_endpoints = wanted.max_endpoints;
                        phases.add(GROW, order, &change.id, Step::ChangeHost { name: name.clone(), max_endpoints });
                    }
                    let what = if had.max_endpoints != wanted.max_endpoints {
                        format!("max_endpoints {} to {}", had.max_endpoints, wanted.max_endpoints)
                    } else if had.shard != wanted.shard {
                        "another shard when it is made anew".into()
                    } else {
                        "another address".into()
                    };
                    self.line(Verb::Change, "host", name, what, false);
                }
                (Some(Spec::Switch(had)), Some(Spec::Switch(wanted))) => {
                    self.change_switch(&mut phases, &change.id, order, *had, *wanted);
                }
                (Some(Spec::OfKind(had)), Some(Spec::OfKind(wanted))) if had.section() == wanted.section() => {
                    let ObjectId::Station(name) = &change.id else { continue };
                    let Some(Difference { what, interrupts }) = had.difference(wanted) else { continue };
                    // Circuits over ends that go are gone by then, and those over new ones are yet to come.
                    let step = Step::ChangeElement { name: name.clone(), layout: wanted.clone() };
                    phases.add(LESS, order, &change.id, step);
                    self.line(Verb::Change, wanted.section(), name, what, interrupts);
                }
                (had, wanted) => {
                    if let Some(had) = had {
                        self.remove(&mut phases, &change.id, had, &mut again);
                    }
                    if let Some(wanted) = wanted {
                        self.add(&mut phases, &change.id, order, wanted);
                    }
                }
            }
        }
        for id in again {
            let unchanged = self
                .changes
                .get(&id)
                .is_none_or(|change| change.wanted.as_ref().map(|o| &o.spec) == self.have.get(&id).map(|o| &o.spec));
            if let (true, Some(Object { spec: Spec::Circuit(circuit), order, .. })) = (unchanged, self.have.get(&id)) {
                remove_circuit(&mut phases, &id, circuit);
                add_circuit(&mut phases, &id, *order, circuit);
                self.plan.interrupted.push(circuit.name());
                self.line(Verb::Change, "circuit", &circuit.name(), "made again over other links".into(), true);
            }
        }
        self.follow_anew(&mut phases);
        for mut phase in phases.phases {
            phase.sort_by_key(|(order, ..)| *order);
            for (_, id, step) in phase {
                self.plan.steps.push(step);
                self.plan.subjects.push(id);
            }
        }
        self.plan
    }

    fn line(&mut self, verb: Verb, kind: &str, name: &str, what: String, interrupts: bool) {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.plan.lines.push(Line { verb, kind, name, what, interrupts });
    }

    /// The circuits over a link that go or are made again with it.
    fn uproot(&mut self, link: &ObjectId, again: &mut BTreeSet<ObjectId>) {
        let Ok(key) = self.model.link(link) else { return };
        let over: Vec<CircuitDescription> = self.model.router.circuits_over(key).into_iter().cloned().collect();
        for circuit in over {
            again.insert(ObjectId::circuit(&circuit));
            if is_path(&circuit) {
                self.uproot_riders(&circuit, again);
            }
        }
    }

    fn link_name(&self, id: &ObjectId) -> String {
        let ObjectId::Link(written, _) = id else { return String::new() };
        let name = self.model.link(id).ok().and_then(|key| self.model.router.link_name(key));
        name.unwrap_or_else(|| written.clone())
    }

    fn remove(&mut self, phases: &mut Phases, id: &ObjectId, had: &Spec, again: &mut BTreeSet<ObjectId>) {
        match (id, had) {
            (ObjectId::Station(name), spec) => {
                let layout = match spec {
                    Spec::OfKind(layout) => Some(layout.clone()),
                    _ => None,
                };
                phases.add(REMOVE_STATIONS, 0, id, Step::RemoveStation { name: name.clone(), layout });
                self.line(Verb::Remove, kind_of(spec), name, String::new(), false);
            }
            (_, Spec::Link(link)) => {
                let name = self.link_name(id);
                self.uproot(id, again);
                // What was there is undone with it: up, following nothing, with nothing outside.
                let plain = LinkSpec { shell: None, follows: None, enabled: true, ..(**link).clone() };
                self.settings(phases, REMOVE_LINKS, id, 0, Some(link), &plain);
                phases.add(REMOVE_LINKS, 0, id, Step::RemoveLink(id.clone()));
                self.line(Verb::Remove, "link", &name, String::new(), true);
            }
            (_, Spec::Circuit(circuit)) => {
                again.remove(id);
                remove_circuit(phases, id, circuit);
                self.plan.interrupted.push(circuit.name());
                if is_path(circuit) {
                    self.uproot_riders(circuit, again);
                }
                self.line(Verb::Remove, "circuit", &circuit.name(), String::new(), true);
            }
            _ => {}
        }
    }

    /// Channels inside a path that goes.
    fn uproot_riders(&mut self, path: &CircuitDescription, again: &mut BTreeSet<ObjectId>) {
        let placed = path.ends.first().and_then(|end| self.model.router.find_circuit(end));
        for hop in placed.into_iter().flat_map(|placed| &placed.route.hops) {
            for rider in self.model.router.riders_at(hop.link, hop.label) {
                again.insert(ObjectId::circuit(rider));
            }
        }
    }

    fn add(&mut self, phases: &mut Phases, id: &ObjectId, order: u64, wanted: &Spec) {
        match (id, wanted) {
            (ObjectId::Station(name), Spec::OfKind(layout)) => {
                phases.add(ADD_STATIONS, order, id, Step::AddElement { name: name.clone(), layout: layout.clone() });
                self.line(Verb::Add, layout.section(), name, String::new(), false);
            }
            (ObjectId::Station(name), spec) => {
                let (kind, max_endpoints) = match spec {
                    Spec::Host(host) => (StationKind::Host, host.max_endpoints),
                    Spec::Switch(config) => (StationKind::Switch(*config), 0),
                    _ => (StationKind::Outside, 0),
                };
                phases.add(ADD_STATIONS, order, id, Step::AddStation { name: name.clone(), kind, max_endpoints });
                self.line(Verb::Add, kind_of(spec), name, String::new(), false);
            }
            (ObjectId::Link(written, _), Spec::Link(link)) => {
                phases.add(ADD_LINKS, order, id, add_link(id, link));
                self.settings(phases, LINK_SETTINGS, id, order, None, link);
                self.line(Verb::Add, "link", written, link_text(&link.description.config), false);
                if let Some((kind, name, _)) = link.shell.as_ref().and_then(crate::config::Shell::of_its_own) {
                    self.line(Verb::Add, kind, name, String::new(), false);
                }
            }
            (_, Spec::Circuit(circuit)) => {
                add_circuit(phases, id, order, circuit);
                self.line(Verb::Add, "circuit", &circuit.name(), circuit_text(circuit), false);
            }
            _ => {}
        }
    }

    /// What is outside at a link, what it follows, whether it is up: as far as that differs from what it had.
    fn settings(
        &mut self,
        phases: &mut Phases,
        phase: usize,
        id: &ObjectId,
        order: u64,
        had: Option<&LinkSpec>,
        wanted: &LinkSpec,
    ) {
        let link = || id.clone();
        let (shell, before) = (wanted.shell.as_ref(), had.and_then(|had| had.shell.as_ref()));
        if shell != before {
            let [shell, had] = [shell, before].map(|shell| shell.cloned().map(Box::new));
            phases.add(phase, order, id, Step::Attach { link: link(), shell, had });
        }
        let (other, before) = (wanted.follows.clone(), had.and_then(|had| had.follows.clone()));
        if other != before {
            phases.add(phase, order, id, Step::Follow { link: link(), other, had: before });
        }
        if had.is_none_or(|had| had.enabled) != wanted.enabled {
            phases.add(phase, order, id, Step::SetLink { link: link(), up: wanted.enabled });
        }
    }

    fn change_link(
        &mut self,
        phases: &mut Phases,
        id: &ObjectId,
        order: u64,
        had: &LinkSpec,
        wanted: &LinkSpec,
        again: &mut BTreeSet<ObjectId>,
    ) {
        let (old, new) = (&had.description.config, &wanted.description.config);
        let labels = |config: &LinkConfig| config.calls.map(|calls| (calls.vpi, calls.vcis));
        let rebuilt = old.carries != new.carries
            || old.queue_cells != new.queue_cells
            || old.faults != new.faults
            || old.tolerance != new.tolerance
            || labels(old) != labels(new);
        if rebuilt {
            let spec = Spec::Link(Box::new(had.clone()));
            self.remove(phases, id, &spec, again);
            self.plan.lines.pop();
            phases.add(ADD_LINKS, order, id, add_link(id, wanted));
            self.settings(phases, LINK_SETTINGS, id, order, None, wanted);
        } else {
            if (old.rate, old.delay, old.calls) != (new.rate, new.delay, new.calls) {
                phases.add(CHANGE_LINKS, order, id, Step::ChangeLink(id.clone(), Box::new(new.clone())));
            }
            self.settings(phases, LINK_SETTINGS, id, order, Some(had), wanted);
        }
        let mut what = Vec::new();
        if old != new {
            what.push(format!("{} to {}", link_text(old), link_text(new)));
        }
        if had.shell != wanted.shell {
            what.push("another far end".into());
        }
        if had.enabled != wanted.enabled {
            what.push(if wanted.enabled { "up" } else { "taken down" }.into());
        }
        if had.follows != wanted.follows {
            what.push("follows another link".into());
        }
        if had.signalling != wanted.signalling {
            what.push("other signalling".into());
        }
        let name = self.link_name(id);
        self.line(
            Verb::Change,
            "link",
            &name,
            what.join(", "),
            rebuilt || had.shell != wanted.shell || !wanted.enabled,
        );
    }

    /// Re-binds followers of a removed or re-created link by name; an undone plan binds them to the old link again.
    fn follow_anew(&mut self, phases: &mut Phases) {
        let step = |(_, id, step): &(u64, ObjectId, Step)| match step {
            Step::RemoveLink(_) | Step::AddLink { .. } => Some(id.clone()),
            _ => None,
        };
        let [gone, new] = [REMOVE_LINKS, ADD_LINKS]
            .map(|phase| phases.phases[phase].iter().filter_map(step).collect::<BTreeSet<_>>());
        if gone.is_empty() && new.is_empty() {
            return;
        }
        for (id, object) in self.have {
            let Spec::Link(link) = &object.spec else { continue };
            let Some(other) = &link.follows else { continue };
            let follow = || Step::Follow { link: id.clone(), other: Some(other.clone()), had: Some(other.clone()) };
            if gone.contains(other) {
                phases.add(FOLLOWERS, 0, id, follow());
            }
            let wanted = self.changes.get(id).map(|change| change.wanted.as_ref().map(|object| &object.spec));
            let stays = match wanted {
                None => true,
                Some(Some(Spec::Link(wanted))) => wanted.follows == link.follows && !new.contains(id),
                Some(_) => false,
            };
            if stays && new.contains(other) {
                phases.add(LINK_SETTINGS, object.order, id, follow());
                let what = format!("follows {}, which is made anew", self.link_name(other));
                self.line(Verb::Change, "link", &self.link_name(id), what, false);
            }
        }
    }

    fn change_switch(
        &mut self,
        phases: &mut Phases,
        id: &ObjectId,
        order: u64,
        had: SwitchElementConfig,
        wanted: SwitchElementConfig,
    ) {
        let ObjectId::Station(name) = id else { return };
        // What becomes larger may be needed at once; what becomes smaller may have to be left first.
        let ports = had.ports.max(wanted.ports);
        let both = SwitchElementConfig {
            ports,
            kept_ports: ports - had.link_ports().max(wanted.link_ports()),
            max_routes: had.max_routes.max(wanted.max_routes),
        };
        for (phase, from, to) in [(GROW, had, both), (SHRINK, both, wanted)] {
            if from != to {
                phases.add(phase, order, id, Step::ChangeSwitch { name: name.clone(), had: from, config: to });
            }
        }
        let mut what = Vec::new();
        if had.link_ports() != wanted.link_ports() {
            what.push(format!("ports {} to {}", had.link_ports(), wanted.link_ports()));
        }
        if had.kept_ports != wanted.kept_ports {
            what.push(if wanted.kept_ports > 0 { "with signalling" } else { "without signalling" }.into());
        }
        if had.max_routes != wanted.max_routes {
            what.push(format!("max_routes {} to {}", had.max_routes, wanted.max_routes));
        }
        self.line(Verb::Change, "switch", name, what.join(", "), false);
    }

    fn change_circuit(
        &mut self,
        phases: &mut Phases,
        id: &ObjectId,
        order: u64,
        had: &CircuitDescription,
        wanted: &CircuitDescription,
        again: &mut BTreeSet<ObjectId>,
    ) {
        // Whether cells are those of PDUs, and whether they have credits, is set when the routes are.
        let fixed = |c: &CircuitDescription| {
            [c.contract, c.contract_back()].map(|contract| (contract.flow, contract.discard == Discard::Cells))
        };
        let only_contract = CircuitDescription { contract: wanted.contract, back: wanted.back, ..had.clone() }
            == *wanted
            && fixed(had) == fixed(wanted);
        let what = format!("{} to {}", circuit_text(had), circuit_text(wanted));
        if only_contract && !again.contains(id) {
            let rates = |c: &CircuitDescription| {
                [c.contract, c.contract_back()].map(|c| c.reserved().map_or(0.0, |rate| rate.cells_per_s()))
            };
            let less = rates(wanted).iter().zip(rates(had)).all(|(wanted, had)| *wanted <= had);
            let contracts = Box::new((wanted.contract, wanted.back));
            let step = Step::ChangeContract(had.ends.clone(), contracts);
            phases.add(if less { LESS } else { MORE }, order, id, step);
        } else {
            again.remove(id);
            remove_circuit(phases, id, had);
            add_circuit(phases, id, order, wanted);
            self.plan.interrupted.push(had.name());
            if is_path(had) {
                self.uproot_riders(had, again);
            }
        }
        self.line(Verb::Change, "circuit", &wanted.name(), what, !only_contract);
    }
}

fn is_path(circuit: &CircuitDescription) -> bool {
    circuit.ends.iter().any(|end| end.path)
}

fn remove_circuit(phases: &mut Phases, id: &ObjectId, circuit: &CircuitDescription) {
    let phase = if is_path(circuit) { REMOVE_PATHS } else { REMOVE_CHANNELS };
    phases.add(phase, 0, id, Step::RemoveCircuit(circuit.ends.clone()));
}

fn add_link(id: &ObjectId, link: &LinkSpec) -> Step {
    Step::AddLink { link: id.clone(), description: Box::new(link.description.clone()), restored: None }
}

fn add_circuit(phases: &mut Phases, id: &ObjectId, order: u64, circuit: &CircuitDescription) {
    let phase = if is_path(circuit) { ADD_PATHS } else { ADD_CHANNELS };
    phases.add(phase, order, id, Step::AddCircuit(Box::new(circuit.clone())));
}

fn kind_of(spec: &Spec) -> &'static str {
    match spec {
        Spec::Host(_) => "host",
        Spec::Switch(_) => "switch",
        Spec::OfKind(layout) => layout.section(),
        Spec::Outside => "outside",
        Spec::Link(_) => "link",
        Spec::Circuit(_) => "circuit",
    }
}

fn link_text(config: &LinkConfig) -> String {
    let rate = config.rate.map_or("unlimited".into(), |rate| format!("{:.1} cell/s", rate.cells_per_s()));
    let delay = if config.delay.is_zero() { String::new() } else { format!(", {} us", config.delay.as_micros()) };
    format!("{}, {rate}{delay}", carries_name(config.carries))
}

fn circuit_text(circuit: &CircuitDescription) -> String {
    let back = circuit.back.map_or(String::new(), |back| format!(", back {}", contract_text(&back)));
    contract_text(&circuit.contract) + &back
}

/// `nrt-vbr pcr 1000.0 scr 500.0 cell/s mbs 20`
fn contract_text(contract: &Contract) -> String {
    let mut text = contract.category.name().to_owned();
    let rates = [("", contract.pcr), ("scr ", contract.scr), ("mcr ", contract.mcr)];
    for (name, rate) in rates.into_iter().filter_map(|(name, rate)| Some((name, rate?))) {
        text += &format!(" {name}{:.1} cell/s", rate.cells_per_s());
    }
    for (name, cells) in [("mbs", contract.mbs), ("mfs", contract.mfs)] {
        text += &cells.map_or(String::new(), |cells| format!(" {name} {cells}"));
    }
    if let Some(conformance) = contract.conformance {
        text += &format!(" {conformance}");
    }
    if contract.low_latency {
        text += " low latency";
    }
    if contract.discard != Discard::Early {
        text += &format!(" discard {}", contract.discard.name());
    }
    text
}

/// Whether an object may give way to others that are wanted.
pub fn gives_way(owner: &Owner) -> bool {
    !matches!(owner, Owner::File | Owner::Directory)
}
