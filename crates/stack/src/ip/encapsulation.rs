//! How packets and frames stand in AAL5 SDUs (RFC 2684): LLC/SNAP or VC multiplexing, routed or bridged.
//!
//! In: an SDU, or a packet with room around it. Out: what the SDU carries, or an SDU. Nothing is copied.

use super::fcs;
use wire::DropReason;
use wire::llc::{ARP, BRIDGED_OCTETS, IPV4, IPV6, Protocol, ROUTED_OCTETS};

/// Ethertype for experiments in a network of one's own (IEEE 802): what two Cellway ends say to each other.
pub const CELLWAY: u16 = 0x88b5;
/// Octets of padding before a bridged frame without LLC (RFC 2684 section 6.2).
const VC_PAD_OCTETS: usize = 2;
/// Octets of the frame check sequence.
const FCS_OCTETS: usize = 4;
/// Shortest Ethernet frame without its check sequence; only a frame that carries one has to be so long.
const MIN_FRAME_OCTETS: usize = 60;

/// What stands around a packet or frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encapsulation {
    /// LLC/SNAP, routed: several protocols on one circuit. Classical IP's, and the default.
    #[default]
    LlcRouted,
    /// VC multiplexing, routed: the IP packet alone. No InATMARP can be said on such a circuit.
    VcRouted,
    /// LLC/SNAP, bridged Ethernet.
    LlcBridged {
        /// Whether frames are sent with their check sequence (PID 1) or without (PID 7); both are received.
        fcs: bool,
    },
    /// VC multiplexing, bridged Ethernet: two octets of padding, the frame.
    VcBridged {
        /// Whether frames carry their check sequence; both sides have to agree.
        fcs: bool,
    },
}

/// What an SDU carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// An IPv4 or IPv6 packet whose version agrees with what was announced.
    Packet(&'a [u8]),
    /// An Ethernet frame without check sequence.
    Frame(&'a [u8]),
    /// An ATMARP or InATMARP packet.
    Arp(&'a [u8]),
    /// What only Cellway says ([`CELLWAY`]).
    Cellway(&'a [u8]),
}

impl Encapsulation {
    /// Octets before the packet.
    pub const fn headroom(self) -> usize {
        match self {
            Encapsulation::LlcRouted => ROUTED_OCTETS,
            Encapsulation::VcRouted => 0,
            Encapsulation::LlcBridged { .. } => BRIDGED_OCTETS,
            Encapsulation::VcBridged { .. } => VC_PAD_OCTETS,
        }
    }

    /// Whether Ethernet frames are carried, not packets.
    pub const fn is_bridged(self) -> bool {
        matches!(self, Encapsulation::LlcBridged { .. } | Encapsulation::VcBridged { .. })
    }

    /// Whether a header says what an SDU carries.
    pub const fn is_llc(self) -> bool {
        matches!(self, Encapsulation::LlcRouted | Encapsulation::LlcBridged { .. })
    }

    const fn fcs(self) -> bool {
        matches!(self, Encapsulation::LlcBridged { fcs: true } | Encapsulation::VcBridged { fcs: true })
    }

    /// Makes an SDU of the `octets` octets that stand at [`Encapsulation::headroom`] in `sdu`; gives its length. `None`
    /// if `sdu` has no room for it, or the packet is neither IPv4 nor IPv6.
    pub fn emit(self, sdu: &mut [u8], octets: usize) -> Option<usize> {
        let head = self.headroom();
        let payload = sdu.get(head..head.checked_add(octets)?)?;
        match self {
            Encapsulation::LlcRouted => Protocol::Routed(ethertype_of(payload)?).emit(sdu),
            Encapsulation::VcRouted => {
                ethertype_of(payload)?;
            }
            Encapsulation::LlcBridged { fcs: true } => Protocol::EthernetWithFcs.emit(sdu),
            Encapsulation::LlcBridged { fcs: false } => Protocol::Ethernet.emit(sdu),
            Encapsulation::VcBridged { .. } => sdu[..VC_PAD_OCTETS].fill(0),
        }
        if !self.fcs() {
            return Some(head + octets);
        }
        let end = head + octets.max(MIN_FRAME_OCTETS);
        sdu.get_mut(head + octets..end + FCS_OCTETS)?.fill(0);
        let check = fcs::of(&sdu[head..end]).to_le_bytes();
        sdu[end..end + FCS_OCTETS].copy_from_slice(&check);
        Some(end + FCS_OCTETS)
    }

    /// What an SDU carries.
    ///
    /// # Errors
    /// [`DropReason::Malformed`]: another encapsulation, or octets that contradict it. [`DropReason::Crc`]: the check
    /// sequence does not match.
    pub fn parse(self, sdu: &[u8]) -> Result<Content<'_>, DropReason> {
        let malformed = DropReason::Malformed;
        match self {
            Encapsulation::VcRouted => {
                ethertype_of(sdu).ok_or(malformed)?;
                Ok(Content::Packet(sdu))
            }
            Encapsulation::VcBridged { fcs } => frame(sdu.get(VC_PAD_OCTETS..).ok_or(malformed)?, fcs),
            Encapsulation::LlcRouted | Encapsulation::LlcBridged { .. } => {
                match (Protocol::parse(sdu).map_err(|_| malformed)?, self.is_bridged()) {
                    ((Protocol::Ethernet, rest), true) => frame(rest, false),
                    ((Protocol::EthernetWithFcs, rest), true) => frame(rest, true),
                    ((Protocol::Routed(ARP), rest), false) => Ok(Content::Arp(rest)),
                    ((Protocol::Routed(CELLWAY), rest), false) => Ok(Content::Cellway(rest)),
                    // The Ethertype and the packet's own version are said by the peer: they must agree.
                    ((Protocol::Routed(ethertype), rest), false) if ethertype_of(rest) == Some(ethertype) => {
                        Ok(Content::Packet(rest))
                    }
                    _ => Err(malformed),
                }
            }
        }
    }
}

/// The Ethertype of an IP packet, by its version; `None` if it is none or shorter than its fixed header.
pub fn ethertype_of(packet: &[u8]) -> Option<u16> {
    match packet.first()? >> 4 {
        4 if packet.len() >= 20 => Some(IPV4),
        6 if packet.len() >= 40 => Some(IPV6),
        _ => None,
    }
}

fn frame(octets: &[u8], fcs: bool) -> Result<Content<'_>, DropReason> {
    let octets = match (fcs, octets.split_last_chunk::<FCS_OCTETS>()) {
        (false, _) => octets,
        (true, None) => return Err(DropReason::Malformed),
        (true, Some((frame, check))) if fcs::of(frame) == u32::from_le_bytes(*check) => frame,
        (true, Some(_)) => return Err(DropReason::Crc),
    };
    if octets.len() < 14 { Err(DropReason::Malformed) } else { Ok(Content::Frame(octets)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Encapsulation; 6] = [
        Encapsulation::LlcRouted,
        Encapsulation::VcRouted,
        Encapsulation::LlcBridged { fcs: false },
        Encapsulation::LlcBridged { fcs: true },
        Encapsulation::VcBridged { fcs: false },
        Encapsulation::VcBridged { fcs: true },
    ];

    #[test]
    fn sdus_are_those_of_rfc_2684() {
        let mut packet = [0; 20];
        packet[0] = 0x45;
        for (encapsulation, head) in [
            (Encapsulation::LlcRouted, &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..]),
            (Encapsulation::VcRouted, &[]),
            (Encapsulation::LlcBridged { fcs: false }, &[0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7, 0, 0]),
            (Encapsulation::LlcBridged { fcs: true }, &[0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 1, 0, 0]),
            (Encapsulation::VcBridged { fcs: false }, &[0, 0]),
        ] {
            let mut sdu = [0xee; 100];
            sdu[head.len()..head.len() + 20].copy_from_slice(&packet);
            assert_eq!(encapsulation.headroom(), head.len());
            let octets = encapsulation.emit(&mut sdu, 20).unwrap();
            assert_eq!(&sdu[..head.len()], head);
            // With a check sequence a frame has its least length first.
            let fcs = encapsulation == Encapsulation::LlcBridged { fcs: true };
            assert_eq!(octets, head.len() + if fcs { 64 } else { 20 });
        }
    }

    #[test]
    fn a_damaged_frame_with_its_check_sequence_is_noticed() {
        let e = Encapsulation::LlcBridged { fcs: true };
        let mut sdu = [7; 128];
        let octets = e.emit(&mut sdu, 70).unwrap();
        assert!(matches!(e.parse(&sdu[..octets]), Ok(Content::Frame(f)) if f.len() == 70));
        sdu[30] ^= 1;
        assert_eq!(e.parse(&sdu[..octets]), Err(DropReason::Crc));
    }

    proptest! {
        #[test]
        fn what_is_sent_is_received_and_no_octets_panic(octets in proptest::collection::vec(any::<u8>(), 60..200), which in 0usize..6) {
            let e = ALL[which];
            let _ = e.parse(&octets);
            let mut payload = octets.clone();
            payload[0] = 0x45;
            let mut sdu = vec![0; 400];
            sdu[e.headroom()..e.headroom() + payload.len()].copy_from_slice(&payload);
            let n = e.emit(&mut sdu, payload.len()).unwrap();
            match e.parse(&sdu[..n]) {
                Ok(Content::Packet(p)) => prop_assert!(!e.is_bridged() && p == payload),
                Ok(Content::Frame(f)) => prop_assert!(e.is_bridged() && f == payload),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
