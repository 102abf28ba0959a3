//! In which order circuits take turns, as far as it is known: it is looked for in the cells of a call, and kept from
//! call to call. A search that fails is not repeated for a while, so that cells in no order pay little for it.

use super::table::{PduPlace, VARIABLE};
use super::{END, Loop, Record, with_hec};
use core::mem::MaybeUninit;

/// Whole periods of a window, at most: where lines of a column fall into one set of a cache, this is how many it has.
pub(super) const ROWS: usize = 8;
/// PDUs that may end in a window, at most.
pub(super) const ENDS: usize = 1024;
/// The longest period that is looked for.
const LONGEST: usize = 1365;
/// For how many blocks no period is looked for when there was none, at first and at most.
const WAIT: [u32; 2] = [4, 512];
/// After how many calls that are too short for the order it is forgotten.
const FEW: u32 = 16;

/// What is known of the order from before.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The period, or zero.
    period: usize,
    /// Whose turn it is.
    next: usize,
    /// For how many blocks none is looked for.
    wait: u32,
    /// For how many there was none the last time.
    waited: u32,
    /// Calls that were too short for the order, since the last window.
    too_short: u32,
    /// The circuits of a period in their order.
    pub(super) columns: Box<[Column]>,
    /// What their entries were before the window.
    pub(super) before: Box<[Before]>,
    /// What ends in a window, and one place more.
    pub(super) records: Box<[MaybeUninit<Record>]>,
    /// The same in the order of last cells.
    pub(super) order: Box<[u16]>,
}

impl Turns {
    /// Nothing is known of so many circuits.
    pub(crate) fn new(circuits: usize) -> Self {
        let most = circuits.min(LONGEST);
        let ends = (most * (ROWS + 1)).min(ENDS);
        Turns {
            columns: vec![Column::default(); most].into(),
            before: vec![Before { state: 0, place: PduPlace::IDLE }; most].into(),
            records: Box::new_uninit_slice(ends + 1),
            order: vec![0; ends].into(),
            ..Turns::default()
        }
    }

    /// Entries have moved, or the order was another.
    pub(crate) fn forget(&mut self) {
        (self.period, self.too_short) = (0, 0);
    }

    /// A window has been taken: whose turn it is now, and whether another is worth it.
    #[inline(always)]
    pub(super) fn taken(&mut self, next: usize, another: bool) {
        (self.next, self.too_short) = (next, 0);
        if another {
            self.waited = 0;
        }
    }

    /// Whether a period is to be looked for.
    #[inline(always)]
    pub(super) fn may_be(&mut self) -> bool {
        let now = self.wait == 0;
        self.wait -= u32::from(!now);
        now
    }
}

/// A circuit of a period: where its entry is, its header, and the HEC of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Column {
    pub(super) home: u32,
    head: u32,
    hec: u32,
}

impl Column {
    /// The header of its cells in the midst of a PDU, as their first octets are read.
    #[inline(always)]
    pub(super) fn header<const S: usize>(self) -> u64 {
        if S == 53 { u64::from(self.head) | u64::from(self.hec) << 32 } else { u64::from(self.head) }
    }
}

/// What a window changes of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    pub(super) state: u128,
    pub(super) place: PduPlace,
}

/// Cells that are taken together: some periods, and the beginning of one more.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) period: usize,
    /// Whose turn it is first.
    next: usize,
    pub(super) rows: usize,
    pub(super) rest: usize,
}

impl Shape {
    pub(super) fn cells(self) -> usize {
        self.period * self.rows + self.rest
    }

    /// Where the circuit that comes so many turns after the first one stands.
    #[inline(always)]
    pub(super) fn at(self, turn: usize) -> usize {
        let at = self.next + turn;
        if at < self.period { at } else { at - self.period }
    }
}

impl<const S: usize> Loop<'_, S> {
    /// The first four octets of a cell.
    #[inline(always)]
    unsafe fn head(&self, i: usize) -> u32 {
        // SAFETY: the caller's: `i` is below `n`.
        unsafe { self.input.add(i * S).cast::<u32>().read_unaligned() }
    }

    /// The next window: two periods at least of a known order, three of another.
    #[inline(always)]
    pub(super) unsafe fn shape(&mut self) -> Option<Shape> {
        let at = self.done.cells_used;
        let left = self.n - at;
        let turns = &self.circuits.turns;
        // SAFETY: cells below `n`.
        unsafe {
            if turns.period == 0 {
                if left < 6 || !self.learn(left) {
                    return None;
                }
            } else if left < 2 * turns.period {
                // The end of a call tells nothing, the whole of it does.
                let turns = &mut self.circuits.turns;
                turns.too_short += u32::from(at == 0);
                if turns.too_short == FEW {
                    turns.forget();
                }
                return None;
            } else if (self.head(at) ^ turns.columns[turns.next].head) & !VARIABLE != 0 && !self.learn_next(left) {
                return None;
            }
        }
        let Turns { period, next, .. } = self.circuits.turns;
        // Windows of nearly the same size.
        let rows = left / period;
        let rows = rows.div_ceil(rows.div_ceil(ROWS));
        let rest = left - rows * period;
        Some(Shape { period, next, rows, rest: if rest < period { rest } else { 0 } })
    }

    /// Looks for a period in the cells that are left, and who takes turns in it.
    #[cold]
    #[inline(never)]
    unsafe fn learn(&mut self, left: usize) -> bool {
        let at = self.done.cells_used;
        let most = (left / 3).min(self.circuits.turns.columns.len());
        // SAFETY: cells below `n`.
        unsafe {
            let first = self.head(at);
            let again = |i: usize| (self.head(at + i) ^ first) & !VARIABLE == 0;
            let ends = u64::from(first & self.head(at + 1)) & END != 0;
            if !ends
                && !again(1)
                && let Some(period) = (2..=most).find(|i| again(*i))
                && self.find_columns(period)
            {
                (self.circuits.turns.period, self.circuits.turns.next) = (period, 0);
                return true;
            }
        }
        self.circuits.turns.forget();
        self.no_window(0);
        false
    }

    /// Looks who of a known order comes next, or else for another order.
    #[cold]
    #[inline(never)]
    unsafe fn learn_next(&mut self, left: usize) -> bool {
        // SAFETY: a cell is left.
        let head = unsafe { self.head(self.done.cells_used) } & !VARIABLE;
        let turns = &mut self.circuits.turns;
        if let Some(next) = turns.columns[..turns.period].iter().position(|column| column.head == head) {
            turns.next = next;
            return true;
        }
        // SAFETY: the caller's.
        unsafe { self.learn(left) }
    }

    /// Windows are not worth it now, and some cells have been taken for nothing: a while passes before the next
    /// attempt, much longer than they took, and longer each time.
    #[cold]
    pub(super) fn no_window(&mut self, cells: usize) {
        let turns = &mut self.circuits.turns;
        let least = (cells / 8) as u32;
        turns.wait = (turns.waited * 2).clamp(WAIT[0], WAIT[1]).max(least);
        turns.waited = turns.wait.min(WAIT[1]);
    }

    /// Finds the entries of a period's circuits. Whether all are circuits, and each is there once.
    unsafe fn find_columns(&mut self, period: usize) -> bool {
        let (table, at) = (self.table, self.done.cells_used);
        let mut found = 0;
        // SAFETY: cells below `n`; entries of the table, those below `found` are marked.
        unsafe {
            while found < period {
                let head = self.head(at + found) & !VARIABLE;
                let Some(entry) = table.find(head) else { break };
                if (*entry).place.is_marked() {
                    break;
                }
                (*entry).place = (*entry).place.marked();
                let hec = (with_hec::<53>(head) >> 32) as u32;
                self.circuits.turns.columns[found] = Column { home: table.home_of(entry), head, hec };
                found += 1;
            }
            for column in &self.circuits.turns.columns[..found] {
                let entry = table.entry(column.home);
                (*entry).place = (*entry).place.unmarked();
            }
        }
        found == period
    }
}
