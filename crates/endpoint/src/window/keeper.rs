//! The thread that answers writes to pages that are leaving.

use super::{State, child};
use crate::client::Endpoint;
use crate::raw_stream::RawStream;
use crate::segment::Segment;
use crate::uffd::WriteFaults;
use remap::Refusal;
use remap::spaces::Process;
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
    answers: Arc<Answers>,
    /// One for this process, and one for each child and each reader.
    threads: Mutex<Vec<JoinHandle<()>>>,
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
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let keeper = Keeper {
            answers: Arc::new(Answers { faults, state, segment, connection, stop }),
            threads: Mutex::default(),
        };
        keeper.spawn(|answers| answers.run())?;
        Ok(keeper)
    }

    fn spawn(&self, run: impl FnOnce(&Answers) + Send + 'static) -> Result<(), Errno> {
        let answers = self.answers.clone();
        let thread = std::thread::Builder::new().name("window".into()).spawn(move || run(&answers));
        let thread = thread.map_err(|_| Errno::AGAIN)?;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        Ok(())
    }

    /// Answers a child's writes from now on, until it ends or is forgotten. A reader writes nothing: it may only end.
    pub(super) fn serve(&self, process: Process, reports: Arc<RawStream>, reads_only: bool) -> Result<(), Errno> {
        self.spawn(move |answers| answers.serve(process, &reports, reads_only))
    }

    pub(super) fn taken(&self) -> u32 {
        taken(&self.answers.segment)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.answers.stop, &1u64.to_ne_bytes());
        for thread in self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = thread.join();
        }
    }
}

/// A write that waits.
#[derive(Debug, Clone, Copy)]
enum Waiting {
    /// At an address of this process.
    Here(u64),
    /// In a child, so far into its view.
    There(Process, u64),
}

#[derive(Debug)]
struct Answers {
    faults: Arc<WriteFaults>,
    state: Arc<Mutex<State>>,
    segment: Arc<Segment>,
    /// The connection to the service: when it ends, nothing is leaving any more.
    connection: OwnedFd,
    stop: OwnedFd,
}

impl Answers {
    fn run(&self) {
        loop {
            let mut fds = [PollFd::new(&*self.faults, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if !fds[1].revents().is_empty() {
                return;
            }
            while let Some(address) = self.faults.next() {
                self.answer(Waiting::Here(address));
            }
        }
    }

    /// Answers a child until it ends.
    fn serve(&self, process: Process, reports: &RawStream, reads_only: bool) {
        let asks = if reads_only { PollFlags::empty() } else { PollFlags::IN };
        loop {
            let mut fds = [PollFd::new(reports, asks), PollFd::new(&self.stop, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if !fds[1].revents().is_empty() {
                return;
            }
            if fds[0].revents().is_empty() {
                continue;
            }
            let report = if reads_only { Err(Errno::PIPE) } else { child::next_report(reports) };
            let Ok(page) = report else {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.real.forget(process);
                state.clear_gone();
                return state.real.flush();
            };
            self.answer(Waiting::There(process, u64::from(page) * super::PAGE as u64));
        }
    }

    /// Lets a write go on: to a copy of its page, or once the page is the application's alone.
    fn answer(&self, waiting: Waiting) {
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
            let found = match waiting {
                Waiting::Here(address) => state.real.find(address),
                Waiting::There(process, at) => Some((process, at)),
            };
            let Some((process, at)) = found else { return };
            let fault = state.spaces.write_fault(process, at, &mut state.real);
            state.real.flush();
            match fault {
                Err(Refusal::Leaving { .. } | Refusal::NoFrame) if !gone => {}
                // Nothing else is expected; whoever waits faults again rather than for ever.
                _ => return self.wake(waiting, state),
            }
            drop(guard);
            let mut fds = [PollFd::new(&self.connection, PollFlags::empty()), PollFd::new(&self.stop, PollFlags::IN)];
            // Hung up: the host is gone, and reads nothing any more.
            gone = poll(&mut fds, Some(&LOOK)).is_ok_and(|n| n > 0);
        }
    }

    fn wake(&self, waiting: Waiting, state: &mut State) {
        let page = super::PAGE as u64;
        match waiting {
            Waiting::Here(address) => self.faults.wake(address & !(page - 1), page),
            Waiting::There(process, at) => {
                // A child that has gone waits for nothing.
                let _ = state.real.remote(process).map(|remote| remote.wake((at / page) as u32));
            }
        }
    }
}
