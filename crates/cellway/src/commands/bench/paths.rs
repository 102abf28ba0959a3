//! `cellway bench paths`: the data paths over the size of the PDU, through the network interface on a cell link.
//!
//! The sender writes every octet of each SDU, the receiver reads every octet; where they keep them is the data path's matter.

use super::figure::{Panel, draw, series};
use super::{median, memcpy_gbit_s};
use crate::context::Context;
use crate::output;
use anyhow::{Context as _, Result, anyhow, bail};
use control::config;
use control::daemon::Daemon;
use control::results::bench::BenchPaths;
use endpoint::{ChannelId, DataPath, Endpoint, EndpointConfig, Geometry, Memory, OpenOptions, SendError};
use serde_json::{Value, json};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::CircuitId;

const SIZES: [usize; 8] = [64, 256, 1024, 2048, 4096, 9188, 16_384, 65_535];
/// Pieces of own memory on their way.
const PIECES: usize = 32;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
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
}

const WAYS: [Way; 5] = [Way::Copying, Way::SingleCopyRegistered, Way::SingleCopyAny, Way::Shared, Way::ZeroCopy];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Copying => "copying",
            Way::SingleCopyRegistered => "single-copy, registered",
            Way::SingleCopyAny => "single-copy, any memory",
            Way::Shared => "shared",
            Way::ZeroCopy => "zero-copy",
        }
    }

    fn path(self) -> DataPath {
        match self {
            Way::Copying => DataPath::Copying,
            Way::SingleCopyRegistered | Way::SingleCopyAny => DataPath::SingleCopy,
            Way::Shared => DataPath::Shared,
            Way::ZeroCopy => DataPath::ZeroCopy,
        }
    }

    fn is_own(self) -> bool {
        self.path() == DataPath::SingleCopy
    }
}

const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends=[\"alpha\",\"beta\"]\n\
                       [[circuit]]\nends=[\"alpha 0.100\",\"beta 0.100\"]\n";

fn endpoint(socket: &Path, host: &str, way: Way) -> Result<(Endpoint, ChannelId)> {
    let geometry = Geometry { send_ring: 256, receive_ring: 512, free_ring: 512, buffers: 96, buffer_octets: 65_536 };
    // Own memory is received into by whoever has posted some; else there are buffers.
    let send_buffers = Some(if way.is_own() && host == "beta" { 96 } else { 32 });
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

/// SDUs per second that arrive, and the share that does not.
fn case(socket: &Path, way: Way, octets: usize, length: Duration) -> Result<(f64, f64)> {
    let (mut sender, to_beta) = endpoint(socket, "alpha", way)?;
    let (mut receiver, _) = endpoint(socket, "beta", way)?;
    if way.is_own() {
        for memory in own(&mut receiver, way, octets)? {
            receiver.post(memory).map_err(|_| anyhow!("the free ring has no room"))?;
        }
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| -> Result<(u64, f64)> {
            let mut private = vec![0u8; octets];
            let (mut pdus, mut sum) = (0u64, 0u64);
            let (mut first, mut last) = (None, Instant::now());
            loop {
                match receiver.receive(Some(Duration::from_millis(20)))? {
                    Some(sdu) if sdu.len() != octets => bail!("{} octets arrived where {octets} were sent", sdu.len()),
                    Some(sdu) => {
                        sum = sum.wrapping_add(match way {
                            Way::Copying | Way::Shared => {
                                private.copy_from_slice(&sdu);
                                consume(black_box(&private))
                            }
                            _ => consume(&sdu),
                        });
                        first.get_or_insert_with(Instant::now);
                        pdus += 1;
                        last = Instant::now();
                    }
                    None if done.load(Ordering::Relaxed) => break,
                    None => {}
                }
            }
            black_box(sum);
            Ok((pdus, first.map_or(0.0, |f: Instant| last.saturating_duration_since(f).as_secs_f64())))
        });
        let sent = send(&mut sender, to_beta, way, octets, length);
        done.store(true, Ordering::Relaxed);
        let (pdus, seconds) = counting.join().unwrap_or_else(|_| bail!("the receiver panicked"))?;
        let sent = sent?.max(1);
        Ok((pdus as f64 / seconds.max(1e-9), (1.0 - pdus as f64 / sent as f64).max(0.0)))
    })
}

fn send(sender: &mut Endpoint, to_beta: ChannelId, way: Way, octets: usize, length: Duration) -> Result<u64> {
    let begin = Instant::now();
    let mut sent = 0;
    let mut private = vec![0u8; octets];
    let mut idle = if way.is_own() { own(sender, way, octets)? } else { Vec::new() };
    let patience = Some(Duration::from_millis(100));
    while begin.elapsed() < length {
        for _ in 0..16 {
            let pushed = match way {
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
                Ok(()) => sent += 1,
                Err(SendError::Full) => {
                    sender.wait_send(patience)?;
                }
                Err(e) => bail!(e),
            }
        }
    }
    sender.wait_sent(Some(Duration::from_secs(2)))?;
    Ok(sent)
}

/// `cellway bench paths`
pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    let length = Duration::from_millis(options.millis.clamp(20, 10_000));
    let folder = std::env::temp_dir().join(format!("cellway-paths-{}", std::process::id()));
    let result = measure(&folder, options.runs.max(1), length);
    let _ = std::fs::remove_dir_all(&folder);
    let rows = result?;
    let remap: Vec<Value> = [4096, 16_384, 65_536]
        .map(|octets| {
            let (remap, copy) = host::measure_remap(octets);
            json!({ "octets": octets, "remap_ns": remap, "copy_ns": copy, "remap_vs_copy": remap / copy })
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
            let f = |key: &str, digits: usize| format!("{:.digits$}", row[key].as_f64().unwrap_or_default());
            let name = row["path"].as_str().unwrap_or_default().to_owned();
            vec![
                name,
                row["pdu_octets"].to_string(),
                f("pdus_per_s", 0),
                f("gbit_s", 2),
                f("vs_memcpy", 3),
                f("lost_share", 3),
            ]
        };
        let head = ["path", "PDU octets", "PDUs/s", "Gbit/s", "of memcpy", "lost"];
        let mut out = output::table(&head, &rows.iter().map(text).collect::<Vec<_>>());
        for row in &remap {
            let f = |key: &str| row[key].as_f64().unwrap_or_default();
            out += &format!(
                "\n{} octets: remapped in {:.0} ns, copied in {:.0} ns",
                row["octets"],
                f("remap_ns"),
                f("copy_ns")
            );
        }
        out
    })
}

/// Rates, memcpy's, and shares lost, of the runs of a case.
type Samples = (Vec<f64>, Vec<f64>, Vec<f64>);

fn measure(folder: &Path, runs: usize, length: Duration) -> Result<Vec<Value>> {
    let socket = folder.join("paths.sock");
    let daemon = Daemon::start(config::parse(NETWORK, "the benchmark's network")?, &socket)?;
    let bar = output::progress(Some((runs * WAYS.len() * SIZES.len()) as u64));
    let mut samples = vec![Samples::default(); WAYS.len() * SIZES.len()];
    for _ in 0..runs {
        for (j, octets) in SIZES.into_iter().enumerate() {
            let memcpy = memcpy_gbit_s(octets, length / 10);
            for (i, way) in WAYS.into_iter().enumerate() {
                let (rate, lost) = case(&socket, way, octets, length)?;
                let sample = &mut samples[i * SIZES.len() + j];
                sample.0.push(rate);
                sample.1.push(memcpy);
                sample.2.push(lost);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    drop(daemon);
    let row = |(at, (rate, memcpy, lost)): (usize, &mut Samples)| {
        let (way, octets) = (WAYS[at / SIZES.len()], SIZES[at % SIZES.len()]);
        let (pdus_per_s, memcpy) = (median(rate), median(memcpy));
        let gbit_s = pdus_per_s * octets as f64 * 8.0 / 1e9;
        json!({
            "path": way.name(), "pdu_octets": octets, "pdus_per_s": pdus_per_s, "gbit_s": gbit_s,
            "memcpy_gbit_s": memcpy, "vs_memcpy": gbit_s / memcpy, "lost_share": median(lost),
        })
    };
    Ok(samples.iter_mut().enumerate().map(row).collect())
}

fn figure(rows: &[Value]) -> Result<String> {
    let series = |key: &str| series(rows, "path", "pdu_octets", key);
    let x = "octets of the PDU";
    draw(&[
        Panel { title: "Data paths: throughput", x, y: "Gbit/s", log_y: false, series: series("gbit_s") },
        Panel { title: "Data paths: rate", x, y: "PDUs per second", log_y: true, series: series("pdus_per_s") },
    ])
}
