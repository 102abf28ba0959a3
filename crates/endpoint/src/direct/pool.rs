//! Which blocks are free, which are loaned, which are with the other side. No shared memory here: what comes back is
//! held against this record, and a block that is not away cannot come back.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    /// Not the first block of its message.
    Inside,
    /// The first of so many, in the application's hands.
    Loaned(u32),
    /// The first of so many, with the other side.
    Away(u32),
}

/// Blocks of one side.
#[derive(Debug)]
pub struct Pool {
    state: Vec<State>,
    /// Blocks to try first, the one that came back last on top: it is most likely in the cache. Entries may be stale.
    recent: Vec<u32>,
    listed: Vec<bool>,
    /// Where the search for several blocks goes on.
    hint: u32,
    away: u32,
}

impl Pool {
    /// All of `blocks` free.
    pub fn new(blocks: u32) -> Self {
        Pool {
            state: vec![State::Free; blocks as usize],
            recent: (0..blocks).rev().collect(),
            listed: vec![true; blocks as usize],
            hint: 0,
            away: 0,
        }
    }

    /// Takes `run` blocks that lie one after another; gives the first.
    #[inline]
    pub fn take(&mut self, run: u32) -> Option<u32> {
        if run == 1 {
            while let Some(block) = self.recent.pop() {
                self.listed[block as usize] = false;
                if self.state[block as usize] == State::Free {
                    self.state[block as usize] = State::Loaned(1);
                    return Some(block);
                }
            }
            return None;
        }
        self.take_run(run)
    }

    fn take_run(&mut self, run: u32) -> Option<u32> {
        if run == 0 || run as usize > self.state.len() {
            return None;
        }
        let first = self.find_run(self.hint, run).or_else(|| self.find_run(0, run))?;
        let at = first as usize;
        self.state[at..at + run as usize].fill(State::Inside);
        self.state[at] = State::Loaned(run);
        self.hint = if at + run as usize >= self.state.len() { 0 } else { first + run };
        Some(first)
    }

    fn find_run(&self, from: u32, run: u32) -> Option<u32> {
        let mut length = 0;
        for (i, state) in self.state.iter().enumerate().skip(from as usize) {
            length = if *state == State::Free { length + 1 } else { 0 };
            if length == run {
                return Some(i as u32 + 1 - run);
            }
        }
        None
    }

    /// How many blocks a loan has; `None` if it is none.
    #[inline]
    pub fn loaned(&self, first: u32) -> Option<u32> {
        match self.state.get(first as usize) {
            Some(State::Loaned(run)) => Some(*run),
            _ => None,
        }
    }

    /// A loan was sent.
    #[inline]
    pub fn sent(&mut self, first: u32) {
        if let Some(state @ State::Loaned(_)) = self.state.get_mut(first as usize)
            && let State::Loaned(run) = *state
        {
            *state = State::Away(run);
            self.away += run;
        }
    }

    /// A loan ended without being sent.
    pub fn give_back(&mut self, first: u32) {
        if let Some(State::Loaned(run)) = self.state.get(first as usize) {
            self.free(first, *run);
        }
    }

    /// The other side says that it is done with the message that begins with this block. False if it does not have it.
    #[inline]
    pub fn returned(&mut self, first: u32) -> bool {
        let Some(State::Away(run)) = self.state.get(first as usize) else { return false };
        self.away -= run;
        self.free(first, *run);
        true
    }

    /// The other side is gone: what it had is free. Gives how many blocks that were.
    pub fn reclaim_all(&mut self) -> u32 {
        let away = self.away;
        for first in 0..self.state.len() as u32 {
            self.returned(first);
        }
        away
    }

    #[inline]
    fn free(&mut self, first: u32, run: u32) {
        for block in first..first + run {
            self.state[block as usize] = State::Free;
            if !self.listed[block as usize] {
                self.listed[block as usize] = true;
                self.recent.push(block);
            }
        }
    }

    /// Blocks that the other side has.
    pub fn away(&self) -> u32 {
        self.away
    }

    /// Blocks that are free.
    pub fn free_blocks(&self) -> usize {
        self.state.iter().filter(|s| **s == State::Free).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_block_that_came_back_last_is_used_first() {
        let mut pool = Pool::new(4);
        let (a, b) = (pool.take(1).unwrap(), pool.take(1).unwrap());
        for block in [a, b] {
            pool.sent(block);
        }
        assert!(pool.returned(b) && pool.returned(a));
        assert_eq!(pool.take(1), Some(a));
    }

    #[test]
    fn a_block_comes_back_once_and_only_if_it_was_away() {
        let mut pool = Pool::new(8);
        let first = pool.take(3).unwrap();
        assert!(!pool.returned(first), "loaned, not away");
        pool.sent(first);
        assert!(!pool.returned(first + 1), "inside");
        assert!(!pool.returned(8) && !pool.returned(u32::MAX));
        assert!(pool.returned(first));
        assert!(!pool.returned(first));
        assert_eq!(pool.free_blocks(), 8);
    }

    #[test]
    fn what_a_dead_peer_had_is_free_again() {
        let mut pool = Pool::new(8);
        for run in [1, 2, 3] {
            let first = pool.take(run).unwrap();
            pool.sent(first);
        }
        let kept = pool.take(1).unwrap();
        assert_eq!((pool.away(), pool.reclaim_all(), pool.away(), pool.free_blocks()), (6, 6, 0, 7));
        pool.give_back(kept);
        assert_eq!(pool.take(8), Some(0));
    }

    proptest! {
        /// Against a list of who has what.
        #[test]
        fn no_block_is_given_twice(steps in prop::collection::vec((0u8..4, 0u32..20), 1..200)) {
            let mut pool = Pool::new(16);
            let mut loans: Vec<(u32, u32)> = Vec::new();
            let mut away = loans.clone();
            for (what, n) in steps {
                match what {
                    0 => if let Some(first) = pool.take(n % 6) {
                        let run = n % 6;
                        for (f, r) in loans.iter().chain(&away) {
                            prop_assert!(first + run <= *f || f + r <= first);
                        }
                        loans.push((first, run));
                    },
                    1 if !loans.is_empty() => {
                        let loan = loans.swap_remove(n as usize % loans.len());
                        pool.sent(loan.0);
                        away.push(loan);
                    }
                    2 if !loans.is_empty() => pool.give_back(loans.swap_remove(n as usize % loans.len()).0),
                    _ => {
                        let known = away.iter().position(|(first, _)| *first == n);
                        prop_assert_eq!(pool.returned(n), known.is_some());
                        if let Some(i) = known {
                            away.swap_remove(i);
                        }
                    }
                }
                let out: u32 = loans.iter().chain(&away).map(|(_, run)| run).sum();
                prop_assert_eq!(pool.free_blocks() as u32, 16 - out);
                prop_assert!(pool.recent.len() <= 16);
            }
        }
    }
}
