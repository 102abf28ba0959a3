//! SDUs that have left in parcels ([`net::parcel`]): they are sent, but their slots and buffers stay the host's until
//! somebody has read them.

use super::Outbound;
use crate::lent::Lent;
use endpoint::layout::{Descriptor, Head};
use endpoint::ring::Consumer;
use endpoint::segment::Segment;
use net::SduMemory;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering, fence};

/// Cells of a channel that are aboard at once, at most, unless one SDU has more. Receivers keep what their applications
/// have no room for yet: at most three quarters of the window that each hop of a circuit with credits grants, so that
/// no switch on the way has to cut a parcel for want of credit.
pub(crate) const MOST_CELLS: usize = 1536;
/// Handles of memory that are kept for later parcels, at most.
const SPARE: usize = 64;
/// SDUs whose slots and buffers are given back in one round, but for the rest of a parcel.
const ROUND_LANDED: u32 = 1024;

/// Whoever has this reads SDUs of a parcel where they are, though the parcel itself is gone.
#[derive(Debug)]
pub(crate) struct ReadGuard;

/// The memory that the SDUs of one parcel are in.
#[derive(Debug)]
pub(crate) struct ParcelMemory {
    /// `Some` until drop.
    segment: Option<Arc<Segment>>,
    /// The same, if it is lent; a borrower takes the second handle.
    lent: Option<(Arc<Lent>, Arc<ReadGuard>)>,
}

impl ParcelMemory {
    fn new(segment: &Arc<Segment>, lent: Option<&Arc<Lent>>) -> Self {
        ParcelMemory { segment: Some(segment.clone()), lent: lent.map(|lent| (lent.clone(), Arc::new(ReadGuard))) }
    }

    /// The memory that it lends, and what a borrower has as long as it reads.
    #[inline]
    pub(crate) fn lent(&self) -> Option<(&Arc<Lent>, &Arc<ReadGuard>)> {
        self.lent.as_ref().map(|(lent, held)| (lent, held))
    }

    /// Whether a borrower reads. Valid only once the parcel has left the network.
    fn is_borrowed(&self) -> bool {
        let borrowed = self.lent.as_ref().is_some_and(|(_, held)| Arc::strong_count(held) > 1);
        // The borrower has read what it was to read before it dropped its handle.
        fence(Ordering::Acquire);
        borrowed
    }
}

/// True while the parcel of this memory is in the network. If false, its reads happened before, and a borrower has its handle.
fn is_in_network(memory: &Arc<ParcelMemory>) -> bool {
    let there = Arc::strong_count(memory) > 1;
    fence(Ordering::Acquire);
    there
}

impl SduMemory for ParcelMemory {
    fn octets(&self, at: usize, octets: usize) -> &[AtomicU8] {
        self.segment.as_ref().map_or(&[], |segment| segment.octets(at, octets))
    }
}

impl Drop for ParcelMemory {
    fn drop(&mut self) {
        let Some(segment) = self.segment.take() else { return };
        // Where its endpoint has gone, a parcel may be the last that has the memory, and a shard's thread the last that
        // has the parcel. An endpoint that is there has it more often: by the handles that it keeps.
        if Arc::strong_count(&segment) <= SPARE {
            crate::reaper::dispose(segment);
        }
    }
}

/// One parcel.
#[derive(Debug)]
struct Load {
    /// This side's handle: the only one once the parcel has been read.
    memory: Arc<ParcelMemory>,
    channel: u32,
    cells: usize,
    /// Entries, a chain.
    first: u32,
    pdus: u32,
}

/// The parcels of an endpoint.
#[derive(Debug, Default)]
pub(super) struct InFlightParcels {
    loads: VecDeque<Load>,
    /// Of a lending endpoint, how many of the first have left the network.
    left: usize,
    spare: Vec<Arc<ParcelMemory>>,
    pdus: u32,
}

impl InFlightParcels {
    pub(super) fn pdus(&self) -> u32 {
        self.pdus
    }
}

impl Outbound {
    /// A handle of an endpoint's memory for a parcel.
    pub(crate) fn memory(&mut self, segment: &Arc<Segment>, lent: Option<&Arc<Lent>>) -> Arc<ParcelMemory> {
        self.aboard.spare.pop().unwrap_or_else(|| Arc::new(ParcelMemory::new(segment, lent)))
    }

    /// A handle that no parcel was made with.
    pub(crate) fn keep(&mut self, memory: Arc<ParcelMemory>) {
        if self.aboard.spare.len() < SPARE {
            self.aboard.spare.push(memory);
        }
    }

    /// Cells of SDUs that a channel may send in parcels now: one SDU of any length if it has none there.
    pub(crate) fn room_aboard(&self, channel: u32) -> usize {
        match self.lanes.get(channel as usize).map_or(0, |lane| lane.aboard) {
            0 => usize::MAX,
            aboard => MOST_CELLS.saturating_sub(aboard),
        }
    }

    /// A channel's oldest descriptor, or the one behind an earlier answer, and its number for the next call.
    pub(crate) fn follow(&self, channel: u32, before: Option<u32>) -> Option<(u32, &Descriptor)> {
        let lane = self.lanes.get(channel as usize).filter(|lane| lane.queued > 0)?;
        let at = before.map_or(lane.first, |before| self.entries[before as usize].next);
        (before != Some(lane.last)).then(|| (at, &self.entries[at as usize].descriptor))
    }

    /// A channel's oldest `pdus` descriptors, of so many cells and none of them begun, have left in a parcel of this
    /// memory.
    pub(crate) fn load(&mut self, channel: u32, memory: Arc<ParcelMemory>, (pdus, cells): (u32, usize)) {
        let Some(lane) = self.lanes.get_mut(channel as usize) else { return };
        let first = lane.first;
        for _ in 0..pdus {
            lane.first = self.entries[lane.first as usize].next;
        }
        lane.queued -= pdus;
        lane.aboard += cells;
        self.aboard.pdus += pdus;
        self.aboard.loads.push_back(Load { memory, channel, cells, first, pdus });
    }

    /// Gives back slots and buffers of parcels that have been read, a piece at a time. Gives how many SDUs they had,
    /// and whether a channel may send more: what a borrower reads has left the network. If there were any, there may be
    /// more of them.
    pub(crate) fn land(&mut self, ring: &mut Consumer) -> (u32, bool) {
        let before = self.aboard.pdus;
        let lends = self.aboard.loads.front().is_some_and(|load| load.memory.lent.is_some());
        let landed = if lends { self.land_in_order(ring) } else { self.land_any(ring) };
        (before - self.aboard.pdus, landed)
    }

    /// Those of an endpoint that may have several channels, whose SDUs are read in any order.
    fn land_any(&mut self, ring: &mut Consumer) -> bool {
        let (mut at, before, pdus) = (0, self.aboard.loads.len(), self.aboard.pdus);
        while pdus - self.aboard.pdus < ROUND_LANDED
            && let Some(load) = self.aboard.loads.get(at)
        {
            if is_in_network(&load.memory) {
                at += 1;
            } else if let Some(load) = self.aboard.loads.swap_remove_back(at) {
                self.leave(load.channel, load.cells);
                self.give_back_load(load, ring);
            }
        }
        self.aboard.loads.len() < before
    }

    /// Those of a lending endpoint: its one channel's SDUs leave the network in order, and a borrower is done with them
    /// in order. So nothing behind the first that is out has to be looked at, however many are.
    fn land_in_order(&mut self, ring: &mut Consumer) -> bool {
        let (before, pdus) = (self.aboard.left, self.aboard.pdus);
        while let Some(load) = self.aboard.loads.get(self.aboard.left).filter(|load| !is_in_network(&load.memory)) {
            let (channel, cells) = (load.channel, load.cells);
            self.leave(channel, cells);
            self.aboard.left += 1;
        }
        let landed = self.aboard.left > before;
        while self.aboard.left > 0
            && pdus - self.aboard.pdus < ROUND_LANDED
            && self.aboard.loads.front().is_some_and(|load| !load.memory.is_borrowed())
            && let Some(load) = self.aboard.loads.pop_front()
        {
            self.aboard.left -= 1;
            self.give_back_load(load, ring);
        }
        landed
    }

    /// So many cells of a channel have left the network.
    fn leave(&mut self, channel: u32, cells: usize) {
        if let Some(lane) = self.lanes.get_mut(channel as usize) {
            lane.aboard -= cells;
        }
    }

    /// A parcel's slots and buffers are the application's again.
    fn give_back_load(&mut self, load: Load, ring: &mut Consumer) {
        let Load { memory, first, pdus, .. } = load;
        self.keep(memory);
        self.aboard.pdus -= pdus;
        let mut entry = first;
        for _ in 0..pdus {
            let super::Entry { descriptor: Descriptor { head: Head { channel, buffer, .. }, .. }, position, next } =
                self.entries[entry as usize];
            self.free.push(entry);
            self.give_back(ring, position, (channel, buffer));
            entry = next;
        }
    }

    /// Whether something has left that has not been read.
    pub(crate) fn is_aboard(&self) -> bool {
        self.aboard.pdus > 0
    }
}
