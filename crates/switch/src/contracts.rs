//! What a circuit with a contract has beside its line: its schedule at the output, and what was counted of it. One wheel for
//! all ports says which circuits are due; these wait in lists, by port and class, for their next cell's turn.

use crate::circuit::{NONE, ends_pdu, flag};
use crate::forward::count_cells;
use crate::police::{Ticks, ticks};
use crate::profile::Class;
use crate::shape::{Shape, ShapeKind};
use crate::{Plane, Switch, prefetch};
use traffic::Wheel;
use wire::{Cell, Time};

/// Where an entry waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Nowhere,
    InWheel,
    Due,
}

/// What was counted of a circuit with a contract beyond what its line counts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    /// Cells that policing has discarded.
    pub(crate) policed: u64,
    /// Cells of PDUs that were dropped whole, and rests of those that had lost a cell.
    pub(crate) early: u64,
    /// Nanoseconds that a cell left after it was due, at most.
    pub(crate) late_nanos: u64,
    /// Cells in 1000 s, by the last window; when this one began, and cells since then.
    pub(crate) rate: u64,
    pub(crate) window: (u64, u64),
}

/// Length of a window by which a rate is measured.
const WINDOW_NANOS: u64 = 1_000_000_000;

impl Tally {
    /// A cell that was due has left, so much after that.
    #[inline]
    fn count_due(&mut self, late_nanos: u64, now: Time) {
        self.late_nanos = self.late_nanos.max(late_nanos);
        let length = now.as_nanos().saturating_sub(self.window.0);
        if length >= WINDOW_NANOS {
            self.rate = (u128::from(self.window.1) * 1_000_000_000_000 / u128::from(length)) as u64;
            self.window = (now.as_nanos(), 0);
        }
        self.window.1 += 1;
    }

    /// As it is told at `now`: a rate of long ago is none.
    pub(crate) fn told(mut self, now: Time) -> Self {
        if now.as_nanos().saturating_sub(self.window.0) > 4 * WINDOW_NANOS {
            self.rate = 0;
        }
        self
    }
}

/// See the module's head.
#[derive(Debug, Clone, Copy)]
struct Entry {
    shape: Option<Shape>,
    times: [Ticks; 2],
    /// When the cell that waits is due.
    due: Ticks,
    circuit: u32,
    prev: u32,
    next: u32,
    waits: Waits,
    class: u8,
    port: u16,
    tally: Tally,
}

#[derive(Debug, Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

const EMPTY: List = List { head: NONE, tail: NONE };

/// All of them.
#[derive(Debug)]
pub(crate) struct Contracts {
    entries: Vec<Entry>,
    free: Vec<u32>,
    wheel: Wheel,
    /// Circuits whose next cell is due, by port and class.
    due: Vec<[List; Class::COUNT]>,
    /// Circuits with a contract that leave by each port.
    users: Vec<u32>,
    shaped: usize,
}

impl Contracts {
    pub(crate) fn new(ports: usize) -> Self {
        Contracts {
            entries: Vec::new(),
            free: Vec::new(),
            wheel: Wheel::new(),
            due: vec![[EMPTY; Class::COUNT]; ports],
            users: vec![0; ports],
            shaped: 0,
        }
    }

    pub(crate) fn set_ports(&mut self, ports: usize) {
        self.due.resize(ports, [EMPTY; Class::COUNT]);
        self.users.resize(ports, 0);
    }

    /// An entry for `circuit`, which leaves by `port` in `class`.
    pub(crate) fn add(&mut self, circuit: u32, port: u16, class: Class, shape: Option<Shape>) -> u32 {
        // A cell that is due within a guarantee goes in that class, whatever the class of the others.
        let class = if shape.is_some_and(|shape| shape.kind == ShapeKind::Share) { Class::Guaranteed } else { class };
        let entry = Entry {
            shape,
            times: [0; 2],
            due: 0,
            circuit,
            prev: NONE,
            next: NONE,
            waits: Waits::Nowhere,
            class: class as u8,
            port,
            tally: Tally::default(),
        };
        self.users[usize::from(port)] += 1;
        self.shaped += usize::from(shape.is_some());
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.free.reserve(self.entries.len());
                self.entries.len() as u32 - 1
            }
        };
        self.wheel.reserve(self.entries.len());
        at
    }

    /// Ends an entry; true if it was due.
    pub(crate) fn remove(&mut self, at: u32) -> bool {
        let Entry { waits, port, shape, .. } = self.entries[at as usize];
        match waits {
            Waits::Nowhere => {}
            Waits::InWheel => self.wheel.remove(at),
            Waits::Due => self.unlink(at),
        }
        self.users[usize::from(port)] -= 1;
        self.shaped -= usize::from(shape.is_some());
        self.entries[at as usize].waits = Waits::Nowhere;
        self.free.push(at);
        waits == Waits::Due
    }

    /// Whether there was ever an entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Asks for an entry's lines. A number without an entry is harmless.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: u32) {
        prefetch::early_all(&self.entries, at as usize);
    }

    pub(crate) fn tally(&self, at: u32) -> Tally {
        self.entries[at as usize].tally
    }

    pub(crate) fn tally_mut(&mut self, at: u32) -> &mut Tally {
        &mut self.entries[at as usize].tally
    }

    /// Whether cells leave only when they are due.
    pub(crate) fn is_paced(&self, at: u32) -> bool {
        self.entries[at as usize].shape.is_some_and(|shape| shape.kind == ShapeKind::Paced)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.wheel.next_time()
    }

    fn unlink(&mut self, at: u32) {
        let Entry { prev, next, port, class, .. } = self.entries[at as usize];
        let list = &mut self.due[usize::from(port)][usize::from(class)];
        match prev {
            NONE => list.head = next,
            prev => self.entries[prev as usize].next = next,
        }
        let list = &mut self.due[usize::from(port)][usize::from(class)];
        match next {
            NONE => list.tail = prev,
            next => self.entries[next as usize].prev = prev,
        }
    }

    fn push_due(&mut self, at: u32) {
        let Entry { port, class, .. } = self.entries[at as usize];
        let list = &mut self.due[usize::from(port)][usize::from(class)];
        let tail = std::mem::replace(&mut list.tail, at);
        match tail {
            NONE => list.head = at,
            tail => self.entries[tail as usize].next = at,
        }
        let entry = &mut self.entries[at as usize];
        (entry.prev, entry.next, entry.waits) = (tail, NONE, Waits::Due);
    }

    /// Lets a circuit that has cells wait until its next one is due, at most `behind` before `now`; true if it is by now.
    fn schedule(&mut self, at: u32, now: Time, behind: Ticks) -> bool {
        let entry = &mut self.entries[at as usize];
        let Some(shape) = entry.shape else { return false };
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
}

impl Plane {
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

    /// A circuit with a contract has got cells: it waits until the first is due, unless one waits already.
    pub(crate) fn note_backlog(&mut self, side: u32) {
        if self.contracts.entries[side as usize].waits != Waits::Nowhere {
            return;
        }
        if self.contracts.schedule(side, self.now, 0) {
            let port = usize::from(self.contracts.entries[side as usize].port);
            self.ports[port].ready += 1;
        }
    }

    /// Sends cells that are due at a port in one class, one for each circuit in turn; returns how many.
    pub(crate) fn serve_due(&mut self, port: usize, class: usize, out: &mut [Cell], now: Time) -> usize {
        let mut sent = 0;
        while sent < out.len() {
            let at = self.contracts.due[port][class].head;
            if at == NONE {
                break;
            }
            self.contracts.unlink(at);
            let entry = &mut self.contracts.entries[at as usize];
            entry.waits = Waits::Nowhere;
            let (due, id, shape) = (entry.due, entry.circuit, entry.shape);
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
            let Some(shape) = shape else { continue };
            let late = (ticks(now).wrapping_sub(due) as i64).max(0) as u64 >> 16;
            let entry = &mut self.contracts.entries[at as usize];
            entry.tally.count_due(late, now);
            shape.book(&mut entry.times, due, ticks(now));
            if waits && self.contracts.schedule(at, now, shape.peak.limit()) {
                self.ports[port].ready += 1;
            }
        }
        sent
    }

    /// Ends what a branch that is retired has of a contract.
    pub(crate) fn end_contract(&mut self, side: u32, port: usize) {
        if self.contracts.remove(side) {
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
    /// Circuits with a contract that leave by a port. Where there is one, whoever runs the switch should not take more cells
    /// from it than the link can send soon: order is kept here, not there.
    pub fn contracts_at(&self, port: u16) -> usize {
        self.plane.contracts.users.get(usize::from(port)).copied().unwrap_or_default() as usize
    }
}
