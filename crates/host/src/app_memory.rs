//! The application's own memory as the host reaches it: registered regions, which the service has made and both sides
//! have mapped. Memory of any other kind an application's library copies: a system call of the engine's thread on
//! another process's memory would take as long as that process likes (userfaultfd, FUSE).

use endpoint::shared::SharedMemory;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

/// Regions of one endpoint.
const MAX_REGIONS: usize = 64;
/// Octets that an endpoint may register, all together.
const MAX_OCTETS: usize = endpoint::layout::MAX_SEGMENT_OCTETS;

/// Where a descriptor's octets are: in a region, from this octet on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    region: usize,
    at: usize,
}

/// Memory that the reaper unmaps, since that may take time.
#[derive(Debug)]
pub(crate) struct Mapped(Option<SharedMemory>);

impl Mapped {
    /// Part of it. Panics if it is not inside.
    pub(crate) fn octets(&self, at: usize, octets: usize) -> &[AtomicU8] {
        self.0.as_ref().map_or(&[], |memory| memory.octets(at, octets))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, SharedMemory::len)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        crate::reaper::dispose(self.0.take());
    }
}

#[derive(Debug)]
struct Region {
    address: u64,
    memory: Arc<Mapped>,
    /// Something in it was given to receive into: it stays as long as the endpoint.
    posted: bool,
    /// The application has something else there by now.
    stale: bool,
}

/// One endpoint's.
#[derive(Debug, Default)]
pub(crate) struct AppMemory {
    regions: Vec<Option<Region>>,
    /// Where those begin that are not stale, in order, and their places: no two of them overlap.
    order: Vec<(u64, usize)>,
}

impl AppMemory {
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
            self.sort();
            return Err("an endpoint registers 64 regions and 1 GiB at most: register fewer and larger ones");
        }
        let region = Some(Region { address, memory: Arc::new(Mapped(Some(memory))), posted: false, stale: false });
        match self.regions.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => *slot = region,
            None => self.regions.push(region),
        }
        self.sort();
        Ok(())
    }

    fn sort(&mut self) {
        let slots = self.regions.iter().enumerate();
        let there = slots.filter_map(|(at, slot)| Some((slot.as_ref().filter(|region| !region.stale)?.address, at)));
        self.order = there.collect();
        self.order.sort_unstable();
    }

    /// Where these octets of the application's are, if the host may touch them.
    pub(crate) fn find(&self, address: u64, octets: usize) -> Option<At> {
        let behind = self.order.partition_point(|(begin, _)| *begin <= address);
        let (begin, region) = *self.order.get(behind.checked_sub(1)?)?;
        let at = usize::try_from(address - begin).ok()?;
        let there = self.regions.get(region)?.as_ref()?.memory.len();
        at.checked_add(octets).is_some_and(|end| end <= there).then_some(At { region, at })
    }

    /// The same, for memory to receive into: a region stays from then on.
    pub(crate) fn find_posted(&mut self, address: u64, octets: usize) -> Option<At> {
        let at = self.find(address, octets)?;
        if let Some(Some(region)) = self.regions.get_mut(at.region) {
            region.posted = true;
        }
        Some(at)
    }

    /// The region of a place that `find` has found, and where in it that is.
    pub(crate) fn region(&self, at: At) -> Option<(&Arc<Mapped>, usize)> {
        Some((&self.regions.get(at.region)?.as_ref()?.memory, at.at))
    }

    /// Octets of a region that `find_posted` has found.
    pub(crate) fn octets(&self, at: At, octets: usize) -> &[AtomicU8] {
        self.region(at).map_or(&[], |(memory, at)| memory.octets(at, octets))
    }

    /// Copies octets to where they belong.
    pub(crate) fn write(&self, at: At, sdu: &[u8]) {
        if let Some((memory, at)) = self.region(at) {
            crate::sys::copy_in(sdu, memory.octets(at, sdu.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ops::Range;

    const PAGE: u64 = 4096;

    proptest! {
        #[test]
        fn memory_is_found_in_the_last_region_that_was_registered_there(
            regions in prop::collection::vec((0u64..12, 1u64..4, any::<bool>()), 1..12),
        ) {
            let mut own = AppMemory::default();
            // By page: the pages of the region that has it.
            let mut there: Vec<Option<Range<u64>>> = vec![None; 16];
            for (first, pages, posts) in regions {
                let (memory, _) = SharedMemory::create((pages * PAGE) as usize).unwrap();
                own.register(first * PAGE, memory).unwrap();
                let new = first..first + pages;
                let hit = |range: &mut Range<u64>| range.start < new.end && new.start < range.end;
                there.iter_mut().for_each(|page| _ = page.take_if(hit));
                new.clone().for_each(|page| there[page as usize] = Some(new.clone()));
                if posts {
                    prop_assert!(own.find_posted(first * PAGE, 1).is_some());
                }
                for page in 0..16 {
                    for (before, octets) in [(0, 1), (0, PAGE), (1, 2), (0, 2 * PAGE), (0, 3 * PAGE)] {
                        let address = (page * PAGE).saturating_sub(before);
                        let range = there[(address / PAGE) as usize].clone();
                        let expected = range.filter(|range| address + octets <= range.end * PAGE);
                        let found = own.find(address, octets as usize);
                        let at = found.map(|found| found.at as u64);
                        prop_assert_eq!(at, expected.map(|range| address - range.start * PAGE));
                    }
                }
            }
        }
    }
}
