//! One route of a switch: where the cells or frames of one circuit or path go, and what was counted on the way.

use super::convert::{self, Pending, Reassembly, Sent};
use super::interleaved::Interleaved;
use crate::frame::{Aal, Frame};
use crate::line::ends_pdu;
use crate::node::{Carries, NodeIo, Outputs};
use std::fmt;
use wire::{Cell, CircuitId, Counters, DropReason, Time, Vpi};

/// What a switch goes by at one port: a channel, or a path with all its channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// A virtual channel: VPI and VCI are translated.
    Vc(CircuitId),
    /// A virtual path: the VPI is translated, VCIs stay.
    Vp(Vpi),
}

impl Label {
    pub(crate) const fn is_path(self) -> bool {
        matches!(self, Label::Vp(_))
    }

    pub(crate) fn key(self) -> u32 {
        match self {
            Label::Vc(circuit) => circuit.key(),
            Label::Vp(vpi) => vpi.get().into(),
        }
    }

    /// The header word of a cell that goes out under this label.
    #[inline]
    fn translate(self, word: u32) -> u32 {
        match self {
            Label::Vc(circuit) => circuit.key() << 4 | word & 0xf,
            Label::Vp(vpi) => u32::from(vpi.get()) << 20 | word & 0x000f_ffff,
        }
    }

    pub(crate) fn translate_circuit(self, circuit: CircuitId) -> CircuitId {
        match self {
            Label::Vc(circuit) => circuit,
            Label::Vp(vpi) => CircuitId { vpi, vci: circuit.vci },
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Vc(circuit) => circuit.fmt(f),
            Label::Vp(vpi) => write!(f, "{vpi}.*"),
        }
    }
}

/// What matters where a route's ports carry different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RouteOptions {
    /// The adaptation layer of a channel: how its cells become frames.
    pub aal: Aal,
}

/// Why a route cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The switch has fewer ports.
    #[error("no port {0}")]
    NoPort(u16),
    /// A path cannot become a channel, nor a channel a path.
    #[error("a path goes out as a path, a channel as a channel")]
    Mixed,
    /// The route goes to this port already.
    #[error("goes to port {0} already")]
    Exists(u16),
    /// The bound of the configuration.
    #[error("no more than {0} routes")]
    Full(usize),
}

/// One branch of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchInfo {
    /// Port it leaves by.
    pub port: u16,
    /// Its label there.
    pub label: Label,
    /// What was sent and what was dropped for want of room.
    pub sent: Counters,
    /// AAL3/4's tag of the next SDU.
    pub(crate) tag: u8,
}

/// One route of a switch.
#[derive(Debug, Clone, Copy)]
pub struct RouteInfo<'a> {
    /// Port it comes in by.
    pub port: u16,
    /// Its label there.
    pub label: Label,
    /// Where it goes.
    pub branches: &'a [BranchInfo],
    /// What came in, and PDUs that could not be reassembled for a frame port.
    pub received: Counters,
}

#[derive(Debug)]
pub(crate) struct Route {
    port: u16,
    label: Label,
    aal: Aal,
    branches: Vec<BranchInfo>,
    received: Counters,
    reassembly: Option<Box<Reassembly>>,
    interleaved: Option<Box<Interleaved>>,
}

fn count_cells(counters: &mut Counters, cells: &[Cell]) {
    counters.cells += cells.len() as u64;
    counters.pdus += cells.iter().filter(|c| ends_pdu(c.header_word())).count() as u64;
    counters.octets += (cells.len() * wire::cell::PAYLOAD_OCTETS) as u64;
}

impl Route {
    pub(crate) fn new(port: u16, label: Label, options: RouteOptions) -> Self {
        let received = Counters::default();
        Route { port, label, aal: options.aal, branches: Vec::new(), received, reassembly: None, interleaved: None }
    }

    pub(crate) fn add_branch(&mut self, port: u16, label: Label, options: RouteOptions) -> Result<(), RouteError> {
        if self.branches.iter().any(|b| b.port == port) {
            return Err(RouteError::Exists(port));
        }
        self.aal = options.aal;
        self.branches.push(BranchInfo { port, label, sent: Counters::default(), tag: 0 });
        Ok(())
    }

    pub(crate) fn remove_branch(&mut self, port: Option<u16>) -> bool {
        let before = self.branches.len();
        self.branches.retain(|b| port.is_some_and(|p| p != b.port));
        self.branches.len() < before
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.branches.is_empty()
    }

    pub(crate) fn is_path(&self) -> bool {
        self.label.is_path()
    }

    pub(crate) fn info(&self) -> RouteInfo<'_> {
        RouteInfo { port: self.port, label: self.label, branches: &self.branches, received: self.received }
    }

    /// The frames that cells were being reassembled into.
    pub(crate) fn take_partial(&mut self) -> impl Iterator<Item = Frame> {
        let of_aal5 = self.reassembly.take().and_then(|r| r.into_frame());
        of_aal5.into_iter().chain(self.interleaved.take().into_iter().flat_map(|i| i.into_frames()))
    }

    /// Sends a run of user cells of this route to all branches; returns how many are done with.
    pub(crate) fn forward(&mut self, cells: &[Cell], out: &mut Outputs<'_>, now: Time) -> usize {
        let mut n = cells.len();
        let mut to_frames = false;
        for branch in &self.branches {
            let port = branch.port.into();
            match out.carries(port) {
                Some(Carries::Cells) if out.waits(port) => n = n.min(out.cells_out(port).len()),
                Some(Carries::Frames) => to_frames = true,
                _ => {}
            }
        }
        let mut cells = &cells[..n];
        if to_frames {
            // A frame port that would have room next round holds the input where a PDU ends.
            let used = self.forward_as_frames(cells, out, now);
            cells = &cells[..used];
        }
        count_cells(&mut self.received, cells);
        for branch in &mut self.branches {
            match out.carries(branch.port.into()) {
                Some(Carries::Cells) => branch.send_cells(cells, out),
                Some(Carries::Frames) => {}
                None => branch.sent.drop_n(DropReason::LinkDown, cells.len() as u64),
            }
        }
        cells.len()
    }

    fn forward_as_frames(&mut self, cells: &[Cell], out: &mut Outputs<'_>, now: Time) -> usize {
        match (self.aal, self.label) {
            (Aal::Aal0, _) => {
                for cell in cells {
                    self.forward_cell_as_frame(cell, out);
                }
                cells.len()
            }
            // The cells of a path are of many channels, each of which would need a reassembler.
            (Aal::Aal5 | Aal::Aal34, Label::Vp(_)) => {
                self.received.drop_n(DropReason::WrongAal, cells.len() as u64);
                cells.len()
            }
            (Aal::Aal5, Label::Vc(_)) => {
                let mut reassembly = self.reassembly.take().unwrap_or_else(|| Reassembly::new(out.pool()));
                let used = reassembly.push(cells, out, now, &mut self.branches, &mut self.received);
                self.reassembly = Some(reassembly);
                used
            }
            (Aal::Aal34, Label::Vc(_)) => {
                let mut interleaved = self.interleaved.take().unwrap_or_else(|| Interleaved::new(out.pool()));
                let used = interleaved.push(cells, out, now, &mut self.branches, &mut self.received);
                self.interleaved = Some(interleaved);
                used
            }
        }
    }

    fn forward_cell_as_frame(&mut self, cell: &Cell, out: &mut Outputs<'_>) {
        for branch in &mut self.branches {
            let port = branch.port.into();
            if out.carries(port) != Some(Carries::Frames) {
                continue;
            }
            let mut copy = *cell;
            copy.set_header_word(branch.label.translate(cell.header_word()));
            let frame = convert::frame_of_cell(&copy, out.pool_mut());
            match frame.map(|f| out.put_frame(port, f)) {
                Some(Ok(())) => count_cells(&mut branch.sent, &[*cell]),
                Some(Err(frame)) => {
                    out.pool_mut().release(frame);
                    branch.sent.drop_one(DropReason::QueueFull);
                    out.count_drops(port, DropReason::QueueFull, 1);
                }
                None => branch.sent.drop_one(DropReason::NoBuffer),
            }
        }
    }

    /// Sends a cell that is no user data to all branches, whatever they carry.
    pub(crate) fn forward_special(&mut self, cell: &Cell, out: &mut Outputs<'_>) {
        count_cells(&mut self.received, &[*cell]);
        self.forward_cell_as_frame(cell, out);
        for branch in &mut self.branches {
            if out.carries(branch.port.into()) == Some(Carries::Cells) {
                branch.send_cells(&[*cell], out);
            }
        }
    }

    /// Sends a frame to all branches, as far as there is room. True if anything was sent or dropped.
    pub(crate) fn forward_frame(&mut self, pending: &mut Pending, io: &mut NodeIo<'_>) -> bool {
        if !pending.counted {
            pending.counted = true;
            match pending.frame.aal {
                Aal::Aal5 | Aal::Aal34 => {
                    self.received.pdus += 1;
                    self.received.octets += pending.frame.len() as u64;
                }
                Aal::Aal0 => self.received.cells += 1,
            }
        }
        let mut busy = false;
        while let Some(branch) = self.branches.get_mut(pending.branch) {
            match convert::send_frame(branch, pending, io) {
                Sent::Wait => return busy,
                Sent::Some => return true,
                Sent::Done => {}
            }
            busy = true;
            pending.next_branch();
        }
        pending.finish();
        true
    }

    /// Gives up one PDU whose next cell is overdue; call again until there is none.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> Option<Frame> {
        let of_aal5 = self.reassembly.as_mut().and_then(|r| r.handle_timeout(now, &mut self.received));
        of_aal5.or_else(|| self.interleaved.as_mut()?.handle_timeout(now, &mut self.received))
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let of_aal5 = self.reassembly.as_ref().and_then(|r| r.poll_timeout());
        of_aal5.into_iter().chain(self.interleaved.as_ref().and_then(|i| i.poll_timeout())).min()
    }
}

impl BranchInfo {
    fn send_cells(&mut self, cells: &[Cell], out: &mut Outputs<'_>) {
        let port = self.port.into();
        let mut rest = cells;
        while !rest.is_empty() {
            let room = out.cells_out(port);
            if room.is_empty() {
                let n = rest.len() as u64;
                self.sent.drop_n(DropReason::QueueFull, n);
                out.count_drops(port, DropReason::QueueFull, n);
                break;
            }
            let n = room.len().min(rest.len());
            for (slot, cell) in room.iter_mut().zip(rest) {
                *slot = *cell;
                slot.set_header_word(self.label.translate(cell.header_word()));
            }
            out.commit(port, n);
            rest = &rest[n..];
        }
        count_cells(&mut self.sent, &cells[..cells.len() - rest.len()]);
    }
}
