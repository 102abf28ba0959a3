//! SSCOP PDUs (ITU-T Q.2110 section 7): the assured link below signalling, one PDU in each AAL5 SDU of VPI 0, VCI 5.
//!
//! A PDU is `[data][0..3 octets of padding][words]`. Its length is a multiple of four octets. The last word is
//! `PL(2) 0(1) S(1) type(4) low(24)`, where PL is the length of the padding. Sequence numbers have 24 bits.
//!
//! | PDU | type | last word, low 24 bits | words before it, from the last |
//! |---|---|---|---|
//! | BGN, RS | 1, 5 | N(MR) | N(SQ) |
//! | ER | 9 | N(MR) | N(SQ), no data |
//! | BGAK | 2 | N(MR) | reserved |
//! | RSAK, ERAK | 6, F | N(MR) | reserved, no data |
//! | END, BGREJ | 3, 7 | reserved; S of END | reserved |
//! | ENDAK | 4 | reserved | reserved, no data |
//! | SD | 8 | N(S) | - |
//! | POLL | A | N(S) | N(PS), no data |
//! | STAT | B | N(R) | N(MR), N(PS), list elements |
//! | USTAT | C | N(R) | N(MR), second list element, first |
//! | UD, MD | D, E | reserved | - |

use crate::Error;
use core::fmt;

const WHAT: &str = "SSCOP PDU";
/// The most octets of data in an SD, UD or MD PDU, and of user-to-user information (Q.2130: k and j).
pub const MAX_DATA_OCTETS: usize = 4096;
/// The most octets of a PDU: data, padding and two words, or a STAT with 1024 list elements.
pub const MAX_OCTETS: usize = MAX_DATA_OCTETS + 3 + 12;

/// A 24-bit sequence number. Comparisons make sense only relative to a base: [`Sequence::since`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sequence(u32);

impl Sequence {
    /// Zero.
    pub const ZERO: Sequence = Sequence(0);
    const MASK: u32 = 0xff_ffff;

    /// The low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Sequence(value & Self::MASK)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number `n` further on, modulo 2^24.
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Sequence(self.0.wrapping_add(n) & Self::MASK)
    }

    /// How far this number lies beyond `base`, modulo 2^24.
    pub const fn since(self, base: Sequence) -> u32 {
        self.0.wrapping_sub(base.0) & Self::MASK
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who ended a connection: the S bit of END.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The layer above.
    User,
    /// SSCOP itself, after an error.
    Sscop,
}

/// The list elements of a STAT: the numbers at which missing and present PDUs take turns, the first missing one first.
#[derive(Clone, Copy, Default)]
pub struct StatList<'a>(&'a [[u8; 4]]);

impl<'a> StatList<'a> {
    /// A list of elements as big-endian words. The upper eight bits of each are reserved.
    pub const fn new(words: &'a [[u8; 4]]) -> Self {
        StatList(words)
    }

    /// How many elements the list has.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the list has no elements: nothing is missing.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Element `index`.
    pub fn get(&self, index: usize) -> Option<Sequence> {
        self.0.get(index).map(|word| Sequence::new(u32::from_be_bytes(*word)))
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Sequence> + 'a {
        self.0.iter().map(|word| Sequence::new(u32::from_be_bytes(*word)))
    }
}

impl PartialEq for StatList<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for StatList<'_> {}

impl fmt::Debug for StatList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A PDU. Field names are the standard's: `sq` N(SQ), `mr` N(MR), `s` N(S), `ps` N(PS), `r` N(R); `uu` is
/// user-to-user information.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The fields are named above.
pub enum Pdu<'a> {
    /// BGN: request for a connection.
    Begin { sq: u8, mr: Sequence, uu: &'a [u8] },
    /// BGAK: acknowledgement of BGN.
    BeginAck { mr: Sequence, uu: &'a [u8] },
    /// BGREJ: refusal of BGN.
    BeginReject { uu: &'a [u8] },
    /// END: the connection is released.
    End { source: Source, uu: &'a [u8] },
    /// ENDAK: acknowledgement of END.
    EndAck,
    /// RS: both directions start anew, what is queued is dropped.
    Resync { sq: u8, mr: Sequence, uu: &'a [u8] },
    /// RSAK: acknowledgement of RS.
    ResyncAck { mr: Sequence },
    /// ER: both directions start anew after a protocol error.
    Recover { sq: u8, mr: Sequence },
    /// ERAK: acknowledgement of ER.
    RecoverAck { mr: Sequence },
    /// SD: data in sequence.
    Data { s: Sequence, data: &'a [u8] },
    /// POLL: asks for a STAT.
    Poll { s: Sequence, ps: Sequence },
    /// STAT: what has arrived and what is missing.
    Stat { r: Sequence, mr: Sequence, ps: Sequence, list: StatList<'a> },
    /// USTAT: a gap, reported at once: `from` up to but not including `to` is missing.
    UnsolicitedStat { r: Sequence, mr: Sequence, from: Sequence, to: Sequence },
    /// UD: data without assurance.
    UnitData { data: &'a [u8] },
    /// MD: data of layer management, without assurance.
    ManagementData { data: &'a [u8] },
}

impl<'a> Pdu<'a> {
    /// Reads a PDU. Reserved fields are ignored.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Error> {
        let length = || Error::Field { what: WHAT, field: "length", value: octets.len() as u64 };
        let (words, rest) = octets.as_chunks::<4>();
        let Some((&[control, low @ ..], before)) = words.split_last() else {
            return Err(Error::Truncated { what: WHAT, need: 4, got: octets.len() });
        };
        if !rest.is_empty() || octets.len() > MAX_OCTETS {
            return Err(length());
        }
        let low = Sequence::new(u32::from_be_bytes([0, low[0], low[1], low[2]]));
        // The word `i` before the last one.
        let word = |i: usize| -> Result<Sequence, Error> {
            let at = before.len().checked_sub(i).ok_or_else(length)?;
            before.get(at).map(|w| Sequence::new(u32::from_be_bytes(*w))).ok_or_else(length)
        };
        // The data before `trailer` octets of words.
        let data = |trailer: usize| -> Result<&'a [u8], Error> {
            let padding = usize::from(control >> 6);
            let n = octets.len().checked_sub(trailer + padding).ok_or_else(length)?;
            if n > MAX_DATA_OCTETS { Err(length()) } else { Ok(&octets[..n]) }
        };
        let exactly = |n: usize| if octets.len() == n { Ok(()) } else { Err(length()) };
        let sq = |word: Sequence| word.get() as u8;
        Ok(match control & 0xf {
            1 => Pdu::Begin { sq: sq(word(1)?), mr: low, uu: data(8)? },
            2 => Pdu::BeginAck { mr: low, uu: data(8)? },
            3 => {
                let source = if control & 0x10 == 0 { Source::User } else { Source::Sscop };
                Pdu::End { source, uu: data(8)? }
            }
            4 => exactly(8).map(|()| Pdu::EndAck)?,
            5 => Pdu::Resync { sq: sq(word(1)?), mr: low, uu: data(8)? },
            6 => exactly(8).map(|()| Pdu::ResyncAck { mr: low })?,
            7 => Pdu::BeginReject { uu: data(8)? },
            8 => Pdu::Data { s: low, data: data(4)? },
            9 => {
                exactly(8)?;
                Pdu::Recover { sq: sq(word(1)?), mr: low }
            }
            0xa => {
                exactly(8)?;
                Pdu::Poll { s: low, ps: word(1)? }
            }
            0xb => {
                let (mr, ps) = (word(1)?, word(2)?);
                Pdu::Stat { r: low, mr, ps, list: StatList(&before[..before.len() - 2]) }
            }
            0xc => {
                exactly(16)?;
                Pdu::UnsolicitedStat { r: low, mr: word(1)?, to: word(2)?, from: word(3)? }
            }
            0xd => Pdu::UnitData { data: data(4)? },
            0xe => Pdu::ManagementData { data: data(4)? },
            0xf => exactly(8).map(|()| Pdu::RecoverAck { mr: low })?,
            other => return Err(Error::Field { what: WHAT, field: "PDU type", value: other.into() }),
        })
    }

    /// The PDU type's code.
    pub const fn code(&self) -> u8 {
        match self {
            Pdu::Begin { .. } => 1,
            Pdu::BeginAck { .. } => 2,
            Pdu::End { .. } => 3,
            Pdu::EndAck => 4,
            Pdu::Resync { .. } => 5,
            Pdu::ResyncAck { .. } => 6,
            Pdu::BeginReject { .. } => 7,
            Pdu::Data { .. } => 8,
            Pdu::Recover { .. } => 9,
            Pdu::Poll { .. } => 0xa,
            Pdu::Stat { .. } => 0xb,
            Pdu::UnsolicitedStat { .. } => 0xc,
            Pdu::UnitData { .. } => 0xd,
            Pdu::ManagementData { .. } => 0xe,
            Pdu::RecoverAck { .. } => 0xf,
        }
    }

    /// The data or user-to-user information, and how many octets of words follow its padding.
    const fn parts(&self) -> (&'a [u8], usize) {
        match *self {
            Pdu::Begin { uu, .. }
            | Pdu::BeginAck { uu, .. }
            | Pdu::BeginReject { uu }
            | Pdu::End { uu, .. }
            | Pdu::Resync { uu, .. } => (uu, 8),
            Pdu::Data { data, .. } | Pdu::UnitData { data } | Pdu::ManagementData { data } => (data, 4),
            Pdu::EndAck | Pdu::ResyncAck { .. } | Pdu::Recover { .. } | Pdu::RecoverAck { .. } | Pdu::Poll { .. } => {
                (&[], 8)
            }
            Pdu::Stat { list, .. } => (&[], 12 + 4 * list.0.len()),
            Pdu::UnsolicitedStat { .. } => (&[], 16),
        }
    }

    /// Octets of the PDU.
    pub const fn buffer_len(&self) -> usize {
        let (data, words) = self.parts();
        data.len().next_multiple_of(4) + words
    }

    /// Writes the PDU at the start of `buffer`, which has at least [`Self::buffer_len`] octets.
    pub fn emit(&self, buffer: &mut [u8]) {
        let buffer = &mut buffer[..self.buffer_len()];
        let (data, _) = self.parts();
        let padding = data.len().next_multiple_of(4) - data.len();
        buffer.fill(0);
        buffer[..data.len()].copy_from_slice(data);
        let words = buffer.as_chunks_mut::<4>().0;
        let end = words.len();
        let mut put = |i: usize, value: Sequence| words[end - 1 - i] = value.0.to_be_bytes();
        let mut source_bit = 0;
        match *self {
            Pdu::Begin { sq, mr, .. } | Pdu::Resync { sq, mr, .. } | Pdu::Recover { sq, mr } => {
                put(0, mr);
                put(1, Sequence(sq.into()));
            }
            Pdu::BeginAck { mr, .. } | Pdu::ResyncAck { mr } | Pdu::RecoverAck { mr } => put(0, mr),
            Pdu::End { source, .. } => source_bit = u8::from(source == Source::Sscop) << 4,
            Pdu::Data { s, .. } => put(0, s),
            Pdu::Poll { s, ps } => {
                put(0, s);
                put(1, ps);
            }
            Pdu::Stat { r, mr, ps, list } => {
                put(0, r);
                put(1, mr);
                put(2, ps);
                for (i, element) in list.iter().enumerate() {
                    put(2 + list.len() - i, element);
                }
            }
            Pdu::UnsolicitedStat { r, mr, from, to } => {
                put(0, r);
                put(1, mr);
                put(2, to);
                put(3, from);
            }
            Pdu::BeginReject { .. } | Pdu::EndAck | Pdu::UnitData { .. } | Pdu::ManagementData { .. } => {}
        }
        words[end - 1][0] = (padding as u8) << 6 | source_bit | self.code();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const fn n(value: u32) -> Sequence {
        Sequence::new(value)
    }

    fn octets(pdu: &Pdu<'_>) -> Vec<u8> {
        let mut octets = std::vec![0xee; pdu.buffer_len()];
        pdu.emit(&mut octets);
        octets
    }

    fn hex(text: &str) -> Vec<u8> {
        crate::hex::octets(text)
    }

    #[test]
    fn pdus_of_a_stock_atmsigd_are_read_and_written_octet_for_octet() {
        let list = [3u32, 5, 7, 8].map(u32::to_be_bytes);
        for (text, pdu) in [
            ("00000001 0100001e", Pdu::Begin { sq: 1, mr: n(30), uu: &[] }),
            ("00000000 0200001e", Pdu::BeginAck { mr: n(30), uu: &[] }),
            ("00000001 0a000000", Pdu::Poll { s: n(0), ps: n(1) }),
            ("00000001 0000001e 0b000000", Pdu::Stat { r: n(0), mr: n(30), ps: n(1), list: StatList::default() }),
            // Computed: the standard's layout, not seen from a peer.
            (
                "00000003 00000005 00000007 00000008 00000009 00000085 0b000003",
                Pdu::Stat { r: n(3), mr: n(133), ps: n(9), list: StatList::new(&list) },
            ),
            ("00000003 00000005 00000085 0c000003", Pdu::UnsolicitedStat { r: n(3), mr: n(133), from: n(3), to: n(5) }),
            ("00000000 13000000", Pdu::End { source: Source::Sscop, uu: &[] }),
            ("00000002 09000080", Pdu::Recover { sq: 2, mr: n(128) }),
            ("00000000 0f000080", Pdu::RecoverAck { mr: n(128) }),
        ] {
            assert_eq!(Pdu::parse(&hex(text)), Ok(pdu), "{text}");
            assert_eq!(octets(&pdu), hex(text));
        }
    }

    #[test]
    fn a_connect_acknowledge_is_padded_to_whole_words() {
        let message = hex("09030000010f80000000");
        let pdu = Pdu::Data { s: n(1), data: &message[..9] };
        assert_eq!(octets(&pdu), hex("09030000010f800000 000000 c8000001"));
    }

    #[test]
    fn lengths_that_a_type_does_not_have_are_refused() {
        for bad in ["", "00", "0a000000", "00000000 00000000 0a000000", "0b000000", "00000000 0b000000"] {
            assert!(Pdu::parse(&hex(bad)).is_err(), "{bad}");
        }
        for bad in ["00000000 00000000 0c000000", "c8000000", "00000000 00000000 04000000", "00000000"] {
            assert!(Pdu::parse(&hex(bad)).is_err(), "{bad}");
        }
        assert!(Pdu::parse(&std::vec![8; MAX_OCTETS + 5]).is_err());
    }

    #[test]
    fn numbers_are_compared_modulo_2_to_the_24() {
        assert_eq!(n(2).since(n(0xff_ffff)), 3);
        assert_eq!(n(0xff_ffff).plus(3), n(2));
    }

    proptest! {
        #[test]
        fn a_pdu_sent_is_the_pdu_received(
            kind in 1u8..16, a: u32, b: u32, c: u32, d: u32, data in proptest::collection::vec(any::<u8>(), 0..70)
        ) {
            let (r, mr, ps) = (n(a), n(b), n(c));
            let words = data.as_chunks::<4>().0;
            let pdu = match kind {
                1 => Pdu::Begin { sq: c as u8, mr, uu: &data },
                2 => Pdu::BeginAck { mr, uu: &data },
                3 => Pdu::End { source: if a & 1 == 0 { Source::User } else { Source::Sscop }, uu: &data },
                4 => Pdu::EndAck,
                5 => Pdu::Resync { sq: c as u8, mr, uu: &data },
                6 => Pdu::ResyncAck { mr },
                7 => Pdu::BeginReject { uu: &data },
                8 => Pdu::Data { s: r, data: &data },
                9 => Pdu::Recover { sq: c as u8, mr },
                10 => Pdu::Poll { s: r, ps },
                11 => Pdu::Stat { r, mr, ps, list: StatList::new(words) },
                12 => Pdu::UnsolicitedStat { r, mr, from: ps, to: n(d) },
                13 => Pdu::UnitData { data: &data },
                14 => Pdu::ManagementData { data: &data },
                _ => Pdu::RecoverAck { mr },
            };
            prop_assert_eq!(pdu.code(), kind);
            let sent = octets(&pdu);
            prop_assert_eq!(Pdu::parse(&sent), Ok(pdu));
            prop_assert!(Pdu::parse(&sent[1..]).is_err());
        }

        #[test]
        fn no_octets_panic(octets: Vec<u8>) {
            if let Ok(pdu) = Pdu::parse(&octets) {
                let mut again = std::vec![0; pdu.buffer_len()];
                pdu.emit(&mut again);
                prop_assert_eq!(Pdu::parse(&again), Ok(pdu));
            }
        }
    }
}
