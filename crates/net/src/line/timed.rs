//! A line with rate, delay or faults: what waits at its sender, and what is on its way.

use super::unit::Unit;
use crate::fault::{Fate, Faults};
use crate::frame::FramePool;
use crate::ring::Ring;
use std::collections::VecDeque;
use std::time::Duration;
use traffic::CellClock;
use wire::{CellRate, Counters, DropReason, Time};

/// What makes a line slower or worse than memory.
#[derive(Debug)]
pub(super) struct Timed<T> {
    pub(super) clock: Option<CellClock>,
    pub(super) delay: Duration,
    pub(super) faults: Option<Faults>,
    pub(super) queue: Ring<T>,
    /// What the queue takes on the line, in cell times.
    pub(super) queued_cells: u64,
    /// What of the queue has the moments of the rate before, after a change.
    stale: Option<Stale>,
    pub(super) flight: VecDeque<T>,
    pub(super) flight_limit: usize,
    pub(super) duplicated: u64,
}

/// Units that get their moments of another rate at once.
const RETIMED: usize = 64;

/// What waited when the rate changed: the oldest have their moments by the new rate, at least one of them; those behind
/// get them as they come forward.
#[derive(Debug)]
struct Stale {
    retimed: usize,
    left: usize,
    /// Of the new rate, at the last unit that has its moment.
    clock: Option<CellClock>,
    changed: Time,
}

/// Room for the line's bandwidth-delay product; a cap keeps a typing error from taking all memory.
pub(super) fn flight_limit(queue: usize, rate: Option<CellRate>, delay: Duration) -> usize {
    let in_the_air = rate.map_or(0.0, |r| r.cells_per_s() * delay.as_secs_f64());
    queue.max(1) + (in_the_air.ceil() as usize).min(1 << 20)
}

impl<T: Unit> Timed<T> {
    pub(super) fn new(
        queue: usize,
        rate: Option<CellRate>,
        delay: Duration,
        faults: Option<Faults>,
        flight_limit: usize,
    ) -> Self {
        Timed {
            clock: rate.map(CellClock::new),
            delay,
            faults,
            queue: Ring::new(queue.max(1)),
            queued_cells: 0,
            stale: None,
            flight: VecDeque::with_capacity(flight_limit + 1),
            flight_limit,
            duplicated: 0,
        }
    }

    /// Another rate: what waits leaves at it.
    pub(super) fn set_rate(&mut self, rate: Option<CellRate>, now: Time) {
        self.clock = rate.map(CellClock::new);
        let (clock, left) = (self.clock, self.queue.len());
        self.stale = Some(Stale { retimed: 0, left, clock, changed: now });
        self.retime();
        if let Some(clock) = self.clock.as_mut().filter(|_| left > 0) {
            clock.send(self.queued_cells, now);
        }
    }

    fn retime(&mut self) {
        let Some(stale) = &mut self.stale else { return };
        let more = stale.left.min(RETIMED);
        for _ in 0..more {
            let Some(unit) = self.queue.get_mut(stale.retimed) else { break };
            let leaves = stale.clock.as_mut().map(|clock| clock.send(unit.cell_times(), stale.changed));
            unit.set_at(leaves.unwrap_or(stale.changed));
            stale.retimed += 1;
        }
        stale.left -= more;
        if stale.left == 0 {
            self.stale = None;
        }
    }

    /// Of the oldest units in the queue, how many have their moments.
    pub(super) fn settled(&self) -> usize {
        self.stale.as_ref().map_or(usize::MAX, |stale| stale.retimed)
    }

    /// The oldest `n` of the queue were taken, no more than are settled.
    pub(super) fn handle_taken(&mut self, n: usize) {
        let Some(stale) = &mut self.stale else { return };
        stale.retimed = stale.retimed.saturating_sub(n);
        if stale.retimed == 0 {
            self.retime();
        }
    }

    /// Discards what `goes` out of the queue; gives how many. What is left keeps its order.
    pub(super) fn discard_queued(&mut self, goes: impl Fn(&T) -> bool, pool: &mut FramePool) -> u64 {
        let settled = self.stale.as_ref().map_or(0, |stale| stale.retimed);
        let waited = self.stale.as_ref().map_or(0, |stale| stale.retimed + stale.left);
        let mut gone = 0;
        for place in 0..self.queue.len() {
            let Some(unit) = self.queue.pop() else { break };
            if !goes(&unit) {
                // It has just made room.
                let _ = self.queue.push(unit);
                continue;
            }
            self.queued_cells -= unit.cell_times();
            unit.discard(pool);
            gone += 1;
            if let Some(stale) = self.stale.as_mut().filter(|_| place < waited) {
                *(if place < settled { &mut stale.retimed } else { &mut stale.left }) -= 1;
            }
        }
        // The oldest may be one that has no moment yet.
        self.handle_taken(0);
        gone
    }

    /// Empties the queue; `f` gets each unit.
    pub(super) fn clear_queue(&mut self, mut f: impl FnMut(T)) {
        while let Some(unit) = self.queue.pop() {
            f(unit);
        }
        (self.queued_cells, self.stale) = (0, None);
    }

    /// Cell times of what waits at the sender, with one for the unit that is leaving.
    pub(super) fn waiting(&self) -> u64 {
        self.queue.front().map_or(0, |leaving| self.queued_cells - leaving.cell_times() + 1)
    }

    /// A unit that has left the sender, with its moment of arrival, if nothing is on the line, nothing can befall it
    /// there and it has arrived by now; else as it was.
    pub(super) fn pass(&self, mut unit: T, now: Time) -> Result<T, T> {
        let arrives = unit.at() + self.delay;
        if self.faults.is_some() || !self.flight.is_empty() || arrives > now {
            return Err(unit);
        }
        unit.set_at(arrives);
        Ok(unit)
    }

    /// `unit` has left the sender; its `at` says when. False, counted, if it does not arrive.
    pub(super) fn depart(&mut self, mut unit: T, counters: &mut Counters, pool: &mut FramePool) -> bool {
        let left = unit.at();
        unit.set_at(left + self.delay);
        let fate = match &mut self.faults {
            Some(faults) => faults.fate(left),
            None => Fate::Arrives { twice: false, late_by: Duration::ZERO, flip: false },
        };
        let (twice, late_by, flip) = match fate {
            Fate::Dropped(reason) => {
                counters.drop_one(reason);
                unit.discard(pool);
                return false;
            }
            Fate::Arrives { twice, late_by, flip } => (twice, late_by, flip),
        };
        if flip && !self.faults.as_mut().is_some_and(|f| unit.corrupt(f)) {
            counters.drop_one(DropReason::Crc);
            unit.discard(pool);
            return false;
        }
        if twice && self.flight.len() + 1 < self.flight_limit {
            let copy = unit.duplicate(pool);
            self.insert(copy);
            self.duplicated += 1;
        }
        let mut arrives = left + self.delay + late_by;
        if self.faults.is_none() {
            // A delay that has become shorter must not let later units overtake.
            arrives = arrives.max(self.flight.back().map_or(arrives, Unit::at));
        }
        unit.set_at(arrives);
        self.insert(unit);
        true
    }

    /// Keeps the line in order of arrival; of equal times, in order of departure.
    pub(super) fn insert(&mut self, unit: T) {
        if self.flight.back().is_none_or(|u| u.at() <= unit.at()) {
            return self.flight.push_back(unit);
        }
        let place = self.flight.iter().rposition(|u| u.at() <= unit.at()).map_or(0, |i| i + 1);
        self.flight.insert(place, unit);
    }
}
