//! Which buffer is used next: they go round, and only as many as fit a cache.
//!
//! A buffer that the other side has only just read is still in its core's cache, line by line, and each line is dear to
//! write. One that had its turn some buffers ago has left for the cache that the cores share. But a round through *all*
//! buffers would leave that cache too, and touch memory that is never needed.

use std::collections::VecDeque;

/// Octets of buffers that go round.
const ROUND_OCTETS: usize = 512 * 1024;
/// Buffers that go round, at least.
const LEAST: usize = 32;

/// Buffers that are free.
#[derive(Debug)]
pub struct Recycle<T> {
    /// Used before, the one that came back first in front.
    used: VecDeque<T>,
    /// Never used.
    fresh: Vec<T>,
    /// How many have been used, and how many are to be before the first is used again.
    round: usize,
    most: usize,
}

impl<T> Recycle<T> {
    /// None yet; each will have `buffer_octets`, and there is room for `capacity` of them.
    pub fn new(buffer_octets: usize, capacity: usize) -> Self {
        let most = (ROUND_OCTETS / buffer_octets.max(1)).max(LEAST);
        Recycle { used: VecDeque::with_capacity(capacity), fresh: Vec::with_capacity(capacity), round: 0, most }
    }

    /// One that was never used.
    pub fn put_fresh(&mut self, buffer: T) {
        self.fresh.push(buffer);
    }

    /// One that comes back.
    pub fn put(&mut self, buffer: T) {
        self.used.push_back(buffer);
    }

    /// One that comes back without having been used: it is next again.
    pub fn put_back(&mut self, buffer: T) {
        self.used.push_front(buffer);
    }

    /// The next.
    pub fn take(&mut self) -> Option<T> {
        if (self.round < self.most || self.used.is_empty())
            && let Some(buffer) = self.fresh.pop()
        {
            self.round += 1;
            return Some(buffer);
        }
        self.used.pop_front()
    }

    /// How many are free.
    pub fn len(&self) -> usize {
        self.used.len() + self.fresh.len()
    }

    /// Whether none is free.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_buffers_go_round_as_fit_a_cache_and_others_only_if_those_are_all_in_use() {
        let mut free = Recycle::new(16_384, 100);
        (0..100).rev().for_each(|buffer| free.put_fresh(buffer));
        for n in 0..200 {
            let buffer = free.take().unwrap();
            assert_eq!(buffer, n % 32);
            free.put(buffer);
        }
        let mut taken: Vec<u32> = std::iter::from_fn(|| free.take()).collect();
        assert!(free.is_empty());
        taken.sort_unstable();
        assert_eq!(taken, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn one_that_was_not_used_is_next_again() {
        let mut free = Recycle::new(64 * 1024, 2);
        free.put(1);
        free.put(2);
        let first = free.take().unwrap();
        free.put_back(first);
        assert_eq!((free.take(), free.len()), (Some(1), 1));
    }
}
