//! How an application learns of an SDU or of room: by looking, by sleeping, or by a descriptor for a poll of its own; and
//! how it wakes the host.

use super::{Endpoint, Error, Received};
use crate::control::Events;
use crate::layout::{CLIENT_SLEEPS, HOST_RESTS, HOST_SLEEPS};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Looks at a ring this often before a caller that waits goes to sleep.
const SPINS: u32 = 2_000;
/// A caller that never sleeps looks this often before it asks whether the service is still there.
const SPINS_AWAKE: u32 = 100_000;

impl Endpoint {
    pub(super) fn wake_host_if_asleep(&self) {
        // The push must be visible before the flag is read: else host and client could each see the other's old state.
        fence(Ordering::SeqCst);
        let flag = self.pool.segment.word32(HOST_SLEEPS);
        if flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::AcqRel) != 0 {
            let _ = rustix::io::write(&self.wake_host, &1u64.to_ne_bytes());
        }
    }

    /// The next SDU, if one has arrived.
    pub fn try_receive(&mut self) -> Option<Received<'_>> {
        let descriptor = self.receive.pop()?;
        Some(Received { endpoint: self, descriptor })
    }

    /// Waits for an SDU; `None` if `timeout` passes first. Spins a little, then sleeps.
    ///
    /// # Errors
    /// The service has gone.
    pub fn receive(&mut self, timeout: Option<Duration>) -> Result<Option<Received<'_>>, Error> {
        if self.wait(timeout, |e| e.receive.waiting() > 0)? { Ok(self.try_receive()) } else { Ok(None) }
    }

    /// Waits until a buffer and a place in the send ring are free, for the channel that was refused last too; false if
    /// `timeout` passes first.
    ///
    /// # Errors
    /// The service has gone.
    pub fn wait_send(&mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        self.wait(timeout, |e| {
            e.reclaim();
            !e.idle.is_empty() && e.send.room() > 0 && !e.shares.refuses()
        })
    }

    /// Waits until a place in the send ring is free.
    pub(crate) fn wait_room(&mut self) -> Result<(), Error> {
        self.wait(None, |e| e.send_space() > 0 && !e.shares.refuses()).map(|_| ())
    }

    /// Waits until all that was pushed has been taken by the host; false if `timeout` passes first.
    ///
    /// # Errors
    /// The service has gone.
    pub fn wait_sent(&mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        self.wait(timeout, |e| e.unsent() == 0)
    }

    /// How often a caller that waits looks before it sleeps.
    fn spins(&self) -> u32 {
        match self.events {
            Events::Interrupt | Events::Clocked { .. } | Events::Soft { .. } => 1,
            Events::Hybrid { .. } => SPINS,
            Events::Polling => SPINS_AWAKE,
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, mut ready: impl FnMut(&mut Self) -> bool) -> Result<bool, Error> {
        let mut deadline = None;
        loop {
            for _ in 0..self.spins() {
                if ready(self) {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            // The clock is read only where there is something to wait for.
            let deadline = *deadline.get_or_insert_with(|| timeout.map(|t| Instant::now() + t));
            self.arm();
            if ready(self) {
                self.disarm();
                return Ok(true);
            }
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let awake = self.events == Events::Polling;
            let nap = if awake { Some(Duration::ZERO) } else { left };
            let spec = nap.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
            let control = self.connection.control();
            let mut fds = [PollFd::new(&self.wake_client, PollFlags::IN), PollFd::new(&control, PollFlags::IN)];
            let polled = poll(&mut fds, spec.as_ref());
            let gone = !fds[1].revents().is_empty();
            match polled {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            self.disarm();
            if ready(self) {
                return Ok(true);
            }
            if gone {
                return Err(Error::ServiceGone);
            }
            if left.is_some_and(|d| d.is_zero()) {
                return Ok(false);
            }
        }
    }

    /// The host may be resting until this application has caught up: now it has.
    fn say_caught_up(&self) {
        let flag = self.pool.segment.word32(HOST_RESTS);
        if flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::AcqRel) != 0 {
            let _ = rustix::io::write(&self.wake_host, &1u64.to_ne_bytes());
        }
    }

    /// Before sleeping in a poll of the caller's own on [`Endpoint::as_fd`]: asks the host for a wake-up. Look at the
    /// rings once more afterwards; something may have come just before.
    pub fn arm(&mut self) {
        self.say_caught_up();
        self.pool.segment.word32(CLIENT_SLEEPS).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// After such a sleep: no wake-ups for now. Clears the eventfd.
    pub fn disarm(&mut self) {
        if self.pool.segment.word32(CLIENT_SLEEPS).swap(0, Ordering::AcqRel) == 0 {
            let mut count = [0u8; 8];
            let _ = rustix::io::read(&self.wake_client, &mut count);
        }
    }
}

impl AsFd for Endpoint {
    /// Readable when the host has rung, after [`Endpoint::arm`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake_client.as_fd()
    }
}
