//! The memory of an RS/6000 behind its I/O channel controller (IOCC): page frames, the page frame table, translation
//! control words (TCWs). Traw and Smith 1993, section 4.1.2 and figure 7; Smith 2002 on virtual addressing for devices.
//!
//! In: a process's and a device's accesses, each by its own addresses; cross-memory descriptors attached and detached. Out:
//! octets, or a fault. Pages of a process lie in frames all over the real memory. The page frame table says, by frame, whose
//! page it holds, whether it is pinned, and whether a write to it faults; TCWs say, by page of the bus, which frame a device
//! reaches there and whether it may write. So both see contiguous memory, and neither sees anything else. What crosses the
//! bus is counted, by who moved it.

mod kernel;

use crate::crossings::{Crosser, Crossings};
use crate::memory::{CrossMemory, Descriptor, HostMemory, Reach, Unmapped};

pub use kernel::Place;

/// Octets of a page.
pub const PAGE: usize = 4096;

/// A process; 0 is the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Process(pub u16);

/// Why a process's access came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It has no such page.
    #[error("no page at {address:#x}")]
    NoPage {
        /// Where.
        address: u32,
    },
    /// A device is at the page: the process sleeps until its descriptor is detached.
    #[error("the page at {address:#x} is in use by a device")]
    Busy {
        /// Where.
        address: u32,
    },
    /// No frame is free for a new page.
    #[error("all page frames are in use")]
    Full,
}

/// An entry of the page frame table.
#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    /// Whose page, and which, the frame holds.
    page: Option<(Process, u32)>,
    /// Descriptors that keep it from page replacement.
    pins: u16,
    /// Of these, those under which a process's write faults.
    tags: u16,
}

#[derive(Debug, Clone, Copy)]
struct Tcw {
    frame: usize,
    write: bool,
}

/// The memory.
#[derive(Debug, Clone)]
pub struct Memory {
    octets: Box<[u8]>,
    frames: Box<[Frame]>,
    tcws: Box<[Option<Tcw>]>,
    current: Process,
    /// Where page replacement looks next.
    hand: usize,
    crossings: Crossings,
}

impl Memory {
    /// `frames` page frames, and as many pages of the bus as `tcws`.
    pub fn new(frames: usize, tcws: usize) -> Self {
        Memory {
            octets: vec![0; frames * PAGE].into(),
            frames: vec![Frame::default(); frames].into(),
            tcws: vec![None; tcws].into(),
            current: Process::default(),
            hand: 0,
            crossings: Crossings::default(),
        }
    }

    /// Calls of the driver are made for this process from here on.
    pub const fn enter(&mut self, process: Process) {
        self.current = process;
    }

    /// Gives a process zeroed pages for `octets` octets at `address`; frames are taken from all over the memory.
    ///
    /// # Errors
    /// No frame is free.
    pub fn grow(&mut self, process: Process, address: u32, octets: usize) -> Result<(), Fault> {
        for page in pages(address, octets as u32) {
            if self.frame(process, page).is_some() {
                continue;
            }
            let count = self.frames.len();
            // A stride that is odd visits each frame of a power of two; others are found by the search that follows.
            let strewn = (0..count).map(|n| (page as usize * 7 + n * 13 + 5) % count);
            let free = strewn.chain(0..count).find(|n| self.frames[*n].page.is_none()).ok_or(Fault::Full)?;
            self.frames[free] = Frame { page: Some((process, page)), pins: 0, tags: 0 };
            self.octets[free * PAGE..][..PAGE].fill(0);
        }
        Ok(())
    }

    /// Takes a frame from its process, as page replacement does; `None`, if all are pinned or free. What was on it is gone:
    /// there is no disk here.
    pub fn replace(&mut self) -> Option<(Process, u32)> {
        let count = self.frames.len();
        let victim = (0..count).map(|n| (self.hand + n) % count).find(|n| {
            let frame = self.frames[*n];
            frame.page.is_some() && frame.pins == 0
        })?;
        self.hand = (victim + 1) % count;
        self.octets[victim * PAGE..][..PAGE].fill(0xdd);
        self.frames[victim].page.take()
    }

    /// Frames that page replacement leaves alone.
    pub fn pinned(&self) -> usize {
        self.frames.iter().filter(|frame| frame.pins > 0).count()
    }

    /// Pages of the bus that lead somewhere.
    pub fn mapped(&self) -> usize {
        self.tcws.iter().flatten().count()
    }

    /// The frames that a process's range lies in, in the order of its pages.
    pub fn frames_of(&self, process: Process, address: u32, octets: u32) -> Vec<Option<usize>> {
        pages(address, octets).map(|page| self.frame(process, page)).collect()
    }

    /// The inverted table's search: which frame holds a page.
    fn frame(&self, process: Process, page: u32) -> Option<usize> {
        self.frames.iter().position(|frame| frame.page == Some((process, page)))
    }

    /// A process reads its memory.
    ///
    /// # Errors
    /// It has no such page.
    pub fn load(&mut self, process: Process, address: u32, data: &mut [u8]) -> Result<(), Fault> {
        self.read_pages(process, address, data)?;
        self.crossings.note_read(Crosser::Application, data.len());
        Ok(())
    }

    /// A process writes its memory. Before a page that faults, pages are written.
    ///
    /// # Errors
    /// It has no such page; the page is tagged.
    pub fn store(&mut self, process: Process, address: u32, data: &[u8]) -> Result<(), Fault> {
        self.write_pages(process, address, data)?;
        self.crossings.note_written(Crosser::Application, data.len());
        Ok(())
    }

    fn device_reads(&self, address: u64, data: &mut [u8]) -> Result<(), Unmapped> {
        for (at, place) in pieces(address, data.len()) {
            let from = self.translate(at, false).ok_or(Unmapped { address: at })?;
            data[place.clone()].copy_from_slice(&self.octets[from..][..place.len()]);
        }
        Ok(())
    }

    fn device_writes(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        for (at, place) in pieces(address, data.len()) {
            let to = self.translate(at, true).ok_or(Unmapped { address: at })?;
            self.octets[to..][..place.len()].copy_from_slice(&data[place]);
        }
        Ok(())
    }

    /// Where a device's address leads.
    fn translate(&self, at: u64, write: bool) -> Option<usize> {
        let tcw = (*self.tcws.get(usize::try_from(at / PAGE as u64).ok()?)?)?;
        (tcw.write || !write).then_some(tcw.frame * PAGE + at as usize % PAGE)
    }
}

/// The numbers of the pages that a range touches.
fn pages(address: u32, octets: u32) -> core::ops::RangeInclusive<u32> {
    let last = address.saturating_add(octets.max(1) - 1);
    address / PAGE as u32..=last / PAGE as u32
}

/// A range page by page: address, and which part of the data.
fn pieces(address: u64, octets: usize) -> impl Iterator<Item = (u64, core::ops::Range<usize>)> {
    let mut done = 0;
    core::iter::from_fn(move || {
        let at = address + done as u64;
        let n = (PAGE - at as usize % PAGE).min(octets - done);
        done += n;
        (n > 0).then_some((at, done - n..done))
    })
}

impl HostMemory for Memory {
    fn read(&mut self, address: u64, data: &mut [u8]) -> Result<(), Unmapped> {
        self.device_reads(address, data)?;
        self.crossings.note_read(Crosser::Dma, data.len());
        Ok(())
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        self.device_writes(address, data)?;
        self.crossings.note_written(Crosser::Dma, data.len());
        Ok(())
    }

    fn copy_from(&mut self, address: u64, data: &mut [u8]) -> Result<(), Unmapped> {
        self.device_reads(address, data)?;
        self.crossings.note_read(Crosser::Copy, data.len());
        Ok(())
    }

    fn copy_to(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        self.device_writes(address, data)?;
        self.crossings.note_written(Crosser::Copy, data.len());
        Ok(())
    }
}

impl CrossMemory for Memory {
    fn attach(&mut self, address: u32, octets: u32, reach: Reach) -> Result<Descriptor, Unmapped> {
        let missing = Unmapped { address: address.into() };
        let Some(frames) = self.frames_of(self.current, address, octets).into_iter().collect::<Option<Vec<_>>>() else {
            return Err(missing);
        };
        let window =
            self.tcws.windows(frames.len()).position(|tcws| tcws.iter().all(Option::is_none)).ok_or(missing)?;
        for (tcw, frame) in self.tcws[window..].iter_mut().zip(&frames) {
            *tcw = Some(Tcw { frame: *frame, write: reach.device_writes });
            self.frames[*frame].pins += 1;
            self.frames[*frame].tags += u16::from(reach.tagged);
        }
        let bus = (window * PAGE) as u32 + address % PAGE as u32;
        Ok(Descriptor { bus, octets, tagged: reach.tagged })
    }

    fn detach(&mut self, descriptor: Descriptor) {
        for page in pages(descriptor.bus, descriptor.octets) {
            if let Some(tcw) = self.tcws.get_mut(page as usize).and_then(Option::take) {
                let frame = &mut self.frames[tcw.frame];
                frame.pins = frame.pins.saturating_sub(1);
                frame.tags = frame.tags.saturating_sub(u16::from(descriptor.tagged));
            }
        }
    }

    fn copy_in(&mut self, address: u32, data: &mut [u8]) -> Result<(), Unmapped> {
        self.read_pages(self.current, address, data).map_err(|_| Unmapped { address: address.into() })?;
        self.crossings.note_read(Crosser::Copy, data.len());
        Ok(())
    }

    fn copy_out(&mut self, address: u32, data: &[u8]) -> Result<(), Unmapped> {
        self.write_pages(self.current, address, data).map_err(|_| Unmapped { address: address.into() })?;
        self.crossings.note_written(Crosser::Copy, data.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Process = Process(1);
    const B: Process = Process(2);

    fn two() -> Memory {
        let mut memory = Memory::new(64, 32);
        memory.grow(A, 0x1000, 5 * PAGE).unwrap();
        memory.grow(B, 0x1000, 2 * PAGE).unwrap();
        memory
    }

    #[test]
    fn a_device_sees_scattered_pages_in_a_row_and_no_others() {
        let mut memory = two();
        let data: Vec<u8> = (0..3 * PAGE).map(|n| (n / 7) as u8).collect();
        memory.store(A, 0x1800, &data).unwrap();
        memory.store(B, 0x1000, &[9; PAGE]).unwrap();
        let frames = memory.frames_of(A, 0x1800, data.len() as u32);
        assert!(frames.windows(2).any(|pair| pair[0].unwrap() + 1 != pair[1].unwrap()), "{frames:?} are in a row");
        memory.enter(A);
        let reach = Reach { device_writes: false, tagged: false };
        let descriptor = memory.attach(0x1800, data.len() as u32, reach).unwrap();
        let mut seen = vec![0; data.len()];
        memory.read(descriptor.bus.into(), &mut seen).unwrap();
        assert!(seen == data);
        assert!(memory.write(descriptor.bus.into(), &[1]).is_err(), "the word lets it read only");
        let beyond = u64::from(descriptor.bus) + 4 * PAGE as u64;
        assert_eq!(memory.read(beyond, &mut [0]), Err(Unmapped { address: beyond }));
        memory.detach(descriptor);
        assert!(memory.read(descriptor.bus.into(), &mut [0]).is_err() && memory.mapped() == 0 && memory.pinned() == 0);
        assert!(memory.attach(0x1000, 6 * PAGE as u32, reach).is_err(), "the process has five pages");
    }

    #[test]
    fn a_pinned_page_is_not_replaced_and_a_tagged_one_not_written() {
        let mut memory = two();
        memory.enter(B);
        let reach = Reach { device_writes: true, tagged: true };
        let descriptor = memory.attach(0x1000, 2 * PAGE as u32, reach).unwrap();
        assert_eq!(memory.store(B, 0x1ffe, &[1]), Err(Fault::Busy { address: 0x1ffe }));
        assert_eq!(memory.store(A, 0x1000, &[1]), Ok(()));
        let taken: Vec<_> = core::iter::from_fn(|| memory.replace()).collect();
        assert_eq!(taken.len(), 5, "all of the other process's pages, and none of these");
        assert!(taken.iter().all(|(process, _)| *process == A));
        memory.write(descriptor.bus.into(), &[7; 2 * PAGE]).unwrap();
        memory.detach(descriptor);
        let mut got = [0; 2 * PAGE];
        memory.load(B, 0x1000, &mut got).unwrap();
        assert!(got == [7; 2 * PAGE]);
        assert_eq!(memory.store(B, 0x1ffe, &[1]), Ok(()));
        assert!(memory.replace().is_some());
        assert_eq!(memory.load(A, 0x1000, &mut [0]), Err(Fault::NoPage { address: 0x1000 }));
    }
}
