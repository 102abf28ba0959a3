//! An ATMARP server (RFC 2225 section 8.4; RFC 1577's clients as well): who is where in one logical IP subnet.
//!
//! A station is entered when it registers (a request for its own address), when it asks for another, and when it answers the
//! InATMARP request that each circuit gets on which nobody is known. After 20 minutes it is asked once more on its circuit, and forgotten if
//! it says nothing. Another station that claims an entered address is refused while the first one's circuit is open.

use super::{Backoff, SERVER_AGEING, same_station};
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::Time;
use wire::atmarp::{End, Operation, Packet};
use wire::{Counters, DropReason};

/// How long a station has to answer when its entry has aged.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
struct Entry {
    end: End,
    circuit: u32,
    heard: Time,
    /// It has been asked at this time whether it is still there.
    asked: Option<Time>,
}

/// A circuit on which nobody is known yet is asked again and again, ever less often.
#[derive(Debug, Clone, Copy)]
struct Ask {
    backoff: Backoff,
    is_known: bool,
}

/// A server.
#[derive(Debug)]
pub struct Server {
    own: End,
    entries: BTreeMap<Ipv4Addr, Entry>,
    circuits: BTreeMap<u32, Ask>,
    max_entries: usize,
    out: VecDeque<(u32, Packet)>,
    max_out: usize,
    /// Requests that were served, and what was refused.
    pub counters: Counters,
    /// Claims to an address that another station has.
    pub duplicates: u64,
}

impl Server {
    /// A server of this number and address, for at most `max_entries` stations.
    pub fn new(own: End, max_entries: usize) -> Self {
        let max_out = max_entries.clamp(16, 1024);
        Server {
            own,
            entries: BTreeMap::new(),
            circuits: BTreeMap::new(),
            max_entries,
            out: VecDeque::with_capacity(max_out),
            max_out,
            counters: Counters::default(),
            duplicates: 0,
        }
    }

    /// Who is entered: address, station, circuit.
    pub fn entries(&self) -> impl Iterator<Item = (Ipv4Addr, &End, u32)> {
        self.entries.iter().map(|(ip, e)| (*ip, &e.end, e.circuit))
    }

    /// A circuit has been opened: whoever is there is asked for its address.
    pub fn add_circuit(&mut self, circuit: u32, now: Time) {
        self.circuits.insert(circuit, Ask { backoff: Backoff::new(now), is_known: false });
        self.ask_unknown(now);
    }

    fn ask_unknown(&mut self, now: Time) {
        for (circuit, ask) in &mut self.circuits {
            if !ask.is_known && self.out.len() < self.max_out && ask.backoff.is_due(now) {
                let packet = Packet { operation: Operation::InverseRequest, sender: self.own, target: End::default() };
                self.out.push_back((*circuit, packet));
            }
        }
    }

    /// A packet of any kind has come on a circuit: if nobody is known there, ask soon.
    pub fn handle_sign_of_life(&mut self, circuit: u32, now: Time) -> bool {
        let unknown = self.circuits.get_mut(&circuit).filter(|ask| !ask.is_known);
        unknown.map(|ask| ask.backoff.hurry(now)).is_some()
    }

    /// A circuit has been closed. Its stations stay for their time, but others may claim their addresses.
    pub fn remove_circuit(&mut self, circuit: u32) {
        self.circuits.remove(&circuit);
    }

    fn say(&mut self, circuit: u32, packet: Packet) {
        if self.out.len() < self.max_out {
            self.out.push_back((circuit, packet));
        } else {
            self.counters.drop_one(DropReason::QueueFull);
        }
    }

    /// A packet from a station.
    pub fn handle(&mut self, circuit: u32, packet: &Packet, now: Time) {
        if !self.circuits.contains_key(&circuit) {
            return self.counters.drop_one(DropReason::UnknownCircuit);
        }
        let sender = packet.sender;
        match packet.operation {
            Operation::Request => {
                let (Some(_), Some(wanted)) = (sender.ip, packet.target.ip) else {
                    return self.counters.drop_one(DropReason::Malformed);
                };
                let accepted = self.enter(circuit, sender, now);
                self.counters.pdus += 1;
                if !accepted && sender.ip != Some(wanted) {
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
            }
            Operation::InverseReply => {
                self.enter(circuit, sender, now);
            }
            Operation::InverseRequest => {
                self.enter(circuit, sender, now);
                self.say(circuit, Packet { operation: Operation::InverseReply, sender: self.own, target: sender });
            }
            Operation::Reply | Operation::Nak => self.counters.drop_one(DropReason::Malformed),
        }
    }

    /// Enters or refreshes a station; false if another has its address.
    fn enter(&mut self, circuit: u32, end: End, now: Time) -> bool {
        let Some(ip) = end.ip else { return false };
        if Some(ip) == self.own.ip {
            self.duplicates += 1;
            return false;
        }
        let fresh = Entry { end, circuit, heard: now, asked: None };
        if let Some(entry) = self.entries.get_mut(&ip) {
            let same = same_station(&end, circuit, &entry.end, entry.circuit);
            if !same && self.circuits.contains_key(&entry.circuit) {
                self.duplicates += 1;
                return false;
            }
            *entry = fresh;
        } else if self.entries.len() < self.max_entries || self.makes_room(circuit) {
            self.entries.insert(ip, fresh);
        } else {
            self.counters.drop_one(DropReason::TableFull);
            return false;
        }
        if let Some(ask) = self.circuits.get_mut(&circuit) {
            ask.is_known = true;
        }
        true
    }

    /// Where the table is full, an entry ends for one of `circuit`: one whose circuit is gone, or of the circuit that has most, if that
    /// are at least two more than its own; of these the one that was not heard of for the longest time. False if there is none.
    fn makes_room(&mut self, circuit: u32) -> bool {
        let mut of: BTreeMap<Option<u32>, usize> = BTreeMap::new();
        let there = |circuit: u32| Some(circuit).filter(|circuit| self.circuits.contains_key(circuit));
        for entry in self.entries.values() {
            *of.entry(there(entry.circuit)).or_default() += 1;
        }
        let own = of.get(&Some(circuit)).copied().unwrap_or_default();
        let most = of.iter().filter(|(_, n)| **n >= own + 2).max_by_key(|(_, n)| **n).map(|(circuit, _)| *circuit);
        let Some(most) = Some(None).filter(|_| of.contains_key(&None)).or(most) else { return false };
        let of_it = self.entries.iter().filter(|(_, entry)| there(entry.circuit) == most);
        let oldest = of_it.min_by_key(|(_, entry)| entry.heard).map(|(ip, _)| *ip);
        self.counters.drop_one(DropReason::TableFull);
        oldest.is_some_and(|ip| self.entries.remove(&ip).is_some())
    }

    /// Asks whom it has not heard of for 20 minutes, and forgets who does not answer.
    pub fn handle_timeout(&mut self, now: Time) {
        let (circuits, out, own, max_out) = (&mut self.circuits, &mut self.out, self.own, self.max_out);
        self.entries.retain(|_, entry| {
            if entry.heard + SERVER_AGEING > now {
                return true;
            }
            let circuit = circuits.get_mut(&entry.circuit);
            let stays = match entry.asked {
                Some(at) => at + GRACE > now,
                None if circuit.is_some() && out.len() < max_out => {
                    entry.asked = Some(now);
                    let ask = Packet { operation: Operation::InverseRequest, sender: own, target: End::default() };
                    out.push_back((entry.circuit, ask));
                    true
                }
                None => false,
            };
            if let (false, Some(ask)) = (stays, circuit) {
                *ask = Ask { backoff: Backoff::new(now + GRACE), is_known: false };
            }
            stays
        });
        self.ask_unknown(now);
    }

    /// What to say, and on which circuit.
    pub fn poll(&mut self) -> Option<(u32, Packet)> {
        self.out.pop_front()
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Time> {
        let entries = self.entries.values().map(|e| e.asked.map_or(e.heard + SERVER_AGEING, |at| at + GRACE));
        let unknown = self.circuits.values().filter(|ask| !ask.is_known).map(|ask| ask.backoff.next());
        entries.chain(unknown).min()
    }
}
