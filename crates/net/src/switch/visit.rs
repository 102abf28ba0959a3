//! How much one visit of a switch does: all ports share it, and the port at which it has done enough comes first in the
//! next.

use super::SwitchElement;
use crate::line::Carries;
use crate::node::{NodeIo, ROUND_WORK};
use wire::Time;

/// Cells, frames of one port that one visit takes at most.
const CELLS_PER_TURN: usize = 2048;
const FRAMES_PER_TURN: usize = 64;
/// Cells that are handed to the cell switch at once where it may copy them.
const COPIED_AT_ONCE: usize = 256;

/// What a visit has done since it began, in cells: taken off a link, copied, or put on one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visit {
    begin: usize,
}

/// Work and copies at some moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    work: usize,
    copied: u64,
}

/// The port at which a visit begins, and what it may take there if a visit before has taken a part.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Turn {
    port: usize,
    left: Option<usize>,
}

impl Visit {
    pub(super) fn begin(io: &NodeIo<'_>) -> Self {
        Visit { begin: io.work() }
    }

    /// Cells that it may still do.
    pub(super) fn left(self, io: &NodeIo<'_>) -> usize {
        ROUND_WORK.saturating_sub(io.work().wrapping_sub(self.begin))
    }

    pub(super) fn is_over(self, io: &NodeIo<'_>) -> bool {
        self.left(io) == 0
    }

    /// Cells that may be handed over at once.
    pub(super) fn at_once(self, io: &NodeIo<'_>, cells: &switch::Switch) -> usize {
        let most = if cells.copies() { COPIED_AT_ONCE } else { usize::MAX };
        self.left(io).min(most)
    }
}

impl Mark {
    pub(super) fn now(io: &NodeIo<'_>, cells: &switch::Switch) -> Self {
        Mark { work: io.work(), copied: cells.copied() }
    }

    /// Counts `taken` cells and their copies since then, those that were not put on a link at once.
    pub(super) fn count(self, taken: usize, io: &mut NodeIo<'_>, cells: &switch::Switch) {
        // Cells that are not for a leaf are taken off again.
        let copied = (cells.copied().wrapping_sub(self.copied) as i64).max(0);
        let handled = taken.saturating_add(copied as usize);
        let counted = io.work().wrapping_sub(self.work);
        io.count_work(handled.saturating_sub(counted));
    }
}

impl SwitchElement {
    /// Takes what came in at all ports, or as much of it as one visit does. True if there was anything.
    pub(super) fn take_all(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let (visit, turn) = (Visit::begin(io), std::mem::take(&mut self.takes_next));
        let (mut any, mut over, mut rest) = (false, false, turn.left);
        let begin = self.first_from(turn.port);
        for at in 0..self.linked.len() {
            let port = self.linked_at(begin + at);
            self.note_signal(port, io, now);
            let rest = rest.take();
            let Some(carries) = io.carries(port).filter(|_| !over) else { continue };
            let most = if carries == Carries::Cells { CELLS_PER_TURN } else { FRAMES_PER_TURN };
            let most = rest.map_or(most, |rest| rest.min(most));
            let left = match carries {
                Carries::Cells => self.take_cells(port, io, now, visit, most),
                Carries::Frames => self.take_frames(port, io, now, visit, most),
            };
            any |= left < most;
            over = visit.is_over(io);
            if over {
                self.takes_next = match left {
                    0 => Turn { port: port + 1, left: None },
                    left => Turn { port, left: Some(left) },
                };
            }
        }
        any
    }

    /// Looks whether a port's link passes anything.
    fn note_signal(&mut self, port: usize, io: &NodeIo<'_>, now: Time) {
        let (state, up) = (&mut self.ports[port], io.is_up(port));
        state.in_service = state.link.is_some() && (state.in_service || up);
        let dark = state.in_service && !up;
        if dark != state.dark {
            state.dark = dark;
            self.cells.set_signal(port as u16, !dark, now);
        }
    }
}
