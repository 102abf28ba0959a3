//! Myrinet in virtual time (Boden, Cohen, Felderman, Kulawik, Seitz, Seizovic and Su, IEEE Micro 1995).
//!
//! In: hosts, switches, cables; packets that hosts send; the time. Out: packets that hosts get, each at its symbol
//! time. Nothing here reads a clock. The same calls in the same order give the same run.
//!
//! A link is two channels of symbols; a receiver says STOP and GO in the channel the other way ([`Config`]). A switch
//! routes by a packet's first octet, passes it on before its end has come, and blocks it while the output is another's.
//! Nothing is lost for want of room: what blocks stands in the slack buffers behind it. Routes that close a circle can
//! stand for ever, which the time-out ends; those of [`routes`] close none.
//!
//! | module | what |
//! |---|---|
//! | [`routes`] | a map of switches, hosts and cables; up*/down* routes over it |
//! | [`mapper`] | how control programs find out the map, and which of them does |
//! | [`random`] | fabrics from a seed |
//!
//! ```
//! use lanai::fabric::{Config, End, Fabric, PacketOutcome};
//! use lanai::packet::{Kind, Turn, emit};
//! use wire::Time;
//!
//! let mut fabric = Fabric::new(Config::default());
//! let (switch, alpha, beta) = (fabric.add_switch(8).unwrap(), fabric.add_host(), fabric.add_host());
//! fabric.connect(End::Host(alpha), End::Port(switch, 2), 10.0)?;
//! fabric.connect(End::Host(beta), End::Port(switch, 5), 10.0)?;
//! let mut packet = [0; 32];
//! let n = emit(&[Turn::between(2, 5).unwrap()], Kind::MESSAGE, b"hello", &mut packet);
//! fabric.send(alpha, &packet[..n], 7, Time::ZERO)?;
//! fabric.run(Time::from_micros(10));
//! assert_eq!(fabric.poll_outcome().map(|(_, host, outcome)| (host, outcome)), Some((alpha, PacketOutcome::Sent(7))));
//! let (at, host, PacketOutcome::Arrived(octets)) = fabric.poll_outcome().unwrap() else { panic!() };
//! assert_eq!((host, octets.len()), (beta, n - 1));
//! assert!(at < Time::from_nanos(600));
//! # Ok::<(), lanai::fabric::FabricError>(())
//! ```

mod config;
mod engine;
mod fault;
pub mod mapper;
mod probe;
pub mod random;
pub mod routes;
mod slack;
mod sums;
mod wheel;

pub use config::{Config, Marks, Switching};
pub use engine::{PacketOutcome, PortCounters};
pub use sums::FabricSums;

use crate::packet::{Kind as Type, MAX_OCTETS, TYPE_OCTETS, kind};
use engine::{Engine, Kind, NONE, Node, Port};
use wire::{Counters, Time};

/// Ports of the smallest and the largest switch.
pub const SWITCH_PORTS: core::ops::RangeInclusive<usize> = 4..=16;

/// A host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(u32);

/// A switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SwitchId(u32);

/// Where a cable ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// At a host.
    Host(HostId),
    /// At a port of a switch, from 0.
    Port(SwitchId, usize),
}

/// Why a fabric refuses something.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum FabricError {
    /// There are smaller and larger ones.
    #[error("a switch of {0} ports: 4 to 16 are possible")]
    Ports(usize),
    /// No such host, switch or port.
    #[error("there is no end {0:?}")]
    NoEnd(End),
    /// A cable is there already, or both ends are one.
    #[error("the end {0:?} is taken")]
    Taken(End),
    /// The slack buffers have no room for what is under way.
    #[error("a cable of {metres} m: {under_way} symbols still come after STOP, and a slack buffer holds {slack}")]
    TooLong {
        /// The cable.
        metres: f64,
        /// Symbols of a round trip.
        under_way: u32,
        /// The buffer.
        slack: u32,
    },
    /// The host's queue has as many packets as it may.
    #[error("the host's queue is full")]
    Full,
    /// Too short or too long to be a packet.
    #[error("a packet of {0} octets")]
    Length(usize),
}

/// Hosts and switches, and the cables between them.
#[derive(Debug)]
pub struct Fabric {
    engine: Engine,
}

impl Fabric {
    /// Without hosts and switches.
    pub fn new(config: Config) -> Self {
        Fabric { engine: Engine::new(config) }
    }

    /// What it was made with.
    pub fn config(&self) -> &Config {
        &self.engine.config
    }

    fn add(&mut self, kind: Kind, ports: u8) -> u32 {
        let (node, first) = (self.engine.nodes.len() as u32, self.engine.ports.len() as u32);
        self.engine.nodes.push(Node { kind, first, ports });
        self.engine.ports.extend((0..ports).map(|local| Port::new(node, local)));
        node
    }

    /// Adds a host, with one interface.
    pub fn add_host(&mut self) -> HostId {
        HostId(self.add(Kind::Host, 2))
    }

    /// Adds a switch.
    ///
    /// # Errors
    /// Fewer than 4 ports, or more than 16.
    pub fn add_switch(&mut self, ports: usize) -> Result<SwitchId, FabricError> {
        if !SWITCH_PORTS.contains(&ports) {
            return Err(FabricError::Ports(ports));
        }
        Ok(SwitchId(self.add(Kind::Switch, ports as u8)))
    }

    fn port(&self, end: End) -> Result<u32, FabricError> {
        let (node, port, kind) = match end {
            End::Host(HostId(node)) => (node, 0, Kind::Host),
            End::Port(SwitchId(node), port) => (node, port, Kind::Switch),
        };
        let found = self.engine.nodes.get(node as usize).filter(|n| n.kind == kind && port < n.ports.into());
        found.map(|n| n.first + port as u32).ok_or(FabricError::NoEnd(end))
    }

    fn end(&self, port: u32) -> Option<End> {
        let at = self.engine.ports.get(port as usize)?;
        let node = &self.engine.nodes[at.node as usize];
        Some(match node.kind {
            Kind::Host => End::Host(HostId(at.node)),
            Kind::Switch => End::Port(SwitchId(at.node), at.local.into()),
        })
    }

    /// Plugs a cable of so many metres.
    ///
    /// # Errors
    /// An end that is not there or taken; a cable that the slack buffers are too small for.
    pub fn connect(&mut self, a: End, b: End, metres: f64) -> Result<(), FabricError> {
        let (first, second) = (self.port(a)?, self.port(b)?);
        for (end, port) in [(a, first), (b, second)] {
            if self.engine.ports[port as usize].peer != NONE || first == second {
                return Err(FabricError::Taken(end));
            }
        }
        let config = self.engine.config;
        let Some((size, stop, go)) = config.buffer(metres) else {
            return Err(FabricError::TooLong { metres, under_way: config.under_way(metres), slack: config.slack });
        };
        let (delay, now) = (config.one_way(metres), self.engine.wheel.now());
        for port in [first, second] {
            let slack = &mut self.engine.ports[port as usize].slack;
            (slack.size, slack.stop, slack.go) = (size, stop, go);
        }
        self.engine.recable(first, second, delay, now);
        self.engine.recable(second, first, delay, now);
        self.engine.changes += 1;
        Ok(())
    }

    /// Pulls the cable at an end; gives the other end.
    ///
    /// # Errors
    /// No such end.
    pub fn disconnect(&mut self, end: End) -> Result<Option<End>, FabricError> {
        let port = self.port(end)?;
        let far = self.engine.ports[port as usize].peer;
        let other = self.end(far);
        if other.is_some() {
            let now = self.engine.wheel.now();
            self.engine.recable(port, NONE, 0, now);
            self.engine.recable(far, NONE, 0, now);
            self.engine.changes += 1;
        }
        Ok(other)
    }

    /// Cables that were plugged or pulled so far: at each, interfaces map anew ([`mapper::Mapping::handle_change`]).
    pub fn changes(&self) -> u64 {
        self.engine.changes
    }

    /// The other end of the cable at an end.
    pub fn far_end(&self, end: End) -> Option<End> {
        self.end(self.engine.ports[self.port(end).ok()? as usize].peer)
    }

    /// Each switch, and its ports.
    pub fn switches(&self) -> impl Iterator<Item = (SwitchId, usize)> + '_ {
        let nodes = self.engine.nodes.iter().zip(0..);
        nodes.filter(|(node, _)| node.kind == Kind::Switch).map(|(node, n)| (SwitchId(n), node.ports.into()))
    }

    /// Each host.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + '_ {
        let nodes = self.engine.nodes.iter().zip(0..);
        nodes.filter(|(node, _)| node.kind == Kind::Host).map(|(_, n)| HostId(n))
    }

    /// Packets that a host still takes.
    pub fn room(&self, host: HostId) -> usize {
        let inner = self.port(End::Host(host)).map(|port| &self.engine.ports[port as usize + 1]);
        inner.map_or(0, |inner| self.engine.config.queue.saturating_sub(inner.slack.segments.len()))
    }

    /// Queues a packet, its route in front and its CRC at the end. [`PacketOutcome::Sent`] or
    /// [`PacketOutcome::GivenUp`] gives the number back.
    ///
    /// # Errors
    /// No such host, a full queue, fewer octets than a packet has, or more.
    pub fn send(&mut self, host: HostId, octets: &[u8], number: u64, now: Time) -> Result<(), FabricError> {
        let port = self.port(End::Host(host))?;
        if octets.len() <= TYPE_OCTETS || octets.len() > MAX_OCTETS {
            return Err(FabricError::Length(octets.len()));
        }
        if self.room(host) == 0 {
            return Err(FabricError::Full);
        }
        let engine = &mut self.engine;
        let tick = engine.config.tick(now).max(engine.wheel.now());
        let packet = engine.packet(number);
        engine.accepted = engine.accepted.wrapping_add(1);
        let made = &mut engine.packets[packet as usize];
        made.octets.extend_from_slice(octets);
        made.maps = kind(octets) == Some(Type::MAPPING);
        engine.catch_up_to(tick);
        engine.queue(port + 1, packet, tick);
        Ok(())
    }

    /// Whether a host takes what comes; what it does not take stands in the network.
    pub fn set_accepting(&mut self, host: HostId, accepting: bool) {
        if let Ok(port) = self.port(End::Host(host)) {
            self.engine.set_stopped(port + 1, !accepting);
        }
    }

    /// Runs to a moment.
    pub fn run(&mut self, until: Time) {
        let tick = self.engine.config.tick_by(until);
        self.engine.catch_up_to(tick);
    }

    /// Runs to a moment, or to the tick in which something happens at a host. True if something has.
    pub fn run_to_outcome(&mut self, until: Time) -> bool {
        let until = self.engine.config.tick_by(until);
        while self.engine.outcomes.is_empty() {
            if !self.engine.step(until) {
                self.engine.wheel.skip_to(until);
                return false;
            }
        }
        let now = self.engine.wheel.now();
        while self.engine.step(now) {}
        true
    }

    /// When something happens next.
    pub fn poll_timeout(&self) -> Option<Time> {
        let next = self.engine.wheel.next().map(|tick| self.engine.config.time(tick));
        let happened = self.engine.outcomes.front().map(|(tick, ..)| self.engine.config.time(*tick));
        happened.or(next)
    }

    /// The moment that the run has come to.
    pub fn now(&self) -> Time {
        self.engine.config.time(self.engine.wheel.now())
    }

    /// What has happened at hosts, in order.
    pub fn poll_outcome(&mut self) -> Option<(Time, HostId, PacketOutcome)> {
        let (tick, node, outcome) = self.engine.outcomes.pop_front()?;
        Some((self.engine.config.time(tick), HostId(node), outcome))
    }

    /// Gives an arrived packet's memory back for the next one.
    pub fn recycle(&mut self, mut octets: Vec<u8>) {
        octets.clear();
        self.engine.spare.push(octets);
    }

    /// Mapping packets that arrived, their octets, and those that did not: most scouts find nothing.
    pub fn mapping_counters(&self) -> &Counters {
        &self.engine.mapping
    }

    /// Other packets that arrived, their octets, and those that did not, by reason.
    pub fn counters(&self) -> &Counters {
        &self.engine.counters
    }

    /// What a port has seen, and the most symbols that its slack buffer held.
    pub fn port_counters(&self, end: End) -> Option<(PortCounters, u32)> {
        let port = &self.engine.ports[self.port(end).ok()? as usize];
        Some((port.counters, port.slack.peak))
    }

    /// Symbols that slack buffers had no room for, and packets that the time-out ended, in the whole fabric.
    pub fn losses(&self) -> (u64, u64) {
        let ports = self.engine.ports.iter().map(|port| port.counters);
        ports.fold((0, 0), |(over, late), c| (over + c.overflowed, late + c.timeouts))
    }
}

#[cfg(test)]
mod tests;
