//! `cellway-lab bench shards`: what two shards on two threads do beside one, and what a link between them costs. Copies of cells in as
//! many threads are the limit, measured in the same run.

mod drive;

use super::{median, pin, processor};
use crate::results::shards::{BenchShards, PairRow, ScaleRow, StreamRow};
use anyhow::{Context as _, Result, anyhow};
use cellway::context::Context;
use cellway::output;
use control::config;
use control::daemon::Daemon;
use control::processors::Processors;
use stack::flood::{Flood, Handover, flood_between};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use wire::CircuitId;

/// Queues of the link that cells stream over.
const QUEUES: [usize; 3] = [64, 512, 4096];
/// Octets of PDUs.
const SIZES: [usize; 3] = [64, 1500, 9188];
const VCI: u16 = 101;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct ShardsOptions {
    /// Runs of each case, interleaved; the medians are given
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Milliseconds of each run
    #[arg(long, default_value_t = 200)]
    millis: u64,
    /// Only PDUs of these octets
    #[arg(long, value_name = "OCTETS", value_delimiter = ',', default_values_t = SIZES)]
    sizes: Vec<usize>,
}

impl super::QuickOptions for ShardsOptions {
    fn quick(self) -> Self {
        ShardsOptions { runs: 1, millis: 20, ..self }
    }
}

/// `cellway-lab bench shards`
pub(crate) fn run(context: &Context, options: &ShardsOptions) -> Result<()> {
    let (runs, length) = (options.runs.max(1), Duration::from_millis(options.millis.clamp(20, 60_000)));
    let processors: Vec<usize> = Processors::allowed()?.numbers().take(2).collect();
    // Nothing is said of places where there is one processor only.
    let stages = STAGES.iter().filter(|stage| !stage.placed || processors.len() == 2);
    let bar = output::progress(Some((runs * (2 + QUEUES.len() + stages.clone().count() * options.sizes.len())) as u64));
    let (mut crossings, mut streams) = (Vec::new(), vec![[Vec::new(), Vec::new()]; QUEUES.len()]);
    let mut scales = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    let folder = std::env::temp_dir().join(format!("cellway-bench-{}", std::process::id()));
    let stages = stages.map(|stage| Stage::start(&folder, *stage, &processors)).collect::<Result<Vec<_>>>();
    let measured = stages.and_then(|stages| {
        let mut floods = vec![Vec::new(); stages.len() * options.sizes.len()];
        let mut lost = vec![0f64; floods.len()];
        for _ in 0..runs {
            crossings.push(drive::ping(length)?);
            bar.inc(1);
            for (queue, [within, across]) in QUEUES.iter().zip(&mut streams) {
                within.push(drive::stream(*queue, 1, length)?);
                across.push(drive::stream(*queue, 2, length)?);
                bar.inc(1);
            }
            for (threads, [switched, copied]) in (1..).zip(&mut scales) {
                switched.push(drive::switches(threads, length)?);
                copied.push(drive::copies(threads, length)?);
            }
            bar.inc(1);
            for (j, octets) in options.sizes.iter().enumerate() {
                for (i, stage) in stages.iter().enumerate() {
                    let at = i * options.sizes.len() + j;
                    let (rate, missing) = stage.flood(*octets, length)?;
                    floods[at].push(rate);
                    lost[at] = lost[at].max(missing);
                    bar.inc(1);
                }
            }
        }
        Ok((floods, lost))
    });
    bar.finish_and_clear();
    let _ = std::fs::remove_dir_all(&folder);
    let (mut floods, lost) = measured?;
    let rates: Vec<f64> = floods.iter_mut().map(|rates| median(rates)).collect();
    let sizes = options.sizes.len();
    let pair = |(at, rate): (usize, &f64)| {
        let Topology { pairs, shards, placed } = STAGES[at / sizes];
        let (pdu_octets, vs_one_pair) = (options.sizes[at % sizes], rate / rates[at % sizes]);
        PairRow { pairs, shards, placed, pdu_octets, pdus_per_s: *rate, vs_one_pair, lost_share: lost[at] }
    };
    let pairs = rates.iter().enumerate().map(pair).collect();
    let scales = scales.map(|[mut switched, mut copied]| [median(&mut switched), median(&mut copied)]);
    let scale = |(shards, [cells_per_s, copy_cells_per_s]): (usize, [f64; 2])| {
        let [one, copy] = scales[0];
        ScaleRow {
            shards,
            cells_per_s,
            copy_cells_per_s,
            scale: cells_per_s / one,
            copy_scale: copy_cells_per_s / copy,
        }
    };
    let stream = |(queue_cells, [within, across]): (usize, &mut [Vec<f64>; 2])| StreamRow {
        queue_cells,
        within_ns: median(within),
        across_ns: median(across),
    };
    let result = BenchShards {
        bench: "shards".into(),
        processor: processor(),
        runs,
        run_seconds: length.as_secs_f64(),
        crossing_ns: median(&mut crossings),
        streams: QUEUES.into_iter().zip(&mut streams).map(stream).collect(),
        switches: (1..).zip(scales).map(scale).collect(),
        pairs,
    };
    let json = serde_json::to_value(&result)?;
    output::print_as::<BenchShards>(context, &json, || text(&result))
}

fn text(result: &BenchShards) -> String {
    let mut text = format!("one cell to another shard: {:.0} ns\n", result.crossing_ns);
    for row in &result.streams {
        let StreamRow { queue_cells, within_ns, across_ns } = row;
        let _ = writeln!(
            text,
            "a stream, queue of {queue_cells}: {within_ns:.1} ns a cell within a shard, {across_ns:.1} across"
        );
    }
    for row in &result.switches {
        let (million, scale, copy) = (row.cells_per_s / 1e6, row.scale, row.copy_scale);
        let _ = writeln!(
            text,
            "switches in {} shards: {million:.1} M cells/s, {scale:.2} of one; copies {copy:.2}",
            row.shards
        );
    }
    let head = ["pairs", "shards", "placed", "PDU octets", "PDUs/s", "of one pair", "lost"];
    let rows: Vec<Vec<String>> = result
        .pairs
        .iter()
        .map(|row| {
            vec![
                row.pairs.to_string(),
                row.shards.to_string(),
                if row.placed { "yes".into() } else { "no".into() },
                row.pdu_octets.to_string(),
                format!("{:.0}", row.pdus_per_s),
                format!("{:.2}", row.vs_one_pair),
                format!("{:.1}%", 100.0 * row.lost_share),
            ]
        })
        .collect();
    text + &output::table(&head, &rows)
}

/// Pairs of applications, each with two hosts and a switch, and the shards that they are in.
#[derive(Debug, Clone, Copy)]
struct Topology {
    pairs: usize,
    shards: usize,
    /// Each shard has a processor, on which its pair stays too.
    placed: bool,
}

/// What all others are compared with is the first.
const STAGES: [Topology; 4] = [
    Topology { pairs: 1, shards: 1, placed: false },
    Topology { pairs: 2, shards: 1, placed: false },
    Topology { pairs: 2, shards: 2, placed: false },
    Topology { pairs: 2, shards: 2, placed: true },
];

struct Stage {
    topology: Topology,
    daemon: Daemon,
    socket: std::path::PathBuf,
    /// Of each pair, where it is placed.
    processors: Vec<usize>,
}

impl Stage {
    fn start(folder: &Path, topology: Topology, processors: &[usize]) -> Result<Self> {
        let Topology { pairs, shards, placed } = topology;
        let processors = if placed { processors.to_vec() } else { Vec::new() };
        let mut text = format!("[engine]\nshards = {shards}\n");
        if placed {
            let _ = writeln!(text, "processor = {processors:?}");
        }
        for n in 0..pairs {
            for station in [format!("host.a{n}"), format!("host.b{n}"), format!("switch.s{n}")] {
                let _ = writeln!(text, "[{station}]\nshard = {}", n % shards);
            }
        }
        for n in 0..pairs {
            let _ = writeln!(
                text,
                "[[link]]\nends = [\"a{n}\", \"s{n}:0\"]\n[[link]]\nends = [\"b{n}\", \"s{n}:1\"]\n[[circuit]]\nends = [\"a{n} 0.{VCI}\", \"b{n} 0.{VCI}\"]\nflow = \"credit\""
            );
        }
        let socket = folder.join(format!("{pairs}-{shards}-{placed}.sock"));
        let daemon = Daemon::start(config::parse(&text, "the benchmark's network")?, &socket)?;
        Ok(Stage { topology, daemon, socket, processors })
    }

    /// All pairs at once: PDUs a second in sum, and the share that was lost.
    fn flood(&self, octets: usize, length: Duration) -> Result<(f64, f64)> {
        let circuit = CircuitId::new(0, VCI).context("a VCI")?;
        let floods = std::thread::scope(|scope| {
            let pair = |n: usize| {
                scope.spawn(move || {
                    self.processors.get(n).map_or(Ok(()), |processor| pin(*processor))?;
                    let hosts = [format!("a{n}"), format!("b{n}")];
                    flood_between(
                        &self.socket,
                        hosts.each_ref().map(String::as_str),
                        circuit,
                        (octets, Handover::Lent),
                        length,
                    )
                    .map_err(anyhow::Error::from)
                })
            };
            let all: Vec<_> = (0..self.topology.pairs).map(pair).collect();
            let join =
                |flood: std::thread::ScopedJoinHandle<'_, _>| flood.join().map_err(|_| anyhow!("a pair panicked"))?;
            all.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        debug_assert!(self.daemon.controller().revision() > 0);
        let rate = floods.iter().map(|flood| flood.arrived as f64 / flood.seconds.max(1e-9)).sum();
        let lost = |flood: &Flood| 1.0 - flood.arrived as f64 / flood.sent.max(1) as f64;
        Ok((rate, floods.iter().map(lost).fold(0.0, f64::max)))
    }
}
