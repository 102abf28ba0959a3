//! LAN emulation (ATM Forum LANE 1.0 sections 4 and 5): control frames of 108 octets, and data frames with the sender's
//! identifier before an 802.3 frame.
//!
//! | octet | what |
//! |---|---|
//! | 0 | marker, FF00 |
//! | 2, 3 | protocol 01, version 01 |
//! | 4, 6 | operation, status |
//! | 8 | transaction |
//! | 12, 14 | the requester's LEC identifier, flags |
//! | 16, 24 | source and target LAN destination: a tag of two octets, six octets |
//! | 32 | source ATM address |
//! | 52, 53 | LAN type, largest frame |
//! | 54, 55 | number of TLVs, length of the LAN's name |
//! | 56 | target ATM address |
//! | 76 | the LAN's name, 32 octets |
//! | 108 | TLVs: type in four octets, length in one |

use crate::Error;
use crate::aesa::Aesa;
use crate::q2931::Octets;

const WHAT: &str = "LANE control frame";
/// Octets of a control frame without TLVs.
pub const CONTROL_OCTETS: usize = 108;
/// Octets of a READY frame.
pub const READY_OCTETS: usize = 6;
/// What a control frame begins with: marker, protocol, version.
const MARKER: [u8; 4] = [0xff, 0, 1, 1];

/// What a control frame asks or says. A response is the request's code and 0100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operation(pub u16);

impl Operation {
    /// Configure: which LAN, and where is its server?
    pub const CONFIGURE: Operation = Operation(1);
    /// Join the LAN.
    pub const JOIN: Operation = Operation(2);
    /// Is the circuit ready?
    pub const READY_QUERY: Operation = Operation(3);
    /// The circuit is ready.
    pub const READY_INDICATION: Operation = Operation(0x103);
    /// Enter a LAN destination.
    pub const REGISTER: Operation = Operation(4);
    /// Take it back.
    pub const UNREGISTER: Operation = Operation(5);
    /// Which ATM address has this LAN destination?
    pub const ARP: Operation = Operation(6);
    /// Is the old path empty?
    pub const FLUSH: Operation = Operation(7);
    /// An address has changed.
    pub const NARP: Operation = Operation(8);
    /// The bridges' topology changes.
    pub const TOPOLOGY: Operation = Operation(9);
    /// Does this server serve the LAN (version 2)?
    pub const VERIFY: Operation = Operation(10);

    /// The response to it.
    #[must_use]
    pub const fn response(self) -> Self {
        Operation(self.0 | 0x100)
    }

    /// Whether it is a response.
    pub const fn is_response(self) -> bool {
        self.0 & 0x100 != 0
    }
}

/// A LAN destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Destination {
    /// Not given.
    #[default]
    None,
    /// A MAC address.
    Mac([u8; 6]),
    /// A route designator of a source-routed LAN, in the last two octets.
    Route([u8; 6]),
}

impl Destination {
    fn parse(octets: [u8; 8]) -> Result<Self, Error> {
        let [high, low, address @ ..] = octets;
        match u16::from_be_bytes([high, low]) {
            0 => Ok(Destination::None),
            1 => Ok(Destination::Mac(address)),
            2 => Ok(Destination::Route(address)),
            other => Err(Error::Field { what: WHAT, field: "LAN destination tag", value: other.into() }),
        }
    }

    fn octets(self) -> [u8; 8] {
        let (tag, address) = match self {
            Destination::None => (0, [0; 6]),
            Destination::Mac(address) => (1, address),
            Destination::Route(address) => (2, address),
        };
        let [a, b, c, d, e, f] = address;
        [0, tag, a, b, c, d, e, f]
    }
}

/// A control frame, but for its TLVs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Control {
    /// What it asks or says.
    pub operation: Operation,
    /// 0 success, 1 version, 2 request, 4 duplicate LAN destination, 5 duplicate ATM address, 6 resources, 7 denied, 8
    /// LEC identifier, 9 LAN destination, 10 ATM address, 20 no configuration, 21 configuration error, 22 information.
    pub status: u16,
    /// The number that a response repeats.
    pub transaction: u32,
    /// The requester's identifier in the LAN; 0 before it has one.
    pub lecid: u16,
    /// 1 remote address, 80 proxy, 100 topology change.
    pub flags: u16,
    /// Source LAN destination.
    pub source: Destination,
    /// Target LAN destination.
    pub target: Destination,
    /// Source ATM address.
    pub source_atm: Aesa,
    /// Target ATM address; zero where unknown.
    pub target_atm: Aesa,
    /// 0 unspecified, 1 802.3, 2 802.5.
    pub lan_type: u8,
    /// Largest frame: 0 unspecified, 1 1516, 2 4544, 3 9234, 4 18190 octets.
    pub max_frame: u8,
    /// The LAN's name.
    pub name: Octets<32>,
}

impl Default for Control {
    fn default() -> Self {
        Control {
            operation: Operation::CONFIGURE,
            status: 0,
            transaction: 0,
            lecid: 0,
            flags: 0,
            source: Destination::None,
            target: Destination::None,
            source_atm: Aesa::default(),
            target_atm: Aesa::default(),
            lan_type: 0,
            max_frame: 0,
            name: Octets::default(),
        }
    }
}

/// A type, length and value behind a control frame. The types are of OUI 00A03E.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Type.
    pub kind: u32,
    /// Value.
    pub value: &'a [u8],
}

/// Whether `octets` begin as a control frame does, and not with a LEC identifier.
pub fn is_control(octets: &[u8]) -> bool {
    octets.starts_with(&MARKER[..2])
}

/// The operation of a READY_QUERY or READY_IND frame, which is all that these have.
pub fn parse_ready(octets: &[u8]) -> Option<Operation> {
    let (head, operation) = octets.split_first_chunk::<4>()?;
    let operation = Operation(u16::from_be_bytes(*operation.first_chunk()?));
    let ready = matches!(operation, Operation::READY_QUERY | Operation::READY_INDICATION);
    (*head == MARKER && ready).then_some(operation)
}

/// A READY_QUERY or READY_IND frame.
pub const fn emit_ready(operation: Operation) -> [u8; READY_OCTETS] {
    let [high, low] = operation.0.to_be_bytes();
    [0xff, 0, 1, 1, high, low]
}

impl Control {
    /// Reads a control frame; the TLVs behind it are [`tlvs`].
    pub fn parse(octets: &[u8]) -> Result<Self, Error> {
        let Some((frame, tail)) = octets.split_first_chunk::<CONTROL_OCTETS>() else {
            return Err(Error::Truncated { what: WHAT, need: CONTROL_OCTETS, got: octets.len() });
        };
        let field = |field, value| Error::Field { what: WHAT, field, value };
        let word = |i: usize| u16::from_be_bytes([frame[i], frame[i + 1]]);
        let array = |i: usize| core::array::from_fn(|k| frame[i + k]);
        if frame[..2] != MARKER[..2] {
            return Err(field("marker", word(0).into()));
        }
        if frame[2..4] != MARKER[2..] {
            return Err(field("protocol and version", word(2).into()));
        }
        let name_octets = frame.get(76..76 + usize::from(frame[55])).and_then(Octets::new);
        let control = Control {
            operation: Operation(word(4)),
            status: word(6),
            transaction: u32::from_be_bytes([frame[8], frame[9], frame[10], frame[11]]),
            lecid: word(12),
            flags: word(14),
            source: Destination::parse(array(16))?,
            target: Destination::parse(array(24))?,
            source_atm: Aesa(core::array::from_fn(|k| frame[32 + k])),
            target_atm: Aesa(core::array::from_fn(|k| frame[56 + k])),
            lan_type: frame[52],
            max_frame: frame[53],
            name: name_octets.ok_or_else(|| field("length of the LAN's name", frame[55].into()))?,
        };
        let mut rest = tail;
        for _ in 0..frame[54] {
            let Some((_, after)) = split_tlv(rest) else {
                return Err(field("TLVs", tail.len() as u64));
            };
            rest = after;
        }
        Ok(control)
    }

    /// Writes the frame and TLVs at the start of `buffer`, which has room for them: [`CONTROL_OCTETS`], and five octets
    /// and the value for each TLV. How many octets it wrote.
    pub fn emit(&self, tlvs: &[Tlv<'_>], buffer: &mut [u8]) -> usize {
        let (frame, mut tail) = buffer.split_at_mut(CONTROL_OCTETS);
        frame.fill(0);
        let mut put = |at: usize, octets: &[u8]| frame[at..at + octets.len()].copy_from_slice(octets);
        put(0, &MARKER);
        put(4, &self.operation.0.to_be_bytes());
        put(6, &self.status.to_be_bytes());
        put(8, &self.transaction.to_be_bytes());
        put(12, &self.lecid.to_be_bytes());
        put(14, &self.flags.to_be_bytes());
        put(16, &self.source.octets());
        put(24, &self.target.octets());
        put(32, &self.source_atm.0);
        put(52, &[self.lan_type, self.max_frame, tlvs.len() as u8, self.name.get().len() as u8]);
        put(56, &self.target_atm.0);
        put(76, self.name.get());
        let mut n = CONTROL_OCTETS;
        for tlv in tlvs {
            let (head, after) = tail.split_at_mut(5);
            head[..4].copy_from_slice(&tlv.kind.to_be_bytes());
            head[4] = tlv.value.len() as u8;
            let (value, after) = after.split_at_mut(tlv.value.len());
            value.copy_from_slice(tlv.value);
            tail = after;
            n += 5 + tlv.value.len();
        }
        n
    }
}

fn split_tlv(octets: &[u8]) -> Option<(Tlv<'_>, &[u8])> {
    let (&[a, b, c, d, length], rest) = octets.split_first_chunk::<5>()?;
    let (value, rest) = rest.split_at_checked(length.into())?;
    Some((Tlv { kind: u32::from_be_bytes([a, b, c, d]), value }, rest))
}

/// The TLVs of a control frame that [`Control::parse`] has taken.
pub fn tlvs(octets: &[u8]) -> impl Iterator<Item = Tlv<'_>> {
    let count = octets.get(54).copied().unwrap_or(0);
    let mut rest = octets.get(CONTROL_OCTETS..).unwrap_or(&[]);
    (0..count).map_while(move |_| {
        let (tlv, after) = split_tlv(rest)?;
        rest = after;
        Some(tlv)
    })
}

/// A data frame of 802.3: the sender's LEC identifier, and the frame without its check sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    /// The sender's identifier in the LAN.
    pub lecid: u16,
    /// Destination, source, type or length, and payload.
    pub frame: &'a [u8],
}

impl<'a> Data<'a> {
    /// Reads a data frame: one with the addresses and the type at least, and not a control frame.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Error> {
        let what = "LANE data frame";
        let (&[high, low], frame) =
            octets.split_first_chunk::<2>().ok_or(Error::Truncated { what, need: 16, got: octets.len() })?;
        let lecid = u16::from_be_bytes([high, low]);
        if frame.len() < 14 {
            return Err(Error::Truncated { what, need: 16, got: octets.len() });
        }
        if lecid >= 0xff00 {
            return Err(Error::Field { what, field: "LEC identifier", value: lecid.into() });
        }
        Ok(Data { lecid, frame })
    }

    /// Octets of the data frame.
    pub const fn buffer_len(&self) -> usize {
        2 + self.frame.len()
    }

    /// Writes it at the start of `buffer`, which has at least [`Self::buffer_len`] octets.
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[..2].copy_from_slice(&self.lecid.to_be_bytes());
        buffer[2..self.buffer_len()].copy_from_slice(self.frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;
    use proptest::prelude::*;
    use std::vec::Vec;

    const A1: &str = "47000580ffde0000000000000102000000000100";

    /// Computed from the layout.
    #[test]
    fn a_configure_request_has_its_fields_in_place() {
        let text = std::format!(
            "ff000101 0001 0000 00000001 0000 0000 0001020000000001 0000000000000000 {A1} 01 01 00 00 {}",
            "00".repeat(52)
        );
        let octets = hex::octets(&text);
        let control = Control {
            transaction: 1,
            source: Destination::Mac([2, 0, 0, 0, 0, 1]),
            source_atm: A1.parse().unwrap(),
            lan_type: 1,
            max_frame: 1,
            ..Control::default()
        };
        assert_eq!(Control::parse(&octets), Ok(control));
        let mut again = [0; CONTROL_OCTETS];
        assert_eq!(control.emit(&[], &mut again), CONTROL_OCTETS);
        assert_eq!(again[..], octets);
        assert!(is_control(&octets));
    }

    #[test]
    fn ready_frames_have_six_octets() {
        assert_eq!(emit_ready(Operation::READY_INDICATION)[..], hex::octets("ff000101 0103"));
        assert_eq!(parse_ready(&hex::octets("ff000101 0003")), Some(Operation::READY_QUERY));
        assert_eq!(parse_ready(&hex::octets("ff000101 0001")), None);
    }

    fn destination() -> impl Strategy<Value = Destination> {
        (0u8..3, any::<[u8; 6]>()).prop_map(|(kind, octets)| match kind {
            0 => Destination::None,
            1 => Destination::Mac(octets),
            _ => Destination::Route(octets),
        })
    }

    proptest! {
        #[test]
        fn a_frame_sent_is_the_frame_received(
            words: [u16; 4], transaction: u32, source in destination(), target in destination(), atm: [[u8; 20]; 2],
            name in proptest::collection::vec(any::<u8>(), 0..=32),
            values in proptest::collection::vec((any::<u32>(), proptest::collection::vec(any::<u8>(), 0..30)), 0..4)
        ) {
            let control = Control {
                operation: Operation(words[0]), status: words[1], transaction, lecid: words[2], flags: words[3],
                source, target, source_atm: Aesa(atm[0]), target_atm: Aesa(atm[1]), lan_type: 1, max_frame: 2,
                name: Octets::new(&name).unwrap(),
            };
            let sent: Vec<Tlv<'_>> = values.iter().map(|(kind, value)| Tlv { kind: *kind, value }).collect();
            let mut octets = [0; 400];
            let n = control.emit(&sent, &mut octets);
            prop_assert_eq!(Control::parse(&octets[..n]), Ok(control));
            prop_assert_eq!(tlvs(&octets[..n]).collect::<Vec<_>>(), sent);
            prop_assert!(Control::parse(&octets[..n - 1]).is_err());
        }

        #[test]
        fn data_sent_is_the_data_received(lecid in 0u16..0xff00, frame in proptest::collection::vec(any::<u8>(), 14..80)) {
            let data = Data { lecid, frame: &frame };
            let mut octets = std::vec![0; data.buffer_len()];
            data.emit(&mut octets);
            prop_assert_eq!(Data::parse(&octets), Ok(data));
        }

        #[test]
        fn no_octets_panic(octets: Vec<u8>) {
            let _ = (Control::parse(&octets), Data::parse(&octets), parse_ready(&octets), tlvs(&octets).count());
        }
    }
}
