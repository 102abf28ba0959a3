//! Hosts on a chain of APICs: a chip at each host's memory (Kazantzidis 1997, section 3).
//!
//! In: PDUs in a host's memory. Out: PDUs in the memory of others. Chips, descriptors, batches and links are
//! [`apic`]'s. A process queues its own buffers, so nothing is copied; it finds what has come in the
//! notification queue, without an interrupt.

use super::{BUFFER_OCTETS, BUFFERS, Copies, Happened, Interconnect, Tally, To, drops, is_over};
use apic::grant::{Area, DESCRIPTOR_OCTETS, Descriptor, Owner};
use apic::notify::Interrupt;
use apic::{Aal, Apic, ApicNode, COMPLETED, Channel, Config, Connection, Direction, PRODUCED, Port, Ring};
use bus::HostMemory;
use bus::memory::Flat;
use net::{End, FramePool, LinkConfig, Network, NodeId};
use std::collections::{BTreeMap, VecDeque};
use wire::{CircuitId, Counters, DropReason, Time};

/// The one application of a host.
const OWNER: Owner = Owner(1);
/// Where rings of descriptors are, and where buffers are.
const RINGS: u64 = 0x1000;
const DATA: u64 = 0x10000;
/// Octets of a channel's buffers.
const SPAN: u64 = (BUFFERS * BUFFER_OCTETS) as u64;
/// Channels of a chip that a host may open here.
const CHANNELS: u64 = 20;

/// A channel as its owner sees it.
#[derive(Debug, Clone, Copy)]
struct Own {
    number: u16,
    receives: bool,
    produced: u32,
    completed: u32,
}

#[derive(Debug, Default)]
struct Host {
    channels: Vec<Own>,
    /// The channel of a circuit that leaves.
    sends: BTreeMap<(To, bool), usize>,
}

/// See the module's head.
pub struct Apics {
    network: Network,
    chips: Vec<NodeId>,
    hosts: Vec<Host>,
    happened: VecDeque<Happened>,
    circuits: u16,
    /// Receive buffers of a channel.
    buffers: u32,
    now: Time,
}

impl Apics {
    /// A chain of so many chips of one kind, each at a host's memory, with so many buffers for each circuit that comes.
    pub fn new(hosts: usize, config: Config, buffers: usize) -> Option<Self> {
        let mut network = Network::new(FramePool::new(4, 256));
        let mut chips: Vec<NodeId> = Vec::new();
        for number in 0..hosts {
            let memory = Flat::new(0, (DATA + CHANNELS * SPAN) as usize);
            let mut node = ApicNode::with_memory(config, memory);
            let octets = u32::try_from(CHANNELS * SPAN).ok()?;
            node.chip_mut().set_area(0, Some(Area { owner: OWNER, address: DATA, octets, writable: true }));
            let chip = network.add_node(&format!("chip{number}"), Box::new(node));
            if let Some(before) = chips.last() {
                network.connect(End::Port(*before, 1), End::Port(chip, 0), LinkConfig::default()).ok()?;
            }
            chips.push(chip);
        }
        let hosts = (0..hosts).map(|_| Host::default()).collect();
        let (happened, buffers) = (VecDeque::new(), buffers.clamp(1, BUFFERS) as u32);
        Some(Apics { network, chips, hosts, happened, circuits: 0, buffers, now: Time::ZERO })
    }

    fn chip(&mut self, host: usize) -> Option<&mut ApicNode<Flat>> {
        self.network.node_mut(self.chips[host])
    }

    fn ring(number: u16) -> Ring {
        let address = RINGS + u64::from(number) * BUFFERS as u64 * DESCRIPTOR_OCTETS;
        Ring { address, entries: BUFFERS as u32 }
    }

    /// Opens a channel at a host; its place among the host's.
    fn open(&mut self, host: usize, direction: Direction) -> Option<usize> {
        let number = self.hosts[host].channels.len() as u16;
        let receives = matches!(direction, Direction::Receive { .. });
        let ring = Self::ring(number);
        let channel = Channel { owner: OWNER, aal: Aal::Aal5, direction, ring, interrupt: Interrupt::Never };
        self.chip(host)?.chip_mut().open(number, channel).ok()?;
        self.hosts[host].channels.push(Own { number, receives, produced: 0, completed: 0 });
        Some(usize::from(number))
    }

    /// A circuit: connections in the chips between, and a channel at each end.
    fn circuit(&mut self, from: usize, to: To, urgent: bool) -> Option<usize> {
        if let Some(channel) = self.hosts[from].sends.get(&(to, urgent)) {
            return Some(*channel);
        }
        let (first, last) = match to {
            To::Host(host) => (host, host),
            To::Group(last) => (1, last),
        };
        let label = CircuitId::new(0, 100 + self.circuits)?;
        self.circuits += 1;
        let right = last > from;
        let (out, input) = if right { (Port::Right, Port::Left) } else { (Port::Left, Port::Right) };
        let mut at = from;
        while at != last {
            at = if right { at + 1 } else { at - 1 };
            let mut connection = Connection { low_latency: urgent, ..Connection::default() };
            if (first..=last).contains(&at) {
                let channel = self.open(at, Direction::Receive { low_latency: urgent })?;
                connection = connection.and_channel(channel as u16);
                for buffer in 0..self.buffers {
                    self.post(at, channel, buffer)?;
                }
            }
            if at != last {
                connection = connection.and(out, label);
            }
            self.chip(at)?.chip_mut().connect(input, label, connection).ok()?;
        }
        let connection = Connection { low_latency: urgent, ..Connection::to(out, label) };
        let channel = self.open(from, Direction::Transmit { connection, interval: 0 })?;
        self.hosts[from].sends.insert((to, urgent), channel);
        Some(channel)
    }

    /// Queues a descriptor for one of a channel's buffers.
    fn queue(&mut self, host: usize, channel: usize, buffer: u32, length: u32) -> Option<()> {
        let own = &mut self.hosts[host].channels[channel];
        let offset = (u64::from(own.number) * SPAN + u64::from(buffer) * BUFFER_OCTETS as u64) as u32;
        let (number, at) = (own.number, own.produced);
        own.produced = own.produced.wrapping_add(1);
        let produced = own.produced;
        let descriptor = Descriptor { area: 0, uu: 0, offset, length };
        let place = Self::ring(number).address + u64::from(at % BUFFERS as u32) * DESCRIPTOR_OCTETS;
        let now = self.now;
        let node = self.chip(host)?;
        node.memory_mut().write(place, &descriptor.to_octets()).ok()?;
        node.chip_mut().write_page(number, PRODUCED, produced, now);
        Some(())
    }

    fn post(&mut self, host: usize, channel: usize, buffer: u32) -> Option<()> {
        self.queue(host, channel, buffer, BUFFER_OCTETS as u32)
    }

    /// What has its status since the last look: buffer and octets of each.
    fn collect(&mut self) -> Option<()> {
        for host in 0..self.hosts.len() {
            while let Some((number, _)) =
                self.network.peek_node::<ApicNode<Flat>>(self.chips[host])?.chip_mut().read_notification()
            {
                let channel = usize::from(number);
                let node = self.network.peek_node::<ApicNode<Flat>>(self.chips[host])?;
                let done = node.chip_mut().read_page(number, COMPLETED);
                let own = &mut self.hosts[host].channels[channel];
                while own.completed != done {
                    let place =
                        Self::ring(number).address + u64::from(own.completed % BUFFERS as u32) * DESCRIPTOR_OCTETS;
                    own.completed = own.completed.wrapping_add(1);
                    if !own.receives {
                        self.happened.push_back(Happened::Left(host));
                        continue;
                    }
                    let mut octets = [0; DESCRIPTOR_OCTETS as usize];
                    node.memory_mut().read(place, &mut octets).ok()?;
                    let (_, status) = octets.split_last_chunk::<4>()?;
                    let length = u32::from_le_bytes(*status) & 0xff_ffff;
                    let Descriptor { offset, .. } = Descriptor::from_octets(&octets);
                    let mut pdu = vec![0; length as usize];
                    node.memory_mut().read(DATA + u64::from(offset), &mut pdu).ok()?;
                    let buffer = u64::from(offset) % SPAN / BUFFER_OCTETS as u64;
                    self.happened.push_back(Happened::Received { host, pdu, buffer: (channel as u64) << 32 | buffer });
                }
            }
        }
        Some(())
    }

    /// A chip's counters.
    pub fn look(&mut self, host: usize) -> Option<&Apic> {
        self.network.peek_node::<ApicNode<Flat>>(self.chips[host]).map(|node| node.chip())
    }
}

impl Interconnect for Apics {
    fn send(&mut self, from: usize, to: To, pdu: &[u8], urgent: bool, _: Time) -> bool {
        let Some(channel) = self.circuit(from, to, urgent) else { return false };
        let own = self.hosts[from].channels[channel];
        if own.produced.wrapping_sub(own.completed) >= BUFFERS as u32 {
            return false;
        }
        let buffer = own.produced % BUFFERS as u32;
        let address = DATA + u64::from(own.number) * SPAN + u64::from(buffer) * BUFFER_OCTETS as u64;
        let written = self.chip(from).is_some_and(|node| node.memory_mut().write(address, pdu).is_ok());
        written && self.queue(from, channel, buffer, pdu.len() as u32).is_some()
    }

    fn release(&mut self, host: usize, buffer: u64, _: Time) {
        let (channel, buffer) = ((buffer >> 32) as usize, buffer as u32);
        self.post(host, channel, buffer);
    }

    fn run(&mut self, until: Time) -> Time {
        loop {
            while self.network.run(self.now) {}
            self.collect();
            if is_over(&self.network, &self.happened, &mut self.now, until) {
                return self.now;
            }
        }
    }

    fn poll(&mut self) -> Option<Happened> {
        self.happened.pop_front()
    }

    /// The interface reads and writes the application's own memory.
    fn copies(&self, _: usize) -> Copies {
        Copies::default()
    }

    fn tally(&mut self, host: usize) -> Tally {
        let monitor = self.look(host).map(Apic::monitor).unwrap_or_default();
        Tally { moved: monitor.transfer_octets, transfers: monitor.transfers }
    }

    fn dropped(&mut self) -> Vec<(DropReason, u64)> {
        let mut all: Vec<Counters> = Vec::new();
        for host in 0..self.hosts.len() {
            let channels: Vec<u16> = self.hosts[host].channels.iter().map(|own| own.number).collect();
            let Some(chip) = self.look(host) else { continue };
            all.extend(Port::ALL.iter().flat_map(|port| [*chip.received(*port), *chip.sent(*port)]));
            all.extend(channels.iter().filter_map(|number| chip.channel(*number).copied()));
        }
        drops(all.iter())
    }
}
