//! What a circuit with a contract has beside its line: its schedule at the output, and what was counted of it. One
//! wheel for all ports says which circuits are due; these wait in lists, by port and class, for their next cell's turn.

use crate::circuit::{NONE, ends_pdu, flag};
use crate::forward::count_cells;
use crate::police::{Ticks, ticks};
use crate::profile::{Class, Profile};
use crate::shape::{Shape, ShapeKind};
use crate::table::Table;
use crate::{CellPlane, Switch, prefetch};
use traffic::Wheel;
use wire::{Cell, Time};

/// Where an entry waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Waits {
    Nowhere,
    InWheel,
    Due,
}

/// Cells of a circuit with a contract that were dropped for it: what its line does not count.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    /// Cells that policing has discarded.
    pub(crate) policed: u64,
    /// Cells of PDUs that were dropped whole, and rests of those that had lost a cell.
    pub(crate) early: u64,
}

/// How a shaped circuit has left.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Measured {
    /// Cells in 1000 s, by the last window.
    rate: u64,
    /// When this window began, and cells since then.
    began_nanos: u64,
    cells: u32,
    /// Nanoseconds that a cell left after it was due, at most; no more than four seconds.
    late_nanos: u32,
}

/// Length of a window by which a rate is measured.
const WINDOW_NANOS: u64 = 1_000_000_000;

impl Measured {
    /// A cell that was due has left, so much after that.
    #[inline]
    fn count_due(&mut self, late_nanos: u64, now: Time) {
        self.late_nanos = self.late_nanos.max(u32::try_from(late_nanos).unwrap_or(u32::MAX));
        let length = now.as_nanos().saturating_sub(self.began_nanos);
        if length >= WINDOW_NANOS {
            self.rate = (u128::from(self.cells) * 1_000_000_000_000 / u128::from(length)) as u64;
            (self.began_nanos, self.cells) = (now.as_nanos(), 0);
        }
        self.cells = self.cells.saturating_add(1);
    }

    /// Cells in 1000 s as told at `now`: a rate of long ago is none.
    pub(crate) fn rate_at(&self, now: Time) -> u64 {
        let old = now.as_nanos().saturating_sub(self.began_nanos) > 4 * WINDOW_NANOS;
        if old { 0 } else { self.rate }
    }

    pub(crate) fn late_nanos(&self) -> u64 {
        self.late_nanos.into()
    }
}

/// See the module's head. One cache line, as the circuit's own: all that a cell that leaves by its schedule needs.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Entry {
    times: [Ticks; 2],
    /// When the cell that waits is due.
    due: Ticks,
    circuit: u32,
    prev: u32,
    next: u32,
    port: u16,
    class: u8,
    waits: Waits,
    measured: Measured,
}

const _: () = assert!(size_of::<Entry>() == 64 && align_of::<Entry>() == 64);

#[derive(Debug, Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

const EMPTY: List = List { head: NONE, tail: NONE };

/// What there is of contracts at one port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtPort {
    /// Circuits whose next cell is due, by class.
    due: [List; Class::COUNT],
    /// Circuits with a contract that leave by it.
    users: u32,
}

impl AtPort {
    pub(crate) const NONE: AtPort = AtPort { due: [EMPTY; Class::COUNT], users: 0 };
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Contracts {
    entries: Table<Entry>,
    tallies: Table<Tally>,
    free: Vec<u32>,
    wheel: Wheel,
    ports: Table<AtPort>,
    shaped: usize,
}

impl Contracts {
    pub(crate) fn new(ports: usize) -> Self {
        Contracts {
            entries: Table::default(),
            tallies: Table::default(),
            free: Vec::new(),
            wheel: Wheel::new(),
            ports: Table::from(vec![AtPort::NONE; ports]),
            shaped: 0,
        }
    }

    pub(crate) fn ports(&mut self) -> &mut Table<AtPort> {
        &mut self.ports
    }

    /// An entry for `circuit`, which leaves by `port` in `class`; there will be `most` at most.
    pub(crate) fn add(&mut self, circuit: u32, port: u16, class: Class, shape: Option<Shape>, most: usize) -> u32 {
        // A cell that is due within a guarantee goes in that class, whatever the class of the others.
        let class = if shape.is_some_and(|shape| shape.kind == ShapeKind::Share) { Class::Guaranteed } else { class };
        let entry = Entry {
            times: [0; 2],
            due: 0,
            circuit,
            prev: NONE,
            next: NONE,
            port,
            class: class as u8,
            waits: Waits::Nowhere,
            measured: Measured::default(),
        };
        self.ports[usize::from(port)].users += 1;
        self.shaped += usize::from(shape.is_some());
        let at = match self.free.pop() {
            Some(at) => {
                (self.entries[at as usize], self.tallies[at as usize]) = (entry, Tally::default());
                at
            }
            None => {
                if self.entries.is_empty() {
                    // Not before the first is wanted. What is not used stays untouched, and nothing moves later.
                    let mut entries = Vec::with_capacity(most);
                    prefetch::large_pages(&mut entries);
                    (self.entries, self.tallies) = (Table::from(entries), Table::from(Vec::with_capacity(most)));
                }
                self.entries.push(entry);
                self.tallies.push(Tally::default());
                self.free.reserve(self.entries.len());
                self.entries.len() as u32 - 1
            }
        };
        self.wheel.reserve(self.entries.len());
        at
    }

    /// There will be `most` at most, and perhaps more than thought before: by parts with room for them.
    pub(crate) fn set_most(&mut self, most: usize, entries: &mut Vec<Entry>, tallies: &mut Vec<Tally>) {
        if !self.is_empty() {
            self.entries.add_part(entries, most);
            self.tallies.add_part(tallies, most);
        }
    }

    /// Ends an entry, of a circuit of this shape; true if it was due.
    pub(crate) fn remove(&mut self, at: u32, shape: Option<Shape>) -> bool {
        let Entry { waits, port, .. } = self.entries[at as usize];
        match waits {
            Waits::Nowhere => {}
            Waits::InWheel => self.wheel.remove(at),
            Waits::Due => self.unlink(at),
        }
        self.ports[usize::from(port)].users -= 1;
        self.shaped -= usize::from(shape.is_some());
        self.entries[at as usize].waits = Waits::Nowhere;
        self.free.push(at);
        waits == Waits::Due
    }

    /// Whether there was ever an entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Asks for an entry's line. A number without an entry is harmless.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: u32) {
        self.entries.prefetch_early(at as usize);
    }

    /// What was counted of an entry's circuit.
    pub(crate) fn counted(&self, at: u32) -> (Tally, Measured) {
        (self.tallies[at as usize], self.entries[at as usize].measured)
    }

    /// Goes on counting from there.
    pub(crate) fn set_counted(&mut self, at: u32, (tally, measured): (Tally, Measured)) {
        (self.tallies[at as usize], self.entries[at as usize].measured) = (tally, measured);
    }

    pub(crate) fn tally_mut(&mut self, at: u32) -> &mut Tally {
        &mut self.tallies[at as usize]
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.wheel.next_time()
    }

    fn unlink(&mut self, at: u32) {
        let Entry { prev, next, port, class, .. } = self.entries[at as usize];
        let list = &mut self.ports[usize::from(port)].due[usize::from(class)];
        match prev {
            NONE => list.head = next,
            prev => self.entries[prev as usize].next = next,
        }
        let list = &mut self.ports[usize::from(port)].due[usize::from(class)];
        match next {
            NONE => list.tail = prev,
            next => self.entries[next as usize].prev = prev,
        }
    }

    fn push_due(&mut self, at: u32) {
        let Entry { port, class, .. } = self.entries[at as usize];
        let list = &mut self.ports[usize::from(port)].due[usize::from(class)];
        let tail = std::mem::replace(&mut list.tail, at);
        match tail {
            NONE => list.head = at,
            tail => self.entries[tail as usize].next = at,
        }
        let entry = &mut self.entries[at as usize];
        (entry.prev, entry.next, entry.waits) = (tail, NONE, Waits::Due);
    }

    /// Lets a circuit of this shape that has cells wait until its next one is due, at most `behind` before `now`; true
    /// if it is by now.
    #[inline]
    fn schedule(&mut self, at: u32, shape: &Shape, now: Time, behind: Ticks) -> bool {
        let entry = &mut self.entries[at as usize];
        let ahead = shape.due(&entry.times, ticks(now), behind);
        entry.due = ticks(now).wrapping_add_signed(ahead);
        entry.waits = Waits::InWheel;
        if ahead > 0 {
            let nanos = (ahead as u64).div_ceil(1 << 16);
            if self.wheel.insert(at, Time::from_nanos(now.as_nanos().saturating_add(nanos))) {
                return false;
            }
        }
        self.push_due(at);
        true
    }

    /// A circuit of this shape has got cells: it waits until the first is due, unless one waits already. True if it
    /// waits from now on, and is due.
    #[inline]
    pub(crate) fn note_backlog(&mut self, at: u32, shape: &Shape, now: Time) -> bool {
        self.entries[at as usize].waits == Waits::Nowhere && self.schedule(at, shape, now, 0)
    }
}

impl CellPlane {
    /// Moves circuits whose cells are due by now into the lists of their ports.
    #[inline]
    pub(crate) fn release_due(&mut self, now: Time) {
        self.now = now;
        if self.contracts.shaped == 0 {
            return;
        }
        while let Some(at) = self.contracts.wheel.pop_due(now) {
            self.contracts.push_due(at);
            let port = usize::from(self.contracts.entries[at as usize].port);
            self.ports[port].ready += 1;
        }
    }

    /// Sends cells that are due at a port in one class, one for each circuit in turn; returns how many.
    pub(crate) fn serve_due(&mut self, port: usize, class: usize, out: &mut [Cell], now: Time) -> usize {
        let mut sent = 0;
        while sent < out.len() {
            let at = self.contracts.ports[port].due[class].head;
            if at == NONE {
                break;
            }
            self.contracts.unlink(at);
            let entry = &mut self.contracts.entries[at as usize];
            entry.waits = Waits::Nowhere;
            let (due, id) = (entry.due, entry.circuit);
            let (circuit, state) = (&mut self.circuits[id as usize], &mut self.ports[port]);
            state.ready -= 1;
            if circuit.queued == 0 {
                // Its turns among the others have taken all.
                continue;
            }
            let place = circuit.head;
            let (cell, next) = self.store.get(place);
            let word = cell.header_word();
            out[sent].copy_as(cell, word);
            sent += 1;
            self.store.free(place);
            circuit.head = next;
            circuit.queued -= 1;
            if circuit.is_management(word) {
                state.management.leave(circuit);
            } else {
                state.used -= 1;
            }
            if word & 8 == 0 {
                circuit.sent_part = !ends_pdu(word);
            }
            count_cells(&mut state.counters.sent, 1, u64::from(ends_pdu(word)));
            let waits = circuit.queued > 0;
            let Some(shape) = &self.profiles.get(circuit.profile).shape else { continue };
            let late = (ticks(now).wrapping_sub(due) as i64).max(0) as u64 >> 16;
            let entry = &mut self.contracts.entries[at as usize];
            entry.measured.count_due(late, now);
            shape.book(&mut entry.times, due, ticks(now));
            if waits && self.contracts.schedule(at, shape, now, shape.peak.limit()) {
                self.ports[port].ready += 1;
            }
        }
        sent
    }

    /// Ends what a branch of this profile that is retired has of a contract.
    pub(crate) fn end_contract(&mut self, side: u32, port: usize, profile: &Profile) {
        if self.contracts.remove(side, profile.shape) {
            self.ports[port].ready -= 1;
        }
    }

    /// The side entry of a circuit's contract, if it has one.
    #[inline]
    pub(crate) fn contract_of(&self, id: u32) -> Option<u32> {
        let circuit = &self.circuits[id as usize];
        (circuit.is(flag::MANAGED) && circuit.side != NONE).then_some(circuit.side)
    }
}

impl Switch {
    /// Circuits with a contract that leave by a port. Where there is one, whoever runs the switch should not take more
    /// cells from it than the link can send soon: order is kept here, not there.
    pub fn contracts_at(&self, port: u16) -> usize {
        self.plane.contracts.ports.get(usize::from(port)).map_or(0, |port| port.users as usize)
    }
}
