//! Many SDUs of any circuits into cells, in one call: what a call and a kernel's choice cost is paid once.

use crate::SduMeta;
use crate::kernel::{Kernel, Out, SLOT, WIRE};
use crate::segment::{SegmentError, checked, out};
use wire::{Cell, CircuitId};

/// An SDU that is to be sent whole.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    sdu: &'a [u8],
    head: u32,
    trailer: u32,
}

impl<'a> Outgoing<'a> {
    /// `sdu` on `circuit`.
    ///
    /// # Errors
    /// No octets, or more than 65 535.
    #[inline]
    pub fn new(circuit: CircuitId, sdu: &'a [u8], meta: SduMeta) -> Result<Self, SegmentError> {
        checked(sdu.len())?;
        let Out { head, trailer, .. } = out(circuit, sdu.len(), meta, 0);
        Ok(Outgoing { sdu, head, trailer })
    }

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

/// Writes the cells of as many SDUs as fit, whole and in order.
pub fn segment_batch(sdus: &[Outgoing<'_>], out: &mut [Cell]) -> Batch {
    segment_batch_by(Kernel::chosen(), sdus, out)
}

/// The same by a kernel of the caller's choice.
#[allow(unsafe_code)]
pub fn segment_batch_by(kernel: Kernel, sdus: &[Outgoing<'_>], out: &mut [Cell]) -> Batch {
    // SAFETY: room for as many cells as the slice has.
    unsafe { kernel.segment_batch::<SLOT>(sdus, out.as_mut_ptr().cast(), out.len()) }
}

/// The same into cells as on the wire, 53 octets each with their HEC; what is left over after whole cells stays as it is.
#[allow(unsafe_code)]
pub fn segment_batch53(kernel: Kernel, sdus: &[Outgoing<'_>], out: &mut [u8]) -> Batch {
    // SAFETY: room for as many cells as the slice has 53 octets.
    unsafe { kernel.segment_batch::<WIRE>(sdus, out.as_mut_ptr(), out.len() / WIRE) }
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
