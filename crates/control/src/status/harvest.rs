//! What the engine's thread tells: numbers as they are, in slices between rounds. It makes no text and sorts nothing;
//! rows of different slices are of different moments.

use crate::adapters::Adapters;
use crate::controller::SLICE;
use crate::openers::Opener;
use anyhow::Result;
use host::engine::{Core, EngineHandle, EngineStats, processor_time};
use host::{EndpointId, EndpointStatus, HostInterface};
use net::external::External;
use net::topology::{LinkKey, SwitchHop};
use net::{CircuitCounters, End, LineCounters, Network, NodeId, SwitchElement};
use std::sync::Arc;
use switch::Indication;
use switch::oam::Alarm;
use wire::{CircuitId, Counters};

/// Defects of one switch that are told at most.
const MOST_TOLD: usize = 256;
/// Whose slices the engine says these are.
const STATUS: &str = "status";
/// Rows looked at before the time is asked for.
const ROWS: usize = 32;

/// Counters of which most reasons to drop have not occurred.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) cells: u64,
    pub(super) pdus: u64,
    pub(super) octets: u64,
    pub(super) dropped: Option<Box<Counters>>,
}

impl From<&Counters> for Tally {
    fn from(c: &Counters) -> Self {
        let dropped = c.drops().next().map(|_| Box::new(*c));
        Tally { cells: c.cells, pdus: c.pdus, octets: c.octets, dropped }
    }
}

/// An end of a circuit at a host.
#[derive(Debug, Clone)]
pub(super) struct EndCounts {
    pub(super) open: Option<endpoint::Aal>,
    pub(super) endpoint: Option<u64>,
    /// Whose that is; the engine does not know.
    pub(super) opener: Option<Opener>,
    pub(super) sent: Tally,
    pub(super) received: Tally,
    pub(super) alarms: Vec<Alarm>,
}

impl EndCounts {
    /// Whether anything is there but zeros.
    pub(super) fn is_busy(&self) -> bool {
        let counts = |tally: &Tally| tally.cells > 0 || tally.pdus > 0 || tally.dropped.is_some();
        self.open.is_some() || !self.alarms.is_empty() || counts(&self.sent) || counts(&self.received)
    }
}

/// A link.
#[derive(Debug)]
pub(super) struct LinkCounts {
    pub(super) key: LinkKey,
    pub(super) up: bool,
    pub(super) enabled: bool,
    pub(super) outside: Option<String>,
    pub(super) lines: [LineCounters; 2],
    /// What the hosts at the far ends of these lines took of it, or dropped before anybody had it.
    pub(super) intakes: [Option<Counters>; 2],
}

/// A host, without its endpoints.
#[derive(Debug, Clone, Default)]
pub(super) struct HostCounts {
    pub(super) max_endpoints: usize,
    pub(super) stray: Counters,
}

/// A virtual adapter.
#[derive(Debug)]
pub(super) struct AdapterCounts {
    pub(super) served: crate::config::Served,
    pub(super) link: Option<String>,
    pub(super) signal: bool,
    pub(super) attached: bool,
    pub(super) state: String,
    pub(super) counters: Vec<(&'static str, Counters)>,
}

/// The engine itself.
#[derive(Debug, Clone)]
pub(super) struct EngineCounts {
    pub(super) uptime_s: f64,
    /// Of all shards together.
    pub(super) stats: EngineStats,
    /// Of each shard, with the buffers of frames that are in use and that there are.
    pub(super) shards: Vec<(EngineStats, [usize; 2])>,
    /// The shards of stations, by name, where there are several.
    pub(super) stations: Vec<(String, usize)>,
}

/// Lets `part` work on `state` slice by slice, until it says that it is done.
fn in_slices<S: Send + 'static>(
    engine: &EngineHandle,
    state: S,
    mut part: impl FnMut(&mut Core, &mut S) -> bool + Send + 'static,
) -> Result<S> {
    let mut held = Some(state);
    Ok(engine.named(STATUS).in_slices(move |core| {
        let mut state = held.take()?;
        let begun = processor_time();
        loop {
            if part(core, &mut state) {
                return Some(state);
            }
            if processor_time().saturating_sub(begun) >= SLICE {
                break;
            }
        }
        held = Some(state);
        None
    })?)
}

fn host_of<'a>(core: &'a mut Core, name: &str) -> Option<&'a mut HostInterface> {
    let id = core.fabric.node(name)?;
    core.network.peek_node(id)
}

/// Ends of circuits, each a host by its place among `hosts` and a label there; in their order, `None` where there is
/// none.
pub(super) fn ends(
    engine: &EngineHandle,
    hosts: Arc<Vec<String>>,
    wanted: Vec<(u32, CircuitId)>,
) -> Result<Vec<Option<EndCounts>>> {
    let rows: Vec<Option<EndCounts>> = Vec::with_capacity(wanted.len());
    let mut nodes: Vec<Option<NodeId>> = Vec::new();
    let (_, rows) = in_slices(engine, (wanted, rows), move |core, (wanted, rows)| {
        if nodes.is_empty() {
            nodes = hosts.iter().map(|name| core.fabric.node(name)).collect();
        }
        let part = wanted.get(rows.len()..).unwrap_or_default();
        for (host, circuit) in part.iter().take(ROWS) {
            let node = nodes.get(*host as usize).copied().flatten();
            let host = node.and_then(|id| core.network.peek_node::<HostInterface>(id));
            let alarms = host.as_ref().map(|host| host.alarms(*circuit)).unwrap_or_default();
            rows.push(host.and_then(|host| host.circuit_counts(*circuit)).map(|counts| EndCounts {
                alarms,
                open: counts.open,
                endpoint: counts.endpoint.map(|id| id.0),
                opener: None,
                sent: (&counts.sent).into(),
                received: (&counts.received).into(),
            }));
        }
        rows.len() >= wanted.len()
    })?;
    Ok(rows)
}

/// What switches counted of circuits, in their order.
pub(super) fn hops(engine: &EngineHandle, asked: Vec<SwitchHop>) -> Result<Vec<(SwitchHop, Option<CircuitCounters>)>> {
    let rows = Vec::with_capacity(asked.len());
    let (asked, rows) = in_slices(engine, (asked, rows), |core, (asked, rows): &mut (Vec<SwitchHop>, Vec<_>)| {
        for hop in asked.get(rows.len()..).unwrap_or_default().iter().take(ROWS) {
            let node = core.fabric.node(&hop.switch).and_then(|id| core.network.peek_node::<SwitchElement>(id));
            rows.push(node.and_then(|switch| switch.circuit_counters(hop.from, hop.to)));
        }
        rows.len() >= asked.len()
    })?;
    Ok(asked.into_iter().zip(rows).collect())
}

/// All links, `count` of them. The list does not grow on the engine's thread: where much was freed before, asking for a
/// large piece of memory takes tens of milliseconds.
pub(super) fn links(engine: &EngineHandle, count: usize) -> Result<Vec<LinkCounts>> {
    in_slices(engine, Vec::with_capacity(count), |core, rows: &mut Vec<LinkCounts>| {
        for _ in 0..ROWS {
            let Some(key) = core.fabric.router().link_after(rows.last().map(|row| row.key)) else { return true };
            let id = core.fabric.link_id(key);
            let info = id.and_then(|id| core.network.link_info(id));
            let shell = core.network.externals().find(|(link, _)| Some(*link) == id).map(|(_, shell)| shell);
            let outside = shell.map(External::status);
            let at_socket = shell.map(External::counters).unwrap_or_default();
            let (up, enabled) = info.as_ref().map_or((false, false), |info| (info.up, info.enabled));
            let (ends, lines) = info.map(|info| (info.ends, [info.from_a, info.from_b])).unzip();
            let intakes = ends.map(|[a, b]| [b, a].map(|end| intake_at(&mut core.network, end)));
            let (mut lines, intakes) = (lines.unwrap_or_default(), intakes.unwrap_or_default());
            if let Some(outer) = ends.and_then(|ends| ends.iter().position(|end| *end == End::External)) {
                let dropped = at_socket.iter().flat_map(|(_, counters)| counters.drops());
                dropped.for_each(|(reason, n)| lines[outer].sent.drop_n(reason, n));
            }
            rows.push(LinkCounts { key, up, enabled, outside, lines, intakes });
        }
        false
    })
}

/// What came in at an end of a link, where that is a host.
fn intake_at(network: &mut Network, end: End) -> Option<Counters> {
    let End::Port(node, port) = end else { return None };
    Some(network.peek_node::<HostInterface>(node)?.intake(port))
}

/// An endpoint, and its host's place among the names.
type OfHost = (u32, EndpointStatus);

/// Hosts by name, and their endpoints.
pub(super) fn hosts(engine: &EngineHandle, names: Arc<Vec<String>>) -> Result<(Vec<HostCounts>, Vec<OfHost>)> {
    let state = (Vec::with_capacity(names.len()), Vec::new());
    let mut after: Option<EndpointId> = None;
    in_slices(engine, state, move |core, (hosts, endpoints): &mut (Vec<HostCounts>, Vec<OfHost>)| {
        let at = hosts.len();
        let Some(name) = names.get(at) else { return true };
        let Some(host) = host_of(core, name) else {
            hosts.push(HostCounts::default());
            return false;
        };
        let part = host.endpoints_after(after, ROWS / 4);
        after = part.last().map(|endpoint| endpoint.id);
        let ends = part.len() < ROWS / 4;
        endpoints.extend(part.into_iter().map(|endpoint| (at as u32, endpoint)));
        if ends {
            after = None;
            hosts.push(HostCounts { max_endpoints: host.max_endpoints(), stray: *host.stray() });
        }
        false
    })
}

/// A port of a switch where cells wait, or were dropped.
#[derive(Debug)]
pub(super) struct PortCounts {
    /// The switch's place among those that were asked for.
    pub(super) switch: u32,
    pub(super) port: u16,
    pub(super) queued: usize,
    pub(super) drops: Counters,
}

/// Of switches: ports where cells wait or were dropped, and what circuits are told.
type OfSwitches = (Vec<PortCounts>, Vec<(u32, Indication)>);

/// What waits, was dropped and is told at switches, of those by name and with so many ports.
pub(super) fn switches(engine: &EngineHandle, switches: Vec<(String, u16)>) -> Result<OfSwitches> {
    let mut at = (0, 0);
    let ports = switches.iter().map(|(_, ports)| usize::from(*ports)).sum();
    let room = (Vec::with_capacity(ports), Vec::with_capacity(switches.len()));
    in_slices(engine, room, move |core, (rows, told): &mut OfSwitches| {
        let Some((name, ports)) = switches.get(at.0) else { return true };
        let node = core.fabric.node(name).and_then(|id| core.network.peek_node::<SwitchElement>(id));
        if let Some(switch) = node {
            if at.1 == 0 {
                told.extend(switch.indications().take(MOST_TOLD).map(|indication| (at.0 as u32, indication)));
            }
            for port in (at.1..*ports).take(ROWS) {
                let (queued, drops) = (switch.queued(port), switch.port_drops(port));
                if queued > 0 || drops.dropped_total() > 0 {
                    rows.push(PortCounts { switch: at.0 as u32, port, queued, drops });
                }
            }
        }
        at.1 = at.1.saturating_add(ROWS as u16);
        if at.1 >= *ports {
            at = (at.0 + 1, 0);
        }
        false
    })
}

/// The virtual adapters, by name.
pub(super) fn adapters(engine: &EngineHandle, adapters: Arc<Adapters>) -> Result<Vec<AdapterCounts>> {
    let mut all = engine.named(STATUS).with(move |core| {
        let mut all = Vec::new();
        adapters.for_each(core, |served, link, server| {
            all.push(AdapterCounts {
                served: served.clone(),
                link: core.fabric.link_name(link),
                signal: core.network.has_signal(link),
                attached: server.is_up(),
                state: server.status(),
                counters: server.counters(),
            });
        });
        all
    })?;
    all.sort_by(|a, b| a.served.name.cmp(&b.served.name));
    Ok(all)
}

/// The engine itself.
pub(super) fn engine(engine: &EngineHandle) -> Result<EngineCounts> {
    Ok(engine.named(STATUS).with(|core| {
        let pools = core.network.pools().map(|pool| [pool.in_use(), pool.buffers()]);
        let shards = core.shard_stats().into_iter().zip(pools).collect::<Vec<_>>();
        let several = shards.len() > 1;
        let nodes = core.network.nodes().filter(|_| several);
        let stations = nodes.filter_map(|(id, name)| Some((name.to_owned(), core.network.shard_of(id)?))).collect();
        let uptime_s = core.now().as_nanos() as f64 * 1e-9;
        EngineCounts { uptime_s, stats: core.stats(), shards, stations }
    })?)
}
