//! What a round has to visit: a bit for each node or line, and the time at which each of the others wants to be
//! visited.
//!
//! Both keep the order of numbers, so the same network in the same state does the same, whoever asked for a visit
//! first.

use wire::Time;

const NONE: u32 = u32::MAX;

/// A set of small numbers.
#[derive(Debug, Default)]
pub(crate) struct ReadySet {
    words: Vec<u64>,
    len: usize,
}

impl ReadySet {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn insert(&mut self, number: u32) {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.len += usize::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    pub(crate) fn remove(&mut self, number: u32) -> bool {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        let there = self.words.get(word).is_some_and(|bits| bits & bit != 0);
        if there {
            self.words[word] &= !bit;
            self.len -= 1;
        }
        there
    }

    /// The lowest number in it that is `from` or higher.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let (mut word, mut mask) = (from as usize / 64, u64::MAX << (from % 64));
        while let Some(bits) = self.words.get(word) {
            let bits = bits & mask;
            if bits != 0 {
                return Some(word as u32 * 64 + bits.trailing_zeros());
            }
            (word, mask) = (word + 1, u64::MAX);
        }
        None
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let number = self.next(from)?;
            from = number + 1;
            Some(number)
        })
    }
}

/// A time for each of some numbers: the earliest is at hand, a change costs the logarithm of how many there are. A heap
/// whose entries know their places; of equal times the lower number is first.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    heap: Vec<(Time, u32)>,
    places: Vec<u32>,
}

impl Deadlines {
    /// The earliest time.
    pub(crate) fn first(&self) -> Option<Time> {
        self.heap.first().map(|(time, _)| *time)
    }

    /// Gives a number another time, or none.
    pub(crate) fn set(&mut self, number: u32, time: Option<Time>) {
        if number as usize >= self.places.len() {
            if time.is_none() {
                return;
            }
            self.places.resize(number as usize + 1, NONE);
        }
        let at = self.places[number as usize];
        match (at, time) {
            (NONE, None) => {}
            (NONE, Some(time)) => {
                self.heap.push((time, number));
                self.up(self.heap.len() - 1);
            }
            (at, Some(time)) => {
                let at = at as usize;
                if self.heap[at].0 != time {
                    self.heap[at].0 = time;
                    self.settle(at);
                }
            }
            (at, None) => {
                let at = at as usize;
                self.places[number as usize] = NONE;
                self.heap.swap_remove(at);
                if at < self.heap.len() {
                    self.settle(at);
                }
            }
        }
    }

    /// Takes out the number of the earliest time, if that has come.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<u32> {
        let (_, number) = self.heap.first().copied().filter(|(time, _)| *time <= now)?;
        self.set(number, None);
        Some(number)
    }

    /// An entry may be too early or too late for its place.
    fn settle(&mut self, at: usize) {
        let at = self.up(at);
        self.down(at);
    }

    fn up(&mut self, mut at: usize) -> usize {
        while at > 0 && self.heap[at] < self.heap[(at - 1) / 2] {
            self.heap.swap(at, (at - 1) / 2);
            self.places[self.heap[at].1 as usize] = at as u32;
            at = (at - 1) / 2;
        }
        self.places[self.heap[at].1 as usize] = at as u32;
        at
    }

    fn down(&mut self, mut at: usize) {
        loop {
            let child = |side: usize| Some(at * 2 + side).filter(|child| *child < self.heap.len());
            let Some(earlier) = [child(1), child(2)].into_iter().flatten().min_by_key(|child| self.heap[*child]) else {
                break;
            };
            if self.heap[at] <= self.heap[earlier] {
                break;
            }
            self.heap.swap(at, earlier);
            self.places[self.heap[at].1 as usize] = at as u32;
            at = earlier;
        }
        self.places[self.heap[at].1 as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn bits_are_a_set_in_order(steps in prop::collection::vec((0u32..200, any::<bool>()), 0..200), from in 0u32..220) {
            let (mut bits, mut model) = (ReadySet::default(), BTreeSet::new());
            for (number, inserts) in steps {
                if inserts {
                    bits.insert(number);
                    model.insert(number);
                } else {
                    prop_assert_eq!(bits.remove(number), model.remove(&number));
                }
                prop_assert_eq!(bits.next(0), model.first().copied());
            }
            prop_assert_eq!(bits.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(bits.next(from), model.range(from..).next().copied());
        }

        #[test]
        fn deadlines_come_out_by_time_and_number(steps in prop::collection::vec((0u32..30, prop::option::of(0u64..50)), 0..300), end in 0u64..60) {
            let (mut deadlines, mut model) = (Deadlines::default(), BTreeMap::new());
            for (number, time) in steps {
                let time = time.map(Time::from_nanos);
                deadlines.set(number, time);
                match time {
                    Some(time) => drop(model.insert(number, time)),
                    None => drop(model.remove(&number)),
                }
                prop_assert_eq!(deadlines.first(), model.values().min().copied());
            }
            let mut due: Vec<_> = model.iter().map(|(number, time)| (*time, *number)).collect();
            due.sort_unstable();
            let end = Time::from_nanos(end);
            for (time, number) in due {
                prop_assert_eq!(deadlines.pop_due(end), (time <= end).then_some(number));
            }
        }
    }
}
