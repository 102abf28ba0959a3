//! Address spaces: which frame each page of each process lies on, who may write it, and what keeps a frame.
//!
//! A page of an application is a *slot*: processes that share memory have the same slot, processes after a fork have
//! slots of their own on one frame. A frame belongs to slots, to SDUs that are leaving from it (*pins*), and to the
//! network interface that receives into it (a *hold*). One rule says who may write: **a page is writable if its frame
//! belongs to one slot and to nobody else.** All else follows: a write to a page that is leaving gets a copy in its
//! place, in every process that shares it; what is to be overwritten wholly gets a new frame and no copy; and a frame
//! that was received into becomes a page of the application. No page ever shows a frame with octets that its process
//! has neither written nor been sent: a frame is filled before it is mapped.

mod deliver;

pub use deliver::Delivered;

use crate::gather::{Frame, Gather};
use crate::runs::Runs;
use std::collections::BTreeMap;

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Process(pub u16);

/// Octets in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FramePlace {
    /// The frame.
    pub frame: Frame,
    /// Where in it.
    pub offset: usize,
}

/// Who keeps page tables and the frames' octets: a modelled memory, or a real one.
pub trait Tables {
    /// From now on the process's page `page` is this frame, to be read, and to be written or not.
    fn map(&mut self, process: Process, page: u64, frame: Frame, writable: bool);

    /// The process has no such page any more.
    fn unmap(&mut self, process: Process, page: u64);

    /// Copies octets between frames, which do not overlap.
    fn copy(&mut self, from: FramePlace, to: FramePlace, octets: usize);

    /// Writes octets to a frame.
    fn store(&mut self, to: FramePlace, octets: &[u8]);

    /// Makes a frame all zero.
    fn zero(&mut self, frame: Frame);
}

/// What becomes of a write to a page that is leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlap {
    /// The writer gets a copy of the page.
    #[default]
    Copy,
    /// The writer waits until the SDU has left.
    Block,
}

/// Why an operation was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The process has no such page.
    #[error("no page at {address:#x}")]
    NoPage {
        /// Where.
        address: u64,
    },
    /// There is a page already.
    #[error("there is a page at {address:#x} already")]
    Taken {
        /// Where.
        address: u64,
    },
    /// All frames are in use.
    #[error("all page frames are in use")]
    NoFrame,
    /// The page is leaving: to be tried again when an SDU has left.
    #[error("the page at {address:#x} is being sent")]
    Leaving {
        /// Where.
        address: u64,
    },
}

/// An SDU that is leaving from its pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sending {
    /// To complete it with.
    pub number: u64,
    /// Where its octets lie, and stay as they are.
    pub gather: Gather,
}

/// Frames in a row that a network interface receives into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    number: u64,
    /// The first of them.
    pub first: Frame,
    /// How many.
    pub frames: u32,
}

/// What has been done so far, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Protected against writing by a send.
    pub protected: u64,
    /// Copied, since they were written while they were leaving, or after a fork.
    pub copied: u64,
    /// Replaced without a copy, since they were to be overwritten wholly.
    pub replaced: u64,
    /// Writes that had to wait.
    pub blocked: u64,
    /// Received and mapped.
    pub mapped: u64,
    /// Received and copied, in octets.
    pub octets_copied: u64,
}

#[derive(Debug, Clone, Default)]
struct FrameState {
    slots: Vec<u32>,
    pins: u32,
    /// The number of the hold.
    held: Option<u64>,
}

impl FrameState {
    fn is_writable(&self) -> bool {
        self.slots.len() == 1 && self.pins == 0 && self.held.is_none()
    }

    fn is_unused(&self) -> bool {
        self.slots.is_empty() && self.pins == 0 && self.held.is_none()
    }
}

#[derive(Debug, Clone, Default)]
struct Slot {
    frame: Frame,
    /// Which pages of which processes it is.
    maps: Vec<(Process, u64)>,
    /// Meant to be shared: a child has it too, and no slot of its own.
    shared: bool,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub struct Spaces {
    page: usize,
    overlap: Overlap,
    frames: Vec<FrameState>,
    free: Runs,
    slots: Vec<Slot>,
    idle_slots: Vec<u32>,
    spaces: BTreeMap<Process, BTreeMap<u64, u32>>,
    sendings: BTreeMap<u64, Vec<Frame>>,
    holds: BTreeMap<u64, Hold>,
    numbers: u64,
    counts: Counts,
}

impl Spaces {
    /// No process has a page; `frames` frames of `page` octets, a power of two.
    pub fn new(frames: u32, page: usize, overlap: Overlap) -> Self {
        assert!(page.is_power_of_two(), "a page of {page} octets");
        Spaces {
            page,
            overlap,
            frames: vec![FrameState::default(); frames as usize],
            free: Runs::new(0, frames),
            slots: Vec::new(),
            idle_slots: Vec::new(),
            spaces: BTreeMap::new(),
            sendings: BTreeMap::new(),
            holds: BTreeMap::new(),
            numbers: 0,
            counts: Counts::default(),
        }
    }

    /// Octets of a page.
    pub const fn page_octets(&self) -> usize {
        self.page
    }

    /// Frames that nobody has.
    pub fn free_frames(&self) -> u32 {
        self.free.free()
    }

    /// What has been done.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The frame of a process's page, and whether it may write there.
    pub fn look(&self, process: Process, address: u64) -> Option<(Frame, bool)> {
        let slot = self.slot(process, address / self.page as u64)?;
        let frame = self.slots[slot as usize].frame;
        Some((frame, self.frames[frame.0 as usize].is_writable()))
    }

    fn slot(&self, process: Process, page: u64) -> Option<u32> {
        self.spaces.get(&process)?.get(&page).copied()
    }

    fn pages(&self, address: u64, octets: usize) -> std::ops::Range<u64> {
        let page = self.page as u64;
        address / page..address.saturating_add(octets as u64).div_ceil(page)
    }

    /// A range of a process's memory, page by page: the page, where in it the range begins, and how many octets are in
    /// it.
    fn pieces(&self, address: u64, octets: usize) -> impl Iterator<Item = (u64, usize, usize)> + use<> {
        let page = self.page;
        self.pages(address, octets).map(move |number| {
            let begin = number * page as u64;
            let from = address.saturating_sub(begin) as usize;
            let end = ((address + octets as u64 - begin) as usize).min(page);
            (number, from, end - from)
        })
    }

    fn check(&self, process: Process, address: u64, octets: usize) -> Result<(), Refusal> {
        match self.pages(address, octets).find(|page| self.slot(process, *page).is_none()) {
            Some(page) => Err(Refusal::NoPage { address: page * self.page as u64 }),
            None => Ok(()),
        }
    }

    fn check_free(&self, process: Process, address: u64, octets: usize) -> Result<(), Refusal> {
        match self.pages(address, octets).find(|page| self.slot(process, *page).is_some()) {
            Some(page) => Err(Refusal::Taken { address: page * self.page as u64 }),
            None => Ok(()),
        }
    }

    fn new_slot(&mut self, frame: Frame, shared: bool) -> u32 {
        let slot = Slot { frame, maps: Vec::new(), shared };
        let number = match self.idle_slots.pop() {
            Some(number) => {
                self.slots[number as usize] = slot;
                number
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        self.frames[frame.0 as usize].slots.push(number);
        number
    }

    fn map_slot(&mut self, slot: u32, process: Process, page: u64, tables: &mut impl Tables) {
        self.slots[slot as usize].maps.push((process, page));
        self.spaces.entry(process).or_default().insert(page, slot);
        self.show(slot, tables);
    }

    /// Tells the page tables of all who have a slot what it is now.
    fn show(&self, slot: u32, tables: &mut impl Tables) {
        let Slot { frame, maps, .. } = &self.slots[slot as usize];
        let writable = self.frames[frame.0 as usize].is_writable();
        for (process, page) in maps {
            tables.map(*process, *page, *frame, writable);
        }
    }

    fn show_frame(&self, frame: Frame, tables: &mut impl Tables) {
        for slot in &self.frames[frame.0 as usize].slots {
            self.show(*slot, tables);
        }
    }

    fn free_if_unused(&mut self, frame: Frame) {
        if self.frames[frame.0 as usize].is_unused() {
            self.free.give(frame.0, 1);
        }
    }

    /// Puts a slot on another frame, everywhere.
    fn rebind(&mut self, slot: u32, frame: Frame, tables: &mut impl Tables) {
        let old = std::mem::replace(&mut self.slots[slot as usize].frame, frame);
        self.frames[old.0 as usize].slots.retain(|other| *other != slot);
        self.frames[frame.0 as usize].slots.push(slot);
        self.show(slot, tables);
        self.free_if_unused(old);
    }

    /// Gives a process pages of zeros.
    ///
    /// # Errors
    /// There are pages already, or not enough frames: then none is given.
    pub fn grow(
        &mut self,
        process: Process,
        address: u64,
        octets: usize,
        tables: &mut impl Tables,
    ) -> Result<(), Refusal> {
        self.check_free(process, address, octets)?;
        let pages = self.pages(address, octets);
        if u64::from(self.free.free()) < pages.end - pages.start {
            return Err(Refusal::NoFrame);
        }
        for page in pages {
            let frame = Frame(self.free.take(1).ok_or(Refusal::NoFrame)?);
            tables.zero(frame);
            let slot = self.new_slot(frame, false);
            self.map_slot(slot, process, page, tables);
        }
        Ok(())
    }

    /// Lets another process have the same pages, at a place of its own: what one writes, both see.
    ///
    /// # Errors
    /// The first has not all of the pages, or the other has some there already.
    pub fn share(
        &mut self,
        (process, address): (Process, u64),
        octets: usize,
        (other, there): (Process, u64),
        tables: &mut impl Tables,
    ) -> Result<(), Refusal> {
        self.check(process, address, octets)?;
        let (from, pages) = (self.pages(address, octets), there / self.page as u64);
        self.check_free(
            other,
            there / self.page as u64 * self.page as u64,
            (from.end - from.start) as usize * self.page,
        )?;
        for page in from.clone() {
            let Some(slot) = self.slot(process, page) else { continue };
            self.slots[slot as usize].shared = true;
            self.map_slot(slot, other, pages + (page - from.start), tables);
        }
        Ok(())
    }

    /// Makes `child` a copy of a process: shared pages stay shared, of others both get copies once one of them writes.
    /// Nothing, if the child exists.
    pub fn fork(&mut self, process: Process, child: Process, tables: &mut impl Tables) {
        if self.spaces.contains_key(&child) {
            return;
        }
        let pages: Vec<(u64, u32)> =
            self.spaces.get(&process).into_iter().flatten().map(|(page, slot)| (*page, *slot)).collect();
        for (page, slot) in pages {
            let Slot { frame, shared, .. } = self.slots[slot as usize];
            let slot = if shared { slot } else { self.new_slot(frame, false) };
            self.map_slot(slot, child, page, tables);
            self.show_frame(frame, tables);
        }
    }

    /// Takes pages from a process, those that it has. What is leaving from them leaves all the same.
    pub fn unmap(&mut self, process: Process, address: u64, octets: usize, tables: &mut impl Tables) {
        let pages = self.pages(address, octets);
        let Some(space) = self.spaces.get_mut(&process) else { return };
        let gone: Vec<(u64, u32)> = space.range(pages).map(|(page, slot)| (*page, *slot)).collect();
        for (page, number) in gone {
            space.remove(&page);
            tables.unmap(process, page);
            let slot = &mut self.slots[number as usize];
            slot.maps.retain(|map| *map != (process, page));
            if slot.maps.is_empty() {
                let frame = slot.frame;
                self.idle_slots.push(number);
                let state = &mut self.frames[frame.0 as usize];
                state.slots.retain(|other| *other != number);
                if state.is_unused() {
                    self.free.give(frame.0, 1);
                }
            }
        }
        if space.is_empty() {
            self.spaces.remove(&process);
        }
    }

    /// A process ends.
    pub fn exit(&mut self, process: Process, tables: &mut impl Tables) {
        self.unmap(process, 0, usize::MAX, tables);
    }

    /// Locks the pages of an SDU against page replacement and protects them against writing until [`Spaces::complete`];
    /// gives where they lie. What leaves is what is there now.
    ///
    /// # Errors
    /// The process has not all of the pages.
    pub fn send(
        &mut self,
        process: Process,
        address: u64,
        octets: usize,
        tables: &mut impl Tables,
    ) -> Result<Sending, Refusal> {
        self.check(process, address, octets)?;
        let (mut gather, mut frames) = (Gather::new(self.page), Vec::new());
        for (page, offset, octets) in self.pieces(address, octets) {
            let Some(slot) = self.slot(process, page) else { continue };
            let frame = self.slots[slot as usize].frame;
            gather.push(frame, offset, octets);
            frames.push(frame);
            let state = &mut self.frames[frame.0 as usize];
            let was_writable = state.is_writable();
            state.pins += 1;
            if was_writable {
                self.counts.protected += 1;
                self.show_frame(frame, tables);
            }
        }
        self.numbers += 1;
        self.sendings.insert(self.numbers, frames);
        Ok(Sending { number: self.numbers, gather })
    }

    /// An SDU has been copied to the adapter, or its last cell has left: its pages are the application's alone again.
    /// Of a number that is not under way nothing is done.
    pub fn complete(&mut self, number: u64, tables: &mut impl Tables) {
        for frame in self.sendings.remove(&number).unwrap_or_default() {
            let state = &mut self.frames[frame.0 as usize];
            state.pins -= 1;
            if state.is_writable() {
                self.show_frame(frame, tables);
            }
            self.free_if_unused(frame);
        }
    }

    /// SDUs that are leaving.
    pub fn leaving(&self) -> usize {
        self.sendings.len()
    }

    /// A process writes to a page that it may read only. When this returns `Ok`, it may write.
    ///
    /// # Errors
    /// It has no such page; it has to wait until an SDU has left; or there is no frame for a copy, and nothing to wait
    /// for.
    pub fn write_fault(&mut self, process: Process, address: u64, tables: &mut impl Tables) -> Result<(), Refusal> {
        let slot = self.slot(process, address / self.page as u64).ok_or(Refusal::NoPage { address })?;
        let frame = self.slots[slot as usize].frame;
        let state = &self.frames[frame.0 as usize];
        if state.is_writable() {
            self.show(slot, tables);
            return Ok(());
        }
        let alone = state.slots.len() == 1;
        let new = match self.overlap {
            Overlap::Block if alone => None,
            _ => self.free.take(1).map(Frame),
        };
        let Some(new) = new else { return Err(self.wait_for(frame, address)) };
        self.counts.copied += 1;
        tables.copy(FramePlace { frame, offset: 0 }, FramePlace { frame: new, offset: 0 }, self.page);
        self.rebind(slot, new, tables);
        Ok(())
    }

    fn wait_for(&mut self, frame: Frame, address: u64) -> Refusal {
        self.counts.blocked += 1;
        match self.frames[frame.0 as usize].pins {
            0 => Refusal::NoFrame,
            _ => Refusal::Leaving { address },
        }
    }

    /// A system call writes octets to a process's memory. Pages that it overwrites wholly and that may not be written
    /// now are replaced without a copy, in all processes that share them. Gives how many octets were written: fewer,
    /// where it has to wait for an SDU to leave, or finds no frame.
    ///
    /// # Errors
    /// The process has not all of the pages: then nothing is written.
    pub fn overwrite(
        &mut self,
        process: Process,
        address: u64,
        octets: &[u8],
        tables: &mut impl Tables,
    ) -> Result<usize, Refusal> {
        self.check(process, address, octets.len())?;
        let mut done = 0;
        for (page, offset, count) in self.pieces(address, octets.len()) {
            let part = &octets[done..done + count];
            let Some(slot) = self.slot(process, page) else { break };
            if count == self.page
                && let Some(frame) = self.fresh(slot)
            {
                tables.store(FramePlace { frame, offset: 0 }, part);
                self.rebind(slot, frame, tables);
            } else {
                if self.write_fault(process, page * self.page as u64, tables).is_err() {
                    break;
                }
                let frame = self.slots[slot as usize].frame;
                tables.store(FramePlace { frame, offset }, part);
            }
            done += count;
        }
        Ok(done)
    }

    /// A frame for a slot that is to be overwritten wholly and may not be written.
    fn fresh(&mut self, slot: u32) -> Option<Frame> {
        let frame = self.slots[slot as usize].frame;
        if self.frames[frame.0 as usize].is_writable() {
            return None;
        }
        let new = self.free.take(1).map(Frame)?;
        self.counts.replaced += 1;
        Some(new)
    }

    /// Counts again who has which frame, and says what does not agree.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn audit(&self) -> Result<(), String> {
        let mut slots = vec![0usize; self.frames.len()];
        let mut pins = vec![0u32; self.frames.len()];
        for (process, space) in &self.spaces {
            for (page, slot) in space {
                if !self.slots[*slot as usize].maps.contains(&(*process, *page)) {
                    return Err(format!("page {page} of {process:?} is not known to its slot {slot}"));
                }
            }
        }
        for (number, slot) in self.slots.iter().enumerate().filter(|(_, slot)| !slot.maps.is_empty()) {
            slots[slot.frame.0 as usize] += 1;
            if !self.frames[slot.frame.0 as usize].slots.contains(&(number as u32)) {
                return Err(format!("slot {number} is not known to frame {:?}", slot.frame));
            }
        }
        self.sendings.values().flatten().for_each(|frame| pins[frame.0 as usize] += 1);
        for (number, state) in self.frames.iter().enumerate() {
            let free = self.free.is_free(number as u32);
            if state.slots.len() != slots[number] || state.pins != pins[number] || free != state.is_unused() {
                return Err(format!(
                    "frame {number}: {state:?}, counted {} and {}, free {free}",
                    slots[number], pins[number]
                ));
            }
        }
        Ok(())
    }
}
