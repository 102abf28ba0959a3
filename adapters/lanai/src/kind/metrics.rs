//! Metrics of Myrinets.

use super::status::{MyrinetHostStatus, MyrinetPortStatus, MyrinetStatus};
use control::metrics::rows::{Labels, Of, all_counters, all_gauges, drops, flag, with};
use control::status::CounterStatus;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

/// Writes what is told of Myrinets.
pub(super) fn encode(nets: &[MyrinetStatus], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let nets: Vec<(Labels, &MyrinetStatus)> =
        nets.iter().map(|net| (vec![("myrinet", net.name.clone())], net)).collect();
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
