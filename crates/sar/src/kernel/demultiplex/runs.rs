//! Cells of one circuit that follow each other, up to the end of their PDU, without a look at a block first: the kernel
//! compares their headers on its way. What is not plain is left to the blocks: a cell with CLP set, an unknown circuit,
//! no buffer, no room, too few cells in a row.

use super::table::{Ended, PduPlace};
use super::{CLP, CONGESTION, END, Engine, Expect, GOOD, Loop, NOT_USER, PAYLOAD, header, with_hec};

/// Fewer cells in a row are not worth it.
const LEAST: usize = 4;

impl<const S: usize> Loop<'_, S> {
    /// Takes runs from where the call is, as long as there are any.
    ///
    /// # Safety
    /// As for the whole of [`super::demultiplex`].
    #[inline(always)]
    pub(in crate::kernel) unsafe fn take_runs<E: Engine>(&mut self) {
        let mut at = self.done.cells_used;
        // SAFETY: the caller's; cells below `n`; as in `take_long` for entries and places.
        unsafe {
            while at + LEAST <= self.n && self.done.deliveries < self.out.len() {
                let cell = self.input.add(at * S);
                let head = header::<S>(cell);
                let plain = head & (END | CLP | NOT_USER) == 0 && (S != 53 || head == with_hec::<S>(head as u32));
                if !plain || head != header::<S>(cell.add(S)) || head != header::<S>(cell.add((LEAST - 1) * S)) {
                    break;
                }
                let Some(entry) = self.table.find(head as u32) else { break };
                let mut from = &raw const (*entry).state;
                if !(*entry).place.has_room() {
                    let mut free = self.circuits.free();
                    if (*entry).place != PduPlace::IDLE || !free.top().has_room() {
                        break;
                    }
                    (*entry).place = free.top();
                    from = const { &E::START };
                    free.take(true);
                    self.circuits.taken(free);
                }
                let place = (*entry).place;
                let most = place.room().min(self.n - at);
                let mut seen = 0;
                let to = self.pool.add(place.octet());
                let (acc, run) =
                    E::cells_in::<S>(E::enter_from(from), cell, most, Expect::new::<S>(head), &mut seen, to);
                let place = place.after(run).or_clp(seen as u32);
                at += run;
                self.counts.cells += run as u64;
                let last = if at < self.n && place.has_room() { header::<S>(self.input.add(at * S)) } else { head };
                let differs = (last ^ head) as u32 & !((CLP | CONGESTION) as u32);
                if differs != END as u32 || (S == 53 && last != with_hec::<S>(last as u32)) {
                    E::leave_to(acc, &raw mut (*entry).state);
                    (*entry).place = place;
                    continue;
                }
                let cell = self.input.add(at * S);
                let acc = E::cell_in::<S>(acc, cell, self.pool.add(place.octet()), PAYLOAD);
                at += 1;
                self.counts.cells += 1;
                (*entry).place = PduPlace::IDLE;
                let ended = Ended {
                    place: place.after(1).or_clp(last as u32),
                    entry,
                    trailer: cell.add(S - 8).cast::<u64>().read_unaligned(),
                    congestion: last & CONGESTION != 0,
                    good: E::remainder(acc) == GOOD,
                };
                let to = self.out.as_mut_ptr().add(self.done.deliveries);
                if let Some(sdu_octets) = self.circuits.finish(ended, to) {
                    self.counts.octets += sdu_octets as u64;
                    self.counts.pdus += 1;
                    self.done.deliveries += 1;
                }
            }
        }
        self.done.cells_used = at;
    }
}
