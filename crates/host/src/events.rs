//! Event strategies: how host and application learn that something has arrived.
//!
//! Both sides keep a word in the segment that says "I sleep". `interrupt` sets it before sleeping and is rung awake;
//! `polling` never sets it, so nobody rings. A new strategy is a variant of `Strategy` and its cases here.

use endpoint::Events;
use endpoint::control::BELL_OCTETS;
use endpoint::layout::{CLIENT_SLEEPS, CLIENT_WAITS, HOST_SLEEPS, NEWS_OF_SDUS};
use endpoint::segment::Segment;
use rustix::fd::OwnedFd;
use rustix::net::{RecvFlags, SendFlags};
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// What wakes a client.
#[derive(Debug)]
pub enum Bell {
    /// An eventfd of the service's.
    Event(OwnedFd),
    /// An end of a pair of stream sockets of the client's. Whatever the client did to it, the host does not wait on it.
    Socket(OwnedFd),
}

impl Bell {
    fn ring(&self) {
        // A full one, of a client that never reads it, is awake enough; one whose client has gone needs no bell.
        let _ = match self {
            Bell::Event(fd) => rustix::io::write(fd, &1u64.to_ne_bytes()),
            Bell::Socket(fd) => rustix::net::send(fd, &[0; BELL_OCTETS], SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
        };
    }

    /// Takes what the client has put into its socket in order to wait until it is taken.
    fn empty(&self) {
        let Bell::Socket(fd) = self else { return };
        let mut octets = [0; 4096];
        // Bounded: a client that goes on writing has itself to blame.
        for _ in 0..256 {
            match rustix::net::recv(fd, &mut octets[..], RecvFlags::DONTWAIT) {
                Ok((1.., _)) => {}
                _ => return,
            }
        }
    }
}

/// The host's side of one endpoint's strategy.
#[derive(Debug)]
pub(crate) struct Strategy {
    kind: Events,
    bell: Option<Bell>,
    /// An SDU was given to the client since the last bell.
    pushed: bool,
    /// A descriptor of the client's was done with since the last bell.
    taken: bool,
}

impl Strategy {
    pub(crate) fn new(kind: Events, bell: Option<Bell>) -> Self {
        Strategy { kind, bell, pushed: false, taken: false }
    }

    pub(crate) fn kind(&self) -> Events {
        self.kind
    }

    /// An SDU was pushed.
    pub(crate) fn note_pushed(&mut self) {
        self.pushed = true;
    }

    /// A descriptor was taken.
    pub(crate) fn note_taken(&mut self) {
        self.taken = true;
    }

    /// At the end of a round: rings if there was news and the client sleeps.
    pub(crate) fn ring(&mut self, segment: &Segment) {
        let (pushed, taken) = (std::mem::take(&mut self.pushed), std::mem::take(&mut self.taken));
        if !pushed && !taken {
            return;
        }
        // What was pushed must be visible before the flag is read.
        fence(Ordering::SeqCst);
        let flag = word(segment, CLIENT_SLEEPS);
        let wanted = match flag.load(Ordering::Relaxed) {
            0 => false,
            NEWS_OF_SDUS => pushed,
            _ => true,
        };
        if wanted
            && flag.swap(0, Ordering::AcqRel) != 0
            && let Some(bell) = &self.bell
        {
            bell.ring();
        }
    }

    /// Whether the client waits for room in its send ring.
    pub(crate) fn client_waits(&self, segment: &Segment) -> bool {
        word(segment, CLIENT_WAITS).load(Ordering::Relaxed) != 0
    }

    /// There is room: lets the client go on.
    pub(crate) fn let_on(&self, segment: &Segment) {
        if word(segment, CLIENT_WAITS).swap(0, Ordering::AcqRel) != 0
            && let Some(bell) = &self.bell
        {
            bell.empty();
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
