//! Who waits to send: queues of circuit numbers, first in, first out, one for each port and class.
//!
//! A queue is a chain of 64-octet blocks of numbers out of one pool, not a chain through the circuits: whoever serves
//! it can look ahead and fetch circuits before their turn without touching them one after another.

use crate::table::Table;

/// Numbers in a block.
const NUMBERS: usize = 15;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Block {
    numbers: [u32; NUMBERS],
    next: u32,
}

/// The blocks of all queues.
#[derive(Debug)]
pub(crate) struct Pool {
    blocks: Table<Block>,
    free: u32,
}

impl Pool {
    /// A pool that holds so many numbers in so many queues without growing.
    pub(crate) fn new(numbers: usize, queues: usize) -> Self {
        Pool { blocks: Table::from(Vec::with_capacity(Pool::blocks_for(numbers, queues))), free: NONE }
    }

    /// Blocks for so many numbers in so many queues.
    pub(crate) fn blocks_for(numbers: usize, queues: usize) -> usize {
        // The first and the last block of each queue may be partly used.
        numbers / NUMBERS + 2 * queues
    }

    /// Makes it hold so many without growing, by a part with blocks for them.
    pub(crate) fn add_part(&mut self, part: &mut Vec<Block>, numbers: usize, queues: usize) {
        self.blocks.add_part(part, Pool::blocks_for(numbers, queues));
    }

    fn take(&mut self) -> u32 {
        let block = self.free;
        if block != NONE {
            self.free = self.blocks[block as usize].next;
            self.blocks[block as usize].next = NONE;
            return block;
        }
        self.blocks.push(Block { numbers: [0; NUMBERS], next: NONE });
        self.blocks.len() as u32 - 1
    }

    fn give(&mut self, block: u32) {
        self.blocks[block as usize].next = self.free;
        self.free = block;
    }
}

/// One queue. Its blocks are in the pool that it is always used with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    head: u32,
    tail: u32,
    first: u8,
    end: u8,
    len: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Queue { head: NONE, tail: NONE, first: 0, end: 0, len: 0 }
    }
}

impl Queue {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Puts a number at the end.
    #[inline]
    pub(crate) fn push(&mut self, pool: &mut Pool, number: u32) {
        if self.head == NONE || self.end as usize == NUMBERS {
            let block = pool.take();
            match self.head {
                NONE => (self.head, self.first) = (block, 0),
                _ => pool.blocks[self.tail as usize].next = block,
            }
            (self.tail, self.end) = (block, 0);
        }
        pool.blocks[self.tail as usize].numbers[self.end as usize] = number;
        self.end += 1;
        self.len += 1;
    }

    /// The first numbers, as many as there are and `out` has room for.
    #[inline]
    pub(crate) fn peek(&self, pool: &Pool, out: &mut [u32]) -> usize {
        let n = out.len().min(self.len());
        let (mut block, mut at) = (self.head, self.first as usize);
        let mut rest = &mut out[..n];
        while !rest.is_empty() {
            let Block { numbers, next } = &pool.blocks[block as usize];
            let here = rest.len().min(NUMBERS - at);
            let (now, later) = rest.split_at_mut(here);
            now.copy_from_slice(&numbers[at..at + here]);
            rest = later;
            (block, at) = (*next, 0);
        }
        n
    }

    /// Takes the first `n` numbers away.
    #[inline]
    pub(crate) fn advance(&mut self, pool: &mut Pool, n: usize) {
        let mut n = n.min(self.len());
        self.len -= n as u32;
        while n > 0 {
            let here = n.min(NUMBERS - self.first as usize);
            self.first += here as u8;
            n -= here;
            if self.first as usize == NUMBERS || self.len == 0 && n == 0 {
                let block = self.head;
                let next = pool.blocks[block as usize].next;
                pool.give(block);
                (self.head, self.first) = (next, 0);
                if self.len == 0 && n == 0 {
                    *self = Queue::default();
                }
            }
        }
    }

    /// Keeps the numbers that `keep` says, in their order.
    pub(crate) fn retain(&mut self, pool: &mut Pool, mut keep: impl FnMut(u32) -> bool) {
        let mut numbers = [0; NUMBERS];
        // What is kept goes round to the end once.
        let mut left = self.len();
        while left > 0 {
            let n = self.peek(pool, &mut numbers[..left.min(NUMBERS)]);
            self.advance(pool, n);
            for number in &numbers[..n] {
                if keep(*number) {
                    self.push(pool, *number);
                }
            }
            left -= n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn queues_of_one_pool_are_deques(steps in proptest::collection::vec((0usize..3, 0u8..4, 0usize..40), 0..400)) {
            let mut pool = Pool::new(0, 0);
            let mut queues = [Queue::default(); 3];
            let mut models = [const { VecDeque::new() }; 3];
            let mut next = 0;
            for (i, what, n) in steps {
                let (queue, model) = (&mut queues[i], &mut models[i]);
                match what {
                    0 | 1 => for _ in 0..n {
                        queue.push(&mut pool, next);
                        model.push_back(next);
                        next += 1;
                    },
                    2 => {
                        queue.advance(&mut pool, n);
                        model.drain(..n.min(model.len()));
                    }
                    _ => {
                        queue.retain(&mut pool, |number| number % 3 != 0);
                        model.retain(|number| number % 3 != 0);
                    }
                }
                let mut out = [0; 50];
                let seen = queue.peek(&pool, &mut out);
                prop_assert_eq!(queue.len(), model.len());
                prop_assert_eq!(&out[..seen], &model.iter().copied().take(50).collect::<Vec<_>>()[..]);
            }
            let held: usize = models.iter().map(|model| model.len()).sum();
            for (queue, model) in queues.iter_mut().zip(&models) {
                queue.advance(&mut pool, model.len());
            }
            let blocks = pool.blocks.len();
            for number in 0..held as u32 {
                queues[0].push(&mut pool, number);
            }
            // What was given back is used again.
            prop_assert!(pool.blocks.len() == blocks);
        }
    }
}
