//! Metrics of desk-area networks.

use super::status::{DeskChipStatus, DeskStatus};
use control::metrics::rows::{Labels, Of, all_counters, all_gauges, drops, flag, with};
use control::status::CounterStatus;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

/// Ports of a chip, in the order of its counters.
const CHIP_PORTS: [&str; 3] = ["left", "right", "memory"];

/// Writes what is told of desks.
pub(super) fn encode(desks: &[DeskStatus], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let desks: Vec<(Labels, &DeskStatus)> =
        desks.iter().map(|desk| (vec![("desk", desk.name.clone())], desk)).collect();
    let values: [Of<DeskStatus, f64>; 1] =
        [("desk_routes", "Directions of circuits over the desk", |d| d.circuit_routes as f64)];
    all_gauges(encoder, &values, &desks)?;
    let values: [Of<DeskStatus, u64>; 1] =
        [("desk_lost_routes", "Directions of circuits that a change of the desk's chips left without a way", |d| {
            d.lost_routes
        })];
    all_counters(encoder, &values, &desks)?;
    let values: [Of<DeskStatus, f64>; 1] =
        [("desk_stood_seconds", "Time that the desk's own time stood still", |d| d.stood_s)];
    all_counters(encoder, &values, &desks)?;
    former_chips(encoder, &desks)?;
    chips(encoder, &desks)?;
    devices(encoder, &desks)
}

/// What chips have carried that a change of the desk's chips replaced.
fn former_chips(encoder: &mut DescriptorEncoder<'_>, desks: &[(Labels, &DeskStatus)]) -> fmt::Result {
    let of = |counter: fn(&DeskStatus) -> &CounterStatus| -> Vec<(Labels, &CounterStatus)> {
        desks.iter().map(|(labels, desk)| (labels.clone(), counter(desk))).collect()
    };
    let cells = ("desk_former_received_cells", "Cells that came in at ports of chips that were replaced");
    let what = "Cells that came in at chips that were replaced and were dropped before their output was known";
    cells_and_drops(encoder, cells, ("desk_former_received_dropped", what), &of(|desk| &desk.former_received))?;
    let cells = ("desk_former_sent_cells", "Cells that left by ports of chips that were replaced");
    let what = "Cells for ports of chips that were replaced, dropped before they left";
    cells_and_drops(encoder, cells, ("desk_former_sent_dropped", what), &of(|desk| &desk.former_sent))
}

/// Cells that passed, and what was dropped there by reason, each under a name and with what it says.
fn cells_and_drops(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&'static str, &'static str),
    dropped: (&'static str, &'static str),
    rows: &[(Labels, &CounterStatus)],
) -> fmt::Result {
    let values: [Of<CounterStatus, u64>; 1] = [(name, help, |c| c.cells)];
    all_counters(encoder, &values, rows)?;
    drops(encoder, dropped, rows)
}

fn chips(encoder: &mut DescriptorEncoder<'_>, desks: &[(Labels, &DeskStatus)]) -> fmt::Result {
    let chips: Vec<(Labels, &DeskChipStatus)> = desks
        .iter()
        .flat_map(|(labels, desk)| desk.chips.iter().enumerate().map(|(n, chip)| (with(labels, "chip", n), chip)))
        .collect();
    let values: [Of<DeskChipStatus, f64>; 2] = [
        ("desk_chip_power", "Whether the chip has power", |c| flag(c.power)),
        ("desk_chip_stored_cells_peak", "Most cells that the chip's memory has held", |c| c.most_stored_cells as f64),
    ];
    all_gauges(encoder, &values, &chips)?;
    let values: [Of<DeskChipStatus, u64>; 2] = [
        ("desk_chip_cache_hits", "Look-ups that found their connection on the chip", |c| c.cache_hits),
        ("desk_chip_cache_misses", "Connections that the chip fetched", |c| c.cache_misses),
    ];
    all_counters(encoder, &values, &chips)?;
    let of = |counters: fn(&DeskChipStatus) -> &[CounterStatus; 3]| -> Vec<(Labels, &CounterStatus)> {
        let ports = chips.iter().flat_map(|(labels, chip)| {
            CHIP_PORTS.into_iter().zip(counters(chip)).map(|(port, counter)| (with(labels, "port", port), counter))
        });
        ports.collect()
    };
    let cells = ("desk_chip_received_cells", "Cells that came in at the chip's port");
    let what = "Cells that came in at the port and were dropped before their output was known";
    cells_and_drops(encoder, cells, ("desk_chip_received_dropped", what), &of(|chip| &chip.received))?;
    let cells = ("desk_chip_sent_cells", "Cells that left by the chip's port");
    let what = "Cells for the port that were dropped before they left";
    cells_and_drops(encoder, cells, ("desk_chip_sent_dropped", what), &of(|chip| &chip.sent))
}

/// What cameras, displays and stores count, by the names that they have for it.
fn devices(encoder: &mut DescriptorEncoder<'_>, desks: &[(Labels, &DeskStatus)]) -> fmt::Result {
    let counted: Vec<(Labels, &CounterStatus)> = desks
        .iter()
        .flat_map(|(labels, desk)| desk.ports.values().map(move |port| (labels, port)))
        .flat_map(|(labels, port)| {
            let labels = with(labels, "device", &port.station);
            port.counters.iter().map(move |(counter, counts)| (with(&labels, "counter", counter), counts))
        })
        .collect();
    let values: [Of<CounterStatus, u64>; 2] = [
        ("desk_device_pdus", "Frames or SDUs that the device counts by this name", |c| c.pdus),
        ("desk_device_octets", "Octets that the device counts by this name", |c| c.octets),
    ];
    all_counters(encoder, &values, &counted)?;
    drops(encoder, ("desk_device_dropped", "What the device dropped"), &counted)
}
