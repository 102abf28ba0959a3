//! Metrics of desk-area networks and of Myrinets.

use super::{Family, Labels, Snapshot, counters, dropped, flag, gauges};
use crate::status::CounterStatus;
use crate::status::desk::{DeskChipStatus, DeskStatus};
use crate::status::myrinet::{MyrinetHostStatus, MyrinetPortStatus, MyrinetStatus};
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue};
use std::fmt;

/// Ports of a chip, in the order of its counters.
const CHIP_PORTS: [&str; 3] = ["left", "right", "memory"];

/// A number of something that has labels, with its name and help.
type Of<T, N> = (&'static str, &'static str, fn(&T) -> N);

fn all_gauges<T>(encoder: &mut DescriptorEncoder<'_>, values: &[Of<T, f64>], of: &[(Labels, &T)]) -> fmt::Result {
    for (name, help, value) in values {
        let rows = of.iter().map(|(labels, one)| (labels.clone(), value(one))).collect();
        gauges(encoder, Family { name, help, rows })?;
    }
    Ok(())
}

fn all_counters<T, N: EncodeCounterValue>(
    encoder: &mut DescriptorEncoder<'_>,
    values: &[Of<T, N>],
    of: &[(Labels, &T)],
) -> fmt::Result {
    for (name, help, value) in values {
        let rows = of.iter().map(|(labels, one)| (labels.clone(), value(one))).collect();
        counters(encoder, Family { name, help, rows })?;
    }
    Ok(())
}

/// Drops of several counters, a row for each reason.
fn drops(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&'static str, &'static str),
    of: &[(Labels, &CounterStatus)],
) -> fmt::Result {
    let rows = of.iter().flat_map(|(labels, counter)| dropped(labels, &counter.dropped)).collect();
    counters(encoder, Family { name, help, rows })
}

fn with(labels: &Labels, name: &'static str, value: impl ToString) -> Labels {
    labels.iter().cloned().chain([(name, value.to_string())]).collect()
}

impl Snapshot {
    pub(super) fn desks(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let desks: Vec<(Labels, &DeskStatus)> =
            self.status.desks.iter().map(|desk| (vec![("desk", desk.name.clone())], desk)).collect();
        let values: [Of<DeskStatus, f64>; 1] =
            [("desk_routes", "Directions of circuits over the desk", |d| d.circuit_routes as f64)];
        all_gauges(encoder, &values, &desks)?;
        let values: [Of<DeskStatus, u64>; 1] = [(
            "desk_lost_routes",
            "Directions of circuits that a change of the desk's chips left without a way",
            |d| d.lost_routes,
        )];
        all_counters(encoder, &values, &desks)?;
        let values: [Of<DeskStatus, f64>; 1] =
            [("desk_stood_seconds", "Time that the desk's own time stood still", |d| d.stood_s)];
        all_counters(encoder, &values, &desks)?;
        former_chips(encoder, &desks)?;
        chips(encoder, &desks)?;
        devices(encoder, &desks)
    }

    pub(super) fn myrinets(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let nets: Vec<(Labels, &MyrinetStatus)> =
            self.status.myrinets.iter().map(|net| (vec![("myrinet", net.name.clone())], net)).collect();
        let values: [Of<MyrinetStatus, f64>; 2] = [
            ("myrinet_map_agrees", "Whether the map is what is plugged", |m| flag(m.map_agrees)),
            ("myrinet_routes", "Directions of circuits over the Myrinet", |m| m.circuit_routes as f64),
        ];
        all_gauges(encoder, &values, &nets)?;
        let values: [Of<MyrinetStatus, u64>; 7] = [
            ("myrinet_packets", "Packets that arrived at hosts", |m| m.packets.pdus),
            ("myrinet_packet_octets", "Octets of those packets", |m| m.packets.octets),
            ("myrinet_mapping_packets", "Packets of mapping that arrived at hosts", |m| m.mapping_packets),
            ("myrinet_mapping_unfound", "Packets of mapping that found no host", |m| m.mapping_unfound),
            ("myrinet_overflowed_symbols", "Symbols that a slack buffer had no room for", |m| m.overflowed_symbols),
            ("myrinet_timeouts", "Packets that the time-out ended", |m| m.timeouts),
            ("myrinet_interrupted_pdus", "PDUs that a change of hosts, switches or mechanisms interrupted", |m| {
                m.interrupted_pdus
            }),
        ];
        all_counters(encoder, &values, &nets)?;
        let values: [Of<MyrinetStatus, f64>; 1] =
            [("myrinet_stood_seconds", "Time that the Myrinet's own time stood still", |m| m.stood_s)];
        all_counters(encoder, &values, &nets)?;
        let packets: Vec<_> = nets.iter().map(|(labels, net)| (labels.clone(), &net.packets)).collect();
        drops(encoder, ("myrinet_dropped", "Packets that did not arrive at hosts"), &packets)?;
        hosts(encoder, &nets)?;
        ports(encoder, &nets)
    }
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

fn hosts(encoder: &mut DescriptorEncoder<'_>, nets: &[(Labels, &MyrinetStatus)]) -> fmt::Result {
    let hosts: Vec<(Labels, &MyrinetHostStatus)> = nets
        .iter()
        .flat_map(|(labels, net)| net.hosts.iter().map(|host| (with(labels, "host", &host.name), host)))
        .collect();
    let values: [Of<MyrinetHostStatus, f64>; 2] = [
        ("myrinet_host_plugged", "Whether the host's cable is plugged", |h| flag(h.plugged.is_some())),
        ("myrinet_host_routes", "Hosts that the host has a route to", |h| h.route_count as f64),
    ];
    all_gauges(encoder, &values, &hosts)?;
    let values: [Of<MyrinetHostStatus, u64>; 18] = [
        ("myrinet_host_sent_pdus", "PDUs of circuits that the host sent into the Myrinet", |h| h.sent.pdus),
        ("myrinet_host_sent_octets", "Octets of those PDUs", |h| h.sent.octets),
        ("myrinet_host_received_pdus", "PDUs of circuits that came out of the Myrinet", |h| h.received.pdus),
        ("myrinet_host_received_octets", "Octets of those PDUs", |h| h.received.octets),
        ("myrinet_host_sent_messages", "Messages that left, of all user interfaces", |h| h.monitor.sent.pdus),
        ("myrinet_host_sent_message_octets", "Octets of those messages", |h| h.monitor.sent.octets),
        ("myrinet_host_received_messages", "Messages that came, of all user interfaces", |h| h.monitor.received.pdus),
        ("myrinet_host_received_message_octets", "Octets of those messages", |h| h.monitor.received.octets),
        ("myrinet_host_sent_packets", "Packets that left: of messages, passed on", |h| h.monitor.packets_sent.pdus),
        ("myrinet_host_sent_packet_octets", "Octets of those packets", |h| h.monitor.packets_sent.octets),
        ("myrinet_host_received_packets", "Packets that came and were used", |h| h.monitor.packets_received.pdus),
        ("myrinet_host_received_packet_octets", "Octets of those packets", |h| h.monitor.packets_received.octets),
        ("myrinet_host_sent_mapping_packets", "Packets of mapping that left", |h| h.monitor.mapping_sent.pdus),
        ("myrinet_host_received_mapping_packets", "Packets of mapping that came", |h| h.monitor.mapping_received.pdus),
        ("myrinet_host_forwarded_packets", "Packets of groups that the host passed on", |h| h.monitor.forwarded),
        ("myrinet_host_transfers", "Transfers between SRAM and the host's memory", |h| h.monitor.transfers),
        ("myrinet_host_link_stops", "Times that the link was stopped for want of a buffer", |h| h.monitor.link_stops),
        ("myrinet_host_maps", "Maps that the host's control program has drawn", |h| h.monitor.maps),
    ];
    all_counters(encoder, &values, &hosts)?;
    let values: [Of<MyrinetHostStatus, f64>; 2] = [
        ("myrinet_host_processor_seconds", "Time that the interface's processor worked", |h| h.monitor.processor_s),
        ("myrinet_host_engine_seconds", "Time that the host's DMA engine worked", |h| h.monitor.host_engine_s),
    ];
    all_counters(encoder, &values, &hosts)?;
    type Counters = fn(&MyrinetHostStatus) -> &CounterStatus;
    let reasons: [(&str, &str, Counters); 6] = [
        ("myrinet_host_sent_dropped", "PDUs of circuits that the host sent and that were dropped", |h| &h.sent),
        ("myrinet_host_received_dropped", "PDUs of circuits that came and were dropped", |h| &h.received),
        ("myrinet_host_sent_messages_dropped", "Messages dropped on the way out", |h| &h.monitor.sent),
        ("myrinet_host_received_messages_dropped", "Messages dropped on the way in", |h| &h.monitor.received),
        ("myrinet_host_sent_packets_dropped", "Packets that did not leave", |h| &h.monitor.packets_sent),
        ("myrinet_host_received_packets_dropped", "Packets that came and belong to no message", |h| {
            &h.monitor.packets_received
        }),
    ];
    for (name, help, of) in reasons {
        let all: Vec<_> = hosts.iter().map(|(labels, host)| (labels.clone(), of(host))).collect();
        drops(encoder, (name, help), &all)?;
    }
    Ok(())
}

fn ports(encoder: &mut DescriptorEncoder<'_>, nets: &[(Labels, &MyrinetStatus)]) -> fmt::Result {
    let ports: Vec<(Labels, &MyrinetPortStatus)> = nets
        .iter()
        .flat_map(|(labels, net)| net.switches.iter().map(move |switch| (with(labels, "switch", &switch.name), switch)))
        .flat_map(|(labels, switch)| switch.ports.iter().map(move |port| (with(&labels, "port", port.port), port)))
        .collect();
    let values: [Of<MyrinetPortStatus, f64>; 1] =
        [("myrinet_port_slack_peak_symbols", "Most symbols that the port's slack buffer has held", |p| {
            f64::from(p.slack_peak)
        })];
    all_gauges(encoder, &values, &ports)?;
    let values: [Of<MyrinetPortStatus, u64>; 3] = [
        ("myrinet_port_packets", "Packets that left by the switch's port", |p| p.packets),
        ("myrinet_port_stops", "STOP symbols that the port's receiver sent", |p| p.stops),
        ("myrinet_port_timeouts", "Packets that the time-out ended at the port", |p| p.timeouts),
    ];
    all_counters(encoder, &values, &ports)
}
