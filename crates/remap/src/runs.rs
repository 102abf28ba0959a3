//! Numbers that lie in a row, to be taken and given back: page frames, or pages of a driver's range.

use std::collections::BTreeMap;

/// Free numbers, as runs that do not touch each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs {
    /// First number and length of each.
    free: BTreeMap<u32, u32>,
}

impl Runs {
    /// `count` numbers from `first` on are free.
    pub fn new(first: u32, count: u32) -> Self {
        let mut runs = Runs::default();
        runs.give(first, count);
        runs
    }

    /// Takes the lowest `count` numbers in a row, and gives the first of them.
    pub fn take(&mut self, count: u32) -> Option<u32> {
        let (&first, &length) = self.free.iter().find(|(_, length)| **length >= count.max(1))?;
        self.free.remove(&first);
        if length > count {
            self.free.insert(first + count, length - count);
        }
        Some(first)
    }

    /// `count` numbers from `first` on are free again. What was free already stays so.
    pub fn give(&mut self, first: u32, count: u32) {
        let (mut begin, mut end) = (first, first.saturating_add(count));
        if begin == end {
            return;
        }
        while let Some((&before, &length)) = self.free.range(..=end).next_back()
            && before + length >= begin
        {
            self.free.remove(&before);
            (begin, end) = (begin.min(before), end.max(before + length));
        }
        self.free.insert(begin, end - begin);
    }

    /// How many are free.
    pub fn free(&self) -> u32 {
        self.free.values().sum()
    }

    /// Whether a number is free.
    pub fn is_free(&self, number: u32) -> bool {
        self.free.range(..=number).next_back().is_some_and(|(first, length)| number - first < *length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn runs_are_a_set_of_numbers_and_neighbours_are_one_run(steps in prop::collection::vec((any::<bool>(), 0u32..40, 1u32..6), 1..200)) {
            let (mut runs, mut set) = (Runs::new(0, 40), (0..40).collect::<BTreeSet<u32>>());
            for (takes, at, count) in steps {
                if takes {
                    let lowest = (0..46).find(|first| (*first..first + count).all(|n| set.contains(&n)));
                    prop_assert_eq!(runs.take(count), lowest);
                    lowest.into_iter().flat_map(|first| first..first + count).for_each(|n| {
                        set.remove(&n);
                    });
                } else {
                    runs.give(at, count);
                    set.extend(at..at + count);
                }
                prop_assert_eq!(runs.free() as usize, set.len());
                prop_assert!((0..46).all(|n| runs.is_free(n) == set.contains(&n)));
            }
        }
    }
}
