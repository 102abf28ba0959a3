//! A point-to-multipoint call that stations join and leave: control distribute of a LES, multicast forward of a BUS.
//!
//! The others wait until the first party has answered. It has a few seconds; then the call is begun anew with the
//! station of another host that has waited longest.

use super::{Action, Link, Outbox, Service};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::Time;
use wire::aesa::Aesa;

/// How long the first party may take to answer. Those who wait for it have C7's 10 s to join.
const ANSWER: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    /// It is asked once the call is up: after those that have come before it.
    Waiting(u64),
    /// It is being called, or added.
    Asked,
    Joined,
}

/// The call, and who is or will be on it.
impl Party {
    fn is_waiting(self) -> bool {
        matches!(self, Party::Waiting(_))
    }
}

#[derive(Debug)]
pub(super) struct Tree {
    service: Service,
    link: Option<Link>,
    is_up: bool,
    /// Until when the first party has to answer. Time begins when the machine is next given it.
    answer: Option<Time>,
    /// The host of the first party that did not answer in its time.
    silent: Option<Aesa>,
    parties: BTreeMap<Aesa, Party>,
    /// Parties so far.
    count: u64,
}

impl Tree {
    pub(super) const fn new(service: Service) -> Self {
        Tree { service, link: None, is_up: false, answer: None, silent: None, parties: BTreeMap::new(), count: 0 }
    }

    /// The call, once it is up.
    pub(super) fn up(&self) -> Option<Link> {
        self.link.filter(|_| self.is_up)
    }

    pub(super) fn is(&self, link: Link) -> bool {
        self.link == Some(link)
    }

    /// A station is to be on it.
    pub(super) fn add(&mut self, to: Aesa, out: &mut Outbox) {
        self.count += 1;
        self.parties.entry(to).or_insert(Party::Waiting(self.count));
        self.ask(out);
    }

    fn ask(&mut self, out: &mut Outbox) {
        let silent = self.silent;
        let waiting = self.parties.iter_mut().filter(|(_, party)| party.is_waiting());
        match self.link {
            None => {
                let is_silent = |to: &Aesa| silent == Some(to.without_selector());
                if let Some((to, party)) = waiting.min_by_key(|(to, party)| (is_silent(to), **party)) {
                    *party = Party::Asked;
                    self.link = Some(out.call(*to, self.service, true));
                }
            }
            Some(link) if self.is_up => waiting.for_each(|(to, party)| {
                *party = Party::Asked;
                out.act(Action::AddParty { link, to: *to });
            }),
            Some(_) => {}
        }
    }

    /// A station has gone. The call ends with the last one.
    pub(super) fn remove(&mut self, to: Aesa, out: &mut Outbox) {
        let was_on = self.parties.remove(&to).is_some_and(|party| !party.is_waiting());
        let (Some(link), true) = (self.link, was_on) else { return };
        if self.parties.values().any(|party| !party.is_waiting()) {
            return out.act(Action::DropParty { link, to });
        }
        self.release(link, out);
        self.ask(out);
    }

    fn release(&mut self, link: Link, out: &mut Outbox) {
        (self.link, self.is_up, self.answer) = (None, false, None);
        out.forget(link);
        out.act(Action::Release(link));
    }

    /// The call is up; gives its first party.
    pub(super) fn handle_up(&mut self, out: &mut Outbox) -> Option<Aesa> {
        (self.is_up, self.answer, self.silent) = (true, None, None);
        let first = self.parties.iter_mut().find(|(_, party)| **party == Party::Asked);
        let first = first.map(|(to, party)| {
            *party = Party::Joined;
            *to
        });
        self.ask(out);
        first
    }

    /// A party has joined; false if it is not wanted any more.
    pub(super) fn handle_joined(&mut self, to: Aesa) -> bool {
        self.parties.get_mut(&to).map(|party| *party = Party::Joined).is_some()
    }

    /// A party was refused, or has left.
    pub(super) fn handle_dropped(&mut self, to: Aesa, out: &mut Outbox) {
        // With the last one the call goes too, which is told apart.
        self.parties.remove(&to);
        if self.parties.values().all(|party| party.is_waiting())
            && let Some(link) = self.link
        {
            self.release(link, out);
            self.ask(out);
        }
    }

    /// The call is gone; gives whom it has lost. Those that waited are called anew.
    pub(super) fn handle_released(&mut self, out: &mut Outbox) -> Vec<Aesa> {
        if let Some(link) = self.link.take() {
            out.forget(link);
        }
        (self.is_up, self.answer) = (false, None);
        let lost = self.lose();
        self.ask(out);
        lost
    }

    /// Gives up a first party that does not answer, and calls another; gives whom that has lost.
    pub(super) fn handle_timeout(&mut self, now: Time, out: &mut Outbox) -> Vec<Aesa> {
        let Some(link) = self.link.filter(|_| !self.is_up) else { return Vec::new() };
        if *self.answer.get_or_insert(now + ANSWER) > now {
            return Vec::new();
        }
        let lost = self.lose();
        self.silent = lost.first().map(|first| first.without_selector());
        self.release(link, out);
        self.ask(out);
        self.answer = self.link.map(|_| now + ANSWER);
        lost
    }

    /// The parties that were asked or have joined; they are forgotten.
    fn lose(&mut self) -> Vec<Aesa> {
        let lost = self.parties.iter().filter(|(_, party)| !party.is_waiting()).map(|(to, _)| *to).collect();
        self.parties.retain(|_, party| party.is_waiting());
        lost
    }

    /// When to come back.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.link.filter(|_| !self.is_up).map(|_| self.answer.unwrap_or_default())
    }
}
