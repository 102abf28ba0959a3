//! Management: who answers what is asked of a running network ([`crate::protocol`]).

mod calls;
pub(crate) mod oam;
mod once;
mod traffic;

use crate::asking::Asking;
use crate::audit::Who;
use crate::calls::call_controller::Channel;
use crate::capture::pump::Capture;
pub use crate::config::MAX_DESCRIPTION_OCTETS;
use crate::config::{self, Config};
use crate::controller::{Applying, Controller, DISK_PATIENCE, May};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::intent::ChangeOutcome;
use crate::kinds::{KindRequest, Running};
use crate::memory::Available;
use crate::objects::{LinkSpec, Spec};
use crate::once::Ticket;
use crate::policy::Role;
use crate::protocol::{Applied, Done, LinkAdded, LinkRemoved, LinkSet, Message, OLDEST, Request, VERSION};
use crate::sources::commands::Written;
use crate::status::Which;
use crate::{description, export, path, policy, status};
use anyhow::{Result, anyhow};
use endpoint::seqpacket::Peer;
use host::quota::{Amounts, Limits};
use host::service::{Handler, Reply, Takes};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use wire::CircuitId;
use wire::aesa::Aesa;

/// The program's part of the service.
pub struct Manager {
    controller: Arc<Controller>,
    owner: u32,
    /// Memory that there was when this began.
    memory: Available,
    /// Captures that have begun, and whose they are.
    captures: Mutex<Vec<(Peer, Capture)>>,
    /// The number of the next capture's tap.
    next_tap: AtomicU64,
    /// What is done after a description was applied by command.
    applied: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Manager {
    /// Answers for a network.
    pub fn new(controller: Arc<Controller>) -> Self {
        let owner = rustix::process::getuid().as_raw();
        Manager {
            controller,
            owner,
            memory: Available::now(),
            captures: Mutex::default(),
            next_tap: AtomicU64::new(1),
            applied: OnceLock::new(),
        }
    }

    /// Says in a line how much memory users may have together, and why.
    pub fn memory_text(&self) -> String {
        let octets = self.users_octets();
        let of = match self.controller.with_config(|config| config.file.engine.max_users_octets) {
            Some(_) => "max_users_octets of the description".to_owned(),
            None => format!("{} allows {} MiB", self.memory.source, self.memory.octets >> 20),
        };
        format!("users may have {} MiB of memory together ({of})", octets >> 20)
    }

    /// What is to be done whenever a description was applied by command. Only the first that is given counts.
    pub fn after_apply(&self, f: impl Fn() + Send + Sync + 'static) {
        let _ = self.applied.set(Box::new(f));
    }

    /// Carries a request out. `may`: whether that is still allowed; changes ask again when it is their turn.
    fn serve(&self, request: Request, by: &By<'_>, fds: Vec<OwnedFd>) -> Result<String> {
        let (peer, may) = (by.peer, by.may);
        let done = || answer(&Done { done: true, not_kept: None });
        let say_done = |_: &ChangeOutcome| serde_json::to_string(&Done { done: true, not_kept: None });
        let (controller, engine) = (&*self.controller, self.controller.engine());
        match request {
            Request::Status => status::text(controller, Which::All),
            Request::Overview => status::text(controller, Which::Overview),
            Request::Circuits => status::circuits_text(controller),
            Request::CircuitRows => status::list_text(controller),
            Request::Links => answer(&status::links(controller)?),
            Request::AddCircuit(circuit) => {
                let spec = Spec::Circuit(circuit.describe()?);
                self.change(by, &say_done, |asking| {
                    controller.add(spec, None, Some(Written::Circuit(circuit)), asking, may).map(|(_, outcome)| outcome)
                })
            }
            Request::RemoveCircuit { ends } => {
                let ends = ends.iter().map(|e| e.parse()).collect::<Result<Vec<_>, _>>()?;
                self.change(by, &say_done, |asking| controller.remove(&controller.find_circuit(&ends)?, asking, may))
            }
            Request::AddLink(link) => self.add_link(link, by),
            Request::RemoveLink { name } => {
                let say = |outcome: &ChangeOutcome| {
                    let removed_circuits = outcome.removed_circuits.clone();
                    serde_json::to_string(&LinkRemoved { removed_circuits, not_kept: None })
                };
                self.change(by, &say, |asking| controller.remove(&controller.find_link(&name)?, asking, may))
            }
            Request::SetLink { name, up } => {
                let say = |outcome: &ChangeOutcome| {
                    serde_json::to_string(&LinkSet { link: outcome.subject.clone(), enabled: up, not_kept: None })
                };
                self.change(by, &say, |asking| controller.set_link(&name, up, asking, may))
            }
            Request::Rename { from, to } => {
                self.change(by, &say_done, |asking| controller.rename(&from, &to, asking, may))
            }
            Request::Ended => status::text(controller, Which::WithEnded),
            Request::Path { host, circuit } => {
                self.may_see(peer, &host, &circuit)?;
                answer(&path::of(controller, &host, &circuit)?)
            }
            Request::Oam { host, circuit } => answer(&oam::status(engine, host, &circuit)?),
            Request::OamAsk(ask) => {
                oam::ask(engine, ask)?;
                done()
            }
            Request::Calls(endpoint::calls::Request::List) => self.calls(peer),
            Request::Calls(_) => Err(anyhow!("calls belong to a session")),
            Request::Apply { text, name, folder, dry_run, allow_empty, exact, confirm_seconds } => {
                let confirm_within = confirm_seconds.map(Duration::from_secs);
                self.apply(&text, &name, &folder, Applying { dry_run, allow_empty, exact, confirm_within }, by)
            }
            Request::ApplyFile { .. } => self.serve(once::with_text(request, &fds)?, by, Vec::new()),
            Request::Reset { dry_run } => self.applied(by, dry_run, |asking| controller.reset(asking, may, dry_run)),
            Request::Confirm { undo } => self.end_trial(undo, by),
            Request::Export => answer(&controller.with_intent(export::exported)?),
            Request::CaptureStart { link, circuits, buffer_mib } => {
                let wanted = traffic::Wanted { link: &link, circuits: &circuits, buffer_mib };
                self.start_capture(peer, wanted, fds, may)
            }
            Request::Inject(asked) => self.inject(&asked, &fds, may),
        }
    }

    fn add_link(&self, link: Box<config::Link>, by: &By<'_>) -> Result<String> {
        let controller = &*self.controller;
        let (mut description, shell) = link.describe(Path::new(""))?;
        let far = shell.as_ref().and_then(|_| description.ends.get(1)).map(|end| end.station.clone());
        let shell = controller.with_config(|config| config::far_end(config.guests(), &mut description, shell))?;
        let follows = link.follows.as_deref().map(|other| controller.find_link(other)).transpose()?;
        let (enabled, signalling) = (link.enabled, link.signalling.clone());
        let spec = LinkSpec { description, shell, follows, enabled, signalling };
        let spec = Spec::Link(Box::new(spec));
        let say = |outcome: &ChangeOutcome| {
            serde_json::to_string(&LinkAdded { link: outcome.subject.clone(), not_kept: None })
        };
        self.change(by, &say, |asking| {
            controller.add(spec, far, Some(Written::Link(link)), asking, by.may).map(|(_, outcome)| outcome)
        })
    }

    fn captures(&self) -> MutexGuard<'_, Vec<(Peer, Capture)>> {
        self.captures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the network what a description says; what is wrong with that is an answer too.
    fn apply(&self, text: &str, name: &str, folder: &Path, how: Applying, by: &By<'_>) -> Result<String> {
        self.applied(by, how.dry_run, |asking| {
            let wanted = description::read(self.controller.kinds(), text, name, folder)?;
            let source = wanted.clone();
            let outcome = self.controller.apply(wanted, asking, by.may, how);
            outcome.map_err(|e| description::explained(&source, e))
        })
    }

    /// What applying a description comes to, as an answer.
    fn applied(
        &self,
        by: &By<'_>,
        dry_run: bool,
        apply: impl FnOnce(Asking<'_>) -> Result<ChangeOutcome>,
    ) -> Result<String> {
        let say = |outcome: &ChangeOutcome| serde_json::to_string(&of_outcome(outcome.clone(), dry_run, Vec::new()));
        let applied = apply(by.asking(&say));
        // Rights that are gone do not wait for the disk.
        if let (false, Some(after)) = (dry_run, self.applied.get()) {
            after();
        }
        match applied {
            Ok(outcome) => {
                let not_kept = if dry_run { None } else { self.controller.not_kept(DISK_PATIENCE) };
                answer(&Applied { not_kept, ..of_outcome(outcome, dry_run, Vec::new()) })
            }
            Err(e) => {
                let problems = e.downcast::<Diagnostics>()?.into_all();
                let none = ChangeOutcome { revision: self.controller.revision(), ..ChangeOutcome::default() };
                answer(&of_outcome(none, dry_run, problems))
            }
        }
    }

    /// Whether somebody may ask this. Whoever is admitted may ask for the list of calls: without a role it shows
    /// their own only.
    fn may_ask(&self, config: &Config, peer: &Peer, request: &Asked) -> Result<(), String> {
        match request {
            Asked::Own(message) if matches!(message.request, Request::Calls(_) | Request::Path { .. }) => Ok(()),
            request => policy::may_act(&config.rules, peer, self.owner, request.needs()),
        }
    }

    /// Whether somebody may hear of the path of a circuit: whoever may watch, and whoever may open it.
    fn may_see(&self, peer: &Peer, host: &str, circuit: &str) -> Result<()> {
        let watches = |config: &Config| policy::may_act(&config.rules, peer, self.owner, Role::Watch);
        let Err(refused) = self.controller.with_config(watches) else { return Ok(()) };
        let opens = self.may_open(*peer, host, circuit.parse()?);
        opens.map_err(|_| anyhow!(refused))
    }

    /// Carries a request of a registered kind out.
    fn serve_kind(&self, request: KindRequest) -> Result<String> {
        self.controller.with_intent(|intent| {
            let stations = intent.stations_of(request.section());
            let (engine, router) = (self.controller.engine(), &intent.model().router);
            request.serve(&Running { engine, router, stations: &stations })
        })
    }

    /// A request with the protocol's version or alone, of whatever kind.
    fn understood(&self, request: &Value) -> Result<Asked, String> {
        let inner = if request.get("version").is_some() { &request["request"] } else { request };
        let of_kind = self.controller.kinds().request(inner).map_err(not_understood)?;
        match of_kind {
            Some(of_kind) => check_version(request).map(|()| Asked::OfKind(of_kind)),
            None => understood(request).map(|message| Asked::Own(Box::new(message))),
        }
    }

    /// When the network's time was zero.
    fn epoch_unix_nanos(&self) -> Result<u64> {
        let now = self.controller.engine().with(|core| core.now())?;
        let unix = std::time::SystemTime::UNIX_EPOCH.elapsed()?;
        Ok((unix.as_nanos() as u64).saturating_sub(now.as_nanos()))
    }
}

fn of_outcome(outcome: ChangeOutcome, dry_run: bool, problems: Vec<Diagnostic>) -> Applied {
    let confirm_seconds = outcome.confirm_within.map(|within| within.as_secs());
    let ChangeOutcome { revision, lines, summary, unchanged_circuits, interrupted, dropped, kept, .. } = outcome;
    Applied {
        revision,
        dry_run,
        changes: lines,
        added: summary.added,
        changed: summary.changed,
        removed: summary.removed,
        unchanged_circuits,
        interrupted,
        dropped,
        kept,
        problems,
        confirm_seconds,
        not_kept: None,
    }
}

fn answer(answer: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(answer)?)
}

/// Who asks for something, whether that is still allowed (changes ask again when it is their turn), and what comes with
/// the request.
struct By<'a> {
    peer: &'a Peer,
    may: May<'a>,
    who: Who,
    expect: Option<u64>,
    ticket: Option<Ticket>,
}

/// A request.
enum Asked {
    Own(Box<Message>),
    OfKind(KindRequest),
}

impl Asked {
    /// The role that it needs.
    fn needs(&self) -> Role {
        match self {
            Asked::Own(message) => message.request.needs(),
            Asked::OfKind(request) => request.needs(),
        }
    }
}

fn not_understood(e: serde_json::Error) -> String {
    format!("request not understood: {e}")
}

/// Whether a request is of a version of the protocol that is understood, as one is that has none.
fn check_version(request: &Value) -> Result<(), String> {
    let understood = u64::from(OLDEST)..=u64::from(VERSION);
    let known = |version: &Value| version.as_u64().is_some_and(|version| understood.contains(&version));
    match request.get("version") {
        Some(version) if !known(version) => {
            Err(format!("this service speaks versions {OLDEST} to {VERSION} of the management protocol, not {version}"))
        }
        _ => Ok(()),
    }
}

/// A request of control's own, with the protocol's version or alone.
fn understood(request: &Value) -> Result<Message, String> {
    check_version(request)?;
    if request.get("version").is_none() {
        let request = Request::deserialize(request).map_err(not_understood)?;
        return Ok(Message { version: VERSION, request, id: None, expect: None });
    }
    Message::deserialize(request).map_err(not_understood)
}

impl Handler for Manager {
    fn admit(&self, peer: Peer) -> Result<(), String> {
        self.controller.with_config(|config| policy::admit(&config.rules, &peer, self.owner))
    }

    fn may_open(&self, peer: Peer, host: &str, circuit: CircuitId) -> Result<(), String> {
        // The circuit of a call is its user's, whatever rules say of the label that the network chose.
        match self.controller.calls().look(|exchange| exchange.user_of(host, circuit)) {
            Some(uid) if uid == peer.uid || policy::owns(&peer, self.owner) => return Ok(()),
            Some(_) => return Err(format!("circuit {circuit} of host {host} is a call of another user")),
            None => {}
        }
        let is_channel = Channel::ALL.iter().any(|channel| channel.circuit() == circuit);
        let signals = is_channel && self.controller.calls().with(|exchange, _| exchange.is_left_to_program(host));
        self.controller.with_config(|config| {
            if signals {
                // Whoever has it says what calls the host makes.
                return policy::may_act(&config.rules, &peer, self.owner, Role::Manage);
            }
            policy::may_open(&config.rules, &peer, self.owner, config.current_name(host), circuit)
        })
    }

    fn may_attach(&self, peer: Peer, host: &str) -> Result<(), String> {
        self.controller
            .with_config(|config| policy::may_attach(&config.rules, &peer, self.owner, config.current_name(host)))
    }

    fn endpoint_made(&self, peer: Peer, host: &str, endpoint: u64) {
        self.controller.openers().handle_made(peer, host, endpoint);
    }

    fn endpoint_ended(&self, host: &str, endpoint: u64) {
        self.controller.openers().handle_ended(host, endpoint);
    }

    fn reserved(&self, host: &str, circuit: CircuitId) -> u64 {
        self.controller.reserved(host, circuit).map_or(0, policy::reserved)
    }

    fn limits(&self, peer: Peer) -> Limits {
        self.controller.with_config(|config| policy::limits(&config.rules, &peer, self.owner))
    }

    fn users_octets(&self) -> u64 {
        let given = self.controller.with_config(|config| config.file.engine.max_users_octets);
        given.unwrap_or_else(|| self.memory.for_users())
    }

    fn reserved_beside(&self, peer: Peer) -> u64 {
        if policy::owns(&peer, self.owner) {
            return 0;
        }
        self.controller.calls().with(|exchange, _| exchange.reserved_by(peer.uid))
    }

    fn converse(&self, peer: Peer, session: u64, request: &Value, has: &Amounts) -> Option<Result<Reply, String>> {
        let inner = request.get("request").unwrap_or(request);
        inner.get("calls")?;
        let request = match understood(request).map(|message| message.request) {
            // It belongs to no session, and takes time where there are many calls.
            Ok(Request::Calls(endpoint::calls::Request::List)) => return None,
            Ok(Request::Calls(request)) => request,
            Ok(_) => return None,
            Err(e) => return Some(Err(e)),
        };
        let answer = self.call(&peer, session, request, has).map_err(|e| format!("{e:#}"));
        Some(answer.map(|text| text.map_or(Reply::Later, Reply::Now)))
    }

    fn poll_reply(&self, session: u64, ends: bool) -> Option<Result<String, String>> {
        let reply = self.controller.calls().look(|exchange| exchange.take_reply(session, ends))?;
        let text = reply.map_err(anyhow::Error::from).and_then(|reply| answer(&reply));
        Some(text.map_err(|e| format!("{e:#}")))
    }

    fn is_over(&self, session: u64) -> bool {
        self.controller.calls().look(|exchange| exchange.is_over(session))
    }

    fn review_session(&self, peer: Peer, session: u64, has: &Amounts) {
        // Before the lock of calls: whoever changes the network takes them in this order.
        let (user, rules) = (self.user(&peer, has), self.controller.with_config(|config| config.rules.clone()));
        let may = |host: &str, to: Option<&Aesa>| policy::may_call(&rules, &peer, self.owner, host, to).is_ok();
        let manages = policy::may_act(&rules, &peer, self.owner, Role::Manage).is_ok();
        self.controller.calls().with(|exchange, now| {
            // Whoever serves a host says what calls it makes.
            if !manages {
                exchange.stop_serving(session);
            }
            exchange.review(session, user, may, now);
        });
    }

    fn review(&self) {
        let mut captures = self.captures();
        let rules = self.controller.with_config(|config| config.rules.clone());
        captures.retain(|(peer, capture)| {
            let stays = policy::may_act(&rules, peer, self.owner, Role::Manage).is_ok();
            if !stays {
                capture.revoke();
            }
            stays && !capture.is_over()
        });
    }

    fn end_session(&self, session: u64) {
        self.controller.calls().with(|exchange, now| exchange.end_session(session, now));
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        Some(self.controller.calls().news())
    }

    fn takes(&self, peer: Peer, request: &Value) -> Takes {
        let Ok(request) = self.understood(request) else { return Takes::NoTime };
        let may = |config: &Config| self.may_ask(config, &peer, &request).is_ok();
        // Whoever may not have it done is refused at once.
        if !self.controller.with_config(may) {
            return Takes::NoTime;
        }
        let Asked::Own(message) = request else { return Takes::Long };
        match message.request {
            // They read files and look up names of hosts.
            Request::Apply { .. } | Request::ApplyFile { .. } | Request::Reset { .. } | Request::AddLink(_) => {
                Takes::AsLongAsOthersLike
            }
            // They look at what there is, and wait for a change that is under way.
            _ => Takes::Long,
        }
    }

    fn manage(&self, peer: Peer, request: Value, fds: Vec<OwnedFd>) -> Result<String, String> {
        let understood = self.understood(&request);
        let may = |config: &Config| match &understood {
            Ok(request) => self.may_ask(config, &peer, request),
            Err(_) => policy::may_act(&config.rules, &peer, self.owner, Role::Watch),
        };
        self.controller.with_config(may)?;
        let request = understood?;
        let needs = request.needs();
        let may = |config: &Config| policy::may_act(&config.rules, &peer, self.owner, needs);
        let answer = match request {
            Asked::Own(message) => self.serve_message(*message, &peer, &may, fds),
            Asked::OfKind(request) => self.serve_kind(request),
        };
        answer.map_err(|e| format!("{e:#}"))
    }
}
