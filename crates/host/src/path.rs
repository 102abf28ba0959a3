//! Data paths: how an SDU's octets get from the application's memory to the segmenter.
//!
//! Each path is a way to begin an SDU; what it gives is read by the segmenter in one pass. A new path is a
//! variant here and a case of `begin`.

use endpoint::layout::{Descriptor, INLINE_OCTETS};
use endpoint::segment::Segment;
use sar::Segmentation;
use wire::Cell;

/// Where the octets of the SDU that is being sent are.
#[derive(Debug)]
pub(crate) enum Source {
    /// In the descriptor, a copy of which is here.
    Inline([u8; INLINE_OCTETS]),
    /// `shared`: in the application's buffer, from this place of its segment on.
    Shared(usize),
    /// `copying`: in the endpoint's staging buffer.
    Staged,
}

/// An endpoint's way of sending.
#[derive(Debug)]
pub(crate) struct Path {
    kind: endpoint::DataPath,
    staging: Vec<u8>,
}

impl Path {
    /// The memory that the path needs is taken here, once.
    pub(crate) fn new(kind: endpoint::DataPath, buffer_octets: usize) -> Self {
        let staging = match kind {
            endpoint::DataPath::Copying => vec![0; buffer_octets],
            endpoint::DataPath::Shared => Vec::new(),
        };
        Path { kind, staging }
    }

    /// Which it is.
    pub(crate) fn kind(&self) -> endpoint::DataPath {
        self.kind
    }

    /// Begins an SDU whose descriptor has been checked: `at` is where its buffer begins.
    pub(crate) fn begin(&mut self, segment: &Segment, descriptor: &Descriptor, at: Option<usize>) -> Source {
        match (at, self.kind) {
            (None, _) => Source::Inline(descriptor.inline),
            (Some(at), endpoint::DataPath::Shared) => Source::Shared(at),
            (Some(at), endpoint::DataPath::Copying) => {
                segment.copy_out(at, &mut self.staging[..descriptor.octets as usize]);
                Source::Staged
            }
        }
    }

    /// Copies the SDU, as many octets as `into` has.
    pub(crate) fn read(&self, source: &Source, segment: &Segment, into: &mut [u8]) {
        match source {
            Source::Inline(octets) => into.copy_from_slice(&octets[..into.len()]),
            Source::Shared(from) => segment.copy_out(*from, into),
            Source::Staged => into.copy_from_slice(&self.staging[..into.len()]),
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
        }
    }
}
