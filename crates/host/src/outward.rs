//! How SDUs and cells leave: from where the data path has them into a link's cells or frames.

use crate::circuit::{Before, Circuit, NOT_USER};
use crate::outbound::{Class, Leaving, Outgoing};
use endpoint::Aal;
use net::{Carries, FrameAal, NodeIo};
use sar::aal0;
use wire::oam::Flow;
use wire::{Cell, Time};

/// What left of an SDU in one step.
pub(crate) struct Sent {
    /// Cells, or a frame's worth of them.
    pub(crate) cells: usize,
    /// It has left whole.
    pub(crate) done: bool,
    /// Nothing left, for the circuit's contract, before this moment.
    pub(crate) paced: Option<Time>,
}

impl Sent {
    pub(crate) const NOTHING: Sent = Sent { cells: 0, done: false, paced: None };

    const fn some(cells: usize, done: bool) -> Self {
        Sent { cells, done, paced: None }
    }

    fn paced(circuit: &Circuit) -> Self {
        Sent { paced: circuit.pacer.as_ref().map(|pacer| pacer.next_time()), ..Sent::NOTHING }
    }
}

pub(crate) fn send_cells(
    leaving: &mut Leaving,
    path: &crate::path::Path,
    segment: &endpoint::segment::Segment,
    circuit: &mut Circuit,
    io: &mut NodeIo<'_>,
    most: usize,
    now: Time,
) -> Sent {
    let port = usize::from(circuit.config.port);
    let most = circuit.pacer.as_ref().map_or(most, |p| p.allowed(now, most));
    if most == 0 {
        return Sent::paced(circuit);
    }
    let is_user = leaving.channel.aal != Aal::Oam;
    let most = match is_user.then(|| circuit.before_user_cells(io, most, now)) {
        None => most,
        Some(Before::Cells(most)) => most,
        Some(Before::Paced) => return Sent::paced(circuit),
        Some(Before::Full) => 0,
    };
    let room = io.cells_out(port).len().min(most);
    if room == 0 {
        return Sent::NOTHING;
    }
    let source = &leaving.source;
    let (cells, done) = match &mut leaving.cells {
        Outgoing::Aal5(segmentation) => {
            let out = &mut io.cells_out(port)[..room];
            let n = path.fill(source, segment, segmentation, out);
            let done = segmentation.is_done();
            circuit.note_sent(&io.cells_out(port)[..n], now);
            io.commit_pdus(port, n, u64::from(done && n > 0));
            (n, done)
        }
        Outgoing::Aal34(begun) => {
            if begun.is_none() {
                *begun = circuit.begin_aal34(leaving.octets, leaving.meta);
            }
            // A channel of AAL3/4 has found its circuit ready for it.
            let Some(segmentation) = begun else { return Sent::some(1, true) };
            let out = &mut io.cells_out(port)[..room];
            let n = segmentation.fill_with(|at, part| path.read_at(source, segment, at, part), out);
            let done = segmentation.is_done();
            circuit.note_sent(&io.cells_out(port)[..n], now);
            io.commit(port, n);
            (n, done)
        }
        Outgoing::Cell => {
            let mut message = [0; wire::octets::CELL52_OCTETS];
            path.read(source, segment, &mut message);
            let Some(cell) = message_cell(&message, leaving) else { return Sent::some(1, true) };
            io.cells_out(port)[0] = cell;
            if is_user {
                circuit.note_sent(&[cell], now);
            }
            io.commit(port, 1);
            (1, true)
        }
    };
    if let Some(pacer) = &mut circuit.pacer {
        pacer.sent(cells, now);
    }
    Sent::some(cells, done)
}

/// A message as a cell of its channel's circuit. On a data channel it is a user cell whatever its header says (resource
/// management and reserved payload types included), on an OAM channel an OAM cell; else an application could write into
/// flows that are not its own.
fn message_cell(message: &[u8], leaving: &Leaving) -> Option<Cell> {
    let mut cell = aal0::to_cell(message, leaving.channel.circuit)?;
    let header = cell.header();
    let is_oam = Flow::of(header).is_some();
    if leaving.channel.aal == Aal::Oam && !is_oam {
        cell.set_header(Flow::F5EndToEnd.header(header));
    } else if leaving.channel.aal != Aal::Oam && (is_oam || cell.header_word() & NOT_USER != 0) {
        cell.set_header(wire::CellHeader { payload_type: wire::PayloadType::default(), ..header });
    }
    Some(cell)
}

pub(crate) fn send_frame(
    leaving: &mut Leaving,
    path: &crate::path::Path,
    segment: &endpoint::segment::Segment,
    circuit: &mut Circuit,
    io: &mut NodeIo<'_>,
    now: Time,
) -> Sent {
    let port = usize::from(circuit.config.port);
    // A frame leaves at once and is charged for the cells that it would fill: its successor waits for all of them.
    if circuit.pacer.as_ref().is_some_and(|pacer| pacer.allowed(now, 1) == 0) {
        return Sent::paced(circuit);
    }
    let promised = circuit.class() == Class::Reserved;
    if (if promised { io.promised_room(port) } else { io.room(port) }) == 0 {
        return Sent::NOTHING;
    }
    let aal = match leaving.channel.aal {
        Aal::Aal5 => FrameAal::Aal5,
        Aal::Aal34 => FrameAal::Aal34,
        Aal::Aal0 | Aal::Oam => FrameAal::Aal0,
    };
    let Some(frame) = io.pool_mut().allocate(circuit.id, aal, leaving.meta, leaving.octets) else {
        return Sent::NOTHING;
    };
    let cells = frame.cells() as usize;
    if let Some(into) = io.pool_mut().octets_mut(&frame) {
        path.read(&leaving.source, segment, into);
        if aal == FrameAal::Aal0 {
            match message_cell(into, leaving) {
                Some(cell) => into.copy_from_slice(&aal0::to_message(&cell)),
                None => into.fill(0),
            }
        }
    }
    let put = if promised { io.put_promised_frame(port, frame) } else { io.put_frame(port, frame) };
    match put {
        Ok(()) => {
            if leaving.channel.aal != Aal::Oam {
                circuit.note_sent_frame(now);
            }
            if let Some(pacer) = &mut circuit.pacer {
                pacer.sent(cells, now);
            }
            Sent::some(cells, true)
        }
        Err(frame) => {
            io.pool_mut().release(frame);
            Sent::NOTHING
        }
    }
}

/// Sends one cell on whatever the link carries; false if there is no room.
pub(crate) fn send_cell(io: &mut NodeIo<'_>, port: usize, cell: &Cell) -> bool {
    match io.carries(port) {
        Some(Carries::Cells) => io.put_cell(port, cell),
        Some(Carries::Frames) => {
            if io.room(port) == 0 {
                return false;
            }
            let message = aal0::to_message(cell);
            let pool = io.pool_mut();
            let Some(frame) = pool.copy_in(cell.circuit(), FrameAal::Aal0, sar::SduMeta::default(), &message) else {
                return false;
            };
            match io.put_frame(port, frame) {
                Ok(()) => true,
                Err(frame) => {
                    io.pool_mut().release(frame);
                    false
                }
            }
        }
        None => true,
    }
}
