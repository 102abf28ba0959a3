//! The `single-copy` data path: the host reads and writes the application's own memory (docs/lab/mechanisms.md).
//!
//! Two kinds of own memory. *Registered* ([`Endpoint::register`](crate::Endpoint::register)): the service has made it,
//! both sides have mapped it, and the host makes cells from it, or reassembles into it, directly. *Any other* (a `Vec`,
//! any slice): this library copies it to or from registered memory of its own, so the host never waits for memory that
//! an application could make slow. What an endpoint does with them is in `client/app_memory.rs`.

use crate::layout::Descriptor;
use crate::shared::SharedMemory;
use std::collections::{HashMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A piece of memory of the application's own. Sending or posting it gives it away until it comes back.
///
/// ```
/// let memory = endpoint::Memory::from(vec![0; 1500]);
/// assert!(memory.len() == 1500 && !memory.is_registered());
/// ```
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
            // SAFETY: pieces of a region do not overlap, and each belongs to one `Memory`. The host writes it only
            // between `post` and its return, while the endpoint holds it and makes no slice of it.
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
pub(crate) struct Posted {
    pub(crate) memory: Memory,
    /// Where the host puts the SDU, if it knows nothing of that memory.
    pub(crate) stand_in: Option<Memory>,
}

/// What an endpoint has given away of its application's memory.
#[derive(Debug, Default)]
pub(crate) struct OutstandingBuffers {
    /// Oldest first.
    pub(crate) sending: VecDeque<Sent>,
    /// Come back.
    pub(crate) done: Vec<Memory>,
    /// Posted to receive into, by the address that the host has.
    pub(crate) posted: HashMap<u64, Posted>,
    /// What the host has mapped.
    pub(crate) regions: Vec<Arc<SharedMemory>>,
    /// Registered pieces that stand in for nothing at present, ...
    pub(crate) stand_ins: Vec<Memory>,
    /// ... and how many there are in all.
    pub(crate) made: usize,
}

impl OutstandingBuffers {
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
    pub(crate) fn is_registered(&self, octets: &[u8]) -> bool {
        let begin = octets.as_ptr().expose_provenance() as u64;
        self.regions.iter().any(|region| {
            let at = begin.checked_sub(region.address()).and_then(|at| usize::try_from(at).ok());
            at.and_then(|at| at.checked_add(octets.len())).is_some_and(|end| end <= region.len())
        })
    }
}
