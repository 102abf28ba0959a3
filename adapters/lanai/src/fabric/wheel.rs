//! The event core: a wheel with a slot for each symbol time, and a heap for what is farther away.
//!
//! Events of one tick come out in the order in which they went in, so the same inputs give the same run. Putting and
//! taking cost no more with many events than with few; nothing allocates once the wheel has seen its most events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const SLOTS: usize = 1 << 14;
const WORDS: usize = SLOTS / 64;
const NONE: u32 = u32::MAX;

/// Ticks since the fabric's start: symbol times.
pub(super) type Tick = u64;

#[derive(Debug, Clone, Copy)]
struct Slot {
    first: u32,
    last: u32,
}

/// Events of type `E` in the order of their ticks.
#[derive(Debug)]
pub(super) struct Wheel<E> {
    now: Tick,
    slots: Vec<Slot>,
    /// A bit for each slot that holds something, and one for each word of those.
    words: [u64; WORDS],
    summary: [u64; WORDS / 64],
    events: Vec<(E, u32)>,
    free: u32,
    far: BinaryHeap<Reverse<(Tick, u64, Ordered<E>)>>,
    put: u64,
}

/// An event that takes no part in the heap's order.
#[derive(Debug)]
struct Ordered<E>(E);

impl<E> PartialEq for Ordered<E> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl<E> Eq for Ordered<E> {}
impl<E> PartialOrd for Ordered<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Ordered<E> {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl<E: Copy> Wheel<E> {
    pub(super) fn new() -> Self {
        Wheel {
            now: 0,
            slots: vec![Slot { first: NONE, last: NONE }; SLOTS],
            words: [0; WORDS],
            summary: [0; WORDS / 64],
            events: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            put: 0,
        }
    }

    /// The tick of the last event taken, or the one that [`Wheel::skip_to`] set.
    pub(super) fn now(&self) -> Tick {
        self.now
    }

    /// Puts an event at a tick; one in the past happens now.
    pub(super) fn put(&mut self, at: Tick, event: E) {
        let at = at.max(self.now);
        if at - self.now < SLOTS as u64 {
            self.put_near(at, event);
        } else {
            self.put += 1;
            self.far.push(Reverse((at, self.put, Ordered(event))));
        }
    }

    fn put_near(&mut self, at: Tick, event: E) {
        let index = if self.free == NONE {
            self.events.push((event, NONE));
            self.events.len() as u32 - 1
        } else {
            let index = self.free;
            let entry = &mut self.events[index as usize];
            self.free = entry.1;
            *entry = (event, NONE);
            index
        };
        let number = at as usize % SLOTS;
        let slot = &mut self.slots[number];
        if slot.first == NONE {
            slot.first = index;
            self.words[number / 64] |= 1 << (number % 64);
            self.summary[number / 4096] |= 1 << (number / 64 % 64);
        } else {
            self.events[slot.last as usize].1 = index;
        }
        slot.last = index;
    }

    /// The tick of the next event.
    pub(super) fn next(&self) -> Option<Tick> {
        self.next_near().or_else(|| self.far.peek().map(|Reverse((at, ..))| *at))
    }

    /// The next slot that holds something, from the present one on.
    fn next_near(&self) -> Option<Tick> {
        let start = self.now as usize % SLOTS;
        let word = self.words[start / 64] >> (start % 64);
        if word != 0 {
            return Some(self.now + u64::from(word.trailing_zeros()));
        }
        // The words after it, then around to the one where the search began.
        let from = start / 64 + 1;
        for n in 0..=WORDS / 64 {
            let at = from + n * 64;
            let (group, shift) = (at / 64 % (WORDS / 64), if n == 0 { at % 64 } else { 0 });
            let base = at / 64 * 64;
            let bits = self.summary[group] >> shift << shift;
            if bits != 0 {
                let word = (base + bits.trailing_zeros() as usize) % WORDS;
                let slot = word * 64 + self.words[word].trailing_zeros() as usize;
                return Some(self.now + ((slot + SLOTS - start) % SLOTS) as u64);
            }
        }
        None
    }

    /// Takes the next event if it is due by `until`.
    pub(super) fn take(&mut self, until: Tick) -> Option<(Tick, E)> {
        let at = self.next().filter(|at| *at <= until)?;
        self.move_to(at);
        let number = at as usize % SLOTS;
        let slot = &mut self.slots[number];
        let index = slot.first;
        let (event, next) = self.events[index as usize];
        slot.first = next;
        if next == NONE {
            slot.last = NONE;
            self.words[number / 64] &= !(1 << (number % 64));
            if self.words[number / 64] == 0 {
                self.summary[number / 4096] &= !(1 << (number / 64 % 64));
            }
        }
        self.events[index as usize].1 = self.free;
        self.free = index;
        Some((at, event))
    }

    /// Lets time pass to `tick`, before which nothing is due.
    pub(super) fn skip_to(&mut self, tick: Tick) {
        if self.next().is_none_or(|at| at >= tick) {
            self.move_to(tick.max(self.now));
        }
    }

    fn move_to(&mut self, tick: Tick) {
        self.now = tick;
        while let Some(Reverse((at, ..))) = self.far.peek()
            && *at - tick < SLOTS as u64
        {
            if let Some(Reverse((at, _, Ordered(event)))) = self.far.pop() {
                self.put_near(at, event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_out_in_the_order_of_their_ticks_and_of_their_coming(
            steps in proptest::collection::vec((0u64..60_000, 0usize..4), 1..200),
        ) {
            let (mut wheel, mut model, mut number) = (Wheel::new(), Vec::new(), 0u32);
            for (delay, takes) in steps {
                let at = wheel.now() + delay;
                wheel.put(at, number);
                model.push((at, number));
                number += 1;
                for _ in 0..takes {
                    let first = model.iter().copied().min();
                    prop_assert_eq!(wheel.take(u64::MAX), first);
                    model.retain(|entry| Some(*entry) != first);
                }
            }
            while let Some(first) = model.iter().copied().min() {
                prop_assert_eq!(wheel.next(), Some(first.0));
                prop_assert_eq!(wheel.take(first.0.saturating_sub(1)).filter(|_| first.0 > 0), None);
                prop_assert_eq!(wheel.take(first.0), Some(first));
                model.retain(|entry| *entry != first);
            }
            prop_assert_eq!(wheel.next(), None);
        }
    }
}
