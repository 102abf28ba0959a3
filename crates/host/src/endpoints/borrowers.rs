//! Endpoints whose applications read SDUs where their senders have them: what these are done with is taken back.

use super::Endpoints;
use crate::channels::EndpointId;
use crate::events::machine::LINGER;
use crate::host_endpoint::OrphanedRegions;
use crate::lent::Lent;
use std::collections::BTreeSet;
use wire::Time;

/// Loads of regions of which nothing is out any more that one round ends.
const ROUND_LOADS: usize = 1024;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Borrowers {
    /// Those of which something is out.
    list: Vec<EndpointId>,
    /// Those that may borrow: they can have a lender's memory though nothing is out.
    able: BTreeSet<EndpointId>,
    /// As [`Lent::ended`] when their lenders were looked at last.
    ended: u64,
    /// What is out no more.
    orphaned: OrphanedRegions,
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

    /// Whether nothing is out, and nothing that was has to be ended.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.orphaned.is_empty()
    }

    /// Whether applications give back what they have: they are looked at without being asked to ring.
    pub(super) fn gets_on(&self, now: Time) -> bool {
        !self.list.is_empty() && now.since(self.progress) < LINGER
    }
}

impl Endpoints {
    /// A channel of an endpoint borrows.
    pub(crate) fn note_borrower(&mut self, id: EndpointId) {
        self.borrowers.able.insert(id);
    }

    /// Takes back what applications are done with, and ends a piece of what is out no more. True if there was anything.
    pub(crate) fn take_back_loans(&mut self, now: Time) -> bool {
        let mut back = self.forget_ended_loans();
        if self.borrowers.is_empty() {
            return back;
        }
        if !self.borrowers.orphaned.is_empty() {
            self.borrowers.orphaned.end(ROUND_LOADS);
            back = true;
        }
        let mut list = std::mem::take(&mut self.borrowers.list);
        list.retain(|id| {
            self.find(*id).is_some_and(|endpoint| {
                endpoint.note_round(now);
                back |= endpoint.take_back_loans();
                endpoint.has_borrowed()
            })
        });
        self.borrowers.list = list;
        if back {
            self.borrowers.progress = now;
        }
        back
    }

    /// Lenders may have ended: what of their memory is out is theirs again, and nobody keeps it. True if anything was
    /// out.
    pub(crate) fn forget_ended_loans(&mut self) -> bool {
        let Endpoints { list, borrowers: Borrowers { able, ended, orphaned, .. }, .. } = self;
        if able.is_empty() || std::mem::replace(ended, Lent::ended()) == *ended {
            return false;
        }
        let mut back = false;
        for id in &*able {
            if let Ok(at) = list.binary_search_by_key(id, |(i, _)| *i) {
                back |= list[at].1.forget_ended_loans(orphaned);
            }
        }
        back
    }

    /// An endpoint's application reads nothing any more: all that it has borrowed goes back, a piece in a round.
    pub(crate) fn end_borrowing(&mut self, id: EndpointId) {
        let Endpoints { list, borrowers: Borrowers { able, orphaned, .. }, .. } = self;
        if able.remove(&id)
            && let Ok(at) = list.binary_search_by_key(&id, |(i, _)| *i)
        {
            list[at].1.end_borrowing(orphaned);
        }
    }

    /// Before a sleep: asks applications that have borrowed something to ring once they have given back some. False if
    /// there is none.
    pub(crate) fn ask_borrowers(&mut self) -> bool {
        for at in 0..self.borrowers.list.len() {
            if let Some(endpoint) = self.find(self.borrowers.list[at]) {
                endpoint.ask_for_catching_up();
            }
        }
        !self.borrowers.is_empty()
    }
}
