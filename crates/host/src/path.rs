//! Data paths: how an SDU's octets get from the application's memory to the segmenter, and from the reassembler back.
//!
//! Each path is a way to begin an SDU; what it gives is read by the segmenter in one pass. A new path is a
//! variant here and a case of `begin`.

use crate::app_memory::{AppMemory, Mapped};
use endpoint::DataPath;
use endpoint::layout::{Descriptor, INLINE_OCTETS, MAX_PAGES};
use endpoint::segment::Segment;
use sar::Segmentation;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use wire::{Cell, DropReason};

/// Where the octets of the SDU that is being sent are.
#[derive(Debug)]
pub(crate) enum Source {
    /// In the descriptor, a copy of which is here.
    Inline([u8; INLINE_OCTETS]),
    /// `shared`, `zero-copy`: in the application's buffer, from this place of its segment on.
    Shared(usize),
    /// `copying`: in one of the endpoint's staging buffers.
    Staged(usize),
    /// `single-copy`: in a registered region, from this octet on.
    Region(Arc<Mapped>, usize),
    /// `single-copy`: on pages of a registered region.
    Pages(Arc<Mapped>, PageList),
}

/// Octets of a page.
const PAGE: usize = 4096;

/// The pages of an SDU, all inside its region.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageList {
    offset: usize,
    pages: [u16; MAX_PAGES],
}

/// An SDU in pieces.
type Pieces<'a> = ([&'a [AtomicU8]; MAX_PAGES], usize);

impl PageList {
    /// From a descriptor, whatever it holds. `None`: not all pages are among the region's octets.
    fn checked(descriptor: &Descriptor, region_octets: usize) -> Option<Self> {
        let (offset, pages) = descriptor.pages();
        let offset = usize::from(offset);
        let count = (offset + descriptor.head.octets as usize).div_ceil(PAGE);
        let inside = |page: &u16| (usize::from(*page) + 1) * PAGE <= region_octets;
        (offset < PAGE && pages.get(..count)?.iter().all(inside)).then_some(PageList { offset, pages })
    }

    /// `octets` octets from the SDU's octet `at` on; pages that follow each other are one piece.
    fn pieces<'a>(&self, memory: &'a Mapped, at: usize, octets: usize) -> Pieces<'a> {
        let mut pieces: Pieces<'a> = ([&[]; MAX_PAGES], 0);
        let (mut from, end) = (self.offset + at, self.offset + at + octets);
        while from < end {
            let first = usize::from(self.pages[from / PAGE]);
            let mut to = (from / PAGE + 1) * PAGE;
            while to < end && usize::from(self.pages[to / PAGE]) == first + to / PAGE - from / PAGE {
                to += PAGE;
            }
            let to = to.min(end);
            pieces.0[pieces.1] = memory.octets(first * PAGE + from % PAGE, to - from);
            pieces.1 += 1;
            from = to;
        }
        pieces
    }
}

/// Octets of an endpoint's SDUs by what moved them across the memory bus; caches are left out, and so are the
/// application's own stores and loads. What travels inside a descriptor is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Crossings {
    /// Copied to a staging buffer: read, and written.
    pub copied: u64,
    /// Read as SDUs begin to leave: in one pass with the checksum.
    pub fetched: u64,
    /// Written to the application's memory, of SDUs that came whole.
    pub delivered: u64,
}

impl Crossings {
    /// All crossings.
    pub const fn total(&self) -> u64 {
        self.copied.wrapping_mul(2).wrapping_add(self.fetched).wrapping_add(self.delivered)
    }
}

/// An endpoint's data path.
#[derive(Debug)]
pub(crate) struct Path {
    kind: DataPath,
    pub(crate) crossings: Crossings,
    /// Each for one SDU that is leaving; those that were never needed have no memory.
    staging: Vec<Vec<u8>>,
    staged: Vec<bool>,
    staging_octets: usize,
    pub(crate) own: AppMemory,
}

/// SDUs of one endpoint that leave from staging buffers at once, at most. Only paced circuits keep one for long.
const MAX_STAGED: usize = 16;

impl Path {
    /// The memory that the path needs is taken here, once.
    pub(crate) fn new(kind: DataPath, buffer_octets: usize) -> Self {
        let staging_octets = match kind {
            DataPath::Copying => buffer_octets,
            DataPath::SingleCopy | DataPath::Shared | DataPath::ZeroCopy => 0,
        };
        let staging = vec![vec![0; staging_octets]];
        Path {
            kind,
            crossings: Crossings::default(),
            staging,
            staged: vec![false],
            staging_octets,
            own: AppMemory::default(),
        }
    }

    /// A staging buffer that is free. The first is there from the beginning, others once they are needed.
    fn stage(&mut self) -> Option<usize> {
        if let Some(free) = self.staged.iter().position(|staged| !staged) {
            return Some(free);
        }
        (self.staged.len() < MAX_STAGED).then(|| {
            self.staging.push(vec![0; self.staging_octets]);
            self.staged.push(false);
            self.staged.len() - 1
        })
    }

    /// An SDU has left, or is given up.
    pub(crate) fn end(&mut self, source: &Source) {
        if let Source::Staged(at) = source {
            self.staged[*at] = false;
        }
    }

    /// Which it is.
    pub(crate) fn kind(&self) -> DataPath {
        self.kind
    }

    /// So many octets are read from the application's memory, or from a staging buffer.
    pub(crate) fn note_fetched(&mut self, octets: usize) {
        self.crossings.fetched = self.crossings.fetched.wrapping_add(octets as u64);
    }

    /// Begins an SDU whose descriptor has been checked: `at` is where its buffer begins. `None`: all staging buffers
    /// are in use.
    pub(crate) fn begin(&mut self, segment: &Segment, descriptor: &Descriptor, at: Option<usize>) -> Option<Source> {
        Some(match (at, self.kind) {
            (None, _) => Source::Inline(descriptor.inline),
            (Some(at), DataPath::Copying) => {
                let place = self.stage()?;
                segment.copy_out(at, &mut self.staging[place][..descriptor.head.octets as usize]);
                self.staged[place] = true;
                self.crossings.copied = self.crossings.copied.wrapping_add(descriptor.head.octets.into());
                self.note_fetched(descriptor.head.octets as usize);
                Source::Staged(place)
            }
            (Some(at), _) => {
                self.note_fetched(descriptor.head.octets as usize);
                Source::Shared(at)
            }
        })
    }

    /// Begins an SDU in the application's own memory.
    pub(crate) fn begin_own(&mut self, descriptor: &Descriptor) -> Result<Source, DropReason> {
        let octets = descriptor.head.octets as usize;
        if self.kind != DataPath::SingleCopy || octets > wire::aal5::MAX_SDU_OCTETS {
            return Err(DropReason::BadDescriptor);
        }
        if descriptor.head.buffer == Descriptor::PAGES {
            let found = self.own.find(descriptor.address, 1).and_then(|at| self.own.region(at));
            let (memory, _) = found.filter(|(_, at)| *at == 0).ok_or(DropReason::BadDescriptor)?;
            let list = PageList::checked(descriptor, memory.len()).ok_or(DropReason::BadDescriptor)?;
            return Ok(Source::Pages(memory.clone(), list));
        }
        let found = self.own.find(descriptor.address, octets).and_then(|at| self.own.region(at));
        let (memory, at) = found.ok_or(DropReason::BadDescriptor)?;
        let source = Source::Region(memory.clone(), at);
        self.note_fetched(octets);
        Ok(source)
    }

    /// Copies the SDU, as many octets as `into` has.
    pub(crate) fn read(&self, source: &Source, segment: &Segment, into: &mut [u8]) {
        self.read_at(source, segment, 0, into);
    }

    /// The same, from the SDU's octet `at` on.
    #[inline]
    pub(crate) fn read_at(&self, source: &Source, segment: &Segment, at: usize, into: &mut [u8]) {
        match source {
            Source::Inline(octets) => into.copy_from_slice(&octets[at..at + into.len()]),
            Source::Shared(from) => segment.copy_out(*from + at, into),
            Source::Staged(place) => into.copy_from_slice(&self.staging[*place][at..at + into.len()]),
            Source::Region(memory, from) => crate::sys::copy_out(memory.octets(*from + at, into.len()), into),
            Source::Pages(memory, list) => {
                let (pieces, count) = list.pieces(memory, at, into.len());
                let mut into = into;
                for piece in &pieces[..count] {
                    let (now, later) = into.split_at_mut(piece.len());
                    crate::sys::copy_out(piece, now);
                    into = later;
                }
            }
        }
    }

    /// Segments on: from where the SDU is into cells, in one pass.
    pub(crate) fn fill(
        &self,
        source: &Source,
        segment: &Segment,
        segmentation: &mut Segmentation,
        out: &mut [Cell],
    ) -> usize {
        let octets = segmentation.sdu_octets();
        match source {
            Source::Inline(sdu) => segmentation.fill(&sdu[..octets], out),
            Source::Shared(from) => segmentation.fill_shared(segment.octets(*from, octets), out),
            Source::Staged(place) => segmentation.fill(&self.staging[*place][..octets], out),
            Source::Region(memory, at) => segmentation.fill_shared(memory.octets(*at, octets), out),
            Source::Pages(memory, list) => {
                let (pieces, count) = list.pieces(memory, 0, octets);
                segmentation.fill_gather(&pieces[..count], out)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use endpoint::layout::Head;
    use endpoint::shared::SharedMemory;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_of_pages_is_read_in_order_or_refused_whatever_it_holds(
            octets in 1u32..70_000, offset in prop_oneof![0u16..4096, any::<u16>()],
            numbers in prop::collection::vec(prop_oneof![0u16..20, Just(u16::MAX), any::<u16>()], MAX_PAGES),
            low: bool, displaced in prop_oneof![4 => Just(0u64), 1 => any::<u64>()], at in 0usize..5000,
        ) {
            let (memory, fd) = SharedMemory::create(20 * PAGE).unwrap();
            let plain: Vec<u8> = (0..20 * PAGE).map(|i| (i * 31 + (i >> 8) * 7) as u8).collect();
            memory.copy_in(0, &plain);
            let address = memory.address();
            let mut path = Path::new(DataPath::SingleCopy, 64);
            path.own.register(address, SharedMemory::open(&fd, 20 * PAGE).unwrap()).unwrap();
            let pages: [u16; MAX_PAGES] = core::array::from_fn(|n| if low { numbers[n] % 20 } else { numbers[n] });
            let head = Head { octets, ..Head::of_buffer(Descriptor::PAGES) };
            let mut d = Descriptor { address: address.wrapping_add(displaced), ..head.into() };
            d.set_pages(offset, &pages);
            prop_assert_eq!(d.pages(), (offset, pages));
            let used = (usize::from(offset) + octets as usize).div_ceil(PAGE).min(MAX_PAGES);
            let fits = offset < 4096 && octets <= 65_535 && displaced == 0 && pages[..used].iter().all(|page| *page < 20);
            let begun = path.begin_own(&d);
            prop_assert_eq!(begun.is_ok(), fits);
            let Ok(source) = begun else { return Ok(()) };
            let octet = |n: usize| {
                let n = usize::from(offset) + n;
                plain[usize::from(pages[n / PAGE]) * PAGE + n % PAGE]
            };
            let sdu: Vec<u8> = (0..octets as usize).map(octet).collect();
            let segment = Segment::anonymous(endpoint::Geometry::default()).unwrap();
            let at = at.min(sdu.len());
            let mut read = vec![0; sdu.len() - at];
            path.read_at(&source, &segment, at, &mut read);
            prop_assert!(read == sdu[at..]);
            let begin = || Segmentation::new("0.100".parse().unwrap(), sdu.len(), Default::default()).unwrap();
            let mut cells = [(); 2].map(|()| vec![Cell::default(); wire::aal5::cells(sdu.len())]);
            path.fill(&source, &segment, &mut begin(), &mut cells[0]);
            begin().fill(&sdu, &mut cells[1]);
            prop_assert!(cells[0] == cells[1]);
        }
    }
}
