//! Segmentation of an SDU that lies in pieces, as a scatter-gather list names them: cells within a piece come straight
//! from it, a cell that several pieces share, and the SDU's end, by a copy of that cell.

use super::Segmentation;
use crate::kernel::SLOT;
use core::sync::atomic::{AtomicU8, Ordering};
use wire::Cell;
use wire::cell::PAYLOAD_OCTETS as PAYLOAD;

/// Octets before a cell's that are copied with it: a kernel may read some of them with a cell that is not full.
const BEFORE: usize = 64;

impl Segmentation {
    /// The same as [`Segmentation::fill_shared`] from memory in pieces, which are the same octets at each call.
    pub fn fill_gather(&mut self, pieces: &[&[AtomicU8]], out: &mut [Cell]) -> usize {
        let octets = self.sdu_octets();
        if pieces.iter().map(|piece| piece.len()).sum::<usize>() < octets {
            return 0;
        }
        let (mut written, mut begin, mut next) = (0, 0, 0);
        while written < out.len() && !self.is_done() {
            let at = (self.out.done as usize * PAYLOAD).min(octets);
            while next + 1 < pieces.len() && begin + pieces[next].len() <= at {
                begin += pieces[next].len();
                next += 1;
            }
            let piece = pieces.get(next).copied().unwrap_or_default();
            // Cells that are full, and that this piece has wholly.
            let end = (begin + piece.len()).min(octets / PAYLOAD * PAYLOAD);
            let cells = end.saturating_sub(at) / PAYLOAD;
            let to = &mut out[written..];
            written += if cells > 0 {
                let room = to.len().min(cells);
                // SAFETY: `room` full cells are read, from octet `at` on, all of which are in the piece: octet `begin`
                // is its first. No octet is an invalid value, whoever writes it when, and `to` has room for them.
                #[allow(unsafe_code)]
                unsafe {
                    self.kernel.segment::<SLOT>(
                        &mut self.out,
                        piece.as_ptr().cast::<u8>().wrapping_sub(begin),
                        to.as_mut_ptr().cast(),
                        room,
                    )
                }
            } else {
                let (from, mut copy) = (at.saturating_sub(BEFORE), [0; BEFORE + PAYLOAD]);
                copy_out(pieces, from, &mut copy[..(at + PAYLOAD).min(octets) - from]);
                // SAFETY: one cell is read, and at most `BEFORE` octets before it, all of which are in the copy: octet
                // `from` is its first. `to` has room for a cell.
                #[allow(unsafe_code)]
                unsafe {
                    self.kernel.segment::<SLOT>(
                        &mut self.out,
                        copy.as_ptr().wrapping_sub(from),
                        to.as_mut_ptr().cast(),
                        1,
                    )
                }
            };
        }
        written
    }
}

/// Copies octets of memory in pieces from octet `at` on.
fn copy_out(pieces: &[&[AtomicU8]], at: usize, into: &mut [u8]) {
    let octets = pieces.iter().copied().flatten().skip(at);
    into.iter_mut().zip(octets).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SduMeta;
    use crate::kernel::Kernel;
    use proptest::prelude::*;
    use wire::aal5::cells;

    proptest! {
        #[test]
        fn cells_from_pieces_are_those_of_the_whole(
            lengths in prop::collection::vec(prop_oneof![0usize..4, 1usize..100, Just(4096), 1usize..5000], 1..12),
            portion in 1usize..40,
        ) {
            let octets: Vec<u8> = (0..lengths.iter().sum::<usize>()).map(|i| (i * 31 + (i >> 8)) as u8).collect();
            prop_assume!(!octets.is_empty());
            // Each piece is an allocation of its own, so that a read outside is seen by tools that watch memory.
            let mut at = 0;
            let own: Vec<Vec<AtomicU8>> = lengths.iter().map(|n| {
                at += n;
                octets[at - n..at].iter().map(|octet| AtomicU8::new(*octet)).collect()
            }).collect();
            let pieces: Vec<&[AtomicU8]> = own.iter().map(Vec::as_slice).collect();
            for kernel in Kernel::all().iter().copied() {
                let begin = || Segmentation::with_kernel(kernel, "0.100".parse().unwrap(), octets.len(), SduMeta::default()).unwrap();
                let mut whole = vec![Cell::default(); cells(octets.len())];
                begin().fill(&octets, &mut whole);
                let (mut s, mut parts) = (begin(), Vec::new());
                while !s.is_done() {
                    let mut room = vec![Cell::default(); portion];
                    let n = s.fill_gather(&pieces, &mut room);
                    prop_assert!(n > 0);
                    parts.extend_from_slice(&room[..n]);
                }
                prop_assert!(parts == whole);
                prop_assert_eq!(begin().fill_gather(&pieces[..pieces.len() - 1], &mut whole) == 0, lengths[lengths.len() - 1] > 0);
            }
        }
    }
}
