//! A packet longer than a circuit's MTU: cut into fragments (RFC 791 section 3.2), or answered with the MTU (RFC 1191,
//! 8201).

use super::checksum::{add, fold, pseudo_header, write_ipv4};

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
/// Octets of a packet that an ICMP message quotes at most: its message stays below the least MTU (RFC 1812, 4443).
const QUOTE_OCTETS: usize = 520;
/// Octets of the longest message of [`too_big`].
pub const MAX_MESSAGE_OCTETS: usize = 48 + QUOTE_OCTETS;

/// An IPv4 packet's cutting into fragments.
#[derive(Debug, Clone, Copy)]
pub struct Fragments {
    header: usize,
    step: usize,
}

impl Fragments {
    /// How a packet fits an MTU. `None` if it is not IPv4, its header cannot be read or says that it must stay whole.
    pub fn new(packet: &[u8], mtu: usize) -> Option<Self> {
        let header = usize::from(packet.first()? & 15) * 4;
        let may = packet[0] >> 4 == 4 && header >= 20 && packet.len() > header && flags(packet)? & DONT_FRAGMENT == 0;
        // Offsets are counted in eight octets.
        let step = mtu.checked_sub(header)? & !7;
        (may && step > 0).then_some(Fragments { header, step })
    }

    /// Writes fragment `i` at the start of `out`; gives its length. `None` after the last, or if `out` is too short.
    pub fn write(&self, packet: &[u8], i: usize, out: &mut [u8]) -> Option<usize> {
        let data = packet.get(self.header..)?;
        let from = i.checked_mul(self.step)?;
        let part = data.get(from..data.len().min(from + self.step)).filter(|p| !p.is_empty())?;
        let octets = self.header + part.len();
        let out = out.get_mut(..octets)?;
        out[..self.header].copy_from_slice(&packet[..self.header]);
        out[self.header..].copy_from_slice(part);
        if i > 0 {
            not_copied_options_to_no_operation(&mut out[20..self.header]);
        }
        let before = flags(packet)?;
        let more = if from + part.len() < data.len() { MORE_FRAGMENTS } else { before & MORE_FRAGMENTS };
        let offset = (before & 0x1fff).checked_add(u16::try_from(from / 8).ok()?).filter(|o| *o <= 0x1fff)?;
        out[2..4].copy_from_slice(&(octets as u16).to_be_bytes());
        out[6..8].copy_from_slice(&(more | offset).to_be_bytes());
        write_ipv4(&mut out[..self.header]);
        Some(octets)
    }
}

fn flags(packet: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]))
}

/// Options without the copy bit stand in the first fragment only.
fn not_copied_options_to_no_operation(mut options: &mut [u8]) {
    while let [kind, rest @ ..] = options {
        let octets = match (*kind, rest.first()) {
            (0, _) => return,
            (1, _) => 1,
            (_, Some(n)) if *n >= 2 => usize::from(*n).min(1 + rest.len()),
            _ => return,
        };
        let (option, after) = std::mem::take(&mut options).split_at_mut(octets);
        if option[0] & 0x80 == 0 {
            option.fill(1);
        }
        options = after;
    }
}

/// Writes the ICMP message that a packet is longer than `mtu` to its sender; gives its length. `from` answers for IPv4;
/// for IPv6 it is the packet's own destination, the only address that is known to be behind the circuit. `None` for
/// what gets no answer: fragments but the first, ICMP messages themselves other than echoes, multicast, and packets
/// that cannot be read.
pub fn too_big(packet: &[u8], mtu: usize, from: [u8; 4], out: &mut [u8]) -> Option<usize> {
    let quote = &packet[..packet.len().min(QUOTE_OCTETS)];
    match packet.first()? >> 4 {
        4 if packet.len() >= 20 => {
            let transport = packet.get(usize::from(packet[0] & 15) * 4..)?;
            let no_echo = packet[9] == 1 && !matches!(transport.first(), Some(0 | 8));
            if flags(packet)? & 0x1fff != 0 || no_echo || packet[16] >= 224 || packet[12] >= 224 {
                return None;
            }
            let octets = 28 + quote.len();
            let out = out.get_mut(..octets)?;
            out[..28].fill(0);
            out[0] = 0x45;
            out[2..4].copy_from_slice(&(octets as u16).to_be_bytes());
            (out[8], out[9]) = (64, 1);
            out[12..16].copy_from_slice(&from);
            out[16..20].copy_from_slice(&packet[12..16]);
            write_ipv4(&mut out[..20]);
            // Destination unreachable, fragmentation needed (RFC 1191 section 4).
            (out[20], out[21]) = (3, 4);
            out[26..28].copy_from_slice(&u16::try_from(mtu).unwrap_or(u16::MAX).to_be_bytes());
            out[28..].copy_from_slice(quote);
            let sum = !fold(add(&out[20..], 0));
            out[22..24].copy_from_slice(&sum.to_be_bytes());
            Some(octets)
        }
        6 if packet.len() >= 40 => {
            if packet[8] == 0xff || packet[24] == 0xff || packet[6] == 58 && !matches!(packet.get(40), Some(128 | 129))
            {
                return None;
            }
            let octets = 48 + quote.len();
            let out = out.get_mut(..octets)?;
            out[..48].fill(0);
            out[0] = 0x60;
            out[4..6].copy_from_slice(&((octets - 40) as u16).to_be_bytes());
            (out[6], out[7]) = (58, 64);
            out[8..24].copy_from_slice(&packet[24..40]);
            out[24..40].copy_from_slice(&packet[8..24]);
            // Packet too big (RFC 4443 section 3.2).
            out[40] = 2;
            out[44..48].copy_from_slice(&u32::try_from(mtu).unwrap_or(u32::MAX).to_be_bytes());
            out[48..].copy_from_slice(quote);
            let pseudo = pseudo_header(out, 58, octets - 40);
            let sum = !fold(add(&out[40..], pseudo));
            out[42..44].copy_from_slice(&sum.to_be_bytes());
            Some(octets)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{Icmpv4Message, Icmpv4Packet, Ipv4Packet, Ipv4Repr};

    fn packet(octets: usize, flags: u16) -> Vec<u8> {
        let mut p: Vec<u8> = (0..octets).map(|i| (i * 13) as u8).collect();
        p[0] = 0x46;
        p[2..4].copy_from_slice(&(octets as u16).to_be_bytes());
        p[6..8].copy_from_slice(&flags.to_be_bytes());
        p[8..10].copy_from_slice(&[64, 17]);
        p[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        // Record route: not copied.
        p[20..24].copy_from_slice(&[7, 3, 4, 0]);
        write_ipv4(&mut p[..24]);
        p
    }

    proptest! {
        #[test]
        fn fragments_fit_and_put_together_are_the_packet(octets in 25usize..9000, mtu in 68usize..1500) {
            let p = packet(octets, 0);
            let fragments = Fragments::new(&p, mtu).unwrap();
            let (mut got, mut out, mut i) = (Vec::new(), vec![0; 1500], 0);
            while let Some(n) = fragments.write(&p, i, &mut out) {
                prop_assert!(n <= mtu);
                let ip = Ipv4Packet::new_checked(&out[..n]).unwrap();
                prop_assert!(ip.verify_checksum());
                prop_assert_eq!(usize::from(ip.frag_offset()), got.len());
                prop_assert_eq!(out[20], if i == 0 { 7 } else { 1 });
                got.extend_from_slice(&out[24..n]);
                prop_assert_eq!(ip.more_frags(), got.len() < octets - 24);
                i += 1;
            }
            prop_assert!(got == p[24..]);
        }

        #[test]
        fn no_octets_panic(octets in proptest::collection::vec(any::<u8>(), 0..700), mtu in 0usize..200) {
            let mut out = [0; MAX_MESSAGE_OCTETS];
            let _ = too_big(&octets, mtu, [10, 0, 0, 1], &mut out);
            if let Some(f) = Fragments::new(&octets, mtu) {
                for i in 0..20 {
                    let _ = f.write(&octets, i, &mut out);
                }
            }
        }
    }

    #[test]
    fn a_packet_that_must_stay_whole_is_answered_with_the_mtu() {
        let p = packet(1500, DONT_FRAGMENT);
        assert!(Fragments::new(&p, 1000).is_none());
        let mut out = [0; MAX_MESSAGE_OCTETS];
        let n = too_big(&p, 1000, [10, 0, 0, 7], &mut out).unwrap();
        let ip = Ipv4Packet::new_checked(&out[..n]).unwrap();
        let checks = ChecksumCapabilities::default();
        let repr = Ipv4Repr::parse(&ip, &checks).unwrap();
        assert_eq!((repr.src_addr.octets(), repr.dst_addr.octets()), ([10, 0, 0, 7], [10, 0, 0, 1]));
        let icmp = Icmpv4Packet::new_checked(ip.payload()).unwrap();
        assert!(icmp.verify_checksum());
        assert_eq!((icmp.msg_type(), icmp.msg_code()), (Icmpv4Message::DstUnreachable, 4));
        assert_eq!(&out[26..28], &1000u16.to_be_bytes());
    }
}
