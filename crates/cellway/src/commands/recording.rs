//! `cellway replay`: captures and recordings, whatever wrote them ([`crate::recorded`]).

use crate::client::{goes_on, interrupted};
use crate::context::Context;
use crate::output;
use crate::recorded::{self, Unit, What, is_users};
use crate::usage;
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use control::results::Replayed;
use endpoint::{Aal, ChannelId, Endpoint, EndpointConfig, Geometry, OpenOptions, SendError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
use wire::CircuitId;
use wire::octets::emit52;

/// Plays a capture from a host: pcap or pcapng with ERF, SunATM or RFC 1483 records, or a recording of `atmtcp write`;
/// `cellway capture` writes all of them. It sends the recorded traffic of each circuit on the host's circuit of the same
/// name, as fast as possible. Without a host it lists the file's contents.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The capture or recording
    file: PathBuf,
    /// The host to send from
    host: Option<String>,
    /// Only the traffic from this link of a recording; of a capture, 0 is what the link's first end sent, 1 the rest
    #[arg(long)]
    stream: Option<u32>,
    /// Only these circuits
    #[arg(long)]
    circuit: Vec<CircuitId>,
    /// Send everything on this circuit of the host: needed for RFC 1483 captures, which name none
    #[arg(long, value_name = "CIRCUIT", conflicts_with = "circuit")]
    onto: Option<CircuitId>,
}

/// What a circuit of one stream has.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    sdus: u64,
    octets: u64,
    aal0: bool,
    left_out: u64,
}

/// What is sent of a unit.
enum Sdu<'a> {
    Aal5(&'a [u8]),
    Aal0([u8; wire::octets::CELL52_OCTETS]),
}

impl Sdu<'_> {
    fn octets(&self) -> &[u8] {
        match self {
            Sdu::Aal5(sdu) => sdu,
            Sdu::Aal0(cell) => cell,
        }
    }
}

impl Replay {
    /// The circuit that a unit is sent on.
    fn circuit_of(&self, unit: &Unit<'_>) -> Result<CircuitId> {
        match self.onto.or(unit.circuit) {
            Some(circuit) => Ok(circuit),
            None => usage!("an RFC 1483 capture names no circuit: give --onto CIRCUIT"),
        }
    }

    /// Whether a unit is asked for.
    fn is_chosen(&self, unit: &Unit<'_>) -> bool {
        let circuit = |circuit| self.circuit.is_empty() || self.circuit.contains(&circuit);
        self.stream.is_none_or(|stream| stream == unit.stream) && unit.circuit.is_none_or(circuit)
    }
}

/// Circuits on which cells alone pass: their layer is AAL0. On others cells are OAM cells, beside AAL5 PDUs.
fn of_cells(units: &[(CircuitId, &Unit<'_>)]) -> BTreeSet<CircuitId> {
    let cells = units.iter().filter(|(_, unit)| matches!(unit.what, What::Cell(_))).map(|(circuit, _)| *circuit);
    let mut all: BTreeSet<CircuitId> = cells.collect();
    for (circuit, unit) in units {
        if !matches!(unit.what, What::Cell(_)) {
            all.remove(circuit);
        }
    }
    all
}

/// What is sent of a unit; `None` of what an application cannot send: a damaged PDU, a cell beside PDUs, OAM cells.
fn sdu_of<'a>(unit: &Unit<'a>, circuit: CircuitId, aal0: bool) -> Option<Sdu<'a>> {
    match &unit.what {
        What::Sdu(sdu) => Some(Sdu::Aal5(sdu)),
        What::Cell(cell) if aal0 && is_users(cell) => {
            let mut cell = *cell;
            cell.set_header(wire::CellHeader { circuit, ..cell.header() });
            Some(Sdu::Aal0(emit52(&cell)))
        }
        What::Cell(_) | What::DamagedPdu(_) => None,
    }
}

/// `cellway replay`
pub(crate) fn run(context: &Context, replay: &Replay) -> Result<()> {
    let stop = interrupted()?;
    let file = std::fs::read(&replay.file).with_context(|| format!("{}", replay.file.display()))?;
    let traffic = recorded::read(&file).with_context(|| format!("{}", replay.file.display()))?;
    let chosen = traffic.units.iter().filter(|unit| replay.is_chosen(unit));
    let units = if replay.host.is_some() || traffic.units.iter().all(|unit| unit.circuit.is_some()) {
        chosen.map(|unit| Ok((replay.circuit_of(unit)?, unit))).collect::<Result<Vec<_>>>()?
    } else {
        chosen.map(|unit| (replay.onto.or(unit.circuit).unwrap_or_default(), unit)).collect()
    };
    let aal0 = of_cells(&units);
    let mut player = replay.host.as_ref().map(|host| Player::new(context, host)).transpose()?;
    let mut sums: BTreeMap<(u32, CircuitId), Sum> = BTreeMap::new();
    for (circuit, unit) in units {
        if !goes_on(&stop) {
            bail!("interrupted");
        }
        let aal0 = aal0.contains(&circuit);
        let sum = sums.entry((unit.stream, circuit)).or_insert(Sum { aal0, ..Sum::default() });
        let Some(sdu) = sdu_of(unit, circuit, aal0) else {
            sum.left_out += 1;
            continue;
        };
        if let Some(player) = &mut player {
            player.send(circuit, aal0, sdu.octets())?;
        }
        (sum.sdus, sum.octets) = (sum.sdus + 1, sum.octets + sdu.octets().len() as u64);
    }
    if let Some(player) = &mut player {
        while !player.endpoint.wait_sent(Some(Duration::from_millis(200)))? && goes_on(&stop) {}
    }
    if traffic.left_out > 0 {
        output::note(format_args!(
            "{} records left out: of another link type, or cut by the capture",
            traffic.left_out
        ));
    }
    print(context, &sums)
}

fn print(context: &Context, sums: &BTreeMap<(u32, CircuitId), Sum>) -> Result<()> {
    let replayed = |((stream, circuit), sum): (&(u32, CircuitId), &Sum)| Replayed {
        stream: *stream,
        circuit: circuit.to_string(),
        aal: if sum.aal0 { "aal0" } else { "aal5" }.to_owned(),
        sdus: sum.sdus,
        octets: sum.octets,
        left_out: sum.left_out,
    };
    let rows: Vec<Replayed> = sums.iter().map(replayed).collect();
    output::print(context, &rows, || {
        let row = |r: &Replayed| {
            let numbers = [r.sdus, r.octets, r.left_out].map(|n| n.to_string());
            [&[r.stream.to_string(), r.circuit.clone(), r.aal.clone()][..], &numbers].concat()
        };
        let head = ["stream", "circuit", "AAL", "SDUs", "octets", "left out"];
        output::table(&head, &rows.iter().map(row).collect::<Vec<_>>())
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
        loop {
            match self.endpoint.send_copy(channel, sdu) {
                Ok(()) => return Ok(()),
                Err(SendError::Full) => self.endpoint.wait_send(Some(Duration::from_millis(200)))?,
                Err(e) => return Err(anyhow!(e).context(format!("circuit {circuit}"))),
            };
        }
    }
}
