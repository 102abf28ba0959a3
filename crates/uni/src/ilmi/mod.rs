//! ILMI 4.0 (ATM Forum af-ilmi-0065): address registration, connectivity and changes of identity, at both sides of a
//! UNI.
//!
//! In: SDUs of VPI 0, VCI 16, the time. Out: SDUs and events. The network side gives a prefix; the user side registers
//! an address of it for each of its end system identifiers. Each side asks who the other is every few seconds. A peer
//! that does not answer, that says it was started anew or that has become another loses what it had registered.

mod agent;
mod objects;

#[cfg(test)]
mod tests;

pub use objects::Identity;

use crate::call::Side;
use objects::{INVALID, VALID, address_column, address_of, address_row, identity, prefix_row};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use wire::Time;
use wire::aesa::{Aesa, ESI_OCTETS, PREFIX_OCTETS};
use wire::ilmi::{Binding, ErrorStatus, Head, Kind, MAX_OCTETS, Message, Oid, Value, emit};

/// What an interface is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Which side this is.
    pub side: Side,
    /// Who this system is.
    pub identity: Identity,
    /// The network's prefixes; the user side has none of its own.
    pub prefixes: Vec<[u8; PREFIX_OCTETS]>,
    /// The user's end system identifiers; the network side has none.
    pub esis: Vec<[u8; ESI_OCTETS]>,
    /// Bits of VPI and VCI that the interface has.
    pub bits: (u8, u8),
    /// How often the peer is asked who it is: T.
    pub poll: Duration,
    /// After how many unanswered questions it is lost: K.
    pub misses: u32,
    /// The most addresses that a user may register, and prefixes that a network may give.
    pub max_addresses: usize,
}

impl Config {
    /// An interface of 8 bits of VPI and 14 of VCI, that polls every five seconds and gives up after four.
    pub const fn new(side: Side, identity: Identity) -> Self {
        Config {
            side,
            identity,
            prefixes: Vec::new(),
            esis: Vec::new(),
            bits: (8, 14),
            poll: Duration::from_secs(5),
            misses: 4,
            max_addresses: 64,
        }
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The peer answers.
    Connected(Identity),
    /// The peer no longer answers.
    Lost,
    /// The peer was started anew or is another: what was set up with it is void.
    Changed,
    /// An address is registered: with the network, or by the user.
    Registered(Aesa),
    /// An address is no longer registered.
    Withdrawn(Aesa),
}

/// What is to be asked of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Which addresses are registered, from this object on: rows left over from before.
    Walk(Oid),
    /// Take a prefix.
    SetPrefix([u8; PREFIX_OCTETS]),
    /// Take an address, or drop it.
    SetAddress(Aesa, bool),
    /// Who are you?
    Identify,
}

/// One side of ILMI.
#[derive(Debug)]
pub struct Ilmi {
    config: Config,
    began: Time,
    peer: Option<Identity>,
    peer_up_time: u32,
    /// Prefixes that the peer gave (user side).
    prefixes: BTreeSet<[u8; PREFIX_OCTETS]>,
    /// Addresses that are registered.
    addresses: BTreeSet<Aesa>,
    /// At most about twice as many as addresses.
    steps: VecDeque<Step>,
    asked: Option<(i32, Step, Time)>,
    next_poll: Option<Time>,
    missed: u32,
    request: i32,
    out: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
    ignored: u64,
    refused: u64,
}

/// SDUs that wait to be taken; more answers are dropped, as a link drops them.
const OUT_LIMIT: usize = 64;

impl Ilmi {
    /// A side that has not said anything yet.
    pub fn new(config: Config) -> Self {
        Ilmi {
            config,
            began: Time::ZERO,
            peer: None,
            peer_up_time: 0,
            prefixes: BTreeSet::new(),
            addresses: BTreeSet::new(),
            steps: VecDeque::new(),
            asked: None,
            next_poll: None,
            missed: 0,
            request: 0,
            out: VecDeque::new(),
            events: VecDeque::new(),
            ignored: 0,
            refused: 0,
        }
    }

    /// Says that this side has started, and asks who the peer is.
    pub fn start(&mut self, now: Time) {
        self.began = now;
        self.cold_start();
        self.steps.push_back(Step::Identify);
        self.ask_next(now);
    }

    /// The addresses that are registered.
    pub fn addresses(&self) -> impl Iterator<Item = &Aesa> {
        self.addresses.iter()
    }

    /// Who the peer is, while it answers.
    pub const fn peer(&self) -> Option<Identity> {
        self.peer
    }

    /// Messages that were no ILMI, or answers to nothing that was asked.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// SetRequests that were answered by an error.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// The network gives the address to another port: the user no longer has it.
    pub fn withdraw(&mut self, address: &Aesa) {
        let of_user = |own: &Aesa| own.without_selector() == address.without_selector();
        while let Some(own) = self.addresses.iter().copied().find(of_user) {
            self.addresses.remove(&own);
            self.events.push_back(Event::Withdrawn(own));
        }
    }

    /// The next SDU for the channel.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    /// The next event.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.asked.as_ref().map(|(_, _, at)| *at).or(self.next_poll)
    }

    /// The time has come that [`Self::poll_timeout`] gave.
    pub fn handle_timeout(&mut self, now: Time) {
        if let Some((_, step, at)) = self.asked {
            if at <= now {
                self.asked = None;
                self.missed += 1;
                if self.missed >= self.config.misses {
                    self.lose();
                    // Probing goes on, with as much time between two questions.
                    self.steps.clear();
                    self.steps.push_back(Step::Identify);
                } else {
                    self.steps.push_front(step);
                }
                self.ask_next(now);
            }
        } else if self.next_poll.is_some_and(|at| at <= now) {
            self.steps.push_back(Step::Identify);
            self.ask_next(now);
        }
    }

    /// An SDU of the channel, where no other port has addresses.
    pub fn handle_sdu(&mut self, octets: &[u8], now: Time) {
        self.handle_sdu_beside(octets, now, |_| false);
    }

    /// An SDU of the channel. `is_taken` says which addresses another port has: the user cannot register them.
    pub fn handle_sdu_beside(&mut self, octets: &[u8], now: Time, is_taken: impl Fn(&Aesa) -> bool) {
        let Ok(message) = Message::parse(octets) else {
            self.ignored += 1;
            return;
        };
        if message.community != wire::ilmi::COMMUNITY {
            self.ignored += 1;
            return;
        }
        match message.head {
            Head::Trap { generic: 0, .. } => self.peer_started(now),
            Head::Trap { .. } => {}
            Head::Request { kind: Kind::Response, id, status, .. } => self.on_response(id, status, &message, now),
            Head::Request { kind, id, .. } => self.on_request(kind, id, &message, &is_taken, now),
        }
    }

    fn send(&mut self, head: &Head, bindings: &[Binding<'_>]) {
        let mut octets = vec![0; 4 * MAX_OCTETS];
        if let Some(n) = emit(head, bindings, &mut octets).filter(|_| self.out.len() < OUT_LIMIT) {
            octets.truncate(n);
            self.out.push_back(octets);
        }
    }

    fn cold_start(&mut self) {
        let (enterprise, agent) = (objects::enterprise(), [0; 4]);
        let head = Head::Trap { enterprise, agent, generic: 0, specific: 0, time: 0 };
        self.send(&head, &[Binding { name: objects::system(&[3, 0]), value: Value::Ticks(0) }]);
    }

    fn up_time(&self, now: Time) -> u32 {
        (now.since(self.began).as_millis() / 10) as u32
    }

    /// Asks the next question, unless one is open.
    fn ask_next(&mut self, now: Time) {
        if self.asked.is_some() {
            return;
        }
        let Some(step) = self.steps.pop_front() else {
            self.next_poll = Some(now + self.config.poll);
            return;
        };
        self.next_poll = None;
        self.request = self.request.wrapping_add(1) & i32::MAX;
        let id = self.request;
        let head = |kind| Head::Request { kind, id, status: ErrorStatus::NONE, index: 0 };
        let set = |name, value| [Binding { name, value: Value::Integer(value) }];
        match step {
            Step::Walk(from) => self.send(&head(Kind::GetNext), &[Binding { name: from, value: Value::Null }]),
            Step::SetPrefix(prefix) => self.send(&head(Kind::Set), &set(prefix_row(&prefix), VALID)),
            Step::SetAddress(address, valid) => {
                self.send(&head(Kind::Set), &set(address_row(&address), if valid { VALID } else { INVALID }));
            }
            Step::Identify => {
                self.send(&head(Kind::Get), &identity().map(|name| Binding { name, value: Value::Null }));
            }
        }
        self.asked = Some((id, step, now + self.config.poll));
    }

    /// What the peer has registered or given is void.
    fn withdraw_all(&mut self) {
        self.prefixes.clear();
        self.steps.retain(|step| !matches!(step, Step::SetAddress(_, true)));
        for address in std::mem::take(&mut self.addresses) {
            self.events.push_back(Event::Withdrawn(address));
        }
    }

    fn lose(&mut self) {
        self.missed = 0;
        if self.peer.take().is_some() {
            self.withdraw_all();
            self.events.push_back(Event::Lost);
        }
    }

    /// The peer says that it has started: registration begins anew.
    fn peer_started(&mut self, now: Time) {
        if self.peer.is_some() {
            self.withdraw_all();
            self.events.push_back(Event::Changed);
        }
        self.peer = None;
        self.asked = None;
        self.steps.clear();
        self.steps.push_back(Step::Identify);
        self.ask_next(now);
    }

    fn on_response(&mut self, id: i32, status: ErrorStatus, message: &Message<'_>, now: Time) {
        let Some((_, step, _)) = self.asked.take_if(|(asked, _, _)| *asked == id) else {
            self.ignored += 1;
            return;
        };
        self.missed = 0;
        let first = message.bindings().next();
        match step {
            Step::Identify => self.on_identity(message),
            Step::Walk(_) => {
                // Rows that are left from before are taken back, one by one; a row must lie beyond the one before it.
                let found = first.filter(|_| status == ErrorStatus::NONE).and_then(|b| {
                    let address = address_of(&b.name)?;
                    matches!(step, Step::Walk(from) if b.name > from).then_some((b.name, address))
                });
                if let Some((name, address)) = found.filter(|_| self.steps.len() < self.config.max_addresses) {
                    if !self.addresses.contains(&address) && !self.wanted().any(|own| own == address) {
                        self.steps.push_back(Step::SetAddress(address, false));
                    }
                    self.steps.push_front(Step::Walk(name));
                }
            }
            Step::SetAddress(address, true) if status == ErrorStatus::NONE => {
                // The prefix may be gone since.
                if !self.wanted().any(|own| own == address) {
                    self.withdraw_at_peer(address);
                } else if self.addresses.insert(address) {
                    self.events.push_back(Event::Registered(address));
                }
            }
            Step::SetAddress(..) | Step::SetPrefix(_) => {}
        }
        self.ask_next(now);
    }

    /// Asks the peer to drop an address. Where too many steps wait, it is left to the next walk.
    fn withdraw_at_peer(&mut self, address: Aesa) {
        let step = Step::SetAddress(address, false);
        if self.steps.len() < 2 * self.config.max_addresses && !self.steps.contains(&step) {
            self.steps.push_back(step);
        }
    }

    /// The addresses that the user side wants: each identifier behind each prefix.
    fn wanted(&self) -> impl Iterator<Item = Aesa> + '_ {
        let of = |prefix| self.config.esis.iter().map(move |esi| Aesa::new(prefix, *esi, 0));
        self.prefixes.iter().copied().flat_map(of)
    }

    fn on_identity(&mut self, message: &Message<'_>) {
        let [interface, system, up_time] = identity();
        let mut seen = Identity { system: [0; ESI_OCTETS], interface: 0 };
        let mut ticks = 0;
        for Binding { name, value } in message.bindings() {
            match value {
                Value::Integer(n) if name == interface => seen.interface = n as u32,
                Value::Octets(octets) if name == system => {
                    seen.system = octets.try_into().unwrap_or(seen.system);
                }
                Value::Ticks(n) if name == up_time => ticks = n,
                _ => {}
            }
        }
        // A peer whose time runs backwards was started anew, but for the wrap of 497 days.
        let restarted = ticks < self.peer_up_time && self.peer_up_time < 0xf000_0000;
        self.peer_up_time = ticks;
        match self.peer {
            Some(known) if known == seen && !restarted => return,
            Some(_) => {
                self.withdraw_all();
                self.events.push_back(Event::Changed);
            }
            None => {}
        }
        self.peer = Some(seen);
        self.events.push_back(Event::Connected(seen));
        match self.config.side {
            Side::Network => {
                self.steps.extend(self.config.prefixes.iter().map(|prefix| Step::SetPrefix(*prefix)));
            }
            Side::User => self.steps.push_back(Step::Walk(address_column())),
        }
    }
}
