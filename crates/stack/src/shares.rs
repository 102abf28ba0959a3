//! Who has how much of a table that all circuits, or all stations, share: what each has, in order, and which has most.
//!
//! In: entries that begin and end. Out: the owner that yields one where the table is full. All of it is logarithmic in
//! the table, so that a full table costs a round no more than an empty one.

mod queue;

pub(crate) use queue::{Queue, Queued};

use std::collections::{BTreeMap, BTreeSet};

/// The entries of each owner `O`: a circuit, a station. `K` orders them, as by the time at which they were last used.
#[derive(Debug)]
pub(crate) struct Shares<O, K> {
    of: BTreeMap<O, BTreeSet<K>>,
    sizes: BTreeSet<(usize, O)>,
}

impl<O, K> Default for Shares<O, K> {
    fn default() -> Self {
        Shares { of: BTreeMap::new(), sizes: BTreeSet::new() }
    }
}

impl<O: Ord + Copy, K: Ord + Copy> Shares<O, K> {
    /// An owner has one entry more.
    pub(crate) fn insert(&mut self, owner: O, entry: K) {
        let entries = self.of.entry(owner).or_default();
        let before = entries.len();
        entries.insert(entry);
        let after = entries.len();
        self.resize(owner, before, after);
    }

    /// An owner has one entry less.
    pub(crate) fn remove(&mut self, owner: O, entry: K) {
        let Some(entries) = self.of.get_mut(&owner) else { return };
        let before = entries.len();
        entries.remove(&entry);
        let after = entries.len();
        if after == 0 {
            self.of.remove(&owner);
        }
        self.resize(owner, before, after);
    }

    fn resize(&mut self, owner: O, before: usize, after: usize) {
        if before != after {
            self.sizes.remove(&(before, owner));
            if after > 0 {
                self.sizes.insert((after, owner));
            }
        }
    }

    /// Forgets an owner; gives what it had.
    pub(crate) fn forget(&mut self, owner: O) -> BTreeSet<K> {
        let entries = self.of.remove(&owner).unwrap_or_default();
        self.sizes.remove(&(entries.len(), owner));
        entries
    }

    /// How many owners have entries.
    pub(crate) fn len(&self) -> usize {
        self.of.len()
    }

    /// How many entries an owner has.
    pub(crate) fn count(&self, owner: O) -> usize {
        self.of.get(&owner).map_or(0, BTreeSet::len)
    }

    /// What an owner has, in order.
    pub(crate) fn entries(&self, owner: O) -> impl DoubleEndedIterator<Item = K> + '_ {
        self.of.get(&owner).into_iter().flatten().copied()
    }

    /// The owner that has most.
    pub(crate) fn most(&self) -> Option<O> {
        self.sizes.last().map(|(_, owner)| *owner)
    }

    /// The owner that yields an entry to one of `owner`: the one that has most, if that are at least two more, so that
    /// no two push out each other's entries in turns.
    pub(crate) fn who_yields(&self, owner: O) -> Option<O> {
        let own = self.count(owner);
        self.sizes.last().filter(|(most, _)| *most >= own + 2).map(|(_, owner)| *owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn who_has_most_by_two_yields_as_a_plain_count_says(
            changes in proptest::collection::vec((0u32..4, 0u8..8, 0u8..10), 0..200)
        ) {
            let mut shares = Shares::default();
            let mut plain: BTreeSet<(u32, u8)> = BTreeSet::new();
            for (circuit, entry, what) in changes {
                match what {
                    0 => {
                        let gone: BTreeSet<u8> = plain.iter().filter(|(of, _)| *of == circuit).map(|(_, e)| *e).collect();
                        prop_assert_eq!(shares.forget(circuit), gone);
                        plain.retain(|(of, _)| *of != circuit);
                    }
                    1..=3 => {
                        shares.remove(circuit, entry);
                        plain.remove(&(circuit, entry));
                    }
                    _ => {
                        shares.insert(circuit, entry);
                        plain.insert((circuit, entry));
                    }
                }
                let count = |circuit| plain.iter().filter(|(of, _)| *of == circuit).count();
                let most = (0..4).map(count).max().unwrap_or_default();
                for circuit in 0..4 {
                    prop_assert_eq!(shares.count(circuit), count(circuit));
                    let yields = shares.who_yields(circuit).map(count);
                    prop_assert_eq!(yields, Some(most).filter(|most| *most >= count(circuit) + 2));
                }
            }
        }
    }
}
