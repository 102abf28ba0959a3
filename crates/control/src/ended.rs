//! Counters of what has ended: circuits of calls and removed ones, endpoints, links, and the circuits of calls in
//! switches. They are kept for an hour, [`MOST`] at most, and shown by `status --ended`, the metrics and the log.

use crate::counter_status::CounterStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wire::Counters;

/// How long they are kept.
const KEPT: Duration = Duration::from_secs(3600);
/// Objects that are kept at most: the oldest go first.
pub const MOST: usize = 4096;
/// Lines of the log that one look writes.
const LINES: usize = 50;

/// Something that has ended, with its last counters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndedStatus {
    /// `circuit`, `endpoint`, `link`, or `switch`: a call's circuit in a switch.
    pub kind: String,
    /// Its name: host and circuit, host and endpoint, link with the end that sent, switch with port and circuit.
    pub name: String,
    /// Seconds since its end was noted.
    pub seconds: f64,
    /// What it sent: of a link and of a switch, what was given to it.
    pub sent: CounterStatus,
    /// What it received: of a link and of a switch, what it passed on.
    pub received: CounterStatus,
}

/// Something that has ended, before anybody asks for it.
#[derive(Debug, Clone)]
pub struct Record {
    /// As [`EndedStatus::kind`].
    pub kind: &'static str,
    /// As [`EndedStatus::name`].
    pub name: String,
    /// As [`EndedStatus::sent`] and [`EndedStatus::received`].
    pub counters: [Counters; 2],
}

impl Record {
    /// What was dropped, in one line; `None` if nothing was.
    fn dropped(&self) -> Option<String> {
        let drops = self.counters.iter().flat_map(Counters::drops);
        let drops: Vec<String> = drops.map(|(reason, n)| format!("{reason} {n}")).collect();
        (!drops.is_empty()).then(|| drops.join(", "))
    }
}

/// All that is kept.
#[derive(Debug, Default)]
struct Kept {
    records: VecDeque<(Instant, Record)>,
    /// Records that nobody has written to the log yet.
    unlogged: usize,
    /// Objects for which there was no room.
    missed: u64,
}

/// See the module's head. Shared by who notes and who shows.
#[derive(Debug, Clone, Default)]
pub struct Ended(Arc<Mutex<Kept>>);

impl Ended {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what has counted anything.
    pub fn note(&self, records: impl IntoIterator<Item = Record>) {
        self.note_at(records, Instant::now());
    }

    fn note_at(&self, records: impl IntoIterator<Item = Record>, now: Instant) {
        let mut kept = self.kept();
        for record in records {
            if record.counters == [Counters::default(); 2] {
                continue;
            }
            if kept.records.len() == MOST {
                kept.records.pop_front();
                kept.missed += 1;
            }
            kept.records.push_back((now, record));
            kept.unlogged = (kept.unlogged + 1).min(MOST);
        }
        while kept.records.front().is_some_and(|(then, _)| now.duration_since(*then) > KEPT) {
            kept.records.pop_front();
        }
        kept.unlogged = kept.unlogged.min(kept.records.len());
    }

    pub(crate) fn note_missed(&self, n: u64) {
        self.kept().missed += n;
    }

    /// Objects for which there was no room.
    pub fn missed(&self) -> u64 {
        self.kept().missed
    }

    /// All of them, the latest last.
    pub fn all(&self) -> Vec<EndedStatus> {
        self.all_at(Instant::now())
    }

    fn all_at(&self, now: Instant) -> Vec<EndedStatus> {
        self.note_at([], now);
        let kept = self.kept();
        let status = |(then, record): &(Instant, Record)| EndedStatus {
            kind: record.kind.to_owned(),
            name: record.name.clone(),
            seconds: now.duration_since(*then).as_secs_f64(),
            sent: (&record.counters[0]).into(),
            received: (&record.counters[1]).into(),
        };
        kept.records.iter().map(status).collect()
    }

    /// Lines about what has dropped something, of those that were noted since the last time; and how many more there
    /// were.
    pub(crate) fn take_lines(&self) -> (Vec<String>, usize) {
        let mut kept = self.kept();
        let unlogged = std::mem::take(&mut kept.unlogged);
        let first = kept.records.len() - unlogged;
        let new = kept.records.iter().skip(first);
        let line = |(_, record): &(Instant, Record)| {
            let dropped = record.dropped()?;
            Some(format!("{} {} has ended; dropped: {dropped}", record.kind, record.name))
        };
        let mut lines: Vec<String> = new.filter_map(line).collect();
        let more = lines.len().saturating_sub(LINES);
        lines.truncate(LINES);
        (lines, more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::DropReason;

    fn record(name: String, dropped: u64) -> Record {
        let mut received = Counters::default();
        received.pass([0, 1, 0]);
        received.drop_n(DropReason::NoBuffer, dropped);
        Record { kind: "circuit", name, counters: [Counters::default(), received] }
    }

    #[test]
    fn records_are_kept_for_an_hour_within_a_bound() {
        let (ended, begin) = (Ended::default(), Instant::now());
        ended.note_at([record("alpha 0.100".into(), 531)], begin);
        let all = ended.all_at(begin + KEPT);
        assert_eq!((all.len(), all[0].received.dropped["no_buffer"], all[0].seconds), (1, 531, 3600.0));
        assert!(ended.all_at(begin + KEPT + Duration::from_secs(1)).is_empty());
        ended.note_at((0..MOST + 2).map(|n| record(n.to_string(), 0)), begin);
        let all = ended.all_at(begin);
        assert_eq!((all.len(), all[0].name.as_str(), ended.missed()), (MOST, "2", 2), "the oldest have gone");
    }

    #[test]
    fn only_what_dropped_something_is_a_line_of_the_log_and_only_once() {
        let ended = Ended::default();
        ended.note([record("beta 0.100".into(), 3), record("beta 0.101".into(), 0)]);
        let line = "circuit beta 0.100 has ended; dropped: no_buffer 3";
        assert_eq!(ended.take_lines(), (vec![line.to_owned()], 0));
        assert_eq!(ended.take_lines(), (Vec::new(), 0));
        ended.note((0..LINES + 7).map(|n| record(n.to_string(), 1)));
        let (lines, more) = ended.take_lines();
        assert_eq!((lines.len(), more), (LINES, 7));
    }
}
