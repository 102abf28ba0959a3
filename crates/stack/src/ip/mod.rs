//! IP over ATM: one interface over many circuits (RFC 2684, 2225, 1626).
//!
//! In: packets (or Ethernet frames, where the encapsulation is bridged) and SDUs, in the caller's buffers. Out: where a
//! packet goes, SDUs made in place, packets as parts of SDUs. The data path copies and allocates nothing;
//! memory is one entry for each circuit, the bounded tables of address resolution, and the few packets that wait for
//! it.

mod bridge;
mod checksum;
mod encapsulation;
mod fcs;
mod fragment;
mod index;
mod join;
mod neighbours;
mod offload;
mod pdu;
mod resolution;
mod routing;
mod switched;
mod waiting;

pub use encapsulation::{CELLWAY, Content, Encapsulation, ethertype_of};
pub use fragment::{Fragments, MAX_MESSAGE_OCTETS, too_big};
pub use join::Join;
pub use offload::{Cut, VNET_OCTETS, VnetHeader};

use crate::atmarp::{Client, Inverse, Server};
use bridge::{Bridge, Side};
use index::Index;
use neighbours::Neighbours;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use waiting::Waiting;
use wire::atmarp::{AtmAddress, End};
use wire::{Counters, Time};

/// Default MTU for IP over AAL5 (RFC 1626, kept by RFC 2225).
pub const MTU: usize = 9180;
/// Longest AAL5 SDU.
const MAX_SDU_OCTETS: usize = 65_535;
/// The offer to take packets with their work left over: version 1.
const OFFER: [u8; 1] = [1];

/// What an interface is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Its IPv4 address. A bridged device, or an interface for IPv6 alone, needs none.
    pub address: Option<Ipv4Addr>,
    /// Its IPv6 address, and the bits of it that are the link's.
    pub ipv6: Option<(Ipv6Addr, u8)>,
    /// Its ATM number; [`AtmAddress::NONE`] on permanent circuits.
    pub number: AtmAddress,
    /// Octets of the longest packet, or of the longest frame's payload.
    pub mtu: usize,
    /// What stands around packets, on all its circuits.
    pub encapsulation: Encapsulation,
    /// Whether packets whose checksum or cutting is left over are offered to, and taken from, peers that do the same.
    pub offload: bool,
}

impl Config {
    /// LLC/SNAP routed, MTU 9180, no offload.
    pub fn new(address: impl Into<Option<Ipv4Addr>>) -> Self {
        Config {
            address: address.into(),
            ipv6: None,
            number: AtmAddress::NONE,
            mtu: MTU,
            encapsulation: Encapsulation::LlcRouted,
            offload: false,
        }
    }

    /// Its addresses, for reports.
    pub fn addresses_text(&self) -> String {
        let ipv6 = self.ipv6.map(|(address, _)| address.to_string());
        let all: Vec<_> = self.address.map(|address| address.to_string()).into_iter().chain(ipv6).collect();
        if all.is_empty() { "no IP address".to_owned() } else { all.join(", ") }
    }
}

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// On this circuit.
    To(u32),
    /// On all circuits ([`IpInterface::circuit_after`]).
    All,
    /// On this circuit, which has a smaller MTU: cut it ([`Fragments`]) or answer it ([`too_big`]).
    TooLong {
        /// The circuit.
        circuit: u32,
        /// Octets of the longest packet there.
        mtu: usize,
    },
    /// Nowhere yet: this next hop is being asked for. Give it to [`IpInterface::keep`].
    Waits(Ipv4Addr),
    /// Nowhere; it is counted.
    Dropped,
}

/// What an SDU brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// The packet or frame.
    pub packet: &'a [u8],
    /// What the sender left to be done.
    pub header: VnetHeader,
}

#[derive(Debug)]
struct Circuit {
    inverse: Inverse,
    /// The ATM number of the far end, as the caller says.
    number: AtmAddress,
    mtu: usize,
    /// The peer takes packets with work left over.
    takes: bool,
    /// It has said so since its last InATMARP packet.
    offered: bool,
    /// Our offer has been said since our last InATMARP packet.
    said: bool,
    /// A packet has passed since [`IpInterface::take_used`].
    used: bool,
}

#[derive(Debug, Clone, Copy)]
struct Way {
    circuit: u32,
    /// By the client's table, which wants to know that it is used.
    resolved: bool,
}

/// An IP interface over circuits that the caller numbers as it likes (channels).
#[derive(Debug)]
pub struct IpInterface {
    config: Config,
    circuits: BTreeMap<u32, Circuit>,
    index: Index,
    routes: Vec<(Ipv4Addr, u8, Ipv4Addr)>,
    /// The client, and the circuit to its server while there is one.
    client: Option<(Option<u32>, Client)>,
    server: Option<Server>,
    /// Circuits are calls.
    is_switched: bool,
    /// Stations that packets want to go to, and to which no circuit leads.
    wanted: VecDeque<End>,
    bridge: Bridge,
    neighbours: Neighbours,
    waiting: Waiting,
    /// When the circuits on which nobody is known were last asked because of a packet, and whether there are any.
    asked_around: Option<(Time, bool)>,
    /// Something may have to be said.
    speak: bool,
    deadline: Option<Time>,
    /// Packets to circuits.
    pub sent: Counters,
    /// Packets from circuits.
    pub received: Counters,
}

impl IpInterface {
    /// An interface without circuits.
    pub fn new(config: Config) -> Self {
        let neighbours = Neighbours::new(config.ipv6);
        IpInterface {
            config,
            neighbours,
            circuits: BTreeMap::new(),
            index: Index::default(),
            routes: Vec::new(),
            client: None,
            server: None,
            is_switched: false,
            wanted: VecDeque::new(),
            bridge: Bridge::default(),
            waiting: Waiting::default(),
            asked_around: None,
            speak: false,
            deadline: None,
            sent: Counters::default(),
            received: Counters::default(),
        }
    }

    /// What it was made of.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// This end, as ATMARP names it.
    fn own(&self) -> End {
        End { number: self.config.number, ip: self.config.address, ..End::default() }
    }

    /// Octets to leave free before a packet in the buffer that becomes its SDU.
    pub fn headroom(&self) -> usize {
        self.config.encapsulation.headroom()
    }

    /// A circuit is open: asks who is there, unless `peer` says it.
    pub fn add_circuit(&mut self, circuit: u32, peer: Option<Ipv4Addr>, now: Time) {
        let inverse = Inverse::new(peer, now);
        let fresh = Circuit {
            inverse,
            number: AtmAddress::NONE,
            mtu: self.config.mtu,
            takes: false,
            offered: false,
            said: false,
            used: false,
        };
        self.insert_circuit(circuit, fresh);
        if let Some(server) = &mut self.server {
            server.add_circuit(circuit, now);
            peer.into_iter().for_each(|ip| server.tie(circuit, ip));
        }
        self.review();
    }

    /// As [`IpInterface::add_circuit`], where the peer that the user names may be an IPv6 neighbour.
    pub fn add_circuit_of(&mut self, circuit: u32, peer: Option<IpAddr>, now: Time) {
        match peer {
            Some(IpAddr::V6(neighbour)) => {
                self.add_circuit(circuit, None, now);
                self.set_neighbour(neighbour, circuit);
            }
            Some(IpAddr::V4(peer)) => self.add_circuit(circuit, Some(peer), now),
            None => self.add_circuit(circuit, None, now),
        }
    }

    /// Says the ATM number at a circuit's far end, so that what the server knows of it leads there.
    pub fn set_number(&mut self, circuit: u32, number: AtmAddress) {
        if self.with_circuit(circuit, |c| c.number = number).is_some() {
            if let Some(server) = &mut self.server {
                server.set_number(circuit, number);
            }
            self.review();
        }
    }

    /// Gives a circuit a smaller MTU than the interface's.
    pub fn set_circuit_mtu(&mut self, circuit: u32, mtu: usize) {
        if let Some(c) = self.circuits.get_mut(&circuit) {
            c.mtu = mtu.min(self.config.mtu);
        }
    }

    /// Where Ethernet is bridged: a station is at the far end of a circuit, or, with `None`, the device has its
    /// address. No frame moves it.
    pub fn set_station(&mut self, address: [u8; 6], circuit: Option<u32>) {
        self.bridge.fix(address, circuit.map_or(Side::Device, Side::Circuit));
    }

    /// Packets to a network go to the peer `via`. The longest prefix counts; 0.0.0.0/0 is everything.
    pub fn add_route(&mut self, network: Ipv4Addr, prefix: u8, via: Ipv4Addr) {
        self.routes.push((network, prefix.min(32), via));
        self.routes.sort_by_key(|(_, prefix, _)| std::cmp::Reverse(*prefix));
    }

    /// Registers with the ATMARP server at the far end of a circuit, and asks it for others.
    pub fn use_server(&mut self, circuit: u32, now: Time) {
        self.client = Some((Some(circuit), Client::new(self.own(), now)));
        self.review();
    }

    /// Is the ATMARP server of its subnet, for at most `max_entries` stations.
    pub fn serve(&mut self, max_entries: usize, now: Time) {
        let mut server = Server::new(self.own(), max_entries);
        for (circuit, state) in &self.circuits {
            server.add_circuit(*circuit, now);
            server.set_number(*circuit, state.number);
            let said = state.inverse.peer().filter(|_| state.inverse.is_static()).and_then(|peer| peer.ip);
            said.into_iter().for_each(|ip| server.tie(*circuit, ip));
        }
        self.server = Some(server);
        self.index_anew();
        self.review();
    }

    /// A circuit is gone.
    pub fn remove_circuit(&mut self, circuit: u32) {
        self.take_circuit(circuit);
        self.bridge.forget(circuit);
        self.neighbours.forget(circuit);
        if let Some(server) = &mut self.server {
            server.remove_circuit(circuit);
        }
        self.review();
    }

    /// The next circuit after `circuit` (from the first with `None`).
    pub fn circuit_after(&self, circuit: Option<u32>) -> Option<u32> {
        let from = circuit.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.circuits.range((from, std::ops::Bound::Unbounded)).next().map(|(c, _)| *c)
    }

    /// The ATMARP client, if there is one.
    pub fn client(&self) -> Option<&Client> {
        self.client.as_ref().map(|(_, client)| client)
    }

    /// The ATMARP server, if there is one.
    pub fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }
}

#[cfg(test)]
mod tests;
