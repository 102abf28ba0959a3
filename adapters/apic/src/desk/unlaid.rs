//! Routes without connections in the chips that there are: those that are yet to be laid, and those that found no room.
//!
//! In: the routes of chips that others replace, and those that were tried and did not fit. Out: the next one to be laid. First come
//! those that had connections in the chips before, then those that had them in the chips before those, then the others: so whoever
//! puts chips back as they were has the same routes in them.

use core::mem::take;
use std::collections::BTreeMap;
use wire::CircuitId;

/// What comes in at a port of the element under a label.
pub(super) type Key = (u16, CircuitId);

/// How long a route has had no connections: 0 if it had them in the chips before.
pub(super) type Age = usize;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Unlaid<R> {
    /// Those to be laid, by age.
    next: [BTreeMap<Key, R>; 3],
    /// Those that found no room, by age.
    stranded: [BTreeMap<Key, R>; 2],
}

impl<R> Unlaid<R> {
    /// The chips are others. `laid` had connections in those before.
    pub(super) fn leave(&mut self, laid: BTreeMap<Key, R>) {
        let [mut first, mut second, mut third] = take(&mut self.next);
        let [mut young, mut old] = take(&mut self.stranded);
        // As a rule all but one are empty, and nothing is moved.
        first.append(&mut young);
        second.append(&mut third);
        second.append(&mut old);
        self.next = [laid, first, second];
    }

    /// The next one to be laid.
    pub(super) fn pop(&mut self) -> Option<(Key, Age, R)> {
        let mut ages = self.next.iter_mut().enumerate();
        ages.find_map(|(age, routes)| routes.pop_first().map(|(key, route)| (key, age, route)))
    }

    /// One that is to be laid, before its turn.
    pub(super) fn take(&mut self, key: Key) -> Option<(Age, R)> {
        let mut ages = self.next.iter_mut().enumerate();
        ages.find_map(|(age, routes)| routes.remove(&key).map(|route| (age, route)))
    }

    /// One has found no room.
    pub(super) fn strand(&mut self, key: Key, age: Age, route: R) {
        self.stranded[age.min(1)].insert(key, route);
    }

    /// How many are yet to be laid.
    pub(super) fn left(&self) -> usize {
        self.next.iter().map(BTreeMap::len).sum()
    }

    fn all(&self) -> impl Iterator<Item = &BTreeMap<Key, R>> {
        self.next.iter().chain(&self.stranded)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut BTreeMap<Key, R>> {
        self.next.iter_mut().chain(&mut self.stranded)
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.all().any(|routes| routes.contains_key(key))
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut R> {
        self.all_mut().find_map(|routes| routes.get_mut(key))
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.all_mut().for_each(|routes| drop(routes.remove(key)));
    }
}
