//! What an endpoint is given: buffers from its free ring, SDUs in its receive ring, and how far its application is
//! behind.

use super::HostEndpoint;
use super::progress::Pace;
use crate::app_memory::At;
use crate::events;
use endpoint::DataPath;
use endpoint::layout::{self, BODY_OCTETS, Descriptor, Head, INLINE_OCTETS};
use sar::SduMeta;
use std::sync::atomic::AtomicU8;
use wire::{DropReason, Time};

/// Buffers that are taken from the free ring for each one that is used, at most.
const FREED_AT_ONCE: usize = 64;
/// Octets of SDUs, each with its descriptor, that are delivered before the application is let see them: a run is shown
/// once, but no application waits for more than this.
const SHOWN_AT_ONCE: usize = 8192;

impl HostEndpoint {
    /// Whether the application is more than three quarters of its receive ring behind.
    pub(crate) fn falls_behind(&mut self) -> bool {
        let limit = self.geometry().receive_ring / 4 * 3;
        self.receive.backlog(limit) > limit
    }

    /// Whether it has three quarters of its receive ring free again.
    pub(crate) fn caught_up(&mut self) -> bool {
        let limit = self.geometry().receive_ring / 4;
        self.receive.backlog(limit) <= limit
    }

    /// Whether it has taken all that it was given.
    pub(crate) fn has_taken_all(&mut self) -> bool {
        self.receive.backlog(0) == 0
    }

    /// Whether its application has stopped: nobody waits for it.
    pub(crate) fn has_stopped(&mut self) -> bool {
        self.progress.has_stopped(self.receive.consumed())
    }

    /// What its application does with what it has to take.
    pub(crate) fn pace(&mut self, now: Time) -> Pace {
        self.progress.look(self.receive.consumed(), now)
    }

    /// Its application has something to take. False if that was known, or it has stopped.
    pub(crate) fn watch(&mut self, now: Time) -> bool {
        // The application writes to the line of its index: that is read only where it matters.
        !self.progress.is_watched() && self.progress.watch(self.receive.consumed(), now)
    }

    /// Whether its receive ring takes one more descriptor.
    pub(crate) fn has_room(&mut self) -> bool {
        self.receive.room() > 0
    }

    /// Whether there is a buffer to receive into.
    pub(crate) fn has_buffer(&mut self) -> bool {
        let buffer = self.take_buffer();
        if let Some(buffer) = buffer {
            self.keep_buffer(buffer);
        }
        buffer.is_some()
    }

    /// Asks the client to say when it has emptied its receive ring: there is more for it.
    pub(crate) fn ask_for_catching_up(&mut self) {
        self.held_back = true;
        events::ask_for_catching_up(&self.segment, true);
    }

    /// A buffer to receive into.
    #[inline]
    pub(crate) fn take_buffer(&mut self) -> Option<Buffer> {
        if self.buffers.wants_reading() {
            self.collect_free();
        }
        self.buffers.take()
    }

    /// Takes buffers from the free ring. True if there may be more.
    pub(super) fn collect_free(&mut self) -> bool {
        // A hostile client could fill the ring with nonsense: a bounded look.
        let mut left = FREED_AT_ONCE;
        while left > 0
            && let Some(d) = self.buffers.read()
        {
            left -= 1;
            let free = match d.head.buffer {
                Descriptor::OWN if self.path.kind() == DataPath::SingleCopy => {
                    let octets = d.head.octets as usize;
                    self.path.own.find_posted(d.address, octets).map(|at| Buffer::Own {
                        address: d.address,
                        at,
                        octets,
                    })
                }
                buffer if buffer < self.geometry().buffers => Some(Buffer::Segment(buffer)),
                buffer => match layout::Lent::from_buffer(buffer) {
                    Some(back) if self.take_back(back) => continue,
                    _ => None,
                },
            };
            match free {
                Some(free) => {
                    self.passed.freed += 1;
                    self.passed.surplus += u64::from(!self.buffers.keep(free));
                }
                None => {
                    self.buffers.refuse();
                    self.received.drop_one(DropReason::BadDescriptor);
                }
            }
        }
        self.buffers.publish();
        left == 0
    }

    /// A round at this time gives it something, or takes something back: the first says that as many descriptors may be
    /// refused again.
    pub(crate) fn note_round(&mut self, now: Time) {
        self.buffers.note_round(now);
    }

    /// The memory of a buffer, to reassemble into.
    pub(crate) fn memory(&self, buffer: Buffer) -> &[AtomicU8] {
        match buffer {
            Buffer::Segment(index) => {
                let octets = self.geometry().buffer_octets as usize;
                // The number was checked when the buffer was taken.
                self.segment.buffer_at(index).map_or(&[], |at| self.segment.octets(at, octets))
            }
            Buffer::Own { at, octets, .. } => self.path.own.octets(at, octets),
        }
    }

    /// Keeps a buffer whose PDU failed for the next one.
    pub(crate) fn keep_buffer(&mut self, buffer: Buffer) {
        self.buffers.put_back(buffer);
    }

    /// Delivers an SDU: in `buffer`, or in `inline` if that is `None`.
    ///
    /// # Errors
    /// Why not, counted here. The buffer is kept if the receive ring is full.
    pub(crate) fn deliver(
        &mut self,
        channel: u32,
        octets: usize,
        meta: SduMeta,
        at: SduPlace<'_>,
    ) -> Result<(), DropReason> {
        let (d, buffer) = match at {
            SduPlace::Buffer(Buffer::Segment(index)) => return self.deliver_buffer(channel, octets, meta, index),
            SduPlace::Buffer(own @ Buffer::Own { address, .. }) => {
                let head = head(channel, octets, meta, Descriptor::OWN);
                (Descriptor { address, ..head.into() }, Some(own))
            }
            SduPlace::Inline(sdu) => {
                let mut d = Descriptor::from(head(channel, octets, meta, Descriptor::INLINE));
                d.inline[..sdu.len()].copy_from_slice(sdu);
                (d, None)
            }
        };
        let pushed = self.receive.push_unseen(d);
        self.note_delivered(pushed, buffer, octets)
    }

    /// The same in a buffer of the segment, whose descriptor is made in registers: one that is in memory would be read
    /// by wider loads than it was written by, and wait for all stores before it, those of the SDU's copy.
    pub(crate) fn deliver_buffer(
        &mut self,
        channel: u32,
        octets: usize,
        meta: SduMeta,
        index: u32,
    ) -> Result<(), DropReason> {
        let pushed = self.receive.push_head_unseen(head(channel, octets, meta, index));
        self.note_delivered(pushed, Some(Buffer::Segment(index)), octets)
    }

    /// The same where the sender lends it, under the buffer's number for that.
    pub(super) fn push_lent(
        &mut self,
        channel: u32,
        octets: usize,
        meta: SduMeta,
        number: u32,
    ) -> Result<(), DropReason> {
        let pushed = self.receive.push_head_unseen(head(channel, octets, meta, number));
        self.note_delivered(pushed, None, octets)
    }

    #[inline(always)]
    fn note_delivered(&mut self, pushed: bool, buffer: Option<Buffer>, octets: usize) -> Result<(), DropReason> {
        if !pushed {
            self.received.drop_one(DropReason::RingFull);
            if let Some(buffer) = buffer {
                self.keep_buffer(buffer);
            }
            return Err(DropReason::RingFull);
        }
        self.passed.pushed += 1;
        self.passed.with_buffer += u64::from(buffer.is_some());
        if buffer.is_some() {
            self.path.crossings.delivered = self.path.crossings.delivered.wrapping_add(octets as u64);
        }
        self.unseen += octets + BODY_OCTETS;
        if self.unseen >= SHOWN_AT_ONCE || self.strategy.machine.tells_at_once() {
            self.unseen = 0;
            self.receive.publish();
        }
        self.strategy.note_pushed(&self.segment);
        Ok(())
    }

    /// Delivers an SDU that is at hand whole: inside the descriptor, or in a free buffer.
    pub(crate) fn deliver_copy(&mut self, channel: u32, sdu: &[u8], meta: SduMeta) -> Result<(), DropReason> {
        let place = if sdu.len() <= INLINE_OCTETS {
            SduPlace::Inline(sdu)
        } else {
            let Some(buffer) = self.take_buffer() else {
                self.received.drop_one(DropReason::NoBuffer);
                return Err(DropReason::NoBuffer);
            };
            if sdu.len() > self.memory(buffer).len() {
                self.keep_buffer(buffer);
                self.received.drop_one(DropReason::Oversize);
                return Err(DropReason::Oversize);
            }
            match buffer {
                Buffer::Segment(index) => {
                    if let Some(at) = self.segment.buffer_at(index) {
                        self.segment.copy_in(at, sdu);
                    }
                }
                Buffer::Own { at, .. } => self.path.own.write(at, sdu),
            }
            SduPlace::Buffer(buffer)
        };
        self.deliver(channel, sdu.len(), meta, place)
    }
}

/// What a delivered SDU's descriptor begins with. Inlined always: it is to be made in registers
/// ([`HostEndpoint::deliver_buffer`]).
#[inline(always)]
fn head(channel: u32, octets: usize, SduMeta { uu, cpi, clp, congestion }: SduMeta, buffer: u32) -> Head {
    Head { channel, octets: octets as u32, buffer, uu, cpi, clp, congestion }
}

/// Where a delivered SDU is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SduPlace<'a> {
    /// In the buffer's memory ([`HostEndpoint::memory`]).
    Buffer(Buffer),
    /// To go into the descriptor.
    Inline(&'a [u8]),
}

/// What the application has given to receive into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Buffer {
    /// A buffer of the segment.
    Segment(u32),
    /// Memory of its own.
    Own { address: u64, at: At, octets: usize },
}

#[cfg(test)]
mod tests {
    use super::super::free_buffers::REFUSED_IN_A_ROUND;
    use super::*;
    use endpoint::segment::Segment;
    use endpoint::{Events, Geometry, Local};
    use std::sync::Arc;

    #[test]
    fn buffers_go_round_and_nonsense_in_the_free_ring_is_counted() {
        let geometry = Geometry { send_ring: 4, receive_ring: 64, free_ring: 64, buffers: 32, buffer_octets: 128 };
        let segment = Arc::new(Segment::anonymous(geometry).unwrap());
        let mut client = Local::new(&segment);
        let mut host = HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None);
        for buffer in (0..32).chain([32, u32::MAX]) {
            assert!(client.free.push(Head::of_buffer(buffer)));
        }
        let mut receive = |host: &mut HostEndpoint| {
            host.deliver_copy(0, &[7; 100], SduMeta::default()).unwrap();
            host.show();
            client.receive.pop().unwrap().head.buffer
        };
        let mut seen: Vec<u32> = (0..32).map(|_| receive(&mut host)).collect();
        assert_eq!(host.received.dropped(DropReason::BadDescriptor), 2);
        // They come back in the order in which they were taken, and go out so again.
        for _ in 0..3 {
            for &buffer in &seen {
                assert!(client.free.push(Head::of_buffer(buffer)));
                assert_eq!(receive(&mut host), buffer);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..32).collect::<Vec<_>>());
    }

    #[test]
    fn a_buffer_that_is_given_again_and_again_is_kept_as_often_as_there_are_buffers_and_slots() {
        let geometry = Geometry { send_ring: 4, receive_ring: 4, free_ring: 16, buffers: 4, buffer_octets: 128 };
        let segment = Arc::new(Segment::anonymous(geometry).unwrap());
        let mut client = Local::new(&segment);
        let mut host = HostEndpoint::new(segment, Events::Polling, DataPath::Shared, None);
        for _ in 0..25 {
            assert!(client.free.push(Head::of_buffer(2)));
            host.collect_free();
        }
        assert_eq!((host.buffers.len(), host.passed.freed, host.passed.surplus), (20, 25, 5));
        assert_eq!(host.mismatch(0), None);
    }

    #[test]
    fn a_round_refuses_few_descriptors_of_the_free_ring_however_much_it_is_given() {
        const SENSELESS: u32 = 4000;
        let geometry = Geometry { send_ring: 4, receive_ring: 4, free_ring: 4096, buffers: 4, buffer_octets: 128 };
        let segment = Arc::new(Segment::anonymous(geometry).unwrap());
        let mut client = Local::new(&segment);
        let mut host = HostEndpoint::new(segment, Events::Polling, DataPath::SingleCopy, None);
        (0..SENSELESS).for_each(|_| assert!(client.free.push(Head::of_buffer(Descriptor::OWN))));
        assert!(client.free.push(Head::of_buffer(3)));
        let (mut round, mut before) = (0, 0);
        while before < SENSELESS.into() {
            round += 1;
            for _ in 0..100 {
                host.note_round(Time::from_micros(round));
                assert!(host.take_buffer().is_none_or(|buffer| buffer == Buffer::Segment(3)));
                host.show();
            }
            let refused = host.received.dropped(DropReason::BadDescriptor);
            assert!((1..=REFUSED_IN_A_ROUND as u64).contains(&(refused - before)), "round {round}");
            before = refused;
        }
        host.note_round(Time::from_micros(round + 1));
        // What had sense is there.
        assert_eq!((host.take_buffer(), host.passed.freed), (None, 1));
    }

    #[test]
    fn what_is_delivered_is_shown_once_it_is_as_much_as_one_waits_for_and_not_before() {
        let octets = SHOWN_AT_ONCE - BODY_OCTETS;
        let buffer_octets = SHOWN_AT_ONCE as u32;
        for (octets, shown) in [(octets - 1, 0), (octets, 1)] {
            let geometry = Geometry { send_ring: 4, receive_ring: 4, free_ring: 4, buffers: 4, buffer_octets };
            let segment = Arc::new(Segment::anonymous(geometry).unwrap());
            let mut client = Local::new(&segment);
            let mut host = HostEndpoint::new(segment, Events::Hybrid { quota: 64 }, DataPath::Shared, None);
            assert!(client.free.push(Head::of_buffer(0)));
            host.deliver_copy(0, &vec![7; octets], SduMeta::default()).unwrap();
            assert_eq!(client.receive.waiting(), shown, "{octets} octets");
            host.show();
            assert_eq!(client.receive.pop().map(|d| d.head.octets as usize), Some(octets));
        }
    }
}
