//! `cellway inject`: cells on a link that no well-behaved station would send there. In: cells and PDUs from hexadecimal
//! digits, JSON lines or a capture ([`input`]). Out: cells of 53 octets ([`cells`]), some of them lost, doubled or late
//! ([`disturbance`]), to the service, which puts them on the link ([`control::inject`]).

mod cells;
mod disturbance;
mod input;

use crate::client::{self, goes_on, interrupted};
use crate::context::Context;
use crate::exit_status::OrUsage;
use crate::output;
use crate::units;
use crate::usage;
use anyhow::{Context as _, Result, bail};
use cells::{Octets53, Unit, Wrong};
use clap::{Args, ValueEnum};
use control::path::PathStatus;
use control::protocol::{Inject as Place, Injected, Request};
use control::results::InjectionDone;
use disturbance::{Disturbance, Probabilities};
use input::Reading;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use wire::CircuitId;

/// Between two looks at Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);
/// Cells of a request; fewer at a low rate.
const BATCH: usize = 4096;
/// At a rate, the cells of so much time are written at once.
const PACE: f64 = 0.01;

/// Puts cells and PDUs on a link as if the station at one of its ends had sent them: also such as no station would send.
///
/// AT is a link, as `cellway link list` names it, or, with CIRCUIT, a host: then the host's own link, in the direction
/// from the host. Without --input, --hex and --oam, standard input is read. A line of hexadecimal digits is an SDU, or
/// what --aal says; a JSON line says more of itself (docs/inject.md); a capture is what `cellway replay` reads.
#[derive(Debug, Args)]
pub(crate) struct Inject {
    /// The link's name, or a host
    at: String,
    /// The host's circuit
    circuit: Option<CircuitId>,
    /// The end of the link that seems to send, a station with or without its port [default: the first]
    #[arg(long, value_name = "STATION", conflicts_with = "circuit")]
    from: Option<String>,
    /// The circuit of what names none itself, as the link names it
    #[arg(long, value_name = "CIRCUIT", conflicts_with = "circuit")]
    label: Option<CircuitId>,
    /// A file of hexadecimal digits, of JSON lines, or a capture; - for standard input
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Hexadecimal digits (may be repeated)
    #[arg(long, value_name = "DIGITS")]
    hex: Vec<String>,
    /// What digits are
    #[arg(long, value_enum, default_value_t)]
    aal: Aal,
    /// An OAM cell of the circuit (I.610)
    #[arg(long, value_enum, value_name = "FUNCTION")]
    oam: Option<Oam>,
    /// OAM cells of the segment, not from end to end
    #[arg(long)]
    segment: bool,
    #[command(flatten)]
    wrong: Wrong,
    #[command(flatten)]
    probabilities: Probabilities,
    /// Cells each second, such as 5000 or "20 Mbit/s" [default: as fast as the link takes them]
    #[arg(long, value_parser = units::cells_per_second)]
    rate: Option<u32>,
    /// Send so many cells, PDUs and OAM cells of the input, from its beginning again if it has fewer
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// What the random choices begin with, to repeat them [default: another each time, which the result names]
    #[arg(long)]
    seed: Option<u64>,
}

/// What hexadecimal digits are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Aal {
    /// An SDU, in an AAL5 PDU.
    #[default]
    Aal5,
    /// An SDU, in an AAL3/4 PDU.
    Aal34,
    /// A cell: its payload of 48 octets, or 52 or 53 octets with a header.
    Aal0,
    /// A CPCS-PDU of AAL5 with its trailer, as it is: a multiple of 48 octets.
    Pdu,
}

/// OAM cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Oam {
    /// Alarm indication signal.
    Ais,
    /// Remote defect indication.
    Rdi,
    /// Continuity check.
    Cc,
    /// A loopback request.
    Loopback,
}

impl Inject {
    /// What is to be sent, in order.
    fn units(&self) -> Result<Vec<Unit>> {
        let reading = Reading { aal: self.aal };
        let mut units = Vec::new();
        for digits in &self.hex {
            units.push(reading.line(digits).context("--hex").or_usage()?);
        }
        units.extend(self.oam.map(|oam| Unit::oam(oam, self.segment)));
        if let Some(path) = self.input.as_ref().filter(|path| path.as_os_str() != "-") {
            let file = std::fs::read(path).with_context(|| path.display().to_string())?;
            units.extend(reading.file(&file).with_context(|| path.display().to_string())?);
        } else if self.input.is_some() || units.is_empty() {
            let mut octets = Vec::new();
            client::Input::new()?.read_to_end(&mut octets)?;
            units.extend(reading.file(&octets).context("standard input")?);
        }
        if units.is_empty() {
            usage!("nothing to send: give --hex, --oam, or --input with cells or PDUs in it");
        }
        Ok(units)
    }

    /// The link, the end that seems to send, and the label of what names none.
    fn place(&self, context: &Context) -> Result<(Place, Option<CircuitId>)> {
        let Some(circuit) = self.circuit else {
            return Ok((Place { link: self.at.clone(), from: self.from.clone() }, self.label));
        };
        let request = Request::Path { host: self.at.clone(), circuit: circuit.to_string() };
        let path: PathStatus = client::ask_for(context, &request)?;
        let link = path.forward.iter().find(|point| point.link);
        let link = link.with_context(|| format!("{} {circuit} leads over no link", self.at))?;
        Ok((Place { link: link.at.clone(), from: Some(self.at.clone()) }, Some(circuit)))
    }
}

/// `cellway inject`
pub(crate) fn run(context: &Context, inject: &Inject) -> Result<()> {
    let stop = interrupted()?;
    let units = inject.units()?;
    let (start, label) = inject.place(context)?;
    // Each is understood before the first is sent.
    let made = units.iter().map(|unit| unit.cells(label, &inject.wrong)).collect::<Result<Vec<_>>>();
    let made = made.or_usage()?;
    let seed = inject.seed.unwrap_or_else(random_seed);
    let mut disturbance = Disturbance::new(inject.probabilities, seed);
    let mut line = Line::open(context, start, inject.rate)?;
    let wanted = inject.count.unwrap_or(made.len() as u64);
    let mut sent = 0;
    while sent < wanted && goes_on(&stop) {
        for cell in &made[(sent % made.len() as u64) as usize] {
            disturbance.take(*cell);
            line.send(&mut disturbance, &stop)?;
        }
        sent += 1;
    }
    disturbance.finish();
    line.send(&mut disturbance, &stop)?;
    let injected = line.finish(&stop)?;
    let done = disturbance.done();
    let result = InjectionDone {
        link: injected.link,
        from: injected.from,
        units: sent,
        cells: injected.cells,
        lost: done.lost,
        doubled: done.doubled,
        reordered: done.reordered,
        delayed: done.delayed,
        corrected: injected.corrected,
        header_errors: injected.header_errors,
        seed,
    };
    output::print(context, &result, || text(&result))
}

/// Another one each time.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The keys of the standard library's tables are drawn by the system.
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

fn text(done: &InjectionDone) -> String {
    let counts = [
        (done.lost, "lost"),
        (done.doubled, "doubled"),
        (done.reordered, "reordered"),
        (done.delayed, "delayed"),
        (done.corrected, "headers corrected"),
        (done.header_errors, "dropped for their headers"),
    ];
    let counts = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {n} {what}"));
    let counts: String = counts.collect();
    let InjectionDone { units, cells, link, from, seed, .. } = done;
    format!("{units} sent: {cells} cells on {link} from {from}{counts} (--seed {seed})")
}

/// The way to the link, at a rate.
struct Line {
    connection: endpoint::Connection,
    place: Place,
    rate: Option<u32>,
    begin: Instant,
    written: u64,
    batch: Vec<u8>,
    most: usize,
    /// What the service has done so far.
    done: Injected,
}

impl Line {
    /// The link, and whether it takes cells, is known before the first.
    fn open(context: &Context, place: Place, rate: Option<u32>) -> Result<Self> {
        let of_pace = rate.map_or(BATCH, |rate| (f64::from(rate) * PACE) as usize);
        let mut line = Line {
            connection: endpoint::Connection::open(&context.socket)?,
            place,
            rate,
            begin: Instant::now(),
            written: 0,
            batch: Vec::new(),
            most: of_pace.clamp(1, BATCH),
            done: Injected::default(),
        };
        line.done = line.ask(&[])?;
        Ok(line)
    }

    fn ask(&self, octets: &[u8]) -> Result<Injected> {
        let memory = endpoint::sealed::write(octets).context("memory for cells")?;
        let request = serde_json::to_value(Request::Inject(self.place.clone()))?;
        let answer = self.connection.manage_text(request, &[memory.as_fd()])?;
        serde_json::from_str(&answer).context("the service's answer")
    }

    /// Sends what the disturbance gives, at the rate.
    fn send(&mut self, disturbance: &mut Disturbance, stop: &AtomicBool) -> Result<()> {
        while let Some(cell) = disturbance.poll() {
            self.batch.extend_from_slice(&cell);
            if self.batch.len() >= self.most * cell.len() {
                self.write(stop)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, stop: &AtomicBool) -> Result<()> {
        if let Some(rate) = self.rate {
            let due = self.begin + Duration::from_secs_f64(self.written as f64 / f64::from(rate));
            while let Some(left) = due.checked_duration_since(Instant::now()).filter(|_| goes_on(stop)) {
                std::thread::sleep(left.min(LOOK));
            }
        }
        let batch = std::mem::take(&mut self.batch);
        let mut left = &batch[..];
        while !left.is_empty() {
            let Injected { taken, cells, corrected, header_errors, .. } = self.ask(left)?;
            self.done.cells += cells;
            self.done.corrected += corrected;
            self.done.header_errors += header_errors;
            left = left.get(taken as usize * size_of::<Octets53>()..).unwrap_or_default();
            if !left.is_empty() && !goes_on(stop) {
                bail!("interrupted: the link has no room");
            }
        }
        self.written += (batch.len() / size_of::<Octets53>()) as u64;
        Ok(())
    }

    fn finish(mut self, stop: &AtomicBool) -> Result<Injected> {
        self.write(stop)?;
        Ok(self.done)
    }
}
