//! An ATMARP server (RFC 2225 section 8.4; RFC 1577's clients as well): who is where in one logical IP subnet.
//!
//! A station is entered when it registers (a request for its own address), when it asks for another, and when it
//! answers the InATMARP request that each circuit gets on which nobody is known. After 20 minutes it is asked once more
//! on its circuit, and forgotten if it says nothing. Another station that claims an entered address is refused until
//! then, also after the first one's circuit has gone; the number in a packet is no proof, so that an entry moves to
//! another circuit only if the network has said that its station is there. Configuration can tie a circuit to addresses:
//! it gets no others, and no other circuit gets these.
//!
//! Each packet costs the logarithm of the table: deadlines and each circuit's entries are in order.

use super::ties::Ties;
use super::{Backoff, SERVER_AGEING, same_station};
use crate::shares::{Queue, Queued, Shares};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::Time;
use wire::atmarp::{AtmAddress, End, Operation, Packet};
use wire::{Counters, DropReason};

/// How long a station has to answer when its entry has aged.
const GRACE: Duration = Duration::from_secs(10);
/// Until questions are tried again for which there was no room.
const PAUSE: Duration = Duration::from_millis(100);
/// Entries that age, and circuits that are asked, in one go. The next go follows at once.
const MAX_TURN: usize = 256;

#[derive(Debug, Clone, Copy)]
struct Entry {
    end: End,
    circuit: u32,
    /// The number at the circuit's far end, as the network had said when this was entered.
    proven: AtmAddress,
    heard: Time,
    /// It has been asked at this time whether it is still there.
    asked: Option<Time>,
}

impl Entry {
    fn due(&self) -> Time {
        self.asked.map_or(self.heard + SERVER_AGEING, |at| at + GRACE)
    }
}

/// A circuit on which nobody is known yet is asked again and again, ever less often.
#[derive(Debug, Clone, Copy)]
struct Circuit {
    backoff: Backoff,
    is_known: bool,
    /// The far end's number, as the network has said.
    number: AtmAddress,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Refused,
    /// The entry was there already.
    Refreshed,
    /// The entry is new, or leads elsewhere.
    Entered,
}

/// A server.
#[derive(Debug)]
pub struct Server {
    own: End,
    entries: BTreeMap<Ipv4Addr, Entry>,
    /// When each entry ages, or has not answered.
    due: BTreeSet<(Time, Ipv4Addr)>,
    /// The entries of each circuit, open or not; first those not heard of for the longest time.
    shares: Shares<u32, (Time, Ipv4Addr)>,
    circuits: BTreeMap<u32, Circuit>,
    /// When each circuit is asked on which nobody is known.
    unknown: BTreeSet<(Time, u32)>,
    /// Circuits that are gone and have entries, with the number of who was there ...
    closed: BTreeMap<u32, AtmAddress>,
    /// ... and those of each number.
    former: BTreeSet<(AtmAddress, u32)>,
    ties: Ties,
    max_entries: usize,
    out: Queue<u32, Packet>,
    /// Nothing is asked before: there was no room.
    pause: Time,
    /// Requests that were served, and what was refused.
    pub counters: Counters,
    /// Claims to an address that another station has.
    pub duplicates: u64,
}

impl Server {
    /// A server of this number and address, for at most `max_entries` stations.
    pub fn new(own: End, max_entries: usize) -> Self {
        Server {
            own,
            entries: BTreeMap::new(),
            due: BTreeSet::new(),
            shares: Shares::default(),
            circuits: BTreeMap::new(),
            unknown: BTreeSet::new(),
            closed: BTreeMap::new(),
            former: BTreeSet::new(),
            ties: Ties::default(),
            max_entries,
            out: Queue::new(max_entries.clamp(16, 1024)),
            pause: Time::ZERO,
            counters: Counters::default(),
            duplicates: 0,
        }
    }

    /// Who is entered: address, station, circuit.
    pub fn entries(&self) -> impl Iterator<Item = (Ipv4Addr, &End, u32)> {
        self.entries.iter().map(|(ip, e)| (*ip, &e.end, e.circuit))
    }

    /// The station of an address, and its circuit, which may be gone.
    pub fn entry(&self, ip: Ipv4Addr) -> Option<(&End, u32)> {
        self.entries.get(&ip).map(|entry| (&entry.end, entry.circuit))
    }

    /// Whether an entry's circuit is open, and leads to who was entered: another station may have its number since.
    pub fn is_there(&self, ip: Ipv4Addr) -> bool {
        self.entries.get(&ip).is_some_and(|entry| self.stands_on_its_circuit(entry))
    }

    fn stands_on_its_circuit(&self, entry: &Entry) -> bool {
        self.circuits
            .get(&entry.circuit)
            .is_some_and(|state| entry.proven == AtmAddress::NONE || state.number == entry.proven)
    }

    /// By configuration a circuit has an address. It gets no others but those that it is tied to, and no other circuit
    /// gets these.
    pub fn tie(&mut self, circuit: u32, ip: Ipv4Addr) {
        self.ties.tie(circuit, ip);
        if self.entries.get(&ip).is_some_and(|entry| entry.circuit != circuit) {
            self.take(ip);
        }
    }

    /// The addresses of a circuit, the one that was heard of last at the end.
    pub fn addresses(&self, circuit: u32) -> impl DoubleEndedIterator<Item = Ipv4Addr> + '_ {
        self.shares.entries(circuit).map(|(_, ip)| ip)
    }

    /// How many open circuits have stations.
    pub fn known_circuits(&self) -> usize {
        self.shares.len() - self.closed.len()
    }

    /// A circuit has been opened: whoever is there is asked for its address.
    pub fn add_circuit(&mut self, circuit: u32, now: Time) {
        self.reopen(circuit);
        self.ask_from(circuit, Backoff::new(now));
        self.set_number(circuit, AtmAddress::NONE);
        self.ask_unknown(now);
    }

    /// A circuit is not one of those that are gone and have entries.
    fn reopen(&mut self, circuit: u32) {
        if let Some(number) = self.closed.remove(&circuit) {
            self.former.remove(&(number, circuit));
        }
    }

    /// The number at a circuit's far end, as the network has said. What a packet says proves nothing.
    pub fn set_number(&mut self, circuit: u32, number: AtmAddress) {
        if let Some(circuit) = self.circuits.get_mut(&circuit) {
            circuit.number = number;
        }
    }

    /// Nobody is known on a circuit: it is asked at these times.
    fn ask_from(&mut self, circuit: u32, backoff: Backoff) {
        let fresh = Circuit { backoff, is_known: true, number: AtmAddress::NONE };
        let state = self.circuits.entry(circuit).or_insert(fresh);
        if !state.is_known {
            self.unknown.remove(&(state.backoff.next(), circuit));
        }
        (state.backoff, state.is_known) = (backoff, false);
        self.unknown.insert((backoff.next(), circuit));
    }

    fn ask_unknown(&mut self, now: Time) {
        for _ in 0..MAX_TURN {
            let Some((_, circuit)) = self.unknown.first().copied().filter(|(at, _)| *at <= now) else { return };
            let Some(mut backoff) = self.circuits.get(&circuit).map(|state| state.backoff) else { return };
            if !self.ask(circuit, now) {
                return;
            }
            backoff.is_due(now);
            self.ask_from(circuit, backoff);
        }
    }

    /// Asks who is on a circuit; false if there is no room for the question now.
    fn ask(&mut self, circuit: u32, now: Time) -> bool {
        let packet = Packet { operation: Operation::InverseRequest, sender: self.own, target: End::default() };
        let queued = self.out.push(circuit, || packet);
        match queued {
            Queued::Taken => {}
            Queued::Displaced => self.counters.drop_one(DropReason::QueueFull),
            Queued::Refused => self.pause = now + PAUSE,
        }
        queued != Queued::Refused
    }

    /// A packet of any kind has come on a circuit: if nobody is known there, ask soon.
    pub fn handle_sign_of_life(&mut self, circuit: u32, now: Time) -> bool {
        let Some(state) = self.circuits.get(&circuit).filter(|state| !state.is_known) else { return false };
        let mut backoff = state.backoff;
        backoff.hurry(now);
        if backoff != state.backoff {
            self.ask_from(circuit, backoff);
        }
        true
    }

    /// A circuit has been closed. Its stations stay for their time, and nobody else may claim their addresses.
    pub fn remove_circuit(&mut self, circuit: u32) {
        self.ties.forget(circuit);
        let Some(state) = self.circuits.remove(&circuit) else { return };
        self.unknown.remove(&(state.backoff.next(), circuit));
        if self.shares.count(circuit) > 0 {
            self.closed.insert(circuit, state.number);
            self.former.insert((state.number, circuit));
        }
        self.counters.drop_n(DropReason::Closed, self.out.forget(|of, _| *of == circuit));
    }

    fn say(&mut self, circuit: u32, packet: Packet) {
        if self.out.push(circuit, || packet) != Queued::Taken {
            self.counters.drop_one(DropReason::QueueFull);
        }
    }

    /// A packet from a station. Gives the address whose entry is new, or leads elsewhere than before.
    pub fn handle(&mut self, circuit: u32, packet: &Packet, now: Time) -> Option<Ipv4Addr> {
        if !self.circuits.contains_key(&circuit) {
            self.counters.drop_one(DropReason::UnknownCircuit);
            return None;
        }
        let sender = packet.sender;
        let claim = match packet.operation {
            Operation::Request => {
                let (Some(_), Some(wanted)) = (sender.ip, packet.target.ip) else {
                    self.counters.drop_one(DropReason::Malformed);
                    return None;
                };
                let claim = self.enter(circuit, sender, now);
                self.counters.pdus += 1;
                if claim == Claim::Refused && sender.ip != Some(wanted) {
                    // Not a registration: it is served all the same, and finds out when it registers.
                    self.counters.drop_one(DropReason::NotPermitted);
                }
                let answer = match self.entries.get(&wanted) {
                    _ if Some(wanted) == self.own.ip => Some(self.own),
                    // A refused registration gets the entry that stands: so the client learns of its twin.
                    Some(entry) => Some(entry.end),
                    None => None,
                };
                let reply = match answer {
                    Some(end) => Packet { operation: Operation::Reply, sender: end, target: sender },
                    None => Packet { operation: Operation::Nak, ..*packet },
                };
                self.say(circuit, reply);
                claim
            }
            Operation::InverseReply => self.enter(circuit, sender, now),
            Operation::InverseRequest => {
                let claim = self.enter(circuit, sender, now);
                self.say(circuit, Packet { operation: Operation::InverseReply, sender: self.own, target: sender });
                claim
            }
            Operation::Reply | Operation::Nak => {
                self.counters.drop_one(DropReason::Malformed);
                return None;
            }
        };
        sender.ip.filter(|_| claim == Claim::Entered)
    }

    /// The number at a circuit's far end, as the network says.
    fn number(&self, circuit: u32) -> AtmAddress {
        self.circuits.get(&circuit).map_or(AtmAddress::NONE, |state| state.number)
    }

    /// Whether a claim on a circuit comes of the station that is entered: the network has said so, or it names nobody
    /// and the circuit is the same.
    fn is_of(&self, entry: &Entry, end: &End, circuit: u32) -> bool {
        let number = self.number(circuit);
        let is_there = match entry.proven {
            AtmAddress::NONE => circuit == entry.circuit || number != AtmAddress::NONE && number == entry.end.number,
            proven => number == proven,
        };
        is_there && same_station(end, circuit, &entry.end, entry.circuit)
    }

    /// Enters or refreshes a station.
    fn enter(&mut self, circuit: u32, end: End, now: Time) -> Claim {
        let Some(ip) = end.ip else { return Claim::Refused };
        if Some(ip) == self.own.ip || !self.ties.allow(circuit, ip) {
            self.duplicates += 1;
            return Claim::Refused;
        }
        let mut claim = Claim::Entered;
        if let Some(entry) = self.entries.get(&ip) {
            let stands = self.stands_on_its_circuit(entry) || now < entry.heard + SERVER_AGEING;
            if stands && !self.is_of(entry, &end, circuit) {
                self.duplicates += 1;
                return Claim::Refused;
            }
            if entry.circuit == circuit && entry.end == end {
                claim = Claim::Refreshed;
            }
        } else if self.entries.len() >= self.max_entries && !self.makes_room(circuit) {
            self.counters.drop_one(DropReason::TableFull);
            return Claim::Refused;
        }
        self.put(ip, Entry { end, circuit, proven: self.number(circuit), heard: now, asked: None });
        if let Some(state) = self.circuits.get_mut(&circuit)
            && !std::mem::replace(&mut state.is_known, true)
        {
            self.unknown.remove(&(state.backoff.next(), circuit));
        }
        claim
    }

    fn put(&mut self, ip: Ipv4Addr, entry: Entry) {
        self.take(ip);
        self.due.insert((entry.due(), ip));
        self.shares.insert(entry.circuit, (entry.heard, ip));
        self.entries.insert(ip, entry);
    }

    fn take(&mut self, ip: Ipv4Addr) -> Option<Entry> {
        let entry = self.entries.remove(&ip)?;
        self.due.remove(&(entry.due(), ip));
        self.shares.remove(entry.circuit, (entry.heard, ip));
        if self.shares.count(entry.circuit) == 0 {
            self.reopen(entry.circuit);
        }
        Some(entry)
    }

    /// Where the table is full, an entry ends for one of `circuit`: of the circuit that has most, if that are at least
    /// two more than its own; else of a former circuit of the same station; else, for a circuit without entries, of one
    /// that is gone. Who has entries pushes out no other station's, whose claim stands. Of a circuit's entries that one
    /// ends that was not heard of for the longest time. False if there is none.
    fn makes_room(&mut self, circuit: u32) -> bool {
        let number = self.number(circuit);
        let of_station =
            self.former.range((number, 0)..).next().filter(|(of, _)| number != AtmAddress::NONE && *of == number);
        let own_former = of_station.map(|(_, former)| *former);
        let gone = || self.closed.keys().next().copied().filter(|_| self.shares.count(circuit) == 0);
        let yields = self.shares.who_yields(circuit).or(own_former).or_else(gone);
        let Some(oldest) = yields.and_then(|yields| self.addresses(yields).next()) else { return false };
        self.counters.drop_one(DropReason::TableFull);
        self.take(oldest).is_some()
    }

    /// Asks whom it has not heard of for 20 minutes, and forgets who does not answer.
    pub fn handle_timeout(&mut self, now: Time) {
        for _ in 0..MAX_TURN {
            let due = self.due.first().filter(|(at, _)| *at <= now && self.pause <= now);
            let Some((_, ip)) = due.copied() else { break };
            let Some(entry) = self.entries.get(&ip).copied() else { break };
            if !self.stands_on_its_circuit(&entry) {
                self.take(ip);
            } else if entry.asked.is_some() {
                self.take(ip);
                self.ask_from(entry.circuit, Backoff::new(now + GRACE));
            } else if self.ask(entry.circuit, now) {
                self.put(ip, Entry { asked: Some(now), ..entry });
            }
        }
        if self.pause <= now {
            self.ask_unknown(now);
        }
    }

    /// What to say, and on which circuit.
    pub fn poll(&mut self) -> Option<(u32, Packet)> {
        self.out.pop()
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Time> {
        let entry = self.due.first().map(|(at, _)| *at);
        let unknown = self.unknown.first().map(|(at, _)| *at);
        entry.into_iter().chain(unknown).min().map(|at| at.max(self.pause))
    }
}
