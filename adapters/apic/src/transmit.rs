//! From memory to cells: pacing tags, what is fetched for them, and the Transmit Formatter, which makes cells of it
//! (I.363.5).

use super::batch::MAX_BATCH;
use super::channel::{Aal, Abort, ChannelRef, Direction, Outgoing, user};
use super::grant::Outcome;
use super::hmi::Completion;
use super::host::Host;
use super::pacer::{INTERVAL_PARTS, Tag};
use super::table::Connection;
use bus::HostMemory;
use wire::aal5::{self, Trailer};
use wire::cell::PAYLOAD_OCTETS;
use wire::crc::Crc32;
use wire::{Cell, CellHeader};

impl Host {
    /// Gives a channel that has something to send to the Pacer.
    pub(super) fn pace(&mut self, channel: ChannelRef) {
        let pacing = self.pacing;
        let Some(state) = self.state(channel) else { return };
        let Direction::Transmit { connection, interval } = state.settings.direction else { return };
        if state.sending.paced || state.ready.is_empty() {
            return;
        }
        state.sending.paced = true;
        let due = state.sending.due;
        self.pacer.insert(channel, due, connection.low_latency, interval > 0 && pacing);
    }

    /// The channel that is due makes the tag of its next batch.
    pub(super) fn make_tag(&mut self, now: u64) {
        let Some((channel, due)) = self.pacer.take(now) else { return };
        let (batch, slot, pacing) = (self.batch, self.slot, self.pacing);
        let Some(state) = self.state(channel) else { return };
        let Direction::Transmit { connection, interval } = state.settings.direction else { return };
        state.sending.paced = false;
        let Some(buffer) = state.ready.front().copied() else { return };
        let length = buffer.descriptor.length;
        let raw = state.settings.aal == Aal::Raw;
        let all = if raw { length.div_ceil(48) } else { aal5::cells(length as usize) as u32 };
        let from = state.sending.tagged;
        let cells = batch.min(all - from);
        let last = from + cells == all;
        let begin = (from * 48).min(length);
        let end = ((from + cells) * 48).min(length);
        let tag = Tag {
            channel,
            index: buffer.index,
            area: buffer.descriptor.area,
            offset: buffer.descriptor.offset + begin,
            octets: end - begin,
            cells,
            first: from == 0,
            last,
            length,
            uu: buffer.descriptor.uu,
        };
        // A channel that is less than a slot late keeps its rate; what was missed before that is not caught up.
        let begins = if now.saturating_sub(due) <= slot { due.max(state.sending.due) } else { now };
        let interval = if pacing { interval } else { 0 };
        state.sending.due = begins + u64::from(cells) * u64::from(interval) * slot / u64::from(INTERVAL_PARTS);
        state.sending.tagged = if last { 0 } else { from + cells };
        state.sending.unfinished += u64::from(from == 0);
        if last {
            state.ready.pop_front();
        }
        // Whether there was room was asked before.
        self.pacer.tags.push(connection.low_latency, tag);
        self.pace(channel);
        self.fetch_descriptor(channel);
    }

    /// A batch has been read from memory.
    pub(super) fn fetch(&mut self, tag: Tag, memory: &mut dyn HostMemory) {
        let Some(state) = self.state(tag.channel) else { return };
        if state.sending.void == Some(tag.index) {
            return;
        }
        let (owner, low_latency) = (state.settings.owner, state.settings.low_latency());
        let mut octets = [0; MAX_BATCH * PAYLOAD_OCTETS];
        let data = &mut octets[..tag.octets as usize];
        let address = self.areas.address(owner, tag.area, tag.offset, tag.octets, false);
        let read = address.and_then(|address| memory.read(address, data).map_err(|_| Outcome::Revoked));
        let cell = Outgoing {
            channel: tag.channel,
            payload: [0; PAYLOAD_OCTETS],
            first: tag.first,
            last: tag.last,
            abort: false,
            length: tag.length as u16,
            uu: tag.uu,
        };
        if read.is_err() {
            self.give_up(tag, Outgoing { last: true, abort: true, ..cell }, low_latency);
            return;
        }
        let payloads = octets.as_chunks::<PAYLOAD_OCTETS>().0;
        for (i, payload) in payloads.iter().take(tag.cells as usize).enumerate() {
            let (first, last) = (tag.first && i == 0, tag.last && i + 1 == tag.cells as usize);
            self.outgoing.push(low_latency, Outgoing { payload: *payload, first, last, ..cell });
        }
        if tag.last {
            let status = Outcome::Good.status(0);
            self.hmi.completions.push_back(Completion { channel: tag.channel, index: tag.index, status, body: None });
        }
    }

    /// A PDU whose memory is out of reach ends as one that its sender gives up, so that the next is not joined to it.
    fn give_up(&mut self, tag: Tag, abort: Outgoing, low_latency: bool) {
        let Some(state) = self.state(tag.channel) else { return };
        state.sending.void = Some(tag.index);
        state.sending.unfinished -= 1;
        if state.ready.front().is_some_and(|buffer| buffer.index == tag.index) {
            state.ready.pop_front();
            state.sending.tagged = 0;
        }
        if !tag.first && state.settings.aal == Aal::Aal5 {
            self.outgoing.push(low_latency, abort);
        }
        self.fail(tag.channel, tag.index, Outcome::Revoked);
    }

    /// Where the next cell of the Transmit FIFO goes, low latency or not.
    pub(super) fn peek_outgoing(&mut self, low_latency: bool) -> Option<Connection> {
        if let Some(abort) = self.aborts.front_of(low_latency) {
            return Some(abort.connection);
        }
        loop {
            let channel = self.outgoing.front_of(low_latency)?.channel;
            if let Some(state) = self.state(channel)
                && let Direction::Transmit { connection, .. } = state.settings.direction
            {
                return Some(connection);
            }
            // Its channel was closed.
            self.outgoing.pop_of(low_latency);
        }
    }

    /// Makes the cell.
    pub(super) fn next_cell(&mut self, low_latency: bool) -> Option<Cell> {
        if let Some(Abort { mut crc, .. }) = self.aborts.pop_of(low_latency) {
            // Length 0 and the rest of the trailer (I.363.5 section 9.2.1.2).
            let mut payload = [0; PAYLOAD_OCTETS];
            crc.update(&payload[..44]);
            payload[44..].copy_from_slice(&crc.finish().to_be_bytes());
            let header = CellHeader { payload_type: user(true), ..CellHeader::default() };
            return Some(Cell::new(header, payload));
        }
        let outgoing = self.outgoing.pop_of(low_latency)?;
        let state = self.state(outgoing.channel)?;
        let mut payload = outgoing.payload;
        let raw = state.settings.aal == Aal::Raw;
        state.counters.cells += 1;
        if !raw {
            let crc = &mut state.sending.crc;
            if outgoing.first {
                *crc = Crc32::new();
            }
            if outgoing.last {
                let length = if outgoing.abort { 0 } else { outgoing.length };
                let trailer = Trailer { uu: outgoing.uu, cpi: 0, length, crc: 0 };
                payload[40..].copy_from_slice(&trailer.to_octets());
                crc.update(&payload[..44]);
                payload[44..].copy_from_slice(&crc.finish().to_be_bytes());
            } else {
                crc.update(&payload);
            }
            state.sending.in_pdu = !outgoing.last;
        }
        if outgoing.last && !outgoing.abort {
            state.sending.unfinished -= 1;
            state.counters.pdus += 1;
            state.counters.octets += u64::from(outgoing.length);
        }
        let header = CellHeader { payload_type: user(!raw && outgoing.last), ..CellHeader::default() };
        Some(Cell::new(header, payload))
    }
}
