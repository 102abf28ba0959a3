//! Reception: frames that a network interface holds, and how what lies in them becomes the application's.

use super::{FramePlace, Hold, Process, Refusal, Spaces, Tables};
use crate::gather::{Frame, Gather};

/// How an SDU got to its application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delivered {
    /// Octets that the application has now; fewer than were received, if there was no frame or a page was leaving.
    pub octets: usize,
    /// Pages that were mapped.
    pub pages: usize,
    /// Octets that were copied.
    pub copied: usize,
}

impl Spaces {
    /// Takes frames in a row to receive into; `None` if there are not as many.
    pub fn hold(&mut self, frames: u32) -> Option<Hold> {
        let first = Frame(self.free.take(frames.max(1))?);
        self.numbers += 1;
        let hold = Hold { number: self.numbers, first, frames: frames.max(1) };
        for frame in &mut self.frames[first.0 as usize..][..hold.frames as usize] {
            frame.held = Some(hold.number);
        }
        self.holds.insert(hold.number, hold);
        Some(hold)
    }

    /// Gives frames back, those that have not become an application's. Twice does nothing.
    pub fn unhold(&mut self, hold: Hold) {
        if self.holds.remove(&hold.number).is_none() {
            return;
        }
        for number in hold.first.0..hold.first.0 + hold.frames {
            let state = &mut self.frames[number as usize];
            if state.held == Some(hold.number) {
                state.held = None;
                self.free_if_unused(Frame(number));
            }
        }
    }

    /// Whether a frame is held.
    pub fn is_held(&self, frame: Frame) -> bool {
        self.frames.get(frame.0 as usize).is_some_and(|state| state.held.is_some())
    }

    /// Gives an SDU to a process: pages that it fills wholly are mapped where it lies as in the application's buffer,
    /// in all processes that share the place, and leave the hold; what else there is is copied.
    ///
    /// # Errors
    /// The process has not all of the pages: then nothing is changed.
    pub fn deliver(
        &mut self,
        process: Process,
        address: u64,
        sdu: &Gather,
        tables: &mut impl Tables,
    ) -> Result<Delivered, Refusal> {
        self.check(process, address, sdu.octets())?;
        let mut delivered = Delivered::default();
        for (page, offset, octets) in self.pieces(address, sdu.octets()) {
            let Some(slot) = self.slot(process, page) else { break };
            let part = sdu.part(delivered.octets, octets);
            let whole = octets == self.page;
            if whole && let Some(frame) = self.mappable(&part) {
                self.frames[frame.0 as usize].held = None;
                self.rebind(slot, frame, tables);
                self.counts.mapped += 1;
                delivered.pages += 1;
            } else {
                match if whole { self.fresh(slot) } else { None } {
                    Some(frame) => {
                        copy_in(&part, FramePlace { frame, offset: 0 }, tables);
                        self.rebind(slot, frame, tables);
                    }
                    None if self.write_fault(process, page * self.page as u64, tables).is_ok() => {
                        let frame = self.slots[slot as usize].frame;
                        copy_in(&part, FramePlace { frame, offset }, tables);
                    }
                    None => break,
                }
                self.counts.octets_copied += octets as u64;
                delivered.copied += octets;
            }
            delivered.octets += octets;
        }
        Ok(delivered)
    }

    /// The frame that holds these octets and nothing else, if nobody but a network interface has it.
    fn mappable(&self, part: &Gather) -> Option<Frame> {
        let [extent] = part.extents() else { return None };
        let state = self.frames.get(extent.frame.0 as usize)?;
        let alone = state.held.is_some() && state.pins == 0 && state.slots.is_empty();
        (extent.offset == 0 && extent.octets == self.page && alone).then_some(extent.frame)
    }
}

fn copy_in(part: &Gather, mut to: FramePlace, tables: &mut impl Tables) {
    for piece in part.pages() {
        tables.copy(FramePlace { frame: piece.frame, offset: piece.offset }, to, piece.octets);
        to.offset += piece.octets;
    }
}
