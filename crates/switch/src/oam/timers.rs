//! When which of many end points wants to be called: a heap with one entry in force for each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wire::Time;

/// Deadlines of machines that are named by `K`. A machine says its deadline whenever it may be earlier than it was; an
/// entry that comes too early finds nothing to do and is put in again.
#[derive(Debug)]
pub struct Timers<K> {
    heap: BinaryHeap<Reverse<(Time, K)>>,
}

impl<K: Ord + Copy> Default for Timers<K> {
    fn default() -> Self {
        Timers { heap: BinaryHeap::new() }
    }
}

impl<K: Ord + Copy> Timers<K> {
    /// Arms a machine whose earliest entry is `armed` so that it is called at `due`, if that is earlier.
    pub fn arm(&mut self, key: K, armed: &mut Option<Time>, due: Option<Time>) {
        let Some(due) = due.filter(|due| armed.is_none_or(|armed| *due < armed)) else { return };
        *armed = Some(due);
        self.heap.push(Reverse((due, key)));
    }

    /// The next entry that is due: the machine is not armed any more if this was its earliest ([`Timers::fired`]).
    pub fn pop_due(&mut self, now: Time) -> Option<(Time, K)> {
        let Reverse((due, key)) = self.heap.peek().copied()?;
        if due > now {
            return None;
        }
        self.heap.pop();
        Some((due, key))
    }

    /// Whether an entry was the one in force; entries that an earlier one has overtaken are of no use.
    pub fn fired(armed: &mut Option<Time>, due: Time) -> bool {
        armed.take_if(|armed| *armed == due).is_some()
    }

    /// When the next one fires.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((due, _))| *due)
    }
}
