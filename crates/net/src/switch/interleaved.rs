//! A route's AAL3/4 cells on their way into frames: a frame for each PDU that is open, and no more than so many.

use super::route::{REASSEMBLY_TIMEOUT, send_frame};
use crate::frame::{Frame, FrameAal, FramePool};
use crate::node::NodeIo;
use sar::SduMeta;
use sar::aal34::{Event, Reassembler, ReassemblyConfig, Storage};
use wire::{Cell, CircuitId, Counters, DropReason, Time};

/// PDUs of one route that are open at once, at most.
const MAX_OPEN: usize = 16;

/// The PDUs of one route.
#[derive(Debug)]
pub(crate) struct Interleaved {
    reassembler: Reassembler,
    frames: Box<[Option<Frame>]>,
    /// PDUs that have ended, and cells that belong to none.
    ended: u64,
}

/// The frames as the reassembler writes them.
struct Frames<'a, A> {
    frames: &'a mut [Option<Frame>],
    pool: &'a mut FramePool,
    /// Whether there may be a frame more than so many.
    admit: A,
    circuit: CircuitId,
}

impl<A: FnMut(usize, &mut FramePool) -> bool> Storage for Frames<'_, A> {
    fn reserve(&mut self, slot: usize, _mid: u16, octets: usize) -> bool {
        let held = self.frames.iter().flatten().count();
        if !(self.admit)(held, self.pool) {
            return false;
        }
        self.frames[slot] = self.pool.allocate(self.circuit, FrameAal::Aal34, SduMeta::default(), octets);
        self.frames[slot].is_some()
    }

    fn write(&mut self, slot: usize, at: usize, part: &[u8]) {
        let octets = self.frames[slot].as_ref().and_then(|frame| self.pool.octets_mut(frame));
        if let Some(to) = octets.and_then(|octets| octets.get_mut(at..at + part.len())) {
            to.copy_from_slice(part);
        }
    }
}

impl Interleaved {
    pub(crate) fn new(pool: &FramePool) -> Box<Self> {
        let max_sdu_octets = pool.buffer_octets().min(sar::aal34::MAX_SDU_OCTETS);
        let config = ReassemblyConfig { max_open: MAX_OPEN, max_sdu_octets, timeout: Some(REASSEMBLY_TIMEOUT) };
        let frames = (0..MAX_OPEN).map(|_| None).collect();
        Box::new(Interleaved { reassembler: Reassembler::new(config), frames, ended: 0 })
    }

    /// The frames of unfinished PDUs.
    pub(crate) fn take_frames(&mut self) -> impl Iterator<Item = Frame> {
        self.frames.iter_mut().filter_map(Option::take)
    }

    /// The frame of the PDU that has been silent longest, of those that have theirs; the PDU goes without.
    pub(crate) fn take_oldest(&mut self) -> Option<Frame> {
        let frames = &mut self.frames;
        self.reassembler.open_slots().find_map(|slot| frames[slot].take())
    }

    /// PDUs that have begun, cells that belong to none among them, and PDUs that have not ended.
    pub(crate) fn pdus(&self) -> (u64, u64) {
        let open = self.reassembler.open_pdus() as u64;
        (self.ended + open, open)
    }

    /// Frames of unfinished PDUs.
    pub(crate) fn held(&self) -> usize {
        self.frames.iter().flatten().count()
    }

    /// Takes cells; frames that they complete are sent at `port`. `admit` says whether a PDU that begins may take a
    /// frame, beside as many as this circuit holds.
    pub(crate) fn push(
        &mut self,
        mut cells: &[Cell],
        io: &mut NodeIo<'_>,
        (port, now): (usize, Time),
        mut admit: impl FnMut(usize, &mut FramePool) -> bool,
        (sent, received): (&mut Counters, &mut Counters),
    ) {
        while let Some(first) = cells.first() {
            let circuit = first.circuit();
            let mut frames = Frames { frames: &mut self.frames, pool: io.pool_mut(), admit: &mut admit, circuit };
            let step = self.reassembler.push(cells, &mut frames, now);
            cells = &cells[step.cells_used..];
            if let Some(drops) = self.reassembler.take_cell_drops() {
                received.add(&drops);
                self.ended += drops.dropped_total();
            }
            self.ended += u64::from(step.event != Event::NeedMore);
            match step.event {
                Event::NeedMore => {}
                Event::Failed { slot, reason, .. } => {
                    received.drop_one(reason);
                    if let Some(frame) = slot.and_then(|slot| self.frames[slot].take()) {
                        io.pool_mut().release(frame);
                    }
                }
                Event::Complete { slot, sdu_octets, meta, .. } => match self.frames[slot].take() {
                    Some(mut frame) => {
                        frame.truncate(sdu_octets);
                        frame.meta = meta;
                        send_frame(frame, port, io, sent);
                    }
                    // It has given its frame up.
                    None => received.drop_one(DropReason::NoBuffer),
                },
            }
        }
    }

    /// Gives up a PDU whose next cell is overdue, and its frame with it, if it still has one.
    pub(crate) fn handle_timeout(&mut self, now: Time, received: &mut Counters) -> Option<Option<Frame>> {
        let Event::Failed { slot: Some(slot), reason, .. } = self.reassembler.handle_timeout(now)? else { return None };
        received.drop_one(reason);
        self.ended += 1;
        Some(self.frames[slot].take())
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.reassembler.poll_timeout()
    }
}
