//! The rings of a direct circuit and the rule for sleeping, over any memory of lines.
//!
//! A line is valid when its sequence number is the one that its reader expects next; the writer stores it last, with
//! release, and the reader loads it first, with acquire. The writer reuses a line when the reader's published count has
//! passed it. What the other side writes is a hint: a count is believed if it lies between what was seen and what was
//! sent, and a line is copied once and checked by whoever uses it.
//!
//! These types are generic over the memory so that loom can explore them (`tests` below).

use super::layout::{BLOCK_WORD, DOZES, INLINE, INLINE_OCTETS, INLINE_WORD, RETURNS_PER_LINE, SEQUENCE_WORD};
use crate::sync::{Ordering, fence};

/// Memory that can be read in words, eight to a line.
pub trait ReadLines {
    /// A word.
    fn load(&self, line: usize, word: usize, order: Ordering) -> u64;
}

/// Memory that can be written too.
pub trait WriteLines: ReadLines {
    /// Writes a word.
    fn store(&self, line: usize, word: usize, value: u64, order: Ordering);

    /// Says that a line will be written soon: the processor may make it its own meanwhile. Changes nothing.
    #[inline]
    fn claim(&self, _line: usize) {}
}

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Octets of the message.
    pub octets: u32,
    /// Its first block, or [`INLINE`].
    pub block: u32,
    /// User-to-user indication.
    pub uu: u8,
    /// The message, if it is here.
    pub inline: [u64; INLINE_OCTETS / 8],
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// The side that sends lines.
#[derive(Debug)]
pub struct LineProducer<O, T> {
    ours: O,
    theirs: T,
    first_line: usize,
    consumed_line: usize,
    slots: u32,
    sent: u32,
    consumed: u32,
}

impl<O: WriteLines, T: ReadLines> LineProducer<O, T> {
    /// The sending side of a fresh ring of `slots` lines (a power of two) from `first_line` of our memory; the other
    /// side publishes what it has consumed in `consumed_line` of its own.
    pub fn new(ours: O, theirs: T, first_line: usize, slots: u32, consumed_line: usize) -> Self {
        LineProducer { ours, theirs, first_line, consumed_line, slots, sent: 0, consumed: 0 }
    }

    /// How many lines may be sent now, as far as was seen; looks again if that is none.
    #[inline]
    pub fn room(&mut self) -> u32 {
        if self.sent.wrapping_sub(self.consumed) >= self.slots {
            self.look();
        }
        self.slots - self.sent.wrapping_sub(self.consumed)
    }

    /// Claims the next line: see [`WriteLines::claim`].
    #[inline]
    pub fn claim(&self) {
        self.ours.claim(self.first_line + (self.sent & (self.slots - 1)) as usize);
    }

    fn look(&mut self) {
        let consumed = self.theirs.load(self.consumed_line, 0, Ordering::Acquire) as u32;
        // Believed only if it lies between what was seen and what was sent.
        if self.sent.wrapping_sub(consumed) <= self.sent.wrapping_sub(self.consumed) {
            self.consumed = consumed;
        }
    }

    /// Sends a line; false if the ring is full. `inline` is in the line's message, as many words as `octets` needs, if
    /// `block` is [`INLINE`].
    #[inline(always)]
    pub fn push(&mut self, octets: u32, block: u32, uu: u8, inline: &[u8]) -> bool {
        if self.room() == 0 {
            return false;
        }
        let line = self.first_line + (self.sent & (self.slots - 1)) as usize;
        self.sent = self.sent.wrapping_add(1);
        self.ours.store(line, BLOCK_WORD, pair(block, u32::from(uu)), Ordering::Relaxed);
        let (words, rest) = inline.as_chunks::<8>();
        for (i, word) in words.iter().take(INLINE_OCTETS / 8).enumerate() {
            self.ours.store(line, INLINE_WORD + i, u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        if !rest.is_empty() && words.len() < INLINE_OCTETS / 8 {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.ours.store(line, INLINE_WORD + words.len(), u64::from_ne_bytes(last), Ordering::Relaxed);
        }
        self.ours.store(line, SEQUENCE_WORD, pair(self.sent, octets), Ordering::Release);
        true
    }
}

/// The side that receives lines.
#[derive(Debug)]
pub struct LineConsumer<O, T> {
    ours: O,
    theirs: T,
    first_line: usize,
    consumed_line: usize,
    slots: u32,
    taken: u32,
    published: u32,
}

impl<O: WriteLines, T: ReadLines> LineConsumer<O, T> {
    /// The receiving side of a fresh ring of `slots` lines from `first_line` of the other side's memory; what is
    /// consumed is published in `consumed_line` of ours.
    pub fn new(ours: O, theirs: T, first_line: usize, slots: u32, consumed_line: usize) -> Self {
        LineConsumer { ours, theirs, first_line, consumed_line, slots, taken: 0, published: 0 }
    }

    /// Whether a line waits.
    #[inline]
    pub fn has_line(&self) -> bool {
        let line = self.first_line + (self.taken & (self.slots - 1)) as usize;
        self.theirs.load(line, SEQUENCE_WORD, Ordering::Acquire) as u32 == self.taken.wrapping_add(1)
    }

    /// Takes the next line, if it has come. An empty ring, or a quarter of it taken, is told to the sender.
    // As `Receiver::try_receive`.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Line> {
        let line = self.first_line + (self.taken & (self.slots - 1)) as usize;
        let sequence = self.theirs.load(line, SEQUENCE_WORD, Ordering::Acquire);
        let next = self.taken.wrapping_add(1);
        if sequence as u32 != next {
            self.publish();
            return None;
        }
        let block = self.theirs.load(line, BLOCK_WORD, Ordering::Relaxed);
        let mut inline = [0; INLINE_OCTETS / 8];
        if block as u32 == INLINE {
            for (i, word) in inline.iter_mut().enumerate() {
                *word = self.theirs.load(line, INLINE_WORD + i, Ordering::Relaxed);
            }
        }
        self.taken = next;
        if next.wrapping_sub(self.published) >= self.slots / 4 {
            self.publish();
        }
        Some(Line { octets: (sequence >> 32) as u32, block: block as u32, uu: (block >> 32) as u8, inline })
    }

    /// Tells the sender how far this side is.
    pub fn publish(&mut self) {
        if self.published != self.taken {
            self.published = self.taken;
            self.ours.store(self.consumed_line, 0, u64::from(self.taken), Ordering::Release);
        }
    }
}

/// The side that gives blocks back.
///
/// It may run past the other side's reading: each block can be away once only, and the ring has an entry for each. A
/// sender that says otherwise loses entries of its own.
#[derive(Debug)]
pub struct ReturnProducer<O> {
    ours: O,
    first_line: usize,
    entries: u32,
    returned: u32,
}

impl<O: WriteLines> ReturnProducer<O> {
    /// A fresh return ring of `entries` (a power of two, at least 8) from `first_line` of our memory.
    pub fn new(ours: O, first_line: usize, entries: u32) -> Self {
        ReturnProducer { ours, first_line, entries, returned: 0 }
    }

    /// Claims the line of the next entry. What follows a return waits for it, and the other side read this line a lap
    /// ago.
    #[inline(never)]
    fn claim(&self) {
        let at = (self.returned & (self.entries - 1)) as usize;
        self.ours.claim(self.first_line + at / RETURNS_PER_LINE);
    }

    /// Gives back the blocks of the message that begins with `block`.
    #[inline]
    pub fn push(&mut self, block: u32) {
        let at = (self.returned & (self.entries - 1)) as usize;
        self.returned = self.returned.wrapping_add(1);
        let (line, word) = (self.first_line + at / RETURNS_PER_LINE, at % RETURNS_PER_LINE);
        // Release: what was read from the blocks was read before this.
        self.ours.store(line, word, pair(self.returned, block), Ordering::Release);
        if word == RETURNS_PER_LINE - 1 {
            self.claim();
        }
    }
}

/// The side whose blocks come back.
#[derive(Debug)]
pub struct ReturnConsumer<T> {
    theirs: T,
    first_line: usize,
    entries: u32,
    seen: u32,
}

impl<T: ReadLines> ReturnConsumer<T> {
    /// The reading side of a fresh return ring.
    pub fn new(theirs: T, first_line: usize, entries: u32) -> Self {
        ReturnConsumer { theirs, first_line, entries, seen: 0 }
    }

    /// How many entries are left in the line that is read next.
    #[inline]
    pub fn left_in_line(&self) -> u32 {
        RETURNS_PER_LINE as u32 - self.seen % RETURNS_PER_LINE as u32
    }

    /// The next block that came back, whatever the other side wrote there.
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        let at = (self.seen & (self.entries - 1)) as usize;
        let entry = self.theirs.load(self.first_line + at / RETURNS_PER_LINE, at % RETURNS_PER_LINE, Ordering::Acquire);
        let next = self.seen.wrapping_add(1);
        if entry as u32 != next {
            return None;
        }
        self.seen = next;
        Some((entry >> 32) as u32)
    }
}

/// Says that this side goes to sleep.
#[derive(Debug)]
pub struct Sleeper<O> {
    ours: O,
    line: usize,
    sleeps: u64,
    /// Its bell has been rung and not been emptied since.
    pub(super) rung: bool,
}

impl<O: WriteLines> Sleeper<O> {
    /// Awake; `line` of our memory says so.
    pub fn new(ours: O, line: usize) -> Self {
        Sleeper { ours, line, sleeps: 0, rung: false }
    }

    /// Before a sleep. Look at the ring once more afterwards: what came before this is not rung for.
    pub fn arm(&mut self) {
        self.say(0);
    }

    /// The same before a doze: look at the other side's count of wake-ups before this.
    pub fn arm_doze(&mut self) {
        self.say(DOZES);
    }

    fn say(&mut self, how: u64) {
        self.sleeps += 1;
        self.ours.store(self.line, 0, self.sleeps | how, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// After it.
    pub fn disarm(&mut self) {
        self.ours.store(self.line, 0, 0, Ordering::Relaxed);
    }
}

/// How the other side is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// By ringing its bell.
    Bell,
    /// It dozes: by a count that it watches.
    Count,
}

/// Knows whether the other side has to be woken.
#[derive(Debug)]
pub struct Waker<T> {
    theirs: T,
    line: usize,
    rung: u64,
}

impl<T: ReadLines> Waker<T> {
    /// `line` of the other side's memory says whether it sleeps.
    pub fn new(theirs: T, line: usize) -> Self {
        Waker { theirs, line, rung: 0 }
    }

    /// How to wake the other side, if it sleeps: once for each sleep, for what was written before this.
    #[inline]
    pub fn must_wake(&mut self) -> Option<Wake> {
        fence(Ordering::SeqCst);
        let sleep = self.theirs.load(self.line, 0, Ordering::Relaxed);
        if sleep == 0 || sleep == self.rung {
            return None;
        }
        self.rung = sleep;
        Some(if sleep & DOZES == 0 { Wake::Bell } else { Wake::Count })
    }
}
