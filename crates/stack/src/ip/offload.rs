//! What a device leaves to whoever comes next (virtio 1.2, section 5.1.6): checksums, and the cutting of one long
//! packet into segments. A peer that can take it gets the long packet as one SDU; for any other it is done here.

use super::checksum::{add, fold, pseudo_header, write_ipv4};

/// Octets of a [`VnetHeader`].
pub const VNET_OCTETS: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;
pub(super) const TCP: u8 = 6;
const UDP: u8 = 17;

/// What is left to be done with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VnetHeader {
    flags: u8,
    gso_type: u8,
    /// Octets of headers before the data.
    pub header_octets: u16,
    /// Octets of data in each segment.
    pub segment_octets: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

impl VnetHeader {
    /// Reads a header of a packet of `octets` octets. In the machine's own order, as TUN devices have it.
    /// `None` if it contradicts itself or the packet's length.
    pub fn parse(octets_of_it: &[u8; VNET_OCTETS], octets: usize) -> Option<Self> {
        let [flags, gso_type, words @ ..] = *octets_of_it;
        let word = |i: usize| u16::from_ne_bytes([words[2 * i], words[2 * i + 1]]);
        let header = VnetHeader {
            flags: flags & NEEDS_CHECKSUM,
            gso_type,
            header_octets: word(0),
            segment_octets: word(1),
            checksum_start: word(2),
            checksum_offset: word(3),
        };
        let gso = gso_type & !GSO_ECN;
        let in_packet = usize::from(header.checksum_start) + usize::from(header.checksum_offset) + 2 <= octets;
        let good = match gso {
            GSO_NONE => !header.needs_checksum() || in_packet,
            GSO_TCPV4 | GSO_TCPV6 | GSO_UDP => {
                header.needs_checksum()
                    && in_packet
                    && header.segment_octets > 0
                    && usize::from(header.checksum_start) < octets
            }
            _ => false,
        };
        good.then_some(header)
    }

    /// Of a TCP packet whose checksum and cutting are left over: where its TCP header and its data begin, and octets of
    /// data in each segment.
    pub(super) fn of_tcp(is_ipv4: bool, transport: usize, data: usize, segment: usize) -> Self {
        VnetHeader {
            flags: NEEDS_CHECKSUM,
            gso_type: if is_ipv4 { GSO_TCPV4 } else { GSO_TCPV6 },
            header_octets: data as u16,
            segment_octets: segment as u16,
            checksum_start: transport as u16,
            checksum_offset: 16,
        }
    }

    /// The octets.
    pub fn to_octets(self) -> [u8; VNET_OCTETS] {
        let [a, b] = self.header_octets.to_ne_bytes();
        let [c, d] = self.segment_octets.to_ne_bytes();
        let [e, f] = self.checksum_start.to_ne_bytes();
        let [g, h] = self.checksum_offset.to_ne_bytes();
        [self.flags, self.gso_type, a, b, c, d, e, f, g, h]
    }

    /// Whether nothing is left to be done.
    pub const fn is_plain(self) -> bool {
        self.flags & NEEDS_CHECKSUM == 0 && self.gso_type == GSO_NONE
    }

    /// Whether the packet has to be cut.
    pub const fn is_long(self) -> bool {
        self.gso_type & !GSO_ECN != GSO_NONE
    }

    const fn needs_checksum(self) -> bool {
        self.flags & NEEDS_CHECKSUM != 0
    }

    /// Completes the checksum of a packet that needs not be cut. `may_omit`: its only circuit ends at its destination,
    /// so that a UDP checksum over IPv4 may be left out (Almesberger, 1995): the AAL5 CRC covers the same octets end to
    /// end.
    pub fn complete(self, packet: &mut [u8], may_omit: bool) {
        let start = usize::from(self.checksum_start);
        let at = start + usize::from(self.checksum_offset);
        if !self.needs_checksum() || at + 2 > packet.len() {
            return;
        }
        if may_omit && packet[0] >> 4 == 4 && packet.get(9) == Some(&UDP) {
            return packet[at..at + 2].fill(0);
        }
        // The field holds the pseudo-header's sum.
        let sum = !fold(add(&packet[start..], 0));
        // UDP's zero would mean that there is none (RFC 768).
        let sum = if sum == 0 && self.checksum_offset == 6 { 0xffff } else { sum };
        packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    /// How a long packet is to be cut. `ip` octets of Ethernet header stand before the IP header (0 on a routed
    /// circuit). `None` if the headers are not what the device says.
    pub fn cut(self, packet: &[u8], ip: usize) -> Option<Cut> {
        let transport = usize::from(self.checksum_start);
        let gso = self.gso_type & !GSO_ECN;
        let version = packet.get(ip)? >> 4;
        let (network_octets, protocol) = match (version, gso) {
            (4, GSO_TCPV4) => (20, TCP),
            (6, GSO_TCPV6) => (40, TCP),
            (4, GSO_UDP) => (20, UDP),
            (6, GSO_UDP) => (40, UDP),
            _ => return None,
        };
        if transport < ip + network_octets {
            return None;
        }
        let header_octets = match protocol {
            TCP => usize::from(packet.get(transport + 12)? >> 4) * 4,
            _ => 8,
        };
        let data = transport + header_octets;
        let least = if protocol == TCP { 20 } else { 8 };
        if header_octets < least || data >= packet.len() || self.segment_octets == 0 {
            return None;
        }
        Some(Cut { ip, transport, data, segment: usize::from(self.segment_octets), protocol })
    }
}

/// A long packet's cutting into segments.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    ip: usize,
    transport: usize,
    data: usize,
    segment: usize,
    protocol: u8,
}

impl Cut {
    /// How many segments there are.
    pub const fn count(&self, packet: &[u8]) -> usize {
        (packet.len() - self.data).div_ceil(self.segment)
    }

    /// Octets of the longest segment.
    pub const fn octets(&self, packet: &[u8]) -> usize {
        let data = packet.len() - self.data;
        self.data + if data < self.segment { data } else { self.segment }
    }

    /// Writes segment `i` with all checksums at the start of `out`; gives its length, `None` if `out` is too short or
    /// there is no such segment.
    pub fn write(&self, packet: &[u8], i: usize, out: &mut [u8]) -> Option<usize> {
        let from = self.data + i.checked_mul(self.segment)?;
        let data = packet.get(from..packet.len().min(from + self.segment)).filter(|d| !d.is_empty())?;
        let octets = self.data + data.len();
        let out = out.get_mut(..octets)?;
        out[..self.data].copy_from_slice(&packet[..self.data]);
        out[self.data..].copy_from_slice(data);
        let is_last = from + data.len() == packet.len();
        let network = &mut out[self.ip..];
        if network[0] >> 4 == 4 {
            let total = (octets - self.ip) as u16;
            network[2..4].copy_from_slice(&total.to_be_bytes());
            let id = u16::from_be_bytes([network[4], network[5]]).wrapping_add(i as u16);
            network[4..6].copy_from_slice(&id.to_be_bytes());
            let header = usize::from(network[0] & 15) * 4;
            write_ipv4(network.get_mut(..header)?);
        } else {
            let payload = (octets - self.ip - 40) as u16;
            network[4..6].copy_from_slice(&payload.to_be_bytes());
        }
        let transport_octets = octets - self.transport;
        let pseudo = pseudo_header(&out[self.ip..], self.protocol, transport_octets);
        let transport = &mut out[self.transport..];
        let field = if self.protocol == TCP {
            let sequence = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
            let sequence = sequence.wrapping_add((i * self.segment) as u32);
            transport[4..8].copy_from_slice(&sequence.to_be_bytes());
            if i > 0 {
                // Congestion window reduced is said once, with the first.
                transport[13] &= !0x80;
            }
            if !is_last {
                // FIN and PSH belong to the last.
                transport[13] &= !0x09;
            }
            16
        } else {
            transport[4..6].copy_from_slice(&(transport_octets as u16).to_be_bytes());
            6
        };
        transport[field..field + 2].fill(0);
        let sum = !fold(add(transport, pseudo));
        let sum = if sum == 0 && self.protocol == UDP { 0xffff } else { sum };
        transport[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        Some(octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{IpAddress, Ipv4Packet, Ipv4Repr, TcpPacket, TcpRepr, UdpPacket};

    fn long(data: &[u8], mss: u16) -> (VnetHeader, Vec<u8>) {
        let mut p = vec![0; 40];
        p[0] = 0x45;
        p[4..6].copy_from_slice(&0xfffeu16.to_be_bytes());
        p[8] = 64;
        p[9] = TCP;
        p[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        p[20..28].copy_from_slice(&[1, 2, 3, 4, 0xff, 0xff, 0xff, 0]);
        p[32] = 5 << 4;
        p[33] = 0x80 | 0x18 | 1;
        p.extend_from_slice(data);
        let header = VnetHeader {
            flags: 1,
            gso_type: GSO_TCPV4,
            header_octets: 40,
            segment_octets: mss,
            checksum_start: 20,
            checksum_offset: 16,
        };
        (header, p)
    }

    proptest! {
        #[test]
        fn segments_are_whole_packets_that_another_stack_takes(octets in 1usize..5000, mss in 1u16..1500) {
            let data: Vec<u8> = (0..octets).map(|i| (i * 7) as u8).collect();
            let (header, packet) = long(&data, mss);
            prop_assert_eq!(VnetHeader::parse(&header.to_octets(), packet.len()), Some(header));
            let cut = header.cut(&packet, 0).unwrap();
            let (mut got, mut out, mut i) = (Vec::new(), vec![0; 2000], 0);
            while let Some(n) = cut.write(&packet, i, &mut out) {
                let ip = Ipv4Packet::new_checked(&out[..n]).unwrap();
                let checks = ChecksumCapabilities::default();
                let repr = Ipv4Repr::parse(&ip, &checks).unwrap();
                let tcp = TcpPacket::new_checked(ip.payload()).unwrap();
                let (from, to) = (IpAddress::Ipv4(repr.src_addr), IpAddress::Ipv4(repr.dst_addr));
                prop_assert!(TcpRepr::parse(&tcp, &from, &to, &checks).is_ok());
                prop_assert_eq!(tcp.seq_number().0 as u32, 0xffff_ff00u32.wrapping_add((i * usize::from(mss)) as u32));
                prop_assert_eq!(ip.ident(), 0xfffeu16.wrapping_add(i as u16));
                prop_assert_eq!(tcp.cwr(), i == 0);
                i += 1;
                prop_assert_eq!((tcp.fin(), tcp.psh()), (i == cut.count(&packet), i == cut.count(&packet)));
                got.extend_from_slice(tcp.payload());
            }
            prop_assert_eq!(i, cut.count(&packet));
            prop_assert!(got == data);
        }

        #[test]
        fn no_header_and_no_packet_panics(header: [u8; VNET_OCTETS], packet in proptest::collection::vec(any::<u8>(), 0..200), ip in 0usize..20) {
            let mut packet = packet;
            if let Some(header) = VnetHeader::parse(&header, packet.len()) {
                if let Some(cut) = header.cut(&packet, ip) {
                    let mut out = [0; 100];
                    for i in 0..cut.count(&packet).min(50) {
                        let _ = cut.write(&packet, i, &mut out);
                    }
                }
                header.complete(&mut packet, true);
            }
        }
    }

    #[test]
    fn a_udp_checksum_is_left_out_only_where_the_circuit_ends_at_the_destination() {
        let mut p = vec![0; 32];
        p[0] = 0x45;
        p[9] = UDP;
        p[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        p[24..26].copy_from_slice(&12u16.to_be_bytes());
        p[28..32].copy_from_slice(b"data");
        let pseudo = fold(pseudo_header(&p, UDP, 12));
        p[26..28].copy_from_slice(&pseudo.to_be_bytes());
        let header = VnetHeader { flags: 1, checksum_start: 20, checksum_offset: 6, ..VnetHeader::default() };
        let mut same_lis = p.clone();
        header.complete(&mut same_lis, true);
        assert_eq!(&same_lis[26..28], &[0, 0]);
        header.complete(&mut p, false);
        let udp = UdpPacket::new_checked(&p[20..]).unwrap();
        assert_ne!(udp.checksum(), 0);
        let (a, b) = (IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2));
        assert!(udp.verify_checksum(&a, &b));
    }
}
