//! The receiving half of the driver: what a look at CAM entries and status blocks finds is fetched, checked where it has an
//! adaptation layer, and put where its reader wants it.
//!
//! The card ends a fetch at the end of a PDU, and does not look at beginnings or numbers. So a PDU that lost a cell comes
//! as the octets between two ends, and its length contradicts them (Traw and Smith 1993, section 3.2). Where the last cell
//! was lost, the next PDU of the same MID is lost with it: both are one range of octets.

use super::cs::{Layer, MAX_PDU_OCTETS, check34};
use super::shared::Region;
use super::tables::Vc;
use super::{
    BUFFER_OCTETS, Cards, CrossMemory, ENTRY_PDU, ENTRY_USED, FAILED, FETCH_ABORTED, FETCH_ENDED, Penn, PennError,
    VC_ACTIVE, VC_FETCHING, VC_FULL, VC_OCTETS, rr,
};
use bus::memory::Descriptor;
use core::time::Duration;
use wire::{DropReason, Time};

/// How long a PDU may be without a further cell, before its list is deleted.
pub const REASSEMBLY_TIME: Duration = Duration::from_secs(1);

/// Where a fetch goes.
#[derive(Debug, Clone, Copy)]
enum To {
    Kernel,
    /// The reader's buffer, or a card's.
    Mapped(Descriptor),
    Slot(Region, u32),
}

/// What the Reassembler fetches at present.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fetch {
    vc: usize,
    vci: u16,
    list: u16,
    /// A connectionless PDU's list, which is deleted when it is empty.
    pdu: bool,
    layer: Layer,
    to: To,
}

/// A list of PDUs between two looks.
#[derive(Debug, Clone, Default)]
pub(super) struct Pending {
    /// The beginning of a PDU that is longer than the kernel's buffer.
    data: Vec<u8>,
    /// Cells that waited at the last look, and since when there have been as many.
    cells: u32,
    since: Time,
}

impl Penn {
    /// Reads what has been drained: octets of a circuit, or one PDU. `None`: nothing is there, the process
    /// sleeps. A PDU longer than `buffer` loses its end, as with datagrams. Where the reader has mapped a buffer, its first
    /// octets are what came, `buffer` is left alone, and the next cells come from its beginning on: use them before the
    /// next tick.
    ///
    /// # Errors
    /// No such file, no circuit.
    pub fn read(&mut self, file: usize, buffer: &mut [u8]) -> Result<Option<usize>, PennError> {
        self.accesses.calls += 1;
        let number = self.file(file)?.vc.ok_or(PennError::File)?;
        let layer = self.layer(number)?;
        let vc = self.vcs[number].as_mut().ok_or(PennError::File)?;
        if layer != Layer::Bare {
            let Some(dg) = self.dgs.pop(&mut vc.dgs) else { return Ok(None) };
            let n = dg.len().min(buffer.len());
            buffer[..n].copy_from_slice(&dg[..n]);
            return Ok(Some(n));
        }
        if vc.x.is_some() {
            // The octets are in the reader's buffer already; the whole of it is free again.
            vc.set(VC_FULL, false);
            let n = core::mem::take(&mut vc.filled) as usize;
            return Ok((n > 0).then_some(n));
        }
        let n = vc.data.len().min(buffer.len());
        for (place, octet) in buffer.iter_mut().zip(vc.data.drain(..n)) {
            *place = octet;
        }
        Ok((n > 0).then_some(n))
    }

    pub(super) fn finish_fetch<M: CrossMemory>(&mut self, cards: &mut Cards<'_, M>, now: Time) {
        let Some(fetch) = self.fetch.take() else { return };
        let length = cards.reassembler.read(rr::LENGTH);
        let failed = cards.reassembler.read(rr::STATUS) & FAILED != 0;
        let octets = length & 0xf_ffff;
        self.give_back(cards);
        if let Some(vc) = self.vcs[fetch.vc].as_mut().filter(|vc| vc.vci == fetch.vci) {
            vc.set(VC_FETCHING, false);
            let ended = length & FETCH_ENDED != 0;
            let aborted = length & FETCH_ABORTED != 0;
            if failed {
                self.statistics.failed += 1;
            } else if fetch.layer == Layer::Bare {
                self.keep_octets(cards.memory, fetch, octets);
            } else if let To::Slot(region, slot) = fetch.to {
                let checked = if ended { Ok(aborted) } else { Err(DropReason::Oversize) };
                self.pass_pdu(cards.memory, fetch, (region, slot), octets, checked);
            } else {
                self.keep_pdu(cards.memory, fetch, octets, ended, aborted);
            }
        }
        if fetch.pdu {
            self.close_list(cards, fetch.list, now);
        }
    }

    /// The next PDU of the same MID may have begun; if not, the entry is for others.
    fn close_list<M>(&mut self, cards: &mut Cards<'_, M>, list: u16, now: Time) {
        cards.reassembler.write(rr::INDEX, list.into(), now);
        let begun = self.pending.get(usize::from(list)).is_some_and(|pending| !pending.data.is_empty());
        if !begun && cards.reassembler.read(rr::CELLS) == 0 {
            cards.reassembler.write(rr::DELETE, list.into(), now);
        }
    }

    /// Octets of a circuit with bare cells.
    fn keep_octets<M: CrossMemory>(&mut self, memory: &mut M, fetch: Fetch, octets: u32) {
        match fetch.to {
            To::Kernel => {
                let mut data = vec![0; octets as usize];
                if memory.copy_from(self.buffers[2].into(), &mut data).is_err() {
                    self.statistics.failed += 1;
                } else if let Some(vc) = &mut self.vcs[fetch.vc] {
                    vc.data.extend(data);
                }
            }
            To::Mapped(x) => {
                // A buffer that was mapped meanwhile has nothing of this yet.
                let Some(vc) = self.vcs[fetch.vc].as_mut().filter(|vc| vc.x == Some(x)) else { return };
                vc.filled += octets;
                let full = vc.len - vc.filled < 48;
                if full && vc.card {
                    // A card takes what comes at its own pace: the buffer begins anew, and nobody reads.
                    vc.filled = 0;
                }
                vc.set(VC_FULL, full && !vc.card);
            }
            To::Slot(region, slot) if self.shares(fetch.vc, &region) => self.pass_slot(memory, fetch.vc, slot, octets),
            To::Slot(..) => {}
        }
    }

    /// Whether a circuit still has the region that a fetch began with.
    fn shares(&self, number: usize, region: &Region) -> bool {
        let receive = self.vcs[number].as_ref().and_then(|vc| vc.receive);
        receive.is_some_and(|receive| receive.x == region.x)
    }

    /// A PDU, or a piece of a long one, that is in the kernel's buffer.
    fn keep_pdu<M: CrossMemory>(&mut self, memory: &mut M, fetch: Fetch, octets: u32, ended: bool, aborted: bool) {
        let mut piece = vec![0; octets as usize];
        if memory.copy_from(self.buffers[2].into(), &mut piece).is_err() {
            self.statistics.failed += 1;
            return;
        }
        let Some(pending) = self.pending.get_mut(usize::from(fetch.list)) else { return };
        // One octet more than a PDU may have says that it had more.
        let room = (MAX_PDU_OCTETS + 1).saturating_sub(pending.data.len());
        pending.data.extend_from_slice(&piece[..piece.len().min(room)]);
        if !ended {
            return;
        }
        let mut pdu = core::mem::take(&mut pending.data);
        let checked = match fetch.layer.check(&pdu) {
            _ if aborted => Err(DropReason::Aborted),
            _ if pdu.len() > MAX_PDU_OCTETS => Err(DropReason::Oversize),
            checked => checked,
        };
        let kept = checked.and_then(|sdu| {
            pdu.truncate(sdu.end);
            pdu.drain(..sdu.start);
            let vc = self.vcs[fetch.vc].as_mut().ok_or(DropReason::Closed)?;
            self.dgs.push(&mut vc.dgs, pdu).map_err(|_| DropReason::TableFull)
        });
        match kept {
            Ok(()) => self.counters.pdus = self.counters.pdus.wrapping_add(1),
            Err(reason) => self.lose(reason),
        }
    }

    fn lose(&mut self, reason: DropReason) {
        self.statistics.lost_pdus += 1;
        self.counters.drop_one(reason);
    }

    /// A PDU that is in a slot: checked where it lies, of AAL3/4 by its first and last word alone.
    fn pass_pdu<M: CrossMemory>(
        &mut self,
        memory: &mut M,
        fetch: Fetch,
        (region, slot): (Region, u32),
        octets: u32,
        aborted: Result<bool, DropReason>,
    ) {
        if !self.shares(fetch.vc, &region) {
            return;
        }
        let checked = match aborted {
            Err(reason) => Err(reason),
            Ok(true) => Err(DropReason::Aborted),
            Ok(false) => self.check_slot(memory, fetch.layer, region.landing(fetch.layer, slot), octets),
        };
        match checked {
            Ok(sdu) => {
                self.counters.pdus = self.counters.pdus.wrapping_add(1);
                self.pass_slot(memory, fetch.vc, slot, sdu);
            }
            // The slot stays the kernel's.
            Err(reason) => self.lose(reason),
        }
    }

    /// Octets of the SDU.
    fn check_slot<M: CrossMemory>(
        &mut self,
        memory: &mut M,
        layer: Layer,
        at: u32,
        octets: u32,
    ) -> Result<u32, DropReason> {
        let unmapped = |_| DropReason::BadDescriptor;
        let sdu = if layer == Layer::Aal34 {
            let (mut first, mut last) = ([0; 4], [0; 4]);
            self.accesses.shared_read += 2;
            memory.copy_from(at.into(), &mut first).map_err(unmapped)?;
            memory.copy_from((at + octets.saturating_sub(4)).into(), &mut last).map_err(unmapped)?;
            check34(octets as usize, Some(&first), Some(&last))?
        } else {
            let mut pdu = vec![0; octets as usize];
            memory.copy_from(at.into(), &mut pdu).map_err(unmapped)?;
            layer.check(&pdu)?
        };
        Ok(sdu.len() as u32)
    }

    /// Looks at CAM entries and status blocks from where it stopped, until a fetch is under way or all have been seen.
    pub(super) fn examine<M: CrossMemory>(&mut self, cards: &mut Cards<'_, M>, now: Time) {
        while self.fetch.is_none()
            && let Some(list) = self.look
        {
            if list >= self.lists {
                (self.look, self.served) = (None, None);
                return self.reschedule(now);
            }
            cards.reassembler.write(rr::INDEX, list, now);
            let entry = cards.reassembler.read(rr::ENTRY);
            if entry & ENTRY_USED == 0 || !self.serve(cards, list, entry, now) {
                self.look = Some(list + 1);
            }
        }
    }

    /// Starts a fetch from a list, if it is due.
    fn serve<M: CrossMemory>(&mut self, cards: &mut Cards<'_, M>, list: u32, entry: u32, now: Time) -> bool {
        let pdu = entry & ENTRY_PDU != 0;
        let vci = if pdu { entry >> 10 } else { entry } as u16;
        let Some(number) = self.vcs.iter().position(|vc| vc.as_ref().is_some_and(|vc| vc.vci == vci)) else {
            // Nobody reads it: its slots are for others.
            self.statistics.strangers += 1;
            self.delete(cards, list, now);
            return false;
        };
        let Ok(layer) = self.layer(number) else { return false };
        let cells = cards.reassembler.read(rr::CELLS);
        let ends = cards.reassembler.read(rr::ENDS);
        let unit = layer.unit();
        let fits = BUFFER_OCTETS as u32 / unit;
        let Some(vc) = self.vcs[number].as_mut() else { return false };
        if !pdu {
            vc.list = u16::try_from(list).ok();
        }
        vc.set(VC_ACTIVE, true);
        let due = if layer == Layer::Bare {
            // A circuit is served once in a look, and again only as long as more than a buffer waits.
            let again = self.served != Some(list) || cells >= fits;
            cells > 0 && vc.poll_time <= now && again
        } else {
            // A PDU longer than the buffer comes by pieces, so that it does not hold the card's memory.
            ends > 0 || cells >= fits
        };
        if !due {
            self.age(cards, list, layer, cells, now);
            return false;
        }
        let Some((to, destination, most)) = self.place(cards.memory, number, layer, fits) else { return false };
        if let Some(vc) = &mut self.vcs[number] {
            vc.set(VC_FETCHING, true);
        }
        if let Some(pending) = self.pending.get_mut(list as usize) {
            // What remains after this is another PDU, or more of this one: it ages from here.
            (pending.cells, pending.since) = (0, now);
        }
        cards.reassembler.write(rr::DESTINATION, destination, now);
        cards.reassembler.write(rr::LIST, list, now);
        cards.reassembler.write(rr::FETCH, cells.min(most), now);
        self.fetch = Some(Fetch { vc: number, vci, list: list as u16, pdu, layer, to });
        self.statistics.fetches += 1;
        (self.look, self.served) = (Some(list), Some(list));
        true
    }

    /// Where a fetch may go, and how many bodies at most; `None`, if there is no room for one.
    fn place<M: CrossMemory>(
        &mut self,
        memory: &mut M,
        number: usize,
        layer: Layer,
        fits: u32,
    ) -> Option<(To, u32, u32)> {
        let vc: &Vc = self.vcs[number].as_ref()?;
        if vc.receive.is_some() {
            let (region, slot) = self.free_slot(memory, number)?;
            let most = region.bodies(layer).min(fits);
            return (most > 0).then_some((To::Slot(region, slot), region.landing(layer, slot), most));
        }
        if layer != Layer::Bare {
            return Some((To::Kernel, self.buffers[2], fits));
        }
        let room = vc.room(VC_OCTETS) as u32;
        match vc.x {
            Some(x) => (room >= 48).then_some((To::Mapped(x), x.bus + vc.filled, room / 48)),
            None => (room > 0).then_some((To::Kernel, self.buffers[2], room.min(fits))),
        }
    }

    /// A PDU to which no cell has come for a time will never be whole: its list is for others.
    fn age<M>(&mut self, cards: &mut Cards<'_, M>, list: u32, layer: Layer, cells: u32, now: Time) {
        if layer == Layer::Bare {
            return;
        }
        let Some(pending) = self.pending.get_mut(list as usize) else { return };
        if cells == 0 && pending.data.is_empty() || cells != pending.cells {
            (pending.cells, pending.since) = (cells, now);
        } else if now.since(pending.since) >= REASSEMBLY_TIME {
            self.lose(DropReason::Timeout);
            self.delete(cards, list, now);
        }
    }

    fn delete<M>(&mut self, cards: &mut Cards<'_, M>, list: u32, now: Time) {
        cards.reassembler.write(rr::DELETE, list, now);
        if let Some(pending) = self.pending.get_mut(list as usize) {
            *pending = super::draining::Pending::default();
        }
    }
}
