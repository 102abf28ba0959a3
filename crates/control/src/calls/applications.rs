//! Calls of applications at hosts: what they ask, and what they are told.

use super::book::{Call, Listen, MAX_LISTENS, Root, Stage, caller};
use super::call_controller::{CallController, Change, circuit_of};
use super::setup::{self, Wanted};
pub use super::shares::User;
use endpoint::calls::{Answer, Event, Sap};
use std::collections::BTreeMap;
use uni::call::{CallId, ElementList, PartyId, Refused, State};
use uni::node::contracts;
use wire::aesa::Aesa;
use wire::q2931::{Cause, CauseValue, ConnectionId, Location};
use wire::{CircuitId, Time};

/// Why a request of an application's is refused.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Refusal {
    #[error("host {0} has no signalling: give its link signalling = {{ version = \"uni31\" }}")]
    NoSignalling(String),
    #[error("no call {0} of this session is there for that")]
    NoCall(u64),
    #[error(
        "host {0} is listening for such calls already, by another session: choose another selector or service access point"
    )]
    Taken(String),
    #[error("call {0} is not point-to-multipoint: begin it as the root of one")]
    NoRoot(u64),
    #[error("call {0} is not up: its first party must have been alerted, or have answered, before others are added")]
    NotUp(u64),
    #[error("call {call} has no party {party}")]
    NoParty { call: u64, party: u16 },
    #[error("a session listens for {MAX_LISTENS} things at most")]
    TooManyListens,
    #[error("user {uid} has {most} calls and parties, which is the limit (max_calls of [[allow]])")]
    Quota { uid: u32, most: u64 },
    #[error(
        "user {uid} may reserve {left} cell/s more, and this call asks for {asked} cell/s in both directions together \
         (max_bandwidth of [[allow]])"
    )]
    Bandwidth { uid: u32, left: u64, asked: u64 },
    #[error("take the events that wait for this session first")]
    Behind,
    #[error("the signalling link of host {0} is down: is the switch at its other end up, with signalling?")]
    LinkDown(String),
    #[error(
        "host {0} signals itself: signalling = {{ version = \"uni31\", by = \"program\" }} leaves its side to a program"
    )]
    NotLeft(String),
    #[error("host {0} has a program that signals for it already")]
    Served(String),
    #[error("host {0} leaves its signalling to a program, which does not run: cellway run --host {0} -- atmsigd")]
    NoProgram(String),
    #[error("host {0} leaves its signalling to a program, which makes no point-to-multipoint calls")]
    ManyByProgram(String),
    #[error("the program that signals for the host: {0}")]
    Program(std::io::Error),
    #[error("host {host}: {cause}")]
    Limit { host: String, cause: CauseValue },
    #[error(transparent)]
    Setup(#[from] setup::SetupError),
}

impl CallController {
    pub(super) fn host(&self, host: &str) -> Result<usize, Refusal> {
        let found = self.interfaces().find(|(_, config)| config.host.is_some() && config.station == host);
        found.map(|(at, _)| at).ok_or_else(|| Refusal::NoSignalling(host.to_owned()))
    }

    /// The addresses of a host, as far as the network has given them.
    ///
    /// # Errors
    /// It has no signalling.
    pub fn addresses(&self, host: &str) -> Result<Vec<Aesa>, Refusal> {
        let at = self.host(host)?;
        Ok(self.interfaces[at].as_ref().map(|interface| interface.addresses.clone()).unwrap_or_default())
    }

    /// Presents calls of a host to a session. `None`: its signalling program is asked, and [`Self::take_reply`] gives
    /// the answer.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn listen(
        &mut self,
        session: u64,
        user: User,
        host: &str,
        selector: Option<u8>,
        sap: Sap,
    ) -> Result<Option<Answer>, Refusal> {
        let interface = self.host(host)?;
        let by_program = self.program(interface).is_some();
        if by_program {
            self.check_program(interface, host)?;
        }
        let same = |l: &Listen| (l.selector, l.sap) == (selector, sap);
        let both = |l: &Listen| l.selector.is_none_or(|own| selector.is_none_or(|s| s == own)) && l.sap.meets(sap);
        // A user's own listenings may overlap. Another's stay whole: nobody takes calls that others have listened for.
        let taken = |l: &Listen| l.interface == interface && if l.user.uid == user.uid { same(l) } else { both(l) };
        if self.book.listens.iter().any(taken) {
            return Err(Refusal::Taken(host.to_owned()));
        }
        if self.book.listens.iter().filter(|l| l.session == session).count() >= MAX_LISTENS {
            return Err(Refusal::TooManyListens);
        }
        self.book.session(session);
        let number = self.book.next_number();
        self.book.listens.push(Listen { number, session, user, interface, selector, sap });
        let addresses = self.addresses(host)?;
        let texts = addresses.iter().map(ToString::to_string).collect();
        let answer = Answer::Listening { listen: number, addresses: texts };
        if !by_program {
            return Ok(Some(answer));
        }
        let with = |selector| addresses.first().map(|own| Aesa::new(own.prefix(), own.esi(), selector));
        self.order_listen(interface, number, selector.and_then(with), sap);
        self.book.await_listening(session, answer);
        Ok(None)
    }

    /// Calls.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn call(
        &mut self,
        session: u64,
        user: User,
        host: &str,
        to: Aesa,
        wanted: Wanted<'_>,
        now: Time,
    ) -> Result<Answer, Refusal> {
        let interface = self.host(host)?;
        if self.book.is_behind(session) {
            return Err(Refusal::Behind);
        }
        let from = self.addresses(host)?.first().copied();
        let elements = setup::elements(from, to, wanted)?;
        let reserved = setup::reserved(&elements)?;
        self.make_room(user, reserved)?;
        let root = || Box::new(Root { asked: elements.clone(), parties: BTreeMap::new() });
        let root = wanted.multipoint.then(root);
        let contract = setup::contract(&elements, false)?;
        let id = if self.program(interface).is_some() {
            self.check_program(interface, host)?;
            if wanted.multipoint {
                return Err(Refusal::ManyByProgram(host.to_owned()));
            }
            None
        } else {
            let Some(port) = self.host_port(interface) else { return Err(Refusal::NoSignalling(host.to_owned())) };
            let set_up = port.calls_mut().setup(elements, now).map_err(|refused| match refused {
                Refused::LinkDown => Refusal::LinkDown(host.to_owned()),
                Refused::Limit(cause) => Refusal::Limit { host: host.to_owned(), cause },
                Refused::State => Refusal::Limit { host: host.to_owned(), cause: CauseValue::TEMPORARY_FAILURE },
            });
            Some(set_up?)
        };
        self.book.session(session);
        let call = self.book.insert(Call {
            session,
            uid: user.uid,
            interface,
            id,
            stage: Stage::Calling,
            outgoing: true,
            from,
            is_checked: true,
            to: Some(to),
            circuit: None,
            placed: false,
            contract: Some(Box::new(contract)),
            root,
            reserved,
            began: now,
        });
        if id.is_none() {
            self.order_call(interface, call, to, wanted);
        }
        Ok(Answer::Calling { call })
    }

    /// Adds a party to a root's call.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn add_party(&mut self, session: u64, user: User, number: u64, to: Aesa, now: Time) -> Result<Answer, Refusal> {
        let call = self.own(session, number)?;
        let (interface, id) = (call.interface, call.id.ok_or(Refusal::NoRoot(number))?);
        let elements = setup::party(&call.root.as_ref().ok_or(Refusal::NoRoot(number))?.asked, to);
        if self.book.is_behind(session) {
            return Err(Refusal::Behind);
        }
        self.make_room(user, 0)?;
        let host = self.station(interface);
        let Some(port) = self.host_port(interface) else { return Err(Refusal::NoCall(number)) };
        let party = port.calls_mut().add_party(id, &elements, now).map_err(|refused| match refused {
            Refused::State => Refusal::NotUp(number),
            Refused::LinkDown => Refusal::LinkDown(host),
            Refused::Limit(cause) => Refusal::Limit { host, cause },
        })?;
        self.book.shares.take(user.uid, 0);
        if let Some(root) = &mut self.own(session, number)?.root {
            root.parties.insert(party.reference, to);
        }
        Ok(Answer::Adding { party: party.reference })
    }

    /// Drops a party of a root's call, and with the last one the call.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn drop_party(
        &mut self,
        session: u64,
        number: u64,
        reference: u16,
        cause: CauseValue,
        now: Time,
    ) -> Result<Answer, Refusal> {
        let call = self.own(session, number)?;
        call.root.as_ref().ok_or(Refusal::NoRoot(number))?;
        let id = call.id.ok_or(Refusal::NoRoot(number))?;
        let (interface, party) = (call.interface, PartyId { call: id, reference });
        let Some(port) = self.host_port(interface) else { return Err(Refusal::NoCall(number)) };
        let dropped = port.calls_mut().drop_party(party, Cause::new(Location::USER, cause), now);
        dropped.map_err(|_| Refusal::NoParty { call: number, party: reference })?;
        let ends = port.calls().state(party.call) == Some(State::Releasing);
        if let Some(root) = &mut self.own(session, number)?.root {
            root.parties.remove(&reference);
        }
        if ends {
            self.displace(number);
            if let Some(call) = self.book.remove(number) {
                self.leave(&call);
            }
            self.book.tell(session, released(number, cause));
        }
        Ok(Answer::Done)
    }

    /// Has a call that was presented, to this session or another of the same user; its circuit is there then.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn take(&mut self, session: u64, user: User, number: u64) -> Result<Answer, Refusal> {
        let call = self.book.calls.get(&number).filter(|call| call.uid == user.uid && call.stage == Stage::Offered);
        let call = call.and_then(|call| Some((call.circuit?, call.interface)));
        let (circuit, interface) = call.ok_or(Refusal::NoCall(number))?;
        self.book.give(number, session);
        self.place(number);
        Ok(Answer::Taken { host: self.station(interface), circuit: circuit.to_string() })
    }

    fn own(&mut self, session: u64, number: u64) -> Result<&mut Call, Refusal> {
        let call = self.book.calls.get_mut(&number).filter(|call| call.session == session);
        call.map(|call| &mut **call).ok_or(Refusal::NoCall(number))
    }

    /// Lets a session's connection end with a call.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn tie(&mut self, session: u64, number: u64) -> Result<Answer, Refusal> {
        self.own(session, number)?;
        self.book.session(session).tied = Some((number, false));
        Ok(Answer::Done)
    }

    /// Whether a session's connection is to end, with the call that it is tied to.
    pub fn is_over(&self, session: u64) -> bool {
        self.book.sessions.get(&session).is_some_and(|session| session.tied.is_some_and(|(_, over)| over))
    }

    /// The host of a session's call.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn host_of(&mut self, session: u64, number: u64) -> Result<String, Refusal> {
        let interface = self.own(session, number)?.interface;
        Ok(self.station(interface))
    }

    /// Answers a call that was presented.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn accept(&mut self, session: u64, user: User, number: u64, now: Time) -> Result<Answer, Refusal> {
        let call = self.own(session, number)?;
        if call.stage != Stage::Offered {
            return Err(Refusal::NoCall(number));
        }
        let (interface, id) = (call.interface, call.id);
        if id.is_none() && !self.may_accept(interface, number) {
            return Err(Refusal::NoCall(number));
        }
        if !self.may_answer(user) {
            // The caller need not wait for an answer that cannot come.
            self.fail(number, CauseValue::BUSY, now);
            return Err(Refusal::NoCall(number));
        }
        // The circuit is there before the caller hears of it.
        self.place(number);
        self.book.answer(number);
        let Some(id) = id else {
            self.order_accept(interface, number);
            return Ok(Answer::Done);
        };
        let Some(port) = self.host_port(interface) else { return Err(Refusal::NoCall(number)) };
        let answered = port.calls_mut().connect(id, &ElementList::default(), now);
        if answered.is_err() {
            self.fail(number, CauseValue::TEMPORARY_FAILURE, now);
            return Err(Refusal::NoCall(number));
        }
        Ok(Answer::Done)
    }

    /// Refuses a call, or releases it.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn release(&mut self, session: u64, number: u64, cause: CauseValue, now: Time) -> Result<Answer, Refusal> {
        self.own(session, number)?;
        self.end(number, cause, now);
        Ok(Answer::Done)
    }

    /// The session asks for its next events, `most` at once: `None` if it has to wait for them.
    pub fn wait(&mut self, session: u64, most: usize) -> Option<Answer> {
        self.book.session(session).waits = Some(most);
        self.take_events(session, false)
    }

    /// What a session that waits is to hear; `ends`: now in any case.
    pub fn take_events(&mut self, session: u64, ends: bool) -> Option<Answer> {
        let session = self.book.session(session);
        if session.events.is_empty() && !ends {
            return None;
        }
        let most = session.waits.take().unwrap_or(usize::MAX).min(session.events.len());
        let events = session.events.drain(..most).collect();
        Some(match session.stepped.take() {
            Some(outcomes) => Answer::Stepped { outcomes, events },
            None => Answer::Events(events),
        })
    }

    /// The answer to what a session waits for, if there is one; `ends`: now in any case.
    pub fn take_reply(&mut self, session: u64, ends: bool) -> Option<Result<Answer, Refusal>> {
        match self.book.take_listening(session, ends) {
            None => self.take_events(session, ends).map(Ok),
            Some(answer) => {
                answer.map(|answer| answer.map_err(|e| Refusal::Program(std::io::Error::from_raw_os_error(e))))
            }
        }
    }

    /// Whether a session that waits has something to hear; asked once.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.book.has_news)
    }

    /// A session has ended, and all its calls with it.
    pub fn end_session(&mut self, session: u64, now: Time) {
        self.stop_serving(session);
        for call in self.book.calls_of(session) {
            self.end(call, CauseValue::NORMAL, now);
        }
        self.close_listenings(session);
        self.book.sessions.remove(&session);
    }

    /// The user of the circuit of a call at a host: only that user may open it.
    pub fn user_of(&self, host: &str, circuit: CircuitId) -> Option<u32> {
        self.book.user_of(self.host(host).ok()?, circuit)
    }

    /// This side ends a call.
    fn end(&mut self, number: u64, value: CauseValue, now: Time) {
        self.displace(number);
        let Some(call) = self.book.remove(number) else { return };
        let Some(id) = call.id else { return self.order_end(call.interface, number, call.stage) };
        if let Some(port) = self.host_port(call.interface) {
            // It may be gone on the other side.
            let _ = port.calls_mut().release(id, Cause::new(Location::USER, value), now);
        }
        self.leave(&call);
    }

    /// A call cannot go on: its session hears of it.
    pub(super) fn fail(&mut self, number: u64, value: CauseValue, now: Time) {
        let Some(session) = self.book.calls.get(&number).map(|call| call.session) else { return };
        self.end(number, value, now);
        self.book.tell(session, released(number, value));
    }

    /// Lets the circuit of a call end at its host.
    pub(super) fn place(&mut self, number: u64) {
        if !self.book.set_placed(number, true) {
            return;
        }
        let Some(call) = self.book.calls.get_mut(&number) else { return };
        let (Some(circuit), Some(Some(interface))) = (call.circuit, self.interfaces.get(call.interface)) else {
            return;
        };
        let contract = call.contract.take().map(|contract| *contract).unwrap_or_default();
        let (host, port) = (interface.config.station.clone(), interface.config.port);
        self.changes.push_back(Change::Add { host, port, circuit, contract, call: number });
    }

    pub(super) fn displace(&mut self, number: u64) {
        if !self.book.set_placed(number, false) {
            return;
        }
        let Some(call) = self.book.calls.get(&number) else { return };
        let (Some(circuit), Some(Some(interface))) = (call.circuit, self.interfaces.get(call.interface)) else {
            return;
        };
        let (host, port) = (interface.config.station.clone(), interface.config.port);
        self.changes.push_back(Change::Remove { host, port, circuit });
    }

    pub(super) fn on_setup(
        &mut self,
        at: usize,
        id: CallId,
        elements: &ElementList,
        connection: ConnectionId,
        now: Time,
    ) {
        let sap = Sap::of(&elements.0);
        let to = elements.called().and_then(|number| number.as_aesa());
        let listener = self.book.listener(at, to, sap).map(|l| (l.number, l.session, l.user));
        let circuit = circuit_of(connection);
        let contract = elements.traffic().and_then(|traffic| contracts(&traffic, elements.bearer()).ok());
        let calling = elements.calling();
        let from = calling.and_then(|party| party.number.as_aesa());
        let is_checked = calling.is_some_and(|party| party.is_checked());
        let caller = caller(from, is_checked);
        let refused = match (listener, circuit, contract) {
            (None, ..) => CauseValue::INCOMPATIBLE,
            (_, None, _) => CauseValue::NO_SUCH_CHANNEL,
            (_, _, None) => CauseValue::TRAFFIC_COMBINATION,
            (Some((_, session, user)), ..)
                if self.book.is_behind(session) || !self.make_room_for_offer(user, caller, now) =>
            {
                CauseValue::BUSY
            }
            (Some((listen, session, user)), Some(_), Some([_, backward])) => {
                let call = self.book.insert(Call {
                    session,
                    uid: user.uid,
                    interface: at,
                    id: Some(id),
                    stage: Stage::Offered,
                    outgoing: false,
                    from,
                    is_checked,
                    to,
                    circuit,
                    placed: false,
                    contract: Some(Box::new(setup::kept(backward))),
                    root: None,
                    reserved: 0,
                    began: now,
                });
                if let Some(port) = self.host_port(at) {
                    // Until the application answers, the caller hears that the called user is alerted (T301).
                    let _ = port.calls_mut().alert(id, now);
                }
                let [from, to] = [from, to].map(|address| address.map(|address| address.to_string()));
                let (sap, traffic) = (sap.to_string(), Box::new(setup::ways(elements)));
                return self.book.tell(session, Event::Incoming { call, listen, from, to, sap, traffic });
            }
        };
        if let Some(port) = self.host_port(at) {
            // It was just presented.
            let _ = port.calls_mut().release(id, Cause::new(Location::USER, refused), now);
        }
    }

    pub(super) fn on_alerting(&mut self, at: usize, id: CallId) {
        let Some((number, call)) = self.book.find(at, id) else { return };
        call.stage = Stage::Alerting;
        let session = call.session;
        self.book.tell(session, Event::Alerting { call: number });
    }

    pub(super) fn on_connected(&mut self, at: usize, id: CallId, connection: ConnectionId, now: Time) {
        let Some((number, call)) = self.book.find(at, id) else { return };
        call.circuit = circuit_of(connection);
        if call.circuit.is_none() {
            return self.fail(number, CauseValue::NO_SUCH_CHANNEL, now);
        }
        self.place(number);
        self.up(number);
    }

    pub(super) fn on_active(&mut self, at: usize, id: CallId) {
        if let Some((number, _)) = self.book.find(at, id) {
            self.up(number);
        }
    }

    pub(super) fn up(&mut self, number: u64) {
        let Some(call) = self.book.calls.get_mut(&number) else { return };
        call.stage = Stage::Up;
        let circuit = call.circuit.map(|circuit| circuit.to_string()).unwrap_or_default();
        let (session, interface) = (call.session, call.interface);
        let host = self.station(interface);
        self.book.tell(session, Event::Connected { call: number, host, circuit });
    }

    /// The host or switch of an interface.
    pub(super) fn station(&self, interface: usize) -> String {
        let interface = self.interfaces.get(interface).and_then(Option::as_ref);
        interface.map(|interface| interface.config.station.clone()).unwrap_or_default()
    }

    pub(super) fn on_party_added(&mut self, at: usize, party: PartyId) {
        let Some((number, call)) = self.book.find(at, party.call) else { return };
        let session = call.session;
        self.book.tell(session, Event::PartyAdded { call: number, party: party.reference });
    }

    pub(super) fn on_party_dropped(&mut self, at: usize, party: PartyId, cause: Cause) {
        let Some((number, call)) = self.book.find(at, party.call) else { return };
        if let Some(root) = &mut call.root {
            root.parties.remove(&party.reference);
        }
        let (session, value) = (call.session, cause.value);
        let text = value.text().unwrap_or_default().to_owned();
        self.book.tell(session, Event::PartyDropped { call: number, party: party.reference, cause: value.0, text });
    }

    pub(super) fn on_released(&mut self, at: usize, id: CallId, cause: Cause, _now: Time) {
        let Some((number, call)) = self.book.find(at, id) else { return };
        let session = call.session;
        self.displace(number);
        self.book.remove(number);
        self.book.tell(session, released(number, cause.value));
    }
}

pub(super) fn released(call: u64, value: CauseValue) -> Event {
    Event::Released { call, cause: value.0, text: value.text().unwrap_or_default().to_owned() }
}
