//! What experiments of several papers count in.

use wire::{CellRate, aal5};

/// ttcp's Mbit.
pub(super) const MEBI: f64 = 1.048_576;

/// The rate of SDUs of so many octets on OC-3c, in 10^6 bit/s: cells counted by the code that makes them.
pub(super) fn line_mbit_s(octets: usize) -> f64 {
    let seconds = aal5::cells(octets) as f64 / CellRate::OC3C.cells_per_s();
    octets as f64 * 8.0 / seconds / 1e6
}
