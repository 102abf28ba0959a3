//! Cells of many circuits, each to its own PDU: the loop of [`crate::Demux`].
//!
//! Cells go through in blocks, in three steps. *Look*: the headers of a block, at once: where in the table the search
//! for each cell's circuit begins, and which cells need attention. *Take*: payloads to their buffers, and into their
//! circuits' CRC states. *Finish*: the PDUs that ended are judged. If the table is large, a block is looked at two
//! blocks ahead, so that lines of the table, and then those of the buffers, are there when they are needed.
//!
//! Before a block, runs of cells of one circuit, and circuits that take turns, are taken without a look ([`runs`],
//! [`columns`]), unless the table is large.
//!
//! Taking exists twice. Where most cells are in the middle of PDUs, a branch tells whether one is not; cells of one
//! circuit that follow each other go as one run. Where PDUs are short, nobody foretells whether a cell begins or ends
//! one: there, nothing branches on it.

mod block;
mod circuits;
mod columns;
mod delivery;
mod runs;
mod singles;
mod table;
mod turns;

use super::engine::{CLP, CONGESTION, END, Engine, Expect, NOT_USER, PAYLOAD, header, prefetch, with_hec};
use super::polynomial::GOOD;
pub(super) use block::Block;
use block::{BLOCK, first};
pub(crate) use circuits::{Circuits, FreeBuffers, lose};
use core::hint::select_unpredictable;
use core::mem::MaybeUninit;
use core::ops::Range;
pub use delivery::{Delivery, DemuxConfig, Progress, Reason};
use table::{Ended, Table};
pub(crate) use table::{Entry, FREE, PduPlace, Rest, head_of};
pub(crate) use turns::Turns;
use wire::Counters;

/// Blocks that are looked at before one is taken, if the table is large.
const AHEAD: usize = 2;

/// The last octet of a payload.
const LAST: usize = PAYLOAD - 1;
/// The same of a circuit's next payload, counted from where this one begins: that line is fetched when this one is
/// written.
const FURTHER: usize = PAYLOAD + LAST;

/// What takes part in a call.
pub(super) struct Loop<'a, const S: usize> {
    circuits: &'a mut Circuits,
    steps: Steps<S>,
    table: Table,
    input: *const u8,
    n: usize,
    pool: *mut u8,
    out: &'a mut [Delivery],
    done: Progress,
    counts: Counts,
    /// PDUs of a block that have ended and are not judged yet, and one that may not have.
    ended: [MaybeUninit<Record>; BLOCK + 1],
    waiting: usize,
}

/// What a kernel does of the loop, compiled with its features.
#[derive(Clone, Copy)]
pub(super) struct Steps<const S: usize> {
    pub(super) take_runs: unsafe fn(&mut Loop<'_, S>),
    pub(super) take_columns: unsafe fn(&mut Loop<'_, S>),
    pub(super) look: unsafe fn(&Loop<'_, S>, usize, &mut Block),
    pub(super) take_long: [Take<S>; 2],
    pub(super) take_short: [Take<S>; 2],
    pub(super) take_singles: [TakeSome<S>; 2],
    pub(super) finish: unsafe fn(&mut Loop<'_, S>, &Block),
}

/// Takes some cells of a block, and fetches what the next two need, which are given if the table is large.
type Take<const S: usize> = unsafe fn(&mut Loop<'_, S>, &Block, Range<usize>, Ahead<'_>);

/// The same; gives how many.
type TakeSome<const S: usize> = unsafe fn(&mut Loop<'_, S>, &Block, Range<usize>, Ahead<'_>) -> usize;

/// The next block, whose lines of the table have been fetched, and the one after it.
pub(super) type Ahead<'a> = [&'a Block; 2];

/// A PDU that has ended: its CRC state and place then, and its last cell, counted from the first of the block or
/// window, and its row in a window.
#[derive(Clone, Copy)]
struct Record {
    state: u128,
    place: PduPlace,
    entry: *mut Entry,
    last: u32,
    row: u32,
}

/// Takes cells until they are used up, `out` is full, or one is not of user data.
///
/// # Safety
/// The features of `steps`; `cells` gives `n` cells of `S` octets; `pool` has room for all buffers of `circuits`.
pub(super) unsafe fn demultiplex<const S: usize>(
    steps: Steps<S>,
    circuits: &mut Circuits,
    cells: *const u8,
    n: usize,
    pool: *mut u8,
    out: &mut [Delivery],
) -> Progress {
    let table = circuits.table();
    let mut l = Loop::<S> {
        circuits,
        steps,
        table,
        input: cells,
        n,
        pool,
        out,
        done: Progress { cells_used: 0, deliveries: 0, reason: Reason::Done },
        counts: Counts::default(),
        ended: [MaybeUninit::uninit(); BLOCK + 1],
        waiting: 0,
    };
    // SAFETY: the caller's.
    unsafe { l.run() };
    l.counts.add_to(&mut l.circuits.counters);
    l.done
}

// The safety conditions of all: the engine's features, and what the caller of `demultiplex` promises. Cells are read
// below `n`. Entries are those of the table, which has the lifetime of `circuits` and which no one moves meanwhile, or
// those of no circuit, which have no room; each is borrowed for one cell at a time. From an entry's place on there is
// room in the pool for the payloads that it says.
impl<const S: usize> Loop<'_, S> {
    unsafe fn run(&mut self) {
        // SAFETY: the caller's.
        unsafe { if self.table.is_large() { self.run_large() } else { self.run_small() } }
    }

    unsafe fn run_small(&mut self) {
        let mut block = Block::EMPTY;
        // SAFETY: the caller's.
        unsafe {
            loop {
                (self.steps.take_runs)(self);
                if self.circuits.turns.may_be() {
                    (self.steps.take_columns)(self);
                }
                if self.done.cells_used == self.n {
                    return;
                }
                (self.steps.look)(self, self.done.cells_used, &mut block);
                self.take_block::<false>(&block, [&block; 2]);
                if self.is_over(&block) {
                    return;
                }
            }
        }
    }

    unsafe fn run_large(&mut self) {
        let mut blocks = [const { Block::EMPTY }; AHEAD + 1];
        let (mut at, mut looked) = (0, 0);
        // SAFETY: the caller's.
        unsafe {
            for block in blocks.iter_mut().take(AHEAD) {
                self.look_ahead(block, &mut looked);
                block.homes.iter().for_each(|home| prefetch(self.table.entry(*home).cast()));
            }
            for i in 0..BLOCK {
                fetch_buffer(self.table, self.pool, &blocks[0], i);
            }
            loop {
                let (next, last) = ((at + 1) % (AHEAD + 1), (at + AHEAD) % (AHEAD + 1));
                self.look_ahead(&mut blocks[last], &mut looked);
                self.take_block::<true>(&blocks[at], [&blocks[next], &blocks[last]]);
                if self.is_over(&blocks[at]) {
                    return;
                }
                at = next;
            }
        }
    }

    /// Whether the call ends after this block.
    #[inline(always)]
    fn is_over(&mut self, block: &Block) -> bool {
        if self.done.cells_used < block.begin + block.cells {
            self.done.reason = Reason::Full;
        } else if block.stopped {
            self.done.reason = Reason::NotUser;
        } else {
            return self.done.cells_used == self.n;
        }
        true
    }

    /// Looks at a block that is not to be taken yet.
    #[inline(always)]
    unsafe fn look_ahead(&self, block: &mut Block, looked: &mut usize) {
        // SAFETY: the caller's.
        unsafe { (self.steps.look)(self, *looked, block) };
        *looked = if block.stopped { self.n } else { *looked + block.cells };
    }

    #[inline(never)]
    unsafe fn search(&mut self, block: &Block, i: usize) -> *mut Entry {
        if block.damaged >> i & 1 != 0 {
            return self.circuits.damaged();
        }
        // SAFETY: the caller's.
        let found = unsafe { self.table.find(block.heads[i]) };
        found.unwrap_or_else(|| self.circuits.unknown())
    }

    /// Takes a block's cells, or as many as `out` has places for what they complete.
    #[inline(always)]
    unsafe fn take_block<const LARGE: bool>(&mut self, block: &Block, ahead: Ahead<'_>) {
        let mut from = 0;
        loop {
            // As many cells as have a place in `out` for what they may complete.
            let mut to = block.cells;
            let room = self.out.len() - self.done.deliveries;
            let mut ends = if from < to { block.ends >> from << from & first(to) } else { 0 };
            if ends.count_ones() as usize > room {
                for _ in 0..room {
                    ends &= ends - 1;
                }
                to = ends.trailing_zeros() as usize;
            }
            let singles = ((block.ends >> from).trailing_ones() as usize).min(to - from);
            // SAFETY: the caller's; the cells are the block's.
            unsafe {
                if singles >= singles::LEAST {
                    let some = (self.steps.take_singles[usize::from(LARGE)])(self, block, from..from + singles, ahead);
                    if some > 0 {
                        from += some;
                        self.done.cells_used = block.begin + from;
                        if from < block.cells {
                            continue;
                        }
                        return;
                    }
                }
                if ends.count_ones() as usize * 4 > to - from {
                    (self.steps.take_short[usize::from(LARGE)])(self, block, from..to, ahead);
                } else {
                    (self.steps.take_long[usize::from(LARGE)])(self, block, from..to, ahead);
                }
                (self.steps.finish)(self, block);
            }
            self.done.cells_used = block.begin + to;
            if to == block.cells || self.out.len() == self.done.deliveries {
                return;
            }
            from = to;
        }
    }

    /// A cell of a block.
    #[inline(always)]
    fn cell(&self, block: &Block, i: usize) -> *const u8 {
        self.input.wrapping_add((block.begin + i) * S)
    }

    /// Takes cells whose PDUs are mostly long.
    #[inline(always)]
    pub(super) unsafe fn take_long<E: Engine, const LARGE: bool>(
        &mut self,
        block: &Block,
        cells: Range<usize>,
        ahead: Ahead<'_>,
    ) {
        let (mut i, to) = (cells.start, cells.end);
        let (pool, table, first) = (self.pool, self.table, self.cell(block, 0));
        // SAFETY: the caller's.
        unsafe {
            while i < to {
                // Up to the next cell that is to be looked at more closely.
                let quiet = ((block.events >> i).trailing_zeros() as usize).min(to - i);
                let next = i + quiet;
                self.counts.cells += quiet as u64;
                while i < next {
                    if LARGE {
                        fetch(table, pool, ahead, i);
                    }
                    let entry = block.find(i, table).unwrap_or_else(|| self.search(block, i));
                    if (*entry).place.has_room() || self.begin::<E>(block, entry, false) {
                        take_one::<E, S>(first.wrapping_add(i * S), entry, pool);
                    } else {
                        self.counts.cells -= 1;
                    }
                    i += 1;
                }
                if i == to {
                    break;
                }
                if LARGE {
                    fetch(table, pool, ahead, i);
                }
                let entry = block.find(i, table).unwrap_or_else(|| self.search(block, i));
                let head = block.heads[i];
                let end = u64::from(head) & END != 0;
                if !(*entry).place.has_room() && !self.begin::<E>(block, entry, end) {
                    i += 1;
                    continue;
                }
                (*entry).place = (*entry).place.or_clp(head);
                if end {
                    take_one::<E, S>(self.cell(block, i), entry, pool);
                    let place = (*entry).place;
                    let record = Record { state: (*entry).state, place, entry, last: i as u32, row: 0 };
                    self.ended.get_unchecked_mut(self.waiting).write(record);
                    self.waiting += 1;
                    (*entry).place = PduPlace::IDLE;
                    self.counts.cells += 1;
                    i += 1;
                    continue;
                }
                // As many cells of this PDU as follow each other, and fit.
                let place = (*entry).place;
                let run = (block.follow >> i).trailing_ones() as usize + 1;
                let run = run.min(place.room()).min(to - i);
                let cell = self.cell(block, i);
                let expect = Expect::new::<S>(header::<S>(cell));
                let mut seen = 0;
                let to_pool = pool.add(place.octet());
                let acc = E::enter_from(&raw const (*entry).state);
                // On the wire a damaged HEC ends the run; the cell is met again as the damaged one that it is.
                let (acc, run) = E::cells_in::<S>(acc, cell, run, expect, &mut seen, to_pool);
                let place = place.after(run);
                E::leave_to(acc, &raw mut (*entry).state);
                (*entry).place = place;
                self.counts.cells += run as u64;
                i += run;
            }
        }
    }

    /// Begins a PDU with a buffer, or drops. Whether there is room now.
    #[inline(always)]
    unsafe fn begin<E: Engine>(&mut self, block: &Block, entry: *mut Entry, end: bool) -> bool {
        // SAFETY: the caller's.
        unsafe {
            let free = (*entry).place == PduPlace::IDLE && self.circuits.free().has(1);
            if !free && !self.no_room(block, entry, end) {
                return false;
            }
            self.begin_at::<E>(entry);
        }
        true
    }

    /// Begins a PDU. There is a buffer.
    #[inline(always)]
    unsafe fn begin_at<E: Engine>(&mut self, entry: *mut Entry) {
        // SAFETY: the caller's.
        unsafe {
            (*entry).place = self.circuits.take_one();
            E::leave_to(E::enter_from(const { &E::START }), &raw mut (*entry).state);
        }
    }

    /// A cell has no room and finds no buffer: what has ended is judged, which may free one; or else the PDU is lost.
    /// Whether there is a buffer now.
    #[cold]
    #[inline(never)]
    unsafe fn no_room(&mut self, block: &Block, entry: *mut Entry, end: bool) -> bool {
        // SAFETY: the caller's.
        unsafe {
            if (*entry).place == PduPlace::IDLE && self.waiting > 0 {
                (self.steps.finish)(self, block);
                if self.circuits.free().top().has_room() {
                    return true;
                }
            }
            self.counts.cells += u64::from(self.circuits.pass_over(entry, end));
        }
        false
    }

    /// Takes cells whose PDUs are mostly short: whether one begins or ends a PDU is no branch.
    #[inline(always)]
    pub(super) unsafe fn take_short<E: Engine, const LARGE: bool>(
        &mut self,
        block: &Block,
        cells: Range<usize>,
        ahead: Ahead<'_>,
    ) {
        let (pool, table) = (self.pool, self.table);
        let mut free = self.circuits.free();
        let mut waiting = self.waiting;
        let mut taken = cells.len() as u64;
        let mut cell = self.cell(block, cells.start);
        // SAFETY: the caller's.
        unsafe {
            for i in cells {
                if LARGE {
                    fetch(table, pool, ahead, i);
                }
                let entry = block.find(i, table).unwrap_or_else(|| self.search(block, i));
                let head = *block.heads.get_unchecked(i);
                let end = u64::from(head) & END != 0;
                let before = (*entry).place;
                let idle = before == PduPlace::IDLE;
                let mut place = select_unpredictable(idle, free.top(), before);
                if !place.has_room() {
                    self.circuits.taken(free);
                    self.waiting = waiting;
                    let room = self.no_room(block, entry, end);
                    free = self.circuits.free();
                    waiting = self.waiting;
                    if !room {
                        taken -= 1;
                        cell = cell.wrapping_add(S);
                        continue;
                    }
                    place = free.top();
                }
                free.take(idle);
                prefetch(cell.wrapping_add(BLOCK * S));
                let to = pool.add(place.octet());
                let state = &raw mut (*entry).state;
                let from = select_unpredictable(idle, const { &E::START as *const u128 }, state.cast_const());
                let acc = E::cell_in::<S>(E::enter_from(from), cell, to, PAYLOAD);
                let place = place.after(1).or_clp(head);
                let record = self.ended.get_unchecked_mut(waiting).as_mut_ptr();
                E::leave_to(acc, state);
                E::leave_to(acc, &raw mut (*record).state);
                (*record).place = place;
                (*record).entry = entry;
                (*record).last = i as u32;
                waiting += usize::from(end);
                (*entry).place = select_unpredictable(end, PduPlace::IDLE, place);
                cell = cell.wrapping_add(S);
            }
        }
        self.circuits.taken(free);
        self.waiting = waiting;
        self.counts.cells += taken;
    }

    /// Judges the PDUs that have ended.
    #[inline(always)]
    pub(super) unsafe fn finish<E: Engine>(&mut self, block: &Block) {
        let (records, waiting) = (self.ended.as_ptr().cast(), self.waiting);
        self.waiting = 0;
        // SAFETY: the records below `waiting` are written; their cells are the block's.
        unsafe { self.judge_all::<E>(records, waiting, self.cell(block, 0), |i| i) };
    }

    /// Judges PDUs that have ended, in the given order of records, whose cells are counted from `first`.
    #[inline(always)]
    unsafe fn judge_all<E: Engine>(
        &mut self,
        records: *const Record,
        waiting: usize,
        first: *const u8,
        order: impl Fn(usize) -> usize,
    ) {
        let mut judged = self.judging();
        let mut i = 0;
        // SAFETY: the caller's: so many records. They are read field by field, as they were written.
        unsafe {
            while E::PAIRS && i + 1 < waiting {
                let (one, two) = (records.add(order(i)), records.add(order(i + 1)));
                let states = [E::enter_from(&raw const (*one).state), E::enter_from(&raw const (*two).state)];
                let remainders = E::remainders(states);
                self.judge(one, remainders[0], first, &mut judged);
                self.judge(two, remainders[1], first, &mut judged);
                i += 2;
            }
            while i < waiting {
                let record = records.add(order(i));
                let remainder = E::remainder(E::enter_from(&raw const (*record).state));
                self.judge(record, remainder, first, &mut judged);
                i += 1;
            }
            self.judged(judged);
        }
    }

    /// Judges a PDU that has ended with a cell that is counted from `first`. There is a place in `out` for it.
    #[inline(always)]
    unsafe fn judge(&mut self, record: *const Record, remainder: u32, first: *const u8, judged: &mut Judged) {
        // SAFETY: the caller's.
        unsafe {
            let cell = first.add((*record).last as usize * S);
            let ended = Ended {
                place: (*record).place,
                entry: (*record).entry,
                trailer: cell.add(S - 8).cast::<u64>().read_unaligned(),
                congestion: u64::from(cell.cast::<u32>().read_unaligned()) & CONGESTION != 0,
                good: remainder == GOOD,
            };
            if let Some(sdu_octets) = self.circuits.finish(ended, judged.to) {
                judged.octets += sdu_octets as u64;
                judged.to = judged.to.add(1);
            }
        }
    }

    /// Nothing of what has ended has been judged.
    #[inline(always)]
    fn judging(&mut self) -> Judged {
        Judged { to: self.out[self.done.deliveries..].as_mut_ptr(), octets: 0 }
    }

    /// All that had ended has been judged.
    #[inline(always)]
    unsafe fn judged(&mut self, judged: Judged) {
        // SAFETY: both are places of `out`, or the one behind its last.
        let deliveries = unsafe { judged.to.offset_from_unsigned(self.out.as_ptr()) };
        self.counts.octets += judged.octets;
        self.counts.pdus += (deliveries - self.done.deliveries) as u64;
        self.done.deliveries = deliveries;
    }
}

/// What has been delivered. A place and a sum: two sums would be kept in one vector, which is slow where each is used
/// alone.
struct Judged {
    /// Where the next delivery is described.
    to: *mut Delivery,
    octets: u64,
}

/// Fetches what the cells that come one and two blocks later need: the buffer of the one, the line of the table of the
/// other. One cell at a time, for a cache can wait for no more than a few dozen lines.
#[inline(always)]
unsafe fn fetch(table: Table, pool: *mut u8, [next, after]: Ahead<'_>, i: usize) {
    // SAFETY: a cell of a block; homes are entries of the table.
    unsafe {
        prefetch(table.entry(*after.homes.get_unchecked(i)).cast());
        fetch_buffer(table, pool, next, i);
    }
}

/// Fetches what the line of the table of a block's cell says is written next.
#[inline(always)]
unsafe fn fetch_buffer(table: Table, pool: *mut u8, block: &Block, i: usize) {
    // SAFETY: as above.
    let place = unsafe { (*table.entry(*block.homes.get_unchecked(i))).place };
    prefetch(pool.wrapping_add(place.octet()));
    prefetch(pool.wrapping_add(place.octet() + LAST));
}

/// Takes one payload, for which there is room.
#[inline(always)]
unsafe fn take_one<E: Engine, const S: usize>(cell: *const u8, entry: *mut Entry, pool: *mut u8) {
    // SAFETY: the caller's.
    unsafe {
        let place = (*entry).place;
        prefetch(pool.wrapping_add(place.octet() + FURTHER));
        prefetch(cell.wrapping_add(BLOCK * S));
        let to = pool.add(place.octet());
        let acc = E::cell_in::<S>(E::enter_from(&raw const (*entry).state), cell, to, PAYLOAD);
        E::leave_to(acc, &raw mut (*entry).state);
        (*entry).place = place.after(1);
    }
}

/// What is counted once a call.
#[derive(Default)]
struct Counts {
    cells: u64,
    pdus: u64,
    octets: u64,
}

impl Counts {
    fn add_to(&self, counters: &mut Counters) {
        counters.cells = counters.cells.wrapping_add(self.cells);
        counters.pdus = counters.pdus.wrapping_add(self.pdus);
        counters.octets = counters.octets.wrapping_add(self.octets);
    }
}
