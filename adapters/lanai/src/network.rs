//! Interfaces on a fabric, in virtual time: each host with its own memory.

use super::program::Groups;
use super::{Config, Event, Lanai, LanaiSums};
use crate::fabric::mapper::Settings;
use crate::fabric::{Fabric, FabricError, FabricSums, HostId, PacketOutcome};
use crate::packet::mapping::Address;
use bus::memory::Flat;
use wire::{DropReason, Time};

/// A host: its interface and its memory.
#[derive(Debug)]
pub struct Station {
    host: HostId,
    /// The interface.
    pub lanai: Lanai,
    /// The host's memory.
    pub memory: Flat,
    on: bool,
    /// Packets that the fabric has taken from it, and those that it has told the interface to be over.
    given: u64,
    over: u64,
    /// Packets that came, and those of them that a station without power absorbed.
    came: u64,
    absorbed: u64,
}

/// A fabric whose hosts have interfaces.
#[derive(Debug)]
pub struct Network {
    /// The fabric, to plug and pull cables.
    pub fabric: Fabric,
    stations: Vec<Station>,
    /// What all interfaces know.
    groups: Groups,
    /// Changes of cables that the interfaces know of.
    changes: u64,
    now: Time,
    visits: u64,
}

impl Network {
    /// Over a fabric, without interfaces.
    pub fn new(fabric: Fabric) -> Self {
        let (now, changes) = (fabric.now(), fabric.changes());
        Network { now, fabric, stations: Vec::new(), groups: Groups::default(), changes, visits: 0 }
    }

    /// Puts an interface into a host with so many octets of memory; gives its number here.
    pub fn add(&mut self, host: HostId, address: Address, config: Config, settings: Settings, memory: usize) -> usize {
        let lanai = Lanai::new(address, config, settings, self.now);
        self.stations.push(Station {
            host,
            lanai,
            memory: Flat::new(0, memory),
            on: true,
            given: 0,
            over: 0,
            came: 0,
            absorbed: 0,
        });
        self.stations.len() - 1
    }

    /// The stations, by number.
    pub fn stations(&self) -> &[Station] {
        &self.stations
    }

    /// A station, to send and receive there.
    pub fn station(&mut self, number: usize) -> Option<&mut Station> {
        self.stations.get_mut(number)
    }

    /// Switches a station off: it absorbs and ignores what comes.
    pub fn set_on(&mut self, number: usize, on: bool) {
        if let Some(station) = self.stations.get_mut(number) {
            station.on = on;
        }
    }

    /// Sets a group's members at all interfaces, in the order of its cycle; without members it is none. 0 is no group.
    pub fn set_group(&mut self, group: u16, members: Vec<Address>) {
        if members.is_empty() {
            self.groups.remove(&group);
        } else {
            self.groups.insert(group, members);
        }
    }

    /// Has the groups of another network, which has those of this one from now on.
    pub(crate) fn swap_groups(&mut self, other: &mut Network) {
        core::mem::swap(&mut self.groups, &mut other.groups);
    }

    /// The moment that the run has come to.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Interfaces that runs have looked at, ever: what they cost.
    pub fn visits(&self) -> u64 {
        self.visits
    }

    /// When something happens next.
    pub fn poll_timeout(&self) -> Option<Time> {
        let on = self.stations.iter().filter(|station| station.on);
        on.filter_map(|station| station.lanai.poll_timeout()).chain(self.fabric.poll_timeout()).min()
    }

    /// Runs to a moment, or until `seen` has seen a user's event and says that it is enough.
    pub fn run(&mut self, until: Time, mut seen: impl FnMut(usize, Event, &mut Station, Time) -> bool) -> bool {
        let mut enough = false;
        if core::mem::replace(&mut self.changes, self.fabric.changes()) != self.fabric.changes() {
            self.stations.iter_mut().for_each(|station| station.lanai.handle_change(self.now));
        }
        loop {
            let mut moved = false;
            self.visits += self.stations.len() as u64;
            for number in 0..self.stations.len() {
                let station = &mut self.stations[number];
                if !station.on {
                    continue;
                }
                station.lanai.run_among(&self.groups, &mut station.memory, self.now);
                while self.fabric.room(station.host) > 0
                    && let Some((octets, id)) = station.lanai.poll_packet()
                {
                    moved = true;
                    match self.fabric.send(station.host, &octets, id, self.now) {
                        Ok(()) => station.given += 1,
                        Err(refused) => station.lanai.handle_lost(id, reason(refused)),
                    }
                }
                self.fabric.set_accepting(station.host, station.lanai.accepts());
                while let Some(event) = station.lanai.poll_event() {
                    moved = true;
                    enough |= seen(number, event, station, self.now);
                }
            }
            if enough {
                return true;
            }
            if moved {
                continue;
            }
            let on = self.stations.iter().filter(|station| station.on);
            let next = on.filter_map(|station| station.lanai.poll_timeout()).min();
            let next = next.map_or(until, |at| at.min(until)).max(self.now);
            self.fabric.run_to_outcome(next);
            self.now = if self.fabric.poll_timeout().is_some_and(|at| at < next) { self.fabric.now() } else { next };
            let mut happened = false;
            while let Some((at, host, outcome)) = self.fabric.poll_outcome() {
                self.now = self.now.min(at.max(self.now));
                happened = true;
                let Some(station) = self.stations.iter_mut().find(|station| station.host == host) else { continue };
                match outcome {
                    PacketOutcome::Arrived(octets) => {
                        station.came += 1;
                        if station.on {
                            station.lanai.handle_packet(octets);
                        } else {
                            station.absorbed += 1;
                            self.fabric.recycle(octets);
                        }
                    }
                    PacketOutcome::Sent(id) => {
                        station.over += 1;
                        station.lanai.handle_sent(id);
                    }
                    PacketOutcome::GivenUp(id) => {
                        station.over += 1;
                        station.lanai.handle_lost(id, DropReason::Timeout);
                    }
                }
            }
            if self.now >= until && !happened && next >= until {
                return enough;
            }
        }
    }
}

/// Why a packet that a fabric refuses does not leave.
fn reason(refused: FabricError) -> DropReason {
    match refused {
        FabricError::Length(_) => DropReason::Oversize,
        FabricError::Full => DropReason::QueueFull,
        _ => DropReason::LinkDown,
    }
}

/// What became of all messages and packets of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkSums {
    /// Of all interfaces.
    pub lanais: LanaiSums,
    /// Of the fabric.
    pub fabric: FabricSums,
    /// Packets that came to stations without power.
    pub absorbed: u64,
}

impl NetworkSums {
    /// Whether each message and each packet is accounted for.
    pub fn add_up(&self) -> bool {
        let NetworkSums { lanais, fabric, absorbed } = self;
        let arrived = fabric.counters.pdus.wrapping_add(fabric.mapping.pdus);
        lanais.add_up() && fabric.add_up() && arrived == lanais.came().wrapping_add(*absorbed)
    }

    /// The network is no more: what it held is dropped.
    #[must_use]
    pub fn ended(mut self) -> Self {
        self.lanais = self.lanais.ended();
        self.fabric.counters.drop_n(DropReason::LinkDown, core::mem::take(&mut self.fabric.held));
        self
    }

    /// With those of another network.
    pub fn add(&mut self, other: &NetworkSums) {
        self.lanais.add(&other.lanais);
        self.fabric.add(&other.fabric);
        self.absorbed += other.absorbed;
    }
}

impl Network {
    /// What became of all messages and packets.
    pub fn sums(&self) -> NetworkSums {
        let mut sums = NetworkSums { fabric: self.fabric.sums(), ..NetworkSums::default() };
        for station in &self.stations {
            sums.lanais.add(&station.lanai.sums());
            sums.absorbed += station.absorbed;
        }
        sums.lanais.looking += self.fabric.unfetched() as u64;
        sums
    }

    /// What is wrong if a message or a packet is not accounted for: at an interface, at the fabric, or between them. It holds
    /// where interfaces alone put packets on the fabric.
    pub fn mismatch(&self) -> Option<String> {
        let of_station = self.stations.iter().enumerate().find_map(|(n, station)| {
            let (sums, Station { given, over, came, absorbed, .. }) = (station.lanai.sums(), station);
            let joined = *given == *over + station.lanai.at_link() as u64 && *came == sums.came() + absorbed;
            (!joined || !sums.add_up()).then(|| {
                format!("host {n}: {given} packets given, {over} over, {came} came, {absorbed} absorbed: {sums:?}")
            })
        });
        let (given, sums) = (self.stations.iter().map(|station| station.given).sum::<u64>(), self.sums());
        of_station.or_else(|| {
            (given != sums.fabric.accepted || !sums.add_up()).then(|| format!("{given} packets given: {sums:?}"))
        })
    }
}
