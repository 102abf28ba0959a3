//! The Reassembler of Traw and Smith in time: its five units side by side, each on its clock, joined by the queues that
//! the paper draws (figure 4).
//!
//! ```text
//! line -> Cell Manager ---------- bodies: FIFO ----------> buffer controller -> read port -> bus
//!              \-> CAM Lookup -> Linked List Manager -- slot --/              /
//!                  host's commands ------^----------------- slot ------------/
//! ```
//!
//! In: cells with the time of their first octet; a host's reads, deletions, and its access to the list memory. Out:
//! bodies that were read, with the time when they are through; what each unit has done ([`Work`]).
//!
//! | unit | clock | an operation |
//! |---|---|---|
//! | Cell Manager ([`serial`]) | the line's | 53 octets: one cell time |
//! | CAM Lookup Controller | 50 ns | 5 to 11 clocks |
//! | Linked List Manager ([`ram`]) | 50 ns | 2 to 13 clocks: a word of its memory each |
//! | buffer controller, in | 50 ns | an octet from the FIFO each clock, a word of RAM in every fourth |
//! | buffer controller, out | 50 ns | a word each second clock, as the bus takes it |
//!
//! The buffer's memory has one port: even clocks belong to the way in, odd ones to the way out, so that neither waits
//! for the other. A body is in the FIFO before its verdict; what the Cell Manager or the lookup rejects is flushed from
//! there, by a request that passes all units in order. Memory that the host has begun to read is not written before it
//! has been read, nor read before it is written: the controller holds the later of two operations on one slot.
//!
//! Capacity is where it is in the hardware: a unit that is behind holds up the one before it, bodies gather in the
//! FIFO, and a cell that finds no room there is dropped. [`super::Reassembler`] does the same in no time.

pub mod ram;
pub mod serial;

mod lookup;
#[cfg(test)]
mod tests;
mod unit;

use super::manager::{self, CONNECTIONLESS, Key, Reject, Tag};
use super::{Config, ConfigError, Fault, ListId};
use core::time::Duration;
use lookup::{Found, Lookup};
use ram::{Block, Ram};
use serial::Checker;
use std::collections::VecDeque;
use unit::Unit;
use wire::cell::{CELL_OCTETS, PAYLOAD_OCTETS};
use wire::octets::{Format, emit53};
use wire::{Cell, CellHeader, Counters, DropReason, PayloadType, Time};

pub use unit::{CLOCK, Work};

/// Cells that wait on the line at most, where they come faster than it.
pub const LINE_CELLS: usize = 32;
/// Clocks of a word on the bus, and of the buffer memory's turn for each of its two ways.
const WORD_CLOCKS: u32 = 2;
/// Octets of a word on the bus.
const BUS_WORD: u32 = 4;

/// How the card is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Build {
    /// Entries, slots, limits.
    pub config: Config,
    /// Time of a cell on the line.
    pub line: Duration,
    /// Octets that the Cell Manager takes, and that leave the FIFO, in a clock.
    pub path_octets: u32,
    /// Octets of a word of the reassembly buffer.
    pub word_octets: u32,
    /// Octets of the FIFO. The paper gives no number.
    pub fifo_octets: usize,
}

impl Build {
    /// The published hardware on OC-3c.
    pub fn published() -> Self {
        Build {
            config: Config::default(),
            line: Duration::from_nanos(2_700),
            path_octets: 1,
            word_octets: 4,
            fifo_octets: 512,
        }
    }

    /// The same with ways for bodies that are eight octets wide, on a line that is as fast as these: what the units
    /// that handle no octets, lookup and lists, let through.
    pub fn wide() -> Self {
        let clocks = CELL_OCTETS.div_ceil(8) as u64;
        Build { line: Duration::from_nanos(clocks * CLOCK), path_octets: 8, word_octets: 16, ..Build::published() }
    }
}

/// What each unit has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Works {
    /// The Cell Manager.
    pub manager: Work,
    /// The CAM Lookup Controller.
    pub lookup: Work,
    /// The Linked List Manager.
    pub lists: Work,
    /// The buffer controller's way in.
    pub store: Work,
    /// Its way out.
    pub fetch: Work,
    /// Most octets in the FIFO at once.
    pub fifo_peak: usize,
    /// Bodies flushed from the FIFO.
    pub flushed: u64,
}

/// A body on the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetched {
    /// The list that it was on.
    pub list: ListId,
    /// What stands beside it.
    pub tag: Tag,
    /// Its octets, of which `tag.octets` count.
    pub body: [u8; PAYLOAD_OCTETS],
}

/// What the Cell Manager hands on.
#[derive(Debug, Clone, Copy)]
enum Intake {
    Cell {
        key: Key,
        tag: Tag,
    },
    Flush(DropReason),
    /// No body is in the FIFO.
    Nothing(Option<DropReason>),
}

/// What the list manager hands on.
#[derive(Debug, Clone, Copy)]
enum Linked {
    Store(Store),
    Fetch(Fetch),
    Done { dropped: u16 },
}

#[derive(Debug, Clone, Copy)]
struct Store {
    /// The slot, or why the body is flushed.
    slot: Result<u16, DropReason>,
    tag: Tag,
    /// Fetches that have to be over before.
    after: u64,
}

#[derive(Debug, Clone, Copy)]
struct Fetch {
    list: usize,
    slot: u16,
    tag: Tag,
    /// Stores that have to be over before.
    after: u64,
}

/// Two operations on slots that wait at most: one runs, one is in the latch. How many have been begun and finished.
#[derive(Debug, Clone, Copy, Default)]
struct Order {
    issued: u64,
    done: u64,
}

/// The card's pipeline.
#[derive(Debug, Clone)]
pub struct Pipeline {
    build: Build,
    running: bool,
    /// Something has come from outside since the units last worked.
    asked: bool,
    now: u64,
    line: VecDeque<(u64, [u8; CELL_OCTETS])>,
    manager: Unit<Intake>,
    fifo: VecDeque<([u8; PAYLOAD_OCTETS], usize)>,
    fifo_octets: usize,
    to_lookup: VecDeque<(Key, Tag, Option<DropReason>)>,
    deletions: VecDeque<usize>,
    cams: Lookup,
    lookup: Unit<Found>,
    to_lists: Option<Found>,
    ram: Ram,
    lists: Unit<Linked>,
    /// The list manager's last operation was the host's: the next one is a cell's, if both want one.
    hosts_turn_over: bool,
    command: Option<(usize, u32)>,
    to_store: Option<Store>,
    store: Unit<(Store, [u8; PAYLOAD_OCTETS], usize)>,
    stores: Order,
    to_fetch: Option<Fetch>,
    fetch: Unit<Fetch>,
    fetches: Order,
    fetched: Option<Fetched>,
    bodies: Box<[[u8; PAYLOAD_OCTETS]]>,
    counters: Counters,
    fifo_peak: usize,
    flushed: u64,
}

impl Pipeline {
    /// As after power is switched on: the host may write the list memory, and no cell is taken.
    ///
    /// # Errors
    /// Capacities that the CAMs or the list memory cannot have.
    pub fn new(build: Build) -> Result<Self, ConfigError> {
        let config = build.config;
        config.check()?;
        if config.circuits + config.pdus > ram::WORDS || ram::words(&config) > ram::WORDS {
            return Err(ConfigError::Slots { slots: config.slots });
        }
        let bodies = build.fifo_octets / PAYLOAD_OCTETS + 1;
        Ok(Pipeline {
            build,
            running: false,
            asked: false,
            now: 0,
            line: VecDeque::with_capacity(LINE_CELLS),
            manager: Unit::new(),
            fifo: VecDeque::with_capacity(bodies),
            fifo_octets: 0,
            to_lookup: VecDeque::with_capacity(bodies),
            deletions: VecDeque::with_capacity(config.circuits + config.pdus),
            cams: Lookup::new(&config),
            lookup: Unit::new(),
            to_lists: None,
            ram: Ram::new(&config),
            lists: Unit::new(),
            hosts_turn_over: false,
            command: None,
            to_store: None,
            store: Unit::new(),
            stores: Order::default(),
            to_fetch: None,
            fetch: Unit::new(),
            fetches: Order::default(),
            fetched: None,
            bodies: vec![[0; PAYLOAD_OCTETS]; config.slots].into(),
            counters: Counters::default(),
            fifo_peak: 0,
            flushed: 0,
        })
    }

    /// The same with the structures of an empty card written, and started.
    ///
    /// # Errors
    /// As [`Pipeline::new`].
    pub fn configured(build: Build) -> Result<Self, ConfigError> {
        let mut pipeline = Self::new(build)?;
        for (at, word) in ram::image(&build.config) {
            pipeline.write_ram(at, word);
        }
        pipeline.start();
        Ok(pipeline)
    }

    /// Reads a word of the list memory; `None` once the card runs.
    pub fn read_ram(&mut self, at: u16) -> Option<u16> {
        (!self.running).then(|| *self.ram.word(at))
    }

    /// Writes a word of the list memory; once the card runs, nothing is written, and the answer is false.
    pub fn write_ram(&mut self, at: u16, word: u16) -> bool {
        if !self.running {
            *self.ram.word(at) = word;
        }
        !self.running
    }

    /// Configuration is over: cells are taken, and the memory is the list manager's alone.
    pub fn start(&mut self) {
        self.ram.start();
        self.running = true;
    }

    /// Takes a cell whose first octet comes from the line at `now`; the next one can come a cell time later.
    pub fn handle_octets(&mut self, octets: &[u8; CELL_OCTETS], now: Time) {
        self.run(now);
        if !self.running {
            return self.counters.drop_one(DropReason::LinkDown);
        }
        if self.line.len() >= LINE_CELLS {
            return self.counters.drop_one(DropReason::QueueFull);
        }
        self.line.push_back((now.as_nanos(), *octets));
        self.asked = true;
    }

    /// Takes a cell, whose HEC the line's other end makes.
    pub fn handle_cell(&mut self, cell: &Cell, now: Time) {
        self.handle_octets(&emit53(cell, Format::Uni), now);
    }

    /// The host's read command: up to `cells` cells from the front of `list`, to the end of a PDU at most. False: the
    /// one before is still carried out.
    pub fn read(&mut self, list: ListId, cells: u32) -> bool {
        let free = self.command.is_none();
        if free && cells > 0 {
            self.command = Some((usize::from(list.number()), cells));
            self.asked = true;
        }
        free
    }

    /// The host's read command is still carried out, or has a body on its way.
    pub fn is_reading(&self) -> bool {
        let linking = matches!(self.lists.job(), Some(Linked::Fetch(_)));
        self.command.is_some() || linking || self.to_fetch.is_some() || !self.fetch.is_idle() || self.fetched.is_some()
    }

    /// A read command waits for its turn, or has cells left to take.
    pub const fn is_asked(&self) -> bool {
        self.command.is_some()
    }

    /// Configuration is over.
    pub const fn is_running(&self) -> bool {
        self.running
    }

    /// Ends the host's read command; what has been removed from its list still crosses.
    pub const fn cancel(&mut self) {
        self.command = None;
    }

    /// Takes the body that has crossed to the bus. The next one crosses once this has been taken.
    pub fn poll_fetched(&mut self) -> Option<Fetched> {
        let fetched = self.fetched.take();
        self.asked |= fetched.is_some();
        fetched
    }

    /// The host's deletion of a CAM entry: removes it, then has its list deleted. False: there is none.
    pub fn delete(&mut self, list: ListId) -> bool {
        let number = usize::from(list.number());
        let known = self.cams.key(list).is_some() && !self.deletions.contains(&number);
        if known {
            self.deletions.push_back(number);
            self.asked = true;
        }
        known
    }

    /// Lets every unit work until `now`.
    pub fn run(&mut self, now: Time) {
        let limit = now.as_nanos();
        // Units that nobody has asked for anything since have stopped where they could not go on.
        if core::mem::take(&mut self.asked) {
            while self.advance() {}
        }
        loop {
            let next = self.next();
            if next > limit {
                break;
            }
            self.now = next;
            while self.advance() {}
        }
        self.now = self.now.max(limit);
    }

    fn next(&self) -> u64 {
        let line = match self.line.front() {
            Some((at, _)) if self.manager.is_idle() && *at > self.now => *at,
            _ => u64::MAX,
        };
        let control = self.lookup.due(self.now).min(self.lists.due(self.now));
        line.min(self.manager.due(self.now)).min(control).min(self.store.due(self.now)).min(self.fetch.due(self.now))
    }

    /// When a unit is next done, or a cell begins; at once, if something has come since the units last worked.
    pub fn poll_timeout(&self) -> Option<Time> {
        let next = self.next();
        (if self.asked { Some(self.now) } else { Some(next).filter(|next| *next < u64::MAX) }).map(Time::from_nanos)
    }

    /// Finishes and begins what can be at this moment; from the last unit to the first, so that room made is used. True
    /// if a unit has handed something back to one that has had its turn: then once more.
    fn advance(&mut self) -> bool {
        self.advance_store();
        let fetched = self.advance_fetch();
        let listed = self.advance_lists();
        let looked = self.advance_lookup();
        let managed = self.advance_manager();
        fetched || listed || looked || managed
    }

    /// The buffer controller's way in: a body from the FIFO to its slot, or to nowhere.
    fn advance_store(&mut self) {
        if let Some((store, body, octets)) = self.store.finish(self.now, true) {
            self.fifo_octets -= octets;
            self.stores.done += 1;
            match store.slot {
                Ok(slot) => {
                    if let Some(place) = self.bodies.get_mut(usize::from(slot)) {
                        *place = body;
                    }
                    self.counters.cells = self.counters.cells.wrapping_add(1);
                    self.counters.octets = self.counters.octets.wrapping_add(u64::from(store.tag.octets));
                    self.counters.pdus = self.counters.pdus.wrapping_add(u64::from(store.tag.end));
                }
                Err(reason) => {
                    self.flushed += 1;
                    self.counters.drop_one(reason);
                }
            }
        }
        if self.store.is_idle()
            && self.to_store.is_some_and(|store| self.fetches.done >= store.after)
            && let Some((body, octets)) = self.fifo.pop_front()
            && let Some(store) = self.to_store.take()
        {
            let n = octets as u32;
            let out_of_fifo = n.div_ceil(self.build.path_octets);
            let into_ram = n.div_ceil(self.build.word_octets) * WORD_CLOCKS;
            let clocks = if store.slot.is_ok() { out_of_fifo.max(into_ram) } else { out_of_fifo };
            self.store.begin((store, body, octets), self.now, clocks);
        }
    }

    /// The buffer controller's way out: a body from its slot to the bus.
    fn advance_fetch(&mut self) -> bool {
        let mut over = false;
        if let Some(fetch) = self.fetch.finish(self.now, self.fetched.is_none()) {
            let body = self.bodies.get(usize::from(fetch.slot)).copied().unwrap_or([0; PAYLOAD_OCTETS]);
            self.fetched = Some(Fetched { list: ListId::from_number(fetch.list as u16), tag: fetch.tag, body });
            self.fetches.done += 1;
            // A store may have waited for this slot.
            over = self.to_store.is_some();
        }
        if self.fetch.is_idle()
            && self.to_fetch.is_some_and(|fetch| self.stores.done >= fetch.after)
            && let Some(fetch) = self.to_fetch.take()
        {
            let clocks = u32::from(fetch.tag.octets).div_ceil(BUS_WORD) * WORD_CLOCKS;
            self.fetch.begin(fetch, self.now, clocks);
        }
        over
    }

    /// The Linked List Manager: cells' appends and deletions in order, the host's removals, in turn where both wait.
    fn advance_lists(&mut self) -> bool {
        let mut handed = true;
        match self.lists.finish(self.now, true) {
            Some(Linked::Store(store)) => self.to_store = Some(store),
            Some(Linked::Fetch(fetch)) => self.to_fetch = Some(fetch),
            Some(Linked::Done { dropped }) => {
                handed = false;
                self.counters.drop_n(DropReason::Closed, dropped.into());
            }
            None => handed = false,
        }
        if !self.lists.is_idle() {
            return handed;
        }
        let cell = self.to_lists.is_some() && self.to_store.is_none();
        let host = self.command.is_some() && self.to_fetch.is_none();
        if host && !(cell && self.hosts_turn_over) {
            self.hosts_turn_over = true;
            self.remove();
            return handed;
        }
        if !cell {
            return handed;
        }
        self.hosts_turn_over = false;
        let Some(found) = self.to_lists.take() else { return handed };
        let (linked, clocks) = match found {
            Found::Cell { list, tag } => {
                let (slot, clocks) = self.ram.append(list, tag);
                (self.store_of(slot, tag), clocks)
            }
            Found::Flush(reason) => (self.store_of(Err(reason), Tag::default()), 1),
            Found::Delete { list } => {
                let (dropped, clocks) = self.ram.delete(list);
                (Linked::Done { dropped }, clocks)
            }
        };
        self.lists.begin(linked, self.now, clocks);
        handed
    }

    fn store_of(&mut self, slot: Result<u16, DropReason>, tag: Tag) -> Linked {
        self.stores.issued += 1;
        let reads = |fetch: &Fetch| Ok(fetch.slot) == slot;
        let waits = self.to_fetch.as_ref().is_some_and(reads) || self.fetch.job().is_some_and(reads);
        Linked::Store(Store { slot, tag, after: if waits { self.fetches.issued } else { 0 } })
    }

    /// The next cell of the host's read command.
    fn remove(&mut self) {
        let Some((list, left)) = self.command else { return };
        let (removed, clocks) = self.ram.remove(list);
        let Some((slot, tag)) = removed else {
            self.command = None;
            return self.lists.begin(Linked::Done { dropped: 0 }, self.now, clocks);
        };
        self.command = (left > 1 && !tag.end).then_some((list, left - 1));
        self.fetches.issued += 1;
        let writes = |store: &Store| store.slot == Ok(slot);
        let waits = self.to_store.as_ref().is_some_and(writes) || self.store.job().is_some_and(|job| writes(&job.0));
        let after = if waits { self.stores.issued } else { 0 };
        self.lists.begin(Linked::Fetch(Fetch { list, slot, tag, after }), self.now, clocks);
    }

    /// The CAM Lookup Controller: the host's deletions, then cells, each to the list manager in order.
    fn advance_lookup(&mut self) -> bool {
        let mut handed = false;
        if let Some(found) = self.lookup.finish(self.now, self.to_lists.is_none()) {
            self.to_lists = Some(found);
            handed = true;
        }
        if !self.lookup.is_idle() {
            return handed;
        }
        if let Some(list) = self.deletions.pop_front() {
            if let Some((found, clocks)) = self.cams.delete(list) {
                self.lookup.begin(found, self.now, clocks);
            }
            return true;
        }
        let Some((key, tag, reject)) = self.to_lookup.pop_front() else { return handed };
        let (found, clocks) = match reject {
            Some(reason) => (Found::Flush(reason), 1),
            None => self.cams.find(key, tag),
        };
        self.lookup.begin(found, self.now, clocks);
        handed
    }

    /// The Cell Manager: 53 octets at the line's pace, the body into the FIFO meanwhile, the verdict last.
    fn advance_manager(&mut self) -> bool {
        let mut handed = true;
        match self.manager.finish(self.now, true) {
            Some(Intake::Cell { key, tag }) => self.to_lookup.push_back((key, tag, None)),
            Some(Intake::Flush(reason)) => {
                self.to_lookup.push_back((Key::Circuit { vci: 0 }, Tag::default(), Some(reason)));
            }
            Some(Intake::Nothing(reason)) => {
                handed = false;
                reason.into_iter().for_each(|reason| self.counters.drop_one(reason));
            }
            None => handed = false,
        }
        if !self.manager.is_idle() || self.line.front().is_none_or(|(at, _)| *at > self.now) {
            return handed;
        }
        let Some((at, octets)) = self.line.pop_front() else { return handed };
        let intake = self.take_in(&octets);
        // The line has a clock of its own: a cell that waited begins when the one before has ended.
        let start = at.max(self.manager.ended());
        self.manager.begin_at(intake, start, self.build.line.as_nanos() as u64);
        handed
    }

    fn take_in(&mut self, octets: &[u8; CELL_OCTETS]) -> Intake {
        let checker = Checker::check_header(octets);
        if !checker.header_good() {
            return Intake::Nothing(Some(DropReason::HeaderError));
        }
        let [a, b, c, d, _, payload @ ..] = *octets;
        let header = CellHeader::from_word(u32::from_be_bytes([a & 0xf, b, c, d]));
        if !matches!(header.payload_type, PayloadType::User { .. }) {
            return Intake::Nothing(None);
        }
        // A circuit's body has no CRC: nobody asks for the register's value.
        let good = header.circuit.vci.get() & CONNECTIONLESS == 0 || checker.check_body(octets).body_good();
        let (intake, body) = match manager::extract(header, &payload, good) {
            Ok(intake) => (Intake::Cell { key: intake.key, tag: intake.tag }, intake.body),
            Err(Reject::Management) => return Intake::Nothing(None),
            Err(Reject::Flush(reason)) => (Intake::Flush(reason), &payload[..]),
        };
        if self.fifo_octets + body.len() > self.build.fifo_octets {
            return Intake::Nothing(Some(DropReason::QueueFull));
        }
        let mut place = [0; PAYLOAD_OCTETS];
        place[..body.len()].copy_from_slice(body);
        self.fifo.push_back((place, body.len()));
        self.fifo_octets += body.len();
        self.fifo_peak = self.fifo_peak.max(self.fifo_octets);
        intake
    }

    /// What the CAM entry behind a list holds.
    pub fn key(&self, list: ListId) -> Option<Key> {
        self.cams.key(list)
    }

    /// All lists in use with what they are for.
    pub fn entries(&self) -> impl Iterator<Item = (ListId, Key)> + '_ {
        self.cams.entries()
    }

    /// A list's status block; `None` if it has no CAM entry.
    pub fn status(&self, list: ListId) -> Option<Block> {
        self.key(list)?;
        Some(self.ram.block(usize::from(list.number())))
    }

    /// Slots that hold no cell.
    pub fn free_slots(&self) -> usize {
        self.ram.free_nodes().into()
    }

    /// Cells stored, their octets, ends of PDUs among them; cells dropped, by reason.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What each unit has done.
    pub const fn works(&self) -> Works {
        Works {
            manager: self.manager.work,
            lookup: self.lookup.work,
            lists: self.lists.work,
            store: self.store.work,
            fetch: self.fetch.work,
            fifo_peak: self.fifo_peak,
            flushed: self.flushed,
        }
    }

    /// Walks all lists, in time that grows with the capacities: for tests.
    pub fn check(&self) -> Result<(), Fault> {
        self.ram.check()
    }
}
