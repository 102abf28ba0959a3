//! The Linked List Manager: queues of cell slots over one shared pool.
//!
//! In: append to a list, remove from its front, delete it. Out: which slot of the reassembly buffer is meant. Each is a
//! constant number of steps, whatever the lengths: a list keeps head and tail, and a deleted list is hung before the
//! free list as it is. A slot is on exactly one list or on the free list; [`Lists::check`] says so.

use super::Fault;
use super::manager::Tag;
use wire::Time;

/// No slot follows.
const NIL: u32 = u32::MAX;

/// What the host reads of a list: its status block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// Cells that wait to be read.
    pub cells: u32,
    /// Of these, cells that end a PDU: so many PDUs can be read whole.
    pub ends: u32,
    /// Cells appended since the list was opened.
    pub appended: u64,
    /// Cells of this list that were dropped because no slot was free, or the list was as long as it may be.
    pub dropped: u64,
    /// When the last cell was appended; when the list was opened, if none was.
    pub last_cell: Time,
}

#[derive(Debug, Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    status: Status,
}

const NONE: List =
    List { head: NIL, tail: NIL, status: Status { cells: 0, ends: 0, appended: 0, dropped: 0, last_cell: Time::ZERO } };

#[derive(Debug, Clone, Copy)]
struct Node {
    next: u32,
    tag: Tag,
}

/// All lists and the free slots.
#[derive(Debug, Clone)]
pub struct Lists {
    nodes: Box<[Node]>,
    lists: Box<[List]>,
    free: u32,
    free_slots: u32,
    longest: u32,
}

impl Lists {
    /// `lists` empty lists over `slots` free slots; none may grow beyond `longest` cells.
    pub fn new(lists: usize, slots: usize, longest: usize) -> Self {
        let slots = slots.min(NIL as usize) as u32;
        let node = |slot| Node { next: if slot + 1 < slots { slot + 1 } else { NIL }, tag: Tag::default() };
        Lists {
            nodes: (0..slots).map(node).collect(),
            lists: vec![NONE; lists].into(),
            free: if slots > 0 { 0 } else { NIL },
            free_slots: slots,
            longest: longest.min(NIL as usize) as u32,
        }
    }

    /// Slots on no list.
    pub const fn free_slots(&self) -> usize {
        self.free_slots as usize
    }

    /// A list's status block; `None` if there is no list of this number.
    pub fn status(&self, list: usize) -> Option<Status> {
        Some(self.lists.get(list)?.status)
    }

    /// Begins a list's life: its status block counts from here.
    pub fn open(&mut self, list: usize, now: Time) {
        debug_assert_eq!(self.lists[list].head, NIL);
        self.lists[list].status = Status { last_cell: now, ..Status::default() };
    }

    /// Puts a free slot at the end of `list`: the slot where the cell's body goes. Without a free slot, or at the
    /// list's greatest length, the drop is noted in the status block.
    pub fn append(&mut self, list: usize, tag: Tag, now: Time) -> Result<usize, Full> {
        let List { tail, status, head } = &mut self.lists[list];
        let full = if status.cells >= self.longest {
            Some(Full::List)
        } else if self.free == NIL {
            Some(Full::Slots)
        } else {
            None
        };
        if let Some(full) = full {
            status.dropped = status.dropped.wrapping_add(1);
            return Err(full);
        }
        let slot = self.free;
        let node = &mut self.nodes[slot as usize];
        self.free = node.next;
        self.free_slots -= 1;
        *node = Node { next: NIL, tag };
        if *tail == NIL {
            *head = slot;
        } else {
            self.nodes[*tail as usize].next = slot;
        }
        *tail = slot;
        status.cells += 1;
        status.ends += u32::from(tag.end);
        status.appended = status.appended.wrapping_add(1);
        status.last_cell = now;
        Ok(slot as usize)
    }

    /// Takes the first slot off `list` and frees it. Its body stays readable until the next append.
    pub fn remove_front(&mut self, list: usize) -> Option<(usize, Tag)> {
        let List { head, tail, status } = self.lists.get_mut(list)?;
        let slot = *head;
        let node = self.nodes.get_mut(slot as usize)?;
        let tag = node.tag;
        *head = core::mem::replace(&mut node.next, self.free);
        if *head == NIL {
            *tail = NIL;
        }
        self.free = slot;
        self.free_slots += 1;
        status.cells -= 1;
        status.ends -= u32::from(tag.end);
        Some((slot as usize, tag))
    }

    /// Frees all slots of `list` in one step; gives how many cells were on it.
    pub fn delete(&mut self, list: usize) -> u32 {
        let Some(list) = self.lists.get_mut(list) else { return 0 };
        let cells = list.status.cells;
        if list.tail != NIL {
            self.nodes[list.tail as usize].next = self.free;
            self.free = list.head;
            self.free_slots += cells;
        }
        *list = NONE;
        cells
    }

    /// Walks every list and the free list: each slot is on exactly one of them, and heads, tails and counts agree.
    pub fn check(&self) -> Result<(), Fault> {
        let mut seen = vec![false; self.nodes.len()];
        let mut walk = |head: u32| {
            let (mut at, mut last, mut cells, mut ends) = (head, NIL, 0, 0);
            while at != NIL {
                let twice = seen.get_mut(at as usize).ok_or(Fault::NoSuchSlot { slot: at })?;
                if core::mem::replace(twice, true) {
                    return Err(Fault::SlotTwice { slot: at });
                }
                let node = self.nodes[at as usize];
                (last, at, cells, ends) = (at, node.next, cells + 1, ends + u32::from(node.tag.end));
            }
            Ok((last, cells, ends))
        };
        for (number, list) in self.lists.iter().enumerate() {
            let (tail, cells, ends) = walk(list.head)?;
            if tail != list.tail || cells != list.status.cells || ends != list.status.ends {
                return Err(Fault::Status { list: number });
            }
        }
        let (_, free, _) = walk(self.free)?;
        if free != self.free_slots {
            return Err(Fault::FreeCount { counted: free, noted: self.free_slots });
        }
        match seen.iter().position(|seen| !seen) {
            Some(slot) => Err(Fault::SlotLost { slot: slot as u32 }),
            None => Ok(()),
        }
    }
}

/// Why nothing was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// No slot is free.
    Slots,
    /// The list is as long as it may be.
    List,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Debug, Clone, Copy)]
    enum Operation {
        Append(usize, bool),
        Remove(usize),
        Delete(usize),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            6 => (0usize..5, any::<bool>()).prop_map(|(list, end)| Operation::Append(list, end)),
            3 => (0usize..5).prop_map(Operation::Remove),
            1 => (0usize..5).prop_map(Operation::Delete),
        ]
    }

    proptest! {
        #[test]
        fn lists_are_queues_and_no_slot_is_ever_lost_or_on_two_of_them(
            slots in 0usize..20, longest in 1usize..12, operations in proptest::collection::vec(operation(), 0..200),
        ) {
            let mut lists = Lists::new(5, slots, longest);
            let mut model: [VecDeque<(usize, bool)>; 5] = Default::default();
            for operation in operations {
                match operation {
                    Operation::Append(list, end) => {
                        let used: usize = model.iter().map(VecDeque::len).sum();
                        match lists.append(list, Tag { end, ..Tag::default() }, Time::ZERO) {
                            Ok(slot) => model[list].push_back((slot, end)),
                            Err(Full::List) => prop_assert_eq!(model[list].len(), longest),
                            Err(Full::Slots) => prop_assert_eq!(used, slots),
                        }
                    }
                    Operation::Remove(list) => {
                        let got = lists.remove_front(list).map(|(slot, tag)| (slot, tag.end));
                        prop_assert_eq!(got, model[list].pop_front());
                    }
                    Operation::Delete(list) => {
                        prop_assert_eq!(lists.delete(list) as usize, model[list].len());
                        model[list].clear();
                    }
                }
                prop_assert_eq!(lists.check(), Ok(()));
                for (number, queue) in model.iter().enumerate() {
                    let status = lists.status(number).unwrap();
                    prop_assert_eq!(status.cells as usize, queue.len());
                    prop_assert_eq!(status.ends as usize, queue.iter().filter(|(_, end)| *end).count());
                }
            }
        }
    }

    #[test]
    fn a_slot_that_is_lost_or_on_two_lists_is_found_by_the_check() {
        let mut lists = Lists::new(2, 4, 4);
        lists.append(0, Tag::default(), Time::ZERO).unwrap();
        let good = lists.clone();
        lists.lists[1] = lists.lists[0];
        assert_eq!(lists.check(), Err(Fault::SlotTwice { slot: 0 }));
        let mut lists = good.clone();
        (lists.lists[0], lists.free_slots) = (NONE, 3);
        assert_eq!(lists.check(), Err(Fault::SlotLost { slot: 0 }));
        let mut lists = good.clone();
        lists.lists[0].status.cells = 2;
        assert_eq!(lists.check(), Err(Fault::Status { list: 0 }));
        let mut lists = good;
        lists.free_slots = 4;
        assert_eq!(lists.check(), Err(Fault::FreeCount { counted: 3, noted: 4 }));
    }
}
