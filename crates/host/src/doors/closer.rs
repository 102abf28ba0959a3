//! Who ends what a client has passed to its porter: threads of the porter's own, so that the user's next connection does not wait
//! for a descriptor that takes its time to close (`SO_LINGER`, FUSE).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Threads of one porter at most. A user who keeps all of them busy waits for itself.
const MAX_THREADS: usize = 16;
/// What waits for them at most; more is ended by whoever brings it.
const MAX_WAITING: usize = 256;

type Waste = Box<dyn Send>;

#[derive(Default)]
struct State {
    waiting: VecDeque<Waste>,
    threads: usize,
    idle: usize,
}

/// A porter's threads for this. Clones lead to the same ones.
#[derive(Clone, Default)]
pub(super) struct Closer(Arc<(Mutex<State>, Condvar)>);

impl Closer {
    /// Drops `what` elsewhere, if there is room for it.
    pub(super) fn close(&self, what: impl Send + 'static) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.waiting.len() >= MAX_WAITING {
            drop(state);
            drop(what);
            return;
        }
        state.waiting.push_back(Box::new(what));
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
            if let Some(what) = state.waiting.pop_front() {
                drop(state);
                drop(what);
                state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
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
    use std::time::Duration;

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
        drop(slow);
        for _ in 0..MAX_THREADS - 1 {
            ends.recv_timeout(Duration::from_secs(10)).expect("all end");
        }
    }
}
