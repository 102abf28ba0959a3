//! Many SDUs of any circuits into cells, in one call: what a call and a kernel's choice cost is paid once.

use crate::SduMeta;
use crate::kernel::{Batch, Kernel, Out, Outgoing, SLOT, WIRE};
use crate::segment::{SegmentError, checked, out};
use wire::{Cell, CircuitId};

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

/// The same into cells as on the wire, 53 octets each with their HEC; what is left over after whole cells stays as it
/// is.
#[allow(unsafe_code)]
pub fn segment_batch53(kernel: Kernel, sdus: &[Outgoing<'_>], out: &mut [u8]) -> Batch {
    // SAFETY: room for as many cells as the slice has 53 octets.
    unsafe { kernel.segment_batch::<WIRE>(sdus, out.as_mut_ptr(), out.len() / WIRE) }
}
