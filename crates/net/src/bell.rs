//! How the threads of shards call each other.
//!
//! A shard has a bell. Another one that has handed something over, or has made room, says so there by its own bit. A
//! shard that wants to sleep says that first and looks at the bits then; who calls sets its bit first and looks whether
//! the other sleeps then. Between the two stands a fence on either side, so at least one of them sees the other: no
//! call is lost.

use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::OnceLock;
use std::task::Waker;

/// Shards there can be: each has a bit at the bells of the others.
pub const MAX_SHARDS: usize = 64;

/// The bell of a shard.
#[derive(Debug)]
pub struct Bell {
    callers: AtomicU64,
    asleep: AtomicBool,
    /// Wakes the shard's thread; without one, nobody sleeps.
    waker: OnceLock<Waker>,
}

impl Default for Bell {
    fn default() -> Self {
        Bell { callers: AtomicU64::new(0), asleep: AtomicBool::new(false), waker: OnceLock::new() }
    }
}

impl Bell {
    /// What wakes the thread that runs the shard; set once, and it must not wait.
    pub fn set_waker(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// The shard of number `by` has changed something that this one is to look at.
    pub(crate) fn call(&self, by: usize) {
        self.callers.fetch_or(1 << (by % MAX_SHARDS), Ordering::Release);
        self.rouse();
    }

    /// Wakes the shard if it sleeps. What the caller has stored before is seen by whoever looks after
    /// [`Bell::prepare_sleep`].
    pub fn rouse(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed)
            && self.asleep.swap(false, Ordering::AcqRel)
            && let Some(waker) = self.waker.get()
        {
            waker.wake_by_ref();
        }
    }

    /// Who has called since the last time, a bit for each.
    pub(crate) fn answer(&self) -> u64 {
        match self.callers.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.callers.swap(0, Ordering::Acquire),
        }
    }

    /// Says that the shard's thread is about to sleep, and will be woken from now on. False, and nothing is said, if
    /// somebody has called: it must not sleep. After true, [`Bell::awake`] ends it.
    pub fn prepare_sleep(&self) -> bool {
        // After what a caller who came late has written here, so that the next one reads this.
        self.asleep.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        let quiet = self.callers.load(Ordering::Relaxed) == 0;
        if !quiet {
            self.awake();
        }
        quiet
    }

    /// The thread does not sleep, or no more.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}
