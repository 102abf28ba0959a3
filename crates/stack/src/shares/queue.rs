//! What waits in order, within a bound that all owners share: where all room is taken, the owner of which most wait
//! loses its last one to an owner of which at least two fewer do, so that nobody's flood pushes out what others send.

use super::Shares;
use std::collections::BTreeMap;

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queued {
    /// It waits.
    Taken,
    /// It waits, and another owner's last entry was dropped for it.
    Displaced,
    /// It was not taken: nobody has at least two more that wait.
    Refused,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Queue<O, T> {
    entries: BTreeMap<u64, (O, T)>,
    shares: Shares<O, u64>,
    next: u64,
    max: usize,
}

impl<O: Ord + Copy, T> Queue<O, T> {
    /// An empty one, for `max` entries.
    pub(crate) fn new(max: usize) -> Self {
        Queue { entries: BTreeMap::new(), shares: Shares::default(), next: 0, max }
    }

    /// Lets an entry wait, which is made if there is room for it.
    pub(crate) fn push(&mut self, owner: O, entry: impl FnOnce() -> T) -> Queued {
        let is_full = self.entries.len() >= self.max;
        if is_full && !self.makes_room(owner) {
            return Queued::Refused;
        }
        self.entries.insert(self.next, (owner, entry()));
        self.shares.insert(owner, self.next);
        self.next += 1;
        if is_full { Queued::Displaced } else { Queued::Taken }
    }

    fn makes_room(&mut self, owner: O) -> bool {
        let Some(most) = self.shares.who_yields(owner) else { return false };
        let Some(last) = self.shares.entries(most).next_back() else { return false };
        self.shares.remove(most, last);
        self.entries.remove(&last).is_some()
    }

    pub(crate) fn pop(&mut self) -> Option<(O, T)> {
        let (number, (owner, entry)) = self.entries.pop_first()?;
        self.shares.remove(owner, number);
        Some((owner, entry))
    }

    /// Drops those that `goes` says; gives how many there were.
    pub(crate) fn forget(&mut self, goes: impl Fn(&O, &T) -> bool) -> u64 {
        let before = self.entries.len();
        let shares = &mut self.shares;
        self.entries.retain(|number, (owner, entry)| {
            let gone = goes(owner, entry);
            if gone {
                shares.remove(*owner, *number);
            }
            !gone
        });
        (before - self.entries.len()) as u64
    }
}
