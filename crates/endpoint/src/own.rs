//! The `single-copy` data path: the host reads and writes the application's own memory (checklist, B-26).
//!
//! Two kinds of own memory. *Registered* ([`Endpoint::register`]): the host has mapped it and makes cells from it, or
//! reassembles into it, directly. *Any other* (a `Vec`, any slice): the host copies it across processes by a system call,
//! which it does for its own user only. An SDU may not change while it is on its way: of the overlap policies (B-28), *trust*
//! is [`Endpoint::send_own`], where ownership says it; *block* is [`Endpoint::send_blocking`], which returns when
//! the SDU has been taken; *fault on write* is [`crate::guard`].

use crate::client::{Endpoint, Error, Received, SendError};
use crate::control::{Request, Response};
use crate::layout::Descriptor;
use crate::negotiate::OWN_MEMORY;
use crate::shared::SharedMemory;
use crate::{ChannelId, DataPath};
use rustix::fd::AsFd;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Most octets of one SDU.
const MAX_OCTETS: usize = 65_535;

/// A piece of memory of the application's own. Sending or posting it gives it away until it comes back.
#[derive(Debug)]
pub struct Memory(Kind);

#[derive(Debug)]
enum Kind {
    Any(Vec<u8>),
    Registered { memory: Arc<SharedMemory>, at: usize, octets: usize },
}

impl From<Vec<u8>> for Memory {
    /// Memory that the host knows nothing of.
    fn from(octets: Vec<u8>) -> Self {
        Memory(Kind::Any(octets))
    }
}

impl Memory {
    /// Whether the host has mapped it.
    pub fn is_registered(&self) -> bool {
        matches!(self.0, Kind::Registered { .. })
    }

    pub(crate) fn address(&self) -> u64 {
        match &self.0 {
            Kind::Any(octets) => octets.as_ptr().expose_provenance() as u64,
            Kind::Registered { memory, at, .. } => memory.address() + *at as u64,
        }
    }
}

impl Deref for Memory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kind::Any(octets) => octets,
            // SAFETY: pieces of a region do not overlap, and each belongs to one `Memory`. The host writes it only between
            // `post` and its return, while the endpoint holds it and makes no slice of it.
            Kind::Registered { memory, at, octets } => unsafe { memory.piece(*at, *octets).as_ref() },
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Kind::Any(octets) => octets,
            // SAFETY: as in `deref`, under an exclusive borrow.
            Kind::Registered { memory, at, octets } => unsafe { memory.piece(*at, *octets).as_mut() },
        }
    }
}

/// What an endpoint has given away of its application's memory.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// Sent, oldest first; `None`: borrowed from a caller that waits.
    pub(crate) sending: std::collections::VecDeque<Option<Memory>>,
    /// Come back.
    done: Vec<Memory>,
    /// Posted to receive into, by address.
    posted: HashMap<u64, Memory>,
}

impl Given {
    /// The host is done with the oldest that was sent.
    pub(crate) fn complete(&mut self) {
        if let Some(Some(memory)) = self.sending.pop_front() {
            self.done.push(memory);
        }
    }

    /// Whether the host may still be reading or writing memory that it has not mapped.
    fn has_foreign(&self) -> bool {
        self.posted.values().chain(self.sending.iter().flatten()).any(|m| !m.is_registered())
    }

    /// The octets that a descriptor speaks of.
    pub(crate) fn octets(&self, d: &Descriptor) -> &[u8] {
        match self.posted.get(&d.address) {
            Some(memory) => &memory[..memory.len().min(d.octets as usize)],
            None => &[],
        }
    }
}

impl Endpoint {
    /// Makes `pieces` pieces of registered memory of `octets` octets each (rounded up to a multiple of 64).
    ///
    /// # Errors
    /// The service refuses (a limit, or a data path other than `single-copy`), or there is no memory.
    pub fn register(&mut self, pieces: usize, octets: usize) -> Result<Vec<Memory>, Error> {
        self.connection.need(OWN_MEMORY)?;
        let each = octets.max(1).next_multiple_of(64);
        let (memory, fd) = SharedMemory::create((each * pieces.max(1)).next_multiple_of(4096))?;
        let request = Request::Register { address: memory.address(), octets: memory.len() as u64 };
        match self.connection.ask_with(&request, &[fd.as_fd()], None)?.0 {
            Response::Registered => {}
            other => return Err(Error::Protocol(format!("{other:?}"))),
        }
        let memory = Arc::new(memory);
        let piece = |i| Memory(Kind::Registered { memory: memory.clone(), at: i * each, octets });
        Ok((0..pieces).map(piece).collect())
    }

    /// Sends the first `octets` octets of `memory`, which comes back by [`Endpoint::take_back`] when the host has taken
    /// them. It goes back at once if this fails.
    ///
    /// # Errors
    /// The ring is full, or the length cannot be, or the data path is another one.
    pub fn send_own(&mut self, channel: ChannelId, memory: Memory, octets: usize) -> Result<(), (SendError, Memory)> {
        match self.push_own(channel, memory.address(), octets.min(memory.len() + 1), memory.len()) {
            Ok(()) => {
                self.given.sending.push_back(Some(memory));
                Ok(())
            }
            Err(e) => Err((e, memory)),
        }
    }

    /// Sends `sdu` from where it is, and returns when the host has taken it.
    ///
    /// # Errors
    /// The length cannot be, the data path is another one, or the service has gone.
    pub fn send_blocking(&mut self, channel: ChannelId, sdu: &[u8]) -> Result<(), Error> {
        let address = sdu.as_ptr().expose_provenance() as u64;
        while let Err(e) = self.push_own(channel, address, sdu.len(), sdu.len()) {
            match e {
                SendError::Full => self.wait_room()?,
                e => return Err(Error::Refused(e.to_string())),
            }
        }
        self.given.sending.push_back(None);
        self.wait_sent(None).map(|_| ())
    }

    pub(crate) fn push_own(
        &mut self,
        channel: ChannelId,
        address: u64,
        octets: usize,
        most: usize,
    ) -> Result<(), SendError> {
        if self.path() != DataPath::SingleCopy {
            return Err(SendError::OtherPath);
        }
        match octets {
            0 => return Err(SendError::Empty),
            _ if octets > most.min(MAX_OCTETS) => {
                return Err(SendError::TooLong { octets, buffer_octets: most.min(MAX_OCTETS) });
            }
            _ => {}
        }
        let d =
            Descriptor { channel: channel.0, octets: octets as u32, address, ..Descriptor::of_buffer(Descriptor::OWN) };
        self.push(d)
    }

    /// Memory that was sent and is the application's again; `None` if none has come back.
    pub fn take_back(&mut self) -> Option<Memory> {
        if self.given.done.is_empty() {
            self.reclaim();
        }
        self.given.done.pop()
    }

    /// Gives memory to receive an SDU into, ahead of its arrival. Given back if the free ring is full or the data path
    /// another one.
    ///
    /// # Errors
    /// The memory, unposted.
    pub fn post(&mut self, memory: Memory) -> Result<(), Memory> {
        let (address, octets) = (memory.address(), memory.len().min(MAX_OCTETS + 1) as u32);
        let d = Descriptor { octets, address, ..Descriptor::of_buffer(Descriptor::OWN) };
        if octets == 0 || self.path() != DataPath::SingleCopy || !self.free.push(d) {
            return Err(memory);
        }
        self.given.posted.insert(address, memory);
        Ok(())
    }

    pub(crate) fn end_given(&mut self) {
        // The host may be at that memory until it says that the endpoint has ended. If it does not, the memory is kept.
        let patience = Some(std::time::Duration::from_secs(2));
        let ended =
            || matches!(self.connection.ask_with(&Request::Release, &[], patience), Ok((Response::Released, _)));
        if self.given.has_foreign() && !ended() {
            std::mem::forget(std::mem::take(&mut self.given));
        }
    }
}

impl Received<'_> {
    /// The posted memory that the SDU is in, and the SDU's octets, for the application to keep; `None` if it is in a
    /// buffer of the segment or in the descriptor.
    pub fn into_memory(mut self) -> Option<(Memory, usize)> {
        let memory = self.endpoint.given.posted.remove(&self.descriptor.address)?;
        if self.descriptor.buffer != Descriptor::OWN {
            self.endpoint.given.posted.insert(self.descriptor.address, memory);
            return None;
        }
        let octets = (self.descriptor.octets as usize).min(memory.len());
        self.descriptor.buffer = Descriptor::INLINE;
        Some((memory, octets))
    }

    /// Posts the memory again that a dropped SDU was in.
    pub(crate) fn post_again(&mut self) {
        let Some(memory) = self.endpoint.given.posted.remove(&self.descriptor.address) else { return };
        if let Err(memory) = self.endpoint.post(memory) {
            self.endpoint.given.done.push(memory);
        }
    }
}
