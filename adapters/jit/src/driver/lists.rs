//! Free lists by alignment: buffers of a page each, back to back in a row of frames, all displaced by the same octets; or buffers long
//! enough for the longest PDU.

use crate::{Buffer, Jit};
use bus::iocc::PAGE;
use bus::paged::Paged;
use remap::spaces::Hold;
use std::collections::BTreeMap;

/// Frames of a buffer that holds the longest PDU wherever it begins in its first page.
const LONG: u32 =
    (wire::aal5::cells(wire::aal5::MAX_SDU_OCTETS) * wire::cell::PAYLOAD_OCTETS).div_ceil(PAGE) as u32 + 1;
/// Buffers of a page that a list is filled up to.
const FULL: u32 = 40;

/// What the buffers of a list are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A page, from so many octets of a frame on.
    Shifted(usize),
    /// As long as the longest PDU.
    Long(usize),
}

#[derive(Debug)]
struct List {
    kind: Kind,
    /// Buffers that the adapter has, as far as the driver knows.
    there: u32,
}

/// Frames in a row, cut into buffers.
#[derive(Debug)]
struct Row {
    hold: Hold,
    list: usize,
    left: u32,
}

#[derive(Debug)]
pub(super) struct BufferLists {
    lists: Vec<List>,
    most: usize,
    row: u32,
    /// A row is a batch.
    batches: bool,
    rows: BTreeMap<u64, Row>,
    /// Each buffer's row.
    of_buffer: BTreeMap<u64, u64>,
    numbers: u64,
}

impl BufferLists {
    pub(super) fn new(most: usize, row: u32) -> Self {
        let (lists, rows, of_buffer) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        BufferLists { lists, most, row: row.max(1), batches: false, rows, of_buffer, numbers: 0 }
    }

    pub(super) const fn use_batches(&mut self, batches: bool) {
        self.batches = batches;
    }

    /// The list of a kind; a new one, if there is none yet. `None`: the adapter has no list left.
    pub(super) fn of(&mut self, adapter: &mut Jit, memory: &mut Paged, kind: Kind) -> Option<usize> {
        match self.lists.iter().position(|list| list.kind == kind) {
            Some(number) => Some(number),
            None if self.lists.len() < self.most => {
                self.lists.push(List { kind, there: 0 });
                let number = self.lists.len() - 1;
                adapter.set_threshold(number, FULL as usize / 4);
                self.fill(adapter, memory, number);
                Some(number)
            }
            None => None,
        }
    }

    /// Fills a list up.
    pub(super) fn fill(&mut self, adapter: &mut Jit, memory: &mut Paged, number: usize) {
        let Some(list) = self.lists.get(number) else { return };
        let (frames, buffers, octets, shift, full) = match list.kind {
            Kind::Shifted(0) => (self.row, self.row, PAGE, 0, FULL),
            Kind::Shifted(shift) => (self.row + 1, self.row, PAGE, shift, FULL),
            Kind::Long(shift) => (LONG, 1, LONG as usize * PAGE - shift, shift, 4),
        };
        while self.lists[number].there < full {
            let Some((hold, address)) = memory.hold(frames) else { return };
            let first = address + shift as u64;
            let mut batch: Vec<Buffer> = (0..u64::from(buffers))
                .map(|n| Buffer { address: first + n * PAGE as u64, octets: octets as u32 })
                .collect();
            let taken = match self.batches {
                true if adapter.replenish_batch(number, &batch) => batch.len(),
                true => 0,
                false => batch.iter().take_while(|buffer| adapter.replenish(number, **buffer)).count(),
            };
            batch.truncate(taken);
            if batch.is_empty() {
                return memory.unhold(hold);
            }
            self.lists[number].there += batch.len() as u32;
            let left = batch.len() as u32;
            self.numbers += 1;
            self.rows.insert(self.numbers, Row { hold, list: number, left });
            self.of_buffer.extend(batch.iter().map(|buffer| (buffer.address, self.numbers)));
        }
    }

    /// A buffer is no longer needed. When the last of its row is not, the frames are given back.
    pub(super) fn free(&mut self, memory: &mut Paged, buffer: Buffer) {
        let Some(number) = self.of_buffer.remove(&buffer.address) else { return };
        let Some(row) = self.rows.get_mut(&number) else { return };
        row.left -= 1;
        self.lists[row.list].there -= 1;
        if row.left == 0 {
            memory.unhold(row.hold);
            self.rows.remove(&number);
        }
    }

    /// Fills up the lists that have become short.
    pub(super) fn fill_low(&mut self, adapter: &mut Jit, memory: &mut Paged) {
        for number in 0..self.lists.len() {
            let full = if matches!(self.lists[number].kind, Kind::Long(_)) { 4 } else { FULL };
            if self.lists[number].there <= full / 2 {
                self.fill(adapter, memory, number);
            }
        }
    }
}
