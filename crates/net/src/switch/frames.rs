//! Frames that come in at a port, and cells that leave by one whose link carries frames.

use super::route::Branch;
use super::visit::{Mark, Visit};
use super::{SwitchElement, gateway};
use crate::frame::{Frame, FrameAal, counted};
use crate::line::Carries;
use crate::node::{FrameRun, NodeIo};
use wire::oam::Flow as OamFlow;
use wire::{Cell, Counters, DropReason, Time};

/// Cells that a gateway takes from the cell switch at once, at most.
const GATEWAY_CELLS: usize = 256;

/// Whether frames need not become cells to leave by a branch. A contract, its own or that of another circuit that
/// leaves there, is a matter of cells.
fn leaves_whole(cells: &switch::Switch, branch: &Branch, io: &NodeIo<'_>) -> bool {
    io.carries(branch.port.into()) == Some(Carries::Frames) && cells.contracts_at(branch.port) == 0
}

impl SwitchElement {
    /// Takes frames that came in at `port`, `left` at most. Gives how many more it might take.
    pub(super) fn take_frames(
        &mut self,
        port: usize,
        io: &mut NodeIo<'_>,
        now: Time,
        visit: Visit,
        mut left: usize,
    ) -> usize {
        while left > 0
            && !visit.is_over(io)
            && let Some(run) = io.frame_run(port, left, visit.left(io))
        {
            left -= run.frames;
            let mark = Mark::now(io, &self.cells);
            self.ports[port].sums.came += run.frames as u64;
            if !self.pass_whole(port, run, io) {
                for _ in 0..run.frames {
                    let Some(frame) = io.take_frame(port) else { break };
                    self.take_frame(port, &frame, io, now);
                    io.pool_mut().release(frame);
                }
            }
            mark.count(run.cells, io, &self.cells);
        }
        left
    }

    /// Passes frames of one circuit on as they are, if that is all that is to be done with them. False, and nothing has
    /// been done, if it is not.
    fn pass_whole(&mut self, port: usize, run: FrameRun, io: &mut NodeIo<'_>) -> bool {
        // A cell of AAL0 may be one of management.
        let Some(route) = self.ports[port].lookup(run.circuit).filter(|_| run.aal != FrameAal::Aal0) else {
            return false;
        };
        let Some(route) = self.routes[route as usize].as_mut() else { return false };
        let Some(branch) = route.only_plain_branch().filter(|branch| leaves_whole(&self.cells, branch, io)) else {
            return false;
        };
        let to = branch.port.into();
        let Some(passed) = io.pass_frames(port, to, run.frames, branch.label) else { return false };
        branch.sent.pass(passed.sent);
        branch.sent.drop_n(DropReason::QueueFull, passed.frames_refused());
        route.received.pass(passed.sent);
        route.received.pass(passed.refused);
        route.units += run.frames as u64;
        self.ports[port].sums.whole += run.frames as u64;
        self.ports[to].sums.left += run.frames as u64;
        true
    }

    fn take_frame(&mut self, port: usize, frame: &Frame, io: &mut NodeIo<'_>, now: Time) {
        let state = &mut self.ports[port];
        let cell = match frame.aal {
            FrameAal::Aal0 => match gateway::cell_of_frame(frame, io.pool().octets(frame)) {
                Some(cell) => Some(cell),
                None => return state.dropped.drop_one(DropReason::Malformed),
            },
            FrameAal::Aal5 | FrameAal::Aal34 => None,
        };
        if let Some(cell) = cell.filter(|cell| OamFlow::of(cell.header()).is_some()) {
            // The cell switch knows whether it ends here.
            state.sums.count_cut(1);
            self.cells.handle_cells(port as u16, &[cell], now, io);
            return;
        }
        let Some(route) = state.lookup(frame.circuit).and_then(|r| self.routes[r as usize].as_mut()) else {
            return state.dropped.drop_one(DropReason::UnknownCircuit);
        };
        if !route.managed && route.branches.iter().all(|branch| leaves_whole(&self.cells, branch, io)) {
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
        self.cells.handle_frame(port as u16, &self.scratch, now, io);
    }

    /// Sends what waits for a port whose link carries frames. True if there was anything.
    pub(super) fn send_frames(&mut self, port: usize, io: &mut NodeIo<'_>, now: Time) -> bool {
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
    pub(super) fn tell_drops(&mut self, port: usize, io: &mut NodeIo<'_>) {
        let state = &mut self.ports[port];
        if self.cells.dropped_at(port as u16) == state.told.dropped_total() {
            return;
        }
        let sent = self.cells.port_counters(port as u16).sent;
        let told = &mut state.told;
        for (reason, n) in sent.drops() {
            io.count_drops(port, reason, n.wrapping_sub(told.dropped(reason)));
        }
        *told = sent;
    }
}
