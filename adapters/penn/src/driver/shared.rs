//! Regions shared by a process and the kernel, with the passing of control (Smith 2002, section 2.2, figure 3): data move
//! with no system call and no copy.
//!
//! A region has slots. A slot has an owner, a length and room for an SDU. Who owns a slot may touch it, and gives it to the
//! other by writing the owner's word. To send, the process fills a slot and passes it on; the driver finds it when the
//! Segmenter is idle or the clock says so, has it streamed from where it lies, and passes it back. To receive, the driver
//! has cells fetched into a slot that is the kernel's, and passes it to the process.
//!
//! | octets | what |
//! |---|---|
//! | 8 for each slot | owner, 0 the process and 1 the kernel; length of the SDU in octets. Big-endian words |
//! | for each slot | room for the CPCS header; the SDU; room for padding and trailer |
//!
//! Nothing that a process writes there is trusted: a word is read once, and a length that is none gives the slot back.

use super::cs::{HEAD_OCTETS, Layer, TAIL_OCTETS};
use super::{BUFFER_OCTETS, Cards, Penn, PennError};
use bus::iocc;
use bus::memory::{CrossMemory, Descriptor, Flat, HostMemory, Reach, Unmapped};
use core::time::Duration;
use wire::{DropReason, Time};

const USER: u32 = 0;
const KERNEL: u32 = 1;
/// Owner and length.
const CONTROL_OCTETS: u32 = 8;

/// What the driver and its processes have touched for data to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accesses {
    /// System calls that move data, or ask for it.
    pub calls: u64,
    /// Registers of the Segmenter read.
    pub registers_read: u64,
    /// Registers of the Segmenter written.
    pub registers_written: u64,
    /// Words of regions that the driver read, without those that AAL5's CRC needs.
    pub shared_read: u64,
    /// Words of regions that the driver wrote.
    pub shared_written: u64,
}

/// Which way a region's SDUs go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the process to the Segmenter.
    Send,
    /// From the Reassembler to the process.
    Receive,
}

/// Where a region is and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// In the process's memory.
    pub address: u32,
    /// Slots.
    pub slots: u32,
    /// Octets of the longest SDU.
    pub octets: u32,
}

impl Layout {
    const fn stride(&self) -> u32 {
        (HEAD_OCTETS as u32 + self.octets + TAIL_OCTETS as u32).next_multiple_of(4)
    }

    /// Octets of the whole region.
    pub const fn region_octets(&self) -> u32 {
        self.slots * (CONTROL_OCTETS + self.stride())
    }

    const fn control(&self, slot: u32) -> u32 {
        slot * CONTROL_OCTETS
    }

    /// Where a slot's PDU begins, from the region's beginning; its SDU follows the room for a header.
    const fn data(&self, slot: u32) -> u32 {
        self.slots * CONTROL_OCTETS + slot * self.stride()
    }

    fn check(&self) -> Result<(), PennError> {
        let length = |octets: u32| octets == 0 || octets as usize > BUFFER_OCTETS;
        if length(self.octets) || self.slots == 0 || self.slots as usize > super::TABLE {
            return Err(PennError::Length(self.octets as usize));
        }
        Ok(())
    }
}

/// A region as the driver has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) x: Descriptor,
    layout: Layout,
    next: u32,
}

/// A slot that was taken from a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) region: Region,
    pub(super) slot: u32,
    pub(super) address: u32,
    pub(super) octets: u32,
}

/// A frame each period.
#[derive(Debug, Clone, Copy)]
pub(super) struct Isochronous {
    pub(super) period: Duration,
    pub(super) next: Time,
}

fn word(memory: &mut impl HostMemory, address: u32) -> Option<u32> {
    let mut octets = [0; 4];
    memory.copy_from(address.into(), &mut octets).ok()?;
    Some(u32::from_be_bytes(octets))
}

impl Region {
    fn bus(&self, place: u32) -> u32 {
        self.x.bus + place
    }

    fn put(&self, memory: &mut impl HostMemory, place: u32, value: u32) {
        // The pages are pinned while the region is shared.
        let _ = memory.copy_to(self.bus(place).into(), &value.to_be_bytes());
    }

    /// Passes a slot to the process; gives how many words that took.
    pub(super) fn give_to_user(&self, memory: &mut impl HostMemory, slot: u32) -> u8 {
        self.put(memory, self.layout.control(slot), USER);
        1
    }

    /// The same with what has come.
    pub(super) fn deliver(&self, memory: &mut impl HostMemory, slot: u32, octets: u32) -> u8 {
        self.put(memory, self.layout.control(slot) + 4, octets);
        1 + self.give_to_user(memory, slot)
    }

    /// Where cells of a PDU go in a slot: its header, where it has one, before the SDU's place.
    pub(super) fn landing(&self, layer: Layer, slot: u32) -> u32 {
        let head = if layer == Layer::Aal34 { 0 } else { HEAD_OCTETS as u32 };
        self.bus(self.layout.data(slot) + head)
    }

    /// Whole bodies that a slot holds.
    pub(super) fn bodies(&self, layer: Layer) -> u32 {
        let room = match layer {
            Layer::Bare => self.layout.octets,
            Layer::Aal5 => self.layout.octets + TAIL_OCTETS as u32,
            Layer::Aal34 => self.layout.octets + (HEAD_OCTETS + TAIL_OCTETS) as u32,
        };
        room / layer.unit()
    }
}

impl Penn {
    /// Shares a region of the calling process, which is pinned until its file is closed, instead of one that it shared
    /// before for the same way.
    ///
    /// # Errors
    /// No circuit, sizes that are none, no memory there.
    pub fn share<M: CrossMemory>(
        &mut self,
        cards: &mut Cards<'_, M>,
        file: usize,
        way: Way,
        layout: Layout,
    ) -> Result<UserRegion, PennError> {
        layout.check()?;
        let number = self.file(file)?.vc.ok_or(PennError::File)?;
        let reach = Reach { device_writes: true, tagged: false };
        let x = cards.memory.attach(layout.address, layout.region_octets(), reach)?;
        let region = Region { x, layout, next: 0 };
        let owner = if way == Way::Send { USER } else { KERNEL };
        for slot in 0..layout.slots {
            region.put(cards.memory, layout.control(slot), owner);
        }
        if let Some(vc) = &mut self.vcs[number] {
            let place = if way == Way::Send { &mut vc.send } else { &mut vc.receive };
            self.detached.extend(place.replace(region).map(|old| old.x));
        }
        self.give_back(cards);
        Ok(UserRegion { layout, next: 0 })
    }

    /// Says only that the driver is to look at the regions now: a call for a process that has been silent, and need not
    /// wait for the clock.
    pub fn kick<M: CrossMemory>(&mut self, cards: &mut Cards<'_, M>, now: Time) {
        self.accesses.calls += 1;
        self.poll_segmenter(cards, now);
    }

    /// The next time at which a clocked circuit sends; the idle flag is what counts while the Segmenter works.
    pub(super) fn isochronous_due(&self) -> Option<Time> {
        self.running.is_none().then_some(())?;
        self.vcs.iter().flatten().filter_map(|vc| Some(vc.isochronous.filter(|_| vc.send.is_some())?.next)).min()
    }

    /// Whether a slot is to be taken from a circuit's region, and if so, whether the clock says so.
    pub(super) fn offered(&self, number: usize, now: Time) -> Option<bool> {
        let vc = self.vcs[number].as_ref()?;
        vc.send?;
        match vc.isochronous {
            Some(isochronous) => (isochronous.next <= now).then_some(true),
            None => self.transfers.iter().all(|transfer| transfer.vci != vc.vci).then_some(false),
        }
    }

    /// Takes the next slot of a circuit's region, if it is the kernel's, and puts what its layer needs around the SDU.
    pub(super) fn take_slot<M: CrossMemory>(&mut self, memory: &mut M, number: usize, now: Time) -> Option<Taken> {
        let region = self.vcs[number].as_ref()?.send?;
        let (layout, slot) = (region.layout, region.next);
        self.accesses.shared_read += 1;
        let ready = word(memory, region.bus(layout.control(slot)))? == KERNEL;
        let vc = self.vcs[number].as_mut()?;
        if let Some(isochronous) = &mut vc.isochronous {
            // One frame each period; periods without one are not made up for.
            while isochronous.next <= now {
                isochronous.next += isochronous.period;
                self.statistics.underruns += u64::from(!ready);
                if ready {
                    break;
                }
            }
        }
        if !ready {
            return None;
        }
        vc.send = Some(Region { next: (slot + 1) % layout.slots, ..region });
        self.accesses.shared_read += 1;
        let octets = word(memory, region.bus(layout.control(slot) + 4))?;
        let fits = self.layer(number).ok()?.pdu_octets(octets as usize) <= BUFFER_OCTETS;
        if octets == 0 || octets > layout.octets || !fits {
            self.counters.drop_one(DropReason::BadDescriptor);
            self.accesses.shared_written += u64::from(region.give_to_user(memory, slot));
            return None;
        }
        let (address, octets) = self.compose_in_place(memory, number, &region, slot, octets)?;
        Some(Taken { region, slot, address, octets })
    }

    /// Gives where the PDU begins, and its octets.
    fn compose_in_place<M: CrossMemory>(
        &mut self,
        memory: &mut M,
        number: usize,
        region: &Region,
        slot: u32,
        octets: u32,
    ) -> Option<(u32, u32)> {
        let sdu_at = region.bus(region.layout.data(slot)) + HEAD_OCTETS as u32;
        let layer = self.layer(number).ok()?;
        if layer == Layer::Bare {
            return Some((sdu_at, octets));
        }
        let mut sdu = vec![0; octets as usize];
        if layer == Layer::Aal5 {
            memory.copy_from(sdu_at.into(), &mut sdu).ok()?;
        }
        let frame = self.frame(number, &sdu).ok()?;
        let head_at = sdu_at - frame.heads as u32;
        memory.copy_to(head_at.into(), &frame.head[..frame.heads]).ok()?;
        memory.copy_to((sdu_at + octets).into(), &frame.tail[..frame.tails]).ok()?;
        self.accesses.shared_written += (frame.heads.div_ceil(4) + frame.tails.div_ceil(4)) as u64;
        Some((head_at, frame.heads as u32 + octets + frame.tails as u32))
    }

    /// The next slot of a circuit's region for what comes, if it is the kernel's.
    pub(super) fn free_slot<M: CrossMemory>(&mut self, memory: &mut M, number: usize) -> Option<(Region, u32)> {
        let region = self.vcs[number].as_ref()?.receive?;
        self.accesses.shared_read += 1;
        let slot = region.next;
        (word(memory, region.bus(region.layout.control(slot)))? == KERNEL).then_some((region, slot))
    }

    /// A slot has been filled: the next one is the next to be.
    pub(super) fn pass_slot<M: CrossMemory>(&mut self, memory: &mut M, number: usize, slot: u32, octets: u32) {
        let Some(region) = self.vcs[number].as_mut().and_then(|vc| vc.receive.as_mut()) else { return };
        region.next = (slot + 1) % region.layout.slots;
        self.accesses.shared_written += u64::from(region.deliver(memory, slot, octets));
    }
}

/// A process's own accesses to its memory.
pub trait ProcessMemory {
    /// Reads.
    ///
    /// # Errors
    /// It has no memory there.
    fn load(&mut self, address: u32, data: &mut [u8]) -> Result<(), Unmapped>;

    /// Writes.
    ///
    /// # Errors
    /// As [`ProcessMemory::load`].
    fn store(&mut self, address: u32, data: &[u8]) -> Result<(), Unmapped>;
}

impl ProcessMemory for Flat {
    fn load(&mut self, address: u32, data: &mut [u8]) -> Result<(), Unmapped> {
        self.read(address.into(), data)
    }

    fn store(&mut self, address: u32, data: &[u8]) -> Result<(), Unmapped> {
        self.write(address.into(), data)
    }
}

/// A process's pages behind the I/O channel controller.
#[derive(Debug)]
pub struct Pages<'a>(pub &'a mut iocc::Memory, pub iocc::Process);

impl ProcessMemory for Pages<'_> {
    fn load(&mut self, address: u32, data: &mut [u8]) -> Result<(), Unmapped> {
        self.0.load(self.1, address, data).map_err(|_| Unmapped { address: address.into() })
    }

    fn store(&mut self, address: u32, data: &[u8]) -> Result<(), Unmapped> {
        self.0.store(self.1, address, data).map_err(|_| Unmapped { address: address.into() })
    }
}

/// A region as its process has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserRegion {
    layout: Layout,
    next: u32,
}

impl UserRegion {
    fn word(&self, memory: &mut impl ProcessMemory, place: u32) -> Result<u32, Unmapped> {
        let mut octets = [0; 4];
        memory.load(self.layout.address + place, &mut octets)?;
        Ok(u32::from_be_bytes(octets))
    }

    fn sdu_at(&self) -> u32 {
        self.layout.address + self.layout.data(self.next) + HEAD_OCTETS as u32
    }

    fn pass(&mut self, memory: &mut impl ProcessMemory) -> Result<(), Unmapped> {
        memory.store(self.layout.address + self.layout.control(self.next), &KERNEL.to_be_bytes())?;
        self.next = (self.next + 1) % self.layout.slots;
        Ok(())
    }

    /// Puts an SDU into the next slot and passes it to the kernel; false, if that still has the slot, or the SDU is too
    /// long for one.
    ///
    /// # Errors
    /// The process has no memory there.
    pub fn submit(&mut self, memory: &mut impl ProcessMemory, sdu: &[u8]) -> Result<bool, Unmapped> {
        let control = self.layout.control(self.next);
        if sdu.len() > self.layout.octets as usize || self.word(memory, control)? != USER {
            return Ok(false);
        }
        memory.store(self.sdu_at(), sdu)?;
        memory.store(self.layout.address + control + 4, &(sdu.len() as u32).to_be_bytes())?;
        self.pass(memory)?;
        Ok(true)
    }

    /// Takes what has come out of the next slot, to the front of `sdu`, and passes the slot to the kernel; `None`, if
    /// nothing has come.
    ///
    /// # Errors
    /// The process has no memory there.
    pub fn take(&mut self, memory: &mut impl ProcessMemory, sdu: &mut [u8]) -> Result<Option<usize>, Unmapped> {
        let control = self.layout.control(self.next);
        if self.word(memory, control)? != USER {
            return Ok(None);
        }
        let octets = (self.word(memory, control + 4)? as usize).min(sdu.len());
        memory.load(self.sdu_at(), &mut sdu[..octets])?;
        self.pass(memory)?;
        Ok(Some(octets))
    }
}
