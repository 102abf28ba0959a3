//! The host's memory, as an adapter's bus master sees it: bus addresses, some of which lead somewhere.

/// An access to an address that leads nowhere, or partly nowhere. Nothing was moved, or only the part before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory at bus address {address:#x}")]
pub struct Unmapped {
    /// Where the access began.
    pub address: u64,
}

/// What an adapter can reach by DMA.
pub trait HostMemory {
    /// Copies `data.len()` octets from bus address `address` on.
    ///
    /// # Errors
    /// Not all of them are mapped for reading.
    fn read(&mut self, address: u64, data: &mut [u8]) -> Result<(), Unmapped>;

    /// Copies `data` to bus address `address` on.
    ///
    /// # Errors
    /// Not all of the place is mapped for writing.
    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped>;

    /// The driver's own reading of what an adapter reaches at `address`: by the processor, as part of a copy.
    ///
    /// # Errors
    /// As [`HostMemory::read`].
    fn copy_from(&mut self, address: u64, data: &mut [u8]) -> Result<(), Unmapped> {
        self.read(address, data)
    }

    /// The driver's own writing there.
    ///
    /// # Errors
    /// As [`HostMemory::write`].
    fn copy_to(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        self.write(address, data)
    }
}

/// What a device may do by a [`Descriptor`], and what the process may not meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// It may write; else it may read only.
    pub device_writes: bool,
    /// A process's write to these pages faults until they are detached.
    pub tagged: bool,
}

/// A cross-memory descriptor: part of a process's memory that a device reaches at an address of its bus.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct Descriptor {
    /// Where the device finds it.
    pub bus: u32,
    /// How many octets it is.
    pub octets: u32,
    /// Writes fault.
    pub tagged: bool,
}

/// Memory of which processes' parts can be made a device's: pinned, translated, and given back.
pub trait CrossMemory: HostMemory {
    /// Pins the current process's pages of a range and maps them for the bus, in a row.
    ///
    /// # Errors
    /// It has not all of these pages, or the bus has no room for them.
    fn attach(&mut self, address: u32, octets: u32, reach: Reach) -> Result<Descriptor, Unmapped>;

    /// Takes the mapping away and unpins the pages.
    fn detach(&mut self, descriptor: Descriptor);

    /// Copies from the current process's memory, as a kernel does.
    ///
    /// # Errors
    /// It has not all of these pages.
    fn copy_in(&mut self, address: u32, data: &mut [u8]) -> Result<(), Unmapped>;

    /// Copies to the current process's memory, as a kernel does.
    ///
    /// # Errors
    /// It has not all of these pages, or a device uses one.
    fn copy_out(&mut self, address: u32, data: &[u8]) -> Result<(), Unmapped>;
}

/// Memory of a host that exists only here: one range of octets.
#[derive(Debug, Clone)]
pub struct Flat {
    base: u64,
    octets: Vec<u8>,
}

impl Flat {
    /// `octets` zeros from bus address `base` on.
    pub fn new(base: u64, octets: usize) -> Self {
        Flat { base, octets: vec![0; octets] }
    }

    /// The range of `octets` octets at `address`.
    pub fn slice(&self, address: u64, octets: usize) -> Option<&[u8]> {
        let at = usize::try_from(address.checked_sub(self.base)?).ok()?;
        self.octets.get(at..at.checked_add(octets)?)
    }

    /// The same to write.
    pub fn slice_mut(&mut self, address: u64, octets: usize) -> Option<&mut [u8]> {
        let at = usize::try_from(address.checked_sub(self.base)?).ok()?;
        self.octets.get_mut(at..at.checked_add(octets)?)
    }
}

impl HostMemory for Flat {
    fn read(&mut self, address: u64, data: &mut [u8]) -> Result<(), Unmapped> {
        data.copy_from_slice(self.slice(address, data.len()).ok_or(Unmapped { address })?);
        Ok(())
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        self.slice_mut(address, data.len()).ok_or(Unmapped { address })?.copy_from_slice(data);
        Ok(())
    }
}

/// One address space for all: nothing is translated, and nothing needs pinning.
impl CrossMemory for Flat {
    fn attach(&mut self, address: u32, octets: u32, reach: Reach) -> Result<Descriptor, Unmapped> {
        Ok(Descriptor { bus: address, octets, tagged: reach.tagged })
    }

    fn detach(&mut self, _: Descriptor) {}

    fn copy_in(&mut self, address: u32, data: &mut [u8]) -> Result<(), Unmapped> {
        self.read(address.into(), data)
    }

    fn copy_out(&mut self, address: u32, data: &[u8]) -> Result<(), Unmapped> {
        self.write(address.into(), data)
    }
}

/// No memory at all: each address leads nowhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMemory;

impl HostMemory for NoMemory {
    fn read(&mut self, address: u64, _: &mut [u8]) -> Result<(), Unmapped> {
        Err(Unmapped { address })
    }

    fn write(&mut self, address: u64, _: &[u8]) -> Result<(), Unmapped> {
        Err(Unmapped { address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_wholly_inside_is_unmapped() {
        let mut memory = Flat::new(0x1000, 16);
        assert_eq!(memory.write(0x1008, &[1; 8]), Ok(()));
        for address in [0xfff, 0x1009, 0x2000, u64::MAX] {
            assert_eq!(memory.write(address, &[2; 8]), Err(Unmapped { address }));
            assert_eq!(memory.read(address, &mut [0; 8]), Err(Unmapped { address }));
        }
        assert_eq!(memory.slice(0x1007, 9).unwrap(), [0, 1, 1, 1, 1, 1, 1, 1, 1]);
    }
}
