//! PDUs of one cell, of any circuits, where several follow each other: no state is kept for them and no record, and
//! their CRCs are computed four at a time. What is not plain is left to the other ways: a circuit with a PDU on its
//! way, an unknown one, too few buffers.

use super::super::engine::TOGETHER;
use super::block::{BLOCK, Block};
use super::circuits::Fresh;
use super::table::{Ended, Entry, PduPlace};
use super::{Ahead, CONGESTION, Engine, GOOD, Loop, fetch, prefetch};
use core::mem::MaybeUninit;
use core::ops::Range;

/// Fewer in a row are not worth it.
pub(super) const LEAST: usize = 8;

impl<const S: usize> Loop<'_, S> {
    /// Takes PDUs of one cell each from a block's cells, each of which ends one; gives how many.
    ///
    /// # Safety
    /// As for the whole of [`super::demultiplex`]; there are places in `out` for what ends.
    #[inline(always)]
    pub(in crate::kernel) unsafe fn take_singles<E: Engine, const LARGE: bool>(
        &mut self,
        block: &Block,
        cells: Range<usize>,
        ahead: Ahead<'_>,
    ) -> usize {
        let n = cells.len() / TOGETHER * TOGETHER;
        let (pool, table) = (self.pool, self.table);
        let mut entries = [const { MaybeUninit::<*mut Entry>::uninit() }; BLOCK];
        // SAFETY: the caller's; cells of the block.
        unsafe {
            let mut busy = false;
            for i in 0..n {
                let at = cells.start + i;
                if LARGE {
                    fetch(table, pool, ahead, at);
                }
                let entry = block.find(at, table).unwrap_or_else(|| self.search(block, at));
                busy |= (*entry).place != PduPlace::IDLE;
                entries.get_unchecked_mut(i).write(entry);
            }
            if busy || !self.circuits.free().has(n) {
                return 0;
            }
            // Payloads and CRCs first, then what they mean: each by itself leaves more registers to it.
            let fresh = self.circuits.take_some(n);
            let first = self.cell(block, cells.start);
            let mut buffers = [const { MaybeUninit::<u32>::uninit() }; BLOCK];
            let mut remainders = [const { MaybeUninit::<u32>::uninit() }; BLOCK];
            for i in (0..n).step_by(TOGETHER) {
                let fresh = fresh.sub(i + TOGETHER - 1).cast::<[Fresh; TOGETHER]>().read();
                let fresh = [fresh[3], fresh[2], fresh[1], fresh[0]];
                let to = fresh.map(|fresh| pool.add(fresh.place.octet()));
                (0..TOGETHER).for_each(|j| prefetch(first.wrapping_add((i + j + BLOCK) * S)));
                let four = E::singles_in::<S>(first.add(i * S), to);
                remainders.as_mut_ptr().add(i).cast::<[u32; TOGETHER]>().write(four);
                buffers.as_mut_ptr().add(i).cast::<[u32; TOGETHER]>().write(fresh.map(|fresh| fresh.buffer));
            }
            let mut judged = self.judging();
            for i in 0..n {
                let head = *block.heads.get_unchecked(cells.start + i);
                let ended = Ended {
                    place: PduPlace::IDLE.or_clp(head),
                    entry: entries.get_unchecked(i).assume_init(),
                    trailer: first.add(i * S + S - 8).cast::<u64>().read_unaligned(),
                    congestion: u64::from(head) & CONGESTION != 0,
                    good: remainders.get_unchecked(i).assume_init() == GOOD,
                };
                let buffer = buffers.get_unchecked(i).assume_init();
                if let Some(sdu_octets) = self.circuits.finish_in(ended, buffer, 1, judged.to) {
                    judged.octets += sdu_octets as u64;
                    judged.to = judged.to.add(1);
                }
            }
            self.judged(judged);
        }
        self.counts.cells += n as u64;
        n
    }
}
