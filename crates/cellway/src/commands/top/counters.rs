//! What rates are made of: counters of two moments, and objects of both by their names.

use control::results::top::TopEnd;
use control::status::{CircuitStatus, CounterStatus, EndStatus, HopStatus, LinkStatus};
use std::collections::HashMap;

/// The time between two statuses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock(pub(super) f64);

impl Clock {
    /// How much a counter has grown each second.
    pub(super) fn rate(self, now: u64, before: Option<u64>) -> f64 {
        let Some(before) = before.filter(|_| self.0 > 0.0) else { return 0.0 };
        now.checked_sub(before).unwrap_or(now) as f64 / self.0
    }
}

/// The sum of all drops.
pub(super) fn dropped(counter: &CounterStatus) -> u64 {
    counter.dropped.values().sum()
}

/// What a switch dropped of a circuit.
pub(super) fn dropped_at(hop: &HopStatus) -> u64 {
    hop.policed + hop.queue_dropped + hop.pdu_dropped
}

/// The state of a link in a word, or what its far end outside says.
pub(crate) fn link_state(link: &LinkStatus) -> String {
    match &link.outside {
        _ if !link.enabled => "taken down".to_owned(),
        Some(outside) => outside.clone(),
        None if link.up => "up".to_owned(),
        None => "down".to_owned(),
    }
}

/// Objects of a list by their names.
pub(super) fn by_name<T>(list: &[T], name: fn(&T) -> &str) -> HashMap<&str, &T> {
    list.iter().map(|each| (name(each), each)).collect()
}

pub(super) fn link_name(link: &LinkStatus) -> &str {
    &link.name
}

pub(super) fn circuit_name(circuit: &CircuitStatus) -> &str {
    &circuit.name
}

pub(super) fn of_end(end: &EndStatus, before: Option<&EndStatus>, clock: Clock) -> TopEnd {
    let counted = |of: fn(&EndStatus) -> &Option<CounterStatus>, what: fn(&CounterStatus) -> u64| {
        let now = of(end).as_ref().map_or(0, what);
        clock.rate(now, before.map(|before| of(before).as_ref().map_or(0, what)))
    };
    TopEnd {
        end: end.end.clone(),
        open: end.open.clone(),
        opener: end.opener.clone(),
        sent_pdus_per_s: counted(|end| &end.sent, |counter| counter.pdus),
        received_pdus_per_s: counted(|end| &end.received, |counter| counter.pdus),
        dropped_per_s: counted(|end| &end.sent, dropped) + counted(|end| &end.received, dropped),
        alarms: end.alarms.iter().map(|alarm| alarm.alarm.clone()).collect(),
    }
}

/// The station of a circuit's end as it is written: `alpha 0.100`, `alpha:1 0.100`.
pub(crate) fn host_of(end: &str) -> &str {
    end.split([' ', ':']).next().unwrap_or_default()
}
