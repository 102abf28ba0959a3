//! Where a packet goes: to the circuit of its destination, of the router that leads there, or to the only one; if the
//! address is being asked for, it waits. In: a packet or frame. Out: a [`Verdict`], and whether work may be left to
//! whoever is at that circuit's far end.

use super::bridge::Side;
use super::{IpInterface, MAX_SDU_OCTETS, VNET_OCTETS, Verdict};
use crate::atmarp::Resolution;
use std::net::Ipv4Addr;
use wire::llc::ROUTED_OCTETS;
use wire::{DropReason, Time};

impl IpInterface {
    /// The circuit for a destination: its own, its router's, or the only one there is; or the next hop whose circuit
    /// may be known soon.
    fn circuit_for(&mut self, to: Ipv4Addr, now: Time) -> Result<u32, Option<Ipv4Addr>> {
        // A call leads to one station; only a circuit of a description may lead to whatever is beyond it.
        let is_only = self.circuits.len() == 1 && !self.is_switched;
        let only = self.circuits.keys().next().copied().filter(|_| is_only);
        let via = |(network, prefix, via): &(Ipv4Addr, u8, Ipv4Addr)| {
            let mask = u32::MAX.checked_shl(32 - u32::from(*prefix)).unwrap_or(0);
            (u32::from(to) & mask == u32::from(*network) & mask).then_some(*via)
        };
        let (mut hop, mut way) = (to, self.way(to));
        if way.is_none()
            && let Some(router) = self.routes.iter().find_map(via)
        {
            (hop, way) = (router, self.way(router));
        }
        if let Some(way) = way.filter(|way| !way.resolved) {
            return Ok(way.circuit);
        }
        let may_wait = if let Some((_, client)) = &mut self.client {
            let known = client.resolve(hop, now);
            if let Some(way) = way {
                return Ok(way.circuit);
            }
            match known {
                Resolution::Known(end) => {
                    self.want(end);
                    // Its circuit may be there, and only its number not known yet.
                    self.is_switched || self.ask_around(now)
                }
                Resolution::Asking => {
                    self.speak = true;
                    self.set_deadline();
                    true
                }
                Resolution::Unreachable => false,
            }
        } else if let Some(only) = only {
            return Ok(only);
        } else if self.is_switched {
            let end = self.entered(hop);
            end.map(|end| self.want(end)).is_some()
        } else {
            !hop.is_multicast() && !hop.is_broadcast() && self.ask_around(now)
        };
        Err(may_wait.then_some(hop))
    }

    /// Where a packet goes. What goes nowhere is counted; what has to wait is the caller's to [`IpInterface::keep`].
    pub fn route(&mut self, packet: &[u8], now: Time) -> Verdict {
        if self.config.encapsulation.is_bridged() {
            return self.bridge_route(packet, now);
        }
        let to = match packet.first().map(|o| o >> 4) {
            Some(4) if packet.len() >= 20 => Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]),
            Some(6) if packet.len() >= 40 => {
                return match self.route6(packet, now) {
                    Verdict::To(circuit) => self.fitting(circuit, packet),
                    other => other,
                };
            }
            _ => {
                self.sent.drop_one(DropReason::Malformed);
                return Verdict::Dropped;
            }
        };
        match self.circuit_for(to, now) {
            Ok(circuit) => self.fitting(circuit, packet),
            Err(Some(hop)) => Verdict::Waits(hop),
            Err(None) => {
                self.sent.drop_one(DropReason::UnknownCircuit);
                Verdict::Dropped
            }
        }
    }

    /// A packet goes on a circuit, if that has room for it.
    fn fitting(&mut self, circuit: u32, packet: &[u8]) -> Verdict {
        let mtu = self.circuits.get_mut(&circuit).map_or(self.config.mtu, |c| {
            c.used = true;
            c.mtu
        });
        if packet.len() > mtu { Verdict::TooLong { circuit, mtu } } else { Verdict::To(circuit) }
    }

    fn bridge_route(&mut self, frame: &[u8], now: Time) -> Verdict {
        if frame.len() < 14 {
            self.sent.drop_one(DropReason::Malformed);
            return Verdict::Dropped;
        }
        // Room for one VLAN tag.
        if frame.len() > self.config.mtu + 18 {
            self.sent.drop_one(DropReason::Oversize);
            return Verdict::Dropped;
        }
        self.bridge.learn(frame, Side::Device, now);
        let to = match (self.bridge.side(frame, now), self.circuits.len()) {
            // A station that a circuit was named for is nowhere while there is no such circuit.
            (Some(Side::Circuit(circuit)), _) => {
                Some(circuit).filter(|c| self.circuits.contains_key(c)).map(Verdict::To)
            }
            (Some(Side::Device) | None, 0 | 1) => self.circuit_after(None).map(Verdict::To),
            (Some(Side::Device) | None, _) => Some(Verdict::All),
        };
        to.unwrap_or_else(|| {
            self.sent.drop_one(DropReason::UnknownCircuit);
            Verdict::Dropped
        })
    }

    /// Whether a circuit ends at the packet's own destination, in this subnet: then the AAL5 CRC covers it all the way,
    /// and its transport checksum may be left out. Not if a router is at the far end (Almesberger, 1995).
    pub fn ends_at_destination(&self, circuit: u32, packet: &[u8]) -> bool {
        match packet {
            [first, ..] if first >> 4 == 4 && packet.len() >= 20 => {
                let to = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
                self.way(to).is_some_and(|way| way.circuit == circuit)
            }
            _ => false,
        }
    }

    /// Whether a packet may go on a circuit with its checksum and its cutting left over: both ends do that, and the far
    /// one is the packet's destination.
    pub fn takes_offload(&self, circuit: u32, packet: &[u8]) -> bool {
        let long = packet.len() + ROUTED_OCTETS + VNET_OCTETS;
        long <= MAX_SDU_OCTETS
            && self.circuits.get(&circuit).is_some_and(|c| c.takes)
            && self.ends_at_destination(circuit, packet)
    }
}
