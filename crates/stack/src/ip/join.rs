//! Joining TCP segments that follow each other into one long packet, so that a device's stack is asked once for all of
//! them.
//!
//! In: packets as they come from circuits, whole. Out: a long packet with the header that says how to cut it again
//! ([`VnetHeader`]). Cut, it is octet for octet the segments it was made of: whoever forwards it loses nothing. What is
//! not sure to be so is not joined, and a segment whose checksum is wrong goes to the stack as it is, which counts it.

use super::checksum::{add, fold, pseudo_header, write_ipv4};
use super::offload::{TCP, VnetHeader};
use wire::llc::{IPV4, IPV6};

/// The longest packet by its IP length field, and an Ethernet header.
const MAX_OCTETS: usize = 65_535 + ETHERNET_OCTETS;
const ETHERNET_OCTETS: usize = 14;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;

/// What is joined at the moment. Its memory is one long packet's, allocated once.
#[derive(Debug)]
pub struct Join {
    packet: Box<[u8]>,
    /// Octets of it that are written; with none nothing waits.
    octets: usize,
    /// Where the IP header begins.
    ip: usize,
    first: Segment,
    segments: usize,
    is_checked: bool,
    is_complete: bool,
}

/// Where a TCP segment's parts are.
#[derive(Debug, Clone, Copy, Default)]
struct Segment {
    transport: usize,
    data: usize,
    /// Octets of data.
    octets: usize,
    sequence: u32,
    /// Of IPv4.
    identification: u16,
    flags: u8,
}

impl Join {
    /// Nothing joined yet; `ip` octets of Ethernet header stand before the IP header (0 on a routed circuit).
    pub fn new(ip: usize) -> Self {
        Join {
            packet: vec![0; MAX_OCTETS].into(),
            octets: 0,
            ip,
            first: Segment::default(),
            segments: 0,
            is_checked: false,
            is_complete: false,
        }
    }

    /// Appends a packet to what waits. False, and nothing is changed, if it does not continue that; then
    /// [`Join::poll_packet`] first, and [`Join::begin`] with it.
    pub fn append(&mut self, packet: &[u8]) -> bool {
        if self.octets == 0 || self.is_complete {
            return false;
        }
        let Some(segment) = Segment::parse(packet, self.ip) else { return false };
        if !self.is_next(&segment, packet) {
            return false;
        }
        if !self.is_checked && !self.first.is_intact(&self.packet[..self.octets], self.ip)
            || !segment.is_intact(packet, self.ip)
        {
            return false;
        }
        self.is_checked = true;
        let data = &packet[segment.data..];
        self.packet[self.octets..self.octets + data.len()].copy_from_slice(data);
        self.octets += data.len();
        self.segments += 1;
        let last = segment.flags & (FIN | PSH);
        self.packet[self.first.transport + 13] |= last;
        self.is_complete = last != 0 || data.len() < self.first.octets;
        true
    }

    /// Begins with a packet, where nothing waits. False if nothing could follow it: it goes to the stack as it is.
    pub fn begin(&mut self, packet: &[u8]) -> bool {
        let first =
            Segment::parse(packet, self.ip).filter(|s| s.flags & (FIN | PSH) == 0 && packet.len() <= MAX_OCTETS);
        let (Some(first), 0) = (first, self.octets) else { return false };
        self.packet[..packet.len()].copy_from_slice(packet);
        (self.first, self.octets, self.segments) = (first, packet.len(), 1);
        (self.is_checked, self.is_complete) = (false, false);
        true
    }

    /// Whether nothing more can follow what waits.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// What waits: how it is to be cut, its octets, and of how many packets it is. Nothing waits any more.
    pub fn poll_packet(&mut self) -> Option<(VnetHeader, &[u8], usize)> {
        let octets = std::mem::take(&mut self.octets);
        if octets == 0 {
            return None;
        }
        let packet = &mut self.packet[..octets];
        if self.segments == 1 {
            return Some((VnetHeader::default(), packet, 1));
        }
        let Segment { transport, data, octets: segment, .. } = self.first;
        let is_ipv4 = packet[self.ip] >> 4 == 4;
        let network = &mut packet[self.ip..transport];
        // Neither sum can be too large: `is_next` has looked.
        if is_ipv4 {
            network[2..4].copy_from_slice(&((octets - self.ip) as u16).to_be_bytes());
            write_ipv4(network);
        } else {
            network[4..6].copy_from_slice(&((octets - transport) as u16).to_be_bytes());
        }
        let sum = fold(pseudo_header(&packet[self.ip..], TCP, octets - transport));
        packet[transport + 16..transport + 18].copy_from_slice(&sum.to_be_bytes());
        Some((VnetHeader::of_tcp(is_ipv4, transport, data, segment), packet, self.segments))
    }

    /// Whether a segment continues what waits, by its headers.
    fn is_next(&self, segment: &Segment, packet: &[u8]) -> bool {
        let Segment { transport, data, .. } = self.first;
        let before = self.octets - data;
        let so_far = &self.packet[..data];
        if (segment.transport, segment.data) != (transport, data)
            || segment.octets > self.first.octets
            || self.octets + segment.octets - self.ip > 65_535
            || segment.sequence != self.first.sequence.wrapping_add(before as u32)
        {
            return false;
        }
        let same = |from: usize, to: usize| so_far[from..to] == packet[from..to];
        let ip = self.ip;
        let network = if so_far[ip] >> 4 == 4 {
            // All but length, identification and checksum.
            segment.identification == self.first.identification.wrapping_add(self.segments as u16)
                && same(0, ip + 2)
                && same(ip + 6, ip + 10)
                && same(ip + 12, ip + 20)
        } else {
            same(0, ip + 4) && same(ip + 6, ip + 40)
        };
        // Ports; acknowledgement and length of the header; window; urgent pointer and options. Flags but those of the
        // last.
        network
            && same(transport, transport + 4)
            && same(transport + 8, transport + 13)
            && same(transport + 14, transport + 16)
            && same(transport + 18, data)
            && segment.flags & !(FIN | PSH) == self.first.flags
    }
}

impl Segment {
    /// The parts of a TCP segment that can be joined; `None` of any other packet.
    fn parse(packet: &[u8], ip: usize) -> Option<Self> {
        let network = packet.get(ip..)?;
        let version = network.first()? >> 4;
        let ethertype = if version == 4 { IPV4 } else { IPV6 };
        if ip == ETHERNET_OCTETS && packet[12..14] != ethertype.to_be_bytes() {
            return None;
        }
        let word = |at: usize| Some(u16::from_be_bytes([*network.get(at)?, *network.get(at + 1)?]));
        let (network_octets, identification) = match version {
            // Without options, and not a fragment: nothing but "don't fragment" is said there.
            4 if network[0] & 15 == 5
                && usize::from(word(2)?) == network.len()
                && word(6)? & 0xbfff == 0
                && network.get(9) == Some(&TCP) =>
            {
                (20, word(4)?)
            }
            6 if usize::from(word(4)?) + 40 == network.len() && network.get(6) == Some(&TCP) => (40, 0),
            _ => return None,
        };
        let tcp = network.get(network_octets..)?;
        let header_octets = usize::from(tcp.get(12)? >> 4) * 4;
        let flags = *tcp.get(13)?;
        let octets = tcp.len().checked_sub(header_octets)?;
        let is_plain = tcp[12] & 15 == 0 && flags & ACK != 0 && flags & !(ACK | ECE | FIN | PSH) == 0;
        if header_octets < 20 || octets == 0 || !is_plain {
            return None;
        }
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        let transport = ip + network_octets;
        Some(Segment { transport, data: transport + header_octets, octets, sequence, identification, flags })
    }

    /// Whether the checksums of its packet are right.
    fn is_intact(&self, packet: &[u8], ip: usize) -> bool {
        let network = &packet[ip..self.transport];
        let transport = &packet[self.transport..];
        (network[0] >> 4 != 4 || fold(add(network, 0)) == 0xffff)
            && fold(add(transport, pseudo_header(&packet[ip..], TCP, transport.len()))) == 0xffff
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::VNET_OCTETS;
    use proptest::prelude::*;

    /// A long packet as a device gives it, IPv4 or IPv6, with `octets` of data and options of `options` words.
    fn long(is_ipv4: bool, ip: usize, octets: usize, options: usize, flags: u8) -> Vec<u8> {
        let mut p = vec![0; ip];
        if ip > 0 {
            p[12..14].copy_from_slice(&if is_ipv4 { IPV4 } else { IPV6 }.to_be_bytes());
        }
        let tcp_octets = 20 + options * 4 + octets;
        if is_ipv4 {
            p.extend_from_slice(&[0x45, 0, 0, 0, 0xff, 0xfe, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            let total = (20 + tcp_octets) as u16;
            p[ip + 2..ip + 4].copy_from_slice(&total.to_be_bytes());
            write_ipv4(&mut p[ip..]);
        } else {
            p.extend_from_slice(&[0x60, 0, 0, 7]);
            p.extend_from_slice(&(tcp_octets as u16).to_be_bytes());
            p.extend_from_slice(&[TCP, 64]);
            p.extend((0..32).map(|i| i * 3));
        }
        let transport = p.len();
        p.extend_from_slice(&[0x12, 0x34, 0, 80, 0xff, 0xff, 0xff, 0, 9, 9, 9, 9, ((5 + options) as u8) << 4, flags]);
        p.extend_from_slice(&[1, 0, 0, 0, 0, 0]);
        p.extend((0..options * 4 + octets).map(|i| (i * 7) as u8));
        let sum = fold(pseudo_header(&p[ip..], TCP, p.len() - transport));
        p[transport + 16..transport + 18].copy_from_slice(&sum.to_be_bytes());
        p
    }

    /// All segments of a long packet.
    fn cut(header: VnetHeader, packet: &[u8], ip: usize) -> Vec<Vec<u8>> {
        let cut = header.cut(packet, ip).unwrap();
        let segment = |i| {
            let mut out = vec![0; 66_000];
            let n = cut.write(packet, i, &mut out).unwrap();
            out.truncate(n);
            out
        };
        (0..cut.count(packet)).map(segment).collect()
    }

    /// What a device gets of packets, and as which packets these come out of the device's stack.
    fn joined(join: &mut Join, packets: &[Vec<u8>], ip: usize) -> (usize, Vec<Vec<u8>>) {
        let (mut writes, mut out) = (0, Vec::new());
        let mut flush = |join: &mut Join, out: &mut Vec<Vec<u8>>| {
            if let Some((header, packet, segments)) = join.poll_packet() {
                writes += 1;
                let header = VnetHeader::parse(&header.to_octets(), packet.len()).expect("a header the kernel takes");
                let before = out.len();
                if header.is_long() {
                    out.extend(cut(header, packet, ip))
                } else {
                    out.push(packet.to_vec())
                }
                assert_eq!(out.len() - before, segments);
            }
        };
        let mut alone = 0;
        for packet in packets {
            if !join.append(packet) {
                flush(join, &mut out);
                if !join.begin(packet) {
                    alone += 1;
                    out.push(packet.clone());
                }
            }
            if join.is_complete() {
                flush(join, &mut out);
            }
        }
        flush(join, &mut out);
        (writes + alone, out)
    }

    fn header(is_ipv4: bool, ip: usize, options: usize, segment: usize) -> VnetHeader {
        let transport = ip + if is_ipv4 { 20 } else { 40 };
        VnetHeader::of_tcp(is_ipv4, transport, transport + 20 + options * 4, segment)
    }

    proptest! {
        #[test]
        fn segments_of_a_long_packet_become_it_again(
            is_ipv4: bool, bridged: bool, octets in 2usize..40_000, options in 0usize..10, segment in 1usize..9000, push: bool
        ) {
            let ip = if bridged { 14 } else { 0 };
            let segment = segment.max(octets / 100 + 1).min(octets - 1);
            let packet = long(is_ipv4, ip, octets, options, ACK | if push { PSH } else { 0 });
            let header = header(is_ipv4, ip, options, segment);
            let segments = cut(header, &packet, ip);
            let mut join = Join::new(ip);
            prop_assert!(join.begin(&segments[0]));
            for (i, segment) in segments[1..].iter().enumerate() {
                prop_assert!(!join.is_complete());
                prop_assert!(join.append(segment), "segment {}", i + 1);
            }
            let (its, got, n) = join.poll_packet().unwrap();
            prop_assert_eq!((its, n), (header, segments.len()));
            prop_assert!(got == packet);
            prop_assert!(join.poll_packet().is_none());
        }

        #[test]
        fn what_is_joined_comes_out_as_it_was_whatever_stands_between(
            is_ipv4: bool, changes in proptest::collection::vec((0usize..12, 0usize..80, 1u8..=255), 0..6), again in 0usize..12
        ) {
            let packet = long(is_ipv4, 0, 10_000, 3, ACK | PSH);
            let mut packets = cut(header(is_ipv4, 0, 3, 1000), &packet, 0);
            // A flipped bit, checksums no longer right or, every other time, right again: another stream, a hole, an
            // option.
            for (n, (which, at, bits)) in changes.into_iter().enumerate() {
                let which = which % packets.len();
                packets[which][at] ^= bits;
                let transport = if is_ipv4 { 20 } else { 40 };
                if n % 2 == 0 && packets[which][0] == if is_ipv4 { 0x45 } else { 0x60 } {
                    let p = &mut packets[which];
                    if is_ipv4 {
                        write_ipv4(&mut p[..20]);
                    }
                    p[transport + 16..transport + 18].fill(0);
                    let sum = !fold(add(&p[transport..], pseudo_header(p, TCP, p.len() - transport)));
                    p[transport + 16..transport + 18].copy_from_slice(&sum.to_be_bytes());
                }
            }
            let doubled = packets[again % packets.len()].clone();
            packets.insert(again % packets.len(), doubled);
            let (_, out) = joined(&mut Join::new(0), &packets, 0);
            prop_assert!(out == packets);
        }

        #[test]
        fn no_packet_panics(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 0..8), bridged: bool) {
            let ip = if bridged { 14 } else { 0 };
            let (_, out) = joined(&mut Join::new(ip), &packets, ip);
            prop_assert!(out == packets);
        }
    }

    #[test]
    fn a_stream_becomes_as_few_packets_as_the_length_field_allows() {
        let packets: Vec<_> = (0..2)
            .flat_map(|half| {
                let mut packet = long(true, 0, 60_000, 3, ACK);
                packet[4..6].copy_from_slice(&(half * 60u16).to_be_bytes());
                packet[24..28].copy_from_slice(&(u32::from(half) * 60_000).to_be_bytes());
                cut(header(true, 0, 3, 1000), &packet, 0)
            })
            .collect();
        assert_eq!(packets.len(), 120);
        let (writes, out) = joined(&mut Join::new(0), &packets, 0);
        assert_eq!(writes, 2);
        assert!(out == packets);
    }

    #[test]
    fn nothing_waits_that_nothing_can_follow() {
        let mut join = Join::new(0);
        for flags in [ACK | PSH, ACK | FIN, ACK | 0x02, ACK | 0x04, ACK | 0x20, ACK | 0x80, 0] {
            assert!(!join.begin(&long(true, 0, 100, 0, flags)), "flags {flags:#x}");
        }
        let mut acknowledgement = long(true, 0, 1, 0, ACK);
        acknowledgement.pop();
        acknowledgement[3] -= 1;
        assert!(!join.begin(&acknowledgement));
        assert!(join.poll_packet().is_none());
        assert_eq!(VNET_OCTETS, 10);
    }
}
