//! What `cellway status` shows of Myrinets.

use super::status::{MyrinetHostStatus, MyrinetStatus};
use control::text::table;

/// The Myrinets of `cellway status`; nothing without any.
pub(super) fn text(nets: &[MyrinetStatus]) -> String {
    let rows: Vec<Vec<String>> = nets
        .iter()
        .map(|net| {
            let sum = |of: fn(&MyrinetHostStatus) -> u64| net.hosts.iter().map(of).sum::<u64>();
            let map = match (&net.map, net.map_agrees) {
                (None, _) => "not yet".to_owned(),
                (Some(map), true) => format!("{} hosts, {} switches", map.hosts.len(), map.switches),
                (Some(_), false) => "a cable has changed".to_owned(),
            };
            vec![
                net.name.clone(),
                net.mapper.clone().unwrap_or_else(|| "-".into()),
                map,
                sum(|host| host.sent.pdus).to_string(),
                sum(|host| host.received.pdus).to_string(),
                net.timeouts.to_string(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("\n{}", table(&["myrinet", "mapper", "map", "PDUs in", "PDUs out", "timed out"], &rows))
}
