//! PPP over ATM (RFC 2364): PPP frames in AAL5 SDUs on one side, the octets of an asynchronous line (RFC 1662), as
//! `pppd` speaks on a pseudo-terminal, on the other. A state machine; [`crate::device::pppd`] is its shell.

use wire::DropReason;
use wire::llc::Protocol;

/// How PPP frames stand in SDUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encapsulation {
    /// VC multiplexing: the frame, from its protocol field on.
    #[default]
    Vc,
    /// LLC: `FE FE 03 CF`, then the same.
    Llc,
}

/// Longest PPP frame, from the protocol field on.
pub const MAX_FRAME_OCTETS: usize = 16_384;
/// Octets on the line of the longest frame: each escaped, flags, address, control and check sequence.
pub const MAX_LINE_OCTETS: usize = 2 * (MAX_FRAME_OCTETS + 4) + 2;

const FLAG: u8 = 0x7e;
const ESCAPE: u8 = 0x7d;
const FLIP: u8 = 0x20;
/// Address and control, which RFC 2364 leaves out.
const ADDRESS_CONTROL: [u8; 2] = [0xff, 0x03];
/// The check sequence of a frame with its check sequence (RFC 1662 appendix C).
const GOOD_FCS: u16 = 0xf0b8;

const FCS_TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut v = i as u16;
        let mut bit = 0;
        while bit < 8 {
            v = if v & 1 == 1 { v >> 1 ^ 0x8408 } else { v >> 1 };
            bit += 1;
        }
        table[i] = v;
        i += 1;
    }
    table
};

fn fcs(octets: &[u8]) -> u16 {
    octets.iter().fold(0xffff, |crc, o| crc >> 8 ^ FCS_TABLE[usize::from(crc as u8 ^ o)])
}

impl Encapsulation {
    const fn head(self) -> usize {
        match self {
            Encapsulation::Vc => 0,
            Encapsulation::Llc => 4,
        }
    }

    /// The PPP frame in an SDU.
    ///
    /// # Errors
    /// Not of this encapsulation, or longer than a line takes.
    pub fn parse(self, sdu: &[u8]) -> Result<&[u8], DropReason> {
        let frame = match self {
            Encapsulation::Vc => sdu,
            Encapsulation::Llc => match Protocol::parse(sdu) {
                Ok((Protocol::Ppp, frame)) => frame,
                _ => return Err(DropReason::Malformed),
            },
        };
        match frame.len() {
            0 => Err(DropReason::Malformed),
            n if n > MAX_FRAME_OCTETS => Err(DropReason::Oversize),
            _ => Ok(frame),
        }
    }
}

/// Writes a PPP frame as octets of the line at the end of `line`.
pub fn to_line(frame: &[u8], line: &mut Vec<u8>) {
    let mut put = |octet: u8| {
        // Control characters are escaped whatever was negotiated: it is always allowed.
        if octet < 0x20 || octet == FLAG || octet == ESCAPE {
            line.extend_from_slice(&[ESCAPE, octet ^ FLIP]);
        } else {
            line.push(octet);
        }
    };
    let mut crc = 0xffff;
    for octet in ADDRESS_CONTROL.iter().chain(frame) {
        crc = crc >> 8 ^ FCS_TABLE[usize::from(crc as u8 ^ octet)];
        put(*octet);
    }
    (!crc).to_le_bytes().into_iter().for_each(put);
    line.push(FLAG);
}

/// The line's octets on their way to frames.
#[derive(Debug)]
pub struct Line {
    frame: Vec<u8>,
    escaped: bool,
    /// The frame has been too long, or aborted: nothing of it counts until the next flag.
    broken: Option<DropReason>,
}

impl Default for Line {
    fn default() -> Self {
        Line { frame: Vec::with_capacity(MAX_FRAME_OCTETS + 4), escaped: false, broken: None }
    }
}

impl Line {
    /// Takes one octet of the line. At the end of a frame, writes its SDU at the start of `sdu` and gives its length.
    ///
    /// # Errors
    /// A frame whose check sequence does not match, too short, too long, or aborted by its sender.
    pub fn push(
        &mut self,
        octet: u8,
        encapsulation: Encapsulation,
        sdu: &mut [u8],
    ) -> Result<Option<usize>, DropReason> {
        match octet {
            FLAG => {
                let result = self.finish(encapsulation, sdu);
                self.frame.clear();
                self.escaped = false;
                self.broken = None;
                return result;
            }
            ESCAPE if !self.escaped => {
                self.escaped = true;
                return Ok(None);
            }
            _ => {}
        }
        let octet = if std::mem::take(&mut self.escaped) { octet ^ FLIP } else { octet };
        if self.frame.len() == MAX_FRAME_OCTETS + 4 {
            self.broken = Some(DropReason::Oversize);
        } else {
            self.frame.push(octet);
        }
        Ok(None)
    }

    fn finish(&self, encapsulation: Encapsulation, sdu: &mut [u8]) -> Result<Option<usize>, DropReason> {
        if self.frame.is_empty() && !self.escaped {
            return Ok(None);
        }
        if let Some(reason) = self.broken {
            return Err(reason);
        }
        if self.escaped {
            return Err(DropReason::Aborted);
        }
        let Some((frame, _)) = self.frame.split_last_chunk::<2>() else { return Err(DropReason::Malformed) };
        if fcs(&self.frame) != GOOD_FCS {
            return Err(DropReason::Crc);
        }
        // Left out if the two ends have agreed so (RFC 1661 section 6.6).
        let frame = frame.strip_prefix(&ADDRESS_CONTROL).unwrap_or(frame);
        let (head, end) = (encapsulation.head(), encapsulation.head() + frame.len());
        if frame.is_empty() {
            return Err(DropReason::Malformed);
        }
        sdu.get_mut(head..end).ok_or(DropReason::Oversize)?.copy_from_slice(frame);
        if encapsulation == Encapsulation::Llc {
            Protocol::Ppp.emit(sdu);
        }
        Ok(Some(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_configure_request_crosses_as_pppd_writes_it() {
        // LCP Configure-Request with an ACCM option, as pppd sends it first.
        let line =
            [0x7e, 0xff, 0x7d, 0x23, 0xc0, 0x21, 0x7d, 0x21, 0x7d, 0x21, 0x7d, 0x20, 0x7d, 0x24, 0xd1, 0xb5, 0x7e];
        let (mut machine, mut sdu, mut got) = (Line::default(), [0; 100], Vec::new());
        for octet in line {
            if let Some(n) = machine.push(octet, Encapsulation::Llc, &mut sdu).unwrap() {
                got.push(sdu[..n].to_vec());
            }
        }
        assert_eq!(got, [[0xfe, 0xfe, 0x03, 0xcf, 0xc0, 0x21, 1, 1, 0, 4]]);
        let mut back = vec![FLAG];
        to_line(Encapsulation::Llc.parse(&got[0]).unwrap(), &mut back);
        assert_eq!(back, line);
    }

    proptest! {
        #[test]
        fn frames_cross_and_damage_is_noticed(frame in proptest::collection::vec(any::<u8>(), 1..2000), damage in proptest::option::of(0usize..2000)) {
            prop_assume!(!frame.starts_with(&ADDRESS_CONTROL));
            for encapsulation in [Encapsulation::Vc, Encapsulation::Llc] {
                let mut line = Vec::new();
                to_line(&frame, &mut line);
                prop_assert!(line.len() <= MAX_LINE_OCTETS);
                let damage = damage.filter(|at| *at < line.len() - 1);
                if let Some(at) = damage {
                    line[at] ^= 0x40;
                }
                let (mut machine, mut sdu) = (Line::default(), vec![0; 3000]);
                let mut got = Vec::new();
                for octet in line {
                    if let Ok(Some(n)) = machine.push(octet, encapsulation, &mut sdu) {
                        got.push(encapsulation.parse(&sdu[..n]).unwrap().to_vec());
                    }
                }
                if damage.is_none() {
                    prop_assert_eq!(got.as_slice(), std::slice::from_ref(&frame));
                } else {
                    prop_assert!(!got.contains(&frame));
                }
            }
        }

        #[test]
        fn no_octets_panic(octets: Vec<u8>) {
            let (mut machine, mut sdu) = (Line::default(), [0; 20]);
            for octet in &octets {
                let _ = machine.push(*octet, Encapsulation::Vc, &mut sdu);
            }
            let _ = Encapsulation::Llc.parse(&octets);
        }
    }

    #[test]
    fn a_frame_without_end_takes_no_more_memory_and_is_counted_once() {
        let (mut machine, mut sdu) = (Line::default(), [0; 20]);
        for _ in 0..3 * MAX_FRAME_OCTETS {
            assert_eq!(machine.push(b'x', Encapsulation::Vc, &mut sdu), Ok(None));
        }
        assert!(machine.frame.capacity() < 2 * MAX_FRAME_OCTETS);
        assert_eq!(machine.push(FLAG, Encapsulation::Vc, &mut sdu), Err(DropReason::Oversize));
        assert_eq!(machine.push(FLAG, Encapsulation::Vc, &mut sdu), Ok(None));
    }
}
