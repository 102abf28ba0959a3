//! Messages that wait for the signalling link. The peer decides how fast they leave, so their number has two bounds:
//! from the first on, messages that no call depends on are dropped, and beyond the second the link is given up.

use std::collections::VecDeque;

/// Messages that may wait beside one for each call.
const SPARE: usize = 1024;

/// The queue of an interface.
#[derive(Debug)]
pub(super) struct Outgoing {
    messages: VecDeque<Vec<u8>>,
    /// From so many on, only messages that calls depend on are queued.
    crowded: usize,
    overrun: bool,
}

impl Outgoing {
    /// A peer that asks for the state of each of `max_calls` calls at once is answered in full.
    pub(super) const fn new(max_calls: usize) -> Self {
        Outgoing { messages: VecDeque::new(), crowded: max_calls.saturating_add(SPARE), overrun: false }
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.messages.len() >= self.crowded
    }

    pub(super) const fn is_overrun(&self) -> bool {
        self.overrun
    }

    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        self.messages.pop_front()
    }

    /// Queues a message; if the queue is full, drops all of it, and gives how many messages were dropped.
    pub(super) fn push(&mut self, octets: Vec<u8>) -> Result<(), u64> {
        if self.messages.len() < self.crowded.saturating_mul(4) {
            self.messages.push_back(octets);
            return Ok(());
        }
        let dropped = self.messages.len() as u64 + 1;
        // With its memory.
        self.messages = VecDeque::new();
        self.overrun = true;
        Err(dropped)
    }

    /// The link is established: what waits can leave.
    pub(super) const fn resume(&mut self) {
        self.overrun = false;
    }

    /// The link is down.
    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.overrun = false;
    }
}
