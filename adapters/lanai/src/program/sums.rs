//! Whether each message and each packet of an interface is accounted for.

use super::{Event, INTERFACES, Lanai, Monitor, Transfer, Work};
use wire::DropReason;

/// What has begun: the other side of what the monitoring variables count as ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Begun {
    pub(super) queued: u64,
    pub(super) made: u64,
    pub(super) opened: u64,
    pub(super) told: [u64; INTERFACES],
}

/// What became of all messages and packets of an interface. Counters wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LanaiSums {
    /// Messages and packets that are over.
    pub monitor: Monitor,
    /// Messages that users queued.
    pub queued: u64,
    /// Of those, the ones that are not over.
    pub sending: u64,
    /// The same, as queues, engines and send buffers have them.
    pub sending_in_queues: u64,
    /// Packets that the program made: a copy of a part for each receiver, of mapping, and of groups to be passed on.
    pub made: u64,
    /// Of those, the ones that wait in the SRAM, or that the link has not done with.
    pub waiting: u64,
    /// Packets that wait until the program looks at them.
    pub looking: u64,
    /// Messages whose first part came.
    pub opened: u64,
    /// Of those, the ones of which parts are missing.
    pub open: u64,
    /// Messages that users have learnt of, by user interface.
    pub told: [u64; INTERFACES],
    /// Messages that came whole, of which users will learn.
    pub untold: [u64; INTERFACES],
}

impl LanaiSums {
    /// Whether each message that was queued or began to come, and each packet, has left or come, was dropped for a reason, or is
    /// under way.
    pub fn add_up(&self) -> bool {
        let over = |counters: &wire::Counters| counters.pdus.wrapping_add(counters.dropped_total());
        let told = self.told.iter().chain(&self.untold).fold(0, |sum: u64, n| sum.wrapping_add(*n));
        let Monitor { sent, received, packets_sent, mapping_sent, .. } = &self.monitor;
        self.queued == over(sent).wrapping_add(self.sending)
            && self.sending == self.sending_in_queues
            && self.made == over(packets_sent).wrapping_add(over(mapping_sent)).wrapping_add(self.waiting)
            && self.opened == over(received).wrapping_add(self.open)
            && received.pdus == told
    }

    /// Packets that came, whatever became of them.
    pub fn came(&self) -> u64 {
        let counters = &self.monitor.packets_received;
        let of_users = counters.pdus.wrapping_add(counters.dropped_total());
        of_users.wrapping_add(self.monitor.mapping_received.pdus).wrapping_add(self.looking)
    }

    /// The interface is no more: what it held is dropped.
    #[must_use]
    pub fn ended(mut self) -> Self {
        let monitor = &mut self.monitor;
        monitor.sent.drop_n(DropReason::LinkDown, self.sending);
        monitor.received.drop_n(DropReason::LinkDown, self.open);
        monitor.packets_sent.drop_n(DropReason::LinkDown, self.waiting);
        monitor.packets_received.drop_n(DropReason::LinkDown, self.looking);
        (self.sending, self.sending_in_queues, self.waiting, self.looking, self.open) = (0, 0, 0, 0, 0);
        for (told, untold) in self.told.iter_mut().zip(&mut self.untold) {
            *told += core::mem::take(untold);
        }
        self
    }

    /// With those of another interface.
    pub fn add(&mut self, other: &LanaiSums) {
        self.monitor.add(&other.monitor);
        let all = [
            (&mut self.queued, other.queued),
            (&mut self.sending, other.sending),
            (&mut self.sending_in_queues, other.sending_in_queues),
            (&mut self.made, other.made),
            (&mut self.waiting, other.waiting),
            (&mut self.looking, other.looking),
            (&mut self.opened, other.opened),
            (&mut self.open, other.open),
        ];
        let told = self.told.iter_mut().zip(other.told).chain(self.untold.iter_mut().zip(other.untold));
        all.into_iter().chain(told).for_each(|(own, n)| *own = own.wrapping_add(n));
    }
}

impl Monitor {
    /// Adds what another interface has counted.
    pub fn add(&mut self, other: &Monitor) {
        self.sent.add(&other.sent);
        self.received.add(&other.received);
        self.packets_sent.add(&other.packets_sent);
        self.packets_received.add(&other.packets_received);
        self.mapping_sent.add(&other.mapping_sent);
        self.mapping_received.add(&other.mapping_received);
        self.forwarded += other.forwarded;
        self.transfers += other.transfers;
        self.transfer_octets += other.transfer_octets;
        self.processor_ns += other.processor_ns;
        self.host_engine_ns += other.host_engine_ns;
        self.stopped += other.stopped;
    }
}

impl Lanai {
    /// What became of all messages and packets.
    pub fn sums(&self) -> LanaiSums {
        let work = || self.work.iter().chain(self.working.as_ref().map(|(_, work)| work));
        let transferring = self.transferring.as_ref().map(|(_, transfer)| transfer);
        let transfers = self.transfers.iter().map(|(_, transfer)| transfer).chain(transferring);
        let in_transfer = transfers.filter(|t| matches!(t, Transfer::Fetch { sending, .. } if sending.last)).count();
        let in_buffers = self.outgoing.values().filter(|outgoing| outgoing.of.is_some_and(|of| of.last)).count();
        let queues: usize = self.users.iter().map(|user| user.queue.len()).sum();
        let copies: usize = self.outgoing.values().map(|outgoing| outgoing.packets.len()).sum();
        let mapping = work().filter(|work| matches!(work, Work::Map(_))).count();
        let mut sums = LanaiSums {
            monitor: self.monitor,
            queued: self.begun.queued,
            sending: self.users.iter().map(|user| user.under_way.len() as u64).sum(),
            sending_in_queues: (queues + in_transfer + in_buffers) as u64,
            made: self.begun.made,
            waiting: (self.ready.len() + copies + self.sending.len() + mapping) as u64,
            looking: work().filter(|work| matches!(work, Work::Look(_))).count() as u64,
            opened: self.begun.opened,
            open: self.users.iter().map(|user| user.open.len() as u64).sum(),
            told: self.begun.told,
            untold: [0; INTERFACES],
        };
        for event in self.untold() {
            if let Event::Received { interface, .. } = event {
                sums.untold[*interface] += 1;
            }
        }
        sums
    }

    /// Messages of a user interface that were queued, and of which the user has not learnt that they are over.
    pub fn under_way(&self, interface: usize) -> usize {
        let is_sent = |event: &&Event| matches!(event, Event::Sent { interface: of, .. } if *of == interface);
        self.users.get(interface).map_or(0, |user| user.under_way.len()) + self.untold().filter(is_sent).count()
    }

    /// Packets that the link has not done with.
    pub fn at_link(&self) -> usize {
        self.sending.len()
    }

    fn untold(&self) -> impl Iterator<Item = &Event> {
        let work = self.work.iter().chain(self.working.as_ref().map(|(_, work)| work));
        let told = work.filter_map(|work| if let Work::Tell(event) = work { Some(event) } else { None });
        told.chain(&self.events)
    }
}
