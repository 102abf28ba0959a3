//! AAL3/4 reassembly (I.363.3) of one circuit: as many PDUs at once as it has slots, told apart by MID.
//!
//! A cell whose CRC-10 is wrong is dropped without asking what it says: its MID cannot be believed. The gap shows in
//! the sequence numbers of its PDU, or, if sixteen cells are gone, in its length. A PDU that fails frees its slot at
//! once; what is left of it are cells of no open PDU, and the next beginning of that MID is always taken.

use crate::kernel::Remainder;
use crate::{Kernel, SduMeta};
use core::time::Duration;
use wire::aal34::{CPCS_OCTETS, Header, MAX_MID, SAR_PAYLOAD_OCTETS, Segment, SegmentType, Trailer, cpcs_pdu_octets};
use wire::{Cell, Counters, DropReason, PayloadType, Time};

/// Bounds of a circuit's reassembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReassemblyConfig {
    /// PDUs open at once: the number of slots, 1 to 1024.
    pub max_open: usize,
    /// Longest SDU accepted, by the BASize that announces it.
    pub max_sdu_octets: usize,
    /// How long a PDU may take between two cells. Unlike AAL5's, an unfinished PDU here keeps a slot from the others,
    /// so there is a limit by default: 200 ms.
    pub timeout: Option<Duration>,
}

impl Default for ReassemblyConfig {
    fn default() -> Self {
        ReassemblyConfig {
            max_open: 16,
            max_sdu_octets: super::MAX_SDU_OCTETS,
            timeout: Some(Duration::from_millis(200)),
        }
    }
}

/// Where reassembled octets go. A slot has one PDU at a time, from [`Storage::reserve`] to the event that ends it.
pub trait Storage {
    /// Sets `octets` aside (the PDU's BASize) for a PDU of `mid` that begins in `slot`; false if there is no room.
    fn reserve(&mut self, slot: usize, mid: u16, octets: usize) -> bool;
    /// Copies `part` to the slot's octets from `at` on; they are among those set aside.
    fn write(&mut self, slot: usize, at: usize, part: &[u8]);
}

/// How far a batch of cells went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Step {
    /// Cells taken from the front of the batch. May be none: the next cell ends a PDU by beginning another.
    pub cells_used: usize,
    /// What happened.
    pub event: Event,
}

/// What came of the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// All cells are used.
    NeedMore,
    /// What was set aside for `slot` begins with an SDU. The slot is free: its buffer must be read or exchanged first.
    Complete {
        /// The slot.
        slot: usize,
        /// Who sent it.
        mid: u16,
        /// Its octets.
        sdu_octets: usize,
        /// What came with it; `uu` and `cpi` are zero.
        meta: SduMeta,
    },
    /// A PDU was dropped, counted.
    Failed {
        /// The slot that it had and whose buffer is free; none if it was refused at its beginning.
        slot: Option<usize>,
        /// Who sent it.
        mid: u16,
        /// Why.
        reason: DropReason,
    },
}

const NONE: u16 = u16::MAX;

/// A slot: an open PDU, in a list by age of the last cell.
#[derive(Debug, Clone, Copy)]
struct Slot {
    mid: u16,
    sequence: u8,
    tag: u8,
    buffer_octets: u16,
    /// Octets of the CPCS-PDU so far.
    octets: u32,
    clp: bool,
    last_cell: Time,
    older: u16,
    newer: u16,
}

/// One circuit's reassembly. Allocates when made (slots, and two octets for each of the 1024 MIDs), not later.
#[derive(Debug, Clone)]
pub struct Reassembler {
    remainder: Remainder,
    config: ReassemblyConfig,
    slots: Box<[Slot]>,
    /// The slot of each MID, or [`NONE`].
    by_mid: Box<[u16]>,
    free: Vec<u16>,
    oldest: u16,
    newest: u16,
    pdus: Counters,
    cells: Counters,
    /// Cells dropped that nobody has been told of ([`Reassembler::take_cell_drops`]).
    untold: Option<Counters>,
}

/// What one cell did.
enum Taken {
    Quietly,
    Event(Event),
    /// The cell is still to be taken.
    EventBefore(Event),
}

impl Reassembler {
    /// With no PDU open.
    pub fn new(config: ReassemblyConfig) -> Self {
        Self::with_kernel(Kernel::chosen(), config)
    }

    /// The same with another kernel's CRC-10.
    pub fn with_kernel(kernel: Kernel, config: ReassemblyConfig) -> Self {
        let n = config.max_open.clamp(1, usize::from(MAX_MID) + 1);
        let slot = Slot {
            mid: 0,
            sequence: 0,
            tag: 0,
            buffer_octets: 0,
            octets: 0,
            clp: false,
            last_cell: Time::ZERO,
            older: NONE,
            newer: NONE,
        };
        Reassembler {
            remainder: kernel.remainder10(),
            config: ReassemblyConfig { max_open: n, ..config },
            slots: vec![slot; n].into_boxed_slice(),
            by_mid: vec![NONE; usize::from(MAX_MID) + 1].into_boxed_slice(),
            free: (0..n as u16).rev().collect(),
            oldest: NONE,
            newest: NONE,
            pdus: Counters::default(),
            cells: Counters::default(),
            untold: None,
        }
    }

    /// Takes cells of this circuit up to the end of a PDU or of the batch. Cells that are not user data are passed
    /// over.
    pub fn push(&mut self, cells: &[Cell], storage: &mut impl Storage, now: Time) -> Step {
        for (i, cell) in cells.iter().enumerate() {
            match self.take(cell, storage, now) {
                Taken::Quietly => {}
                Taken::Event(event) => return Step { cells_used: i + 1, event },
                Taken::EventBefore(event) => return Step { cells_used: i, event },
            }
        }
        Step { cells_used: cells.len(), event: Event::NeedMore }
    }

    fn take(&mut self, cell: &Cell, storage: &mut impl Storage, now: Time) -> Taken {
        let header = cell.header();
        let PayloadType::User { congestion, .. } = header.payload_type else { return Taken::Quietly };
        if (self.remainder)(&cell.payload) != 0 {
            return self.drop_cell(DropReason::Crc);
        }
        let (segment, body) = Segment::fields(&cell.payload);
        let open = self.by_mid[usize::from(segment.mid)];
        let starts = matches!(segment.segment_type, SegmentType::Begin | SegmentType::Single);
        if starts && open != NONE {
            // Its last cell is lost.
            return Taken::EventBefore(self.fail(open, DropReason::Sequence));
        }
        if !starts && open == NONE {
            return self.drop_cell(DropReason::Sequence);
        }
        let Some(octets) = segment.payload_octets() else {
            let reason = if segment.is_abort() { DropReason::Aborted } else { DropReason::Length };
            if open == NONE {
                return self.drop_cell(reason);
            }
            self.count_cell();
            return Taken::Event(self.fail(open, reason));
        };
        self.count_cell();
        if starts {
            return match self.begin(segment, body, header.clp, congestion, storage, now) {
                Ok(None) => Taken::Quietly,
                Ok(Some(event)) => Taken::Event(event),
                Err(reason) => {
                    self.pdus.drop_one(reason);
                    Taken::Event(Event::Failed { slot: None, mid: segment.mid, reason })
                }
            };
        }
        let slot = &mut self.slots[usize::from(open)];
        if segment.sequence != slot.sequence {
            return Taken::Event(self.fail(open, DropReason::Sequence));
        }
        slot.clp |= header.clp;
        slot.sequence = (slot.sequence + 1) & 15;
        if matches!(segment.segment_type, SegmentType::End) {
            return Taken::Event(self.end(open, &body[..octets], congestion, storage));
        }
        if slot.octets as usize + SAR_PAYLOAD_OCTETS + CPCS_OCTETS > cpcs_pdu_octets(slot.buffer_octets.into()) {
            return Taken::Event(self.fail(open, DropReason::Length));
        }
        write(storage, open.into(), slot.octets as usize, body, slot.buffer_octets.into());
        slot.octets += SAR_PAYLOAD_OCTETS as u32;
        slot.last_cell = now;
        self.make_newest(open);
        Taken::Quietly
    }

    /// A PDU's first cell: it gets a slot and a buffer, or a reason why not.
    fn begin(
        &mut self,
        segment: Segment,
        body: &[u8; SAR_PAYLOAD_OCTETS],
        clp: bool,
        congestion: bool,
        storage: &mut impl Storage,
        now: Time,
    ) -> Result<Option<Event>, DropReason> {
        let header = Header::parse(body).map_err(|_| DropReason::Malformed)?;
        let octets = usize::from(header.buffer_octets);
        if header.cpi != 0 {
            return Err(DropReason::Malformed);
        }
        if octets > self.config.max_sdu_octets {
            return Err(DropReason::Oversize);
        }
        let single = matches!(segment.segment_type, SegmentType::Single);
        if !single && cpcs_pdu_octets(octets) < SAR_PAYLOAD_OCTETS + CPCS_OCTETS {
            return Err(DropReason::Length);
        }
        let slot = *self.free.last().ok_or(DropReason::TooManyOpen)?;
        if !storage.reserve(slot.into(), segment.mid, octets) {
            return Err(DropReason::NoBuffer);
        }
        self.free.pop();
        self.by_mid[usize::from(segment.mid)] = slot;
        self.slots[usize::from(slot)] = Slot {
            mid: segment.mid,
            sequence: (segment.sequence + 1) & 15,
            tag: header.tag,
            buffer_octets: header.buffer_octets,
            octets: 0,
            clp,
            last_cell: now,
            older: NONE,
            newer: NONE,
        };
        self.append(slot);
        if single {
            return Ok(Some(self.end(slot, &body[..usize::from(segment.li)], congestion, storage)));
        }
        write(storage, slot.into(), 0, body, octets);
        self.slots[usize::from(slot)].octets = SAR_PAYLOAD_OCTETS as u32;
        Ok(None)
    }

    /// A PDU's last cell, whose `body` ends with the trailer.
    fn end(&mut self, slot: u16, body: &[u8], congestion: bool, storage: &mut impl Storage) -> Event {
        let Slot { mid, tag, buffer_octets, octets, clp, .. } = self.slots[usize::from(slot)];
        let at = octets as usize;
        let trailer = match Trailer::parse(body) {
            Ok(trailer) if trailer.tag != tag => Err(DropReason::Tag),
            Ok(trailer) if cpcs_pdu_octets(trailer.length.into()) != at + body.len() => Err(DropReason::Length),
            Ok(trailer) if trailer.length > buffer_octets => Err(DropReason::Length),
            Ok(trailer) => Ok(trailer),
            Err(_) => Err(DropReason::Malformed),
        };
        match trailer {
            Err(reason) => self.fail(slot, reason),
            Ok(Trailer { length, .. }) => {
                let sdu_octets = usize::from(length);
                write(storage, slot.into(), at, &body[..body.len() - CPCS_OCTETS], sdu_octets);
                self.release(slot);
                self.pdus.pdus = self.pdus.pdus.wrapping_add(1);
                self.pdus.octets = self.pdus.octets.wrapping_add(sdu_octets as u64);
                let meta = SduMeta { clp, congestion, ..SduMeta::default() };
                Event::Complete { slot: slot.into(), mid, sdu_octets, meta }
            }
        }
    }

    fn fail(&mut self, slot: u16, reason: DropReason) -> Event {
        let mid = self.slots[usize::from(slot)].mid;
        self.release(slot);
        self.pdus.drop_one(reason);
        Event::Failed { slot: Some(slot.into()), mid, reason }
    }

    fn release(&mut self, slot: u16) {
        self.unlink(slot);
        self.by_mid[usize::from(self.slots[usize::from(slot)].mid)] = NONE;
        self.free.push(slot);
    }

    fn unlink(&mut self, slot: u16) {
        let Slot { older, newer, .. } = self.slots[usize::from(slot)];
        match self.slots.get_mut(usize::from(older)) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(usize::from(newer)) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
    }

    fn append(&mut self, slot: u16) {
        let newest = core::mem::replace(&mut self.newest, slot);
        match self.slots.get_mut(usize::from(newest)) {
            Some(newest) => newest.newer = slot,
            None => self.oldest = slot,
        }
        let entry = &mut self.slots[usize::from(slot)];
        (entry.older, entry.newer) = (newest, NONE);
    }

    fn make_newest(&mut self, slot: u16) {
        if self.newest != slot {
            self.unlink(slot);
            self.append(slot);
        }
    }

    fn count_cell(&mut self) {
        self.cells.cells = self.cells.cells.wrapping_add(1);
    }

    fn drop_cell(&mut self, reason: DropReason) -> Taken {
        self.cells.drop_one(reason);
        self.untold.get_or_insert_default().drop_one(reason);
        Taken::Quietly
    }

    /// Slots of open PDUs, the longest silent first.
    pub fn open_slots(&self) -> impl Iterator<Item = usize> + '_ {
        let slot = |at: u16| self.slots.get(usize::from(at)).map(|_| at);
        std::iter::successors(slot(self.oldest), move |at| slot(self.slots[usize::from(*at)].newer)).map(usize::from)
    }

    /// When the PDU that has waited longest will be given up.
    pub fn poll_timeout(&self) -> Option<Time> {
        let oldest = self.slots.get(usize::from(self.oldest))?;
        self.config.timeout.map(|limit| oldest.last_cell + limit)
    }

    /// Gives up one PDU whose next cell is overdue, counted; call again until there is none.
    pub fn handle_timeout(&mut self, now: Time) -> Option<Event> {
        let _due = self.poll_timeout().filter(|due| *due <= now)?;
        Some(self.fail(self.oldest, DropReason::Timeout))
    }

    /// PDUs open now.
    pub fn open_pdus(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// PDUs delivered, their octets, and PDUs dropped by reason.
    pub const fn counters(&self) -> &Counters {
        &self.pdus
    }

    /// User cells that belonged to a PDU, and those that did not: of a wrong CRC-10, of no open PDU
    /// ([`DropReason::Sequence`]: the rest of one that failed, or one whose first cell is lost), or with an LI that no
    /// such cell has.
    pub const fn cell_counters(&self) -> &Counters {
        &self.cells
    }

    /// The drops among [`Reassembler::cell_counters`] since the last call, for whoever counts cells and PDUs together.
    pub fn take_cell_drops(&mut self) -> Option<Counters> {
        self.untold.take()
    }
}

/// Writes what of `body`, which stands at `at` of its CPCS-PDU, belongs to an SDU of `sdu_octets` octets at most.
fn write(storage: &mut impl Storage, slot: usize, at: usize, body: &[u8], sdu_octets: usize) {
    let head = CPCS_OCTETS.saturating_sub(at);
    let sdu_at = at + head - CPCS_OCTETS;
    let octets = sdu_octets.saturating_sub(sdu_at).min(body.len().saturating_sub(head));
    if octets > 0 {
        storage.write(slot, sdu_at, &body[head..head + octets]);
    }
}
