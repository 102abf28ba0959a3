//! Who keeps a network as it should be: it has each change planned and tried on a model ([`crate::intent`]), and
//! carries the plan out in slices between rounds of the engine.

mod trials;

use crate::adapters::Adapters;
use crate::asking::Asking;
use crate::audit::Who;
use crate::calls;
use crate::config::Config;
use crate::config::signalling::{Identity, parse_prefix};
use crate::ended::Ended;
use crate::execution::{Execution, Progress};
use crate::intent::{ChangeOutcome, Intent, Prepared};
use crate::kinds::Kinds;
use crate::network_target::{Links, NetworkTarget};
use crate::objects::{Object, ObjectId, Owner, Spec};
use crate::once::Book;
use crate::openers::Openers;
use crate::placement::{self, Placement};
use crate::plan::{Impossible, Plan};
use crate::service_status::ServiceSlot;
use crate::shells;
use crate::sources::commands::Written;
use crate::sources::peers::{PeerCircuits, TooManyCircuits};
use crate::sources::waiting::{Understood, Waiting};
use crate::state_writer::{KeptStatus, StateWriter};
use anyhow::{Context as _, Result, anyhow};
use host::engine::{Core, EngineHandle, processor_time};
use net::LinkId;
use net::topology::{CircuitDescription, CircuitEnd};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use wire::DropReason;

/// Processor time of the engine's thread that one slice of a plan takes, beyond the step that it has begun.
pub const SLICE: Duration = Duration::from_micros(250);

/// Time that what peers ask for takes in one call, beyond the few requests of each that it has begun.
const PEERS_SHARE: Duration = Duration::from_millis(20);
/// Requests of one peer before the others' turn.
const PEERS_TURN: usize = 4;

/// Whoever changes the network waits so long at most for the disk.
pub(crate) const DISK_PATIENCE: Duration = Duration::from_secs(5);

/// Whether who asks for a change may have it made by the rules of a description; an error says why not.
pub type May<'a> = &'a dyn Fn(&Config) -> Result<(), String>;

/// How a description is applied.
#[derive(Debug, Clone, Copy, Default)]
pub struct Applying {
    /// Only say what would be done.
    pub dry_run: bool,
    /// Also a description that is empty, or has none of the stations that there are.
    pub allow_empty: bool,
    /// Without what commands have added, removed, taken down or up.
    pub exact: bool,
    /// It is undone unless somebody confirms it within this time.
    pub confirm_within: Option<Duration>,
}

/// Keeps a network as it should be.
pub struct Controller {
    engine: EngineHandle,
    kinds: Kinds,
    adapters: Arc<Adapters>,
    links: Arc<Mutex<Links>>,
    calls: calls::service::Service,
    /// Counters of what is no more.
    ended: Ended,
    /// The shards of the description's stations.
    placement: Mutex<Arc<Placement>>,
    /// Only this lock's holder changes the network.
    intent: Mutex<Intent>,
    state_writer: Arc<StateWriter>,
    /// The description that was read last: who asks for it does not wait for a change.
    config: Mutex<Arc<Config>>,
    /// Which peer is asked first.
    peers_served: AtomicUsize,
    openers: Openers,
    /// Answers to changes that were asked for under an id.
    book: Arc<Book>,
    /// When the description on trial is undone.
    trial_until: Mutex<Option<Instant>>,
    service: ServiceSlot,
}

impl Controller {
    /// Of an empty network that may have stations of these kinds.
    ///
    /// # Errors
    /// The system has no thread for calls.
    pub fn new(engine: EngineHandle, state_writer: StateWriter, kinds: Kinds) -> Result<Self> {
        let ended = Ended::default();
        let calls = calls::service::Service::start(engine.named("calls"), ended.clone())
            .context("starting the thread of calls")?;
        let state_writer = Arc::new(state_writer);
        let intent = Intent::new(state_writer.clone());
        let config = Mutex::new(intent.shared_config());
        let book = intent.book().clone();
        let engine = engine.named("change");
        Ok(Controller {
            engine,
            kinds,
            adapters: Arc::default(),
            links: Arc::new(Mutex::new(Links::noting(ended.clone()))),
            calls,
            ended,
            placement: Mutex::default(),
            intent: Mutex::new(intent),
            state_writer,
            config,
            peers_served: AtomicUsize::new(0),
            openers: Openers::default(),
            book,
            trial_until: Mutex::default(),
            service: ServiceSlot::default(),
        })
    }

    /// Calls.
    pub fn calls(&self) -> &calls::service::Service {
        &self.calls
    }

    /// The service, once it runs.
    pub(crate) fn service(&self) -> &ServiceSlot {
        &self.service
    }

    /// Counters of what has ended.
    pub fn ended(&self) -> &Ended {
        &self.ended
    }

    fn placement(&self) -> MutexGuard<'_, Arc<Placement>> {
        self.placement.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn intent(&self) -> MutexGuard<'_, Intent> {
        self.intent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for who may change something, and knows the last change if that matters. A right that another change
    /// took away meanwhile is gone.
    fn intent_for(&self, asking: &Asking<'_>, may: May<'_>) -> Result<MutexGuard<'_, Intent>> {
        let intent = self.intent();
        may(intent.config()).map_err(|e| anyhow!(e))?;
        asking.check(intent.revision(), |expected| intent.changes_since(expected))?;
        Ok(intent)
    }

    /// The same for a change that cannot be while a description is on trial.
    fn intent_to_change(&self, asking: &Asking<'_>, may: May<'_>) -> Result<MutexGuard<'_, Intent>> {
        let intent = self.intent_for(asking, may)?;
        intent.refuse_during_trial()?;
        Ok(intent)
    }

    /// The kinds of station that descriptions may have.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// What runs the network.
    pub fn engine(&self) -> &EngineHandle {
        &self.engine
    }

    /// The virtual adapters.
    pub fn adapters(&self) -> &Arc<Adapters> {
        &self.adapters
    }

    /// Something of what should be and what is. No change is made meanwhile.
    pub fn with_intent<R>(&self, f: impl FnOnce(&Intent) -> R) -> R {
        f(&self.intent())
    }

    /// Whose the endpoints are.
    pub fn openers(&self) -> &Openers {
        &self.openers
    }

    /// Something of the description that was applied last. While another one is being applied, this is the one before.
    pub fn with_config<R>(&self, f: impl FnOnce(&Config) -> R) -> R {
        // The lock is held for this short look: whoever held a copy might be the last one who does, and would drop the
        // description.
        f(&self.config.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why what was changed last is not kept for a restart, or is not in the log of changes; the disk has `patience`
    /// for it.
    pub fn not_kept(&self, patience: Duration) -> Option<String> {
        self.state_writer.wait(patience)
    }

    /// Nothing is kept any more: the daemon ends, and another one may have the state folder.
    pub fn end_keeping(&self) {
        self.state_writer.end();
    }

    /// The number of the last change.
    pub fn revision(&self) -> u64 {
        self.intent().revision()
    }

    /// The objects that there are, with owner and revision.
    pub fn objects(&self) -> Vec<(ObjectId, Owner, u64)> {
        let intent = self.intent();
        let all = intent.applied().iter();
        all.map(|(id, object)| (id.clone(), object.owner.clone(), object.revision)).collect()
    }

    /// Links of commands that wait for the next description.
    pub fn waiting_links(&self) -> Waiting {
        self.intent().waiting_links()
    }

    /// Makes the network what a description says, with what commands and peers have added as far as it fits.
    ///
    /// # Errors
    /// All that cannot be; or a step failed, and everything is as it was.
    pub fn apply<'a>(
        &self,
        wanted: Config,
        asking: impl Into<Asking<'a>>,
        may: May<'_>,
        how: Applying,
    ) -> Result<ChangeOutcome> {
        let asking = &asking.into();
        let intent = self.intent_for(asking, may)?;
        let waiting = intent.waiting_links();
        if waiting.is_empty() || how.exact {
            return self.apply_to(intent, wanted, &Understood::default(), asking, how);
        }
        // What these name may take long to find out: nobody waits for that.
        drop(intent);
        let links = Understood::of(waiting);
        self.apply_to(self.intent_for(asking, may)?, wanted, &links, asking, how)
    }

    /// Makes the network what its description says, without what commands have added, removed, taken down or up.
    ///
    /// # Errors
    /// A step failed, and everything is as it was.
    pub fn reset<'a>(&self, asking: impl Into<Asking<'a>>, may: May<'_>, dry_run: bool) -> Result<ChangeOutcome> {
        let asking = &asking.into();
        let intent = self.intent_for(asking, may)?;
        let wanted = intent.config().clone();
        let how = Applying { dry_run, allow_empty: true, exact: true, confirm_within: None };
        self.apply_to(intent, wanted, &Understood::default(), asking, how)
    }

    /// The same where it is known what the links that wait mean.
    ///
    /// # Errors
    /// As above.
    pub fn apply_with(&self, wanted: Config, links: &Understood, who: &Who) -> Result<ChangeOutcome> {
        let intent = self.intent();
        intent.refuse_undone(&wanted)?;
        self.apply_to(intent, wanted, links, &who.into(), Applying::default())
    }

    fn apply_to(
        &self,
        intent: MutexGuard<'_, Intent>,
        wanted: Config,
        links: &Understood,
        asking: &Asking<'_>,
        how: Applying,
    ) -> Result<ChangeOutcome> {
        if !how.dry_run {
            intent.refuse_during_trial()?;
        }
        if !how.allow_empty {
            intent.refuse_empty(&wanted)?;
        }
        let within = how.confirm_within.filter(|_| !how.dry_run);
        let trial = within.map(|within| intent.trial_of(&wanted, within));
        let prepare = |intent: &mut Intent, wanted| {
            let mut prepared = match how.exact {
                true => intent.prepare_exactly(wanted)?,
                false => intent.prepare_description(wanted, links)?,
            };
            trial.into_iter().for_each(|trial| prepared.put_on_trial(trial));
            Ok(prepared)
        };
        self.describe(intent, wanted, prepare, asking, how.dry_run)
    }

    /// Makes the network what a description says that `prepare` makes a plan of.
    fn describe(
        &self,
        mut intent: MutexGuard<'_, Intent>,
        wanted: Config,
        prepare: impl FnOnce(&mut Intent, Config) -> Result<Prepared, Impossible>,
        asking: &Asking<'_>,
        dry_run: bool,
    ) -> Result<ChangeOutcome> {
        self.forget_ended(&mut intent)?;
        let served: Vec<String> = wanted.served().map(|served| served.name.clone()).collect();
        let (had, place) = (intent.config().file.engine.clone(), wanted.file.engine.clone());
        let placement = placement::of(&wanted);
        let prepared = prepare(&mut intent, wanted)?;
        if dry_run {
            return Ok(intent.abandon(prepared));
        }
        if let Err(e) = self.announce(&mut intent, &prepared) {
            intent.abandon(prepared);
            return Err(e);
        }
        if had != place
            && let Err(e) = place.place(&self.engine)
        {
            intent.abandon(prepared);
            return Err(e);
        }
        *self.placement() = Arc::new(placement);
        // The signalling of switches moves with the number of their ports.
        let moved = moved_switches(&intent, &prepared);
        self.calls.withdraw(|name| moved.contains(name));
        let outcome = self.carry_out(&mut intent, prepared, asking);
        self.note_trial(&intent);
        self.arrange_calls(&intent);
        if outcome.is_err() {
            if had != place {
                // It was there before, so it can be there again.
                let _ = had.place(&self.engine);
            }
            let before = intent.config().served().map(|served| served.name.clone()).collect();
            let _ = self.keep_adapters(before);
            return outcome;
        }
        self.keep_adapters(served)?;
        outcome
    }

    /// Answers to changes that were asked for under an id.
    pub fn book(&self) -> &Arc<Book> {
        &self.book
    }

    /// How it is with what is to outlive the daemon; `None` where nothing is.
    pub fn kept_status(&self) -> Option<KeptStatus> {
        self.state_writer.look()
    }

    /// The log of changes is opened anew: somebody may have moved its file away.
    pub fn reopen_log(&self) {
        self.state_writer.reopen_log();
    }

    /// Tells calls of the links that there are. Links and switches that are gone take their calls with them.
    fn arrange_calls(&self, intent: &Intent) {
        match layout(intent, []) {
            Ok(layout) => self.calls.arrange(layout),
            // A description is checked before it is applied.
            Err(e) => tracing::error!("calls: {e:#}"),
        }
    }

    /// A far end that has ended, such as an interface whose device was deleted, counts as none: it is made again.
    fn forget_ended(&self, intent: &mut Intent) -> Result<()> {
        let links = self.links.clone();
        let ended = self.engine.with(move |core| {
            let ended: HashSet<LinkId> =
                core.network.externals().filter(|(_, shell)| shell.has_ended()).map(|(link, _)| link).collect();
            if ended.is_empty() {
                return Vec::new();
            }
            let links = links.lock().unwrap_or_else(PoisonError::into_inner);
            links.of(|id| ended.contains(&id))
        })?;
        ended.iter().for_each(|id| intent.forget_shell(id));
        Ok(())
    }

    /// Ends the adapters that the description does not have any more; one whose cable alone was removed stays.
    fn keep_adapters(&self, served: Vec<String>) -> Result<()> {
        let adapters = self.adapters.clone();
        let ended =
            self.engine.with(move |core| adapters.keep(&mut core.network, |here| served.contains(&here.name)))?;
        drop(ended);
        Ok(())
    }

    /// One object more, by command. `outside`: a name for what is at its far end.
    ///
    /// # Errors
    /// Why it cannot be; everything is as it was.
    pub fn add<'a>(
        &self,
        spec: Spec,
        outside: Option<String>,
        written: Option<Written>,
        asking: impl Into<Asking<'a>>,
        may: May<'_>,
    ) -> Result<(ObjectId, ChangeOutcome)> {
        let asking = &asking.into();
        let mut intent = self.intent_to_change(asking, may)?;
        let (id, prepared) = intent.prepare_added(spec, outside, written)?;
        // Where calls go is told of all links together: one that cannot be would keep the others from being told.
        if let Err(e) = layout(&intent, prepared.wanted()) {
            intent.abandon(prepared);
            return Err(e);
        }
        let outcome = self.carry_out(&mut intent, prepared, asking)?;
        self.arrange_calls(&intent);
        Ok((id, outcome))
    }

    /// Objects less, by command; with links, the circuits over them.
    ///
    /// # Errors
    /// Why it cannot be; everything is as it was.
    pub fn remove<'a>(&self, id: &ObjectId, asking: impl Into<Asking<'a>>, may: May<'_>) -> Result<ChangeOutcome> {
        let asking = &asking.into();
        let mut intent = self.intent_to_change(asking, may)?;
        let (_, prepared) = intent.prepare_removed(id)?;
        let outcome = self.carry_out(&mut intent, prepared, asking)?;
        self.arrange_calls(&intent);
        Ok(outcome)
    }

    /// Gives a host or switch another name; nothing that passes is interrupted.
    ///
    /// # Errors
    /// Why it cannot be; everything is as it was.
    pub fn rename<'a>(
        &self,
        from: &str,
        to: &str,
        asking: impl Into<Asking<'a>>,
        may: May<'_>,
    ) -> Result<ChangeOutcome> {
        let asking = &asking.into();
        let mut intent = self.intent_to_change(asking, may)?;
        let prepared = intent.prepare_renamed(from, to)?;
        let outcome = self.carry_out(&mut intent, prepared, asking)?;
        *self.placement() = Arc::new(placement::of(intent.config()));
        Ok(outcome)
    }

    /// Takes a link down, or up again.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn set_link<'a>(
        &self,
        name: &str,
        up: bool,
        asking: impl Into<Asking<'a>>,
        may: May<'_>,
    ) -> Result<ChangeOutcome> {
        let asking = &asking.into();
        let id = self.find_link(name)?;
        let mut intent = self.intent_to_change(asking, may)?;
        let prepared = intent.prepare_up(&id, up)?;
        self.carry_out(&mut intent, prepared, asking)
    }

    /// The object of a link's name, or of its ends as they were written.
    ///
    /// # Errors
    /// There is none.
    pub fn find_link(&self, name: &str) -> Result<ObjectId> {
        let found = self.intent().find_link(name).cloned();
        found.ok_or_else(|| anyhow!("no link `{name}` (`cellway link list` shows them)"))
    }

    /// The circuit of these ends.
    ///
    /// # Errors
    /// There is none.
    pub fn find_circuit(&self, ends: &[net::topology::CircuitEnd]) -> Result<ObjectId> {
        let found = self.intent().find_circuit(ends);
        found.ok_or_else(|| anyhow!("no circuit has these ends (`cellway circuit list` shows them)"))
    }

    /// What a circuit's contract reserves for what a host sends, by its name there. During a change, it is what is in
    /// force: who asks does not wait.
    pub fn reserved(&self, host: &str, circuit: wire::CircuitId) -> Option<wire::CellRate> {
        let end = CircuitEnd::new(host, circuit);
        let intent = match self.intent.try_lock() {
            Ok(intent) => intent,
            Err(TryLockError::Poisoned(intent)) => intent.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let reserved = move |core: &mut Core| reserved_at(core.fabric.find_circuit(&end)?, &end);
                return self.engine.with(reserved).ok().flatten();
            }
        };
        reserved_at(&intent.model().router.find_circuit(&end)?.description, &end)
    }

    /// A link's name in output.
    pub fn link_name(&self, id: &ObjectId) -> String {
        self.intent().link_name(id)
    }

    /// Does what peers of links with `peer_circuits_to` have asked for: each link's a few at a time, and for twenty
    /// milliseconds at most, so that peers who ask without end hold up neither commands nor other peers. The rest is
    /// done the next time.
    pub fn serve_peers(&self) {
        let begin = Instant::now();
        let mut peer_circuits: Vec<(ObjectId, String, PeerCircuits)> = self.intent().peer_circuits();
        if peer_circuits.is_empty() {
            return;
        }
        // Each time another one is first.
        let first = self.peers_served.fetch_add(1, Ordering::Relaxed) % peer_circuits.len();
        peer_circuits.rotate_left(first);
        let mut refused: HashMap<LinkId, u64> = HashMap::new();
        while begin.elapsed() < PEERS_SHARE {
            let (links, asked) = (self.links.clone(), peer_circuits.clone());
            let polled = self.engine.with(move |core| {
                let links = links.lock().unwrap_or_else(PoisonError::into_inner);
                let mut events = Vec::new();
                for (id, name, peer) in asked {
                    let Some(link) = links.find(&id) else { continue };
                    let of_link = std::iter::from_fn(|| core.network.poll_peer(link)).take(PEERS_TURN);
                    events.extend(of_link.map(|event| (link, name.clone(), peer.clone(), event)));
                }
                events
            });
            let polled = polled.unwrap_or_default();
            if polled.is_empty() {
                break;
            }
            for (link, name, peer, event) in polled {
                let mut intent = self.intent();
                let Some(prepared) = intent.prepare_peer(&name, &peer, &event) else { continue };
                if let Err(e) =
                    prepared.and_then(|prepared| self.carry_out(&mut intent, prepared, &(&Who::Peer).into()))
                {
                    if e.is::<TooManyCircuits>() {
                        *refused.entry(link).or_default() += 1;
                    }
                    tracing::info!("{} {}: {e:#}", peer.outside, event.circuit);
                }
            }
        }
        if !refused.is_empty() {
            // Where the link counts what else it drops of its peer's.
            let _ = self.engine.with(move |core| {
                let now = core.now();
                for (link, n) in refused {
                    core.network.external(link, now, |io| io.count_drops(0, DropReason::TableFull, n));
                }
            });
        }
    }

    fn carry_out(&self, intent: &mut Intent, mut prepared: Prepared, asking: &Asking<'_>) -> Result<ChangeOutcome> {
        match self.execute(prepared.work()) {
            Ok(()) => {
                let outcome = intent.commit(prepared, *asking);
                let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
                let before = std::mem::replace(&mut *config, intent.shared_config());
                // Dropping one of many circuits takes time, for which nobody waits who asks.
                drop(config);
                drop(before);
                Ok(outcome)
            }
            Err(e) => {
                intent.abandon(prepared);
                Err(e)
            }
        }
    }

    fn execute(&self, plan: Plan) -> Result<()> {
        let done = self.perform(plan);
        if done.is_ok()
            && let Err(e) = self.adapters.settle()
        {
            tracing::error!("{e:#}");
        }
        if self.adapters.any_replaced() {
            let adapters = self.adapters.clone();
            // They are dropped here, not on the engine's thread.
            drop(self.engine.with(move |core| adapters.keep(&mut core.network, |_| true)));
        }
        done
    }

    fn perform(&self, plan: Plan) -> Result<()> {
        if plan.steps.is_empty() {
            return Ok(());
        }
        let mut execution = Execution::new(plan);
        for (object, need, may_wait) in execution.needs() {
            match shells::make(&need, &self.adapters) {
                Ok(made) => execution.prepare(object, made),
                // It is made when its turn comes.
                Err(_) if may_wait => {}
                Err(e) => return Err(e.context(object.to_string())).context("nothing was changed"),
            }
        }
        loop {
            let (links, adapters, placement) = (self.links.clone(), self.adapters.clone(), self.placement().clone());
            let (mut held, mut dropped) = (Some(execution), Vec::new());
            let stopped = self.engine.in_slices(move |core| {
                let mut execution = held.take()?;
                let now = core.now();
                let mut links = links.lock().unwrap_or_else(PoisonError::into_inner);
                let mut live = NetworkTarget {
                    network: &mut core.network,
                    fabric: &mut core.fabric,
                    links: &mut links,
                    adapters: &adapters,
                    placement: &placement,
                    now,
                    dropped: std::mem::take(&mut dropped),
                };
                let begun = processor_time();
                let progress = execution.run(&mut live, || processor_time().saturating_sub(begun) < SLICE);
                dropped = live.dropped;
                if let Progress::More = progress {
                    held = Some(execution);
                    return None;
                }
                // Whatever takes time to drop goes to who waits.
                Some((execution, progress, std::mem::take(&mut dropped)))
            });
            let (back, progress, gone) = stopped?;
            drop(gone);
            execution = back;
            match progress {
                Progress::More => {}
                Progress::Make(need) => {
                    execution.give(shells::make(&need, &self.adapters).map_err(|e| format!("{e:#}")))
                }
                Progress::Done => return Ok(()),
                Progress::Undone(failure) => {
                    return Err(anyhow!(failure)).context("a step failed, and everything is as it was");
                }
            }
        }
    }
}

/// The switches that a change gives another number of ports, or takes away.
fn moved_switches(intent: &Intent, prepared: &Prepared) -> HashSet<String> {
    let ports = |object: Option<&Object>| match object.map(|object| &object.spec) {
        Some(Spec::Switch(config)) => Some((config.ports, config.kept_ports)),
        _ => None,
    };
    let changes = prepared.changes().iter().filter_map(|change| match &change.id {
        ObjectId::Station(name) => Some((name, ports(intent.applied().get(&change.id)), ports(change.wanted.as_ref()))),
        _ => None,
    });
    changes.filter(|(_, had, wanted)| had.is_some() && had != wanted).map(|(name, ..)| name.clone()).collect()
}

fn reserved_at(circuit: &CircuitDescription, end: &CircuitEnd) -> Option<wire::CellRate> {
    let first = circuit.ends.first().is_some_and(|first| first.station == end.station && first.circuit == end.circuit);
    if first { circuit.contract.reserved() } else { circuit.contract_back().reserved() }
}

/// What the links with signalling come to for calls, those included that are about to be.
fn layout<'a>(
    intent: &'a Intent,
    more: impl IntoIterator<Item = (&'a ObjectId, &'a Spec)>,
) -> Result<calls::layout::Layout> {
    let (router, file) = (&intent.model().router, &intent.config().file);
    let there = intent.applied().iter().map(|(id, object)| (id, &object.spec));
    let links = there.chain(more).filter_map(|(id, spec)| {
        let Spec::Link(link) = spec else { return None };
        let signalling = link.signalling.as_ref()?;
        let (description, ports) = router.link(intent.model().link(id).ok()?)?;
        let end = |at: usize| {
            let name = description.ends[at].station.as_str();
            Some((name, router.station(name)?, ports[at]))
        };
        Some(calls::layout::Link { ends: [end(0)?, end(1)?], config: &description.config, signalling })
    });
    let host = |name: &str| {
        let host = file.host.get(name).cloned().unwrap_or_default();
        Identity::of(name, host.esi.as_deref(), host.address.as_deref())
    };
    let switch = |name: &str| {
        let switch = file.switch.get(name).cloned().unwrap_or_default();
        let prefix = switch.prefix.as_deref().ok_or_else(|| anyhow!("switch {name} has no prefix"))?;
        Ok((parse_prefix(prefix)?, switch.ports))
    };
    calls::layout::Layout::of(&links.collect::<Vec<_>>(), host, switch)
}
