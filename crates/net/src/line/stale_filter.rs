//! What is on a line of circuits that have gone, where other circuits have their labels by now.
//!
//! A label that is set up at the end of a line holds for what is given to the line after that: what is on it already
//! was sent on another circuit, and may be another user's. The filter knows which units of which label these are, by
//! their places on the line, and drops them when they are the oldest. A line has one only from such a set-up until all
//! that was on it then has been read.

use super::{Lane, Unit};
use crate::frame::FramePool;
use crate::parcel::Parcel;
use std::collections::HashMap;
use wire::cell::PAYLOAD_OCTETS;
use wire::{CircuitId, DropReason, Label};

/// Marks a path among the keys of labels.
const PATH: u32 = 1 << 31;

fn key(label: Label) -> u32 {
    match label {
        Label::Vc(circuit) => circuit.key(),
        Label::Vp(vpi) => PATH | u32::from(vpi.get()),
    }
}

/// See the module's head. A unit is a cell, a frame, or a parcel.
#[derive(Debug, Default)]
pub(super) struct StaleFilter {
    /// By label: units of it before this one are of a circuit that has gone. Units are counted from the filter's
    /// beginning.
    until: HashMap<u32, u64>,
    /// Units that have been taken off the line or dropped.
    passed: u64,
    /// The last of `until`.
    last: u64,
    has_paths: bool,
}

impl StaleFilter {
    /// The `ahead` units that are on the line are of no circuit of this label.
    fn mark(&mut self, label: Label, ahead: u64) {
        if self.until.len() == self.until.capacity() {
            // Labels whose units have passed make room: there are no more than labels were set up while one unit was on
            // the line.
            let passed = self.passed;
            self.until.retain(|_, until| *until > passed);
        }
        self.last = self.passed + ahead;
        self.has_paths |= label.is_path();
        self.until.insert(key(label), self.last);
    }

    /// Whether the unit at this place is of a circuit that has gone.
    fn holds_back(&self, circuit: CircuitId, place: u64) -> bool {
        let before = |key| self.until.get(&key).is_some_and(|until| place < *until);
        before(circuit.key()) || self.has_paths && before(key(Label::Vp(circuit.vpi)))
    }

    /// No more than `ahead` units come that were on the line at the last mark.
    fn shorten(&mut self, ahead: u64) {
        let most = self.passed + ahead;
        self.last = self.last.min(most);
        self.until.values_mut().for_each(|until| *until = most.min(*until));
    }

    fn is_done(&self) -> bool {
        self.passed >= self.last
    }
}

/// What [`Lane::purge_stale`] has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purged {
    /// The line has no filter any more.
    Done,
    /// What can be read now may be.
    Clean,
    /// More is to be dropped first.
    More,
}

impl<T: Unit> Lane<T> {
    /// How much of what is on the line has to pass a filter if these labels are set up at its end. On a line with
    /// faults, where order and number change, units of theirs that have not arrived are dropped at once.
    pub(crate) fn under_way(&mut self, labels: &[Label], pool: &mut FramePool) -> u64 {
        let arrived = self.arrived.len() + self.parcels.len();
        let Some(timed) = &mut self.timed else { return arrived as u64 };
        if timed.faults.is_none() {
            return (arrived + timed.queue.len() + timed.flight.len()) as u64;
        }
        let has_gone = |unit: &T| labels.iter().any(|label| label.holds(unit.circuit()));
        let mut gone = timed.discard_queued(has_gone, pool);
        timed.flight.retain_mut(|unit| {
            let goes = has_gone(unit);
            if goes {
                core::mem::take(unit).discard(pool);
                gone += 1;
            }
            !goes
        });
        self.sent.drop_n(DropReason::Closed, gone);
        self.lost += gone;
        arrived as u64
    }

    /// Labels are set up at the line's end, and none of the `ahead` units before it are theirs.
    pub(crate) fn outdate(&mut self, labels: &[Label], ahead: u64) {
        let stale_filter = self.stale_filter.get_or_insert_default();
        labels.iter().for_each(|label| stale_filter.mark(*label, ahead));
        self.clean = 0;
    }

    /// The line has been emptied in the shard where it begins: of what was before its end, so much can come yet.
    pub(crate) fn shorten_sieve(&mut self, beyond: u64) {
        let here = (self.arrived.len() + self.parcels.len()) as u64;
        if let Some(stale_filter) = &mut self.stale_filter {
            stale_filter.shorten(here + beyond);
            if stale_filter.is_done() {
                self.end_sieve();
            }
        }
    }

    /// Drops what the filter holds back of the oldest units, `most` at most, and finds out how many after these may be
    /// read.
    pub(crate) fn purge_stale(&mut self, most: usize, pool: &mut FramePool) -> Purged {
        let mut left = most;
        while self.clean == 0
            && let Some(stale_filter) = &self.stale_filter
        {
            if left == 0 {
                return Purged::More;
            }
            let at = stale_filter.passed;
            if let Some(parcel) = self.parcels.front() {
                if !stale_filter.holds_back(parcel.circuit, at) {
                    break;
                }
                left = left.saturating_sub(parcel.cells());
                if let Some(parcel) = self.parcels.take() {
                    self.lose_parcel(&parcel);
                }
                self.pass(1);
                continue;
            }
            let readable = self.arrived.readable();
            let readable = &readable[..readable.len().min(self.parcels.cells_before()).min(left)];
            let Some(first) = readable.first() else { break };
            if !stale_filter.holds_back(first.circuit(), at) {
                let is_clean = |(unit, place): &(&T, u64)| !stale_filter.holds_back(unit.circuit(), *place);
                self.clean = readable.iter().zip(at..).take_while(is_clean).count();
                break;
            }
            left -= 1;
            if let Some(unit) = self.arrived.pop() {
                self.parcels.handle_taken(1);
                unit.count(&mut self.cleared);
                unit.discard(pool);
                self.sent.drop_one(DropReason::Closed);
                self.lost += 1;
            }
            self.pass(1);
        }
        if self.stale_filter.is_some() { Purged::Clean } else { Purged::Done }
    }

    fn lose_parcel(&mut self, parcel: &Parcel) {
        let cells = parcel.cells() as u64;
        self.cleared.pass([cells, parcel.pdus() as u64, cells * PAYLOAD_OCTETS as u64]);
        self.sent.drop_n(DropReason::Closed, cells);
        self.lost += cells;
    }

    /// Units have been read.
    #[cold]
    pub(super) fn pass_clean(&mut self, n: usize) {
        self.clean = self.clean.saturating_sub(n);
        self.pass(n as u64);
    }

    fn pass(&mut self, n: u64) {
        if let Some(stale_filter) = &mut self.stale_filter {
            stale_filter.passed += n;
            if stale_filter.is_done() {
                self.end_sieve();
            }
        }
    }

    pub(super) fn end_sieve(&mut self) {
        (self.stale_filter, self.clean) = (None, usize::MAX);
    }

    /// Whether the oldest, a parcel, may be read.
    pub(super) fn is_parcel_clean(&self) -> bool {
        let (Some(stale_filter), Some(parcel)) = (&self.stale_filter, self.parcels.front()) else { return true };
        !stale_filter.holds_back(parcel.circuit, stale_filter.passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultConfig;
    use std::time::Duration;
    use wire::{Cell, CellHeader, CellRate, PayloadType, Time};

    fn put(lane: &mut Lane<Cell>, vci: u16, number: u16, pool: &mut FramePool) {
        let payload_type = PayloadType::User { congestion: false, end: false };
        let circuit = CircuitId::new(0, vci).unwrap();
        let mut cell = Cell::new(CellHeader { circuit, payload_type, clp: false }, [0; PAYLOAD_OCTETS]);
        cell.payload[..2].copy_from_slice(&number.to_be_bytes());
        assert!(lane.put(cell, Time::ZERO, pool).is_ok());
    }

    #[test]
    fn what_is_left_of_a_queue_leaves_at_another_rate_whatever_is_dropped_out_of_it() {
        const WAITING: u16 = 200;
        let rate = |cells_per_s| CellRate::from_cells_per_s(cells_per_s);
        let (faults, none) = (FaultConfig::default(), Duration::ZERO);
        let mut pool = FramePool::new(16, 65_536);
        // Among those that have their moments of the new rate at once, among those behind, and of both.
        for gone in [0..1, 0..64, 10..20, 60..70, 64..200, 100..140, 1..199, 0..200] {
            let mut lane = Lane::<Cell>::new(512, rate(100.0), none, Some(&faults), 0);
            (0..WAITING).for_each(|n| put(&mut lane, if gone.contains(&n) { 40 } else { 41 }, n, &mut pool));
            lane.set_rate(512, rate(100_000.0), none, Time::ZERO);
            (WAITING..300).for_each(|n| put(&mut lane, 41, n, &mut pool));
            let label = Label::Vc(CircuitId::new(0, 40).unwrap());
            assert_eq!(lane.under_way(&[label], &mut pool), 0);
            // 10 us for each; what came later leaves after all that waited.
            for (micros, until) in [(2005, WAITING), (3005, 300)] {
                lane.run(Time::from_nanos(1000 * micros), &mut pool);
                let number = |cell: &Cell| u16::from_be_bytes([cell.payload[0], cell.payload[1]]);
                let arrived: Vec<u16> = lane.arrived.readable().iter().map(number).collect();
                let expected: Vec<u16> = (0..until).filter(|n| !gone.contains(n)).collect();
                assert_eq!(arrived, expected, "{gone:?} dropped, after {micros} us");
            }
            assert!(lane.poll_timeout().is_none() && lane.counters().add_up(crate::Carries::Cells));
        }
    }
}
