//! A record of a run in virtual time: which unit worked on which PDU, from when to when.
//!
//! In: the occupations of a [`Machine`](super::Machine) and what each finished piece of work was for. Out: a
//! [`Timeline`]. Recording changes nothing in the run. The number of spans is bounded; spans beyond it are counted, and
//! the busy time of each unit stays complete.

use super::machine::{Occupation, Resource};
use serde::Serialize;
use std::collections::BTreeMap;
use wire::Time;

/// Spans that a record keeps.
const SPANS: usize = 400_000;

/// How a unit is concerned with a PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Concern {
    /// It works on the PDU and on nothing else.
    Works,
    /// The PDU, or a part of it, is there. Several PDUs may be.
    Holds,
}

/// A unit and a PDU, from when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The unit: an index of [`Timeline::units`].
    pub unit: usize,
    /// What happens.
    pub what: &'static str,
    /// The first and the last PDU that it is for; `None`: for none in particular.
    pub pdus: Option<[u64; 2]>,
    /// See there.
    pub concern: Concern,
    /// From when.
    pub from: Time,
    /// To when.
    pub to: Time,
    /// Cells that passed.
    pub cells: u64,
}

impl Span {
    /// Whether it is for this PDU.
    pub fn is_for(&self, pdu: u64) -> bool {
        self.pdus.is_some_and(|[first, last]| (first..=last).contains(&pdu))
    }
}

/// What all units did, in the order in which it ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// Names of the units, from the sending application to the receiving one.
    pub units: Vec<String>,
    /// See there.
    pub spans: Vec<Span>,
    /// Seconds that each unit worked, over the whole run.
    pub busy: Vec<f64>,
    /// Cells that passed each unit, over the whole run.
    pub cells: Vec<u64>,
    /// Spans that were not kept.
    pub omitted: u64,
}

/// See the module's head.
#[derive(Debug, Default)]
pub struct Recorder {
    timeline: Timeline,
    /// By unit: when the piece of work at hand had the unit. Another piece may come between.
    open: BTreeMap<usize, Vec<[Time; 2]>>,
    /// By unit: its last span.
    last: Vec<Option<usize>>,
}

impl Recorder {
    /// Nothing yet, of these units.
    pub fn new(units: impl IntoIterator<Item = String>) -> Self {
        let units: Vec<String> = units.into_iter().collect();
        let (busy, cells) = (vec![0.0; units.len()], vec![0; units.len()]);
        let last = vec![None; units.len()];
        let timeline = Timeline { units, busy, cells, ..Timeline::default() };
        Recorder { timeline, open: BTreeMap::new(), last }
    }

    /// Adds a span.
    pub fn add(&mut self, span: Span) {
        let Some(busy) = self.timeline.busy.get_mut(span.unit) else { return };
        if span.concern == Concern::Works {
            *busy += span.to.since(span.from).as_secs_f64();
        }
        self.timeline.cells[span.unit] += span.cells;
        if self.continues(&span) {
            return;
        }
        self.last[span.unit] = Some(self.timeline.spans.len());
        if self.timeline.spans.len() < SPANS {
            self.timeline.spans.push(span);
        } else {
            self.timeline.omitted += 1;
        }
    }

    /// Whether it goes on where the unit's last span ends, with the same work for the same PDU; then it is one with it.
    fn continues(&mut self, span: &Span) -> bool {
        let last = self.last[span.unit].and_then(|at| self.timeline.spans.get_mut(at));
        let Some(last) = last.filter(|last| span.concern == Concern::Works && last.to == span.from) else {
            return false;
        };
        let same = (last.what, last.pdus, last.concern) == (span.what, span.pdus, span.concern);
        if same {
            last.to = span.to;
            last.cells += span.cells;
        }
        same
    }

    /// Time has passed in a machine, whose resources are these units.
    pub fn advanced(&mut self, occupations: impl IntoIterator<Item = Occupation>, unit: impl Fn(Resource) -> usize) {
        for Occupation { resource, from, to } in occupations {
            let parts = self.open.entry(unit(resource)).or_default();
            match parts.last_mut() {
                Some(last) if last[1] == from => last[1] = to,
                _ if from == to => {}
                _ => parts.push([from, to]),
            }
        }
    }

    /// The piece of work that a unit was at is done: what it was, and for which PDUs.
    pub fn finished(&mut self, unit: usize, what: &'static str, pdus: Option<[u64; 2]>) {
        self.take(unit).into_iter().for_each(|part| self.work(unit, what, pdus, part));
    }

    /// The same for a piece of work whose name comes later: when it had the unit.
    pub fn take(&mut self, unit: usize) -> Vec<[Time; 2]> {
        self.open.remove(&unit).unwrap_or_default()
    }

    /// A part of a piece of work.
    pub fn work(&mut self, unit: usize, what: &'static str, pdus: Option<[u64; 2]>, [from, to]: [Time; 2]) {
        self.add(Span { unit, what, pdus, concern: Concern::Works, from, to, cells: 0 });
    }

    /// Cells have passed that belong to no PDU that has a number.
    pub fn count_cells(&mut self, unit: usize, cells: u64) {
        if let Some(count) = self.timeline.cells.get_mut(unit) {
            *count += cells;
        }
    }

    /// The record. Work that the end of the run found under way is there too.
    pub fn finish(mut self) -> Timeline {
        for unit in self.open.keys().copied().collect::<Vec<_>>() {
            self.finished(unit, "not finished", None);
        }
        self.timeline
    }
}

impl Timeline {
    /// The spans of one PDU, by their beginnings.
    pub fn of(&self, pdu: u64) -> Vec<Span> {
        let mut spans: Vec<Span> = self.spans.iter().filter(|span| span.is_for(pdu)).copied().collect();
        spans.sort_by_key(|span| (span.from, span.to, span.unit));
        spans
    }

    /// From the first moment of a PDU to its last; `None` if there is no such PDU.
    pub fn window(&self, pdu: u64) -> Option<[Time; 2]> {
        let spans = || self.spans.iter().filter(|span| span.is_for(pdu));
        Some([spans().map(|span| span.from).min()?, spans().map(|span| span.to).max()?])
    }

    /// How many PDUs there are: one more than the greatest number.
    pub fn pdus(&self) -> u64 {
        self.spans.iter().filter_map(|span| span.pdus).map(|[_, last]| last + 1).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::{Level, Machine, Work};
    use super::*;

    fn unit(resource: Resource) -> usize {
        match resource {
            Resource::Interrupts => 0,
            Resource::Task(_) => 1,
            Resource::Transfer => 2,
        }
    }

    #[test]
    fn a_piece_of_work_that_was_interrupted_has_two_parts_whose_sum_is_its_time() {
        let mut machine = Machine::default();
        machine.record();
        let mut recorder = Recorder::new(["interrupts", "process", "bus"].map(String::from));
        machine.submit(Level::Process, Work::cached(1e-6), 1);
        machine.advance(Time::from_nanos(400), |_| unreachable!());
        machine.submit(Level::Interrupt, Work::cached(2e-6), 0);
        while let Some(at) = machine.poll_timeout() {
            let mut done = None;
            machine.advance(at, |number: usize| done = Some(number));
            recorder.advanced(machine.take_record(), unit);
            done.into_iter().for_each(|number| recorder.finished(number, "work", Some([7, 7])));
        }
        let timeline = recorder.finish();
        let parts: Vec<_> = timeline.of(7).iter().map(|s| (s.unit, s.from.as_nanos(), s.to.as_nanos())).collect();
        assert_eq!(parts, [(1, 0, 400), (0, 400, 2400), (1, 2400, 3000)]);
        assert!((timeline.busy[1] - machine.busy()[1]).abs() < 1e-12 && (timeline.busy[0] - 2e-6).abs() < 1e-12);
        assert_eq!((timeline.pdus(), timeline.window(8)), (8, None));
    }

    #[test]
    fn spans_beyond_the_bound_are_counted_and_their_time_is_not_lost() {
        let mut recorder = Recorder::new(["line".to_owned()]);
        let (from, to) = (Time::ZERO, Time::from_nanos(1000));
        let span = |n| Span { unit: 0, what: "cell", pdus: Some([n; 2]), concern: Concern::Works, from, to, cells: 1 };
        (0..SPANS as u64 + 5).for_each(|n| recorder.add(span(n)));
        let timeline = recorder.finish();
        assert_eq!((timeline.spans.len(), timeline.omitted, timeline.cells[0]), (SPANS, 5, SPANS as u64 + 5));
        assert!((timeline.busy[0] - (SPANS + 5) as f64 * 1e-6).abs() < 1e-6);
    }
}
