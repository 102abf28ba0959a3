//! Event strategies: how host and application learn that something has arrived.
//!
//! What to do when is decided by [`machine`], one for each endpoint, and [`poll_list`] keeps their times. Here is what
//! they do it with: both sides keep a word in the segment that says "I sleep", and whoever reads it there wakes the
//! other. The host wakes a client as a futex on that word, or lets its user proxy ring its bell: it touches nothing
//! that a client holds. A new strategy is a variant of [`endpoint::Events`] and its cases in [`machine`].

pub mod machine;
pub mod poll_list;

use crate::proxy::BellTable;
use endpoint::Events;
use endpoint::layout::{
    BY_FUTEX, CLIENT_SLEEPS, CLIENT_WAITS, HOST_PROCESSOR, HOST_RESTS, HOST_SLEEPS, NEWS_OF_ROOM, NEWS_OF_SDUS,
};
use endpoint::segment::Segment;
use machine::Machine;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::task::Waker;

/// How a client is woken that does not sleep on its segment.
#[derive(Debug)]
pub struct Bell(Ringer);

#[derive(Debug)]
enum Ringer {
    /// By a descriptor that its user proxy rings (`proxy/`), in this slot of the board.
    UserProxy(Arc<BellTable>, u32),
    /// A thread of this process, by something that never waits.
    Thread(Waker),
}

impl Bell {
    pub(crate) fn of_user_proxy(board: Arc<BellTable>, slot: u32) -> Self {
        Bell(Ringer::UserProxy(board, slot))
    }

    /// For an application that is a thread of this process. The engine's thread wakes it: it must not take long.
    pub fn of_thread(waker: Waker) -> Self {
        Bell(Ringer::Thread(waker))
    }

    fn ring(&self) {
        match &self.0 {
            Ringer::UserProxy(board, slot) => board.ring(*slot),
            Ringer::Thread(waker) => waker.wake_by_ref(),
        }
    }

    /// Lets what the client has put into its bell be taken out: it waits for room that there is now.
    fn empty(&self) {
        match &self.0 {
            Ringer::UserProxy(board, slot) => board.empty(*slot),
            Ringer::Thread(waker) => waker.wake_by_ref(),
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
    /// As the client was told last.
    processor: u32,
    /// An SDU was given to the client since the last bell.
    pushed: bool,
    /// Slots of the client's send ring became free since the last bell.
    freed: bool,
    /// The client sleeps until there is more room than there was when a slot became free last.
    owed: bool,
    pub(crate) counts: EventCounts,
}

impl Strategy {
    pub(crate) fn new(kind: Events, slots: u32, bell: Option<Bell>) -> Self {
        let machine = Machine::new(kind, slots);
        Strategy {
            machine,
            bell,
            processor: 0,
            pushed: false,
            freed: false,
            owed: false,
            counts: EventCounts::default(),
        }
    }

    pub(crate) fn kind(&self) -> Events {
        self.machine.kind()
    }

    /// An SDU was pushed.
    pub(crate) fn note_pushed(&mut self, segment: &Segment) {
        self.pushed = true;
        if self.machine.tells_at_once() {
            self.ring(segment, || true);
        }
    }

    /// Descriptors were taken, and their slots are free.
    pub(crate) fn note_taken(&mut self, n: u32) {
        self.note_loaded(n);
        self.note_freed();
    }

    /// Descriptors were taken whose slots and buffers stay in use until their SDUs have been read.
    pub(crate) fn note_loaded(&mut self, n: u32) {
        self.machine.handle_taken(n);
    }

    /// Slots became free.
    pub(crate) fn note_freed(&mut self) {
        self.freed = true;
    }

    /// Whether there is something to tell the client.
    pub(crate) fn has_news(&self) -> bool {
        self.pushed || self.freed
    }

    /// Rings if there was news and the client sleeps. A client that sleeps until there is room is woken when there is
    /// `much_room`, or when nothing has become free since it was left asleep for want of it.
    pub(crate) fn ring(&mut self, segment: &Segment, much_room: impl FnOnce() -> bool) {
        let (pushed, freed) = (std::mem::take(&mut self.pushed), std::mem::take(&mut self.freed));
        let owed = std::mem::take(&mut self.owed);
        if !pushed && !freed && !owed {
            return;
        }
        // What was pushed must be visible before the flag is read.
        fence(Ordering::SeqCst);
        let flag = word(segment, CLIENT_SLEEPS);
        let wanted = match flag.load(Ordering::Relaxed) {
            0 => false,
            sleeps if sleeps & !BY_FUTEX == NEWS_OF_SDUS => pushed,
            sleeps if sleeps & !BY_FUTEX == NEWS_OF_ROOM => {
                self.owed = freed && !much_room();
                (freed || owed) && !self.owed
            }
            _ => pushed || freed,
        };
        let sleeps = if wanted { flag.swap(0, Ordering::AcqRel) } else { 0 };
        if sleeps == 0 {
            return;
        }
        if sleeps & BY_FUTEX != 0 {
            segment.wake(CLIENT_SLEEPS);
        } else if let Some(bell) = &self.bell {
            bell.ring();
        } else {
            return;
        }
        self.counts.bells = self.counts.bells.wrapping_add(1);
    }

    /// Its application has gone: nobody is woken any more.
    pub(crate) fn forget_bell(&mut self) {
        self.bell = None;
    }

    /// Says in the segment which processor the host's thread runs on (counted from 1).
    pub(crate) fn publish_processor(&mut self, segment: &Segment, processor: u32) {
        if self.processor != processor {
            self.processor = processor;
            word(segment, HOST_PROCESSOR).store(processor, Ordering::Relaxed);
        }
    }

    /// Whether the client waits for room in its send ring.
    pub(crate) fn client_waits(&self, segment: &Segment) -> bool {
        word(segment, CLIENT_WAITS).load(Ordering::Relaxed) != 0
    }

    /// There is room: lets the client go on.
    pub(crate) fn admit(&self, segment: &Segment) {
        if word(segment, CLIENT_WAITS).swap(0, Ordering::AcqRel) != 0
            && let Some(bell) = &self.bell
        {
            bell.empty();
        }
    }
}

/// Asks the client for its doorbell. Look once more afterwards: something may have come just before.
pub(crate) fn arm(segment: &Segment) {
    ask(segment);
    fence(Ordering::SeqCst);
}

/// The same, before a fence of the caller's.
pub(crate) fn ask(segment: &Segment) {
    word(segment, HOST_SLEEPS).store(1, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;
    use endpoint::layout::Geometry;

    #[test]
    fn who_sleeps_until_there_is_room_is_woken_by_half_a_ring_or_when_no_more_becomes_free() {
        let segment = Segment::anonymous(Geometry { buffers: 1, buffer_octets: 64, ..Geometry::default() }).unwrap();
        let mut strategy = Strategy::new(Events::default(), 256, None);
        let asleep = || word(&segment, CLIENT_SLEEPS).load(Ordering::Relaxed) != 0;
        let sleep = || word(&segment, CLIENT_SLEEPS).store(NEWS_OF_ROOM | BY_FUTEX, Ordering::Relaxed);
        sleep();
        strategy.note_pushed(&segment);
        strategy.ring(&segment, || true);
        assert!(asleep(), "an SDU is no room");
        strategy.note_taken(1);
        strategy.ring(&segment, || false);
        assert!(asleep(), "too little for a wake-up");
        strategy.note_taken(1);
        strategy.ring(&segment, || true);
        assert!(!asleep());
        sleep();
        strategy.note_taken(1);
        strategy.ring(&segment, || false);
        strategy.ring(&segment, || false);
        assert!(!asleep(), "nothing was taken since");
        sleep();
        strategy.ring(&segment, || true);
        assert!(asleep(), "nothing was taken at all");
        assert_eq!(strategy.counts.bells, 2);
    }
}
