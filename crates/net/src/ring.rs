//! A single-threaded ring whose contents are seen as contiguous slices: the queue of every link.
//!
//! A ring that has become empty begins at its first slot again: one that is emptied often uses few cache lines, however
//! many it has. The slots of a long one are written for the first time when items first come that far: making it costs
//! no more than a short one.

/// Slots of a new ring that are written at once.
const FIRST_SLOTS: usize = 4096;
/// As many more are whenever the queue reaches the end of those that are.
const MORE_SLOTS: usize = 1024;

/// A queue of at most `limit` items. Its memory is allocated once.
#[derive(Debug, Default)]
pub struct Ring<T> {
    /// Those that were written once; there is memory for all.
    slots: Vec<T>,
    /// The place of a position among the slots; one less than there are, when all are written.
    mask: usize,
    head: usize,
    tail: usize,
    limit: usize,
}

impl<T: Default> Ring<T> {
    /// A ring for at most `limit` items; memory for the next power of two.
    pub fn new(limit: usize) -> Self {
        let capacity = limit.max(1).next_power_of_two();
        let mut slots = Vec::with_capacity(capacity);
        slots.resize_with(capacity.min(FIRST_SLOTS), T::default);
        Ring { slots, mask: capacity - 1, head: 0, tail: 0, limit }
    }

    /// Writes more slots: the ring has room for an item, and no slot for it yet.
    #[cold]
    #[inline(never)]
    fn reach_on(&mut self) {
        let reached = (self.slots.len() + MORE_SLOTS).min(self.mask + 1);
        self.slots.resize_with(reached, T::default);
    }

    /// Items in it.
    pub fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// How many more it takes.
    pub fn room(&self) -> usize {
        self.limit - self.len()
    }

    /// The most it holds.
    pub fn limit(&self) -> usize {
        self.limit
    }

    fn index(&self, position: usize) -> usize {
        position & self.mask
    }

    /// The oldest items, as many as lie side by side; empty only if the ring is.
    pub fn readable(&self) -> &[T] {
        let start = self.index(self.head);
        let n = self.len().min(self.slots.len() - start.min(self.slots.len()));
        self.slots.get(start..start + n).unwrap_or_default()
    }

    /// Free slots, as many as lie side by side; empty only if the ring is full. What is in them is stale.
    pub fn writable(&mut self) -> &mut [T] {
        let (start, room) = (self.index(self.tail), self.room());
        if start == self.slots.len() && room > 0 {
            self.reach_on();
        }
        let n = room.min(self.slots.len() - start.min(self.slots.len()));
        self.slots.get_mut(start..start + n).unwrap_or_default()
    }

    /// Makes the first `n` slots of [`Ring::writable`] part of the queue; more than there are counts as all.
    pub fn commit(&mut self, n: usize) {
        let n = n.min(self.writable().len());
        self.tail = self.tail.wrapping_add(n);
    }

    /// Takes the first `n` items of [`Ring::readable`] out; more than there are counts as all.
    pub fn consume(&mut self, n: usize) {
        let n = n.min(self.readable().len());
        self.head = self.head.wrapping_add(n);
        self.begin_anew_if_empty();
    }

    #[inline]
    fn begin_anew_if_empty(&mut self) {
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
        }
    }

    /// Moves the oldest `n` items to the end of another ring; fewer, if they are not there or find no room. How many
    /// were moved. `pass` gets each and the slot that it goes to, whose content is stale; what it leaves behind is
    /// stale.
    pub fn move_to(&mut self, to: &mut Ring<T>, n: usize, mut pass: impl FnMut(&mut T, &mut T)) -> usize {
        let mut moved = 0;
        while moved < n {
            let some = self.readable().len().min(to.writable().len()).min(n - moved);
            if some == 0 {
                break;
            }
            let start = self.index(self.head);
            for (item, slot) in self.slots[start..start + some].iter_mut().zip(to.writable()) {
                pass(item, slot);
            }
            to.commit(some);
            self.consume(some);
            moved += some;
        }
        moved
    }

    /// The oldest item.
    pub fn front(&self) -> Option<&T> {
        self.readable().first()
    }

    /// The oldest item, to change.
    pub fn front_mut(&mut self) -> Option<&mut T> {
        if self.is_empty() {
            return None;
        }
        let i = self.index(self.head);
        self.slots.get_mut(i)
    }

    /// An item, to change; the oldest is the first.
    pub fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        if place >= self.len() {
            return None;
        }
        let i = self.index(self.head.wrapping_add(place));
        self.slots.get_mut(i)
    }

    /// Takes the oldest item out.
    pub fn pop(&mut self) -> Option<T> {
        let item = core::mem::take(self.front_mut()?);
        self.head = self.head.wrapping_add(1);
        self.begin_anew_if_empty();
        Some(item)
    }

    /// Appends an item, or gives it back if the ring is full.
    ///
    /// # Errors
    /// The item itself.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        match self.writable().first_mut() {
            Some(slot) => *slot = item,
            None => return Err(item),
        }
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn the_limit_holds_even_where_the_memory_is_larger() {
        let mut ring = Ring::new(5);
        for i in 0..5 {
            assert_eq!(ring.push(i), Ok(()));
        }
        assert_eq!(ring.push(5), Err(5));
        assert!(ring.writable().is_empty());
    }

    #[test]
    fn a_ring_that_is_emptied_uses_its_first_slots_again() {
        let mut ring = Ring::new(64);
        let first = ring.writable().as_ptr();
        for round in 0..20 {
            assert_eq!((ring.writable().len(), ring.writable().as_ptr()), (64, first));
            (0..5).for_each(|i| assert_eq!(ring.push(round * 5 + i), Ok(())));
            assert_eq!(ring.pop(), Some(round * 5));
            ring.consume(4);
        }
    }

    #[test]
    fn items_move_from_ring_to_ring_in_order_round_the_end_of_either_and_no_more_than_fit() {
        let (mut from, mut to) = (Ring::new(8), Ring::new(8));
        (0..6).for_each(|i| assert_eq!(from.push(i), Ok(())));
        assert_eq!((from.pop(), from.pop(), from.pop(), from.pop()), (Some(0), Some(1), Some(2), Some(3)));
        (6..11).for_each(|i| assert_eq!(from.push(i), Ok(())));
        (90..97).for_each(|i| assert_eq!(to.push(i), Ok(())));
        (90..95).for_each(|i| assert_eq!(to.pop(), Some(i)));
        assert_eq!(from.move_to(&mut to, 5, |item, slot| *slot = *item + 100), 5);
        assert_eq!(from.move_to(&mut to, 5, |item, slot| *slot = *item + 100), 1);
        assert_eq!((from.len(), from.front(), to.room()), (1, Some(&10), 0));
        let all: Vec<u32> = std::iter::from_fn(|| to.pop()).collect();
        assert_eq!(all, [95, 96, 104, 105, 106, 107, 108, 109]);
    }

    #[test]
    fn a_long_ring_writes_its_slots_when_items_come_that_far() {
        let mut ring = Ring::new(3 * FIRST_SLOTS);
        assert_eq!((ring.slots.len(), ring.writable().len()), (FIRST_SLOTS, FIRST_SLOTS));
        let memory = ring.slots.as_ptr();
        let mut given = 0;
        // Items that are taken at once come no farther.
        for _ in 0..10 * FIRST_SLOTS {
            assert_eq!(ring.push(given), Ok(()));
            assert_eq!(ring.pop(), Some(given));
            given += 1;
        }
        assert_eq!(ring.slots.len(), FIRST_SLOTS);
        // Filled three times over, half of it taken in between: round the end of its memory, too.
        let mut taken = given;
        for _ in 0..3 {
            while ring.push(given).is_ok() {
                given += 1;
            }
            assert_eq!((ring.len(), ring.room()), (3 * FIRST_SLOTS, 0));
            assert!(ring.writable().is_empty());
            for _ in 0..ring.len() / 2 {
                assert_eq!(ring.pop(), Some(taken));
                taken += 1;
            }
        }
        assert_eq!((ring.slots.len(), ring.slots.as_ptr()), (4 * FIRST_SLOTS, memory));
        assert!(std::iter::from_fn(|| ring.pop()).eq(taken..given));
    }

    #[test]
    fn a_ring_without_memory_takes_and_gives_nothing() {
        let mut ring = Ring::<u8>::default();
        assert!(ring.readable().is_empty() && ring.writable().is_empty() && ring.pop().is_none());
        assert_eq!(ring.push(1), Err(1));
    }

    proptest! {
        #[test]
        fn a_ring_is_a_bounded_queue(limit in 1usize..40, steps in proptest::collection::vec((0u8..4, 0usize..20), 0..200)) {
            let mut ring = Ring::new(limit);
            let mut model = VecDeque::new();
            let mut next = 0u32;
            for (what, n) in steps {
                match what {
                    0 => {
                        let room = ring.writable();
                        let n = n.min(room.len());
                        for slot in &mut room[..n] {
                            *slot = next;
                            model.push_back(next);
                            next += 1;
                        }
                        ring.commit(n);
                    }
                    1 => {
                        let n = n.min(ring.readable().len());
                        for want in ring.readable()[..n].iter().copied() {
                            prop_assert_eq!(model.pop_front(), Some(want));
                        }
                        ring.consume(n);
                    }
                    2 => if ring.push(next).is_ok() { model.push_back(next); next += 1; } else { prop_assert_eq!(model.len(), limit) },
                    _ => prop_assert_eq!(ring.pop(), model.pop_front()),
                }
                prop_assert_eq!(ring.len(), model.len());
                prop_assert_eq!(ring.room(), limit - model.len());
                prop_assert_eq!(ring.front(), model.front());
            }
        }
    }
}
