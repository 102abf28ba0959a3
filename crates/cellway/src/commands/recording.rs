//! Recording files of Linux's `atmtcp`: what `cellway capture --format atmtcp` writes, and `cellway replay`.

use crate::client::{goes_on, interrupted};
use crate::commands::capture::{Records, What, Written};
use crate::context::Context;
use crate::output;
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use endpoint::{Aal, ChannelId, Endpoint, EndpointConfig, Geometry, OpenOptions, SendError};
use net::tap::Tapped;
use net::{Side, TapRecord};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use wire::recording::{self, Record};
use wire::{Cell, CircuitId, PayloadType};

/// A PDU whose end does not come is kept no further than this.
const MAX_PDU_OCTETS: usize = 65_535 + 8 + 48;

/// Writes what a link passes; AAL5 PDUs of cell links are put together and checked. Stream 0 is what the link's first end
/// sent, stream 1 what the other did.
pub(crate) struct Recording<W: Write> {
    out: W,
    what: What,
    partial: BTreeMap<(u32, CircuitId), Vec<u8>>,
    opened: BTreeMap<(u32, CircuitId), bool>,
    records: u64,
    beyond: u64,
}

impl<W: Write> Recording<W> {
    pub(crate) fn new(out: W, what: What) -> Self {
        Recording { out, what, partial: BTreeMap::new(), opened: BTreeMap::new(), records: 0, beyond: 0 }
    }

    fn sdu(&mut self, stream: u32, circuit: CircuitId, aal0: bool, sdu: &[u8]) -> Result<()> {
        if self.opened.insert((stream, circuit), aal0) != Some(aal0) {
            let (open, n) = Record { stream, circuit, what: recording::What::Open { aal0 } }.emit();
            self.out.write_all(&open[..n])?;
        }
        let (head, n) = Record { stream, circuit, what: recording::What::Sdu(sdu) }.emit();
        self.out.write_all(&head[..n])?;
        self.out.write_all(sdu)?;
        self.records += 1;
        Ok(())
    }

    fn cell(&mut self, stream: u32, circuit: CircuitId, cell: &Cell) -> Result<()> {
        let payload_type = cell.header().payload_type;
        if self.what == What::Cells {
            return self.sdu(stream, circuit, true, &turned(wire::octets::emit52(cell)));
        }
        let PayloadType::User { end, .. } = payload_type else {
            self.beyond += 1;
            return Ok(());
        };
        let pdu = self.partial.entry((stream, circuit)).or_default();
        if pdu.len() < MAX_PDU_OCTETS {
            pdu.extend_from_slice(&cell.payload);
        }
        if end {
            let pdu = std::mem::take(pdu);
            match wire::aal5::check(&pdu) {
                Ok(trailer) => self.sdu(stream, circuit, false, &pdu[..trailer.length.into()])?,
                Err(_) => self.beyond += 1,
            }
        }
        Ok(())
    }
}

/// The header word of an AAL0 cell in the other order: in the file it is in the recording machine's, which is little-endian.
fn turned(mut cell: [u8; 52]) -> [u8; 52] {
    cell[..4].reverse();
    cell
}

impl<W: Write> Records for Recording<W> {
    fn take(&mut self, record: &TapRecord<'_>) -> Result<()> {
        let stream = u32::from(record.from == Side::B);
        match record.what {
            Tapped::Cell(cell) => self.cell(stream, cell.circuit(), &cell)?,
            Tapped::Frame { circuit, aal: net::Aal::Aal5, octets, .. } => self.sdu(stream, circuit, false, octets)?,
            Tapped::Frame { circuit, aal: net::Aal::Aal0, octets, .. } => {
                let octets = octets.try_into().map_err(|_| anyhow!("the service sent no cell"))?;
                self.sdu(stream, circuit, true, &turned(octets))?;
            }
            // The stock program knows of no such layer.
            Tapped::Frame { aal: net::Aal::Aal34, .. } => self.beyond += 1,
        }
        Ok(())
    }

    fn gap(&mut self) {
        self.partial.clear();
    }

    fn flush(&mut self) -> Result<()> {
        Ok(self.out.flush()?)
    }

    fn finish(&mut self, _: u64) -> Result<Written> {
        self.flush()?;
        Ok(Written { records: self.records, beyond: self.beyond, incomplete: 0 })
    }
}

/// Plays a recording of `atmtcp write`, or of `cellway capture --format atmtcp`, from a host: what passed on a circuit then is sent
/// on the host's circuit of the same name, as fast as it goes. Without a host: says what is in it.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The recording
    file: PathBuf,
    /// The host to send from
    host: Option<String>,
    /// Only what came from this link
    #[arg(long)]
    stream: Option<u32>,
    /// Only these circuits
    #[arg(long)]
    circuit: Vec<CircuitId>,
}

/// SDUs of one circuit of one stream.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    sdus: u64,
    octets: u64,
    aal0: bool,
}

impl Replay {
    /// The records that are asked for, and whether their circuits are AAL0: as an opening said, in whatever stream.
    fn chosen<'a>(&self, file: &'a [u8]) -> Result<Vec<(Record<'a>, bool)>> {
        let (mut all, mut rest) = (Vec::new(), file);
        let mut aal0: BTreeMap<CircuitId, bool> = BTreeMap::new();
        loop {
            let at = file.len() - rest.len();
            let next = Record::parse(rest).with_context(|| format!("{}, octet {at}", self.file.display()))?;
            let Some((record, left)) = next else { break };
            rest = left;
            if let recording::What::Open { aal0: cells } = record.what {
                aal0.insert(record.circuit, cells);
            }
            let stream = self.stream.is_none_or(|stream| stream == record.stream);
            if stream && (self.circuit.is_empty() || self.circuit.contains(&record.circuit)) {
                all.push((record, aal0.get(&record.circuit).copied().unwrap_or(false)));
            }
        }
        Ok(all)
    }
}

/// `cellway replay`
pub(crate) fn run(context: &Context, replay: &Replay) -> Result<()> {
    let stop = interrupted()?;
    let file = std::fs::read(&replay.file).with_context(|| format!("{}", replay.file.display()))?;
    let records = replay.chosen(&file)?;
    let mut player = replay.host.as_ref().map(|host| Player::new(context, host)).transpose()?;
    let mut sums: BTreeMap<(u32, CircuitId), Sum> = BTreeMap::new();
    for (record, aal0) in records {
        let recording::What::Sdu(sdu) = record.what else { continue };
        if !goes_on(&stop) {
            bail!("interrupted");
        }
        if let Some(player) = &mut player {
            player.send(record.circuit, aal0, sdu)?;
        }
        let sum = sums.entry((record.stream, record.circuit)).or_default();
        *sum = Sum { sdus: sum.sdus + 1, octets: sum.octets + sdu.len() as u64, aal0 };
    }
    if let Some(player) = &mut player {
        while !player.endpoint.wait_sent(Some(Duration::from_millis(200)))? && goes_on(&stop) {}
    }
    let aal = |sum: &Sum| if sum.aal0 { "aal0" } else { "aal5" };
    let json: Vec<Value> = sums
        .iter()
        .map(|((stream, circuit), sum)| {
            json!({
                "stream": stream, "circuit": circuit.to_string(), "aal": aal(sum), "sdus": sum.sdus, "octets": sum.octets,
            })
        })
        .collect();
    output::print(context, &json, || {
        let row = |((stream, circuit), sum): (&(u32, CircuitId), &Sum)| {
            vec![stream.to_string(), circuit.to_string(), aal(sum).into(), sum.sdus.to_string(), sum.octets.to_string()]
        };
        output::table(&["stream", "circuit", "AAL", "SDUs", "octets"], &sums.iter().map(row).collect::<Vec<_>>())
    })
}

/// Sends from one host, and opens circuits as they are needed.
struct Player {
    endpoint: Endpoint,
    channels: BTreeMap<CircuitId, ChannelId>,
}

impl Player {
    fn new(context: &Context, host: &str) -> Result<Self> {
        let geometry = Geometry { send_ring: 256, buffers: 512, ..Geometry::default() };
        let config = EndpointConfig {
            host: host.to_owned(),
            geometry,
            send_buffers: Some(geometry.buffers / 2),
            ..EndpointConfig::default()
        };
        Ok(Player { endpoint: Endpoint::create(&context.socket, &config)?, channels: BTreeMap::new() })
    }

    fn send(&mut self, circuit: CircuitId, aal0: bool, sdu: &[u8]) -> Result<()> {
        let channel = match self.channels.get(&circuit) {
            Some(channel) => *channel,
            None => {
                let aal = if aal0 { Aal::Aal0 } else { Aal::Aal5 };
                let channel = self.endpoint.open(circuit, OpenOptions { aal, ..OpenOptions::default() })?;
                self.channels.insert(circuit, channel);
                channel
            }
        };
        let cell = if aal0 { sdu.try_into().ok().map(turned) } else { None };
        let sdu = cell.as_ref().map_or(sdu, <[u8; 52]>::as_slice);
        loop {
            match self.endpoint.send_copy(channel, sdu) {
                Ok(()) => return Ok(()),
                Err(SendError::Full) => self.endpoint.wait_send(Some(Duration::from_millis(200)))?,
                Err(e) => return Err(anyhow!(e).context(format!("circuit {circuit}"))),
            };
        }
    }
}
