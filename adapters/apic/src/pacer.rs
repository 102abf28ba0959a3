//! The Pacer and its TagFIFO: which channel's next batch is fetched from memory, and when.
//!
//! A channel has one parameter, its interval: slots from one cell to the next, in 1/256. A channel that is due makes
//! a pacing tag for a batch of cells and is due again after as many intervals. Low-latency channels are first, then
//! paced ones, then those without an interval, in turns.

use super::channel::ChannelRef;
use super::queue::Bypass;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Parts of a slot that an interval counts.
pub const INTERVAL_PARTS: u32 = 256;

/// What the Host Memory Interface has to fetch for one batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tag {
    pub(super) channel: ChannelRef,
    /// The descriptor.
    pub(super) index: u32,
    pub(super) area: u16,
    pub(super) offset: u32,
    /// Octets in memory; what the cells have beyond that is padding and trailer.
    pub(super) octets: u32,
    pub(super) cells: u32,
    /// The first batch of its PDU, and the last.
    pub(super) first: bool,
    pub(super) last: bool,
    /// Octets of the SDU.
    pub(super) length: u32,
    pub(super) uu: u8,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub(super) struct Pacer {
    low_latency: BinaryHeap<Reverse<(u64, ChannelRef)>>,
    paced: BinaryHeap<Reverse<(u64, ChannelRef)>>,
    others: VecDeque<ChannelRef>,
    pub(super) tags: Bypass<Tag>,
}

impl Pacer {
    pub(super) fn new(channels: usize, tags: usize, bypass: bool) -> Self {
        Pacer {
            low_latency: BinaryHeap::with_capacity(channels),
            paced: BinaryHeap::with_capacity(channels),
            others: VecDeque::with_capacity(channels),
            tags: Bypass::new(tags, bypass),
        }
    }

    /// A channel has something to send, from `due` on.
    pub(super) fn insert(&mut self, channel: ChannelRef, due: u64, low_latency: bool, is_paced: bool) {
        if low_latency {
            self.low_latency.push(Reverse((due, channel)));
        } else if is_paced {
            self.paced.push(Reverse((due, channel)));
        } else {
            self.others.push_back(channel);
        }
    }

    /// The channel that makes a tag now, and when it was due.
    pub(super) fn take(&mut self, now: u64) -> Option<(ChannelRef, u64)> {
        let due = |heap: &mut BinaryHeap<Reverse<(u64, ChannelRef)>>| match heap.peek() {
            Some(Reverse((due, _))) if *due <= now => heap.pop().map(|Reverse((due, channel))| (channel, due)),
            _ => None,
        };
        if self.tags.has_room(true)
            && let Some(found) = due(&mut self.low_latency)
        {
            return Some(found);
        }
        if !self.tags.has_room(false) {
            return None;
        }
        due(&mut self.paced).or_else(|| self.others.pop_front().map(|channel| (channel, now)))
    }

    /// Whether a channel without pacing has something.
    pub(super) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// When the next paced channel is due.
    pub(super) fn next_due(&self) -> Option<u64> {
        let of = |heap: &BinaryHeap<Reverse<(u64, ChannelRef)>>| heap.peek().map(|Reverse((due, _))| *due);
        [of(&self.low_latency), of(&self.paced)].into_iter().flatten().min()
    }
}
