//! Interfaces on a fabric, in virtual time: each host with its own memory.

use super::{Config, Event, Lanai};
use crate::memory::Flat;
use net::myrinet::mapper::Settings;
use net::myrinet::{Fabric, HostId, Outcome};
use wire::Time;
use wire::myrinet::mapping::Address;

/// A host: its interface and its memory.
#[derive(Debug)]
pub struct Station {
    host: HostId,
    /// The interface.
    pub lanai: Lanai,
    /// The host's memory.
    pub memory: Flat,
    on: bool,
}

/// A fabric whose hosts have interfaces.
#[derive(Debug)]
pub struct Network {
    /// The fabric, to plug and pull cables.
    pub fabric: Fabric,
    stations: Vec<Station>,
    now: Time,
    visits: u64,
}

impl Network {
    /// Over a fabric, without interfaces.
    pub fn new(fabric: Fabric) -> Self {
        Network { now: fabric.now(), fabric, stations: Vec::new(), visits: 0 }
    }

    /// Puts an interface into a host with so many octets of memory; gives its number here.
    pub fn add(&mut self, host: HostId, address: Address, config: Config, settings: Settings, memory: usize) -> usize {
        let lanai = Lanai::new(address, config, settings, self.now);
        self.stations.push(Station { host, lanai, memory: Flat::new(0, memory), on: true });
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
        loop {
            let mut moved = false;
            self.visits += self.stations.len() as u64;
            for number in 0..self.stations.len() {
                let station = &mut self.stations[number];
                if !station.on {
                    continue;
                }
                station.lanai.run(&mut station.memory, self.now);
                while self.fabric.room(station.host) > 0
                    && let Some((octets, id)) = station.lanai.poll_packet()
                {
                    moved = true;
                    if self.fabric.send(station.host, &octets, id, self.now).is_err() {
                        station.lanai.handle_sent(id);
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
                    Outcome::Arrived(octets) if station.on => station.lanai.handle_packet(octets),
                    Outcome::Arrived(octets) => self.fabric.recycle(octets),
                    Outcome::Sent(id) => station.lanai.handle_sent(id),
                }
            }
            if self.now >= until && !happened && next >= until {
                return enough;
            }
        }
    }
}
