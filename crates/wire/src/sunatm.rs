//! SunATM, the form in which captures of AAL5 SDUs name their circuits (pcap link type 123): tcpdump's filters of VPI and
//! VCI read it, and Wireshark too.
//!
//! | octets | what |
//! |---|---|
//! | 0 | bit 7: direction, set for what the host sends; bits 0 to 3: what the SDU is |
//! | 1 | VPI, of the UNI |
//! | 2..4 | VCI |
//! | 4.. | the AAL5 SDU |

use crate::Error;
use crate::address::{CircuitId, Vci, Vpi};

/// pcap's link type.
pub const LINKTYPE: u16 = 123;
/// pcap's link type of AAL5 SDUs that begin with LLC (RFC 1483, now 2684), without any head: the circuit is not said.
pub const LINKTYPE_RFC1483: u16 = 100;
/// Octets before the SDU.
pub const HEAD_OCTETS: usize = 4;
/// The highest VPI that the head has room for.
const MAX_VPI: u16 = 255;

/// What an SDU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Anything: VC multiplexing, or not known.
    Raw,
    /// LAN emulation.
    Lane,
    /// It begins with LLC (RFC 2684).
    Llc,
    /// ILMI.
    Ilmi,
    /// Signalling by SSCOP.
    Signalling,
}

impl Kind {
    /// What an SDU of a circuit is, as far as that shows: by the well-known labels, or because it begins with LLC.
    pub fn of(circuit: CircuitId, sdu: &[u8]) -> Self {
        match (circuit.vpi.get(), circuit.vci.0) {
            (0, 5) => Kind::Signalling,
            (0, 16) => Kind::Ilmi,
            _ if begins_with_llc(sdu) => Kind::Llc,
            _ => Kind::Raw,
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Kind::Raw => 0,
            Kind::Lane => 1,
            Kind::Llc => 2,
            Kind::Ilmi => 5,
            Kind::Signalling => 6,
        }
    }
}

/// Whether an SDU begins with a header of LLC that RFC 2684 uses: SNAP, or a routed ISO protocol.
pub const fn begins_with_llc(sdu: &[u8]) -> bool {
    matches!(sdu, [0xaa, 0xaa, 3, ..] | [0xfe, 0xfe, 3, ..])
}

/// What stands before an SDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The host has sent it; in our captures: the link's first end.
    pub is_sent: bool,
    /// What the SDU is.
    pub kind: Kind,
    /// The circuit.
    pub circuit: CircuitId,
}

impl Head {
    /// Reads a record; gives its head and the SDU. A kind that is not known counts as [`Kind::Raw`].
    ///
    /// # Errors
    /// It has no head.
    pub fn parse(record: &[u8]) -> Result<(Self, &[u8]), Error> {
        let Some(([flags, vpi, vci @ ..], sdu)) = record.split_first_chunk::<HEAD_OCTETS>() else {
            return Err(Error::Truncated { what: "SunATM record", need: HEAD_OCTETS, got: record.len() });
        };
        let kind = match flags & 0x0f {
            1 => Kind::Lane,
            2 => Kind::Llc,
            5 => Kind::Ilmi,
            6 => Kind::Signalling,
            _ => Kind::Raw,
        };
        let vpi = Vpi::new((*vpi).into()).unwrap_or_default();
        let circuit = CircuitId { vpi, vci: Vci(u16::from_be_bytes([vci[0], vci[1]])) };
        Ok((Head { is_sent: flags & 0x80 != 0, kind, circuit }, sdu))
    }

    /// The head's octets; `None` for a VPI of the NNI, which it has no room for.
    pub fn emit(&self) -> Option<[u8; HEAD_OCTETS]> {
        let vpi = self.circuit.vpi.get();
        let [high, low] = self.circuit.vci.0.to_be_bytes();
        let flags = self.kind.bits() | u8::from(self.is_sent) << 7;
        (vpi <= MAX_VPI).then_some([flags, vpi as u8, high, low])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn the_head_is_that_of_libpcap() {
        let head = Head { is_sent: true, kind: Kind::Llc, circuit: "8.35".parse().unwrap() };
        assert_eq!(head.emit(), Some([0x82, 8, 0, 35]));
        assert_eq!(Head::parse(&[0x82, 8, 0, 35, 9]), Ok((head, &[9][..])));
        assert_eq!(Head { circuit: "256.35".parse().unwrap(), ..head }.emit(), None, "a VPI of the NNI");
        assert!(Head::parse(&[0, 0, 0]).is_err());
        assert_eq!(Kind::of("0.5".parse().unwrap(), &[]), Kind::Signalling);
        assert_eq!(Kind::of("0.100".parse().unwrap(), &[0xaa, 0xaa, 3, 0]), Kind::Llc);
        assert_eq!(Kind::of("0.100".parse().unwrap(), &[0x45]), Kind::Raw);
    }

    proptest! {
        #[test]
        fn a_head_written_is_the_head_read(is_sent: bool, kind in 0usize..5, vpi in 0u16..256, vci: u16, sdu: Vec<u8>) {
            let kind = [Kind::Raw, Kind::Lane, Kind::Llc, Kind::Ilmi, Kind::Signalling][kind];
            let head = Head { is_sent, kind, circuit: CircuitId { vpi: Vpi::new(vpi).unwrap(), vci: Vci(vci) } };
            let mut record = head.emit().unwrap().to_vec();
            record.extend_from_slice(&sdu);
            prop_assert_eq!(Head::parse(&record), Ok((head, &sdu[..])));
        }

        #[test]
        fn no_octets_panic(octets: Vec<u8>) {
            let _ = Head::parse(&octets);
        }
    }
}
