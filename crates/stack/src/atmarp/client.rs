//! An ATMARP client (RFC 2225 section 8.5): registers with its server, asks it for others, refreshes before entries are
//! too old.

use super::{Backoff, CLIENT_AGEING, same_station};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::Time;
use wire::atmarp::{End, Operation, Packet};

/// Addresses that are known or asked for at once; beyond, questions are not asked.
const MAX_ENTRIES: usize = 4096;
/// Questions that the server does not answer, until an address counts as unreachable.
const MAX_QUESTIONS: u8 = 5;
/// Entries that are due and are looked at in one go. The next go follows at once.
const MAX_TURN: usize = 256;
/// How long a refused address is not asked for again.
const NAK_HOLD: Duration = Duration::from_secs(10);

/// What is known of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// The station that has it.
    Known(End),
    /// The server has been asked, or will be.
    Asking,
    /// The server does not know it, or does not answer.
    Unreachable,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    state: Resolution,
    backoff: Backoff,
    questions: u8,
    /// The end of a known or refused entry.
    until: Time,
    used: bool,
}

impl Entry {
    fn due(&self) -> Time {
        match self.state {
            Resolution::Unreachable => self.until,
            Resolution::Known(_) if !self.used => self.until,
            Resolution::Known(_) => self.until.min(self.backoff.next()),
            Resolution::Asking => self.backoff.next(),
        }
    }
}

/// A client of one server, over one circuit.
#[derive(Debug, Clone)]
pub struct Client {
    own: End,
    registration: Backoff,
    register: bool,
    registered: Option<Time>,
    duplicate: Option<End>,
    entries: BTreeMap<Ipv4Addr, Entry>,
    /// When each entry is asked for again, or ends.
    due: BTreeSet<(Time, Ipv4Addr)>,
    /// Addresses that are to be asked for.
    asks: BTreeSet<Ipv4Addr>,
}

impl Client {
    /// A client of this number and address; it registers at once.
    pub fn new(own: End, now: Time) -> Self {
        Client {
            own,
            registration: Backoff::new(now),
            register: false,
            registered: None,
            duplicate: None,
            entries: BTreeMap::new(),
            due: BTreeSet::new(),
            asks: BTreeSet::new(),
        }
    }

    /// Registers at once: the circuit to the server is another.
    pub fn register_again(&mut self, now: Time) {
        self.registration = Backoff::new(now);
        self.register = false;
    }

    /// Whether the server has confirmed this client's address within the last 15 minutes.
    pub fn is_registered(&self) -> bool {
        self.registered.is_some()
    }

    /// The station that has this client's address already, as the server says. The address must not be used then.
    pub fn duplicate(&self) -> Option<&End> {
        self.duplicate.as_ref()
    }

    /// The station of an address; asks the server if it is not known.
    pub fn resolve(&mut self, ip: Ipv4Addr, now: Time) -> Resolution {
        if let Some(entry) = self.entries.get(&ip) {
            let (state, is_used) = (entry.state, entry.used);
            if !is_used {
                self.change(ip, |entry| entry.used = true);
            }
            return state;
        }
        if self.entries.len() >= MAX_ENTRIES {
            return Resolution::Unreachable;
        }
        let mut entry = Entry {
            state: Resolution::Asking,
            backoff: Backoff::new(now),
            questions: 0,
            until: now + CLIENT_AGEING,
            used: true,
        };
        entry.backoff.is_due(now);
        entry.questions = 1;
        self.due.insert((entry.due(), ip));
        self.asks.insert(ip);
        self.entries.insert(ip, entry);
        Resolution::Asking
    }

    /// Changes an entry, and when it is due; false if there is none.
    fn change(&mut self, ip: Ipv4Addr, change: impl FnOnce(&mut Entry)) -> bool {
        let Some(entry) = self.entries.get_mut(&ip) else { return false };
        self.due.remove(&(entry.due(), ip));
        change(entry);
        self.due.insert((entry.due(), ip));
        true
    }

    fn forget(&mut self, ip: Ipv4Addr) {
        if let Some(entry) = self.entries.remove(&ip) {
            self.due.remove(&(entry.due(), ip));
            self.asks.remove(&ip);
        }
    }

    /// Whether the server has refused an address, or has not answered.
    pub fn is_unreachable(&self, ip: Ipv4Addr) -> bool {
        self.entries.get(&ip).is_some_and(|entry| entry.state == Resolution::Unreachable)
    }

    /// The station of an address, if it is known. Asks nobody.
    pub fn station(&self, ip: Ipv4Addr) -> Option<End> {
        self.entries.get(&ip).and_then(|entry| match entry.state {
            Resolution::Known(end) => Some(end),
            _ => None,
        })
    }

    /// The addresses whose stations are known.
    pub fn known(&self) -> impl Iterator<Item = (Ipv4Addr, End)> + '_ {
        self.entries.iter().filter_map(|(ip, e)| match e.state {
            Resolution::Known(end) => Some((*ip, end)),
            _ => None,
        })
    }

    /// A packet from the server. Gives the address of which something else is known than before.
    pub fn handle(&mut self, packet: &Packet, now: Time) -> Option<Ipv4Addr> {
        // An answer names whom it is about as its sender; a refusal is the question with another operation code.
        let (ip, is_changed) = match packet.operation {
            Operation::Reply => {
                let ip = packet.sender.ip?;
                if Some(ip) == self.own.ip {
                    if same_station(&packet.sender, 0, &self.own, 0) {
                        self.duplicate = None;
                        self.registered = Some(now);
                        self.registration = Backoff::new(now + CLIENT_AGEING / 2);
                    } else {
                        self.duplicate = Some(packet.sender);
                        self.registered = None;
                    }
                    return None;
                }
                let is_changed = self.change(ip, |entry| {
                    entry.state = Resolution::Known(packet.sender);
                    entry.until = now + CLIENT_AGEING;
                    entry.backoff = Backoff::new(now + (CLIENT_AGEING - Duration::from_secs(60)));
                    (entry.questions, entry.used) = (0, false);
                });
                (ip, is_changed)
            }
            Operation::Nak => {
                let ip = packet.target.ip?;
                let is_changed = self.change(ip, |entry| {
                    entry.state = Resolution::Unreachable;
                    entry.until = now + NAK_HOLD;
                });
                (ip, is_changed)
            }
            _ => return None,
        };
        self.asks.remove(&ip);
        is_changed.then_some(ip)
    }

    /// Registers, asks again, forgets.
    pub fn handle_timeout(&mut self, now: Time) {
        self.register |= self.registration.is_due(now);
        if self.registered.is_some_and(|at| at + CLIENT_AGEING <= now) {
            self.registered = None;
        }
        for _ in 0..MAX_TURN {
            let Some((_, ip)) = self.due.first().copied().filter(|(at, _)| *at <= now) else { return };
            let Some(entry) = self.entries.get(&ip) else { return };
            match entry.state {
                Resolution::Unreachable => self.forget(ip),
                // Nobody sends there: let it go when its time has come.
                Resolution::Known(_) if entry.until <= now => self.forget(ip),
                Resolution::Asking if entry.questions >= MAX_QUESTIONS => {
                    self.change(ip, |entry| (entry.state, entry.until) = (Resolution::Unreachable, now + NAK_HOLD));
                }
                Resolution::Known(_) | Resolution::Asking => {
                    self.asks.insert(ip);
                    self.change(ip, |entry| {
                        entry.backoff.is_due(now);
                        entry.questions = entry.questions.saturating_add(1);
                    });
                }
            }
        }
    }

    /// What to say to the server.
    pub fn poll(&mut self) -> Option<Packet> {
        let request = |ip| Packet {
            operation: Operation::Request,
            sender: self.own,
            target: End { ip: Some(ip), ..End::default() },
        };
        if let (true, Some(ip)) = (std::mem::take(&mut self.register), self.own.ip) {
            return Some(request(ip));
        }
        self.asks.pop_first().map(request)
    }

    /// Whether [`Client::poll`] would give something.
    pub fn has_packet(&self) -> bool {
        self.register || !self.asks.is_empty()
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Time> {
        let expires = self.registered.map(|at| at + CLIENT_AGEING);
        let entry = self.due.first().map(|(at, _)| *at);
        entry.into_iter().chain([self.registration.next()]).chain(expires).min()
    }
}
