//! *Look*: the headers of a block of cells, at once: where in the table the search for each cell's circuit begins, and
//! which cells need attention.

use super::super::engine::{CLP, END, Engine, NOT_USER, header, with_hec};
use super::Loop;
use super::table::{Entry, SPREAD, Table, VARIABLE, WITHIN, home};

/// Cells of a block.
pub(super) const BLOCK: usize = 32;
/// A set of a block's cells.
pub(super) type Cells = u32;

/// Some cells that follow each other.
pub(in crate::kernel) struct Block {
    /// Their first four octets, first octet lowest; zeros after the last.
    pub(super) heads: [u32; BLOCK],
    /// The same without PTI and CLP.
    pub(super) circuits: [u32; BLOCK],
    /// Where in the table the searches for their circuits begin.
    pub(super) homes: [u32; BLOCK],
    pub(super) begin: usize,
    pub(super) cells: usize,
    /// Which bits are set in any of the heads.
    pub(super) any: u32,
    /// Those that end PDUs.
    pub(super) ends: Cells,
    /// Those that are not to be taken like the rest: ends, cells before one with the same header, cells with CLP set.
    pub(super) events: Cells,
    /// Those before one with the same header.
    pub(super) follow: Cells,
    /// Those whose header is damaged (53-octet cells).
    pub(super) damaged: Cells,
    /// The cell after the last is not of user data.
    pub(super) stopped: bool,
}

impl<const S: usize> Loop<'_, S> {
    /// Looks at the headers of the cells from `from` on.
    #[inline(always)]
    pub(in crate::kernel) unsafe fn look<E: Engine>(&self, from: usize, block: &mut Block) {
        block.begin = from;
        block.cells = (self.n - from).min(BLOCK);
        block.damaged = 0;
        block.stopped = false;
        let first = self.input.wrapping_add(from * S);
        let shift = self.table.shift();
        // SAFETY: cells below `n`, and the caller's.
        unsafe {
            if block.cells == BLOCK {
                look_at_all::<E, S>(first, shift, block);
            } else {
                let mut heads = [0u32; BLOCK];
                for (i, head) in heads[..block.cells].iter_mut().enumerate() {
                    *head = first.add(i * S).cast::<u32>().read_unaligned();
                }
                look_at_all::<E, { size_of::<u32>() }>(heads.as_ptr().cast(), shift, block);
            }
            if S == 53 {
                for i in 0..block.cells {
                    let head = header::<S>(first.add(i * S));
                    if head != with_hec::<S>(head as u32) {
                        block.damaged |= 1 << i;
                        // No circuit's.
                        block.circuits[i] = VARIABLE;
                    }
                }
            }
        }
        block.ends &= !block.damaged;
        block.events = block.ends | block.follow | block.damaged;
        if u64::from(block.any) & (NOT_USER | CLP) != 0 {
            block.events |= bits(&block.heads, CLP);
            let users = bits(&block.heads, NOT_USER) & !block.damaged;
            block.stopped = users != 0;
            block.cells = block.cells.min(users.trailing_zeros() as usize);
        }
    }
}

impl Block {
    pub(super) const EMPTY: Block = Block {
        heads: [0; BLOCK],
        circuits: [0; BLOCK],
        homes: [0; BLOCK],
        begin: 0,
        cells: 0,
        any: 0,
        ends: 0,
        events: 0,
        follow: 0,
        damaged: 0,
        stopped: false,
    };

    /// The entry of a cell's circuit, if the search begins with it and its header is not damaged.
    ///
    /// # Safety
    /// `i` is below [`BLOCK`], the block's homes are of this table.
    #[inline(always)]
    pub(super) unsafe fn find(&self, i: usize, table: Table) -> Option<*mut Entry> {
        // SAFETY: the caller's.
        unsafe {
            let entry = table.entry(*self.homes.get_unchecked(i));
            ((*entry).head == *self.circuits.get_unchecked(i)).then_some(entry)
        }
    }
}

/// The first four octets of cells, and where the searches for them begin. Vectors are put together in
/// registers: what was stored in small pieces is slow to read in large ones.
///
/// # Safety
/// SSE4.2 if `E` says so; `from` gives as many cells as a block has, `S` octets apart.
#[inline(always)]
unsafe fn look_at_all<E: Engine, const S: usize>(from: *const u8, shift: u32, block: &mut Block) {
    // SAFETY: the caller's.
    let head_of = |i: usize| unsafe { from.add(i * S).cast::<u32>().read_unaligned() };
    #[cfg(target_arch = "x86_64")]
    if E::SSE4 {
        use core::arch::x86_64::*;
        // SAFETY: SSE4.2; four heads and four homes have room for a vector of them.
        unsafe {
            let turn = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
            let fixed = _mm_set1_epi32(!VARIABLE as i32);
            let spread = _mm_set1_epi32(SPREAD as i32);
            let whole = _mm_set1_epi32(!WITHIN as i32);
            let shift = _mm_cvtsi32_si128(shift as i32);
            let four = |i: usize| {
                let one = |j: usize| _mm_cvtsi32_si128(head_of(4 * i + j) as i32);
                _mm_unpacklo_epi64(_mm_unpacklo_epi32(one(0), one(1)), _mm_unpacklo_epi32(one(2), one(3)))
            };
            let mut any = _mm_setzero_si128();
            let (mut ends, mut follow) = ([any; BLOCK / 4], [any; BLOCK / 4]);
            let mut heads = four(0);
            for i in 0..BLOCK / 4 {
                _mm_storeu_si128(block.heads.as_mut_ptr().add(4 * i).cast(), heads);
                any = _mm_or_si128(any, heads);
                let circuits = _mm_and_si128(heads, fixed);
                _mm_storeu_si128(block.circuits.as_mut_ptr().add(4 * i).cast(), circuits);
                let turned = _mm_shuffle_epi8(circuits, turn);
                let homes = _mm_and_si128(_mm_srl_epi32(_mm_mullo_epi32(turned, spread), shift), whole);
                _mm_storeu_si128(block.homes.as_mut_ptr().add(4 * i).cast(), homes);
                ends[i] = _mm_slli_epi32::<{ 31 - END.trailing_zeros() as i32 }>(heads);
                let next = if i + 1 < BLOCK / 4 { four(i + 1) } else { _mm_setzero_si128() };
                follow[i] = _mm_cmpeq_epi32(heads, _mm_alignr_epi8::<4>(next, heads));
                heads = next;
            }
            block.ends = signs(ends);
            block.follow = signs(follow) & first(BLOCK - 1);
            let mut either = [0u32; 4];
            _mm_storeu_si128(either.as_mut_ptr().cast(), any);
            block.any = either[0] | either[1] | either[2] | either[3];
        }
        return;
    }
    for i in 0..BLOCK {
        block.heads[i] = head_of(i);
    }
    look_one_by_one(block, shift);
}

/// The first `n` cells, one at least.
#[inline(always)]
pub(super) fn first(n: usize) -> Cells {
    Cells::MAX >> (BLOCK - n)
}

/// Which of a block's numbers are negative.
///
/// # Safety
/// None.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn signs(v: [core::arch::x86_64::__m128i; BLOCK / 4]) -> Cells {
    use core::arch::x86_64::*;
    // SAFETY: SSE2 is part of x86-64. Numbers that are made narrower keep their signs.
    unsafe {
        let part = |i: usize| {
            let (a, b) = (_mm_packs_epi32(v[i], v[i + 1]), _mm_packs_epi32(v[i + 2], v[i + 3]));
            (_mm_movemask_epi8(_mm_packs_epi16(a, b)) as Cells) << (4 * i)
        };
        (0..BLOCK / 4).step_by(4).fold(0, |all, i| all | part(i))
    }
}

/// The same for heads that are in the block already.
fn look_one_by_one(block: &mut Block, shift: u32) {
    (block.ends, block.follow, block.any) = (0, 0, 0);
    for (i, head) in block.heads.iter().enumerate() {
        block.circuits[i] = head & !VARIABLE;
        block.homes[i] = home(*head, shift);
        block.any |= head;
        block.ends |= Cells::from(u64::from(*head) & END != 0) << i;
        block.follow |= Cells::from(block.heads.get(i + 1) == Some(head)) << i;
    }
}

/// Which of the heads have a bit set.
#[cold]
fn bits(heads: &[u32; BLOCK], bit: u64) -> Cells {
    (0..BLOCK).fold(0, |all, i| all | Cells::from(u64::from(heads[i]) & bit != 0) << i)
}
