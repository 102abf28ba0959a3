//! The broadcast and unknown server (af-lane-0021 section 8): what a client sends it goes to all clients of the LAN.
//!
//! A frame from a MAC address of another station is dropped: whoever learns from senders would look for that station
//! at this client's.

use super::speakers::Speakers;
use super::tree::Tree;
use super::{Action, Link, Outbox, Service, outputs};
use crate::places::who_yields;
use std::collections::BTreeMap;
use wire::aesa::Aesa;
use wire::lane::{Control, Data, Operation, is_control};
use wire::{DropReason, Time};

/// A BUS.
#[derive(Debug)]
pub struct Unknown {
    max_clients: usize,
    clients: BTreeMap<Link, Aesa>,
    forward: Tree,
    speakers: Speakers,
    /// The last time that was told.
    now: Time,
    out: Outbox,
}

outputs!(Unknown);

impl Unknown {
    /// A BUS of at most so many clients.
    pub fn new(max_clients: usize) -> Self {
        Unknown {
            max_clients,
            clients: BTreeMap::new(),
            forward: Tree::new(Service::Multicast),
            speakers: Speakers::default(),
            now: Time::ZERO,
            out: Outbox::default(),
        }
    }

    /// The time at which what comes next comes.
    pub fn set_time(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// The stations that have registered a MAC address with the LES: frames from these are theirs alone.
    pub fn set_registrations(&mut self, all: impl Iterator<Item = ([u8; 6], Aesa)>) {
        self.speakers.register(all);
    }

    /// Calls from clients.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Somebody calls. Without the caller's address nothing could be sent back.
    pub fn handle_incoming(&mut self, link: Link, from: Option<Aesa>, service: Service) {
        let is_new = |from: &Aesa| service == Service::Multicast && self.clients.values().all(|client| client != from);
        let from = match from.filter(is_new) {
            Some(from) if self.clients.len() < self.max_clients || self.makes_room(from) => Ok(from),
            Some(_) => Err(DropReason::TableFull),
            None => Err(DropReason::NotPermitted),
        };
        let from = match from {
            Ok(from) => from,
            Err(reason) => {
                self.out.counters.drop_one(reason);
                return self.out.act(Action::Release(link));
            }
        };
        self.clients.insert(link, from);
        self.out.act(Action::Answer(link));
    }

    fn makes_room(&mut self, from: Aesa) -> bool {
        let Some(link) = who_yields(self.clients.iter().map(|(link, from)| (*link, Some(*from), true)), Some(from))
        else {
            return false;
        };
        self.out.counters.drop_one(DropReason::TableFull);
        self.out.act(Action::Release(link));
        self.handle_released(link);
        true
    }

    /// A call is up.
    pub fn handle_up(&mut self, link: Link) {
        if self.forward.is(link) {
            self.forward.handle_up(&mut self.out);
        } else if let Some(client) = self.clients.get(&link) {
            self.forward.add(*client, &mut self.out);
        }
    }

    /// A party of the forward call has joined, or is gone or was refused: then its client has to join anew.
    pub fn handle_party(&mut self, link: Link, party: Aesa, joined: bool) {
        if !self.forward.is(link) || joined && self.forward.handle_joined(party) {
            return;
        }
        self.forward.handle_dropped(party, &mut self.out);
        self.expel(&[party]);
    }

    fn expel(&mut self, lost: &[Aesa]) {
        self.out.release_where(&mut self.clients, |client| lost.contains(client));
    }

    /// A call is gone.
    pub fn handle_released(&mut self, link: Link) {
        self.out.forget(link);
        if self.forward.is(link) {
            let lost = self.forward.handle_released(&mut self.out);
            self.expel(&lost);
        } else if let Some(client) = self.clients.remove(&link) {
            self.forward.remove(client, &mut self.out);
        }
    }

    /// A frame has come from a client: it goes to all, and its sender knows it by its identifier.
    pub fn handle_frame(&mut self, link: Link, frame: &[u8]) {
        let (passes, source) = if is_control(frame) {
            (Control::parse(frame).is_ok_and(|control| control.operation == Operation::FLUSH), None)
        } else {
            let data = Data::parse(frame);
            (data.is_ok(), data.ok().and_then(|data| data.frame.get(6..)?.first_chunk::<6>().copied()))
        };
        let station = self.clients.get(&link).map(|client| client.without_selector());
        let is_own = source.zip(station).is_none_or(|(of, by)| self.speakers.may_speak(of, by, self.now));
        match self.forward.up() {
            _ if !passes => self.out.counters.drop_one(DropReason::Malformed),
            _ if !is_own => self.out.counters.drop_one(DropReason::NotPermitted),
            forward => match forward.zip(self.clients.get(&link)) {
                Some((forward, client)) => {
                    self.out.act_for(Some(*client));
                    self.out.frame(forward, frame);
                }
                None => self.out.counters.drop_one(DropReason::UnknownCircuit),
            },
        }
    }

    /// Releases the call of a client that does not answer the forward call.
    pub fn handle_timeout(&mut self, now: Time) {
        self.set_time(now);
        let silent = self.forward.handle_timeout(now, &mut self.out);
        self.expel(&silent);
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.forward.poll_timeout()
    }
}
