//! The POLL list of Traw and Smith (1993): what is to be looked at, in the order of its times. The head is the
//! next alarm; insertion is linear (from the latest, where a new one mostly belongs), deletion constant.

use wire::Time;

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone)]
struct Entry<T> {
    time: Time,
    what: Option<T>,
    earlier: u32,
    later: u32,
}

/// A place in the list, for its deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(u32);

/// The list. Memory grows with the most entries that it ever had, and is kept.
#[derive(Debug, Clone)]
pub struct PollList<T> {
    entries: Vec<Entry<T>>,
    unused: Vec<u32>,
    first: u32,
    last: u32,
}

impl<T> Default for PollList<T> {
    fn default() -> Self {
        PollList { entries: Vec::new(), unused: Vec::new(), first: NONE, last: NONE }
    }
}

impl<T> PollList<T> {
    /// When the first is due.
    pub fn head(&self) -> Option<Time> {
        self.entries.get(self.first as usize).map(|e| e.time)
    }

    /// Puts `what` behind all that are not later than `time`.
    pub fn insert(&mut self, time: Time, what: T) -> Slot {
        let mut earlier = self.last;
        while let Some(entry) = self.entries.get(earlier as usize).filter(|e| e.time > time) {
            earlier = entry.earlier;
        }
        let later = self.entries.get(earlier as usize).map_or(self.first, |e| e.later);
        let entry = Entry { time, what: Some(what), earlier, later };
        let at = match self.unused.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        *self.link_after(earlier) = at;
        *self.link_before(later) = at;
        Slot(at)
    }

    /// Deletes an entry; `None` if it is not there any more.
    pub fn remove(&mut self, slot: Slot) -> Option<T> {
        let entry = self.entries.get_mut(slot.0 as usize)?;
        let what = entry.what.take()?;
        let (earlier, later) = (entry.earlier, entry.later);
        *self.link_after(earlier) = later;
        *self.link_before(later) = earlier;
        self.unused.push(slot.0);
        Some(what)
    }

    /// Takes the first if it is due.
    pub fn pop_due(&mut self, now: Time) -> Option<T> {
        self.head().filter(|t| *t <= now)?;
        self.remove(Slot(self.first))
    }

    /// What stands at `most` places from `from` on and round, in no order of time: a few of many, in turn.
    pub fn sweep(&self, from: usize, most: usize) -> impl Iterator<Item = &T> {
        let places = self.entries.len();
        (0..most.min(places)).filter_map(move |n| self.entries[from.wrapping_add(n) % places].what.as_ref())
    }

    fn link_after(&mut self, at: u32) -> &mut u32 {
        match self.entries.get_mut(at as usize) {
            Some(entry) => &mut entry.later,
            None => &mut self.first,
        }
    }

    fn link_before(&mut self, at: u32) -> &mut u32 {
        match self.entries.get_mut(at as usize) {
            Some(entry) => &mut entry.earlier,
            None => &mut self.last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sweep_comes_to_each_entry_in_turn_and_to_no_more_places_than_it_may() {
        let mut list = PollList::default();
        assert_eq!(list.sweep(7, 4).count(), 0);
        let slots: Vec<Slot> = (0..10).map(|n| list.insert(Time::from_micros(100 - n), n)).collect();
        list.remove(slots[3]);
        let seen: Vec<u64> = (0..5).flat_map(|n| list.sweep(n * 2, 2).copied().collect::<Vec<_>>()).collect();
        assert_eq!(seen, [0, 1, 2, 4, 5, 6, 7, 8, 9]);
        assert_eq!(list.sweep(8, 4).copied().collect::<Vec<_>>(), [8, 9, 0, 1]);
        assert_eq!(list.sweep(5, 1000).count(), 9);
    }

    proptest! {
        #[test]
        fn entries_come_out_by_time_and_deleted_ones_never(steps in prop::collection::vec((0u64..50, any::<bool>()), 0..200)) {
            let mut list = PollList::default();
            let mut model: Vec<(u64, usize, Slot)> = Vec::new();
            for (i, (time, deletes)) in steps.into_iter().enumerate() {
                if deletes && !model.is_empty() {
                    let (_, what, slot) = model.remove(time as usize % model.len());
                    prop_assert_eq!(list.remove(slot), Some(what));
                } else {
                    let slot = list.insert(Time::from_micros(time), i);
                    model.push((time, i, slot));
                }
                model.sort_by_key(|(time, ..)| *time);
                prop_assert_eq!(list.head(), model.first().map(|(t, ..)| Time::from_micros(*t)));
            }
            for (time, what, _) in model {
                prop_assert_eq!(list.pop_due(Time::from_nanos(time * 1000).max(Time::from_nanos(1)).min(Time::from_micros(time))), Some(what));
            }
            prop_assert_eq!(list.pop_due(Time::from_millis(1)), None);
        }
    }
}
