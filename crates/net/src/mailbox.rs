//! A place for one hand-over from one thread to another.
//!
//! Whose turn it is says a flag, which its owner publishes when it is done (release, acquire). So nobody ever waits for
//! the lock around the content, which only says so in safe code. Who finds that it is not its turn is called by the
//! other ([`crate::bell`]) when it is.

use crate::bell::Bell;
use crate::sync::{AtomicBool, Mutex, Ordering, fence, lock};

/// One direction between two shards. The giver owns the content while it is not full, the taker while it is.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Mailbox<T> {
    full: AtomicBool,
    /// The giver has more, and wants to know when the mailbox is empty.
    waiting: AtomicBool,
    content: Mutex<T>,
}

impl<T> Mailbox<T> {
    pub(crate) fn new(content: T) -> Self {
        Mailbox { full: AtomicBool::new(false), waiting: AtomicBool::new(false), content: Mutex::new(content) }
    }

    /// The giver fills it, and calls the taker. False if the last hand-over is still in it: then the giver is called
    /// once it is not.
    pub(crate) fn give(&self, fill: impl FnOnce(&mut T), taker: &Bell, giver: usize) -> bool {
        if self.full.load(Ordering::Acquire) {
            self.waiting.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            // Either it is seen here that it was emptied meanwhile, or the taker sees that somebody waits.
            if self.full.load(Ordering::Acquire) {
                return false;
            }
        }
        fill(&mut lock(&self.content));
        self.full.store(true, Ordering::Release);
        taker.call(giver);
        true
    }

    /// The taker looks at what is in it; `empty` says whether all was taken. `None` if nothing is in it.
    pub(crate) fn take(&self, empty: impl FnOnce(&mut T) -> bool, giver: &Bell, taker: usize) -> Option<bool> {
        if !self.full.load(Ordering::Acquire) {
            return None;
        }
        let emptied = empty(&mut lock(&self.content));
        if emptied {
            self.full.store(false, Ordering::Release);
            fence(Ordering::SeqCst);
            if self.waiting.load(Ordering::Relaxed) {
                self.waiting.store(false, Ordering::Relaxed);
                giver.call(taker);
            }
        }
        Some(emptied)
    }

    /// What is in it, while neither thread runs.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&lock(&self.content))
    }
}

#[cfg(all(test, loom))]
mod loom;
