//! ATM pseudowires (RFC 4717) in MPLS, as MPLS-in-UDP carries them (RFC 7510, port 6635): N cells to one, or an AAL5 SDU.
//!
//! | octets | what |
//! |---|---|
//! | 0..4 | label stack entry (RFC 3032): label 20 bits, traffic class 3, bottom of stack 1, time to live 8 |
//! | 4..8 | control word, if both ends have one; AAL5 SDUs always have it |
//! | then | cells of 52 octets, header without HEC; or the SDU |
//!
//! The control word has flags (T, E, C, U: an OAM cell, EFCI, CLP, AAL5 user-to-user's lowest bit), the octets of a
//! packet that is shorter than 64, and a sequence number, 0 for none. A peer may put more labels before the
//! pseudowire's: the one at the stack's bottom counts.

use crate::Error;
use crate::octets::CELL52_OCTETS;

/// UDP's port of MPLS (RFC 7510 section 3).
pub const PORT: u16 = 6635;
/// Octets of a label stack entry.
pub const LABEL_OCTETS: usize = 4;
/// Octets of a control word.
pub const CONTROL_OCTETS: usize = 4;
/// The highest label; 0 to 15 are reserved (RFC 3032 section 2.1).
pub const MAX_LABEL: u32 = (1 << 20) - 1;
/// The lowest label that is not reserved.
pub const MIN_LABEL: u32 = 16;
/// Labels before the pseudowire's at most.
const MAX_STACK: usize = 8;
/// A packet of so many octets and the control word says no length: its six bits have no room for it.
const LENGTH_LIMIT: usize = 64;

const WHAT: &str = "ATM pseudowire";

/// How a packet's payload is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// N virtual circuits to one pseudowire, cells: type 0x0009 (RFC 4446).
    Cells,
    /// AAL5 CPCS-SDUs of one circuit: type 0x0002 (RFC 4446).
    Sdu,
}

/// Bits of the control word's flags that AAL5 SDUs use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// T: the payload is an OAM cell of 52 octets, not an SDU.
    pub is_cell: bool,
    /// E: the SDU's last cell has met congestion (EFCI).
    pub efci: bool,
    /// C: a cell of it has its loss priority set (CLP).
    pub clp: bool,
    /// U: the lowest bit of the CPCS user-to-user indication.
    pub uu: bool,
}

/// A control word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ControlWord {
    /// Meaning of the payload; zeros on a pseudowire of cells.
    pub flags: Flags,
    /// 1 to 65535 in turn; 0: packets are not numbered.
    pub sequence: u16,
}

/// A packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The pseudowire's label.
    pub label: u32,
    /// The control word, where the pseudowire has one.
    pub control: Option<ControlWord>,
    /// Cells of 52 octets, or an SDU.
    pub payload: &'a [u8],
}

/// What stands before the payload.
pub type Head = [u8; LABEL_OCTETS + CONTROL_OCTETS];

impl<'a> Packet<'a> {
    /// Reads a packet of a pseudowire of this mode, with or without control word.
    ///
    /// # Errors
    /// It is cut off, no label is the stack's last, or the control word contradicts the packet or is of a channel that
    /// is none of data (RFC 4385).
    pub fn parse(octets: &'a [u8], mode: Mode, has_control: bool) -> Result<Self, Error> {
        let (label, rest) = bottom_label(octets)?;
        let (control, payload) = if has_control { control_word(rest)? } else { (None, rest) };
        let is_cell = control.is_some_and(|control| control.flags.is_cell);
        let cells = mode == Mode::Cells || is_cell;
        if payload.is_empty() || cells && !payload.len().is_multiple_of(CELL52_OCTETS) {
            return Err(Error::Field { what: WHAT, field: "octets of payload", value: payload.len() as u64 });
        }
        Ok(Packet { label, control, payload })
    }

    /// The octets before the payload, and how many of them count.
    pub fn emit_head(&self) -> (Head, usize) {
        let mut head = [0; LABEL_OCTETS + CONTROL_OCTETS];
        // Traffic class 0, bottom of the stack, as far as 255 nodes.
        let entry = (self.label & MAX_LABEL) << 12 | 1 << 8 | 255;
        head[..LABEL_OCTETS].copy_from_slice(&entry.to_be_bytes());
        let Some(ControlWord { flags, sequence }) = self.control else { return (head, LABEL_OCTETS) };
        let bits =
            [flags.is_cell, flags.efci, flags.clp, flags.uu].iter().fold(0, |bits, bit| bits << 1 | u8::from(*bit));
        let length = CONTROL_OCTETS + self.payload.len();
        head[LABEL_OCTETS] = bits;
        head[LABEL_OCTETS + 1] = if length < LENGTH_LIMIT { length as u8 } else { 0 };
        head[LABEL_OCTETS + 2..].copy_from_slice(&sequence.to_be_bytes());
        (head, LABEL_OCTETS + CONTROL_OCTETS)
    }
}

/// The label at the stack's bottom, and what follows it.
fn bottom_label(octets: &[u8]) -> Result<(u32, &[u8]), Error> {
    let mut rest = octets;
    for _ in 0..MAX_STACK {
        let truncated = Error::Truncated { what: WHAT, need: LABEL_OCTETS, got: rest.len() };
        let (entry, after) = rest.split_first_chunk::<LABEL_OCTETS>().ok_or(truncated)?;
        let entry = u32::from_be_bytes(*entry);
        if entry & 1 << 8 != 0 {
            return Ok((entry >> 12, after));
        }
        rest = after;
    }
    Err(Error::Field { what: WHAT, field: "labels above the pseudowire's", value: MAX_STACK as u64 })
}

fn control_word(octets: &[u8]) -> Result<(Option<ControlWord>, &[u8]), Error> {
    let truncated = Error::Truncated { what: WHAT, need: CONTROL_OCTETS, got: octets.len() };
    let ([first, length, s1, s0], payload) = octets.split_first_chunk::<CONTROL_OCTETS>().ok_or(truncated)?;
    // 1: an associated channel (RFC 4385 section 5); others are none that is known.
    if first >> 4 != 0 {
        return Err(Error::Field { what: WHAT, field: "first nibble", value: (first >> 4).into() });
    }
    let said = usize::from(length & 0x3f);
    // A network with shortest frames may have padded the packet.
    let payload = match said.checked_sub(CONTROL_OCTETS) {
        _ if said == 0 => payload,
        Some(octets) if octets <= payload.len() => &payload[..octets],
        _ => return Err(Error::Field { what: WHAT, field: "length", value: said as u64 }),
    };
    let bit = |n: u8| first >> n & 1 == 1;
    let flags = Flags { is_cell: bit(3), efci: bit(2), clp: bit(1), uu: bit(0) };
    Ok((Some(ControlWord { flags, sequence: u16::from_be_bytes([*s1, *s0]) }), payload))
}

/// What a receiver makes of a sequence number (RFC 4385 section 4.2).
#[derive(Debug, Clone, Copy, Default)]
pub struct Sequence {
    expected: u16,
}

impl Sequence {
    /// Whether a packet may be taken: it is the expected one, or after it. One that is not numbered always may.
    pub fn take(&mut self, number: u16) -> bool {
        if number == 0 {
            return true;
        }
        let is_first = self.expected == 0;
        let ahead = number.wrapping_sub(self.expected);
        let taken = is_first || ahead < 1 << 15;
        if taken {
            self.expected = next(number);
        }
        taken
    }
}

/// The number after this one: 0 is left out.
pub const fn next(number: u16) -> u16 {
    if number == u16::MAX { 1 } else { number + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn emit(packet: &Packet<'_>) -> Vec<u8> {
        let (head, n) = packet.emit_head();
        [&head[..n], packet.payload].concat()
    }

    #[test]
    fn a_packet_of_a_cell_has_its_label_its_length_and_its_number() {
        let payload = [0x5a; 52];
        let control = ControlWord { sequence: 7, ..ControlWord::default() };
        let packet = Packet { label: 100, control: Some(control), payload: &payload };
        // Label 100, bottom of stack, 255 hops; no flags, 56 octets, number 7.
        let octets = emit(&packet);
        assert_eq!(octets[..8], hex::octets("000641ff 00380007"));
        assert_eq!(Packet::parse(&octets, Mode::Cells, true), Ok(packet));
        let two = [0x5a; 104];
        let packet = Packet { payload: &two, ..packet };
        assert_eq!(emit(&packet)[5], 0, "beyond 63 octets no length is said");
    }

    #[test]
    fn a_label_above_ours_is_passed_over_and_padding_is_cut_off() {
        let octets = hex::octets("0000a0ff 000641ff 0b0a0000 010203040506 0000000000");
        let packet = Packet::parse(&octets, Mode::Sdu, true).unwrap_err();
        assert!(matches!(packet, Error::Field { field: "octets of payload", .. }), "an OAM cell of six octets");
        let octets = hex::octets("0000a0ff 000641ff 070a0000 010203040506 0000000000");
        let packet = Packet::parse(&octets, Mode::Sdu, true).unwrap();
        assert_eq!((packet.label, packet.payload), (100, &[1, 2, 3, 4, 5, 6][..]));
        let flags = packet.control.unwrap().flags;
        assert_eq!(flags, Flags { is_cell: false, efci: true, clp: true, uu: true });
    }

    #[test]
    fn what_is_no_packet_of_ours_is_refused() {
        for (octets, what) in [
            ("000641", "cut off"),
            (
                "000640ff 000640ff 000640ff 000640ff 000640ff 000640ff 000640ff 000640ff 000641ff 01",
                "a stack without end",
            ),
            ("000641ff 10000000 01", "an associated channel"),
            ("000641ff 003f0000 01", "a length beyond the packet"),
            ("000641ff 00030000 01", "a length within the control word"),
            ("000641ff 00000000", "nothing"),
        ] {
            assert!(Packet::parse(&hex::octets(octets), Mode::Sdu, true).is_err(), "{what}");
        }
        assert!(Packet::parse(&hex::octets("000641ff 00000000 010203"), Mode::Cells, true).is_err(), "no cells");
    }

    #[test]
    fn a_number_from_before_is_refused_and_zero_never() {
        let mut sequence = Sequence::default();
        let taken: Vec<bool> = [5, 6, 8, 7, 0, 9, 9, 0].into_iter().map(|n| sequence.take(n)).collect();
        assert_eq!(taken, [true, true, true, false, true, true, false, true]);
        let mut sequence = Sequence::default();
        assert!(sequence.take(u16::MAX) && sequence.take(1) && !sequence.take(u16::MAX));
        assert_eq!([next(1), next(u16::MAX)], [2, 1]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            label in 0u32..=MAX_LABEL, has_control: bool, bits in 0u8..8, sequence: u16, mode: bool, n in 1usize..5, sdu in proptest::collection::vec(any::<u8>(), 1..100)
        ) {
            let mode = if mode { Mode::Cells } else { Mode::Sdu };
            let cells = std::vec![0x33; n * CELL52_OCTETS];
            let payload = if mode == Mode::Cells { &cells[..] } else { &sdu };
            let flags = Flags { is_cell: false, efci: bits & 1 != 0, clp: bits & 2 != 0, uu: bits & 4 != 0 };
            let control = has_control.then_some(ControlWord { flags, sequence });
            let packet = Packet { label, control, payload };
            let octets = emit(&packet);
            prop_assert_eq!(Packet::parse(&octets, mode, has_control), Ok(packet));
        }

        #[test]
        fn no_octets_panic(octets: Vec<u8>, cells: bool, has_control: bool) {
            let _ = Packet::parse(&octets, if cells { Mode::Cells } else { Mode::Sdu }, has_control);
        }
    }
}
