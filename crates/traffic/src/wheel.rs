//! A timing wheel: which of many items is due next, at constant cost however many wait (after Varghese and Lauck,
//! 1987).
//!
//! Ten levels of 64 slots; a slot of the lowest level is [`SLOT_NANOS`], one of each higher level is 64 times as long.
//! An item is due at the first slot boundary that is not before its moment. Items of one boundary are due in the order
//! in which they were inserted. An item costs one insertion, and one move for each level that it descends.

use wire::Time;

/// Length of a slot of the lowest level.
pub const SLOT_NANOS: u64 = 64;

/// Enough for all moments there are.
const LEVELS: usize = 10;
const SLOTS: usize = 64;
/// The list of items whose boundary has come.
const DUE: usize = LEVELS * SLOTS;
const NOWHERE: u16 = u16::MAX;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    slot: u64,
    prev: u32,
    next: u32,
    /// The list that it is in.
    list: u16,
}

const UNLISTED: Node = Node { slot: 0, prev: NONE, next: NONE, list: NOWHERE };

/// See the module's head. Items are small numbers that the owner chooses.
#[derive(Debug)]
pub struct Wheel {
    lists: Box<[List]>,
    /// Which slots of a level are in use.
    occupied: [u64; LEVELS],
    /// The slot that has come.
    now: u64,
    nodes: Vec<Node>,
    waiting: usize,
}

impl Default for Wheel {
    fn default() -> Self {
        Wheel::new()
    }
}

impl Wheel {
    /// A wheel at the epoch, without items.
    pub fn new() -> Self {
        let lists = vec![List { head: NONE, tail: NONE }; DUE + 1].into_boxed_slice();
        Wheel { lists, occupied: [0; LEVELS], now: 0, nodes: Vec::new(), waiting: 0 }
    }

    /// Makes room for the items 0 to `items` - 1; less room than there is changes nothing.
    pub fn reserve(&mut self, items: usize) {
        self.nodes.resize(items.max(self.nodes.len()), UNLISTED);
    }

    /// Items that wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Inserts an item for which there is room and that does not wait yet; false if its moment has come already, and
    /// then nothing has changed.
    pub fn insert(&mut self, item: u32, at: Time) -> bool {
        let slot = at.as_nanos().div_ceil(SLOT_NANOS);
        if slot <= self.now {
            return false;
        }
        self.nodes[item as usize].slot = slot;
        self.waiting += 1;
        self.link(item);
        true
    }

    /// Puts an item into the list of its slot, or of those that are due.
    fn link(&mut self, item: u32) {
        let slot = self.nodes[item as usize].slot;
        let list = if slot <= self.now {
            DUE
        } else {
            // The level at which its digit is the first to differ.
            let level = (63 - (slot ^ self.now).leading_zeros() as usize) / 6;
            let digit = (slot >> (6 * level)) as usize % SLOTS;
            self.occupied[level] |= 1 << digit;
            level * SLOTS + digit
        };
        let List { tail, .. } = self.lists[list];
        let node = &mut self.nodes[item as usize];
        (node.prev, node.next, node.list) = (tail, NONE, list as u16);
        match tail {
            NONE => self.lists[list].head = item,
            tail => self.nodes[tail as usize].next = item,
        }
        self.lists[list].tail = item;
    }

    fn unlink(&mut self, item: u32) {
        let Node { prev, next, list, .. } = self.nodes[item as usize];
        let list = usize::from(list);
        match prev {
            NONE => self.lists[list].head = next,
            prev => self.nodes[prev as usize].next = next,
        }
        match next {
            NONE => self.lists[list].tail = prev,
            next => self.nodes[next as usize].prev = prev,
        }
        if self.lists[list].head == NONE && list < DUE {
            self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
        }
        self.nodes[item as usize].list = NOWHERE;
    }

    /// Takes an item out, if it waits.
    pub fn remove(&mut self, item: u32) {
        if self.nodes.get(item as usize).is_some_and(|node| node.list != NOWHERE) {
            self.unlink(item);
            self.waiting -= 1;
        }
    }

    /// The first slot in use after this one: its list, and when it comes.
    fn next_slot(&self) -> Option<(usize, u64)> {
        (0..LEVELS).find_map(|level| {
            let digit = (self.now >> (6 * level)) as usize % SLOTS;
            // All items of a level lie in slots after its digit of the time; those of a lower level come before them.
            let later = self.occupied[level] & (!0 << digit) & !(1 << digit);
            (later != 0).then(|| {
                let first = later.trailing_zeros() as u64;
                let above = (self.now >> (6 * level)) / SLOTS as u64 * SLOTS as u64;
                (level * SLOTS + first as usize, (above + first) << (6 * level))
            })
        })
    }

    /// The next item that is due at `now`. `None`: none is any more, and the wheel stands at `now`.
    pub fn pop_due(&mut self, now: Time) -> Option<u32> {
        let now = now.as_nanos() / SLOT_NANOS;
        if self.waiting == 0 {
            self.now = self.now.max(now);
            return None;
        }
        loop {
            let item = self.lists[DUE].head;
            if item != NONE {
                self.unlink(item);
                self.waiting -= 1;
                return Some(item);
            }
            match self.next_slot().filter(|(_, at)| *at <= now) {
                Some((list, at)) => {
                    self.now = at;
                    self.empty(list);
                }
                None => {
                    self.now = self.now.max(now);
                    return None;
                }
            }
        }
    }

    /// Moves the items of a slot whose time has come down, in their order.
    fn empty(&mut self, list: usize) {
        let List { head, .. } = std::mem::replace(&mut self.lists[list], List { head: NONE, tail: NONE });
        self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
        let mut item = head;
        while item != NONE {
            let next = self.nodes[item as usize].next;
            self.link(item);
            item = next;
        }
    }

    /// When [`Wheel::pop_due`] has something to do next; at the latest when the first item is due.
    pub fn next_time(&self) -> Option<Time> {
        if self.waiting == 0 {
            return None;
        }
        if self.lists[DUE].head != NONE {
            return Some(Time::from_nanos(self.now.saturating_mul(SLOT_NANOS)));
        }
        self.next_slot().map(|(_, at)| Time::from_nanos(at.saturating_mul(SLOT_NANOS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn items_are_due_by_their_boundary_and_then_by_their_order(
            steps in proptest::collection::vec((0u8..4, 0u32..40, 0u32..44, any::<u32>()), 1..400),
        ) {
            let (mut wheel, mut model) = (Wheel::new(), BTreeMap::new());
            wheel.reserve(40);
            let (mut now, mut order) = (0u64, 0u64);
            for (what, item, bits, by) in steps {
                // Lengths of all magnitudes.
                let length = u64::from(by) << bits >> 20;
                let key = model.iter().find(|(_, waits)| **waits == item).map(|(key, _)| *key);
                match (what, key) {
                    (0 | 1, None) => {
                        let at = Time::from_nanos(now + length);
                        let boundary = (now + length).div_ceil(SLOT_NANOS);
                        let waits = boundary > now / SLOT_NANOS;
                        prop_assert_eq!(wheel.insert(item, at), waits);
                        if waits {
                            model.insert((boundary, order), item);
                        }
                        order += 1;
                    }
                    (2, Some(key)) => {
                        wheel.remove(item);
                        model.remove(&key);
                    }
                    _ => {
                        now += length;
                        let mut due = Vec::new();
                        while let Some(item) = wheel.pop_due(Time::from_nanos(now)) {
                            due.push(item);
                        }
                        let later = model.split_off(&(now / SLOT_NANOS + 1, 0));
                        prop_assert_eq!(due, model.into_values().collect::<Vec<_>>());
                        model = later;
                    }
                }
                prop_assert_eq!(wheel.len(), model.len());
                let (first, next) = (model.keys().next().map(|(slot, _)| slot * SLOT_NANOS), wheel.next_time());
                prop_assert_eq!(first.is_some(), next.is_some());
                if let (Some(first), Some(next)) = (first, next) {
                    prop_assert!(next.as_nanos() <= first && next.as_nanos() > now / SLOT_NANOS * SLOT_NANOS);
                }
            }
        }
    }

    #[test]
    fn an_item_years_ahead_is_due_when_its_time_comes_after_few_steps() {
        let mut wheel = Wheel::new();
        wheel.reserve(1);
        let at = Time::from_millis(1000 * 3600 * 24 * 365);
        assert!(wheel.insert(0, at));
        let mut steps = 0;
        while let Some(next) = wheel.next_time() {
            steps += 1;
            assert!(steps <= 20);
            if wheel.pop_due(next).is_some() {
                assert!(next >= at);
                return;
            }
        }
        panic!("it was lost");
    }
}
