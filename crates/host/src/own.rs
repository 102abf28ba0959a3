//! The application's own memory as the host reaches it: registered regions, which it has mapped, and the rest, which it
//! copies across processes by system calls.
//!
//! Such a copy can be made to wait by the process whose memory it is (userfaultfd, FUSE), and the engine's thread would wait
//! with it. So it is for applications of the service's own user only; all others register.

use crate::sys;
use endpoint::shared::SharedMemory;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

/// Regions of one endpoint.
const MAX_REGIONS: usize = 64;
/// SDUs that arrive for unregistered memory at the same time.
const MAX_ARRIVING: usize = 16;
/// Octets that an endpoint may register, all together.
const MAX_OCTETS: usize = endpoint::layout::MAX_SEGMENT_OCTETS;

/// A process whose memory may be copied from and to.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    /// Says whether it still lives: until it has been waited for, no other process has its number.
    alive: OwnedFd,
}

impl Process {
    /// The process of this number and descriptor.
    pub fn new(pid: i32, alive: OwnedFd) -> Self {
        Process { pid, alive }
    }

    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        // Looked at afterwards: what was read while it lived was read from it.
        sys::read_process(self.pid, address, into) && sys::is_alive(&self.alive)
    }

    fn write(&self, address: u64, from: &[AtomicU8]) -> bool {
        sys::is_alive(&self.alive) && sys::write_process(self.pid, address, from)
    }
}

/// Where a descriptor's octets are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// In a region, from this octet on.
    Region(usize, usize),
    /// At this address of the process.
    Process(u64),
}

#[derive(Debug)]
struct Region {
    address: u64,
    memory: Arc<SharedMemory>,
    /// Something in it was given to receive into: it stays as long as the endpoint.
    posted: bool,
    /// The application has something else there by now.
    stale: bool,
}

/// One endpoint's.
#[derive(Debug, Default)]
pub(crate) struct Own {
    regions: Vec<Option<Region>>,
    process: Option<Process>,
    /// For SDUs on their way to memory of the process.
    arriving: Vec<Box<[AtomicU8]>>,
    unused: Vec<usize>,
}

impl Own {
    pub(crate) fn allow_process(&mut self, process: Option<Process>) {
        self.process = process;
    }

    pub(crate) fn register(&mut self, address: u64, memory: SharedMemory) -> Result<(), &'static str> {
        let Some(end) = address.checked_add(memory.len() as u64) else {
            return Err("the region does not end inside the address space");
        };
        // Where the application has mapped something new, what was there before is gone.
        for slot in &mut self.regions {
            if let Some(region) = slot.as_mut()
                && region.address < end
                && address < region.address + region.memory.len() as u64
            {
                region.stale = true;
                if !region.posted {
                    *slot = None;
                }
            }
        }
        let there = self.regions.iter().flatten();
        let (regions, octets) = there.fold((0, 0), |(n, sum), r| (n + 1, sum + r.memory.len()));
        if regions >= MAX_REGIONS || octets + memory.len() > MAX_OCTETS {
            return Err("an endpoint registers 64 regions and 1 GiB at most: register fewer and larger ones");
        }
        let region = Some(Region { address, memory: Arc::new(memory), posted: false, stale: false });
        match self.regions.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => *slot = region,
            None => self.regions.push(region),
        }
        Ok(())
    }

    /// Where these octets of the application's are, if the host may touch them.
    pub(crate) fn find(&self, address: u64, octets: usize) -> Option<At> {
        let inside = |slot: &Option<Region>| {
            let region = slot.as_ref().filter(|r| !r.stale)?;
            let at = usize::try_from(address.checked_sub(region.address)?).ok()?;
            at.checked_add(octets).is_some_and(|end| end <= region.memory.len()).then_some(at)
        };
        let found = self.regions.iter().enumerate().find_map(|(i, region)| Some(At::Region(i, inside(region)?)));
        found.or_else(|| self.process.as_ref().map(|_| At::Process(address)))
    }

    /// The same, for memory to receive into: a region stays from then on.
    pub(crate) fn find_posted(&mut self, address: u64, octets: usize) -> Option<At> {
        let at = self.find(address, octets)?;
        if let At::Region(region, _) = at
            && let Some(Some(region)) = self.regions.get_mut(region)
        {
            region.posted = true;
        }
        Some(at)
    }

    /// A region that `find` has found.
    pub(crate) fn region(&self, region: usize) -> Option<&Arc<SharedMemory>> {
        self.regions.get(region)?.as_ref().map(|r| &r.memory)
    }

    /// Octets of a region that `find_posted` has found.
    pub(crate) fn octets(&self, region: usize, at: usize, octets: usize) -> &[AtomicU8] {
        self.region(region).map_or(&[], |memory| memory.octets(at, octets))
    }

    /// Copies octets of the process; false if it has none there.
    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> bool {
        self.process.as_ref().is_some_and(|p| p.read(address, into))
    }

    /// Copies octets to where they belong; false if they cannot go there.
    pub(crate) fn write(&self, at: At, sdu: &[u8]) -> bool {
        match at {
            At::Region(region, at) => self.region(region).is_some_and(|memory| {
                memory.copy_in(at, sdu);
                true
            }),
            At::Process(address) => self.process.as_ref().is_some_and(|p| p.write(address, sys::as_atomics(sdu))),
        }
    }

    /// A place for an SDU on its way to the process; taken from the system the first times, then used again.
    pub(crate) fn take_place(&mut self, octets: usize) -> Option<usize> {
        if let Some(place) = self.unused.pop() {
            return Some(place);
        }
        if self.arriving.len() >= MAX_ARRIVING {
            return None;
        }
        self.arriving.push((0..octets).map(|_| AtomicU8::new(0)).collect());
        Some(self.arriving.len() - 1)
    }

    pub(crate) fn place(&self, place: usize) -> &[AtomicU8] {
        &self.arriving[place]
    }

    pub(crate) fn give_back(&mut self, place: usize) {
        self.unused.push(place);
    }

    /// An SDU is whole: into the process with it.
    pub(crate) fn land(&self, place: usize, octets: usize, address: u64) -> bool {
        self.process.as_ref().is_some_and(|p| p.write(address, &self.arriving[place][..octets]))
    }
}
