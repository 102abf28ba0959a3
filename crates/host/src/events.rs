//! Event strategies: how host and application learn that something has arrived.
//!
//! What to do when is decided by [`machine`], one for each endpoint, and [`poll_list`] keeps their times. Here is what
//! they do it with: both sides keep a word in the segment that says "I sleep", and whoever reads it there rings.
//! A new strategy is a variant of [`endpoint::Events`] and its cases in [`machine`].

pub mod machine;
pub mod poll_list;

use endpoint::Events;
use endpoint::control::BELL_OCTETS;
use endpoint::layout::{CLIENT_SLEEPS, CLIENT_WAITS, HOST_RESTS, HOST_SLEEPS, NEWS_OF_SDUS};
use endpoint::segment::Segment;
use machine::Machine;
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
        // Bounded: a client that goes on writing, or has a longer queue than it needs, harms itself.
        for _ in 0..8 {
            match rustix::net::recv(fd, &mut octets[..], RecvFlags::DONTWAIT) {
                Ok((1.., _)) => {}
                _ => return,
            }
        }
    }
}

/// How often what happened at an endpoint: what a strategy costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct EventCounts {
    /// Bells rung for the application.
    pub bells: u64,
    /// Doorbells that the application rang.
    pub doorbells: u64,
    /// Looks at a due time: ticks, and ends of rests.
    pub ticks: u64,
    /// Rests while applications were behind.
    pub rests: u64,
}

/// The host's side of one endpoint's strategy.
#[derive(Debug)]
pub(crate) struct Strategy {
    pub(crate) machine: Machine,
    bell: Option<Bell>,
    /// An SDU was given to the client since the last bell.
    pushed: bool,
    /// A descriptor of the client's was done with since the last bell.
    taken: bool,
    pub(crate) counts: EventCounts,
}

impl Strategy {
    pub(crate) fn new(kind: Events, slots: u32, bell: Option<Bell>) -> Self {
        let machine = Machine::new(kind, slots);
        Strategy { machine, bell, pushed: false, taken: false, counts: EventCounts::default() }
    }

    pub(crate) fn kind(&self) -> Events {
        self.machine.kind()
    }

    /// An SDU was pushed.
    pub(crate) fn note_pushed(&mut self, segment: &Segment) {
        self.pushed = true;
        if self.machine.tells_at_once() {
            self.ring(segment);
        }
    }

    /// A descriptor was taken.
    pub(crate) fn note_taken(&mut self) {
        self.taken = true;
        self.machine.handle_taken(1);
    }

    /// Whether there is something to tell the client.
    pub(crate) fn has_news(&self) -> bool {
        self.pushed || self.taken
    }

    /// Rings if there was news and the client sleeps.
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
            self.counts.bells = self.counts.bells.wrapping_add(1);
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
}

/// Asks the client for its doorbell. Look once more afterwards: something may have come just before.
pub(crate) fn arm(segment: &Segment) {
    word(segment, HOST_SLEEPS).store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// No doorbell for now.
pub(crate) fn disarm(segment: &Segment) {
    word(segment, HOST_SLEEPS).store(0, Ordering::Relaxed);
}

/// Asks a client that is behind to say when it has caught up; or no longer.
pub(crate) fn ask_for_catching_up(segment: &Segment, asks: bool) {
    word(segment, HOST_RESTS).store(u32::from(asks), Ordering::Relaxed);
}

/// A flag of the segment.
fn word(segment: &Segment, at: usize) -> &AtomicU32 {
    segment.word32(at)
}
