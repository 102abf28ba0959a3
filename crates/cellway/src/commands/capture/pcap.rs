//! A capture of AAL5 SDUs as pcap, for tcpdump and old tools: with SunATM's head, which names the circuit, or from LLC
//! on without any head (RFC 1483). What is no whole SDU, such as an OAM cell, neither has room for.

use super::assemble::{Passed, Sink};
use anyhow::Result;
use net::Side;
use std::io::Write;
use std::time::Duration;
use wire::CircuitId;
use wire::aal5;
use wire::erf::Kind;
use wire::sunatm::{self, Head};

/// Octets of a packet at most, as the file's head says.
const SNAPLEN: u32 = 1 << 18;

/// What stands before each SDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    SunAtm,
    Rfc1483,
}

impl Form {
    const fn link_type(self) -> u16 {
        match self {
            Form::SunAtm => sunatm::LINKTYPE,
            Form::Rfc1483 => sunatm::LINKTYPE_RFC1483,
        }
    }
}

/// Writes records, with times in microseconds: all tools read these.
pub(crate) struct Pcap<W: Write> {
    out: W,
    form: Form,
}

impl<W: Write> Pcap<W> {
    pub(crate) fn new(mut out: W, form: Form) -> Result<Self> {
        // Version 2.4; two words of zero for the time zone and its accuracy.
        for word in [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, SNAPLEN, u32::from(form.link_type())] {
            out.write_all(&word.to_le_bytes())?;
        }
        Ok(Pcap { out, form })
    }

    /// An SDU of a circuit; false if the form cannot say it.
    pub(crate) fn sdu(&mut self, time: Duration, is_sent: bool, circuit: CircuitId, sdu: &[u8]) -> Result<bool> {
        let head = match self.form {
            Form::SunAtm => Head { is_sent, kind: sunatm::Kind::of(circuit, sdu), circuit }.emit(),
            Form::Rfc1483 if sunatm::begins_with_llc(sdu) => None,
            Form::Rfc1483 => return Ok(false),
        };
        let head = match (&head, self.form) {
            (Some(head), _) => &head[..],
            (None, Form::Rfc1483) => &[],
            // A VPI of the NNI.
            (None, Form::SunAtm) => return Ok(false),
        };
        let octets = (head.len() + sdu.len()) as u32;
        for word in [time.as_secs() as u32, time.subsec_micros(), octets, octets] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.out.write_all(head)?;
        self.out.write_all(sdu)?;
        Ok(true)
    }
}

impl Pcap<Vec<u8>> {
    /// What was written, for who takes it from here.
    pub(crate) fn written(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

impl<W: Write> Sink for Pcap<W> {
    fn write(&mut self, passed: &Passed<'_>) -> Result<bool> {
        let trailer = if passed.kind == Kind::Aal5 { aal5::check(passed.payload).ok() } else { None };
        let Some(trailer) = trailer else { return Ok(false) };
        let sdu = &passed.payload[..trailer.length.into()];
        self.sdu(passed.time, passed.side == Side::A, passed.header.circuit, sdu)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(self.out.flush()?)
    }

    fn finish(&mut self, _: Duration, _: u64) -> Result<()> {
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::pcap::Reader;

    #[test]
    fn sdus_come_back_with_their_circuits_and_what_has_no_room_is_said() {
        let llc = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 0x45];
        let time = Duration::new(5, 7_000);
        let circuits = ["8.35", "256.35"].map(|text| text.parse::<CircuitId>().unwrap());
        for (form, expected) in [(Form::SunAtm, [true, true, false]), (Form::Rfc1483, [true, false, true])] {
            let mut out = Vec::new();
            let mut pcap = Pcap::new(&mut out, form).unwrap();
            let sdus = [(circuits[0], &llc[..]), (circuits[0], b"other"), (circuits[1], &llc)];
            let said = sdus.map(|(circuit, sdu)| pcap.sdu(time, true, circuit, sdu).unwrap());
            assert_eq!(said, expected, "{form:?}");
            let mut reader = Reader::new(&out).unwrap();
            for (_, sdu) in sdus.iter().zip(expected).filter(|(_, said)| *said).map(|(sdu, _)| *sdu) {
                let packet = reader.next_packet().unwrap().unwrap();
                assert_eq!((packet.time, packet.link_type), (Some(time), form.link_type()));
                let got = match form {
                    Form::SunAtm => Head::parse(packet.octets).unwrap().1,
                    Form::Rfc1483 => packet.octets,
                };
                assert_eq!(got, sdu);
            }
            assert_eq!(reader.next_packet().unwrap(), None);
        }
    }
}
