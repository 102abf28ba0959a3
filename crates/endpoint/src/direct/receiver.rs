//! The half of a direct circuit that receives: messages are read where the sender wrote them, and given back.

use super::layout::{CONSUMED_LINE, DirectGeometry, INLINE, INLINE_OCTETS, RING_LINE};
use super::layout::{SHORT_OCTETS, SLEEPS_LINE, WAITS_LINE};
use super::link::{Gone, Link, Rest, drain, ring};
use super::memory::{Ours, Theirs};
use super::ring::{Line, LineConsumer, ReturnProducer, Sleeper, Waker};
use super::spin::Spin;
use crate::view::Octets;
pub use crate::view::{Changed, Guarantee};
use rustix::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::time::{Duration, Instant};
use wire::{Counters, DropReason};

/// Messages between two looks whether the sender sleeps for want of room.
const TELL_EVERY: u32 = 16;
/// A sender with fewer blocks gets each back at once.
const FEW_BLOCKS: u32 = 8;
/// Lines that make no sense are passed over, so many in one look at most.
const MOST_NONSENSE: usize = 64;

/// Receives. One thread at a time.
#[derive(Debug)]
pub struct Receiver {
    link: Arc<Link>,
    /// Of the memory that the messages lie in.
    geometry: DirectGeometry,
    ring: LineConsumer<Ours, Theirs>,
    returns: ReturnProducer<Ours>,
    waker: Waker<Theirs>,
    sleeper: Sleeper<Ours>,
    spin: Spin,
    untold: u32,
    tells: u32,
    /// The block of a short message that has been dealt with.
    held: Option<u32>,
    counters: Counters,
}

impl Receiver {
    pub(crate) fn new(link: &Arc<Link>, ours: &DirectGeometry, theirs: &DirectGeometry, spin: Spin) -> Self {
        let (o, t) = (|| link.ours.clone(), || link.theirs.clone());
        Receiver {
            ring: LineConsumer::new(o(), t(), RING_LINE, theirs.ring, CONSUMED_LINE),
            returns: ReturnProducer::new(o(), ours.returns_line(), ours.returns),
            waker: Waker::new(t(), WAITS_LINE),
            sleeper: Sleeper::new(o(), SLEEPS_LINE),
            spin,
            untold: 0,
            tells: 0,
            held: None,
            counters: Counters::default(),
            geometry: *theirs,
            link: link.clone(),
        }
    }

    /// The next message, if one has come. Its memory goes back to the sender when it is dropped; that of a message of
    /// up to 256 octets when this side looks for the next one.
    // Whoever has it inlined makes the answer where it is used: moved, it is read by wider loads than it was written
    // by, which wait for all stores before them, those into the other side's lines too.
    #[inline(always)]
    pub fn try_receive(&mut self) -> Option<Message<'_>> {
        let (line, at) = self.next()?;
        Some(Message::new(self, line, at))
    }

    /// The next line that makes sense, and where its message is.
    #[inline(always)]
    fn next(&mut self) -> Option<(Line, usize)> {
        self.give_back_held();
        for _ in 0..MOST_NONSENSE {
            let Some(line) = self.ring.pop() else {
                if self.untold != 0 {
                    self.tell();
                }
                return None;
            };
            self.untold += 1;
            if self.untold >= TELL_EVERY {
                self.tell();
            }
            let at = match line.block {
                INLINE if line.octets as usize <= INLINE_OCTETS => Some(0),
                INLINE => None,
                first => self.geometry.message_at(first, line.octets),
            };
            match at {
                Some(at) if line.octets != 0 => return Some((line, at)),
                _ => self.counters.drop_one(DropReason::BadDescriptor),
            }
        }
        None
    }

    /// Gives back the blocks of a message. Of a short one they wait for the next look: an answer that is sent meanwhile
    /// would have to wait until the line of the return ring belongs to this core. Not from a sender that has few.
    #[inline]
    pub(super) fn give_back(&mut self, first: u32, octets: usize) {
        if octets > SHORT_OCTETS || self.geometry.blocks < FEW_BLOCKS {
            self.returns.push(first);
        } else if let Some(before) = self.held.replace(first) {
            self.returns.push(before);
        }
    }

    pub(super) fn memory(&self) -> Theirs {
        self.link.theirs.clone()
    }

    #[inline]
    fn give_back_held(&mut self) {
        if let Some(first) = self.held.take() {
            self.returns.push(first);
        }
    }

    /// Tells a sender that sleeps for want of room that there is some.
    fn tell(&mut self) {
        self.untold = 0;
        self.link.publish_processor_at_times(&mut self.tells);
        self.give_back_held();
        self.ring.publish();
        if self.waker.must_wake().is_some() {
            ring(&self.link.room);
        }
    }

    /// Waits for a message; `None` if `timeout` passes first. Looks for a while, then sleeps ([`Spin`]).
    ///
    /// # Errors
    /// The other side or the service has gone, and all that came before has been received.
    #[inline(always)]
    pub fn receive(&mut self, timeout: Option<Duration>) -> Result<Option<Message<'_>>, Gone> {
        let mut begun = None;
        while self.ring.has_line() || self.wait(timeout, &mut begun)? {
            if let Some((line, at)) = self.next() {
                return Ok(Some(Message::new(self, line, at)));
            }
            match self.is_over(timeout, &mut begun) {
                Ok(false) => {}
                // What came before that is there after it.
                over => {
                    return match self.try_receive() {
                        Some(message) => Ok(Some(message)),
                        None => over.map(|_| None),
                    };
                }
            }
        }
        Ok(None)
    }

    /// Whether a message has come, which may yet make no sense. Never blocks.
    #[inline]
    pub fn has_message(&mut self) -> bool {
        self.ring.has_line()
    }

    /// Waits until a message has come, and leaves it there; false if `timeout` passes first. What has come may yet make
    /// no sense.
    ///
    /// # Errors
    /// The other side or the service has gone, and all that came before has been received.
    #[inline]
    pub fn await_message(&mut self, timeout: Option<Duration>) -> Result<bool, Gone> {
        Ok(self.ring.has_line() || self.wait(timeout, &mut None)?)
    }

    /// After lines that made no sense: whether time is up for those that may follow, which can be as many as the sender
    /// likes.
    #[cold]
    fn is_over(&self, timeout: Option<Duration>, begun: &mut Option<Instant>) -> Result<bool, Gone> {
        self.link.alive()?;
        let begun = begun.get_or_insert_with(Instant::now);
        Ok(timeout.is_some_and(|timeout| begun.elapsed() >= timeout))
    }

    /// Waits for a line; false if `timeout` passes first. Notes when the first wait has begun.
    fn wait(&mut self, timeout: Option<Duration>, begun: &mut Option<Instant>) -> Result<bool, Gone> {
        let left = match begun {
            Some(begun) => timeout.map(|timeout| timeout.saturating_sub(begun.elapsed())),
            None => timeout,
        };
        begun.get_or_insert_with(Instant::now);
        self.tell();
        let Receiver { link, ring, sleeper, spin, .. } = self;
        link.wait(&link.messages, sleeper, *spin, left, Rest::Doze, || ring.has_line())
    }

    /// Whether the other side is still there.
    ///
    /// # Errors
    /// It is not.
    pub fn alive(&self) -> Result<(), Gone> {
        self.link.alive()
    }

    /// How to wait from now on.
    pub fn set_spin(&mut self, spin: Spin) {
        self.spin = spin;
    }

    /// What was received, and what made no sense.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Before a wait of the caller's own for [`Receiver::as_fd`]: asks to be woken. Receive once more afterwards;
    /// something may have come just before.
    pub fn arm(&mut self) {
        self.tell();
        if std::mem::take(&mut self.sleeper.rung) {
            // `disarm` tells of its end.
            let _ = drain(&self.link.messages);
        }
        self.sleeper.arm();
    }

    /// After such a wait.
    ///
    /// # Errors
    /// The other side has gone: from here on each wait for [`Receiver::as_fd`] would end at once.
    pub fn disarm(&mut self) -> Result<(), Gone> {
        self.sleeper.disarm();
        drain(&self.link.messages)
    }
}

impl AsFd for Receiver {
    /// Readable when a message has come after [`Receiver::arm`], or when the other side has gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.messages.as_fd()
    }
}

/// A message that has come.
#[derive(Debug)]
pub struct Message<'a> {
    receiver: &'a mut Receiver,
    octets: usize,
    block: u32,
    uu: u8,
    at: usize,
    inline: [u8; INLINE_OCTETS],
}

impl<'a> Message<'a> {
    #[inline(always)]
    fn new(receiver: &'a mut Receiver, line: Line, at: usize) -> Self {
        receiver.counters.pdus = receiver.counters.pdus.wrapping_add(1);
        receiver.counters.octets = receiver.counters.octets.wrapping_add(u64::from(line.octets));
        let mut inline = [0; INLINE_OCTETS];
        if line.block == INLINE {
            for (part, word) in inline.as_chunks_mut::<8>().0.iter_mut().zip(line.inline) {
                *part = word.to_ne_bytes();
            }
        }
        Message { octets: line.octets as usize, block: line.block, uu: line.uu, at, inline, receiver }
    }

    /// Its first block; `None` if its octets are private.
    #[inline]
    pub(super) fn shared_block(&self) -> Option<u32> {
        (self.block != INLINE).then_some(self.block)
    }

    /// Its octets, how many.
    #[allow(clippy::len_without_is_empty)] // A message has one octet at least.
    pub fn len(&self) -> usize {
        self.octets
    }

    /// AAL5's user-to-user indication.
    pub fn uu(&self) -> u8 {
        self.uu
    }

    #[inline]
    fn view(&self) -> Octets<'_> {
        if self.block == INLINE {
            return Octets::Private(&self.inline[..self.octets]);
        }
        let theirs = &self.receiver.link.theirs;
        Octets::Shared(theirs.octets(self.at, self.octets), theirs.words(self.at, self.octets))
    }

    /// What holds of its octets.
    pub fn guarantee(&self) -> Guarantee {
        self.view().guarantee()
    }

    /// Its octets, if they are private.
    // Not by way of the view, nor the next two: what is asked for before the octets are read keeps the reads of the
    // messages after this one from beginning, and each has to fetch a line from the sender's core.
    #[inline]
    pub fn private(&self) -> Option<&[u8]> {
        (self.block == INLINE).then(|| &self.inline[..self.octets])
    }

    /// Its octets as the sender's memory, if they are; to be loaded one by one.
    #[inline]
    pub fn shared(&self) -> Option<&[AtomicU8]> {
        (self.block != INLINE).then(|| self.receiver.link.theirs.octets(self.at, self.octets))
    }

    /// The same in words of eight octets in memory's order, whole ones only: the faster way to look at many.
    #[inline]
    pub fn shared_words(&self) -> Option<&[AtomicU64]> {
        (self.block != INLINE).then(|| self.receiver.link.theirs.words(self.at, self.octets))
    }

    /// Copies as many octets as `into` has and the message has; gives how many. Check the copy, not the message.
    pub fn copy_to(&self, into: &mut [u8]) -> usize {
        self.view().copy_to(into)
    }

    /// Copies, then compares: an error if the sender was seen to write meanwhile. The copy is the caller's own either
    /// way; without an error each octet of it was there at two moments, one before and one after all were copied.
    ///
    /// # Errors
    /// The sender writes what it has sent.
    pub fn checked_copy(&self, into: &mut [u8]) -> Result<usize, Changed> {
        self.view().checked_copy(into)
    }

    /// A copy of the whole.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut octets = vec![0; self.octets];
        self.copy_to(&mut octets);
        octets
    }
}

impl Drop for Message<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.block != INLINE {
            self.receiver.give_back(self.block, self.octets);
        }
    }
}
