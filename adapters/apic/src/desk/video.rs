//! Parts of video frames, as a camera of a desk-area network sends them: an AAL5 SDU each.
//!
//! A format of Cellway's own. A frame is an image of 8-bit grey values, line by line from the top. It is sent in
//! parts of equal length, in their order; the last may be shorter.
//!
//! | octets | what |
//! |---|---|
//! | 0..4 | `CWV1` |
//! | 4 | 0: the image is the camera's pattern ([`pattern`]); 1: it is from elsewhere |
//! | 5 | zero |
//! | 6..8 | frames in a hundred seconds, so that 25 frames/s are 2500 |
//! | 8..12 | the frame's number |
//! | 12..14 | width |
//! | 14..16 | height |
//! | 16..18 | this part, from 0 |
//! | 18..20 | parts of the frame |
//! | 20..24 | where this part's octets begin in the frame |
//! | 24..32 | when the frame was taken: nanoseconds of the sender's clock |
//! | 32.. | octets of the image |

use wire::Error;

/// Octets before those of the image.
pub const HEAD_OCTETS: usize = 32;
/// Octets of a frame at most.
pub const MAX_FRAME_OCTETS: usize = 1 << 22;

const MARK: [u8; 4] = *b"CWV1";

/// What the head of a part says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Part {
    /// The image is the camera's pattern.
    pub is_pattern: bool,
    /// Frames in a hundred seconds.
    pub rate_centi: u16,
    /// The frame's number.
    pub frame: u32,
    /// Width and height.
    pub size: [u16; 2],
    /// This part, from 0.
    pub part: u16,
    /// Parts of the frame.
    pub parts: u16,
    /// Where its octets begin in the frame.
    pub offset: u32,
    /// When the frame was taken.
    pub taken_nanos: u64,
}

impl Part {
    /// Octets of the whole frame.
    pub fn frame_octets(&self) -> usize {
        usize::from(self.size[0]) * usize::from(self.size[1])
    }

    /// A part and its octets of the image.
    ///
    /// # Errors
    /// It is too short or is none, a number of it is out of bounds, or its octets are beyond the frame.
    pub fn parse(sdu: &[u8]) -> Result<(Part, &[u8]), Error> {
        const WHAT: &str = "part of a video frame";
        let field = |field, value| Error::Field { what: WHAT, field, value };
        let Some((head, octets)) = sdu.split_first_chunk::<HEAD_OCTETS>() else {
            return Err(Error::Truncated { what: WHAT, need: HEAD_OCTETS, got: sdu.len() });
        };
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
        if head[..4] != MARK {
            return Err(field("mark", word(0).into()));
        }
        let part = Part {
            is_pattern: head[4] == 0,
            rate_centi: half(6),
            frame: word(8),
            size: [half(12), half(14)],
            part: half(16),
            parts: half(18),
            offset: word(20),
            taken_nanos: u64::from(word(24)) << 32 | u64::from(word(28)),
        };
        if head[4] > 1 || head[5] != 0 {
            return Err(field("image", half(4).into()));
        }
        if !(1..=MAX_FRAME_OCTETS).contains(&part.frame_octets()) {
            return Err(field("size", part.frame_octets() as u64));
        }
        if part.part >= part.parts {
            return Err(field("part", part.part.into()));
        }
        if octets.is_empty() || part.offset as usize + octets.len() > part.frame_octets() {
            return Err(field("offset", part.offset.into()));
        }
        Ok((part, octets))
    }

    /// The head.
    pub fn emit(&self) -> [u8; HEAD_OCTETS] {
        let mut head = [0; HEAD_OCTETS];
        head[..4].copy_from_slice(&MARK);
        head[4] = u8::from(!self.is_pattern);
        head[6..8].copy_from_slice(&self.rate_centi.to_be_bytes());
        head[8..12].copy_from_slice(&self.frame.to_be_bytes());
        head[12..14].copy_from_slice(&self.size[0].to_be_bytes());
        head[14..16].copy_from_slice(&self.size[1].to_be_bytes());
        head[16..18].copy_from_slice(&self.part.to_be_bytes());
        head[18..20].copy_from_slice(&self.parts.to_be_bytes());
        head[20..24].copy_from_slice(&self.offset.to_be_bytes());
        head[24..].copy_from_slice(&self.taken_nanos.to_be_bytes());
        head
    }
}

/// The grey value of the camera's pattern, which moves from frame to frame.
pub fn pattern(frame: u32, x: usize, y: usize) -> u8 {
    let frame = frame as usize;
    (x.wrapping_add(frame.wrapping_mul(2)) ^ y.wrapping_add(frame)) as u8
}

/// Whether a part's octets of the image are those of the camera's pattern.
pub fn is_pattern(part: &Part, mut octets: &[u8]) -> bool {
    // A frame without width has no octets.
    let width = usize::from(part.size[0]).max(1);
    let (mut x, mut y) = (part.offset as usize % width, part.offset as usize / width);
    while !octets.is_empty() {
        let (line, rest) = octets.split_at(octets.len().min(width - x));
        if !line.iter().zip(x..).all(|(grey, x)| *grey == pattern(part.frame, x, y)) {
            return false;
        }
        (octets, x, y) = (rest, 0, y + 1);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn a_part_is_what_its_octets_say(
            size in (1u16..2000, 1u16..2000), parts in 1u16..400, part in any::<u16>(), octets in 1usize..2000,
            frame: u32, rate_centi: u16, taken_nanos: u64, is_pattern: bool, offset in any::<u32>(),
        ) {
            let frame_octets = u32::from(size.0) * u32::from(size.1);
            let octets = octets.min(frame_octets as usize);
            let offset = offset % (frame_octets - octets as u32 + 1);
            let part = Part {
                is_pattern, rate_centi, frame, size: [size.0, size.1], part: part % parts, parts, offset, taken_nanos,
            };
            let sdu = [&part.emit()[..], &vec![7; octets]].concat();
            prop_assert_eq!(Part::parse(&sdu).unwrap(), (part, &sdu[HEAD_OCTETS..]));
        }

        #[test]
        fn a_part_is_of_the_pattern_if_each_of_its_octets_is(
            size in (1u16..40, 1u16..40), frame: u32, range: (u16, u16), wrong in proptest::option::of(any::<u16>()),
        ) {
            let (width, all) = (usize::from(size.0), usize::from(size.0) * usize::from(size.1));
            let from = usize::from(range.0) % all;
            let to = from + 1 + usize::from(range.1) % (all - from);
            let mut octets: Vec<u8> = (from..to).map(|at| pattern(frame, at % width, at / width)).collect();
            if let Some(at) = wrong {
                octets[usize::from(at) % (to - from)] ^= 1;
            }
            let part = Part { frame, size: [size.0, size.1], offset: from as u32, ..Part::default() };
            prop_assert_eq!(is_pattern(&part, &octets), wrong.is_none());
        }

        #[test]
        fn octets_of_anybody_are_a_part_within_its_frame_or_none(
            mut sdu in proptest::collection::vec(any::<u8>(), 0..80), marked: bool,
        ) {
            if marked && sdu.len() >= 6 {
                sdu[..4].copy_from_slice(&MARK);
                (sdu[4], sdu[5]) = (sdu[4] & 1, 0);
            }
            if let Ok((part, octets)) = Part::parse(&sdu) {
                prop_assert!(part.offset as usize + octets.len() <= part.frame_octets());
                prop_assert!(part.frame_octets() <= MAX_FRAME_OCTETS && part.part < part.parts);
                prop_assert_eq!(&part.emit()[..], &sdu[..HEAD_OCTETS]);
            }
        }
    }

    #[test]
    fn what_is_no_part_is_refused() {
        let part = Part { size: [4, 2], parts: 1, ..Part::default() };
        let sdu = |part: Part, octets: usize| [&part.emit()[..], &vec![0; octets]].concat();
        assert!(Part::parse(&sdu(part, 8)).is_ok());
        assert!(Part::parse(&sdu(part, 9)).is_err() && Part::parse(&sdu(part, 0)).is_err());
        assert!(Part::parse(&sdu(Part { offset: 1, ..part }, 8)).is_err());
        assert!(Part::parse(&sdu(Part { part: 1, ..part }, 8)).is_err());
        assert!(Part::parse(&sdu(Part { size: [0, 2], ..part }, 1)).is_err());
        assert!(Part::parse(&sdu(part, 8)[..31]).is_err());
    }
}
