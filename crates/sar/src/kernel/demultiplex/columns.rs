//! Circuits that take turns, a cell each, always in the same order: cells of one circuit stand a period apart. A window of
//! some periods is taken circuit by circuit, so that a circuit is looked up once, its CRC state stays in a register, and
//! two cells are folded in one step. What ends is delivered in the order in which the last cells came. What is not plain
//! is left to the blocks: a cell with CLP set, one that is not a user's, many ends, a scarcity of buffers; and 53-octet cells.

use super::block::BLOCK;
use super::{CLP, CONGESTION, END, Engine, Loop, NOT_USER, Record};
use crate::demux::{Entry, Place, VARIABLE};
use core::mem::MaybeUninit;

/// Cells of a window, at most: half of a cache of 32 KiB.
const WINDOW: usize = 256;
/// The longest period: fewer than three cells of a circuit are not worth a window.
const LONGEST: usize = WINDOW / 3;
/// Periods of a window, at most.
const ROWS: usize = 8;
/// For how many blocks no period is looked for when there was none, at first and at most.
const WAIT: [u32; 2] = [4, 64];

/// What is known of the order from before.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turns {
    /// The period, or zero.
    period: usize,
    /// For how many blocks none is looked for.
    wait: u32,
    /// For how many there was none the last time.
    waited: u32,
}

impl Turns {
    /// Whether a period is to be looked for.
    #[inline(always)]
    pub(super) fn may_be(&mut self) -> bool {
        let now = self.wait == 0;
        self.wait -= u32::from(!now);
        now
    }
}

/// The cells of one circuit in a window.
#[derive(Clone, Copy)]
pub(super) struct Column {
    entry: *mut Entry,
    /// Which bits are set in any of their first four octets.
    seen: u32,
}

/// A window's columns.
pub(super) type Columns = [MaybeUninit<Column>; LONGEST];

/// Some periods of cells.
#[derive(Clone, Copy)]
struct Shape {
    period: usize,
    rows: usize,
}

impl<const S: usize> Loop<'_, S> {
    /// Takes windows from where the call is, as long as there are any.
    ///
    /// # Safety
    /// As for the whole of [`super::demultiplex`].
    #[inline(always)]
    pub(in crate::kernel) unsafe fn take_columns<E: Engine>(&mut self) {
        if S == 53 {
            return;
        }
        // SAFETY: the caller's.
        unsafe {
            while let Some(period) = self.period() {
                let rows = (self.n - self.done.cells_used).min(WINDOW) / period;
                let shape = Shape { period, rows: rows.min(ROWS) };
                if !self.take_window::<E>(shape) {
                    self.no_period();
                    return;
                }
                self.circuits.turns.waited = 0;
            }
        }
    }

    /// The first four octets of a cell.
    #[inline(always)]
    unsafe fn head(&self, i: usize) -> u32 {
        // SAFETY: the caller's: `i` is below `n`.
        unsafe { self.input.add(i * S).cast::<u32>().read_unaligned() }
    }

    /// After how many cells the next one's circuit comes again, if there are three periods.
    #[inline(always)]
    unsafe fn period(&mut self) -> Option<usize> {
        let at = self.done.cells_used;
        let most = ((self.n - at) / 3).min(LONGEST);
        if most < 2 {
            return None;
        }
        let turns = &self.circuits.turns;
        let known = turns.period;
        // SAFETY: cells below `n`.
        unsafe {
            let first = self.head(at);
            let again = |i: usize| (self.head(at + i) ^ first) & !VARIABLE == 0;
            if known != 0 && known <= most && again(known) {
                return Some(known);
            }
            let ends = u64::from(first & self.head(at + 1)) & END != 0;
            if !ends
                && !again(1)
                && let Some(period) = (2..=most).find(|i| again(*i))
            {
                self.circuits.turns.period = period;
                return Some(period);
            }
        }
        // A remainder of a call tells nothing.
        if known > most {
            return None;
        }
        self.no_period();
        None
    }

    #[cold]
    fn no_period(&mut self) {
        let wait = (self.circuits.turns.waited * 2).clamp(WAIT[0], WAIT[1]);
        self.circuits.turns = Turns { period: 0, wait, waited: wait };
    }

    /// Takes a window, or nothing of it. Whether it did.
    #[inline(always)]
    unsafe fn take_window<E: Engine>(&mut self, shape: Shape) -> bool {
        // SAFETY: the window's cells are below `n`; as many columns are found as there are.
        unsafe {
            let Some(ends) = self.look_at_columns(shape) else { return false };
            let Shape { period, rows } = shape;
            if ends > BLOCK.min(self.out.len() - self.done.deliveries) || !self.circuits.free().has(period + ends) {
                self.forget(period);
                return false;
            }
            let at = self.done.cells_used;
            let (pool, apart) = (self.pool, period * S);
            let mut cell = self.input.add(at * S).wrapping_sub(S);
            for column in 0..period {
                cell = cell.wrapping_add(S);
                let Column { entry, seen } = self.columns.get_unchecked(column).assume_init();
                let place = (*entry).place.unmarked();
                if u64::from(seen) & END == 0 && place.room() >= rows {
                    let to = pool.add(place.octet());
                    let acc = E::column_in::<S>(E::enter_from(&raw const (*entry).state), cell, apart, rows, to);
                    let place = place.after(rows);
                    E::leave_to(acc, &raw mut (*entry).state);
                    (*entry).place = place;
                    self.counts.cells += rows as u64;
                } else {
                    (*entry).place = place;
                    self.take_column::<E>(cell, entry, column, Shape { period, rows });
                }
            }
            self.judge_window::<E>(at);
            self.done.cells_used = at + period * rows;
        }
        true
    }

    /// Compares the headers of a window's columns and finds their entries, which are marked. Gives how many cells end PDUs,
    /// or more; nothing, and none is marked, if the order is another, there is a cell that is not plain, or a circuit is in
    /// two columns.
    #[inline(always)]
    unsafe fn look_at_columns(&mut self, Shape { period, rows }: Shape) -> Option<usize> {
        const SAME: u32 = !((END | CONGESTION) as u32);
        let (table, unknown, apart) = (self.table, self.circuits.unknown(), period * S);
        let (mut any, mut difference, mut ends, mut twice) = (0, 0, 0, 0);
        // SAFETY: the caller's; entries of the table.
        unsafe {
            let mut cell = self.input.add(self.done.cells_used * S);
            for column in 0..period {
                let head = cell.cast::<u32>().read_unaligned();
                let (mut seen, mut sum, mut differs, mut row) = (head, head, 0, cell);
                for _ in 1..rows {
                    row = row.wrapping_add(apart);
                    let other = row.cast::<u32>().read_unaligned();
                    seen |= other;
                    sum = sum.wrapping_add(other);
                    differs |= other ^ head;
                }
                cell = cell.wrapping_add(S);
                any |= seen;
                difference |= differs;
                // Headers that differ in nothing else: what the ends add, and twice that for congestion.
                let added = sum.wrapping_sub((head & SAME).wrapping_mul(rows as u32));
                ends += (added >> END.trailing_zeros()) as usize;
                let entry = table.find(head).unwrap_or(unknown);
                let place = (*entry).place;
                twice |= usize::from(place.is_marked()) & usize::from(entry != unknown);
                (*entry).place = place.marked();
                self.columns.get_unchecked_mut(column).write(Column { entry, seen });
            }
            if (difference & SAME) as usize | twice != 0 || u64::from(any) & (CLP | NOT_USER) != 0 {
                self.forget(period);
                return None;
            }
        }
        Some(ends)
    }

    /// Marks are taken away.
    #[cold]
    unsafe fn forget(&mut self, period: usize) {
        for column in &self.columns[..period] {
            // SAFETY: as many have been found; entries of the table.
            unsafe {
                let entry = column.assume_init().entry;
                (*entry).place = (*entry).place.unmarked();
            }
        }
    }

    /// Takes a column where something begins or ends.
    #[inline(always)]
    unsafe fn take_column<E: Engine>(&mut self, first: *const u8, entry: *mut Entry, column: usize, shape: Shape) {
        let Shape { period, rows } = shape;
        let (pool, apart) = (self.pool, period * S);
        // SAFETY: the window's cells; there are buffers for all that can begin, and records for all that ends.
        unsafe {
            let mut row = 0;
            while row < rows {
                let cell = first.add(row * apart);
                let place = (*entry).place;
                let head = |row: usize| first.add(row * apart).cast::<u32>().read_unaligned();
                if !place.has_room() {
                    if place != Place::IDLE {
                        let end = u64::from(head(row)) & END != 0;
                        self.counts.cells += u64::from(self.circuits.pass_over(entry, end));
                        row += 1;
                        continue;
                    }
                    self.begin_at::<E>(entry);
                }
                let place = (*entry).place;
                // Up to the first end, as far as there is room.
                let most = place.room().min(rows - row);
                let mut run = 1;
                while run < most && u64::from(head(row + run - 1)) & END == 0 {
                    run += 1;
                }
                let end = u64::from(head(row + run - 1)) & END != 0;
                let to = pool.add(place.octet());
                let acc = E::column_in::<S>(E::enter_from(&raw const (*entry).state), cell, apart, run, to);
                let place = place.after(run);
                row += run;
                self.counts.cells += run as u64;
                if !end {
                    E::leave_to(acc, &raw mut (*entry).state);
                    (*entry).place = place;
                    continue;
                }
                let record = self.ended.get_unchecked_mut(self.waiting).as_mut_ptr();
                E::leave_to(acc, &raw mut (*record).state);
                (*record).place = place;
                (*record).entry = entry;
                (*record).last = (row - 1) * period + column;
                self.waiting += 1;
                (*entry).place = Place::IDLE;
            }
        }
    }

    /// Judges what has ended in a window that begins at `at`, in the order of last cells.
    #[inline(always)]
    unsafe fn judge_window<E: Engine>(&mut self, at: usize) {
        // SAFETY: the records below `waiting` are written, and their cells are below `n`.
        unsafe {
            let last = |record: &MaybeUninit<Record>| record.assume_init_ref().last;
            // A few, nearly in order.
            for i in 1..self.waiting {
                let record = self.ended[i];
                let mut at = i;
                while at > 0 && last(&self.ended[at - 1]) > last(&record) {
                    self.ended[at] = self.ended[at - 1];
                    at -= 1;
                }
                self.ended[at] = record;
            }
            let first = self.input.add(at * S);
            let mut judged = self.judging();
            for i in 0..self.waiting {
                let record = self.ended[i].as_ptr();
                let cell = first.add((*record).last * S);
                let congestion = u64::from(cell.cast::<u32>().read_unaligned()) & CONGESTION != 0;
                let remainder = E::remainder(E::enter_from(&raw const (*record).state));
                self.judge(record, remainder, cell, congestion, &mut judged);
            }
            self.judged(judged);
        }
    }
}
