//! The Linked List Manager's memory and operations (section 3.5.3): 32K words of 16 bits, one access each clock.
//!
//! An operation takes one clock for the list's number and one for each word that it reads or writes, so that its time
//! is what it does. The first and the last free node are registers; all else is in the memory, where a host that
//! configures the card puts it. A freed node goes behind all other free ones, so that its body is out long before the
//! next one comes.
//!
//! | words | what |
//! |---|---|
//! | 8 for each list | its status block: head, tail, cells, ends of PDUs, cells dropped |
//! | 2 for each node | the next node; the cell's tag |
//! | the last three | the last and the first free node as configured; free nodes |
//!
//! The host may write anything there: addresses are masked, and numbers of nodes are checked where the buffer is
//! indexed.

use super::super::manager::Tag;
use super::super::{Config, Fault};
use wire::DropReason;

/// Words of the memory.
pub const WORDS: usize = 1 << 15;
/// The word with the last free node, read when operation begins.
pub const LAST_FREE: u16 = WORDS as u16 - 3;
/// The word with the first free node, read when operation begins.
pub const FIRST_FREE: u16 = WORDS as u16 - 2;
/// The word with the number of free nodes.
pub const FREE: u16 = WORDS as u16 - 1;
/// No node.
pub const NIL: u16 = u16::MAX;

const BLOCK_WORDS: u16 = 8;
const HEAD: u16 = 0;
const TAIL: u16 = 1;
const CELLS: u16 = 2;
const ENDS: u16 = 3;
const DROPPED: u16 = 4;

/// What the host reads of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Block {
    /// Cells that wait to be read.
    pub cells: u16,
    /// Of these, cells that end a PDU.
    pub ends: u16,
    /// Cells that were dropped for want of a node, modulo 2^16.
    pub dropped: u16,
}

/// How many words lists and nodes of these capacities take.
pub(super) const fn words(config: &Config) -> usize {
    (config.circuits + config.pdus) * BLOCK_WORDS as usize + config.slots * 2 + 3
}

/// The structures of an empty card, word by word: what a host writes to configure it.
pub fn image(config: &Config) -> impl Iterator<Item = (u16, u16)> {
    let (lists, slots) = ((config.circuits + config.pdus) as u16, config.slots as u16);
    let blocks = (0..lists * BLOCK_WORDS).map(|at| (at, if at % BLOCK_WORDS <= TAIL { NIL } else { 0 }));
    let first = lists * BLOCK_WORDS;
    let nodes = (0..slots).flat_map(move |slot| {
        let next = if slot + 1 < slots { slot + 1 } else { NIL };
        [(first + 2 * slot, next), (first + 2 * slot + 1, 0)]
    });
    blocks.chain(nodes).chain([(LAST_FREE, slots - 1), (FIRST_FREE, 0), (FREE, slots)])
}

const fn pack(tag: Tag) -> u16 {
    (tag.begin as u16) << 10
        | (tag.end as u16) << 9
        | (tag.abort as u16) << 8
        | (tag.clp as u16) << 7
        | (tag.congestion as u16) << 6
        | tag.octets as u16
}

fn unpack(word: u16) -> Tag {
    let bit = |n: u32| word >> n & 1 == 1;
    let octets = (word & 0x3f).min(48) as u8;
    Tag { begin: bit(10), end: bit(9), abort: bit(8), clp: bit(7), congestion: bit(6), octets }
}

/// The memory, with the clocks of the operation under way.
#[derive(Debug, Clone)]
pub(super) struct Ram {
    words: Box<[u16]>,
    first_node: u16,
    lists: u16,
    slots: u16,
    longest: u16,
    free: u16,
    last_free: u16,
    clocks: u32,
}

impl Ram {
    /// As after power is switched on: nothing in it.
    pub(super) fn new(config: &Config) -> Self {
        let lists = (config.circuits + config.pdus) as u16;
        Ram {
            words: vec![0; WORDS].into(),
            first_node: lists * BLOCK_WORDS,
            lists,
            slots: config.slots as u16,
            longest: config.longest_list.min(usize::from(u16::MAX)) as u16,
            free: NIL,
            last_free: NIL,
            clocks: 0,
        }
    }

    /// The host's access, at configuration.
    pub(super) fn word(&mut self, at: u16) -> &mut u16 {
        &mut self.words[usize::from(at) % WORDS]
    }

    /// Configuration is over.
    pub(super) fn start(&mut self) {
        [self.free, self.last_free] = [FIRST_FREE, LAST_FREE].map(|at| self.words[usize::from(at)]);
    }

    fn read(&mut self, at: u16) -> u16 {
        self.clocks += 1;
        self.words[usize::from(at) % WORDS]
    }

    fn write(&mut self, at: u16, value: u16) {
        self.clocks += 1;
        self.words[usize::from(at) % WORDS] = value;
    }

    /// Adds to a word: a read and a write.
    fn add(&mut self, at: u16, value: u16) -> u16 {
        let sum = self.read(at).wrapping_add(value);
        self.write(at, sum);
        sum
    }

    const fn next(&self, node: u16) -> u16 {
        self.first_node.wrapping_add(node.wrapping_mul(2))
    }

    /// The number of a list comes: the first clock of each operation.
    fn begin(&mut self, list: usize) -> u16 {
        self.clocks = 1;
        (list as u16 % self.lists) * BLOCK_WORDS
    }

    /// Hangs nodes behind the free ones. Where there are none, the last one is on some list, and the register alone is
    /// set.
    fn give_back(&mut self, first: u16, last: u16) {
        if self.words[usize::from(FREE)] == 0 {
            self.free = first;
        } else {
            self.write(self.next(self.last_free), first);
        }
        self.last_free = last;
    }

    /// Appends a node to the end of a list; with the clocks of it.
    pub(super) fn append(&mut self, list: usize, tag: Tag) -> (Result<u16, DropReason>, u32) {
        let block = self.begin(list);
        let cells = self.read(block + CELLS);
        let free = self.read(FREE);
        let full = if cells >= self.longest {
            Some(DropReason::QueueFull)
        } else {
            (free == 0 || self.free >= self.slots).then_some(DropReason::NoBuffer)
        };
        if let Some(reason) = full {
            self.add(block + DROPPED, 1);
            return (Err(reason), self.clocks);
        }
        let node = self.free;
        self.free = self.read(self.next(node));
        self.write(self.next(node), NIL);
        self.write(self.next(node).wrapping_add(1), pack(tag));
        let tail = self.read(block + TAIL);
        self.write(if tail == NIL { block + HEAD } else { self.next(tail) }, node);
        self.write(block + TAIL, node);
        self.write(block + CELLS, cells.wrapping_add(1));
        self.write(FREE, free - 1);
        if tag.end {
            self.add(block + ENDS, 1);
        }
        (Ok(node), self.clocks)
    }

    /// Removes the node at the front of a list; with the clocks of it.
    pub(super) fn remove(&mut self, list: usize) -> (Option<(u16, Tag)>, u32) {
        let block = self.begin(list);
        let node = self.read(block + HEAD);
        if node >= self.slots {
            return (None, self.clocks);
        }
        let next = self.read(self.next(node));
        let tag = unpack(self.read(self.next(node).wrapping_add(1)));
        self.write(block + HEAD, next);
        if next == NIL {
            self.write(block + TAIL, NIL);
        }
        self.give_back(node, node);
        self.add(block + CELLS, u16::MAX);
        self.add(FREE, 1);
        if tag.end {
            self.add(block + ENDS, u16::MAX);
        }
        (Some((node, tag)), self.clocks)
    }

    /// Hangs all nodes of a list behind the free ones and clears its status block; gives how many there were, with the
    /// clocks of it.
    pub(super) fn delete(&mut self, list: usize) -> (u16, u32) {
        let block = self.begin(list);
        let head = self.read(block + HEAD);
        let tail = self.read(block + TAIL);
        let cells = self.read(block + CELLS);
        if tail != NIL {
            self.give_back(head, tail);
        }
        self.add(FREE, cells);
        for (word, value) in [(HEAD, NIL), (TAIL, NIL), (CELLS, 0), (ENDS, 0), (DROPPED, 0)] {
            self.write(block + word, value);
        }
        (cells, self.clocks)
    }

    /// A list's status block.
    pub(super) fn block(&self, list: usize) -> Block {
        let block = (list as u16 % self.lists) * BLOCK_WORDS;
        let word = |at: u16| self.words[usize::from(block + at)];
        Block { cells: word(CELLS), ends: word(ENDS), dropped: word(DROPPED) }
    }

    pub(super) fn free_nodes(&self) -> u16 {
        self.words[usize::from(FREE)]
    }

    /// Walks all lists: each node is on one of them or free, once, and status blocks agree.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let mut seen = vec![false; usize::from(self.slots)];
        let mut walk = |head: u16, most: u16| {
            let (mut at, mut last, mut cells, mut ends) = (head, NIL, 0u16, 0u16);
            while at != NIL && cells < most {
                let slot = u32::from(at);
                let twice = seen.get_mut(usize::from(at)).ok_or(Fault::NoSuchSlot { slot })?;
                if core::mem::replace(twice, true) {
                    return Err(Fault::SlotTwice { slot });
                }
                let next = usize::from(self.next(at));
                (last, at, cells) = (at, self.words[next], cells + 1);
                ends += u16::from(unpack(self.words[next + 1]).end);
            }
            Ok((last, cells, ends))
        };
        for list in 0..self.lists {
            let block = usize::from(list * BLOCK_WORDS);
            let [head, tail, cells, ends] = [HEAD, TAIL, CELLS, ENDS].map(|at| self.words[block + usize::from(at)]);
            if walk(head, NIL)? != (tail, cells, ends) {
                return Err(Fault::Status { list: list.into() });
            }
        }
        let (noted, last) = (self.free_nodes(), self.last_free);
        let (found, counted, _) = walk(self.free, noted)?;
        if counted != noted || noted > 0 && found != last {
            return Err(Fault::FreeCount { counted: counted.into(), noted: noted.into() });
        }
        match seen.iter().position(|seen| !seen) {
            Some(slot) => Err(Fault::SlotLost { slot: slot as u32 }),
            None => Ok(()),
        }
    }
}
