//! AAL5 reassembly of many circuits whose cells come mixed, into the buffers of one pool.
//!
//! A circuit's state is one cache line in an open-addressed table; a cell costs one lookup, one payload and the CRC,
//! whatever came before it. Memory is what [`DemuxConfig`] says: a PDU for which no buffer is free is dropped and
//! counted. The pool is the caller's octets; a delivered SDU stays in its buffer until the caller releases it.
//!
//! ```
//! use sar::{Delivery, Demux, DemuxConfig, Outgoing, SduMeta, segment_batch};
//! use wire::{Cell, CircuitId, Time};
//!
//! let (a, b) = (CircuitId::new(0, 100).unwrap(), CircuitId::new(0, 101).unwrap());
//! let mut demux = Demux::new(DemuxConfig { circuits: 2, buffers: 4, ..DemuxConfig::default() });
//! demux.open(a)?;
//! demux.open(b)?;
//! let mut pool = vec![0; demux.pool_octets()];
//!
//! let sdus = [Outgoing::new(a, b"to a", SduMeta::default())?, Outgoing::new(b, b"to b", SduMeta::default())?];
//! let mut cells = [Cell::default(); 2];
//! let _ = segment_batch(&sdus, &mut cells);
//!
//! let mut out = [Delivery::default(); 8];
//! let progress = demux.push(&cells, &mut pool, &mut out, Time::ZERO);
//! assert_eq!((progress.cells_used, progress.deliveries), (2, 2));
//! assert_eq!(&pool[demux.octets_of(&out[1])], b"to b");
//! demux.release(out[1].buffer);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::SduMeta;
use crate::kernel::{Kernel, SLOT, WIRE};
use crate::reassemble::fault;
use core::ops::Range;
use wire::aal5::{MAX_SDU_OCTETS, Trailer, cells};
use wire::cell::PAYLOAD_OCTETS;
use wire::{Cell, CircuitId, Counters, DropReason, Time};

/// Bounds of a [`Demux`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DemuxConfig {
    /// Circuits that can be open at a time.
    pub circuits: usize,
    /// Buffers of the pool.
    pub buffers: u32,
    /// Longest SDU accepted; a buffer has room for the cells of one.
    pub max_sdu_octets: usize,
    /// Whether a common part indicator other than zero is let through.
    pub any_cpi: bool,
}

impl Default for DemuxConfig {
    /// 1024 circuits, 256 buffers, the MTU of RFC 2225 and its LLC header (9188 octets).
    fn default() -> Self {
        DemuxConfig { circuits: 1024, buffers: 256, max_sdu_octets: 9188, any_cpi: false }
    }
}

/// Why a circuit cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It is open.
    #[error("circuit {0} is open already")]
    Open(CircuitId),
    /// As many are open as there may be.
    #[error("circuit {circuit} cannot be opened: {limit} are open, the most that were asked for")]
    Full {
        /// The circuit.
        circuit: CircuitId,
        /// [`DemuxConfig::circuits`].
        limit: usize,
    },
}

/// An SDU in its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// Where it came from.
    pub circuit: CircuitId,
    /// The buffer that it is in, to be released.
    pub buffer: u32,
    /// Its octets.
    pub sdu_octets: usize,
    /// What came with it.
    pub meta: SduMeta,
}

impl Default for Delivery {
    fn default() -> Self {
        Delivery { circuit: CircuitId::from_key(0), buffer: u32::MAX, sdu_octets: 0, meta: SduMeta::default() }
    }
}

/// Why a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// All cells are used.
    Done,
    /// The next cell may complete an SDU, for which there is no place in the deliveries.
    Full,
    /// The next cell is not of user data (OAM, resource management): the caller's to take.
    NotUser,
}

/// How far a batch of cells went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Progress {
    /// Cells taken from the front of the batch.
    pub cells_used: usize,
    /// SDUs delivered.
    pub deliveries: usize,
    /// Why it ended there.
    pub reason: Reason,
}

/// What one circuit has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CircuitCounts {
    /// SDUs delivered.
    pub pdus: u64,
    /// PDUs dropped.
    pub dropped: u32,
}

/// No circuit: PTI and CLP of a circuit's `head` are zero.
const FREE: u32 = u32::MAX;
/// PTI and CLP in a cell's first four octets, first octet lowest.
pub(crate) const VARIABLE: u32 = 0x0f00_0000;

/// How far a circuit's PDU is, in one word; zero between PDUs.
///
/// | bits | |
/// |---|---|
/// | 0 to 15 | how many further cells have room |
/// | 16 | a cell had CLP set |
/// | 17 | a PDU has begun |
/// | 18 | it is lost; its cells are passed over |
/// | 28 to 63 | the octet of the pool where the next payload goes |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    pub(crate) const IDLE: Place = Place(0);
    const BEGUN: u64 = 1 << 17;
    const LOST: Place = Place(1 << 18);
    const OCTET: u32 = 28;

    /// The beginning of a buffer with room for `cells`.
    fn fresh(octet: u64, cells: u64) -> Place {
        Place(octet << Self::OCTET | Self::BEGUN | cells)
    }

    /// Where the next payload goes.
    #[inline(always)]
    pub(crate) fn octet(self) -> usize {
        (self.0 >> Self::OCTET) as usize
    }

    /// For how many cells there is room: none between PDUs, in one that has its most, and in a lost one.
    #[inline(always)]
    pub(crate) fn room(self) -> usize {
        self.0 as u16 as usize
    }

    #[inline(always)]
    pub(crate) fn has_room(self) -> bool {
        self.0 & 0xffff != 0
    }

    /// After some more cells, for which there was room.
    #[inline(always)]
    pub(crate) fn after(self, cells: usize) -> Place {
        const STEP: u64 = ((PAYLOAD_OCTETS as u64) << Place::OCTET) - 1;
        Place(self.0.wrapping_add(STEP.wrapping_mul(cells as u64)))
    }

    /// With the CLP bit of a cell taken note of, whose first four octets these are, first octet lowest.
    #[inline(always)]
    pub(crate) fn or_clp(self, head: u32) -> Place {
        Place(self.0 | u64::from(head >> 8 & 1 << 16))
    }

    #[inline(always)]
    fn clp(self) -> bool {
        self.0 >> 16 & 1 != 0
    }

    fn is_in_pdu(self) -> bool {
        self.0 & Self::BEGUN != 0
    }
}

/// A circuit's line of the table.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Entry {
    pub(crate) state: u128,
    pub(crate) place: Place,
    /// When its PDU began.
    pub(crate) began: Time,
    pdus: u64,
    /// The circuit, as the first four octets of its cells are read, first octet lowest, without PTI and CLP.
    pub(crate) head: u32,
    circuit: CircuitId,
    dropped: u32,
}

const _: () = assert!(size_of::<Entry>() == 64);

impl Entry {
    const EMPTY: Entry = Entry {
        state: 0,
        place: Place::IDLE,
        began: Time::ZERO,
        pdus: 0,
        head: FREE,
        circuit: CircuitId::from_key(0),
        dropped: 0,
    };
    /// What cells of no circuit are led to.
    const NOWHERE: Entry = Entry { place: Place::LOST, ..Entry::EMPTY };
}

/// A PDU whose last cell has come, to be judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) place: Place,
    /// Whose it is.
    pub(crate) entry: *mut Entry,
    /// Its last eight octets, first octet lowest.
    pub(crate) trailer: u64,
    pub(crate) congestion: bool,
    /// Whether its CRC is right.
    pub(crate) good: bool,
}

/// The table's place and size, for the time of one call.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    first: *mut Entry,
    mask: usize,
    shift: u32,
}

impl Table {
    /// Whether it is larger than the caches near to the processor (1 MiB and more).
    #[inline(always)]
    pub(crate) fn is_large(&self) -> bool {
        self.mask >= 1 << 14
    }

    /// How far a multiplied header is shifted to give where its search begins.
    #[inline(always)]
    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }

    /// An entry.
    #[inline(always)]
    pub(crate) fn entry(&self, at: u32) -> *mut Entry {
        self.first.wrapping_add(at as usize)
    }

    /// The entry of a cell's circuit. At most half of the entries are taken, so a search ends.
    ///
    /// # Safety
    /// The table exists.
    #[inline(never)]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn find(&self, head: u32) -> Option<*mut Entry> {
        let head = head & !VARIABLE;
        let mut at = home(head, self.shift) as usize;
        loop {
            let entry = self.first.wrapping_add(at);
            // SAFETY: `home` gives less than the table's size, and so does its mask.
            match unsafe { (*entry).head } {
                found if found == head => return Some(entry),
                FREE => return None,
                _ => at = (at + 1) & self.mask,
            }
        }
    }
}

/// Consecutive VCIs spread evenly (Fibonacci hashing; Knuth, volume 3, section 6.4): the multiplier is the golden ratio's
/// for the header's number without its last four bits.
#[inline(always)]
pub(crate) const fn home(head: u32, shift: u32) -> u32 {
    (head & !VARIABLE).swap_bytes().wrapping_mul(SPREAD) >> shift
}

/// What [`home`] multiplies by.
pub(crate) const SPREAD: u32 = 0x9e37_79b1 >> 4;

/// The table, the free buffers and the counters: what the kernels work on.
#[derive(Debug)]
pub(crate) struct Circuits {
    entries: Box<[Entry]>,
    shift: u32,
    open: usize,
    free: FreeBuffers,
    lent: Box<[bool]>,
    pub(crate) now: Time,
    /// Where the cells of no circuit are led, and those whose header is damaged.
    nowhere: Box<[Entry; 2]>,
    pub(crate) counters: Counters,
    config: DemuxConfig,
}

/// The free buffers, each as the place where it begins: a stack, below it a place without room.
#[derive(Debug)]
struct FreeBuffers {
    places: Box<[Place]>,
    len: usize,
    /// Octets from one buffer to the next.
    stride: u64,
    /// Cells of the longest PDU.
    cells: u64,
    /// 2^64 / stride, rounded up: places become numbers by a multiplication.
    inverse: u64,
}

impl FreeBuffers {
    fn new(config: &DemuxConfig) -> Self {
        let cells = cells(config.max_sdu_octets);
        let stride = (cells * PAYLOAD_OCTETS).next_multiple_of(64);
        assert!(stride as u64 * u64::from(config.buffers) < 1 << 36, "a pool is smaller than 64 GiB");
        let mut free = FreeBuffers {
            places: vec![Place::IDLE; config.buffers as usize + 1].into(),
            len: 0,
            stride: stride as u64,
            cells: cells as u64,
            inverse: u64::MAX / stride as u64 + 1,
        };
        (0..config.buffers).rev().for_each(|buffer| free.push(buffer));
        free
    }

    #[inline(always)]
    fn push(&mut self, buffer: u32) {
        self.len += 1;
        self.places[self.len] = Place::fresh(u64::from(buffer) * self.stride, self.cells);
    }

    /// The buffer of a PDU that is at `place`, and how many cells it has.
    #[inline(always)]
    fn of(&self, place: Place) -> (u32, usize) {
        let taken = self.cells as usize - place.room();
        let begin = place.octet() - taken * PAYLOAD_OCTETS;
        (((begin as u128 * u128::from(self.inverse)) >> 64) as u32, taken)
    }
}

/// The free buffers, for the time of a loop.
#[derive(Clone, Copy)]
pub(crate) struct Free {
    places: *const Place,
    len: usize,
}

impl Free {
    /// Where the next free buffer begins; a place without room if there is none.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn top(&self) -> Place {
        // SAFETY: there is one place more than buffers, and `len` counts buffers.
        unsafe { *self.places.add(self.len) }
    }

    /// Takes it, or does not.
    #[inline(always)]
    pub(crate) fn take(&mut self, really: bool) {
        self.len -= usize::from(really);
    }
}

impl Circuits {
    #[inline(always)]
    pub(crate) fn table(&mut self) -> Table {
        Table { first: self.entries.as_mut_ptr(), mask: self.entries.len() - 1, shift: self.shift }
    }

    /// Where cells of no circuit are led.
    #[inline(always)]
    pub(crate) fn unknown(&mut self) -> *mut Entry {
        &raw mut self.nowhere[0]
    }

    /// Where cells with a damaged header are led.
    #[inline(always)]
    pub(crate) fn damaged(&mut self) -> *mut Entry {
        &raw mut self.nowhere[1]
    }

    fn find(&self, circuit: CircuitId) -> Option<usize> {
        let (mask, head) = (self.entries.len() - 1, head_of(circuit));
        let mut at = home(head, self.shift) as usize;
        loop {
            match self.entries[at].head {
                found if found == head => return Some(at),
                FREE => return None,
                _ => at = (at + 1) & mask,
            }
        }
    }

    fn insert(&mut self, entry: Entry) {
        let mask = self.entries.len() - 1;
        let mut at = home(entry.head, self.shift) as usize;
        while self.entries[at].head != FREE {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
    }

    #[inline(always)]
    pub(crate) fn free(&self) -> Free {
        Free { places: self.free.places.as_ptr(), len: self.free.len }
    }

    /// What `free` took is taken.
    #[inline(always)]
    pub(crate) fn taken(&mut self, free: Free) {
        self.free.len = free.len;
    }

    /// A cell has come for an entry that has no room and finds no buffer: the PDU is lost. Whether the cell is a user's
    /// of a circuit.
    ///
    /// # Safety
    /// `entry` is one of the table's, or of `unknown` and `damaged`.
    #[cold]
    #[inline(never)]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn pass_over(&mut self, entry: *mut Entry, end: bool) -> bool {
        if entry == self.damaged() {
            self.counters.drop_one(DropReason::HeaderError);
            return false;
        }
        if entry == self.unknown() {
            self.counters.drop_one(DropReason::UnknownCircuit);
            return false;
        }
        // SAFETY: an entry of the table, which nobody else has now.
        let entry = unsafe { &mut *entry };
        let reason = if entry.place.is_in_pdu() { DropReason::Oversize } else { DropReason::NoBuffer };
        lose(entry, reason, &mut self.free, &mut self.counters);
        if end {
            entry.place = Place::IDLE;
        }
        true
    }

    /// Judges a PDU whose last cell has come; its circuit may have begun another meanwhile. Describes it in `to` if it is
    /// whole, and gives its octets.
    ///
    /// # Safety
    /// `ended.entry` is one of the table's, and `to` may be written.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn finish(&mut self, ended: Ended, to: *mut Delivery) -> Option<usize> {
        let Ended { place, entry, congestion, good, .. } = ended;
        let trailer = Trailer::from_octets(ended.trailer.to_le_bytes());
        let (buffer, cells) = self.free.of(place);
        let DemuxConfig { max_sdu_octets, any_cpi, .. } = self.config;
        if let Some(reason) = fault(good, &trailer, cells * PAYLOAD_OCTETS, max_sdu_octets, any_cpi) {
            // SAFETY: the caller's; nobody else has the entry now.
            unsafe { self.refuse(entry, buffer, reason) };
            return None;
        }
        let sdu_octets = usize::from(trailer.length);
        let meta = SduMeta { uu: trailer.uu, cpi: trailer.cpi, clp: place.clp(), congestion };
        self.lent[buffer as usize] = true;
        // SAFETY: as above.
        unsafe {
            (*entry).pdus = (*entry).pdus.wrapping_add(1);
            to.write(Delivery { circuit: (*entry).circuit, buffer, sdu_octets, meta });
        }
        Some(sdu_octets)
    }

    /// A PDU that has ended is dropped.
    #[cold]
    #[inline(never)]
    #[allow(unsafe_code)]
    unsafe fn refuse(&mut self, entry: *mut Entry, buffer: u32, reason: DropReason) {
        self.free.push(buffer);
        // SAFETY: the caller's.
        unsafe { (*entry).dropped = (*entry).dropped.wrapping_add(1) };
        self.counters.drop_one(reason);
    }
}

const fn head_of(circuit: CircuitId) -> u32 {
    (circuit.key() << 4).swap_bytes()
}

/// The circuit's PDU is lost; the rest of its cells will be passed over.
#[cold]
fn lose(entry: &mut Entry, reason: DropReason, free: &mut FreeBuffers, counters: &mut Counters) {
    if entry.place == Place::LOST {
        return;
    }
    if entry.place.is_in_pdu() {
        free.push(free.of(entry.place).0);
    }
    entry.place = Place::LOST;
    entry.dropped = entry.dropped.wrapping_add(1);
    counters.drop_one(reason);
}

/// Reassembly of many circuits.
#[derive(Debug)]
pub struct Demux {
    circuits: Circuits,
    kernel: Kernel,
}

impl Demux {
    /// No circuit is open yet.
    ///
    /// # Panics
    /// If `max_sdu_octets` is none or more than AAL5 has, there are more circuits than ATM has, or the pool has
    /// 64 GiB or more.
    pub fn new(config: DemuxConfig) -> Self {
        Self::with_kernel(Kernel::chosen(), config)
    }

    /// The same by a kernel of the caller's choice.
    ///
    /// # Panics
    /// As [`Demux::new`].
    pub fn with_kernel(kernel: Kernel, config: DemuxConfig) -> Self {
        assert!((1..=MAX_SDU_OCTETS).contains(&config.max_sdu_octets), "AAL5 carries 1 to 65535 octets");
        assert!(config.circuits <= 1 << 28, "ATM has 2^28 circuits");
        let size = (config.circuits.max(1) * 2).next_power_of_two();
        let circuits = Circuits {
            entries: vec![Entry::EMPTY; size].into(),
            shift: 32 - size.trailing_zeros(),
            open: 0,
            free: FreeBuffers::new(&config),
            lent: vec![false; config.buffers as usize].into(),
            now: Time::ZERO,
            nowhere: Box::new([Entry::NOWHERE; 2]),
            counters: Counters::default(),
            config,
        };
        Demux { circuits, kernel }
    }

    /// Octets from one buffer to the next.
    fn stride(&self) -> usize {
        self.circuits.free.stride as usize
    }

    /// Octets that the pool must have.
    pub fn pool_octets(&self) -> usize {
        self.stride() * self.circuits.config.buffers as usize
    }

    /// Where in the pool a delivered SDU is.
    pub fn octets_of(&self, delivery: &Delivery) -> Range<usize> {
        let at = delivery.buffer as usize * self.stride();
        at..at + delivery.sdu_octets
    }

    /// Opens a circuit.
    ///
    /// # Errors
    /// It is open, or as many are as may be.
    pub fn open(&mut self, circuit: CircuitId) -> Result<(), OpenError> {
        let c = &mut self.circuits;
        if c.find(circuit).is_some() {
            return Err(OpenError::Open(circuit));
        }
        if c.open == c.config.circuits {
            return Err(OpenError::Full { circuit, limit: c.config.circuits });
        }
        c.insert(Entry { head: head_of(circuit), circuit, ..Entry::EMPTY });
        c.open += 1;
        Ok(())
    }

    /// Closes a circuit; a PDU that has begun is dropped. Gives what it had received.
    pub fn close(&mut self, circuit: CircuitId) -> Option<CircuitCounts> {
        let c = &mut self.circuits;
        let mut at = c.find(circuit)?;
        if c.entries[at].place.is_in_pdu() {
            lose(&mut c.entries[at], DropReason::Closed, &mut c.free, &mut c.counters);
        }
        let counts = counts(&c.entries[at]);
        c.open -= 1;
        // Entries behind it that were pushed on by it move up, or a search would end at the gap.
        let mask = c.entries.len() - 1;
        c.entries[at] = Entry::EMPTY;
        loop {
            at = (at + 1) & mask;
            if c.entries[at].head == FREE {
                return Some(counts);
            }
            let entry = core::mem::replace(&mut c.entries[at], Entry::EMPTY);
            c.insert(entry);
        }
    }

    /// What a circuit has received.
    pub fn circuit(&self, circuit: CircuitId) -> Option<CircuitCounts> {
        self.circuits.find(circuit).map(|at| counts(&self.circuits.entries[at]))
    }

    /// Takes cells of any circuits; SDUs that they complete are described in `out`.
    ///
    /// # Panics
    /// If `pool` has less than [`Demux::pool_octets`].
    pub fn push(&mut self, cells: &[Cell], pool: &mut [u8], out: &mut [Delivery], now: Time) -> Progress {
        // SAFETY: a slice gives its cells; `run` looks at the pool.
        #[allow(unsafe_code)]
        unsafe {
            self.run::<SLOT>(cells.as_ptr().cast(), cells.len(), pool, out, now)
        }
    }

    /// The same for cells as on the wire, 53 octets each; one whose HEC is wrong is dropped and counted.
    ///
    /// # Panics
    /// As [`Demux::push`].
    pub fn push53(&mut self, cells: &[u8], pool: &mut [u8], out: &mut [Delivery], now: Time) -> Progress {
        // SAFETY: as many cells as there are 53 octets; `run` looks at the pool.
        #[allow(unsafe_code)]
        unsafe {
            self.run::<WIRE>(cells.as_ptr(), cells.len() / WIRE, pool, out, now)
        }
    }

    /// # Safety
    /// `cells` gives `n` cells of `S` octets.
    #[allow(unsafe_code)]
    unsafe fn run<const S: usize>(
        &mut self,
        cells: *const u8,
        n: usize,
        pool: &mut [u8],
        out: &mut [Delivery],
        now: Time,
    ) -> Progress {
        assert!(pool.len() >= self.pool_octets(), "the pool is smaller than the buffers that were asked for");
        self.circuits.now = now;
        // SAFETY: the caller's; the pool has room for all buffers.
        unsafe { self.kernel.demultiplex::<S>(&mut self.circuits, cells, n, pool.as_mut_ptr(), out) }
    }

    /// Gives a delivered SDU's buffer back. False, and no more, if it is not lent.
    pub fn release(&mut self, buffer: u32) -> bool {
        match self.circuits.lent.get_mut(buffer as usize) {
            Some(lent) if *lent => {
                *lent = false;
                self.circuits.free.push(buffer);
                true
            }
            _ => false,
        }
    }

    /// Drops the PDUs that began before `limit` and have not ended, counted; gives how many. It looks at every circuit:
    /// for a clock of some milliseconds, not for each batch.
    pub fn expire(&mut self, limit: Time) -> usize {
        let c = &mut self.circuits;
        let mut dropped = 0;
        for entry in c.entries.iter_mut().filter(|e| e.place.is_in_pdu() && e.began < limit) {
            lose(entry, DropReason::Timeout, &mut c.free, &mut c.counters);
            entry.place = Place::IDLE;
            dropped += 1;
        }
        dropped
    }

    /// Buffers that are neither lent nor taken by a PDU on its way.
    pub fn free_buffers(&self) -> usize {
        self.circuits.free.len
    }

    /// What has been counted over all circuits.
    pub const fn counters(&self) -> &Counters {
        &self.circuits.counters
    }
}

fn counts(entry: &Entry) -> CircuitCounts {
    CircuitCounts { pdus: entry.pdus, dropped: entry.dropped }
}
