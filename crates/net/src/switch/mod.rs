//! The VP/VC switch: cells and frames in at one port, out at others under other labels (I.311, I.610 for OAM).
//!
//! In: what links deliver. Out: the same, translated, copied for point-to-multipoint, converted where one port carries
//! cells and the other frames. A table per port finds a cell's route; VC routes go before VP routes. Work is done in runs
//! of neighbouring cells of one circuit. Where an output has no room the cell is dropped and counted `queue_full`, except
//! on unlimited links between nodes: those have room again after the next round, and the input waits for it.
//!
//! Segment OAM ends here: a loopback cell of the segment flow (F5 of a VC, F4 of a VP) is answered.

mod convert;
mod interleaved;
mod oam;
mod route;
mod table;

pub use route::{BranchInfo, Label, RouteError, RouteInfo, RouteOptions};

use crate::frame::{Aal, Frame};
use crate::node::{Carries, Node, NodeIo, Outputs};
use convert::Pending;
use route::Route;
use std::any::Any;
use table::KeyTable;
use wire::{Cell, CircuitId, Counters, DropReason, Time, Vci};

/// Cells of one port that one run handles at most.
const CELLS_PER_RUN: usize = 2048;
/// Frames of one port that one run handles at most.
const FRAMES_PER_RUN: usize = 64;

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

#[derive(Debug, Default)]
struct PortState {
    vcs: KeyTable,
    vps: KeyTable,
    /// How many channels of each VPI are switched here: those paths end at this port.
    channels: KeyTable,
    dropped: Counters,
    /// A frame that is on its way into cells.
    pending: Option<Pending>,
}

impl PortState {
    fn lookup(&self, circuit: CircuitId) -> Option<u32> {
        self.vcs.get(circuit.key()).or_else(|| self.vps.get(circuit.vpi.get().into()))
    }
}

/// A VP/VC switch.
#[derive(Debug)]
pub struct Switch {
    config: SwitchConfig,
    ports: Vec<PortState>,
    routes: Vec<Option<Route>>,
    free: Vec<u32>,
    /// Frames of routes that were removed; their buffers go back in the next run.
    orphans: Vec<Frame>,
    /// No reassembly times out before this moment.
    deadline: Option<Time>,
}

impl Switch {
    /// A switch without routes.
    pub fn new(config: SwitchConfig) -> Self {
        let ports = (0..config.ports).map(|_| PortState::default()).collect();
        Switch { config, ports, routes: Vec::new(), free: Vec::new(), orphans: Vec::new(), deadline: None }
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
        let known = self.table(port, label).get(label.key());
        if let Some(route) = known.and_then(|r| self.routes[r as usize].as_mut()) {
            return route.add_branch(out_port, out_label, options);
        }
        if self.routes.len() - self.free.len() >= self.config.max_routes {
            return Err(RouteError::Full(self.config.max_routes));
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.routes.push(None);
            self.routes.len() as u32 - 1
        });
        let mut route = Route::new(port, label, options);
        route.add_branch(out_port, out_label, options)?;
        self.routes[index as usize] = Some(route);
        self.table_mut(port, label).insert(label.key(), index);
        self.count_channel(port, label, 1);
        Ok(())
    }

    /// Ends one branch of a route, or with `out_port` `None` the route. Returns whether it was there.
    pub fn remove_route(&mut self, port: u16, label: Label, out_port: Option<u16>) -> bool {
        if port >= self.config.ports {
            return false;
        }
        let Some(index) = self.table(port, label).get(label.key()) else { return false };
        let Some(route) = self.routes[index as usize].as_mut() else { return false };
        let found = route.remove_branch(out_port);
        if route.is_empty() {
            if let Some(mut route) = self.routes[index as usize].take() {
                self.orphans.extend(route.take_partial());
            }
            self.table_mut(port, label).remove(label.key());
            self.count_channel(port, label, -1);
            self.free.push(index);
        }
        found
    }

    fn count_channel(&mut self, port: u16, label: Label, change: i32) {
        let Label::Vc(circuit) = label else { return };
        let (channels, vpi) = (&mut self.ports[port as usize].channels, circuit.vpi.get().into());
        match channels.get(vpi).unwrap_or_default().saturating_add_signed(change) {
            0 => channels.remove(vpi),
            n => channels.insert(vpi, n),
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
    pub fn routes(&self) -> impl Iterator<Item = RouteInfo<'_>> {
        self.routes.iter().flatten().map(Route::info)
    }

    /// Whether a VC or a VP of this label is in use at `port`, as input.
    pub fn has_route(&self, port: u16, label: Label) -> bool {
        port < self.config.ports && self.table(port, label).get(label.key()).is_some()
    }

    /// What a port received and could not give to any route.
    pub fn port_drops(&self, port: u16) -> Counters {
        self.ports.get(port as usize).map(|p| p.dropped).unwrap_or_default()
    }

    /// The bounds it was made with.
    pub fn config(&self) -> SwitchConfig {
        self.config
    }

    /// Handles cells of `port`; returns how many it is done with.
    fn forward_cells(&mut self, port: usize, cells: &[Cell], out: &mut Outputs<'_>, now: Time) -> usize {
        let cells = &cells[..cells.len().min(CELLS_PER_RUN)];
        let mut done = 0;
        while let Some(first) = cells.get(done) {
            let word = first.header_word();
            let circuit = first.circuit();
            if oam::is_special(word) {
                self.special(port, first, out);
                done += 1;
                continue;
            }
            let same = |c: &&Cell| c.header_word() >> 4 == word >> 4 && !oam::is_special(c.header_word());
            let run = cells[done..].iter().take_while(same).count();
            let run = &cells[done..done + run];
            let state = &mut self.ports[port];
            let used = match state.lookup(circuit).and_then(|r| self.routes[r as usize].as_mut()) {
                Some(route) => {
                    let used = route.forward(run, out, now);
                    if let Some(at) = route.poll_timeout() {
                        self.deadline = Some(self.deadline.map_or(at, |d| d.min(at)));
                    }
                    used
                }
                None => {
                    state.dropped.drop_n(DropReason::UnknownCircuit, run.len() as u64);
                    run.len()
                }
            };
            done += used;
            if used < run.len() {
                break;
            }
        }
        done
    }

    /// OAM and other cells that are no user data.
    fn special(&mut self, port: usize, cell: &Cell, out: &mut Outputs<'_>) {
        let state = &mut self.ports[port];
        let circuit = cell.circuit();
        let route = match circuit.vci {
            // F4 flows belong to the path, not to a channel in it.
            Vci::F4_SEGMENT | Vci::F4_END_TO_END => state.vps.get(circuit.vpi.get().into()),
            _ => state.lookup(circuit),
        };
        let path_ends_here = route.is_none()
            && matches!(circuit.vci, Vci::F4_SEGMENT | Vci::F4_END_TO_END)
            && state.channels.get(circuit.vpi.get().into()).is_some();
        let route = route.and_then(|r| self.routes[r as usize].as_mut());
        let is_path = route.as_ref().is_some_and(|r| r.is_path());
        if route.is_none() && !path_ends_here {
            state.dropped.drop_one(DropReason::UnknownCircuit);
            return;
        }
        if path_ends_here || oam::ends_at_switch(cell.header(), is_path) {
            match oam::answer(cell) {
                Ok(reply) if out.put_cell(port, &reply) => {}
                Ok(_) => out.count_drops(port, DropReason::QueueFull, 1),
                Err(reason) => state.dropped.drop_one(reason),
            }
        } else if let Some(route) = route {
            route.forward_special(cell, out);
        }
    }

    /// Handles frames of `port`. True if any was handled.
    fn forward_frames(&mut self, port: usize, io: &mut NodeIo<'_>) -> bool {
        let mut busy = false;
        for _ in 0..FRAMES_PER_RUN {
            let state = &mut self.ports[port];
            let mut pending = match state.pending.take() {
                Some(pending) => pending,
                None => match io.take_frame(port) {
                    Some(frame) => {
                        busy = true;
                        match self.answer_frame(port, frame, io) {
                            Some(frame) => Pending::new(frame),
                            None => continue,
                        }
                    }
                    None => break,
                },
            };
            let state = &mut self.ports[port];
            match state.lookup(pending.circuit()).and_then(|r| self.routes[r as usize].as_mut()) {
                Some(route) => busy |= route.forward_frame(&mut pending, io),
                None => {
                    pending.finish();
                    state.dropped.drop_one(DropReason::UnknownCircuit);
                }
            }
            if let Some(pending) = pending.or_release(io) {
                self.ports[port].pending = Some(pending);
                break;
            }
        }
        busy
    }

    /// Segment OAM on a frame link travels as AAL0 frames. Gives the frame back if it is not for the switch.
    fn answer_frame(&mut self, port: usize, frame: Frame, io: &mut NodeIo<'_>) -> Option<Frame> {
        if frame.aal != Aal::Aal0 {
            return Some(frame);
        }
        let Some(cell) = convert::cell_of_frame(&frame, io.pool().octets(&frame)) else {
            self.ports[port].dropped.drop_one(DropReason::Malformed);
            io.pool_mut().release(frame);
            return None;
        };
        let state = &mut self.ports[port];
        let route = state.lookup(frame.circuit).and_then(|r| self.routes[r as usize].as_ref());
        if !oam::is_special(cell.header_word())
            || !oam::ends_at_switch(cell.header(), route.is_some_and(Route::is_path))
        {
            return Some(frame);
        }
        io.pool_mut().release(frame);
        let reply = if route.is_some() { oam::answer(&cell) } else { Err(DropReason::UnknownCircuit) };
        match reply {
            Ok(reply) if convert::put_cell_as_frame(&reply, port, io) => {}
            Ok(_) => io.count_drops(port, DropReason::QueueFull, 1),
            Err(reason) => state.dropped.drop_one(reason),
        }
        None
    }
}

impl Node for Switch {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let mut busy = false;
        while let Some(frame) = self.orphans.pop() {
            io.pool_mut().release(frame);
        }
        for port in 0..io.ports().min(self.ports.len()) {
            match io.carries(port) {
                Some(Carries::Cells) => io.forward(port, |cells, out| {
                    let done = self.forward_cells(port, cells, out, now);
                    busy |= done > 0;
                    done
                }),
                Some(Carries::Frames) => busy |= self.forward_frames(port, io),
                None => {}
            }
        }
        if self.deadline.is_some_and(|d| d <= now) {
            for route in self.routes.iter_mut().flatten() {
                while let Some(frame) = route.handle_timeout(now) {
                    io.pool_mut().release(frame);
                }
            }
            self.deadline = self.routes.iter().flatten().filter_map(Route::poll_timeout).min();
        }
        busy
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.deadline
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
