//! OAM at a switch (I.610): which cells end here, and the answer to a loopback cell.

use wire::oam::{Flow, Function, Loopback};
use wire::{Cell, CellHeader, DropReason};

/// Whether a flow of this header ends at a switch that forwards it by a path (`is_path`) or by its channel: the segment
/// flow of what is switched, not that of a channel inside a switched path.
pub(crate) fn ends_at_switch(header: CellHeader, is_path: bool) -> bool {
    match Flow::of(header) {
        Some(Flow::F4Segment) => true,
        Some(Flow::F5Segment) => !is_path,
        _ => false,
    }
}

/// The cell to send back where `cell` came from, on the same labels.
///
/// # Errors
/// Why there is none: no loopback request for this point, or octets that are no OAM cell.
pub(crate) fn answer(cell: &Cell) -> Result<Cell, DropReason> {
    match Function::parse(&cell.payload) {
        Ok(Function::Loopback(loopback)) if loopback.request => {
            // A request for a named location between the end points is for someone with that name.
            if loopback.location != Loopback::END_POINT {
                return Err(DropReason::NotOpen);
            }
            let returned = Function::Loopback(Loopback { request: false, ..loopback });
            Ok(Cell::new(cell.header(), returned.emit()))
        }
        Ok(_) => Err(DropReason::NotOpen),
        Err(wire::Error::Checksum { .. }) => Err(DropReason::Crc),
        Err(_) => Err(DropReason::Malformed),
    }
}
