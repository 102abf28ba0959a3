//! The half of a direct circuit that sends: blocks are loaned, filled in place and given away.

use super::layout::{CONSUMED_LINE, DirectGeometry, INLINE, INLINE_OCTETS, LINE_OCTETS, RETURNS_PER_LINE, RING_LINE};
use super::layout::{SHORT_OCTETS, SLEEPS_LINE, WAITS_LINE, WAKES_WORD};
use super::link::{Gone, Link, Rest, ring};
use super::memory::{Ours, Theirs};
use super::pool::Pool;
use super::ring::{LineProducer, ReturnConsumer, Sleeper, Wake, Waker, WriteLines as _};
use super::spin::Spin;
use crate::client::SendError;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// Loans between two looks at what came back, as far as blocks last: one line of the return ring has eight.
const RECLAIM_EVERY: u32 = 16;
/// The receiver tells of room without being asked twice only now and then, so a sender without room looks again by
/// itself.
const NAP: Duration = Duration::from_millis(1);

/// Sends. One thread at a time.
#[derive(Debug)]
pub struct Sender {
    link: Arc<Link>,
    geometry: DirectGeometry,
    ring: LineProducer<Ours, Theirs>,
    returns: ReturnConsumer<Theirs>,
    pool: Pool,
    waker: Waker<Theirs>,
    sleeper: Sleeper<Ours>,
    spin: Spin,
    loans: u32,
    rings: u32,
    forged: u64,
}

impl Sender {
    pub(crate) fn new(link: &Arc<Link>, ours: &DirectGeometry, theirs: &DirectGeometry, spin: Spin) -> Self {
        let (o, t) = (|| link.ours.clone(), || link.theirs.clone());
        Sender {
            ring: LineProducer::new(o(), t(), RING_LINE, ours.ring, CONSUMED_LINE),
            returns: ReturnConsumer::new(t(), theirs.returns_line(), theirs.returns),
            pool: Pool::new(ours.blocks),
            waker: Waker::new(t(), SLEEPS_LINE),
            sleeper: Sleeper::new(o(), WAITS_LINE),
            spin,
            loans: 0,
            rings: 0,
            forged: 0,
            geometry: *ours,
            link: link.clone(),
        }
    }

    #[cfg(test)]
    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// Sends a line of 0 octets, and wakes who sleeps.
    #[cfg(test)]
    pub(super) fn send_nonsense(&mut self) {
        self.ring.push(0, INLINE, 0, &[]);
        self.ring_bell();
    }

    /// Longest message.
    pub fn max_octets(&self) -> usize {
        self.geometry.max_message_octets()
    }

    /// Memory to fill and send, of `octets` octets and more; `None` if no blocks are free ([`Sender::wait_room`]).
    // As `Endpoint::try_receive`: moved, a loan is read by wider loads than it was written by.
    #[inline(always)]
    pub fn loan(&mut self, octets: usize) -> Option<Loan<'_>> {
        let block_octets = self.geometry.block_octets as usize;
        // The usual case without a division.
        let run = if octets <= block_octets { 1 } else { octets.div_ceil(block_octets) };
        let run = u32::try_from(run).ok()?;
        self.loans = self.loans.saturating_add(1);
        let first = match self.pool.take(run) {
            Some(first) => first,
            None => {
                self.reclaim();
                self.pool.take(run)?
            }
        };
        let at = self.geometry.message_at(first, 0)?;
        if octets <= SHORT_OCTETS {
            // All that a send will write, asked for at once instead of one after another.
            self.ring.claim();
            for line in 0..octets.div_ceil(LINE_OCTETS) {
                self.link.ours.claim(at / LINE_OCTETS + line);
            }
        }
        let memory = self.link.ours.octets(at, run as usize * block_octets);
        Some(Loan { sender: self, first, memory })
    }

    pub(super) fn memory(&self) -> Ours {
        self.link.ours.clone()
    }

    /// A loan that was taken and is neither sent nor given back.
    #[inline]
    pub(super) fn kept_loan(&mut self, first: u32) -> Option<Loan<'_>> {
        let run = self.pool.loaned(first)? as usize;
        let at = self.geometry.message_at(first, 0)?;
        let memory = self.link.ours.octets(at, run * self.geometry.block_octets as usize);
        Some(Loan { sender: self, first, memory })
    }

    /// Takes back the blocks that the other side is done with.
    pub fn reclaim(&mut self) {
        // Each block comes back once; a hostile peer could go on for ever.
        self.reclaim_up_to(self.geometry.blocks);
    }

    /// The same, but not beyond the next line of the return ring: who looks at a line takes it from who writes it.
    fn reclaim_line(&mut self) {
        self.reclaim_up_to(self.returns.left_in_line() + RETURNS_PER_LINE as u32);
    }

    fn reclaim_up_to(&mut self, most: u32) {
        for _ in 0..most {
            let Some(block) = self.returns.pop() else { return };
            if !self.pool.returned(block) {
                self.forged = self.forged.wrapping_add(1);
            }
        }
    }

    /// Sends a copy of `message`: inside the line if it has 40 octets at most, else in a loan.
    ///
    /// # Errors
    /// No room, or the length cannot be.
    #[inline]
    pub fn send_copy(&mut self, message: &[u8]) -> Result<(), SendError> {
        self.post_copy(message)?;
        self.ring_bell();
        Ok(())
    }

    /// As [`Sender::send_copy`], but a receiver that sleeps is not woken before [`Sender::ring_bell`]: for many in a
    /// row.
    ///
    /// # Errors
    /// No room, or the length cannot be.
    #[inline]
    pub fn post_copy(&mut self, message: &[u8]) -> Result<(), SendError> {
        if message.len() > INLINE_OCTETS {
            return self.post_long(message);
        }
        if message.is_empty() {
            return Err(SendError::Empty);
        }
        if self.ring.push(message.len() as u32, INLINE, 0, message) { Ok(()) } else { Err(SendError::Full) }
    }

    fn post_long(&mut self, message: &[u8]) -> Result<(), SendError> {
        if message.len() > self.max_octets() {
            return Err(SendError::TooLong { octets: message.len(), buffer_octets: self.max_octets() });
        }
        let mut loan = self.loan(message.len()).ok_or(SendError::Full)?;
        loan[..message.len()].copy_from_slice(message);
        loan.post(message.len()).map_err(|(e, _)| e)
    }

    /// Wakes the receiver if it sleeps and there is something that it was not woken for.
    #[inline]
    pub fn ring_bell(&mut self) {
        match self.waker.must_wake() {
            None => {}
            Some(Wake::Count) => self.link.ours.wake(CONSUMED_LINE, WAKES_WORD),
            Some(Wake::Bell) => ring(&self.link.messages),
        }
        self.link.publish_processor_at_times(&mut self.rings);
        // Here rather than before a loan: while the message is on its way, nobody waits for this.
        if self.loans >= RECLAIM_EVERY {
            self.loans = 0;
            self.reclaim_line();
        }
    }

    /// How many messages fit the ring now.
    pub fn room(&mut self) -> usize {
        self.ring.room() as usize
    }

    /// Blocks that the other side has.
    pub fn away_blocks(&mut self) -> u32 {
        self.reclaim();
        self.pool.away()
    }

    /// Returns that were none: blocks that the other side did not have. An honest peer makes none.
    pub fn forged_returns(&self) -> u64 {
        self.forged
    }

    /// Waits until there is room in the ring and blocks for `octets`; false if `timeout` passes first.
    ///
    /// # Errors
    /// The other side or the service has gone. Blocks that a dead peer had are free again then.
    pub fn wait_room(&mut self, octets: usize, timeout: Option<Duration>) -> Result<bool, Gone> {
        let run = if octets <= INLINE_OCTETS { 0 } else { octets.div_ceil(self.geometry.block_octets as usize) as u32 };
        self.ring_bell();
        let Sender { link, ring, returns, pool, sleeper, spin, forged, geometry, .. } = self;
        let ready = || {
            for _ in 0..geometry.blocks {
                match returns.pop() {
                    Some(block) => *forged += u64::from(!pool.returned(block)),
                    None => break,
                }
            }
            let fits = run == 0 || pool.take(run).inspect(|first| pool.give_back(*first)).is_some();
            fits && ring.room() > 0
        };
        let waited = link.wait(&link.room, sleeper, *spin, timeout, Rest::Nap(NAP), ready);
        if waited == Err(Gone::Peer) {
            pool.reclaim_all();
        }
        waited
    }

    /// Whether the other side is still there; blocks that a dead peer had are free again.
    ///
    /// # Errors
    /// It is not.
    pub fn alive(&mut self) -> Result<(), Gone> {
        self.link.alive().inspect_err(|gone| {
            if *gone == Gone::Peer {
                self.reclaim();
                self.pool.reclaim_all();
            }
        })
    }
}

/// Blocks that are the application's to fill. Sending gives them away; dropping gives them back.
#[derive(Debug)]
pub struct Loan<'a> {
    sender: &'a mut Sender,
    first: u32,
    memory: NonNull<[u8]>,
}

// SAFETY: the memory is this loan's alone, as an exclusive slice would be, and its mapping lives as long as the sender.
unsafe impl Send for Loan<'_> {}

impl<'a> Loan<'a> {
    /// Sends the first `octets` octets and wakes a receiver that sleeps.
    ///
    /// # Errors
    /// The ring is full, or the length cannot be: the loan comes back.
    #[inline]
    pub fn send(self, octets: usize) -> Result<(), (SendError, Loan<'a>)> {
        self.give(octets, 0).map(Sender::ring_bell)
    }

    /// Sends, with AAL5's user-to-user indication.
    ///
    /// # Errors
    /// As [`Loan::send`].
    pub fn send_uu(self, octets: usize, uu: u8) -> Result<(), (SendError, Loan<'a>)> {
        self.give(octets, uu).map(Sender::ring_bell)
    }

    /// Sends without waking anybody before [`Sender::ring_bell`]: for many in a row.
    ///
    /// # Errors
    /// As [`Loan::send`].
    #[inline]
    pub fn post(self, octets: usize) -> Result<(), (SendError, Loan<'a>)> {
        self.give(octets, 0).map(|_| ())
    }

    /// Its first block.
    #[inline]
    pub(super) fn first_block(&self) -> u32 {
        self.first
    }

    #[inline(always)]
    fn give(self, octets: usize, uu: u8) -> Result<&'a mut Sender, (SendError, Loan<'a>)> {
        let buffer_octets = self.memory.len();
        if octets == 0 || octets > buffer_octets {
            let e = if octets == 0 { SendError::Empty } else { SendError::TooLong { octets, buffer_octets } };
            return Err((e, self));
        }
        if !self.sender.ring.push(octets as u32, self.first, uu, &[]) {
            return Err((SendError::Full, self));
        }
        self.sender.pool.sent(self.first);
        let loan = std::mem::ManuallyDrop::new(self);
        // SAFETY: the loan is not used or dropped any more, so the exclusive reference is moved out of it, once.
        Ok(unsafe { std::ptr::read(&raw const loan.sender) })
    }
}

impl Deref for Loan<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the pool gave these blocks to this loan alone; the other side cannot write them; the mapping lives as
        // long as the sender that this borrows.
        unsafe { self.memory.as_ref() }
    }
}

impl DerefMut for Loan<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, under an exclusive borrow.
        unsafe { self.memory.as_mut() }
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.sender.pool.give_back(self.first);
    }
}
