//! `cellway capture`: what passes on a link, as pcapng with one ERF interface: cells as type 3, PDUs as type 4; or as a recording
//! of Linux's `atmtcp` ([`crate::recording`]).

use crate::Context;
use crate::client::{goes_on, interrupted};
use crate::manage::Request;
use crate::recording::Recording;
use anyhow::{Context as _, Result, anyhow};
use clap::{Args, ValueEnum};
use net::{Side, TapBuffer};
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wire::erf::{Head, Kind, LINKTYPE};
use wire::{Cell, CellHeader, CircuitId, PayloadType};

/// A PDU whose end does not come is written no further than this.
const MAX_PDU_OCTETS: usize = 65_535 + 8 + 48;

/// Records what passes on a link, for tshark or Wireshark: `cellway capture "alpha:0 - s1:0" - | tshark -r -`
#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// The link's name, as `cellway link list` shows it
    link: String,
    /// The file, or - for standard output
    file: PathBuf,
    /// Only these circuits, as the link names them
    #[arg(long)]
    circuit: Vec<CircuitId>,
    /// Whole AAL5 PDUs (and OAM cells), or every cell
    #[arg(long, value_enum, default_value_t = What::Pdus)]
    what: What,
    /// pcapng, for tshark and Wireshark, or a recording as `atmtcp write` makes it: stream 0 is what the link's first end sent
    #[arg(long, value_enum, default_value_t = Format::Pcapng)]
    format: Format,
    /// End after so many seconds
    #[arg(long)]
    seconds: Option<f64>,
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Reassembled AAL5 PDUs, whole with padding and trailer; OAM and unknown cells as they are. For AAL0 and AAL3/4 on cell links ask for cells.
    Pdus,
    /// Cells as they are.
    Cells,
}

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// pcapng with ERF records.
    Pcapng,
    /// A recording file of linux-atm's `atmtcp`.
    Atmtcp,
}

/// Where records go.
pub(crate) trait Records {
    /// Takes an answer to `CaptureRead`.
    fn take(&mut self, answer: &Value) -> Result<()>;
    fn flush(&mut self) -> Result<()>;
    /// Records written, and what passed and this form cannot say.
    fn written(&self) -> (u64, u64);
}

/// What a tap holds, for the answer to `CaptureRead`: time, side, and octets in hexadecimal digits.
pub(crate) fn to_json(buffer: &TapBuffer) -> Value {
    let hex = |octets: &[u8]| {
        octets.iter().fold(String::with_capacity(octets.len() * 2), |mut s, b| {
            for digit in [b >> 4, b & 15] {
                s.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
            }
            s
        })
    };
    let records: Vec<Value> = buffer
        .records()
        .map(|r| {
            let side = u8::from(r.from == Side::B);
            let at = r.at.as_nanos();
            match r.what {
                net::tap::Tapped::Cell(cell) => json!([at, side, "cell", hex(&wire::octets::emit52(&cell))]),
                net::tap::Tapped::Frame { circuit, aal, meta, octets } => {
                    let kind = match aal {
                        net::Aal::Aal0 => "cell",
                        net::Aal::Aal5 => "sdu",
                        net::Aal::Aal34 => "sdu34",
                    };
                    json!([at, side, kind, hex(octets), circuit.to_string(), meta.uu])
                }
            }
        })
        .collect();
    json!({ "records": records, "dropped": buffer.dropped() })
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let value = |d: u8| (d as char).to_digit(16).map(|v| v as u8);
    digits.as_chunks::<2>().0.iter().map(|[a, b]| Some(value(*a)? << 4 | value(*b)?)).collect()
}

/// Writes records; reassembles PDUs where asked for.
pub(crate) struct Recorder<W: Write> {
    out: PcapNgWriter<W>,
    what: What,
    epoch: Duration,
    partial: HashMap<(u64, u32), Vec<u8>>,
    records: u64,
}

impl<W: Write> Recorder<W> {
    pub(crate) fn new(out: W, link: &str, what: What, epoch: Duration) -> Result<Self> {
        let mut out = PcapNgWriter::new(out)?;
        out.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::Unknown(u32::from(LINKTYPE)),
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(link.to_owned())),
                InterfaceDescriptionOption::IfTsResol(9),
            ],
        })?;
        Ok(Recorder { out, what, epoch, partial: HashMap::new(), records: 0 })
    }

    fn write(&mut self, at: Duration, side: u64, kind: Kind, header: CellHeader, payload: &[u8]) -> Result<()> {
        let time = self.epoch + at;
        let payload = &payload[..payload.len().min(65_000)];
        let head = Head { time, kind, interface: side as u8, header, payload_octets: payload.len() as u16 };
        let mut data = head.emit().to_vec();
        data.extend_from_slice(payload);
        self.out.write_pcapng_block(EnhancedPacketBlock {
            interface_id: 0,
            timestamp: time,
            original_len: data.len() as u32,
            data: Cow::Owned(data),
            options: Vec::new(),
        })?;
        self.records += 1;
        Ok(())
    }

    fn cell(&mut self, at: Duration, side: u64, cell: &Cell) -> Result<()> {
        let header = cell.header();
        let is_oam = wire::oam::Flow::of(header).is_some();
        let PayloadType::User { end, .. } = header.payload_type else {
            return self.write(at, side, Kind::Cell, header, &cell.payload);
        };
        if self.what == What::Cells || is_oam {
            return self.write(at, side, Kind::Cell, header, &cell.payload);
        }
        let key = (side, header.circuit.key());
        let pdu = self.partial.entry(key).or_default();
        if pdu.len() < MAX_PDU_OCTETS {
            pdu.extend_from_slice(&cell.payload);
        }
        if end {
            let pdu = std::mem::take(pdu);
            self.write(at, side, Kind::Aal5, header, &pdu)?;
        }
        Ok(())
    }
}

impl<W: Write> Records for Recorder<W> {
    fn take(&mut self, answer: &Value) -> Result<()> {
        for record in answer["records"].as_array().into_iter().flatten() {
            let at = Duration::from_nanos(record[0].as_u64().unwrap_or_default());
            let side = record[1].as_u64().unwrap_or_default();
            let octets = record[3]
                .as_str()
                .and_then(unhex)
                .ok_or_else(|| anyhow!("the service sent a record without octets"))?;
            if record[2] == "cell" {
                if let Ok(cell) = wire::octets::parse52(&octets, wire::octets::Format::Nni) {
                    self.cell(at, side, &cell)?;
                }
                continue;
            }
            // A whole SDU of a frame link: its cells are made here, so that the record is the PDU that they would be.
            let circuit = record[4].as_str().unwrap_or_default().parse()?;
            let meta = sar::SduMeta { uu: record[5].as_u64().unwrap_or_default() as u8, ..sar::SduMeta::default() };
            if record[2] == "sdu34" {
                // ERF has no record for such a PDU.
                let mut segmentation = sar::aal34::Sender::new(circuit, 0)?.begin(octets.len(), meta)?;
                let mut cells = vec![Cell::default(); segmentation.cells_left()];
                segmentation.fill(&octets, &mut cells);
                for cell in &cells {
                    self.write(at, side, Kind::Cell, cell.header(), &cell.payload)?;
                }
                continue;
            }
            let mut segmentation = sar::Segmentation::new(circuit, octets.len(), meta)?;
            let mut cells = vec![Cell::default(); segmentation.cells_left()];
            segmentation.fill(&octets, &mut cells);
            for cell in &cells {
                self.cell(at, side, cell)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(self.out.get_mut().flush()?)
    }

    fn written(&self) -> (u64, u64) {
        (self.records, 0)
    }
}

/// Records a link until `stop` says so, in pcapng; gives records and how many were missed.
pub(crate) fn record(
    context: &Context,
    link: &str,
    circuits: &[CircuitId],
    what: What,
    out: impl Write,
    stop: impl FnMut() -> bool,
) -> Result<(u64, u64)> {
    record_to(context, link, circuits, |name, epoch| Recorder::new(out, name, what, epoch), stop)
}

fn record_to<R: Records>(
    context: &Context,
    link: &str,
    circuits: &[CircuitId],
    recorder: impl FnOnce(&str, Duration) -> Result<R>,
    mut stop: impl FnMut() -> bool,
) -> Result<(u64, u64)> {
    let circuits = circuits.iter().map(ToString::to_string).collect();
    let connection = endpoint::Connection::open(&context.socket)?;
    let ask = |request: &Request| -> Result<Value> { Ok(connection.manage(serde_json::to_value(request)?)?) };
    let started = ask(&Request::CaptureStart { link: link.to_owned(), circuits })?;
    let name = started["link"].as_str().unwrap_or(link).to_owned();
    let epoch = Duration::from_nanos(started["epoch_unix_nanos"].as_u64().unwrap_or_default());
    let mut recorder = recorder(&name, epoch)?;
    let mut missed = 0;
    loop {
        let last = stop();
        let answer = ask(&Request::CaptureRead { link: name.clone() })?;
        missed += answer["dropped"].as_u64().unwrap_or_default();
        recorder.take(&answer)?;
        recorder.flush()?;
        if last {
            break;
        }
        if answer["records"].as_array().is_none_or(Vec::is_empty) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    ask(&Request::CaptureStop { link: name })?;
    let (records, beyond) = recorder.written();
    Ok((records, missed + beyond))
}

/// `cellway capture`
pub(crate) fn run(context: &Context, capture: &Capture) -> Result<()> {
    let stop = interrupted()?;
    let out: Box<dyn Write> = if capture.file.as_os_str() == "-" {
        Box::new(std::io::stdout().lock())
    } else {
        let file = std::fs::File::create(&capture.file).with_context(|| format!("{}", capture.file.display()))?;
        Box::new(std::io::BufWriter::new(file))
    };
    let begin = Instant::now();
    let over = || !goes_on(&stop) || capture.seconds.is_some_and(|s| begin.elapsed().as_secs_f64() > s);
    let (link, circuits, what) = (&capture.link, &capture.circuit, capture.what);
    let (records, missed) = match capture.format {
        Format::Pcapng => record(context, link, circuits, what, out, over)?,
        Format::Atmtcp => record_to(context, link, circuits, |_, _| Ok(Recording::new(out, what)), over)?,
    };
    let json = json!({ "records": records, "missed": missed });
    let text = format!("{records} records, {missed} missed");
    eprintln!("{}", if context.json { json.to_string() } else { text });
    Ok(())
}
