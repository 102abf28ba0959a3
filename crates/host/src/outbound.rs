//! What an endpoint's application has pushed and what has not left yet: a queue for each channel, and which of them may go.
//!
//! Descriptors move from the ring into the queue of their channel, so that a circuit that waits for its contract, its
//! credits or its turn holds up nobody else. There are never more than the ring has slots; a slot goes back when an SDU has
//! left, whichever it was ([`Consumer::give_back`]). On the data path `single-copy` slots go back in order, since
//! applications judge by the ring's index which memory is theirs again.

use crate::channels::Channel;
use crate::path::Source;
use endpoint::ChannelId;
use endpoint::layout::Descriptor;
use endpoint::ring::Consumer;
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
    /// Until its pacer's time.
    Paced,
}

/// What one channel has to send.
#[derive(Debug, Default)]
struct Lane {
    first: u32,
    last: u32,
    queued: u32,
    leaving: Option<Leaving>,
    state: State,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Outbound {
    entries: Vec<Entry>,
    free: Vec<u32>,
    lanes: Vec<Lane>,
    ready: VecDeque<u32>,
    paced: BinaryHeap<Reverse<(Time, u32)>>,
    /// Descriptors taken from the ring whose slots have not gone back.
    taken: u32,
    /// Which of those are done with, where slots go back in order.
    in_order: Option<VecDeque<bool>>,
    slots: u32,
}

impl Outbound {
    pub(crate) fn new(slots: u32, in_order: bool) -> Self {
        Outbound {
            entries: Vec::new(),
            free: Vec::new(),
            lanes: Vec::new(),
            ready: VecDeque::new(),
            paced: BinaryHeap::new(),
            taken: 0,
            in_order: in_order.then(VecDeque::new),
            slots,
        }
    }

    /// Whether nothing was taken that has not left.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Descriptors taken that have not left.
    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }

    /// Moves the next descriptor from the ring into the queue of its channel's place, if `check` says that it has one; gives
    /// back the slot of one that has not. `None`: the ring has no more.
    pub(crate) fn take(
        &mut self,
        ring: &mut Consumer,
        check: impl FnOnce(ChannelId) -> Result<(), DropReason>,
    ) -> Option<Result<u32, DropReason>> {
        if self.taken >= self.slots {
            return None;
        }
        let descriptor = ring.peek_ahead(self.taken)?;
        let position = ring.head().wrapping_add(self.taken);
        self.taken += 1;
        if let Some(done) = &mut self.in_order {
            done.push_back(false);
        }
        let channel = ChannelId(descriptor.channel);
        if let Err(reason) = check(channel) {
            self.give_back(ring, position, &descriptor);
            return Some(Err(reason));
        }
        let channel = u32::from(channel.place());
        let entry = Entry { descriptor, position, next: NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
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
            self.ready.push_back(channel);
        }
        Some(Ok(channel))
    }

    fn give_back(&mut self, ring: &mut Consumer, position: u32, descriptor: &Descriptor) {
        match &mut self.in_order {
            None => {
                ring.give_back(position, descriptor);
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

    /// The SDU of a channel that is leaving.
    pub(crate) fn leaving(&mut self, channel: u32) -> Option<&mut Leaving> {
        self.lanes.get_mut(channel as usize)?.leaving.as_mut()
    }

    /// The channel's oldest descriptor has become an SDU that leaves.
    pub(crate) fn begin(&mut self, channel: u32, leaving: Leaving) {
        if let Some(lane) = self.lanes.get_mut(channel as usize) {
            lane.leaving = Some(leaving);
        }
    }

    /// Undoes [`Outbound::begin`] for an SDU that nobody has seen a part of and that is given up.
    pub(crate) fn take_back(&mut self, channel: u32) -> Option<Leaving> {
        self.lanes.get_mut(channel as usize)?.leaving.take_if(|leaving| !leaving.aborted)
    }

    /// The channel's oldest descriptor is done with: its slot and buffer are the application's again. Gives what was
    /// leaving.
    pub(crate) fn done(&mut self, channel: u32, ring: &mut Consumer) -> Option<Leaving> {
        let lane = self.lanes.get_mut(channel as usize).filter(|lane| lane.queued > 0)?;
        let at = lane.first;
        let Entry { descriptor, position, next } = self.entries[at as usize];
        lane.first = next;
        lane.queued -= 1;
        let leaving = lane.leaving.take();
        self.free.push(at);
        self.give_back(ring, position, &descriptor);
        leaving
    }

    /// Gives back the channel's oldest descriptor, or where `behind` says so the one behind it. False if there is none.
    pub(crate) fn first_behind(&mut self, channel: u32, behind: bool, ring: &mut Consumer) -> bool {
        let Some(lane) = self.lanes.get_mut(channel as usize).filter(|lane| lane.queued > u32::from(behind)) else {
            return false;
        };
        let at = if behind { self.entries[lane.first as usize].next } else { lane.first };
        let Entry { descriptor, position, next } = self.entries[at as usize];
        if behind {
            self.entries[lane.first as usize].next = next;
            if lane.last == at {
                lane.last = lane.first;
            }
        } else {
            lane.first = next;
        }
        lane.queued -= 1;
        self.free.push(at);
        self.give_back(ring, position, &descriptor);
        true
    }

    /// The next channel whose turn it is, and which may have another with [`Outbound::again`].
    pub(crate) fn next_ready(&mut self) -> Option<u32> {
        loop {
            let channel = self.ready.pop_front()?;
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

    /// Channels whose turn it may be.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The channel waits for its next turn.
    pub(crate) fn again(&mut self, channel: u32) {
        self.ready.push_back(channel);
    }

    /// The channel waits for its pacer.
    pub(crate) fn wait_until(&mut self, channel: u32, time: Time) {
        self.lanes[channel as usize].state = State::Paced;
        self.paced.push(Reverse((time, channel)));
    }

    /// Those whose pacers' times have come take turns again.
    pub(crate) fn handle_due(&mut self, now: Time) {
        while let Some(Reverse((time, channel))) = self.paced.peek().copied()
            && time <= now
        {
            self.paced.pop();
            if let Some(lane) = self.lanes.get_mut(channel as usize)
                && lane.state == State::Paced
            {
                lane.state = State::Ready;
                self.ready.push_back(channel);
            }
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
mod tests {
    use super::*;
    use endpoint::layout::Geometry;
    use endpoint::ring::{Producer, Which};
    use endpoint::segment::Segment;
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        #[test]
        fn channels_are_fifos_and_each_buffer_comes_back_once(
            steps in prop::collection::vec((0u8..3, 0u32..4), 0..300),
            in_order: bool,
        ) {
            let geometry = Geometry { send_ring: 8, receive_ring: 2, free_ring: 2, buffers: 1, buffer_octets: 64 };
            let segment = Arc::new(Segment::anonymous(geometry).unwrap());
            let (mut producer, mut ring) = (Producer::new(&segment, Which::Send), Consumer::new(&segment, Which::Send));
            let mut outbound = Outbound::new(8, in_order);
            let mut queues = vec![VecDeque::new(); 4];
            let (mut pushed, mut done, mut read) = (0u32, 0usize, 0u32);
            let mut back = Vec::new();
            for (what, channel) in steps {
                match what {
                    0 => if producer.push(Descriptor { channel, ..Descriptor::of_buffer(pushed) }) {
                        queues[channel as usize].push_back(pushed);
                        pushed += 1;
                    },
                    1 => while outbound.take(&mut ring, |_| Ok(())).is_some() {},
                    _ => {
                        let first = outbound.first(channel).map(|d| d.buffer);
                        if let Some(buffer) = first {
                            prop_assert_eq!(queues[channel as usize].pop_front(), Some(buffer));
                            outbound.done(channel, &mut ring);
                            done += 1;
                        }
                    }
                }
                ring.publish();
                while read != producer.consumed() {
                    back.push(producer.given_back(read).1);
                    read += 1;
                }
                prop_assert!(in_order || back.len() == done);
                prop_assert!(back.len() <= done);
            }
            let mut sorted = back.clone();
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(sorted.len(), back.len());
            if in_order {
                prop_assert_eq!(&back, &(0..back.len() as u32).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn channels_take_turns_and_one_that_waits_for_its_pacer_does_not() {
        let geometry = Geometry { send_ring: 8, receive_ring: 2, free_ring: 2, buffers: 1, buffer_octets: 64 };
        let segment = Arc::new(Segment::anonymous(geometry).unwrap());
        let (mut producer, mut ring) = (Producer::new(&segment, Which::Send), Consumer::new(&segment, Which::Send));
        let mut outbound = Outbound::new(8, false);
        for channel in [0, 0, 1, 1] {
            assert!(producer.push(Descriptor { channel, ..Descriptor::of_buffer(0) }));
        }
        while outbound.take(&mut ring, |_| Ok(())).is_some() {}
        assert_eq!(outbound.next_ready(), Some(0));
        outbound.wait_until(0, Time::from_micros(5));
        for _ in 0..2 {
            assert_eq!(outbound.next_ready(), Some(1));
            outbound.done(1, &mut ring);
            outbound.again(1);
        }
        assert_eq!(outbound.next_ready(), None);
        assert_eq!(outbound.poll_timeout(), Some(Time::from_micros(5)));
        outbound.handle_due(Time::from_micros(5));
        assert_eq!(outbound.next_ready(), Some(0));
    }
}
