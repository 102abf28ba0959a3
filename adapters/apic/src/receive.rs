//! From cells to memory: the Receive Formatter checks PDUs (I.363.5) and collects cells of one buffer for one
//! transfer.

use super::channel::{Aal, Buffer, ChannelRef, Direction, Receiving};
use super::grant::{Descriptor, NO_BODY, Outcome};
use super::hmi::{Completion, Write};
use super::host::Host;
use bus::HostMemory;
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
            from: 0,
            frees: true,
            area: buffer.descriptor.area,
            offset: buffer.descriptor.offset,
            octets: PAYLOAD_OCTETS as u32,
            index: buffer.index,
            done: Some(status),
            body: None,
        };
        self.hmi.writes.push(low_latency, write);
        self.begin_next(channel);
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
        let begun = state.receiving.batch;
        let octets = state.receiving.octets + PAYLOAD_OCTETS as u32;
        let length = match state.settings.direction {
            Direction::Split { head, pool, .. } => head.saturating_add(self.body(channel, pool)?.descriptor.length),
            _ => buffer.descriptor.length,
        };
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
        if received.is_some() {
            self.begin_next(channel);
        }
        Ok(())
    }

    /// What is collected goes to memory.
    fn flush(&mut self, channel: ChannelRef, buffer: Buffer, low_latency: bool, received: Option<u32>) {
        let Some(state) = self.state(channel) else { return };
        let Some(batch) = state.receiving.batch.take() else { return };
        let (octets, body) = (state.receiving.octets, state.receiving.body);
        let (first, room) = match (state.settings.direction, body) {
            (Direction::Split { head, .. }, Some((_, body))) => (head, head.saturating_add(body.descriptor.length)),
            _ => (buffer.descriptor.length, buffer.descriptor.length),
        };
        let begin = octets - self.batches.filled(batch) as u32;
        let limit = received.unwrap_or(room);
        let end = octets.min(limit).max(begin.min(limit));
        let begin = begin.min(limit);
        let done = received.map(|received| Outcome::Good.status(received));
        let used = body.filter(|_| received.is_none_or(|received| received > first));
        let write = Write {
            channel,
            batch,
            from: 0,
            frees: true,
            area: buffer.descriptor.area,
            offset: buffer.descriptor.offset + begin.min(first),
            octets: end - begin,
            index: buffer.index,
            done,
            body: body.map(|_| used.map_or(NO_BODY, |(_, body)| body.index)),
        };
        // Twice as many places as batches: there is room.
        match used.filter(|_| end > first) {
            None => {
                self.hmi.writes.push(low_latency, write);
            }
            Some((_, body)) => {
                let to_head = first.saturating_sub(begin);
                if to_head > 0 {
                    self.hmi.writes.push(low_latency, Write { octets: to_head, frees: false, done: None, ..write });
                }
                let Descriptor { area, offset, .. } = body.descriptor;
                let offset = offset + (begin + to_head - first);
                let octets = end - begin - to_head;
                let rest = Write { from: to_head as u16, area, offset, octets, ..write };
                self.hmi.writes.push(low_latency, rest);
            }
        }
        if received.is_some() && used.is_none() {
            self.give_back(body);
        }
    }

    /// The buffer of a pool that a PDU of a channel has, or gets now.
    fn body(&mut self, channel: ChannelRef, pool: u16) -> Result<Buffer, DropReason> {
        let state = self.state(channel).ok_or(DropReason::NotOpen)?;
        if let Some((_, body)) = state.receiving.body {
            return Ok(body);
        }
        let owner = state.settings.owner;
        let pool = self.named(pool).ok_or(DropReason::NoBuffer)?;
        let own = self.state(pool).filter(|own| own.settings.owner == owner);
        let body = own.and_then(|own| own.ready.pop_front()).ok_or(DropReason::NoBuffer)?;
        self.fetch_descriptor(pool);
        let state = self.state(channel).ok_or(DropReason::NotOpen)?;
        state.receiving.body = Some((pool, body));
        Ok(body)
    }

    /// A PDU did not need its buffer of a pool, or did not come whole: it is the next one's. What of the PDU is on its
    /// way there is written before, since all writes of a pool are of one class.
    pub(super) fn give_back(&mut self, body: Option<(ChannelRef, Buffer)>) {
        let Some((pool, body)) = body else { return };
        if let Some(pool) = self.state(pool) {
            pool.ready.push_front(body);
        }
    }

    /// A buffer is full: the next PDU has the next one.
    fn begin_next(&mut self, channel: ChannelRef) {
        let Some(state) = self.state(channel) else { return };
        state.ready.pop_front();
        state.receiving = Receiving::default();
        state.unwritten += 1;
        self.fetch_descriptor(channel);
    }

    fn forget_pdu(&mut self, channel: ChannelRef, skipping: bool) {
        let Some(state) = self.state(channel) else { return };
        let (batch, body) = (state.receiving.batch.take(), state.receiving.body.take());
        state.receiving = Receiving { skipping, ..Receiving::default() };
        if let Some(batch) = batch {
            self.batches.free(batch);
        }
        self.give_back(body);
    }

    fn take_batch(&mut self, low_latency: bool) -> Result<u16, DropReason> {
        if !self.hmi.writes.has_room(low_latency) {
            return Err(DropReason::QueueFull);
        }
        self.batches.take().ok_or(DropReason::QueueFull)
    }

    /// A transfer to memory is done.
    pub(super) fn write(&mut self, write: Write, memory: &mut dyn HostMemory) {
        let Write { channel, area, offset, octets, index, body, .. } = write;
        if let Some(state) = self.state(channel) {
            let owner = state.settings.owner;
            let address = self.areas.address(owner, area, offset, octets, true);
            let data = &self.batches.get(write.batch, usize::from(write.from) + octets as usize)[write.from.into()..];
            let moved = address.and_then(|address| memory.write(address, data).map_err(|_| Outcome::Revoked)).is_ok();
            let torn = self.state(channel).and_then(|state| {
                state.torn = (!moved).then_some(index).or(state.torn);
                state.torn
            });
            match write.done {
                // A part of it did not get there, so it was not delivered.
                Some(_) if torn == Some(index) => {
                    if let Some(state) = self.state(channel) {
                        state.unwritten -= 1;
                    }
                    self.fail_with(channel, index, Outcome::Revoked, body);
                }
                Some(status) => self.hmi.completions.push_back(Completion { channel, index, status, body }),
                None => {}
            }
        }
        if write.frees {
            self.batches.free(write.batch);
        }
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
