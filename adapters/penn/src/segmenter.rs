//! The Segmenter: streams a range of the host's memory into cells.
//!
//! Three units: the bus fills the data buffer, the segmentation controller extracts one cell's data from it as soon as they
//! are there, and a [`Framer`] passes header and body to the SONET framer, an octet each clock of the line, HEC and CRC-10
//! made meanwhile. The bus works on later data while the framer is at a cell.
//!
//! A cell leaves as soon as its data have come over the bus, at most at the line's pace. On a circuit a cell's payload is 48
//! octets as they are; where the VCI's highest bit marks connectionless traffic (Traw and Smith, 1993) it is a SAR-PDU of AAL3/4, with
//! segment type, sequence number, MID, length and CRC-10. The last cell is filled up with zeros.
//!
//! The bus is either the card's own, which streams at a given pace, or another's: then [`Segmenter::wanted`] says what the
//! card would take next, [`Segmenter::handle_bus`] that it has come, and no cell leaves before its octets have.

use super::{FAILED, IDENTIFIER, IDLE, Streaming};
use crate::reassembly::units::serial::Framer;
use bus::memory::HostMemory;
use core::time::Duration;
use traffic::Pacer;
use wire::aal34::{SAR_PAYLOAD, SAR_PAYLOAD_OCTETS, Segment, SegmentType};
use wire::cell::{CELL_OCTETS, PAYLOAD_OCTETS};
use wire::{Cell, CellHeader, CellRate, Counters, DropReason, Time};

/// Registers by number.
pub mod register {
    /// Any access resets the card.
    pub const RESET: u32 = 0;
    /// Where in the host's memory the data begin.
    pub const SOURCE: u32 = 1;
    /// Octets.
    pub const LENGTH: u32 = 2;
    /// The cells' header: VCI, payload type, loss priority, as in a cell.
    pub const HEADER: u32 = 3;
    /// Multiplexing identification, for connectionless traffic.
    pub const MID: u32 = 4;
    /// A write starts.
    pub const START: u32 = 5;
    /// [`super::IDLE`], [`super::FAILED`].
    pub const STATUS: u32 = 6;
    /// [`crate::IDENTIFIER`].
    pub const IDENTIFIER: u32 = 7;
    /// Cells a second of the daughter board's line.
    pub const LINE: u32 = 8;
}

/// Octets that have come over the bus and not left in a cell, at most. The paper says that there is a buffer, not its size.
pub const BUFFER_OCTETS: u32 = 512;

#[derive(Debug, Clone, Copy)]
struct Job {
    source: u32,
    length: u32,
    header: CellHeader,
    mid: Option<u16>,
    done: u32,
    /// Octets that have come over a bus that is not the card's own.
    crossed: u32,
    begun: Time,
    sequence: u8,
}

impl Job {
    const fn unit(&self) -> u32 {
        if self.mid.is_some() { SAR_PAYLOAD_OCTETS as u32 } else { PAYLOAD_OCTETS as u32 }
    }

    /// Octets of the next cell.
    fn next_octets(&self) -> u32 {
        self.unit().min(self.length - self.done)
    }
}

/// A cell as the SONET framer gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framed {
    /// Header, HEC, body.
    pub octets: [u8; CELL_OCTETS],
    /// When the first octet comes.
    pub first: Time,
    /// When the last one is through: 53 clocks of the line later.
    pub last: Time,
}

/// The card.
#[derive(Debug, Clone)]
pub struct Segmenter {
    /// `None`: the bus is another's.
    streaming: Option<Streaming>,
    registers: [u32; 5],
    job: Option<Job>,
    failed: bool,
    line: Pacer,
    /// From a cell's first octet to its last, nanoseconds.
    cell_nanos: f64,
    counters: Counters,
}

impl Segmenter {
    /// As after power is switched on, on a line of OC-3c, with a bus of its own.
    pub fn new(streaming: Streaming) -> Self {
        Self::with(Some(streaming), CellRate::OC3C)
    }

    /// The same with another daughter board: lines of up to 160 Mbit/s were planned for (Traw and Smith, 1993).
    pub fn on_line(streaming: Streaming, line: CellRate) -> Self {
        Self::with(Some(streaming), line)
    }

    /// On a bus that whoever calls simulates.
    pub fn on_bus(line: CellRate) -> Self {
        Self::with(None, line)
    }

    fn with(streaming: Option<Streaming>, line: CellRate) -> Self {
        Segmenter {
            streaming,
            registers: [0; 5],
            job: None,
            failed: false,
            line: Pacer::new(line, Duration::ZERO),
            cell_nanos: line.interval_nanos(),
            counters: Counters::default(),
        }
    }

    /// Octets that the card would take over another's bus next: `burst`, or what is left; none while there is no room.
    pub fn wanted(&self, burst: u32) -> u32 {
        let Some(job) = self.job.as_ref().filter(|_| self.streaming.is_none()) else { return 0 };
        let next = burst.min(job.length - job.crossed);
        if next <= BUFFER_OCTETS.saturating_sub(job.crossed.saturating_sub(job.done)) { next } else { 0 }
    }

    /// `octets` octets have come over another's bus.
    pub fn handle_bus(&mut self, octets: u32) {
        if let Some(job) = &mut self.job {
            job.crossed = job.crossed.saturating_add(octets).min(job.length);
        }
    }

    fn reset(&mut self) {
        (self.registers, self.job, self.failed) = ([0; 5], None, false);
    }

    /// Reads a register; one that is not there reads as ones.
    pub fn read(&mut self, register: u32) -> u32 {
        match register {
            register::RESET => {
                self.reset();
                0
            }
            register::SOURCE..=register::MID => self.registers[register as usize],
            register::IDENTIFIER => IDENTIFIER,
            register::LINE => (1e9 / self.cell_nanos) as u32,
            register::STATUS => (u32::from(self.job.is_none()) * IDLE) | (u32::from(self.failed) * FAILED),
            _ => u32::MAX,
        }
    }

    /// Writes a register. A start while a transfer runs, or of no octets, is counted and does nothing.
    pub fn write(&mut self, register: u32, value: u32, now: Time) {
        match register {
            register::RESET => self.reset(),
            register::SOURCE..=register::MID => self.registers[register as usize] = value,
            register::START => {
                let [_, source, length, header, mid] = self.registers;
                if self.job.is_some() || length == 0 {
                    return self.counters.drop_one(DropReason::BadDescriptor);
                }
                let header = CellHeader::from_word(header);
                let connectionless = header.circuit.vci.get() & 0x8000 != 0;
                let mid = connectionless.then_some(mid as u16 & 0x3ff);
                self.failed = false;
                self.job = Some(Job { source, length, header, mid, done: 0, crossed: 0, begun: now, sequence: 0 });
            }
            _ => self.counters.drop_one(DropReason::BadDescriptor),
        }
    }

    /// Cells that have left by `now`, to the front of `out`; gives how many.
    pub fn fill(&mut self, out: &mut [Cell], memory: &mut impl HostMemory, now: Time) -> usize {
        let mut filled = 0;
        while filled < out.len()
            && let Some(framed) = self.frame(memory, now)
        {
            let [a, b, c, d, _, payload @ ..] = framed.octets;
            out[filled] = Cell::new(CellHeader::from_word(u32::from_be_bytes([a, b, c, d])), payload);
            filled += 1;
        }
        filled
    }

    /// The next cell that has begun to leave by `now`, octet by octet.
    pub fn frame(&mut self, memory: &mut impl HostMemory, now: Time) -> Option<Framed> {
        if self.poll_timeout().is_none_or(|due| due > now) {
            return None;
        }
        let job = self.job.as_mut()?;
        let n = job.next_octets();
        let mut payload = [0; PAYLOAD_OCTETS];
        let place = if job.mid.is_some() { SAR_PAYLOAD.start } else { 0 };
        let address = u64::from(job.source) + u64::from(job.done);
        if memory.read(address, &mut payload[place..place + n as usize]).is_err() {
            self.counters.drop_one(DropReason::BadDescriptor);
            (self.job, self.failed) = (None, true);
            return None;
        }
        let last = job.done + n == job.length;
        if let Some(mid) = job.mid {
            let segment_type = match (job.done == 0, last) {
                (true, true) => SegmentType::Single,
                (true, false) => SegmentType::Begin,
                (false, true) => SegmentType::End,
                (false, false) => SegmentType::Continuation,
            };
            // A CPCS-PDU is whole words, and at least two where one cell holds it.
            let least = if segment_type == SegmentType::Single { 8 } else { 4 };
            let li = n.next_multiple_of(4).max(least) as u8;
            Segment { segment_type, sequence: job.sequence, mid, li }.put_fields(&mut payload);
        }
        let octets = Framer::new(job.header.to_word(), payload, job.mid.is_some()).frame();
        job.done += n;
        job.sequence = job.sequence.wrapping_add(1) & 15;
        self.counters.cells = self.counters.cells.wrapping_add(1);
        self.counters.octets = self.counters.octets.wrapping_add(n.into());
        self.line.sent(1, now);
        if last {
            self.counters.pdus = self.counters.pdus.wrapping_add(1);
            self.job = None;
        }
        Some(Framed { octets, first: now, last: now + Duration::from_nanos(self.cell_nanos as u64) })
    }

    /// When the next cell leaves; `None` if there is none, or its octets have yet to come over another's bus.
    pub fn poll_timeout(&self) -> Option<Time> {
        let job = self.job?;
        let octets = job.done + job.next_octets();
        let streamed = match self.streaming {
            Some(streaming) => job.begun + streaming.setup + streaming.of(octets),
            None if job.crossed >= octets => job.begun,
            None => return None,
        };
        Some(streamed.max(self.line.next_time()))
    }

    /// Cells and octets sent, transfers done; starts and transfers that failed.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }
}
