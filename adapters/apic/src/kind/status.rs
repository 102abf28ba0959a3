//! What is told of desk-area networks: chips, and the devices and links at them.

use crate::desk::{ChipReport, Desk, Report, Shape};
use anyhow::Result;
use control::kinds::Running;
use control::status::CounterStatus;
use net::topology::{LinkKey, Router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wire::Counters;

/// A desk-area network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeskStatus {
    /// Its name.
    pub name: String,
    /// `chain`, `ring` or `shuffle`.
    pub shape: String,
    /// Chips in their order.
    pub chips: Vec<DeskChipStatus>,
    /// What is at its ports, by them: at the third ports of chips, and behind those at the ends of a chain.
    pub ports: BTreeMap<u16, DeskPortStatus>,
    /// Directions of circuits over it.
    pub circuit_routes: usize,
    /// Directions of circuits that a change of its chips left without a way.
    pub lost_routes: u64,
    /// Cells that came in at ports of chips that a change of the layout replaced, and what was dropped before its
    /// output was known: what waited for that included.
    pub former_received: CounterStatus,
    /// Cells that left by ports of those chips, and what was dropped before that: what waited for an output included.
    pub former_sent: CounterStatus,
    /// Seconds that its time has stood still, because the processor could not keep up with the chips' slots.
    pub stood_s: f64,
}

/// A chip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeskChipStatus {
    /// Whether it has power.
    pub power: bool,
    /// Cells that came in at its two links and its third port, and what was dropped before its output was known.
    pub received: [CounterStatus; 3],
    /// Cells that left by its two links and its third port, and what was dropped before that.
    pub sent: [CounterStatus; 3],
    /// Most cells that its memory has held.
    pub most_stored_cells: usize,
    /// Look-ups that found their connection on the chip.
    pub cache_hits: u64,
    /// Connections that were fetched.
    pub cache_misses: u64,
}

/// What is at a port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeskPortStatus {
    /// The station there.
    pub station: String,
    /// What a device says of itself; `null` where none is.
    pub device: Option<String>,
    /// What a device has counted, by name; frames are PDUs.
    pub counters: BTreeMap<String, CounterStatus>,
}

/// A port, who is there, and by which link.
type AtPort = (u16, String, LinkKey);
/// What a device says of itself, and has counted.
type Said = (String, Vec<(&'static str, Counters)>);

/// A desk; `None` if it is not there.
pub(super) fn of(running: &Running<'_>, name: &str) -> Result<Option<DeskStatus>> {
    let ports = ports(running.router, name);
    // One at a time, between two rounds of the engine; what is sorted and named has been so before.
    let (asked, links) = (name.to_owned(), ports.iter().map(|(_, _, key)| *key).collect::<Vec<_>>());
    let report = running.engine.named("status").with(move |core| {
        let node = core.fabric.node(&asked)?;
        let report = core.network.peek_node::<Desk>(node).map(|desk| desk.report())?;
        let said = |key: &LinkKey| -> Option<Said> {
            let id = core.fabric.link_id(*key)?;
            let (_, device) = core.network.externals().find(|(link, _)| *link == id)?;
            Some((device.status(), device.counters()))
        };
        Some((report, links.iter().map(said).collect::<Vec<_>>()))
    })?;
    Ok(report.map(|(report, said)| status(name, &report, ports, said)))
}

fn ports(router: &Router, desk: &str) -> Vec<AtPort> {
    let at = router.links().filter_map(|(key, link, ports)| {
        let own = link.ends.iter().position(|end| end.station == desk)?;
        Some((ports[own], link.ends[1 - own].station.clone(), key))
    });
    at.collect()
}

fn status(name: &str, report: &Report, ports: Vec<AtPort>, said: Vec<Option<Said>>) -> DeskStatus {
    let shape = match report.layout.shape {
        Shape::Chain => "chain",
        Shape::Ring => "ring",
        Shape::Shuffle => "shuffle",
    };
    let port = |((port, station, _), said): (AtPort, Option<Said>)| {
        let (device, counters) = said.unzip();
        let counters = counters.into_iter().flatten().map(|(name, counters)| (name.to_owned(), (&counters).into()));
        (port, DeskPortStatus { station, device, counters: counters.collect() })
    };
    DeskStatus {
        name: name.to_owned(),
        shape: shape.to_owned(),
        chips: report.chips.iter().map(chip).collect(),
        ports: ports.into_iter().zip(said).map(port).collect(),
        circuit_routes: report.routes,
        lost_routes: report.lost_routes,
        former_received: (&report.former_received).into(),
        former_sent: (&report.former_sent).into(),
        stood_s: report.stood.as_secs_f64(),
    }
}

fn chip(chip: &ChipReport) -> DeskChipStatus {
    DeskChipStatus {
        power: chip.power,
        received: chip.received.each_ref().map(CounterStatus::from),
        sent: chip.sent.each_ref().map(CounterStatus::from),
        most_stored_cells: chip.monitor.most_stored,
        cache_hits: chip.monitor.hits,
        cache_misses: chip.monitor.misses,
    }
}
