//! Frames of a machine that wait for its shell, within bounds, and with a share for each station.
//!
//! In: frames, and whose call each comes of. Out: the same in their order. Where all room is taken, the station of which most
//! wait loses one for a station of which at least two fewer do, so that nobody's flood pushes out what others send.

use super::Link;
use std::collections::{BTreeMap, VecDeque};
use wire::aesa::Aesa;

/// Frames that wait at most.
pub(super) const MAX_FRAMES: usize = 256;

/// A host; `None`: the machine itself.
type Station = Option<Aesa>;

#[derive(Debug)]
struct Waiting {
    to: Link,
    of: Station,
    octets: Box<[u8]>,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Frames {
    queue: VecDeque<Waiting>,
    /// How many wait of each station that has some.
    shares: BTreeMap<Station, usize>,
    /// Of whom the next ones are.
    of: Station,
}

impl Frames {
    /// Says of whom the next ones are. A host chooses its selectors, so that they make it no other station.
    pub(super) fn act_for(&mut self, station: Station) {
        self.of = station.map(Aesa::without_selector);
    }

    /// Lets a frame wait. False if one had to be dropped for it, or it was itself.
    pub(super) fn push(&mut self, to: Link, octets: &[u8]) -> bool {
        let is_full = self.queue.len() >= MAX_FRAMES;
        if !is_full || self.make_room() {
            *self.shares.entry(self.of).or_default() += 1;
            self.queue.push_back(Waiting { to, of: self.of, octets: octets.into() });
        }
        !is_full
    }

    /// Drops the last frame of the station that has most, if that leaves it no fewer than the new one's.
    fn make_room(&mut self) -> bool {
        let own = self.shares.get(&self.of).copied().unwrap_or_default();
        let most = self.shares.iter().filter(|(_, n)| **n >= own + 2).max_by_key(|(_, n)| **n).map(|(of, _)| *of);
        let Some(most) = most else { return false };
        let Some(last) = self.queue.iter().rposition(|frame| frame.of == most) else { return false };
        self.queue.remove(last);
        self.give_back(most);
        true
    }

    /// One of a station waits no more.
    fn give_back(&mut self, of: Station) {
        if let Some(n) = self.shares.get_mut(&of) {
            *n -= 1;
            if *n == 0 {
                self.shares.remove(&of);
            }
        }
    }

    /// The next frame, and on which call it goes.
    pub(super) fn pop(&mut self) -> Option<(Link, Box<[u8]>)> {
        let Waiting { to, of, octets } = self.queue.pop_front()?;
        self.give_back(of);
        Some((to, octets))
    }

    /// Drops all for a call; how many there were.
    pub(super) fn forget(&mut self, link: Link) -> u64 {
        let (gone, kept): (Vec<Waiting>, _) =
            std::mem::take(&mut self.queue).into_iter().partition(|frame| frame.to == link);
        self.queue = kept.into();
        gone.iter().for_each(|frame| self.give_back(frame.of));
        gone.len() as u64
    }
}
