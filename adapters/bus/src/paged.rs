//! The memory of a host whose processes send from their own pages and are given received ones: frames, page tables, and the rules of
//! [`remap::spaces`].
//!
//! In: a process's loads and stores by its own addresses, a device's accesses by bus addresses, SDUs that leave and arrive. A store
//! that the page table forbids faults, and the rules answer. A device reaches every frame: frame 0 is at the base, others follow. What is
//! moved is counted for who moved it ([`Crossings`]); headers that are looked at and pages that are zeroed are left out.

use crate::crossings::{Crosser, Crossings};
use crate::iocc::PAGE;
use crate::memory::{HostMemory, Unmapped};
use remap::spaces::{Counts, FramePlace, Hold, Overlap, Process, Refusal, Sending, Spaces, Tables};
use remap::{Frame, Gather};
use std::collections::BTreeMap;

pub use remap::spaces::Delivered;

/// Frames and page tables.
#[derive(Debug)]
struct Real {
    base: u64,
    octets: Box<[u8]>,
    tables: BTreeMap<(Process, u64), (Frame, bool)>,
    crossings: Crossings,
}

impl Real {
    fn at(&self, place: FramePlace, octets: usize) -> std::ops::Range<usize> {
        let from = place.frame.0 as usize * PAGE + place.offset;
        from..from + octets
    }

    fn bus(&self, address: u64, octets: usize) -> Result<std::ops::Range<usize>, Unmapped> {
        let at = address.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        let range = at.and_then(|at| Some(at..at.checked_add(octets)?));
        range.filter(|range| range.end <= self.octets.len()).ok_or(Unmapped { address })
    }
}

impl Tables for Real {
    fn map(&mut self, process: Process, page: u64, frame: Frame, writable: bool) {
        self.tables.insert((process, page), (frame, writable));
    }

    fn unmap(&mut self, process: Process, page: u64) {
        self.tables.remove(&(process, page));
    }

    fn copy(&mut self, from: FramePlace, to: FramePlace, octets: usize) {
        self.crossings.note_read(Crosser::Copy, octets);
        self.crossings.note_written(Crosser::Copy, octets);
        let (from, to) = (self.at(from, octets), self.at(to, octets));
        self.octets.copy_within(from, to.start);
    }

    fn store(&mut self, to: FramePlace, octets: &[u8]) {
        self.crossings.note_written(Crosser::Copy, octets.len());
        let to = self.at(to, octets.len());
        self.octets[to].copy_from_slice(octets);
    }

    fn zero(&mut self, frame: Frame) {
        let at = self.at(FramePlace { frame, offset: 0 }, PAGE);
        self.octets[at].fill(0);
    }
}

/// The memory.
#[derive(Debug)]
pub struct Paged {
    real: Real,
    spaces: Spaces,
}

impl Paged {
    /// `frames` frames from bus address `base` on, a multiple of the page.
    pub fn new(base: u64, frames: u32, overlap: Overlap) -> Self {
        let octets = vec![0; frames as usize * PAGE].into();
        let real = Real { base, octets, tables: BTreeMap::new(), crossings: Crossings::default() };
        Paged { real, spaces: Spaces::new(frames, PAGE, overlap) }
    }

    /// Gives a process zeroed pages.
    ///
    /// # Errors
    /// It has some there, or there are not enough frames.
    pub fn grow(&mut self, process: Process, address: u64, octets: usize) -> Result<(), Refusal> {
        self.spaces.grow(process, address, octets, &mut self.real)
    }

    /// Lets another process have the same pages.
    ///
    /// # Errors
    /// The first has not all of the pages, or the other has some there.
    pub fn share(&mut self, from: (Process, u64), octets: usize, to: (Process, u64)) -> Result<(), Refusal> {
        self.spaces.share(from, octets, to, &mut self.real)
    }

    /// Makes `child` a copy of a process.
    pub fn fork(&mut self, process: Process, child: Process) {
        self.spaces.fork(process, child, &mut self.real);
    }

    /// Takes pages from a process.
    pub fn unmap(&mut self, process: Process, address: u64, octets: usize) {
        self.spaces.unmap(process, address, octets, &mut self.real);
    }

    /// A process loads octets.
    ///
    /// # Errors
    /// It has not all of the pages.
    pub fn load(&mut self, process: Process, address: u64, octets: usize) -> Result<Vec<u8>, Refusal> {
        self.real.crossings.note_read(Crosser::Application, octets);
        let mut loaded = Vec::with_capacity(octets);
        while loaded.len() < octets {
            let (from, octets) = self.piece(process, address + loaded.len() as u64, octets - loaded.len())?;
            loaded.extend_from_slice(&self.real.octets[from..from + octets]);
        }
        Ok(loaded)
    }

    /// Where octets of a process's lie, as many of them as are in one page.
    fn piece(&self, process: Process, at: u64, octets: usize) -> Result<(usize, usize), Refusal> {
        let entry = self.real.tables.get(&(process, at / PAGE as u64));
        let (frame, _) = entry.ok_or(Refusal::NoPage { address: at })?;
        let offset = at as usize % PAGE;
        Ok((frame.0 as usize * PAGE + offset, octets.min(PAGE - offset)))
    }

    /// A process stores octets; where it may not, it faults first.
    ///
    /// # Errors
    /// As [`Spaces::write_fault`]; what is before has been stored.
    pub fn store(&mut self, process: Process, address: u64, octets: &[u8]) -> Result<(), Refusal> {
        let mut stored = 0;
        while stored < octets.len() {
            let at = address + stored as u64;
            if !self.real.tables.get(&(process, at / PAGE as u64)).is_some_and(|(_, writable)| *writable) {
                self.spaces.write_fault(process, at, &mut self.real)?;
            }
            let (to, piece) = self.piece(process, at, octets.len() - stored)?;
            self.real.octets[to..to + piece].copy_from_slice(&octets[stored..stored + piece]);
            stored += piece;
        }
        self.real.crossings.note_written(Crosser::Application, octets.len());
        Ok(())
    }

    /// A system call gives a process octets: [`Spaces::overwrite`].
    ///
    /// # Errors
    /// It has not all of the pages.
    pub fn overwrite(&mut self, process: Process, address: u64, octets: &[u8]) -> Result<usize, Refusal> {
        self.spaces.overwrite(process, address, octets, &mut self.real)
    }

    /// Locks an SDU's pages: [`Spaces::send`].
    ///
    /// # Errors
    /// The process has not all of the pages.
    pub fn send(&mut self, process: Process, address: u64, octets: usize) -> Result<Sending, Refusal> {
        self.spaces.send(process, address, octets, &mut self.real)
    }

    /// An SDU has left: [`Spaces::complete`].
    pub fn complete(&mut self, number: u64) {
        self.spaces.complete(number, &mut self.real);
    }

    /// Frames for a driver, and their bus address.
    pub fn hold(&mut self, frames: u32) -> Option<(Hold, u64)> {
        let hold = self.spaces.hold(frames)?;
        Some((hold, self.bus_of(hold.first)))
    }

    /// Gives frames back: [`Spaces::unhold`].
    pub fn unhold(&mut self, hold: Hold) {
        self.spaces.unhold(hold);
    }

    /// Whether a driver still has the frame at a bus address.
    pub fn is_held(&self, address: u64) -> bool {
        let frame = address.checked_sub(self.real.base).map(|at| at / PAGE as u64);
        frame.and_then(|frame| u32::try_from(frame).ok()).is_some_and(|frame| self.spaces.is_held(Frame(frame)))
    }

    /// Gives an SDU that a driver has received to a process: [`Spaces::deliver`].
    ///
    /// # Errors
    /// The process has not all of the pages.
    pub fn deliver(&mut self, process: Process, address: u64, sdu: &Gather) -> Result<Delivered, Refusal> {
        self.spaces.deliver(process, address, sdu, &mut self.real)
    }

    fn bus_of(&self, frame: Frame) -> u64 {
        self.real.base + u64::from(frame.0) * PAGE as u64
    }

    /// A scatter-gather list as a device needs it: bus addresses and octets.
    pub fn bus_pieces(&self, gather: &Gather) -> Vec<(u32, u32)> {
        let of = |e: &remap::Extent| ((self.bus_of(e.frame) + e.offset as u64) as u32, e.octets as u32);
        gather.extents().iter().map(of).collect()
    }

    /// Adds octets at a bus address to a scatter-gather list. Nothing, if they are outside.
    pub fn gather(&self, gather: &mut Gather, address: u64, octets: usize) {
        if let Ok(range) = self.real.bus(address, octets) {
            gather.push(Frame((range.start / PAGE) as u32), range.start % PAGE, octets);
        }
    }

    /// Copies octets of a scatter-gather list from octet `at` on.
    pub fn gathered(&self, gather: &Gather, at: usize, octets: usize) -> Vec<u8> {
        let piece = |e: remap::Extent| {
            &self.real.octets[self.real.at(FramePlace { frame: e.frame, offset: e.offset }, e.octets)]
        };
        gather.part(at, octets).pages().flat_map(piece).copied().collect()
    }

    /// Copies the octets of a scatter-gather list to frames in a row, from octet `offset` of the first one on.
    pub fn copy_gathered(&mut self, from: &Gather, to: Frame, mut offset: usize) {
        for piece in from.pages() {
            let place = FramePlace { frame: piece.frame, offset: piece.offset };
            self.real.copy(place, FramePlace { frame: to, offset }, piece.octets);
            offset += piece.octets;
        }
    }

    /// Takes octets of a scatter-gather list out as a copy by the processor, which reads them.
    pub fn copy_out(&mut self, gather: &Gather) -> Vec<u8> {
        self.real.crossings.note_read(Crosser::Copy, gather.octets());
        self.gathered(gather, 0, gather.octets())
    }

    /// The memory as the processor writes and reads it at bus addresses, to fill a device's buffers.
    pub fn by_processor(&mut self) -> impl HostMemory + '_ {
        ByProcessor(self)
    }

    /// What has crossed the memory's bus.
    pub const fn crossings(&self) -> Crossings {
        self.real.crossings
    }

    /// What has been done, in pages.
    pub const fn counts(&self) -> Counts {
        self.spaces.counts()
    }

    /// The state behind it, for a look.
    pub const fn spaces(&self) -> &Spaces {
        &self.spaces
    }
}

impl Paged {
    fn read_by(&mut self, by: Crosser, address: u64, data: &mut [u8]) -> Result<(), Unmapped> {
        data.copy_from_slice(&self.real.octets[self.real.bus(address, data.len())?]);
        self.real.crossings.note_read(by, data.len());
        Ok(())
    }

    fn write_by(&mut self, by: Crosser, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        let range = self.real.bus(address, data.len())?;
        self.real.octets[range].copy_from_slice(data);
        self.real.crossings.note_written(by, data.len());
        Ok(())
    }
}

/// What a device does.
impl HostMemory for Paged {
    fn read(&mut self, address: u64, data: &mut [u8]) -> Result<(), Unmapped> {
        self.read_by(Crosser::Dma, address, data)
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        self.write_by(Crosser::Dma, address, data)
    }
}

struct ByProcessor<'a>(&'a mut Paged);

impl HostMemory for ByProcessor<'_> {
    fn read(&mut self, address: u64, data: &mut [u8]) -> Result<(), Unmapped> {
        self.0.read_by(Crosser::Copy, address, data)
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        self.0.write_by(Crosser::Copy, address, data)
    }
}
