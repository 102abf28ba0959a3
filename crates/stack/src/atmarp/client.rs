//! An ATMARP client (RFC 2225 section 8.5): registers with its server, asks it for others, refreshes before entries are too old.

use super::{Backoff, CLIENT_AGEING, same_station};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::Time;
use wire::atmarp::{End, Operation, Packet};

/// Addresses that are known or asked for at once; beyond, questions are not asked.
const MAX_ENTRIES: usize = 4096;
/// Questions that the server does not answer, until an address counts as unreachable.
const MAX_QUESTIONS: u8 = 5;
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
    ask: bool,
    used: bool,
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
        if let Some(entry) = self.entries.get_mut(&ip) {
            entry.used = true;
            return entry.state;
        }
        if self.entries.len() >= MAX_ENTRIES {
            return Resolution::Unreachable;
        }
        let mut entry = Entry {
            state: Resolution::Asking,
            backoff: Backoff::new(now),
            questions: 0,
            until: now + CLIENT_AGEING,
            ask: false,
            used: true,
        };
        entry.ask = entry.backoff.is_due(now);
        entry.questions = 1;
        self.entries.insert(ip, entry);
        Resolution::Asking
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

    /// A packet from the server. False if it is none that a server sends.
    pub fn handle(&mut self, packet: &Packet, now: Time) -> bool {
        // An answer names whom it is about as its sender; a refusal is the question with another operation code.
        match packet.operation {
            Operation::Reply => {
                let Some(ip) = packet.sender.ip else { return false };
                if Some(ip) == self.own.ip {
                    if same_station(&packet.sender, 0, &self.own, 0) {
                        self.duplicate = None;
                        self.registered = Some(now);
                        self.registration = Backoff::new(now + CLIENT_AGEING / 2);
                    } else {
                        self.duplicate = Some(packet.sender);
                        self.registered = None;
                    }
                } else if let Some(entry) = self.entries.get_mut(&ip) {
                    entry.state = Resolution::Known(packet.sender);
                    entry.until = now + CLIENT_AGEING;
                    entry.backoff = Backoff::new(now + (CLIENT_AGEING - Duration::from_secs(60)));
                    (entry.questions, entry.ask, entry.used) = (0, false, false);
                }
                true
            }
            Operation::Nak => {
                if let Some(entry) = packet.target.ip.and_then(|ip| self.entries.get_mut(&ip)) {
                    entry.state = Resolution::Unreachable;
                    entry.until = now + NAK_HOLD;
                    entry.ask = false;
                }
                true
            }
            _ => false,
        }
    }

    /// Registers, asks again, forgets.
    pub fn handle_timeout(&mut self, now: Time) {
        self.register |= self.registration.is_due(now);
        if self.registered.is_some_and(|at| at + CLIENT_AGEING <= now) {
            self.registered = None;
        }
        self.entries.retain(|_, entry| {
            match entry.state {
                Resolution::Unreachable => return entry.until > now,
                Resolution::Known(_) if entry.until <= now => return false,
                // Nobody sends there: let it go when its time has come.
                Resolution::Known(_) if !entry.used => return true,
                Resolution::Known(_) | Resolution::Asking => {}
            }
            if entry.backoff.is_due(now) {
                entry.questions = entry.questions.saturating_add(1);
                if entry.state == Resolution::Asking && entry.questions > MAX_QUESTIONS {
                    entry.state = Resolution::Unreachable;
                    entry.until = now + NAK_HOLD;
                } else {
                    entry.ask = true;
                }
            }
            true
        });
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
        let (ip, entry) = self.entries.iter_mut().find(|(_, e)| e.ask)?;
        entry.ask = false;
        Some(request(*ip))
    }

    /// Whether [`Client::poll`] would give something.
    pub fn has_packet(&self) -> bool {
        self.register || self.entries.values().any(|e| e.ask)
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Time> {
        let entries = self.entries.values().map(|e| match e.state {
            Resolution::Unreachable => e.until,
            Resolution::Known(_) if !e.used => e.until,
            Resolution::Known(_) => e.until.min(e.backoff.next()),
            Resolution::Asking => e.backoff.next(),
        });
        let expires = self.registered.map(|at| at + CLIENT_AGEING);
        entries.chain([self.registration.next()]).chain(expires).min()
    }
}
