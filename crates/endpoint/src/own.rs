//! The `single-copy` data path: the host reads and writes the application's own memory (docs/lab/mechanisms.md: A-32, B-28, C-3).
//!
//! Two kinds of own memory. *Registered* ([`Endpoint::register`]): the service has made it, both sides have mapped it, and the
//! host makes cells from it, or reassembles into it, directly. *Any other* (a `Vec`, any slice): this library copies it to or
//! from registered memory of its own, so the host never waits for memory that an application could make slow. An SDU may not
//! change while it is on its way: of the overlap policies, *trust* is [`Endpoint::send_own`], where ownership says it;
//! *block* is [`Endpoint::send_blocking`], which returns when the SDU has been taken; *fault on write* is [`crate::guard`], *copy on write* [`crate::window`].

use crate::client::{Endpoint, Error, Received, SendError};
use crate::control::{Request, Response};
use crate::layout::{Descriptor, Head};
use crate::negotiate::OWN_MEMORY;
use crate::shared::SharedMemory;
use crate::{ChannelId, DataPath};
use std::collections::{HashMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Most octets of one SDU.
const MAX_OCTETS: usize = 65_535;
/// Registered pieces that are made at a time to stand in for other memory.
const STAND_INS: usize = 4;
/// Pieces that stand in at the same time, at most.
const MAX_STAND_INS: usize = 64;

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

    /// Registered memory: all of it, and where in it this piece begins.
    pub(crate) fn region(&self) -> Option<(&Arc<SharedMemory>, usize)> {
        match &self.0 {
            Kind::Registered { memory, at, .. } => Some((memory, *at)),
            Kind::Any(_) => None,
        }
    }

    /// Part of registered memory, of which its owner makes no other piece as long as this one is there.
    pub(crate) fn piece_of(memory: Arc<SharedMemory>, at: usize, octets: usize) -> Self {
        Memory(Kind::Registered { memory, at, octets })
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

/// What is being sent.
#[derive(Debug)]
pub(crate) enum Sent {
    /// The application's, to come back.
    Own(Memory),
    /// This library's, with a copy in it.
    StandIn(Memory),
    /// Borrowed from a caller that waits.
    Borrowed,
}

/// What is posted to receive into.
#[derive(Debug)]
struct Posted {
    memory: Memory,
    /// Where the host puts the SDU, if it knows nothing of that memory.
    stand_in: Option<Memory>,
}

/// What an endpoint has given away of its application's memory.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// Oldest first.
    pub(crate) sending: VecDeque<Sent>,
    /// Come back.
    done: Vec<Memory>,
    /// Posted to receive into, by the address that the host has.
    posted: HashMap<u64, Posted>,
    /// What the host has mapped.
    regions: Vec<Arc<SharedMemory>>,
    /// Registered pieces that stand in for nothing at present, ...
    stand_ins: Vec<Memory>,
    /// ... and how many there are in all.
    made: usize,
}

impl Given {
    /// The host is done with the oldest that was sent.
    pub(crate) fn complete(&mut self) {
        match self.sending.pop_front() {
            Some(Sent::Own(memory)) => self.done.push(memory),
            Some(Sent::StandIn(memory)) => self.stand_ins.push(memory),
            Some(Sent::Borrowed) | None => {}
        }
    }

    /// The octets that a descriptor speaks of.
    pub(crate) fn octets(&self, d: &Descriptor) -> &[u8] {
        self.posted.get(&d.address).map_or(&[], |posted| {
            let memory = posted.stand_in.as_ref().unwrap_or(&posted.memory);
            &memory[..memory.len().min(d.head.octets as usize)]
        })
    }

    /// The registered memory that a descriptor speaks of, and where in it the SDU begins.
    pub(crate) fn place(&self, d: &Descriptor) -> Option<(&Arc<SharedMemory>, usize)> {
        let posted = self.posted.get(&d.address).filter(|_| d.head.buffer == Descriptor::OWN)?;
        posted.memory.region()
    }

    /// The memory of a descriptor is no longer posted, and no longer anybody's piece.
    pub(crate) fn forget(&mut self, d: &Descriptor) {
        self.posted.remove(&d.address);
    }

    /// Whether the host has mapped all of these octets.
    fn is_registered(&self, octets: &[u8]) -> bool {
        let begin = octets.as_ptr().expose_provenance() as u64;
        self.regions.iter().any(|region| {
            let at = begin.checked_sub(region.address()).and_then(|at| usize::try_from(at).ok());
            at.and_then(|at| at.checked_add(octets.len())).is_some_and(|end| end <= region.len())
        })
    }
}

impl Endpoint {
    /// Makes `pieces` pieces of registered memory of `octets` octets each (rounded up to a multiple of 64).
    ///
    /// # Errors
    /// The service refuses (a limit, or a data path other than `single-copy`), or there is no memory.
    pub fn register(&mut self, pieces: usize, octets: usize) -> Result<Vec<Memory>, Error> {
        let each = octets.max(1).next_multiple_of(64);
        let (memory, _) = self.register_region(each.saturating_mul(pieces.max(1)))?;
        let piece = |i| Memory(Kind::Registered { memory: memory.clone(), at: i * each, octets });
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
        self.given.regions.push(memory.clone());
        Ok((memory, fd))
    }

    /// A registered piece to stand in for memory that the host knows nothing of.
    fn stand_in(&mut self) -> Option<Memory> {
        if self.given.stand_ins.is_empty() {
            self.reclaim();
        }
        if self.given.stand_ins.is_empty() && self.given.made < MAX_STAND_INS && self.path() == DataPath::SingleCopy {
            let made = self.register(STAND_INS, MAX_OCTETS).unwrap_or_default();
            self.given.made += made.len();
            self.given.stand_ins.extend(made);
        }
        self.given.stand_ins.pop()
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
                    self.given.sending.push_back(Sent::Own(memory));
                    Ok(())
                }
                Err(e) => Err((e, memory)),
            };
        }
        match self.send_stand_in(channel, &memory[..octets]) {
            Ok(()) => {
                self.given.done.push(memory);
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
            Ok(()) => self.given.sending.push_back(Sent::StandIn(stand_in)),
            Err(_) => self.given.stand_ins.push(stand_in),
        }
        sent
    }

    /// Sends `sdu`, from where it is if that is registered, and returns when the host has taken it.
    ///
    /// # Errors
    /// The length cannot be, the data path is another one, or the service has gone.
    pub fn send_blocking(&mut self, channel: ChannelId, sdu: &[u8]) -> Result<(), Error> {
        let registered = self.given.is_registered(sdu);
        let address = sdu.as_ptr().expose_provenance() as u64;
        loop {
            let sent = match registered {
                true => self.push_own(channel, address, sdu.len(), sdu.len()),
                false => self.send_stand_in(channel, sdu),
            };
            match sent {
                Ok(()) => break,
                Err(SendError::Full) if self.unsent() > 0 => self.wait_room()?,
                Err(e) => return Err(Error::Refused(e.to_string())),
            }
        }
        if registered {
            self.given.sending.push_back(Sent::Borrowed);
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
            self.given.stand_ins.extend(posted.stand_in);
            return Err(posted.memory);
        }
        self.given.posted.insert(address, posted);
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
        let given = &mut self.endpoint.given;
        let Posted { mut memory, stand_in } = given.posted.remove(&self.endpoint.taken.address)?;
        let octets = (self.endpoint.taken.head.octets as usize).min(memory.len());
        if let Some(stand_in) = stand_in {
            memory[..octets].copy_from_slice(&stand_in[..octets]);
            given.stand_ins.push(stand_in);
        }
        self.endpoint.taken.head.buffer = Descriptor::INLINE;
        Some((memory, octets))
    }

    /// Posts the memory again that a dropped SDU was in.
    pub(crate) fn post_again(&mut self) {
        let Some(posted) = self.endpoint.given.posted.remove(&self.endpoint.taken.address) else { return };
        if let Err(memory) = self.endpoint.push_posted(posted) {
            self.endpoint.given.done.push(memory);
        }
    }
}
