//! The overlap policy *fault on write* (Traw and Smith, 1993): an application sends from its memory, goes on, and is
//! stopped only if it writes there before the host has taken the SDU.
//!
//! [`Endpoint::send_guarded`] write-protects the memory's pages (userfaultfd, user-mode faults only, which needs no
//! privilege since Linux 5.11). The first write waits in a fault until the SDU has been taken: a thread of this module
//! sees to it. Where the machine forbids userfaultfd, sending waits until the SDU has been taken (*block*), and
//! [`Guarded::why_not`] says why.
//!
//! A sender that may have to send again holds its memory longer, until the far end has acknowledged
//! ([`Endpoint::send_held`]).

use crate::ChannelId;
use crate::app_memory::Memory;
use crate::client::{Endpoint, Error, SendError};
use crate::segment::Segment;
use crate::uffd::WriteFaults;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const PAGE: usize = 4096;
/// How often the keeper looks whether an SDU has been taken, while somebody waits to write.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000 };

/// How an SDU is kept from changing on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// Sending returns when the host has taken the SDU.
    Block,
    /// Sending returns at once; a write to the memory waits.
    FaultOnWrite,
    /// Sending returns at once; a write to the memory gets a copy of its page ([`crate::window`]).
    CopyOnWrite,
}

#[derive(Debug)]
struct Keeper {
    faults: WriteFaults,
    start: u64,
    octets: u64,
    /// What the host's index must reach before writes go on.
    until: AtomicU32,
    /// Writes that had to wait.
    waited: AtomicU64,
    held: Arc<Held>,
    segment: Arc<Segment>,
    /// The connection to the service: when it ends, nobody waits for the host any more.
    connection: OwnedFd,
    stop: OwnedFd,
}

/// The number of the hold that is in force, or 0.
#[derive(Debug, Default)]
struct Held(AtomicU64);

impl Held {
    fn is(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }
}

/// Keeps guarded memory from being written until the far end has acknowledged what was sent from it. Whoever hears of
/// that, in another thread than the one that writes, calls [`Hold::acknowledge`] or drops it.
#[derive(Debug)]
#[must_use = "dropped, it lets writes go on"]
pub struct Hold {
    held: Arc<Held>,
    number: u64,
}

impl Hold {
    /// The far end has it: writes go on as soon as the host has taken the SDU too.
    pub fn acknowledge(self) {}
}

impl Drop for Hold {
    fn drop(&mut self) {
        // A later hold stays in force.
        let _ = self.held.0.compare_exchange(self.number, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Registered memory whose owner may go on writing while an SDU is sent from it.
#[derive(Debug)]
pub struct Guarded {
    memory: Memory,
    held: Arc<Held>,
    holds: u64,
    keeper: Option<(Arc<Keeper>, Option<JoinHandle<()>>)>,
    why_not: Option<String>,
}

impl Keeper {
    fn new(
        memory: &Memory,
        octets: usize,
        endpoint: &Endpoint,
        held: Arc<Held>,
    ) -> Result<Self, (&'static str, Errno)> {
        let faults = WriteFaults::open()?;
        let (start, octets) = (memory.address(), octets as u64);
        faults.register(start, octets).map_err(|e| ("write protection of this memory by userfaultfd", e))?;
        let other = |e| ("a descriptor", e);
        Ok(Keeper {
            faults,
            start,
            octets,
            until: AtomicU32::new(0),
            waited: AtomicU64::new(0),
            held,
            segment: endpoint.pool.segment.clone(),
            connection: rustix::io::fcntl_dupfd_cloexec(endpoint.control(), 0).map_err(other)?,
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(other)?,
        })
    }

    fn protect(&self, protects: bool) -> Result<(), Errno> {
        self.faults.protect(self.start, self.octets, protects)
    }

    /// Whether the host has taken the SDU, and nobody holds it.
    fn is_free(&self) -> bool {
        self.is_taken() && !self.held.is()
    }

    fn is_taken(&self) -> bool {
        let taken = self.segment.word32(self.segment.geometry().send_at()).load(Ordering::Acquire);
        taken.wrapping_sub(self.until.load(Ordering::Acquire)) < 1 << 31
    }

    /// Answers faults until told to stop.
    fn run(&self) {
        loop {
            let mut fds = [PollFd::new(&self.faults, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if !fds[1].revents().is_empty() {
                return;
            }
            if self.faults.next().is_none() {
                continue;
            }
            if !self.is_free() {
                self.waited.fetch_add(1, Ordering::Relaxed);
            }
            while !self.is_free() {
                let mut fds = [PollFd::new(&self.connection, PollFlags::empty())];
                // Hung up: the host is gone, and reads nothing any more.
                if poll(&mut fds, Some(&LOOK)).is_ok_and(|n| n > 0) {
                    break;
                }
            }
            // This also wakes whoever waits in a fault there.
            let _ = self.protect(false);
        }
    }
}

impl Guarded {
    /// How it is kept.
    pub fn overlap(&self) -> Overlap {
        if self.keeper.is_some() { Overlap::FaultOnWrite } else { Overlap::Block }
    }

    /// Why it is not by faults.
    pub fn why_not(&self) -> Option<&str> {
        self.why_not.as_deref()
    }

    /// How many writes have waited for the host.
    pub fn waits(&self) -> u64 {
        self.keeper.as_ref().map_or(0, |(keeper, _)| keeper.waited.load(Ordering::Relaxed))
    }
}

impl Deref for Guarded {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory
    }
}

impl DerefMut for Guarded {
    /// Without faults this waits for the acknowledgement instead of the first write.
    fn deref_mut(&mut self) -> &mut [u8] {
        while self.keeper.is_none() && self.held.is() {
            std::thread::sleep(Duration::from_nanos(LOOK.tv_nsec as u64));
        }
        &mut self.memory
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.held.0.store(0, Ordering::Release);
        let Some((keeper, thread)) = &mut self.keeper else { return };
        let _ = rustix::io::write(&keeper.stop, &1u64.to_ne_bytes());
        if let Some(thread) = thread.take() {
            let _ = thread.join();
        }
        let _ = keeper.protect(false);
    }
}

impl Endpoint {
    /// Registered memory of `octets` octets to send from by [`Endpoint::send_guarded`].
    ///
    /// # Errors
    /// The service refuses, or there is no memory. That the machine forbids faults is no error: [`Guarded::why_not`].
    pub fn guarded(&mut self, octets: usize) -> Result<Guarded, Error> {
        let whole = octets.max(1).next_multiple_of(PAGE);
        let memory = self.register(1, octets)?.pop().ok_or(Error::from(Errno::NOMEM))?;
        let held = Arc::new(Held::default());
        let keeper = match Keeper::new(&memory, whole, self, held.clone()) {
            Ok(keeper) => keeper,
            Err((what, e)) => {
                let why = format!(
                    "{what} is forbidden here ({e}): sending waits until the host has taken the SDU (a container's seccomp \
                     profile may have to allow userfaultfd; Linux 5.19 or newer is needed)"
                );
                return Ok(Guarded { memory, held, holds: 0, keeper: None, why_not: Some(why) });
            }
        };
        let keeper = Arc::new(keeper);
        let answers = keeper.clone();
        let thread = std::thread::Builder::new().name("guard".into()).spawn(move || answers.run());
        let thread = thread.map_err(|_| Error::from(Errno::AGAIN))?;
        Ok(Guarded { memory, held, holds: 0, keeper: Some((keeper, Some(thread))), why_not: None })
    }

    /// Sends the first `octets` octets of guarded memory.
    ///
    /// # Errors
    /// The ring is full, or the length cannot be.
    pub fn send_guarded(&mut self, channel: ChannelId, memory: &mut Guarded, octets: usize) -> Result<(), SendError> {
        let octets = octets.min(memory.len() + 1);
        let address = memory.memory.address();
        self.check_guarded(channel, memory, octets)?;
        let mut protected = Ok(());
        if let Some((keeper, _)) = &memory.keeper {
            // Before it is pushed: until then the keeper lets no write through.
            keeper.until.store(self.send.pushed().wrapping_add(1), Ordering::Release);
            protected = keeper.protect(true).map_err(|_| SendError::Full);
        }
        match protected.and_then(|()| self.push_own(channel, address, octets, memory.len())) {
            Ok(()) => self.outstanding.sending.push_back(crate::app_memory::Sent::Borrowed),
            Err(e) => {
                if let Some((keeper, _)) = &memory.keeper {
                    keeper.until.store(self.send.pushed(), Ordering::Release);
                    // An earlier SDU from this memory may be on its way yet, or held: then the first write waits for
                    // that.
                    if keeper.is_free() {
                        let _ = keeper.protect(false);
                    }
                }
                return Err(e);
            }
        }
        if memory.keeper.is_none() {
            // A service that has gone takes nothing any more, and reads nothing either.
            let _ = self.wait_sent(None);
        }
        Ok(())
    }

    /// Sends as [`Endpoint::send_guarded`] does, and holds the memory until the far end has acknowledged: what is sent
    /// from it again meanwhile is what was sent first. A hold that was there before ends.
    ///
    /// # Errors
    /// The ring is full, or the length cannot be; then no more is held than before.
    pub fn send_held(&mut self, channel: ChannelId, memory: &mut Guarded, octets: usize) -> Result<Hold, SendError> {
        self.check_guarded(channel, memory, octets)?;
        memory.holds += 1;
        let hold = Hold { held: memory.held.clone(), number: memory.holds };
        // Before it is pushed, as the guard.
        memory.held.0.store(hold.number, Ordering::Release);
        self.send_guarded(channel, memory, octets)?;
        Ok(hold)
    }

    /// Whether so many octets of guarded memory can be sent now. Of memory that is on its way nothing is touched before
    /// that.
    fn check_guarded(&mut self, channel: ChannelId, memory: &Guarded, octets: usize) -> Result<(), SendError> {
        self.check_own(octets, memory.len())?;
        if self.may_push(channel) { Ok(()) } else { Err(SendError::Full) }
    }

    fn control(&self) -> impl AsFd + '_ {
        self.connection.control()
    }
}
