//! How `receive` writes single PDUs: their octets one after the other, a line for each in JSON or hexadecimal digits, or
//! a capture.

use crate::commands::capture::pcap::{Form as PcapForm, Pcap};
use anyhow::{Result, bail};
use clap::ValueEnum;
use control::results::ReceivedPdu;
use endpoint::Received;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::CircuitId;

/// How single PDUs are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Their octets, without anything between two of them.
    #[default]
    Raw,
    /// A line of JSON for each, with what AAL5 says beside it; `cellway inject` reads such lines.
    Jsonl,
    /// A line of hexadecimal digits for each.
    Hex,
    /// A capture with SunATM's head, for tcpdump, tshark and `cellway replay`.
    Pcap,
}

/// Writes them.
pub(super) struct Pdus {
    form: Form,
    /// The circuit, or the address of a call.
    name: String,
    circuit: CircuitId,
    /// A capture's octets that are still to be written. It begins with the first PDU: until then a file keeps what is in
    /// it.
    pcap: Option<Pcap<Vec<u8>>>,
}

impl Pdus {
    /// Of a circuit; of a call, whose circuit is the network's, 0.0 stands in a capture.
    pub(super) fn new(form: Form, name: String, circuit: Option<CircuitId>) -> Self {
        Pdus { form, name, circuit: circuit.unwrap_or_default(), pcap: None }
    }

    pub(super) fn write(&mut self, to: &mut impl Write, pdu: &Received<'_>) -> Result<()> {
        let said = Said { uu: pdu.uu(), clp: pdu.clp(), congestion: pdu.congestion(), time: now() };
        self.write_sdu(to, pdu, said)
    }

    fn write_sdu(&mut self, to: &mut impl Write, sdu: &[u8], said: Said) -> Result<()> {
        match self.form {
            Form::Raw => to.write_all(sdu)?,
            Form::Hex => writeln!(to, "{}", digits(sdu))?,
            Form::Jsonl => {
                serde_json::to_writer(&mut *to, &self.line(sdu, said))?;
                writeln!(to)?;
            }
            Form::Pcap => self.write_packet(to, sdu, said)?,
        }
        Ok(())
    }

    fn line(&self, sdu: &[u8], said: Said) -> ReceivedPdu {
        let Said { uu, clp, congestion, time } = said;
        let octets = sdu.len() as u64;
        let (circuit, sdu) = (self.name.clone(), digits(sdu));
        ReceivedPdu { circuit, unix_seconds: time.as_secs_f64(), octets, uu, clp, congestion, sdu }
    }

    fn write_packet(&mut self, to: &mut impl Write, sdu: &[u8], said: Said) -> Result<()> {
        let circuit = self.circuit;
        if self.pcap.is_none() {
            self.pcap = Some(Pcap::new(Vec::new(), PcapForm::SunAtm)?);
        }
        let Some(pcap) = &mut self.pcap else { return Ok(()) };
        // It was received: the bit for what the host sends is not set.
        if !pcap.sdu(said.time, false, circuit, sdu)? {
            bail!("circuit {circuit}: SunATM has no room for a VPI beyond 255; use --format jsonl");
        }
        to.write_all(pcap.written())?;
        pcap.written().clear();
        Ok(())
    }
}

/// What stands beside an SDU.
#[derive(Debug, Clone, Copy)]
struct Said {
    uu: u8,
    clp: bool,
    congestion: bool,
    time: Duration,
}

/// A clock before 1970 counts as 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn digits(octets: &[u8]) -> String {
    use std::fmt::Write as _;
    octets.iter().fold(String::with_capacity(octets.len() * 2), |mut text, octet| {
        // Writing to a string does not fail.
        let _ = write!(text, "{octet:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(form: Form, sdus: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut pdus = Pdus::new(form, "8.35".to_owned(), Some("8.35".parse().unwrap()));
        let said = Said { uu: 7, clp: true, congestion: false, time: Duration::from_secs(5) };
        sdus.iter().for_each(|sdu| pdus.write_sdu(&mut out, sdu, said).unwrap());
        out
    }

    #[test]
    fn each_form_has_each_pdu() {
        let sdus = [&b"hello"[..], &[0, 255]];
        assert_eq!(written(Form::Raw, &sdus), b"hello\x00\xff");
        assert_eq!(written(Form::Hex, &sdus), b"68656c6c6f\n00ff\n");
        let lines = String::from_utf8(written(Form::Jsonl, &sdus)).unwrap();
        let lines: Vec<ReceivedPdu> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.iter().map(|pdu| &*pdu.sdu).collect::<Vec<_>>(), ["68656c6c6f", "00ff"]);
        assert!(lines.iter().all(|pdu| (&*pdu.circuit, pdu.uu, pdu.clp, pdu.unix_seconds) == ("8.35", 7, true, 5.0)));
        let pcap = written(Form::Pcap, &sdus);
        let mut reader = wire::pcap::Reader::new(&pcap).unwrap();
        for sdu in sdus {
            let packet = reader.next_packet().unwrap().unwrap();
            let (head, got) = wire::sunatm::Head::parse(packet.octets).unwrap();
            assert_eq!((head.circuit.to_string().as_str(), head.is_sent, got), ("8.35", false, sdu));
        }
        assert_eq!(reader.next_packet().unwrap(), None);
        assert_eq!(written(Form::Pcap, &[]), b"", "without a PDU nothing is begun");
    }
}
