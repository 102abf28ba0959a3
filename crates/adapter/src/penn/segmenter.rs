//! The Segmenter (checklist B-6, B-7, B-10, B-11): streams a range of the host's memory into cells.
//!
//! A cell leaves as soon as its data have come over the bus, at most at the line's pace. On a circuit a cell's payload is 48
//! octets as they are; where the VCI's highest bit marks connectionless traffic (B-4) it is a SAR-PDU of AAL3/4, with
//! segment type, sequence number, MID, length and CRC-10. The last cell is filled up with zeros.

use super::{FAILED, IDLE, Streaming};
use crate::memory::HostMemory;
use traffic::Pacer;
use wire::aal34::{SAR_PAYLOAD_OCTETS, Segment, SegmentType};
use wire::cell::PAYLOAD_OCTETS;
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
}

#[derive(Debug, Clone, Copy)]
struct Job {
    source: u32,
    length: u32,
    header: CellHeader,
    mid: Option<u16>,
    done: u32,
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

/// The card.
#[derive(Debug, Clone)]
pub struct Segmenter {
    streaming: Streaming,
    registers: [u32; 5],
    job: Option<Job>,
    failed: bool,
    line: Pacer,
    counters: Counters,
}

impl Segmenter {
    /// As after power is switched on, on a line of OC-3c.
    pub fn new(streaming: Streaming) -> Self {
        Segmenter {
            streaming,
            registers: [0; 5],
            job: None,
            failed: false,
            line: Pacer::new(CellRate::OC3C, core::time::Duration::ZERO),
            counters: Counters::default(),
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
                self.job = Some(Job { source, length, header, mid, done: 0, begun: now, sequence: 0 });
            }
            _ => self.counters.drop_one(DropReason::BadDescriptor),
        }
    }

    /// Cells that have left by `now`, to the front of `out`; gives how many.
    pub fn fill(&mut self, out: &mut [Cell], memory: &mut impl HostMemory, now: Time) -> usize {
        let mut filled = 0;
        while filled < out.len() && self.poll_timeout().is_some_and(|due| due <= now) {
            let Some(job) = &mut self.job else { break };
            let n = job.next_octets();
            let mut payload = [0; PAYLOAD_OCTETS];
            let address = u64::from(job.source) + u64::from(job.done);
            if memory.read(address, &mut payload[..n as usize]).is_err() {
                self.counters.drop_one(DropReason::BadDescriptor);
                (self.job, self.failed) = (None, true);
                break;
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
                let segment = Segment { segment_type, sequence: job.sequence, mid, li };
                let mut body = [0; SAR_PAYLOAD_OCTETS];
                body.copy_from_slice(&payload[..SAR_PAYLOAD_OCTETS]);
                payload = segment.emit(&body);
            }
            out[filled] = Cell::new(job.header, payload);
            filled += 1;
            job.done += n;
            job.sequence = job.sequence.wrapping_add(1) & 15;
            self.counters.cells = self.counters.cells.wrapping_add(1);
            self.counters.octets = self.counters.octets.wrapping_add(n.into());
            self.line.sent(1, now);
            if last {
                self.counters.pdus = self.counters.pdus.wrapping_add(1);
                self.job = None;
            }
        }
        filled
    }

    /// When the next cell leaves.
    pub fn poll_timeout(&self) -> Option<Time> {
        let job = self.job?;
        let streamed = job.begun + self.streaming.setup + self.streaming.of(job.done + job.next_octets());
        Some(streamed.max(self.line.next_time()))
    }

    /// Cells and octets sent, transfers done; starts and transfers that failed.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }
}
