//! Cells in UDP datagrams. Two forms: one 53-octet cell per datagram, as existing cell-switch emulators speak
//! ([`crate::octets`]), and a batched form of Cellway's own:
//!
//! | octets | what |
//! |---|---|
//! | 0..2 | `CW` |
//! | 2 | version, 1 |
//! | 3 | number of cells, 1 to 27 |
//! | 4..8 | sequence number of the datagram, for counting loss |
//! | 8.. | cells of 52 octets: header without HEC (UDP has its own checksum), payload |
//!
//! Version 2 adds a datagram without cells, by which the ends show that they live ([`crate::heartbeat`]); batches of
//! cells are the same in both versions. 27 cells and the head make 1412 octets, which fit an Ethernet frame. Between Cellways, a TCP connection carries the
//! same batches one behind the other.

use crate::Error;
use crate::cell::Cell;
use crate::octets::{CELL52_OCTETS, Format, emit52, parse52};

/// Octets before the cells.
pub const HEAD_OCTETS: usize = 8;
/// Most cells of one datagram.
pub const MAX_CELLS: usize = 27;
/// Octets of the longest datagram.
pub const MAX_OCTETS: usize = HEAD_OCTETS + MAX_CELLS * CELL52_OCTETS;

const WHAT: &str = "cell batch";

/// Octets of the batch that begins with these four, its head among them.
///
/// # Errors
/// No batch begins so.
pub fn octets_of(begin: [u8; 4]) -> Result<usize, Error> {
    let field = |field, value| Err(Error::Field { what: WHAT, field, value });
    let [c, w, version, count] = begin;
    if [c, w] != *b"CW" {
        return field("mark", u16::from_be_bytes([c, w]).into());
    }
    if version != 1 {
        return field("version", version.into());
    }
    if count == 0 || usize::from(count) > MAX_CELLS {
        return field("number of cells", count.into());
    }
    Ok(HEAD_OCTETS + usize::from(count) * CELL52_OCTETS)
}

/// A checked batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch<'a> {
    /// The datagram's number.
    pub sequence: u32,
    cells: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Takes a datagram for a batch.
    pub fn new_checked(datagram: &'a [u8]) -> Result<Self, Error> {
        let Some((&[c, w, version, count, s3, s2, s1, s0], cells)) = datagram.split_first_chunk::<HEAD_OCTETS>() else {
            return Err(Error::Truncated { what: WHAT, need: HEAD_OCTETS, got: datagram.len() });
        };
        let octets = octets_of([c, w, version, count])?;
        if HEAD_OCTETS + cells.len() != octets {
            return Err(Error::Field { what: WHAT, field: "number of cells", value: count.into() });
        }
        Ok(Batch { sequence: u32::from_be_bytes([s3, s2, s1, s0]), cells })
    }

    /// The cells, in order.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + 'a {
        self.cells.chunks_exact(CELL52_OCTETS).filter_map(|octets| parse52(octets, Format::Nni).ok())
    }
}

/// Writes up to [`MAX_CELLS`] of `cells` into `datagram` (of at least [`MAX_OCTETS`]); gives its length in octets.
pub fn emit(sequence: u32, cells: &[Cell], datagram: &mut [u8]) -> usize {
    let cells = &cells[..cells.len().min(MAX_CELLS)];
    datagram[..4].copy_from_slice(&[b'C', b'W', 1, cells.len() as u8]);
    datagram[4..8].copy_from_slice(&sequence.to_be_bytes());
    for (cell, octets) in cells.iter().zip(datagram[HEAD_OCTETS..].chunks_exact_mut(CELL52_OCTETS)) {
        octets.copy_from_slice(&emit52(cell));
    }
    HEAD_OCTETS + cells.len() * CELL52_OCTETS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CellHeader;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn a_batch_sent_is_the_batch_received(sequence: u32, words in proptest::collection::vec(any::<u32>(), 1..=27)) {
            let cells: Vec<Cell> = words.iter().map(|w| Cell::new(CellHeader::from_word(*w), [*w as u8; 48])).collect();
            let mut datagram = [0; MAX_OCTETS];
            let n = emit(sequence, &cells, &mut datagram);
            let batch = Batch::new_checked(&datagram[..n]).unwrap();
            prop_assert_eq!(batch.sequence, sequence);
            prop_assert_eq!(batch.cells().collect::<Vec<_>>(), cells);
            prop_assert!(Batch::new_checked(&datagram[..n - 1]).is_err());
        }

        #[test]
        fn no_octets_panic(octets: Vec<u8>) {
            if let Ok(batch) = Batch::new_checked(&octets) {
                prop_assert!(batch.cells().count() > 0);
            }
        }
    }
}
