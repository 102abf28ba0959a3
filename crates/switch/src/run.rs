//! Long runs: user cells of one label that came one after another. What is true of a run is found out once for all of
//! its cells.

use crate::circuit::is_special;
use wire::Cell;
use wire::cell::run_length;

/// From so many cells on a run is looked up by itself, before those behind it.
pub(crate) const LONG: usize = 16;
/// Cells of a run that are handled at once, at most: what a first-level cache holds in and out.
pub(crate) const AT_ONCE: usize = 256;
/// Among cells of other circuits a long run is looked for at each such place.
const STEP: usize = LONG / 2;

/// The header bits in which cells of a run may differ: the end of a PDU, congestion, loss priority.
const FREE_BITS: u32 = 0b111;

#[inline(always)]
fn differ(cell: &Cell, word: u32) -> bool {
    (cell.header_word() ^ word) & !FREE_BITS != 0
}

/// Cells of the run that `cells` begin with, as far as it is long; less than [`LONG`] says that it is not.
#[inline]
pub(crate) fn leading(cells: &[Cell]) -> usize {
    let (Some(first), Some(later)) = (cells.first(), cells.get(LONG - 1)) else { return 0 };
    let word = first.header_word();
    if differ(later, word) || is_special(word) {
        return 0;
    }
    run_length(cells, word, FREE_BITS)
}

/// How many of `cells`, at least one, come before a long run; they do not begin with one.
#[inline]
pub(crate) fn before_long(cells: &[Cell]) -> usize {
    let mut at = STEP;
    // A long run covers one of these places and the cells up to the next.
    while let (Some(here), Some(next)) = (cells.get(at), cells.get(at + STEP - 1)) {
        let word = here.header_word();
        if !differ(next, word) {
            let before = cells[1..at].iter().rev().take_while(|cell| !differ(cell, word)).count();
            let begin = at - before;
            if leading(&cells[begin..]) >= LONG {
                return begin;
            }
        }
        at += STEP;
    }
    cells.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::{CellHeader, CircuitId, PayloadType};

    fn cell(vci: u16, bits: u8) -> Cell {
        let header = CellHeader { circuit: CircuitId::new(0, vci).unwrap(), ..CellHeader::default() };
        let header = CellHeader { payload_type: PayloadType::from_bits(bits >> 1), clp: bits & 1 != 0, ..header };
        Cell::new(header, [0; 48])
    }

    /// The length of the run at the beginning, cell by cell.
    fn run(cells: &[Cell]) -> usize {
        let Some(first) = cells.first().filter(|cell| !is_special(cell.header_word())) else { return 0 };
        let same = |cell: &&Cell| cell.circuit() == first.circuit() && cell.header_word() & 8 == 0;
        cells.iter().take_while(same).count()
    }

    proptest! {
        #[test]
        fn long_runs_are_found_where_they_are(
            parts in prop::collection::vec((0u16..6, 1usize..60, any::<bool>(), 0u8..16), 1..12),
        ) {
            let mut cells = Vec::new();
            for (vci, n, mixed, bits) in parts {
                for i in 0..n {
                    let bits = if mixed { (i as u8).wrapping_mul(7) & 7 } else { bits };
                    cells.push(cell(vci, bits));
                }
            }
            let mut at = 0;
            while at < cells.len() {
                let rest = &cells[at..];
                let (found, real) = (leading(rest), run(rest));
                prop_assert!(found == real || found < LONG && real < LONG, "{found} of {real} at {at}");
                if found >= LONG {
                    at += found;
                    continue;
                }
                let n = before_long(rest);
                prop_assert!(n >= 1 && n <= rest.len());
                // No long run begins within, but for the rest of one that has begun before.
                for i in 1..n {
                    let begins = run(&rest[i - 1..]) != run(&rest[i..]) + 1;
                    prop_assert!(!begins || run(&rest[i..]) < LONG, "at {} of {n}", i);
                }
                prop_assert!(n == rest.len() || run(&rest[n..]) >= LONG);
                at += n;
            }
        }
    }
}
