//! What a kernel does to the octets of an SDU between a process and a device: it copies, sums, and maps pages. Each pass
//! over memory is counted for what it is ([`Crossings`]).

use super::{Fault, Memory, PAGE, Process, pages, pieces};
use crate::crossings::{Crosser, Crossings, InternetSum};

/// A place in a process's memory; in the kernel's, that of process 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Whose memory.
    pub process: Process,
    /// Where in it.
    pub address: u32,
}

impl Place {
    /// In the kernel's memory.
    pub const fn kernel(address: u32) -> Self {
        Place { process: Process(0), address }
    }

    /// So many octets further on.
    pub const fn after(self, octets: u32) -> Self {
        Place { process: self.process, address: self.address.wrapping_add(octets) }
    }

    /// Whether a page begins here.
    pub const fn begins_page(self) -> bool {
        (self.address as usize).is_multiple_of(PAGE)
    }
}

impl Memory {
    /// What has crossed the bus since the machine was made.
    pub const fn crossings(&self) -> Crossings {
        self.crossings
    }

    /// Copies from one process's memory to another's.
    ///
    /// # Errors
    /// A page is not there, or in use by a device.
    pub fn copy(&mut self, from: Place, to: Place, octets: usize) -> Result<(), Fault> {
        self.copy_and_sum(from, to, octets).map(drop)
    }

    /// The same, and sums what passes through the processor's registers: no pass more (RFC 1071, section 2 (2)).
    ///
    /// # Errors
    /// As [`Memory::copy`].
    pub fn copy_and_sum(&mut self, from: Place, to: Place, octets: usize) -> Result<u16, Fault> {
        let data = self.take(from, octets, Crosser::Copy)?;
        self.put(to, &data, Crosser::Copy)?;
        let mut sum = InternetSum::default();
        sum.add(&data);
        Ok(sum.value())
    }

    /// Sums octets in a pass of its own, which reads them; where it `writes_back`, it writes each of them again, as the
    /// baseline of Kazantzidis (1997, section 1) does.
    ///
    /// # Errors
    /// A page is not there, or in use by a device.
    pub fn sum(&mut self, at: Place, octets: usize, writes_back: bool) -> Result<u16, Fault> {
        let data = self.take(at, octets, Crosser::Checksum)?;
        if writes_back {
            self.put(at, &data, Crosser::Checksum)?;
        }
        let mut sum = InternetSum::default();
        sum.add(&data);
        Ok(sum.value())
    }

    /// Reads octets into the processor's registers, on their way to a device's own memory: half a copy crosses this bus.
    ///
    /// # Errors
    /// A page is not there.
    pub fn fetch(&mut self, at: Place, octets: usize) -> Result<Vec<u8>, Fault> {
        self.take(at, octets, Crosser::Copy)
    }

    /// Writes what the processor has read from a device's own memory: the other half.
    ///
    /// # Errors
    /// A page is not there, or in use by a device.
    pub fn deposit(&mut self, at: Place, data: &[u8]) -> Result<(), Fault> {
        self.put(at, data, Crosser::Copy)
    }

    /// Gives the pages of `from` to whoever has those of `to`, and the other way round: no octet crosses. Both begin with a
    /// page, and `octets` are whole pages.
    ///
    /// # Errors
    /// A page is not there, or a device is at it; nothing is exchanged.
    pub fn exchange(&mut self, from: Place, to: Place, octets: usize) -> Result<(), Fault> {
        if octets == 0 {
            return Ok(());
        }
        let mut pairs = Vec::with_capacity(octets / PAGE);
        for (a, b) in pages(from.address, octets as u32).zip(pages(to.address, octets as u32)) {
            let found = [(from.process, a), (to.process, b)].map(|(process, page)| {
                let address = page * PAGE as u32;
                let frame = self.frame(process, page).ok_or(Fault::NoPage { address })?;
                if self.frames[frame].pins > 0 { Err(Fault::Busy { address }) } else { Ok(frame) }
            });
            let [a, b] = found;
            pairs.push((a?, b?));
        }
        for (a, b) in pairs {
            let page = self.frames[a].page;
            self.frames[a].page = core::mem::replace(&mut self.frames[b].page, page);
        }
        Ok(())
    }

    fn take(&mut self, at: Place, octets: usize, by: Crosser) -> Result<Vec<u8>, Fault> {
        let mut data = vec![0; octets];
        self.read_pages(at.process, at.address, &mut data)?;
        self.crossings.note_read(by, octets);
        Ok(data)
    }

    fn put(&mut self, at: Place, data: &[u8], by: Crosser) -> Result<(), Fault> {
        self.write_pages(at.process, at.address, data)?;
        self.crossings.note_written(by, data.len());
        Ok(())
    }

    pub(super) fn read_pages(&self, process: Process, address: u32, data: &mut [u8]) -> Result<(), Fault> {
        for (at, place) in pieces(address.into(), data.len()) {
            let page = (at / PAGE as u64) as u32;
            let frame = self.frame(process, page).ok_or(Fault::NoPage { address: at as u32 })?;
            let from = frame * PAGE + at as usize % PAGE;
            data[place.clone()].copy_from_slice(&self.octets[from..][..place.len()]);
        }
        Ok(())
    }

    pub(super) fn write_pages(&mut self, process: Process, address: u32, data: &[u8]) -> Result<(), Fault> {
        for (at, place) in pieces(address.into(), data.len()) {
            let page = (at / PAGE as u64) as u32;
            let frame = self.frame(process, page).ok_or(Fault::NoPage { address: at as u32 })?;
            if self.frames[frame].tags > 0 {
                return Err(Fault::Busy { address: at as u32 });
            }
            let to = frame * PAGE + at as usize % PAGE;
            self.octets[to..][..place.len()].copy_from_slice(&data[place]);
        }
        Ok(())
    }
}
