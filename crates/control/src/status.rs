//! What a running network tells of itself, as types: links, switches, circuits and endpoints with what passed and what was
//! dropped and why, and the engine. Commands, metrics and pages read these.
//!
//! It is harvested in slices between rounds of the engine, so that looking costs the network nothing; rows of different slices
//! are of different moments.

use crate::controller::{Controller, SLICE, processor_time};
use crate::names::carries_name;
use crate::version::VERSION;
use anyhow::Result;
use host::HostInterface;
use host::engine::{Core, EngineHandle};
use net::topology::{Bounds, Placed};
use net::{LinkId, Switch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wire::Counters;

/// Rows looked at before the time is asked for.
const ROWS: usize = 16;

/// Everything that is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The protocol's version.
    pub version: u32,
    /// The number of the last change.
    pub revision: u64,
    /// What the names stand for: `host`, `switch` or `outside`.
    pub stations: BTreeMap<String, StationKind>,
    /// Hosts.
    pub hosts: BTreeMap<String, HostStatus>,
    /// Switches.
    pub switches: Vec<SwitchStatus>,
    /// Links.
    pub links: Vec<LinkStatus>,
    /// Circuits.
    pub circuits: Vec<CircuitStatus>,
    /// Endpoints of applications.
    pub endpoints: Vec<EndpointStatus>,
    /// What came to hosts for circuits that they do not have.
    pub stray: BTreeMap<String, CounterStatus>,
    /// Virtual adapters.
    pub adapters: Vec<AdapterStatus>,
    /// What runs it all.
    pub engine: EngineStatus,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StationKind {
    /// A host.
    Host,
    /// A switch.
    Switch,
    /// Something outside.
    Outside,
}

/// Counters of cells, PDUs and octets, and of what was dropped by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CounterStatus {
    /// Cells.
    pub cells: u64,
    /// PDUs.
    pub pdus: u64,
    /// Octets.
    pub octets: u64,
    /// What was dropped, by reason; reasons that have not occurred are left out.
    pub dropped: BTreeMap<String, u64>,
}

impl From<&Counters> for CounterStatus {
    fn from(c: &Counters) -> Self {
        let dropped = c.drops().map(|(reason, n)| (reason.name().to_owned(), n)).collect();
        CounterStatus { cells: c.cells, pdus: c.pdus, octets: c.octets, dropped }
    }
}

/// A host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostStatus {
    /// Address and prefix for `cellway ip`, as the description has it.
    pub ip: Option<String>,
    /// Endpoints at most.
    pub max_endpoints: usize,
    /// Endpoints that there are.
    pub endpoints: usize,
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchStatus {
    /// Its name.
    pub name: String,
    /// Ports that it may have.
    pub ports: u16,
    /// Routes at most.
    pub max_routes: usize,
    /// Routes of the circuits through it: one for each direction.
    pub routes: usize,
    /// What it received and dropped itself, at all ports.
    pub dropped: BTreeMap<String, u64>,
    /// The same at each port where anything was.
    pub port_drops: BTreeMap<u16, BTreeMap<String, u64>>,
}

/// A direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectionStatus {
    /// What the sender gave to it, and what was dropped on it.
    pub sent: CounterStatus,
    /// What arrived.
    pub delivered: CounterStatus,
    /// Cells each second that contracts have of it.
    pub promised_cells_per_s: f64,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkStatus {
    /// Its name.
    pub name: String,
    /// `cells` or `frames`.
    pub carries: String,
    /// Cells each second; `null`: as fast as memory is.
    pub rate_cells_per_s: Option<f64>,
    /// From end to end, in seconds.
    pub delay_s: f64,
    /// Cells (or frames) that wait at most.
    pub queue_cells: usize,
    /// Whether it passes anything.
    pub up: bool,
    /// Whether it may.
    pub enabled: bool,
    /// What is outside, in words; `null` without anything.
    pub outside: Option<String>,
    /// Its ends as they were written.
    pub ends: [String; 2],
    /// Circuits over it.
    pub circuits: usize,
    /// From its first end.
    pub from_a: DirectionStatus,
    /// From its second end.
    pub from_b: DirectionStatus,
}

/// An end of a circuit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndStatus {
    /// As it was written.
    pub end: String,
    /// The adaptation layer that it is open with.
    pub open: Option<String>,
    /// The endpoint that has it open.
    pub endpoint: Option<u64>,
    /// From its application; `null` where no host of this network has it.
    pub sent: Option<CounterStatus>,
    /// To its application.
    pub received: Option<CounterStatus>,
}

/// A circuit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CircuitStatus {
    /// Its ends.
    pub name: String,
    /// Service category.
    pub category: String,
    /// Peak cell rate.
    pub pcr_cells_per_s: Option<f64>,
    /// Adaptation layer.
    pub aal: String,
    /// Whether data goes from the first end to the others only.
    pub one_way: bool,
    /// Its ends, the first of which is the root of one with several.
    pub ends: Vec<EndStatus>,
    /// The links that it goes over, each with its label there.
    pub way: Vec<String>,
}

/// An endpoint of an application.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndpointStatus {
    /// The host that it is at.
    pub host: String,
    /// Its number there.
    pub endpoint: u64,
    /// Event strategy.
    pub events: serde_json::Value,
    /// What the strategy has done.
    pub event_counts: serde_json::Value,
    /// Data path.
    pub path: serde_json::Value,
    /// Channels open.
    pub channels: usize,
    /// Octets of its segment.
    pub segment_octets: usize,
    /// What its application sent.
    pub sent: CounterStatus,
    /// What it was given.
    pub received: CounterStatus,
}

/// A virtual adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdapterStatus {
    /// Its name.
    pub name: String,
    /// The guest's name.
    pub host: String,
    /// Where a virtual machine attaches.
    pub socket: std::path::PathBuf,
    /// The link that its cable is in.
    pub link: Option<String>,
    /// Whether its line brings a signal.
    pub signal: bool,
    /// Whether a guest drives it.
    pub attached: bool,
    /// In words.
    pub state: String,
    /// What it counts.
    pub counters: BTreeMap<String, CounterStatus>,
}

/// The thread that carries everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineStatus {
    /// Since it began, in seconds.
    pub uptime_s: f64,
    /// Share of that in which it did not sleep.
    pub busy_share: f64,
    /// Rounds over the network.
    pub rounds: u64,
    /// Sleeps.
    pub sleeps: u64,
    /// Commands that it has carried out between rounds.
    pub commands: u64,
    /// Processor time of the longest of them, in seconds.
    pub longest_command_s: f64,
    /// Buffers of frames in use.
    pub frames_in_use: usize,
    /// Buffers of frames that there are.
    pub frames: usize,
}

/// Rows that a slice has harvested, and where the next goes on.
struct Slice<T> {
    rows: Vec<T>,
    next: Option<usize>,
}

/// Harvests rows slice by slice: `row` gives what it finds from a place on, `ROWS` at most, and the next place.
fn harvest<T: Send + 'static>(
    engine: &EngineHandle,
    part: impl Fn(&mut Core, usize, &mut Vec<T>) -> Option<usize> + Clone + Send + 'static,
) -> Result<Vec<T>> {
    let (mut all, mut at) = (Vec::new(), Some(0));
    while let Some(from) = at {
        let part = part.clone();
        let slice = engine.with(move |core| {
            let begun = processor_time();
            let (mut rows, mut next) = (Vec::new(), Some(from));
            while let Some(at) = next {
                next = part(core, at, &mut rows);
                if processor_time().saturating_sub(begun) >= SLICE {
                    break;
                }
            }
            Slice { rows, next }
        })?;
        all.extend(slice.rows);
        at = slice.next;
    }
    Ok(all)
}

/// Everything.
///
/// # Errors
/// The engine has stopped.
pub fn collect(controller: &Controller) -> Result<Status> {
    let engine = controller.engine();
    let (stations, engine_status) = engine.with(|core| {
        let stations: Vec<(String, Bounds)> =
            core.fabric.router().stations().map(|(name, bounds)| (name.to_owned(), bounds)).collect();
        (stations, engine_status(core))
    })?;
    let names: std::sync::Arc<Vec<(String, Bounds)>> = std::sync::Arc::new(stations);
    let of_stations = names.clone();
    let hosts = harvest(engine, move |core, at, rows| {
        let (name, bounds) = of_stations.get(at)?;
        if matches!(bounds, Bounds::Host)
            && let Some((_, host)) = host_of(core, name)
        {
            rows.push((
                name.clone(),
                host.max_endpoints(),
                CounterStatus::from(host.stray()),
                endpoints_of(name, host),
            ));
        }
        Some(at + 1)
    })?;
    let of_stations = names.clone();
    let switches = harvest(engine, move |core, at, rows| {
        let (name, bounds) = of_stations.get(at)?;
        if let Bounds::Switch(config) = bounds {
            rows.extend(switch_status(core, name, *config));
        }
        Some(at + 1)
    })?;
    let ips: BTreeMap<String, Option<String>> =
        controller.with_config(|config| config.file.host.iter().map(|(n, h)| (n.clone(), h.ip.clone())).collect());
    let mut status = Status {
        version: VERSION,
        revision: controller.revision(),
        stations: names.iter().map(|(name, bounds)| (name.clone(), kind_of(bounds))).collect(),
        hosts: BTreeMap::new(),
        switches,
        links: links(engine)?,
        circuits: circuits(engine)?,
        endpoints: Vec::new(),
        stray: BTreeMap::new(),
        adapters: adapters(controller)?,
        engine: engine_status,
    };
    for (name, max_endpoints, stray, endpoints) in hosts {
        let ip = ips.get(&name).cloned().flatten();
        status.hosts.insert(name.clone(), HostStatus { ip, max_endpoints, endpoints: endpoints.len() });
        status.stray.insert(name, stray);
        status.endpoints.extend(endpoints);
    }
    Ok(status)
}

/// The links.
///
/// # Errors
/// The engine has stopped.
pub fn links(engine: &EngineHandle) -> Result<Vec<LinkStatus>> {
    let ids = engine.with(|core| core.fabric.links().map(|(id, ..)| id).collect::<Vec<_>>())?;
    harvest(engine, move |core, at, rows| {
        let ids = ids.get(at..)?;
        rows.extend(ids.iter().take(ROWS).filter_map(|id| link_status(core, *id)));
        (ids.len() > ROWS).then_some(at + ROWS)
    })
}

/// The circuits.
///
/// # Errors
/// The engine has stopped.
pub fn circuits(engine: &EngineHandle) -> Result<Vec<CircuitStatus>> {
    harvest(engine, |core, at, rows| {
        let Core { network, fabric, .. } = core;
        let (part, next) = fabric.router().circuits_from(at as u32, ROWS);
        rows.extend(part.into_iter().map(|placed| {
            let ends = placed.description.ends.iter().map(|end| {
                let host = fabric.node(&end.station).and_then(|id| network.node_mut::<HostInterface>(id));
                let circuit = host.filter(|_| !end.path).and_then(|host| host.circuit(end.circuit));
                let open = circuit.as_ref().and_then(|c| c.open).map(|aal| opened(aal).to_owned());
                EndStatus {
                    end: end.to_string(),
                    open,
                    endpoint: circuit.as_ref().and_then(|c| c.endpoint).map(|e| e.0),
                    sent: circuit.as_ref().map(|c| (&c.sent).into()),
                    received: circuit.as_ref().map(|c| (&c.received).into()),
                }
            });
            circuit_status(placed, ends.collect(), fabric.router())
        }));
        next.map(|next| next as usize)
    })
}

fn circuit_status(placed: &Placed, ends: Vec<EndStatus>, router: &net::topology::Router) -> CircuitStatus {
    let description = &placed.description;
    let way = placed.way.hops.iter().map(|hop| {
        let name = router.link_name(hop.link).unwrap_or_default();
        format!("{name} {}", hop.label)
    });
    CircuitStatus {
        name: description.name(),
        category: description.contract.category.name().to_owned(),
        pcr_cells_per_s: description.contract.pcr.map(|r| r.cells_per_s()),
        aal: aal_name(description.aal).to_owned(),
        one_way: !description.is_both_ways(),
        ends,
        way: way.collect(),
    }
}

fn opened(aal: endpoint::Aal) -> &'static str {
    match aal {
        endpoint::Aal::Aal0 => "aal0",
        endpoint::Aal::Aal34 => "aal34",
        endpoint::Aal::Aal5 => "aal5",
        endpoint::Aal::Oam => "oam",
    }
}

fn aal_name(aal: net::Aal) -> &'static str {
    match aal {
        net::Aal::Aal0 => "aal0",
        net::Aal::Aal34 => "aal34",
        net::Aal::Aal5 => "aal5",
    }
}

fn kind_of(bounds: &Bounds) -> StationKind {
    match bounds {
        Bounds::Host => StationKind::Host,
        Bounds::Switch(_) => StationKind::Switch,
        Bounds::Outside => StationKind::Outside,
    }
}

fn host_of<'a>(core: &'a mut Core, name: &str) -> Option<(net::NodeId, &'a mut HostInterface)> {
    let Core { network, fabric, .. } = core;
    let id = fabric.node(name)?;
    Some((id, network.node_mut(id)?))
}

fn endpoints_of(name: &str, host: &HostInterface) -> Vec<EndpointStatus> {
    let value = |v: serde_json::Result<serde_json::Value>| v.unwrap_or_default();
    let endpoints = host.endpoints().into_iter().map(|e| EndpointStatus {
        host: name.to_owned(),
        endpoint: e.id.0,
        events: value(serde_json::to_value(e.events)),
        event_counts: value(serde_json::to_value(e.event_counts)),
        path: value(serde_json::to_value(e.path)),
        channels: e.channels,
        segment_octets: e.segment_octets,
        sent: (&e.sent).into(),
        received: (&e.received).into(),
    });
    endpoints.collect()
}

fn switch_status(core: &mut Core, name: &str, config: net::SwitchConfig) -> Option<SwitchStatus> {
    let Core { network, fabric, .. } = core;
    let routes = fabric.router().routes_at(name);
    let switch = network.node_mut::<Switch>(fabric.node(name)?)?;
    let (mut dropped, mut port_drops) = (BTreeMap::<String, u64>::new(), BTreeMap::new());
    for port in 0..config.ports {
        let here = CounterStatus::from(&switch.port_drops(port)).dropped;
        here.iter().for_each(|(reason, n)| *dropped.entry(reason.clone()).or_default() += n);
        if !here.is_empty() {
            port_drops.insert(port, here);
        }
    }
    let (ports, max_routes) = (config.ports, config.max_routes);
    Some(SwitchStatus { name: name.to_owned(), ports, max_routes, routes, dropped, port_drops })
}

fn link_status(core: &mut Core, id: LinkId) -> Option<LinkStatus> {
    let info = core.network.link_info(id)?;
    let (description, _) = core.fabric.link(id)?;
    let key = core.fabric.link_key(id)?;
    let (promised, _) = core.fabric.router().link_use(key)?;
    let outside = core.network.externals().find(|(link, _)| *link == id).map(|(_, shell)| shell.status());
    let direction = |counters: &net::LineCounters, promised| DirectionStatus {
        sent: (&counters.sent).into(),
        delivered: (&counters.delivered).into(),
        promised_cells_per_s: promised,
    };
    Some(LinkStatus {
        name: core.fabric.link_name(id)?,
        carries: carries_name(info.config.carries).to_owned(),
        rate_cells_per_s: info.config.rate.map(|r| r.cells_per_s()),
        delay_s: info.config.delay.as_secs_f64(),
        queue_cells: info.config.queue_cells,
        up: info.up,
        enabled: info.enabled,
        outside,
        ends: description.ends.each_ref().map(ToString::to_string),
        circuits: core.fabric.router().circuit_count_over(key),
        from_a: direction(&info.from_a, promised[0]),
        from_b: direction(&info.from_b, promised[1]),
    })
}

fn adapters(controller: &Controller) -> Result<Vec<AdapterStatus>> {
    let adapters = controller.adapters().clone();
    Ok(controller.engine().with(move |core| {
        let mut all: Vec<AdapterStatus> = Vec::new();
        adapters.for_each(core, |served, link, server| {
            all.push(AdapterStatus {
                name: served.name.clone(),
                host: served.host.clone(),
                socket: served.socket.clone(),
                link: core.fabric.link_name(link),
                signal: core.network.has_signal(link),
                attached: server.is_up(),
                state: server.status(),
                counters: server.counters().iter().map(|(name, c)| ((*name).to_owned(), c.into())).collect(),
            });
        });
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    })?)
}

fn engine_status(core: &Core) -> EngineStatus {
    let stats = core.stats();
    let uptime = core.now().as_nanos() as f64 * 1e-9;
    let pool = core.network.pool();
    EngineStatus {
        uptime_s: uptime,
        busy_share: if uptime > 0.0 { (1.0 - stats.slept.as_secs_f64() / uptime).clamp(0.0, 1.0) } else { 0.0 },
        rounds: stats.rounds,
        sleeps: stats.sleeps,
        commands: stats.commands,
        longest_command_s: stats.longest_command.as_secs_f64(),
        frames_in_use: pool.in_use(),
        frames: pool.buffers(),
    }
}
