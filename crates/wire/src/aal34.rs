//! AAL3/4 (I.363.3): a CPCS-PDU between header and trailer, cut into SAR-PDUs that each carry their own check.
//!
//! | CPCS-PDU | what |
//! |---|---|
//! | 1 | CPI, zero: BASize and length are in octets |
//! | 1 | BTag |
//! | 2 | BASize: buffer to set aside, at least the payload |
//! | | payload, 0 to 3 octets of padding to a multiple of four |
//! | 1 | alignment, zero |
//! | 1 | ETag, equal to BTag |
//! | 2 | length of the payload |
//!
//! | bits of a SAR-PDU | what |
//! |---|---|
//! | 2 | segment type |
//! | 4 | sequence number, modulo 16 |
//! | 10 | MID: which of the PDUs interleaved on the circuit |
//! | 352 | payload, 44 octets |
//! | 6 | LI: octets of the payload that count |
//! | 10 | CRC-10 over all before it |

use crate::Error;
use crate::cell::PAYLOAD_OCTETS;
use crate::crc::remainder10;

/// Octets of a SAR-PDU's payload.
pub const SAR_PAYLOAD_OCTETS: usize = 44;
/// Where they stand in the cell's payload.
pub const SAR_PAYLOAD: core::ops::Range<usize> = 2..2 + SAR_PAYLOAD_OCTETS;
/// Largest MID: ten bits.
pub const MAX_MID: u16 = 1023;
/// Octets of the CPCS header, and of the trailer.
pub const CPCS_OCTETS: usize = 4;
/// The LI of an EOM that gives its PDU up (abort).
pub const LI_ABORT: u8 = 63;

/// Where in its CPCS-PDU a segment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SegmentType {
    /// COM: neither first nor last.
    Continuation,
    /// EOM: the last.
    End,
    /// BOM: the first.
    Begin,
    /// SSM: the only one.
    Single,
}

impl SegmentType {
    /// From the two bits; higher bits are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => SegmentType::Continuation,
            1 => SegmentType::End,
            2 => SegmentType::Begin,
            _ => SegmentType::Single,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        match self {
            SegmentType::Continuation => 0,
            SegmentType::End => 1,
            SegmentType::Begin => 2,
            SegmentType::Single => 3,
        }
    }
}

/// What a SAR-PDU says beside its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Place in the CPCS-PDU.
    pub segment_type: SegmentType,
    /// Sequence number, 0 to 15.
    pub sequence: u8,
    /// Multiplexing identification, 0 to 1023.
    pub mid: u16,
    /// LI as it stands. Which values a segment type allows is [`Segment::payload_octets`]'s matter.
    pub li: u8,
}

impl Segment {
    /// Reads a cell's payload whose CRC is right; gives the 44 octets of payload as well.
    pub fn parse(payload: &[u8; PAYLOAD_OCTETS]) -> Result<(Self, &[u8; SAR_PAYLOAD_OCTETS]), Error> {
        let [.., t1, t0] = payload;
        // The remainder of the octets with their CRC in place differs from that CRC by what the CRC should be.
        let remainder = remainder10(payload);
        if remainder != 0 {
            let got = u16::from_be_bytes([t1 & 3, *t0]);
            let want = (got ^ remainder).into();
            return Err(Error::Checksum { what: "AAL3/4 SAR-PDU", got: got.into(), want });
        }
        Ok(Self::fields(payload))
    }

    /// The same for a payload whose CRC is known to be right: its [`remainder10`] is zero.
    pub const fn fields(payload: &[u8; PAYLOAD_OCTETS]) -> (Self, &[u8; SAR_PAYLOAD_OCTETS]) {
        let [h1, h0, body @ .., t1, _] = payload;
        let segment = Segment {
            segment_type: SegmentType::from_bits(*h1 >> 6),
            sequence: *h1 >> 2 & 15,
            mid: u16::from_be_bytes([*h1 & 3, *h0]),
            li: *t1 >> 2,
        };
        (segment, body)
    }

    /// How many octets of the payload count, if LI is one that the segment type allows: 44 in BOM and COM, 4 to 44 in
    /// EOM, 8 to 44 in SSM, always a multiple of four. `None` also for an abort.
    pub const fn payload_octets(self) -> Option<usize> {
        let least = match self.segment_type {
            SegmentType::Begin | SegmentType::Continuation => SAR_PAYLOAD_OCTETS,
            SegmentType::End => 4,
            SegmentType::Single => 8,
        };
        let li = self.li as usize;
        if li >= least && li <= SAR_PAYLOAD_OCTETS && li.is_multiple_of(4) { Some(li) } else { None }
    }

    /// Whether the sender gives the PDU up.
    pub const fn is_abort(self) -> bool {
        matches!(self.segment_type, SegmentType::End) && self.li == LI_ABORT
    }

    /// The cell's payload, with its CRC. Bits beyond a field's width are dropped.
    pub fn emit(self, body: &[u8; SAR_PAYLOAD_OCTETS]) -> [u8; PAYLOAD_OCTETS] {
        let mut p = [0; PAYLOAD_OCTETS];
        p[SAR_PAYLOAD].copy_from_slice(body);
        self.seal(&mut p);
        p
    }

    /// Writes the fields and the CRC around the 44 octets that already stand at [`SAR_PAYLOAD`].
    pub fn seal(self, payload: &mut [u8; PAYLOAD_OCTETS]) {
        self.put_fields(payload);
        let crc = remainder10(payload);
        put_crc(payload, crc);
    }

    /// Writes the fields only, and zero where the CRC will stand.
    pub const fn put_fields(self, payload: &mut [u8; PAYLOAD_OCTETS]) {
        let [m1, m0] = self.mid.to_be_bytes();
        payload[0] = self.segment_type.bits() << 6 | (self.sequence & 15) << 2 | m1 & 3;
        payload[1] = m0;
        payload[46] = self.li << 2;
        payload[47] = 0;
    }
}

/// Writes the CRC of a payload that has its fields and zero in its place: its [`remainder10`].
pub const fn put_crc(payload: &mut [u8; PAYLOAD_OCTETS], crc: u16) {
    let [c1, c0] = crc.to_be_bytes();
    payload[46] |= c1 & 3;
    payload[47] = c0;
}

/// How many octets the CPCS-PDU of an SDU has: header, payload, padding, trailer.
pub const fn cpcs_pdu_octets(sdu_octets: usize) -> usize {
    CPCS_OCTETS + sdu_octets.next_multiple_of(4) + CPCS_OCTETS
}

/// The CPCS header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Header {
    /// Common part indicator: zero is the only value defined.
    pub cpi: u8,
    /// Equal in header and trailer of one PDU, different in successive ones.
    pub tag: u8,
    /// Octets of buffer that the receiver should set aside.
    pub buffer_octets: u16,
}

/// The CPCS trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Trailer {
    /// Must equal the header's.
    pub tag: u8,
    /// Octets of the SDU.
    pub length: u16,
}

impl Header {
    /// Reads the header at the start of a CPCS-PDU.
    pub fn parse(octets: &[u8]) -> Result<Self, Error> {
        let Some(&[cpi, tag, b1, b0]) = octets.first_chunk::<CPCS_OCTETS>() else {
            return Err(Error::Truncated { what: "AAL3/4 CPCS header", need: CPCS_OCTETS, got: octets.len() });
        };
        Ok(Header { cpi, tag, buffer_octets: u16::from_be_bytes([b1, b0]) })
    }

    /// The four octets.
    pub const fn to_octets(self) -> [u8; CPCS_OCTETS] {
        let [b1, b0] = self.buffer_octets.to_be_bytes();
        [self.cpi, self.tag, b1, b0]
    }
}

impl Trailer {
    /// Reads the trailer at the end of a CPCS-PDU.
    pub fn parse(octets: &[u8]) -> Result<Self, Error> {
        const WHAT: &str = "AAL3/4 CPCS trailer";
        let Some(&[alignment, tag, l1, l0]) = octets.last_chunk::<CPCS_OCTETS>() else {
            return Err(Error::Truncated { what: WHAT, need: CPCS_OCTETS, got: octets.len() });
        };
        if alignment != 0 {
            return Err(Error::Field { what: WHAT, field: "AL", value: alignment.into() });
        }
        Ok(Trailer { tag, length: u16::from_be_bytes([l1, l0]) })
    }

    /// The four octets.
    pub const fn to_octets(self) -> [u8; CPCS_OCTETS] {
        let [l1, l0] = self.length.to_be_bytes();
        [0, self.tag, l1, l0]
    }
}

/// Checks a whole CPCS-PDU and gives its SDU.
pub fn check(pdu: &[u8]) -> Result<&[u8], Error> {
    let bad = |field, value| Err(Error::Field { what: "AAL3/4 CPCS-PDU", field, value });
    if pdu.len() < 2 * CPCS_OCTETS {
        return Err(Error::Truncated { what: "AAL3/4 CPCS-PDU", need: 2 * CPCS_OCTETS, got: pdu.len() });
    }
    let (header, trailer) = (Header::parse(pdu)?, Trailer::parse(pdu)?);
    let length = usize::from(trailer.length);
    if header.cpi != 0 {
        return bad("CPI", header.cpi.into());
    }
    if header.tag != trailer.tag {
        return bad("ETag", trailer.tag.into());
    }
    if cpcs_pdu_octets(length) != pdu.len() {
        return bad("length", length as u64);
    }
    if header.buffer_octets < trailer.length {
        return bad("BASize", header.buffer_octets.into());
    }
    Ok(&pdu[CPCS_OCTETS..CPCS_OCTETS + length])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn pdu(sdu: &[u8], tag: u8) -> Vec<u8> {
        let length = sdu.len() as u16;
        let mut pdu = Header { cpi: 0, tag, buffer_octets: length }.to_octets().to_vec();
        pdu.extend_from_slice(sdu);
        pdu.resize(cpcs_pdu_octets(sdu.len()) - CPCS_OCTETS, 0);
        pdu.extend_from_slice(&Trailer { tag, length }.to_octets());
        pdu
    }

    #[test]
    fn fields_stand_where_i_363_3_puts_them() {
        let segment = Segment { segment_type: SegmentType::Begin, sequence: 5, mid: 0x2ab, li: 44 };
        let p = segment.emit(&[0; SAR_PAYLOAD_OCTETS]);
        assert_eq!((p[0], p[1], p[46] >> 2), (0b1001_0110, 0xab, 44));
        assert_eq!(remainder10(&p), 0);
    }

    #[test]
    fn a_length_indication_fits_its_segment_type() {
        let octets = |segment_type, li| Segment { segment_type, sequence: 0, mid: 0, li }.payload_octets();
        use SegmentType::{Begin, Continuation, End, Single};
        for (segment_type, allowed) in [(Begin, 1), (Continuation, 1), (End, 11), (Single, 10)] {
            assert_eq!((0..64).filter(|li| octets(segment_type, *li).is_some()).count(), allowed);
        }
        assert!(Segment { segment_type: End, sequence: 0, mid: 0, li: LI_ABORT }.is_abort());
    }

    proptest! {
        #[test]
        fn a_segment_sent_is_the_segment_received_and_damage_is_seen(st in 0u8..4, sequence in 0u8..16, mid in 0u16..1024, li in 0u8..64, fill: u8, bit in 0usize..384) {
            let segment = Segment { segment_type: SegmentType::from_bits(st), sequence, mid, li };
            let mut p = segment.emit(&[fill; SAR_PAYLOAD_OCTETS]);
            prop_assert_eq!(Segment::parse(&p), Ok((segment, &[fill; SAR_PAYLOAD_OCTETS])));
            p[bit / 8] ^= 0x80 >> (bit % 8);
            prop_assert!(Segment::parse(&p).is_err());
        }

        #[test]
        fn a_cpcs_pdu_gives_its_sdu_back(sdu in proptest::collection::vec(any::<u8>(), 0..300), tag: u8, x in 1u8..) {
            let mut pdu = pdu(&sdu, tag);
            prop_assert_eq!(pdu.len() % 4, 0);
            prop_assert_eq!(check(&pdu), Ok(&sdu[..]));
            let last = pdu.len() - 1;
            pdu[last - 2] ^= x;
            prop_assert!(check(&pdu).is_err());
            pdu[last - 2] ^= x;
            pdu[1] ^= x;
            prop_assert!(check(&pdu).is_err());
        }

        #[test]
        fn no_octets_panic(octets: Vec<u8>) {
            let _ = check(&octets);
        }
    }
}
