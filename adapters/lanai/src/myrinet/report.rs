//! What a Myrinet tells of itself: numbers and names as they are, copied between two runs.

use super::{Generated, Layout, Myrinet, Plug};
use crate::Monitor;
use crate::fabric::routes::Map;
use crate::fabric::{End, PortCounters};
use crate::packet::Turn;
use crate::packet::mapping::Address;
use core::time::Duration;
use wire::Counters;

/// A host.
#[derive(Debug, Clone)]
pub struct HostReport {
    /// Its interface's address.
    pub address: Address,
    /// The mapper, as far as it knows.
    pub mapper: Address,
    /// The number of its table of routes.
    pub version: u64,
    /// Runs of mapping that it has ended with a map.
    pub maps: u64,
    /// Where its cable ends; `None` without one.
    pub plugged: Option<Plug>,
    /// Its routes, by the hosts that they lead to.
    pub routes: Vec<(Address, Vec<Turn>)>,
    /// Monitoring variables of its control program.
    pub monitor: Monitor,
    /// PDUs of circuits from its port into the Myrinet.
    pub sent: Counters,
    /// PDUs of circuits out at its port.
    pub received: Counters,
}

/// A port of a switch, or a host's end of a cable.
#[derive(Debug, Clone)]
pub struct PortReport {
    /// Its number.
    pub port: usize,
    /// The other end of its cable.
    pub to: Option<Plug>,
    /// What it has seen.
    pub counters: PortCounters,
    /// The most symbols that its slack buffer held.
    pub peak: u32,
}

/// A switch.
#[derive(Debug, Clone)]
pub struct SwitchReport {
    /// Its ports.
    pub ports: Vec<PortReport>,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub struct Report {
    /// What it is made of.
    pub layout: Layout,
    /// Hosts, in their order.
    pub hosts: Vec<HostReport>,
    /// Switches, in their order.
    pub switches: Vec<SwitchReport>,
    /// The mapper, by its place among the hosts, and the map that it has drawn.
    drawn: Option<(usize, Map)>,
    /// What is plugged.
    plugged: Map,
    /// Routes of circuits.
    pub routes: usize,
    /// Packets that arrived, and those that did not, by reason.
    pub fabric: Counters,
    /// The same of mapping packets, of which most find nothing.
    pub mapping: Counters,
    /// Symbols that slack buffers had no room for.
    pub overflowed: u64,
    /// Packets that the time-out ended.
    pub timeouts: u64,
    /// How long its time has stood still, because the processor could not keep up.
    pub stood: Duration,
    /// PDUs that a change of hosts or switches interrupted.
    pub interrupted: u64,
    /// The traffic generator's last run.
    pub generated: Option<Generated>,
}

impl Myrinet {
    /// Everything.
    pub fn report(&self) -> Report {
        let (fabric, stations) = (&self.network.fabric, self.network.stations());
        let plug = |end: End| match end {
            End::Host(id) => self.places.hosts.iter().position(|host| *host == id).map(Plug::Host),
            End::Port(id, port) => {
                self.places.switches.iter().position(|switch| *switch == id).map(|n| Plug::Switch(n, port))
            }
        };
        let host = |(n, station): (usize, &crate::network::Station)| {
            let mapping = station.lanai.mapping();
            let (version, routes) = mapping.routes();
            let port = &self.ports[n];
            let mut monitor = port.sums.former.monitor;
            monitor.add(station.lanai.monitor());
            HostReport {
                address: mapping.address(),
                mapper: mapping.mapper(),
                version,
                maps: mapping.maps(),
                plugged: fabric.far_end(End::Host(self.places.hosts[n])).and_then(plug),
                routes: routes.to_vec(),
                monitor,
                sent: port.sent,
                received: port.received,
            }
        };
        let switch = |(n, (_, ports)): (usize, &(String, usize))| {
            let port = |port| {
                let end = End::Port(*self.places.switches.get(n)?, port);
                let (counters, peak) = fabric.port_counters(end)?;
                Some(PortReport { port, to: fabric.far_end(end).and_then(plug), counters, peak })
            };
            SwitchReport { ports: (0..*ports).filter_map(port).collect() }
        };
        let hosts: Vec<HostReport> = stations.iter().enumerate().map(host).collect();
        let plugged = |n: &usize| hosts.get(*n).is_some_and(|host| host.plugged.is_some());
        let mapper = (0..hosts.len()).filter(plugged).max_by_key(|n| hosts[*n].address);
        let drawn = mapper.and_then(|n| Some((n, stations[n].lanai.mapping().map()?.clone())));
        let (overflowed, timeouts) = fabric.losses();
        let (mut packets, mut mapping) = (self.former.fabric.counters, self.former.fabric.mapping);
        packets.add(fabric.counters());
        mapping.add(fabric.mapping_counters());
        Report {
            drawn,
            plugged: self.plugged(),
            switches: self.layout.switches.iter().enumerate().map(switch).collect(),
            hosts,
            layout: self.layout.clone(),
            routes: self.table.len(),
            fabric: packets,
            mapping,
            overflowed,
            timeouts,
            stood: self.clock.stood(),
            interrupted: self.interrupted,
            generated: self.generator.generated().cloned(),
        }
    }

    fn plugged(&self) -> Map {
        let address = |id| self.places.hosts.iter().position(|host| *host == id).map_or(0, Layout::address);
        Map::of(&self.network.fabric, address)
    }
}

impl Report {
    /// The mapper's address.
    pub fn mapper(&self) -> Option<Address> {
        self.drawn.as_ref().map(|(mapper, _)| Layout::address(*mapper))
    }

    /// The map that the mapper has drawn, in the form in which two of the same network are equal.
    pub fn map(&self) -> Option<Map> {
        self.drawn.as_ref().map(|(_, map)| map.canonical())
    }

    /// Whether that map is what is plugged, as far as it hangs together with the mapper.
    pub fn map_agrees(&self) -> bool {
        let around = |mapper| self.plugged.around(mapper).canonical();
        self.map().is_some_and(|map| self.mapper().map(around) == Some(map))
    }
}
