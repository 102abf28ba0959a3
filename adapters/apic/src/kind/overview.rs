//! What `cellway status` shows of desk-area networks.

use super::status::{DeskChipStatus, DeskStatus};
use control::text::{drops, table};
use std::collections::BTreeMap;

/// The desks of `cellway status`, chip by chip; nothing without any.
pub(super) fn text(desks: &[DeskStatus]) -> String {
    let mut text = String::new();
    for desk in desks {
        let rows: Vec<Vec<String>> =
            desk.chips.iter().enumerate().map(|(n, chip)| row(desk, n, chip)).chain(ends(desk)).collect();
        let head = ["desk", "chip", "at its third port", "cells from links", "from there", "to there", "dropped"];
        text += &format!("\n{}", table(&head, &rows));
        let mut former: BTreeMap<String, u64> = BTreeMap::new();
        for (reason, n) in desk.former_received.dropped.iter().chain(&desk.former_sent.dropped) {
            *former.entry(reason.clone()).or_default() += n;
        }
        if !former.is_empty() {
            text += &format!("{}: dropped by chips that were replaced: {}\n", desk.name, drops(&former));
        }
        if desk.stood_s > 0.0 {
            text += &format!("{}: its time stood still for {:.3} s\n", desk.name, desk.stood_s);
        }
    }
    text
}

fn row(desk: &DeskStatus, n: usize, chip: &DeskChipStatus) -> Vec<String> {
    let at = u16::try_from(n).ok().and_then(|n| desk.ports.get(&n));
    let there = match at {
        Some(port) => match &port.device {
            Some(device) => format!("{}, {device}", port.station),
            None => port.station.clone(),
        },
        None => "-".into(),
    };
    let mut dropped: BTreeMap<String, u64> = BTreeMap::new();
    for (reason, n) in chip.received.iter().chain(&chip.sent).flat_map(|counters| &counters.dropped) {
        *dropped.entry(reason.clone()).or_default() += n;
    }
    vec![
        desk.name.clone(),
        if chip.power { n.to_string() } else { format!("{n}, off") },
        there,
        (chip.received[0].cells + chip.received[1].cells).to_string(),
        chip.received[2].cells.to_string(),
        chip.sent[2].cells.to_string(),
        drops(&dropped),
    ]
}

/// The links at the ends of a chain.
fn ends(desk: &DeskStatus) -> impl Iterator<Item = Vec<String>> {
    let beyond = desk.ports.iter().filter(|(port, _)| usize::from(**port) >= desk.chips.len());
    beyond.map(|(port, at)| {
        let end = if usize::from(*port) == desk.chips.len() { "first end" } else { "last end" };
        let none = || "-".to_owned();
        vec![desk.name.clone(), end.into(), at.station.clone(), none(), none(), none(), none()]
    })
}
