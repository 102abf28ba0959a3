//! What a running network counts, as metrics in the OpenMetrics text format. In: a [`Status`]; out: a text. [`server`]
//! hands it to whoever asks.
//!
//! Names follow Prometheus: `cellway_`, base units, `_total` for what only rises. A circuit and an endpoint is a row
//! each; of more than a bound only the first by name are rows, and `cellway_circuits` and `cellway_endpoints` tell how
//! many there are.

mod ended;
pub mod rows;
pub mod server;
mod visitors;

use crate::status::{CircuitStatus, CounterStatus, HopStatus, Status};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;
use rows::{Family, Labels, counters, dropped, flag, gauges, one};
use std::fmt;

/// The media type of what [`encode`] writes.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Circuits, and endpoints, that are rows unless told otherwise.
pub const MAX_ROWS: usize = 1000;

/// Everything that `status` tells, as metrics; of circuits and of endpoints `max_rows` at most.
///
/// # Errors
/// The encoder fails, which a string does not.
pub fn encode(status: Status, max_rows: usize) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("cellway");
    registry.register_collector(Box::new(Snapshot { status, max_rows }));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Snapshot {
    status: Status,
    max_rows: usize,
}

/// Names and helps of the counters of something that has cells, PDUs, octets and drops.
struct Counted {
    cells: (&'static str, &'static str),
    pdus: (&'static str, &'static str),
    octets: (&'static str, &'static str),
    dropped: Option<(&'static str, &'static str)>,
}

fn counted(encoder: &mut DescriptorEncoder<'_>, names: &Counted, all: &[(Labels, &CounterStatus)]) -> fmt::Result {
    let sum = |of: fn(&CounterStatus) -> u64| all.iter().map(|(l, c)| (l.clone(), of(c))).collect::<Vec<_>>();
    let parts = [(names.cells, sum(|c| c.cells)), (names.pdus, sum(|c| c.pdus)), (names.octets, sum(|c| c.octets))];
    for ((name, help), rows) in parts {
        counters(encoder, Family { name, help, rows })?;
    }
    let Some((name, help)) = names.dropped else { return Ok(()) };
    let rows = all.iter().flat_map(|(labels, counter)| dropped(labels, &counter.dropped)).collect();
    counters(encoder, Family { name, help, rows })
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        self.engine(encoder)?;
        self.links(encoder)?;
        self.switches(encoder)?;
        self.circuits(encoder)?;
        self.endpoints(encoder)?;
        self.hosts(encoder)?;
        ended::encode(encoder, &self.status.ended, self.max_rows)?;
        self.status.of_kinds.metrics(encoder)
    }
}

impl Snapshot {
    fn engine(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (engine, service) = (&self.status.engine, &self.status.service);
        for (name, help, value) in [
            ("revision", "Number of the last change of the network", self.status.revision as f64),
            ("engine_uptime_seconds", "Time since the engine's thread began", engine.uptime_s),
            ("engine_busy_ratio", "Share of its time in which the engine's thread did not sleep", engine.busy_share),
            (
                "engine_longest_command_seconds",
                "Processor time of the longest command between two rounds",
                engine.longest_command_s,
            ),
            (
                "engine_longest_recent_round_seconds",
                "Processor time of the longest round of the last one to two minutes",
                engine.longest_recent_round_s,
            ),
            ("engine_frame_buffers", "Buffers of frames that there are", engine.frames as f64),
            ("engine_frame_buffers_used", "Buffers of frames in use", engine.frames_in_use as f64),
            ("service_accepts", "Whether the process runs that accepts connections", flag(service.accepts)),
            ("users_octets", "Octets of memory that all users have together", service.users_octets as f64),
            ("users_octets_limit", "Octets of memory that they may have", service.max_users_octets as f64),
        ] {
            gauges(encoder, Family { name, help, rows: one(value) })?;
        }
        for (name, help, value) in [
            ("engine_rounds", "Rounds over the network", engine.rounds),
            ("engine_sleeps", "Sleeps of the engine's thread", engine.sleeps),
            ("engine_commands", "Commands carried out between rounds", engine.commands),
            ("log_lines_dropped", "Lines of the log that nobody took", engine.log_lines_dropped),
            ("service_acceptor_restarts", "Starts of an acceptor in place of an ended one", service.acceptor_restarts),
            ("memory_refusals", "Requests refused since users would have too much memory", service.memory_refusals),
        ] {
            counters(encoder, Family { name, help, rows: one(value) })?;
        }
        Ok(())
    }

    fn links(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let links = &self.status.links;
        type Value = fn(&crate::status::LinkStatus) -> f64;
        let values: [(&str, &str, Value); 5] = [
            ("link_up", "Whether the link passes anything", |l| flag(l.up)),
            ("link_enabled", "Whether the link may pass anything", |l| flag(l.enabled)),
            ("link_delay_seconds", "Delay from end to end", |l| l.delay_s),
            ("link_queue_limit", "Cells, or frames, that wait at each side at most", |l| l.queue_cells as f64),
            ("link_circuits", "Circuits over the link", |l| l.circuits as f64),
        ];
        for (name, help, value) in values {
            let rows = links.iter().map(|link| (vec![("link", link.name.clone())], value(link))).collect();
            gauges(encoder, Family { name, help, rows })?;
        }
        let rated = links.iter().filter_map(|link| Some((vec![("link", link.name.clone())], link.rate_cells_per_s?)));
        let (name, help) = ("link_rate_cells_per_second", "Rate of the link; none where it has no bound");
        gauges(encoder, Family { name, help, rows: rated.collect() })?;
        let directions: Vec<(Labels, &crate::status::DirectionStatus)> = links
            .iter()
            .flat_map(|link| [("a", &link.from_a), ("b", &link.from_b)].map(|(side, way)| (link, side, way)))
            .map(|(link, side, way)| (vec![("link", link.name.clone()), ("from", side.to_owned())], way))
            .collect();
        let rows = directions.iter().map(|(labels, way)| (labels.clone(), way.promised_cells_per_s)).collect();
        let (name, help) = ("link_promised_cells_per_second", "Rate that contracts have of the link");
        gauges(encoder, Family { name, help, rows })?;
        let rows = directions.iter().map(|(labels, way)| (labels.clone(), way.queued as f64)).collect();
        let (name, help) = ("link_queued", "Cells, or frames, on the link: those that wait, and those under way");
        gauges(encoder, Family { name, help, rows })?;
        let sent: Vec<_> = directions.iter().map(|(labels, way)| (labels.clone(), &way.sent)).collect();
        let names = Counted {
            cells: ("link_sent_cells", "Cells that the sender gave to the link"),
            pdus: ("link_sent_pdus", "PDUs that the sender gave to the link"),
            octets: ("link_sent_octets", "Octets that the sender gave to the link"),
            dropped: Some(("link_dropped", "Cells, or frames, dropped on the link")),
        };
        counted(encoder, &names, &sent)?;
        let delivered: Vec<_> = directions.iter().map(|(labels, way)| (labels.clone(), &way.delivered)).collect();
        let names = Counted {
            cells: ("link_delivered_cells", "Cells that arrived"),
            pdus: ("link_delivered_pdus", "PDUs that arrived"),
            octets: ("link_delivered_octets", "Octets that arrived"),
            dropped: None,
        };
        counted(encoder, &names, &delivered)?;
        let taken = directions.iter().filter_map(|(labels, way)| Some((labels.clone(), way.intake.as_ref()?)));
        let names = Counted {
            cells: ("link_intake_cells", "Cells that arrived and that the host there took"),
            pdus: ("link_intake_pdus", "PDUs of frames that arrived and that the host there took"),
            octets: ("link_intake_octets", "Octets of those PDUs"),
            dropped: Some((
                "link_intake_dropped",
                "Cells, or frames, that arrived and that the host there dropped before anybody had them",
            )),
        };
        counted(encoder, &names, &taken.collect::<Vec<_>>())?;
        let adapters = &self.status.adapters;
        let signal = adapters.iter().map(|a| (vec![("adapter", a.name.clone())], flag(a.signal))).collect();
        let (name, help) = ("adapter_signal", "Whether the adapter's line brings a signal");
        gauges(encoder, Family { name, help, rows: signal })?;
        let attached = adapters.iter().map(|a| (vec![("adapter", a.name.clone())], flag(a.attached))).collect();
        let (name, help) = ("adapter_attached", "Whether a guest drives the adapter");
        gauges(encoder, Family { name, help, rows: attached })
    }

    fn switches(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let switches = &self.status.switches;
        type Value = fn(&crate::status::SwitchStatus) -> f64;
        let values: [(&str, &str, Value); 3] = [
            ("switch_ports", "Ports that the switch may have", |s| f64::from(s.ports)),
            ("switch_routes", "Routes of the circuits through the switch", |s| s.routes as f64),
            ("switch_routes_limit", "Routes at most", |s| s.max_routes as f64),
        ];
        for (name, help, value) in values {
            let rows = switches.iter().map(|s| (vec![("switch", s.name.clone())], value(s))).collect();
            gauges(encoder, Family { name, help, rows })?;
        }
        let total = switches.iter().map(|s| (vec![("switch", s.name.clone())], s.queued as f64)).collect();
        let (name, help) = ("switch_queued", "Cells that wait in the switch for their output");
        gauges(encoder, Family { name, help, rows: total })?;
        let ports = switches.iter().flat_map(|s| s.port_queued.iter().map(move |(port, n)| (s, port, n)));
        let rows = ports
            .map(|(switch, port, n)| (vec![("switch", switch.name.clone()), ("port", port.to_string())], *n as f64));
        let (name, help) = ("switch_port_queued", "Cells that wait for an output, where any do");
        gauges(encoder, Family { name, help, rows: rows.collect() })?;
        let ports = switches.iter().flat_map(|s| s.port_drops.iter().map(move |(port, reasons)| (s, port, reasons)));
        let rows = ports.flat_map(|(switch, port, reasons)| {
            dropped(&vec![("switch", switch.name.clone()), ("port", port.to_string())], reasons)
        });
        let told = switches.iter().flat_map(|s| s.alarms.iter().map(move |alarm| (s, alarm)));
        let alarms = told.map(|(switch, alarm)| {
            let path = alarm.path.map_or_else(String::new, |path| path.to_string());
            let port = ("port", alarm.port.to_string());
            let labels = vec![("switch", switch.name.clone()), port, ("path", path), ("defect", alarm.defect.clone())];
            (labels, f64::from(alarm.circuits))
        });
        let (name, help) = ("switch_alarm_circuits", "Circuits that the switch tells of a defect at a port by AIS");
        gauges(encoder, Family { name, help, rows: alarms.collect() })?;
        let (name, help) = ("switch_dropped", "Cells, or frames, that the switch received at a port and dropped");
        counters(encoder, Family { name, help, rows: rows.collect() })
    }

    fn circuits(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut circuits: Vec<_> = self.status.circuits.iter().collect();
        let (name, help) = ("circuits", "Circuits that there are");
        gauges(encoder, Family { name, help, rows: one(circuits.len() as f64) })?;
        circuits.sort_by(|a, b| a.name.cmp(&b.name));
        circuits.truncate(self.max_rows);
        let ends = circuits.iter().flat_map(|circuit| circuit.ends.iter().map(move |end| (circuit, end)));
        let ends: Vec<(Labels, &crate::status::EndStatus)> = ends
            .map(|(circuit, end)| {
                let labels = vec![
                    ("circuit", circuit.name.clone()),
                    ("end", end.end.clone()),
                    ("category", circuit.category.clone()),
                ];
                (labels, end)
            })
            .collect();
        let rows = ends.iter().map(|(l, end)| (l.clone(), flag(end.open.is_some()))).collect();
        let (name, help) = ("circuit_open", "Whether an endpoint has the end open");
        gauges(encoder, Family { name, help, rows })?;
        let alarms = ends.iter().flat_map(|(labels, end)| {
            end.alarms.iter().map(|alarm| {
                let labels = labels.iter().cloned().chain([("alarm", alarm.alarm.clone())]).collect();
                (labels, 1.0)
            })
        });
        let (name, help) = ("circuit_alarm", "Alarms of the end that last: ais, loc, rdi (I.610)");
        gauges(encoder, Family { name, help, rows: alarms.collect() })?;
        let sent: Vec<_> = ends.iter().filter_map(|(l, end)| Some((l.clone(), end.sent.as_ref()?))).collect();
        let names = Counted {
            cells: ("circuit_sent_cells", "Cells from the end's application"),
            pdus: ("circuit_sent_pdus", "PDUs from the end's application"),
            octets: ("circuit_sent_octets", "Octets from the end's application"),
            dropped: Some(("circuit_sent_dropped", "What the end's application sent and was dropped at its host")),
        };
        counted(encoder, &names, &sent)?;
        let received: Vec<_> = ends.iter().filter_map(|(l, end)| Some((l.clone(), end.received.as_ref()?))).collect();
        let names = Counted {
            cells: ("circuit_received_cells", "Cells to the end's application"),
            pdus: ("circuit_received_pdus", "PDUs to the end's application"),
            octets: ("circuit_received_octets", "Octets to the end's application"),
            dropped: Some((
                "circuit_received_dropped",
                "What came for the end's application and was dropped at its host",
            )),
        };
        counted(encoder, &names, &received)?;
        self.hops(encoder, &circuits)
    }

    /// What switches make of circuits.
    fn hops(&self, encoder: &mut DescriptorEncoder<'_>, circuits: &[&CircuitStatus]) -> fmt::Result {
        let hops = circuits.iter().flat_map(|circuit| circuit.hops.iter().map(move |hop| (circuit, hop)));
        let hops: Vec<(Labels, &HopStatus)> = hops
            .map(|(circuit, hop)| {
                let labels = vec![
                    ("circuit", circuit.name.clone()),
                    ("switch", hop.switch.clone()),
                    ("port", hop.to_port.to_string()),
                    ("direction", if hop.forward { "forward" } else { "back" }.to_owned()),
                ];
                (labels, hop)
            })
            .collect();
        type Count = fn(&HopStatus) -> u64;
        let counts: [(&str, &str, Count); 7] = [
            ("circuit_hop_offered_cells", "Cells that came to the switch", |h| h.offered),
            ("circuit_hop_conformed_cells", "Cells within the contract", |h| h.conformed),
            ("circuit_hop_tagged_cells", "Cells beyond the contract that were tagged", |h| h.tagged),
            ("circuit_hop_policed_cells", "Cells beyond the contract that were dropped", |h| h.policed),
            ("circuit_hop_queue_dropped_cells", "Cells dropped for want of room", |h| h.queue_dropped),
            ("circuit_hop_pdu_dropped_cells", "Cells dropped with their PDU", |h| h.pdu_dropped),
            ("circuit_hop_sent_cells", "Cells that left the switch", |h| h.sent),
        ];
        for (name, help, count) in counts {
            let rows = hops.iter().map(|(labels, hop)| (labels.clone(), count(hop))).collect();
            counters(encoder, Family { name, help, rows })?;
        }
        type Value = fn(&HopStatus) -> Option<f64>;
        let values: [(&str, &str, Value); 3] = [
            ("circuit_hop_rate_cells_per_second", "Measured rate of a paced circuit", |h| h.rate_cells_per_s),
            ("circuit_hop_contract_cells_per_second", "Rate of the contract", |h| h.contract_cells_per_s),
            ("circuit_hop_jitter_seconds", "Variation of delay that the switch has added, at most", |h| h.jitter_s),
        ];
        for (name, help, value) in values {
            let rows = hops.iter().filter_map(|(labels, hop)| Some((labels.clone(), value(hop)?))).collect();
            gauges(encoder, Family { name, help, rows })?;
        }
        Ok(())
    }

    fn endpoints(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut endpoints: Vec<_> = self.status.endpoints.iter().collect();
        let (name, help) = ("endpoints", "Endpoints that there are");
        gauges(encoder, Family { name, help, rows: one(endpoints.len() as f64) })?;
        endpoints.sort_by(|a, b| (&a.host, a.endpoint).cmp(&(&b.host, b.endpoint)));
        endpoints.truncate(self.max_rows);
        let labels =
            |e: &crate::status::EndpointStatus| vec![("host", e.host.clone()), ("endpoint", e.endpoint.to_string())];
        let rows = endpoints.iter().map(|e| (labels(e), e.channels as f64)).collect();
        let (name, help) = ("endpoint_channels", "Circuits that the endpoint has open");
        gauges(encoder, Family { name, help, rows })?;
        let rows = endpoints.iter().map(|e| (labels(e), e.waiting_sdus as f64)).collect();
        let (name, help) =
            ("endpoint_queued_sdus", "SDUs that the application has sent and that have not left its host");
        gauges(encoder, Family { name, help, rows })?;
        let rows = endpoints.iter().map(|e| (labels(e), e.segment_octets as f64)).collect();
        let (name, help) = ("endpoint_segment_bytes", "Memory of the endpoint's segment");
        gauges(encoder, Family { name, help, rows })?;
        let sent: Vec<_> = endpoints.iter().map(|e| (labels(e), &e.sent)).collect();
        let names = Counted {
            cells: ("endpoint_sent_cells", "Cells that the endpoint's application sent"),
            pdus: ("endpoint_sent_pdus", "PDUs that the endpoint's application sent"),
            octets: ("endpoint_sent_octets", "Octets that the endpoint's application sent"),
            dropped: Some(("endpoint_sent_dropped", "What the endpoint's application sent and was dropped")),
        };
        counted(encoder, &names, &sent)?;
        let received: Vec<_> = endpoints.iter().map(|e| (labels(e), &e.received)).collect();
        let names = Counted {
            cells: ("endpoint_received_cells", "Cells that the endpoint's application was given"),
            pdus: ("endpoint_received_pdus", "PDUs that the endpoint's application was given"),
            octets: ("endpoint_received_octets", "Octets that the endpoint's application was given"),
            dropped: Some(("endpoint_received_dropped", "What came for the endpoint's application and was dropped")),
        };
        counted(encoder, &names, &received)
    }

    fn hosts(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let hosts = &self.status.hosts;
        let rows = hosts.iter().map(|(name, h)| (vec![("host", name.clone())], h.endpoints as f64)).collect();
        let (name, help) = ("host_endpoints", "Endpoints at the host");
        gauges(encoder, Family { name, help, rows })?;
        let rows = hosts.iter().map(|(name, h)| (vec![("host", name.clone())], h.max_endpoints as f64)).collect();
        let (name, help) = ("host_endpoints_limit", "Endpoints at the host at most");
        gauges(encoder, Family { name, help, rows })?;
        let stray = &self.status.stray;
        let rows = stray.iter().flat_map(|(host, c)| dropped(&vec![("host", host.clone())], &c.dropped)).collect();
        let (name, help) = ("host_stray_dropped", "What came to the host for circuits that it does not have");
        counters(encoder, Family { name, help, rows })
    }
}
