//! Rings of descriptors between two processes: one producer, one consumer, no lock.
//!
//! Each side keeps its own index to itself and only publishes it; the other's index is a hint, read rarely and bounded
//! by the ring's size. A peer that writes nonsense into an index makes the ring look full, empty, or holding what it
//! holds anyway: never more than its slots.

use crate::layout::{BODY_OCTETS, Descriptor, Geometry, HEAD_OCTETS, HEAD_WORDS, Head};
use crate::segment::{Segment, prefetch};

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

/// Where a ring is.
#[derive(Debug, Clone)]
struct RingPlace {
    segment: Arc<Segment>,
    at: usize,
    heads_at: usize,
    bodies_at: usize,
    slots: u32,
}

impl RingPlace {
    fn head(&self) -> &AtomicU32 {
        self.segment.word32(self.at)
    }

    fn tail(&self) -> &AtomicU32 {
        self.segment.word32(self.at + 64)
    }

    #[inline]
    fn head_of(&self, index: u32) -> &[AtomicU64; HEAD_WORDS] {
        self.segment.words(self.heads_at + (index & (self.slots - 1)) as usize * HEAD_OCTETS)
    }

    #[inline]
    fn body_of(&self, index: u32) -> &[AtomicU64; BODY_OCTETS / 8] {
        self.segment.words(self.bodies_at + (index & (self.slots - 1)) as usize * BODY_OCTETS)
    }

    /// Copies what belongs to a head. A body is read only if something is in it; what was there before stays otherwise.
    #[inline]
    fn read(&self, index: u32, head: Head, descriptor: &mut Descriptor) {
        descriptor.head = head;
        if descriptor.head.has_body() {
            let [address, rest @ ..] = self.body_of(index);
            descriptor.address = address.load(Ordering::Relaxed);
            if descriptor.has_inline() {
                for (part, word) in descriptor.inline.as_chunks_mut::<8>().0.iter_mut().zip(rest) {
                    *part = word.load(Ordering::Relaxed).to_ne_bytes();
                }
            }
        }
    }

    #[inline]
    fn read_head(&self, index: u32) -> Head {
        let head = self.head_of(index);
        Head::from_words(std::array::from_fn(|i| head[i].load(Ordering::Relaxed)))
    }

    /// Asks for the lines of descriptors that the other side has just written: they come side by side, and not each
    /// when it is read.
    #[inline]
    fn fetch(&self, from: u32, n: u32, bodies: bool) {
        for index in (0..n).step_by(HEADS_OF_A_LINE as usize).chain([n.saturating_sub(1)]) {
            prefetch(self.head_of(from.wrapping_add(index)));
        }
        if bodies {
            (0..n).for_each(|index| prefetch(self.body_of(from.wrapping_add(index))));
        }
    }

    /// Writes a descriptor's body; what the slot has beyond it is stale.
    #[inline]
    fn write_body(&self, index: u32, descriptor: &Descriptor) {
        let [address, rest @ ..] = self.body_of(index);
        address.store(descriptor.address, Ordering::Relaxed);
        if descriptor.has_inline() {
            for (word, part) in rest.iter().zip(descriptor.inline.as_chunks::<8>().0) {
                word.store(u64::from_ne_bytes(*part), Ordering::Relaxed);
            }
        }
    }

    #[inline(always)]
    fn write_head(&self, index: u32, head: Head) {
        for (word, value) in self.head_of(index).iter().zip(head.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

/// Descriptors whose lines are asked for at once.
const AHEAD: u32 = 8;
/// Heads of descriptors in a line.
const HEADS_OF_A_LINE: u32 = (BODY_OCTETS / HEAD_OCTETS) as u32;

/// The side that pushes.
#[derive(Debug)]
pub struct Producer {
    place: RingPlace,
    tail: u32,
    /// As the consumer was told last.
    published: u32,
    head_seen: u32,
}

/// The side that pops.
#[derive(Debug)]
pub struct Consumer {
    place: RingPlace,
    head: u32,
    /// As the producer was told last.
    published: u32,
    tail_seen: u32,
    /// The last descriptor that was read had a body.
    bodies: bool,
    /// The producer's index is not read any more.
    frozen: bool,
}

/// Which of a segment's rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Client to host: SDUs to send.
    Send,
    /// Host to client: SDUs received.
    Receive,
    /// Client to host: buffers to receive into.
    Free,
}

fn place(segment: &Arc<Segment>, which: Which) -> RingPlace {
    let g = segment.geometry();
    let (at, slots) = match which {
        Which::Send => (g.send_at(), g.send_ring),
        Which::Receive => (g.receive_at(), g.receive_ring),
        Which::Free => (g.free_at(), g.free_ring),
    };
    let (heads_at, bodies_at) = (Geometry::heads_at(at), Geometry::bodies_at(at, slots));
    RingPlace { segment: segment.clone(), at, heads_at, bodies_at, slots }
}

impl Producer {
    /// The producing side of a fresh ring. There must be one only.
    pub fn new(segment: &Arc<Segment>, which: Which) -> Self {
        Producer { place: place(segment, which), tail: 0, published: 0, head_seen: 0 }
    }

    /// How many descriptors may be pushed now.
    #[inline]
    pub fn room(&mut self) -> u32 {
        if self.tail.wrapping_sub(self.head_seen) >= self.place.slots {
            self.look();
        }
        self.place.slots.saturating_sub(self.tail.wrapping_sub(self.head_seen))
    }

    /// Reads the consumer's index, and believes it only if it lies between what was seen and what was pushed.
    fn look(&mut self) {
        let head = self.place.head().load(Ordering::Acquire);
        if self.tail.wrapping_sub(head) <= self.tail.wrapping_sub(self.head_seen) {
            self.head_seen = head;
        }
    }

    /// Pushes a descriptor and publishes it; false if the ring is full.
    pub fn push(&mut self, descriptor: impl Into<Descriptor>) -> bool {
        let pushed = self.push_unseen(descriptor.into());
        self.publish();
        pushed
    }

    /// Pushes a descriptor that the consumer sees after [`Producer::publish`]; false if the ring is full. A consumer
    /// that looks all the time takes the index's line away with each look, so a run of descriptors is published once.
    #[inline]
    pub fn push_unseen(&mut self, descriptor: Descriptor) -> bool {
        let at = self.tail;
        let pushed = self.push_head_unseen(descriptor.head);
        if pushed && descriptor.head.has_body() {
            self.place.write_body(at, &descriptor);
        }
        pushed
    }

    /// [`Producer::push_unseen`] of a descriptor that has no body.
    #[inline(always)]
    pub fn push_head_unseen(&mut self, head: Head) -> bool {
        if self.room() == 0 {
            return false;
        }
        self.place.write_head(self.tail, head);
        self.tail = self.tail.wrapping_add(1);
        true
    }

    /// Lets the consumer see all that was pushed; false if it could before.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let news = self.published != self.tail;
        if news {
            self.published = self.tail;
            self.place.tail().store(self.tail, Ordering::Release);
        }
        news
    }

    /// How many have been pushed since the last [`Producer::publish`].
    #[inline]
    pub fn unpublished(&self) -> u32 {
        self.tail.wrapping_sub(self.published)
    }

    /// How many of all pushed descriptors the consumer is done with (wraps at 2^32); never more than were pushed.
    pub fn consumed(&mut self) -> u32 {
        self.look();
        self.head_seen
    }

    /// How many of the pushed descriptors are not consumed yet: exact if more than `above`, else perhaps too high.
    pub fn backlog(&mut self, above: u32) -> u32 {
        if self.tail.wrapping_sub(self.head_seen) > above {
            self.look();
        }
        self.tail.wrapping_sub(self.head_seen)
    }

    /// Takes up this side's own index again as it was published: another process that shares this side has moved it.
    pub fn catch_up(&mut self) {
        self.tail = self.place.tail().load(Ordering::Acquire);
        self.published = self.tail;
        self.head_seen = self.place.head().load(Ordering::Acquire);
    }

    /// How many have been pushed (wraps at 2^32).
    pub fn pushed(&self) -> u32 {
        self.tail
    }

    /// The channel and the buffer that the consumer gave back with the slot at `position`, which it has passed: those
    /// of the descriptor pushed there, or of another one that the consumer was done with first.
    pub fn given_back(&self, position: u32) -> (u32, u32) {
        let Head { channel, buffer, .. } = self.place.read_head(position);
        (channel, buffer)
    }
}

impl Consumer {
    /// The consuming side of a fresh ring. There must be one only.
    pub fn new(segment: &Arc<Segment>, which: Which) -> Self {
        Consumer { place: place(segment, which), head: 0, published: 0, tail_seen: 0, bodies: false, frozen: false }
    }

    /// Takes up this side's own index again as it was published: another process that shares this side has moved it.
    pub fn catch_up(&mut self) {
        self.head = self.place.head().load(Ordering::Acquire);
        self.published = self.head;
        self.tail_seen = self.head;
    }

    /// How many descriptors wait, at most as many as there are slots.
    #[inline(always)]
    pub fn waiting(&mut self) -> u32 {
        if self.tail_seen == self.head { self.look() } else { self.waiting_seen() }
    }

    /// Reads the producer's index: how many descriptors wait by it.
    #[inline(never)]
    fn look(&mut self) -> u32 {
        if self.frozen {
            return self.waiting_seen();
        }
        let tail = self.place.tail().load(Ordering::Acquire);
        let (n, seen) = (tail.wrapping_sub(self.head), self.waiting_seen());
        // A forged index tells of nothing new; the next look may find an honest one.
        if n <= seen || n > self.place.slots {
            return seen;
        }
        self.see(tail);
        n
    }

    /// The producer has pushed up to here.
    #[inline]
    fn see(&mut self, tail: u32) {
        let news = tail.wrapping_sub(self.tail_seen);
        self.place.fetch(self.tail_seen, news.min(AHEAD), self.bodies);
        self.tail_seen = tail;
    }

    /// How many wait by the producer's index of this moment, or of the moment of [`Consumer::freeze`].
    pub fn waiting_now(&mut self) -> u32 {
        if !self.frozen {
            self.tail_seen = self.head;
        }
        self.waiting()
    }

    /// Reads the producer's index for the last time: descriptors that are pushed later are never taken.
    pub fn freeze(&mut self) {
        self.look();
        self.frozen = true;
    }

    /// A copy of the oldest descriptor, which stays in the ring.
    #[inline]
    pub fn peek(&mut self) -> Option<Descriptor> {
        if self.waiting() == 0 {
            return None;
        }
        Some(self.read(0))
    }

    #[inline]
    fn read(&mut self, ahead: u32) -> Descriptor {
        let mut descriptor = Descriptor::from(Head::of_buffer(Descriptor::INLINE));
        let head = self.place.read_head(self.head.wrapping_add(ahead));
        self.read_into(ahead, head, &mut descriptor);
        descriptor
    }

    /// Completes the copy of a descriptor whose head was copied. A body that it does not have stays what it was: to
    /// move a whole one takes longer than to read a head.
    #[inline]
    pub fn read_into(&mut self, ahead: u32, head: Head, descriptor: &mut Descriptor) {
        self.place.read(self.head.wrapping_add(ahead), head, descriptor);
        self.bodies = head.has_body();
    }

    /// A copy of the head of the descriptor `ahead` places behind the oldest.
    #[inline]
    pub fn peek_head(&mut self, ahead: u32) -> Option<Head> {
        self.has_ahead(ahead).then(|| self.place.read_head(self.head.wrapping_add(ahead)))
    }

    /// Whether there is a descriptor `ahead` places behind the oldest: a look at the producer's index at most.
    #[inline]
    pub fn has_ahead(&mut self, ahead: u32) -> bool {
        self.waiting_seen() > ahead || self.look() > ahead
    }

    /// How many descriptors the producer has been given back (wraps at 2^32).
    pub fn head(&self) -> u32 {
        self.head
    }

    /// Gives one slot back, and with it the buffer of the descriptor that was read at `position`; the producer sees it
    /// after [`Consumer::publish`]. Where an older one is still in use, the slot says which descriptor this was
    /// ([`Producer::given_back`]).
    #[inline]
    pub fn give_back(&mut self, position: u32, channel: u32, buffer: u32) {
        if position != self.head {
            self.place.write_head(self.head, Head { channel, ..Head::of_buffer(buffer) });
        }
        self.advance_unseen();
    }

    /// Gives the oldest descriptor's slot, and whatever its SDU was in, back to the producer.
    pub fn advance(&mut self) {
        self.advance_unseen();
        self.publish();
    }

    /// [`Consumer::advance`], which the producer sees after [`Consumer::publish`].
    #[inline]
    pub fn advance_unseen(&mut self) {
        if self.tail_seen != self.head {
            self.head = self.head.wrapping_add(1);
        }
    }

    /// Lets the producer see all that was given back.
    #[inline]
    pub fn publish(&mut self) {
        if self.published != self.head {
            self.published = self.head;
            self.place.head().store(self.head, Ordering::Release);
        }
    }

    /// How many descriptors wait by the producer's index as it was seen last: a look at this side's own memory.
    #[inline(always)]
    pub fn waiting_seen(&self) -> u32 {
        self.tail_seen.wrapping_sub(self.head)
    }

    /// Takes the oldest descriptor, as [`Consumer::read_into`] does; false if there is none.
    #[inline(always)]
    pub fn pop_into(&mut self, descriptor: &mut Descriptor) -> bool {
        if self.waiting() == 0 {
            return false;
        }
        let head = self.place.read_head(self.head);
        self.read_into(0, head, descriptor);
        self.advance();
        true
    }

    /// Takes the oldest descriptor.
    #[inline]
    pub fn pop(&mut self) -> Option<Descriptor> {
        let descriptor = self.peek()?;
        self.advance();
        Some(descriptor)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
