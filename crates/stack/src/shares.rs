//! Who has how much of a table that all circuits share: what each circuit has, in order, and which circuit has most.
//!
//! In: entries that begin and end. Out: the circuit that yields one where the table is full. All of it is logarithmic in
//! the table, so that a full table costs a round no more than an empty one.

use std::collections::{BTreeMap, BTreeSet};

/// The entries of each circuit. `K` orders them, as by the time at which they were last used.
#[derive(Debug)]
pub(crate) struct Shares<K> {
    of: BTreeMap<u32, BTreeSet<K>>,
    sizes: BTreeSet<(usize, u32)>,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Shares { of: BTreeMap::new(), sizes: BTreeSet::new() }
    }
}

impl<K: Ord + Copy> Shares<K> {
    /// A circuit has one entry more.
    pub(crate) fn insert(&mut self, circuit: u32, entry: K) {
        let entries = self.of.entry(circuit).or_default();
        let before = entries.len();
        entries.insert(entry);
        let after = entries.len();
        self.resize(circuit, before, after);
    }

    /// A circuit has one entry less.
    pub(crate) fn remove(&mut self, circuit: u32, entry: K) {
        let Some(entries) = self.of.get_mut(&circuit) else { return };
        let before = entries.len();
        entries.remove(&entry);
        let after = entries.len();
        if after == 0 {
            self.of.remove(&circuit);
        }
        self.resize(circuit, before, after);
    }

    fn resize(&mut self, circuit: u32, before: usize, after: usize) {
        if before != after {
            self.sizes.remove(&(before, circuit));
            if after > 0 {
                self.sizes.insert((after, circuit));
            }
        }
    }

    /// Forgets a circuit; gives what it had.
    pub(crate) fn forget(&mut self, circuit: u32) -> BTreeSet<K> {
        let entries = self.of.remove(&circuit).unwrap_or_default();
        self.sizes.remove(&(entries.len(), circuit));
        entries
    }

    /// How many circuits have entries.
    pub(crate) fn len(&self) -> usize {
        self.of.len()
    }

    /// How many entries a circuit has.
    pub(crate) fn count(&self, circuit: u32) -> usize {
        self.of.get(&circuit).map_or(0, BTreeSet::len)
    }

    /// What a circuit has, in order.
    pub(crate) fn entries(&self, circuit: u32) -> impl DoubleEndedIterator<Item = K> + '_ {
        self.of.get(&circuit).into_iter().flatten().copied()
    }

    /// The circuit that yields an entry to one of `circuit`: the one that has most, if that are at least two more, so that
    /// no two circuits push out each other's entries in turns.
    pub(crate) fn who_yields(&self, circuit: u32) -> Option<u32> {
        let own = self.count(circuit);
        self.sizes.last().filter(|(most, _)| *most >= own + 2).map(|(_, circuit)| *circuit)
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
