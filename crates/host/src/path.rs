//! Data paths: how an SDU's octets get from the application's memory to the segmenter, and from the reassembler back.
//!
//! Each path is a way to begin an SDU; what it gives is read by the segmenter in one pass. A new path is a
//! variant here and a case of `begin`.

use crate::own::{Mapped, Own};
use endpoint::DataPath;
use endpoint::layout::{Descriptor, INLINE_OCTETS};
use endpoint::segment::Segment;
use sar::Segmentation;
use std::sync::Arc;
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
}

/// Octets of an endpoint's SDUs by what moved them across the memory bus; caches are left out, and so are the application's
/// own stores and loads. What travels inside a descriptor is not counted.
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
    pub(crate) own: Own,
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
            own: Own::default(),
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

    /// Begins an SDU whose descriptor has been checked: `at` is where its buffer begins. `None`: all staging buffers are
    /// in use.
    pub(crate) fn begin(&mut self, segment: &Segment, descriptor: &Descriptor, at: Option<usize>) -> Option<Source> {
        Some(match (at, self.kind) {
            (None, _) => Source::Inline(descriptor.inline),
            (Some(at), DataPath::Copying) => {
                let place = self.stage()?;
                segment.copy_out(at, &mut self.staging[place][..descriptor.octets as usize]);
                self.staged[place] = true;
                self.crossings.copied = self.crossings.copied.wrapping_add(descriptor.octets.into());
                self.note_fetched(descriptor.octets as usize);
                Source::Staged(place)
            }
            (Some(at), _) => {
                self.note_fetched(descriptor.octets as usize);
                Source::Shared(at)
            }
        })
    }

    /// Begins an SDU in the application's own memory.
    pub(crate) fn begin_own(&mut self, descriptor: &Descriptor) -> Result<Source, DropReason> {
        let octets = descriptor.octets as usize;
        if self.kind != DataPath::SingleCopy || octets > wire::aal5::MAX_SDU_OCTETS {
            return Err(DropReason::BadDescriptor);
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
        }
    }
}
