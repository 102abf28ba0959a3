//! A port: its bounds, its queues of waiting circuits, its counters.

use crate::active::Queue;
use crate::arrival::Arrival;
use crate::circuit::Circuit;
use crate::config::SwitchConfig;
use crate::indication::Due;
use crate::management::Room;
use crate::profile::{Class, Profile};
use std::collections::VecDeque;
use wire::{Cell, Counters, DropReason, Time};

/// Answers to OAM cells that wait for one label, at most.
const REPLIES: usize = 8;

/// What was counted at one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortCounters {
    /// What came in, and what of it belongs to no circuit.
    pub received: Counters,
    /// What left, and what was for this port and dropped.
    pub sent: Counters,
    /// Cells that came in and ended here: answered, or heeded (credits, alarms of paths).
    pub ended: u64,
    /// Cells of the switch's own for this port: answers, ends of PDUs, AIS, credits. They count in `sent` too once they
    /// have left or were dropped.
    pub made: u64,
}

impl PortCounters {
    /// Adds those of another port.
    pub(crate) fn add(&mut self, other: &PortCounters) {
        self.received.add(&other.received);
        self.sent.add(&other.sent);
        self.ended = self.ended.wrapping_add(other.ended);
        self.made = self.made.wrapping_add(other.made);
    }
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) limit: u32,
    /// Circuits that leave here and to which something is promised.
    pub(crate) promised: u32,
    /// Cells queued, circuits with credits apart.
    pub(crate) used: u32,
    /// Cells queued of circuits with credits.
    pub(crate) held: u32,
    /// Queued management cells, which have room of their own.
    pub(crate) management: Room,
    /// Room that PDUs under way may still need, by the epoch in which it was last asked for: this one, the one before.
    headroom: [u32; 2],
    epoch: u16,
    pub(crate) up: bool,
    pub(crate) credit: bool,
    /// How its cells are timed for policing, and when the last batch came.
    pub(crate) arrival: Arrival,
    pub(crate) last_batch: Time,
    /// Circuits that wait for their turn.
    pub(crate) ready: u32,
    pub(crate) classes: [Turn; Class::COUNT],
    /// Cells of the switch's own. They go before all others.
    pub(crate) control: VecDeque<Cell>,
    control_limit: usize,
    /// Circuits that are to be sent an AIS cell, behind `control` and before all others.
    pub(crate) indications: VecDeque<Due>,
    /// Circuits with a limit or a check to be sent here: credit entry with its generation, and whether it is a check.
    pub(crate) notices: VecDeque<(u32, u32, bool)>,
    pub(crate) counters: PortCounters,
}

/// Circuits of one class that wait, and what the first of them may still send in its turn (0: its turn has not begun).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turn {
    pub(crate) queue: Queue,
    pub(crate) left: u16,
    /// Numbers in the queue whose circuits are gone.
    pub(crate) gone: u32,
}

impl Port {
    /// A port whose link is down.
    pub(crate) fn new(config: &SwitchConfig) -> Self {
        let (limit, control) = (config.queue_cells, config.control_cells);
        Port {
            limit,
            promised: 0,
            used: 0,
            held: 0,
            management: Room::new(config.management_cells),
            headroom: [0; 2],
            epoch: 0,
            up: false,
            credit: false,
            arrival: Arrival::Together,
            last_batch: Time::ZERO,
            ready: 0,
            classes: [Turn::default(); Class::COUNT],
            control: VecDeque::new(),
            control_limit: control.into(),
            indications: VecDeque::new(),
            notices: VecDeque::new(),
            counters: PortCounters::default(),
        }
    }

    /// Whether there is memory to be given back when it is dropped.
    pub(crate) fn owns_memory(&self) -> bool {
        self.control.capacity() + self.indications.capacity() + self.notices.capacity() > 0
    }

    pub(crate) fn set_up(&mut self, up: bool) {
        self.up = up;
        if up {
            // Ports without a link, which may be very many, have no room.
            self.control.reserve_exact(self.control_limit);
        }
    }

    pub(crate) fn has_output(&self) -> bool {
        let own = !self.control.is_empty() || !self.notices.is_empty() || !self.indications.is_empty();
        self.up && (self.ready > 0 || own)
    }

    /// Cells that may be queued for circuits of a profile: those to which less is promised leave room for others.
    #[inline(always)]
    pub(crate) fn limit_of(&self, profile: &Profile) -> u32 {
        let left = if self.promised > 0 { self.limit / 8 * profile.eighths_left() } else { 0 };
        self.limit - left
    }

    /// Nothing waits: a cell may leave at once.
    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        self.up && self.ready == 0 && self.control.is_empty() && self.indications.is_empty()
    }

    /// Queues an answer to an OAM cell; false if there is no room. Who asks on one circuit takes the room of that
    /// circuit, and none that ends of PDUs need.
    pub(crate) fn push_reply(&mut self, cell: Cell) -> bool {
        let of_circuit = |waiting: &&Cell| waiting.circuit() == cell.circuit();
        let room = self.control.len() < self.control_limit - self.control_limit / 8;
        let share = self.control.iter().filter(of_circuit).nth(REPLIES - 1).is_none();
        room && share && self.push_control(cell)
    }

    /// Queues a cell of the switch's own; false if there is no room.
    pub(crate) fn push_control(&mut self, cell: Cell) -> bool {
        let room = self.control.len() < self.control_limit;
        if room {
            self.control.push_back(cell);
        }
        room
    }

    /// Cells queued and kept room.
    #[inline(always)]
    pub(crate) fn committed(&self) -> u32 {
        self.used + self.headroom[0] + self.headroom[1]
    }

    /// Counts cells of the switch's own.
    pub(crate) fn count_made(&mut self, cells: usize) {
        self.counters.made = self.counters.made.wrapping_add(cells as u64);
    }

    /// Counts a cell that came in and goes no farther: it has done its work, or is dropped.
    pub(crate) fn count_ended(&mut self, outcome: Result<(), DropReason>) {
        match outcome {
            Ok(()) => self.counters.ended = self.counters.ended.wrapping_add(1),
            Err(reason) => self.counters.received.drop_one(reason),
        }
    }

    /// Forgets room that no cell has asked for since the epoch before the last.
    pub(crate) fn turn_epoch(&mut self, steps: u64) {
        self.epoch = self.epoch.wrapping_add(steps as u16);
        self.headroom = [0, if steps == 1 { self.headroom[0] } else { 0 }];
    }

    /// Keeps room for the PDU of `circuit` that begins.
    #[inline(always)]
    pub(crate) fn hold(&mut self, circuit: &mut Circuit, cells: u16) {
        circuit.epoch = self.epoch;
        self.headroom[0] += u32::from(cells);
    }

    /// Gives that room back.
    #[inline(always)]
    pub(crate) fn release(&mut self, circuit: &Circuit, cells: u16) {
        let age = self.epoch.wrapping_sub(circuit.epoch);
        if age < 2 {
            let headroom = &mut self.headroom[usize::from(age)];
            *headroom = headroom.saturating_sub(cells.into());
        }
    }

    /// Another cell of the PDU came: its room is still wanted.
    #[inline(always)]
    pub(crate) fn refresh(&mut self, circuit: &mut Circuit, cells: u16) {
        if circuit.epoch != self.epoch {
            self.release(circuit, cells);
            self.hold(circuit, cells);
        }
    }
}
