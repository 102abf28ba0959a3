//! The Dispatcher: which cell of the Cell SRAM each output reads in a slot.

use super::Port;
use super::queue::Bypass;
use super::store::Store;
use super::table::Connection;
use std::collections::VecDeque;
use wire::{Cell, CircuitId, Counters, DropReason, Time};

/// A cell that waits for an output: its place in the Cell SRAM, and the header it leaves with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) place: u32,
    pub(super) word: u32,
    /// The channel that it is for, at the third port.
    pub(super) channel: Option<u16>,
}

#[derive(Debug, Clone)]
struct Output {
    queue: Bypass<Waiting>,
    /// What has left; behind that, the cell that is on the link during this slot, if there is one.
    left: VecDeque<Cell>,
    /// Whether there is one, which the Output Framer has, and the channel that it is for.
    framing: Option<Option<u16>>,
    counters: Counters,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub(super) struct Dispatcher {
    outputs: [Output; 3],
    /// Copies that have not left.
    held: usize,
}

impl Dispatcher {
    pub(super) fn new(queue_cells: usize, bypass: bool) -> Self {
        let output = || Output {
            queue: Bypass::new(queue_cells, bypass),
            left: VecDeque::with_capacity(4),
            framing: None,
            counters: Counters::default(),
        };
        Dispatcher { outputs: [output(), output(), output()], held: 0 }
    }

    /// False: the queue is full, which is counted.
    pub(super) fn push(&mut self, port: Port, low_latency: bool, waiting: Waiting) -> bool {
        let output = &mut self.outputs[port.index()];
        let fits = output.queue.push(low_latency, waiting);
        if fits {
            self.held += 1;
        } else {
            output.counters.drop_one(DropReason::QueueFull);
        }
        fits
    }

    /// A slot begins: cells on the links have left, and each output begins its next.
    /// Returned: the cell that has left to a channel.
    pub(super) fn run(&mut self, store: &mut Store) -> Option<(u16, Cell)> {
        let mut received = None;
        for output in &mut self.outputs {
            if let Some(channel) = output.framing.take() {
                output.counters.cells += 1;
                output.counters.octets += wire::cell::PAYLOAD_OCTETS as u64;
                self.held -= 1;
                if let Some(channel) = channel {
                    received = output.left.pop_back().map(|cell| (channel, cell));
                }
            }
            if let Some(Waiting { place, word, channel }) = output.queue.pop() {
                // Patched where it is: one that was patched before would be read from two stores at once.
                output.left.push_back(*store.cell(place));
                if let Some(framed) = output.left.back_mut() {
                    framed.set_header_word(word);
                    framed.set_at(Time::ZERO);
                }
                output.framing = Some(channel);
                store.done(place);
            }
        }
        received
    }

    /// Whether each output of a connection has few cells waiting: then the chip's own may go there too.
    pub(super) fn takes_own(&mut self, connection: &Connection, below: usize) -> bool {
        let memory = connection.channel.is_some();
        self.outputs.iter_mut().zip(connection.outputs).enumerate().all(|(port, (output, label))| {
            let wanted = label.is_some() || memory && port == Port::Memory.index();
            !wanted || output.queue.waiting(connection.low_latency) < below
        })
    }

    pub(super) fn poll_cell(&mut self, port: Port) -> Option<Cell> {
        let output = &mut self.outputs[port.index()];
        if output.left.len() > usize::from(output.framing.is_some()) { output.left.pop_front() } else { None }
    }

    /// The cell that [`Dispatcher::poll_cell`] gives, where it is.
    pub(super) fn first_left(&self, port: Port) -> Option<&Cell> {
        let output = &self.outputs[port.index()];
        if output.left.len() > usize::from(output.framing.is_some()) { output.left.front() } else { None }
    }

    /// What had left did not get further.
    pub(super) fn count_lost(&mut self, port: Port, reason: DropReason) {
        let counters = &mut self.outputs[port.index()].counters;
        counters.cells -= 1;
        counters.octets -= wire::cell::PAYLOAD_OCTETS as u64;
        counters.drop_one(reason);
    }

    pub(super) fn counters(&self, port: Port) -> &Counters {
        &self.outputs[port.index()].counters
    }

    /// Copies that have not left.
    pub(super) fn len(&self) -> usize {
        self.held
    }

    /// The same, counted one by one.
    pub(super) fn in_outputs(&self) -> usize {
        self.outputs.iter().map(|output| output.queue.len() + usize::from(output.framing.is_some())).sum()
    }

    /// What waits for an output under a label, or is on the link during this slot, is of a connection that is gone: it is dropped.
    pub(super) fn drop_label(&mut self, port: Port, label: CircuitId, store: &mut Store) {
        let output = &mut self.outputs[port.index()];
        let before = output.queue.len();
        output.queue.take_out(|waiting| waiting.word >> 4 == label.key(), |waiting| store.done(waiting.place));
        let mut lost = before - output.queue.len();
        if output.framing.is_some() && output.left.back().is_some_and(|cell| cell.circuit() == label) {
            output.framing = None;
            output.left.pop_back();
            lost += 1;
        }
        output.counters.drop_n(DropReason::Closed, lost as u64);
        self.held -= lost;
    }

    /// The power goes: what has not left is lost.
    pub(super) fn clear(&mut self, store: &mut Store) {
        for output in &mut self.outputs {
            let mut lost = 0;
            if output.framing.take().is_some() {
                output.left.pop_back();
                lost += 1;
            }
            while let Some(waiting) = output.queue.pop() {
                store.done(waiting.place);
                lost += 1;
            }
            output.counters.drop_n(DropReason::LinkDown, lost);
        }
        self.held = 0;
    }
}
