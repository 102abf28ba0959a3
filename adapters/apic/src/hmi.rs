//! The Host Memory Interface: one transfer at a time, each of which takes its set-up and its octets' time.
//!
//! Data of several cells in one transfer share its set-up. Low-latency data go first in either direction, then what
//! the chip writes of descriptors and reads of them, then the two directions in turns.

use super::channel::ChannelRef;
use super::pacer::Tag;
use super::queue::Bypass;
use std::collections::VecDeque;

/// Received octets of one buffer, on their way to memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    pub(super) channel: ChannelRef,
    /// The place that holds the octets, and where they begin there.
    pub(super) batch: u16,
    pub(super) from: u16,
    /// The last write out of this place.
    pub(super) frees: bool,
    pub(super) area: u16,
    pub(super) offset: u32,
    pub(super) octets: u32,
    /// The descriptor of the buffer.
    pub(super) index: u32,
    /// Its status, if these are its last octets.
    pub(super) done: Option<u32>,
    /// Of a PDU that is split: the pool's buffer, which is reported with the status.
    pub(super) body: Option<u32>,
}

/// What a descriptor's status becomes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Completion {
    pub(super) channel: ChannelRef,
    pub(super) index: u32,
    pub(super) status: u32,
    /// Written before the status: the pool's buffer.
    pub(super) body: Option<u32>,
}

/// One transfer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Transfer {
    Fetch(Tag),
    Write(Write),
    Descriptor(ChannelRef),
    Complete(Completion),
}

/// How long transfers take, in the clock's fractions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    pub(super) setup: u64,
    pub(super) per_octet: f64,
    pub(super) slot: u64,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub(super) struct Hmi {
    timing: Timing,
    pub(super) writes: Bypass<Write>,
    pub(super) completions: VecDeque<Completion>,
    pub(super) descriptors: VecDeque<ChannelRef>,
    current: Option<Transfer>,
    /// When the current transfer is done, or the last one was.
    until: u64,
    fetched_last: bool,
    pub(super) transfers: u64,
    pub(super) octets: u64,
}

impl Hmi {
    pub(super) fn new(timing: Timing, writes: usize, channels: usize, bypass: bool) -> Self {
        Hmi {
            timing,
            // A place for received octets may be written to two buffers.
            writes: Bypass::new(2 * writes, bypass),
            completions: VecDeque::with_capacity(2 * super::channel::PREFETCH * channels),
            descriptors: VecDeque::with_capacity(channels),
            current: None,
            until: 0,
            fetched_last: false,
            transfers: 0,
            octets: 0,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.current.is_none() && self.writes.len() == 0 && self.completions.is_empty() && self.descriptors.is_empty()
    }

    /// The transfer that is done by `now`.
    pub(super) fn finished(&mut self, now: u64) -> Option<Transfer> {
        if self.until > now { None } else { self.current.take() }
    }

    /// Begins the next transfer. `room`: whether the Transmit FIFO takes a batch, of low latency or not.
    pub(super) fn begin(&mut self, now: u64, tags: &mut Bypass<Tag>, room: [bool; 2]) -> bool {
        if self.current.is_some() {
            return false;
        }
        let write = |writes: &mut Bypass<Write>, low| writes.pop_of(low).map(Transfer::Write);
        let fetch = |tags: &mut Bypass<Tag>, low: bool| {
            let fits = room[usize::from(!low)];
            if fits { tags.pop_of(low).map(Transfer::Fetch) } else { None }
        };
        let next = write(&mut self.writes, true)
            .or_else(|| fetch(tags, true))
            .or_else(|| self.completions.pop_front().map(Transfer::Complete))
            .or_else(|| self.descriptors.pop_front().map(Transfer::Descriptor))
            .or_else(|| {
                if self.fetched_last {
                    write(&mut self.writes, false).or_else(|| fetch(tags, false))
                } else {
                    fetch(tags, false).or_else(|| write(&mut self.writes, false))
                }
            });
        let Some(next) = next else { return false };
        let octets = match next {
            Transfer::Fetch(tag) => tag.octets,
            Transfer::Write(write) => write.octets,
            Transfer::Descriptor(_) => 16,
            Transfer::Complete(done) => 4 + 4 * u32::from(done.body.is_some()),
        };
        match next {
            Transfer::Fetch(_) => self.fetched_last = true,
            Transfer::Write(_) => self.fetched_last = false,
            Transfer::Descriptor(_) | Transfer::Complete(_) => {}
        }
        self.transfers += 1;
        self.octets += u64::from(octets);
        let takes = self.timing.setup + (f64::from(octets) * self.timing.per_octet) as u64;
        // A transfer follows the one before at once, although the chip looks at each slot only.
        let start = if now - self.until < self.timing.slot { self.until } else { now };
        self.until = start + takes;
        self.current = Some(next);
        true
    }
}
