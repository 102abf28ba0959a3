//! Conversion between cell ports and frame ports of a switch, by `sar`.

use super::route::BranchInfo;
use crate::frame::{AAL0_FRAME_OCTETS, Aal, Frame, FramePool};
use crate::node::{Carries, NodeIo, Outputs};
use sar::{Event, Reassembler, ReassemblyConfig, SduMeta, Segmentation, aal34};
use std::time::Duration;
use wire::{Cell, CellHeader, CircuitId, Counters, DropReason, PayloadType, Time};

/// How long a switch waits for the next cell of a PDU that it reassembles.
pub(super) const REASSEMBLY_TIMEOUT: Duration = Duration::from_secs(5);

/// The cell in an AAL0 frame, under the frame's circuit.
pub(crate) fn cell_of_frame(frame: &Frame, octets: &[u8]) -> Option<Cell> {
    let (header, payload) = octets.split_first_chunk::<4>()?;
    let payload: [u8; 48] = payload.try_into().ok()?;
    let header = CellHeader { circuit: frame.circuit, ..CellHeader::from_word(u32::from_be_bytes(*header)) };
    Some(Cell::new(header, payload))
}

/// A cell as an AAL0 frame; `None` if the pool has no buffer.
pub(crate) fn frame_of_cell(cell: &Cell, pool: &mut FramePool) -> Option<Frame> {
    let mut octets = [0; AAL0_FRAME_OCTETS];
    octets[..4].copy_from_slice(&cell.header_word().to_be_bytes());
    octets[4..].copy_from_slice(&cell.payload);
    pool.copy_in(cell.circuit(), Aal::Aal0, SduMeta::default(), &octets)
}

/// Sends a cell at a frame port; false if there is no buffer or no room.
pub(crate) fn put_cell_as_frame(cell: &Cell, port: usize, io: &mut NodeIo<'_>) -> bool {
    let Some(frame) = frame_of_cell(cell, io.pool_mut()) else { return false };
    match io.put_frame(port, frame) {
        Ok(()) => true,
        Err(frame) => {
            io.pool_mut().release(frame);
            false
        }
    }
}

/// A frame that goes to the branches of its route one after the other, to cell ports as room allows.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) frame: Frame,
    pub(crate) branch: usize,
    pub(crate) counted: bool,
    segmentation: Option<Segments>,
    done: bool,
}

/// Its cells.
#[derive(Debug)]
enum Segments {
    Aal5(Segmentation),
    Aal34(aal34::Segmentation),
}

impl Segments {
    /// `None`: an SDU that no PDU can carry.
    fn begin(frame: &Frame, circuit: CircuitId, tag: &mut u8) -> Option<Self> {
        if frame.aal == Aal::Aal34 {
            let mut sender = aal34::Sender::new(circuit, 0).ok()?.with_tag(*tag);
            *tag = tag.wrapping_add(1);
            return sender.begin(frame.len(), frame.meta).ok().map(Segments::Aal34);
        }
        Segmentation::new(circuit, frame.len(), frame.meta).ok().map(Segments::Aal5)
    }

    fn fill(&mut self, sdu: &[u8], out: &mut [Cell]) -> usize {
        match self {
            Segments::Aal5(segmentation) => segmentation.fill(sdu, out),
            Segments::Aal34(segmentation) => segmentation.fill(sdu, out),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Segments::Aal5(segmentation) => segmentation.is_done(),
            Segments::Aal34(segmentation) => segmentation.is_done(),
        }
    }
}

/// How far a frame has come at one branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Sent or dropped.
    Done,
    /// Some cells of it; the rest when there is room.
    Some,
    /// Nothing; no room.
    Wait,
}

impl Pending {
    pub(crate) fn new(frame: Frame) -> Self {
        Pending { frame, branch: 0, counted: false, segmentation: None, done: false }
    }

    pub(crate) fn circuit(&self) -> CircuitId {
        self.frame.circuit
    }

    pub(crate) fn next_branch(&mut self) {
        self.branch += 1;
        self.segmentation = None;
    }

    pub(crate) fn finish(&mut self) {
        self.done = true;
    }

    /// Gives the buffer back if the frame is done with.
    pub(crate) fn or_release(self, io: &mut NodeIo<'_>) -> Option<Self> {
        if !self.done {
            return Some(self);
        }
        io.pool_mut().release(self.frame);
        None
    }
}

/// Sends `pending` to one branch.
pub(crate) fn send_frame(branch: &mut BranchInfo, pending: &mut Pending, io: &mut NodeIo<'_>) -> Sent {
    let port = branch.port.into();
    let circuit = branch.label.translate_circuit(pending.frame.circuit);
    let mut drop = |io: &mut NodeIo<'_>, reason| {
        branch.sent.drop_one(reason);
        io.count_drops(port, reason, 1);
        Sent::Done
    };
    let Some(carries) = io.carries(port) else { return drop(io, DropReason::LinkDown) };
    let (waits, room) = (io.waits(port), io.room(port));
    match (carries, pending.frame.aal) {
        (Carries::Frames, _) => {
            if room == 0 {
                return if waits { Sent::Wait } else { drop(io, DropReason::QueueFull) };
            }
            let mut copy = io.pool_mut().share(&pending.frame);
            copy.circuit = circuit;
            let aal = copy.aal;
            if let Err(frame) = io.put_frame(port, copy) {
                io.pool_mut().release(frame);
                return drop(io, DropReason::QueueFull);
            }
            count_frame(&mut branch.sent, aal, pending.frame.len());
            Sent::Done
        }
        (Carries::Cells, Aal::Aal0) => {
            let Some(cell) = cell_of_frame(&pending.frame, io.pool().octets(&pending.frame)) else {
                return drop(io, DropReason::Malformed);
            };
            let mut cell = cell;
            cell.set_header(CellHeader { circuit, ..cell.header() });
            if room == 0 && waits {
                return Sent::Wait;
            }
            if !io.put_cell(port, &cell) {
                return drop(io, DropReason::QueueFull);
            }
            count_frame(&mut branch.sent, Aal::Aal0, 0);
            Sent::Done
        }
        (Carries::Cells, Aal::Aal5 | Aal::Aal34) => {
            if pending.segmentation.is_none() {
                // A PDU of which a part would be dropped is dropped whole: the rest would only load the link.
                if !waits && (room as u64) < pending.frame.cells() {
                    return drop(io, DropReason::QueueFull);
                }
                match Segments::begin(&pending.frame, circuit, &mut branch.tag) {
                    Some(segments) => pending.segmentation = Some(segments),
                    None => return drop(io, DropReason::Oversize),
                }
            }
            let Some(segmentation) = &mut pending.segmentation else { return Sent::Done };
            let mut any = false;
            while !segmentation.is_done() {
                let n = io.write_cells(port, &pending.frame, |sdu, out| segmentation.fill(sdu, out));
                branch.sent.cells += n as u64;
                if n == 0 {
                    return if any { Sent::Some } else { Sent::Wait };
                }
                any = true;
            }
            branch.sent.pdus += 1;
            branch.sent.octets += pending.frame.len() as u64;
            Sent::Done
        }
    }
}

fn count_frame(counters: &mut Counters, aal: Aal, octets: usize) {
    match aal {
        Aal::Aal5 | Aal::Aal34 => {
            counters.pdus += 1;
            counters.octets += octets as u64;
        }
        Aal::Aal0 => {
            counters.cells += 1;
            counters.octets += 48;
        }
    }
}

/// A route's cells on their way into a frame.
#[derive(Debug)]
pub(crate) struct Reassembly {
    reassembler: Reassembler,
    frame: Option<Frame>,
}

impl Reassembly {
    pub(crate) fn new(pool: &FramePool) -> Box<Self> {
        let max_sdu_octets = pool.buffer_octets().min(65_535);
        let config =
            ReassemblyConfig { max_sdu_octets, timeout: Some(REASSEMBLY_TIMEOUT), ..ReassemblyConfig::default() };
        Box::new(Reassembly { reassembler: Reassembler::new(config), frame: None })
    }

    pub(crate) fn into_frame(self) -> Option<Frame> {
        self.frame
    }

    /// Takes cells until they are used up, or a PDU's last cell would make a frame that has to wait. Returns how many.
    pub(crate) fn push(
        &mut self,
        cells: &[Cell],
        out: &mut Outputs<'_>,
        now: Time,
        branches: &mut [BranchInfo],
        received: &mut Counters,
    ) -> usize {
        let mut used = 0;
        while used < cells.len() {
            let rest = &cells[used..];
            // One PDU at most: no frame may appear that has no room.
            let end = |c: &Cell| matches!(c.header().payload_type, PayloadType::User { end: true, .. });
            let pdu = rest.iter().position(end).map_or(rest.len(), |i| i + 1);
            if have_to_wait(branches, out) {
                return used;
            }
            let rest = &rest[..pdu];
            if self.frame.is_none() && self.reassembler.needs_buffer() {
                let octets = out.pool().buffer_octets();
                self.frame = out.pool_mut().allocate(rest[0].circuit(), Aal::Aal5, SduMeta::default(), octets);
            }
            let step = match self.frame.as_ref().and_then(|f| out.pool_mut().octets_mut(f)) {
                Some(buffer) => self.reassembler.push(rest, buffer, now),
                None => self.reassembler.skip(rest, now),
            };
            used += step.cells_used;
            match step.event {
                Event::NeedMore => {}
                Event::Failed(reason) => {
                    received.drop_one(reason);
                    if let Some(frame) = self.frame.take() {
                        out.pool_mut().release(frame);
                    }
                }
                Event::Complete { sdu_octets, meta } => {
                    if let Some(mut frame) = self.frame.take() {
                        frame.truncate(sdu_octets);
                        frame.meta = meta;
                        deliver(&frame, branches, out);
                        out.pool_mut().release(frame);
                    }
                }
            }
            if step.cells_used == 0 && matches!(step.event, Event::NeedMore) {
                // Cannot happen with cells at hand; going on would not end.
                break;
            }
        }
        used
    }

    /// Gives up a PDU whose next cell is overdue, and its frame with it.
    pub(crate) fn handle_timeout(&mut self, now: Time, received: &mut Counters) -> Option<Frame> {
        let reason = self.reassembler.handle_timeout(now)?;
        received.drop_one(reason);
        self.frame.take()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.reassembler.poll_timeout()
    }
}

/// Whether a frame port would have room in the next round: the input waits for it.
pub(super) fn have_to_wait(branches: &[BranchInfo], out: &Outputs<'_>) -> bool {
    branches.iter().any(|b| {
        let port = b.port.into();
        out.carries(port) == Some(Carries::Frames) && out.waits(port) && out.room(port) == 0
    })
}

pub(super) fn deliver(frame: &Frame, branches: &mut [BranchInfo], out: &mut Outputs<'_>) {
    for branch in branches {
        let port = branch.port.into();
        if out.carries(port) != Some(Carries::Frames) {
            continue;
        }
        let mut copy = out.pool_mut().share(frame);
        copy.circuit = branch.label.translate_circuit(frame.circuit);
        match out.put_frame(port, copy) {
            Ok(()) => count_frame(&mut branch.sent, frame.aal, frame.len()),
            Err(copy) => {
                out.pool_mut().release(copy);
                branch.sent.drop_one(DropReason::QueueFull);
                out.count_drops(port, DropReason::QueueFull, 1);
            }
        }
    }
}
