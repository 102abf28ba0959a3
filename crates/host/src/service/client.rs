//! What one connection asks, and what it has: an endpoint or a side of a direct circuit, circuits, a session.

mod ending;
mod mapping;

use super::handler::{Handler, Reply, Takes};
use super::worker_pool::{Pending, WorkerPool};
use crate::channels::EndpointId;
use crate::direct::{Broker, Claim, DirectError, Offer};
use crate::engine::EngineHandle;
use crate::events::Bell;
use crate::host_endpoint::{AttachError, HostEndpoint};
use crate::interface::OpenError;
use crate::lent::Lent;
use crate::proxy::{KEEP_BELL, MAKE_PAGES, Packet, ProxiedConnection, SEAL_MEMORY};
use crate::quota::{Account, Kind, Ledger, TakeError};
use ending::Ending;
use endpoint::control::{MAX_PACKET_OCTETS, Refusal, Request, Response};
use endpoint::negotiate::{MEMORY_ANSWERS, OLDEST, REMAP, VERSION, agree_features, agree_version};
use endpoint::sealed;
use endpoint::segment::Segment;
use endpoint::seqpacket::{PacketError, Peer};
use endpoint::shared::SharedMemory;
use endpoint::{ChannelId, DataPath, Events, Geometry};
use mapping::Mapping;
use net::NodeId;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Instant;
use wire::CircuitId;

/// Octets of JSON text in one part of a long answer; quoting may double them.
const PART_OCTETS: usize = MAX_PACKET_OCTETS / 3;
/// Requests of one connection that are served before the others' turn.
pub(super) const TURN: usize = 16;

/// A request that is not served.
struct Refused {
    kind: Refusal,
    reason: String,
}

impl Refused {
    fn new(kind: Refusal, reason: impl ToString) -> Self {
        Refused { kind, reason: reason.to_string() }
    }
}

impl<T: ToString> From<T> for Refused {
    fn from(reason: T) -> Self {
        Refused::new(Refusal::Other, reason)
    }
}

fn not_opened(e: OpenError) -> Refused {
    let kind = match e {
        OpenError::NoCircuit(_) => Refusal::NoCircuit,
        OpenError::InUse(..) => Refusal::InUse,
        OpenError::TooManyChannels => Refusal::Limit,
        OpenError::NoEndpoint
        | OpenError::NoChannel(_)
        | OpenError::Lends
        | OpenError::CannotLend
        | OpenError::CannotBorrow(_)
        | OpenError::Credit(_) => Refusal::Invalid,
    };
    Refused::new(kind, e)
}

fn not_direct(e: DirectError) -> Refused {
    match e {
        DirectError::Open(e) => not_opened(e),
        DirectError::NoHost(_) => Refused::new(Refusal::NoHost, e),
        DirectError::System(_) | DirectError::Stopped(_) => e.into(),
        DirectError::Layout(_)
        | DirectError::Memory(_)
        | DirectError::Multipoint(_)
        | DirectError::Contract(_)
        | DirectError::Elsewhere(..) => Refused::new(Refusal::Invalid, e),
    }
}

/// What the service works with, whoever asks.
pub(super) struct ServiceContext<'a> {
    pub(super) engine: &'a EngineHandle,
    pub(super) handler: &'a dyn Handler,
    pub(super) workers: &'a WorkerPool,
    pub(super) broker: Broker,
    pub(super) ledger: Ledger,
}

pub(super) struct Client {
    pub(super) line: ProxiedConnection,
    pub(super) peer: Peer,
    pub(super) greeted: bool,
    /// It takes long answers as memory files.
    pub(super) memory_answers: bool,
    /// Of this service's own user, and asks for a segment that it can map again: it is not sealed.
    pub(super) remaps: bool,
    /// The segment, until it is seen to be sealed and its pages are mapped.
    pub(super) segment: Option<(Arc<Segment>, OwnedFd)>,
    /// Memory whose pages are being mapped; nothing else is served meanwhile.
    pub(super) mapping: Option<Mapping>,
    /// A request that is answered elsewhere; nothing else is served meanwhile.
    pub(super) pending: Option<Pending>,
    /// Memory that it has asked for and not registered yet.
    pub(super) made: Option<(SharedMemory, OwnedFd)>,
    pub(super) endpoint: Option<(String, NodeId, EndpointId)>,
    pub(super) direct: Option<Claim>,
    /// The circuits that it has open, with the hosts that they are at.
    pub(super) open: Vec<OpenCircuit>,
    /// Those that it may not have open any more and that are not closed yet: nothing else is served meanwhile.
    pub(super) revoked: Vec<OpenCircuit>,
    /// What it has opened is ending; nothing else is served meanwhile.
    pub(super) ending: Option<Ending>,
    pub(super) max_connections: Option<usize>,
    /// Its number, and whether it has asked something that belongs to a session.
    pub(super) session: (u64, bool),
    /// It has been told that an answer comes later.
    pub(super) waits: bool,
    /// Its user had no time left when it was to be served: it is served before the user's others next time.
    pub(super) passed_over: bool,
    /// What it has of what all users share.
    pub(super) account: Account,
}

/// A circuit that a client has open.
pub(super) struct OpenCircuit {
    host: String,
    circuit: CircuitId,
    /// `None` for a direct circuit, which ends with its connection.
    channel: Option<ChannelId>,
    /// What its contract reserved when it was opened.
    reserved: u64,
}

impl Client {
    /// Whether nothing is served until something else has come to its end.
    pub(super) fn is_occupied(&self) -> bool {
        self.mapping.is_some() || self.pending.is_some() || self.is_ending()
    }

    /// Serves what waits, and begins nothing after `until`. False if the connection has ended.
    pub(super) fn turn(&mut self, context: &mut ServiceContext<'_>, until: Instant) -> bool {
        for served in 0..TURN {
            if served > 0 && Instant::now() >= until {
                return true;
            }
            if self.is_ending() {
                return self.end_until(context, until);
            }
            if self.line.flush().is_err() {
                return false;
            }
            if self.line.is_behind() {
                return true;
            }
            if let Some(pending) = &self.pending {
                let Some(answer) = pending.take() else { return true };
                self.pending = None;
                let answered = answer.map_err(Refused::from).and_then(|text| self.answer_text(&text));
                if self.answer_refusal(answered).is_err() {
                    return false;
                }
                continue;
            }
            if let Some(mut mapping) = self.mapping.take() {
                if mapping.advance() {
                    self.mapping = Some(mapping);
                    return true;
                }
                let served = self.go_on(mapping, context);
                if self.answer_refusal(served).is_err() {
                    return false;
                }
                continue;
            }
            let packet = match self.line.receive() {
                Ok(None) => return true,
                Ok(Some(packet)) => packet,
                Err(_) => return false,
            };
            if self.reply(context, true).is_err() {
                return false;
            }
            let request = match serde_json::from_slice::<Request>(&packet.octets) {
                Ok(request) => request,
                Err(what) => {
                    let reason = format!("not a message of this protocol: {what}");
                    let _ = self.send(&Response::Refused { reason, kind: Refusal::Other });
                    return false;
                }
            };
            let _kept = packet.keep();
            let served = self.serve(request, packet, context);
            if self.answer_refusal(served).is_err() {
                return false;
            }
            if self.max_connections.is_some() || !self.greeted {
                return false;
            }
        }
        true
    }

    /// Looks again at what it may do. A circuit that it may not have open any more is closed in a turn of its own;
    /// false if the connection ends.
    pub(super) fn review(&mut self, context: &mut ServiceContext<'_>) -> bool {
        if !self.greeted {
            return true;
        }
        let handler = context.handler;
        let at_host = self.endpoint.as_ref().is_none_or(|(host, ..)| handler.may_attach(self.peer, host).is_ok());
        if handler.admit(self.peer).is_err() || !at_host {
            return false;
        }
        self.account.set_limits(handler.limits(self.peer));
        if self.session.1 {
            handler.review_session(self.peer, self.session.0, &context.ledger.of(self.peer.uid));
        }
        let peer = self.peer;
        let may_stay = |open: &OpenCircuit| handler.may_open(peer, &open.host, open.circuit).is_ok();
        let (stays, revoked): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open).into_iter().partition(may_stay);
        self.open = stays;
        // A direct circuit ends with its connection.
        let stays = revoked.iter().all(|open| open.channel.is_some());
        self.revoked.extend(revoked);
        stays
    }

    /// There is news for sessions. False if the connection ends.
    pub(super) fn hears(&mut self, context: &ServiceContext<'_>) -> bool {
        self.reply(context, false).is_ok() && !(self.session.1 && context.handler.is_over(self.session.0))
    }

    /// Gives a session that waits its answer, if there is one; `ends`: in any case.
    fn reply(&mut self, context: &ServiceContext<'_>, ends: bool) -> Result<(), PacketError> {
        if self.waits
            && let Some(reply) = context.handler.poll_reply(self.session.0, ends)
        {
            self.waits = false;
            match reply {
                Ok(text) => self.send_parts(&text)?,
                Err(reason) => self.send(&Response::Refused { reason, kind: Refusal::Other })?,
            }
        }
        Ok(())
    }

    fn send(&mut self, response: &Response) -> Result<(), PacketError> {
        self.line.send(response, Vec::new(), 0)
    }

    fn answer_refusal(&mut self, served: Result<(), Refused>) -> Result<(), PacketError> {
        match served {
            Ok(()) => Ok(()),
            Err(Refused { kind, reason }) => self.send(&Response::Refused { reason, kind }),
        }
    }

    fn serve(&mut self, request: Request, packet: Packet, context: &mut ServiceContext<'_>) -> Result<(), Refused> {
        let Packet { fds, refused_fd, is_whole, .. } = packet;
        let ServiceContext { engine, handler, workers, broker, ledger } = context;
        let too_many = |e: TakeError| Refused::new(Refusal::Limit, e);
        let not_allowed = |reason: String| Refused::new(Refusal::NotAllowed, reason);
        let Some(request) = self.map_first(request, ledger)? else { return Ok(()) };
        let answer = match request {
            Request::Hello { version, oldest, features } => {
                let oldest = oldest.unwrap_or(version);
                let Some(agreed) = agree_version(oldest, version) else {
                    let reason = format!(
                        "this service speaks versions {OLDEST} to {VERSION} of the protocol, not {oldest} to {version}"
                    );
                    return Err(reason.into());
                };
                if let Some(max) = self.max_connections {
                    let reason = format!("the service has {max} connections, which is its limit");
                    return Err(Refused::new(Refusal::Limit, reason));
                }
                handler.admit(self.peer).map_err(not_allowed)?;
                if !self.greeted {
                    self.account = Account::new(self.peer.uid, handler.limits(self.peer));
                    self.account.take(ledger, Kind::Connections, 1).map_err(too_many)?;
                }
                self.greeted = true;
                let mut agreed_features = agree_features(&features);
                self.memory_answers = agreed_features.iter().any(|name| name == MEMORY_ANSWERS);
                self.remaps =
                    self.peer.uid == rustix::process::geteuid().as_raw() && features.iter().any(|f| f == REMAP);
                agreed_features.extend(self.remaps.then(|| REMAP.to_owned()));
                Response::Welcome { version: agreed, features: agreed_features }
            }
            _ if !self.greeted => return Err("a greeting must come first".into()),
            Request::OpenDirect { host, vpi_vci, layout, geometry } => {
                if self.endpoint.is_some() || self.direct.is_some() {
                    return Err("a direct circuit has a connection of its own".into());
                }
                let circuit: CircuitId = vpi_vci.parse().map_err(|e| format!("circuit {vpi_vci}: {e}"))?;
                handler.may_open(self.peer, &host, circuit).map_err(not_allowed)?;
                let memory =
                    fds.into_iter().next().ok_or("a direct circuit needs memory: pass its descriptor along")?;
                let octets = geometry.octets() as u64;
                self.account.take(ledger, Kind::Octets, octets).map_err(too_many)?;
                let channel = self.account.take(ledger, Kind::Channels, 1).map_err(too_many);
                let open = OpenCircuit { host: host.clone(), circuit, channel: None, reserved: 0 };
                let offer = Offer { host, circuit, layout, geometry, memory, is_whole };
                let offered = channel.and_then(|()| broker.offer(offer, &self.line, engine).map_err(not_direct));
                self.direct = Some(offered.inspect_err(|_| self.account.close(ledger, None))?);
                self.open.push(open);
                return Ok(());
            }
            Request::CreateEndpoint { host, geometry, events, path } => {
                if self.endpoint.is_some() || self.direct.is_some() {
                    return Err("this connection has its endpoint already".into());
                }
                if refused_fd || !fds.is_empty() {
                    return Err("a bell is an end of a pair of UNIX stream sockets, with no descriptor in it".into());
                }
                handler.may_attach(self.peer, &host).map_err(not_allowed)?;
                let polling = u64::from(events.keeps_awake());
                let octets = geometry.checked()?.octets() as u64;
                for (kind, amount) in [(Kind::Endpoints, 1), (Kind::Octets, octets), (Kind::Polling, polling)] {
                    let taken = self.account.take(ledger, kind, amount);
                    taken.inspect_err(|_| self.account.close(ledger, None)).map_err(too_many)?;
                }
                let (created, passed, for_proxy) = self
                    .make_endpoint(host, geometry, events, path, engine)
                    .inspect_err(|_| self.account.close(ledger, None))?;
                if let Some((host, _, id)) = &self.endpoint {
                    handler.endpoint_made(self.peer, host, id.0);
                }
                return self.line.send(&created, passed, for_proxy).map_err(Into::into);
            }
            Request::Open { vpi_vci, options } => {
                let (host, node, id) = self.endpoint.clone().ok_or("create the endpoint first")?;
                let circuit: CircuitId = vpi_vci.parse().map_err(|e| format!("circuit {vpi_vci}: {e}"))?;
                handler.may_open(self.peer, &host, circuit).map_err(not_allowed)?;
                let reserved = handler.reserved(&host, circuit);
                let beside = if reserved > 0 { handler.reserved_beside(self.peer) } else { 0 };
                let mut taken = self.take_open(ledger, reserved, beside);
                // Where the list would grow too: it is no longer than twice the circuits that are open.
                if taken.is_err() || self.open.len() == self.open.capacity() {
                    self.give_back_gone(engine, ledger);
                    taken = taken.or_else(|_| self.take_open(ledger, reserved, beside));
                }
                taken.map_err(too_many)?;
                let opened = engine.with(move |core| {
                    let host = core.network.node_mut::<crate::HostInterface>(node).ok_or("the host is gone")?;
                    host.wake(id);
                    host.open_with(id, circuit, options).map_err(not_opened)
                });
                let opened = opened.map_err(Refused::from).and_then(|opened| opened);
                let channel = opened.inspect_err(|_| {
                    self.account.give_back(ledger, Kind::Channels, 1);
                    self.account.give_back(ledger, Kind::Bandwidth, reserved);
                })?;
                self.open.push(OpenCircuit { host, circuit, channel: Some(channel), reserved });
                Response::Opened { channel }
            }
            Request::Memory { octets } => {
                if self.endpoint.is_none() {
                    return Err("create the endpoint first".into());
                }
                let octets =
                    usize::try_from(octets).ok().filter(|n| (1..=endpoint::layout::MAX_SEGMENT_OCTETS).contains(n));
                let octets = octets.ok_or("own memory has 1 octet to 1 GiB")?;
                self.account.take(ledger, Kind::Octets, octets as u64).map_err(too_many)?;
                let made = SharedMemory::create(octets).and_then(|(memory, fd)| {
                    let passed = fd.try_clone().map_err(|_| Errno::MFILE)?;
                    Ok((memory, fd, passed))
                });
                let made = made.inspect_err(|_| self.account.give_back(ledger, Kind::Octets, octets as u64));
                let (memory, fd, passed) = made?;
                // One that was never registered is nobody's any more.
                if let Some(old) = self.made.replace((memory, fd)) {
                    self.account.give_back(ledger, Kind::Octets, old.0.len() as u64);
                    crate::reaper::dispose(old);
                }
                let for_proxy = SEAL_MEMORY | MAKE_PAGES;
                return self.line.send(&Response::Memory, vec![passed], for_proxy).map_err(Into::into);
            }
            Request::Lend => {
                let (_, node, id) = self.endpoint.clone().ok_or("create the endpoint first")?;
                if self.remaps {
                    return Err(
                        "a segment that may be mapped again is not lent: do not ask for the feature `remap`".into()
                    );
                }
                let late = || Refused::new(Refusal::Invalid, "lend the endpoint before anything else is asked of it");
                let (segment, fd) = self.segment.as_ref().ok_or_else(late)?;
                let lent = Lent::new(*segment.geometry(), fd.try_clone().map_err(|e| e.to_string())?);
                let lent = engine.with(move |core| {
                    let host = core.network.node_mut::<crate::HostInterface>(node).ok_or("the host is gone")?;
                    host.lend(id, lent).map_err(not_opened)
                });
                lent??;
                Response::Lends
            }
            Request::Borrow { channel } => {
                let (_, node, id) = self.endpoint.clone().ok_or("create the endpoint first")?;
                let borrows = engine.with(move |core| {
                    let host = core.network.node_mut::<crate::HostInterface>(node).ok_or("the host is gone")?;
                    host.borrow(id, channel).map_err(not_opened)
                });
                borrows??;
                Response::Borrows
            }
            Request::Borrowed { region } => {
                let (_, node, id) = self.endpoint.clone().ok_or("create the endpoint first")?;
                let found = engine
                    .with(move |core| core.network.node_mut::<crate::HostInterface>(node)?.borrowed(id, region))?;
                let (geometry, memory) = found.ok_or_else(|| format!("no region {region}: its sender has ended"))?;
                return self.line.send(&Response::Borrowed { geometry }, vec![memory], 0).map_err(Into::into);
            }
            // Once its pages are mapped: `register`.
            Request::Register { .. } => return Err("create the endpoint first".into()),
            Request::Release => {
                // Answered once it has ended.
                self.release();
                return Ok(());
            }
            Request::SetEvents { events } => {
                let (_, node, id) = self.endpoint.clone().ok_or("create the endpoint first")?;
                let (polled, polls) = (self.account.has(Kind::Polling), u64::from(events.keeps_awake()));
                self.account.take(ledger, Kind::Polling, polls.saturating_sub(polled)).map_err(too_many)?;
                let set = engine.with(move |core| {
                    let host = core.network.node_mut::<crate::HostInterface>(node).ok_or("the host is gone")?;
                    host.wake(id);
                    host.set_events(id, events).map_err(not_opened)
                });
                let set = set.map_err(Refused::from).and_then(|set| set);
                let over = self.account.has(Kind::Polling) - if set.is_ok() { polls } else { polled };
                self.account.give_back(ledger, Kind::Polling, over);
                set?;
                Response::EventsSet
            }
            Request::Close { channel } => {
                let (_, node, id) = self.endpoint.clone().ok_or("create the endpoint first")?;
                let closed = engine.with(move |core| core.close(node, id, channel))?.ok_or("the host is gone")?;
                // It may have ended before, with its circuit.
                if let Some(place) = self.open.iter().position(|open| open.channel == Some(channel)) {
                    let open = self.open.swap_remove(place);
                    self.give_back_open(&open, ledger);
                }
                closed.map_err(not_opened)?;
                Response::Closed
            }
            Request::Manage(request) => {
                if let Some(reply) = handler.converse(self.peer, self.session.0, &request, &ledger.of(self.peer.uid)) {
                    self.session.1 = true;
                    match reply? {
                        Reply::Now(text) => self.send_parts(&text)?,
                        Reply::Later => self.waits = true,
                    }
                    return Ok(());
                }
                match handler.takes(self.peer, &request) {
                    Takes::NoTime => {
                        let text = handler.manage(self.peer, request, fds)?;
                        return self.answer_text(&text);
                    }
                    Takes::Long => self.pending = Some(workers.queue(self.peer, request, fds)?),
                    Takes::AsLongAsOthersLike => self.pending = Some(workers.begin(self.peer, request, fds)?),
                }
                return Ok(());
            }
        };
        self.send(&answer).map_err(Into::into)
    }

    /// Takes what an open circuit costs.
    fn take_open(&mut self, ledger: &mut Ledger, reserved: u64, beside: u64) -> Result<(), TakeError> {
        self.account.take(ledger, Kind::Channels, 1)?;
        let bandwidth = self.account.take_beside(ledger, Kind::Bandwidth, reserved, beside);
        bandwidth.inspect_err(|_| self.account.give_back(ledger, Kind::Channels, 1))
    }

    /// Gives the answer, the descriptors that go with it, and what the connection's proxy is to do with them.
    fn make_endpoint(
        &mut self,
        host: String,
        geometry: Geometry,
        events: Events,
        path: DataPath,
        engine: &EngineHandle,
    ) -> Result<(Response, Vec<OwnedFd>, u8), Refused> {
        let (segment, memory) = Segment::create(geometry)?;
        let (doorbell, wake_host) = engine.doorbell(&host)?;
        let segment = Arc::new(segment);
        let mut for_proxy = MAKE_PAGES | if self.remaps { 0 } else { SEAL_MEMORY };
        self.segment = Some((segment.clone(), memory.try_clone().map_err(|e| e.to_string())?));
        let mut passed = vec![memory, wake_host];
        let (own_bell, (board, slot)) = (self.line.bell(), self.line.new_bell());
        if own_bell.is_none() {
            // One end is the client's, the other its user proxy's, which rings it.
            passed.extend(<[OwnedFd; 2]>::from(endpoint::direct::bells()?));
            for_proxy |= KEEP_BELL;
        }
        let bell = Bell::of_user_proxy(board, slot);
        let name = host.clone();
        let made = engine.with(move |core| {
            let found = core.host(&name).map(|(node, _)| node);
            // Another host of this name, in another shard, since the doorbell was made: it counts as gone.
            let node = found.filter(|node| core.hears(*node, &doorbell));
            let Some((node, host)) = node.and_then(|_| core.host(&name)) else {
                return Err(Refused::new(Refusal::NoHost, no_host(&name)));
            };
            let endpoint = HostEndpoint::new(segment, events, path, Some(bell));
            let id = host.attach_asleep(endpoint).map_err(|e| match e {
                AttachError::Full(_) => Refused::new(Refusal::Limit, e),
                AttachError::Segment(_) => e.into(),
            })?;
            core.add_doorbell(node, id, doorbell);
            Ok((node, id))
        });
        let (node, id) = made??;
        self.endpoint = Some((host, node, id));
        Ok((Response::Created { endpoint: id.0 }, passed, for_proxy))
    }

    /// Answers a management request: a long text as a memory file, if the client takes one.
    fn answer_text(&mut self, text: &str) -> Result<(), Refused> {
        if !self.memory_answers || text.len() <= PART_OCTETS {
            return self.send_parts(text).map_err(Into::into);
        }
        // Each that waits holds memory.
        if self.line.has_untaken() {
            return Err(Refused::new(Refusal::Limit, "take the answers first that wait for this connection"));
        }
        let memory = sealed::write(text.as_bytes())?;
        let answer = Response::ManagedMemory { octets: text.len() as u64 };
        self.line.send(&answer, vec![memory], 0).map_err(Into::into)
    }

    fn send_parts(&mut self, text: &str) -> Result<(), PacketError> {
        let mut rest = text;
        loop {
            let mut cut = rest.len().min(PART_OCTETS);
            while !rest.is_char_boundary(cut) {
                cut -= 1;
            }
            let (part, after) = rest.split_at(cut);
            rest = after;
            // What the client does not take at once waits in its line, and it is served no more meanwhile.
            self.send(&Response::Managed { text: part.to_owned(), last: rest.is_empty() })?;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }
}

fn no_host(name: &str) -> String {
    format!("no host `{name}` in this network (cellway status lists them)")
}
