//! The Reassembler card (checklist B-12, B-13, B-17, B-21): registers around [`sar::penn::Reassembler`].
//!
//! Cells come at any time; the host reads CAM entries and status blocks by list number, deletes lists, and has cells
//! fetched to its memory, 1.2 us each. A fetch stops at the end of a PDU.

use super::{FAILED, IDLE};
use crate::memory::HostMemory;
use core::time::Duration;
use sar::penn::timing::Stages;
use sar::penn::{Config, ConfigError, Key, ListId, Reassembler, Status};
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
}

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

/// The card.
#[derive(Debug, Clone)]
pub struct Card {
    config: Config,
    core: Reassembler,
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
        Ok(Card {
            config,
            core: Reassembler::new(config)?,
            index: 0,
            destination: 0,
            list: 0,
            fetch: None,
            moved: 0,
            flags: 0,
            failed: false,
            each: Stages::PUBLISHED.fetch,
            counters: Counters::default(),
        })
    }

    fn reset(&mut self) {
        self.counters.add(self.core.counters());
        if let Ok(core) = Reassembler::new(self.config) {
            self.core = core;
        }
        (self.index, self.destination, self.list) = (0, 0, 0);
        (self.fetch, self.moved, self.flags, self.failed) = (None, 0, 0, false);
    }

    /// Cells come from the line.
    pub fn handle_cells(&mut self, cells: &[Cell], now: Time) {
        for cell in cells {
            self.core.handle_cell(cell, now);
        }
    }

    fn list(number: u32) -> ListId {
        // A number beyond all lists names none.
        ListId::from_number(u16::try_from(number).unwrap_or(u16::MAX))
    }

    /// Reads a register; one that is not there reads as ones.
    pub fn read(&mut self, register: u32) -> u32 {
        let shown = Self::list(self.index);
        let status = |of: fn(&Status) -> u32| self.core.status(shown).as_ref().map_or(0, of);
        match register {
            register::RESET => {
                self.reset();
                0
            }
            register::INDEX => self.index,
            register::ENTRY => match self.core.key(shown) {
                None => 0,
                Some(Key::Circuit { vci }) => ENTRY_USED | u32::from(vci),
                Some(Key::Pdu { vci, mid }) => ENTRY_USED | ENTRY_PDU | u32::from(vci) << 10 | u32::from(mid),
            },
            register::CELLS => status(|status| status.cells),
            register::ENDS => status(|status| status.ends),
            register::DROPPED => status(|status| status.dropped as u32),
            register::DESTINATION => self.destination,
            register::LIST => self.list,
            register::STATUS => (u32::from(self.fetch.is_none()) * IDLE) | (u32::from(self.failed) * FAILED),
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
                if self.core.delete(Self::list(value)).is_none() {
                    self.counters.drop_one(DropReason::BadDescriptor);
                }
            }
            register::DESTINATION => self.destination = value,
            register::LIST => self.list = value,
            register::FETCH if self.fetch.is_none() && value > 0 => {
                (self.moved, self.flags, self.failed) = (0, 0, false);
                let address = self.destination.into();
                self.fetch = Some(Fetch { next: now + self.each, left: value, address });
            }
            _ => self.counters.drop_one(DropReason::BadDescriptor),
        }
    }

    /// Moves the cells whose time has come, `most` at most; gives whether it moved any.
    pub fn run(&mut self, memory: &mut impl HostMemory, most: usize, now: Time) -> bool {
        let mut any = false;
        for _ in 0..most {
            let Some(fetch) = self.fetch.as_mut().filter(|fetch| fetch.next <= now) else { break };
            any = true;
            let Some((tag, body)) = self.core.pop(Self::list(self.list)) else {
                self.fetch = None;
                break;
            };
            if memory.write(fetch.address, body).is_err() {
                self.counters.drop_one(DropReason::BadDescriptor);
                (self.fetch, self.failed) = (None, true);
                break;
            }
            fetch.address += body.len() as u64;
            fetch.left -= 1;
            fetch.next += self.each;
            self.moved += body.len() as u32;
            let over = fetch.left == 0 || tag.end;
            self.flags = (u32::from(tag.end) * FETCH_ENDED) | (u32::from(tag.abort) * FETCH_ABORTED);
            if over {
                self.fetch = None;
            }
        }
        any
    }

    /// When the fetch goes on.
    pub fn poll_timeout(&self) -> Option<Time> {
        Some(self.fetch?.next)
    }

    /// The pipeline behind the registers.
    pub const fn core(&self) -> &Reassembler {
        &self.core
    }

    /// Cells stored and dropped, by reason; commands that made no sense.
    pub fn counters(&self) -> Counters {
        let mut all = self.counters;
        all.add(self.core.counters());
        all
    }
}
