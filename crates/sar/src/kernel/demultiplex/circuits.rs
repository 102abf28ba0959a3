//! The table, the free buffers and the counters together, as the kernels work on them: buffers are taken and given
//! back, PDUs that have ended are judged, what is lost is counted.

use super::delivery::{Delivery, DemuxConfig};
use super::table::{Ended, Entry, FREE, PduPlace, Rest, Table, circuit_of, head_of, home, index};
use super::turns::Turns;
use crate::SduMeta;
use crate::fault::fault;
use wire::aal5::{Trailer, cells};
use wire::cell::PAYLOAD_OCTETS;
use wire::{CircuitId, Counters, DropReason, Time};

/// Octets of a line of the cache.
const LINE: usize = 64;

/// The table, the free buffers and the counters: what the kernels work on.
#[derive(Debug)]
pub(crate) struct Circuits {
    pub(crate) entries: Box<[Entry]>,
    /// What is seldom needed of the circuits, at the same places.
    pub(crate) rest: Box<[Rest]>,
    pub(crate) shift: u32,
    pub(crate) open: usize,
    pub(crate) free: FreeBuffers,
    pub(crate) lent: Box<[bool]>,
    pub(crate) now: Time,
    /// What is known of the order of cells.
    pub(crate) turns: Turns,
    /// Where the cells of no circuit are led, and those whose header is damaged.
    pub(crate) nowhere: Box<[Entry; 2]>,
    pub(crate) counters: Counters,
    pub(crate) config: DemuxConfig,
}

/// A free buffer: the place where it begins, and its number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fresh {
    pub(crate) place: PduPlace,
    pub(crate) buffer: u32,
}

/// The free buffers: a stack, below it a place without room.
#[derive(Debug)]
pub(crate) struct FreeBuffers {
    stack: Box<[Fresh]>,
    pub(crate) len: usize,
    /// When the PDU in each buffer began.
    began: Box<[Time]>,
    /// Octets from one buffer to the next.
    pub(crate) stride: u64,
    /// Cells of the longest PDU.
    cells: u64,
    /// 2^64 / stride, rounded up: places become numbers by a multiplication.
    inverse: u64,
}

impl FreeBuffers {
    pub(crate) fn new(config: &DemuxConfig) -> Self {
        let cells = cells(config.max_sdu_octets);
        // An odd number of lines spreads the beginnings of buffers over a cache's sets.
        let stride = ((cells * PAYLOAD_OCTETS).div_ceil(LINE) | 1) * LINE;
        assert!(stride as u64 * u64::from(config.buffers) < 1 << 36, "a pool is smaller than 64 GiB");
        let mut free = FreeBuffers {
            stack: vec![Fresh { place: PduPlace::IDLE, buffer: config.buffers }; config.buffers as usize + 1].into(),
            len: 0,
            began: vec![Time::ZERO; config.buffers as usize].into(),
            stride: stride as u64,
            cells: cells as u64,
            inverse: u64::MAX / stride as u64 + 1,
        };
        (0..config.buffers).rev().for_each(|buffer| free.push(buffer));
        free
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, buffer: u32) {
        self.len += 1;
        let place = PduPlace::fresh(u64::from(buffer) * self.stride, self.cells);
        self.stack[self.len] = Fresh { place, buffer };
    }

    /// The buffer of a PDU that is at `place`, and how many cells it has.
    #[inline(always)]
    fn of(&self, place: PduPlace) -> (u32, usize) {
        let taken = self.cells as usize - place.room();
        let begin = place.octet() - taken * PAYLOAD_OCTETS;
        (((begin as u128 * u128::from(self.inverse)) >> 64) as u32, taken)
    }

    /// When the PDU that is at `place` began.
    pub(crate) fn began(&self, place: PduPlace) -> Time {
        self.began[self.of(place).0 as usize]
    }
}

/// The free buffers, for the time of a loop.
#[derive(Clone, Copy)]
pub(crate) struct Free {
    stack: *const Fresh,
    len: usize,
}

impl Free {
    /// Where the next free buffer begins; a place without room if there is none.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn top(&self) -> PduPlace {
        // SAFETY: there is one place more than buffers, and `len` counts buffers.
        unsafe { (*self.stack.add(self.len)).place }
    }

    /// Whether there are so many.
    #[inline(always)]
    pub(crate) fn has(&self, buffers: usize) -> bool {
        self.len >= buffers
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

    pub(crate) fn find(&self, circuit: CircuitId) -> Option<usize> {
        let (mask, head) = (self.entries.len() - 1, head_of(circuit));
        let mut at = index(home(head, self.shift));
        loop {
            match self.entries[at].head {
                found if found == head => return Some(at),
                FREE => return None,
                _ => at = (at + 1) & mask,
            }
        }
    }

    pub(crate) fn insert(&mut self, entry: Entry, rest: Rest) {
        let mask = self.entries.len() - 1;
        let mut at = index(home(entry.head, self.shift));
        while self.entries[at].head != FREE {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
        self.rest[at] = rest;
    }

    #[inline(always)]
    pub(crate) fn free(&self) -> Free {
        Free { stack: self.free.stack.as_ptr(), len: self.free.len }
    }

    /// What `free` took is taken: PDUs begin there now. Noted here, and not cell by cell, where registers are few.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn taken(&mut self, free: Free) {
        let buffers = &mut self.free;
        let (now, began) = (self.now, buffers.began.as_mut_ptr());
        for i in free.len..buffers.len {
            // SAFETY: the stack reaches to `buffers.len`; its lowest place, which is no buffer's, is not among these.
            unsafe { *began.add((*free.stack.add(i + 1)).buffer as usize) = now };
        }
        buffers.len = free.len;
    }

    /// A PDU begins now in the next free buffer, of which there is one.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn take_one(&mut self) -> PduPlace {
        // SAFETY: the caller's: a place of the stack that is a buffer's.
        unsafe {
            let fresh = *self.free.stack.get_unchecked(self.free.len);
            *self.free.began.get_unchecked_mut(fresh.buffer as usize) = self.now;
            self.free.len -= 1;
            fresh.place
        }
    }

    /// Takes so many free buffers, of which there are as many, for PDUs that end at once: where the first of them
    /// stands, the others below it. They stay readable until a buffer is given back.
    #[inline(always)]
    pub(crate) fn take_some(&mut self, n: usize) -> *const Fresh {
        let first = self.free.stack.as_ptr().wrapping_add(self.free.len);
        self.free.len -= n;
        first
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
        unsafe {
            let at = self.index_of(entry);
            let entry = &mut *entry;
            let reason = if entry.place.is_in_pdu() { DropReason::Oversize } else { DropReason::NoBuffer };
            lose(entry, &mut self.rest[at], reason, &mut self.free, &mut self.counters);
            if end {
                entry.place = PduPlace::IDLE;
            }
        }
        true
    }

    /// # Safety
    /// `entry` is one of the table's.
    #[allow(unsafe_code)]
    unsafe fn index_of(&self, entry: *const Entry) -> usize {
        // SAFETY: the caller's: of the same allocation, and not before its first.
        unsafe { entry.offset_from(self.entries.as_ptr()) as usize }
    }

    /// Judges a PDU whose last cell has come; its circuit may have begun another meanwhile. Describes it in `to` if it
    /// is whole, and gives its octets.
    ///
    /// # Safety
    /// `ended.entry` is one of the table's, and `to` may be written.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn finish(&mut self, ended: Ended, to: *mut Delivery) -> Option<usize> {
        let (buffer, cells) = self.free.of(ended.place);
        // SAFETY: the caller's.
        unsafe { self.finish_in(ended, buffer, cells, to) }
    }

    /// The same of a PDU that has so many cells in this buffer.
    ///
    /// # Safety
    /// As [`Circuits::finish`].
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn finish_in(
        &mut self,
        ended: Ended,
        buffer: u32,
        cells: usize,
        to: *mut Delivery,
    ) -> Option<usize> {
        let Ended { place, entry, congestion, good, .. } = ended;
        let trailer = Trailer::from_octets(ended.trailer.to_le_bytes());
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
            let pdus = (*entry).pdus.wrapping_add(1);
            (*entry).pdus = pdus;
            if pdus == 0 {
                self.went_round(entry);
            }
            to.write(Delivery { circuit: circuit_of((*entry).head), buffer, sdu_octets, meta });
        }
        Some(sdu_octets)
    }

    /// The count of an entry's PDUs has begun again.
    #[cold]
    #[inline(never)]
    #[allow(unsafe_code)]
    unsafe fn went_round(&mut self, entry: *const Entry) {
        // SAFETY: the caller's.
        let at = unsafe { self.index_of(entry) };
        self.rest[at].rounds = self.rest[at].rounds.wrapping_add(1);
    }

    /// A PDU that has ended is dropped.
    #[cold]
    #[inline(never)]
    #[allow(unsafe_code)]
    unsafe fn refuse(&mut self, entry: *mut Entry, buffer: u32, reason: DropReason) {
        self.free.push(buffer);
        // SAFETY: the caller's.
        let at = unsafe { self.index_of(entry) };
        self.rest[at].dropped = self.rest[at].dropped.wrapping_add(1);
        self.counters.drop_one(reason);
    }
}

/// The circuit's PDU is lost; the rest of its cells will be passed over.
#[cold]
pub(crate) fn lose(
    entry: &mut Entry,
    rest: &mut Rest,
    reason: DropReason,
    free: &mut FreeBuffers,
    counters: &mut Counters,
) {
    if entry.place == PduPlace::LOST {
        return;
    }
    if entry.place.is_in_pdu() {
        free.push(free.of(entry.place).0);
    }
    entry.place = PduPlace::LOST;
    rest.dropped = rest.dropped.wrapping_add(1);
    counters.drop_one(reason);
}
