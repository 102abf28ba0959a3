//! Areas of memory that the service granted, and descriptors that a process writes: protected DMA.
//!
//! A descriptor names an area by number, an offset and a length, never an address. Only the service fills the table
//! of areas. The chip checks a descriptor when it has read it, and its area again whenever it moves octets, so that a
//! revoked area is out of reach at once.

/// A process, or whoever queues buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(pub u16);

/// Memory that a process may have octets read from, and perhaps written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// Whose descriptors may name it.
    pub owner: Owner,
    /// Its first octet on the bus.
    pub address: u64,
    /// How long it is.
    pub octets: u32,
    /// Whether received data may go there.
    pub writable: bool,
}

/// Octets of a descriptor.
pub const DESCRIPTOR_OCTETS: u64 = 16;
/// Where in a descriptor the chip writes what became of it.
pub const STATUS_AT: u64 = 12;
/// Where in a descriptor the chip writes, before the status, which of the pool's buffers has the rest of a PDU that is
/// split: the count of descriptors that were queued to the pool before it, or [`NO_BODY`].
pub const BODY_AT: u64 = 8;
/// No buffer of the pool: the PDU was no longer than the first part.
pub const NO_BODY: u32 = u32::MAX;
/// The bit of a status that says that the chip is done.
pub const DONE: u32 = 1 << 31;

/// What became of a descriptor: bits 30 to 24 of its status. Bits 23 to 0 are octets received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// Sent, or filled.
    Good = 0,
    /// It names no area of its owner, or one that may not be written.
    NotGranted = 1,
    /// It leaves its area, is empty, or too long; in raw mode: not whole cells.
    BadLength = 2,
    /// Its area was revoked, or leads nowhere, while it was in use.
    Revoked = 3,
}

impl Outcome {
    /// A status as it stands in memory.
    pub const fn status(self, octets: u32) -> u32 {
        DONE | (self as u32) << 24 | octets & 0xff_ffff
    }
}

/// A buffer that a process queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Descriptor {
    /// The area's number.
    pub area: u16,
    /// The user-to-user octet of the AAL5 trailer; of a channel that sends.
    pub uu: u8,
    /// Where in the area the buffer begins.
    pub offset: u32,
    /// How long it is.
    pub length: u32,
}

impl Descriptor {
    /// As it stands in memory, with no status.
    pub fn to_octets(self) -> [u8; 16] {
        let mut octets = [0; 16];
        octets[..2].copy_from_slice(&self.area.to_le_bytes());
        octets[2] = self.uu;
        octets[4..8].copy_from_slice(&self.offset.to_le_bytes());
        octets[8..12].copy_from_slice(&self.length.to_le_bytes());
        octets
    }

    /// From memory. Whatever the octets are, they are a descriptor; whether it is granted is another question.
    pub fn from_octets(octets: &[u8; 16]) -> Self {
        let word = |at: usize| u32::from_le_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]]);
        Descriptor { area: word(0) as u16, uu: octets[2], offset: word(4), length: word(8) }
    }
}

/// All areas, by number.
#[derive(Debug, Clone)]
pub(super) struct Areas {
    areas: Vec<Option<Area>>,
}

impl Areas {
    pub(super) fn new(most: usize) -> Self {
        Areas { areas: vec![None; most.min(1 << 16)] }
    }

    /// False: the table is not that long.
    pub(super) fn set(&mut self, number: u16, area: Option<Area>) -> bool {
        self.areas.get_mut(usize::from(number)).map(|place| *place = area).is_some()
    }

    /// The bus address of a part of an area, if `owner` may have it moved.
    pub(super) fn address(
        &self,
        owner: Owner,
        number: u16,
        offset: u32,
        octets: u32,
        write: bool,
    ) -> Result<u64, Outcome> {
        let area = self.areas.get(usize::from(number)).copied().flatten();
        let granted = area.filter(|area| area.owner == owner && (area.writable || !write));
        let area = granted.ok_or(Outcome::NotGranted)?;
        let inside = offset.checked_add(octets).is_some_and(|end| end <= area.octets);
        let address = area.address.checked_add(u64::from(offset)).filter(|_| inside);
        address.ok_or(Outcome::BadLength)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_address_is_inside_an_area_of_its_owner_or_refused(
            octets in any::<[u8; 16]>(),
            small in any::<bool>(),
            owner in 0u16..3,
            write in any::<bool>(),
        ) {
            let mut descriptor = Descriptor::from_octets(&octets);
            if small {
                descriptor.area %= 4;
                descriptor.offset %= 5000;
                descriptor.length %= 5000;
            }
            let again = Descriptor::from_octets(&descriptor.to_octets());
            prop_assert_eq!(again, descriptor);
            let mut areas = Areas::new(3);
            for n in 0..3u16 {
                let address = u64::MAX - 40_000 + 10_000 * u64::from(n);
                let area = Area { owner: Owner(n % 2), address, octets: 4096, writable: n > 0 };
                prop_assert!(areas.set(n, Some(area)));
            }
            prop_assert!(!areas.set(3, None));
            let found = areas.address(Owner(owner), descriptor.area, descriptor.offset, descriptor.length, write);
            if let Ok(address) = found {
                let base = u64::MAX - 40_000 + 10_000 * u64::from(descriptor.area);
                prop_assert!(address >= base && address + u64::from(descriptor.length) <= base + 4096);
                prop_assert!(owner == descriptor.area % 2 && (!write || descriptor.area > 0));
            }
        }
    }
}
