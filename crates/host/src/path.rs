//! Data paths: how an SDU's octets get from the application's memory to the segmenter, and from the reassembler back.
//!
//! Each path is a way to begin an SDU; what it gives is read by the segmenter in one pass. A new path is a
//! variant here and a case of `begin`.

use crate::own::{At, Own};
use endpoint::DataPath;
use endpoint::layout::{Descriptor, INLINE_OCTETS};
use endpoint::segment::Segment;
use endpoint::shared::SharedMemory;
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
    /// `copying`, or own memory that is not registered: in the endpoint's staging buffer.
    Staged,
    /// `single-copy`: in a registered region, from this octet on.
    Region(Arc<SharedMemory>, usize),
}

/// An endpoint's data path.
#[derive(Debug)]
pub(crate) struct Path {
    kind: DataPath,
    staging: Vec<u8>,
    pub(crate) own: Own,
}

impl Path {
    /// The memory that the path needs is taken here, once.
    pub(crate) fn new(kind: DataPath, buffer_octets: usize) -> Self {
        let staging = match kind {
            DataPath::Copying => vec![0; buffer_octets],
            DataPath::SingleCopy => vec![0; wire::aal5::MAX_SDU_OCTETS],
            DataPath::Shared | DataPath::ZeroCopy => Vec::new(),
        };
        Path { kind, staging, own: Own::default() }
    }

    /// Which it is.
    pub(crate) fn kind(&self) -> DataPath {
        self.kind
    }

    /// Begins an SDU whose descriptor has been checked: `at` is where its buffer begins.
    pub(crate) fn begin(&mut self, segment: &Segment, descriptor: &Descriptor, at: Option<usize>) -> Source {
        match (at, self.kind) {
            (None, _) => Source::Inline(descriptor.inline),
            (Some(at), DataPath::Copying) => {
                segment.copy_out(at, &mut self.staging[..descriptor.octets as usize]);
                Source::Staged
            }
            (Some(at), _) => Source::Shared(at),
        }
    }

    /// Begins an SDU in the application's own memory.
    pub(crate) fn begin_own(&mut self, descriptor: &Descriptor) -> Result<Source, DropReason> {
        let octets = descriptor.octets as usize;
        if self.kind != DataPath::SingleCopy || octets > self.staging.len() {
            return Err(DropReason::BadDescriptor);
        }
        match self.own.find(descriptor.address, octets) {
            Some(At::Region(region, at)) => {
                let memory = self.own.region(region).ok_or(DropReason::BadDescriptor)?;
                Ok(Source::Region(memory.clone(), at))
            }
            Some(At::Process(address)) if self.own.read(address, &mut self.staging[..octets]) => Ok(Source::Staged),
            _ => Err(DropReason::BadDescriptor),
        }
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
            Source::Staged => into.copy_from_slice(&self.staging[at..at + into.len()]),
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
            Source::Staged => segmentation.fill(&self.staging[..octets], out),
            Source::Region(memory, at) => segmentation.fill_shared(memory.octets(*at, octets), out),
        }
    }
}
