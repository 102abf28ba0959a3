//! Which path a frame takes (af-lane-0021 sections 4.6, 6 and 7): by the BUS, one a second, until a direct call leads
//! to its destination. The others wait, five at most. When the path changes, a flush through the BUS goes before what
//! waits, or six seconds pass: so frames do not overtake each other. From one direct call to another a flush goes
//! through the former.

use super::super::{Link, Service, flag};
use super::direct::{Direct, READY};
use super::{Action, Client, MAX_FRAME_OCTETS};
use std::collections::VecDeque;
use std::time::Duration;
use wire::aesa::Aesa;
use wire::lane::{Control, Data, Destination, Operation, emit_ready};
use wire::{DropReason, Time};

/// Destinations that are known or asked for.
const MAX_PATHS: usize = 1024;
/// Frames that wait for a destination's path.
const MAX_HELD: usize = 5;
/// C10 and C11: one frame to an unknown destination in this time.
const UNKNOWN_INTERVAL: Duration = Duration::from_secs(1);
/// C12: a direct call without frames.
const CALL_IDLE: Duration = Duration::from_secs(1200);
/// C13, with the first question.
const MAX_QUESTIONS: u8 = 2;
/// C17: how long an answer is believed.
const AGEING: Duration = Duration::from_secs(300);
/// C18: the same behind bridges that change their topology.
const FORWARD_DELAY: Duration = Duration::from_secs(15);
/// C20: how long an answer may take.
const ANSWER: Duration = Duration::from_secs(1);
/// C22: after this time nothing is left on the old path.
const SWITCHING: Duration = Duration::from_secs(6);
/// Octets of the shortest data frame: 60 of Ethernet's, and the LEC identifier.
const MIN_OCTETS: usize = 62;
/// How long a destination that nobody knows, or whose call failed, is left alone.
const HOLD: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Bus,
    /// The flush of this transaction is under way, at the latest until.
    Flushing(Link, u32, Time),
    Direct(Link),
}

/// A destination.
#[derive(Debug)]
pub(super) struct Path {
    atm: Option<Aesa>,
    way: Way,
    /// The next frame may go by the BUS then, and when the last one went.
    allowed: Time,
    by_bus: Option<Time>,
    /// When to ask again, and how often that was done.
    ask: Option<Time>,
    questions: u8,
    /// The transaction of the question that is open.
    transaction: Option<u32>,
    /// No call is made before.
    call: Time,
    until: Time,
    used: bool,
    is_remote: bool,
    held: VecDeque<Box<[u8]>>,
}

impl Path {
    fn new(now: Time) -> Self {
        Path {
            atm: None,
            way: Way::Bus,
            allowed: now,
            by_bus: None,
            ask: Some(now),
            questions: 0,
            transaction: None,
            call: now,
            until: now + HOLD,
            used: true,
            is_remote: false,
            held: VecDeque::new(),
        }
    }

    pub(super) fn is_direct(&self) -> bool {
        matches!(self.way, Way::Direct(_))
    }

    /// Frames that wait.
    pub(super) fn held(&self) -> u64 {
        self.held.len() as u64
    }

    fn is_on(&self, link: Link) -> bool {
        matches!(self.way, Way::Flushing(on, ..) | Way::Direct(on) if on == link)
    }

    /// Its call has ended for somebody else's: it asks for none meanwhile.
    pub(super) fn yield_call(&mut self, link: Link, now: Time) {
        if self.is_on(link) {
            self.call = now + HOLD;
        }
    }
}

impl Client {
    /// Sends an Ethernet frame, without its check sequence. What cannot be sent is counted.
    pub fn send(&mut self, frame: &[u8], now: Time) {
        let reason = match frame.first_chunk::<6>() {
            _ if frame.len() > MAX_FRAME_OCTETS => Some(DropReason::Oversize),
            _ if frame.len() < 14 => Some(DropReason::Malformed),
            _ if !self.is_up() => Some(DropReason::UnknownCircuit),
            Some(to) if to[0] & 1 == 0 => {
                let to = *to;
                return self.send_to(to, frame, now);
            }
            _ => None,
        };
        match (reason, self.send) {
            (None, Some(bus)) => self.data(bus, frame),
            (reason, _) => self.out.counters.drop_one(reason.unwrap_or(DropReason::UnknownCircuit)),
        }
    }

    fn data(&mut self, link: Link, frame: &[u8]) {
        let data = Data { lecid: self.lecid, frame };
        let mut octets = vec![0; data.buffer_len().max(MIN_OCTETS)];
        data.emit(&mut octets);
        self.out.frame(link, &octets);
    }

    fn send_to(&mut self, to: [u8; 6], frame: &[u8], now: Time) {
        if self.paths.len() >= MAX_PATHS && !self.paths.contains_key(&to) {
            return self.out.counters.drop_one(DropReason::TableFull);
        }
        let path = self.paths.entry(to).or_insert_with(|| Path::new(now));
        path.used = true;
        if let Way::Direct(link) = path.way {
            if let Some(direct) = self.direct.get_mut(&link) {
                direct.used = now;
            }
            return self.data(link, frame);
        }
        if path.held.len() >= MAX_HELD {
            self.out.counters.drop_one(DropReason::QueueFull);
        } else {
            path.held.push_back(frame.into());
        }
        self.path_turn(to, now);
    }

    /// Does what is due for a destination.
    fn path_turn(&mut self, to: [u8; 6], now: Time) {
        let Some(path) = self.paths.get_mut(&to) else { return };
        if path.ask.is_some_and(|at| at <= now) {
            path.ask = (path.questions + 1 < MAX_QUESTIONS).then_some(now + ANSWER);
            path.questions += 1;
            let open = path.transaction;
            let target = Destination::Mac(to);
            let source = Destination::Mac(self.config.mac);
            let question = Control { source, target, ..self.request(Operation::ARP) };
            // Asked once more, it is the same question: an answer to either will do.
            let question = Control { transaction: open.unwrap_or(question.transaction), ..question };
            if let Some(path) = self.paths.get_mut(&to) {
                path.transaction = Some(question.transaction);
            }
            if let Some(control) = self.control {
                self.out.control(control, &question);
            }
        }
        let Some(path) = self.paths.get_mut(&to) else { return };
        match path.way {
            Way::Flushing(link, _, until) if until <= now => return self.switch(to, link),
            Way::Bus if path.allowed <= now => {
                if let (Some(frame), Some(bus)) = (path.held.pop_front(), self.send) {
                    (path.allowed, path.by_bus) = (now + UNKNOWN_INTERVAL, Some(now));
                    self.data(bus, &frame);
                }
            }
            _ => {}
        }
        self.reach(to, now);
    }

    /// Finds the direct call for a destination whose ATM address is known, or sets one up.
    fn reach(&mut self, to: [u8; 6], now: Time) {
        let Some(path) = self.paths.get(&to) else { return };
        let (Some(atm), way) = (path.atm, path.way) else { return };
        match (way, self.best_call(atm)) {
            (Way::Bus, Some(link)) => match path.by_bus.filter(|at| *at + SWITCHING > now) {
                Some(at) => self.flush(to, self.send, link, at + SWITCHING),
                None => self.switch(to, link),
            },
            (Way::Direct(old), Some(link)) if old != link => {
                if self.direct.get(&old).is_some_and(|direct| direct.used + SWITCHING > now) {
                    self.flush(to, Some(old), link, now + SWITCHING);
                } else {
                    self.switch(to, link);
                }
            }
            (Way::Flushing(old, transaction, until), Some(link)) if old != link => {
                self.go(to, Way::Flushing(link, transaction, until));
            }
            (Way::Bus, None) => self.call(to, atm, now),
            _ => {}
        }
    }

    /// Sets up a direct call for a destination that somebody sends to.
    fn call(&mut self, to: [u8; 6], atm: Aesa, now: Time) {
        let is_under_way = self.direct.values().any(|direct| direct.peer == Some(atm));
        let Some(path) = self.paths.get_mut(&to).filter(|path| !is_under_way && path.call <= now) else { return };
        if !path.used && path.held.is_empty() && path.by_bus.is_none_or(|at| at + SWITCHING <= now) {
            return;
        }
        // Whose call ends for this one may ask for another: not before it is this one's turn again.
        path.call = now + HOLD;
        if !self.has_room(Some(atm), now) {
            return;
        }
        let link = self.out.call(atm, Service::Direct, false);
        self.direct.insert(link, Direct::made(atm, now));
    }

    fn go(&mut self, to: [u8; 6], way: Way) {
        if let Some(path) = self.paths.get_mut(&to) {
            path.way = way;
        }
    }

    /// Asks a destination, by the path that frames have taken, whether all has come; then they go on a direct call.
    fn flush(&mut self, to: [u8; 6], by: Option<Link>, link: Link, until: Time) {
        let Some(atm) = self.paths.get(&to).and_then(|path| path.atm) else { return };
        let flush = Control { target_atm: atm, ..self.request(Operation::FLUSH) };
        if let Some(by) = by {
            self.out.control(by, &flush);
        }
        self.go(to, Way::Flushing(link, flush.transaction, until));
    }

    /// The old path is empty: frames go on the direct call.
    fn switch(&mut self, to: [u8; 6], link: Link) {
        let Some(path) = self.paths.get_mut(&to) else { return };
        path.way = Way::Direct(link);
        for frame in std::mem::take(&mut path.held) {
            self.data(link, &frame);
        }
    }

    /// A direct call can be used.
    pub(super) fn change_paths(&mut self, link: Link, now: Time) {
        let Some(peer) = self.direct.get(&link).and_then(|direct| direct.peer) else { return };
        let of_peer: Vec<_> =
            self.paths.iter().filter(|(_, path)| path.atm == Some(peer)).map(|(mac, _)| *mac).collect();
        of_peer.into_iter().for_each(|mac| self.reach(mac, now));
    }

    /// A direct call has gone: its destinations are reached by the BUS, or by another call.
    pub(super) fn leave_paths(&mut self, link: Link, direct: Direct, now: Time) {
        let mut left = Vec::new();
        for (mac, path) in &mut self.paths {
            if path.is_on(link) {
                path.way = Way::Bus;
                left.push(*mac);
            }
            if !direct.is_up && path.atm == direct.peer {
                path.call = now + HOLD;
            }
        }
        left.into_iter().for_each(|mac| self.reach(mac, now));
    }

    /// An answer about a destination for which a question is open, or of a flush; false if it is neither.
    pub(super) fn handle_path(&mut self, answer: &Control, now: Time) -> bool {
        match (answer.operation, answer.target) {
            _ if answer.source_atm != self.config.own => true,
            (operation, Destination::Mac(mac)) if operation == Operation::ARP.response() => {
                let Some(path) = self.paths.get_mut(&mac).filter(|path| path.transaction == Some(answer.transaction))
                else {
                    return false;
                };
                path.transaction = None;
                if answer.status == 0 && answer.target_atm != self.config.own {
                    if path.atm != Some(answer.target_atm) {
                        (path.atm, path.way) = (Some(answer.target_atm), Way::Bus);
                    }
                    path.is_remote = answer.flags & flag::REMOTE != 0;
                    let ageing = if path.is_remote && self.is_changing { FORWARD_DELAY } else { AGEING };
                    (path.ask, path.questions, path.used, path.until) = (None, 0, false, now + ageing);
                    path.used |= !path.held.is_empty();
                    self.reach(mac, now);
                }
                true
            }
            (operation, _) if operation == Operation::FLUSH.response() => {
                let flushed = self.paths.iter().find_map(|(mac, path)| match path.way {
                    Way::Flushing(link, transaction, _) if transaction == answer.transaction => Some((*mac, link)),
                    _ => None,
                });
                if let Some((mac, link)) = flushed {
                    self.switch(mac, link);
                }
                true
            }
            _ => false,
        }
    }

    /// A destination is said to be elsewhere: its address is not believed any more, if it was a proxy's word. What a
    /// client has registered is the LES's word.
    pub(super) fn handle_change(&mut self, mac: [u8; 6]) {
        match self.paths.get(&mac) {
            Some(path) if path.is_remote => {
                let held = path.held();
                self.paths.remove(&mac);
                self.out.counters.drop_n(DropReason::UnknownCircuit, held);
            }
            Some(_) => self.out.counters.drop_one(DropReason::NotPermitted),
            None => {}
        }
    }

    /// Bridges begin to change their topology, or have ended.
    pub(super) fn handle_topology(&mut self, is_changing: bool, now: Time) {
        self.is_changing = is_changing;
        for path in self.paths.values_mut().filter(|path| path.is_remote && is_changing) {
            path.until = path.until.min(now + FORWARD_DELAY);
        }
    }

    pub(super) fn path_timeout(&mut self, now: Time) {
        if self.path_deadline().is_none_or(|at| at > now) {
            return;
        }
        let mut lost = 0;
        self.paths.retain(|_, path| {
            if path.until > now {
                return true;
            }
            // Somebody still sends there: it is asked for once more, and meanwhile believed.
            if path.atm.is_some() && std::mem::take(&mut path.used) && path.ask.is_none() && path.questions == 0 {
                (path.ask, path.until) = (Some(now), now + HOLD);
                return true;
            }
            lost += path.held();
            false
        });
        self.out.counters.drop_n(DropReason::UnknownCircuit, lost);
        let all: Vec<_> = self.paths.keys().copied().collect();
        all.into_iter().for_each(|mac| self.path_turn(mac, now));
        let mut idle = Vec::new();
        for (link, direct) in &mut self.direct {
            if !direct.is_ready && direct.is_up && direct.query <= now {
                direct.query = now + READY;
                self.out.frame(*link, &emit_ready(Operation::READY_QUERY));
            }
            if direct.is_up && direct.used + CALL_IDLE <= now {
                idle.push(*link);
            }
        }
        for link in idle {
            self.out.act(Action::Release(link));
            self.handle_released(link, now);
        }
    }

    pub(super) fn path_deadline(&self) -> Option<Time> {
        let of_path = |path: &Path| {
            let way = match path.way {
                Way::Flushing(.., until) => Some(until),
                Way::Bus if !path.held.is_empty() => Some(path.allowed),
                _ => None,
            };
            path.ask.into_iter().chain(way).fold(path.until, Time::min)
        };
        let of_call = |direct: &Direct| {
            let query = Some(direct.query).filter(|_| !direct.is_ready && direct.is_up);
            let idle = Some(direct.used + CALL_IDLE).filter(|_| direct.is_up);
            query.into_iter().chain(idle).min()
        };
        self.paths.values().map(of_path).chain(self.direct.values().filter_map(of_call)).min()
    }
}
