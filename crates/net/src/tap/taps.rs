//! The taps of one link: each of several readers has its own, with its own circuits and bounds.

use super::{Tap, TapConfig};
use crate::frame::{Frame, FramePool};
use crate::line::Side;
use wire::{Cell, Time};

/// Readers that may look at one link at once.
pub const MAX_TAPS: usize = 8;

/// One of several taps of a link, by a number that its reader has chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TapId(pub u64);

/// The taps of one link.
#[derive(Debug, Default)]
pub(crate) struct Taps(Vec<(TapId, Tap)>);

impl Taps {
    /// Adds a tap, in the place of an earlier one of this number. False if there is no room for another.
    pub(crate) fn set(&mut self, id: TapId, config: TapConfig) -> bool {
        self.remove(id);
        let has_room = self.0.len() < MAX_TAPS;
        if has_room {
            self.0.push((id, Tap::new(config)));
        }
        has_room
    }

    pub(crate) fn remove(&mut self, id: TapId) {
        self.0.retain(|(of, _)| *of != id);
    }

    pub(crate) fn get_mut(&mut self, id: TapId) -> Option<&mut Tap> {
        self.0.iter_mut().find(|(of, _)| *of == id).map(|(_, tap)| tap)
    }

    pub(crate) fn has(&self, id: TapId) -> bool {
        self.0.iter().any(|(of, _)| *of == id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn see_cells(&mut self, cells: &[Cell], from: Side, at: Time) {
        self.0.iter_mut().for_each(|(_, tap)| tap.see_cells(cells, from, at));
    }

    pub(crate) fn see_frame(&mut self, frame: &Frame, pool: &FramePool, from: Side, at: Time) {
        self.0.iter_mut().for_each(|(_, tap)| tap.see_frame(frame, pool, from, at));
    }
}

#[cfg(test)]
mod tests {
    use super::super::TapBuffer;
    use super::*;

    #[test]
    fn each_reader_has_what_it_asked_for_whatever_others_drain_and_there_is_a_bound() {
        let mut taps = Taps::default();
        let few = TapConfig { records: 2, ..TapConfig::default() };
        assert!(taps.set(TapId(1), TapConfig::default()) && taps.set(TapId(2), few.clone()));
        taps.see_cells(&[Cell::default(); 3], Side::A, Time::ZERO);
        let mut seen = TapBuffer::default();
        let mut drain = |taps: &mut Taps, id| {
            taps.get_mut(TapId(id)).unwrap().swap(&mut seen);
            (seen.len(), seen.dropped())
        };
        assert_eq!(drain(&mut taps, 1), (3, 0));
        taps.see_cells(&[Cell::default(); 3], Side::B, Time::ZERO);
        assert_eq!((drain(&mut taps, 2), drain(&mut taps, 1)), ((2, 4), (3, 0)));
        for id in 3..=MAX_TAPS as u64 {
            assert!(taps.set(TapId(id), few.clone()), "{id}");
        }
        assert!(!taps.set(TapId(99), few.clone()) && taps.set(TapId(1), few.clone()), "one more, or one anew");
        taps.remove(TapId(2));
        assert!(!taps.has(TapId(2)) && taps.set(TapId(99), few));
        (1..100).for_each(|id| taps.remove(TapId(id)));
        assert!(taps.is_empty());
    }
}
