//! What waited for a channel whose circuit is no more: taken out of the channel's queue at once, and dropped in pieces,
//! since a ring may be so long that all of it in one round would hold up others.

use super::{NONE, Outbound};
use endpoint::layout::{Descriptor, Head};
use endpoint::ring::Consumer;

/// Entries, a chain.
#[derive(Debug)]
pub(super) struct GivenUp {
    first: u32,
    last: u32,
    queued: u32,
}

impl Default for GivenUp {
    fn default() -> Self {
        GivenUp { first: NONE, last: NONE, queued: 0 }
    }
}

impl Outbound {
    /// Gives up what waits in a channel's queue, but for the SDU that is leaving; how many descriptors.
    pub(crate) fn give_up(&mut self, channel: u32) -> u32 {
        let Some(lane) = self.lanes.get_mut(channel as usize) else { return 0 };
        let kept = u32::from(lane.leaving.is_some());
        if lane.queued <= kept {
            return 0;
        }
        let first = if kept > 0 { self.entries[lane.first as usize].next } else { lane.first };
        let (last, queued) = (lane.last, lane.queued - kept);
        (lane.last, lane.queued) = (lane.first, kept);
        lane.settle();
        match self.given_up.queued {
            0 => self.given_up.first = first,
            _ => self.entries[self.given_up.last as usize].next = first,
        }
        self.given_up.last = last;
        self.given_up.queued += queued;
        queued
    }

    /// Whether descriptors were given up that have not been dropped.
    pub(crate) fn has_given_up(&self) -> bool {
        self.given_up.queued > 0
    }

    /// Gives the slots and buffers of what was given up back, `most` at most; how many.
    pub(crate) fn drop_given_up(&mut self, most: u32, ring: &mut Consumer) -> u32 {
        let n = most.min(self.given_up.queued);
        for _ in 0..n {
            let at = self.given_up.first;
            let super::Entry { descriptor: Descriptor { head: Head { channel, buffer, .. }, .. }, position, next } =
                self.entries[at as usize];
            self.given_up.first = next;
            self.free.push(at);
            self.give_back(ring, position, (channel, buffer));
        }
        self.given_up.queued -= n;
        n
    }
}
