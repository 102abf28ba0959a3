//! The side of the chip that faces the host: channels, their pages of registers, and what moves between memory and
//! cells.

use super::Config;
use super::batch::Batches;
use super::channel::{Aal, Abort, Buffer, Channel, ChannelRef, Direction, Outgoing, PREFETCH, State};
use super::grant::{Area, Areas, BODY_AT, Descriptor, Outcome, STATUS_AT};
use super::hmi::{Completion, Hmi, Timing, Transfer};
use super::notify::{DONE, NO_BUFFER, Notifications, STOPPED};
use super::pacer::Pacer;
use super::queue::Bypass;
use super::ring::RingState;
use bus::HostMemory;
use wire::{Counters, DropReason, Time};

/// A register of a channel's page: how many descriptors the process has written into the ring, ever.
pub const PRODUCED: u32 = 0;
/// How many of them have a status. Read only.
pub const COMPLETED: u32 = 4;
/// Write 1: go on after an error. Read: 1 while the channel has stopped at one.
pub const STOP: u32 = 8;

/// Why a channel cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// The chip has fewer.
    #[error("no channel {0}: the chip has fewer")]
    Number(u16),
    /// Somebody has it.
    #[error("channel {0} is open already")]
    InUse(u16),
    /// The pool that it is to take buffers from is none, another owner's, or of another latency; or it is not for AAL5.
    #[error("channel {0} is no pool of the same owner and latency, or the channel is not for AAL5")]
    Pool(u16),
    /// The ring is not a power of two of entries up to 4096, or leaves the bus.
    #[error("a ring has 1 to 4096 descriptors, a power of two, within the bus addresses")]
    Ring,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub(super) struct Host {
    pub(super) areas: Areas,
    channels: Vec<Option<State>>,
    generations: Vec<u16>,
    pub(super) pacer: Pacer,
    pub(super) hmi: Hmi,
    /// The Transmit FIFO.
    pub(super) outgoing: Bypass<Outgoing>,
    /// Leave before that.
    pub(super) aborts: Bypass<Abort>,
    pub(super) batches: Batches,
    pub(super) notify: Notifications,
    /// Cells of a transfer.
    pub(super) batch: u32,
    pub(super) pacing: bool,
    /// A slot in the clock's fractions.
    pub(super) slot: u64,
    /// Accesses to pages of channels that are not open.
    pub(super) refused: u64,
    /// What channels that are no more have carried and lost.
    pub(super) former: Counters,
}

impl Host {
    pub(super) fn new(config: &Config, slot: u64) -> Self {
        let fractions_per_nano = f64::from(1u32 << super::clock::FRACTION);
        let bypass = config.switches.bypass;
        let timing = Timing {
            setup: (config.memory_setup.as_nanos() as f64 * fractions_per_nano) as u64,
            per_octet: 8e9 / config.memory_bits_per_s * fractions_per_nano,
            slot,
        };
        let channels = config.channels.min(1 << 15);
        Host {
            areas: Areas::new(config.areas),
            channels: vec![None; channels],
            generations: vec![0; channels],
            pacer: Pacer::new(channels, config.tags, bypass),
            hmi: Hmi::new(timing, config.receive_batches, channels, bypass),
            outgoing: Bypass::new(config.transmit_cells.max(super::batch::MAX_BATCH), bypass),
            aborts: Bypass::new(channels, bypass),
            batches: Batches::new(config.receive_batches),
            notify: Notifications::new(channels),
            batch: config.batch.clamp(1, super::batch::MAX_BATCH) as u32,
            pacing: config.switches.pacing,
            slot,
            refused: 0,
            former: Counters::default(),
        }
    }

    pub(super) fn open(&mut self, number: u16, settings: Channel) -> Result<(), ChannelError> {
        let at = usize::from(number);
        match self.channels.get(at) {
            None => return Err(ChannelError::Number(number)),
            Some(Some(_)) => return Err(ChannelError::InUse(number)),
            Some(None) => {}
        }
        if let Direction::Split { low_latency, pool, .. } = settings.direction {
            let same = |other: &State| {
                let Channel { owner, direction, .. } = other.settings;
                owner == settings.owner && direction == Direction::Pool { low_latency }
            };
            if settings.aal != Aal::Aal5 || !self.channel(pool).is_some_and(same) {
                return Err(ChannelError::Pool(pool));
            }
        }
        let ring = RingState::new(settings.ring).ok_or(ChannelError::Ring)?;
        self.channels[at] = Some(State::new(settings, ring));
        Ok(())
    }

    /// What of the channel is under way is void and counted: its generation is over. A PDU that has begun to leave is ended by a
    /// cell that its receiver understands.
    pub(super) fn close(&mut self, number: u16) -> bool {
        let Some(state) = self.channels.get_mut(usize::from(number)).and_then(Option::take) else { return false };
        if let Some(batch) = state.receiving.batch {
            self.batches.free(batch);
        }
        self.give_back(state.receiving.body);
        if let Direction::Transmit { connection, .. } = state.settings.direction
            && state.sending.in_pdu
        {
            let crc = state.sending.crc;
            self.aborts.push(connection.low_latency, Abort { connection, crc });
        }
        self.retire(&state, DropReason::Closed);
        let generation = &mut self.generations[usize::from(number)];
        *generation = generation.wrapping_add(1);
        self.notify.forget(number);
        true
    }

    /// A channel is no more: so are its PDUs that are not over.
    fn retire(&mut self, state: &State, reason: DropReason) {
        self.former.add(&state.counters);
        self.former.drop_n(reason, state.open_pdus());
    }

    /// All channels are no more; what they and those before them have carried and lost.
    pub(super) fn lose_all(&mut self, reason: DropReason) -> Counters {
        for state in core::mem::take(&mut self.channels).into_iter().flatten() {
            self.retire(&state, reason);
        }
        self.former
    }

    pub(super) fn channel(&self, number: u16) -> Option<&State> {
        self.channels.get(usize::from(number))?.as_ref()
    }

    pub(super) fn named(&self, number: u16) -> Option<ChannelRef> {
        self.channel(number)?;
        Some(ChannelRef { number, generation: self.generations[usize::from(number)] })
    }

    pub(super) fn state(&mut self, channel: ChannelRef) -> Option<&mut State> {
        let at = usize::from(channel.number);
        self.channels.get_mut(at)?.as_mut().filter(|_| self.generations[at] == channel.generation)
    }

    /// A process writes a register of a channel's page.
    pub(super) fn write_page(&mut self, number: u16, register: u32, value: u32) {
        let Some(channel) = self.named(number) else {
            self.refused += 1;
            return;
        };
        let Some(state) = self.state(channel) else { return };
        match register {
            PRODUCED if state.ring.produce(value) => {}
            STOP if value == 1 => state.stopped = false,
            _ => state.refused += 1,
        }
        self.fetch_descriptor(channel);
    }

    /// A process reads a register of a channel's page.
    pub(super) fn read_page(&mut self, number: u16, register: u32) -> u32 {
        let Some(Some(state)) = self.channels.get_mut(usize::from(number)) else {
            self.refused += 1;
            return u32::MAX;
        };
        match register {
            COMPLETED => state.ring.completed(),
            STOP => state.stopped.into(),
            _ => {
                state.refused += 1;
                u32::MAX
            }
        }
    }

    /// Has the next descriptor read, if there is one and room for it.
    pub(super) fn fetch_descriptor(&mut self, channel: ChannelRef) {
        let Some(state) = self.state(channel) else { return };
        let wanted = !state.fetching && !state.stopped && state.ready.len() < PREFETCH && state.ring.next().is_some();
        if wanted {
            state.fetching = true;
            self.hmi.descriptors.push_back(channel);
        }
    }

    /// Whether slots have something to do; if not, [`Host::next_due`] says when they have.
    pub(super) fn is_working(&self) -> bool {
        !self.hmi.is_idle()
            || self.pacer.tags.len() > 0
            || self.outgoing.len() + self.aborts.len() > 0
            || self.pacer.has_others()
    }

    /// Whether a slot that begins then has something to do.
    pub(super) fn has_work(&self, begins: u64) -> bool {
        self.is_working() || self.next_due().is_some_and(|due| due <= begins)
    }

    /// When the Pacer has something, in the clock's fractions.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.pacer.next_due()
    }

    /// One slot of Pacer and Host Memory Interface.
    pub(super) fn run(&mut self, fractions: u64, now: Time, memory: &mut dyn HostMemory) {
        self.make_tag(fractions);
        loop {
            if let Some(transfer) = self.hmi.finished(fractions) {
                self.finish(transfer, now, memory);
            }
            let batch = self.batch as usize;
            let room = [self.outgoing.room(true) >= batch, self.outgoing.room(false) >= batch];
            if !self.hmi.begin(fractions, &mut self.pacer.tags, room) {
                break;
            }
        }
    }

    fn finish(&mut self, transfer: Transfer, now: Time, memory: &mut dyn HostMemory) {
        match transfer {
            Transfer::Fetch(tag) => self.fetch(tag, memory),
            Transfer::Write(write) => self.write(write, memory),
            Transfer::Descriptor(channel) => self.take_descriptor(channel, memory),
            Transfer::Complete(done) => self.complete(done, now, memory),
        }
    }

    /// A descriptor has been read: it is checked here, once, on the chip's own copy.
    fn take_descriptor(&mut self, channel: ChannelRef, memory: &mut dyn HostMemory) {
        let Some(state) = self.state(channel) else { return };
        state.fetching = false;
        let Some(index) = state.ring.next() else { return };
        let settings = state.settings;
        let mut octets = [0; 16];
        let read = memory.read(state.ring.address(index), &mut octets);
        state.ring.advance();
        let descriptor = Descriptor::from_octets(&octets);
        let Descriptor { area, offset, length, .. } = descriptor;
        let checked = match read {
            Err(_) => Err(Outcome::Revoked),
            Ok(()) => self.areas.address(settings.owner, area, offset, length, settings.writes()),
        };
        let checked = checked.and_then(|_| settings.allows(length));
        match checked {
            Ok(()) => {
                if let Some(state) = self.state(channel) {
                    state.ready.push_back(Buffer { index, descriptor });
                    if matches!(settings.direction, Direction::Pool { .. }) {
                        // The chip has its own copy: the ring's place is the owner's again.
                        state.ring.complete();
                    }
                }
                self.pace(channel);
            }
            Err(outcome) => self.fail(channel, index, outcome),
        }
        self.fetch_descriptor(channel);
    }

    /// A descriptor's own error: it gets a status, and its channel stops until the owner resumes it.
    pub(super) fn fail(&mut self, channel: ChannelRef, index: u32, outcome: Outcome) {
        self.fail_with(channel, index, outcome, None);
    }

    /// The same of a PDU that is split: the pool's buffer is the owner's again.
    pub(super) fn fail_with(&mut self, channel: ChannelRef, index: u32, outcome: Outcome, body: Option<u32>) {
        let Some(state) = self.state(channel) else { return };
        state.stopped = true;
        let reason = if outcome == Outcome::NotGranted { DropReason::NotPermitted } else { DropReason::BadDescriptor };
        state.counters.drop_one(reason);
        self.hmi.completions.push_back(Completion { channel, index, status: outcome.status(0), body });
    }

    /// A status goes into its descriptor.
    pub(super) fn complete(&mut self, done: Completion, now: Time, memory: &mut dyn HostMemory) {
        let Some(state) = self.state(done.channel) else { return };
        state.ring.complete();
        let descriptor = state.ring.address(done.index);
        let body = done.body.map_or(Ok(()), |body| memory.write(descriptor + BODY_AT, &body.to_le_bytes()));
        let written = body.and_then(|()| memory.write(descriptor + STATUS_AT, &done.status.to_le_bytes()));
        let good = done.status & 0x7f00_0000 == 0;
        let received = good && state.settings.receives();
        state.unwritten -= u64::from(received);
        if written.is_err() {
            state.counters.drop_one(DropReason::BadDescriptor);
        } else if received {
            // Its owner learns of it now.
            state.counters.pass([0, 1, u64::from(done.status & 0xffff)]);
        }
        let event = if good { DONE } else { DONE | STOPPED };
        let when = state.settings.interrupt;
        self.notify.note(done.channel.number, event, when, now);
    }

    /// Received data had no buffer: the owner may want to know.
    pub(super) fn note_no_buffer(&mut self, channel: ChannelRef, now: Time) {
        let Some(state) = self.state(channel) else { return };
        let when = state.settings.interrupt;
        self.notify.note(channel.number, NO_BUFFER, when, now);
    }

    /// Grants an area, or revokes it.
    pub(super) fn set_area(&mut self, number: u16, area: Option<Area>) -> bool {
        self.areas.set(number, area)
    }
}

impl Channel {
    /// Whether a buffer of this length is one.
    fn allows(&self, length: u32) -> Result<(), Outcome> {
        let raw = self.aal == Aal::Raw;
        let good = match self.direction {
            Direction::Transmit { .. } if raw => length > 0 && length.is_multiple_of(48) && length <= 48 * 1024,
            Direction::Receive { .. } if raw => length >= 48,
            Direction::Transmit { .. } => length > 0 && length <= wire::aal5::MAX_SDU_OCTETS as u32,
            Direction::Split { head, .. } => length > 0 && length >= head,
            Direction::Receive { .. } | Direction::Pool { .. } => length > 0,
        };
        if good { Ok(()) } else { Err(Outcome::BadLength) }
    }
}
