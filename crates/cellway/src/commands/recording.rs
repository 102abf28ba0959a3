//! `cellway replay`: recording files of Linux's `atmtcp`, as `cellway capture --format atmtcp` writes them too.

use crate::client::{goes_on, interrupted};
use crate::commands::capture::turned;
use crate::context::Context;
use crate::output;
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use control::results::Replayed;
use endpoint::{Aal, ChannelId, Endpoint, EndpointConfig, Geometry, OpenOptions, SendError};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use wire::CircuitId;
use wire::recording::{self, Record};

/// Plays a recording of `atmtcp write`, or of `cellway capture --format atmtcp`, from a host: what passed on a circuit
/// then is sent on the host's circuit of the same name, as fast as it goes. Without a host: says what is in it.
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
    let replayed = |((stream, circuit), sum): (&(u32, CircuitId), &Sum)| Replayed {
        stream: *stream,
        circuit: circuit.to_string(),
        aal: if sum.aal0 { "aal0" } else { "aal5" }.to_owned(),
        sdus: sum.sdus,
        octets: sum.octets,
    };
    let rows: Vec<Replayed> = sums.iter().map(replayed).collect();
    output::print(context, &rows, || {
        let row = |r: &Replayed| {
            vec![r.stream.to_string(), r.circuit.clone(), r.aal.clone(), r.sdus.to_string(), r.octets.to_string()]
        };
        output::table(&["stream", "circuit", "AAL", "SDUs", "octets"], &rows.iter().map(row).collect::<Vec<_>>())
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
