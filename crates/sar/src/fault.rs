//! What makes an AAL5 PDU that has ended undeliverable (I.363.5 section 9.2.1): the same answer for one circuit and for
//! many.

use wire::DropReason;
use wire::aal5::{TRAILER_OCTETS, Trailer};
use wire::cell::PAYLOAD_OCTETS;

/// Why a PDU of `octets` payload octets that has ended is not delivered, if it is not. The longest SDU is `longest`
/// octets.
#[inline(always)]
pub(crate) const fn fault(
    good: bool,
    trailer: &Trailer,
    octets: usize,
    longest: usize,
    any_cpi: bool,
) -> Option<DropReason> {
    let length = trailer.length as usize;
    // Octets that are neither the SDU's nor the trailer's are padding: less than a payload.
    let fits = octets.wrapping_sub(length + TRAILER_OCTETS) < PAYLOAD_OCTETS;
    if !good {
        Some(DropReason::Crc)
    } else if length == 0 {
        Some(DropReason::Aborted)
    } else if !fits {
        Some(DropReason::Length)
    } else if length > longest {
        Some(DropReason::Oversize)
    } else if trailer.cpi != 0 && !any_cpi {
        Some(DropReason::Malformed)
    } else {
        None
    }
}
