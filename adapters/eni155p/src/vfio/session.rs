//! One client's session: requests in, answers out; the guest's memory and the interrupt as the client set them up.

use super::guest::GuestMemory;
use super::protocol::{self as p, Header, Request};
use crate::Eni155p;
use crate::tonga::{BAR_OCTETS, CONFIG_OCTETS};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use wire::Time;

/// Regions in vfio's numbering: six windows, ROM, configuration space, VGA.
const REGIONS: u32 = 9;
const BAR0: u32 = 0;
const CONFIG: u32 = 7;
/// Interrupts in vfio's numbering: INTx, MSI, MSI-X, error, request. Only INTx exists.
const IRQS: u32 = 5;
const INTX: u32 = 0;
/// Region flags: read, write.
const READ_WRITE: u32 = 3;
/// Interrupt flags: eventfd, maskable, masked by its being signalled.
const INTX_FLAGS: u32 = 7;
/// Device flags: PCI, can be reset.
const DEVICE_FLAGS: u32 = 3;

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The first message must agree on a version, and there is one version.
    #[error("no agreement on a version")]
    Version,
    /// What came is no message.
    #[error(transparent)]
    NoMessage(#[from] wire::Error),
}

/// A client's session.
#[derive(Debug, Default)]
pub struct Session {
    agreed: bool,
    /// What DMA can reach.
    pub memory: GuestMemory,
    event: Option<OwnedFd>,
    masked: bool,
    /// Requests answered by an error.
    pub refused: u64,
}

impl Session {
    /// Answers a message; `fds` came with it. The answer, if one is wanted, is appended to `replies`.
    ///
    /// # Errors
    /// The connection is to be ended, without an answer.
    pub fn handle(
        &mut self,
        header: &Header,
        payload: &[u8],
        fds: Vec<OwnedFd>,
        adapter: &mut Eni155p,
        now: Time,
        replies: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        let begin = replies.len();
        if let Request::Version { major, minor } = Request::parse(header.command, payload).unwrap_or(Request::Reset)
            && !self.agreed
        {
            if major != 0 {
                return Err(Violation::Version);
            }
            self.agreed = true;
            let capabilities =
                format!("{{\"capabilities\":{{\"max_msg_fds\":1,\"max_data_xfer_size\":{}}}}}\0", p::MAX_DATA_OCTETS);
            let [major, minor] = [major, minor.min(1)].map(u16::to_ne_bytes);
            header.reply(&[&major, &minor, capabilities.as_bytes()], replies);
            return Ok(());
        }
        if !self.agreed {
            return Err(Violation::Version);
        }
        let result = match Request::parse(header.command, payload) {
            Ok(request) => self.answer(header, request, payload, fds, adapter, now, replies),
            Err(wire::Error::Field { .. }) => Err(Errno::NOTSUP),
            Err(_) => Err(Errno::INVAL),
        };
        if let Err(errno) = result {
            self.refused = self.refused.wrapping_add(1);
            header.refuse(errno.raw_os_error().unsigned_abs(), replies);
        }
        if !header.wants_reply() {
            replies.truncate(begin);
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "one call, from one place: a struct would only rename them")]
    fn answer(
        &mut self,
        header: &Header,
        request: Request<'_>,
        payload: &[u8],
        fds: Vec<OwnedFd>,
        adapter: &mut Eni155p,
        now: Time,
        replies: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        match request {
            Request::Version { .. } => return Err(Errno::INVAL),
            Request::DmaMap { flags, offset, address, size } => {
                self.memory.map(flags, offset, address, size, fds.into_iter().next())?;
                header.reply(&[], replies);
            }
            Request::DmaUnmap { flags, address, size } => {
                match (flags, address, size) {
                    (0, ..) => self.memory.unmap(address, size)?,
                    (p::UNMAP_ALL, 0, 0) => self.memory.clear(),
                    (p::UNMAP_ALL, ..) => return Err(Errno::INVAL),
                    // A bitmap of what was written, addresses that become invalid for a while: there are none.
                    _ => return Err(Errno::NOTSUP),
                }
                header.reply(&[&payload[..payload.len().min(24)]], replies);
            }
            Request::GetInfo => header.reply(&[&words([16, DEVICE_FLAGS, REGIONS, IRQS])], replies),
            Request::GetRegionInfo { index } => {
                let size = region_octets(index)?;
                let flags = if size > 0 { READ_WRITE } else { 0 };
                let (size, offset) = (size.to_ne_bytes(), 0u64.to_ne_bytes());
                header.reply(&[&words([32, flags, index, 0]), &size, &offset], replies);
            }
            Request::GetIrqInfo { index } => {
                let (flags, count) = match index {
                    INTX => (INTX_FLAGS, 1),
                    1..IRQS => (0, 0),
                    _ => return Err(Errno::INVAL),
                };
                header.reply(&[&words([16, flags, index, count])], replies);
            }
            Request::SetIrqs { flags, index, start, count, data } => {
                self.set_irqs(flags, index, start, count, data, fds)?;
                header.reply(&[], replies);
            }
            Request::RegionRead { offset, region, count } => {
                let offset = check(region, offset, count as usize)?;
                header.reply(&[&payload[..16]], replies);
                let at = replies.len();
                replies.resize(at + count as usize, 0);
                let size = (p::HEADER_OCTETS + 16) as u32 + count;
                replies[at - 28..at - 24].copy_from_slice(&size.to_ne_bytes());
                match region {
                    CONFIG => adapter.config_read(offset as usize, &mut replies[at..]),
                    _ => adapter.bar_read(offset, &mut replies[at..], now),
                }
            }
            Request::RegionWrite { offset, region, data } => {
                let offset = check(region, offset, data.len())?;
                match region {
                    CONFIG => adapter.config_write(offset as usize, data),
                    _ => adapter.bar_write(offset, data, now),
                }
                header.reply(&[&payload[..16]], replies);
            }
            Request::Reset => {
                adapter.reset();
                self.masked = false;
                header.reply(&[], replies);
            }
        }
        Ok(())
    }

    fn set_irqs(
        &mut self,
        flags: u32,
        index: u32,
        start: u32,
        count: u32,
        data: &[u8],
        fds: Vec<OwnedFd>,
    ) -> Result<(), Errno> {
        if index != INTX {
            // Nothing to switch off is soon done.
            return if index < IRQS && count == 0 { Ok(()) } else { Err(Errno::INVAL) };
        }
        let applies = match flags & (p::IRQ_NONE | p::IRQ_BOOL | p::IRQ_EVENTFD) {
            p::IRQ_NONE | p::IRQ_EVENTFD => true,
            p::IRQ_BOOL => data.first().is_some_and(|on| *on != 0),
            _ => return Err(Errno::INVAL),
        };
        if start != 0 || count > 1 {
            return Err(Errno::INVAL);
        }
        match flags & (p::IRQ_MASK | p::IRQ_UNMASK | p::IRQ_TRIGGER) {
            p::IRQ_TRIGGER if flags & p::IRQ_EVENTFD != 0 => {
                let event = fds.into_iter().next();
                if event.as_ref().is_some_and(|event| !is_eventfd(event)) {
                    return Err(Errno::INVAL);
                }
                (self.event, self.masked) = (event, false);
            }
            p::IRQ_TRIGGER if count == 0 => self.event = None,
            p::IRQ_TRIGGER if applies => self.signal(),
            p::IRQ_TRIGGER => {}
            // An eventfd to unmask by is for clients with a kernel's help, who can do without.
            p::IRQ_MASK | p::IRQ_UNMASK if flags & p::IRQ_EVENTFD != 0 => return Err(Errno::NOTSUP),
            p::IRQ_MASK if applies => self.masked = true,
            p::IRQ_UNMASK if applies => self.masked = false,
            p::IRQ_MASK | p::IRQ_UNMASK => {}
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }

    /// Signals the interrupt if the pin is asserted and the client has not masked it; that masks it, until the client has
    /// looked and unmasks it again.
    pub fn update_interrupt(&mut self, asserted: bool) {
        if asserted && !self.masked && self.event.is_some() {
            self.masked = true;
            self.signal();
        }
    }

    fn signal(&self) {
        let Some(event) = &self.event else { return };
        // A full one has been signalled often enough; if it blocks, this adapter would.
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        if matches!(poll(&mut [PollFd::new(event, PollFlags::OUT)], Some(&none)), Ok(1..)) {
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }
}

fn is_eventfd(fd: &OwnedFd) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventfd]")
}

fn region_octets(index: u32) -> Result<u64, Errno> {
    match index {
        BAR0 => Ok(BAR_OCTETS.into()),
        CONFIG => Ok(CONFIG_OCTETS as u64),
        1..REGIONS => Ok(0),
        _ => Err(Errno::INVAL),
    }
}

/// An access that is wholly inside its region: gives its offset.
fn check(region: u32, offset: u64, octets: usize) -> Result<u32, Errno> {
    let end = offset.checked_add(octets as u64).ok_or(Errno::INVAL)?;
    if octets > p::MAX_DATA_OCTETS || end > region_octets(region)? {
        return Err(Errno::INVAL);
    }
    u32::try_from(offset).map_err(|_| Errno::INVAL)
}

fn words(numbers: [u32; 4]) -> [u8; 16] {
    let mut octets = [0; 16];
    for (place, number) in octets.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
    octets
}
