//! The calls of an interface: found by reference, kept in slots that are used again at once, so that the calls that come and
//! go stay in the cache however many are up.

use super::index::Index;
use super::{Call, CallId};

/// Calls by reference.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Option<Call>>,
    free: Vec<u32>,
    by_id: Index,
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
        self.slots[self.by_id.get(*id)? as usize].as_ref()
    }

    pub(super) fn get_mut(&mut self, id: &CallId) -> Option<&mut Call> {
        self.slots[self.by_id.get(*id)? as usize].as_mut()
    }

    /// Adds a call whose reference is not in use.
    pub(super) fn insert(&mut self, id: CallId, call: Call) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(call);
        self.by_id.insert(id, slot);
    }

    pub(super) fn remove(&mut self, id: &CallId) -> Option<Call> {
        let slot = self.by_id.remove(*id)?;
        self.free.push(slot);
        self.slots[slot as usize].take()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (CallId, &Call)> {
        self.by_id.iter().filter_map(|(id, slot)| self.slots[slot as usize].as_ref().map(|call| (id, call)))
    }
}
