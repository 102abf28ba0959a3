//! The thread that answers writes to pages that are leaving.

use super::State;
use crate::client::Endpoint;
use crate::segment::Segment;
use crate::uffd::WriteFaults;
use remap::Refusal;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// How often it looks whether an SDU has left, where there is no frame for a copy.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000 };

#[derive(Debug)]
pub(super) struct Keeper {
    segment: Arc<Segment>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// How far the host is with the endpoint's send ring.
fn taken(segment: &Segment) -> u32 {
    segment.word32(segment.geometry().send_at()).load(Ordering::Acquire)
}

impl Keeper {
    pub(super) fn start(
        faults: Arc<WriteFaults>,
        state: Arc<Mutex<State>>,
        endpoint: &Endpoint,
    ) -> Result<Self, Errno> {
        let segment = endpoint.pool.segment.clone();
        let connection = rustix::io::fcntl_dupfd_cloexec(endpoint.connection.control(), 0)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let answers = Answers { faults, state, segment: segment.clone(), connection, stop: stop.clone() };
        let thread = std::thread::Builder::new().name("window".into()).spawn(move || answers.run());
        Ok(Keeper { segment, stop, thread: Some(thread.map_err(|_| Errno::AGAIN)?) })
    }

    pub(super) fn taken(&self) -> u32 {
        taken(&self.segment)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Answers {
    faults: Arc<WriteFaults>,
    state: Arc<Mutex<State>>,
    segment: Arc<Segment>,
    /// The connection to the service: when it ends, nothing is leaving any more.
    connection: OwnedFd,
    stop: Arc<OwnedFd>,
}

impl Answers {
    fn run(&self) {
        loop {
            let mut fds = [PollFd::new(&*self.faults, PollFlags::IN), PollFd::new(&*self.stop, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if !fds[1].revents().is_empty() {
                return;
            }
            while let Some(address) = self.faults.next() {
                self.answer(address);
            }
        }
    }

    /// Lets a write go on: to a copy of its page, or once the page is the application's alone.
    fn answer(&self, address: u64) {
        let mut gone = false;
        loop {
            let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let state = &mut *guard;
            match gone {
                false => state.settle(taken(&self.segment)),
                true => {
                    let State { spaces, real, leaving, .. } = state;
                    leaving.drain(..).for_each(|(_, number)| spaces.complete(number, real));
                }
            }
            let Some((process, at)) = state.real.find(address) else { return };
            let fault = state.spaces.write_fault(process, at, &mut state.real);
            state.real.flush();
            match fault {
                Err(Refusal::Leaving { .. } | Refusal::NoFrame) if !gone => {}
                // Nothing else is expected; whoever waits faults again rather than for ever.
                _ => return self.faults.wake(address & !(super::PAGE as u64 - 1), super::PAGE as u64),
            }
            drop(guard);
            let mut fds = [PollFd::new(&self.connection, PollFlags::empty()), PollFd::new(&*self.stop, PollFlags::IN)];
            // Hung up: the host is gone, and reads nothing any more.
            gone = poll(&mut fds, Some(&LOOK)).is_ok_and(|n| n > 0);
        }
    }
}
