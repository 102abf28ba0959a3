//! Cells of many circuits, each to its own PDU: the loop of [`crate::Demux`].

use super::engine::{CLP, CONGESTION, END, Engine, Expect, NOT_USER, PAYLOAD, header_mask, with_hec};
use super::polynomial::GOOD;
use crate::demux::{Circuits, Delivery, Progress, Reason};
use wire::DropReason;

/// How many cells ahead of its use a circuit's state is fetched into the cache.
const AHEAD: usize = 12;

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
    let mut progress = Progress { cells_used: 0, deliveries: 0, reason: Reason::Done };
    // SAFETY: cells are read below `n`; an entry's buffer is one of the pool's and `octets` whole payloads, at most
    // `longest`, fit in it.
    unsafe {
        let head_of = |i: usize| cells.add(i * S).cast::<u64>().read_unaligned() & header_mask::<S>();
        let key_of = |head: u64| (head as u32).swap_bytes() >> 4;
        let mut user_cells = 0;
        while progress.cells_used < n {
            let i = progress.cells_used;
            let head = head_of(i);
            if i + AHEAD < n {
                circuits.prefetch(key_of(head_of(i + AHEAD)));
            }
            if S == 53 && head != with_hec::<S>(head as u32) {
                circuits.counters.drop_one(DropReason::HeaderError);
                progress.cells_used += 1;
                continue;
            }
            if head & NOT_USER != 0 {
                progress.reason = Reason::NotUser;
                break;
            }
            if head & END != 0 && progress.deliveries == out.len() {
                progress.reason = Reason::Full;
                break;
            }
            progress.cells_used += 1;
            let Some(at) = circuits.find(key_of(head)) else {
                circuits.counters.drop_one(DropReason::UnknownCircuit);
                continue;
            };
            user_cells += 1;
            let entry = circuits.entry(at);
            if entry.octets == 0 && entry.lost.is_none() {
                circuits.begin(at, E::START);
            }
            let entry = circuits.entry(at);
            if entry.octets as usize + PAYLOAD > entry.longest as usize {
                circuits.lose(at, DropReason::Oversize);
            }
            let stride = circuits.stride;
            let entry = circuits.entry(at);
            if entry.lost.is_some() {
                if head & END != 0 {
                    entry.reset();
                }
                continue;
            }
            let cell = cells.add(i * S);
            let to = pool.add(entry.buffer as usize * stride + entry.octets as usize);
            if head & END == 0 && i + 1 < n && head_of(i + 1) == head {
                // More than one cell of this PDU in a row: as many as there are, and fit, at once.
                let most = ((entry.longest - entry.octets) as usize / PAYLOAD).min(n - i);
                let mut seen = 0;
                let (acc, run) =
                    E::cells_in::<S>(E::enter(entry.state), cell, most, Expect::new::<S>(head), &mut seen, to);
                entry.state = E::leave(acc);
                entry.octets += (run * PAYLOAD) as u32;
                entry.clp |= (head | seen) & CLP != 0;
                progress.cells_used += run - 1;
                user_cells += run as u64 - 1;
                continue;
            }
            let acc = E::cell_in::<S>(E::enter(entry.state), cell, to, PAYLOAD);
            entry.octets += PAYLOAD as u32;
            entry.clp |= head & CLP != 0;
            if head & END == 0 {
                entry.state = E::leave(acc);
                continue;
            }
            let trailer = cell.add(S - 8).cast::<u64>().read_unaligned();
            let good = E::remainder(acc) == GOOD;
            if let Some(delivery) = circuits.finish(at, trailer, head & CONGESTION != 0, good) {
                *out.get_unchecked_mut(progress.deliveries) = delivery;
                progress.deliveries += 1;
            }
        }
        circuits.counters.cells = circuits.counters.cells.wrapping_add(user_cells);
    }
    progress
}
