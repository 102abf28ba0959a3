//! LLC/SNAP multiplexing over AAL5 (RFC 2684 sections 5 and 6): what stands before the protocol's own octets.

use crate::Error;

/// Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethertype of ARP and ATMARP.
pub const ARP: u16 = 0x0806;
/// Ethertype of IPv6.
pub const IPV6: u16 = 0x86dd;

/// Octets before a routed protocol's packet.
pub const ROUTED_OCTETS: usize = 8;
/// Octets before a bridged Ethernet frame: LLC, OUI, PID and two of padding.
pub const BRIDGED_OCTETS: usize = 10;

/// What an LLC header announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// A routed protocol, by Ethertype (OUI 00-00-00).
    Routed(u16),
    /// An Ethernet frame with its frame check sequence (OUI 00-80-C2, PID 1).
    EthernetWithFcs,
    /// An Ethernet frame without it (PID 7).
    Ethernet,
    /// A bridge PDU (PID 14).
    Bpdu,
    /// A PPP frame (NLPID CF, RFC 2364).
    Ppp,
}

impl Protocol {
    /// Reads the header at the start of an SDU; gives the protocol and what follows.
    pub fn parse(sdu: &[u8]) -> Result<(Protocol, &[u8]), Error> {
        let short = |need| Error::Truncated { what: "LLC header", need, got: sdu.len() };
        match *sdu {
            [0xfe, 0xfe, 0x03, 0xcf, ref rest @ ..] => Ok((Protocol::Ppp, rest)),
            [0xaa, 0xaa, 0x03, 0, 0, 0, high, low, ref rest @ ..] => {
                Ok((Protocol::Routed(u16::from_be_bytes([high, low])), rest))
            }
            [0xaa, 0xaa, 0x03, 0x00, 0x80, 0xc2, 0, pid, ref rest @ ..] => {
                let after_pad = || rest.get(2..).ok_or(short(BRIDGED_OCTETS));
                match pid {
                    1 => Ok((Protocol::EthernetWithFcs, after_pad()?)),
                    7 => Ok((Protocol::Ethernet, after_pad()?)),
                    14 => Ok((Protocol::Bpdu, rest)),
                    _ => Err(Error::Field { what: "LLC header", field: "PID", value: pid.into() }),
                }
            }
            [a, b, c, ..] if sdu.len() >= ROUTED_OCTETS => {
                let value = u64::from(a) << 16 | u64::from(b) << 8 | u64::from(c);
                Err(Error::Field { what: "LLC header", field: "LLC", value })
            }
            _ => Err(short(ROUTED_OCTETS)),
        }
    }

    /// Octets of the header.
    pub const fn buffer_len(self) -> usize {
        match self {
            Protocol::Routed(_) | Protocol::Bpdu => ROUTED_OCTETS,
            Protocol::Ethernet | Protocol::EthernetWithFcs => BRIDGED_OCTETS,
            Protocol::Ppp => 4,
        }
    }

    /// Writes the header at the start of `buffer`, which has at least [`Self::buffer_len`] octets.
    pub fn emit(self, buffer: &mut [u8]) {
        let bridged = |pid| [0xaa, 0xaa, 0x03, 0x00, 0x80, 0xc2, 0, pid, 0, 0];
        match self {
            Protocol::Routed(ethertype) => {
                let [high, low] = ethertype.to_be_bytes();
                buffer[..8].copy_from_slice(&[0xaa, 0xaa, 0x03, 0, 0, 0, high, low]);
            }
            Protocol::EthernetWithFcs => buffer[..10].copy_from_slice(&bridged(1)),
            Protocol::Ethernet => buffer[..10].copy_from_slice(&bridged(7)),
            Protocol::Bpdu => buffer[..8].copy_from_slice(&bridged(14)[..8]),
            Protocol::Ppp => buffer[..4].copy_from_slice(&[0xfe, 0xfe, 0x03, 0xcf]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn headers_are_those_of_rfc_2684() {
        let cases: [(&[u8], Protocol); 4] = [
            (&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], Protocol::Routed(IPV4)),
            (&[0xaa, 0xaa, 3, 0, 0, 0, 8, 6], Protocol::Routed(ARP)),
            (&[0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7, 0, 0], Protocol::Ethernet),
            (&[0xfe, 0xfe, 3, 0xcf], Protocol::Ppp),
        ];
        for (octets, protocol) in cases {
            assert_eq!(Protocol::parse(octets), Ok((protocol, &[][..])));
            let mut out = [0; 10];
            protocol.emit(&mut out);
            assert_eq!(&out[..protocol.buffer_len()], octets);
        }
    }

    proptest! {
        #[test]
        fn no_octets_panic_and_what_parses_is_what_was_sent(octets: Vec<u8>, head in 0usize..4, ethertype: u16) {
            let _ = Protocol::parse(&octets);
            let protocol = [Protocol::Routed(ethertype), Protocol::EthernetWithFcs, Protocol::Ethernet, Protocol::Bpdu][head];
            let mut sdu = std::vec![0; protocol.buffer_len()];
            protocol.emit(&mut sdu);
            sdu.extend_from_slice(&octets);
            prop_assert_eq!(Protocol::parse(&sdu), Ok((protocol, &octets[..])));
        }
    }
}
