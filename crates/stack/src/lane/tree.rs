//! A point-to-multipoint call that stations join and leave: control distribute of a LES, multicast forward of a BUS.

use super::{Action, Link, Outbox, Service};
use std::collections::BTreeMap;
use wire::aesa::Aesa;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Party {
    /// It is asked once the call is up.
    Waiting,
    /// It is being called, or added.
    Asked,
    Joined,
}

/// The call, and who is or will be on it.
#[derive(Debug)]
pub(super) struct Tree {
    service: Service,
    link: Option<Link>,
    is_up: bool,
    parties: BTreeMap<Aesa, Party>,
}

impl Tree {
    pub(super) const fn new(service: Service) -> Self {
        Tree { service, link: None, is_up: false, parties: BTreeMap::new() }
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
        self.parties.entry(to).or_insert(Party::Waiting);
        self.ask(out);
    }

    fn ask(&mut self, out: &mut Outbox) {
        let mut waiting = self.parties.iter_mut().filter(|(_, party)| **party == Party::Waiting);
        match self.link {
            None => {
                if let Some((to, party)) = waiting.next() {
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
        let was_on = self.parties.remove(&to).is_some_and(|party| party != Party::Waiting);
        let (Some(link), true) = (self.link, was_on) else { return };
        if self.parties.values().any(|party| *party != Party::Waiting) {
            return out.act(Action::DropParty { link, to });
        }
        (self.link, self.is_up) = (None, false);
        out.forget(link);
        out.act(Action::Release(link));
        self.ask(out);
    }

    /// The call is up; gives its first party.
    pub(super) fn handle_up(&mut self, out: &mut Outbox) -> Option<Aesa> {
        self.is_up = true;
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
        if self.parties.values().all(|party| *party == Party::Waiting)
            && let Some(link) = self.link.take()
        {
            self.is_up = false;
            out.forget(link);
            out.act(Action::Release(link));
            self.ask(out);
        }
    }

    /// The call is gone; gives whom it has lost. Those that waited are called anew.
    pub(super) fn handle_released(&mut self, out: &mut Outbox) -> Vec<Aesa> {
        if let Some(link) = self.link.take() {
            out.forget(link);
        }
        self.is_up = false;
        let lost = self.parties.iter().filter(|(_, party)| **party != Party::Waiting).map(|(to, _)| *to).collect();
        self.parties.retain(|_, party| *party == Party::Waiting);
        self.ask(out);
        lost
    }
}
