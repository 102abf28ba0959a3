//! What there is to see of one PDU: its events, what else its units did meanwhile, and sums.

use super::scenes::{Looked, Scene};
use crate::model::recorder::{Concern, Span, Timeline};
use serde::Serialize;
use serde_json::{Value, json};
use wire::Time;

/// What cannot be looked at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The run has no PDU of this number.
    #[error("no PDU {pdu} in this run: it has PDUs 0 to {last}")]
    Pdu {
        /// The number that was asked for.
        pdu: u64,
        /// The last number that there is.
        last: u64,
    },
}

/// An event: a unit worked on the PDU or held it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// The unit.
    pub unit: String,
    /// What happened.
    pub what: &'static str,
    /// See there.
    pub concern: Concern,
    /// From when, in microseconds of virtual time since the run's beginning.
    pub from_us: f64,
    /// To when.
    pub to_us: f64,
    /// Cells that passed.
    pub cells: u64,
}

/// What a unit did for the PDU, and over the whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UnitTotal {
    /// The unit.
    pub unit: String,
    /// Microseconds of work on this PDU. Work that serves several PDUs together is shared out equally.
    pub pdu_us: f64,
    /// Microseconds of work over the whole run.
    pub run_us: f64,
    /// Cells over the whole run.
    pub run_cells: u64,
}

/// One PDU under the microscope.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct View {
    /// The experiment.
    pub experiment: &'static str,
    /// The scene.
    pub scene: &'static str,
    /// What the scene shows.
    pub title: &'static str,
    /// The PDU's number.
    pub pdu: u64,
    /// How many PDUs the run has.
    pub pdus: u64,
    /// Microseconds from its first event to its last.
    pub lasts_us: f64,
    /// Its events, by their beginnings.
    pub events: Vec<Event>,
    /// What the units that it passed did for others meanwhile.
    pub others: Vec<Event>,
    /// Sums.
    pub totals: Vec<UnitTotal>,
    /// What the whole run gave: name, unit, number.
    pub results: Vec<(&'static str, &'static str, f64)>,
    /// Spans that were not kept.
    pub omitted: u64,
}

pub(super) fn micros(at: Time) -> f64 {
    at.as_nanos() as f64 / 1e3
}

fn event(timeline: &Timeline, span: &Span) -> Event {
    let Span { what, concern, from, to, cells, .. } = *span;
    Event { unit: timeline.units[span.unit].clone(), what, concern, from_us: micros(from), to_us: micros(to), cells }
}

/// Microseconds of work of a span on one of its PDUs.
fn share(span: &Span) -> f64 {
    let pdus = span.pdus.map_or(1, |[first, last]| last - first + 1);
    if span.concern == Concern::Works { (micros(span.to) - micros(span.from)) / pdus as f64 } else { 0.0 }
}

impl View {
    /// A PDU of a run of a scene.
    ///
    /// # Errors
    /// There is no such PDU.
    pub fn new(scene: &Scene, looked: &Looked, pdu: u64) -> Result<Self, ViewError> {
        let timeline = &looked.timeline;
        let pdus = timeline.pdus();
        let [from, to] = timeline.window(pdu).ok_or(ViewError::Pdu { pdu, last: pdus.saturating_sub(1) })?;
        let own = timeline.of(pdu);
        let passed = |unit: usize| own.iter().any(|span| span.unit == unit);
        let mut others: Vec<Span> = timeline
            .spans
            .iter()
            .filter(|s| !s.is_for(pdu) && s.concern == Concern::Works && passed(s.unit) && s.to > from && s.from < to)
            .copied()
            .collect();
        others.sort_by_key(|span| (span.from, span.unit));
        let total = |unit: usize| UnitTotal {
            unit: timeline.units[unit].clone(),
            pdu_us: own.iter().filter(|span| span.unit == unit).map(share).sum(),
            run_us: timeline.busy[unit] * 1e6,
            run_cells: timeline.cells[unit],
        };
        Ok(View {
            experiment: scene.experiment,
            scene: scene.name,
            title: scene.title,
            pdu,
            pdus,
            lasts_us: micros(to) - micros(from),
            events: own.iter().map(|span| event(timeline, span)).collect(),
            others: others.iter().map(|span| event(timeline, span)).collect(),
            totals: (0..timeline.units.len()).filter(|unit| passed(*unit)).map(total).collect(),
            results: looked.results.clone(),
            omitted: timeline.omitted,
        })
    }

    /// A table of events and one of sums.
    pub fn text(&self) -> String {
        let begin = self.events.first().map_or(0.0, |event| event.from_us);
        let mut text = format!(
            "{}, {}: {}\nPDU {} of {}, {:.1} us from its first event to its last\n\n{:>10} {:>10} {:>9}  {:<22}what\n",
            self.experiment,
            self.scene,
            self.title,
            self.pdu,
            self.pdus,
            self.lasts_us,
            "from us",
            "to us",
            "takes us",
            "unit"
        );
        for event in &self.events {
            let cells = if event.cells > 0 { format!(", {} cells", event.cells) } else { String::new() };
            let takes = event.to_us - event.from_us;
            text.push_str(&format!(
                "{:>10.2} {:>10.2} {takes:>9.2}  {:<22}{}{cells}\n",
                event.from_us - begin,
                event.to_us - begin,
                event.unit,
                event.what
            ));
        }
        text.push_str(&format!("\n{:<22}{:>14} {:>20}\n", "unit", "this PDU, us", "whole run, us a PDU"));
        for total in &self.totals {
            let mean = total.run_us / self.pdus.max(1) as f64;
            text.push_str(&format!("{:<22}{:>14.2} {mean:>20.2}\n", total.unit, total.pdu_us));
        }
        let results = self.results.iter().map(|(name, unit, number)| format!("{name} {number:.3} {unit}"));
        text.push_str(&format!("\nthe run: {}\n", results.collect::<Vec<_>>().join(", ").replace(" ,", ",")));
        text
    }

    /// The trace event format that Chrome's tracing and Perfetto read. Work is a complete event on its unit's track; what
    /// a unit holds is an asynchronous event, of which several may overlap.
    pub fn perfetto(&self) -> Value {
        let unit = |name: &str| self.totals.iter().position(|total| total.unit == name).unwrap_or(0) + 1;
        let named = |(n, total): (usize, &UnitTotal)| json!({"ph": "M", "pid": 1, "tid": n + 1, "name": "thread_name", "args": {"name": total.unit}});
        let mut events = vec![json!({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": self.title}})];
        events.extend(self.totals.iter().enumerate().map(named));
        let own = self.events.iter().map(|event| (event, format!("PDU {}: {}", self.pdu, event.what), "pdu"));
        let others = self.others.iter().map(|event| (event, event.what.to_owned(), "others"));
        for (number, (event, name, category)) in own.chain(others).enumerate() {
            let mut one = json!({
                "pid": 1, "tid": unit(&event.unit), "name": name, "cat": category, "ts": event.from_us,
                "args": {"cells": event.cells},
            });
            match event.concern {
                Concern::Works => {
                    one["ph"] = json!("X");
                    one["dur"] = json!(event.to_us - event.from_us);
                    events.push(one);
                }
                Concern::Holds => {
                    (one["ph"], one["id"]) = (json!("b"), json!(number));
                    let mut end = one.clone();
                    (end["ph"], end["ts"]) = (json!("e"), json!(event.to_us));
                    events.extend([one, end]);
                }
            }
        }
        json!({"displayTimeUnit": "ns", "traceEvents": events})
    }
}
