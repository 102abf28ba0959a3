//! The control program: an event loop over what the engines have done and what the queues hold.

mod receive;
mod send;
mod sums;

pub use sums::LanaiSums;

use super::config::Config;
use crate::fabric::mapper::{Mapping, Settings};
use crate::packet::mapping::Address;
use crate::packet::message::{HEAD_OCTETS, Head};
use crate::packet::{Kind, Turn, emit, packet_octets};
use bus::memory::HostMemory;
use std::collections::{HashMap, VecDeque};
use wire::{Counters, DropReason, Time};

/// User interfaces of a card. Number 0 is the IP driver's.
pub const INTERFACES: usize = 3;
/// Messages of which parts have come and others have not.
const OPEN: usize = 32;

/// Who a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// A user interface of a host.
    Host(Address, u8),
    /// The same user interface as the sender's of all members of a group.
    Group(u16),
}

/// A buffer that a user has posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// Where it is in the host's memory.
    pub address: u64,
    /// How long it is.
    pub octets: u32,
}

/// Why a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There are three.
    #[error("there is no user interface {0}: 0 to 2 are possible")]
    Interface(usize),
    /// The queue is full.
    #[error("the queue is full")]
    Full,
    /// Longer than a message may be.
    #[error("a message of {0} octets is too long")]
    TooLong(usize),
    /// The switch is off.
    #[error("sending immediately is switched off")]
    Off,
}

/// What a user learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The last octet of a message has left; false if it was dropped.
    Sent {
        /// The user interface.
        interface: usize,
        /// The message's number.
        number: u32,
        /// Whether it left.
        whole: bool,
    },
    /// A message is in a posted buffer.
    Received {
        /// The user interface.
        interface: usize,
        /// Who sent it.
        from: Address,
        /// The buffer.
        buffer: Posted,
        /// Octets of the message.
        octets: u32,
    },
}

impl Event {
    /// The user interface that it is for.
    pub fn interface(&self) -> usize {
        match self {
            Event::Sent { interface, .. } | Event::Received { interface, .. } => *interface,
        }
    }
}

/// The monitoring variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Monitor {
    /// Messages and octets that left whole; each other message, once, by the reason why its first part failed.
    pub sent: Counters,
    /// Messages and octets that came whole; each other message that began to come, once, by reason.
    pub received: Counters,
    /// Packets and octets that left, of messages and passed on; packets that did not, by reason.
    pub packets_sent: Counters,
    /// Packets and octets that came and were used; packets that belong to no message, by reason.
    pub packets_received: Counters,
    /// Packets and octets of mapping that left; packets that did not, by reason.
    pub mapping_sent: Counters,
    /// Packets and octets of mapping that came.
    pub mapping_received: Counters,
    /// Packets that a group's members passed on.
    pub forwarded: u64,
    /// Transfers by the host's engine.
    pub transfers: u64,
    /// Octets that these moved.
    pub transfer_octets: u64,
    /// Nanoseconds that the processor worked.
    pub processor_ns: u64,
    /// Nanoseconds that the host's engine worked.
    pub host_engine_ns: u64,
    /// Times at which the link was stopped for want of a buffer.
    pub stopped: u64,
}

#[derive(Debug)]
enum Source {
    Memory(u64),
    Immediate(Vec<u8>),
}

#[derive(Debug)]
struct Sending {
    to: Destination,
    number: u32,
    source: Source,
    octets: u32,
    done: u32,
}

#[derive(Debug, Default)]
struct User {
    queue: VecDeque<Sending>,
    posted: VecDeque<Posted>,
    open: Vec<Open>,
    /// Parts that are being fetched, or wait for those before them; true: it is in the SRAM.
    order: VecDeque<(u64, bool)>,
    /// Messages that were queued and are not over, by number; why the first part failed of those that will not leave whole.
    under_way: VecDeque<(u32, Option<DropReason>)>,
}

/// A message of which parts have come.
#[derive(Debug)]
struct Open {
    from: Address,
    number: u32,
    buffer: Posted,
    arrived: u32,
    total: u32,
    /// When its last part came.
    last: Time,
}

/// A packet that stands in a send buffer until all copies have left.
#[derive(Debug)]
struct Outgoing {
    packets: VecDeque<Vec<u8>>,
    copies: usize,
    /// What it is a part of; `None` if it is passed on.
    of: Option<PartOf>,
    /// A copy has left.
    left: bool,
}

/// Which part of which message.
#[derive(Debug, Clone, Copy)]
struct PartOf {
    user: usize,
    number: u32,
    /// Octets of the whole message.
    total: u32,
    last: bool,
}

/// Work of the processor, in the order in which it came.
#[derive(Debug)]
enum Work {
    /// Start the host's engine for the next part of an interface's first message.
    Fetch(usize),
    /// A part is in the SRAM: start the send engine.
    Start(u64),
    /// Look at a packet.
    Look(Vec<u8>),
    /// Give the send engine a packet of mapping.
    Map(Vec<u8>),
    /// Tell the user.
    Tell(Event),
}

/// What the host's engine does.
#[derive(Debug)]
enum Transfer {
    Fetch { id: u64, sending: Part },
    Store { user: usize, key: (Address, u32), offset: u32, part: Vec<u8> },
}

/// A part to fetch.
#[derive(Debug)]
struct Part {
    head: Head,
    to: Destination,
    address: u64,
    octets: usize,
    last: bool,
}

impl Part {
    fn of(&self) -> PartOf {
        let Part { head, last, .. } = self;
        PartOf { user: head.from_interface.into(), number: head.number, total: head.total, last: *last }
    }
}

/// The members of groups, in the order of the cycle.
pub(super) type Groups = HashMap<u16, Vec<Address>>;

/// The interface.
#[derive(Debug)]
pub struct Lanai {
    config: Config,
    mapping: Mapping,
    users: [User; INTERFACES],
    groups: Groups,
    work: VecDeque<Work>,
    working: Option<(Time, Work)>,
    transfers: VecDeque<(usize, Transfer)>,
    transferring: Option<(Time, Transfer)>,
    outgoing: HashMap<u64, Outgoing>,
    /// Packets in the order in which the send engine takes them: the buffer that each belongs to.
    ready: VecDeque<(Option<u64>, Vec<u8>)>,
    /// Packets that the send engine has: their numbers and octets.
    sending: VecDeque<(u64, usize)>,
    send_buffers: usize,
    receive_buffers: usize,
    next: u64,
    number: u32,
    turn: usize,
    /// The last work was of mapping.
    mapped: bool,
    events: VecDeque<Event>,
    monitor: Monitor,
    begun: sums::Begun,
}

impl Lanai {
    /// An interface that is switched on at `now`.
    pub fn new(address: Address, config: Config, settings: Settings, now: Time) -> Self {
        Lanai {
            config,
            mapping: Mapping::new(address, settings, now),
            users: Default::default(),
            groups: Groups::default(),
            work: VecDeque::new(),
            working: None,
            transfers: VecDeque::new(),
            transferring: None,
            outgoing: HashMap::new(),
            ready: VecDeque::new(),
            sending: VecDeque::new(),
            send_buffers: 0,
            receive_buffers: 0,
            next: 0,
            number: 0,
            turn: 0,
            mapped: false,
            events: VecDeque::new(),
            monitor: Monitor::default(),
            begun: sums::Begun::default(),
        }
    }

    /// The mapping part of the program: map, routes, mapper.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// A cable of the network was plugged or pulled.
    pub(super) fn handle_change(&mut self, now: Time) {
        self.mapping.handle_change(now);
    }

    /// The monitoring variables.
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// What has happened to a user's messages.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::Received { interface, .. } = event {
            self.begun.told[interface] += 1;
        }
        Some(event)
    }

    fn user(&mut self, interface: usize) -> Result<&mut User, Refused> {
        self.users.get_mut(interface).ok_or(Refused::Interface(interface))
    }

    fn queue(&mut self, interface: usize, to: Destination, source: Source, octets: usize) -> Result<u32, Refused> {
        let (most, room) = (self.config.message, self.config.queue);
        if octets > most || octets == 0 {
            return Err(Refused::TooLong(octets));
        }
        let number = self.number;
        let user = self.user(interface)?;
        if user.queue.len() >= room {
            return Err(Refused::Full);
        }
        user.queue.push_back(Sending { to, number, source, octets: octets as u32, done: 0 });
        user.under_way.push_back((number, None));
        self.number = self.number.wrapping_add(1);
        self.begun.queued += 1;
        Ok(number)
    }

    /// Queues a message that lies in the host's memory; it must stay there until [`Event::Sent`]. Gives its number.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn send(&mut self, interface: usize, to: Destination, address: u64, octets: u32) -> Result<u32, Refused> {
        self.queue(interface, to, Source::Memory(address), octets as usize)
    }

    /// Writes a short message into the SRAM: no transfer is prepared.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn send_immediate(&mut self, interface: usize, to: Destination, message: &[u8]) -> Result<u32, Refused> {
        if !self.config.switches.immediate {
            return Err(Refused::Off);
        }
        if !self.takes_immediately(message.len()) {
            return Err(Refused::TooLong(message.len()));
        }
        self.queue(interface, to, Source::Immediate(message.to_vec()), message.len())
    }

    /// Whether [`Lanai::send_immediate`] takes a message of so many octets.
    pub fn takes_immediately(&self, octets: usize) -> bool {
        self.config.switches.immediate && octets <= self.config.immediate.min(self.config.buffer)
    }

    /// What it was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Posts a buffer for a message to come.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn post(&mut self, interface: usize, buffer: Posted) -> Result<(), Refused> {
        let room = self.config.queue;
        let user = self.user(interface)?;
        if user.posted.len() >= room {
            return Err(Refused::Full);
        }
        user.posted.push_back(buffer);
        Ok(())
    }

    /// Sets a group's members in the order of its cycle; 0 is no group. What all interfaces of a network know of it
    /// ([`super::network::Network::set_group`]) does not count here any more.
    pub fn set_group(&mut self, group: u16, members: &[Address]) {
        self.groups.insert(group, members.to_vec());
    }

    /// Whether a receive buffer is free: if not, the link is to be stopped.
    pub fn accepts(&self) -> bool {
        !self.config.switches.stop_link || self.receive_buffers < self.config.buffers()
    }

    /// A packet has come whole.
    pub fn handle_packet(&mut self, octets: Vec<u8>) {
        if self.receive_buffers >= self.config.buffers() && !self.config.switches.stop_link {
            return self.monitor.packets_received.drop_one(DropReason::NoBuffer);
        }
        self.receive_buffers += 1;
        if !self.accepts() {
            self.monitor.stopped += 1;
        }
        self.work.push_back(Work::Look(octets));
    }

    /// The send engine takes a packet; its number comes back in [`Lanai::handle_sent`] or [`Lanai::handle_lost`].
    pub fn poll_packet(&mut self) -> Option<(Vec<u8>, u64)> {
        if self.sending.len() > 1 {
            return None;
        }
        let (buffer, octets) = self.ready.pop_front()?;
        let number = buffer.map_or(0, |id| id + 1);
        self.sending.push_back((number, octets.len()));
        Some((octets, number))
    }

    /// A packet has left.
    pub fn handle_sent(&mut self, number: u64) {
        self.packet_over(number, None);
    }

    /// A packet has not left: the link refused it, or gave it up.
    pub fn handle_lost(&mut self, number: u64, reason: DropReason) {
        self.packet_over(number, Some(reason));
    }

    /// Does what is due.
    pub fn run(&mut self, memory: &mut impl HostMemory, now: Time) {
        self.run_among(&Groups::default(), memory, now);
    }

    /// The same among interfaces that all know some groups.
    pub(super) fn run_among(&mut self, groups: &Groups, memory: &mut impl HostMemory, now: Time) {
        if self.mapping.poll_timeout().is_some_and(|at| at <= now) {
            self.mapping.handle_timeout(now);
        }
        loop {
            if let Some((_, transfer)) = self.transferring.take_if(|(at, _)| *at <= now) {
                self.transferred(transfer, groups, memory);
            }
            if let Some((_, work)) = self.working.take_if(|(at, _)| *at <= now) {
                self.worked(work, groups, now);
            }
            let before = (self.working.is_some(), self.transferring.is_some());
            self.begin_transfer(now);
            self.begin_work(now);
            if before == (self.working.is_some(), self.transferring.is_some()) {
                break;
            }
        }
    }

    /// When [`Lanai::run`] wants to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        let engines = [self.working.as_ref().map(|(at, _)| *at), self.transferring.as_ref().map(|(at, _)| *at)];
        engines.into_iter().chain([self.mapping.poll_timeout()]).flatten().min()
    }

    fn link_engines(&self) -> usize {
        usize::from(!self.sending.is_empty()) + usize::from(self.receive_buffers > 0)
    }

    fn begin_transfer(&mut self, now: Time) {
        if self.transferring.is_some() {
            return;
        }
        let Some((octets, transfer)) = self.transfers.pop_front() else { return };
        let takes = self.config.host_transfer(octets, self.link_engines().min(1));
        self.monitor.transfers += 1;
        self.monitor.transfer_octets += octets as u64;
        self.monitor.host_engine_ns += takes.as_nanos() as u64;
        self.transferring = Some((now + takes, transfer));
    }

    /// The next work. Mapping takes turns with what has come and what is to be sent, so that a busy host answers scouts at once.
    fn begin_work(&mut self, now: Time) {
        if self.working.is_some() {
            return;
        }
        let next = if self.mapped {
            self.next_of_users().or_else(|| self.next_of_mapping(now))
        } else {
            self.next_of_mapping(now).or_else(|| self.next_of_users())
        };
        let Some(work) = next else { return };
        self.mapped = matches!(work, Work::Map(_));
        let costs = self.config.costs;
        let takes = match &work {
            Work::Fetch(user) => {
                costs.take
                    + match self.users[*user].queue.front() {
                        Some(Sending { source: Source::Memory(address), octets, done, .. }) => {
                            costs.prepare * self.pages(*address + u64::from(*done), (*octets - *done) as usize)
                        }
                        _ => core::time::Duration::ZERO,
                    }
            }
            Work::Start(_) | Work::Map(_) => costs.start,
            Work::Look(octets) => costs.receive + costs.prepare * self.pages(0, octets.len()),
            Work::Tell(_) => costs.tell,
        };
        let takes = self.config.stretched(takes, self.link_engines(), self.transferring.is_some());
        self.monitor.processor_ns += takes.as_nanos() as u64;
        self.working = Some((now + takes, work));
    }

    /// What has come goes before what is to be sent.
    fn next_of_users(&mut self) -> Option<Work> {
        self.work.pop_front().or_else(|| self.next_part())
    }

    /// The next packet of mapping, if none waits for the send engine.
    fn next_of_mapping(&mut self, now: Time) -> Option<Work> {
        if matches!(self.ready.front(), Some((None, _))) {
            return None;
        }
        let transmit = self.mapping.poll_transmit(now)?;
        self.begun.made += 1;
        Some(Work::Map(packet(&transmit.route, Kind::MAPPING, &[], &transmit.payload)))
    }

    /// Transfers for so many octets: one in the copy block, one for each page elsewhere.
    fn pages(&self, address: u64, octets: usize) -> u32 {
        let octets = octets.min(self.config.buffer) as u64;
        if self.config.switches.copy_block || octets == 0 {
            return 1;
        }
        let page = self.config.page.max(1);
        let pages = (address % page + octets).div_ceil(page);
        u32::try_from(pages).unwrap_or(1)
    }

    /// The user whose turn it is to have a part of a message fetched, if a send buffer is free.
    fn next_part(&mut self) -> Option<Work> {
        if self.send_buffers >= self.config.buffers() {
            return None;
        }
        let user = (1..=INTERFACES).map(|n| (self.turn + n) % INTERFACES).find(|n| !self.users[*n].queue.is_empty())?;
        self.turn = user;
        self.send_buffers += 1;
        Some(Work::Fetch(user))
    }

    fn worked(&mut self, work: Work, groups: &Groups, now: Time) {
        match work {
            Work::Fetch(user) => self.fetch(user, groups),
            Work::Start(id) => {
                let packets = self.outgoing.get_mut(&id).map(|outgoing| core::mem::take(&mut outgoing.packets));
                self.ready.extend(packets.into_iter().flatten().map(|octets| (Some(id), octets)));
            }
            Work::Look(octets) => self.look(&octets, groups, now),
            // Before the packets of users: an answer is waited for, and is short.
            Work::Map(octets) => self.ready.push_front((None, octets)),
            Work::Tell(event) => self.events.push_back(event),
        }
    }

    fn transferred(&mut self, transfer: Transfer, groups: &Groups, memory: &mut impl HostMemory) {
        match transfer {
            Transfer::Fetch { id, sending } => {
                let mut octets = vec![0; sending.octets];
                if memory.read(sending.address, &mut octets).is_ok() {
                    return self.fetched(id, &sending, &octets, groups);
                }
                self.part_failed(id, sending.of(), DropReason::BadDescriptor);
            }
            Transfer::Store { user, key, offset, part } => {
                self.receive_buffers -= 1;
                let Some(at) = self.users[user].open.iter().position(|o| (o.from, o.number) == key) else { return };
                let open = &mut self.users[user].open[at];
                let written = memory.write(open.buffer.address + u64::from(offset), &part).is_ok();
                open.arrived += part.len() as u32;
                if !written {
                    self.monitor.received.drop_one(DropReason::BadDescriptor);
                    self.users[user].open.remove(at);
                } else if open.arrived >= open.total {
                    let Open { from, buffer, total, .. } = self.users[user].open.remove(at);
                    self.monitor.received.pdus += 1;
                    self.monitor.received.octets += u64::from(total);
                    let event = Event::Received { interface: user, from, buffer, octets: total };
                    self.work.push_back(Work::Tell(event));
                }
            }
        }
    }
}

fn packet(route: &[Turn], kind: Kind, head: &[u8], part: &[u8]) -> Vec<u8> {
    let payload = [head, part].concat();
    let mut octets = vec![0; packet_octets(route.len(), payload.len())];
    emit(route, kind, &payload, &mut octets);
    debug_assert!(head.is_empty() || head.len() == HEAD_OCTETS);
    octets
}
