//! The machine's limits between two cores: a cache line to and fro, an eventfd to and fro, and how fast one core can write
//! what the other reads.

use super::pipes::{Pipe, sum_octets};
use anyhow::{Context as _, Result, bail};
use endpoint::direct::DirectGeometry;
use endpoint::direct::memory::{Ours, Theirs};
use endpoint::direct::ring::{ReadLines, WriteLines};
use rustix::fd::OwnedFd;
use std::hint::spin_loop;
use std::sync::atomic::Ordering;

/// Memory of each side for the limits: a line to say how far it is, and slots.
pub(super) const GEOMETRY: DirectGeometry = DirectGeometry { ring: 8, returns: 8, blocks: 16, block_octets: 65_600 };
/// Looks before the other process is taken for dead: many seconds.
const MOST_LOOKS: u64 = 1 << 34;
const LINE: usize = 1;

/// A counter in a cache line of each side's own; with `slots`, memory written by one and read by the other beside it.
pub(super) struct LinePipe {
    ours: Ours,
    theirs: Theirs,
    sent: u64,
    received: u64,
    /// Octets written and read for each message, in slots one after another, so many on their way at most.
    slots: usize,
}

impl LinePipe {
    pub(super) fn new(ours: Ours, theirs: Theirs, slots: usize) -> Self {
        LinePipe { ours, theirs, sent: 0, received: 0, slots }
    }

    fn await_line(&self, least: u64) -> Result<()> {
        for _ in 0..MOST_LOOKS {
            if self.theirs.load(LINE, 0, Ordering::Acquire) >= least {
                return Ok(());
            }
            spin_loop();
        }
        bail!("the other process does not answer")
    }
}

impl Pipe for LinePipe {
    fn send(&mut self, octets: usize, value: u8) -> Result<()> {
        if self.slots > 0 {
            // Back from the other side's counter: how many it has read.
            if self.sent >= self.slots as u64 {
                self.await_line(self.sent + 1 - self.slots as u64)?;
            }
            let at = GEOMETRY.message_at((self.sent % self.slots as u64) as u32, octets as u32).context("a slot")?;
            let memory = self.ours.as_mut_octets().context("memory in use")?;
            memory[at..at + octets].fill(value);
        }
        self.sent += 1;
        self.ours.store(LINE, 0, self.sent, Ordering::Release);
        Ok(())
    }

    fn receive(&mut self, octets: usize) -> Result<u64> {
        self.received += 1;
        self.await_line(self.received)?;
        if self.slots == 0 {
            return Ok(self.received);
        }
        let at = (self.received - 1) % self.slots as u64;
        let at = GEOMETRY.message_at(at as u32, octets as u32).context("a slot")?;
        let sum =
            self.theirs.shared_words(at, octets).iter().fold(0u64, |s, w| s.wrapping_add(w.load(Ordering::Relaxed)));
        self.ours.store(LINE, 0, self.received, Ordering::Release);
        Ok(sum)
    }
}

/// An eventfd each way, blocking.
pub(super) struct EventPipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl EventPipe {
    pub(super) fn new(out: OwnedFd, into: OwnedFd) -> Self {
        EventPipe { out, into }
    }
}

impl Pipe for EventPipe {
    fn send(&mut self, _: usize, _: u8) -> Result<()> {
        rustix::io::write(&self.out, &1u64.to_ne_bytes())?;
        Ok(())
    }

    fn receive(&mut self, _: usize) -> Result<u64> {
        let mut count = [0; 8];
        rustix::io::read(&self.into, &mut count)?;
        Ok(sum_octets(&count))
    }
}
