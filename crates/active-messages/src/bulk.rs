//! Bulk transfers: pieces of an area of memory as requests and replies.
//!
//! A put's pieces are requests with data; the last one runs a handler at the other side and brings back one reply. A get's
//! pieces are requests, each with one reply that has the data. Both wait for grants like any request, so a transfer of any
//! length needs no more buffers than short messages do.

use crate::peer::PeerId;
use core::ops::Range;

/// An area of a node's memory, registered for others. Numbers are agreed upon by the applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AreaId(pub u32);

/// A transfer that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransferId(pub u32);

/// What others may do with an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// They may get.
    pub read: bool,
    /// They may put.
    pub write: bool,
}

impl Rights {
    /// Both.
    pub const ALL: Rights = Rights { read: true, write: true };
}

/// A registered area.
#[derive(Debug)]
pub(crate) struct Area {
    pub(crate) octets: Vec<u8>,
    pub(crate) rights: Rights,
}

/// A range, if an area of `octets` octets has it.
pub(crate) fn range(octets: usize, offset: u32, length: usize) -> Option<Range<usize>> {
    let begin = offset as usize;
    let end = begin.checked_add(length)?;
    (end <= octets).then_some(begin..end)
}

/// What a transfer moves.
#[derive(Debug)]
pub(crate) enum What {
    /// Its data, and the handler at the other side.
    Put { data: Vec<u8>, handler: u8 },
    /// Where the data go here.
    Get { octets: usize, into: AreaId, at: u32 },
}

/// A transfer that is under way.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) id: TransferId,
    pub(crate) peer: PeerId,
    pub(crate) area: AreaId,
    pub(crate) offset: u32,
    pub(crate) what: What,
    /// Octets asked for or sent, and of a get those that have come.
    pub(crate) begun: usize,
    pub(crate) come: usize,
}

impl Transfer {
    pub(crate) fn octets(&self) -> usize {
        match &self.what {
            What::Put { data, .. } => data.len(),
            What::Get { octets, .. } => *octets,
        }
    }

    /// The next piece, of `most` octets at most; an empty put has one.
    pub(crate) fn next_piece(&self, most: usize) -> Range<usize> {
        self.begun..(self.begun + most.max(1)).min(self.octets())
    }

    pub(crate) fn is_begun(&self) -> bool {
        self.begun >= self.octets()
    }
}
