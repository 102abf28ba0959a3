//! AAL1 SAR-PDU (I.363.1): constant bit rate. One octet of sequence number and its protection, 47 octets of payload, of
//! which the first is a pointer once in eight cells where the stream has a structure.
//!
//! | bits of the first octet | what |
//! |---|---|
//! | 7 | CSI: in even counts, a pointer follows; in odd ones, a bit of the residual time stamp (SRTS) |
//! | 6..=4 | sequence count, modulo 8 |
//! | 3..=1 | CRC-3 (x^3+x+1) over the four bits before it |
//! | 0 | even parity over the octet |

use crate::Error;
use crate::cell::PAYLOAD_OCTETS;

/// Octets of payload in a cell without a pointer.
pub const SAR_PAYLOAD_OCTETS: usize = 47;
/// Largest offset of a pointer: the octet after the 93 that it may point over.
pub const MAX_OFFSET: u8 = 93;

/// What the first octet says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SequenceNumber {
    /// Convergence sublayer indication.
    pub csi: bool,
    /// Sequence count, 0 to 7; higher bits are ignored when written.
    pub count: u8,
}

/// The sixteen right octets, by CSI and count. Any two differ in four bits, so one wrong bit can be put right.
static OCTETS: [u8; 16] = {
    let mut all = [0u8; 16];
    let mut number = 0u8;
    while number < 16 {
        let mut r = number << 3;
        let mut bit = 6;
        while bit >= 3 {
            if r >> bit & 1 != 0 {
                r ^= 0b1011 << (bit - 3);
            }
            bit -= 1;
        }
        let seven = number << 3 | r;
        all[number as usize] = seven << 1 | (seven.count_ones() & 1) as u8;
        number += 1;
    }
    all
};

impl SequenceNumber {
    fn from_number(number: usize) -> Self {
        SequenceNumber { csi: number & 8 != 0, count: (number & 7) as u8 }
    }

    /// Reads an octet that must be right.
    pub fn parse(octet: u8) -> Result<Self, Error> {
        let number = usize::from(octet >> 4);
        let want = OCTETS[number];
        if octet != want {
            return Err(Error::Checksum { what: "AAL1 sequence number", got: octet.into(), want: want.into() });
        }
        Ok(Self::from_number(number))
    }

    /// Reads an octet of which one bit may be wrong; `None` if more are.
    pub fn correct(octet: u8) -> Option<Self> {
        OCTETS.iter().position(|right| (right ^ octet).count_ones() <= 1).map(Self::from_number)
    }

    /// The octet.
    pub fn to_octet(self) -> u8 {
        OCTETS[usize::from(self.csi) << 3 | usize::from(self.count & 7)]
    }

    /// Whether a pointer follows in a structured stream: CSI in an even count.
    pub const fn has_pointer(self) -> bool {
        self.csi && self.count & 1 == 0
    }
}

/// What a receiver makes of a sequence number octet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was right.
    Valid(SequenceNumber),
    /// One bit was wrong and has been put right.
    Corrected(SequenceNumber),
    /// The cell's place in the sequence is not known.
    Invalid,
}

/// A receiver's mode (I.363.1 section 2.4.1.2): like the cell header's, it corrects one error, then only detects until
/// the next right octet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receiver {
    detecting: bool,
}

impl Receiver {
    /// Checks an octet and, in correction mode, puts a single wrong bit right.
    pub fn check(&mut self, octet: u8) -> Verdict {
        if let Ok(number) = SequenceNumber::parse(octet) {
            self.detecting = false;
            return Verdict::Valid(number);
        }
        let was_detecting = core::mem::replace(&mut self.detecting, true);
        match SequenceNumber::correct(octet) {
            Some(number) if !was_detecting => Verdict::Corrected(number),
            _ => Verdict::Invalid,
        }
    }
}

/// The pointer octet: even parity in bit 7, offset in the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pointer {
    /// Octets from the one after the pointer to the first of a structure block, 0 to [`MAX_OFFSET`]; this cell's 46
    /// and the next one's 47 are counted.
    Offset(u8),
    /// No block starts in these 93 octets: all seven bits one.
    Dummy,
}

impl Pointer {
    /// Reads the octet.
    pub fn parse(octet: u8) -> Result<Self, Error> {
        let bad = |field, value: u8| Err(Error::Field { what: "AAL1 pointer", field, value: value.into() });
        if octet.count_ones() & 1 != 0 {
            return bad("parity", octet);
        }
        match octet & 0x7f {
            0x7f => Ok(Pointer::Dummy),
            offset if offset <= MAX_OFFSET => Ok(Pointer::Offset(offset)),
            offset => bad("offset", offset),
        }
    }

    /// The octet; an offset beyond [`MAX_OFFSET`] becomes the dummy.
    pub const fn to_octet(self) -> u8 {
        let seven = match self {
            Pointer::Offset(offset) if offset <= MAX_OFFSET => offset,
            _ => 0x7f,
        };
        seven | ((seven.count_ones() & 1) as u8) << 7
    }
}

/// Reads a cell's payload: its sequence number, its pointer if the stream is `structured` and has one here, and the
/// octets of the stream.
pub fn parse(
    payload: &[u8; PAYLOAD_OCTETS],
    structured: bool,
) -> Result<(SequenceNumber, Option<Pointer>, &[u8]), Error> {
    let [first, rest @ ..] = payload;
    let number = SequenceNumber::parse(*first)?;
    match rest {
        [pointer, stream @ ..] if structured && number.has_pointer() => {
            Ok((number, Some(Pointer::parse(*pointer)?), stream))
        }
        _ => Ok((number, None, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_sixteen_published_octets() {
        const PUBLISHED: [[u8; 8]; 2] =
            [[0x00, 0x17, 0x2d, 0x3a, 0x4e, 0x59, 0x63, 0x74], [0x8b, 0x9c, 0xa6, 0xb1, 0xc5, 0xd2, 0xe8, 0xff]];
        for csi in [false, true] {
            for count in 0..8u8 {
                let number = SequenceNumber { csi, count };
                let octet = PUBLISHED[usize::from(csi)][usize::from(count)];
                assert_eq!(number.to_octet(), octet);
                assert_eq!(SequenceNumber::parse(octet), Ok(number));
                for bit in 0..8 {
                    assert!(SequenceNumber::parse(octet ^ 1 << bit).is_err());
                    assert_eq!(SequenceNumber::correct(octet ^ 1 << bit), Some(number));
                    for other in 0..bit {
                        assert_eq!(SequenceNumber::correct(octet ^ 1 << bit ^ 1 << other), None);
                    }
                }
            }
        }
    }

    #[test]
    fn a_second_wrong_octet_in_a_row_is_not_corrected() {
        let mut receiver = Receiver::default();
        let two = SequenceNumber { csi: false, count: 2 };
        assert_eq!(receiver.check(0x2d ^ 4), Verdict::Corrected(two));
        assert_eq!(receiver.check(0x3a ^ 4), Verdict::Invalid);
        assert_eq!(receiver.check(0x2d), Verdict::Valid(two));
        assert_eq!(receiver.check(0x2d ^ 4), Verdict::Corrected(two));
    }

    #[test]
    fn every_octet_is_a_pointer_that_comes_back_or_is_refused() {
        let read = (0..=255).filter_map(|octet| Pointer::parse(octet).ok().map(|p| (octet, p)));
        assert_eq!(read.clone().count(), usize::from(MAX_OFFSET) + 2);
        for (octet, pointer) in read {
            assert_eq!(pointer.to_octet(), octet);
        }
        assert_eq!(Pointer::Dummy.to_octet(), 0xff);
        assert_eq!(Pointer::Offset(94).to_octet(), 0xff);
    }

    proptest! {
        #[test]
        fn a_pointer_stands_only_where_csi_and_count_say_so(csi: bool, count in 0u8..8, structured: bool, offset in 0u8..=93) {
            let mut payload = [0x55; PAYLOAD_OCTETS];
            let number = SequenceNumber { csi, count };
            payload[0] = number.to_octet();
            payload[1] = Pointer::Offset(offset).to_octet();
            let (read, pointer, stream) = parse(&payload, structured).unwrap();
            let expected = (structured && csi && count % 2 == 0).then_some(Pointer::Offset(offset));
            prop_assert_eq!((read, pointer), (number, expected));
            prop_assert_eq!(stream.len(), SAR_PAYLOAD_OCTETS - usize::from(expected.is_some()));
        }
    }
}
