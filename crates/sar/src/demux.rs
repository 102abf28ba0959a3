//! AAL5 reassembly of many circuits whose cells come mixed, into the buffers of one pool.
//!
//! A circuit has half a cache line in an open-addressed table; a cell costs one lookup, one payload and the CRC,
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

use crate::kernel::{
    Circuits, Delivery, DemuxConfig, Entry, FREE, FreeBuffers, Kernel, PduPlace, Progress, Rest, SLOT, Turns, WIRE,
    head_of, lose,
};
use core::ops::Range;
use wire::aal5::MAX_SDU_OCTETS;
use wire::{Cell, CircuitId, Counters, DropReason, Time};

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

/// What one circuit has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CircuitCounts {
    /// SDUs delivered.
    pub pdus: u64,
    /// PDUs dropped.
    pub dropped: u32,
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
            rest: vec![Rest::default(); size].into(),
            shift: 30 - size.trailing_zeros(),
            open: 0,
            free: FreeBuffers::new(&config),
            lent: vec![false; config.buffers as usize].into(),
            now: Time::ZERO,
            turns: Turns::new(config.circuits),
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

    /// Octets of the table that holds the circuits' states, a quarter to half of it used when all are open.
    pub fn state_octets(&self) -> usize {
        size_of_val(&*self.circuits.entries)
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
        c.insert(Entry { head: head_of(circuit), ..Entry::EMPTY }, Rest::default());
        c.open += 1;
        Ok(())
    }

    /// Closes a circuit; a PDU that has begun is dropped. Gives what it had received.
    pub fn close(&mut self, circuit: CircuitId) -> Option<CircuitCounts> {
        let c = &mut self.circuits;
        let mut at = c.find(circuit)?;
        if c.entries[at].place.is_in_pdu() {
            lose(&mut c.entries[at], &mut c.rest[at], DropReason::Closed, &mut c.free, &mut c.counters);
        }
        let counts = counts(&c.entries[at], &c.rest[at]);
        c.open -= 1;
        c.turns.forget();
        // Entries behind it that were pushed on by it move up, or a search would end at the gap.
        let mask = c.entries.len() - 1;
        c.entries[at] = Entry::EMPTY;
        loop {
            at = (at + 1) & mask;
            if c.entries[at].head == FREE {
                return Some(counts);
            }
            let entry = core::mem::replace(&mut c.entries[at], Entry::EMPTY);
            let rest = core::mem::take(&mut c.rest[at]);
            c.insert(entry, rest);
        }
    }

    /// What a circuit has received.
    pub fn circuit(&self, circuit: CircuitId) -> Option<CircuitCounts> {
        let c = &self.circuits;
        c.find(circuit).map(|at| counts(&c.entries[at], &c.rest[at]))
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
        for (entry, rest) in c.entries.iter_mut().zip(&mut c.rest) {
            if entry.place.is_in_pdu() && c.free.began(entry.place) < limit {
                lose(entry, rest, DropReason::Timeout, &mut c.free, &mut c.counters);
                entry.place = PduPlace::IDLE;
                dropped += 1;
            }
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

fn counts(entry: &Entry, rest: &Rest) -> CircuitCounts {
    CircuitCounts { pdus: u64::from(rest.rounds) << 32 | u64::from(entry.pdus), dropped: rest.dropped }
}
