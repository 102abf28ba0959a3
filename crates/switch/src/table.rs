//! A table that grows by parts: whoever makes it larger brings a part that was allocated elsewhere, and nothing in it
//! moves.
//!
//! The first part is as large as was asked for in the beginning. What lies there costs no more than in a vector: the
//! test for the later parts is the one for the end of a slice.

use crate::prefetch;
use std::collections::TryReserveError;
use std::ops::{Index, IndexMut};

/// See the module's head.
#[derive(Debug)]
pub struct Table<T> {
    first: Vec<T>,
    /// Each is used when those before it are full.
    more: Vec<Vec<T>>,
}

/// Whoever drops a table gives its memory back to the system. An allocator would leave that to whichever thread frees
/// something a second later: for the table of 65 534 ports it took the engine's thread 14 ms.
impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        std::iter::once(&mut self.first).chain(&mut self.more).for_each(prefetch::release);
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table::from(Vec::new())
    }
}

impl<T> From<Vec<T>> for Table<T> {
    fn from(first: Vec<T>) -> Self {
        Table { first, more: Vec::new() }
    }
}

impl<T> FromIterator<T> for Table<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Table::from(Vec::from_iter(items))
    }
}

/// A part for a table that has room for `had` and is to have room for `wanted`; empty if that is no more.
///
/// # Errors
/// There is no such memory.
pub fn part<T>(had: usize, wanted: usize) -> Result<Vec<T>, TryReserveError> {
    let mut part = Vec::new();
    if wanted > had {
        // Never a small part of the whole, so that there are few parts however often a table grows.
        part.try_reserve_exact((wanted - had).max(had / 4))?;
        prefetch::large_pages(&mut part);
    }
    Ok(part)
}

impl<T> Table<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.first.len() + self.more.iter().map(Vec::len).sum::<usize>()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// How many there can be before it allocates.
    pub fn capacity(&self) -> usize {
        self.first.capacity() + self.more.iter().map(Vec::capacity).sum::<usize>()
    }

    /// Takes a part, if there is not room for `wanted` without it.
    pub fn add_part(&mut self, part: &mut Vec<T>, wanted: usize) {
        if self.capacity() < wanted {
            self.more.push(std::mem::take(part));
        }
    }

    /// One more behind the others.
    #[inline]
    pub fn push(&mut self, item: T) {
        if self.first.len() < self.first.capacity() || self.more.is_empty() {
            self.first.push(item);
        } else {
            self.push_beyond(item);
        }
    }

    #[cold]
    fn push_beyond(&mut self, item: T) {
        let with_room = self.more.iter().position(|part| part.len() < part.capacity());
        let part = with_room.unwrap_or_else(|| {
            self.more.push(Vec::with_capacity(self.len()));
            self.more.len() - 1
        });
        self.more[part].push(item);
    }

    /// Takes off all but the first `left`. The table keeps its room. What `is_kept` is true of comes back, to be dropped
    /// elsewhere; the rest is dropped here, so it takes no memory that others would have to give back.
    pub fn take_from(&mut self, mut left: usize, is_kept: impl Fn(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        for part in std::iter::once(&mut self.first).chain(&mut self.more) {
            let stays = left.min(part.len());
            left -= stays;
            taken.extend(part.drain(stays..).filter(&is_kept));
        }
        taken
    }

    /// Drops all but the first `left`. The table keeps its room.
    pub(crate) fn truncate(&mut self, mut left: usize) {
        for part in std::iter::once(&mut self.first).chain(&mut self.more) {
            part.truncate(left);
            left -= part.len();
        }
    }

    /// The item of this number.
    #[inline(always)]
    pub fn get(&self, at: usize) -> Option<&T> {
        if at < self.first.len() { Some(&self.first[at]) } else { get_beyond(&self.more, at - self.first.len()) }
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        if at < self.first.len() {
            Some(&mut self.first[at])
        } else {
            get_beyond_mut(&mut self.more, at - self.first.len())
        }
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.more.iter().flatten())
    }

    /// Has the system back the first pages by memory.
    pub(crate) fn touch(&mut self) {
        prefetch::first_pages(&mut self.first);
    }

    /// Asks for the line of an item, for use soon. A number without one is harmless.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: usize) {
        let (part, at) = self.part_of(at);
        prefetch::line(part, at);
    }

    /// The same, for use later.
    #[inline(always)]
    pub(crate) fn prefetch_early(&self, at: usize) {
        let (part, at) = self.part_of(at);
        prefetch::early(part, at);
    }

    #[inline(always)]
    fn part_of(&self, at: usize) -> (&[T], usize) {
        match at < self.first.len() || self.more.is_empty() {
            true => (&self.first, at),
            false => part_beyond(&self.more, at - self.first.len()),
        }
    }
}

/// The part behind the first that has an item, or would have it, and its place there.
#[cold]
fn part_beyond<T>(more: &[Vec<T>], mut at: usize) -> (&[T], usize) {
    for part in more {
        match at < part.len() {
            true => return (part, at),
            false => at -= part.len(),
        }
    }
    (&[], at)
}

#[cold]
fn get_beyond<T>(more: &[Vec<T>], at: usize) -> Option<&T> {
    let (part, at) = part_beyond(more, at);
    part.get(at)
}

#[cold]
fn get_beyond_mut<T>(more: &mut [Vec<T>], mut at: usize) -> Option<&mut T> {
    for part in more {
        match at < part.len() {
            true => return part.get_mut(at),
            false => at -= part.len(),
        }
    }
    None
}

#[cold]
fn nothing_at(at: usize) -> ! {
    panic!("there is nothing at {at} of a table")
}

impl<T> Index<usize> for Table<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, at: usize) -> &T {
        match self.get(at) {
            Some(item) => item,
            None => nothing_at(at),
        }
    }
}

impl<T> IndexMut<usize> for Table<T> {
    #[inline(always)]
    fn index_mut(&mut self, at: usize) -> &mut T {
        match self.get_mut(at) {
            Some(item) => item,
            None => nothing_at(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_table_is_a_vector_of_which_nothing_moves(steps in proptest::collection::vec((0u8..4, 0usize..40), 0..100)) {
            let (mut table, mut model) = (Table::from(Vec::with_capacity(3)), Vec::new());
            for (what, n) in steps {
                let before = table.first.as_ptr();
                match what {
                    0 | 1 => for _ in 0..n.min(table.capacity() - table.len()) {
                        table.push(model.len());
                        model.push(model.len());
                    },
                    2 => {
                        let (had, wanted) = (table.capacity(), table.capacity() + n);
                        table.add_part(&mut part(had, wanted).unwrap(), wanted);
                        prop_assert!(table.capacity() >= wanted);
                    }
                    _ => {
                        let left = model.len().saturating_sub(n);
                        let odd = |item: &usize| item % 2 == 1;
                        if n % 3 == 0 {
                            table.truncate(left);
                            model.truncate(left);
                        } else {
                            let taken: Vec<_> = model.split_off(left).into_iter().filter(odd).collect();
                            prop_assert_eq!(table.take_from(left, odd), taken);
                        }
                    }
                }
                prop_assert_eq!(table.first.as_ptr(), before);
                prop_assert_eq!(table.iter().copied().collect::<Vec<_>>(), model.clone());
                prop_assert_eq!((table.len(), table.is_empty()), (model.len(), model.is_empty()));
                for at in 0..=model.len() {
                    prop_assert_eq!(table.get(at), model.get(at));
                    prop_assert_eq!(table.get_mut(at).copied(), model.get(at).copied());
                    let (part, place) = table.part_of(at);
                    prop_assert_eq!(part.get(place), model.get(at));
                }
            }
        }
    }

    #[test]
    fn what_is_dropped_in_place_takes_no_memory_for_it() {
        let mut table: Table<[u64; 8]> = (0..1000).map(|n| [n; 8]).collect();
        assert_eq!(table.take_from(10, |_| false).capacity(), 0);
        assert_eq!((table.len(), table.capacity()), (10, 1000));
    }

    #[test]
    fn a_table_that_grows_by_little_often_has_few_parts() {
        let mut table: Table<u64> = Table::from(Vec::with_capacity(64));
        for had in 64..10_000 {
            table.add_part(&mut part(had, had + 1).unwrap(), had + 1);
            (table.len()..=had).for_each(|n| table.push(n as u64));
        }
        assert!(table.more.len() < 40, "{}", table.more.len());
        assert!(table.iter().copied().eq(0..10_000) && table.capacity() < 20_000);
    }
}
