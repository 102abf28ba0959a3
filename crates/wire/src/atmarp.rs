//! ATMARP and InATMARP (RFC 2225 section 8): IP addresses and ATM addresses of both ends.
//!
//! | octets | what |
//! |---|---|
//! | 2 | hardware type, 19 |
//! | 2 | protocol type, 0800 |
//! | 1, 1 | type and length of the sender's ATM number and subaddress |
//! | 2 | operation |
//! | 1 | length of the sender's protocol address |
//! | 1, 1 | type and length of the target's ATM number and subaddress |
//! | 1 | length of the target's protocol address |
//! | | sender's number, subaddress, protocol address; target's number, subaddress, protocol address |

use crate::Error;
use core::net::Ipv4Addr;

/// Longest ATM number or subaddress: an NSAP address.
pub const MAX_ADDRESS_OCTETS: usize = 20;
/// Octets of the longest packet.
pub const MAX_OCTETS: usize = 12 + 4 * MAX_ADDRESS_OCTETS + 8;

/// What is asked or said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Who has this IP address?
    Request,
    /// The answer.
    Reply,
    /// Who is at the other end of this circuit?
    InverseRequest,
    /// The answer.
    InverseReply,
    /// The server does not know.
    Nak,
}

impl Operation {
    const fn code(self) -> u16 {
        match self {
            Operation::Request => 1,
            Operation::Reply => 2,
            Operation::InverseRequest => 8,
            Operation::InverseReply => 9,
            Operation::Nak => 10,
        }
    }
}

/// An ATM number or subaddress: up to 20 octets, NSAP form or E.164.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct AtmAddress {
    octets: [u8; MAX_ADDRESS_OCTETS],
    length: u8,
    e164: bool,
}

impl AtmAddress {
    /// No address, as on a permanent circuit.
    pub const NONE: AtmAddress = AtmAddress { octets: [0; MAX_ADDRESS_OCTETS], length: 0, e164: false };

    /// An address of at most 20 octets.
    pub fn new(address: &[u8], e164: bool) -> Option<Self> {
        let mut octets = [0; MAX_ADDRESS_OCTETS];
        octets.get_mut(..address.len())?.copy_from_slice(address);
        Some(AtmAddress { octets, length: address.len() as u8, e164 })
    }

    /// The octets.
    pub fn octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }

    /// Whether it is an E.164 number rather than an NSAP address.
    pub const fn is_e164(&self) -> bool {
        self.e164
    }

    /// The type-and-length octet: bit 6 the type, the lower six the length.
    const fn type_length(&self) -> u8 {
        (self.e164 as u8) << 6 | self.length
    }
}

/// One end: ATM number, subaddress, IP address (`None` where unknown).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct End {
    /// ATM number.
    pub number: AtmAddress,
    /// ATM subaddress.
    pub subaddress: AtmAddress,
    /// IP address.
    pub ip: Option<Ipv4Addr>,
}

/// A packet, without the LLC header before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// What is asked or said.
    pub operation: Operation,
    /// Who says it.
    pub sender: End,
    /// Whom it is about.
    pub target: End,
}

impl Packet {
    /// Reads a packet.
    pub fn parse(octets: &[u8]) -> Result<Self, Error> {
        const WHAT: &str = "ATMARP packet";
        let field = |field, value| Error::Field { what: WHAT, field, value };
        let Some((head, rest)) = octets.split_first_chunk::<12>() else {
            return Err(Error::Truncated { what: WHAT, need: 12, got: octets.len() });
        };
        let word = |i: usize| u16::from_be_bytes([head[i], head[i + 1]]);
        if word(0) != 0x13 {
            return Err(field("ar$hrd", word(0).into()));
        }
        if word(2) != 0x0800 {
            return Err(field("ar$pro", word(2).into()));
        }
        let operation = match word(6) {
            1 => Operation::Request,
            2 => Operation::Reply,
            8 => Operation::InverseRequest,
            9 => Operation::InverseReply,
            10 => Operation::Nak,
            other => return Err(field("ar$op", other.into())),
        };
        let mut rest = rest;
        let mut take = |n: usize| {
            let (part, after) = rest.split_at_checked(n).ok_or(Error::Truncated {
                what: WHAT,
                need: octets.len() - rest.len() + n,
                got: octets.len(),
            })?;
            rest = after;
            Ok(part)
        };
        let mut end = |names: [&'static str; 3], number: u8, sub: u8, ip: u8| -> Result<End, Error> {
            let mut address = |name, tl: u8| {
                let octets = take(usize::from(tl & 0x3f))?;
                AtmAddress::new(octets, tl & 0x40 != 0).ok_or(field(name, tl.into()))
            };
            let number = address(names[0], number)?;
            let subaddress = address(names[1], sub)?;
            let ip = match (ip, take(usize::from(ip))?) {
                (0, _) => None,
                // RFC 2225: 0.0.0.0 stands for unknown too, and some send it.
                (4, &[0, 0, 0, 0]) => None,
                (4, &[a, b, c, d]) => Some(Ipv4Addr::new(a, b, c, d)),
                (other, _) => return Err(field(names[2], other.into())),
            };
            Ok(End { number, subaddress, ip })
        };
        let sender = end(["ar$shtl", "ar$sstl", "ar$spln"], head[4], head[5], head[8])?;
        let target = end(["ar$thtl", "ar$tstl", "ar$tpln"], head[9], head[10], head[11])?;
        Ok(Packet { operation, sender, target })
    }

    /// Octets of the packet.
    pub fn buffer_len(&self) -> usize {
        let end = |e: &End| e.number.octets().len() + e.subaddress.octets().len() + 4;
        12 + end(&self.sender) + end(&self.target)
    }

    /// Writes the packet at the start of `buffer`, which has at least [`Self::buffer_len`] octets.
    pub fn emit(&self, buffer: &mut [u8]) {
        let (s, t) = (&self.sender, &self.target);
        buffer[..2].copy_from_slice(&0x13u16.to_be_bytes());
        buffer[2..4].copy_from_slice(&0x0800u16.to_be_bytes());
        buffer[4] = s.number.type_length();
        buffer[5] = s.subaddress.type_length();
        buffer[6..8].copy_from_slice(&self.operation.code().to_be_bytes());
        buffer[8] = 4;
        buffer[9] = t.number.type_length();
        buffer[10] = t.subaddress.type_length();
        buffer[11] = 4;
        let mut at = 12;
        for end in [s, t] {
            let ip = end.ip.unwrap_or(Ipv4Addr::UNSPECIFIED).octets();
            for part in [end.number.octets(), end.subaddress.octets(), &ip] {
                buffer[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn end() -> impl Strategy<Value = End> {
        let address = || {
            (proptest::collection::vec(any::<u8>(), 0..=20), any::<bool>())
                .prop_map(|(octets, e164)| AtmAddress::new(&octets, e164).unwrap())
        };
        (address(), address(), proptest::option::of(1u32..)).prop_map(|(number, subaddress, ip)| End {
            number,
            subaddress,
            ip: ip.map(Ipv4Addr::from),
        })
    }

    proptest! {
        #[test]
        fn a_packet_sent_is_the_packet_received(op in 0usize..5, sender in end(), target in end()) {
            use Operation::*;
            let packet = Packet { operation: [Request, Reply, InverseRequest, InverseReply, Nak][op], sender, target };
            let mut octets = std::vec![0; packet.buffer_len()];
            packet.emit(&mut octets);
            prop_assert_eq!(Packet::parse(&octets), Ok(packet));
            prop_assert!(Packet::parse(&octets[..octets.len() - 1]).is_err());
        }

        #[test]
        fn no_octets_panic(octets: Vec<u8>) {
            let _ = Packet::parse(&octets);
        }
    }
}
