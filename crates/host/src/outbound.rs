//! What an endpoint's application has pushed and what has not left yet: a queue for each channel, and which of them may
//! go.
//!
//! Descriptors move from the ring into the queue of their channel, so that a circuit that waits for its contract, its
//! credits or its turn holds up nobody else. There are never more than the ring has slots; a slot goes back when an SDU
//! has left, whichever it was ([`Consumer::give_back`]). On the data path `single-copy` slots go back in order, since
//! applications judge by the ring's index which memory is theirs again.

mod given_up;
mod in_flight;

use crate::channels::Channel;
use crate::path::Source;
use endpoint::ChannelId;
use endpoint::layout::{Descriptor, Head};
use endpoint::ring::Consumer;
use given_up::GivenUp;
use in_flight::InFlightParcels;
pub(crate) use in_flight::{MOST_CELLS, ParcelMemory, ReadGuard};
use sar::{SduMeta, Segmentation, aal34};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use wire::{DropReason, Time};

const NONE: u32 = u32::MAX;

/// The SDU that is leaving.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) channel: Channel,
    pub(crate) source: Source,
    pub(crate) octets: usize,
    pub(crate) meta: SduMeta,
    /// Its cells, on a cell link.
    pub(crate) cells: Outgoing,
    /// Given up in the middle: one more cell tells the receiver.
    pub(crate) aborted: bool,
}

/// How an SDU becomes cells.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// It is one.
    Cell,
    Aal5(Segmentation),
    /// Once it has begun: its tag and number are the circuit's to give.
    Aal34(Option<aal34::Segmentation>),
}

impl Outgoing {
    /// Gives the SDU up: true if a cell more tells the receiver, who has seen its beginning.
    pub(crate) fn abort(&mut self) -> bool {
        match self {
            Outgoing::Aal5(segmentation) => {
                segmentation.abort();
                !segmentation.is_done()
            }
            Outgoing::Aal34(Some(segmentation)) => {
                segmentation.abort();
                !segmentation.is_done()
            }
            Outgoing::Cell | Outgoing::Aal34(None) => false,
        }
    }
}

/// A descriptor that was taken from the ring, and where it was.
#[derive(Debug, Clone, Copy)]
struct Entry {
    descriptor: Descriptor,
    position: u32,
    next: u32,
}

/// Where a channel stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// It has nothing to send.
    #[default]
    Idle,
    /// Among those that take turns.
    Ready,
    /// Until its pacer's time: the entries for other times are void.
    Paced(Time),
    /// Until its circuit is granted credit.
    Waiting,
}

/// Who has a turn first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Class {
    /// Circuits whose rate is reserved and that send no more than it: on a frame link others would else have a long
    /// frame for each of their short ones.
    Reserved,
    #[default]
    Rest,
}

/// What one channel has to send.
#[derive(Debug, Default)]
struct Lane {
    first: u32,
    last: u32,
    queued: u32,
    leaving: Option<Leaving>,
    /// Cells of SDUs that have left in parcels and have not been read.
    aboard: usize,
    state: State,
    /// It is listed among those that wait for credit, whether it still does or not.
    listed: bool,
    class: Class,
}

impl Lane {
    /// With nothing to send it waits for nothing: the channel that has something next begins anew.
    fn settle(&mut self) {
        if self.queued == 0 && matches!(self.state, State::Paced(_) | State::Waiting) {
            self.state = State::Idle;
        }
    }
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Outbound {
    entries: Vec<Entry>,
    free: Vec<u32>,
    lanes: Vec<Lane>,
    /// By class.
    ready: [VecDeque<u32>; 2],
    /// Channels that wait for their pacers, and some that did: twice as many as there are lanes at most.
    paced: BinaryHeap<Reverse<(Time, u32)>>,
    /// Channels that wait for credit, and some that did: each once.
    waiting: Vec<u32>,
    /// Channels of which an SDU is leaving.
    leaving: u32,
    /// Descriptors taken from the ring whose slots have not gone back.
    taken: u32,
    /// Which of those are done with, where slots go back in order.
    in_order: Option<VecDeque<bool>>,
    /// What has left in parcels and has not been read.
    aboard: InFlightParcels,
    /// What waited for channels whose circuits are no more.
    given_up: GivenUp,
    slots: u32,
}

impl Outbound {
    pub(crate) fn new(slots: u32, in_order: bool) -> Self {
        Outbound {
            entries: Vec::new(),
            free: Vec::new(),
            lanes: Vec::new(),
            ready: Default::default(),
            paced: BinaryHeap::new(),
            waiting: Vec::new(),
            leaving: 0,
            taken: 0,
            in_order: in_order.then(VecDeque::new),
            aboard: InFlightParcels::default(),
            given_up: GivenUp::default(),
            slots,
        }
    }

    /// Whether nothing was taken that has not left.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Descriptors that wait in the queues of channels, those that are leaving or were given up included.
    pub(crate) fn queued(&self) -> u64 {
        (self.entries.len() - self.free.len()) as u64 - u64::from(self.aboard.pdus())
    }

    /// Whether an SDU has begun to leave and has not left whole.
    pub(crate) fn is_in_an_sdu(&self) -> bool {
        self.leaving > 0
    }

    /// Descriptors taken that have not left.
    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }

    /// Moves the next descriptor from the ring into the queue of its channel's place, if `check` says that it has one;
    /// gives back the slot of one that has not. `None`: the ring has no more.
    pub(crate) fn take(
        &mut self,
        ring: &mut Consumer,
        check: impl FnOnce(ChannelId) -> Result<(), DropReason>,
    ) -> Option<Result<u32, DropReason>> {
        if self.taken >= self.slots {
            return None;
        }
        let ahead = self.taken;
        let head = ring.peek_head(ahead)?;
        let position = ring.head().wrapping_add(self.taken);
        self.taken += 1;
        if let Some(done) = &mut self.in_order {
            done.push_back(false);
        }
        let channel = ChannelId(head.channel);
        if let Err(reason) = check(channel) {
            self.give_back(ring, position, (head.channel, head.buffer));
            return Some(Err(reason));
        }
        let channel = u32::from(channel.place());
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { descriptor: head.into(), position, next: NONE });
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[at as usize];
        (entry.position, entry.next) = (position, NONE);
        ring.read_into(ahead, head, &mut entry.descriptor);
        if channel as usize >= self.lanes.len() {
            self.lanes.resize_with(channel as usize + 1, Lane::default);
        }
        let lane = &mut self.lanes[channel as usize];
        if lane.queued == 0 {
            lane.first = at;
        } else {
            self.entries[lane.last as usize].next = at;
        }
        let lane = &mut self.lanes[channel as usize];
        lane.last = at;
        lane.queued += 1;
        if lane.state == State::Idle {
            lane.state = State::Ready;
            self.ready[lane.class as usize].push_back(channel);
        }
        Some(Ok(channel))
    }

    #[inline]
    fn give_back(&mut self, ring: &mut Consumer, position: u32, (channel, buffer): (u32, u32)) {
        match &mut self.in_order {
            None => {
                ring.give_back(position, channel, buffer);
                self.taken -= 1;
            }
            Some(done) => {
                if let Some(this) = done.get_mut(position.wrapping_sub(ring.head()) as usize) {
                    *this = true;
                }
                while done.front() == Some(&true) {
                    done.pop_front();
                    ring.advance_unseen();
                    self.taken -= 1;
                }
            }
        }
    }

    /// The descriptor that a channel sends now, or would begin next.
    pub(crate) fn first(&self, channel: u32) -> Option<&Descriptor> {
        let lane = self.lanes.get(channel as usize).filter(|lane| lane.queued > 0)?;
        Some(&self.entries[lane.first as usize].descriptor)
    }

    /// Whether an SDU of a channel is leaving.
    #[inline]
    pub(crate) fn is_leaving(&self, channel: u32) -> bool {
        self.lanes.get(channel as usize).is_some_and(|lane| lane.leaving.is_some())
    }

    /// The SDU of a channel that is leaving.
    pub(crate) fn leaving(&mut self, channel: u32) -> Option<&mut Leaving> {
        self.lanes.get_mut(channel as usize)?.leaving.as_mut()
    }

    /// The channel's oldest descriptor has become an SDU that leaves.
    pub(crate) fn begin(&mut self, channel: u32, leaving: Leaving) {
        if let Some(lane) = self.lanes.get_mut(channel as usize) {
            self.leaving += u32::from(lane.leaving.replace(leaving).is_none());
        }
    }

    /// Undoes [`Outbound::begin`] for an SDU that nobody has seen a part of and that is given up.
    pub(crate) fn take_back(&mut self, channel: u32) -> Option<Leaving> {
        let taken = self.lanes.get_mut(channel as usize)?.leaving.take_if(|leaving| !leaving.aborted);
        self.leaving -= u32::from(taken.is_some());
        taken
    }

    /// The channel's oldest descriptor is done with: its slot and buffer are the application's again. Gives what was
    /// leaving.
    pub(crate) fn done(&mut self, channel: u32, ring: &mut Consumer) -> Option<Leaving> {
        let lane = self.lanes.get_mut(channel as usize).filter(|lane| lane.queued > 0)?;
        let at = lane.first;
        let Entry { descriptor: Descriptor { head: Head { channel, buffer, .. }, .. }, position, next } =
            self.entries[at as usize];
        lane.first = next;
        lane.queued -= 1;
        let leaving = lane.leaving.take();
        self.leaving -= u32::from(leaving.is_some());
        lane.settle();
        self.free.push(at);
        self.give_back(ring, position, (channel, buffer));
        leaving
    }

    /// The channel's oldest descriptor, which was not begun, is done with: all of its SDU has left at once.
    #[inline]
    pub(crate) fn pass(&mut self, channel: u32, ring: &mut Consumer) {
        let Some(lane) = self.lanes.get_mut(channel as usize).filter(|lane| lane.queued > 0) else { return };
        let at = lane.first;
        let entry = &self.entries[at as usize];
        lane.first = entry.next;
        lane.queued -= 1;
        let (position, channel, buffer) = (entry.position, entry.descriptor.head.channel, entry.descriptor.head.buffer);
        self.free.push(at);
        self.give_back(ring, position, (channel, buffer));
    }

    /// Gives back the channel's oldest descriptor, or where `behind` says so the one behind it. False if there is none.
    pub(crate) fn first_behind(&mut self, channel: u32, behind: bool, ring: &mut Consumer) -> bool {
        let Some(lane) = self.lanes.get_mut(channel as usize).filter(|lane| lane.queued > u32::from(behind)) else {
            return false;
        };
        let at = if behind { self.entries[lane.first as usize].next } else { lane.first };
        let Entry { descriptor: Descriptor { head: Head { channel, buffer, .. }, .. }, position, next } =
            self.entries[at as usize];
        if behind {
            self.entries[lane.first as usize].next = next;
            if lane.last == at {
                lane.last = lane.first;
            }
        } else {
            lane.first = next;
        }
        lane.queued -= 1;
        lane.settle();
        self.free.push(at);
        self.give_back(ring, position, (channel, buffer));
        true
    }

    /// The next channel of a class whose turn it is, and which may have another with [`Outbound::again`].
    pub(crate) fn next_ready(&mut self, class: Class) -> Option<u32> {
        loop {
            let channel = self.ready[class as usize].pop_front()?;
            let lane = &mut self.lanes[channel as usize];
            if lane.state != State::Ready {
                continue;
            }
            if lane.queued > 0 {
                return Some(channel);
            }
            lane.state = State::Idle;
        }
    }

    /// Channels of a class whose turn it may be.
    pub(crate) fn ready(&self, class: Class) -> usize {
        self.ready[class as usize].len()
    }

    /// The channel waits for its next turn.
    pub(crate) fn again(&mut self, channel: u32) {
        self.ready[self.lanes[channel as usize].class as usize].push_back(channel);
    }

    /// From its next turn on the channel is of this class.
    #[inline]
    pub(crate) fn set_class(&mut self, channel: u32, class: Class) {
        if let Some(lane) = self.lanes.get_mut(channel as usize) {
            lane.class = class;
        }
    }

    /// The channel waits for its pacer.
    pub(crate) fn wait_until(&mut self, channel: u32, time: Time) {
        self.lanes[channel as usize].state = State::Paced(time);
        if self.paced.len() < 2 * self.lanes.len() {
            return self.paced.push(Reverse((time, channel)));
        }
        // Most are void.
        self.paced.clear();
        self.paced.extend(self.lanes.iter().zip(0..).filter_map(|(lane, channel)| match lane.state {
            State::Paced(time) => Some(Reverse((time, channel))),
            _ => None,
        }));
    }

    /// The channel waits for its pacer no more, if it did: that may say something else by now.
    pub(crate) fn end_pause(&mut self, channel: u32) {
        if let Some(lane) = self.lanes.get_mut(channel as usize)
            && matches!(lane.state, State::Paced(_))
        {
            lane.state = State::Ready;
            self.ready[lane.class as usize].push_back(channel);
        }
    }

    /// The channel waits for credit.
    pub(crate) fn wait_for_credit(&mut self, channel: u32) {
        let lane = &mut self.lanes[channel as usize];
        lane.state = State::Waiting;
        if !std::mem::replace(&mut lane.listed, true) {
            self.waiting.push(channel);
        }
    }

    /// A circuit was granted credit: those that wait for some take turns again.
    pub(crate) fn handle_credit(&mut self) {
        for channel in self.waiting.drain(..) {
            let lane = &mut self.lanes[channel as usize];
            lane.listed = false;
            if lane.state == State::Waiting {
                lane.state = State::Ready;
                self.ready[lane.class as usize].push_back(channel);
            }
        }
    }

    /// Those whose pacers' times have come have the next turns, in the order of these times.
    pub(crate) fn handle_due(&mut self, now: Time) {
        if self.poll_timeout().is_none_or(|time| time > now) {
            return;
        }
        let before = self.ready.each_ref().map(VecDeque::len);
        while let Some(Reverse((time, channel))) = self.paced.peek().copied()
            && time <= now
        {
            self.paced.pop();
            if let Some(lane) = self.lanes.get_mut(channel as usize)
                && lane.state == State::Paced(time)
            {
                lane.state = State::Ready;
                self.ready[lane.class as usize].push_back(channel);
            }
        }
        // Before those that have waited for nothing but their turn.
        for (ready, before) in self.ready.iter_mut().zip(before) {
            ready.rotate_left(before);
        }
    }

    /// When [`Outbound::handle_due`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.paced.peek().map(|Reverse((time, _))| *time)
    }

    /// Channels with something to send, for changes of circuits.
    pub(crate) fn busy(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.lanes.len() as u32).filter(|channel| self.lanes[*channel as usize].queued > 0)
    }
}

#[cfg(test)]
mod tests;
