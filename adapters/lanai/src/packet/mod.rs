//! Myrinet packets (Boden et al. 1995; ANSI/VITA 26-1998): a source route, a type, a payload of any length and a CRC-8.
//!
//! | octets | what |
//! |---|---|
//! | 0..n | the route: an octet for each switch, most significant bit 1 |
//! | n..n+4 | the type, most significant bit 0: "to a host" |
//! | n+4.. | the payload |
//! | last | CRC-8 over all octets before it, polynomial x^8+x^2+x+1 |
//!
//! A switch reads the first octet, strips it and makes the CRC anew ([`advance`]); an error that came before it stays
//! visible. The six low bits of a route octet are the distance from the input port to the output port, as a signed
//! number ([`Turn`]). Hence a route can be turned round without knowing the number of any port ([`reversed`]). The most
//! significant bit tells a switch that a packet has ended at it, and a host that a packet has not: both drop it, and
//! [`mapping`] rests on that.
//!
//! ```
//! use lanai::packet::{Kind, Packet, Turn, advance, emit};
//!
//! let route = [Turn::new(3).unwrap(), Turn::new(-1).unwrap()];
//! let mut octets = [0; 64];
//! let n = emit(&route, Kind::IP, b"hello", &mut octets);
//! assert_eq!(advance(&mut octets[..n]), Ok(route[0])); // the first switch
//! assert_eq!(advance(&mut octets[1..n]), Ok(route[1])); // the second
//! assert_eq!(Packet::new_checked(&octets[2..n]).unwrap().payload(), b"hello");
//! ```

pub mod mapping;
pub mod message;
pub mod tag;

use wire::Error;
use wire::crc::crc8;

/// Octets of the type.
pub const TYPE_OCTETS: usize = 4;
/// Switches that a route may pass (GM's limit).
pub const MAX_HOPS: usize = 24;
/// Octets of a payload that this implementation takes: an interface has to hold a packet whole.
pub const MAX_PAYLOAD_OCTETS: usize = 16_384;
/// Octets of the longest packet.
pub const MAX_OCTETS: usize = MAX_HOPS + TYPE_OCTETS + MAX_PAYLOAD_OCTETS + 1;

const WHAT: &str = "Myrinet packet";
const ROUTE: u8 = 0x80;

/// What a route octet tells a switch: how many ports beyond the one where the packet came in it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Turn(i8);

impl Turn {
    /// A distance of -32 to 31.
    pub const fn new(ports: i8) -> Option<Self> {
        if ports >= -32 && ports <= 31 { Some(Turn(ports)) } else { None }
    }

    /// From port to port of a switch; `None` if they are too far from each other.
    pub fn between(input: usize, output: usize) -> Option<Self> {
        let distance = i64::try_from(output).ok()?.checked_sub(i64::try_from(input).ok()?)?;
        Self::new(i8::try_from(distance).ok()?)
    }

    /// From a route octet; `None` if the octet's most significant bit says that it is none.
    pub const fn from_octet(octet: u8) -> Option<Self> {
        // The six low bits, their sign spread over the octet.
        if octet & ROUTE != 0 { Some(Turn(((octet << 2) as i8) >> 2)) } else { None }
    }

    /// As it stands in a packet.
    pub const fn octet(self) -> u8 {
        ROUTE | (self.0 as u8 & 0x3f)
    }

    /// The distance in ports.
    pub const fn ports(self) -> i8 {
        self.0
    }

    /// The way back through the same switch; `None` for -32, which has none.
    pub const fn back(self) -> Option<Self> {
        Self::new(-self.0)
    }

    /// The output port of a packet that came in at `input` of a switch with so many ports; `None` if there is none.
    pub fn output(self, input: usize, ports: usize) -> Option<usize> {
        input.checked_add_signed(self.0.into()).filter(|port| *port < ports)
    }
}

/// A packet's type, as the first 32 bits that a host sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind(u32);

impl Kind {
    /// Mapping messages of control programs.
    pub const MAPPING: Kind = Kind(0x0000_0002);
    /// IP packets; types follow the Ethertypes.
    pub const IP: Kind = Kind(0x0000_0800);
    /// Messages between users of interfaces.
    pub const MESSAGE: Kind = Kind(0x0000_4357);

    /// A type; `None` if its first bit is 1, which is a route's.
    pub const fn new(bits: u32) -> Option<Self> {
        if bits >> 31 == 0 { Some(Kind(bits)) } else { None }
    }

    /// The 32 bits.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// A packet that has come to a host: no route before it, its CRC correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    kind: Kind,
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks what has come.
    ///
    /// # Errors
    /// Too few octets or too many, a route octet in front, a wrong CRC.
    pub fn new_checked(octets: &'a [u8]) -> Result<Self, Error> {
        let need = TYPE_OCTETS + 1;
        let (Some((kind, rest)), true) = (octets.split_first_chunk::<TYPE_OCTETS>(), octets.len() >= need) else {
            return Err(Error::Truncated { what: WHAT, need, got: octets.len() });
        };
        let Some((crc, payload)) = rest.split_last() else {
            return Err(Error::Truncated { what: WHAT, need, got: octets.len() });
        };
        if payload.len() > MAX_PAYLOAD_OCTETS {
            return Err(Error::Field { what: WHAT, field: "length", value: octets.len() as u64 });
        }
        let Some(kind) = Kind::new(u32::from_be_bytes(*kind)) else {
            return Err(Error::Field { what: WHAT, field: "type", value: kind[0].into() });
        };
        let want = crc8(&octets[..octets.len() - 1]);
        if *crc != want {
            return Err(Error::Checksum { what: WHAT, got: (*crc).into(), want: want.into() });
        }
        Ok(Packet { kind, payload })
    }

    /// The type.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The payload.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Octets of a packet with so many hops and so long a payload.
pub const fn packet_octets(hops: usize, payload: usize) -> usize {
    hops + TYPE_OCTETS + payload + 1
}

/// Writes a packet to the front of `octets`, which has room for [`packet_octets`], and gives its length.
pub fn emit(route: &[Turn], kind: Kind, payload: &[u8], octets: &mut [u8]) -> usize {
    let n = packet_octets(route.len(), payload.len());
    let (head, rest) = octets[..n].split_at_mut(route.len());
    for (octet, turn) in head.iter_mut().zip(route) {
        *octet = turn.octet();
    }
    rest[..TYPE_OCTETS].copy_from_slice(&kind.0.to_be_bytes());
    rest[TYPE_OCTETS..TYPE_OCTETS + payload.len()].copy_from_slice(payload);
    octets[n - 1] = crc8(&octets[..n - 1]);
    n
}

/// The type of a packet of which any part of the route is left; `None` if it is too short to have one.
pub fn kind(octets: &[u8]) -> Option<Kind> {
    let hops = octets.iter().take(MAX_HOPS).take_while(|octet| **octet & ROUTE != 0).count();
    let bits = octets.get(hops..)?.first_chunk::<TYPE_OCTETS>()?;
    Kind::new(u32::from_be_bytes(*bits))
}

/// The turns of `octets`, if all are route octets.
pub fn turns(octets: &[u8]) -> Option<impl DoubleEndedIterator<Item = Turn> + ExactSizeIterator + Clone + '_> {
    let all = octets.len() <= MAX_HOPS && octets.iter().all(|octet| octet & ROUTE != 0);
    all.then(|| octets.iter().map(|octet| Turn::from_octet(*octet).unwrap_or_default()))
}

/// The same way back: the turns from last to first, each the other way. `None` if one has no way back.
pub fn reversed(route: &[Turn], back: &mut [Turn]) -> Option<usize> {
    let back = back.get_mut(..route.len())?;
    for (to, turn) in back.iter_mut().zip(route.iter().rev()) {
        *to = turn.back()?;
    }
    Some(route.len())
}

/// What a switch does with the packet in `octets`: reads the first octet and makes the CRC anew for those after it,
/// which are the packet from here on. What was wrong with the CRC before is wrong with the new one.
///
/// # Errors
/// Too few octets; a first octet that is no route octet, so that the packet should have ended at a host.
pub fn advance(octets: &mut [u8]) -> Result<Turn, Error> {
    let n = octets.len();
    let (&mut [first, ref mut rest @ ..], true) = (&mut *octets, n >= 2) else {
        return Err(Error::Truncated { what: WHAT, need: 2, got: n });
    };
    let Some(turn) = Turn::from_octet(first) else {
        return Err(Error::Field { what: WHAT, field: "route octet", value: first.into() });
    };
    if let Some(crc) = rest.last_mut() {
        *crc ^= leading(first, n - 2);
    }
    Ok(turn)
}

/// The order of x modulo the CRC's polynomial, (x+1) times a primitive one of degree 7.
const ORDER: usize = 127;

/// `SHIFTED[n][bit]`: the CRC-8 of an octet with that bit alone and `n` zero octets after it.
static SHIFTED: [[u8; 8]; ORDER] = {
    let mut table = [[0; 8]; ORDER];
    let mut bit = 0;
    while bit < 8 {
        let mut r = 1u8 << bit;
        let mut n = 0;
        while n < ORDER {
            let mut step = 0;
            while step < 8 {
                r = if r & 0x80 != 0 { r << 1 ^ 0x07 } else { r << 1 };
                step += 1;
            }
            table[n][bit] = r;
            n += 1;
        }
        bit += 1;
    }
    table
};

/// What an octet adds to the CRC-8 of a message in which `after` octets follow it: the CRC is linear.
fn leading(octet: u8, after: usize) -> u8 {
    let row = &SHIFTED[after % ORDER];
    (0..8).fold(0, |sum, bit| sum ^ if octet >> bit & 1 != 0 { row[bit] } else { 0 })
}

#[cfg(test)]
mod tests;
