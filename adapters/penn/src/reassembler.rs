//! The Reassembler card: registers around [`crate::reassembly`].
//!
//! There are two of it. [`Card::new`] has the pipeline in no time, where a model has no use for its units' times.
//! [`Card::in_time`] has the units on their clocks, [`crate::reassembly::units`]: a cell takes its way through them, and the host
//! writes the list memory by registers before any is taken.
//!
//! Cells come at any time; the host reads CAM entries and status blocks by list number, deletes lists, and has cells
//! fetched to its memory, 1.2 us each. A fetch stops at the end of a PDU.

use super::{FAILED, IDENTIFIER, IDLE};
use crate::reassembly::timing::Stages;
use crate::reassembly::units::{Build, Pipeline, Works};
use crate::reassembly::{Config, ConfigError, Fault, Key, ListId, Reassembler, Tag};
use bus::memory::HostMemory;
use core::time::Duration;
use wire::cell::PAYLOAD_OCTETS;
use wire::{Cell, Counters, DropReason, Time};

/// Registers by number.
pub mod register {
    /// Any access resets the card: all lists are gone.
    pub const RESET: u32 = 0;
    /// The list that the next four show.
    pub const INDEX: u32 = 1;
    /// Its CAM entry: [`super::ENTRY_USED`], [`super::ENTRY_PDU`], and VCI, or VCI and MID.
    pub const ENTRY: u32 = 2;
    /// Cells that wait.
    pub const CELLS: u32 = 3;
    /// Ends of PDUs among them.
    pub const ENDS: u32 = 4;
    /// Cells that were dropped, modulo 2^32.
    pub const DROPPED: u32 = 5;
    /// A write deletes the list of that number.
    pub const DELETE: u32 = 6;
    /// Where in the host's memory cells go.
    pub const DESTINATION: u32 = 7;
    /// The list to fetch from.
    pub const LIST: u32 = 8;
    /// A write of a number of cells starts the fetch.
    pub const FETCH: u32 = 9;
    /// [`super::IDLE`], [`super::FAILED`].
    pub const STATUS: u32 = 10;
    /// Octets that the last fetch moved, with [`super::FETCH_ENDED`] and [`super::FETCH_ABORTED`].
    pub const LENGTH: u32 = 11;
    /// [`crate::IDENTIFIER`].
    pub const IDENTIFIER: u32 = 12;
    /// Which word of the list memory the next one shows.
    pub const RAM_ADDRESS: u32 = 13;
    /// The word: to be read and written until the card runs.
    pub const RAM_DATA: u32 = 14;
    /// A write ends configuration: cells are taken.
    pub const RUN: u32 = 15;
    /// Lists of circuits, and in bits 31 to 16 those of connectionless PDUs.
    pub const LISTS: u32 = 16;
    /// Slots of the reassembly buffer.
    pub const SLOTS: u32 = 17;
}

/// Status: the list memory is to be written, and [`register::RUN`] after it.
pub const CONFIGURING: u32 = 4;
/// CAM entry: in use.
pub const ENTRY_USED: u32 = 1 << 31;
/// CAM entry: a connectionless PDU; VCI in bits 25 to 10, MID below.
pub const ENTRY_PDU: u32 = 1 << 30;
/// Length: the fetch stopped at the end of a PDU.
pub const FETCH_ENDED: u32 = 1 << 31;
/// Length: that PDU's sender gave it up.
pub const FETCH_ABORTED: u32 = 1 << 30;

#[derive(Debug, Clone, Copy)]
struct Fetch {
    next: Time,
    left: u32,
    address: u64,
}

/// The pipeline behind the registers.
#[derive(Debug, Clone)]
enum Core {
    Plain(Box<Reassembler>),
    Timed(Box<Pipeline>),
}

/// The card.
#[derive(Debug, Clone)]
pub struct Card {
    build: Build,
    core: Core,
    ram_address: u16,
    index: u32,
    destination: u32,
    list: u32,
    fetch: Option<Fetch>,
    moved: u32,
    flags: u32,
    failed: bool,
    each: Duration,
    /// Counted before a reset, and commands that made no sense.
    counters: Counters,
}

impl Card {
    /// As after power is switched on.
    ///
    /// # Errors
    /// Capacities that the pipeline cannot have.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let build = Build { config, ..Build::published() };
        Ok(Self::with(build, Core::Plain(Box::new(Reassembler::new(config)?))))
    }

    /// The same with units that take their time.
    ///
    /// # Errors
    /// Capacities that the pipeline cannot have.
    pub fn in_time(build: Build) -> Result<Self, ConfigError> {
        Ok(Self::with(build, Core::Timed(Box::new(Pipeline::new(build)?))))
    }

    fn with(build: Build, core: Core) -> Self {
        Card {
            build,
            core,
            ram_address: 0,
            index: 0,
            destination: 0,
            list: 0,
            fetch: None,
            moved: 0,
            flags: 0,
            failed: false,
            each: Stages::PUBLISHED.fetch,
            counters: Counters::default(),
        }
    }

    fn reset(&mut self) {
        self.counters = self.counters();
        // The same capacities have been taken before.
        match &mut self.core {
            Core::Plain(core) => Reassembler::new(self.build.config).into_iter().for_each(|new| **core = new),
            Core::Timed(core) => Pipeline::new(self.build).into_iter().for_each(|new| **core = new),
        }
        self.ram_address = 0;
        (self.index, self.destination, self.list) = (0, 0, 0);
        (self.fetch, self.moved, self.flags, self.failed) = (None, 0, 0, false);
    }

    /// Cells come from the line.
    pub fn handle_cells(&mut self, cells: &[Cell], now: Time) {
        for cell in cells {
            match &mut self.core {
                Core::Plain(core) => drop(core.handle_cell(cell, now)),
                Core::Timed(core) => core.handle_cell(cell, now),
            }
        }
    }

    fn list(number: u32) -> ListId {
        // A number beyond all lists names none.
        ListId::from_number(u16::try_from(number).unwrap_or(u16::MAX))
    }

    /// Reads a register; one that is not there reads as ones.
    pub fn read(&mut self, register: u32) -> u32 {
        let shown = Self::list(self.index);
        match register {
            register::RESET => {
                self.reset();
                0
            }
            register::INDEX => self.index,
            register::ENTRY => match self.key(shown) {
                None => 0,
                Some(Key::Circuit { vci }) => ENTRY_USED | u32::from(vci),
                Some(Key::Pdu { vci, mid }) => ENTRY_USED | ENTRY_PDU | u32::from(vci) << 10 | u32::from(mid),
            },
            register::CELLS => self.status(shown)[0],
            register::ENDS => self.status(shown)[1],
            register::DROPPED => self.status(shown)[2],
            register::RAM_ADDRESS => self.ram_address.into(),
            register::RAM_DATA => match &mut self.core {
                Core::Plain(_) => 0,
                Core::Timed(core) => core.read_ram(self.ram_address).map_or(0, u32::from),
            },
            register::LISTS => self.build.config.circuits as u32 | (self.build.config.pdus as u32) << 16,
            register::SLOTS => self.build.config.slots as u32,
            register::DESTINATION => self.destination,
            register::LIST => self.list,
            register::STATUS => {
                let configuring = matches!(&self.core, Core::Timed(core) if !core.is_running());
                (u32::from(self.fetch.is_none()) * IDLE)
                    | (u32::from(self.failed) * FAILED)
                    | (u32::from(configuring) * CONFIGURING)
            }
            register::IDENTIFIER => IDENTIFIER,
            register::LENGTH => self.moved | self.flags,
            _ => u32::MAX,
        }
    }

    /// Writes a register. What makes no sense at present is counted and does nothing.
    pub fn write(&mut self, register: u32, value: u32, now: Time) {
        match register {
            register::RESET => self.reset(),
            register::INDEX => self.index = value,
            register::DELETE => {
                let list = Self::list(value);
                let known = match &mut self.core {
                    Core::Plain(core) => core.delete(list).is_some(),
                    Core::Timed(core) => core.delete(list),
                };
                if !known {
                    self.counters.drop_one(DropReason::BadDescriptor);
                }
            }
            register::DESTINATION => self.destination = value,
            register::LIST => self.list = value,
            register::RAM_ADDRESS => self.ram_address = value as u16,
            register::RAM_DATA | register::RUN => {
                let taken = match &mut self.core {
                    Core::Plain(_) => false,
                    Core::Timed(core) if register == register::RAM_DATA => {
                        core.write_ram(self.ram_address, value as u16)
                    }
                    Core::Timed(core) => {
                        core.start();
                        true
                    }
                };
                if !taken {
                    self.counters.drop_one(DropReason::BadDescriptor);
                }
            }
            register::FETCH if self.fetch.is_none() && value > 0 => {
                (self.moved, self.flags, self.failed) = (0, 0, false);
                let address = self.destination.into();
                if let Core::Timed(core) = &mut self.core {
                    core.read(Self::list(self.list), value);
                }
                self.fetch = Some(Fetch { next: now + self.each, left: value, address });
            }
            _ => self.counters.drop_one(DropReason::BadDescriptor),
        }
    }

    /// Moves the cells whose time has come, `most` at most; gives whether it moved any.
    pub fn run(&mut self, memory: &mut impl HostMemory, most: usize, now: Time) -> bool {
        let mut any = false;
        for _ in 0..most {
            let Some((tag, body)) = self.next_body(now) else { break };
            any = true;
            // A body that comes when nothing is fetched any more was on its way when a transfer failed.
            let Some(fetch) = self.fetch.as_mut().filter(|_| !self.failed) else { continue };
            let body = &body[..usize::from(tag.octets)];
            if memory.write(fetch.address, body).is_err() {
                self.counters.drop_one(DropReason::BadDescriptor);
                self.failed = true;
                match &mut self.core {
                    Core::Plain(_) => self.fetch = None,
                    Core::Timed(core) => core.cancel(),
                }
                continue;
            }
            fetch.address += body.len() as u64;
            fetch.left -= 1;
            fetch.next += self.each;
            self.moved += body.len() as u32;
            self.flags = (u32::from(tag.end) * FETCH_ENDED) | (u32::from(tag.abort) * FETCH_ABORTED);
            if fetch.left == 0 || tag.end {
                self.fetch = None;
            }
        }
        if matches!(&self.core, Core::Timed(core) if !core.is_reading()) {
            self.fetch = None;
        }
        any
    }

    /// The next body that has crossed to the bus by `now`.
    fn next_body(&mut self, now: Time) -> Option<(Tag, [u8; PAYLOAD_OCTETS])> {
        match &mut self.core {
            Core::Plain(core) => {
                self.fetch.filter(|fetch| fetch.next <= now)?;
                let Some((tag, octets)) = core.pop(Self::list(self.list)) else {
                    self.fetch = None;
                    return None;
                };
                let mut body = [0; PAYLOAD_OCTETS];
                body[..octets.len()].copy_from_slice(octets);
                Some((tag, body))
            }
            Core::Timed(core) => {
                core.run(now);
                core.poll_fetched().map(|fetched| (fetched.tag, fetched.body))
            }
        }
    }

    /// When the fetch goes on; of a card in time, when any unit is done.
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.core {
            Core::Plain(_) => Some(self.fetch?.next),
            Core::Timed(core) => core.poll_timeout(),
        }
    }

    fn key(&self, list: ListId) -> Option<Key> {
        match &self.core {
            Core::Plain(core) => core.key(list),
            Core::Timed(core) => core.key(list),
        }
    }

    /// Cells, ends of PDUs, cells dropped.
    fn status(&self, list: ListId) -> [u32; 3] {
        let status = match &self.core {
            Core::Plain(core) => core.status(list).map(|s| [s.cells, s.ends, s.dropped as u32]),
            Core::Timed(core) => core.status(list).map(|s| [s.cells, s.ends, s.dropped].map(u32::from)),
        };
        status.unwrap_or_default()
    }

    /// Slots that hold no cell.
    pub fn free_slots(&self) -> usize {
        match &self.core {
            Core::Plain(core) => core.free_slots(),
            Core::Timed(core) => core.free_slots(),
        }
    }

    /// CAM entries in use.
    pub fn entries(&self) -> usize {
        match &self.core {
            Core::Plain(core) => core.entries().count(),
            Core::Timed(core) => core.entries().count(),
        }
    }

    /// Walks all lists, in time that grows with the capacities: for tests.
    ///
    /// # Errors
    /// What is wrong, which cannot be.
    pub fn check(&self) -> Result<(), Fault> {
        match &self.core {
            Core::Plain(core) => core.check(),
            Core::Timed(core) => core.check(),
        }
    }

    /// What the units have done, of a card in time.
    pub fn works(&self) -> Option<Works> {
        match &self.core {
            Core::Plain(_) => None,
            Core::Timed(core) => Some(core.works()),
        }
    }

    /// Cells stored and dropped, by reason; commands that made no sense.
    pub fn counters(&self) -> Counters {
        let mut all = self.counters;
        all.add(match &self.core {
            Core::Plain(core) => core.counters(),
            Core::Timed(core) => core.counters(),
        });
        all
    }
}
