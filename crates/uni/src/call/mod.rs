//! Call control at one interface (Q.2931 section 5, Q.2971, UNI 3.1 section 5.5, UNI 4.0): calls of one signalling
//! link.
//!
//! The same machine is the user side and the network side, and either side of an IISP link. In: messages of the
//! signalling link, requests, the time. Out: messages, events. Files: `decode` judges elements, `receive` takes
//! messages through the states, `request` does what the user of call control asks, `party` is point-to-multipoint,
//! `restart` the global call reference, `timer` the timers, `outgoing` the queue of messages for the peer.
//!
//! A call that the machine reports as released is gone, and its label is free. A call that its user releases is cleared
//! in the background; nothing more is heard of it.

mod decode;
mod index;
mod labels;
mod list;
mod outgoing;
mod party;
mod receive;
mod request;
mod restart;
mod table;
mod timer;

#[cfg(test)]
mod tests;

pub(crate) use index::Index;
pub use labels::Labels;
pub use list::ElementList;
pub use party::PartyId;

use outgoing::Outgoing;
use party::Parties;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use timer::Timer;
use wire::Time;
use wire::q2931::{
    CallReference, Cause, CauseValue, ConnectionId, Element, Location, MessageType, RestartClass, VciChoice,
};

/// Which side of the interface this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The user.
    User,
    /// The network, which chooses the labels.
    Network,
}

/// Which signalling the interface has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// ATM Forum UNI 3.1. Elements that it does not have are not sent.
    Uni31,
    /// ATM Forum UNI 4.0.
    Uni40,
    /// ATM Forum IISP between two switches: the messages of UNI 3.1 and, here, the elements of UNI 4.0.
    Iisp,
}

/// Timers, by their names in the standards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Timers {
    pub t301: Duration,
    pub t303: Duration,
    pub t308: Duration,
    pub t309: Duration,
    pub t310: Duration,
    pub t313: Duration,
    pub t316: Duration,
    pub t322: Duration,
    pub t397: Duration,
    pub t398: Duration,
    pub t399: Duration,
}

impl Timers {
    /// The values of `version` on `side`.
    pub const fn of(side: Side, version: Version) -> Self {
        let long = matches!((side, version), (Side::User, Version::Uni40));
        Timers {
            t301: Duration::from_secs(180),
            t303: Duration::from_secs(4),
            t308: Duration::from_secs(30),
            t309: Duration::from_secs(10),
            t310: Duration::from_secs(if long { 60 } else { 10 }),
            t313: Duration::from_secs(4),
            t316: Duration::from_secs(120),
            t322: Duration::from_secs(4),
            t397: Duration::from_secs(180),
            t398: Duration::from_secs(4),
            t399: Duration::from_secs(if long { 34 } else { 14 }),
        }
    }
}

/// What an interface is, and how much it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Which side this is.
    pub side: Side,
    /// Which signalling.
    pub version: Version,
    /// What stands in causes that arise here.
    pub location: Location,
    /// The virtual path, and the first and last VCI for calls.
    pub labels: (u16, u16, u16),
    /// The most calls at a time.
    pub max_calls: usize,
    /// The most calls that the peer may begin within a second.
    pub max_calls_per_second: u32,
    /// The most parties of a call.
    pub max_parties: usize,
    /// Timers.
    pub timers: Timers,
}

impl Config {
    /// An interface with VCIs 32 to 65535 of path 0.
    pub const fn new(side: Side, version: Version) -> Self {
        let location = match side {
            Side::User => Location::USER,
            Side::Network => Location::PRIVATE_LOCAL,
        };
        Config {
            side,
            version,
            location,
            labels: (0, 32, 65_535),
            max_calls: 32_768,
            max_calls_per_second: 100_000,
            max_parties: 1024,
            timers: Timers::of(side, version),
        }
    }
}

/// A call at this interface: its reference, and who chose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    value: u32,
    ours: bool,
}

impl CallId {
    /// The reference in messages that this side sends.
    const fn reference(self) -> CallReference {
        CallReference { value: self.value, to_originator: !self.ours }
    }

    /// The call reference's value.
    pub const fn value(self) -> u32 {
        self.value
    }
}

/// Where a call stands. `Outgoing` calls began with a SETUP that this side sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// U1, N6: SETUP was sent.
    OutgoingInitiated,
    /// U3, N9: CALL PROCEEDING came.
    OutgoingProceeding,
    /// U4, N7: ALERTING came.
    OutgoingDelivered,
    /// U6, N1: SETUP came.
    IncomingPresent,
    /// U9, N3: CALL PROCEEDING was sent.
    IncomingProceeding,
    /// U7, N4: ALERTING was sent.
    IncomingReceived,
    /// U8: CONNECT was sent, and is to be acknowledged.
    IncomingConnect,
    /// U10, N10.
    Active,
    /// U11, N12: RELEASE was sent.
    Releasing,
}

impl State {
    /// The number in STATUS.
    pub const fn number(self, side: Side) -> u8 {
        match (self, side) {
            (State::OutgoingInitiated, Side::User) | (State::IncomingPresent, Side::Network) => 1,
            (State::OutgoingProceeding, Side::User) | (State::IncomingProceeding, Side::Network) => 3,
            (State::OutgoingDelivered, Side::User) | (State::IncomingReceived, Side::Network) => 4,
            (State::OutgoingInitiated, Side::Network) | (State::IncomingPresent, Side::User) => 6,
            (State::OutgoingDelivered, Side::Network) | (State::IncomingReceived, Side::User) => 7,
            (State::IncomingConnect, _) => 8,
            (State::OutgoingProceeding, Side::Network) | (State::IncomingProceeding, Side::User) => 9,
            (State::Active, _) => 10,
            (State::Releasing, Side::User) => 11,
            (State::Releasing, Side::Network) => 12,
        }
    }

    const fn is_outgoing(self) -> bool {
        matches!(self, State::OutgoingInitiated | State::OutgoingProceeding | State::OutgoingDelivered)
    }

    /// Whether the other side called, and has not been answered by CONNECT.
    const fn is_unanswered(self) -> bool {
        matches!(self, State::IncomingPresent | State::IncomingProceeding | State::IncomingReceived)
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The peer calls. Answer by [`Calls::proceed`], [`Calls::alert`], [`Calls::connect`] or [`Calls::release`].
    Setup {
        /// The call.
        call: CallId,
        /// What SETUP says.
        elements: ElementList,
        /// The circuit.
        connection: ConnectionId,
    },
    /// The call is being set up further on.
    Proceeding(CallId),
    /// The called user is alerted.
    Alerting(CallId),
    /// The call is answered.
    Connected {
        /// The call.
        call: CallId,
        /// What CONNECT says.
        elements: ElementList,
        /// The circuit.
        connection: ConnectionId,
    },
    /// A call that this side answered is active: CONNECT was acknowledged.
    Active(CallId),
    /// The call is gone.
    Released {
        /// The call.
        call: CallId,
        /// Why.
        cause: Cause,
    },
    /// NOTIFY came.
    Notified {
        /// The call.
        call: CallId,
        /// What it says.
        elements: ElementList,
    },
    /// The peer asks for a party to be added.
    AddParty {
        /// The call and party.
        party: PartyId,
        /// What ADD PARTY says.
        elements: ElementList,
    },
    /// A party is alerted.
    PartyAlerting(PartyId),
    /// A party was added.
    PartyAdded {
        /// The call and party.
        party: PartyId,
        /// What ADD PARTY ACKNOWLEDGE says.
        elements: ElementList,
    },
    /// A party was refused or has left; it is gone.
    PartyDropped {
        /// The call and party.
        party: PartyId,
        /// Why.
        cause: Cause,
    },
    /// The peer's calls of this class were restarted; those affected have been reported as released.
    Restarted(RestartClass),
    /// The signalling link is to be established.
    EstablishLink,
}

impl Event {
    /// The call that it is about.
    pub const fn call(&self) -> Option<CallId> {
        match self {
            Event::Setup { call, .. }
            | Event::Proceeding(call)
            | Event::Alerting(call)
            | Event::Connected { call, .. }
            | Event::Active(call)
            | Event::Released { call, .. }
            | Event::Notified { call, .. } => Some(*call),
            Event::AddParty { party, .. } | Event::PartyAdded { party, .. } | Event::PartyDropped { party, .. } => {
                Some(party.call)
            }
            Event::PartyAlerting(party) => Some(party.call),
            Event::Restarted(_) | Event::EstablishLink => None,
        }
    }
}

/// Why a request was refused at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no such call or party, or it does not stand where this can be done.
    #[error("no such call or party, or not in its present state")]
    State,
    /// The signalling link is down.
    #[error("the signalling link is down")]
    LinkDown,
    /// A limit of the interface, with the cause for the caller.
    #[error("refused: {0}")]
    Limit(CauseValue),
}

impl Refused {
    /// The cause that says it to a caller.
    pub const fn cause(self) -> CauseValue {
        match self {
            Refused::Limit(value) => value,
            Refused::LinkDown => CauseValue::OUT_OF_ORDER,
            Refused::State => CauseValue::TEMPORARY_FAILURE,
        }
    }
}

/// A call.
#[derive(Debug)]
struct Call {
    state: State,
    timer: Option<(Time, Timer)>,
    /// How often the timer's message has been sent.
    attempts: u8,
    connection: Option<ConnectionId>,
    /// Whether the peer knows the circuit.
    connection_known: bool,
    /// The RELEASE or SETUP to be sent again.
    again: Option<Box<[u8]>>,
    /// Parties of a point-to-multipoint call.
    parties: Option<Box<Parties>>,
}

/// Counters of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Messages that came.
    pub received: u64,
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that were ignored: no Q.2931, too short, or for nobody.
    pub ignored: u64,
    /// STATUS messages that report an error of the peer's.
    pub reported: u64,
    /// Calls that were refused for a limit of the interface.
    pub limited: u64,
    /// Messages that were dropped because too many waited for the peer to take them.
    pub unsent: u64,
}

/// Call control of one interface.
#[derive(Debug)]
pub struct Calls {
    config: Config,
    calls: table::Table,
    labels: Labels,
    next_reference: u32,
    link_up: bool,
    link_timer: Option<Time>,
    restart: restart::Restart,
    timers: BTreeSet<(Time, CallId, Option<u16>)>,
    /// From which call on the peer is to be asked for their states, as the link has room.
    enquiries: Option<CallId>,
    out: Outgoing,
    events: VecDeque<Event>,
    counts: Counts,
    /// The peer's SETUPs of the present second.
    second: (Time, u32),
}

impl Calls {
    /// An interface whose signalling link is down.
    pub fn new(config: Config) -> Self {
        let (vpci, first, last) = config.labels;
        Calls {
            config,
            calls: table::Table::default(),
            labels: Labels::new(vpci, first, last),
            next_reference: 0,
            link_up: false,
            link_timer: None,
            restart: restart::Restart::default(),
            timers: BTreeSet::new(),
            enquiries: None,
            out: Outgoing::new(config.max_calls),
            events: VecDeque::new(),
            counts: Counts::default(),
            second: (Time::ZERO, 0),
        }
    }

    /// What the interface is.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// How many calls there are, those that are being cleared included.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there are no calls.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Where a call stands.
    pub fn state(&self, call: CallId) -> Option<State> {
        self.calls.get(&call).map(|c| c.state)
    }

    /// The circuit of a call, once it is known.
    pub fn connection(&self, call: CallId) -> Option<ConnectionId> {
        self.calls.get(&call)?.connection
    }

    /// The labels.
    pub const fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Counters.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The next message for the signalling link. Take none while the link has too many waiting.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        let octets = self.out.pop();
        if octets.is_some() {
            self.counts.sent += 1;
        }
        octets
    }

    /// Messages that wait for [`Self::poll_transmit`]. Their number is bounded by the calls that the interface may
    /// have.
    pub fn waiting(&self) -> usize {
        self.out.len()
    }

    /// Whether so many messages waited that the link must be released: the peer takes none. The messages are dropped.
    pub const fn is_overrun(&self) -> bool {
        self.out.is_overrun()
    }

    /// The next event.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn send(&mut self, call: CallId, kind: MessageType, elements: &[Element]) {
        self.send_to(call.reference(), kind, elements);
    }

    fn send_to(&mut self, reference: CallReference, kind: MessageType, elements: &[Element]) {
        if self.link_up {
            self.push(list::message(reference, kind, elements));
        }
    }

    /// A message that no call depends on: an answer to an error or enquiry, or NOTIFY. Dropped if too many messages
    /// wait.
    fn send_dispensable(&mut self, reference: CallReference, kind: MessageType, elements: &[Element]) {
        if self.link_up && self.out.is_crowded() {
            self.counts.unsent += 1;
        } else {
            self.send_to(reference, kind, elements);
        }
    }

    /// The only way into the queue. Where it is full, the link is down until it is established anew.
    fn push(&mut self, octets: Vec<u8>) {
        if let Err(dropped) = self.out.push(octets) {
            self.counts.unsent += dropped;
            self.link_up = false;
        }
    }

    fn cause(&self, value: CauseValue) -> Cause {
        Cause::new(self.config.location, value)
    }

    fn cause_element(&self, value: CauseValue) -> Element {
        list::cause(self.config.location, value)
    }

    /// STATUS with a cause and the elements, message type or timer that it is about.
    fn report(&mut self, reference: CallReference, state: u8, value: CauseValue, diagnostic: &[u8]) {
        self.counts.reported += 1;
        let cause = Element::Cause(Cause::with(self.config.location, value, diagnostic));
        self.send_dispensable(reference, MessageType::STATUS, &[Element::CallState(state), cause]);
    }

    fn state_number(&self, call: CallId) -> u8 {
        self.state(call).map_or(0, |state| state.number(self.config.side))
    }

    /// The call is gone, with its label and timers. The user hears of it unless it asked for it.
    fn forget(&mut self, id: CallId, cause: Option<Cause>) {
        let Some(call) = self.calls.remove(&id) else { return };
        if let Some((at, _)) = call.timer {
            self.timers.remove(&(at, id, None));
        }
        if let Some(parties) = &call.parties {
            for (at, party) in parties.deadlines() {
                self.timers.remove(&(at, id, Some(party)));
            }
        }
        if let Some(ConnectionId { vci: VciChoice::Exactly(vci), .. }) = call.connection {
            self.labels.release(vci);
        }
        if let Some(cause) = cause.filter(|_| call.state != State::Releasing) {
            self.events.push_back(Event::Released { call: id, cause });
        }
    }
}
