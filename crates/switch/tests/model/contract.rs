//! The plain model of contracts: policing at the input, schedules at the output. Times are whole numbers of 2^-16 nanosecond
//! that never wrap.

use super::Kind;
use switch::{Arrival, Excess, FrameExcess};
use wire::{Cell, CellHeader, Time};

/// Moments and lengths of time.
pub type Moment = i128;

/// What a policed profile tests, in whole nanoseconds: increment and limit of peak and sustainable rate.
#[derive(Debug, Clone, Copy)]
pub struct Contract {
    pub peak: (u64, u64),
    pub sustainable: Option<(u64, u64)>,
    pub high_priority_only: bool,
    pub excess: Excess,
}

/// The same for frames: peak rate, minimum rate, cells of the longest frame.
#[derive(Debug, Clone, Copy)]
pub struct Frames {
    pub peak: (u64, u64),
    pub minimum: (u64, u64),
    pub max_cells: u32,
    pub excess: FrameExcess,
}

/// When cells are due: peak rate with the time that may be caught up, sustainable rate with its tolerance.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    pub peak: (u64, u64),
    pub sustainable: Option<(u64, u64)>,
    pub paced: bool,
}

fn length(nanos: u64) -> Moment {
    i128::from(nanos) << 16
}

pub fn moment(now: Time) -> Moment {
    length(now.as_nanos())
}

/// When each cell of a batch came in.
pub fn arrivals(arrival: Arrival, cells: &[Cell], last: Time, now: Time) -> Vec<Moment> {
    let n = cells.len() as i128;
    let of = |(i, cell): (i128, &Cell)| match arrival {
        Arrival::Together => moment(now),
        Arrival::Stamped => {
            let (at, now) = (moment(cell.at()), moment(now));
            let stamped = cell.at() != Time::ZERO;
            if stamped && at <= now && now - at <= length(1_000_000_000) { at } else { now }
        }
        Arrival::Spaced(most) => {
            let span = (moment(now) - moment(last)).min(length(most.as_nanos() as u64)).min(length(1_000_000_000));
            moment(now) - span / n * (n - 1 - i)
        }
    };
    cells.iter().enumerate().map(|(i, cell)| of((i as i128, cell))).collect()
}

/// What policing knows of a route: theoretical arrival times, and the frame under way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known {
    times: [Moment; 2],
    frame: Option<Frame>,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    eligible: bool,
    low: bool,
    fault: bool,
    cells: u32,
}

impl Known {
    /// Tests a cell: whether it is discarded, and whether it is beyond the contract. Tags it.
    pub fn police(
        &mut self,
        kind: &Kind,
        user: Option<bool>,
        of_pdus: bool,
        cell: &mut Cell,
        at: Moment,
    ) -> (bool, bool) {
        if let Some(contract) = kind.contract {
            return self.police_cell(contract, cell, at);
        }
        match kind.frames.filter(|_| of_pdus) {
            Some(frames) => self.police_frame(frames, user, cell, at),
            None => (false, false),
        }
    }

    fn passes(&self, which: usize, limit: Moment, at: Moment) -> bool {
        at >= self.times[which] - limit
    }

    fn book(&mut self, which: usize, increment: Moment, at: Moment) {
        self.times[which] = self.times[which].max(at) + increment;
    }

    fn police_cell(&mut self, contract: Contract, cell: &mut Cell, at: Moment) -> (bool, bool) {
        let header = cell.header();
        if !self.passes(0, length(contract.peak.1), at) {
            return (true, true);
        }
        let mut beyond = false;
        if let Some((increment, limit)) = contract.sustainable.filter(|_| !(contract.high_priority_only && header.clp))
        {
            if self.passes(1, length(limit), at) {
                self.book(1, length(increment), at);
            } else if contract.excess == Excess::Discard {
                return (true, true);
            } else {
                beyond = true;
                cell.set_header(CellHeader { clp: true, ..header });
            }
        }
        self.book(0, length(contract.peak.0), at);
        (false, beyond)
    }

    /// `times[1]` counts in 2^-8 nanosecond.
    fn police_frame(&mut self, frames: Frames, user: Option<bool>, cell: &mut Cell, at: Moment) -> (bool, bool) {
        let header = cell.header();
        let below_peak = self.passes(0, length(frames.peak.1), at);
        let Some(end) = user else {
            if below_peak {
                self.book(0, length(frames.peak.0), at);
            }
            return (!below_peak, !below_peak);
        };
        let (coarse, units) = (at >> 8, |nanos: u64| i128::from(nanos) << 8);
        let first = self.frame.is_none();
        let eligible = !header.clp && self.passes(1, units(frames.minimum.1), coarse);
        let begun = Frame { eligible, low: header.clp, fault: false, cells: 0 };
        let mut frame = self.frame.unwrap_or(begun);
        frame.cells += 1;
        let regular = frame.low == header.clp && frame.cells <= frames.max_cells && !frame.fault;
        let kept = below_peak && (regular || end && !first);
        frame.fault |= !kept;
        let ineligible = !frame.eligible && !frame.low;
        let discarded = !kept || ineligible && frames.excess == FrameExcess::Discard;
        let tagged = !discarded && ineligible && frames.excess == FrameExcess::Tag;
        if !discarded {
            self.book(0, length(frames.peak.0), at);
            if frame.eligible {
                self.book(1, units(frames.minimum.0), coarse);
            }
        }
        if tagged {
            cell.set_header(CellHeader { clp: true, ..header });
        }
        self.frame = (!end).then_some(frame);
        (discarded, discarded || tagged)
    }
}

/// Where a circuit's next cell waits for its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    Nowhere,
    /// Until a boundary of 64 nanoseconds, in the order of `order` among those of one boundary.
    Until {
        boundary: u64,
        order: u64,
    },
    Due,
}

/// A circuit's schedule at its output.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    times: [Moment; 2],
    due: Moment,
    pub waits: Waits,
}

impl Default for Output {
    fn default() -> Self {
        Output { times: [0; 2], due: 0, waits: Waits::Nowhere }
    }
}

impl Output {
    /// The next cell begins to wait.
    pub fn schedule(&mut self, schedule: &Schedule, now: Time, catch_up: bool, order: &mut u64) {
        let behind = if catch_up { length(schedule.peak.1) } else { 0 };
        let by_burst = schedule.sustainable.map_or(0, |(_, limit)| self.times[1] - length(limit));
        self.due = (moment(now) - behind).max(self.times[0]).max(by_burst);
        let nanos = (self.due.max(0) as u128).div_ceil(1 << 16) as u64;
        self.waits = if self.due <= moment(now) {
            Waits::Due
        } else {
            *order += 1;
            Waits::Until { boundary: nanos.div_ceil(64), order: *order }
        };
    }

    /// The cell that was due has left.
    pub fn book(&mut self, schedule: &Schedule) {
        self.times[0] = self.due + length(schedule.peak.0);
        if let Some((increment, _)) = schedule.sustainable {
            self.times[1] = self.times[1].max(self.due) + length(increment);
        }
    }
}
