//! `cellway oam`: alarms, continuity check and performance monitoring of circuits (I.610).

use crate::client::{self, ask_for, goes_on};
use crate::context::Context;
use crate::output;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use control::protocol::{Done, OamAsk, OamSubject, Request};
use control::status::Status;
use control::status::oam::{AlarmStatus, EndAlarms, MonitoringStatus, OamAlarms, OamStatus, SwitchAlarms};
use std::time::{Duration, Instant};
use wire::CircuitId;

/// How often an answer is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// How long the other end may take: three requests, five seconds apart.
const PATIENCE: Duration = Duration::from_secs(16);

/// OAM.
#[derive(Debug, Subcommand)]
pub(crate) enum OamCommand {
    /// Alarms of all switches and circuits, or the complete OAM state of one end of a circuit.
    ///
    /// Without a host: defects at switches, with the number of circuits that they send AIS on, and circuits with an
    /// alarm. With a host and a circuit: alarms, continuity check, and results of monitoring in both directions.
    Status(StatusOf),
    /// Begin or end the continuity check of a circuit in both directions, by a request to the other end.
    ///
    /// Each end sends a cell after a second without other traffic. An end that receives nothing for 3.5 seconds has the
    /// alarm `loc`.
    Continuity(Continuity),
    /// Begin or end performance monitoring of a circuit in both directions, by a request to the other end.
    ///
    /// `cellway oam status HOST CIRCUIT` shows the cells that were lost, misinserted or damaged in transit.
    Monitor(Monitor),
}

/// `cellway oam status`
#[derive(Debug, Args)]
pub(crate) struct StatusOf {
    /// The host at one end of the circuit
    #[arg(requires = "circuit")]
    host: Option<String>,
    /// The circuit there, vpi.vci
    circuit: Option<CircuitId>,
}

/// `cellway oam continuity`
#[derive(Debug, Args)]
pub(crate) struct Continuity {
    /// The host that asks
    host: String,
    /// The circuit there, vpi.vci
    circuit: CircuitId,
    /// End it
    #[arg(long)]
    off: bool,
}

/// `cellway oam monitor`
#[derive(Debug, Args)]
pub(crate) struct Monitor {
    /// The host that asks
    host: String,
    /// The circuit there, vpi.vci
    circuit: CircuitId,
    /// Cells in a block: 128, 256, 512 or 1024
    #[arg(long, default_value = "1024", value_parser = cells_of_a_block)]
    block: u16,
    /// End it
    #[arg(long)]
    off: bool,
}

fn cells_of_a_block(text: &str) -> Result<u16, String> {
    let cells = text.parse().ok().filter(|cells| wire::oam::BlockCode::of_cells(*cells).is_some());
    cells.ok_or_else(|| "expected 128, 256, 512 or 1024 cells".into())
}

/// `cellway oam`
pub(crate) fn run(context: &Context, command: &OamCommand) -> Result<()> {
    match command {
        OamCommand::Status(StatusOf { host: Some(host), circuit: Some(circuit) }) => {
            let status = of_circuit(context, host, *circuit)?;
            output::print(context, &status, || circuit_text(&status))
        }
        OamCommand::Status(_) => {
            let status = ask_for::<Status>(context, &Request::Status)?;
            output::print(context, &alarms_of(&status), || text(&status))
        }
        OamCommand::Continuity(Continuity { host, circuit, off }) => {
            request(context, host, *circuit, !off, OamSubject::Continuity)
        }
        OamCommand::Monitor(Monitor { host, circuit, block, off }) => {
            request(context, host, *circuit, !off, OamSubject::Monitoring { block: *block })
        }
    }
}

fn of_circuit(context: &Context, host: &str, circuit: CircuitId) -> Result<OamStatus> {
    ask_for(context, &Request::Oam { host: host.to_owned(), circuit: circuit.to_string() })
}

/// Asks, and waits for what comes of it.
fn request(context: &Context, host: &str, circuit: CircuitId, begin: bool, subject: OamSubject) -> Result<()> {
    let stop = client::interrupted()?;
    let wanted = OamAsk { host: host.to_owned(), circuit: circuit.to_string(), begin, subject };
    ask_for::<Done>(context, &Request::OamAsk(wanted))?;
    let begun = Instant::now();
    loop {
        let status = of_circuit(context, host, circuit)?;
        match status.request.as_deref() {
            Some("asking") if begun.elapsed() < PATIENCE && goes_on(&stop) => std::thread::sleep(LOOK),
            // An end point at rest, after a deactivation, is forgotten with its request.
            Some("confirmed") | None => return output::print(context, &status, || circuit_text(&status)),
            Some("denied") => bail!("the other end of {circuit} denies it"),
            _ => bail!("the other end of {circuit} does not answer: see `cellway trace {host} {circuit}`"),
        }
    }
}

fn alarms_text(alarms: &[AlarmStatus]) -> String {
    let one = |a: &AlarmStatus| format!("{} ({} at {})", a.alarm, a.defect, a.location);
    if alarms.is_empty() { "none".into() } else { alarms.iter().map(one).collect::<Vec<_>>().join(", ") }
}

fn circuit_text(status: &OamStatus) -> String {
    let on = |on| if on { "on" } else { "off" };
    let found = |found: &Option<MonitoringStatus>| match found {
        None => "off".to_owned(),
        Some(m) => format!(
            "{} cells in {} blocks: {} lost, {} misinserted, {} errored blocks, {} monitoring cells lost",
            m.cells, m.blocks, m.lost, m.misinserted, m.errored_blocks, m.monitoring_lost
        ),
    };
    format!(
        "{} {}\n  alarms       {}\n  continuity   sent {}, checked {}\n  sent         {}\n  received     {}",
        status.host,
        status.circuit,
        alarms_text(&status.alarms),
        on(status.continuity_sent),
        on(status.continuity_checked),
        found(&status.sent),
        found(&status.received),
    )
}

fn alarms_of(status: &Status) -> OamAlarms {
    let switches = status.switches.iter().filter(|switch| !switch.alarms.is_empty());
    let ends = status.circuits.iter().flat_map(|circuit| circuit.ends.iter().map(move |end| (circuit, end)));
    let ends = ends.filter(|(_, end)| !end.alarms.is_empty());
    OamAlarms {
        switches: switches.map(|s| SwitchAlarms { switch: s.name.clone(), alarms: s.alarms.clone() }).collect(),
        circuits: ends
            .map(|(circuit, end)| EndAlarms {
                circuit: circuit.name.clone(),
                end: end.end.clone(),
                alarms: end.alarms.clone(),
            })
            .collect(),
    }
}

fn text(status: &Status) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for switch in &status.switches {
        for a in &switch.alarms {
            let at = a.path.map_or_else(String::new, |path| format!(" path {path}"));
            let told = format!("{} circuits told", a.circuits);
            rows.push(vec![format!("{}:{}{at}", switch.name, a.port), format!("{} at {}", a.defect, a.location), told]);
        }
    }
    for circuit in &status.circuits {
        for end in circuit.ends.iter().filter(|end| !end.alarms.is_empty()) {
            rows.push(vec![end.end.clone(), alarms_text(&end.alarms), circuit.name.clone()]);
        }
    }
    if rows.is_empty() {
        return "no alarms".into();
    }
    output::table(&["where", "alarms", "of"], &rows)
}
