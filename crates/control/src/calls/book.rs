//! What is known of applications' calls: sessions, what they listen for, their calls, and how many each user has.

use super::shares::{Caller, Has, MAX_OFFERED, Shares, User};
use endpoint::calls::{Answer, Event, Sap, StepOutcome};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use traffic::Contract;
use uni::call::{CallId, ElementList};
use wire::aesa::Aesa;
use wire::{CircuitId, Time};

/// Things that one session listens for.
pub(super) const MAX_LISTENS: usize = 64;
/// Events that may wait for a session before it can begin something new.
pub(super) const MAX_EVENTS: usize = 1024;

const _: () = assert!(2 * MAX_OFFERED < MAX_EVENTS);

#[derive(Debug)]
pub(super) struct Session {
    pub(super) events: VecDeque<Event>,
    /// It has asked for its next events, and has at most so many at once.
    pub(super) waits: Option<usize>,
    /// What became of the steps that it asked for beside: it is told with these events.
    pub(super) stepped: Option<Vec<StepOutcome>>,
    /// The call with which its connection ends, and whether it has.
    pub(super) tied: Option<(u64, bool)>,
    /// The answer to a request to listen, and what the signalling program of the host has said of it.
    listening: Option<(Answer, Option<Result<(), i32>>)>,
    calls: BTreeSet<u64>,
}

#[derive(Debug)]
pub(super) struct Listen {
    pub(super) number: u64,
    pub(super) session: u64,
    pub(super) user: User,
    pub(super) interface: usize,
    pub(super) selector: Option<u8>,
    pub(super) sap: Sap,
}

/// Where a call of an application stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It was presented and has no answer yet.
    Offered,
    /// It is being set up.
    Calling,
    /// The called user is alerted.
    Alerting,
    /// It was answered here; the network has not acknowledged that yet.
    Answered,
    /// The circuit is there.
    Up,
}

impl Stage {
    /// As output writes it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Offered => "offered",
            Stage::Calling => "calling",
            Stage::Alerting => "alerting",
            Stage::Answered => "answered",
            Stage::Up => "up",
        }
    }
}

/// What a root's call has beside others.
#[derive(Debug)]
pub(super) struct Root {
    /// What its parties are asked by.
    pub(super) asked: ElementList,
    /// The parties that were added, and who they are.
    pub(super) parties: BTreeMap<u16, Aesa>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) session: u64,
    pub(super) uid: u32,
    pub(super) interface: usize,
    /// `None`: the signalling program of its host knows it by its number.
    pub(super) id: Option<CallId>,
    pub(super) stage: Stage,
    pub(super) outgoing: bool,
    pub(super) from: Option<Aesa>,
    /// The network has checked who calls.
    pub(super) is_checked: bool,
    pub(super) to: Option<Aesa>,
    /// Known from the start where the network calls, and from the answer on where it is called.
    pub(super) circuit: Option<CircuitId>,
    /// The circuit is at the host.
    pub(super) placed: bool,
    /// What the host may send, until the circuit is there, which has it then.
    pub(super) contract: Option<Box<Contract>>,
    /// Of a point-to-multipoint call that began here.
    pub(super) root: Option<Box<Root>>,
    /// Cells each second that it reserves, of a call that began here.
    pub(super) reserved: u64,
    pub(super) began: Time,
}

impl Call {
    /// Who calls, for shares.
    pub(super) fn caller(&self) -> Caller {
        caller(self.from, self.is_checked)
    }
}

/// Who calls by this number, for shares.
pub(super) fn caller(from: Option<Aesa>, is_checked: bool) -> Caller {
    from.filter(|_| is_checked).map(Aesa::without_selector)
}

// Each call of two applications has two.
const _: () = assert!(size_of::<Call>() <= 128);

#[derive(Debug, Default)]
pub(super) struct Book {
    /// Boxed: numbers rise, so the tree's nodes are half empty.
    pub(super) calls: BTreeMap<u64, Box<Call>>,
    by_id: HashMap<(usize, CallId), u64>,
    /// What a user has is counted whenever one more is refused: that costs as much as the user has, and not what all
    /// have.
    by_user: HashMap<u32, BTreeSet<u64>>,
    /// Circuits of calls that are at hosts.
    by_circuit: HashMap<(usize, CircuitId), u64>,
    pub(super) sessions: BTreeMap<u64, Session>,
    pub(super) listens: Vec<Listen>,
    pub(super) shares: Shares,
    numbers: u64,
    /// A session that waits has an event.
    pub(super) has_news: bool,
}

impl Book {
    /// A number that was never given before.
    pub(super) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn session(&mut self, number: u64) -> &mut Session {
        self.sessions.entry(number).or_insert_with(|| Session {
            events: VecDeque::new(),
            waits: None,
            stepped: None,
            tied: None,
            listening: None,
            calls: BTreeSet::new(),
        })
    }

    pub(super) fn is_behind(&self, session: u64) -> bool {
        self.sessions.get(&session).is_some_and(|session| session.events.len() >= MAX_EVENTS)
    }

    /// What the calls of a user have that are there and were answered, or are to be: `places` says how many places a
    /// call has in call control.
    pub(super) fn live(&self, uid: u32, places: impl Fn(usize, CallId) -> u64) -> Has {
        let calls = self.calls_of_user(uid).map(|(_, call)| call).filter(|call| call.stage != Stage::Offered);
        calls.fold(Has::default(), |has, call| Has {
            places: has.places + call.id.map_or(1, |id| places(call.interface, id).max(1)),
            reserved: has.reserved.saturating_add(call.reserved),
        })
    }

    /// A call that was presented is answered.
    pub(super) fn answer(&mut self, number: u64) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        call.stage = Stage::Answered;
        self.shares.end_offer(call.uid, call.caller(), number);
        self.shares.take(call.uid, 0);
    }

    pub(super) fn insert(&mut self, call: Call) -> u64 {
        let number = self.next_number();
        match call.stage {
            Stage::Offered => self.shares.offer(call.uid, call.caller(), number),
            _ => self.shares.take(call.uid, call.reserved),
        }
        if let Some(id) = call.id {
            self.by_id.insert((call.interface, id), number);
        }
        self.session(call.session).calls.insert(number);
        self.by_user.entry(call.uid).or_default().insert(number);
        self.calls.insert(number, Box::new(call));
        number
    }

    /// The circuit of a call is at its host, or is there no more. False if that is how it was.
    pub(super) fn set_placed(&mut self, number: u64, placed: bool) -> bool {
        let Some(call) = self.calls.get_mut(&number) else { return false };
        let Some(circuit) = call.circuit.filter(|_| call.placed != placed) else { return false };
        call.placed = placed;
        if placed {
            self.by_circuit.insert((call.interface, circuit), number);
        } else {
            self.by_circuit.remove(&(call.interface, circuit));
        }
        true
    }

    /// A call is another session's from now on.
    pub(super) fn give(&mut self, number: u64, to: u64) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let from = std::mem::replace(&mut call.session, to);
        if let Some(session) = self.sessions.get_mut(&from) {
            session.calls.remove(&number);
        }
        self.session(to).calls.insert(number);
    }

    /// The calls of a session.
    pub(super) fn calls_of(&self, session: u64) -> Vec<u64> {
        self.sessions.get(&session).map(|session| session.calls.iter().copied().collect()).unwrap_or_default()
    }

    /// The calls of a user.
    pub(super) fn calls_of_user(&self, uid: u32) -> impl Iterator<Item = (u64, &Call)> {
        let numbers = self.by_user.get(&uid).into_iter().flatten();
        numbers.filter_map(|number| Some((*number, &**self.calls.get(number)?)))
    }

    pub(super) fn find(&mut self, interface: usize, id: CallId) -> Option<(u64, &mut Call)> {
        let number = *self.by_id.get(&(interface, id))?;
        Some((number, &mut **self.calls.get_mut(&number)?))
    }

    /// A call is gone. What its session has not heard of yet it does not hear of.
    pub(super) fn remove(&mut self, number: u64) -> Option<Box<Call>> {
        let call = self.calls.remove(&number)?;
        if let Some(id) = call.id {
            self.by_id.remove(&(call.interface, id));
        }
        if let Some(session) = self.sessions.get_mut(&call.session) {
            session.calls.remove(&number);
        }
        if let Some(calls) = self.by_user.get_mut(&call.uid) {
            calls.remove(&number);
            if calls.is_empty() {
                self.by_user.remove(&call.uid);
            }
        }
        if call.stage == Stage::Offered {
            self.shares.end_offer(call.uid, call.caller(), number);
        }
        Some(call)
    }

    /// An event for a session. A release takes the place of all that was not heard of the call, and of the call if it
    /// was not heard of.
    pub(super) fn tell(&mut self, session: u64, event: Event) {
        let Some(session) = self.sessions.get_mut(&session) else { return };
        if let Event::Released { call: gone, .. } = &event {
            let gone = *gone;
            if let Some((_, over)) = session.tied.as_mut().filter(|(call, _)| *call == gone) {
                *over = true;
                self.has_news = true;
            }
            let unheard =
                session.events.iter().any(|event| matches!(event, Event::Incoming { call, .. } if *call == gone));
            session.events.retain(|event| event.call() != gone);
            if unheard {
                return;
            }
        }
        session.events.push_back(event);
        self.has_news |= session.waits.is_some();
    }

    /// A session's connection ends now.
    pub(super) fn hang_up(&mut self, session: u64) {
        self.session(session).tied = Some((0, true));
        self.has_news = true;
    }

    /// A session that asked to listen is answered when the signalling program has decided.
    pub(super) fn await_listening(&mut self, session: u64, answer: Answer) {
        self.session(session).listening = Some((answer, None));
    }

    /// The signalling program has decided: an error is a number of `errno.h`.
    pub(super) fn decide_listening(&mut self, session: u64, decision: Result<(), i32>) {
        if let Some((_, decided)) = &mut self.session(session).listening {
            *decided = Some(decision);
            self.has_news = true;
        }
    }

    /// Whether a session waits for that; once it is decided, or `ends`, the answer.
    pub(super) fn take_listening(&mut self, session: u64, ends: bool) -> Option<Option<Result<Answer, i32>>> {
        let listening = &mut self.session(session).listening;
        let decision = match listening {
            None => return None,
            Some((_, Some(decision))) => *decision,
            Some((_, None)) if ends => Ok(()),
            Some((_, None)) => return Some(None),
        };
        listening.take().map(|(answer, _)| Some(decision.map(|()| answer)))
    }

    /// Whom a call is for: the listening that says most of it.
    pub(super) fn listener(&self, interface: usize, called: Option<Aesa>, sap: Sap) -> Option<&Listen> {
        let fits = |listen: &&Listen| {
            let selector = listen.selector.is_none_or(|own| called.is_some_and(|called| called.selector() == own));
            listen.interface == interface && selector && listen.sap.admits(sap)
        };
        let specific = |listen: &&Listen| {
            (listen.selector.is_some(), usize::from(listen.sap.high.is_some()) + usize::from(listen.sap.low.is_some()))
        };
        self.listens.iter().filter(fits).max_by_key(specific)
    }

    pub(super) fn forget_interface(&mut self, interface: usize) {
        self.listens.retain(|listen| listen.interface != interface);
    }

    /// The user of a circuit that a call has at a host.
    pub(super) fn user_of(&self, interface: usize, circuit: CircuitId) -> Option<u32> {
        let number = self.by_circuit.get(&(interface, circuit))?;
        self.calls.get(number).map(|call| call.uid)
    }
}
