//! The VP/VC switch as an element of a network: the cell switch of crate `switch` between the element's links, and a
//! gateway at each port whose link carries frames.
//!
//! In: what links deliver. Out: the same under other labels, copied for point-to-multipoint, converted where one port
//! carries cells and the other frames. Inputs never wait: what cannot leave at once is queued by circuit within its bounds,
//! or dropped and counted. A frame whose route leads to frame ports only is passed on as it is.

mod gateway;
mod interleaved;
mod parcels;
mod route;
mod sums;
mod table;

pub use route::{BranchInfo, RouteError, RouteInfo, RouteOptions, RouteTable};
pub use wire::Label;

use crate::frame::{Aal, Frame};
use crate::line::Carries;
use crate::node::{LinkNature, Node, NodeIo, Outputs};
use crate::sparse::SparseCounters;
use gateway::{Gateway, Leaving};
use route::{Branch, Route, counted, key};
use std::any::Any;
use std::time::Duration;
use sums::PortSums;
use switch::{Arrival, Transaction};
use table::KeyTable;
use wire::oam::{Flow as OamFlow, Location};
use wire::{Cell, CircuitId, Counters, DropReason, Time};

/// Cells of one port that one run handles at most.
const CELLS_PER_RUN: usize = 2048;
/// What listing circuits that are sent AIS, and sending it, is worth in cells that are passed on: half a round.
const LISTED_WORK: usize = 8192;
/// Cells that all circuits with credits may have queued: 32 MiB. A window each way of each such circuit is taken from it.
const CREDIT_CELLS: u32 = 524_288;
/// Frames of one port that one run handles at most.
const FRAMES_PER_RUN: usize = 64;
/// Cells from outside that were handed over together came over this long at most.
const OUTSIDE_BATCH: Duration = Duration::from_millis(10);
/// Cells that a gateway takes from the cell switch at once, at most.
const GATEWAY_CELLS: usize = 256;

/// The bounds of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Ports 0 to `ports` - 1.
    pub ports: u16,
    /// Routes in all.
    pub max_routes: usize,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        SwitchConfig { ports: 64, max_routes: 65_536 }
    }
}

impl SwitchConfig {
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
    link: Option<LinkNature>,
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
    fn lookup(&self, circuit: CircuitId) -> Option<u32> {
        self.vcs.get(circuit.key()).or_else(|| self.vps.get(circuit.vpi.get().into()))
    }

    fn leaving(&self, circuit: CircuitId) -> Option<u32> {
        self.out_vcs.get(circuit.key()).or_else(|| self.out_vps.get(circuit.vpi.get().into()))
    }
}

/// A VP/VC switch.
#[derive(Debug)]
pub struct Switch {
    config: SwitchConfig,
    cells: switch::Switch,
    ports: Vec<PortState>,
    /// Boxed: a list that grows moves pointers only.
    routes: Vec<Option<Box<Route>>>,
    free: Vec<u32>,
    scratch: Vec<Cell>,
    /// Cells or frames wait for a link.
    awaits_room: bool,
}

impl Switch {
    /// A switch without routes.
    pub fn new(config: SwitchConfig) -> Self {
        let mut cells = switch::Switch::new(config.of_cells());
        (0..config.ports).for_each(|port| cells.set_up(port, false));
        let ports = (0..config.ports).map(|_| PortState::default()).collect();
        let (routes, free, scratch) = (Vec::new(), Vec::new(), Vec::new());
        Switch { config, cells, ports, routes, free, scratch, awaits_room: false }
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

    /// Lets what comes in at `port` under `label` go out at `out_port` under `out_label`. A second call with another
    /// `out_port` makes the route point-to-multipoint. One direction only: a circuit both ways is two routes.
    ///
    /// # Errors
    /// [`RouteError`], and nothing has changed.
    pub fn add_route(
        &mut self,
        (port, label): (u16, Label),
        (out_port, out_label): (u16, Label),
        options: RouteOptions,
    ) -> Result<(), RouteError> {
        if port >= self.config.ports || out_port >= self.config.ports {
            return Err(RouteError::NoPort(port.max(out_port)));
        }
        if label.is_path() != out_label.is_path() {
            return Err(RouteError::Mixed);
        }
        let known = self.table(port, label).get(key(label));
        let branches = known.and_then(|r| self.routes[r as usize].as_ref()).map_or(&[][..], |route| &route.branches);
        if branches.iter().any(|branch| branch.port == out_port) {
            return Err(RouteError::Exists(out_port));
        }
        if known.is_none() && self.routes.len() - self.free.len() >= self.config.max_routes {
            return Err(RouteError::Full(self.config.max_routes));
        }
        let mut change = Transaction::new();
        let profile = options.profile(self.cells.config().queue_cells);
        change.add((port, label), (out_port, out_label), &profile);
        self.cells.apply(change).map_err(|failed| failed.error)?;
        let index = known.unwrap_or_else(|| {
            let index = self.free.pop().unwrap_or_else(|| {
                self.routes.push(None);
                self.routes.len() as u32 - 1
            });
            self.routes[index as usize] = Some(Box::new(Route::new(port, label, options)));
            self.table_mut(port, label).insert(key(label), index);
            index
        });
        if let Some(route) = self.routes[index as usize].as_mut() {
            route.options = options;
            route.branches.push(Branch { port: out_port, label: out_label, sent: SparseCounters::default() });
        }
        let state = &mut self.ports[out_port as usize];
        let at = state.gateway.add(Leaving::new(out_label, index, options.aal));
        let table = if out_label.is_path() { &mut state.out_vps } else { &mut state.out_vcs };
        table.insert(key(out_label), at);
        Ok(())
    }

    /// Gives the branch of a route that leaves by `to` another contract: what waits stays, and schedules begin anew. Credits
    /// and the adaptation layer stay as they are.
    ///
    /// # Errors
    /// [`RouteError`], and nothing has changed.
    pub fn change_route(
        &mut self,
        from: (u16, Label),
        to: (u16, Label),
        options: RouteOptions,
    ) -> Result<(), RouteError> {
        if from.0 >= self.config.ports || to.0 >= self.config.ports {
            return Err(RouteError::NoPort(from.0.max(to.0)));
        }
        self.cells.change_profile(from, to, &options.profile(self.cells.config().queue_cells))?;
        let route = self.table(from.0, from.1).get(key(from.1));
        if let Some(route) = route.and_then(|at| self.routes[at as usize].as_mut()) {
            route.options = options;
        }
        Ok(())
    }

    /// Ends one branch of a route, or with `out_port` `None` the route. Returns whether it was there.
    pub fn remove_route(&mut self, port: u16, label: Label, out_port: Option<u16>) -> bool {
        if port >= self.config.ports {
            return false;
        }
        let Some(index) = self.table(port, label).get(key(label)) else { return false };
        let Some(route) = self.routes[index as usize].as_mut() else { return false };
        let ends = |branch: &mut Branch| out_port.is_none_or(|port| port == branch.port);
        let ended: Vec<Branch> = route.branches.extract_if(.., ends).collect();
        let empty = route.branches.is_empty();
        let mut change = Transaction::new();
        if empty {
            change.remove((port, label));
        }
        for branch in &ended {
            if !empty {
                change.remove_leaf((port, label), (branch.port, branch.label));
            }
            let (begun, open) = self.leaving_of(index, branch);
            self.forget_leaving(index, branch);
            if let Some(route) = self.routes[index as usize].as_mut() {
                // What the branch answers for leaves with it.
                let answered = sums::over(&branch.sent.all()).wrapping_add(open);
                route.units = route.units.wrapping_add(begun).wrapping_sub(answered);
            }
        }
        // It can fail for a route that is not there only, and then nothing has to be removed.
        let _ = self.cells.apply(change);
        if empty {
            self.routes[index as usize] = None;
            self.table_mut(port, label).remove(key(label));
            self.free.push(index);
        }
        !ended.is_empty()
    }

    /// Where a branch is among those that leave by its port.
    fn find_leaving(&self, route: u32, branch: &Branch) -> Option<usize> {
        let state = &self.ports[branch.port as usize];
        let table = if branch.label.is_path() { &state.out_vps } else { &state.out_vcs };
        let is_it = |leaving: &Option<Box<Leaving>>| {
            leaving.as_ref().is_some_and(|leaving| leaving.route == route && leaving.label == branch.label)
        };
        let list = &state.gateway.leaving;
        let found = table.get(key(branch.label)).filter(|at| is_it(&list[*at as usize]));
        // Two routes may leave under one label; the table knows the later one.
        found.map(|at| at as usize).or_else(|| list.iter().position(is_it))
    }

    /// PDUs of a branch that have begun at its gateway, and those that have not ended.
    fn leaving_of(&self, route: u32, branch: &Branch) -> (u64, u64) {
        let leaving = self.find_leaving(route, branch);
        let leaving = leaving.and_then(|at| self.ports[branch.port as usize].gateway.leaving[at].as_ref());
        leaving.map_or((0, 0), |leaving| leaving.pdus())
    }

    fn forget_leaving(&mut self, route: u32, branch: &Branch) {
        let Some(at) = self.find_leaving(route, branch) else { return };
        let state = &mut self.ports[branch.port as usize];
        state.gateway.remove(at as u32);
        let table = if branch.label.is_path() { &mut state.out_vps } else { &mut state.out_vcs };
        if table.get(key(branch.label)) == Some(at as u32) {
            table.remove(key(branch.label));
        }
    }

    fn table(&self, port: u16, label: Label) -> &KeyTable {
        let state = &self.ports[port as usize];
        if label.is_path() { &state.vps } else { &state.vcs }
    }

    fn table_mut(&mut self, port: u16, label: Label) -> &mut KeyTable {
        let state = &mut self.ports[port as usize];
        if label.is_path() { &mut state.vps } else { &mut state.vcs }
    }

    /// All routes with their counters.
    pub fn routes(&self) -> impl Iterator<Item = RouteInfo> + '_ {
        self.routes.iter().flatten().map(|route| route.info(&self.cells))
    }

    /// What was counted of the branch of a route that leaves by `to`: cells, also of frames that passed the cell switch.
    pub fn circuit_counters(&self, from: (u16, Label), to: (u16, Label)) -> Option<switch::CircuitCounters> {
        let route = self.cells.route(from)?;
        let only = route.branches.len() == 1;
        let branch = route.branches.into_iter().find(|branch| branch.to == to)?;
        // Policing is the root's where there are several.
        let policed = if only { branch.counters.policed } else { route.counters.policed };
        Some(switch::CircuitCounters { policed, ..branch.counters })
    }

    /// Whether a VC or a VP of this label is in use at `port`, as input.
    pub fn has_route(&self, port: u16, label: Label) -> bool {
        port < self.config.ports && self.table(port, label).get(key(label)).is_some()
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

    /// Gives it other bounds. What waits and what was counted stays.
    ///
    /// # Errors
    /// A port or a route beyond them is in use; nothing has changed.
    pub fn set_config(&mut self, config: SwitchConfig) -> Result<(), RouteError> {
        if self.routes.len() - self.free.len() > config.max_routes {
            return Err(RouteError::Full(config.max_routes));
        }
        if config == self.config {
            return Ok(());
        }
        let cells = config.of_cells();
        self.cells.set_bounds(cells.ports, cells.circuits)?;
        (self.config.ports..config.ports).for_each(|port| self.cells.set_up(port, false));
        let gone: Vec<PortState> = self.ports.drain(usize::from(config.ports).min(self.ports.len())..).collect();
        self.ports.resize_with(config.ports.into(), PortState::default);
        if let Some(first) = self.ports.first_mut() {
            // Frames of their routes that are gone have not been given back yet.
            gone.into_iter().for_each(|mut port| first.gateway.adopt(&mut port.gateway));
        }
        self.config = config;
        Ok(())
    }

    /// The bounds that it has.
    pub fn config(&self) -> SwitchConfig {
        self.config
    }

    /// Takes frames that came in at `port`. True if there were any.
    fn take_frames(&mut self, port: usize, io: &mut NodeIo<'_>, now: Time) -> bool {
        let mut any = false;
        for _ in 0..FRAMES_PER_RUN {
            let Some(frame) = io.take_frame(port) else { break };
            any = true;
            self.ports[port].sums.came += 1;
            self.take_frame(port, &frame, io, now);
            io.pool_mut().release(frame);
        }
        any
    }

    fn take_frame(&mut self, port: usize, frame: &Frame, io: &mut NodeIo<'_>, now: Time) {
        let state = &mut self.ports[port];
        let cell = match frame.aal {
            Aal::Aal0 => match gateway::cell_of_frame(frame, io.pool().octets(frame)) {
                Some(cell) => Some(cell),
                None => return state.dropped.drop_one(DropReason::Malformed),
            },
            Aal::Aal5 | Aal::Aal34 => None,
        };
        if let Some(cell) = cell.filter(|cell| OamFlow::of(cell.header()).is_some()) {
            // The cell switch knows whether it ends here.
            state.sums.count_cut(1);
            self.cells.handle_cells(port as u16, &[cell], now, &mut Links::At(io));
            return;
        }
        let Some(route) = state.lookup(frame.circuit).and_then(|r| self.routes[r as usize].as_mut()) else {
            return state.dropped.drop_one(DropReason::UnknownCircuit);
        };
        // A contract, its own or that of another circuit that leaves there, is a matter of cells.
        let to_frames = |branch: &Branch| {
            io.carries(branch.port.into()) == Some(Carries::Frames) && self.cells.contracts_at(branch.port) == 0
        };
        if !route.options.is_managed() && route.branches.iter().all(to_frames) {
            route.received.pass(counted(frame.aal, frame.len()));
            route.units += route.branches.len() as u64;
            state.sums.whole += 1;
            for branch in &mut route.branches {
                let (to, label) = (branch.port.into(), branch.label);
                match gateway::send_copy(frame, label, frame.circuit, to, io) {
                    Ok(counted) => branch.sent.pass(counted),
                    Err(reason) => branch.sent.drop_one(reason),
                }
                self.ports[to].sums.left += 1;
            }
            return;
        }
        match cell {
            Some(cell) => {
                self.scratch.clear();
                self.scratch.push(cell);
            }
            None => {
                if !gateway::segment(frame, io.pool().octets(frame), &mut route.tag, &mut self.scratch) {
                    state.sums.oversize += 1;
                    route.units += 1;
                    return route.received.drop_one(DropReason::Oversize);
                }
                route.received.pdus += 1;
            }
        }
        state.sums.count_cut(self.scratch.len());
        self.cells.handle_frame(port as u16, &self.scratch, now, &mut Links::At(io));
    }

    /// Sends what waits for a port whose link carries frames. True if there was anything.
    fn send_frames(&mut self, port: usize, io: &mut NodeIo<'_>, now: Time) -> bool {
        let mut any = false;
        loop {
            // Each cell may complete a frame.
            let room = io.room(port).min(GATEWAY_CELLS);
            self.scratch.resize(room, Cell::default());
            let n = self.cells.poll_transmit(port as u16, &mut self.scratch, now);
            if n == 0 {
                return any;
            }
            any = true;
            let mut at = 0;
            while at < n {
                let first = &self.scratch[at];
                let special = |cell: &Cell| cell.header_word() & 0b1000 != 0 || OamFlow::of(cell.header()).is_some();
                let circuit = first.circuit();
                let alone = special(first);
                let same = |cell: &&Cell| cell.circuit() == circuit && !special(cell);
                let run = if alone { 1 } else { self.scratch[at..n].iter().take_while(same).count() };
                let cells = &self.scratch[at..at + run];
                at += run;
                let mut sent = Counters::default();
                if alone {
                    gateway::send_cell(&cells[0], port, io, &mut sent);
                    self.ports[port].sums.count_left(&sent);
                    continue;
                }
                let state = &mut self.ports[port];
                let leaving = state.leaving(circuit);
                let route = leaving.and_then(|at| state.gateway.leaving[at as usize].as_ref()).map(|l| l.route);
                let Some((leaving, route)) = leaving.zip(route) else {
                    // Its route is gone. An end that the cell switch made is of a PDU that is counted itself.
                    let lost = cells.iter().filter(|cell| !gateway::gives_up(cell)).count() as u64;
                    io.count_drops(port, DropReason::Closed, lost);
                    state.sums.left += lost;
                    continue;
                };
                let mut received = Counters::default();
                let alone = state.gateway.push(leaving, cells, port, io, now, (&mut sent, &mut received));
                state.sums.count_left(&sent);
                if let Some(route) = self.routes[route as usize].as_mut() {
                    route.received.add_drops(&received);
                    if let Some(branch) = route.branches.iter_mut().find(|branch| usize::from(branch.port) == port) {
                        branch.sent.pdus += sent.pdus;
                        branch.sent.add_drops(&sent);
                        // The cell switch has counted these as sent.
                        branch.sent.take_back(alone);
                    }
                }
            }
        }
    }

    /// What the cell switch dropped for a port, its link shows too.
    fn tell_drops(&mut self, port: usize, io: &mut NodeIo<'_>) {
        let sent = self.cells.port_counters(port as u16).sent;
        let told = &mut self.ports[port].told;
        if sent.dropped_total() == told.dropped_total() {
            return;
        }
        for (reason, n) in sent.drops() {
            io.count_drops(port, reason, n.wrapping_sub(told.dropped(reason)));
        }
        *told = sent;
    }
}

/// The element's links, as the cell switch writes to them.
enum Links<'a, 'b, 'c> {
    At(&'a mut NodeIo<'b>),
    Beside(&'a mut Outputs<'c>),
}

impl switch::Outputs for Links<'_, '_, '_> {
    #[inline]
    fn slots(&mut self, port: u16) -> &mut [Cell] {
        match self {
            Links::At(io) => io.cells_out(port.into()),
            Links::Beside(out) => out.cells_out(port.into()),
        }
    }

    #[inline]
    fn commit(&mut self, port: u16, n: usize) {
        match self {
            Links::At(io) => io.commit(port.into(), n),
            Links::Beside(out) => out.commit(port.into(), n),
        }
    }

    #[inline]
    fn commit_pdus(&mut self, port: u16, n: usize, pdus: u64) {
        match self {
            Links::At(io) => io.commit_pdus(port.into(), n, pdus),
            Links::Beside(out) => out.commit_pdus(port.into(), n, pdus),
        }
    }
}

impl Node for Switch {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let mut any = false;
        let ports = io.ports().min(self.ports.len());
        if self.cells.poll_timeout().is_some_and(|at| at <= now) {
            self.cells.handle_timeout(now);
        }
        for port in 0..ports {
            // Frames that pass whole would take all room of a link again and again, and what waits here would never leave.
            if self.cells.has_output(port as u16) && io.carries(port) == Some(Carries::Frames) {
                any |= self.send_frames(port, io, now);
            }
        }
        for port in 0..ports {
            let carries = io.carries(port);
            let state = &mut self.ports[port];
            let up = io.is_up(port);
            state.in_service = state.link.is_some() && (state.in_service || up);
            let dark = state.in_service && !up;
            if dark != state.dark {
                state.dark = dark;
                self.cells.set_signal(port as u16, !dark, now);
            }
            match carries {
                Some(Carries::Cells) => any |= self.take_cells(port, io, now),
                Some(Carries::Frames) => any |= self.take_frames(port, io, now),
                None => {}
            }
        }
        // A link that has just gone down may have more circuits than one slice.
        if self.cells.list_indications(now) {
            io.count_work(LISTED_WORK);
            any = true;
        }
        self.awaits_room = false;
        for port in 0..ports {
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
            if self.cells.has_output(port as u16) {
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
        let gateways = self.ports.iter().filter_map(|port| port.gateway.poll_timeout());
        gateways.chain(self.cells.poll_timeout()).min()
    }

    fn handle_link(&mut self, port: u16, link: Option<LinkNature>) {
        if let Some(state) = self.ports.get_mut(port as usize) {
            state.link = link;
            if link.is_some() {
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

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl RouteTable for Switch {
    fn add_route(&mut self, from: (u16, Label), to: (u16, Label), options: RouteOptions) -> Result<(), RouteError> {
        Switch::add_route(self, from, to, options)
    }

    fn change_route(&mut self, from: (u16, Label), to: (u16, Label), options: RouteOptions) -> Result<(), RouteError> {
        Switch::change_route(self, from, to, options)
    }

    fn remove_route(&mut self, port: u16, label: Label, out_port: Option<u16>) -> bool {
        Switch::remove_route(self, port, label, out_port)
    }
}

/// When the cells of a link count as having come. Lines inside the process stamp them when they leave or arrive; a shell hands
/// over what has come since its last look.
fn arrival(link: LinkNature) -> Arrival {
    match link.outside {
        true => Arrival::Spaced(OUTSIDE_BATCH),
        false => Arrival::Stamped,
    }
}
