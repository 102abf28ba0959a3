//! Frames of a machine that wait for its shell, within bounds, and with a share for each station ([`Queue`]).
//!
//! In: frames, and whose call each comes of. Out: the same in their order.

use super::Link;
use crate::shares::{Queue, Queued};
use wire::aesa::Aesa;

/// Frames that wait at most.
pub(super) const MAX_FRAMES: usize = 256;

/// A host; `None`: the machine itself.
type Station = Option<Aesa>;

/// See the module's head.
#[derive(Debug)]
pub(super) struct Frames {
    queue: Queue<Station, (Link, Box<[u8]>)>,
    /// Of whom the next ones are.
    of: Station,
}

impl Default for Frames {
    fn default() -> Self {
        Frames { queue: Queue::new(MAX_FRAMES), of: None }
    }
}

impl Frames {
    /// Says of whom the next ones are. A host chooses its selectors, so that they make it no other station.
    pub(super) fn act_for(&mut self, station: Station) {
        self.of = station.map(Aesa::without_selector);
    }

    /// Lets a frame wait. False if one had to be dropped for it, or it was itself.
    pub(super) fn push(&mut self, to: Link, octets: &[u8]) -> bool {
        self.queue.push(self.of, || (to, octets.into())) == Queued::Taken
    }

    /// The next frame, and on which call it goes.
    pub(super) fn pop(&mut self) -> Option<(Link, Box<[u8]>)> {
        self.queue.pop().map(|(_, frame)| frame)
    }

    /// Drops all for a call; how many there were.
    pub(super) fn forget(&mut self, link: Link) -> u64 {
        self.queue.forget(|_, (to, _)| *to == link)
    }
}
