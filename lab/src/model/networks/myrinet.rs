//! Hosts at one Myrinet switch: interfaces with their control program (Kazantzidis 1997, section 4).
//!
//! In: PDUs in a host's memory. Out: PDUs in buffers that others have posted. Links, switch and control program are
//! [`lanai::fabric`]'s and [`lanai`]'s, to the symbol. With the copy block the host copies each message once on
//! either side; short messages are written into the interface.

use super::{BUFFER_OCTETS, BUFFERS, Copies, Happened, Interconnect, Tally, To, drops};
use bus::HostMemory;
use lanai::fabric::mapper::Settings;
use lanai::fabric::{Config as Links, End, Fabric};
use lanai::network::Network;
use lanai::{Config, Destination, Event, Lanai, Posted};
use std::collections::{HashMap, VecDeque};
use wire::{DropReason, Time};

/// The user interface that applications have: 0 is the IP driver's.
const USER: usize = 1;
/// Where messages are that leave; posted buffers are before.
const OUT: u64 = (BUFFERS * BUFFER_OCTETS) as u64;

#[derive(Debug, Default)]
struct Host {
    /// Places of messages that leave and are not in use.
    free: Vec<u64>,
    /// Places of messages under way, by the message's number.
    used: HashMap<u32, u64>,
}

/// See the module's head.
pub struct Myrinet {
    network: Network,
    hosts: Vec<Host>,
    groups: Vec<usize>,
    happened: VecDeque<Happened>,
    copy_block: bool,
    immediate: usize,
}

impl Myrinet {
    /// So many hosts at one switch, with so many buffers each. The map is drawn before anything else.
    pub fn new(hosts: usize, lanai: Config, links: Links, buffers: usize) -> Option<Self> {
        let mut fabric = Fabric::new(links);
        let switch = fabric.add_switch(16).ok()?;
        let ids: Vec<_> = (0..hosts).map(|_| fabric.add_host()).collect();
        for (port, host) in ids.iter().enumerate() {
            fabric.connect(End::Host(*host), End::Port(switch, port), 10.0).ok()?;
        }
        let mut network = Network::new(fabric);
        for (host, address) in ids.iter().zip(1..) {
            let number = network.add(*host, address, lanai, Settings::DEFAULT, 2 * OUT as usize);
            let station = network.station(number)?;
            for buffer in 0..buffers.clamp(1, BUFFERS) {
                let address = (buffer * BUFFER_OCTETS) as u64;
                station.lanai.post(USER, Posted { address, octets: BUFFER_OCTETS as u32 }).ok()?;
            }
        }
        network.run(Time::from_millis(200), |_, _, _, _| false);
        let mapped = |station: &lanai::network::Station| station.lanai.mapping().routes().1.len() == hosts - 1;
        if !network.stations().iter().all(mapped) {
            return None;
        }
        let free = || (0..BUFFERS).map(|n| OUT + (n * BUFFER_OCTETS) as u64).collect();
        let hosts = (0..hosts).map(|_| Host { free: free(), used: HashMap::new() }).collect();
        let (copy_block, immediate) = (lanai.switches.copy_block, lanai.immediate.min(lanai.buffer));
        let immediate = if lanai.switches.immediate { immediate } else { 0 };
        Some(Myrinet { network, hosts, groups: Vec::new(), happened: VecDeque::new(), copy_block, immediate })
    }

    /// A host's interface.
    pub fn look(&mut self, host: usize) -> Option<&Lanai> {
        self.network.station(host).map(|station| &station.lanai)
    }

    fn destination(&mut self, to: To) -> Option<Destination> {
        match to {
            To::Host(host) => Some(Destination::Host(host as u64 + 1, USER as u8)),
            To::Group(last) => {
                let group = last as u16;
                if !self.groups.contains(&last) {
                    let members: Vec<u64> = (1..=last as u64 + 1).collect();
                    for host in 0..self.hosts.len() {
                        self.network.station(host)?.lanai.set_group(group, &members);
                    }
                    self.groups.push(last);
                }
                Some(Destination::Group(group))
            }
        }
    }

    fn give(&mut self, from: usize, to: To, pdu: &[u8]) -> Option<()> {
        let to = self.destination(to)?;
        let station = self.network.station(from)?;
        if station.lanai.takes_immediately(pdu.len()) {
            return station.lanai.send_immediate(USER, to, pdu).ok().map(drop);
        }
        let own = &mut self.hosts[from];
        let place = own.free.last().copied()?;
        station.memory.write(place, pdu).ok()?;
        let number = station.lanai.send(USER, to, place, pdu.len() as u32).ok()?;
        own.free.pop();
        own.used.insert(number, place);
        Some(())
    }
}

impl Interconnect for Myrinet {
    /// A Myrinet knows no urgent messages.
    fn send(&mut self, from: usize, to: To, pdu: &[u8], _: bool, _: Time) -> bool {
        self.give(from, to, pdu).is_some()
    }

    fn release(&mut self, host: usize, buffer: u64, _: Time) {
        if let Some(station) = self.network.station(host) {
            // It was posted before: there is room.
            let _ = station.lanai.post(USER, Posted { address: buffer, octets: BUFFER_OCTETS as u32 });
        }
    }

    fn run(&mut self, until: Time) -> Time {
        let until = until.max(self.network.now());
        let (hosts, happened) = (&mut self.hosts, &mut self.happened);
        self.network.run(until, |host, event, station, _| {
            match event {
                Event::Sent { number, .. } => {
                    let own = &mut hosts[host];
                    own.free.extend(own.used.remove(&number));
                    happened.push_back(Happened::Left(host));
                }
                Event::Received { buffer, octets, .. } => {
                    let mut pdu = vec![0; octets as usize];
                    if station.memory.read(buffer.address, &mut pdu).is_ok() {
                        happened.push_back(Happened::Received { host, pdu, buffer: buffer.address });
                    }
                }
            }
            true
        });
        self.network.now()
    }

    fn poll(&mut self) -> Option<Happened> {
        self.happened.pop_front()
    }

    /// The copy block is not the application's memory, and the interface's SRAM neither.
    fn copies(&self, octets: usize) -> Copies {
        let block = u32::from(self.copy_block);
        Copies { out: if octets <= self.immediate { 1 } else { block }, into: block }
    }

    fn tally(&mut self, host: usize) -> Tally {
        let monitor = self.network.station(host).map(|station| *station.lanai.monitor()).unwrap_or_default();
        Tally { moved: monitor.transfer_octets, transfers: monitor.transfers }
    }

    fn dropped(&mut self) -> Vec<(DropReason, u64)> {
        let stations = self.network.stations().iter();
        let of =
            |monitor: &lanai::Monitor| [monitor.sent, monitor.received, monitor.packets_sent, monitor.packets_received];
        let all: Vec<_> = stations.flat_map(|station| of(station.lanai.monitor())).collect();
        drops(all.iter())
    }
}
