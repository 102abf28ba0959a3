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
const VARIABLE: u32 = 0x0f00_0000;
const NO_BUFFER: u32 = u32::MAX;

/// A circuit's line of the table.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Entry {
    pub(crate) state: u128,
    /// Where in the pool the next payload goes.
    pub(crate) at: u64,
    /// Where the room for payloads ends; at `at` between PDUs, in a lost one, and in one that has its most.
    pub(crate) end: u64,
    /// The circuit, as the first four octets of its cells are read, first octet lowest, without PTI and CLP.
    pub(crate) head: u32,
    buffer: u32,
    dropped: u32,
    lost: Option<DropReason>,
    pub(crate) clp: bool,
    pdus: u64,
    began: Time,
}

const _: () = assert!(size_of::<Entry>() == 64);

impl Entry {
    const EMPTY: Entry = Entry {
        state: 0,
        at: 0,
        end: 0,
        head: FREE,
        buffer: NO_BUFFER,
        dropped: 0,
        pdus: 0,
        began: Time::ZERO,
        lost: None,
        clp: false,
    };

    /// Between PDUs.
    #[inline(always)]
    pub(crate) fn reset(&mut self) {
        self.end = self.at;
        self.buffer = NO_BUFFER;
        self.lost = None;
        self.clp = false;
    }

    fn is_in_pdu(&self) -> bool {
        self.buffer != NO_BUFFER
    }
}

/// The table's place and size, for the time of one call.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    first: *mut Entry,
    mask: usize,
    shift: u32,
}

impl Table {
    /// Whether it is larger than the cache nearest to the processor.
    #[inline(always)]
    pub(crate) fn is_large(&self) -> bool {
        self.mask >= 512
    }

    /// Where the search for a cell's circuit begins.
    #[inline(always)]
    pub(crate) fn home(&self, head: u32) -> *mut Entry {
        self.first.wrapping_add(home(head, self.shift))
    }

    /// The entry of a cell's circuit, whose search begins at `home`. At most half of the entries are taken, so a search
    /// ends.
    ///
    /// # Safety
    /// The table exists and `home` is `head`'s.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn find(&self, home: *mut Entry, head: u32) -> Option<*mut Entry> {
        let head = head & !VARIABLE;
        // SAFETY: the caller's: an entry of the table.
        if unsafe { (*home).head } == head {
            return Some(home);
        }
        let mut at = home.addr().wrapping_sub(self.first.addr()) / size_of::<Entry>();
        loop {
            let entry = self.first.wrapping_add(at);
            // SAFETY: `at` is masked to the table's size, or came from one of its entries.
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
const fn home(head: u32, shift: u32) -> usize {
    ((head.swap_bytes() & !0xf).wrapping_mul(0x9e37_79b1 >> 4) >> shift) as usize
}

/// The table, the free buffers and the counters: what the kernels work on.
#[derive(Debug)]
pub(crate) struct Circuits {
    entries: Box<[Entry]>,
    shift: u32,
    open: usize,
    free: Vec<u32>,
    lent: Box<[bool]>,
    now: Time,
    /// Octets from one buffer to the next.
    stride: usize,
    /// Payload octets of the longest PDU.
    longest: u32,
    pub(crate) counters: Counters,
    config: DemuxConfig,
}

impl Circuits {
    #[inline(always)]
    pub(crate) fn table(&mut self) -> Table {
        Table { first: self.entries.as_mut_ptr(), mask: self.entries.len() - 1, shift: self.shift }
    }

    fn find(&self, circuit: CircuitId) -> Option<usize> {
        let (mask, head) = (self.entries.len() - 1, head_of(circuit));
        let mut at = home(head, self.shift);
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
        let mut at = home(entry.head, self.shift);
        while self.entries[at].head != FREE {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
    }

    /// A cell has come for an entry that has no room: begins a PDU with a buffer, or drops. Whether there is room now.
    #[inline(always)]
    pub(crate) fn make_room(&mut self, entry: &mut Entry, start: u128) -> bool {
        if entry.lost.is_some() || entry.is_in_pdu() {
            lose(entry, DropReason::Oversize, &mut self.free, &mut self.counters);
            return false;
        }
        let Some(buffer) = self.free.pop() else {
            lose(entry, DropReason::NoBuffer, &mut self.free, &mut self.counters);
            return false;
        };
        entry.state = start;
        entry.began = self.now;
        entry.buffer = buffer;
        entry.at = (buffer as usize * self.stride) as u64;
        entry.end = entry.at + u64::from(self.longest);
        true
    }

    /// A PDU's last cell has come.
    #[inline(always)]
    pub(crate) fn finish(&mut self, entry: &mut Entry, trailer: u64, congestion: bool, good: bool) -> Option<Delivery> {
        let trailer = Trailer::from_octets(trailer.to_le_bytes());
        let octets = self.longest as usize - (entry.end - entry.at) as usize;
        let DemuxConfig { max_sdu_octets, any_cpi, .. } = self.config;
        if let Some(reason) = fault(good, &trailer, octets, max_sdu_octets, any_cpi) {
            lose(entry, reason, &mut self.free, &mut self.counters);
            entry.reset();
            return None;
        }
        let meta = SduMeta { uu: trailer.uu, cpi: trailer.cpi, clp: entry.clp, congestion };
        let buffer = entry.buffer;
        let circuit = CircuitId::from_key(entry.head.swap_bytes() >> 4);
        entry.pdus = entry.pdus.wrapping_add(1);
        entry.reset();
        self.lent[buffer as usize] = true;
        Some(Delivery { circuit, buffer, sdu_octets: trailer.length.into(), meta })
    }
}

const fn head_of(circuit: CircuitId) -> u32 {
    (circuit.key() << 4).swap_bytes()
}

/// The circuit's PDU is lost; the rest of its cells will be passed over.
#[cold]
fn lose(entry: &mut Entry, reason: DropReason, free: &mut Vec<u32>, counters: &mut Counters) {
    if entry.lost.is_some() {
        return;
    }
    if entry.is_in_pdu() {
        free.push(entry.buffer);
    }
    entry.reset();
    entry.lost = Some(reason);
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
    /// If `max_sdu_octets` is none or more than AAL5 has, or there are more circuits than ATM has.
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
        let stride = (cells(config.max_sdu_octets) * PAYLOAD_OCTETS).next_multiple_of(64);
        let circuits = Circuits {
            entries: vec![Entry::EMPTY; size].into(),
            shift: 32 - size.trailing_zeros(),
            open: 0,
            free: (0..config.buffers).rev().collect(),
            lent: vec![false; config.buffers as usize].into(),
            now: Time::ZERO,
            stride,
            longest: (cells(config.max_sdu_octets) * PAYLOAD_OCTETS) as u32,
            counters: Counters::default(),
            config,
        };
        Demux { circuits, kernel }
    }

    /// Octets that the pool must have.
    pub fn pool_octets(&self) -> usize {
        self.circuits.stride * self.circuits.config.buffers as usize
    }

    /// Where in the pool a delivered SDU is.
    pub fn octets_of(&self, delivery: &Delivery) -> Range<usize> {
        let at = delivery.buffer as usize * self.circuits.stride;
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
        c.insert(Entry { head: head_of(circuit), ..Entry::EMPTY });
        c.open += 1;
        Ok(())
    }

    /// Closes a circuit; a PDU that has begun is dropped. Gives what it had received.
    pub fn close(&mut self, circuit: CircuitId) -> Option<CircuitCounts> {
        let c = &mut self.circuits;
        let mut at = c.find(circuit)?;
        if c.entries[at].is_in_pdu() {
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
        for entry in c.entries.iter_mut().filter(|e| e.is_in_pdu() && e.began < limit) {
            lose(entry, DropReason::Timeout, &mut c.free, &mut c.counters);
            entry.reset();
            dropped += 1;
        }
        dropped
    }

    /// Buffers that are neither lent nor taken by a PDU on its way.
    pub fn free_buffers(&self) -> usize {
        self.circuits.free.len()
    }

    /// What has been counted over all circuits.
    pub const fn counters(&self) -> &Counters {
        &self.circuits.counters
    }
}

fn counts(entry: &Entry) -> CircuitCounts {
    CircuitCounts { pdus: entry.pdus, dropped: entry.dropped }
}
