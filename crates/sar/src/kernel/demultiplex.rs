//! Cells of many circuits, each to its own PDU: the loop of [`crate::Demux`].
//!
//! A circuit's place in the table is fetched into the cache some cells ahead, if the table is larger than the
//! nearer caches. What a cell in the middle of a PDU needs is in one line of the table, and two
//! comparisons tell that nothing else is to be looked at.

use super::engine::{CLP, CONGESTION, END, Engine, Expect, NOT_USER, PAYLOAD, header_mask, with_hec};
use super::polynomial::GOOD;
use crate::demux::{Circuits, Delivery, Progress, Reason};
use wire::{Counters, DropReason};

/// Cells between fetching a circuit's place and using it.
const AHEAD: usize = 16;

/// Takes cells until they are used up, `out` is full, or one is not of user data.
///
/// # Safety
/// The engine's features; `cells` gives `n` cells of `S` octets; `pool` has room for all buffers of `circuits`.
#[inline(always)]
pub(super) unsafe fn demultiplex<E: Engine, const S: usize>(
    circuits: &mut Circuits,
    cells: *const u8,
    n: usize,
    pool: *mut u8,
    out: &mut [Delivery],
) -> Progress {
    /// Any of these makes a cell one to be looked at closely.
    const SPECIAL: u64 = NOT_USER | END | CONGESTION | CLP;
    let mut done = Progress { cells_used: 0, deliveries: 0, reason: Reason::Done };
    let mut counts = Counts::default();
    let table = circuits.table();
    // SAFETY: cells are read below `n`. `home` and `find` give entries of the table, which has the lifetime of
    // `circuits`, and which no one moves meanwhile; each is borrowed for one cell at a time. From `at` to `end` of an
    // entry there is room for whole payloads in the pool.
    unsafe {
        let head_of = |i: usize| cells.add(i * S).cast::<u64>().read_unaligned() & header_mask::<S>();
        while done.cells_used < n {
            let i = done.cells_used;
            if table.is_large() && i + AHEAD < n {
                // Further ahead the entry, nearer the place that it says its payload goes to.
                prefetch(table.home(head_of(i + AHEAD) as u32).cast());
                let nearer = table.home(head_of(i + AHEAD / 2) as u32);
                prefetch(pool.wrapping_add((*nearer).at as usize));
            }
            let (cell, head) = (cells.add(i * S), head_of(i));
            let home = table.home(head as u32);
            let follows = i + 1 < n && head_of(i + 1) == head;
            if S == 64 && head & SPECIAL == 0 && !follows {
                let entry = &mut *home;
                if entry.head == head as u32 && entry.at != entry.end {
                    let to = pool.add(entry.at as usize);
                    entry.state = E::leave(E::cell_in::<S>(E::enter(entry.state), cell, to, PAYLOAD));
                    entry.at += PAYLOAD as u64;
                    counts.cells += 1;
                    done.cells_used += 1;
                    continue;
                }
            }
            if S == 53 && head != with_hec::<S>(head as u32) {
                circuits.counters.drop_one(DropReason::HeaderError);
                done.cells_used += 1;
                continue;
            }
            if head & NOT_USER != 0 {
                done.reason = Reason::NotUser;
                break;
            }
            if head & END != 0 && done.deliveries == out.len() {
                done.reason = Reason::Full;
                break;
            }
            done.cells_used += 1;
            let Some(entry) = table.find(home, head as u32) else {
                circuits.counters.drop_one(DropReason::UnknownCircuit);
                continue;
            };
            let entry = &mut *entry;
            counts.cells += 1;
            if entry.at == entry.end && !circuits.make_room(entry, E::START) {
                if head & END != 0 {
                    entry.reset();
                }
                continue;
            }
            entry.clp |= head & CLP != 0;
            let to = pool.add(entry.at as usize);
            let acc = E::enter(entry.state);
            if head & END != 0 {
                let good = E::last_in::<S>(acc, cell, to, PAYLOAD) == GOOD;
                entry.at += PAYLOAD as u64;
                let trailer = cell.add(S - 8).cast::<u64>().read_unaligned();
                if let Some(delivery) = circuits.finish(entry, trailer, head & CONGESTION != 0, good) {
                    counts.pdus += 1;
                    counts.octets += delivery.sdu_octets as u64;
                    *out.get_unchecked_mut(done.deliveries) = delivery;
                    done.deliveries += 1;
                }
                continue;
            }
            // As many cells of this PDU as follow each other, and fit.
            let most = ((entry.end - entry.at) as usize / PAYLOAD).min(n - i);
            let mut seen = 0;
            let (acc, run) = E::cells_in::<S>(acc, cell, most, Expect::new::<S>(head), &mut seen, to);
            entry.state = E::leave(acc);
            entry.at += (run * PAYLOAD) as u64;
            entry.clp |= seen & CLP != 0;
            counts.cells += run as u64 - 1;
            done.cells_used += run - 1;
        }
    }
    counts.add_to(&mut circuits.counters);
    done
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

#[inline(always)]
fn prefetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect but on the cache, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
