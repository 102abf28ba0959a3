//! Event strategies: how host and application learn that something has arrived.
//!
//! Both sides keep a word in the segment that says "I sleep". `interrupt` sets it before sleeping and is rung awake;
//! `polling` never sets it, so nobody rings. A new strategy is a variant of `Strategy` and its cases here.

use endpoint::Events;
use endpoint::layout::{CLIENT_SLEEPS, HOST_SLEEPS};
use endpoint::segment::Segment;
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// The host's side of one endpoint's strategy.
#[derive(Debug)]
pub(crate) struct Strategy {
    kind: Events,
    wake_client: Option<OwnedFd>,
    /// Something was given to the client since the last bell.
    news: bool,
}

impl Strategy {
    pub(crate) fn new(kind: Events, wake_client: Option<OwnedFd>) -> Self {
        Strategy { kind, wake_client, news: false }
    }

    pub(crate) fn kind(&self) -> Events {
        self.kind
    }

    /// Something was pushed, or a descriptor was taken.
    pub(crate) fn note(&mut self) {
        self.news = true;
    }

    /// At the end of a round: rings if there was news and the client sleeps.
    pub(crate) fn ring(&mut self, segment: &Segment) {
        if !std::mem::take(&mut self.news) {
            return;
        }
        // What was pushed must be visible before the flag is read.
        fence(Ordering::SeqCst);
        let flag = word(segment, CLIENT_SLEEPS);
        if flag.load(Ordering::Relaxed) != 0
            && flag.swap(0, Ordering::AcqRel) != 0
            && let Some(fd) = &self.wake_client
        {
            // A full eventfd, by a client that never reads it, is awake enough.
            let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
        }
    }

    /// Before the host sleeps: asks to be rung. False if this endpoint wants the host to stay awake.
    pub(crate) fn arm(&self, segment: &Segment) -> bool {
        match self.kind {
            Events::Interrupt => {
                word(segment, HOST_SLEEPS).store(1, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                true
            }
            Events::Polling => false,
        }
    }

    /// After the host's sleep.
    pub(crate) fn disarm(&self, segment: &Segment) {
        if self.kind == Events::Interrupt {
            word(segment, HOST_SLEEPS).store(0, Ordering::Relaxed);
        }
    }
}

/// A flag of the segment.
fn word(segment: &Segment, at: usize) -> &AtomicU32 {
    segment.word32(at)
}
