//! The reassembler of Traw and Smith (JSAC 1993): bounded reassembly memory that all circuits
//! share, each cell handled in a constant number of steps.
//!
//! In: cells and the time; commands of the host. Out: what became of each cell ([`Event`]); status blocks, CAM entries
//! and bodies for the host, which polls, because the hardware never interrupts. Four stages hand on control only, and
//! the body is copied once, into the slot where it stays until it is read:
//!
//! | stage | module | does |
//! |---|---|---|
//! | Cell Manager | [`manager`] | HEC, CRC-10 of AAL3/4, extracts VCI, MID, segment type, length; flushes a bad body |
//! | CAM Lookup Controller | [`cam`] | VCI, or VCI and MID, to a list; a new one is opened for what is new |
//! | Linked List Manager | [`lists`] | append, remove from front, delete; status blocks |
//! | reassembly buffer | here | one body per slot |
//!
//! A VCI whose highest bit is set carries connectionless PDUs by AAL3/4, told apart by MID; any other VCI is a circuit
//! whose 48-octet bodies are kept in order, with their end bit, for whatever adaptation layer the host runs (Traw and
//! Smith, 1993). The VPI is ignored, and so is the AAL3/4 sequence number (Traw and Smith, 1993). A host that deletes a
//! list may see its number given to another circuit with the next cell: read a number's CAM entry after the delete, not
//! before.
//!
//! Two limits beyond the paper's, both off by default, make the sharing fair: a greatest length per list, and that only
//! a cell that begins a CS-PDU may open a list.
//!
//! ```
//! use penn::reassembly::{Config, Event, Key, Reassembler};
//! use wire::{Cell, CellHeader, CircuitId, Time};
//!
//! let mut r = Reassembler::new(Config::default())?;
//! let header = CellHeader { circuit: CircuitId::new(0, 100).unwrap(), ..CellHeader::default() };
//! let Event::Stored { list, .. } = r.handle_cell(&Cell::new(header, [7; 48]), Time::ZERO) else { panic!() };
//! assert_eq!(r.key(list), Some(Key::Circuit { vci: 100 }));
//! let mut memory = [0; 48];
//! let read = r.read_into(list, 1, &mut memory);
//! assert_eq!((read.cells, read.octets, memory), (1, 48, [7; 48]));
//! # Ok::<(), penn::reassembly::ConfigError>(())
//! ```

pub mod cam;
pub mod lists;
pub mod manager;
pub mod timing;
pub mod units;

#[cfg(test)]
mod tests;

use cam::{Cam, MAX_ENTRIES};
use lists::{Full, Lists};
use wire::cell::{CELL_OCTETS, PAYLOAD_OCTETS};
use wire::{Cell, Counters, DropReason, Time};

pub use lists::Status;
pub use manager::{Key, Tag};

/// Capacities. The default is the published hardware's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Entries of the CAM of circuits.
    pub circuits: usize,
    /// Entries of the CAM of connectionless PDUs.
    pub pdus: usize,
    /// Slots of the reassembly buffer, one cell each: 8192 of 48 octets are the published 3 Mbit.
    pub slots: usize,
    /// Longest list, in cells.
    pub longest_list: usize,
    /// Whether a connectionless PDU's list is opened by its first cell only. Off, as in the hardware, what is left of
    /// a deleted PDU opens a list of its own.
    pub open_at_begin_only: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config { circuits: 256, pdus: 256, slots: 8192, longest_list: 8192, open_at_begin_only: false }
    }
}

impl Config {
    /// Octets of memory that a reassembler of these capacities takes, nearly.
    pub const fn memory_octets(&self) -> usize {
        // A body, a node of the list; a status block with head and tail, a CAM entry with its places in the index.
        self.slots * (PAYLOAD_OCTETS + 12) + (self.circuits + self.pdus) * (48 + 16)
    }

    fn check(&self) -> Result<(), ConfigError> {
        for entries in [self.circuits, self.pdus] {
            if entries == 0 || entries > MAX_ENTRIES {
                return Err(ConfigError::Entries { entries });
            }
        }
        if self.slots == 0 || self.slots >= u32::MAX as usize {
            return Err(ConfigError::Slots { slots: self.slots });
        }
        Ok(())
    }
}

/// Why capacities are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A CAM has more entries than can be numbered.
    #[error("{entries} CAM entries: 1 to {MAX_ENTRIES} are possible")]
    Entries {
        /// Entries asked for.
        entries: usize,
    },
    /// More slots than can be numbered, or none.
    #[error("{slots} cell slots: 1 to 4294967294 are possible")]
    Slots {
        /// Slots asked for.
        slots: usize,
    },
}

/// An internal list reference number: which list, of both CAMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListId(u16);

impl ListId {
    /// The number as the host writes it to a register: circuits first, then connectionless PDUs.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The list of a number that a host wrote. It need not exist.
    pub const fn from_number(number: u16) -> Self {
        ListId(number)
    }
}

/// What became of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Its body waits on a list.
    Stored {
        /// The list.
        list: ListId,
        /// The cell opened it.
        opened: bool,
        /// The cell ended a PDU.
        ended: bool,
    },
    /// Not a user cell; nothing was done with it.
    Management,
    /// Dropped and counted.
    Dropped(DropReason),
}

/// What a read moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Read {
    /// Cells taken from the list.
    pub cells: usize,
    /// Octets written.
    pub octets: usize,
    /// The last cell taken ended a PDU.
    pub ended: bool,
    /// That PDU was given up by its sender.
    pub aborted: bool,
}

/// What [`Reassembler::check`] can find wrong. None of these can happen; that is what is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A slot is on no list and not free.
    #[error("slot {slot} is on no list")]
    SlotLost {
        /// The slot.
        slot: u32,
    },
    /// A slot is on two lists, or twice on one.
    #[error("slot {slot} is on two lists")]
    SlotTwice {
        /// The slot.
        slot: u32,
    },
    /// A list names a slot that does not exist.
    #[error("there is no slot {slot}")]
    NoSuchSlot {
        /// What it names.
        slot: u32,
    },
    /// A list's status block or tail contradicts what hangs on it.
    #[error("the status block of list {list} is wrong")]
    Status {
        /// The list.
        list: usize,
    },
    /// The free slots are not as many as noted.
    #[error("{counted} free slots, {noted} noted")]
    FreeCount {
        /// On the free list.
        counted: u32,
        /// As kept.
        noted: u32,
    },
    /// A list without a CAM entry has cells.
    #[error("list {list} has cells and no CAM entry")]
    Orphan {
        /// The list.
        list: usize,
    },
}

/// The whole pipeline, and the host's side of it.
#[derive(Debug, Clone)]
pub struct Reassembler {
    config: Config,
    circuits: Cam,
    pdus: Cam,
    lists: Lists,
    /// The reassembly buffer: a body per slot.
    bodies: Box<[[u8; PAYLOAD_OCTETS]]>,
    counters: Counters,
}

impl Reassembler {
    /// Takes all its memory; nothing is allocated later.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Reassembler {
            config,
            circuits: Cam::new(config.circuits),
            pdus: Cam::new(config.pdus),
            lists: Lists::new(config.circuits + config.pdus, config.slots, config.longest_list),
            bodies: vec![[0; PAYLOAD_OCTETS]; config.slots].into(),
            counters: Counters::default(),
        })
    }

    /// Takes a cell from a line, with its HEC.
    pub fn handle_octets(&mut self, octets: &[u8; CELL_OCTETS], now: Time) -> Event {
        match manager::receive(octets) {
            Ok(cell) => self.handle_cell(&cell, now),
            Err(reason) => self.drop_cell(reason),
        }
    }

    /// Takes a cell whose header has been checked.
    pub fn handle_cell(&mut self, cell: &Cell, now: Time) -> Event {
        let intake = match manager::examine(cell) {
            Ok(intake) => intake,
            Err(manager::Reject::Management) => return Event::Management,
            Err(manager::Reject::Flush(reason)) => return self.drop_cell(reason),
        };
        let word = intake.key.word();
        let (cam, first) = match intake.key {
            Key::Circuit { .. } => (&mut self.circuits, 0),
            Key::Pdu { .. } => (&mut self.pdus, self.config.circuits),
        };
        let connectionless = first > 0;
        if connectionless && self.config.open_at_begin_only && !intake.tag.begin && cam.find(word).is_none() {
            return self.drop_cell(DropReason::Sequence);
        }
        let Some((entry, opened)) = cam.find_or_insert(word) else { return self.drop_cell(DropReason::TableFull) };
        let list = first + entry;
        if opened {
            self.lists.open(list, now);
        }
        let slot = match self.lists.append(list, intake.tag, now) {
            Ok(slot) => slot,
            Err(Full::Slots) => return self.drop_cell(DropReason::NoBuffer),
            Err(Full::List) => return self.drop_cell(DropReason::QueueFull),
        };
        self.bodies[slot][..intake.body.len()].copy_from_slice(intake.body);
        self.counters.cells = self.counters.cells.wrapping_add(1);
        self.counters.octets = self.counters.octets.wrapping_add(u64::from(intake.tag.octets));
        self.counters.pdus = self.counters.pdus.wrapping_add(u64::from(intake.tag.end));
        Event::Stored { list: ListId(list as u16), opened, ended: intake.tag.end }
    }

    fn drop_cell(&mut self, reason: DropReason) -> Event {
        self.counters.drop_one(reason);
        Event::Dropped(reason)
    }

    /// What the CAM entry behind a list holds (Traw and Smith, 1993); `None` where it is empty or does not exist.
    pub fn key(&self, list: ListId) -> Option<Key> {
        let list = usize::from(list.0);
        match list.checked_sub(self.config.circuits) {
            None => self.circuits.key(list).map(Key::circuit),
            Some(entry) => self.pdus.key(entry).map(Key::pdu),
        }
    }

    /// The list of a circuit or connectionless PDU.
    pub fn find(&self, key: Key) -> Option<ListId> {
        let list = match key {
            Key::Circuit { .. } => self.circuits.find(key.word())?,
            Key::Pdu { .. } => self.config.circuits + self.pdus.find(key.word())?,
        };
        Some(ListId(list as u16))
    }

    /// All lists in use with what they are for: what a host sees that reads both CAMs through.
    pub fn entries(&self) -> impl Iterator<Item = (ListId, Key)> + '_ {
        let circuits = self.circuits.entries().map(|(entry, word)| (entry, Key::circuit(word)));
        let pdus = self.pdus.entries().map(|(entry, word)| (self.config.circuits + entry, Key::pdu(word)));
        circuits.chain(pdus).map(|(list, key)| (ListId(list as u16), key))
    }

    /// A list's status block (Traw and Smith, 1993); `None` if there is no such list.
    pub fn status(&self, list: ListId) -> Option<Status> {
        self.key(list)?;
        self.lists.status(usize::from(list.0))
    }

    /// Takes the first cell off a list: its tag and the octets of its body.
    pub fn pop(&mut self, list: ListId) -> Option<(Tag, &[u8])> {
        let (slot, tag) = self.lists.remove_front(usize::from(list.0))?;
        Some((tag, &self.bodies[slot][..usize::from(tag.octets)]))
    }

    /// The host's read command (Traw and Smith, 1993): up to `cells` cells from the front of `list`, one body after the
    /// other, to `memory`. It stops early at the end of a PDU, and before a body that does not fit.
    pub fn read_into(&mut self, list: ListId, cells: usize, memory: &mut [u8]) -> Read {
        let mut read = Read::default();
        while read.cells < cells && !read.ended && memory.len() - read.octets >= PAYLOAD_OCTETS {
            let Some((tag, body)) = self.pop(list) else { break };
            memory[read.octets..read.octets + body.len()].copy_from_slice(body);
            read.cells += 1;
            read.octets += body.len();
            read.ended = tag.end;
            read.aborted = tag.abort;
        }
        read
    }

    /// Removes a list's CAM entry and frees its slots (Traw and Smith, 1993); gives how many cells were on it, which
    /// are counted as dropped. `None` if there was no entry.
    pub fn delete(&mut self, list: ListId) -> Option<u32> {
        let number = usize::from(list.0);
        match number.checked_sub(self.config.circuits) {
            None => self.circuits.remove(number)?,
            Some(entry) => self.pdus.remove(entry)?,
        };
        let cells = self.lists.delete(number);
        self.counters.drop_n(DropReason::Closed, cells.into());
        Some(cells)
    }

    /// Slots that hold no cell.
    pub const fn free_slots(&self) -> usize {
        self.lists.free_slots()
    }

    /// What has been counted: cells stored, their octets, ends of PDUs among them; cells dropped, by reason.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Checks every invariant, in time that grows with the capacities: for tests.
    pub fn check(&self) -> Result<(), Fault> {
        self.lists.check()?;
        for list in 0..self.config.circuits + self.config.pdus {
            let cells = self.lists.status(list).map_or(0, |status| status.cells);
            if cells > 0 && self.key(ListId(list as u16)).is_none() {
                return Err(Fault::Orphan { list });
            }
        }
        Ok(())
    }
}
