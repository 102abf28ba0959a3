//! Circuits that take turns, a cell each, always in the same order: cells of one circuit stand a period apart. A window
//! of some periods is taken circuit by circuit, so that a circuit's entry is read and written once, its CRC state stays
//! in a register, and two cells are folded in one step. The order is learned once: from then on a circuit is not looked
//! up, the headers that it foretells are compared as cells are taken. If one differs, all that the window did is undone
//! and left to the blocks: only entries have to be put back, for no octet of a buffer counts before its cell is
//! counted. What ends is delivered in the order in which the last cells came.

use super::circuits::Free;
use super::table::{Entry, PduPlace};
use super::turns::{Column, ROWS, Shape};
use super::{CLP, CONGESTION, END, Engine, Loop, PAYLOAD, Record, header, prefetch, with_hec};
use core::hint::select_unpredictable;
use core::ops::Range;

/// PDUs of fewer cells go through blocks faster.
const SHORT: usize = 6;
/// From which period on the lines that columns need are not in the nearest cache, and are fetched ahead: so many
/// columns before an entry is read, and a buffer written.
const FAR: usize = 128;
const ENTRIES_AHEAD: usize = 8;
const BUFFERS_AHEAD: usize = 3;
const LINE: usize = 64;

/// How far a window is.
struct Walk<A> {
    /// Of the circuit whose column it is.
    acc: A,
    place: PduPlace,
    free: Free,
    /// PDUs that have ended, and how many may.
    ended: usize,
    may_end: usize,
}

/// A cell of a window.
#[derive(Clone, Copy)]
struct Met {
    cell: *const u8,
    /// Its header, if it neither ends a PDU nor is marked.
    expected: u64,
    entry: *mut Entry,
    row: usize,
    /// How many cells of the window come before it.
    at: usize,
}

impl<const S: usize> Loop<'_, S> {
    /// Takes windows from where the call is, as long as there are any.
    ///
    /// # Safety
    /// As for the whole of [`super::demultiplex`].
    #[inline(always)]
    pub(in crate::kernel) unsafe fn take_columns<E: Engine>(&mut self) {
        // SAFETY: the caller's.
        unsafe {
            while let Some(shape) = self.shape() {
                let ended = match self.take_window::<E>(shape) {
                    Ok(ended) => ended,
                    Err(turns) => return self.undo(shape, turns),
                };
                let another = ended * SHORT <= shape.cells();
                self.circuits.turns.taken(shape.at(shape.rest), another);
                if !another {
                    return self.no_window(0);
                }
            }
        }
    }

    /// Puts back what some columns had changed.
    #[cold]
    #[inline(never)]
    unsafe fn undo(&mut self, shape: Shape, turns: usize) {
        let known = &self.circuits.turns;
        for (turn, before) in known.before[..turns].iter().enumerate() {
            let entry = self.table.entry(known.columns[shape.at(turn)].home);
            // SAFETY: an entry of the table.
            unsafe {
                (*entry).state = before.state;
                (*entry).place = before.place;
            }
        }
        self.circuits.turns.forget();
        self.no_window(turns * (shape.rows + 1));
    }

    /// Takes a window and gives how many PDUs have ended, or how many columns are to be put back.
    #[inline(always)]
    unsafe fn take_window<E: Engine>(&mut self, shape: Shape) -> Result<usize, usize> {
        let may_end = self.circuits.turns.order.len().min(self.out.len() - self.done.deliveries);
        // SAFETY: the window's cells are below `n`.
        unsafe {
            let free = self.circuits.free();
            let mut walk = Walk { acc: E::enter(E::START), place: PduPlace::IDLE, free, ended: 0, may_end };
            let mut turn = 0;
            while turn < shape.period {
                // Columns of the same size that stand next to each other.
                let (rows, end) = match shape.rest {
                    rest if turn < rest => (shape.rows + 1, rest),
                    _ => (shape.rows, shape.period),
                };
                let end = end.min(turn + shape.period - shape.at(turn));
                self.take_some::<E>(&mut walk, shape, turn..end, rows)?;
                turn = end;
            }
            self.circuits.taken(walk.free);
            self.counts.cells += shape.cells() as u64;
            self.judge_window::<E>(walk.ended, shape.rows + 1);
            self.done.cells_used += shape.cells();
            Ok(walk.ended)
        }
    }

    /// Takes some columns of `rows` cells each, or gives how many are to be put back.
    #[inline(always)]
    unsafe fn take_some<E: Engine>(
        &mut self,
        walk: &mut Walk<E::Acc>,
        shape: Shape,
        turns: Range<usize>,
        rows: usize,
    ) -> Result<(), usize> {
        let (pool, table, period) = (self.pool, self.table, shape.period);
        let apart = period * S;
        let far = period >= FAR;
        // SAFETY: the caller's: turns of the window, none of which is beyond the period's last column. Places are kept
        // to room for what is taken.
        unsafe {
            let known = &mut self.circuits.turns;
            let mut column = known.columns.as_ptr().add(shape.at(turns.start));
            let last = known.columns.as_ptr().add(period - 1);
            let mut before = known.before.as_mut_ptr().add(turns.start);
            let mut top = self.input.add((self.done.cells_used + turns.start) * S);
            for turn in turns {
                if far {
                    let entry = |column: *const Column| table.entry((*column.min(last)).home);
                    prefetch(entry(column.wrapping_add(ENTRIES_AHEAD)).cast());
                    let to = pool.wrapping_add((*entry(column.wrapping_add(BUFFERS_AHEAD))).place.octet());
                    prefetch(to);
                    (1..=3).for_each(|i| prefetch(to.wrapping_add(i * LINE - 1)));
                    if rows > 4 {
                        (4..=6).for_each(|i| prefetch(to.wrapping_add(i * LINE - 1)));
                    }
                }
                let expected = (*column).header::<S>();
                let entry = table.entry((*column).home);
                walk.acc = E::enter_from(&raw const (*entry).state);
                walk.place = (*entry).place;
                E::leave_to(walk.acc, &raw mut (*before).state);
                (*before).place = walk.place;
                let (mut cell, mut row) = (top, 0);
                while row < rows {
                    let second = cell.wrapping_add(apart);
                    if row + 1 == rows {
                        if header::<S>(cell) == expected && walk.place.has_room() {
                            walk.acc = E::cell_in::<S>(walk.acc, cell, pool.add(walk.place.octet()), PAYLOAD);
                            walk.place = walk.place.after(1);
                            break;
                        }
                    } else if header::<S>(cell) ^ expected | header::<S>(second) ^ expected == 0
                        && walk.place.room() >= 2
                    {
                        let to = pool.add(walk.place.octet());
                        walk.acc = E::column_in::<S>(walk.acc, cell, apart, 2, to);
                        walk.place = walk.place.after(2);
                        row += 2;
                        cell = second.wrapping_add(apart);
                        continue;
                    }
                    for _ in 0..(rows - row).min(2) {
                        let met = Met { cell, expected, entry, row, at: row * period + turn };
                        if !self.take_closely::<E>(walk, met) {
                            return Err(turn + 1);
                        }
                        row += 1;
                        cell = cell.wrapping_add(apart);
                    }
                    begin::<E>(walk, row < rows);
                }
                E::leave_to(walk.acc, &raw mut (*entry).state);
                (*entry).place = walk.place;
                column = column.wrapping_add(1);
                before = before.wrapping_add(1);
                top = top.wrapping_add(S);
            }
        }
        Ok(())
    }

    /// Takes a cell that may begin or end a PDU: whether it does is no branch. False if it is not plain: of another
    /// header, or there is no buffer, no room, or no place for what ends.
    #[inline(always)]
    unsafe fn take_closely<E: Engine>(&mut self, walk: &mut Walk<E::Acc>, met: Met) -> bool {
        let Met { cell, expected, entry, row, at } = met;
        // SAFETY: the caller's; there is a record more than may end.
        unsafe {
            let head = header::<S>(cell);
            let differs = (head ^ expected) as u32;
            let allowed = (END | CONGESTION | CLP) as u32;
            if differs & !allowed != 0 || (S == 53 && head != with_hec::<S>(head as u32)) {
                return false;
            }
            let end = u64::from(head as u32) & END != 0;
            begin::<E>(walk, true);
            if !walk.place.has_room() {
                if walk.place == PduPlace::IDLE || walk.place.is_in_pdu() {
                    return false;
                }
                // The PDU is lost: its cells are passed over.
                walk.place = select_unpredictable(end, PduPlace::IDLE, walk.place);
                return true;
            }
            walk.acc = E::cell_in::<S>(walk.acc, cell, self.pool.add(walk.place.octet()), PAYLOAD);
            walk.place = walk.place.after(1).or_clp(head as u32);
            let record = self.circuits.turns.records.get_unchecked_mut(walk.ended).as_mut_ptr();
            E::leave_to(walk.acc, &raw mut (*record).state);
            (*record).place = walk.place;
            (*record).entry = entry;
            (*record).last = at as u32;
            (*record).row = row as u32;
            walk.ended += usize::from(end);
            walk.place = select_unpredictable(end, PduPlace::IDLE, walk.place);
            walk.ended <= walk.may_end
        }
    }

    /// Judges what has ended in a window, in the order of last cells: row by row, for within a row they are in order.
    #[inline(always)]
    unsafe fn judge_window<E: Engine>(&mut self, ended: usize, rows: usize) {
        let mut next = [0u16; ROWS + 2];
        // SAFETY: the records below `ended` are written, and `order` has as many places; a window has at most `ROWS`
        // rows and the beginning of one more.
        unsafe {
            let records: *const Record = self.circuits.turns.records.as_ptr().cast();
            let order = self.circuits.turns.order.as_mut_ptr();
            let row = |i: usize| (*records.add(i)).row as usize;
            for i in 0..ended {
                *next.get_unchecked_mut(row(i) + 1) += 1;
            }
            for row in 0..rows {
                next[row + 1] += next[row];
            }
            for i in 0..ended {
                let place = next.get_unchecked_mut(row(i));
                *order.add(usize::from(*place)) = i as u16;
                *place += 1;
            }
            let first = self.input.add(self.done.cells_used * S);
            self.judge_all::<E>(records, ended, first, |i| usize::from(*order.add(i)));
        }
    }
}

/// Begins a PDU if none is on its way, it `is` to be begun, and there is a buffer.
///
/// # Safety
/// The engine's features.
#[inline(always)]
unsafe fn begin<E: Engine>(walk: &mut Walk<E::Acc>, is: bool) {
    let idle = (walk.place == PduPlace::IDLE) & is & walk.free.has(1);
    walk.place = select_unpredictable(idle, walk.free.top(), walk.place);
    walk.free.take(idle);
    let mut state = 0;
    // SAFETY: two states.
    unsafe {
        E::leave_to(walk.acc, &raw mut state);
        walk.acc = E::enter_from(select_unpredictable(idle, const { &E::START as *const u128 }, &raw const state));
    }
}
