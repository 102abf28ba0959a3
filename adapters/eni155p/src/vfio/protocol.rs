//! Messages of vfio-user: a header of 16 octets, then what the command needs, numbers in this machine's order (the
//! protocol never leaves it).

use wire::Error;

/// Octets of a header.
pub const HEADER_OCTETS: usize = 16;
/// Most octets of one region access: what the version reply says.
pub const MAX_DATA_OCTETS: usize = 1 << 16;
/// Longest message that is accepted.
pub const MAX_MESSAGE_OCTETS: usize = HEADER_OCTETS + 32 + MAX_DATA_OCTETS;

/// Header flag: a reply.
pub const FLAG_REPLY: u32 = 1;
/// Header flag: no reply is wanted.
pub const FLAG_NO_REPLY: u32 = 1 << 4;
/// Header flag: the reply's error field counts.
pub const FLAG_ERROR: u32 = 1 << 5;

/// DMA may read a range.
pub const MAP_READ: u32 = 1;
/// DMA may write a range.
pub const MAP_WRITE: u32 = 2;
/// Unmap everything: `VFIO_DMA_UNMAP_FLAG_ALL` of Linux's `vfio.h`.
pub const UNMAP_ALL: u32 = 2;

/// Interrupts: no data follows.
pub const IRQ_NONE: u32 = 1;
/// Interrupts: an octet each follows.
pub const IRQ_BOOL: u32 = 2;
/// Interrupts: an eventfd each comes with the message.
pub const IRQ_EVENTFD: u32 = 4;
/// Interrupts: mask.
pub const IRQ_MASK: u32 = 8;
/// Interrupts: unmask.
pub const IRQ_UNMASK: u32 = 16;
/// Interrupts: how to signal, or signal now.
pub const IRQ_TRIGGER: u32 = 32;

/// Commands by number.
pub mod command {
    /// Agree on a version; the first message.
    pub const VERSION: u16 = 1;
    /// Guest memory appears.
    pub const DMA_MAP: u16 = 2;
    /// Guest memory goes.
    pub const DMA_UNMAP: u16 = 3;
    /// What the device is.
    pub const GET_INFO: u16 = 4;
    /// What a region is.
    pub const GET_REGION_INFO: u16 = 5;
    /// What an interrupt is.
    pub const GET_IRQ_INFO: u16 = 7;
    /// Set interrupts up.
    pub const SET_IRQS: u16 = 8;
    /// Read a region.
    pub const REGION_READ: u16 = 9;
    /// Write a region.
    pub const REGION_WRITE: u16 = 10;
    /// Reset the device.
    pub const RESET: u16 = 13;
}

/// A message's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The sender's number for it; its reply has the same.
    pub id: u16,
    /// What it asks.
    pub command: u16,
    /// Octets with the header.
    pub size: usize,
    /// Flags.
    pub flags: u32,
}

impl Header {
    /// Reads a header at the start of `octets`.
    ///
    /// # Errors
    /// Too few octets, a size that no message has, or a reply where a request should be.
    pub fn parse(octets: &[u8]) -> Result<Self, Error> {
        const WHAT: &str = "vfio-user header";
        let Some(&[i0, i1, c0, c1, s0, s1, s2, s3, f0, f1, f2, f3, ..]) = octets.first_chunk::<HEADER_OCTETS>() else {
            return Err(Error::Truncated { what: WHAT, need: HEADER_OCTETS, got: octets.len() });
        };
        let size = u32::from_ne_bytes([s0, s1, s2, s3]);
        let flags = u32::from_ne_bytes([f0, f1, f2, f3]);
        if !(HEADER_OCTETS..=MAX_MESSAGE_OCTETS).contains(&(size as usize)) {
            return Err(Error::Field { what: WHAT, field: "size", value: size.into() });
        }
        if flags & 0xf != 0 {
            return Err(Error::Field { what: WHAT, field: "flags", value: flags.into() });
        }
        let [id, command] = [[i0, i1], [c0, c1]].map(u16::from_ne_bytes);
        Ok(Header { id, command, size: size as usize, flags })
    }

    /// Whether the sender waits for a reply.
    pub const fn wants_reply(&self) -> bool {
        self.flags & FLAG_NO_REPLY == 0
    }

    /// Appends a reply of `parts` to `out`.
    pub fn reply(&self, parts: &[&[u8]], out: &mut Vec<u8>) {
        let octets = parts.iter().map(|part| part.len()).sum::<usize>();
        self.emit(octets, FLAG_REPLY, 0, out);
        for part in parts {
            out.extend_from_slice(part);
        }
    }

    /// Appends a reply that says an error number.
    pub fn refuse(&self, errno: u32, out: &mut Vec<u8>) {
        self.emit(0, FLAG_REPLY | FLAG_ERROR, errno, out);
    }

    fn emit(&self, octets: usize, flags: u32, errno: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_ne_bytes());
        out.extend_from_slice(&self.command.to_ne_bytes());
        for word in [(HEADER_OCTETS + octets) as u32, flags, errno] {
            out.extend_from_slice(&word.to_ne_bytes());
        }
    }
}

/// What a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Agree on a version.
    Version {
        /// Must be 0.
        major: u16,
        /// The lower of both counts.
        minor: u16,
    },
    /// Guest memory from bus address `address` on.
    DmaMap {
        /// [`MAP_READ`], [`MAP_WRITE`].
        flags: u32,
        /// Where it begins in the file that comes along.
        offset: u64,
        /// Where it begins on the bus.
        address: u64,
        /// How long it is.
        size: u64,
    },
    /// It is gone.
    DmaUnmap {
        /// [`UNMAP_ALL`], or none.
        flags: u32,
        /// Where it began; 0 for everything.
        address: u64,
        /// How long it was; 0 for everything.
        size: u64,
    },
    /// What the device is.
    GetInfo,
    /// What a region is.
    GetRegionInfo {
        /// Which.
        index: u32,
    },
    /// What an interrupt is.
    GetIrqInfo {
        /// Which.
        index: u32,
    },
    /// Set interrupts up.
    SetIrqs {
        /// What to do, and what comes along.
        flags: u32,
        /// Which kind.
        index: u32,
        /// The first of them.
        start: u32,
        /// How many.
        count: u32,
        /// An octet each, with [`IRQ_BOOL`].
        data: &'a [u8],
    },
    /// Read a region.
    RegionRead {
        /// From where on.
        offset: u64,
        /// Which.
        region: u32,
        /// How many octets.
        count: u32,
    },
    /// Write a region.
    RegionWrite {
        /// From where on.
        offset: u64,
        /// Which.
        region: u32,
        /// The octets.
        data: &'a [u8],
    },
    /// Reset the device.
    Reset,
}

/// Numbers from the front of a payload.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (front, rest) = self.0.split_first_chunk().ok_or(Error::Truncated {
            what: "vfio-user request",
            need: N,
            got: self.0.len(),
        })?;
        self.0 = rest;
        Ok(*front)
    }

    fn u16(&mut self) -> Result<u16, Error> {
        self.take().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Result<u32, Error> {
        self.take().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Result<u64, Error> {
        self.take().map(u64::from_ne_bytes)
    }
}

impl<'a> Request<'a> {
    /// Reads what follows a header.
    ///
    /// # Errors
    /// An unknown command, or fewer octets than it needs.
    pub fn parse(command: u16, payload: &'a [u8]) -> Result<Self, Error> {
        let mut r = Reader(payload);
        Ok(match command {
            command::VERSION => Request::Version { major: r.u16()?, minor: r.u16()? },
            command::DMA_MAP => {
                let _argsz = r.u32()?;
                Request::DmaMap { flags: r.u32()?, offset: r.u64()?, address: r.u64()?, size: r.u64()? }
            }
            command::DMA_UNMAP => {
                let _argsz = r.u32()?;
                Request::DmaUnmap { flags: r.u32()?, address: r.u64()?, size: r.u64()? }
            }
            command::GET_INFO => Request::GetInfo,
            command::GET_REGION_INFO | command::GET_IRQ_INFO => {
                let (_argsz, _flags, index) = (r.u32()?, r.u32()?, r.u32()?);
                match command {
                    command::GET_IRQ_INFO => Request::GetIrqInfo { index },
                    _ => Request::GetRegionInfo { index },
                }
            }
            command::SET_IRQS => {
                let _argsz = r.u32()?;
                let (flags, index, start, count) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?);
                Request::SetIrqs { flags, index, start, count, data: r.0 }
            }
            command::REGION_READ => Request::RegionRead { offset: r.u64()?, region: r.u32()?, count: r.u32()? },
            command::REGION_WRITE => {
                let (offset, region, count) = (r.u64()?, r.u32()?, r.u32()?);
                let data = r.0.get(..count as usize).ok_or(Error::Truncated {
                    what: "vfio-user region write",
                    need: count as usize,
                    got: r.0.len(),
                })?;
                Request::RegionWrite { offset, region, data }
            }
            command::RESET => Request::Reset,
            other => return Err(Error::Field { what: "vfio-user request", field: "command", value: other.into() }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_octets_panic_and_a_write_holds_what_it_says(octets in proptest::collection::vec(any::<u8>(), 0..80), command in 0u16..16) {
            if let Ok(header) = Header::parse(&octets) {
                prop_assert!(header.size >= HEADER_OCTETS && header.size <= MAX_MESSAGE_OCTETS);
            }
            if let Ok(Request::RegionWrite { data, .. }) = Request::parse(command, &octets) {
                prop_assert_eq!(data.len(), u32::from_ne_bytes(octets[12..16].try_into().unwrap()) as usize);
            }
        }
    }

    #[test]
    fn a_reply_has_its_requests_number_and_its_own_size() {
        let mut out = Vec::new();
        let header = Header { id: 7, command: 9, size: 32, flags: 0 };
        header.reply(&[&[1, 2], &[3]], &mut out);
        assert_eq!(u32::from_ne_bytes(out[4..8].try_into().unwrap()), 19);
        assert_eq!((out[0], out[2], out[8], &out[16..]), (7, 9, 1, &[1, 2, 3][..]));
        out.clear();
        header.refuse(22, &mut out);
        assert_eq!((out.len(), out[8], out[12]), (16, 0x21, 22));
        assert!(Header::parse(&out).is_err(), "a reply is no request");
    }
}
