//! The chip as a node of a network: ports 0 and 1 are its links, port 2 is the device at its third port.

use super::{Apic, Config, Port};
use bus::HostMemory;
use bus::memory::NoMemory;
use net::{Node, NodeIo};
use std::any::Any;
use wire::{DropReason, Time};

/// Slots of one run at most, so that a chip that is far behind does not keep the network's thread.
const SLOTS_A_RUN: usize = 1024;

/// See the module's head.
#[derive(Debug)]
pub struct ApicNode<M = NoMemory> {
    chip: Apic,
    memory: M,
}

impl ApicNode {
    /// A chip without memory: its third port has a device.
    pub fn new(config: Config) -> Self {
        ApicNode::with_memory(config, NoMemory)
    }
}

impl<M: HostMemory> ApicNode<M> {
    /// A chip with memory for its channels. A device may be at the third port as well.
    pub fn with_memory(config: Config, memory: M) -> Self {
        ApicNode { chip: Apic::new(config), memory }
    }

    /// The memory.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The chip.
    pub fn chip(&self) -> &Apic {
        &self.chip
    }

    /// The chip, to set connections up.
    pub fn chip_mut(&mut self) -> &mut Apic {
        &mut self.chip
    }

    /// Cells from the links, as many as the Input Framers hold. What is left on a link waits for a slot, never for an
    /// output.
    fn take_in(&mut self, io: &mut NodeIo<'_>, now: Time) -> usize {
        let mut taken = 0;
        for port in Port::ALL {
            let room = self.chip.room(port);
            if room == 0 {
                continue;
            }
            let cells = io.cells_in(port.index());
            let n = cells.len().min(room);
            cells[..n].iter().for_each(|cell| self.chip.handle_cell(port, cell, now));
            if n > 0 {
                io.consume(port.index(), n);
            }
            taken += n;
        }
        taken
    }

    fn put_out(&mut self, io: &mut NodeIo<'_>) {
        for port in Port::ALL {
            while let Some(cell) = self.chip.poll_cell(port) {
                if !io.put_cell(port.index(), &cell) {
                    let up = io.is_up(port.index());
                    self.chip.count_lost(port, if up { DropReason::QueueFull } else { DropReason::LinkDown });
                }
            }
        }
    }
}

impl<M: HostMemory + Send + 'static> Node for ApicNode<M> {
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let mut work = self.take_in(io, now) > 0;
        for _ in 0..SLOTS_A_RUN {
            if !self.chip.handle_timeout(now, &mut self.memory) {
                break;
            }
            self.put_out(io);
            work = true;
            self.take_in(io, now);
        }
        work
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.chip.poll_timeout()
    }

    fn rests(&self) -> bool {
        true
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
