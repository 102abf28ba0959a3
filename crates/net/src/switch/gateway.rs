//! The gateway between the cell switch and a port whose link carries frames.
//!
//! Frames that come in are segmented whole, and the cell switch takes their cells at once, under the labels of that
//! moment. Cells that leave are reassembled, a circuit at a time, into frames of the pool. Unfinished PDUs of one port
//! hold at most half as many frames as are free for all. Where one more is wanted, one that begins is refused or an
//! older one gives its frame up ([`super::pdu_slots`]); either is dropped when its end comes.

use super::interleaved::Interleaved;
use super::pdu_slots::{NOWHERE, PduSlots};
use super::route::{REASSEMBLY_TIMEOUT, put_frame, send_frame};
use crate::frame::{AAL0_FRAME_OCTETS, Frame, FrameAal, FramePool, translate};
use crate::line::ends_pdu;
use crate::node::NodeIo;
use sar::{Event, Reassembler, ReassemblyConfig, SduMeta, Segmentation, aal34};
use std::collections::VecDeque;
use wire::aal5::Trailer;
use wire::{Cell, CellHeader, CircuitId, Counters, DropReason, Label, Time};

/// The cell in an AAL0 frame, under the frame's circuit.
pub(super) fn cell_of_frame(frame: &Frame, octets: &[u8]) -> Option<Cell> {
    let (header, payload) = octets.split_first_chunk::<4>()?;
    let payload: [u8; 48] = payload.try_into().ok()?;
    let header = CellHeader { circuit: frame.circuit, ..CellHeader::from_word(u32::from_be_bytes(*header)) };
    Some(Cell::new(header, payload))
}

/// Whether a cell ends a PDU of AAL5 that its sender gives up (I.363.5: a length of 0).
pub(super) fn gives_up(cell: &Cell) -> bool {
    let trailer = cell.payload.last_chunk().map(|octets| Trailer::from_octets(*octets));
    ends_pdu(cell.header_word()) && trailer.is_some_and(|trailer| trailer.length == 0)
}

/// A cell as an AAL0 frame; `None` if the pool has no buffer.
fn frame_of_cell(cell: &Cell, pool: &mut FramePool) -> Option<Frame> {
    let mut octets = [0; AAL0_FRAME_OCTETS];
    octets[..4].copy_from_slice(&cell.header_word().to_be_bytes());
    octets[4..].copy_from_slice(&cell.payload);
    pool.copy_in(cell.circuit(), FrameAal::Aal0, SduMeta::default(), &octets)
}

/// Writes all cells of a frame into `cells`; false if no PDU can carry its SDU.
pub(super) fn segment(frame: &Frame, sdu: &[u8], tag: &mut u8, cells: &mut Vec<Cell>) -> bool {
    cells.resize(frame.cells() as usize, Cell::default());
    let filled = if frame.aal == FrameAal::Aal34 {
        let sender = aal34::Sender::new(frame.circuit, 0).ok().map(|sender| sender.with_tag(*tag));
        *tag = tag.wrapping_add(1);
        let begun = sender.and_then(|mut sender| sender.begin(frame.len(), frame.meta).ok());
        begun.map(|mut begun| begun.fill(sdu, cells))
    } else {
        Segmentation::new(frame.circuit, frame.len(), frame.meta).ok().map(|mut begun| begun.fill(sdu, cells))
    };
    cells.truncate(filled.unwrap_or_default());
    filled.is_some()
}

/// A circuit that leaves by a frame port.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) label: Label,
    /// The element's number of its route.
    pub(super) route: u32,
    /// The port that it comes in at.
    from: u16,
    aal: FrameAal,
    aal5: Option<Box<Aal5>>,
    aal34: Option<Box<Interleaved>>,
    /// Its place among those that hold frames.
    place: u32,
    /// It is in the queue of deadlines.
    timed: bool,
}

// Each call has two; a PDU that has begun takes memory of its own.
const _: () = assert!(size_of::<Leaving>() <= 40);

#[derive(Debug)]
struct Aal5 {
    reassembler: Reassembler<()>,
    frame: Option<Frame>,
    /// PDUs that have begun.
    begun: u64,
}

impl Leaving {
    pub(super) fn new(label: Label, route: u32, from: u16, aal: FrameAal) -> Self {
        Leaving { label, route, from, aal, aal5: None, aal34: None, place: NOWHERE, timed: false }
    }

    /// Frames of unfinished PDUs.
    fn held(&self) -> usize {
        let aal5 = self.aal5.as_ref().is_some_and(|aal5| aal5.frame.is_some());
        usize::from(aal5) + self.aal34.as_ref().map_or(0, |aal34| aal34.held())
    }

    /// Gives all frames of unfinished PDUs back.
    fn give_up(&mut self, pool: &mut FramePool) {
        let of_aal5 = self.aal5.as_mut().and_then(|aal5| aal5.frame.take());
        let of_aal34 = self.aal34.iter_mut().flat_map(|aal34| aal34.take_frames());
        of_aal5.into_iter().chain(of_aal34).for_each(|frame| pool.release(frame));
    }

    /// Gives the frame of one unfinished PDU back to the pool. The reassembler still follows the PDU's cells, and drops
    /// the PDU at its last cell or at its time-out.
    fn give_up_oldest(&mut self, pool: &mut FramePool) {
        let of_aal5 = self.aal5.as_mut().and_then(|aal5| aal5.frame.take());
        let frame = of_aal5.or_else(|| self.aal34.as_mut().and_then(|aal34| aal34.take_oldest()));
        frame.into_iter().for_each(|frame| pool.release(frame));
    }

    /// PDUs that have begun here, cells that belong to none among them, and PDUs that have not ended.
    pub(super) fn pdus(&self) -> (u64, u64) {
        let (begun, open) = self.aal34.as_ref().map_or((0, 0), |aal34| aal34.pdus());
        let of_aal5 = self.aal5.as_ref().map_or((0, 0), |aal5| (aal5.begun, aal5.open()));
        (begun + of_aal5.0, open + of_aal5.1)
    }

    fn poll_timeout(&self) -> Option<Time> {
        let of_aal5 = self.aal5.as_ref().and_then(|aal5| aal5.reassembler.poll_timeout());
        of_aal5.into_iter().chain(self.aal34.as_ref().and_then(|aal34| aal34.poll_timeout())).min()
    }
}

/// One port's gateway, in use while its link carries frames.
#[derive(Debug, Default)]
pub(super) struct Gateway {
    pub(super) leaving: Vec<Option<Box<Leaving>>>,
    free: Vec<u32>,
    /// Circuits whose PDUs may time out, by the time of which they were put here: all wait equally long.
    timers: VecDeque<(Time, u32)>,
    /// Circuits that hold frames of unfinished PDUs.
    pdu_slots: PduSlots,
    /// Those whose route is gone, to be given back, and their frames.
    orphans: Vec<Leaving>,
    orphaned: usize,
}

/// A circuit whose cells are being taken, as its PDUs ask for frames.
#[derive(Debug)]
struct Seat<'a> {
    gateway: &'a mut Gateway,
    place: &'a mut u32,
    /// The circuit's number, and the port that it comes in at.
    of: (u32, u16),
    now: Time,
}

impl Seat<'_> {
    /// Whether a PDU that begins may take a frame, while the circuit holds `held`. One whose end is at hand
    /// (`is_whole`) does not hold it, and takes none from others.
    fn admit(&mut self, held: usize, pool: &mut FramePool, is_whole: impl FnOnce() -> bool) -> bool {
        let Gateway { leaving, pdu_slots, orphaned, .. } = &mut *self.gateway;
        *self.place = pdu_slots.note(*self.place, self.of, held, self.now);
        if pdu_slots.frames() + *orphaned >= (pool.free() / 2).max(1) {
            if is_whole() {
                return true;
            }
            // The circuit's own PDUs are not among those that have been silent.
            let victim = pdu_slots.victim(self.of.1, self.now).and_then(|at| leaving[at as usize].as_mut());
            let Some(victim) = victim else { return false };
            victim.give_up_oldest(pool);
            victim.place = pdu_slots.lessen(victim.place, victim.held());
        }
        *self.place = pdu_slots.note(*self.place, self.of, held + 1, self.now);
        true
    }
}

impl Gateway {
    pub(super) fn add(&mut self, leaving: Leaving) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.leaving[at as usize] = Some(Box::new(leaving));
                at
            }
            None => {
                self.leaving.push(Some(Box::new(leaving)));
                self.leaving.len() as u32 - 1
            }
        }
    }

    pub(super) fn remove(&mut self, at: u32) {
        if let Some(mut leaving) = self.leaving.get_mut(at as usize).and_then(Option::take) {
            leaving.place = self.pdu_slots.lessen(leaving.place, 0);
            self.orphaned += leaving.held();
            self.orphans.push(*leaving);
            self.free.push(at);
        }
    }

    /// Whether removed routes have left something.
    pub(super) fn has_orphans(&self) -> bool {
        !self.orphans.is_empty()
    }

    /// Whether there is memory to be given back when it is dropped.
    pub(super) fn owns_memory(&self) -> bool {
        self.leaving.capacity() + self.orphans.capacity() > 0
    }

    /// Takes over what the removed routes of another port have left.
    pub(super) fn adopt(&mut self, other: &mut Gateway) {
        self.orphaned += std::mem::take(&mut other.orphaned);
        self.orphans.append(&mut other.orphans);
    }

    /// Gives back what removed routes have left; how many PDUs had not ended.
    #[must_use]
    pub(super) fn release_orphans(&mut self, pool: &mut FramePool) -> u64 {
        let mut lost = 0;
        for mut orphan in std::mem::take(&mut self.orphans) {
            lost += orphan.pdus().1;
            orphan.give_up(pool);
        }
        self.orphaned = 0;
        lost
    }

    /// Takes cells of the circuit `at`, under the label that they leave by; sends what they complete at `port`. At most
    /// as many frames come of it as there are cells. Gives how many cells were dropped alone, as parts of no PDU.
    pub(super) fn push(
        &mut self,
        at: u32,
        cells: &[Cell],
        port: usize,
        io: &mut NodeIo<'_>,
        now: Time,
        counters: (&mut Counters, &mut Counters),
    ) -> u64 {
        let (sent, received) = counters;
        // Out of the list meanwhile: its PDUs may take frames from those of others.
        let Some(mut leaving) = self.leaving.get_mut(at as usize).and_then(Option::take) else { return 0 };
        let alone = self.push_to(&mut leaving, at, cells, (port, now), io, (sent, received));
        self.leaving[at as usize] = Some(leaving);
        alone
    }

    fn push_to(
        &mut self,
        leaving: &mut Leaving,
        at: u32,
        cells: &[Cell],
        (port, now): (usize, Time),
        io: &mut NodeIo<'_>,
        (sent, received): (&mut Counters, &mut Counters),
    ) -> u64 {
        let of = (at, leaving.from);
        match (leaving.aal, leaving.label) {
            (FrameAal::Aal0, _) => {
                cells.iter().for_each(|cell| send_cell(cell, port, io, sent));
                return sent.dropped_total();
            }
            // The cells of a path are of many channels, each of which would need a reassembler.
            (FrameAal::Aal5 | FrameAal::Aal34, Label::Vp(_)) => {
                received.drop_n(DropReason::WrongAal, cells.len() as u64);
                return cells.len() as u64;
            }
            (FrameAal::Aal34, Label::Vc(_)) => {
                let aal34 = leaving.aal34.get_or_insert_with(|| Interleaved::new(io.pool()));
                let mut seat = Seat { gateway: self, place: &mut leaving.place, of, now };
                let admit = |held, pool: &mut FramePool| seat.admit(held, pool, || false);
                aal34.push(cells, io, (port, now), admit, (sent, received));
            }
            (FrameAal::Aal5, Label::Vc(_)) => {
                let aal5 = leaving.aal5.get_or_insert_with(|| Aal5::new(io.pool()));
                let mut seat = Seat { gateway: self, place: &mut leaving.place, of, now };
                aal5.push(cells, io, port, &mut seat, (sent, received));
            }
        }
        let held = leaving.held();
        leaving.place = self.pdu_slots.note(leaving.place, of, held, now);
        if held > 0 && !leaving.timed {
            leaving.timed = true;
            self.timers.push_back((now + REASSEMBLY_TIMEOUT, at));
        }
        0
    }

    /// When [`Gateway::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.timers.front().map(|(at, _)| *at)
    }

    /// Gives up PDUs whose next cells are overdue; `lost` counts at their routes.
    pub(super) fn handle_timeout(&mut self, now: Time, pool: &mut FramePool, mut lost: impl FnMut(u32, DropReason)) {
        while let Some((due, at)) = self.timers.front().copied()
            && due <= now
        {
            self.timers.pop_front();
            let Some(leaving) = self.leaving[at as usize].as_mut().filter(|leaving| leaving.timed) else { continue };
            let route = leaving.route;
            if let Some(aal5) = &mut leaving.aal5
                && let Some(reason) = aal5.reassembler.handle_timeout(now)
            {
                lost(route, reason);
                if let Some(frame) = aal5.frame.take() {
                    pool.release(frame);
                }
            }
            let mut counters = Counters::default();
            while let Some(ended) = leaving.aal34.as_mut().and_then(|a| a.handle_timeout(now, &mut counters)) {
                ended.into_iter().for_each(|frame| pool.release(frame));
            }
            leaving.place = self.pdu_slots.lessen(leaving.place, leaving.held());
            for (reason, n) in counters.drops() {
                (0..n).for_each(|_| lost(route, reason));
            }
            leaving.timed = leaving.poll_timeout().is_some();
            if leaving.timed {
                // Cells have come meanwhile.
                self.timers.push_back((now + REASSEMBLY_TIMEOUT, at));
            }
        }
    }
}

impl Aal5 {
    fn new(pool: &FramePool) -> Box<Self> {
        let max_sdu_octets = pool.buffer_octets().min(65_535);
        let config =
            ReassemblyConfig { max_sdu_octets, timeout: Some(REASSEMBLY_TIMEOUT), ..ReassemblyConfig::default() };
        Box::new(Aal5 { reassembler: Reassembler::uncounted(config), frame: None, begun: 0 })
    }

    /// PDUs that have begun and not ended.
    fn open(&self) -> u64 {
        u64::from(!self.reassembler.needs_buffer())
    }

    fn push(
        &mut self,
        mut cells: &[Cell],
        io: &mut NodeIo<'_>,
        port: usize,
        seat: &mut Seat<'_>,
        (sent, received): (&mut Counters, &mut Counters),
    ) {
        let now = seat.now;
        while let Some(first) = cells.first() {
            if self.frame.is_none() && self.reassembler.needs_buffer() {
                let octets = io.pool().buffer_octets();
                let is_whole = || cells.iter().any(|cell| ends_pdu(cell.header_word()));
                if seat.admit(0, io.pool_mut(), is_whole) {
                    self.frame = io.pool_mut().allocate(first.circuit(), FrameAal::Aal5, SduMeta::default(), octets);
                }
            }
            let begins = self.reassembler.needs_buffer();
            let step = match self.frame.as_ref().and_then(|frame| io.pool_mut().octets_mut(frame)) {
                Some(buffer) => self.reassembler.push(cells, buffer, now),
                None => self.reassembler.skip(cells, now),
            };
            cells = &cells[step.cells_used..];
            self.begun += u64::from(begins && step.cells_used > 0);
            match (step.event, self.frame.take_if(|_| !matches!(step.event, Event::NeedMore))) {
                (Event::NeedMore, _) => {
                    if step.cells_used == 0 {
                        // Cannot happen with cells at hand; going on would not end.
                        break;
                    }
                }
                (Event::Failed(reason), frame) => {
                    received.drop_one(reason);
                    if let Some(frame) = frame {
                        io.pool_mut().release(frame);
                    }
                }
                (Event::Complete { .. }, None) => received.drop_one(DropReason::NoBuffer),
                (Event::Complete { sdu_octets, meta }, Some(mut frame)) => {
                    frame.truncate(sdu_octets);
                    frame.meta = meta;
                    send_frame(frame, port, io, sent);
                }
            }
        }
    }
}

/// Sends a cell as a frame, or drops and counts it.
pub(super) fn send_cell(cell: &Cell, port: usize, io: &mut NodeIo<'_>, sent: &mut Counters) {
    match frame_of_cell(cell, io.pool_mut()) {
        Some(frame) => send_frame(frame, port, io, sent),
        None => {
            sent.drop_one(DropReason::NoBuffer);
            io.count_drops(port, DropReason::NoBuffer, 1);
        }
    }
}

/// Sends a copy of a frame under another circuit; gives what is to be counted there.
pub(super) fn send_copy(
    frame: &Frame,
    label: Label,
    circuit: CircuitId,
    port: usize,
    io: &mut NodeIo<'_>,
) -> Result<[u64; 3], DropReason> {
    let mut copy = io.pool_mut().share(frame);
    copy.circuit = translate(label, circuit);
    put_frame(copy, port, io)
}
