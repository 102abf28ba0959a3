//! From cells to memory: the Receive Formatter checks PDUs (I.363.5) and collects cells of one buffer for one
//! transfer.

use super::channel::{Aal, Buffer, ChannelRef, Receiving};
use super::grant::Outcome;
use super::hmi::{Completion, Write};
use super::host::Host;
use crate::HostMemory;
use wire::aal5::{self, TRAILER_OCTETS, Trailer};
use wire::cell::PAYLOAD_OCTETS;
use wire::{Cell, DropReason, PayloadType, Time};

/// What a PDU's padding and trailer take at most.
const MOST_BESIDE: u32 = (PAYLOAD_OCTETS + TRAILER_OCTETS - 1) as u32;

impl Host {
    /// A cell for a channel.
    pub(super) fn receive(&mut self, number: u16, cell: &Cell, now: Time) -> Result<(), DropReason> {
        let channel = self.named(number).ok_or(DropReason::NotOpen)?;
        let Some(state) = self.state(channel).filter(|state| state.settings.receives()) else {
            return Err(DropReason::NotOpen);
        };
        let aal = state.settings.aal;
        let taken = match aal {
            Aal::Raw => self.receive_raw(channel, cell),
            Aal::Aal5 => self.receive_aal5(channel, cell),
        };
        if let Err(reason) = taken {
            if let Some(state) = self.state(channel) {
                state.counters.drop_one(reason);
            }
            if reason == DropReason::NoBuffer {
                self.note_no_buffer(channel, now);
            }
        }
        Ok(())
    }

    /// One cell, one buffer. The status has payload type and loss priority in bits 16 to 19.
    fn receive_raw(&mut self, channel: ChannelRef, cell: &Cell) -> Result<(), DropReason> {
        let state = self.state(channel).ok_or(DropReason::NotOpen)?;
        let low_latency = state.settings.low_latency();
        let buffer = state.ready.front().copied().ok_or(DropReason::NoBuffer)?;
        let batch = self.take_batch(low_latency)?;
        self.batches.append(batch, &cell.payload);
        let status = Outcome::Good.status(48 | (cell.header_word() & 0xf) << 16);
        let write = Write {
            channel,
            batch,
            area: buffer.descriptor.area,
            offset: buffer.descriptor.offset,
            octets: PAYLOAD_OCTETS as u32,
            index: buffer.index,
            done: Some(status),
        };
        self.hmi.writes.push(low_latency, write);
        self.count_received(channel, 48);
        Ok(())
    }

    fn receive_aal5(&mut self, channel: ChannelRef, cell: &Cell) -> Result<(), DropReason> {
        let PayloadType::User { end, .. } = cell.header().payload_type else { return Err(DropReason::WrongAal) };
        let state = self.state(channel).ok_or(DropReason::NotOpen)?;
        if state.receiving.skipping {
            state.receiving.skipping = !end;
            // Counted with the cell that began it.
            return Ok(());
        }
        let taken = self.append(channel, cell, end);
        if let Err(reason) = taken {
            self.forget_pdu(channel, !end);
            return Err(reason);
        }
        Ok(())
    }

    /// One more cell of a PDU. An error ends the PDU; its buffer is the next one's.
    fn append(&mut self, channel: ChannelRef, cell: &Cell, end: bool) -> Result<(), DropReason> {
        let state = self.state(channel).ok_or(DropReason::NotOpen)?;
        let low_latency = state.settings.low_latency();
        let buffer = state.ready.front().copied().ok_or(DropReason::NoBuffer)?;
        let (length, begun) = (buffer.descriptor.length, state.receiving.batch);
        let octets = state.receiving.octets + PAYLOAD_OCTETS as u32;
        if octets > length.min(aal5::MAX_SDU_OCTETS as u32) + MOST_BESIDE {
            return Err(DropReason::Oversize);
        }
        // A PDU that memory would hardly take whole is not begun, so that those that are begun get there.
        if octets == PAYLOAD_OCTETS as u32 && !low_latency && !self.batches.have_half() {
            return Err(DropReason::EarlyDiscard);
        }
        let batch = match begun {
            Some(batch) => batch,
            None => self.take_batch(low_latency)?,
        };
        let filled = self.batches.append(batch, &cell.payload);
        let full = filled / PAYLOAD_OCTETS >= self.batch as usize;
        let Some(state) = self.state(channel) else { return Err(DropReason::NotOpen) };
        state.receiving.batch = Some(batch);
        state.receiving.octets = octets;
        state.receiving.crc.update(&cell.payload);
        let received = if end { Some(check(&state.receiving, cell, length)?) } else { None };
        if end || full {
            self.flush(channel, buffer, low_latency, received);
        }
        if let Some(received) = received {
            self.count_received(channel, received);
        }
        Ok(())
    }

    /// What is collected goes to memory.
    fn flush(&mut self, channel: ChannelRef, buffer: Buffer, low_latency: bool, received: Option<u32>) {
        let Some(state) = self.state(channel) else { return };
        let Some(batch) = state.receiving.batch.take() else { return };
        let octets = state.receiving.octets;
        let filled = self.batches.filled(batch) as u32;
        let begin = octets - filled;
        let limit = received.unwrap_or(buffer.descriptor.length);
        let write = Write {
            channel,
            batch,
            area: buffer.descriptor.area,
            offset: buffer.descriptor.offset + begin.min(limit),
            octets: octets.min(limit).saturating_sub(begin),
            index: buffer.index,
            done: received.map(|received| Outcome::Good.status(received)),
        };
        // As many places as batches: there is room.
        self.hmi.writes.push(low_latency, write);
    }

    /// A buffer is full: the next PDU has the next one.
    fn count_received(&mut self, channel: ChannelRef, octets: u32) {
        let Some(state) = self.state(channel) else { return };
        state.ready.pop_front();
        state.receiving = Receiving::default();
        state.counters.pdus += 1;
        state.counters.octets += u64::from(octets);
        self.fetch_descriptor(channel);
    }

    fn forget_pdu(&mut self, channel: ChannelRef, skipping: bool) {
        let Some(state) = self.state(channel) else { return };
        let batch = state.receiving.batch.take();
        state.receiving = Receiving { skipping, ..Receiving::default() };
        if let Some(batch) = batch {
            self.batches.free(batch);
        }
    }

    fn take_batch(&mut self, low_latency: bool) -> Result<u16, DropReason> {
        if !self.hmi.writes.has_room(low_latency) {
            return Err(DropReason::QueueFull);
        }
        self.batches.take().ok_or(DropReason::QueueFull)
    }

    /// A transfer to memory is done.
    pub(super) fn write(&mut self, write: Write, memory: &mut dyn HostMemory) {
        let Write { channel, area, offset, octets, index, .. } = write;
        if let Some(state) = self.state(channel) {
            let owner = state.settings.owner;
            let address = self.areas.address(owner, area, offset, octets, true);
            let data = self.batches.get(write.batch, octets as usize);
            let moved = address.and_then(|address| memory.write(address, data).map_err(|_| Outcome::Revoked)).is_ok();
            let torn = self.state(channel).and_then(|state| {
                state.torn = (!moved).then_some(index).or(state.torn);
                state.torn
            });
            match write.done {
                // A part of it did not get there, so it was not delivered.
                Some(_) if torn == Some(index) => self.fail(channel, index, Outcome::Revoked),
                Some(status) => self.hmi.completions.push_back(Completion { channel, index, status }),
                None => {}
            }
        }
        self.batches.free(write.batch);
    }
}

/// The SDU's length, if the PDU is whole.
fn check(pdu: &Receiving, last: &Cell, room: u32) -> Result<u32, DropReason> {
    if !pdu.crc.is_good() {
        return Err(DropReason::Crc);
    }
    let Some(trailer) = last.payload.last_chunk().map(|octets| Trailer::from_octets(*octets)) else {
        return Err(DropReason::Malformed);
    };
    let length = u32::from(trailer.length);
    if length == 0 {
        return Err(DropReason::Aborted);
    }
    if aal5::cells(length as usize) * PAYLOAD_OCTETS != pdu.octets as usize {
        return Err(DropReason::Length);
    }
    if length > room { Err(DropReason::Oversize) } else { Ok(length) }
}
