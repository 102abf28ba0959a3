//! Several MIDs of one circuit taking turns, cell by cell: a short PDU does not wait for a long one.

use super::segment::{SegmentError, Segmentation, Sender};
use crate::SduMeta;
use std::collections::VecDeque;
use wire::{Cell, CircuitId};

/// How far a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Filled {
    /// Cells written to the front of the batch.
    pub cells: usize,
    /// The lane whose SDU ended with the last of them: its octets are no longer needed, and the lane is free.
    pub done: Option<usize>,
}

struct Lane {
    sender: Sender,
    current: Option<Segmentation>,
}

/// The senders of one circuit, each with a lane for one SDU at a time. Allocates when made, not later.
pub struct Interleaver {
    lanes: Box<[Lane]>,
    /// Lanes with cells to send, the next one first.
    turns: VecDeque<usize>,
}

impl Interleaver {
    /// A lane per MID, numbered as they stand in `mids`.
    ///
    /// # Errors
    /// A MID beyond 1023, or one that stands there twice.
    pub fn new(circuit: CircuitId, mids: &[u16]) -> Result<Self, SegmentError> {
        let mut lanes = Vec::with_capacity(mids.len());
        for (i, mid) in mids.iter().enumerate() {
            if mids[..i].contains(mid) {
                return Err(SegmentError::MidTwice(*mid));
            }
            lanes.push(Lane { sender: Sender::new(circuit, *mid)?, current: None });
        }
        Ok(Interleaver { turns: VecDeque::with_capacity(lanes.len()), lanes: lanes.into_boxed_slice() })
    }

    /// Begins an SDU of `sdu_octets` octets on `lane`.
    ///
    /// # Errors
    /// No such lane, a lane that is still sending, or more than 65 535 octets.
    pub fn begin(&mut self, lane: usize, sdu_octets: usize, meta: SduMeta) -> Result<(), SegmentError> {
        let entry = self.lanes.get_mut(lane).ok_or(SegmentError::NoLane(lane))?;
        if entry.current.is_some() {
            return Err(SegmentError::Busy(lane));
        }
        entry.current = Some(entry.sender.begin(sdu_octets, meta)?);
        self.turns.push_back(lane);
        Ok(())
    }

    /// Gives up what `lane` is sending; the receiver is told if it has seen the beginning. The lane is free once
    /// [`Filled::done`] says so.
    pub fn abort(&mut self, lane: usize) {
        if let Some(segmentation) = self.lanes.get_mut(lane).and_then(|lane| lane.current.as_mut()) {
            segmentation.abort();
        }
    }

    /// Writes cells, one of each lane in turn, until `out` is full, nothing is left, or an SDU ends. `sdu(lane)` gives
    /// a lane's SDU, the same at each call; one that is shorter than it was said to be is given up.
    pub fn fill<'a>(&mut self, sdu: impl Fn(usize) -> &'a [u8], out: &mut [Cell]) -> Filled {
        for (lane, entry) in self.lanes.iter_mut().enumerate() {
            if let Some(segmentation) = &mut entry.current
                && sdu(lane).len() < segmentation.sdu_octets()
            {
                segmentation.abort();
            }
        }
        self.fill_with(|lane, at, part| part.copy_from_slice(&sdu(lane)[at..at + part.len()]), out)
    }

    /// The same for SDUs that are not slices: `read(lane, at, part)` copies the octets of the lane's SDU from `at` on
    /// into `part`.
    pub fn fill_with(&mut self, mut read: impl FnMut(usize, usize, &mut [u8]), out: &mut [Cell]) -> Filled {
        let mut written = 0;
        while let Some(&lane) = self.turns.front() {
            let Some(segmentation) = &mut self.lanes[lane].current else { break };
            if !segmentation.is_done() {
                let Some(cell) = out.get_mut(written) else { break };
                written += segmentation.fill_with(|at, part| read(lane, at, part), core::slice::from_mut(cell));
            }
            let done = segmentation.is_done();
            self.turns.pop_front();
            if done {
                self.lanes[lane].current = None;
                return Filled { cells: written, done: Some(lane) };
            }
            self.turns.push_back(lane);
        }
        Filled { cells: written, done: None }
    }

    /// Cells still to be written, of all lanes.
    pub fn cells_left(&self) -> usize {
        self.lanes.iter().filter_map(|lane| lane.current.as_ref()).map(Segmentation::cells_left).sum()
    }

    /// Whether `lane` exists and can begin an SDU.
    pub fn is_free(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(|lane| lane.current.is_none())
    }
}
