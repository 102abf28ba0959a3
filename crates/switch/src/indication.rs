//! AIS of a switch (I.610): which circuits are to be told of a defect, and when.
//!
//! A cause is a link that is down, or the end of a path that has an alarm. Its circuits are listed at their outputs in
//! sweeps over the label table, slice by slice: the first sweep as fast as slices are asked for, one more each second,
//! spread over half of it, so that neither the cell thread nor an output has all of them to do at once. A cause that
//! ends keeps its place until its next sweep would be due: one that comes and goes quickly lists each circuit once a
//! second all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::cell::PAYLOAD_OCTETS;
use wire::oam::{Defect, Function};
use wire::{Label, Time, Vpi};

/// Labels of one slice of the first sweep, and of a later one at least.
const SLICE: usize = 512;
const LATER_SLICE: usize = 64;
/// From one slice of a later sweep to the next, and how many such slices a sweep has at most unless they were longer
/// than [`LONGEST`].
const STEP: Duration = Duration::from_millis(10);
const STEPS: u32 = 50;
const LONGEST: usize = 8192;

/// A port where a link is down, or the path there that has an alarm.
pub(crate) type Key = (u16, Option<Vpi>);

/// A circuit that an output is to send an AIS cell on. It is looked up anew then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    pub(crate) key: Key,
    /// Its label where it comes in.
    pub(crate) label: Label,
    /// Which leaf of a point-to-multipoint circuit, in their order.
    pub(crate) leaf: u32,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Cause {
    pub(crate) defect: Defect,
    pub(crate) payload: [u8; PAYLOAD_OCTETS],
    /// When it began; `None`: it has ended.
    pub(crate) since: Option<Time>,
    /// The last label of this sweep; `None`: it has not begun.
    cursor: Option<Label>,
    /// Circuits of this sweep so far, and of the one before.
    swept: u32,
    circuits: Option<u32>,
    /// When this sweep was due, and when its next slice is.
    began: Time,
    next: Time,
    /// By output: circuits that wait there, and whether those were too many for another sweep.
    outputs: BTreeMap<u16, (u32, bool)>,
}

impl Cause {
    /// Begins a slice: the label behind which it begins, and how many labels it has.
    pub(crate) fn begin_slice(&mut self) -> (Option<Label>, usize) {
        if self.cursor.is_none() {
            self.swept = 0;
            // An output that has not sent what the sweep before listed gets nothing more: its list has a bound.
            self.outputs.retain(|_, (listed, full)| {
                *full = *listed > 0;
                *full
            });
        }
        let later = |circuits: u32| (circuits.div_ceil(STEPS) as usize).clamp(LATER_SLICE, LONGEST);
        (self.cursor, self.circuits.map_or(SLICE, later))
    }

    /// A circuit of the slice, at an output; false if it is not to be listed there.
    pub(crate) fn list(&mut self, output: u16) -> bool {
        self.swept += 1;
        let (listed, full) = self.outputs.entry(output).or_default();
        *listed += u32::from(!*full);
        !*full
    }

    /// An output is done with a circuit that was listed there.
    pub(crate) fn unlist(&mut self, output: u16) {
        if let Some((listed, _)) = self.outputs.get_mut(&output) {
            *listed = listed.saturating_sub(1);
        }
    }

    /// Circuits that it concerns: of the last whole sweep, or so far.
    pub(crate) fn circuits(&self) -> u32 {
        self.circuits.unwrap_or(self.swept)
    }
}

/// All causes of a switch.
#[derive(Debug, Default)]
pub(crate) struct Indications {
    causes: BTreeMap<Key, Cause>,
    /// When the next slice of each is due.
    due: BTreeSet<(Time, Key)>,
}

impl Indications {
    /// A cause begins, or says another defect than before.
    pub(crate) fn begin(&mut self, key: Key, defect: Defect, now: Time) {
        if let Some(cause) = self.causes.get_mut(&key) {
            if cause.defect != defect {
                (cause.defect, cause.payload) = (defect, Function::Ais(defect).emit());
            }
            cause.since.get_or_insert(now);
            return;
        }
        let cause = Cause {
            defect,
            payload: Function::Ais(defect).emit(),
            since: Some(now),
            cursor: None,
            swept: 0,
            circuits: None,
            began: now,
            next: now,
            outputs: BTreeMap::new(),
        };
        self.causes.insert(key, cause);
        self.due.insert((now, key));
    }

    /// A cause is no more; what is listed of it is not sent.
    pub(crate) fn end(&mut self, key: Key) {
        if let Some(cause) = self.causes.get_mut(&key) {
            cause.since = None;
        }
    }

    /// Forgets ports from this one on.
    pub(crate) fn forget_ports(&mut self, first: u16) {
        for (key, cause) in self.causes.split_off(&(first, None)) {
            self.due.remove(&(cause.next, key));
        }
    }

    /// One that has not been forgotten yet.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Cause> {
        self.causes.get_mut(&key)
    }

    pub(crate) fn is_active(&self, key: Key) -> bool {
        self.causes.get(&key).is_some_and(|cause| cause.since.is_some())
    }

    /// Those that have not ended, and since when they are.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, Time, &Cause)> {
        self.causes.iter().filter_map(|(key, cause)| Some((*key, cause.since?, cause)))
    }

    /// When the next slice is due.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The cause whose slice is due. Those that have ended are forgotten when their next sweep would be due and no
    /// output has circuits of theirs.
    pub(crate) fn poll_slice(&mut self, now: Time) -> Option<Key> {
        loop {
            let (_, key) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
            if self.is_active(key) {
                return Some(key);
            }
            self.due.pop_first();
            let Some(cause) = self.causes.get_mut(&key) else { continue };
            if cause.cursor.take().is_some() {
                // It ended in the middle of a sweep: the labels so far have had theirs.
                cause.began = (cause.began + crate::oam::PERIOD).max(now);
            } else if cause.outputs.values().all(|(listed, _)| *listed == 0) {
                self.causes.remove(&key);
                continue;
            } else {
                cause.circuits = None;
                cause.began = now + crate::oam::PERIOD;
            }
            cause.next = cause.began;
            self.due.insert((cause.next, key));
        }
    }

    /// A slice is done, up to the label `last`; with `None` so is the sweep.
    pub(crate) fn end_slice(&mut self, key: Key, last: Option<Label>, now: Time) {
        let Some(cause) = self.causes.get_mut(&key) else { return };
        self.due.remove(&(cause.next, key));
        let first = cause.circuits.is_none();
        cause.cursor = last;
        if last.is_none() {
            cause.circuits = Some(cause.swept);
            // A thread that was late does not make up for it.
            cause.began = (cause.began + crate::oam::PERIOD).max(now);
            cause.next = cause.began;
        } else if !first {
            cause.next = (cause.next + STEP).max(now);
        }
        self.due.insert((cause.next, key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oam::PERIOD;

    #[test]
    fn a_cause_that_ends_in_the_middle_of_a_sweep_and_returns_has_no_slice_before_the_next_sweep() {
        let (key, start) = ((3, None), Time::from_nanos(1_000_000_000));
        let mut causes = Indications::default();
        let mut slices = Vec::new();
        // Down and up again each millisecond, and each time all slices that are due.
        for ms in 0..3500 {
            let now = start + Duration::from_millis(ms);
            causes.begin(key, Defect::default(), now);
            if let Some(due) = causes.poll_slice(now) {
                let (after, most) = causes.get_mut(due).unwrap().begin_slice();
                assert_eq!((after, most), (None, SLICE));
                causes.end_slice(due, Some(Label::Vp(Vpi::MAX_UNI)), now);
                slices.push(ms);
            }
            causes.end(key);
            assert_eq!(causes.poll_slice(now), None);
        }
        assert_eq!(slices, [0, 1000, 2000, 3000]);
        assert_eq!(causes.poll_slice(start + Duration::from_millis(3500) + PERIOD), None);
        assert!(causes.causes.is_empty() && causes.due.is_empty());
    }
}
