//! What an application has given to receive into: its free ring, and the buffers in hand.

use super::Buffer;
use endpoint::layout::Descriptor;
use endpoint::recycle::Recycle;
use endpoint::ring::{Consumer, Which};
use endpoint::segment::Segment;
use std::sync::Arc;
use wire::Time;

/// Descriptors of the free ring that lead to no buffer and are taken in one round, at most: what an application gives
/// without sense costs a round the same whether one SDU comes for it or thousands.
pub(super) const REFUSED_IN_A_ROUND: usize = 64;

/// See the module's head.
#[derive(Debug)]
pub(super) struct FreeBuffers {
    ring: Consumer,
    /// Buffers and posted memory that are in hand.
    stash: Recycle<Buffer>,
    /// Which buffers of the segment were in it before, a bit each.
    used: Box<[u64]>,
    /// Buffers that the stash keeps at most.
    most: usize,
    /// The ring has not been looked at in this run.
    unread: bool,
    /// Descriptors that were refused in `round`.
    refused: usize,
    /// The round that `refused` counts from.
    round: Time,
}

impl FreeBuffers {
    pub(super) fn new(segment: &Arc<Segment>) -> Self {
        let geometry = *segment.geometry();
        let most = (geometry.buffers + geometry.free_ring) as usize;
        FreeBuffers {
            ring: Consumer::new(segment, Which::Free),
            stash: Recycle::new(geometry.buffer_octets as usize, most),
            used: vec![0; (geometry.buffers as usize).div_ceil(64)].into(),
            most,
            unread: true,
            refused: 0,
            round: Time::ZERO,
        }
    }

    /// The next descriptor of the ring. `None`: there is none, or too many were refused in this round.
    pub(super) fn read(&mut self) -> Option<Descriptor> {
        if self.refused >= REFUSED_IN_A_ROUND {
            return None;
        }
        let descriptor = self.ring.peek()?;
        self.ring.advance_unseen();
        Some(descriptor)
    }

    /// What was read led to no buffer.
    pub(super) fn refuse(&mut self) {
        self.refused += 1;
    }

    /// Lets the application see what was read.
    pub(super) fn publish(&mut self) {
        self.ring.publish();
    }

    /// Whether the ring is to be read before a buffer is taken: once in a run, or since there is none.
    #[inline]
    pub(super) fn wants_reading(&mut self) -> bool {
        std::mem::take(&mut self.unread) || self.stash.is_empty()
    }

    /// A run ends: the next one reads the ring.
    pub(super) fn end_run(&mut self) {
        self.unread = true;
    }

    /// In another round as many descriptors may be refused again.
    pub(super) fn note_round(&mut self, now: Time) {
        if self.round != now {
            (self.round, self.refused) = (now, 0);
        }
    }

    /// Keeps one that was read. False if there are more than were ever given: a hostile client may give one twice.
    pub(super) fn keep(&mut self, buffer: Buffer) -> bool {
        if self.stash.len() >= self.most {
            return false;
        }
        match buffer {
            Buffer::Segment(index) if self.used[index as usize / 64] & 1 << (index % 64) == 0 => {
                self.used[index as usize / 64] |= 1 << (index % 64);
                self.stash.put_fresh(buffer);
            }
            _ => self.stash.put(buffer),
        }
        true
    }

    /// One to receive into.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Buffer> {
        self.stash.take()
    }

    /// One that was taken and not used.
    pub(super) fn put_back(&mut self, buffer: Buffer) {
        self.stash.put_back(buffer);
    }

    /// How many are in hand.
    pub(super) fn len(&self) -> usize {
        self.stash.len()
    }
}
