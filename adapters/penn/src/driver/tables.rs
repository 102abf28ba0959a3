//! The driver's tables: an entry for each circuit (VC table), for each connectionless PDU that is whole (DG table).
//! Traw and Smith 1993, sections 4.1.3.1 and 4.1.3.2.

use super::TABLE;
use super::cs::Aal;
use super::pacing::Pace;
use super::shared::{Isochronous, Region};
use bus::memory::Descriptor;
use core::time::Duration;
use std::collections::VecDeque;
use wire::Time;

/// Status of a VC table entry: the reassembler has a list for it.
pub const VC_ACTIVE: u32 = 1;
/// A reader's buffer is mapped to it.
pub const VC_MAPPED: u32 = 2;
/// Cells are being fetched for it.
pub const VC_FETCHING: u32 = 4;
/// A reader's buffer has no room for a cell.
pub const VC_FULL: u32 = 8;

/// An entry of the VC table, as the paper lists it: `vc_t`.
#[derive(Debug, Clone)]
pub(super) struct Vc {
    pub(super) vci: u16,
    /// `vc_status`.
    pub(super) status: u32,
    /// `vc_x`: the cross-memory descriptor of the reader's buffer.
    pub(super) x: Option<Descriptor>,
    /// `vc_buf` and `vc_len`: where that buffer is in the reader's memory, and how long.
    pub(super) buf: u32,
    pub(super) len: u32,
    /// Octets of it that have come and have not been read.
    pub(super) filled: u32,
    /// The reassembler's list, once it has one.
    pub(super) list: Option<u16>,
    /// Octets that wait in the kernel, where no buffer is mapped.
    pub(super) data: VecDeque<u8>,
    /// `vc_poll_rate`, as a period, and `vc_poll_time`.
    pub(super) poll_rate: Duration,
    pub(super) poll_time: Time,
    /// `vc_next` and `vc_prev`.
    pub(super) next: Option<usize>,
    pub(super) previous: Option<usize>,
    /// `vc_dgs`: the first of this circuit's entries of the DG table.
    pub(super) dgs: Option<usize>,
    /// `vc_x` is another card's memory.
    pub(super) card: bool,
    pub(super) aal: Aal,
    /// Of the last PDU sent.
    pub(super) tag: u8,
    pub(super) pace: Pace,
    /// Regions shared with the process.
    pub(super) send: Option<Region>,
    pub(super) receive: Option<Region>,
    pub(super) isochronous: Option<Isochronous>,
    /// How often it was polled.
    pub(super) polls: u64,
}

impl Vc {
    pub(super) fn new(vci: u16, tick: Duration, now: Time) -> Self {
        Vc {
            vci,
            status: 0,
            x: None,
            buf: 0,
            len: 0,
            filled: 0,
            list: None,
            data: VecDeque::new(),
            poll_rate: tick,
            poll_time: now + tick,
            next: None,
            previous: None,
            dgs: None,
            card: false,
            aal: Aal::Bare,
            tag: 0,
            pace: Pace::default(),
            send: None,
            receive: None,
            isochronous: None,
            polls: 0,
        }
    }

    pub(super) const fn set(&mut self, flag: u32, on: bool) {
        self.status = if on { self.status | flag } else { self.status & !flag };
    }

    /// What is attached of its process's memory.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = Descriptor> {
        let regions = [self.send, self.receive].map(|region| region.map(|region| region.x));
        self.x.filter(|_| !self.card).into_iter().chain(regions.into_iter().flatten())
    }

    /// Octets that may come into the reader's buffer; of the kernel, where none is mapped.
    pub(super) fn room(&self, kernel: usize) -> usize {
        match self.x {
            Some(_) => (self.len - self.filled) as usize,
            None => kernel.saturating_sub(self.data.len()),
        }
    }
}

/// What an entry of the VC table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcView {
    /// [`VC_ACTIVE`], [`VC_MAPPED`], [`VC_FETCHING`], [`VC_FULL`].
    pub status: u32,
    /// The mapped buffer, in the reader's memory.
    pub buf: u32,
    /// Its octets.
    pub len: u32,
    /// Entries of the DG table that hang on it.
    pub dgs: usize,
    /// How often it was polled.
    pub polls: u64,
    /// When it is polled next.
    pub poll_time: Time,
}

/// An entry of the DG table: `dg_t`.
#[derive(Debug, Clone, Default)]
struct Dg {
    used: bool,
    /// The PDU, copied from the kernel's 64 KB buffer once its length register has been read.
    data: Vec<u8>,
    next: Option<usize>,
}

/// The DG table: 256 entries, each on the singly-linked list (`dg_list_t`) of one circuit, or free.
#[derive(Debug, Clone)]
pub(super) struct DgTable {
    entries: Box<[Dg]>,
    used: usize,
}

impl DgTable {
    pub(super) fn new() -> Self {
        DgTable { entries: vec![Dg::default(); TABLE].into(), used: 0 }
    }

    /// Puts a PDU at the end of a list, which takes as long as the list is; gives it back where the table is full.
    pub(super) fn push(&mut self, head: &mut Option<usize>, data: Vec<u8>) -> Result<(), Vec<u8>> {
        let Some(free) = self.entries.iter().position(|entry| !entry.used) else { return Err(data) };
        self.entries[free] = Dg { used: true, data, next: None };
        self.used += 1;
        let last = core::iter::successors(*head, |at| self.entries[*at].next).last();
        match last {
            Some(last) => self.entries[last].next = Some(free),
            None => *head = Some(free),
        }
        Ok(())
    }

    /// Takes the first PDU off a list.
    pub(super) fn pop(&mut self, head: &mut Option<usize>) -> Option<Vec<u8>> {
        let entry = self.entries.get_mut((*head)?)?;
        let Dg { data, next, .. } = core::mem::take(entry);
        *head = next;
        self.used -= 1;
        Some(data)
    }

    pub(super) fn len(&self, head: Option<usize>) -> usize {
        core::iter::successors(head, |at| self.entries[*at].next).count()
    }

    /// Frees all entries of a list.
    pub(super) fn clear(&mut self, head: &mut Option<usize>) {
        while self.pop(head).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pdus_of_two_circuits_come_off_their_lists_in_order_and_entries_are_used_again() {
        let mut table = DgTable::new();
        let mut heads = [None, None];
        for n in 0..TABLE {
            assert_eq!(table.push(&mut heads[n % 2], vec![n as u8]), Ok(()));
        }
        assert_eq!(table.push(&mut heads[0], vec![1, 2]), Err(vec![1, 2]));
        assert_eq!((table.len(heads[0]), table.pop(&mut heads[0])), (128, Some(vec![0])));
        assert_eq!(table.push(&mut heads[1], vec![9]), Ok(()));
        for n in (1..TABLE).step_by(2) {
            assert_eq!(table.pop(&mut heads[1]), Some(vec![n as u8]));
        }
        assert_eq!((table.pop(&mut heads[1]), table.pop(&mut heads[1])), (Some(vec![9]), None));
        table.clear(&mut heads[0]);
        assert_eq!((table.used, heads), (0, [None, None]));
    }
}
