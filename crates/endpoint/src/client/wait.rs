//! How an application learns of an SDU or of room: by looking, by sleeping, or by a descriptor for a poll of its own;
//! and how it wakes the host.
//!
//! The policy is [`crate::waiting`]. A sleep is a futex in the segment first ([`DOZE`]), which is one system call on
//! each side; then the bell, a socket on which the service's bell ringer sends, beside the connection, whose end is
//! heard with it.

use super::{Endpoint, Error, Received};
use crate::control::{BELL_OCTETS, Events};
use crate::layout::{ANY_NEWS, BY_FUTEX, CLIENT_SLEEPS, HOST_RESTS, HOST_SLEEPS, Lent, NEWS_OF_ROOM, NEWS_OF_SDUS};
use crate::times::timespec;
use crate::waiting::{DOZE, Next, Waiting};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// A caller that never sleeps, or never for long, asks at most so often whether the service is still there.
const ASK_EVERY: Duration = Duration::from_millis(1);
/// Steps of a wait between two looks at the clock.
const STEPS: u32 = 64;

impl Endpoint {
    #[inline]
    pub(super) fn wake_host_if_asleep(&self) {
        // The push must be visible before the flag is read: else host and client could each see the other's old state.
        fence(Ordering::SeqCst);
        let flag = self.pool.segment.word32(HOST_SLEEPS);
        if flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::AcqRel) != 0 {
            let _ = rustix::io::write(&self.wake_host, &1u64.to_ne_bytes());
        }
    }

    /// The next SDU, if one has arrived.
    // Whoever has it inlined makes the answer where it is used: moved, its descriptor is read again before it has been
    // written whole.
    #[inline(always)]
    pub fn try_receive(&mut self) -> Option<Received<'_>> {
        if !self.take_received() {
            return None;
        }
        if Lent::from_buffer(self.taken.head.buffer).is_some() {
            self.copy_lent();
        }
        Some(Received { endpoint: self })
    }

    /// Takes the next SDU's descriptor, if one has arrived.
    #[inline(always)]
    pub(super) fn take_received(&mut self) -> bool {
        if !self.receive.pop_into(&mut self.taken) {
            self.publish_free();
            return false;
        }
        if self.receive.head() & (self.receive_quarter - 1) == 0 {
            self.say_there_is_room();
        }
        true
    }

    /// Lets the host see which buffers are its again. A sender may wait for what it has lent, and the host sleep until it
    /// comes back: also to who looks again and again, and never sleeps.
    #[inline]
    fn publish_free(&mut self) {
        if !self.borrowed.late.is_empty() {
            self.give_late();
        }
        let news = self.free.publish();
        if self.borrowed.is_any() {
            if news {
                // The index must be visible before the flag is read, as in `wake_host_if_asleep`.
                fence(Ordering::SeqCst);
            }
            self.say_caught_up();
        }
    }

    /// Waits for an SDU; `None` if `timeout` passes first. Spins or yields a little, then sleeps ([`crate::waiting`]).
    ///
    /// # Errors
    /// The service has gone.
    #[inline]
    pub fn receive(&mut self, timeout: Option<Duration>) -> Result<Option<Received<'_>>, Error> {
        if self.has_come(timeout)? { Ok(self.try_receive()) } else { Ok(None) }
    }

    /// Whether an SDU has come. Never blocks.
    #[inline]
    pub fn has_sdu(&mut self) -> bool {
        self.receive.waiting() > 0
    }

    /// Waits until an SDU has come, and leaves it there; false if `timeout` passes first.
    ///
    /// # Errors
    /// The service has gone.
    #[inline]
    pub fn await_sdu(&mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        self.has_come(timeout)
    }

    #[inline]
    pub(crate) fn has_come(&mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        match self.receive.waiting() {
            0 => self.wait(NEWS_OF_SDUS, timeout, |e| e.receive.waiting() > 0),
            _ => Ok(true),
        }
    }

    /// Waits until a buffer and a place in the send ring are free, for the channel that was refused last too; false if
    /// `timeout` passes first.
    ///
    /// # Errors
    /// The service has gone.
    pub fn wait_send(&mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        self.wait(NEWS_OF_ROOM, timeout, |e| {
            e.reclaim();
            !e.idle.is_empty() && e.send.room() > 0 && !e.shares.refuses()
        })
    }

    /// Waits until a place in the send ring is free.
    pub(crate) fn wait_room(&mut self) -> Result<(), Error> {
        self.wait(NEWS_OF_ROOM, None, |e| e.send_space() > 0 && !e.shares.refuses()).map(|_| ())
    }

    /// Waits until all that was pushed has been taken by the host; false if `timeout` passes first.
    ///
    /// # Errors
    /// The service has gone.
    pub fn wait_sent(&mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        self.wait(ANY_NEWS, timeout, |e| e.unsent() == 0)
    }

    /// Waits until it is `ready`; asleep, until there is `news` of the kind that it waits for.
    fn wait(
        &mut self,
        news: u32,
        timeout: Option<Duration>,
        mut ready: impl FnMut(&mut Self) -> bool,
    ) -> Result<bool, Error> {
        if ready(self) {
            return Ok(true);
        }
        self.tell_all();
        let begin = Instant::now();
        // Who only receives, or waits for room, finds more at once after a sleep.
        let asked = std::mem::replace(&mut self.sent_before, self.send.pushed()) != self.send.pushed();
        let is_patient = asked && news == NEWS_OF_SDUS && matches!(self.events, Events::Hybrid { .. });
        if self.look(timeout, begin, is_patient, &mut ready)? {
            return Ok(true);
        }
        let came = self.rest(news, timeout, begin, &mut ready);
        if is_patient {
            self.patience.handle_sleep(begin.elapsed());
        }
        came
    }

    /// The part of a wait that is slept. Whether it became ready in time.
    fn rest(
        &mut self,
        news: u32,
        timeout: Option<Duration>,
        begin: Instant,
        ready: &mut impl FnMut(&mut Self) -> bool,
    ) -> Result<bool, Error> {
        let left = || timeout.map(|t| t.saturating_sub(begin.elapsed()));
        let mut dozes = self.futex;
        loop {
            let now_left = left();
            if now_left.is_some_and(|d| d.is_zero()) {
                // Who never waits for long never sleeps on the connection, and would not hear of its end.
                return if ready(self) { Ok(true) } else { self.check().map(|()| false) };
            }
            if dozes {
                if self.doze(news, now_left.map_or(DOZE, |d| d.min(DOZE)), ready) {
                    return Ok(true);
                }
                dozes = begin.elapsed() < DOZE;
                continue;
            }
            self.arm();
            let gone = if ready(self) { Ok(false) } else { self.sleep(left()) };
            let disarmed = self.disarm();
            if ready(self) {
                return Ok(true);
            }
            disarmed?;
            if gone? {
                return Err(Error::ServiceGone);
            }
        }
    }

    /// The part of a wait before the sleep. False if nothing came in it, or not in time.
    fn look(
        &mut self,
        timeout: Option<Duration>,
        begin: Instant,
        is_patient: bool,
        ready: &mut impl FnMut(&mut Self) -> bool,
    ) -> Result<bool, Error> {
        let mut waiting = Waiting::of(self.events);
        let (mut elsewhere, mut yielded) = (self.pool.segment.host_is_elsewhere(), None);
        for step in 1u32.. {
            match waiting.handle_nothing(elsewhere) {
                Next::Look => std::hint::spin_loop(),
                Next::Yield => {
                    // Others may have needed this processor in order to answer: what they did must be told.
                    std::thread::yield_now();
                    elsewhere = self.pool.segment.host_is_elsewhere();
                }
                Next::Sleep => {
                    let waited = begin.elapsed();
                    let may = is_patient && timeout.is_none_or(|t| waited < t);
                    if !may || !self.patience.lasts(waited, *yielded.get_or_insert(waited)) {
                        break;
                    }
                    yielded = Some(waited);
                    std::thread::yield_now();
                }
            }
            if ready(self) {
                return Ok(true);
            }
            if step % STEPS == 0 && self.events == Events::Polling {
                let now = Instant::now();
                if timeout.is_some_and(|t| now.duration_since(begin) >= t) {
                    return Ok(false);
                }
                if now.duration_since(self.asked) >= ASK_EVERY {
                    self.say_caught_up();
                    if let Err(gone) = self.check() {
                        return if ready(self) { Ok(true) } else { Err(gone) };
                    }
                }
            }
        }
        Ok(false)
    }

    /// Sleeps on the segment's own word, for `most`. Whether it became ready.
    fn doze(&mut self, news: u32, most: Duration, ready: &mut impl FnMut(&mut Self) -> bool) -> bool {
        let seen = news | BY_FUTEX;
        self.pool.segment.word32(CLIENT_SLEEPS).store(seen, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let came = ready(self);
        // Where the system cannot, the bell can.
        self.futex &= came || self.pool.segment.await_change(CLIENT_SLEEPS, seen, most);
        self.pool.segment.word32(CLIENT_SLEEPS).store(0, Ordering::Relaxed);
        came || ready(self)
    }

    /// Sleeps on bell and connection. Whether the service has gone.
    fn sleep(&self, left: Option<Duration>) -> Result<bool, Error> {
        let spec = left.map(timespec);
        let control = self.connection.control();
        let mut fds = [PollFd::new(&control, PollFlags::IN), PollFd::new(&self.bell, PollFlags::IN)];
        match poll(&mut fds, spec.as_ref()) {
            Ok(_) => Ok(!fds[0].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Whether the service is still there, for a loop that neither waits here nor sleeps on [`Endpoint::as_fd`]. Asks
    /// the system once in a millisecond at most.
    ///
    /// # Errors
    /// The service has gone.
    pub fn check(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        if now.duration_since(self.asked) >= ASK_EVERY {
            self.asked = now;
            if self.sleep(Some(Duration::ZERO))? {
                return Err(Error::ServiceGone);
            }
        }
        Ok(())
    }

    /// Before this thread stands still: lets the host see what was enqueued and which buffers are its again, and wakes
    /// it if it waits for either.
    fn tell_all(&mut self) {
        self.flush();
        self.publish_free();
        self.say_caught_up();
    }

    /// The host may be asleep until there is room for what it has for this application.
    fn say_there_is_room(&mut self) {
        if self.receive.waiting_seen() > self.receive_quarter * 2 {
            return;
        }
        // It may wait for SDUs that it has lent, too. Buffers alone go back as many at a time as ever.
        if self.borrowed.is_any() {
            self.publish_free();
        }
        // The index must be visible before the flag is read, as in `wake_host_if_asleep`.
        fence(Ordering::SeqCst);
        self.say_caught_up();
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
        self.tell_all();
        self.pool.segment.word32(CLIENT_SLEEPS).store(ANY_NEWS, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// After such a sleep: no wake-ups for now. Empties the bell; one that is on its way yet ends the next sleep early.
    ///
    /// # Errors
    /// The service has gone: from here on each sleep on [`Endpoint::as_fd`] would end at once.
    pub fn disarm(&mut self) -> Result<(), Error> {
        self.pool.segment.word32(CLIENT_SLEEPS).store(0, Ordering::Relaxed);
        match rustix::net::recv(&self.bell, &mut [0u8; 8 * BELL_OCTETS][..], RecvFlags::DONTWAIT) {
            Ok((1.., _)) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Ok((0, _)) | Err(_) => Err(Error::ServiceGone),
        }
    }
}

impl AsFd for Endpoint {
    /// Readable when the host has rung, after [`Endpoint::arm`], or when the service has gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
