//! A bounded observer on a link: it copies what the link is given, for captures. What does not fit is counted, never
//! waited for; nor is anything after it until the next drain, so that a gap is between two drains and never inside one.
//! Whoever drains it may sleep meanwhile: it wakes its reader when there is something.

mod taps;

pub(crate) use taps::Taps;
pub use taps::{MAX_TAPS, TapId};

use crate::frame::{Frame, FrameAal, FramePool};
use crate::line::Side;
use sar::SduMeta;
use std::task::Waker;
use wire::{Cell, CircuitId, Time};

/// Cells, with what stands beside each, in a MiB.
const CELLS_IN_MIB: usize = (1 << 20) / (size_of::<Cell>() + size_of::<(Time, Side, Head)>());

/// What a tap copies and how much it holds between two [`crate::Network::drain_tap`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapConfig {
    /// Only these circuits (as the link names them); empty: all.
    pub circuits: Vec<CircuitId>,
    /// Records it holds.
    pub records: usize,
    /// Octets of cells and SDUs it holds.
    pub octets: usize,
}

impl Default for TapConfig {
    /// [`TapConfig::of_mib`] of 32 on all circuits.
    fn default() -> Self {
        TapConfig::of_mib(32, Vec::new())
    }
}

impl TapConfig {
    /// A tap that holds about `mib` MiB of cells, or of frames: 32 are three quarters of a second of a full OC-3c line.
    /// It takes up memory for what has waited in it, no more.
    pub fn of_mib(mib: usize, circuits: Vec<CircuitId>) -> Self {
        TapConfig { circuits, records: mib * CELLS_IN_MIB, octets: mib << 20 }
    }
}

/// One record of a tap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TapRecord<'a> {
    /// When the sender gave it to the link.
    pub at: Time,
    /// The end that sent it.
    pub from: Side,
    /// What it was.
    pub what: Tapped<'a>,
}

/// What a tap saw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tapped<'a> {
    /// A cell.
    Cell(&'a Cell),
    /// A whole SDU of a frame link.
    Frame {
        /// Its circuit.
        circuit: CircuitId,
        /// What the octets are.
        aal: FrameAal,
        /// What AAL5 carries beside the SDU.
        meta: SduMeta,
        /// The SDU.
        octets: &'a [u8],
    },
}

#[derive(Debug)]
enum Head {
    /// So many of the cells that come next.
    Cells(usize),
    Frame {
        circuit: CircuitId,
        aal: FrameAal,
        meta: SduMeta,
        start: usize,
        octets: usize,
    },
}

/// Records between two drains. Made by the reader, swapped with the tap's own, read, swapped again: no copy, no
/// allocation.
#[derive(Debug, Default)]
pub struct TapBuffer {
    heads: Vec<(Time, Side, Head)>,
    /// Apart from their heads, for a head beside a cell would take three cache lines.
    cells: Vec<Cell>,
    octets: Vec<u8>,
    /// Cells and frames.
    records: usize,
    dropped: u64,
}

impl TapBuffer {
    /// An empty buffer with the memory that `config` asks for.
    pub fn new(config: &TapConfig) -> Self {
        TapBuffer {
            heads: Vec::with_capacity(config.records),
            cells: Vec::with_capacity(config.records),
            octets: Vec::with_capacity(config.octets),
            records: 0,
            dropped: 0,
        }
    }

    /// What was seen, oldest first. Many are best taken by [`Iterator::for_each`].
    pub fn records(&self) -> impl Iterator<Item = TapRecord<'_>> {
        let mut left = &self.cells[..];
        self.heads.iter().flat_map(move |&(at, from, ref head)| {
            let (cells, frame) = match head {
                Head::Cells(n) => (left.split_off(..(*n).min(left.len())), None),
                Head::Frame { circuit, aal, meta, start, octets } => {
                    let octets = &self.octets[*start..*start + *octets];
                    (None, Some(Tapped::Frame { circuit: *circuit, aal: *aal, meta: *meta, octets }))
                }
            };
            let cells = cells.unwrap_or_default().iter().map(Tapped::Cell);
            cells.chain(frame).map(move |what| TapRecord { at, from, what })
        })
    }

    /// Puts the records of another buffer among these, by their times; of equal times these come first. The other is
    /// emptied.
    pub(crate) fn merge(&mut self, other: &mut TapBuffer) {
        self.dropped += other.dropped;
        self.records += std::mem::take(&mut other.records);
        if other.heads.is_empty() {
            return;
        }
        let base = self.octets.len();
        self.octets.append(&mut other.octets);
        let [mut mine, mut theirs] = [&mut *self, other].map(|buffer| {
            (std::mem::take(&mut buffer.heads).into_iter().peekable(), std::mem::take(&mut buffer.cells).into_iter())
        });
        while mine.0.peek().is_some() || theirs.0.peek().is_some() {
            let theirs_first = match (mine.0.peek(), theirs.0.peek()) {
                (Some(mine), Some(theirs)) => theirs.0 < mine.0,
                (mine, _) => mine.is_none(),
            };
            let (heads, cells) = if theirs_first { &mut theirs } else { &mut mine };
            let Some((at, from, mut head)) = heads.next() else { break };
            match &mut head {
                Head::Cells(n) => self.cells.extend(cells.take(*n)),
                Head::Frame { start, .. } if theirs_first => *start += base,
                Head::Frame { .. } => {}
            }
            self.heads.push((at, from, head));
        }
    }

    /// Cells and frames that did not fit since the last drain: they came after all that is in here.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Records in it.
    pub fn len(&self) -> usize {
        self.records
    }

    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Forgets all records, keeps the memory.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.cells.clear();
        self.octets.clear();
        self.records = 0;
        self.dropped = 0;
    }
}

/// The records of two buffers by their times; of equal times those of the first come first.
pub fn merged([first, second]: &[TapBuffer; 2]) -> impl Iterator<Item = TapRecord<'_>> {
    let (mut first, mut second) = (first.records().peekable(), second.records().peekable());
    std::iter::from_fn(move || match (first.peek(), second.peek()) {
        (Some(one), Some(other)) if other.at < one.at => second.next(),
        (Some(_), _) => first.next(),
        (None, _) => second.next(),
    })
}

/// A tap at work on one link.
#[derive(Debug)]
pub(crate) struct Tap {
    config: TapConfig,
    buffer: TapBuffer,
    reader: Option<Waker>,
    /// The reader knows already that there is something.
    is_told: bool,
}

impl Tap {
    pub(crate) fn new(config: TapConfig) -> Self {
        Tap { buffer: TapBuffer::new(&config), config, reader: None, is_told: false }
    }

    pub(crate) fn set_reader(&mut self, reader: Waker) {
        self.reader = Some(reader);
        self.is_told = false;
        self.tell();
    }

    /// Wakes the reader, if there is something and it has not been told since it was here last.
    fn tell(&mut self) {
        if self.is_told || (self.buffer.is_empty() && self.buffer.dropped == 0) {
            return;
        }
        self.is_told = true;
        if let Some(reader) = &self.reader {
            reader.wake_by_ref();
        }
    }

    fn wants(&self, circuit: CircuitId) -> bool {
        self.config.circuits.is_empty() || self.config.circuits.contains(&circuit)
    }

    /// How many of so many more records it takes.
    fn room(&self, records: usize) -> usize {
        if self.buffer.dropped > 0 { 0 } else { self.config.records.saturating_sub(self.buffer.records).min(records) }
    }

    pub(crate) fn see_cells(&mut self, cells: &[Cell], from: Side, at: Time) {
        if self.config.circuits.is_empty() {
            self.see_run(cells, from, at);
        } else {
            for run in cells.chunk_by(|one, next| one.circuit() == next.circuit()) {
                if self.wants(run[0].circuit()) {
                    self.see_run(run, from, at);
                }
            }
        }
        self.tell();
    }

    fn see_run(&mut self, cells: &[Cell], from: Side, at: Time) {
        let n = self.room(cells.len());
        self.buffer.dropped += (cells.len() - n) as u64;
        if n == 0 {
            return;
        }
        self.buffer.records += n;
        match self.buffer.heads.last_mut() {
            Some((before, side, Head::Cells(run))) if (*before, *side) == (at, from) => *run += n,
            _ => self.buffer.heads.push((at, from, Head::Cells(n))),
        }
        self.buffer.cells.extend_from_slice(&cells[..n]);
    }

    pub(crate) fn see_frame(&mut self, frame: &Frame, pool: &FramePool, from: Side, at: Time) {
        if !self.wants(frame.circuit) {
            return;
        }
        if self.room(1) == 0 || self.buffer.octets.len() + frame.len() > self.config.octets {
            self.buffer.dropped += 1;
        } else {
            self.buffer.records += 1;
            let start = self.buffer.octets.len();
            self.buffer.octets.extend_from_slice(pool.octets(frame));
            let (circuit, aal, meta) = (frame.circuit, frame.aal, frame.meta);
            self.buffer.heads.push((at, from, Head::Frame { circuit, aal, meta, start, octets: frame.len() }));
        }
        self.tell();
    }

    pub(crate) fn swap(&mut self, other: &mut TapBuffer) {
        other.clear();
        core::mem::swap(&mut self.buffer, other);
        self.is_told = false;
    }
}

impl Drop for Tap {
    /// Nothing comes any more: the reader is to see that.
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::CellHeader;

    fn cell(n: u8) -> Cell {
        Cell::new(CellHeader::default(), [n; 48])
    }

    fn tap(records: usize, octets: usize) -> Tap {
        Tap::new(TapConfig { circuits: Vec::new(), records, octets })
    }

    fn see_frame(tap: &mut Tap, sdu: &[u8], from: Side, at: u64) {
        let mut pool = FramePool::new(1, 64);
        let frame = pool.copy_in(CircuitId::from_key(100), FrameAal::Aal5, SduMeta::default(), sdu).unwrap();
        tap.see_frame(&frame, &pool, from, Time::from_nanos(at));
    }

    /// Of each record the moment, the end and the octets.
    fn seen(buffer: &TapBuffer) -> Vec<(u64, Side, Vec<u8>)> {
        let octets = |what: Tapped<'_>| match what {
            Tapped::Cell(cell) => cell.payload[..1].to_vec(),
            Tapped::Frame { octets, .. } => octets.to_vec(),
        };
        buffer.records().map(|record| (record.at.as_nanos(), record.from, octets(record.what))).collect()
    }

    #[test]
    fn two_buffers_become_one_in_the_order_of_time() {
        let (mut one, mut other) = (tap(100, 100), tap(100, 100));
        one.see_cells(&[cell(1), cell(2)], Side::A, Time::from_nanos(10));
        see_frame(&mut one, b"one", Side::A, 20);
        one.see_cells(&[cell(3)], Side::A, Time::from_nanos(30));
        other.see_cells(&[cell(11), cell(12), cell(13)], Side::B, Time::from_nanos(5));
        other.see_cells(&[cell(14)], Side::B, Time::from_nanos(20));
        see_frame(&mut other, b"other", Side::B, 25);
        other.see_cells(&[cell(15), cell(16)], Side::B, Time::from_nanos(30));
        let both = [std::mem::take(&mut one.buffer), std::mem::take(&mut other.buffer)];
        let in_order: Vec<u64> = merged(&both).map(|record| record.at.as_nanos()).collect();
        [one.buffer, other.buffer] = both;
        one.buffer.merge(&mut other.buffer);
        let cells = |at, from, numbers: &[u8]| numbers.iter().map(|n| (at, from, vec![*n])).collect::<Vec<_>>();
        let expected = [
            cells(5, Side::B, &[11, 12, 13]),
            cells(10, Side::A, &[1, 2]),
            vec![(20, Side::A, b"one".to_vec())],
            cells(20, Side::B, &[14]),
            vec![(25, Side::B, b"other".to_vec())],
            cells(30, Side::A, &[3]),
            cells(30, Side::B, &[15, 16]),
        ];
        assert_eq!(seen(&one.buffer), expected.concat());
        assert!(seen(&one.buffer).iter().map(|(at, ..)| *at).eq(in_order));
        assert_eq!((one.buffer.len(), other.buffer.len(), other.buffer.is_empty()), (11, 0, true));
    }

    #[test]
    fn frames_fill_a_tap_to_the_octet_and_the_record_and_after_a_gap_nothing_more_comes() {
        let mut full = tap(100, 10);
        see_frame(&mut full, &[7; 6], Side::A, 1);
        see_frame(&mut full, &[8; 4], Side::A, 2);
        assert_eq!((full.buffer.len(), full.buffer.dropped()), (2, 0));
        see_frame(&mut full, &[9], Side::A, 3);
        full.see_cells(&[cell(1), cell(2)], Side::A, Time::from_nanos(4));
        assert_eq!((full.buffer.len(), full.buffer.dropped()), (2, 3));
        let mut few = tap(2, 100);
        see_frame(&mut few, &[7; 6], Side::A, 1);
        few.see_cells(&[cell(1), cell(2)], Side::A, Time::from_nanos(2));
        assert_eq!((few.buffer.len(), few.buffer.dropped()), (2, 1));
    }
}
