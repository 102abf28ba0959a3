//! The application's own memory at an endpoint: registered, sent from, received into, and given back.
//!
//! An SDU may not change while it is on its way. Of the overlap policies, *trust* is [`Endpoint::send_own`], where
//! ownership says it; *block* is [`Endpoint::send_blocking`], which returns when the SDU has been taken; *fault on
//! write* is [`crate::guard`], *copy on write* [`crate::window`].

use super::{Endpoint, Error, Received, SendError};
use crate::app_memory::{Memory, Posted, Sent};
use crate::control::{Request, Response};
use crate::layout::{Descriptor, Head};
use crate::negotiate::OWN_MEMORY;
use crate::shared::SharedMemory;
use crate::{ChannelId, DataPath};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Most octets of one SDU.
const MAX_OCTETS: usize = 65_535;
/// Registered pieces that are made at a time to stand in for other memory.
const STAND_INS: usize = 4;
/// Pieces that stand in at the same time, at most.
const MAX_STAND_INS: usize = 64;

impl Endpoint {
    /// Makes `pieces` pieces of registered memory of `octets` octets each (rounded up to a multiple of 64).
    ///
    /// # Errors
    /// The service refuses (a limit, or a data path other than `single-copy`), or there is no memory.
    pub fn register(&mut self, pieces: usize, octets: usize) -> Result<Vec<Memory>, Error> {
        let each = octets.max(1).next_multiple_of(64);
        let (memory, _) = self.register_region(each.saturating_mul(pieces.max(1)))?;
        let piece = |i| Memory::piece_of(memory.clone(), i * each, octets);
        Ok((0..pieces).map(piece).collect())
    }

    /// Registered memory of whole pages, and its file.
    pub(crate) fn register_region(&mut self, octets: usize) -> Result<(Arc<SharedMemory>, OwnedFd), Error> {
        self.connection.need(OWN_MEMORY)?;
        let whole = octets.next_multiple_of(4096);
        let (answer, fds) = self.connection.ask(&Request::Memory { octets: whole as u64 })?;
        let (Response::Memory, Some(fd)) = (&answer, fds.into_iter().next()) else {
            return Err(Error::Protocol(format!("{answer:?} without its file descriptor")));
        };
        let memory = SharedMemory::open(&fd, whole)?;
        let request = Request::Register { address: memory.address(), octets: memory.len() as u64 };
        match self.connection.ask(&request)?.0 {
            Response::Registered => {}
            other => return Err(Error::Protocol(format!("{other:?}"))),
        }
        let memory = Arc::new(memory);
        self.outstanding.regions.push(memory.clone());
        Ok((memory, fd))
    }

    /// A registered piece to stand in for memory that the host knows nothing of.
    fn stand_in(&mut self) -> Option<Memory> {
        if self.outstanding.stand_ins.is_empty() {
            self.reclaim();
        }
        if self.outstanding.stand_ins.is_empty()
            && self.outstanding.made < MAX_STAND_INS
            && self.path() == DataPath::SingleCopy
        {
            let made = self.register(STAND_INS, MAX_OCTETS).unwrap_or_default();
            self.outstanding.made += made.len();
            self.outstanding.stand_ins.extend(made);
        }
        self.outstanding.stand_ins.pop()
    }

    /// Sends the first `octets` octets of `memory`, which comes back by [`Endpoint::take_back`] when the host has taken
    /// them. It goes back at once if this fails.
    ///
    /// # Errors
    /// The ring is full, or the length cannot be, or the data path is another one.
    pub fn send_own(&mut self, channel: ChannelId, memory: Memory, octets: usize) -> Result<(), (SendError, Memory)> {
        if memory.is_registered() || octets > memory.len() {
            return match self.push_own(channel, memory.address(), octets.min(memory.len() + 1), memory.len()) {
                Ok(()) => {
                    self.outstanding.sending.push_back(Sent::Own(memory));
                    Ok(())
                }
                Err(e) => Err((e, memory)),
            };
        }
        match self.send_stand_in(channel, &memory[..octets]) {
            Ok(()) => {
                self.outstanding.done.push(memory);
                Ok(())
            }
            Err(e) => Err((e, memory)),
        }
    }

    /// Sends a copy of an SDU in a stand-in.
    fn send_stand_in(&mut self, channel: ChannelId, sdu: &[u8]) -> Result<(), SendError> {
        self.check_own(sdu.len(), MAX_OCTETS)?;
        let mut stand_in = self.stand_in().ok_or(SendError::Full)?;
        stand_in[..sdu.len()].copy_from_slice(sdu);
        let sent = self.push_own(channel, stand_in.address(), sdu.len(), MAX_OCTETS);
        match sent {
            Ok(()) => self.outstanding.sending.push_back(Sent::StandIn(stand_in)),
            Err(_) => self.outstanding.stand_ins.push(stand_in),
        }
        sent
    }

    /// Sends `sdu`, from where it is if that is registered, and returns when the host has taken it.
    ///
    /// # Errors
    /// The length cannot be, the data path is another one, or the service has gone.
    pub fn send_blocking(&mut self, channel: ChannelId, sdu: &[u8]) -> Result<(), Error> {
        let registered = self.outstanding.is_registered(sdu);
        let address = sdu.as_ptr().expose_provenance() as u64;
        loop {
            let sent = match registered {
                true => self.push_own(channel, address, sdu.len(), sdu.len()),
                false => self.send_stand_in(channel, sdu),
            };
            match sent {
                Ok(()) => break,
                Err(SendError::Full) if self.unsent() > 0 => self.wait_room()?,
                Err(e) => return Err(Error::invalid(e)),
            }
        }
        if registered {
            self.outstanding.sending.push_back(Sent::Borrowed);
        }
        self.wait_sent(None).map(|_| ())
    }

    pub(crate) fn push_own(
        &mut self,
        channel: ChannelId,
        address: u64,
        octets: usize,
        most: usize,
    ) -> Result<(), SendError> {
        self.check_own(octets, most)?;
        let head = Head { channel: channel.0, octets: octets as u32, ..Head::of_buffer(Descriptor::OWN) };
        self.push(Descriptor { address, ..head.into() })
    }

    pub(crate) fn check_own(&self, octets: usize, most: usize) -> Result<(), SendError> {
        if self.path() != DataPath::SingleCopy {
            return Err(SendError::OtherPath);
        }
        match octets {
            0 => Err(SendError::Empty),
            _ if octets > most.min(MAX_OCTETS) => {
                Err(SendError::TooLong { octets, buffer_octets: most.min(MAX_OCTETS) })
            }
            _ => Ok(()),
        }
    }

    /// Memory that was sent and is the application's again; `None` if none has come back.
    pub fn take_back(&mut self) -> Option<Memory> {
        if self.outstanding.done.is_empty() {
            self.reclaim();
        }
        self.outstanding.done.pop()
    }

    /// Gives memory to receive an SDU into, ahead of its arrival. Given back if the free ring is full or the data path
    /// another one.
    ///
    /// # Errors
    /// The memory, unposted.
    pub fn post(&mut self, memory: Memory) -> Result<(), Memory> {
        if memory.is_empty() || self.path() != DataPath::SingleCopy {
            return Err(memory);
        }
        let stand_in = match memory.is_registered() {
            true => None,
            false => match self.stand_in() {
                Some(stand_in) => Some(stand_in),
                None => return Err(memory),
            },
        };
        self.push_posted(Posted { memory, stand_in })
    }

    fn push_posted(&mut self, posted: Posted) -> Result<(), Memory> {
        let octets = posted.memory.len().min(MAX_OCTETS + 1) as u32;
        let address = posted.stand_in.as_ref().unwrap_or(&posted.memory).address();
        let head = Head { octets, ..Head::of_buffer(Descriptor::OWN) };
        if !self.free.push(Descriptor { address, ..head.into() }) {
            self.outstanding.stand_ins.extend(posted.stand_in);
            return Err(posted.memory);
        }
        self.outstanding.posted.insert(address, posted);
        Ok(())
    }
}

impl Received<'_> {
    /// The posted memory that the SDU is in, and the SDU's octets, for the application to keep; `None` if it is in a
    /// buffer of the segment or in the descriptor.
    pub fn into_memory(self) -> Option<(Memory, usize)> {
        if self.endpoint.taken.head.buffer != Descriptor::OWN {
            return None;
        }
        let outstanding = &mut self.endpoint.outstanding;
        let Posted { mut memory, stand_in } = outstanding.posted.remove(&self.endpoint.taken.address)?;
        let octets = (self.endpoint.taken.head.octets as usize).min(memory.len());
        if let Some(stand_in) = stand_in {
            memory[..octets].copy_from_slice(&stand_in[..octets]);
            outstanding.stand_ins.push(stand_in);
        }
        self.endpoint.taken.head.buffer = Descriptor::INLINE;
        Some((memory, octets))
    }

    /// Posts the memory again that a dropped SDU was in.
    pub(crate) fn post_again(&mut self) {
        let Some(posted) = self.endpoint.outstanding.posted.remove(&self.endpoint.taken.address) else { return };
        if let Err(memory) = self.endpoint.push_posted(posted) {
            self.endpoint.outstanding.done.push(memory);
        }
    }
}
