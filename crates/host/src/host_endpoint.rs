//! One endpoint as the host sees it: its rings, its channels, the SDUs that are leaving.

mod borrowing;
mod ending;
mod free_buffers;
mod parcels;
mod progress;
mod receiving;
mod sums;

pub(crate) use ending::Unloading;

use crate::channels::Channels;
use crate::cycle_limit::{OutcomeMeter, ReceiveOutcome};
use crate::events::poll_list::Slot;
use crate::events::{self, Bell, Strategy};
use crate::lent::Lent;
use crate::outbound::{Leaving, Outbound, Outgoing};
use crate::path::Path;
use borrowing::Borrowing;
pub(crate) use borrowing::{Loan, OrphanedRegions};
use endpoint::layout::{Descriptor, Geometry, Head, INLINE_OCTETS};
use endpoint::ring::{Consumer, Producer, Which};
use endpoint::segment::{Segment, SegmentError};
use endpoint::{Aal, ChannelId, DataPath, Events};
use free_buffers::FreeBuffers;
pub(crate) use parcels::Bounds;
pub(crate) use progress::Pace;
use progress::Progress;
pub(crate) use receiving::{Buffer, SduPlace};
use sar::{SduMeta, Segmentation, aal34};
use std::collections::BTreeSet;
use std::sync::Arc;
use sums::Passed;
use wire::{Cell, CircuitId, Counters, DropReason, Time, aal5};

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
pub(crate) enum PollState {
    /// Nowhere: it is new.
    Not,
    /// In each round, from the next one on: what it waits for is not known.
    Next,
    /// In each round, and the last one has left what the line or a pacer does not take yet.
    Always,
    /// When its doorbell rings.
    Armed,
    /// At a time.
    At(Slot),
}

/// Where an endpoint is in its life; each follows the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Life {
    /// Its memory is not to be touched yet: its application could make that slow.
    Asleep,
    /// Its application uses it.
    Open,
    /// Its application has gone: no more descriptors are taken.
    Departing,
    /// No more SDUs begin to leave.
    Ending,
}

/// Who receives what an endpoint sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receivers {
    /// Some are not behind.
    Ready,
    /// All circuits have credits: these hold it back where one is behind.
    Lossless,
    /// All are behind: it pauses for them.
    Behind,
}

/// SDUs of one channel that became cells side by side.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run {
    pub(crate) cells: usize,
    pub(crate) pdus: u32,
    pub(crate) octets: u64,
}

/// An endpoint of the host.
#[derive(Debug)]
pub struct HostEndpoint {
    pub(crate) segment: Arc<Segment>,
    send: Consumer,
    receive: Producer,
    buffers: FreeBuffers,
    /// Octets of what was delivered and cannot be seen yet.
    unseen: usize,
    pub(crate) channels: Channels,
    /// Circuits whose channels have closed in the middle of a PDU.
    pub(crate) lingering: BTreeSet<u32>,
    /// Its segment, if it lends that.
    pub(crate) lends: Option<Arc<Lent>>,
    /// What its application reads where the senders have it, if a channel of it borrows.
    borrowing: Option<Box<Borrowing>>,
    pub(crate) outbound: Outbound,
    pub(crate) path: Path,
    pub(crate) strategy: Strategy,
    pub(crate) poll_state: PollState,
    /// When its last tick was.
    pub(crate) ticked: Option<Time>,
    pub(crate) progress: Progress,
    pub(crate) receivers: Receivers,
    /// Its quota, not the line, limited it this round.
    pub(crate) used_up: bool,
    pub(crate) life: Life,
    outcome: OutcomeMeter,
    /// It was asked to say when it has caught up: there is more for it.
    pub(crate) held_back: bool,
    /// It was asked to ring while SDUs wait for a line, a pacer or credits.
    pub(crate) asked: bool,
    passed: Passed,
    pub(crate) sent: Counters,
    pub(crate) received: Counters,
}

impl HostEndpoint {
    /// The host's ends of a fresh segment. `bell` is rung when the client sleeps and there is news.
    pub fn new(segment: Arc<Segment>, events: Events, path: DataPath, bell: Option<Bell>) -> Self {
        let geometry = *segment.geometry();
        HostEndpoint {
            send: Consumer::new(&segment, Which::Send),
            receive: Producer::new(&segment, Which::Receive),
            buffers: FreeBuffers::new(&segment),
            unseen: 0,
            channels: Channels::default(),
            lingering: BTreeSet::new(),
            lends: None,
            borrowing: None,
            outbound: Outbound::new(geometry.send_ring, path == DataPath::SingleCopy),
            path: Path::new(path, geometry.buffer_octets as usize),
            strategy: Strategy::new(events, geometry.send_ring, bell),
            poll_state: PollState::Not,
            ticked: None,
            progress: Progress::default(),
            receivers: Receivers::Ready,
            used_up: false,
            life: Life::Open,
            outcome: OutcomeMeter::default(),
            held_back: false,
            asked: false,
            passed: Passed::default(),
            sent: Counters::default(),
            received: Counters::default(),
            segment,
        }
    }

    /// Whether a circuit was ever opened on it.
    pub(crate) fn has_opened(&self) -> bool {
        self.channels.has_opened()
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
        self.admit();
    }

    /// Lets the application see what was delivered and which of its descriptors are done with: the end of a run.
    pub(crate) fn show(&mut self) {
        self.receive.publish();
        self.send.publish();
        self.unseen = 0;
        self.buffers.end_run();
    }

    /// Lets a client go on that waits for room, if there is some.
    pub(crate) fn admit(&mut self) {
        if self.strategy.client_waits(&self.segment) && self.send.waiting_now() <= self.geometry().send_ring / 2 {
            self.strategy.admit(&self.segment);
        }
    }

    /// SDUs that came for it since this was asked last.
    #[inline]
    pub(crate) fn take_receive_outcome(&mut self, now: Time) -> ReceiveOutcome {
        self.outcome.take(self.passed.pushed, self.received.dropped(DropReason::RingFull), now)
    }

    /// Whether it keeps the host's thread awake whatever happens.
    pub(crate) fn polls(&self) -> bool {
        self.strategy.kind() == Events::Polling
    }

    /// Whether SDUs wait for a line or their pacers.
    pub(crate) fn is_leaving(&self) -> bool {
        !self.outbound.is_empty()
    }

    /// Whether there is something to send or somebody to be let on.
    pub(crate) fn is_waiting(&mut self) -> bool {
        !self.outbound.is_empty() || self.has_more() || self.strategy.client_waits(&self.segment)
    }

    /// Whether its application has pushed something that has not been taken.
    pub(crate) fn has_more(&mut self) -> bool {
        self.send.has_ahead(self.outbound.taken())
    }

    /// Asks for the doorbell while what was taken waits: what is for another channel does not. False if there is none.
    pub(crate) fn ask_for_more(&mut self) -> bool {
        self.asked = self.channels.has_several() && self.quota() > 0;
        if self.asked {
            events::ask(&self.segment);
        }
        self.asked
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

    /// How many SDUs may leave until the strategy's next look. Those of an application that has gone all may.
    pub(crate) fn quota(&self) -> u32 {
        let machine = &self.strategy.machine;
        match self.receivers {
            _ if self.is_departing() => u32::MAX,
            Receivers::Lossless => machine.lossless_quota(),
            receivers => machine.quota(receivers == Receivers::Behind),
        }
    }

    /// Whether all that it sends to are behind.
    pub(crate) fn is_pressed(&self) -> bool {
        self.receivers == Receivers::Behind
    }

    /// Moves up to `most` descriptors from the ring into the queues of their channels; counts those without a channel,
    /// and those whose channel is closed, whatever is open at its place by now.
    pub(crate) fn take_up(&mut self, most: usize) {
        let mut refused = 0;
        for _ in 0..if self.is_departing() { 0 } else { most } {
            let channels = &self.channels;
            let Some(taken) = self.outbound.take(&mut self.send, |channel| channels.check_sends(channel)) else {
                break;
            };
            self.passed.taken += 1;
            if let Err(reason) = taken {
                self.sent.drop_one(reason);
                refused += 1;
            }
        }
        // Once for all of them: the application may write to the same line all the time.
        if refused > 0 {
            self.send.publish();
            self.strategy.note_taken(refused);
        }
    }

    /// Begins with a channel's oldest SDU, if none of it is leaving; counts and passes over those that are not in
    /// order, `most` at most. True if one is leaving now.
    pub(crate) fn begin(&mut self, channel: u32, most: usize) -> bool {
        for _ in 0..most {
            if self.outbound.leaving(channel).is_some() {
                return true;
            }
            if self.life == Life::Ending {
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
        self.channels.check_sends(ChannelId(d.head.channel))?;
        let channel = *self.channels.find(ChannelId(d.head.channel)).ok_or(DropReason::BadDescriptor)?;
        let octets = d.head.octets as usize;
        let at = match d.head.buffer {
            Descriptor::INLINE if octets <= INLINE_OCTETS => None,
            Descriptor::INLINE => return Err(DropReason::BadDescriptor),
            Descriptor::OWN | Descriptor::PAGES => None,
            buffer => Some(self.segment.buffer_at(buffer).ok_or(DropReason::BadDescriptor)?),
        };
        if octets == 0 || (at.is_some() && octets > self.geometry().buffer_octets as usize) {
            return Err(DropReason::BadDescriptor);
        }
        let meta = meta(d.head);
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
        let source = match d.head.buffer {
            Descriptor::OWN | Descriptor::PAGES => Some(self.path.begin_own(d)?),
            _ => self.path.begin(&self.segment, d, at),
        };
        Ok(source.map(|source| Leaving { channel, source, octets, meta, cells, aborted: false }))
    }

    /// Segments whole SDUs of a channel that is AAL5 on this circuit into `out`, as many as fit, one after another, and
    /// `most_pdus` at most. Stops before one that is to be looked at more closely ([`HostEndpoint::begin`]), and, where
    /// there are `parcels`, before one that can leave in a parcel.
    pub(crate) fn segment_run(
        &mut self,
        channel: u32,
        circuit: CircuitId,
        out: &mut [Cell],
        (most_pdus, parcels): (u32, bool),
    ) -> Run {
        let mut run = Run::default();
        if self.life == Life::Ending || self.outbound.is_leaving(channel) {
            return run;
        }
        while run.pdus < most_pdus
            && let Some(d) = self.outbound.first(channel)
        {
            let room = &mut out[run.cells..];
            let octets = d.head.octets as usize;
            if parcels && run.pdus > 0 && self.for_parcel(d).is_some() {
                break;
            }
            if octets == 0 || aal5::cells(octets) > room.len() {
                break;
            }
            if !self.sends_on(d, circuit) {
                break;
            }
            let meta = meta(d.head);
            let Ok(mut segmentation) = Segmentation::new(circuit, octets, meta) else { break };
            let n = match d.head.buffer {
                Descriptor::INLINE if octets <= INLINE_OCTETS => segmentation.fill(&d.inline[..octets], room),
                Descriptor::INLINE | Descriptor::OWN | Descriptor::PAGES => break,
                // It is to be taken out of the application's hands first.
                _ if self.path.kind() == DataPath::Copying => break,
                buffer => match self.segment.buffer_at(buffer) {
                    Some(at) if octets <= self.segment.geometry().buffer_octets as usize => {
                        self.path.note_fetched(octets);
                        segmentation.fill_shared(self.segment.octets(at, octets), room)
                    }
                    _ => break,
                },
            };
            self.outbound.pass(channel, &mut self.send);
            run.cells += n;
            run.pdus += 1;
            run.octets += octets as u64;
        }
        if run.pdus > 0 {
            self.strategy.note_taken(run.pdus);
        }
        run
    }

    /// Whether a descriptor's channel sends by AAL5 on this circuit.
    #[inline]
    fn sends_on(&self, d: &Descriptor, circuit: CircuitId) -> bool {
        let open = self.channels.find(ChannelId(d.head.channel));
        open.is_some_and(|open| open.aal == Aal::Aal5 && open.circuit == circuit && open.direction.sends())
    }

    /// A circuit has another contract: what waits for the one before is looked at again.
    pub(crate) fn handle_contract(&mut self, circuit: CircuitId) {
        let busy: Vec<u32> = self.outbound.busy().collect();
        for channel in busy {
            let leaving = self.outbound.leaving(channel).map(|leaving| leaving.channel.circuit);
            if leaving.or_else(|| Some(self.channels.at(channel)?.circuit)) == Some(circuit) {
                self.outbound.end_pause(channel);
            }
        }
    }

    /// A channel's oldest descriptor is done with: its slot and buffer are the client's again, once
    /// [`HostEndpoint::show`] says so.
    pub(crate) fn done(&mut self, channel: u32) {
        if let Some(leaving) = self.outbound.done(channel, &mut self.send) {
            self.path.end(&leaving.source);
            if leaving.aborted {
                self.channels.vacate(channel);
            }
        }
        self.strategy.note_taken(1);
    }
}

/// What a descriptor says of its SDU.
#[inline]
fn meta(Head { uu, cpi, clp, congestion, .. }: Head) -> SduMeta {
    SduMeta { uu, cpi, clp, congestion }
}
