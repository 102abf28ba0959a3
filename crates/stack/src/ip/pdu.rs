//! Packets into SDUs, in place, and packets as parts of SDUs (RFC 2684).

use super::bridge::Side;
use super::{CELLWAY, Content, Delivery, IpInterface, MAX_SDU_OCTETS, OFFER, VNET_OCTETS, VnetHeader, ethertype_of};
use wire::atmarp::Packet;
use wire::llc::{Protocol, ROUTED_OCTETS};
use wire::{DropReason, Time};

impl IpInterface {
    /// Makes the SDU of the packet that stands at [`IpInterface::headroom`] in `sdu`; gives its length, and counts.
    /// `None`, counted, if it cannot be one.
    pub fn encapsulate(&mut self, sdu: &mut [u8], octets: usize) -> Option<usize> {
        let made = self.config.encapsulation.emit(sdu, octets).filter(|n| *n <= MAX_SDU_OCTETS);
        self.count_sent(made, octets)
    }

    /// As [`IpInterface::encapsulate`], for a packet with work left over ([`IpInterface::takes_offload`]).
    pub fn encapsulate_offloaded(&mut self, sdu: &mut [u8], octets: usize, header: VnetHeader) -> Option<usize> {
        let end = ROUTED_OCTETS + octets;
        let made = sdu.get_mut(end..end + VNET_OCTETS).map(|trailer| trailer.copy_from_slice(&header.to_octets()));
        let made = made.map(|()| {
            Protocol::Routed(CELLWAY).emit(sdu);
            end + VNET_OCTETS
        });
        self.count_sent(made, octets)
    }

    fn count_sent(&mut self, made: Option<usize>, octets: usize) -> Option<usize> {
        match made {
            Some(_) => {
                self.sent.pdus += 1;
                self.sent.octets += octets as u64;
            }
            None => self.sent.drop_one(DropReason::Oversize),
        }
        made
    }

    /// An SDU that came on a circuit; gives the packet in it, if it is one and not the interface's own business.
    pub fn handle_pdu<'a>(&mut self, circuit: u32, sdu: &'a [u8], now: Time) -> Option<Delivery<'a>> {
        let Some(state) = self.circuits.get_mut(&circuit) else {
            self.received.drop_one(DropReason::UnknownCircuit);
            return None;
        };
        let plain = |packet| Delivery { packet, header: VnetHeader::default() };
        let delivery = match self.config.encapsulation.parse(sdu) {
            Ok(Content::Packet(packet)) => {
                state.used = true;
                let is_unknown = state.inverse.peer().is_none();
                self.handle_sign_of_life(circuit, is_unknown, now);
                if packet.first().is_some_and(|first| first >> 4 == 6) && !self.neighbours.learn(packet, circuit, now) {
                    self.received.drop_one(DropReason::NotPermitted);
                    return None;
                }
                plain(packet)
            }
            Ok(Content::Frame(frame)) => {
                if !self.bridge.learn(frame, Side::Circuit(circuit), now) {
                    self.received.drop_one(DropReason::NotPermitted);
                    return None;
                }
                plain(frame)
            }
            Ok(Content::Arp(packet)) => {
                match Packet::parse(packet) {
                    Ok(packet) => self.handle_arp(circuit, &packet, now),
                    Err(_) => self.received.drop_one(DropReason::Malformed),
                }
                return None;
            }
            Ok(Content::Cellway(rest)) if rest == OFFER => {
                state.offered = self.config.offload;
                return None;
            }
            Ok(Content::Cellway(rest)) => match offloaded(rest).filter(|_| self.config.offload) {
                Some(delivery) => {
                    state.used = true;
                    delivery
                }
                None => {
                    self.received.drop_one(DropReason::Malformed);
                    return None;
                }
            },
            Err(reason) => {
                self.received.drop_one(reason);
                return None;
            }
        };
        self.received.pdus += 1;
        self.received.octets += delivery.packet.len() as u64;
        Some(delivery)
    }
}

/// A packet with its work left over: the packet, then the header.
fn offloaded(rest: &[u8]) -> Option<Delivery<'_>> {
    let (packet, header) = rest.split_last_chunk::<VNET_OCTETS>()?;
    ethertype_of(packet)?;
    Some(Delivery { packet, header: VnetHeader::parse(header, packet.len())? })
}
