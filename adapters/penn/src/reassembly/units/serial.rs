//! The octet-serial parts of both cards: HEC and CRC-10 registers that take an octet each clock, the Segmenter's framer
//! that makes them, the Cell Manager's checker that verifies them (Traw and Smith, sections 3.4 and 3.5.1).
//!
//! In: an octet for each call of `clock`. Out: the framer's next octet; the checker's verdict after the last one.

use wire::cell::{CELL_OCTETS, PAYLOAD_OCTETS};
use wire::crc::crc8;
use wire::hec::COSET;

/// Octets of a cell's header, with its HEC.
const HEADER_OCTETS: usize = CELL_OCTETS - PAYLOAD_OCTETS;
/// Where the octet stands that holds LI and the CRC-10's two highest bits.
const LAST_BUT_ONE: usize = CELL_OCTETS - 2;

/// `NEXT[n]`: what the eight highest bits of a CRC-10 register become in one clock: the XOR network, written out.
static NEXT: [u16; 256] = {
    let mut next = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut r, mut bit) = (i as u16, 0);
        while bit < 10 {
            r = if r & 0x200 != 0 { r << 1 ^ 0x633 } else { r << 1 };
            bit += 1;
        }
        next[i] = r;
        i += 1;
    }
    next
};

/// The CRC-8 register of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hec(u8);

impl Hec {
    /// Takes an octet.
    pub fn clock(&mut self, octet: u8) {
        self.0 = crc8(&[self.0 ^ octet]);
    }

    /// The fifth octet of the header whose first four have been taken.
    pub const fn octet(self) -> u8 {
        self.0 ^ COSET
    }
}

/// The CRC-10 register of a SAR-PDU of AAL3/4: the remainder of what has been taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Crc10(u16);

impl Crc10 {
    /// Takes an octet.
    pub const fn clock(&mut self, octet: u8) {
        self.0 = NEXT[(self.0 >> 2) as usize & 0xff] ^ (self.0 & 3) << 8 ^ octet as u16;
    }

    /// Whether a SAR-PDU that has been taken whole, with its CRC, is intact.
    pub const fn is_good(self) -> bool {
        self.0 == 0
    }
}

/// The Segmenter's way to the SONET framer: header, HEC and body leave at an octet a clock, both checks made meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Framer {
    header: [u8; 4],
    body: [u8; PAYLOAD_OCTETS],
    sealed: bool,
    at: usize,
    hec: Hec,
    crc: Crc10,
}

impl Framer {
    /// A cell of this header and body. Where `sealed`, the body is a SAR-PDU of AAL3/4 whose last ten bits are zero
    /// and become its CRC.
    pub fn new(header: u32, body: [u8; PAYLOAD_OCTETS], sealed: bool) -> Self {
        Framer { header: header.to_be_bytes(), body, sealed, at: 0, hec: Hec::default(), crc: Crc10::default() }
    }

    /// The octet that leaves with this clock; `None` after the 53rd.
    pub fn clock(&mut self) -> Option<u8> {
        let at = self.at;
        self.at += usize::from(at < CELL_OCTETS);
        if let Some(octet) = self.header.get(at) {
            self.hec.clock(*octet);
            return Some(*octet);
        }
        if at + 1 == HEADER_OCTETS {
            return Some(self.hec.octet());
        }
        let octet = *self.body.get(at - HEADER_OCTETS)?;
        self.crc.clock(octet);
        if !self.sealed || at < LAST_BUT_ONE {
            return Some(octet);
        }
        // The octet shares its place with the CRC's highest bits: the network looks at the zeros of the last one ahead.
        let mut ahead = self.crc;
        if at == LAST_BUT_ONE {
            ahead.clock(0);
            return Some(octet | (ahead.0 >> 8) as u8);
        }
        Some(ahead.0 as u8)
    }

    /// All 53 clocks.
    pub fn frame(mut self) -> [u8; CELL_OCTETS] {
        core::array::from_fn(|_| self.clock().unwrap_or(0))
    }
}

/// The Cell Manager's verification: 53 clocks, then a verdict on header and body.
#[derive(Debug, Clone, Copy, Default)]
pub struct Checker {
    at: usize,
    hec: Hec,
    header_good: bool,
    crc: Crc10,
}

impl Checker {
    /// Takes the next octet from the SONET framer.
    pub fn clock(&mut self, octet: u8) {
        match self.at {
            0..4 => self.hec.clock(octet),
            4 => self.header_good = self.hec.octet() == octet,
            _ => self.crc.clock(octet),
        }
        self.at += 1;
    }

    /// Takes a whole cell, an octet a clock.
    pub fn check(octets: &[u8; CELL_OCTETS]) -> Self {
        Self::check_header(octets).check_body(octets)
    }

    /// Takes a cell's header.
    pub fn check_header(octets: &[u8; CELL_OCTETS]) -> Self {
        let mut checker = Checker::default();
        octets[..HEADER_OCTETS].iter().for_each(|octet| checker.clock(*octet));
        checker
    }

    /// Takes the cell's body after its header. The register works for each cell; its value is of use where the body has
    /// a CRC.
    #[must_use]
    pub fn check_body(mut self, octets: &[u8; CELL_OCTETS]) -> Self {
        octets[HEADER_OCTETS..].iter().for_each(|octet| self.clock(*octet));
        self
    }

    /// The CRC-8 agrees. Known after the fifth clock.
    pub const fn header_good(&self) -> bool {
        self.header_good
    }

    /// The CRC-10 agrees, where the body has one. Known after the last clock: the body is in the FIFO by then.
    pub const fn body_good(&self) -> bool {
        self.crc.is_good()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::aal34::{Segment, SegmentType};
    use wire::octets::{Format, emit53};
    use wire::{Cell, CellHeader};

    proptest! {
        #[test]
        fn what_the_framer_makes_octet_by_octet_is_what_the_formats_say_and_the_checker_finds_any_wrong_bit(
            word: u32, body: [u8; 44], sequence in 0u8..16, mid in 0u16..1024, li in 0u8..64, wrong in 0usize..53 * 8,
        ) {
            let word = word & 0x0fff_ffff;
            let segment = Segment { segment_type: SegmentType::Continuation, sequence, mid, li };
            let sealed = segment.emit(&body);
            let expected = emit53(&Cell::new(CellHeader::from_word(word), sealed), Format::Uni);
            let mut open = sealed;
            open[46] &= !3;
            open[47] = 0;
            let mut framer = Framer::new(word, open, true);
            let mut clocks = 0;
            while let Some(octet) = framer.clock() {
                prop_assert_eq!(octet, expected[clocks]);
                clocks += 1;
            }
            prop_assert_eq!(clocks, 53);
            prop_assert_eq!(Framer::new(word, sealed, false).frame(), expected);
            let good = Checker::check(&expected);
            prop_assert!(good.header_good() && good.body_good());
            let mut damaged = expected;
            damaged[wrong / 8] ^= 1 << (wrong % 8);
            let bad = Checker::check(&damaged);
            prop_assert_eq!((bad.header_good(), bad.body_good()), (wrong >= 40, wrong < 40));
        }
    }
}
