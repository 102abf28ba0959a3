//! Who ends what a client has passed to its user proxy: threads of the user proxy's own, so that the user's next
//! connection does not wait for a descriptor that takes its time to close (`SO_LINGER`, FUSE).
//!
//! What is not closed may hold connections open, and even what it waits for itself. So this has a limit, in number and
//! time, after which the user proxy ends.

use endpoint::passed;
use rustix::fd::AsFd;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Threads of one user proxy at most. A user who keeps all of them busy waits for itself.
const MAX_THREADS: usize = 16;
/// How long anything may take that a client has passed ...
const PATIENCE: Duration = Duration::from_secs(10);
/// ... and where more than this waits for a thread, how long.
const SHORT_PATIENCE: Duration = Duration::from_secs(1);
const MAX_WAITING: usize = 256;

type Waste = Box<dyn Send>;

#[derive(Default)]
struct State {
    waiting: VecDeque<(Instant, Waste)>,
    /// Since when there has been what is being closed.
    closing: Vec<Instant>,
    threads: usize,
    idle: usize,
}

/// A user proxy's threads for this. Clones lead to the same ones.
#[derive(Clone, Default)]
pub(super) struct Closer(Arc<(Mutex<State>, Condvar)>);

impl Closer {
    /// When the user proxy is to end unless all that there is has been closed by then.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = state.waiting.iter().map(|(since, _)| since).chain(&state.closing).min();
        since.map(|since| *since + if state.waiting.len() > MAX_WAITING { SHORT_PATIENCE } else { PATIENCE })
    }

    /// Ends a socket, as soon as nothing can be put into it any more: here, unless descriptors lie in it.
    pub(super) fn end(&self, socket: impl AsFd + Send + 'static) {
        let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
        if passed::lie_in(&socket) {
            self.close(socket);
        }
    }

    /// Drops `what` elsewhere.
    pub(super) fn close(&self, what: impl Send + 'static) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.push_back((Instant::now(), Box::new(what)));
        if state.idle >= state.waiting.len() || state.threads >= MAX_THREADS {
            changed.notify_one();
            return;
        }
        let closer = self.clone();
        if std::thread::Builder::new().spawn(move || closer.run()).is_ok() {
            state.threads += 1;
        } else if state.threads == 0 {
            // No thread to be had: here, then.
            let all = std::mem::take(&mut state.waiting);
            drop(state);
            drop(all);
        }
    }

    fn run(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some((since, what)) = state.waiting.pop_front() {
                state.closing.push(since);
                drop(state);
                drop(what);
                state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(at) = state.closing.iter().position(|closing| *closing == since) {
                    state.closing.swap_remove(at);
                }
                continue;
            }
            state.idle += 1;
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Takes until it is told to end, and says so.
    struct Slow(Receiver<()>, Sender<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.0.recv();
            let _ = self.1.send(());
        }
    }

    #[test]
    fn what_takes_long_to_end_delays_neither_who_brings_it_nor_what_comes_after_it() {
        let (closer, (ended, ends)) = (Closer::default(), channel());
        let slow: Vec<Sender<()>> = (0..MAX_THREADS - 1)
            .map(|_| {
                let (may, told) = channel();
                closer.close(Slow(told, ended.clone()));
                may
            })
            .collect();
        for _ in 0..1000 {
            let (may, told) = channel();
            drop(may);
            closer.close(Slow(told, ended.clone()));
            ends.recv_timeout(Duration::from_secs(10)).expect("the last thread ends it");
        }
        assert!(closer.0.0.lock().unwrap().threads <= MAX_THREADS);
        assert!(closer.deadline().is_some_and(|at| at > Instant::now()), "nothing has taken that long yet");
        drop(slow);
        for _ in 0..MAX_THREADS - 1 {
            ends.recv_timeout(Duration::from_secs(10)).expect("all end");
        }
    }

    #[test]
    fn more_than_can_be_closed_has_less_time() {
        let (closer, (ended, ends)) = (Closer::default(), channel());
        let (may, told): (Vec<_>, Vec<_>) = (0..MAX_THREADS + MAX_WAITING + 1).map(|_| channel::<()>()).unzip();
        told.into_iter().for_each(|told| closer.close(Slow(told, ended.clone())));
        assert!(closer.deadline().is_some_and(|at| at <= Instant::now() + SHORT_PATIENCE));
        let n = may.len();
        drop(may);
        (0..n).for_each(|_| ends.recv_timeout(Duration::from_secs(10)).expect("all end"));
        let begin = Instant::now();
        while closer.deadline().is_some() {
            assert!(begin.elapsed() < Duration::from_secs(10), "all has been closed");
            std::thread::yield_now();
        }
    }
}
