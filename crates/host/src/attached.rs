//! One endpoint as the host sees it: its rings, its channels, the SDUs that are leaving.

use crate::channels::{Channel, Channels};
use crate::events::poll_list::Slot;
use crate::events::{self, Bell, Strategy};
use crate::outbound::{Leaving, Outbound, Outgoing};
use crate::own::At;
use crate::path::Path;
use endpoint::layout::{DESCRIPTOR_OCTETS, Descriptor, Geometry, INLINE_OCTETS};
use endpoint::recycle::Recycle;
use endpoint::ring::{Consumer, Producer, Which};
use endpoint::segment::{Segment, SegmentError};
use endpoint::{Aal, ChannelId, DataPath, Events};
use sar::{SduMeta, Segmentation, aal34};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use wire::{CircuitId, Counters, DropReason, Time};

/// Buffers that are taken from the free ring for each one that is used, at most.
const FREED_AT_ONCE: usize = 64;
/// Octets of SDUs, each with its descriptor, that are delivered before the application is let see them: a run is shown once,
/// but no application waits for more than this.
const SHOWN_AT_ONCE: usize = 8192;

/// Why an endpoint cannot be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Its memory.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Bounded by configuration.
    #[error("the host has {0} endpoints, which is its limit (max_endpoints in the description)")]
    Full(usize),
}

/// Where an endpoint stands between looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looked {
    /// Nowhere: it is new.
    Not,
    /// In each round.
    Always,
    /// When its doorbell rings.
    Armed,
    /// At a time.
    At(Slot),
}

/// How an application gets on with what it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fed {
    /// SDUs that it had taken, ever, ...
    pub(crate) consumed: u32,
    /// ... since when.
    pub(crate) since: Time,
}

/// An application whose receive ring is nearly full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Behind {
    /// SDUs that it had taken, ever, when that was looked at last.
    pub(crate) consumed: u32,
    /// Rests of others in which it took nothing.
    pub(crate) rests: u8,
    /// SDUs that it had taken when a round looked last.
    pub(crate) seen: u32,
}

/// An endpoint of the host.
#[derive(Debug)]
pub struct Attached {
    pub(crate) segment: Arc<Segment>,
    send: Consumer,
    receive: Producer,
    free: Consumer,
    /// Free buffers and posted memory that are in hand.
    stash: Recycle<Buffer>,
    /// Which buffers of the segment were in it before, a bit each.
    used: Box<[u64]>,
    /// Buffers that the stash keeps at most.
    most: usize,
    /// The free ring has not been looked at in this run.
    look_at_free: bool,
    /// Octets of what was delivered and cannot be seen yet.
    unseen: usize,
    pub(crate) channels: Channels,
    /// Circuits whose channels have closed in the middle of a PDU.
    pub(crate) lingering: BTreeSet<u32>,
    pub(crate) outbound: Outbound,
    pub(crate) path: Path,
    pub(crate) strategy: Strategy,
    pub(crate) look: Looked,
    /// Its receive ring is nearly full.
    pub(crate) behind: Option<Behind>,
    /// All to which it sends are behind.
    pub(crate) pressed: bool,
    /// Until then nobody makes way for it: it took little while others did.
    pub(crate) slow_until: Time,
    /// Its application has SDUs to take, when that was looked at last.
    pub(crate) fed: Option<Fed>,
    /// The consumer's index at which its application was given up: it takes nothing at all.
    pub(crate) given_up: Option<u32>,
    /// Its memory is not to be touched yet: its application could make that slow.
    pub(crate) asleep: bool,
    /// Its application has gone: no more descriptors are taken.
    departs: bool,
    /// No more SDUs begin to leave.
    ending: bool,
    /// It was asked to say when it has caught up: there is more for it.
    pub(crate) held_back: bool,
    pub(crate) sent: Counters,
    pub(crate) received: Counters,
}

impl Attached {
    /// The host's ends of a fresh segment. `bell` is rung when the client sleeps and there is news.
    pub fn new(segment: Arc<Segment>, events: Events, path: DataPath, bell: Option<Bell>) -> Self {
        let geometry = *segment.geometry();
        let most = (geometry.buffers + geometry.free_ring) as usize;
        Attached {
            send: Consumer::new(&segment, Which::Send),
            receive: Producer::new(&segment, Which::Receive),
            free: Consumer::new(&segment, Which::Free),
            stash: Recycle::new(geometry.buffer_octets as usize, most),
            used: vec![0; (geometry.buffers as usize).div_ceil(64)].into(),
            most,
            look_at_free: true,
            unseen: 0,
            channels: Channels::default(),
            lingering: BTreeSet::new(),
            outbound: Outbound::new(geometry.send_ring, path == DataPath::SingleCopy),
            path: Path::new(path, geometry.buffer_octets as usize),
            strategy: Strategy::new(events, geometry.send_ring, bell),
            look: Looked::Not,
            behind: None,
            pressed: false,
            slow_until: Time::ZERO,
            fed: None,
            given_up: None,
            asleep: false,
            departs: false,
            ending: false,
            held_back: false,
            sent: Counters::default(),
            received: Counters::default(),
            segment,
        }
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        self.segment.geometry()
    }

    /// The longest SDU that it can receive.
    pub(crate) fn buffer_octets(&self) -> usize {
        match self.path.kind() {
            // Memory of its own has any length.
            DataPath::SingleCopy => usize::MAX,
            DataPath::Copying | DataPath::Shared | DataPath::ZeroCopy => self.geometry().buffer_octets as usize,
        }
    }

    /// Rings if there is news, and lets a client go on that waits for room once half of its send ring is free.
    pub(crate) fn tell(&mut self) {
        self.show();
        let half = self.geometry().send_ring / 2;
        self.strategy.ring(&self.segment, || self.send.waiting_now() <= half);
        self.let_on();
    }

    /// Lets the application see what was delivered and which of its descriptors are done with: the end of a run.
    pub(crate) fn show(&mut self) {
        self.receive.publish();
        self.send.publish();
        (self.unseen, self.look_at_free) = (0, true);
    }

    /// Lets a client go on that waits for room, if there is some.
    pub(crate) fn let_on(&mut self) {
        if self.strategy.client_waits(&self.segment) && self.send.waiting_now() <= self.geometry().send_ring / 2 {
            self.strategy.let_on(&self.segment);
        }
    }

    /// Whether SDUs wait for a line or their pacers.
    pub(crate) fn is_leaving(&self) -> bool {
        !self.outbound.is_empty()
    }

    /// Whether there is something to send or somebody to be let on.
    pub(crate) fn is_waiting(&mut self) -> bool {
        let taken = self.outbound.taken();
        taken > 0 || self.send.peek_ahead(taken).is_some() || self.strategy.client_waits(&self.segment)
    }

    /// Asks for the doorbell. False, and not asked, if there is something to do already.
    pub(crate) fn arm(&mut self) -> bool {
        events::arm(&self.segment);
        let quiet = !self.is_waiting();
        if !quiet {
            events::disarm(&self.segment);
        }
        quiet
    }

    /// Whether the application is more than three quarters of its receive ring behind.
    pub(crate) fn falls_behind(&mut self) -> bool {
        let limit = self.geometry().receive_ring / 4 * 3;
        self.receive.backlog(limit) > limit
    }

    /// Whether it has three quarters of its receive ring free again.
    pub(crate) fn caught_up(&mut self) -> bool {
        let limit = self.geometry().receive_ring / 4;
        self.receive.backlog(limit) <= limit
    }

    /// Whether it has taken all that it was given.
    pub(crate) fn has_taken_all(&mut self) -> bool {
        self.receive.backlog(0) == 0
    }

    /// How many SDUs its application has taken, ever (wraps).
    pub(crate) fn consumed(&mut self) -> u32 {
        self.receive.consumed()
    }

    /// Moves up to `most` descriptors from the ring into the queues of their channels; counts those without a channel, and those
    /// whose channel is closed, whatever is open at its place by now.
    pub(crate) fn take_up(&mut self, most: usize) {
        for _ in 0..if self.departs { 0 } else { most } {
            let channels = &self.channels;
            match self.outbound.take(&mut self.send, |channel| channels.check_sends(channel)) {
                None => return,
                Some(Ok(_)) => {}
                Some(Err(reason)) => {
                    self.send.publish();
                    self.sent.drop_one(reason);
                    self.strategy.note_taken();
                }
            }
        }
    }

    /// Begins with a channel's oldest SDU, if none of it is leaving; counts and passes over those that are not in order,
    /// `most` at most. True if one is leaving now.
    pub(crate) fn begin(&mut self, channel: u32, most: usize) -> bool {
        for _ in 0..most {
            if self.outbound.leaving(channel).is_some() {
                return true;
            }
            if self.ending {
                return false;
            }
            let Some(descriptor) = self.outbound.first(channel).copied() else { return false };
            match self.checked(&descriptor) {
                Ok(Some(leaving)) => self.outbound.begin(channel, leaving),
                Ok(None) => return false,
                Err(reason) => {
                    self.sent.drop_one(reason);
                    self.done(channel);
                }
            }
        }
        self.outbound.leaving(channel).is_some()
    }

    /// A copy of a descriptor, held against what the service recorded. `None`: it has to wait for a staging buffer.
    fn checked(&mut self, d: &Descriptor) -> Result<Option<Leaving>, DropReason> {
        self.channels.check_sends(ChannelId(d.channel))?;
        let channel = *self.channels.find(ChannelId(d.channel)).ok_or(DropReason::BadDescriptor)?;
        let octets = d.octets as usize;
        let at = match d.buffer {
            Descriptor::INLINE if octets <= INLINE_OCTETS => None,
            Descriptor::INLINE => return Err(DropReason::BadDescriptor),
            Descriptor::OWN => None,
            buffer => Some(self.geometry().buffer_at(buffer).ok_or(DropReason::BadDescriptor)?),
        };
        if octets == 0 || (at.is_some() && octets > self.geometry().buffer_octets as usize) {
            return Err(DropReason::BadDescriptor);
        }
        let meta = SduMeta { uu: d.uu, cpi: d.cpi, clp: d.clp, congestion: d.congestion };
        let cells = match channel.aal {
            Aal::Aal5 => {
                let begun = Segmentation::new(channel.circuit, octets, meta);
                Outgoing::Aal5(begun.map_err(|_| DropReason::BadDescriptor)?)
            }
            Aal::Aal34 if octets <= aal34::MAX_SDU_OCTETS => Outgoing::Aal34(None),
            Aal::Aal34 => return Err(DropReason::BadDescriptor),
            Aal::Aal0 | Aal::Oam if octets == wire::octets::CELL52_OCTETS => Outgoing::Cell,
            Aal::Aal0 | Aal::Oam => return Err(DropReason::WrongAal),
        };
        let source = match d.buffer {
            Descriptor::OWN => Some(self.path.begin_own(d)?),
            _ => self.path.begin(&self.segment, d, at),
        };
        Ok(source.map(|source| Leaving { channel, source, octets, meta, cells, aborted: false }))
    }

    /// A channel's oldest descriptor is done with: its slot and buffer are the client's again, once [`Attached::show`] says so.
    pub(crate) fn done(&mut self, channel: u32) {
        if let Some(leaving) = self.outbound.done(channel, &mut self.send) {
            self.path.end(&leaving.source);
        }
        self.strategy.note_taken();
    }

    /// Its application has gone: what is in the send ring now is all that is still sent. False if that is nothing.
    pub(crate) fn depart(&mut self) -> bool {
        if self.asleep {
            return false;
        }
        // Who has a copy of the memory may go on to write into it: it is not read any more.
        self.take_up(self.geometry().send_ring as usize);
        self.strategy.forget_bell();
        self.departs = true;
        !self.outbound.is_empty()
    }

    /// Whether its application has gone.
    pub(crate) fn is_departing(&self) -> bool {
        self.departs
    }

    /// Whether all that its application left has been sent.
    pub(crate) fn has_left(&self) -> bool {
        self.departs && self.outbound.is_empty()
    }

    /// Begins with no more SDUs, and gives up those that are leaving in a way that their receivers understand. True if
    /// cells have to leave for that.
    pub(crate) fn end(&mut self) -> bool {
        self.ending = true;
        self.abort(|_| true);
        let busy: Vec<u32> = self.outbound.busy().collect();
        for channel in busy {
            if let Some(unseen) = self.outbound.take_back(channel) {
                self.path.end(&unseen.source);
            }
        }
        self.is_ending()
    }

    /// Gives up the SDUs that are leaving on some channels, as far as their receivers have seen a beginning.
    fn abort(&mut self, concerns: impl Fn(&Channel) -> bool) {
        let busy: Vec<u32> = self.outbound.busy().collect();
        for channel in busy {
            let Some(leaving) = self.outbound.leaving(channel).filter(|leaving| concerns(&leaving.channel)) else {
                continue;
            };
            leaving.aborted = leaving.aborted || leaving.cells.abort();
        }
    }

    /// Whether cells that end a PDU have not left yet.
    pub(crate) fn is_ending(&mut self) -> bool {
        let busy: Vec<u32> = self.outbound.busy().collect();
        busy.into_iter().any(|channel| self.outbound.leaving(channel).is_some_and(|leaving| leaving.aborted))
    }

    /// Takes a descriptor that is not sent any more out of its queue, and says of which circuit it was. `None`: there is
    /// none.
    pub(crate) fn drop_last(&mut self) -> Option<Option<CircuitId>> {
        let channel = self.outbound.busy().next()?;
        let leaving = self.outbound.leaving(channel).map(|leaving| leaving.channel.circuit);
        let open = self.channels.at(channel).copied();
        self.sent.drop_one(DropReason::Closed);
        self.done(channel);
        self.send.publish();
        Some(leaving.or(open.map(|open| open.circuit)))
    }

    /// Gives up what the channels of a circuit that is no more have to send, and ends them.
    pub(crate) fn forget_circuit(&mut self, circuit: CircuitId) {
        let busy: Vec<u32> = self.outbound.busy().collect();
        for channel in busy {
            if self.outbound.leaving(channel).is_some_and(|leaving| leaving.channel.circuit == circuit) {
                self.sent.drop_one(DropReason::Closed);
                self.done(channel);
            }
            if self.channels.at(channel).is_some_and(|open| open.circuit == circuit) {
                self.drop_queued(channel);
            }
        }
        self.send.publish();
        self.channels.forget(circuit);
    }

    /// Drops what a channel has to send, but for the SDU that is leaving.
    fn drop_queued(&mut self, channel: u32) -> u64 {
        let aborted = self.outbound.leaving(channel).is_some();
        let mut dropped = 0;
        while self.outbound.first_behind(channel, aborted, &mut self.send) {
            self.sent.drop_one(DropReason::Closed);
            self.strategy.note_taken();
            dropped += 1;
        }
        dropped
    }

    /// Ends a channel: what was pushed for it and has not begun to leave is dropped; an SDU in its middle ends in a way
    /// that its receiver understands. Gives how many were dropped, and whether a cell has to leave for that.
    pub(crate) fn close(&mut self, id: ChannelId, channel: &Channel) -> (u64, bool) {
        // All that was pushed before is counted here; what is pushed from now on finds no channel.
        self.take_up(self.geometry().send_ring as usize);
        self.channels.close(id);
        let number = u32::from(id.place());
        let mut dropped = self.drop_queued(number);
        self.abort(|leaving| leaving.circuit == channel.circuit && leaving.aal == channel.aal);
        let ends = self.outbound.leaving(number).is_some_and(|leaving| leaving.aborted);
        if !ends && self.outbound.leaving(number).is_some() {
            self.sent.drop_one(DropReason::Closed);
            self.done(number);
            dropped += 1;
        }
        self.send.publish();
        (dropped, ends)
    }

    /// Whether its receive ring takes one more descriptor.
    pub(crate) fn has_room(&mut self) -> bool {
        self.receive.room() > 0
    }

    /// Whether there is a buffer to receive into.
    pub(crate) fn has_buffer(&mut self) -> bool {
        let buffer = self.take_buffer();
        if let Some(buffer) = buffer {
            self.keep_buffer(buffer);
        }
        buffer.is_some()
    }

    /// Asks the client to say when it has emptied its receive ring: there is more for it.
    pub(crate) fn ask_for_catching_up(&mut self) {
        self.held_back = true;
        events::ask_for_catching_up(&self.segment, true);
    }

    /// A buffer to receive into.
    pub(crate) fn take_buffer(&mut self) -> Option<Buffer> {
        // A hostile client could fill the ring with nonsense: a bounded look.
        let looks = if std::mem::take(&mut self.look_at_free) || self.stash.is_empty() { FREED_AT_ONCE } else { 0 };
        for _ in 0..looks {
            let Some(d) = self.free.pop() else { break };
            let free = match d.buffer {
                Descriptor::OWN if self.path.kind() == DataPath::SingleCopy => {
                    let octets = d.octets as usize;
                    self.path.own.find_posted(d.address, octets).map(|at| Buffer::Own {
                        address: d.address,
                        at,
                        octets,
                    })
                }
                buffer if buffer < self.geometry().buffers => Some(Buffer::Segment(buffer)),
                _ => None,
            };
            match free {
                Some(free) => self.stash(free),
                None => self.received.drop_one(DropReason::BadDescriptor),
            }
        }
        self.stash.take()
    }

    /// The memory of a buffer, to reassemble into.
    pub(crate) fn memory(&self, buffer: Buffer) -> &[AtomicU8] {
        match buffer {
            Buffer::Segment(index) => {
                let octets = self.geometry().buffer_octets as usize;
                // The number was checked when the buffer was taken.
                self.geometry().buffer_at(index).map_or(&[], |at| self.segment.octets(at, octets))
            }
            Buffer::Own { at, octets, .. } => self.path.own.octets(at, octets),
        }
    }

    /// Keeps a buffer whose PDU failed for the next one.
    pub(crate) fn keep_buffer(&mut self, buffer: Buffer) {
        self.stash.put_back(buffer);
    }

    fn stash(&mut self, buffer: Buffer) {
        // More than were ever given cannot come back, but a hostile client may give one twice.
        if self.stash.len() >= self.most {
            return;
        }
        match buffer {
            Buffer::Segment(index) if self.used[index as usize / 64] & 1 << (index % 64) == 0 => {
                self.used[index as usize / 64] |= 1 << (index % 64);
                self.stash.put_fresh(buffer);
            }
            _ => self.stash.put(buffer),
        }
    }

    /// Delivers an SDU: in `buffer`, or in `inline` if that is `None`.
    ///
    /// # Errors
    /// Why not, counted here. The buffer is kept if the receive ring is full.
    pub(crate) fn deliver(
        &mut self,
        channel: u32,
        octets: usize,
        meta: SduMeta,
        at: Place<'_>,
    ) -> Result<(), DropReason> {
        let mut d = Descriptor::of_buffer(Descriptor::INLINE);
        d.channel = channel;
        d.octets = octets as u32;
        (d.uu, d.cpi, d.clp, d.congestion) = (meta.uu, meta.cpi, meta.clp, meta.congestion);
        let buffer = match at {
            Place::Inline(sdu) => {
                d.inline[..sdu.len()].copy_from_slice(sdu);
                None
            }
            Place::Buffer(buffer) => Some(buffer),
        };
        match buffer {
            Some(Buffer::Segment(index)) => d.buffer = index,
            Some(Buffer::Own { address, .. }) => (d.buffer, d.address) = (Descriptor::OWN, address),
            None => {}
        }
        if !self.receive.push_unseen(d) {
            self.received.drop_one(DropReason::RingFull);
            if let Some(buffer) = buffer {
                self.keep_buffer(buffer);
            }
            return Err(DropReason::RingFull);
        }
        self.unseen += octets + DESCRIPTOR_OCTETS;
        if self.unseen >= SHOWN_AT_ONCE || self.strategy.machine.tells_at_once() {
            self.unseen = 0;
            self.receive.publish();
        }
        self.strategy.note_pushed(&self.segment);
        Ok(())
    }

    /// Delivers an SDU that is at hand whole: inside the descriptor, or in a free buffer.
    pub(crate) fn deliver_copy(&mut self, channel: u32, sdu: &[u8], meta: SduMeta) -> Result<(), DropReason> {
        let place = if sdu.len() <= INLINE_OCTETS {
            Place::Inline(sdu)
        } else {
            let Some(buffer) = self.take_buffer() else {
                self.received.drop_one(DropReason::NoBuffer);
                return Err(DropReason::NoBuffer);
            };
            if sdu.len() > self.memory(buffer).len() {
                self.keep_buffer(buffer);
                self.received.drop_one(DropReason::Oversize);
                return Err(DropReason::Oversize);
            }
            match buffer {
                Buffer::Segment(index) => {
                    if let Some(at) = self.geometry().buffer_at(index) {
                        self.segment.copy_in(at, sdu);
                    }
                }
                Buffer::Own { at, .. } => self.path.own.write(at, sdu),
            }
            Place::Buffer(buffer)
        };
        self.deliver(channel, sdu.len(), meta, place)
    }
}

/// Where a delivered SDU is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// In the buffer's memory ([`Attached::memory`]).
    Buffer(Buffer),
    /// To go into the descriptor.
    Inline(&'a [u8]),
}

/// What the application has given to receive into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Buffer {
    /// A buffer of the segment.
    Segment(u32),
    /// Memory of its own.
    Own { address: u64, at: At, octets: usize },
}

#[cfg(test)]
mod tests {
    use super::*;
    use endpoint::Local;

    #[test]
    fn buffers_go_round_and_nonsense_in_the_free_ring_is_counted() {
        let geometry = Geometry { send_ring: 4, receive_ring: 64, free_ring: 64, buffers: 32, buffer_octets: 128 };
        let segment = Arc::new(Segment::anonymous(geometry).unwrap());
        let mut client = Local::new(&segment);
        let mut host = Attached::new(segment, Events::Polling, DataPath::Shared, None);
        for buffer in (0..32).chain([32, u32::MAX]) {
            assert!(client.free.push(Descriptor::of_buffer(buffer)));
        }
        let mut receive = |host: &mut Attached| {
            host.deliver_copy(0, &[7; 100], SduMeta::default()).unwrap();
            host.show();
            client.receive.pop().unwrap().buffer
        };
        let mut seen: Vec<u32> = (0..32).map(|_| receive(&mut host)).collect();
        assert_eq!(host.received.dropped(DropReason::BadDescriptor), 2);
        // They come back in the order in which they were taken, and go out so again.
        for _ in 0..3 {
            for &buffer in &seen {
                assert!(client.free.push(Descriptor::of_buffer(buffer)));
                assert_eq!(receive(&mut host), buffer);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..32).collect::<Vec<_>>());
    }
}
