//! The calls of an interface: found by reference, kept in slots that are used again at once.

use super::index::Index;
use super::{Call, CallId, State};
use crate::slots::Slots;

// Both sides of a link have one for each call.
const _: () = assert!(size_of::<Call>() <= 56);

/// Calls by reference.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Slots<Call>,
    by_id: Index,
    /// How many calls were looked at to find some of them.
    #[cfg(test)]
    pub(super) visited: std::cell::Cell<usize>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.len() == 0
    }

    pub(super) fn contains_key(&self, id: &CallId) -> bool {
        self.by_id.get(*id).is_some()
    }

    pub(super) fn get(&self, id: &CallId) -> Option<&Call> {
        self.slots.get(self.by_id.get(*id)?)
    }

    pub(super) fn get_mut(&mut self, id: &CallId) -> Option<&mut Call> {
        self.slots.get_mut(self.by_id.get(*id)?)
    }

    /// Adds a call whose reference is not in use.
    pub(super) fn insert(&mut self, id: CallId, call: Call) {
        let slot = self.slots.insert(call);
        self.by_id.insert(id, slot);
    }

    pub(super) fn remove(&mut self, id: &CallId) -> Option<Call> {
        self.slots.remove(self.by_id.remove(*id)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (CallId, &Call)> {
        self.by_id.iter().filter_map(|(id, slot)| {
            self.visit(1);
            self.slots.get(slot).map(|call| (id, call))
        })
    }

    /// Those of the next `most` calls from `from` on that are active, and where the rest begins; `None` if there is
    /// none.
    pub(super) fn active_part(&self, from: CallId, most: usize) -> (Vec<CallId>, Option<CallId>) {
        let (part, rest) = self.by_id.part(from, most);
        self.visit(part.len());
        let is_active = |slot: u32| self.slots.get(slot).is_some_and(|call| call.state == State::Active);
        (part.into_iter().filter(|(_, slot)| is_active(*slot)).map(|(id, _)| id).collect(), rest)
    }

    #[cfg(test)]
    fn visit(&self, calls: usize) {
        self.visited.set(self.visited.get() + calls);
    }

    #[cfg(not(test))]
    const fn visit(&self, _calls: usize) {}
}
