//! What a running network tells of itself, as types: links, switches, circuits and endpoints with what passed and what
//! was dropped and why, and the engine. Commands, metrics and pages read these.
//!
//! What can change without a command is harvested in slices between rounds of the engine (`harvest`); all else is the
//! model's. So looking costs the network nothing, and no text is made on its thread.

mod engine;
mod harvest;
mod hops;
mod json;
mod list;
pub mod oam;
mod rows;
mod stations;

use crate::controller::Controller;
pub use crate::counter_status::CounterStatus;
pub use crate::ended::EndedStatus;
pub use crate::hops::HopStatus;
use crate::intent::Intent;
use crate::kinds::{Running, Statuses};
use crate::names::carries_name;
use crate::objects::{ObjectId, Spec};
use crate::openers::Opener;
pub use crate::service_status::ServiceStatus;
pub use crate::state_writer::KeptStatus;
use crate::version::VERSION;
use anyhow::Result;
pub use engine::{EngineStatus, ShardStatus};
use host::EndpointStatus as Endpoint;
use json::json;
pub use list::{CircuitRow, EndRow};
use net::topology::{self, Router};
use oam::{AlarmStatus, SwitchAlarmStatus};
use rows::{Rows, ends_at_hosts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use stations::StationKind;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use wire::CircuitId;

/// Circuits that an overview shows at most, where there are more.
pub const OVERVIEW: usize = 1000;

/// Octets of a circuit's JSON, for the most part, and of its row in a list.
const CIRCUIT_OCTETS: usize = 576;
const ROW_OCTETS: usize = 192;

/// Everything that is told.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Status")]
pub struct Status<C = Vec<CircuitStatus>> {
    /// The protocol's version.
    pub version: u32,
    /// The number of the last change.
    pub revision: u64,
    /// What the names stand for: `host`, `switch`, `myrinet`, `desk` or `outside`.
    pub stations: BTreeMap<String, StationKind>,
    /// Hosts.
    pub hosts: BTreeMap<String, HostStatus>,
    /// Switches.
    pub switches: Vec<SwitchStatus>,
    /// Links.
    pub links: Vec<LinkStatus>,
    /// How many circuits there are; an overview does not show all of them.
    #[serde(default)]
    pub circuit_count: usize,
    /// Circuits.
    pub circuits: C,
    /// Endpoints of applications.
    pub endpoints: Vec<EndpointStatus>,
    /// What came to hosts for circuits that they do not have.
    pub stray: BTreeMap<String, CounterStatus>,
    /// Virtual adapters.
    pub adapters: Vec<AdapterStatus>,
    /// Stations of registered kinds, a list for each kind.
    #[serde(flatten)]
    #[schemars(skip)]
    pub of_kinds: Statuses,
    /// What runs it all.
    pub engine: EngineStatus,
    /// What outlives the daemon, and whether it is on the disk; `null` without a state folder.
    #[serde(default)]
    pub state: Option<KeptStatus>,
    /// Seconds until the description on trial is undone; `null` where none is.
    #[serde(default)]
    pub trial_seconds: Option<u64>,
    /// The service that applications connect to.
    #[serde(default)]
    pub service: ServiceStatus,
    /// Counters of circuits, endpoints and links that have ended within the last hour, where these are asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<EndedStatus>,
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
    /// Cells that wait in it for their output, at all ports.
    #[serde(default)]
    pub queued: usize,
    /// The same at each output where any do.
    #[serde(default)]
    pub port_queued: BTreeMap<u16, usize>,
    /// What it received and dropped itself, at all ports.
    pub dropped: BTreeMap<String, u64>,
    /// The same at each port where anything was.
    pub port_drops: BTreeMap<u16, BTreeMap<String, u64>>,
    /// Defects at its ports, of which it tells circuits by AIS.
    #[serde(default)]
    pub alarms: Vec<SwitchAlarmStatus>,
}

/// A direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectionStatus {
    /// What the sender gave to it, and what was dropped on it.
    pub sent: CounterStatus,
    /// What arrived.
    pub delivered: CounterStatus,
    /// What the host at the far end made of that: taken by an endpoint or by the host itself (management, credit
    /// cells), or dropped before that. Each cell (or frame, in `pdus`; one of AAL0 in `cells`) counts once. `null`
    /// where no host is.
    #[serde(default)]
    pub intake: Option<CounterStatus>,
    /// Cells (or frames) that are on it now: those that wait for their turn, and those under way.
    #[serde(default)]
    pub queued: u64,
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
    /// By how much its far end outside may let cells come together, in seconds: contracts from there are tolerated so
    /// much more.
    #[serde(default)]
    pub cdvt_s: f64,
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
    /// Who has it open: user, process and program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opener: Option<Opener>,
    /// From its application; `null` where no host of this network has it.
    pub sent: Option<CounterStatus>,
    /// To its application.
    pub received: Option<CounterStatus>,
    /// Its alarms (I.610).
    #[serde(default)]
    pub alarms: Vec<AlarmStatus>,
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
    /// What switches on the way make of it; of circuits with a contract, and of all where there are at most 1000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<HopStatus>,
}

/// An endpoint of an application.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndpointStatus {
    /// The host that it is at.
    pub host: String,
    /// Its number there.
    pub endpoint: u64,
    /// Event strategy: `interrupt`, `polling`, `clocked N Hz`, `hybrid`, `hybrid N` or `soft N Hz`.
    pub events: String,
    /// What the strategy has done.
    pub event_counts: EventStatus,
    /// Data path: `copying`, `single-copy`, `shared` or `zero-copy`.
    pub path: String,
    /// Channels open.
    pub channels: usize,
    /// SDUs that its application has sent and that have not left its host.
    #[serde(default)]
    pub waiting_sdus: usize,
    /// Octets of its segment.
    pub segment_octets: usize,
    /// What its application sent.
    pub sent: CounterStatus,
    /// What it was given.
    pub received: CounterStatus,
}

/// What an event strategy has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventStatus {
    /// Bells rung for the application.
    pub bells: u64,
    /// Doorbells that the application rang.
    pub doorbells: u64,
    /// Looks at a due time: ticks, and ends of rests.
    pub ticks: u64,
    /// Rests while applications were behind.
    pub rests: u64,
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

/// Which circuits are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    All,
    /// The same, and the counters of what has ended.
    WithEnded,
    /// All of a small network; of one with more than [`OVERVIEW`], those that are open or have counted something, so
    /// many at most.
    Overview,
}

impl Which {
    fn busy(self, circuits: usize) -> Option<usize> {
        (self == Which::Overview && circuits > OVERVIEW).then_some(OVERVIEW)
    }
}

/// Everything.
///
/// # Errors
/// The engine has stopped.
pub fn collect(controller: &Controller) -> Result<Status> {
    with_rows(controller, Which::WithEnded, |status, rows| Ok(status.with(rows.to_vec())))
}

/// Everything as JSON text.
///
/// # Errors
/// The engine has stopped.
pub fn text(controller: &Controller, which: Which) -> Result<String> {
    with_rows(controller, which, |status, rows| {
        let circuits = if which != Which::Overview { status.circuit_count } else { status.circuit_count.min(OVERVIEW) };
        json(&status.with(rows), circuits * CIRCUIT_OCTETS)
    })
}

/// All circuits as JSON text.
///
/// # Errors
/// The engine has stopped.
pub fn circuits_text(controller: &Controller) -> Result<String> {
    controller.with_intent(|intent| {
        let router = &intent.model().router;
        let (_, counts) = counted(controller, router)?;
        let hops = hops::collect(controller, router)?;
        json(&Rows::new(router, &counts, None).with_hops(&hops), router.circuit_count() * CIRCUIT_OCTETS)
    })
}

/// All circuits as JSON text, in rows of a list.
///
/// # Errors
/// The engine has stopped.
pub fn list_text(controller: &Controller) -> Result<String> {
    controller.with_intent(|intent| {
        let router = &intent.model().router;
        let (_, counts) = counted(controller, router)?;
        let hops = hops::collect(controller, router)?;
        json(&list::List(&Rows::new(router, &counts, None).with_hops(&hops)), router.circuit_count() * ROW_OCTETS)
    })
}

impl Status<()> {
    fn with<C>(self, circuits: C) -> Status<C> {
        Status {
            version: self.version,
            revision: self.revision,
            stations: self.stations,
            hosts: self.hosts,
            switches: self.switches,
            links: self.links,
            circuit_count: self.circuit_count,
            circuits,
            endpoints: self.endpoints,
            stray: self.stray,
            adapters: self.adapters,
            of_kinds: self.of_kinds,
            engine: self.engine,
            state: self.state,
            trial_seconds: self.trial_seconds,
            service: self.service,
            ended: self.ended,
        }
    }
}

/// Everything, with the rows of circuits as they can be written or made to objects.
fn with_rows<R>(controller: &Controller, which: Which, f: impl FnOnce(Status<()>, Rows<'_>) -> Result<R>) -> Result<R> {
    let ended = if which == Which::WithEnded { crate::gathering::now(controller)? } else { Vec::new() };
    // Nothing changes meanwhile, so that counters and what they are of fit.
    controller.with_intent(|intent| {
        let router = &intent.model().router;
        let (hosts, counts) = counted(controller, router)?;
        let mut status = without_circuits(controller, intent, hosts)?;
        status.ended = ended;
        let hops = hops::collect(controller, router)?;
        let rows = Rows::new(router, &counts, which.busy(router.circuit_count())).with_hops(&hops);
        f(status, rows)
    })
}

/// Hosts by name, and what was counted at the ends of circuits there, in the order of [`ends_at_hosts`].
type Counted = (Arc<Vec<String>>, Vec<Option<harvest::EndCounts>>);

fn counted(controller: &Controller, router: &Router) -> Result<Counted> {
    let hosts: Vec<String> = names(router, |kind| *kind == topology::StationKind::Host);
    let numbers: HashMap<&str, u32> = hosts.iter().zip(0..).map(|(name, n)| (name.as_str(), n)).collect();
    let mut wanted: Vec<(u32, CircuitId)> = Vec::with_capacity(2 * router.circuit_count());
    for placed in router.circuits() {
        let ends = ends_at_hosts(router, &placed.description);
        wanted.extend(ends.filter_map(|end| Some((*numbers.get(end.station.as_str())?, end.circuit))));
    }
    let hosts = Arc::new(hosts);
    let at: Vec<u32> = wanted.iter().map(|(host, _)| *host).collect();
    let mut counts = harvest::ends(controller.engine(), hosts.clone(), wanted)?;
    for (host, counts) in at.iter().zip(&mut counts) {
        let Some(counts) = counts.as_mut().filter(|counts| counts.open.is_some()) else { continue };
        let host = hosts.get(*host as usize);
        counts.opener = host.zip(counts.endpoint).and_then(|(host, id)| controller.openers().of(host, id));
    }
    Ok((hosts, counts))
}

fn names(router: &Router, is: impl Fn(&topology::StationKind) -> bool) -> Vec<String> {
    router.stations().filter(|(_, kind)| is(kind)).map(|(name, _)| name.to_owned()).collect()
}

fn without_circuits(controller: &Controller, intent: &Intent, names: Arc<Vec<String>>) -> Result<Status<()>> {
    let (engine, router) = (controller.engine(), &intent.model().router);
    let (counts, endpoints) = harvest::hosts(engine, names.clone())?;
    let mut hosts = BTreeMap::new();
    let mut stray = BTreeMap::new();
    for (name, counts) in names.iter().zip(counts) {
        let ip = intent.config().file.host.get(name).and_then(|host| host.ip.clone());
        hosts.insert(name.clone(), HostStatus { ip, max_endpoints: counts.max_endpoints, endpoints: 0 });
        stray.insert(name.clone(), (&counts.stray).into());
    }
    let endpoints: Vec<EndpointStatus> = endpoints
        .into_iter()
        .filter_map(|(host, endpoint)| {
            let host = names.get(host as usize)?;
            hosts.get_mut(host)?.endpoints += 1;
            Some(endpoint_status(host, &endpoint))
        })
        .collect();
    Ok(Status {
        version: VERSION,
        revision: intent.revision(),
        stations: stations(intent),
        hosts,
        switches: switches(controller, router, &of_kinds(intent).map(|(name, _)| name.as_str()).collect())?,
        links: links_of(controller, router)?,
        circuit_count: router.circuit_count(),
        circuits: (),
        endpoints,
        stray,
        adapters: adapters(controller)?,
        of_kinds: controller
            .kinds()
            .statuses(|section| intent.stations_of(section), Running { engine, router, stations: &[] })?,
        engine: engine::status(&harvest::engine(engine)?),
        state: controller.kept_status(),
        trial_seconds: controller.trial_left().map(|left| left.as_secs()),
        service: controller.service().status(),
        ended: Vec::new(),
    })
}

fn stations(intent: &Intent) -> BTreeMap<String, StationKind> {
    let all = intent.model().router.stations();
    let mut stations: BTreeMap<String, _> = all.map(|(name, kind)| (name.to_owned(), kind_of(&kind))).collect();
    stations.extend(of_kinds(intent).map(|(name, section)| (name.clone(), StationKind::OfKind(section.to_owned()))));
    stations
}

/// Stations of registered kinds, each with its section.
fn of_kinds(intent: &Intent) -> impl Iterator<Item = (&String, &'static str)> {
    intent.applied().iter().filter_map(|(id, object)| match (id, &object.spec) {
        (ObjectId::Station(name), Spec::OfKind(layout)) => Some((name, layout.section())),
        _ => None,
    })
}

/// The links.
///
/// # Errors
/// The engine has stopped.
pub fn links(controller: &Controller) -> Result<Vec<LinkStatus>> {
    controller.with_intent(|intent| links_of(controller, &intent.model().router))
}

fn links_of(controller: &Controller, router: &Router) -> Result<Vec<LinkStatus>> {
    let counts = harvest::links(controller.engine(), router.links().count())?;
    Ok(counts.into_iter().filter_map(|counts| link_status(router, counts)).collect())
}

fn link_status(router: &Router, counts: harvest::LinkCounts) -> Option<LinkStatus> {
    let (description, _) = router.link(counts.key)?;
    let (promised, _) = router.link_use(counts.key)?;
    let config = &description.config;
    let [from_a, from_b] = [0, 1].map(|side| DirectionStatus {
        sent: (&counts.lines[side].sent).into(),
        delivered: (&counts.lines[side].delivered).into(),
        intake: counts.intakes[side].as_ref().map(CounterStatus::from),
        queued: counts.lines[side].waiting,
        promised_cells_per_s: promised[side],
    });
    Some(LinkStatus {
        name: router.link_name(counts.key)?,
        carries: carries_name(config.carries).to_owned(),
        rate_cells_per_s: config.rate.map(|r| r.cells_per_s()),
        delay_s: config.delay.as_secs_f64(),
        queue_cells: config.queue_cells,
        cdvt_s: config.tolerance.as_secs_f64(),
        up: counts.up,
        enabled: counts.enabled,
        outside: counts.outside,
        ends: description.ends.each_ref().map(ToString::to_string),
        circuits: router.circuit_count_over(counts.key),
        from_a,
        from_b,
    })
}

fn switches(controller: &Controller, router: &Router, others: &BTreeSet<&str>) -> Result<Vec<SwitchStatus>> {
    let switches: Vec<(String, net::SwitchElementConfig)> = router
        .stations()
        .filter(|(name, _)| !others.contains(name))
        .filter_map(|(name, kind)| match kind {
            topology::StationKind::Switch(config) => Some((name.to_owned(), config)),
            _ => None,
        })
        .collect();
    let mut all: Vec<SwitchStatus> = switches
        .iter()
        .map(|(name, config)| SwitchStatus {
            name: name.clone(),
            ports: config.ports,
            max_routes: config.max_routes,
            routes: router.routes_at(name),
            queued: 0,
            port_queued: BTreeMap::new(),
            dropped: BTreeMap::new(),
            port_drops: BTreeMap::new(),
            alarms: Vec::new(),
        })
        .collect();
    let asked = switches.into_iter().map(|(name, config)| (name, config.ports)).collect();
    let (ports, told) = harvest::switches(controller.engine(), asked)?;
    for (switch, told) in told {
        if let Some(switch) = all.get_mut(switch as usize) {
            switch.alarms.push((&told).into());
        }
    }
    for counts in ports {
        let Some(switch) = all.get_mut(counts.switch as usize) else { continue };
        if counts.queued > 0 {
            switch.queued += counts.queued;
            switch.port_queued.insert(counts.port, counts.queued);
        }
        let here = CounterStatus::from(&counts.drops).dropped;
        here.iter().for_each(|(reason, n)| *switch.dropped.entry(reason.clone()).or_default() += n);
        if !here.is_empty() {
            switch.port_drops.insert(counts.port, here);
        }
    }
    Ok(all)
}

fn adapters(controller: &Controller) -> Result<Vec<AdapterStatus>> {
    let all = harvest::adapters(controller.engine(), controller.adapters().clone())?;
    let status = |a: harvest::AdapterCounts| AdapterStatus {
        name: a.served.name,
        host: a.served.host,
        socket: a.served.socket,
        link: a.link,
        signal: a.signal,
        attached: a.attached,
        state: a.state,
        counters: a.counters.iter().map(|(name, c)| ((*name).to_owned(), c.into())).collect(),
    };
    Ok(all.into_iter().map(status).collect())
}

fn endpoint_status(host: &str, e: &Endpoint) -> EndpointStatus {
    let host::EventCounts { bells, doorbells, ticks, rests } = e.event_counts;
    EndpointStatus {
        host: host.to_owned(),
        endpoint: e.id.0,
        events: e.events.to_string(),
        event_counts: EventStatus { bells, doorbells, ticks, rests },
        path: e.path.name().to_owned(),
        channels: e.channels,
        waiting_sdus: e.waiting,
        segment_octets: e.segment_octets,
        sent: (&e.sent).into(),
        received: (&e.received).into(),
    }
}

pub(crate) fn opened(aal: endpoint::Aal) -> &'static str {
    match aal {
        endpoint::Aal::Aal0 => "aal0",
        endpoint::Aal::Aal34 => "aal34",
        endpoint::Aal::Aal5 => "aal5",
        endpoint::Aal::Oam => "oam",
    }
}

fn aal_name(aal: net::FrameAal) -> &'static str {
    match aal {
        net::FrameAal::Aal0 => "aal0",
        net::FrameAal::Aal34 => "aal34",
        net::FrameAal::Aal5 => "aal5",
    }
}

fn kind_of(kind: &topology::StationKind) -> StationKind {
    match kind {
        topology::StationKind::Host => StationKind::Host,
        topology::StationKind::Switch(_) => StationKind::Switch,
        topology::StationKind::Outside => StationKind::Outside,
    }
}
