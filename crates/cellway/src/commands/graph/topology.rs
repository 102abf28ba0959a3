//! Stations and links of a network as they are to be drawn. In: what a service told at two moments, or a description.
//! Out: a [`Topology`], and how each link is to look.

use crate::commands::top::{Told, brief, host_of, sample};
use control::config::Config;
use control::results::graph::{Topology, TopologyEnd, TopologyLink, TopologyStation};
use control::status::{StationKind, Status};
use net::topology::{Attachment, Station};
use std::collections::BTreeSet;

/// How a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is known, or nothing passes.
    Idle,
    /// Cells pass.
    Active,
    /// Some are dropped.
    Dropping,
    /// It passes nothing.
    Down,
}

/// How a link is.
pub(super) fn state(link: &TopologyLink) -> State {
    match link {
        link if !link.up => State::Down,
        link if link.dropped_per_s.is_some_and(|dropped| dropped > 0.0) => State::Dropping,
        link if link.cells_per_s.is_some_and(|cells| cells.iter().sum::<f64>() > 0.0) => State::Active,
        _ => State::Idle,
    }
}

/// The share of a link's rate that is used, of the direction that has more.
pub(super) fn utilization(link: &TopologyLink) -> f64 {
    let cells = link.cells_per_s.map_or(0.0, |cells| cells[0].max(cells[1]));
    link.rate_cells_per_s.map_or(0.0, |rate| (cells / rate).clamp(0.0, 1.0))
}

/// What is written beside a link.
pub(super) fn label(link: &TopologyLink) -> String {
    match (link.up, link.cells_per_s, link.rate_cells_per_s) {
        (false, ..) => "down".to_owned(),
        (_, Some([a, b]), _) => format!("{} | {} cell/s", brief(a), brief(b)),
        (_, None, Some(rate)) => format!("{} cell/s", brief(rate)),
        _ => String::new(),
    }
}

/// The name of a link.
pub(super) fn name(link: &TopologyLink) -> String {
    let end = |end: &TopologyEnd| match end.port {
        Some(port) => format!("{}:{port}", end.station),
        None => end.station.clone(),
    };
    format!("{} - {}", end(&link.ends[0]), end(&link.ends[1]))
}

/// Of a running network, at two moments.
pub(super) fn of_network(before: &Told, now: &Told) -> Topology {
    let rates = sample(Some(before), now, None);
    let status = &now.status;
    let alarmed = alarmed(status);
    let links = status.links.iter().zip(&rates.links).filter_map(|(link, rates)| {
        let (a, b) = link.name.split_once(" - ")?;
        Some(TopologyLink {
            ends: [end(&a.parse().ok()?), end(&b.parse().ok()?)],
            up: rates.up,
            rate_cells_per_s: link.rate_cells_per_s,
            circuits: Some(link.circuits),
            cells_per_s: Some([&rates.from_a, &rates.from_b].map(|of| of.cells_per_s.max(of.pdus_per_s))),
            dropped_per_s: Some(rates.from_a.dropped_per_s + rates.from_b.dropped_per_s),
        })
    });
    let stations = status.stations.iter().map(|(name, kind)| TopologyStation {
        name: name.clone(),
        kind: match kind {
            StationKind::Host => "host".to_owned(),
            StationKind::Switch => "switch".to_owned(),
            StationKind::Outside => "outside".to_owned(),
            StationKind::OfKind(section) => section.clone(),
        },
        alarm: alarmed.contains(name.as_str()),
    });
    with_all_ends(Topology { seconds: Some(rates.seconds), stations: stations.collect(), links: links.collect() })
}

fn end(attachment: &Attachment) -> TopologyEnd {
    TopologyEnd { station: attachment.station.clone(), port: attachment.port }
}

/// Stations with an alarm, and those at which an end of a circuit has one.
fn alarmed(status: &Status) -> BTreeSet<&str> {
    let switches = status.switches.iter().filter(|switch| !switch.alarms.is_empty()).map(|switch| switch.name.as_str());
    let ends = status.circuits.iter().flat_map(|circuit| &circuit.ends).filter(|end| !end.alarms.is_empty());
    switches.chain(ends.map(|end| host_of(&end.end))).collect()
}

/// Of a description.
pub(super) fn of_description(config: &Config) -> Topology {
    let stations = config.description.stations.iter().map(|(name, station)| TopologyStation {
        name: name.clone(),
        kind: match station {
            Station::Host => "host".to_owned(),
            Station::Switch => match config.layouts.get(name) {
                Some(layout) => layout.section().to_owned(),
                None => "switch".to_owned(),
            },
            Station::Outside => "outside".to_owned(),
        },
        alarm: false,
    });
    let enabled = |nth: usize| config.file.link.get(nth).is_none_or(|link| link.enabled);
    let links = config.description.links.iter().enumerate().map(|(nth, link)| TopologyLink {
        ends: link.ends.each_ref().map(end),
        up: enabled(nth),
        rate_cells_per_s: link.config.rate.map(|rate| rate.cells_per_s()),
        ..TopologyLink::default()
    });
    with_all_ends(Topology { seconds: None, stations: stations.collect(), links: links.collect() })
}

/// Every end of a link is a station: what is not listed gets one.
fn with_all_ends(mut topology: Topology) -> Topology {
    let mut known: BTreeSet<String> = topology.stations.iter().map(|station| station.name.clone()).collect();
    for end in topology.links.iter().flat_map(|link| &link.ends) {
        if known.insert(end.station.clone()) {
            let station = TopologyStation { name: end.station.clone(), kind: "station".to_owned(), alarm: false };
            topology.stations.push(station);
        }
    }
    topology.stations.sort_by(|one, two| one.name.cmp(&two.name));
    topology
}
