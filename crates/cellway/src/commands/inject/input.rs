//! What is to be sent, from text or a capture. A line of hexadecimal digits is what `--aal` says; one that begins with
//! `{` is JSON and says it itself; empty lines and those that begin with `#` are for people.

use super::cells::{Content, Unit, Wrong};
use super::{Aal, Oam};
use crate::recorded::{self, What};
use anyhow::{Context as _, Result, anyhow, bail};
use clap::ValueEnum;
use serde::Deserialize;
use serde::de::IgnoredAny;
use wire::octets::{CELL52_OCTETS, Format, parse52};

/// How digits are read that say nothing of themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) aal: Aal,
}

/// A JSON line. What `receive --format jsonl` writes can be read.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Line {
    circuit: Option<String>,
    sdu: Option<String>,
    pdu: Option<String>,
    cell: Option<String>,
    oam: Option<String>,
    segment: bool,
    aal: Option<String>,
    pti: Option<u8>,
    clp: bool,
    congestion: bool,
    uu: Option<u8>,
    cpi: Option<u8>,
    bad_hec: Option<u8>,
    bad_crc: bool,
    /// Of a PDU that was received.
    #[serde(rename = "octets")]
    _octets: Option<IgnoredAny>,
    #[serde(rename = "unix_seconds")]
    _unix_seconds: Option<IgnoredAny>,
}

impl Reading {
    /// All that a file has.
    ///
    /// # Errors
    /// The line that cannot be read, or the capture.
    pub(super) fn file(self, file: &[u8]) -> Result<Vec<Unit>> {
        match std::str::from_utf8(file) {
            Ok(text) if !wire::pcap::is_capture(file) && !text.contains('\0') => self.lines(text),
            _ => captured(file),
        }
    }

    fn lines(self, text: &str) -> Result<Vec<Unit>> {
        let mut units = Vec::new();
        for (n, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                units.push(self.line(line).with_context(|| format!("line {}", n + 1))?);
            }
        }
        Ok(units)
    }

    /// One line.
    ///
    /// # Errors
    /// It is neither digits nor JSON, or of an impossible length.
    pub(super) fn line(self, line: &str) -> Result<Unit> {
        if line.starts_with('{') { json(line) } else { Ok(content(&octets(line)?, self.aal)?.into()) }
    }
}

/// The octets that digits write, with blanks and colons where they help.
fn octets(digits: &str) -> Result<Vec<u8>> {
    let digits: Vec<char> = digits.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    let nibbles = digits.iter().map(|c| c.to_digit(16).map(|n| n as u8).ok_or(*c)).collect::<Result<Vec<_>, _>>();
    let nibbles = nibbles.map_err(|c| anyhow!("`{c}` is no hexadecimal digit"))?;
    let (pairs, []) = nibbles.as_chunks::<2>() else {
        bail!("{} digits: an octet has two", nibbles.len());
    };
    if pairs.is_empty() {
        bail!("no digits: write two for each octet");
    }
    Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

fn content(octets: &[u8], aal: Aal) -> Result<Content> {
    Ok(match aal {
        Aal::Aal5 => Content::Sdu(octets.to_vec()),
        Aal::Aal34 => Content::Sdu34(octets.to_vec()),
        Aal::Pdu => Content::Pdu(octets.to_vec()),
        Aal::Aal0 => match *octets {
            _ if octets.len() == CELL52_OCTETS => Content::Cell(parse52(octets, Format::Nni)?),
            _ => match (<[u8; 48]>::try_from(octets), <[u8; 53]>::try_from(octets)) {
                (Ok(payload), _) => Content::Payload(payload),
                (_, Ok(whole)) => Content::Whole(whole),
                _ => bail!("a cell is a payload of 48 octets, or 52 or 53 with its header, and not {}", octets.len()),
            },
        },
    })
}

fn json(line: &str) -> Result<Unit> {
    let line: Line = serde_json::from_str(line)?;
    let aal = line.aal.as_deref().map(|aal| Aal::from_str(aal, true).map_err(|e| anyhow!("aal: {e}"))).transpose()?;
    let content = match (&line.sdu, &line.pdu, &line.cell, &line.oam) {
        (Some(sdu), None, None, None) => content(&octets(sdu).context("sdu")?, aal.unwrap_or_default())?,
        (None, Some(pdu), None, None) => content(&octets(pdu).context("pdu")?, Aal::Pdu)?,
        (None, None, Some(cell), None) => content(&octets(cell).context("cell")?, Aal::Aal0)?,
        (None, None, None, Some(oam)) => {
            let oam = Oam::from_str(oam, true).map_err(|e| anyhow!("oam: {e}"))?;
            Content::Oam { oam, segment: line.segment }
        }
        _ => bail!("a line has one of `sdu`, `pdu`, `cell` and `oam`"),
    };
    if line.pti.is_some_and(|pti| pti > 7) || line.bad_hec.is_some_and(|bits| bits > 2) {
        bail!("`pti` is 0 to 7, and `bad_hec` 0 to 2");
    }
    let circuit = line.circuit.map(|circuit| circuit.parse().with_context(|| format!("circuit \"{circuit}\"")));
    let wrong = Wrong {
        pti: line.pti,
        clp: line.clp,
        bad_hec: line.bad_hec,
        bad_crc: line.bad_crc,
        uu: line.uu,
        cpi: line.cpi,
    };
    Ok(Unit { circuit: circuit.transpose()?, content, wrong, congestion: line.congestion })
}

/// A capture's cells, SDUs and damaged PDUs, on their circuits.
fn captured(file: &[u8]) -> Result<Vec<Unit>> {
    let traffic = recorded::read(file)?;
    let unit = |unit: &recorded::Unit<'_>| {
        let content = match &unit.what {
            What::Sdu(sdu) => Content::Sdu(sdu.to_vec()),
            What::DamagedPdu(pdu) => Content::Pdu(pdu.to_vec()),
            What::Cell(cell) => Content::Cell(*cell),
        };
        Unit { circuit: unit.circuit, ..content.into() }
    };
    Ok(traffic.units.iter().map(unit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(aal: Aal, text: &str) -> Result<Vec<Unit>> {
        Reading { aal }.file(text.as_bytes())
    }

    #[test]
    fn digits_are_what_the_layer_says() {
        let payload = "5a".repeat(48);
        for (aal, digits, expected) in [
            (Aal::Aal5, "68:65 6c6c6f", Content::Sdu(b"hello".to_vec())),
            (Aal::Aal34, "68", Content::Sdu34(vec![0x68])),
            (Aal::Pdu, &payload, Content::Pdu(vec![0x5a; 48])),
            (Aal::Aal0, &payload, Content::Payload([0x5a; 48])),
        ] {
            assert_eq!(read(aal, &format!("# a line for people\n\n{digits}\n")).unwrap(), [Unit::from(expected)]);
        }
        let whole = "5a".repeat(53);
        assert!(matches!(read(Aal::Aal0, &whole).unwrap()[0].content, Content::Whole(_)));
        assert!(matches!(read(Aal::Aal0, &whole[2..]).unwrap()[0].content, Content::Cell(_)));
        for bad in ["5", "5g", "5a".repeat(49).as_str()] {
            let says = format!("{:#}", read(Aal::Aal0, bad).unwrap_err());
            assert!(says.starts_with("line 1: "), "{says}");
        }
    }

    #[test]
    fn a_json_line_says_all_of_itself_and_what_was_received_can_be_sent() {
        let line = r#"{"circuit":"8.35","unix_seconds":1.5,"octets":5,"uu":7,"clp":true,"congestion":false,"sdu":"68656c6c6f"}"#;
        let unit = &read(Aal::Aal5, line).unwrap()[0];
        assert_eq!((unit.circuit, unit.wrong.uu, unit.wrong.clp), (Some("8.35".parse().unwrap()), Some(7), true));
        assert_eq!(unit.content, Content::Sdu(b"hello".to_vec()));
        let wrong = &read(Aal::Aal5, r#"{"oam":"ais","segment":true,"bad_crc":true,"bad_hec":1}"#).unwrap()[0];
        assert_eq!(wrong.content, Content::Oam { oam: Oam::Ais, segment: true });
        assert_eq!((wrong.wrong.bad_crc, wrong.wrong.bad_hec), (true, Some(1)));
        for (bad, says) in [
            (r#"{"sdu":"00","cell":"00"}"#, "one of"),
            (r#"{"sud":"00"}"#, "sud"),
            (r#"{"sdu":"00","pti":8}"#, "0 to 7"),
            (r#"{"sdu":"00","circuit":"x"}"#, "circuit \"x\""),
            (r#"{"oam":"alarm"}"#, "oam"),
        ] {
            let error = format!("{:#}", read(Aal::Aal5, bad).unwrap_err());
            assert!(error.contains(says), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_file_panics(octets: Vec<u8>, text: String, line in "\\{\"(sdu|pdu|cell|oam|circuit|pti)\":\"?[0-9a-f.]{0,12}\"?\\}") {
            for aal in [Aal::Aal5, Aal::Aal34, Aal::Aal0, Aal::Pdu] {
                let reading = Reading { aal };
                let _ = reading.file(&octets);
                let _ = reading.file(text.as_bytes());
                let _ = reading.file(line.as_bytes());
            }
        }

        #[test]
        fn digits_written_are_the_octets_read(octets in proptest::collection::vec(any::<u8>(), 1..100)) {
            let text: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
            prop_assert_eq!(read(Aal::Aal5, &text).unwrap(), [Unit::from(Content::Sdu(octets))]);
        }
    }
}
