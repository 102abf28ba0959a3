//! Many SDUs in one call: each whole and in order, until one does not fit.

use super::engine::Out;

/// An SDU that is to be sent whole.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    pub(crate) sdu: &'a [u8],
    pub(crate) head: u32,
    pub(crate) trailer: u32,
}

impl Outgoing<'_> {
    /// How many cells it takes.
    #[inline]
    pub const fn cells(&self) -> usize {
        wire::aal5::cells(self.sdu.len())
    }
}

/// How far a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Batch {
    /// SDUs that are now cells, from the front of the batch.
    pub sdus: usize,
    /// Cells written.
    pub cells: usize,
}

/// The batch of one kernel; `segment` writes an SDU's cells from the given one on and gives how many.
#[inline(always)]
pub(crate) fn run(
    sdus: &[Outgoing<'_>],
    room: usize,
    start: u128,
    segment: impl Fn(&mut Out, &[u8], usize, usize) -> usize,
) -> Batch {
    let mut batch = Batch { sdus: 0, cells: 0 };
    for outgoing in sdus {
        let cells = outgoing.cells();
        if cells > room - batch.cells {
            break;
        }
        let mut out = Out {
            state: start,
            head: outgoing.head,
            sdu_octets: outgoing.sdu.len() as u32,
            cells: cells as u32,
            done: 0,
            trailer: outgoing.trailer,
        };
        batch.cells += segment(&mut out, outgoing.sdu, batch.cells, cells);
        batch.sdus += 1;
    }
    batch
}
