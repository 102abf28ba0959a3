//! Packets of capture files, pcap and pcapng (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng), in either order of
//! octets. In: a whole file. Out: its packets, each with its link type and time, in place.
//!
//! A file comes from anybody. So nothing is allocated by what it says, and nothing is believed before it is checked.

use crate::Error;
use core::time::Duration;

/// Interfaces that a section of a pcapng file may have.
pub const MAX_INTERFACES: usize = 64;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// An interface's option that says what a unit of its times is.
const IF_TSRESOL: u16 = 9;
/// Microseconds, where an interface says nothing.
const MICROSECONDS: u8 = 6;

/// A packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// When it passed, since 1970, where the file says that.
    pub time: Option<Duration>,
    /// pcap's link type.
    pub link_type: u16,
    /// What was captured of it.
    pub octets: &'a [u8],
    /// The octets that it had: more than there are if the capture has cut it.
    pub original_octets: u32,
}

/// What is known of an interface.
#[derive(Debug, Clone, Copy, Default)]
struct Interface {
    link_type: u16,
    resolution: u8,
}

#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "one of these goes through a file, and nothing here allocates")]
enum Form {
    Pcap { nanos: bool, link_type: u16 },
    Pcapng { interfaces: [Interface; MAX_INTERFACES], known: usize },
}

/// Goes through a file.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    is_big_endian: bool,
    form: Form,
}

fn bad(field: &'static str, value: u64) -> Error {
    Error::Field { what: "capture file", field, value }
}

fn u16_at(octets: &[u8], at: usize, is_big_endian: bool) -> Option<u16> {
    let two = *octets.get(at..)?.first_chunk::<2>()?;
    Some(if is_big_endian { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) })
}

fn u32_at(octets: &[u8], at: usize, is_big_endian: bool) -> Option<u32> {
    let four = *octets.get(at..)?.first_chunk::<4>()?;
    Some(if is_big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
}

/// Whether a file's first octets are those of pcap or pcapng.
pub fn is_capture(file: &[u8]) -> bool {
    magic(file).is_some()
}

/// Order of octets, and for pcap whether its times have nanoseconds.
fn magic(file: &[u8]) -> Option<(bool, Option<bool>)> {
    match *file.first_chunk::<4>()? {
        [0x0a, 0x0d, 0x0d, 0x0a] => match *file.get(8..)?.first_chunk::<4>()? {
            [0x1a, 0x2b, 0x3c, 0x4d] => Some((true, None)),
            [0x4d, 0x3c, 0x2b, 0x1a] => Some((false, None)),
            _ => None,
        },
        [0xa1, 0xb2, 0xc3, 0xd4] => Some((true, Some(false))),
        [0xd4, 0xc3, 0xb2, 0xa1] => Some((false, Some(false))),
        [0xa1, 0xb2, 0x3c, 0x4d] => Some((true, Some(true))),
        [0x4d, 0x3c, 0xb2, 0xa1] => Some((false, Some(true))),
        _ => None,
    }
}

impl<'a> Reader<'a> {
    /// Begins with a whole file.
    ///
    /// # Errors
    /// It is neither pcap nor pcapng, or has no whole head.
    pub fn new(file: &'a [u8]) -> Result<Self, Error> {
        const HEAD_OCTETS: usize = 24;
        let truncated = Error::Truncated { what: "capture file", need: HEAD_OCTETS, got: file.len() };
        let (is_big_endian, nanos) = magic(file).ok_or_else(|| match u32_at(file, 0, true) {
            Some(first) => bad("magic number", first.into()),
            None => truncated,
        })?;
        let Some(nanos) = nanos else {
            let form = Form::Pcapng { interfaces: [Interface::default(); MAX_INTERFACES], known: 0 };
            return Ok(Reader { rest: file, is_big_endian, form });
        };
        let link_type = u32_at(file, 20, is_big_endian).ok_or(truncated)? as u16;
        Ok(Reader { rest: &file[HEAD_OCTETS..], is_big_endian, form: Form::Pcap { nanos, link_type } })
    }

    fn u16(&self, octets: &[u8], at: usize) -> Result<u16, Error> {
        u16_at(octets, at, self.is_big_endian).ok_or(bad("octets of a block", octets.len() as u64))
    }

    fn u32(&self, octets: &[u8], at: usize) -> Result<u32, Error> {
        u32_at(octets, at, self.is_big_endian).ok_or(bad("octets of a block", octets.len() as u64))
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// The file is cut off, or contradicts itself.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'a>>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        match self.form {
            Form::Pcap { nanos, link_type } => self.next_record(nanos, link_type).map(Some),
            Form::Pcapng { .. } => self.next_of_blocks(),
        }
    }

    fn next_record(&mut self, nanos: bool, link_type: u16) -> Result<Packet<'a>, Error> {
        const HEAD_OCTETS: usize = 16;
        let word = |at| self.u32(self.rest, at);
        let (seconds, fraction, captured, original_octets) = (word(0)?, word(4)?, word(8)?, word(12)?);
        let octets =
            self.rest[HEAD_OCTETS..].get(..captured as usize).ok_or(bad("captured length", captured.into()))?;
        self.rest = &self.rest[HEAD_OCTETS + octets.len()..];
        let nanos = if nanos { u64::from(fraction) } else { u64::from(fraction) * 1000 };
        let time = Some(Duration::from_secs(seconds.into()) + Duration::from_nanos(nanos));
        Ok(Packet { time, link_type, octets, original_octets })
    }

    fn next_of_blocks(&mut self) -> Result<Option<Packet<'a>>, Error> {
        while !self.rest.is_empty() {
            if self.rest.first_chunk() == Some(&SECTION.to_be_bytes()) {
                let (is_big_endian, _) = magic(self.rest).ok_or(bad("order of octets of a section", 0))?;
                self.is_big_endian = is_big_endian;
            }
            let kind = self.u32(self.rest, 0)?;
            let length = self.u32(self.rest, 4)?;
            let whole = self.rest.get(..length as usize).filter(|_| length >= 12 && length % 4 == 0);
            let whole = whole.ok_or(bad("block length", length.into()))?;
            let again = self.u32(whole, whole.len() - 4)?;
            if again != length {
                return Err(bad("block length at its end", again.into()));
            }
            self.rest = &self.rest[whole.len()..];
            if let Some(packet) = self.take_block(kind, &whole[8..whole.len() - 4])? {
                return Ok(Some(packet));
            }
        }
        Ok(None)
    }

    fn take_block(&mut self, kind: u32, body: &'a [u8]) -> Result<Option<Packet<'a>>, Error> {
        let interface = if kind == INTERFACE { Some(self.interface(body)?) } else { None };
        let Form::Pcapng { interfaces, known } = &mut self.form else { return Ok(None) };
        match (kind, interface) {
            (SECTION, _) => *known = 0,
            (_, Some(interface)) => {
                *interfaces.get_mut(*known).ok_or(bad("number of an interface", *known as u64))? = interface;
                *known += 1;
            }
            _ => {}
        }
        match kind {
            ENHANCED_PACKET => self.enhanced_packet(body).map(Some),
            SIMPLE_PACKET => self.simple_packet(body).map(Some),
            _ => Ok(None),
        }
    }

    fn interface(&self, body: &[u8]) -> Result<Interface, Error> {
        let mut interface = Interface { link_type: self.u16(body, 0)?, resolution: MICROSECONDS };
        let mut options = body.get(8..).ok_or(bad("octets of an interface", body.len() as u64))?;
        while let (Some(code), Some(length)) =
            (u16_at(options, 0, self.is_big_endian), u16_at(options, 2, self.is_big_endian))
        {
            let Some(value) = options.get(4..4 + usize::from(length)).filter(|_| code != 0) else { break };
            if let (IF_TSRESOL, [resolution]) = (code, value) {
                interface.resolution = *resolution;
            }
            options = options.get(4 + usize::from(length).next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(interface)
    }

    fn of_interface(&self, number: u32) -> Result<Interface, Error> {
        let Form::Pcapng { interfaces, known } = &self.form else { return Err(bad("form", 0)) };
        let found = interfaces[..*known].get(number as usize);
        found.copied().ok_or(bad("number of an interface", number.into()))
    }

    fn enhanced_packet(&self, body: &'a [u8]) -> Result<Packet<'a>, Error> {
        let interface = self.of_interface(self.u32(body, 0)?)?;
        let units = u64::from(self.u32(body, 4)?) << 32 | u64::from(self.u32(body, 8)?);
        let (captured, original_octets) = (self.u32(body, 12)?, self.u32(body, 16)?);
        let octets = body[20..].get(..captured as usize).ok_or(bad("captured length", captured.into()))?;
        let time = duration(units, interface.resolution);
        Ok(Packet { time, link_type: interface.link_type, octets, original_octets })
    }

    fn simple_packet(&self, body: &'a [u8]) -> Result<Packet<'a>, Error> {
        let original_octets = self.u32(body, 0)?;
        // Without a captured length the packet ends where it ended, or where the block does.
        let octets = &body[4..];
        let octets = octets.get(..original_octets as usize).unwrap_or(octets);
        Ok(Packet { time: None, link_type: self.of_interface(0)?.link_type, octets, original_octets })
    }
}

/// So many units of an interface's time; `None` for a resolution or time that no clock has.
fn duration(units: u64, resolution: u8) -> Option<Duration> {
    let exponent = u32::from(resolution & 0x7f);
    let in_second = if resolution & 0x80 == 0 { 10u128.checked_pow(exponent)? } else { 1u128.checked_shl(exponent)? };
    let (units, nanos) = (u128::from(units), 1_000_000_000u128);
    let fraction = (units % in_second).checked_mul(nanos)? / in_second;
    Some(Duration::new(u64::try_from(units / in_second).ok()?, fraction as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// A file's numbers in one order of octets.
    struct Writer(bool, Vec<u8>);

    impl Writer {
        fn u16(&mut self, n: u16) {
            self.1.extend(if self.0 { n.to_be_bytes() } else { n.to_le_bytes() });
        }
        fn u32(&mut self, n: u32) {
            self.1.extend(if self.0 { n.to_be_bytes() } else { n.to_le_bytes() });
        }
        fn block(&mut self, kind: u32, body: impl FnOnce(&mut Writer)) {
            let mut inner = Writer(self.0, Vec::new());
            body(&mut inner);
            inner.1.resize(inner.1.len().next_multiple_of(4), 0);
            self.u32(kind);
            self.u32(inner.1.len() as u32 + 12);
            self.1.extend(&inner.1);
            self.u32(inner.1.len() as u32 + 12);
        }
    }

    fn pcap(big: bool, nanos: bool, link_type: u16, packets: &[(Duration, Vec<u8>)]) -> Vec<u8> {
        let mut w = Writer(big, Vec::new());
        w.u32(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 });
        (0..4).for_each(|_| w.u32(0));
        w.u32(link_type.into());
        for (time, octets) in packets {
            w.u32(time.as_secs() as u32);
            w.u32(if nanos { time.subsec_nanos() } else { time.subsec_micros() });
            (0..2).for_each(|_| w.u32(octets.len() as u32));
            w.1.extend(octets);
        }
        w.1
    }

    fn pcapng(big: bool, link_types: &[u16], packets: &[(Duration, Vec<u8>)]) -> Vec<u8> {
        let mut w = Writer(big, Vec::new());
        w.block(SECTION, |w| {
            w.u32(0x1a2b_3c4d);
            (0..3).for_each(|_| w.u32(0));
        });
        for link_type in link_types {
            w.block(INTERFACE, |w| {
                w.u16(*link_type);
                (0..3).for_each(|_| w.u16(0));
                w.u16(IF_TSRESOL);
                w.u16(1);
                w.1.extend([9, 0, 0, 0]);
                w.u32(0);
            });
        }
        // A block that nobody here knows.
        w.block(0x0bad, |w| w.u32(7));
        for (n, (time, octets)) in packets.iter().enumerate() {
            w.block(ENHANCED_PACKET, |w| {
                let nanos = time.as_nanos() as u64;
                w.u32((n % link_types.len()) as u32);
                w.u32((nanos >> 32) as u32);
                w.u32(nanos as u32);
                (0..2).for_each(|_| w.u32(octets.len() as u32));
                w.1.extend(octets);
            });
        }
        w.1
    }

    /// Time, link type and octets.
    type Read = (Option<Duration>, u16, Vec<u8>);

    fn all(file: &[u8]) -> Result<Vec<Read>, Error> {
        let mut reader = Reader::new(file)?;
        let mut all = Vec::new();
        while let Some(packet) = reader.next_packet()? {
            all.push((packet.time, packet.link_type, packet.octets.to_vec()));
        }
        Ok(all)
    }

    #[test]
    fn a_simple_packet_ends_where_it_ended_or_where_its_block_does() {
        let mut file = Writer(false, pcapng(false, &[197], &[]));
        for original in [3, 4, 9000] {
            file.block(SIMPLE_PACKET, |w| {
                w.u32(original);
                w.1.extend([1, 2, 3, 4]);
            });
        }
        let lengths: Vec<_> = all(&file.1).unwrap().iter().map(|(_, _, octets)| octets.len()).collect();
        assert_eq!(lengths, [3, 4, 4]);
    }

    #[test]
    fn a_file_that_is_cut_off_or_no_capture_is_refused() {
        let packets = [(Duration::from_secs(1), std::vec![7; 20])];
        for file in [pcap(false, false, 123, &packets), pcapng(true, &[123], &packets)] {
            assert!(is_capture(&file) && all(&file).is_ok());
            for end in [1, 4, 11, file.len() - 1, file.len() - 20] {
                assert!(all(&file[..end]).is_err(), "{end}");
            }
        }
        assert!(Reader::new(b"").is_err() && Reader::new(b"GIF89a").is_err() && !is_capture(b"\n\r\r\nabcdefgh"));
        let many = std::vec![1; MAX_INTERFACES + 1];
        assert!(all(&pcapng(false, &many[1..], &[])).is_ok() && all(&pcapng(false, &many, &[])).is_err());
    }

    proptest! {
        #[test]
        fn packets_of_either_form_are_read_in_either_order(
            big: bool, form in 0..3, link_types in proptest::collection::vec(any::<u16>(), 1..4),
            packets in proptest::collection::vec((any::<u32>(), 0u32..1_000_000_000, proptest::collection::vec(any::<u8>(), 0..40)), 0..8)
        ) {
            let packets: Vec<_> = packets.into_iter()
                .map(|(secs, nanos, octets)| (Duration::new(secs.into(), if form == 1 { nanos / 1000 * 1000 } else { nanos }), octets))
                .collect();
            let file = match form {
                0 => pcap(big, true, link_types[0], &packets),
                1 => pcap(big, false, link_types[0], &packets),
                _ => pcapng(big, &link_types, &packets),
            };
            let expected: Vec<_> = packets.iter().enumerate().map(|(n, (time, octets))| {
                let link_type = if form == 2 { link_types[n % link_types.len()] } else { link_types[0] };
                (Some(*time), link_type, octets.clone())
            }).collect();
            prop_assert_eq!(all(&file).unwrap(), expected);
        }

        #[test]
        fn no_octets_panic(octets: Vec<u8>, big: bool, at in 0usize..300, bits: u8) {
            let _ = all(&octets);
            let mut file = pcapng(big, &[197, 123], &[(Duration::from_secs(5), octets.clone()), (Duration::MAX, octets)]);
            let at = at % file.len();
            file[at] ^= bits;
            let _ = all(&file);
        }

        #[test]
        fn no_time_panics(units: u64, resolution: u8) {
            let _ = duration(units, resolution);
        }
    }
}
