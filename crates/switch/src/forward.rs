//! The input side: cells find their circuits, are policed, accepted or dropped.
//!
//! Look-ups run ahead of the work ([`crate::lookup_pipeline`]). Neighbouring cells of one circuit are handled as a run, and a
//! long run ([`crate::run`]) is looked up once.

use crate::arrival::FrameSoFar;
use crate::circuit::{Circuit, Frame, ends_pdu, flag};
use crate::lookup_pipeline::{SPECIAL, WINDOW};
use crate::oam::{self, Fate};
use crate::port::Port;
use crate::profile::Profile;
use crate::{CellPlane, Outputs, Switch, run};
use wire::{Cell, Counters, DropReason, Time, Vci, credit};

/// An epoch of kept room is 2^28 nanoseconds, about a quarter of a second.
const EPOCH_BITS: u32 = 28;

/// What becomes of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Accepted,
    Dropped(DropReason),
    /// Not for this leaf, and nothing of its own.
    Ignored,
}

impl Switch {
    /// Takes cells that came in at `port`. All of them are done with when this returns: sent to `outputs`, queued, or
    /// dropped and counted.
    pub fn handle_cells(&mut self, port: u16, cells: &[Cell], now: Time, outputs: &mut impl Outputs) {
        let input = usize::from(port);
        let Some(state) = self.plane.ports.get_mut(input) else { return };
        state.counters.received.cells = state.counters.received.cells.wrapping_add(cells.len() as u64);
        self.plane.turn_epoch(now);
        self.plane.begin_batch(input, cells, now);
        self.plane.batch.frame = self.framed.then(FrameSoFar::default);
        let contracts = !self.plane.contracts.is_empty();
        let mut rest = cells;
        while let Some(first) = rest.first() {
            let run = run::leading(&rest[..rest.len().min(run::AT_ONCE)]);
            if run >= run::LONG {
                let (run, after) = rest.split_at(run);
                self.handle_run(input, first.header_word(), run, now, outputs);
                rest = after;
                continue;
            }
            let (mixed, after) = rest.split_at(run::before_long(rest));
            self.by_windows(input, mixed, contracts, |switch, at, _, found| {
                switch.handle_window(port, &mixed[at..], found, now, outputs);
            });
            rest = after;
        }
    }

    /// User cells of one label: looked up once.
    fn handle_run(&mut self, input: usize, word: u32, cells: &[Cell], now: Time, outputs: &mut impl Outputs) {
        match self.index.find(input, word) {
            0 => {
                let n = cells.len() as u64;
                self.plane.ports[input].counters.received.drop_n(DropReason::UnknownCircuit, n);
            }
            id => self.plane.forward(id, cells, now, outputs),
        }
    }

    #[inline(always)]
    fn handle_window(&mut self, port: u16, cells: &[Cell], found: &[u32], now: Time, outputs: &mut impl Outputs) {
        let mut at = 0;
        while let (Some(cell), Some(id)) = (cells.get(at), found.get(at)) {
            let mut end = at + 1;
            if found.get(end) != Some(id) && self.plane.take_single(*id, cell, outputs) {
                at = end;
                continue;
            }
            match *id {
                SPECIAL => self.special(port, cell, now, outputs),
                0 => self.plane.ports[usize::from(port)].counters.received.drop_one(DropReason::UnknownCircuit),
                id => {
                    while found.get(end) == Some(&id) {
                        end += 1;
                    }
                    self.plane.forward(id, &cells[at..end], now, outputs);
                }
            }
            at = end;
        }
    }

    /// OAM and other cells that are no user data.
    fn special(&mut self, port: u16, cell: &Cell, now: Time, outputs: &mut impl Outputs) {
        let input = usize::from(port);
        let word = cell.header_word();
        if credit::is_credit(word) && self.plane.ports[input].credit {
            let outcome = self.handle_credit_cell(port, cell, now);
            self.plane.ports[input].count_ended(outcome);
            return;
        }
        let (vpi, header) = (word >> 20, cell.header());
        // F4 flows belong to the path, not to a channel in it.
        let of_path = matches!(header.circuit.vci, Vci::F4_SEGMENT | Vci::F4_END_TO_END);
        let id = match of_path {
            true => self.index.path(input, vpi),
            false => self.index.find(input, word),
        };
        let path_ends_here = of_path && id == 0 && self.index.has_channels(input, vpi);
        let received = &mut self.plane.ports[input].counters.received;
        if id == 0 && !path_ends_here {
            received.drop_one(DropReason::UnknownCircuit);
            return;
        }
        if path_ends_here
            && let Ok(function) = wire::oam::Function::parse(&cell.payload)
            && !matches!(function, wire::oam::Function::Loopback(_))
        {
            let outcome = self.handle_path_cell(port, cell, &function, now);
            self.plane.ports[input].count_ended(outcome);
            return;
        }
        let is_path = self.plane.circuits[id as usize].is(flag::PATH);
        let mut indicated = None;
        let (reply, passes) = match oam::fate(cell, is_path, path_ends_here, self.location) {
            Fate::Passes => (None, true),
            Fate::PassesAnswered(reply) => (Some(reply), true),
            Fate::Answered(reply) => (Some(reply), false),
            Fate::Indicated(on, back) => {
                indicated = Some(on);
                (Some(back), true)
            }
            Fate::Ends(reason) => return self.end_special(port, id, Err(reason)),
        };
        if let Some(reply) = reply {
            self.reply(port, reply, now);
        }
        if !passes {
            return self.end_special(port, id, Ok(()));
        }
        let cell = indicated.as_ref().unwrap_or(cell);
        self.plane.forward(id, std::slice::from_ref(cell), now, outputs);
    }

    /// A cell of circuit `id`, 0 for none, has ended here.
    fn end_special(&mut self, port: u16, id: u32, outcome: Result<(), DropReason>) {
        if self.plane.circuits[id as usize].is(flag::CREDIT) {
            self.plane.return_credit(id);
        }
        self.plane.ports[usize::from(port)].count_ended(outcome);
    }
}

impl CellPlane {
    pub(crate) fn turn_epoch(&mut self, now: Time) {
        let epoch = now.as_nanos() >> EPOCH_BITS;
        let steps = epoch.wrapping_sub(self.epoch);
        if steps != 0 {
            self.epoch = epoch;
            // A port whose link has never been up holds no room.
            for port in &self.used_ports {
                self.ports[usize::from(*port)].turn_epoch(steps);
            }
        }
    }

    /// Takes a run of cells of one circuit: all user data, or one cell that is not.
    #[inline]
    fn forward(&mut self, id: u32, cells: &[Cell], now: Time, outputs: &mut impl Outputs) {
        let circuit = &mut self.circuits[id as usize];
        circuit.received = circuit.received.wrapping_add(cells.len() as u64);
        if circuit.flags & (flag::POLICED | flag::CREDIT | flag::ROOT) == 0 {
            self.admit(id, cells, 0, outputs);
        } else if circuit.is(flag::POLICED) {
            self.police(id, cells, now, outputs);
        } else {
            self.branch(id, cells, 0, now, outputs);
        }
    }

    /// Hands a run to its circuit, or to all leaves of a root. `tag` is the CLP bit to be set.
    pub(crate) fn branch(&mut self, id: u32, cells: &[Cell], tag: u32, now: Time, outputs: &mut impl Outputs) {
        let circuit = &mut self.circuits[id as usize];
        if circuit.is(flag::CREDIT) {
            self.accept_with_credit(id, cells, tag, now, outputs);
        } else if circuit.is(flag::ROOT) {
            if let Some(last) = cells.iter().rev().map(Cell::header_word).find(|word| word & 8 == 0) {
                circuit.frame = if ends_pdu(last) { Frame::Between } else { Frame::Accepted };
            }
            let root = circuit.side as usize;
            if circuit.sent_part && cells.len() > 1 {
                // The leaves' cells alternate where they meet.
                for cell in cells {
                    self.branch(id, std::slice::from_ref(cell), tag, now, outputs);
                }
                return;
            }
            self.count_copies(root, cells.len());
            for leaf in 0..self.roots[root].len() {
                let leaf = self.roots[root][leaf];
                let received = &mut self.circuits[leaf as usize].received;
                *received = received.wrapping_add(cells.len() as u64);
                self.admit(leaf, cells, tag, outputs);
            }
        } else {
            self.admit(id, cells, tag, outputs);
        }
    }

    /// Counts what cells of a root become more than they were.
    fn count_copies(&mut self, root: usize, cells: usize) {
        let leaves = self.roots[root].len() as u64;
        self.copied = self.copied.wrapping_add((cells as u64).wrapping_mul(leaves.wrapping_sub(1)));
    }

    /// A cell of a PDU that began before its leaf was added: it is not for this leaf, and its root has counted it.
    pub(crate) fn ignore(&mut self, id: u32) {
        let received = &mut self.circuits[id as usize].received;
        *received = received.wrapping_sub(1);
        if let Some(missed) = self.missed.get_mut(&id) {
            *missed = missed.wrapping_add(1);
        }
        self.copied = self.copied.wrapping_sub(1);
    }

    /// Counts cells that policing has discarded, and cuts or drops the PDU that they belong to.
    pub(crate) fn lose(&mut self, id: u32, cells: &[Cell], reason: DropReason) {
        let (circuit, n) = (&mut self.circuits[id as usize], cells.len() as u64);
        circuit.dropped = circuit.dropped.wrapping_add(n);
        if !circuit.is(flag::ROOT) {
            self.ports[usize::from(circuit.port)].counters.sent.drop_n(reason, n);
            self.lose_of(id, cells);
            return;
        }
        let root = circuit.side as usize;
        if let Some(last) = cells.iter().rev().map(Cell::header_word).find(|word| word & 8 == 0) {
            circuit.frame = if ends_pdu(last) { Frame::Between } else { Frame::Accepted };
        }
        self.count_copies(root, cells.len());
        for leaf in 0..self.roots[root].len() {
            let leaf = self.roots[root][leaf];
            let port = usize::from(self.circuits[leaf as usize].port);
            self.ports[port].counters.sent.drop_n(reason, n);
            self.lose_of(leaf, cells);
        }
    }

    fn lose_of(&mut self, id: u32, cells: &[Cell]) {
        let circuit = &mut self.circuits[id as usize];
        if !circuit.is(flag::PDUS) || circuit.is(flag::CREDIT) {
            return;
        }
        let pdu_cells = self.profiles.get(circuit.profile).kept_cells();
        let port = &mut self.ports[usize::from(circuit.port)];
        for word in cells.iter().map(Cell::header_word).filter(|word| word & 8 == 0) {
            circuit.frame = match (circuit.frame, ends_pdu(word)) {
                (Frame::Between, false) => Frame::Dropped,
                (Frame::Accepted, _) => {
                    port.release(circuit, pdu_cells);
                    Frame::Cut
                }
                (Frame::Dropped | Frame::NotYet | Frame::Between, true) => Frame::Between,
                (frame, _) => frame,
            };
        }
    }

    /// Accepts or drops cells of a circuit without credits.
    #[inline]
    fn admit(&mut self, id: u32, cells: &[Cell], tag: u32, outputs: &mut impl Outputs) {
        let circuit = &mut self.circuits[id as usize];
        if let [cell] = cells
            && circuit.is_management(cell.header_word())
        {
            self.admit_management(id, cell, tag, outputs);
            return;
        }
        if circuit.is(flag::MANAGED) && self.profiles.get(circuit.profile).has_policy() {
            self.admit_managed(id, cells, tag, outputs);
            return;
        }
        let port = &mut self.ports[usize::from(circuit.port)];
        let profile = self.profiles.get(circuit.profile);
        if admit_all(circuit, port, profile, cells) {
            self.place(id, cells, tag, outputs);
        } else if cells.len() > WINDOW {
            // Near a bound: parts of the run may be certain yet.
            cells.chunks(WINDOW).for_each(|cells| self.admit(id, cells, tag, outputs));
        } else {
            self.admit_each(id, cells, tag, outputs);
        }
    }

    /// As [`CellPlane::admit`], cell by cell.
    #[cold]
    fn admit_each(&mut self, id: u32, cells: &[Cell], tag: u32, outputs: &mut impl Outputs) {
        for cell in cells {
            let circuit = &mut self.circuits[id as usize];
            let port = &mut self.ports[usize::from(circuit.port)];
            let profile = self.profiles.get(circuit.profile);
            match admit_cell(circuit, port, profile, cell.header_word()) {
                Admission::Accepted => self.place(id, std::slice::from_ref(cell), tag, outputs),
                Admission::Dropped(reason) => {
                    circuit.dropped = circuit.dropped.wrapping_add(1);
                    port.counters.sent.drop_one(reason);
                    if circuit.is(flag::MANAGED) {
                        self.count_early(id, reason);
                    } else {
                        circuit.count_early(reason);
                    }
                }
                Admission::Ignored => self.ignore(id),
            }
        }
    }
}

/// Accepts a run as a whole if it is certain that each of its cells would be accepted. Otherwise nothing has changed.
#[inline(always)]
pub(crate) fn admit_all(circuit: &mut Circuit, port: &mut Port, profile: &Profile, cells: &[Cell]) -> bool {
    let n = cells.len() as u32;
    let Some(pdu_cells) = profile.pdu_cells.filter(|_| circuit.is(flag::PDUS)) else {
        let room = port.committed() + n <= port.limit_of(profile)
            && u32::from(circuit.queued) + n <= u32::from(profile.queue_cells);
        return room && port.up;
    };
    let more = n + u32::from(pdu_cells);
    let room = port.committed() + more <= port.limit_of(profile)
        && u32::from(circuit.queued) + more <= u32::from(profile.queue_cells);
    let last = cells[cells.len() - 1].header_word();
    if !room || !port.up || last & 8 != 0 || circuit.frame as u8 > Frame::Accepted as u8 {
        return false;
    }
    let inside = !ends_pdu(last);
    match (circuit.frame == Frame::Accepted, inside) {
        (false, true) => port.hold(circuit, pdu_cells),
        (true, false) => port.release(circuit, pdu_cells),
        (true, true) => port.refresh(circuit, pdu_cells),
        (false, false) => {}
    }
    circuit.frame = if inside { Frame::Accepted } else { Frame::Between };
    true
}

/// Decides about one cell. `docs/switch.md` publishes these rules.
pub(crate) fn admit_cell(circuit: &mut Circuit, port: &mut Port, profile: &Profile, word: u32) -> Admission {
    let full = if port.up { DropReason::QueueFull } else { DropReason::LinkDown };
    let fits = |port: &Port, circuit: &Circuit, cells: u32| {
        port.up && port.committed() + cells <= port.limit_of(profile) && circuit.has_room(cells, profile.queue_cells)
    };
    let Some(pdu_cells) = profile.pdu_cells.filter(|_| circuit.is(flag::PDUS) && word & 8 == 0) else {
        return if fits(port, circuit, 1) { Admission::Accepted } else { Admission::Dropped(full) };
    };
    let end = ends_pdu(word);
    // Within an accepted PDU only the bounds themselves count: room was kept for it.
    let space = port.up && port.used < port.limit && circuit.has_room(1, profile.queue_cells);
    match (circuit.frame, end) {
        (Frame::Between, true) if fits(port, circuit, 1) => Admission::Accepted,
        (Frame::Between, false) if fits(port, circuit, pdu_cells.into()) => {
            port.hold(circuit, pdu_cells);
            circuit.frame = Frame::Accepted;
            Admission::Accepted
        }
        (Frame::Between, _) => {
            circuit.frame = if end { Frame::Between } else { Frame::Dropped };
            Admission::Dropped(if port.up { DropReason::EarlyDiscard } else { full })
        }
        (Frame::Accepted, _) if space => {
            port.refresh(circuit, pdu_cells);
            if end {
                port.release(circuit, pdu_cells);
                circuit.frame = Frame::Between;
            }
            Admission::Accepted
        }
        (Frame::Accepted, _) => {
            port.release(circuit, pdu_cells);
            circuit.frame = Frame::Cut;
            Admission::Dropped(full)
        }
        (Frame::Cut, true) if space => {
            circuit.frame = Frame::Between;
            Admission::Accepted
        }
        (Frame::Cut, _) => Admission::Dropped(DropReason::PartialDiscard),
        (Frame::Dropped, _) => {
            circuit.frame = if end { Frame::Between } else { Frame::Dropped };
            Admission::Dropped(DropReason::EarlyDiscard)
        }
        (Frame::NotYet, _) => {
            circuit.frame = if end { Frame::Between } else { Frame::NotYet };
            Admission::Ignored
        }
    }
}

/// Counts cells that left.
#[inline(always)]
pub(crate) fn count_cells(counters: &mut Counters, cells: u64, pdus: u64) {
    counters.cells = counters.cells.wrapping_add(cells);
    counters.pdus = counters.pdus.wrapping_add(pdus);
    counters.octets = counters.octets.wrapping_add(cells * wire::cell::PAYLOAD_OCTETS as u64);
}
