//! The output side: whose turn it is, and how many cells a turn has.

use crate::circuit::{ends_pdu, flag};
use crate::forward::count_cells;
use crate::profile::Class;
use crate::{CellPlane, Switch};
use core::hint::select_unpredictable;
use wire::{Cell, Time};

/// Circuits that are looked at together: their lines, then their first cells, are fetched before the first has its
/// turn.
const BATCH: usize = 64;
/// Circuits between the fetch of a circuit's first cell and its turn.
const NEAR: usize = 8;

impl Switch {
    /// Takes cells that leave by `port`, as many as `out` has room for; returns how many.
    ///
    /// The switch's own cells go first (answers to OAM cells, ends of PDUs of removed circuits, AIS), then credits,
    /// then the classes by falling priority. Within a class circuits take turns, in the order in which they had to
    /// wait.
    pub fn poll_transmit(&mut self, port: u16, out: &mut [Cell], now: Time) -> usize {
        let at = usize::from(port);
        self.plane.release_due(now);
        let Some(state) = self.plane.ports.get_mut(at).filter(|state| state.up) else { return 0 };
        let mut n = 0;
        while n < out.len() {
            let Some(cell) = state.control.pop_front() else { break };
            out[n] = cell;
            n += 1;
        }
        if !state.indications.is_empty() {
            n += self.send_indications(port, &mut out[n..], now);
        }
        if !self.plane.ports[at].notices.is_empty() {
            let notices = self.plane.send_notices(at, &mut out[n..], now);
            self.plane.ports[at].count_made(notices);
            n += notices;
        }
        count_cells(&mut self.plane.ports[at].counters.sent, n as u64, 0);
        for class in Class::ALL {
            n += self.plane.serve_due(at, class as usize, &mut out[n..], now);
            n += self.plane.serve(at, class as usize, &mut out[n..], now);
        }
        n
    }
}

/// What turns of circuits without credits have changed at their port.
#[derive(Default)]
struct Tally {
    cells: usize,
    pdus: u64,
    /// Circuits with nothing left to send.
    done: u32,
}

impl CellPlane {
    /// Serves one class of a port; returns how many cells it gave.
    fn serve(&mut self, port: usize, class: usize, out: &mut [Cell], now: Time) -> usize {
        let mut sent = 0;
        let mut batch = [0; BATCH];
        while sent < out.len() {
            let turn = &self.ports[port].classes[class];
            // Each circuit sends a cell at least, so that no more can have their turn.
            let most = BATCH.min(out.len() - sent);
            let n = turn.queue.peek(&self.pool, &mut batch[..most]);
            if n == 0 {
                break;
            }
            let batch = &batch[..n];
            for id in batch {
                self.circuits.prefetch(*id as usize);
            }
            for id in &batch[..n.min(NEAR)] {
                self.store.prefetch(self.circuits[*id as usize].head);
            }
            let mut done = 0;
            while done < n && sent < out.len() {
                let (turns, cells) = self.take_plain_turns(port, class, batch, done, &mut out[sent..]);
                (done, sent) = (done + turns, sent + cells);
                if done == n || sent == out.len() {
                    break;
                }
                let (cells, over) = self.take_turn(port, class, batch[done], done, &mut out[sent..], now);
                sent += cells;
                if !over {
                    break;
                }
                done += 1;
            }
            self.ports[port].classes[class].queue.advance(&mut self.pool, done);
        }
        sent
    }

    /// The turns of `batch` from `done` on, up to the first that is not plain: of a circuit that has credits, has
    /// management cells, is gone, is alone, or has begun its turn before, or one that `out` cuts short. Returns how
    /// many turns and cells there were.
    fn take_plain_turns(
        &mut self,
        port: usize,
        class: usize,
        batch: &[u32],
        done: usize,
        out: &mut [Cell],
    ) -> (usize, usize) {
        let CellPlane { circuits, store, ports, pool, profiles, .. } = self;
        let state = &mut ports[port];
        let turn = &mut state.classes[class];
        let (mut tally, mut turns) = (Tally::default(), 0);
        if turn.left != 0 {
            return (0, 0);
        }
        let gone = turn.gone as usize;
        for (i, id) in batch.iter().enumerate().skip(done) {
            if let Some(later) = batch.get(i + NEAR) {
                store.prefetch(circuits[*later as usize].head);
            }
            let circuit = &mut circuits[*id as usize];
            let alone = turn.queue.len() - i - gone <= 1;
            // Without room even a circuit whose cells have all left by its schedule keeps its place.
            let full = tally.cells == out.len();
            let management = circuit.management != 0;
            if full | alone | management | (circuit.flags & (flag::LIVE | flag::CREDIT) != flag::LIVE) {
                break;
            }
            let mut n = usize::from(circuit.queued);
            if n > 1 {
                n = n.min(profiles.get(circuit.profile).weight.max(1).into());
            }
            let Some(slots) = out.get_mut(tally.cells..tally.cells + n) else { break };
            for slot in slots {
                let at = circuit.head;
                let (cell, next) = store.get(at);
                let word = cell.header_word();
                slot.copy_as(cell, word);
                circuit.head = next;
                tally.pdus += u64::from(ends_pdu(word));
                circuit.sent_part = select_unpredictable(word & 8 == 0, !ends_pdu(word), circuit.sent_part);
                store.free(at);
            }
            tally.cells += n;
            circuit.queued -= n as u16;
            if circuit.queued == 0 {
                circuit.flags &= !flag::LISTED;
                tally.done += 1;
            } else {
                turn.queue.push(pool, *id);
            }
            turns += 1;
        }
        state.ready -= tally.done;
        state.used -= tally.cells as u32;
        count_cells(&mut state.counters.sent, tally.cells as u64, tally.pdus);
        (turns, tally.cells)
    }

    /// One circuit's turn: cells given, and whether the turn is over. A turn that `out` cut short is not. `done`
    /// numbers before it in the queue have had theirs.
    #[inline]
    fn take_turn(
        &mut self,
        port: usize,
        class: usize,
        id: u32,
        done: usize,
        out: &mut [Cell],
        now: Time,
    ) -> (usize, bool) {
        let circuit = &mut self.circuits[id as usize];
        let state = &mut self.ports[port];
        let turn = &mut state.classes[class];
        let left = std::mem::take(&mut turn.left);
        if !circuit.is(flag::LIVE) {
            circuit.flags &= !flag::LISTED;
            turn.gone -= 1;
            self.free_line(id);
            return (0, true);
        }
        let alone = turn.queue.len() - done - turn.gone as usize == 1;
        let weight = match left {
            // Turns of a circuit that is alone follow each other.
            _ if alone => usize::MAX,
            0 => self.profiles.get(circuit.profile).weight.max(1).into(),
            left => left.into(),
        };
        let credit = circuit.is(flag::CREDIT).then(|| self.credits.get(circuit.side).sender.room());
        let able = usize::from(circuit.queued).min(credit.map_or(usize::MAX, |room| room as usize));
        let n = weight.min(able).min(out.len());
        let mut at = circuit.head;
        let (mut pdus, mut last, mut managed) = (0, circuit.sent_part, 0);
        for slot in &mut out[..n] {
            let (cell, next) = self.store.get(at);
            let word = cell.header_word();
            slot.copy_as(cell, word);
            pdus += u64::from(ends_pdu(word));
            if word & 8 == 0 {
                last = !ends_pdu(word);
            }
            if circuit.management != 0 && circuit.is_management(word) {
                state.management.leave(circuit);
                managed += 1;
            }
            self.store.free(at);
            at = next;
        }
        circuit.head = at;
        circuit.sent_part = last;
        circuit.queued -= n as u16;
        *(if credit.is_some() { &mut state.held } else { &mut state.used }) -= n as u32 - managed;
        count_cells(&mut state.counters.sent, n as u64, pdus);
        let over = if n == able {
            circuit.flags &= !flag::LISTED;
            state.ready -= 1;
            true
        } else if n == weight {
            turn.queue.push(&mut self.pool, id);
            true
        } else {
            // A turn of a circuit that was alone begins anew when it no longer is.
            turn.left = if alone { 0 } else { (weight - n) as u16 };
            false
        };
        if credit.is_some() {
            self.count_forwarded(id, n as u32, now);
        }
        (n, over)
    }
}
