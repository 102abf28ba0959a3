//! `cellway-lab bench paths`: the data paths over the size of the PDU, through the network interface on a cell link.
//!
//! The sender writes every octet of each SDU, the receiver reads every octet; where they keep them is the data path's matter. Beside the rate
//! stand the page faults of both threads and of the others, and the machine's TLB shootdowns, for each SDU that arrived.

mod counters;
mod windows;

use super::figure::{Panel, draw, series};
use super::median;
use crate::results::bench::BenchPaths;
use ::lab::sys::remapping::{Remapping, measure_remap};
use anyhow::{Context as _, Result, anyhow, bail};
use cellway::context::Context;
use cellway::output;
use control::config;
use control::daemon::Daemon;
use counters::{Counts, Readings, thread_faults};
use endpoint::{ChannelId, DataPath, Endpoint, EndpointConfig, Geometry, Memory, OpenOptions, SendError};
use serde_json::{Value, json};
use stack::flood::memcpy_gbit_s;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use windows::{BATCH, Side};
use wire::CircuitId;

const SIZES: [usize; 9] = [64, 256, 1024, 2048, 4096, 9188, 16_384, 32_768, 65_535];
/// What is sent and received by windows has a page at least: less is always copied.
const LEAST_OF_WINDOWS: usize = 4096;
/// What is mapped at once and copied at once, with nothing around it: SDUs, and batches of 16.
const REMAPPED: [usize; 5] = [4096, 16_384, 65_536, 16 * 16_384, 16 * 65_536];
/// Pieces of own memory on their way.
const PIECES: usize = 32;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct PathsOptions {
    /// Runs of each case, interleaved; the medians are given
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Milliseconds of each run
    #[arg(long, default_value_t = 100)]
    millis: u64,
    /// Draw the figure into this file (SVG)
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
}

/// A data path as an application uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Copying,
    SingleCopyRegistered,
    SingleCopyAny,
    Shared,
    ZeroCopy,
    /// By windows: at the sender, at the receiver (the other side as `Shared`), at both; so many SDUs at a time.
    Remap {
        sends: bool,
        receives: bool,
        batch: usize,
    },
}

const fn remap(sends: bool, receives: bool, batch: usize) -> Way {
    Way::Remap { sends, receives, batch }
}

const WAYS: [Way; 11] = [
    Way::Copying,
    Way::SingleCopyRegistered,
    Way::SingleCopyAny,
    Way::Shared,
    Way::ZeroCopy,
    remap(true, false, 1),
    remap(true, false, BATCH),
    remap(false, true, 1),
    remap(false, true, BATCH),
    remap(true, true, 1),
    remap(true, true, BATCH),
];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Copying => "copying",
            Way::SingleCopyRegistered => "single-copy, registered",
            Way::SingleCopyAny => "single-copy, any memory",
            Way::Shared => "shared",
            Way::ZeroCopy => "zero-copy",
            Way::Remap { sends: true, receives: false, batch: 1 } => "remap, sending",
            Way::Remap { sends: true, receives: false, .. } => "remap, sending by 16",
            Way::Remap { sends: false, batch: 1, .. } => "remap, receiving",
            Way::Remap { sends: false, .. } => "remap, receiving by 16",
            Way::Remap { batch: 1, .. } => "remap",
            Way::Remap { .. } => "remap by 16",
        }
    }

    fn path(self) -> DataPath {
        match self {
            Way::Copying => DataPath::Copying,
            Way::SingleCopyRegistered | Way::SingleCopyAny | Way::Remap { .. } => DataPath::SingleCopy,
            Way::Shared => DataPath::Shared,
            Way::ZeroCopy => DataPath::ZeroCopy,
        }
    }

    fn is_own(self) -> bool {
        matches!(self, Way::SingleCopyRegistered | Way::SingleCopyAny)
    }

    /// What the sender does, and what the receiver does.
    fn sides(self) -> [Way; 2] {
        let side = |windows: bool| if windows { self } else { Way::Shared };
        match self {
            Way::Remap { sends, receives, .. } => [side(sends), side(receives)],
            way => [way; 2],
        }
    }

    fn batch(self) -> usize {
        if let Way::Remap { batch, .. } = self { batch } else { 1 }
    }

    fn is_measured(self, octets: usize) -> bool {
        !matches!(self, Way::Remap { .. }) || octets >= LEAST_OF_WINDOWS
    }
}

const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends=[\"alpha\",\"beta\"]\n\
                       [[circuit]]\nends=[\"alpha 0.100\",\"beta 0.100\"]\n";

fn endpoint(socket: &Path, host: &str, way: Way) -> Result<(Endpoint, ChannelId)> {
    let geometry = Geometry { send_ring: 256, receive_ring: 512, free_ring: 512, buffers: 96, buffer_octets: 65_536 };
    // Own memory is received into by whoever has posted some; else there are buffers.
    let posts = way.is_own() || matches!(way, Way::Remap { .. });
    let send_buffers = Some(if posts && host == "beta" { 96 } else { 32 });
    let config =
        EndpointConfig { host: host.into(), geometry, send_buffers, path: way.path(), ..EndpointConfig::default() };
    let mut endpoint = Endpoint::create(socket, &config)?;
    let channel = endpoint.open(CircuitId::new(0, 100).context("0.100")?, OpenOptions::default())?;
    Ok((endpoint, channel))
}

fn own(endpoint: &mut Endpoint, way: Way, octets: usize) -> Result<Vec<Memory>> {
    match way {
        Way::SingleCopyRegistered => Ok(endpoint.register(PIECES, octets)?),
        _ => Ok((0..PIECES).map(|_| Memory::from(vec![0; octets])).collect()),
    }
}

/// Writes every octet.
fn produce(sdu: &mut [u8], n: u64) {
    sdu.fill(n as u8);
}

/// Reads every octet.
fn consume(sdu: &[u8]) -> u64 {
    let (words, rest) = sdu.as_chunks::<8>();
    let sum = words.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
    rest.iter().fold(sum, |sum, octet| sum.wrapping_add(u64::from(*octet)))
}

/// What came of a run.
struct PathOutcome {
    pdus_per_s: f64,
    lost: f64,
    counts: Counts,
}

/// Mbit/s that arrive through a network with the circuit 0.100 from alpha to beta: by windows at the sender and at the receiver, or by a
/// copy to and from shared memory.
pub(crate) fn windows_mbit_s(
    socket: &Path,
    octets: usize,
    [sends, receives]: [bool; 2],
    length: Duration,
) -> Result<f64> {
    let way = if sends || receives { remap(sends, receives, 1) } else { Way::Shared };
    Ok(case(socket, way, octets, length)?.pdus_per_s * octets as f64 * 8.0 / 1e6)
}

/// Page faults of the receiver's thread, and PDUs: until the steady part of a run, or in it.
#[derive(Debug, Clone, Copy)]
struct Mark {
    faults: u64,
    pdus: u64,
}

/// One run of a case.
fn case(socket: &Path, way: Way, octets: usize, length: Duration) -> Result<PathOutcome> {
    let [sends, receives] = way.sides();
    let (mut sender, to_beta) = endpoint(socket, "alpha", sends)?;
    let (mut receiver, _) = endpoint(socket, "beta", receives)?;
    if receives.is_own() {
        for memory in own(&mut receiver, receives, octets)? {
            receiver.post(memory).map_err(|_| anyhow!("the free ring has no room"))?;
        }
    }
    let mut side = match receives {
        Way::Remap { .. } => Some(Side::new(&mut receiver, octets, way.batch())?),
        _ => None,
    };
    if let Some(side) = &mut side {
        side.post(&mut receiver)?;
    }
    // Pages are touched for the first time before counts begin.
    let (steady, done) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| -> Result<(u64, f64, Option<Mark>)> {
            let mut private = vec![0u8; octets];
            let (mut pdus, mut sum) = (0u64, 0u64);
            let (mut first, mut last) = (None, Instant::now());
            let mut mark: Option<Mark> = None;
            loop {
                if mark.is_none() && steady.load(Ordering::Relaxed) {
                    mark = thread_faults().map(|faults| Mark { faults, pdus });
                }
                let patience = Duration::from_millis(20);
                let got = match &mut side {
                    Some(side) => side.receive(&mut receiver, patience)?,
                    None => receive(&mut receiver, receives, &mut private, patience)?,
                };
                match got {
                    (0, _) if done.load(Ordering::Relaxed) => break,
                    (0, _) => {}
                    (n, octets) => {
                        sum = sum.wrapping_add(octets);
                        // What came with the first is not in the time.
                        pdus += if first.is_some() { n } else { 1 };
                        first.get_or_insert_with(Instant::now);
                        last = Instant::now();
                    }
                }
            }
            black_box(sum);
            let faults = mark.and_then(|then| Some(thread_faults()?.saturating_sub(then.faults)));
            let mark = faults.zip(mark).map(|(faults, then)| Mark { faults, pdus: pdus - then.pdus });
            Ok((pdus, first.map_or(0.0, |f: Instant| last.saturating_duration_since(f).as_secs_f64()), mark))
        });
        let sent = send(&mut sender, to_beta, sends, octets, (length, &steady));
        done.store(true, Ordering::Relaxed);
        let (pdus, seconds, mark) = counting.join().unwrap_or_else(|_| bail!("the receiver panicked"))?;
        let (sent, before) = sent?;
        let lost = (1.0 - pdus as f64 / sent.max(1) as f64).max(0.0);
        let counts = before.zip(mark).map(|(before, mark)| before.since(mark.faults, mark.pdus)).unwrap_or_default();
        Ok(PathOutcome { pdus_per_s: pdus as f64 / seconds.max(1e-9), lost, counts })
    })
}

/// Receives an SDU, if one comes: how many, and a sum of its octets.
fn receive(receiver: &mut Endpoint, way: Way, private: &mut [u8], patience: Duration) -> Result<(u64, u64)> {
    let Some(sdu) = receiver.receive(Some(patience))? else { return Ok((0, 0)) };
    if sdu.len() != private.len() {
        bail!("{} octets arrived where {} were sent", sdu.len(), private.len());
    }
    Ok((
        1,
        match way {
            Way::Copying | Way::Shared => {
                private.copy_from_slice(&sdu);
                consume(black_box(private))
            }
            _ => consume(&sdu),
        },
    ))
}

/// Sends for so long; the second half is steady. Gives how many SDUs were sent, and what was counted before that half.
fn send(
    sender: &mut Endpoint,
    to_beta: ChannelId,
    way: Way,
    octets: usize,
    (length, steady): (Duration, &AtomicBool),
) -> Result<(u64, Option<Readings>)> {
    let mut before = None;
    let mut side = match way {
        Way::Remap { batch, .. } => Some(Side::new(sender, octets, batch)?),
        _ => None,
    };
    let begin = Instant::now();
    let mut sent = 0;
    let mut private = vec![0u8; octets];
    let mut idle = if way.is_own() { own(sender, way, octets)? } else { Vec::new() };
    let patience = Some(Duration::from_millis(100));
    while begin.elapsed() < length {
        if before.is_none() && begin.elapsed() >= length / 2 {
            before = Some(Readings::take());
            steady.store(true, Ordering::Relaxed);
        }
        for _ in 0..16 / way.batch() {
            let mut pushed_now = 1;
            let pushed = match way {
                Way::Remap { .. } => match &mut side {
                    Some(side) => side.send(sender, to_beta, sent).map(|n| pushed_now = n),
                    None => bail!("a window is missing"),
                },
                Way::Copying | Way::Shared => {
                    produce(&mut private, sent);
                    sender.send_copy(to_beta, black_box(&private))
                }
                Way::ZeroCopy => match sender.loan() {
                    Some(mut loan) => {
                        produce(&mut loan[..octets], sent);
                        sender.send(to_beta, loan, octets).map_err(|(e, _)| e)
                    }
                    None => Err(SendError::Full),
                },
                Way::SingleCopyRegistered | Way::SingleCopyAny => match idle.pop().or_else(|| sender.take_back()) {
                    Some(mut memory) => {
                        produce(&mut memory, sent);
                        sender.send_own(to_beta, memory, octets).map_err(|(e, memory)| {
                            idle.push(memory);
                            e
                        })
                    }
                    None => {
                        sender.wait_sent(patience)?;
                        continue;
                    }
                },
            };
            match pushed {
                Ok(()) => sent += pushed_now,
                Err(SendError::Full) => {
                    sender.wait_send(patience)?;
                }
                Err(e) => bail!(e),
            }
        }
    }
    sender.wait_sent(Some(Duration::from_secs(2)))?;
    Ok((sent, before))
}

impl super::QuickOptions for PathsOptions {
    fn quick(self) -> Self {
        PathsOptions { runs: 1, millis: 20, ..self }
    }
}

/// `cellway-lab bench paths`
pub(crate) fn run(context: &Context, options: &PathsOptions) -> Result<()> {
    let length = Duration::from_millis(options.millis.clamp(20, 10_000));
    let folder = std::env::temp_dir().join(format!("cellway-paths-{}", std::process::id()));
    let result = measure(&folder, options.runs.max(1), length);
    let _ = std::fs::remove_dir_all(&folder);
    let rows = result?;
    let remap: Vec<Value> = REMAPPED
        .map(|octets| {
            let Remapping { remap_ns, copy_ns, remap_faults, copy_faults } = measure_remap(octets);
            json!({
                "octets": octets, "remap_ns": remap_ns, "copy_ns": copy_ns, "remap_vs_copy": remap_ns / copy_ns,
                "remap_faults": remap_faults, "copy_faults": copy_faults,
            })
        })
        .into();
    if let Some(file) = &options.figure {
        std::fs::write(file, figure(&rows)?).with_context(|| format!("writing {}", file.display()))?;
    }
    let json = json!({
        "bench": "paths", "runs": options.runs, "run_seconds": length.as_secs_f64(), "rows": rows, "remap": remap,
        "published": { "source": "seed 004, section 2.2 (E-5)", "text":
            "kernel double buffer: up to about 110 Mbit/s with 32 and 64 KB, tens of Mbit/s at 50 to 1000 octets" },
    });
    output::print_as::<BenchPaths>(context, &json, || {
        let text = |row: &Value| {
            let f = |key: &str, digits: usize| super::number(row[key].as_f64(), digits);
            let name = row["path"].as_str().unwrap_or_default().to_owned();
            vec![
                name,
                row["pdu_octets"].to_string(),
                f("pdus_per_s", 0),
                f("gbit_s", 2),
                f("vs_memcpy", 3),
                f("lost_share", 3),
                f("sender_faults_per_pdu", 2),
                f("receiver_faults_per_pdu", 2),
                f("other_faults_per_pdu", 2),
                f("tlb_shootdowns_per_pdu", 2),
            ]
        };
        let head = [
            "path",
            "PDU octets",
            "PDUs/s",
            "Gbit/s",
            "of memcpy",
            "lost",
            "faults/PDU: sender",
            "receiver",
            "others",
            "TLB shootdowns/PDU",
        ];
        let mut out = output::table(&head, &rows.iter().map(text).collect::<Vec<_>>());
        out += "\nFaults are of the sender's thread, the receiver's, and all others of this process (the host's, the library's); \
                shootdowns are the whole machine's.\n";
        for row in &remap {
            let f = |key: &str| row[key].as_f64().unwrap_or_default();
            out += &format!(
                "\n{} octets: remapped in {:.0} ns with {:.1} page faults, copied in {:.0} ns with {:.1}",
                row["octets"],
                f("remap_ns"),
                f("remap_faults"),
                f("copy_ns"),
                f("copy_faults"),
            );
        }
        out
    })
}

/// The runs of a case.
#[derive(Debug, Clone, Default)]
struct Samples {
    rate: Vec<f64>,
    memcpy: Vec<f64>,
    lost: Vec<f64>,
    counts: Vec<Counts>,
}

impl Samples {
    fn row(&mut self, way: Way, octets: usize) -> Value {
        let (pdus_per_s, memcpy) = (median(&mut self.rate), median(&mut self.memcpy));
        let gbit_s = pdus_per_s * octets as f64 * 8.0 / 1e9;
        let count = |of: fn(&Counts) -> Option<f64>| {
            let mut all: Vec<f64> = self.counts.iter().filter_map(of).collect();
            (!all.is_empty()).then(|| median(&mut all))
        };
        json!({
            "path": way.name(), "pdu_octets": octets, "pdus_per_s": pdus_per_s, "gbit_s": gbit_s,
            "memcpy_gbit_s": memcpy, "vs_memcpy": gbit_s / memcpy, "lost_share": median(&mut self.lost),
            "sender_faults_per_pdu": count(|c| c.sender), "receiver_faults_per_pdu": count(|c| c.receiver),
            "other_faults_per_pdu": count(|c| c.others), "tlb_shootdowns_per_pdu": count(|c| c.shootdowns),
        })
    }
}

fn measure(folder: &Path, runs: usize, length: Duration) -> Result<Vec<Value>> {
    let socket = folder.join("paths.sock");
    let daemon = Daemon::start(config::parse(NETWORK, "the benchmark's network")?, &socket)?;
    let cases: Vec<(Way, usize)> = WAYS.into_iter().flat_map(|way| SIZES.map(|octets| (way, octets))).collect();
    let cases: Vec<(Way, usize)> = cases.into_iter().filter(|(way, octets)| way.is_measured(*octets)).collect();
    let bar = output::progress(Some((runs * cases.len()) as u64));
    let mut samples = vec![Samples::default(); cases.len()];
    for _ in 0..runs {
        let memcpy = SIZES.map(|octets| (octets, memcpy_gbit_s(octets, length / 10)));
        for ((way, octets), samples) in cases.iter().zip(&mut samples) {
            let outcome = case(&socket, *way, *octets, length)?;
            samples.rate.push(outcome.pdus_per_s);
            samples.memcpy.extend(memcpy.iter().filter(|(n, _)| n == octets).map(|(_, rate)| *rate));
            samples.lost.push(outcome.lost);
            samples.counts.push(outcome.counts);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    drop(daemon);
    Ok(cases.iter().zip(&mut samples).map(|((way, octets), samples)| samples.row(*way, *octets)).collect())
}

fn figure(rows: &[Value]) -> Result<String> {
    let series = |key: &str| series(rows, "path", "pdu_octets", key);
    let x = "octets of the PDU";
    draw(&[
        Panel { title: "Data paths: throughput", x, y: "Gbit/s", log_y: false, series: series("gbit_s") },
        Panel { title: "Data paths: rate", x, y: "PDUs per second", log_y: true, series: series("pdus_per_s") },
    ])
}
