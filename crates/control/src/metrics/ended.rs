//! Metrics of what has ended within the last hour: circuits, endpoints, links. Objects of one name, such as the calls on
//! one label, are one row.

use super::rows::{Family, Labels, dropped, gauges};
use crate::status::{CounterStatus, EndedStatus};
use prometheus_client::encoding::DescriptorEncoder;
use std::collections::BTreeMap;
use std::fmt;

fn add(sum: &mut CounterStatus, more: &CounterStatus) {
    sum.pdus = sum.pdus.wrapping_add(more.pdus);
    for (reason, n) in &more.dropped {
        let known = sum.dropped.entry(reason.clone()).or_default();
        *known = known.wrapping_add(*n);
    }
}

/// Writes them; rows of so many names at most. They are gauges, for a row goes after an hour.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, all: &[EndedStatus], max_rows: usize) -> fmt::Result {
    let mut by_name: BTreeMap<[&str; 2], [CounterStatus; 2]> = BTreeMap::new();
    for ended in all {
        let key = [ended.kind.as_str(), ended.name.as_str()];
        if by_name.len() < max_rows || by_name.contains_key(&key) {
            let [sent, received] = by_name.entry(key).or_default();
            add(sent, &ended.sent);
            add(received, &ended.received);
        }
    }
    let rows: Vec<(Labels, [CounterStatus; 2])> = by_name
        .into_iter()
        .map(|([kind, name], sums)| (vec![("kind", kind.to_owned()), ("name", name.to_owned())], sums))
        .collect();
    let pdus = |way: usize| rows.iter().map(|(labels, sums)| (labels.clone(), sums[way].pdus as f64)).collect();
    let drops = |way: usize| {
        let rows = rows.iter().flat_map(|(labels, sums)| dropped(labels, &sums[way].dropped));
        rows.map(|(labels, n)| (labels, n as f64)).collect()
    };
    for (name, help, rows) in [
        ("ended_sent_pdus", "PDUs sent by what has ended within the last hour", pdus(0)),
        ("ended_received_pdus", "PDUs received by what has ended within the last hour", pdus(1)),
        ("ended_sent_dropped", "Dropped of what was sent by what has ended within the last hour", drops(0)),
        ("ended_received_dropped", "Dropped of what came to what has ended within the last hour", drops(1)),
    ] {
        gauges(encoder, Family { name, help, rows })?;
    }
    Ok(())
}
