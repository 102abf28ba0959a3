//! Circuits with credits: their sender and receiver halves ([`crate::credit`]), messages and timers.

use crate::circuit::flag;
use crate::credit::{PATIENCE_MILLIS, Receiver, Sender};
use crate::{CellPlane, Outputs, Switch};
use std::collections::VecDeque;
use std::time::Duration;
use wire::credit::{self, Entry, Kind};
use wire::{Cell, DropReason, Label, Time};

/// What a circuit with credits has beside its line.
#[derive(Debug)]
pub(crate) struct Credit {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    circuit: u32,
    in_port: u16,
    in_label: Label,
    /// How many circuits have had this entry before.
    generation: u32,
    /// A limit, a check waits at its port; the timer runs.
    limit_listed: bool,
    check_listed: bool,
    timer: bool,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Credits {
    list: Vec<Credit>,
    free: Vec<u32>,
    /// Cells that no window has reserved.
    left: u32,
    /// Entry, its generation, and when its timer fires; all timers run equally long.
    timers: VecDeque<(Time, u32, u32)>,
    incarnation: u16,
}

impl Credits {
    pub(crate) fn new(cells: u32, incarnation: u16) -> Self {
        Credits { list: Vec::new(), free: Vec::new(), left: cells, timers: VecDeque::new(), incarnation }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.timers.front().map(|(at, ..)| *at)
    }

    /// An entry for `circuit`; `None` if its window does not fit beside the others.
    pub(crate) fn add(&mut self, circuit: u32, (in_port, in_label): (u16, Label), window: u16) -> Option<u32> {
        self.left = self.left.checked_sub(window.into())?;
        self.incarnation = self.incarnation.wrapping_add(1);
        let (sender, receiver) = (Sender::new(self.incarnation), Receiver::new(window));
        let (limit_listed, check_listed, timer) = (false, false, false);
        let new =
            Credit { sender, receiver, circuit, in_port, in_label, generation: 0, limit_listed, check_listed, timer };
        Some(match self.free.pop() {
            Some(at) => {
                let old = &mut self.list[at as usize];
                *old = Credit { generation: old.generation.wrapping_add(1), ..new };
                at
            }
            None => {
                self.list.push(new);
                self.list.len() as u32 - 1
            }
        })
    }

    pub(crate) fn remove(&mut self, at: u32) {
        let credit = &mut self.list[at as usize];
        credit.generation = credit.generation.wrapping_add(1);
        self.left += u32::from(credit.receiver.window());
        self.free.push(at);
    }

    #[inline]
    pub(crate) fn get(&mut self, at: u32) -> &mut Credit {
        &mut self.list[at as usize]
    }

    fn arm(&mut self, at: u32, now: Time) {
        let credit = &mut self.list[at as usize];
        if !credit.timer && credit.sender.is_waiting() {
            credit.timer = true;
            self.timers.push_back((now + Duration::from_millis(PATIENCE_MILLIS), at, credit.generation));
        }
    }
}

impl Switch {
    /// Takes a credit cell of a port whose link carries credits.
    ///
    /// # Errors
    /// It says nothing of any circuit here, and is dropped.
    pub(crate) fn handle_credit_cell(&mut self, port: u16, cell: &Cell, now: Time) -> Result<(), DropReason> {
        let input = usize::from(port);
        let entries = match credit::parse(&cell.payload) {
            Ok(entries) => entries,
            Err(error) => {
                let damaged = matches!(error, wire::Error::Checksum { .. });
                return Err(if damaged { DropReason::Crc } else { DropReason::Malformed });
            }
        };
        // Circuits may be gone here, or not there yet.
        let mut outcome = Err(DropReason::NotOpen);
        for entry in entries {
            let id = match entry.kind {
                Kind::Limit => self.leaving.get(input, entry.label),
                Kind::Check | Kind::Start => self.index.get(input, entry.label),
            };
            if self.plane.circuits[id as usize].is(flag::CREDIT) {
                self.plane.handle_credit(id, &entry, now);
                outcome = Ok(());
            }
        }
        outcome
    }
}

impl CellPlane {
    fn handle_credit(&mut self, id: u32, entry: &Entry, now: Time) {
        let (side, queued) = (self.circuits[id as usize].side, self.circuits[id as usize].queued);
        let credit = self.credits.get(side);
        match entry.kind {
            Kind::Limit => {
                if credit.sender.handle_limit(entry) {
                    self.list_if_sendable(id);
                }
                self.credits.arm(side, now);
            }
            Kind::Check | Kind::Start => {
                credit.receiver.handle_check(entry, queued.into());
                self.notice_limit(side);
            }
        }
    }

    /// Accepts cells of a circuit with credits. Only a neighbour that sends beyond its credit loses any.
    pub(crate) fn accept_with_credit(
        &mut self,
        id: u32,
        cells: &[Cell],
        tag: u32,
        now: Time,
        outputs: &mut impl Outputs,
    ) {
        let circuit = &self.circuits[id as usize];
        let (side, port) = (circuit.side, usize::from(circuit.port));
        let credit = self.credits.get(side);
        credit.receiver.received(cells.len() as u32);
        let room = (credit.sender.room() as usize).min(cells.len());
        let mut passed = 0;
        if room > 0 && circuit.queued == 0 && self.ports[port].is_idle() {
            passed = self.cut_through(id, &cells[..room], tag, outputs);
            self.count_forwarded(id, passed as u32, now);
        }
        let space = usize::from(self.credits.get(side).receiver.window() - self.circuits[id as usize].queued);
        let (queued, beyond) = cells[passed..].split_at(space.min(cells.len() - passed));
        if !queued.is_empty() {
            self.enqueue(id, queued, tag);
            self.list_if_sendable(id);
        }
        if !beyond.is_empty() {
            let (n, circuit) = (beyond.len(), &mut self.circuits[id as usize]);
            circuit.dropped = circuit.dropped.wrapping_add(n as u64);
            self.ports[port].counters.sent.drop_n(DropReason::QueueFull, n as u64);
            self.credits.get(side).receiver.forwarded(n as u32);
        }
        self.notice_limit(side);
    }

    /// A cell of a circuit with credits came in and ended here: its sender has spent a credit for it, which is free
    /// again.
    pub(crate) fn return_credit(&mut self, id: u32) {
        let side = self.circuits[id as usize].side;
        let receiver = &mut self.credits.get(side).receiver;
        receiver.received(1);
        receiver.forwarded(1);
        self.notice_limit(side);
    }

    /// Whether a circuit with credits may send a cell.
    pub(crate) fn has_credit(&mut self, id: u32) -> bool {
        self.credits.get(self.circuits[id as usize].side).sender.room() > 0
    }

    /// Uses one credit for a cell of the switch's own; false if there is none.
    pub(crate) fn spend_credit(&mut self, id: u32, now: Time) -> bool {
        let side = self.circuits[id as usize].side;
        let sender = &mut self.credits.get(side).sender;
        let room = sender.room() > 0;
        if room {
            sender.sent(1);
            self.credits.arm(side, now);
        }
        room
    }

    /// `cells` of a circuit with credits have left.
    pub(crate) fn count_forwarded(&mut self, id: u32, cells: u32, now: Time) {
        let side = self.circuits[id as usize].side;
        let credit = self.credits.get(side);
        credit.sender.sent(cells);
        credit.receiver.forwarded(cells);
        self.credits.arm(side, now);
        self.notice_limit(side);
    }

    /// Lets a circuit wait for its turn if it has both cells and credit.
    fn list_if_sendable(&mut self, id: u32) {
        let circuit = &mut self.circuits[id as usize];
        let room = self.credits.get(circuit.side).sender.room();
        if circuit.queued > 0 && room > 0 && !circuit.is(flag::LISTED) {
            let port = &mut self.ports[usize::from(circuit.port)];
            circuit.flags |= flag::LISTED;
            port.classes[self.profiles.get(circuit.profile).class as usize].queue.push(&mut self.pool, id);
            port.ready += 1;
        }
    }

    fn notice_limit(&mut self, side: u32) {
        let credit = self.credits.get(side);
        if !credit.limit_listed && credit.receiver.limit_is_due() {
            credit.limit_listed = true;
            self.ports[usize::from(credit.in_port)].notices.push_back((side, credit.generation, false));
        }
    }

    /// Has a check sent for a circuit: by its timer, or as the first thing in its life.
    pub(crate) fn notice_check(&mut self, side: u32) {
        let credit = self.credits.get(side);
        if !credit.check_listed {
            credit.check_listed = true;
            let port = self.circuits[credit.circuit as usize].port;
            self.ports[usize::from(port)].notices.push_back((side, credit.generation, true));
        }
    }

    /// Writes credit cells for the notices of a port; returns how many.
    pub(crate) fn send_notices(&mut self, port: usize, out: &mut [Cell], now: Time) -> usize {
        let mut sent = 0;
        while sent < out.len() && !self.ports[port].notices.is_empty() {
            let mut entries = [None; credit::MAX_ENTRIES];
            let mut n = 0;
            while n < entries.len() {
                let Some((side, generation, check)) = self.ports[port].notices.pop_front() else { break };
                let credit = self.credits.get(side);
                if credit.generation != generation {
                    continue;
                }
                entries[n] = if check {
                    credit.check_listed = false;
                    let label = self.circuits[credit.circuit as usize].out_label();
                    let entry = credit.sender.check(label);
                    self.credits.arm(side, now);
                    Some(entry)
                } else {
                    credit.limit_listed = false;
                    credit.receiver.limit(credit.in_label)
                };
                n += usize::from(entries[n].is_some());
            }
            if n > 0 {
                let [a, b, c] = entries;
                let list = [a, b.or(a), c.or(a)].map(|entry| entry.unwrap_or(EMPTY));
                out[sent] = credit::emit(&list[..n]);
                sent += 1;
            }
        }
        sent
    }

    pub(crate) fn handle_credit_timers(&mut self, now: Time) {
        while let Some((at, side, generation)) = self.credits.timers.front().copied() {
            if at > now {
                break;
            }
            self.credits.timers.pop_front();
            let credit = self.credits.get(side);
            if credit.generation != generation {
                continue;
            }
            credit.timer = false;
            if credit.sender.handle_timeout() {
                self.notice_check(side);
            }
            self.credits.arm(side, now);
        }
    }
}

const EMPTY: Entry = Entry {
    kind: Kind::Limit,
    incarnation: 0,
    label: Label::Vc(wire::CircuitId { vpi: wire::Vpi::truncated(0), vci: wire::Vci(0) }),
    cells: 0,
};
