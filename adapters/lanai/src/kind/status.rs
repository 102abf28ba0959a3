//! What is told of Myrinets: interfaces with their control programs' monitoring variables, switches, the map, routes,
//! and the traffic generator's last run.

use crate::myrinet::{Generated, HostReport, Layout, Myrinet, Pace, PortReport, Report, SwitchReport};
use anyhow::Result;
use control::kinds::Running;
use control::status::CounterStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wire::Counters;

/// A Myrinet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MyrinetStatus {
    /// Its name.
    pub name: String,
    /// Hosts, in the order of their ports.
    pub hosts: Vec<MyrinetHostStatus>,
    /// Switches.
    pub switches: Vec<MyrinetSwitchStatus>,
    /// The host whose control program maps; `null` before the first map.
    pub mapper: Option<String>,
    /// The map that it has drawn.
    pub map: Option<MyrinetMap>,
    /// Whether that map is what is plugged; a change is in the map when some runs of the mapper in a row have drawn it.
    pub map_agrees: bool,
    /// Directions of circuits over it.
    pub circuit_routes: usize,
    /// Packets that arrived at hosts, and those that did not, by reason; without those of mapping.
    pub packets: CounterStatus,
    /// Packets of mapping that arrived at hosts.
    pub mapping_packets: u64,
    /// Packets of mapping that found no host: most scouts, whose ports are not there or have no cable.
    pub mapping_unfound: u64,
    /// Symbols that slack buffers had no room for: 0 unless the marks are too high.
    pub overflowed_symbols: u64,
    /// Packets that the time-out ended.
    pub timeouts: u64,
    /// Seconds that its time has stood still, because the processor could not keep up with the symbols.
    pub stood_s: f64,
    /// PDUs that a change of hosts, switches or mechanisms interrupted.
    pub interrupted_pdus: u64,
    /// What `cellway myrinet send` sent last.
    pub run: Option<MyrinetRun>,
}

/// An interface, and the host that it is in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MyrinetHostStatus {
    /// The host.
    pub name: String,
    /// Its address. The highest maps.
    pub address: String,
    /// The other end of its cable.
    pub plugged: Option<String>,
    /// The mapper as far as it knows.
    pub mapper: Option<String>,
    /// The number of its table of routes.
    pub routes_version: u64,
    /// Hosts that it has a route to.
    pub route_count: usize,
    /// Its routes: at each switch so many ports beyond the one where the packet came in. Only where they were asked
    /// for.
    #[serde(default)]
    pub routes: BTreeMap<String, Vec<i8>>,
    /// PDUs of circuits that it sent into the Myrinet.
    pub sent: CounterStatus,
    /// PDUs of circuits that came out of it.
    pub received: CounterStatus,
    /// Monitoring variables of its control program.
    pub monitor: MyrinetMonitor,
}

/// Monitoring variables of a control program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MyrinetMonitor {
    /// Messages that left whole, of all user interfaces; those that did not, by reason.
    pub sent: CounterStatus,
    /// Messages that came whole; those that did not, by reason.
    pub received: CounterStatus,
    /// Packets that left, of messages and passed on; those that did not, by reason.
    pub packets_sent: CounterStatus,
    /// Packets that came and were used; those that belong to no message, by reason.
    pub packets_received: CounterStatus,
    /// Packets of mapping that left; those that did not, by reason.
    pub mapping_sent: CounterStatus,
    /// Packets of mapping that came.
    pub mapping_received: CounterStatus,
    /// Packets of groups that it passed on.
    pub forwarded: u64,
    /// Transfers between its SRAM and the host's memory.
    pub transfers: u64,
    /// Seconds that its processor worked.
    pub processor_s: f64,
    /// Seconds that the host's DMA engine worked.
    pub host_engine_s: f64,
    /// Times that it stopped the link for want of a buffer.
    pub link_stops: u64,
    /// Maps that it has drawn.
    pub maps: u64,
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MyrinetSwitchStatus {
    /// Its name.
    pub name: String,
    /// Ports that have a cable.
    pub ports: Vec<MyrinetPortStatus>,
}

/// A port of a switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MyrinetPortStatus {
    /// Its number.
    pub port: usize,
    /// The other end of its cable.
    pub to: String,
    /// Packets that left by it.
    pub packets: u64,
    /// STOP symbols that its receiver sent.
    pub stops: u64,
    /// The most symbols that its slack buffer held.
    pub slack_peak: u32,
    /// Packets that the time-out ended here.
    pub timeouts: u64,
}

/// Routes by the host that sends and the host that receives: at each switch so many ports beyond the one where the
/// packet came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct MyrinetRoutes(pub BTreeMap<String, BTreeMap<String, Vec<i8>>>);

/// A map as a mapper draws it. Switches have no names on a Myrinet, and ports are distances.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MyrinetMap {
    /// Switches.
    pub switches: usize,
    /// Hosts, each with the switch (from 0) and the port where it is; `null` for two hosts at one cable.
    pub hosts: BTreeMap<String, Option<[i32; 2]>>,
    /// Cables between switches: switch and port, twice.
    pub cables: Vec<[[i32; 2]; 2]>,
}

/// A run of the traffic generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MyrinetRun {
    /// The sender.
    pub from: String,
    /// The receivers.
    pub to: Vec<String>,
    /// Octets of a message.
    pub octets: u32,
    /// Messages that are sent.
    pub count: u32,
    /// Whether each is acknowledged before the next one.
    pub acknowledged: bool,
    /// Whether the host writes messages into the interface.
    pub immediate: bool,
    /// Messages that left.
    pub sent: u32,
    /// Messages that came, at all receivers together.
    pub received: u32,
    /// Of those, with other octets than were sent.
    pub damaged: u32,
    /// To the last arrival, in seconds of the Myrinet's time.
    pub took_s: f64,
    /// 10^6 bit/s that each receiver got.
    pub mbit_s: f64,
    /// The shortest, the mean and the longest round trip in microseconds, with acknowledgements.
    pub round_trip_us: Option<[f64; 3]>,
    /// Whether all has come, or no more will.
    pub done: bool,
}

/// A Myrinet; `None` if it is not there.
pub(super) fn of(running: &Running<'_>, name: &str, with_routes: bool) -> Result<Option<MyrinetStatus>> {
    // One at a time, between two rounds of the engine.
    let asked = name.to_owned();
    let report = running.engine.named("status").with(move |core| {
        let node = core.fabric.node(&asked)?;
        core.network.peek_node::<Myrinet>(node).map(|net| net.report())
    })?;
    Ok(report.map(|report| status(name, &report, with_routes)))
}

fn status(name: &str, report: &Report, with_routes: bool) -> MyrinetStatus {
    let layout = &report.layout;
    let named = |address| layout.host(address).map(|host| layout.hosts[host].clone());
    let drawn = report.map();
    let map = drawn.as_ref().map(|map| MyrinetMap {
        switches: map.switches,
        hosts: map.hosts.iter().filter_map(|(a, at)| Some((named(*a)?, at.map(|at| place(&at))))).collect(),
        cables: map.cables.iter().map(|ends| ends.each_ref().map(place)).collect(),
    });
    let switch = |(switch, (name, _)): (&SwitchReport, &(String, usize))| MyrinetSwitchStatus {
        name: name.clone(),
        ports: switch.ports.iter().filter_map(|port| port_status(port, layout)).collect(),
    };
    MyrinetStatus {
        name: name.to_owned(),
        hosts: report
            .hosts
            .iter()
            .zip(&layout.hosts)
            .map(|(host, name)| host_status(name, host, layout, with_routes))
            .collect(),
        switches: report.switches.iter().zip(&layout.switches).map(switch).collect(),
        mapper: report.mapper().and_then(named),
        map,
        map_agrees: report.map_agrees(),
        circuit_routes: report.routes,
        packets: (&report.fabric).into(),
        mapping_packets: report.mapping.pdus,
        mapping_unfound: report.mapping.dropped_total(),
        overflowed_symbols: report.overflowed,
        timeouts: report.timeouts,
        stood_s: report.stood.as_secs_f64(),
        interrupted_pdus: report.interrupted,
        run: report.generated.as_ref().map(|run| run_status(run, layout)),
    }
}

fn place((switch, port): &(usize, i32)) -> [i32; 2] {
    [*switch as i32, *port]
}

fn host_status(name: &str, host: &HostReport, layout: &Layout, with_routes: bool) -> MyrinetHostStatus {
    let named = |address| layout.host(address).map(|host| layout.hosts[host].clone());
    let routes = host.routes.iter().filter(|_| with_routes);
    let monitor = &host.monitor;
    let counters = |counters: &Counters| counters.into();
    MyrinetHostStatus {
        name: name.to_owned(),
        address: address_text(host.address),
        plugged: host.plugged.map(|plug| layout.name(plug)),
        mapper: named(host.mapper),
        routes_version: host.version,
        route_count: host.routes.len(),
        routes: routes
            .filter_map(|(to, turns)| Some((named(*to)?, turns.iter().map(|t| t.ports()).collect())))
            .collect(),
        sent: counters(&host.sent),
        received: counters(&host.received),
        monitor: MyrinetMonitor {
            sent: counters(&monitor.sent),
            received: counters(&monitor.received),
            packets_sent: counters(&monitor.packets_sent),
            packets_received: counters(&monitor.packets_received),
            mapping_sent: counters(&monitor.mapping_sent),
            mapping_received: counters(&monitor.mapping_received),
            forwarded: monitor.forwarded,
            transfers: monitor.transfers,
            processor_s: monitor.processor_ns as f64 * 1e-9,
            host_engine_s: monitor.host_engine_ns as f64 * 1e-9,
            link_stops: monitor.stopped,
            maps: host.maps,
        },
    }
}

fn port_status(port: &PortReport, layout: &Layout) -> Option<MyrinetPortStatus> {
    let counters = &port.counters;
    Some(MyrinetPortStatus {
        port: port.port,
        to: layout.name(port.to?),
        packets: counters.packets,
        stops: counters.stops,
        slack_peak: port.peak,
        timeouts: counters.timeouts,
    })
}

fn run_status(run: &Generated, layout: &Layout) -> MyrinetRun {
    let job = &run.job;
    let name = |host: &usize| layout.hosts.get(*host).cloned().unwrap_or_default();
    let took_s = run.took.as_secs_f64();
    let each = f64::from(run.received) / job.to.len().max(1) as f64;
    let us = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    let [least, sum, most] = run.round_trips;
    let mean = sum / run.round_trip_count.max(1);
    MyrinetRun {
        from: name(&job.from),
        to: job.to.iter().map(name).collect(),
        octets: job.octets,
        count: job.count,
        acknowledged: job.pace == Pace::Acknowledged,
        immediate: job.immediate,
        sent: run.sent,
        received: run.received,
        damaged: run.damaged,
        took_s,
        mbit_s: if took_s > 0.0 { each * f64::from(job.octets) * 8.0 / took_s / 1e6 } else { 0.0 },
        round_trip_us: (run.round_trip_count > 0).then(|| [least, mean, most].map(us)),
        done: run.done,
    }
}

/// An address as cards print it.
fn address_text(address: u64) -> String {
    let octets = address.to_be_bytes();
    octets[2..].iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":")
}
