//! What both halves of a direct circuit hold together, and how they wait.

use super::layout::{CONSUMED_LINE, PROCESSOR_WORD, WAKES_WORD};
use super::memory::{Ours, Theirs};
use super::ring::{ReadLines as _, Sleeper, WriteLines as _};
use super::spin::Spin;
use crate::client::SystemError;
use crate::raw_stream::RawStream;
use crate::times::timespec;
use crate::waiting::{DOZE, Next, is_elsewhere, processor};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Looks before the clock is read for the first time.
const UNTIMED_LOOKS: u32 = 64;
/// Times that it is asked between two looks at which processor this side runs on, which cost as much as two short
/// messages.
const PUBLISH_EVERY: u32 = 64;
/// One that looks without sleeping asks so often whether the other side is still there.
const ASK_EVERY: Duration = Duration::from_millis(1);

/// How to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// No longer than this at a time.
    Nap(Duration),
    /// First for a while in memory, which is the shorter way to be woken: one system call on each side, and none to
    /// empty a bell. Then as long as it takes.
    Doze,
}

/// Why nothing more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Gone {
    /// The application at the other end.
    #[error("the other side of the circuit has gone")]
    Peer,
    /// The service, or it has ended the circuit.
    #[error("the service has gone, or has ended this circuit; its resources ended with it")]
    Service,
    /// The system refuses to wait.
    #[error("waiting for the other side: {0}")]
    System(SystemError),
}

/// The connections of one side.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) ours: Ours,
    pub(crate) theirs: Theirs,
    /// Rung when a message was sent; one end of a pair of stream sockets. Each end is a file of its own, so that
    /// nothing the other side does to it, or passes through it, can make us block.
    pub(crate) messages: RawStream,
    /// Rung when there is room again.
    pub(crate) room: RawStream,
    /// The connection to the service: its end is the circuit's end.
    pub(crate) control: Option<OwnedFd>,
}

/// Rings the bell at the other end. One that is full has been rung often enough; one without an end needs no bell.
pub(crate) fn ring(bell: &RawStream) {
    let _ = bell.send(&[1]);
}

/// Takes what the bell holds. One that holds more than octets ends: whoever waits for it hears of that.
pub(crate) fn drain(bell: &RawStream) -> Result<(), Gone> {
    match bell.receive(&mut [0; 256], RecvFlags::DONTWAIT) {
        Ok(1..) | Err(Errno::AGAIN) => Ok(()),
        Ok(0) | Err(_) => Err(Gone::Peer),
    }
}

impl Link {
    /// Looks at bell and service for up to `timeout` (`None`: as long as it takes). Whether the bell has been rung.
    fn sleep(&self, bell: &RawStream, timeout: Option<Duration>) -> Result<bool, Gone> {
        let spec = timeout.map(timespec);
        let mut fds = [PollFd::new(bell, PollFlags::IN), PollFd::new(bell, PollFlags::empty())];
        let n = match &self.control {
            Some(control) => {
                fds[1] = PollFd::new(control, PollFlags::IN);
                2
            }
            None => 1,
        };
        match poll(&mut fds[..n], spec.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(e) => return Err(Gone::System(e.into())),
        }
        let (rung, service) = (fds[0].revents(), fds[1].revents());
        if rung.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Err(Gone::Peer);
        }
        // The service says nothing on this connection once the circuit is open, except by ending it.
        if n == 2 && !service.is_empty() {
            return Err(Gone::Service);
        }
        Ok(rung.contains(PollFlags::IN))
    }

    /// Whether the other side is still there.
    pub(crate) fn alive(&self) -> Result<(), Gone> {
        let spec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.room, PollFlags::empty()), PollFd::new(&self.messages, PollFlags::empty())];
        let _ = poll(&mut fds, Some(&spec));
        if fds.iter().any(|fd| !fd.revents().is_empty()) {
            return Err(Gone::Peer);
        }
        let Some(control) = &self.control else { return Ok(()) };
        let mut fds = [PollFd::new(control, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&spec));
        if fds[0].revents().is_empty() { Ok(()) } else { Err(Gone::Service) }
    }

    /// Sleeps for a while in memory that the other side writes; whether it became `ready`.
    fn doze(&self, sleeper: &mut Sleeper<Ours>, most: Duration, ready: &mut impl FnMut() -> bool) -> bool {
        let begin = Instant::now();
        let mut left = most;
        loop {
            let seen = self.theirs.wakes(CONSUMED_LINE, WAKES_WORD);
            sleeper.arm_doze();
            let can = ready() || self.theirs.await_wake(CONSUMED_LINE, WAKES_WORD, seen, left);
            sleeper.disarm();
            if ready() {
                return true;
            }
            // The other side may count what it likes, but not for longer than this.
            match most.checked_sub(begin.elapsed()) {
                Some(rest) if can && !rest.is_zero() => left = rest,
                _ => return false,
            }
        }
    }

    /// Says on which processor this side runs, if it is another than last time.
    #[inline]
    pub(crate) fn publish_processor(&self) {
        let processor = u64::from(processor());
        if self.ours.load(CONSUMED_LINE, PROCESSOR_WORD, Ordering::Relaxed) != processor {
            self.ours.store(CONSUMED_LINE, PROCESSOR_WORD, processor, Ordering::Relaxed);
        }
    }

    /// The same, at one time in [`PUBLISH_EVERY`]; `times` counts them.
    #[inline]
    pub(crate) fn publish_processor_at_times(&self, times: &mut u32) {
        *times = times.wrapping_add(1);
        if times.is_multiple_of(PUBLISH_EVERY) {
            self.publish_processor();
        }
    }

    /// Waits until `ready`; false if `timeout` passes first. Looks as `spin` says, then sleeps as `rest` says.
    /// What came before an end is still `ready` after it.
    pub(crate) fn wait(
        &self,
        bell: &RawStream,
        sleeper: &mut Sleeper<Ours>,
        spin: Spin,
        timeout: Option<Duration>,
        rest: Rest,
        mut ready: impl FnMut() -> bool,
    ) -> Result<bool, Gone> {
        let looks = if spin == Spin::None { 0 } else { UNTIMED_LOOKS };
        for _ in 0..looks {
            if ready() {
                return Ok(true);
            }
            std::hint::spin_loop();
        }
        let begin = Instant::now();
        self.publish_processor();
        let elsewhere = || is_elsewhere(self.theirs.load(CONSUMED_LINE, PROCESSOR_WORD, Ordering::Relaxed) as u32);
        let mut waiting = spin.waiting();
        let (mut spins, mut ask) = (elsewhere(), ASK_EVERY);
        loop {
            match waiting.handle_nothing(spins) {
                Next::Look => std::hint::spin_loop(),
                Next::Sleep => break,
                Next::Yield => {
                    std::thread::yield_now();
                    spins = elsewhere();
                    let waited = begin.elapsed();
                    if timeout.is_some_and(|timeout| waited >= timeout) {
                        break;
                    }
                    if waited >= ask {
                        ask = waited + ASK_EVERY;
                        if let Err(gone) = self.alive() {
                            return if ready() { Ok(true) } else { Err(gone) };
                        }
                    }
                }
            }
            if ready() {
                return Ok(true);
            }
        }
        let nap = match rest {
            Rest::Nap(nap) => Some(nap),
            Rest::Doze => {
                let most = timeout.map_or(DOZE, |t| t.saturating_sub(begin.elapsed()).min(DOZE));
                if self.doze(sleeper, most, &mut ready) {
                    return Ok(true);
                }
                None
            }
        };
        loop {
            // Before a sleep rather than after one, when a message waits to be dealt with. What is rung for this sleep
            // comes after it was announced and is not lost.
            if std::mem::take(&mut sleeper.rung) {
                // Its end is heard by the sleep, after all that has come.
                let _ = drain(bell);
            }
            sleeper.arm();
            if ready() {
                sleeper.disarm();
                return Ok(true);
            }
            let left = timeout.map(|t| t.saturating_sub(begin.elapsed()));
            let slept = self.sleep(bell, left.into_iter().chain(nap).min());
            sleeper.disarm();
            // Whatever else ended the sleep, the bell may hold something.
            sleeper.rung = slept.unwrap_or(true);
            if ready() {
                return Ok(true);
            }
            slept?;
            if left.is_some_and(|d| d.is_zero()) {
                return Ok(false);
            }
        }
    }
}
