//! The VP/VC switch as an element of a network: the cell switch of crate `switch` between the element's links, and a
//! gateway at each port whose link carries frames.
//!
//! In: what links deliver. Out: the same under other labels, copied for point-to-multipoint, converted where one port
//! carries cells and the other frames. Inputs never wait: what cannot leave at once is queued by circuit within its
//! bounds, or dropped and counted. A frame whose route leads to frame ports only is passed on as it is.

mod bounds;
mod frames;
mod gateway;
mod interleaved;
mod parcels;
mod pdu_slots;
mod route;
mod routing;
mod sums;
mod table;
mod visit;

pub use bounds::Room;
pub use route::{BranchInfo, RouteError, RouteInfo, RouteOptions, RouteTable};
pub use wire::Label;

use crate::label_change::{LabelChange, LabelChanges};
use crate::line::Carries;
use crate::node::{LinkProperties, Node, NodeIo};
use gateway::Gateway;
use route::{Route, key};
use std::any::Any;
use std::time::Duration;
use sums::PortSums;
use switch::{Arrival, Table};
use table::KeyTable;
use visit::{Turn, Visit};
use wire::oam::Location;
use wire::{Cell, CircuitId, Counters, DropReason, Time};

/// What listing circuits that are sent AIS, and sending it, is worth in cells that are passed on: half a round.
const LISTED_WORK: usize = 8192;
/// Cells that all circuits with credits may have queued: 32 MiB. A window each way of each such circuit is taken from
/// it.
const CREDIT_CELLS: u32 = 524_288;
/// Cells from outside that were handed over together came over this long at most.
const OUTSIDE_BATCH: Duration = Duration::from_millis(10);

/// The bounds of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchElementConfig {
    /// Ports 0 to `ports` - 1.
    pub ports: u16,
    /// Trailing ports reserved for internal use: no link of a topology gets them.
    pub kept_ports: u16,
    /// Routes in all.
    pub max_routes: usize,
}

impl Default for SwitchElementConfig {
    fn default() -> Self {
        SwitchElementConfig { ports: 64, kept_ports: 0, max_routes: 65_536 }
    }
}

impl SwitchElementConfig {
    /// Ports for links of a topology.
    pub fn link_ports(self) -> u16 {
        self.ports.saturating_sub(self.kept_ports)
    }

    fn of_cells(self) -> switch::SwitchConfig {
        // A route may become point-to-multipoint, whose leaves count too.
        let circuits = u32::try_from(self.max_routes.saturating_mul(2)).unwrap_or(u32::MAX / 2);
        switch::SwitchConfig {
            ports: self.ports,
            circuits,
            credit_cells: CREDIT_CELLS,
            // Each contract is a profile, held once for all circuits that share it.
            profiles: u16::MAX,
            ..switch::SwitchConfig::default()
        }
    }
}

#[derive(Debug, Default)]
struct PortState {
    vcs: KeyTable,
    vps: KeyTable,
    link: Option<LinkProperties>,
    /// The link has been up: one that waits for its first peer is not in service, and has no defect.
    in_service: bool,
    /// A link is in service, and passes nothing.
    dark: bool,
    /// Routes that leave by this port, by the label that they leave under.
    out_vcs: KeyTable,
    out_vps: KeyTable,
    gateway: Gateway,
    /// Frames that belong to no route.
    dropped: Counters,
    /// Of the cell switch's drops at this port, those that the link has been told.
    told: Counters,
    /// What became of frames.
    sums: PortSums,
}

impl PortState {
    /// Whether there is memory to be given back when it is dropped.
    fn owns_memory(&self) -> bool {
        let tables = [&self.vcs, &self.vps, &self.out_vcs, &self.out_vps];
        tables.into_iter().any(KeyTable::owns_memory) || self.gateway.owns_memory()
    }

    fn lookup(&self, circuit: CircuitId) -> Option<u32> {
        self.vcs.get(circuit.key()).or_else(|| self.vps.get(circuit.vpi.get().into()))
    }

    fn leaving(&self, circuit: CircuitId) -> Option<u32> {
        self.out_vcs.get(circuit.key()).or_else(|| self.out_vps.get(circuit.vpi.get().into()))
    }
}

/// A VP/VC switch.
#[derive(Debug)]
pub struct SwitchElement {
    config: SwitchElementConfig,
    cells: switch::Switch,
    ports: Table<PortState>,
    /// Ports that have had a link, in ascending order: nothing happens at others.
    linked: Vec<u16>,
    /// Boxed: a list that grows moves pointers only.
    routes: Vec<Option<Box<Route>>>,
    free: Vec<u32>,
    scratch: Vec<Cell>,
    /// Cells or frames wait for a link.
    awaits_room: bool,
    /// Where the next visit begins to take, and to send.
    takes_next: Turn,
    sends_next: usize,
    label_changes: LabelChanges,
}

impl SwitchElement {
    /// A switch without routes.
    pub fn new(config: SwitchElementConfig) -> Self {
        let cells = switch::Switch::without_links(config.of_cells());
        let ports = (0..config.ports).map(|_| PortState::default()).collect();
        let (routes, free, scratch) = (Vec::new(), Vec::new(), Vec::new());
        SwitchElement {
            config,
            cells,
            ports,
            linked: Vec::new(),
            routes,
            free,
            scratch,
            awaits_room: false,
            takes_next: Turn::default(),
            sends_next: 0,
            label_changes: LabelChanges::default(),
        }
    }

    /// Has the system back the first pages of its tables, so that whoever runs it does not wait for them.
    pub fn touch(&mut self) {
        self.cells.touch();
    }

    /// Names the switch in OAM cells, so that it answers loopback requests for every point of a circuit.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.cells.set_location(Location::named(name));
        self
    }

    /// All routes with their counters.
    pub fn routes(&self) -> impl Iterator<Item = RouteInfo> + '_ {
        self.routes.iter().flatten().map(|route| route.info(&self.cells))
    }

    /// What was counted of the branch of a route that leaves by `to`: cells, also of frames that passed the cell
    /// switch.
    pub fn circuit_counters(&self, from: (u16, Label), to: (u16, Label)) -> Option<switch::CircuitCounters> {
        let route = self.cells.route(from)?;
        let only = route.branches.len() == 1;
        let branch = route.branches.into_iter().find(|branch| branch.to == to)?;
        // Policing is the root's where there are several.
        let policed = if only { branch.counters.policed } else { route.counters.policed };
        Some(switch::CircuitCounters { policed, ..branch.counters })
    }

    /// The route of a circuit's cells that come in at `port`: its channel's, else its path's.
    pub fn route_of(&self, port: u16, circuit: CircuitId) -> Option<RouteInfo> {
        let at = self.ports.get(port.into())?.lookup(circuit)?;
        Some(self.routes.get(at as usize)?.as_ref()?.info(&self.cells))
    }

    /// Whether a VC or a VP of this label is in use at `port`, as input.
    pub fn has_route(&self, port: u16, label: Label) -> bool {
        self.has_port(port) && self.table(port, label).get(key(label)).is_some()
    }

    /// What a port received and could not give to any route.
    pub fn port_drops(&self, port: u16) -> Counters {
        let mut drops = self.ports.get(port as usize).map(|p| p.dropped).unwrap_or_default();
        for (reason, n) in self.cells.port_counters(port).received.drops() {
            drops.drop_n(reason, n);
        }
        drops
    }

    /// What circuits are told of defects at present.
    pub fn indications(&self) -> impl Iterator<Item = switch::Indication> + '_ {
        self.cells.indications()
    }

    /// The oldest change of an alarm that has not been fetched.
    pub fn poll_alarm(&mut self) -> Option<switch::SwitchEvent> {
        self.cells.poll_event()
    }

    /// Cells that wait at a port.
    pub fn queued(&self, port: u16) -> usize {
        self.cells.queued_at(port)
    }

    /// The bounds that it has.
    pub fn config(&self) -> SwitchElementConfig {
        self.config
    }

    /// Where the ports that have had a link begin again behind those below `port`.
    fn first_from(&self, port: usize) -> usize {
        self.linked.partition_point(|linked| usize::from(*linked) < port)
    }

    /// The ports that have had a link, one after the other, from a place of theirs on.
    fn linked_at(&self, place: usize) -> usize {
        self.linked[place % self.linked.len()].into()
    }
}

/// A port is one of those that are visited from now on.
fn visit(linked: &mut Vec<u16>, port: u16) {
    if let Err(at) = linked.binary_search(&port) {
        linked.insert(at, port);
    }
}

impl Node for SwitchElement {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let mut any = false;
        if self.cells.poll_timeout().is_some_and(|at| at <= now) {
            self.cells.handle_timeout(now);
        }
        for at in 0..self.linked.len() {
            let port = self.linked_at(at);
            // Frames that pass whole would take all room of a link again and again, and what waits here would never
            // leave.
            if self.cells.has_output(port as u16) && io.carries(port) == Some(Carries::Frames) {
                any |= self.send_frames(port, io, now);
            }
        }
        any |= self.take_all(io, now);
        // A link that has just gone down may have more circuits than one slice.
        if self.cells.list_indications(now) {
            io.count_work(LISTED_WORK);
            any = true;
        }
        self.awaits_room = false;
        let (visit, next) = (Visit::begin(io), std::mem::take(&mut self.sends_next));
        let begin = self.first_from(next);
        let mut over = false;
        for at in 0..self.linked.len() {
            let port = self.linked_at(begin + at);
            let state = &mut self.ports[port];
            let lost = state.gateway.release_orphans(io.pool_mut());
            if lost > 0 {
                io.count_drops(port, DropReason::Closed, lost);
                state.sums.left += lost;
            }
            if state.gateway.poll_timeout().is_some_and(|at| at <= now) {
                let routes = &mut self.routes;
                state.gateway.handle_timeout(now, io.pool_mut(), |route, reason| {
                    if let Some(route) = routes.get_mut(route as usize).and_then(Option::as_mut) {
                        route.received.drop_one(reason);
                    }
                });
            }
            if self.cells.has_output(port as u16) && !over && visit.is_over(io) {
                (over, any, self.sends_next) = (true, true, port);
            }
            if self.cells.has_output(port as u16) && !over {
                match io.carries(port) {
                    Some(Carries::Frames) => any |= self.send_frames(port, io, now),
                    Some(Carries::Cells) => loop {
                        let n = self.cells.poll_transmit(port as u16, io.cells_out(port), now);
                        if n == 0 {
                            break;
                        }
                        io.commit(port, n);
                        any = true;
                    },
                    None => {}
                }
            }
            self.awaits_room |= self.cells.has_output(port as u16);
            self.tell_drops(port, io);
        }
        any
    }

    fn rests(&self) -> bool {
        !self.awaits_room
    }

    fn takes_parcels(&self) -> bool {
        true
    }

    fn poll_timeout(&self) -> Option<Time> {
        let gateways = self.linked.iter().filter_map(|port| self.ports[usize::from(*port)].gateway.poll_timeout());
        gateways.chain(self.cells.poll_timeout()).min()
    }

    fn handle_link(&mut self, port: u16, link: Option<LinkProperties>) {
        if let Some(state) = self.ports.get_mut(port as usize) {
            state.link = link;
            if link.is_some() {
                visit(&mut self.linked, port);
                // The link's counters begin now, and so does what is compared with them.
                let counters = self.cells.port_counters(port);
                state.told = counters.sent;
                state.sums = PortSums::new(counters, state.dropped.dropped_total());
            } else {
                state.dark = false;
                self.cells.forget_signal(port);
            }
            self.cells.set_up(port, link.is_some());
            self.cells.set_credit(port, link.is_some_and(|link| link.credit));
            self.cells.set_arrival(port, link.map_or(Arrival::Together, arrival));
        }
    }

    fn poll_label_change(&mut self) -> Option<LabelChange> {
        self.label_changes.poll()
    }

    fn drop_waiting(&mut self, port: u16, label: Label) {
        self.cells.drop_own(port, label);
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// When the cells of a link count as having come. Lines inside the process stamp them when they leave or arrive; a
/// shell hands over what has come since its last look.
fn arrival(link: LinkProperties) -> Arrival {
    match link.outside {
        true => Arrival::Spaced(OUTSIDE_BATCH),
        false => Arrival::Stamped,
    }
}
