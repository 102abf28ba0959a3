//! Endpoints whose applications read SDUs where their senders have them: what these are done with is taken back.

use super::Endpoints;
use crate::channels::EndpointId;
use crate::events::machine::LINGER;
use wire::Time;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Borrowers {
    list: Vec<EndpointId>,
    /// When one of them was last given something, or gave something back.
    progress: Time,
}

impl Borrowers {
    /// SDUs were lent to an endpoint's application just now.
    pub(super) fn note(&mut self, id: EndpointId, now: Time) {
        self.progress = now;
        if !self.list.contains(&id) {
            self.list.push(id);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether applications give back what they have: they are looked at without being asked to ring.
    pub(super) fn gets_on(&self, now: Time) -> bool {
        !self.list.is_empty() && now.since(self.progress) < LINGER
    }
}

impl Endpoints {
    /// Takes back what applications are done with. True if anything was.
    pub(crate) fn take_back_loans(&mut self, now: Time) -> bool {
        if self.borrowers.is_empty() {
            return false;
        }
        let (mut list, mut back) = (std::mem::take(&mut self.borrowers.list), false);
        list.retain(|id| {
            self.find(*id).is_some_and(|endpoint| {
                back |= endpoint.forget_ended_loans() | endpoint.take_back_loans();
                endpoint.has_borrowed()
            })
        });
        self.borrowers.list = list;
        if back {
            self.borrowers.progress = now;
        }
        back
    }

    /// Lenders have ended: what of their memory is out is theirs again.
    pub(crate) fn forget_ended_loans(&mut self) {
        for at in 0..self.borrowers.list.len() {
            if let Some(endpoint) = self.find(self.borrowers.list[at]) {
                endpoint.forget_ended_loans();
            }
        }
    }

    /// Before a sleep: asks applications that have borrowed something to ring once they have given back some. False if there is none.
    pub(crate) fn ask_borrowers(&mut self) -> bool {
        for at in 0..self.borrowers.list.len() {
            if let Some(endpoint) = self.find(self.borrowers.list[at]) {
                endpoint.ask_for_catching_up();
            }
        }
        !self.borrowers.is_empty()
    }
}
