//! Where a circuit leads from a host: the links and switches on its path, who has its far ends open, and what each point
//! has dropped. In: a host and a circuit there, permanent or of a call; out: a [`PathStatus`].
//!
//! The path is read from the label tables of the switches, one look between two rounds of the engine for all of it. It
//! ends where a circuit leaves this network, and at stations of registered kinds: their far ends are taken from the
//! description.

use crate::controller::Controller;
use crate::status::CounterStatus;
use anyhow::{Result, anyhow};
use host::HostInterface;
use host::engine::Core;
use net::topology::{CircuitEnd, LinkKey, Router};
use net::{Label, SwitchElement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use wire::{CircuitId, Counters, DropReason};

/// Points of a path that are looked at.
const MOST_POINTS: usize = 1024;

/// A circuit as one of its ends sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathStatus {
    /// The host.
    pub host: String,
    /// The circuit there, vpi.vci.
    pub circuit: String,
    /// Whether a call has it.
    pub call: bool,
    /// Whether this end may send.
    pub sends: bool,
    /// Whether this end may receive.
    pub receives: bool,
    /// From this end's application.
    pub sent: CounterStatus,
    /// To this end's application.
    pub received: CounterStatus,
    /// Its other ends: one, or those of a point-to-multipoint circuit.
    pub far: Vec<FarEnd>,
    /// The links and switches towards the far ends.
    pub forward: Vec<PathPoint>,
    /// Those from the far end to here, where there is one far end in this network.
    pub back: Vec<PathPoint>,
}

/// A far end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FarEnd {
    /// Its station and label there.
    pub end: String,
    /// Whether it is at a host of this network. Nothing more is known of another one.
    pub known: bool,
    /// The adaptation layer that it is open with.
    pub open: Option<String>,
    /// Whether an application receives there.
    pub receives: bool,
    /// Whether that application speaks reliable transfer.
    pub reliable: bool,
    /// From its application.
    pub sent: CounterStatus,
    /// To its application.
    pub received: CounterStatus,
}

/// A link or a switch on a path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathPoint {
    /// The link's name, or the switch with the port that the circuit leaves by.
    pub at: String,
    /// Whether it is a link. Its drops are those of all circuits on it in this direction.
    pub link: bool,
    /// Whether it passes anything.
    pub up: bool,
    /// Whether it may: false of a link that was taken down.
    pub enabled: bool,
    /// Time from end to end of a link, in seconds.
    pub delay_s: f64,
    /// Cells or frames that wait there: of a link those of all circuits on it.
    pub queued: u64,
    /// What it dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
}

/// What is at the other end of a link.
struct Beyond {
    key: LinkKey,
    name: String,
    /// Whether the link is entered at its first end.
    from_first: bool,
    station: String,
    port: u16,
}

/// Links by the station and port at which they are entered.
type LinksAt = HashMap<(String, u16), Beyond>;

fn links_at(router: &Router) -> LinksAt {
    let mut all = LinksAt::new();
    for (key, link, ports) in router.links() {
        let Some(name) = router.link_name(key) else { continue };
        let stations = link.ends.each_ref().map(|end| end.station.clone());
        for near in [0, 1] {
            let far = 1 - near;
            let beyond = Beyond {
                key,
                name: name.clone(),
                from_first: near == 0,
                station: stations[far].clone(),
                port: ports[far],
            };
            all.insert((stations[near].clone(), ports[near]), beyond);
        }
    }
    all
}

/// The other ends that the description has, where they are at hosts.
fn described(router: &Router, host: &str, circuit: CircuitId) -> Vec<(String, CircuitId)> {
    let end = CircuitEnd::new(host, circuit);
    let Some(placed) = router.find_circuit(&end) else { return Vec::new() };
    let ends = &placed.description.ends;
    let is_root = ends.first().is_some_and(|root| root.station == host && root.circuit == circuit);
    let others = if is_root { ends.get(1..) } else { ends.get(..1) };
    others.unwrap_or_default().iter().map(|end| (end.station.clone(), end.circuit)).collect()
}

/// The path of a circuit from a host.
///
/// Of a circuit that has ended within the last hour, as a call's after its release, only its last counters are known.
///
/// # Errors
/// There is no such host or circuit, or the engine has stopped.
pub fn of(controller: &Controller, host: &str, circuit: &str) -> Result<PathStatus> {
    let id: CircuitId = circuit.parse()?;
    // Whoever has it open may know the host by a former name.
    let host = &*controller.with_config(|config| config.current_name(host).to_owned());
    let (links, expected) = controller.with_intent(|intent| {
        let router = &intent.model().router;
        (links_at(router), described(router, host, id))
    });
    let call = controller.calls().look(|exchange| exchange.user_of(host, id)).is_some();
    let name = host.to_owned();
    let seen = controller.engine().named("path").with(move |core| look(core, &links, &name, id, expected))?;
    let seen = match seen {
        None => ended(controller, host, circuit)?,
        seen => seen,
    };
    let seen =
        seen.ok_or_else(|| anyhow!("no circuit {circuit} ends at `{host}` (`cellway circuit list` shows them)"))?;
    Ok(PathStatus { call, ..seen })
}

/// What was last counted of a circuit that is no more.
fn ended(controller: &Controller, host: &str, circuit: &str) -> Result<Option<PathStatus>> {
    let name = format!("{host} {circuit}");
    let all = crate::gathering::now(controller)?;
    let last = all.into_iter().rev().find(|ended| ended.kind == "circuit" && ended.name == name);
    Ok(last.map(|ended| PathStatus {
        host: host.to_owned(),
        circuit: circuit.to_owned(),
        call: true,
        sent: ended.sent,
        received: ended.received,
        ..PathStatus::default()
    }))
}

fn look(
    core: &mut Core,
    links: &LinksAt,
    host: &str,
    circuit: CircuitId,
    expected: Vec<(String, CircuitId)>,
) -> Option<PathStatus> {
    let node = core.fabric.node(host)?;
    let here = core.network.peek_node::<HostInterface>(node)?;
    let (config, counts) = (here.circuit(circuit)?.config, here.circuit_counts(circuit)?);
    let (mut ends, forward) = follow(core, links, host, circuit);
    // A station of a kind of its own is no end of a circuit, nor is the direction of a leaf one that leads anywhere.
    if !expected.is_empty() && ends.iter().all(|(station, _)| host_of(core, station).is_none()) {
        ends = expected;
    }
    let far: Vec<FarEnd> = ends.iter().map(|(station, circuit)| far_end(core, station, *circuit)).collect();
    let back = match (&ends[..], &far[..]) {
        ([(station, circuit)], [FarEnd { known: true, .. }]) => follow(core, links, station, *circuit).1,
        _ => Vec::new(),
    };
    Some(PathStatus {
        host: host.to_owned(),
        circuit: circuit.to_string(),
        call: false,
        sends: config.sends,
        receives: config.receives,
        sent: (&counts.sent).into(),
        received: (&counts.received).into(),
        far,
        forward,
        back,
    })
}

fn host_of<'a>(core: &'a mut Core, name: &str) -> Option<&'a HostInterface> {
    let node = core.fabric.node(name)?;
    core.network.peek_node::<HostInterface>(node).map(|host| &*host)
}

fn far_end(core: &mut Core, station: &str, circuit: CircuitId) -> FarEnd {
    let end = format!("{station} {circuit}");
    let Some(counts) = host_of(core, station).and_then(|host| host.circuit_counts(circuit)) else {
        return FarEnd { end, ..FarEnd::default() };
    };
    FarEnd {
        end,
        known: true,
        open: counts.open.map(|aal| crate::status::opened(aal).to_owned()),
        receives: counts.receives,
        reliable: counts.reliable,
        sent: (&counts.sent).into(),
        received: (&counts.received).into(),
    }
}

/// Where a circuit leads: its ends, and the links and switches before them.
fn follow(
    core: &mut Core,
    links: &LinksAt,
    host: &str,
    circuit: CircuitId,
) -> (Vec<(String, CircuitId)>, Vec<PathPoint>) {
    let (mut ends, mut points) = (Vec::new(), Vec::new());
    let first = host_of(core, host).and_then(|host| host.circuit(circuit)).map(|circuit| circuit.config.port);
    let mut open: Vec<(String, u16, CircuitId)> =
        first.map(|port| (host.to_owned(), port, circuit)).into_iter().collect();
    while let Some((station, port, circuit)) = open.pop() {
        let Some(beyond) = links.get(&(station, port)).filter(|_| points.len() < MOST_POINTS) else { continue };
        points.push(on_link(core, beyond));
        let node = core.fabric.node(&beyond.station);
        let switch = node.and_then(|node| core.network.peek_node::<SwitchElement>(node));
        let Some(switch) = switch else {
            ends.push((beyond.station.clone(), circuit));
            continue;
        };
        let Some(route) = switch.route_of(beyond.port, circuit) else { continue };
        for branch in &route.branches {
            let mut dropped = branch.sent;
            if let Some(cells) = switch.circuit_counters((route.port, route.label), (branch.port, branch.label)) {
                dropped = by_reason(&branch.sent, &cells);
            }
            points.push(PathPoint {
                at: format!("{}:{}", beyond.station, branch.port),
                link: false,
                up: true,
                enabled: true,
                delay_s: 0.0,
                queued: branch.queued,
                dropped: CounterStatus::from(&dropped).dropped,
            });
            open.push((beyond.station.clone(), branch.port, leaving(branch.label, circuit)));
        }
    }
    (ends, points)
}

/// A route's drops, of which the route itself counts all cells of the cell switch as dropped from a full queue.
fn by_reason(sent: &Counters, cells: &net::CircuitCounters) -> Counters {
    let mut dropped = Counters::default();
    sent.drops().filter(|(reason, _)| *reason != DropReason::QueueFull).for_each(|(r, n)| dropped.drop_n(r, n));
    dropped.drop_n(DropReason::NonConforming, cells.policed);
    dropped.drop_n(DropReason::EarlyDiscard, cells.early);
    dropped.drop_n(DropReason::QueueFull, cells.overflowed());
    dropped
}

fn on_link(core: &mut Core, beyond: &Beyond) -> PathPoint {
    let info = core.fabric.link_id(beyond.key).and_then(|id| core.network.link_info(id));
    let line = info.as_ref().map(|info| if beyond.from_first { info.from_a } else { info.from_b });
    PathPoint {
        at: beyond.name.clone(),
        link: true,
        up: info.as_ref().is_some_and(|info| info.up),
        enabled: info.as_ref().is_some_and(|info| info.enabled),
        delay_s: info.as_ref().map_or(0.0, |info| info.config.delay.as_secs_f64()),
        queued: line.map_or(0, |line| line.waiting),
        dropped: line.map(|line| CounterStatus::from(&line.sent).dropped).unwrap_or_default(),
    }
}

/// The circuit on the link that a route leaves by: a path keeps the channel's VCI.
fn leaving(label: Label, circuit: CircuitId) -> CircuitId {
    match label {
        Label::Vc(circuit) => circuit,
        Label::Vp(vpi) => CircuitId { vpi, vci: circuit.vci },
    }
}
