//! `cellway-lab bench events`: the event strategies over load, on this machine and in the model of `lab::overload`.
//!
//! The host's thread and the application share one processor, the sender has another: what the host spends on SDUs that the
//! application cannot take is missing there. The host's thread has the highest priority that it can get, as
//! interrupts have; the poller is a process like any other.

mod scale;

use super::figure::{Panel, draw, series};
use super::{pin, thread_seconds};
use crate::results::bench::BenchEvents;
use anyhow::{Context as _, Result, anyhow, bail};
use cellway::context::Context;
use cellway::output;
use control::config;
use control::daemon::Daemon;
use control::processors::Processors;
use endpoint::{ChannelId, Endpoint, EndpointConfig, Events, Geometry, OpenOptions};
use host::engine::EngineHandle;
use lab::overload;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::CircuitId;

/// Octets of an SDU: one cell, inside the descriptor.
const SDU_OCTETS: usize = 40;
/// Loads, in parts of the saturating one.
const LOADS: [f64; 10] = [0.05, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.5, 5.0, 10.0];
/// Those of a short run: little, and too much.
const FEW_LOADS: [f64; 2] = [0.2, 5.0];

/// In per cent of a processor: a host that does whatever comes, as the laboratory's model does.
const NO_LIMIT: u8 = 100;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct EventsOptions {
    /// Runs of each case, interleaved; the one with the median throughput is given
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Milliseconds of each measurement
    #[arg(long, default_value_t = 150)]
    millis: u64,
    /// The application's work on each SDU, in microseconds
    #[arg(long, default_value_t = 3.0)]
    work_us: f64,
    /// The saturating load in SDUs a second, to which offered loads are relative. Give another program's value to
    /// compare with it at the same loads [default: measured]
    #[arg(long, value_name = "RATE")]
    saturating: Option<f64>,
    /// Draw the figure into this file (SVG)
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    /// Omit the cost over the number of endpoints and circuits
    #[arg(long)]
    no_scale: bool,
    /// Only strategies whose name contains this, such as "interrupt" or "clocked"
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The cycle limit: per cent of a processor that the host uses while most of its SDUs find the application's ring
    /// full. 100 is no limit, and shows an application that is starved by interrupts
    #[arg(long, default_value_t = config::Engine::default().cycle_limit_percent, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(10..=100))]
    cycle_limit: u8,
    #[arg(skip)]
    quick: bool,
}

impl EventsOptions {
    fn loads(&self) -> &'static [f64] {
        if self.quick { &FEW_LOADS } else { &LOADS }
    }

    fn strategies(&self) -> Vec<Events> {
        let mut all = vec![
            Events::Interrupt,
            Events::Polling,
            Events::Clocked { hertz: 1000 },
            Events::Clocked { hertz: 4000 },
            Events::default(),
            Events::Soft { hertz: 20_000 },
        ];
        all.retain(|events| self.only.as_deref().is_none_or(|only| events.to_string().contains(only)));
        all
    }
}

impl super::QuickOptions for EventsOptions {
    fn quick(self) -> Self {
        EventsOptions { runs: 1, millis: 20, quick: true, ..self }
    }
}

/// `cellway-lab bench events`
pub(crate) fn run(context: &Context, options: &EventsOptions) -> Result<()> {
    let strategies = options.strategies();
    if strategies.is_empty() {
        bail!("no strategy has {:?} in its name; try interrupt, polling, clocked, hybrid or soft", options.only);
    }
    let folder = std::env::temp_dir().join(format!("cellway-events-{}", std::process::id()));
    let result = measure(&folder, options, &strategies);
    let _ = std::fs::remove_dir_all(&folder);
    let (rows, modelled, scale, share) = result?;
    if let Some(file) = &options.figure {
        std::fs::write(file, figure(&rows, &modelled)?).with_context(|| format!("writing {}", file.display()))?;
    }
    let json = json!({
        "bench": "events", "sdu_octets": SDU_OCTETS, "application_us": options.work_us,
        "runs": options.runs, "run_seconds": options.millis as f64 / 1e3, "host_goes_first": share,
        "cycle_limit_percent": options.cycle_limit,
        "kept_at_highest_load": kept(&strategies, &rows), "kept_at_highest_load_modelled": kept(&strategies, &modelled),
        "published": "seed 004, section 3.2: clocked interrupts reach the throughput of interrupts, and more under load; both \
            are better than polling by a process; round trips under load 4/11/25 ms (500 Hz) and 5/12/18 ms (interrupts)",
        "rows": rows, "modelled": modelled,
        "scale": scale,
    });
    output::print_as::<BenchEvents>(context, &json, || {
        let text = |row: &Value| {
            let f = |key: &str, digits: usize| format!("{:.digits$}", row[key].as_f64().unwrap_or_default());
            vec![
                row["events"].as_str().unwrap_or_default().to_owned(),
                if row["competitor"] == true { "yes" } else { "no" }.to_owned(),
                f("offered_per_s", 0),
                f("done_per_s", 0),
                f("p50_us", 1),
                f("p99_us", 1),
                f("host_share", 2),
                f("application_share", 2),
            ]
        };
        let head = ["events", "competitor", "offered/s", "done/s", "p50 us", "p99 us", "host", "application"];
        let mut out = output::table(&head, &rows.iter().map(text).collect::<Vec<_>>());
        if !scale.is_empty() {
            let text = |row: &Value| {
                let f = |key: &str| format!("{:.1}", row[key].as_f64().unwrap_or_default());
                vec![
                    row["what"].as_str().unwrap_or_default().to_owned(),
                    row["n"].to_string(),
                    f("octets_each"),
                    f("rtt_us"),
                ]
            };
            out.push('\n');
            out += &output::table(
                &["of", "there are", "octets each", "round trip us"],
                &scale.iter().map(text).collect::<Vec<_>>(),
            );
        }
        out
    })
}

/// Of each strategy, what it does at the highest load as part of the most that it ever did; without a competitor.
fn kept(strategies: &[Events], rows: &[Value]) -> Value {
    let mut kept = serde_json::Map::new();
    for events in strategies {
        let of = rows.iter().filter(|r| r["events"] == events.to_string() && r["competitor"] != true);
        let done: Vec<f64> = of.filter_map(|r| r["done_per_s"].as_f64()).collect();
        let most = done.iter().copied().fold(0.0, f64::max);
        kept.insert(events.to_string(), json!(done.last().copied().unwrap_or_default() / most.max(1e-9)));
    }
    Value::Object(kept)
}

type Measured = (Vec<Value>, Vec<Value>, Vec<Value>, bool);

fn measure(folder: &Path, options: &EventsOptions, strategies: &[Events]) -> Result<Measured> {
    let socket = folder.join("events.sock");
    let config = config::parse(&scale::limited(options.cycle_limit), "the benchmark's network")?;
    let daemon = Daemon::start(config, &socket)?;
    let places = Places::find()?;
    let length = Duration::from_millis(options.millis.clamp(20, 10_000));
    let work = Duration::from_secs_f64(options.work_us.clamp(0.0, 1000.0) / 1e6);
    let bench = Bench { engine: &daemon.engine, socket: &socket, places, length, work };
    let first = bench.host_first(true)?;
    let saturating = options.saturating.map_or_else(|| bench.saturating(), Ok)?;
    let runs = options.runs.max(1);
    let loads = options.loads();
    let bar = output::progress(Some((runs * strategies.len() * loads.len() * 2) as u64));
    let mut samples = vec![Vec::new(); strategies.len() * loads.len() * 2];
    for _ in 0..runs {
        let mut cases = samples.iter_mut();
        for events in strategies.iter().copied() {
            bench.host_first(events != Events::Polling)?;
            for competitor in [false, true] {
                for (load, case) in loads.iter().zip(&mut cases) {
                    case.push(bench.case(events, load * saturating, competitor)?);
                    bar.inc(1);
                }
            }
        }
    }
    bar.finish_and_clear();
    let done = |row: &Value| row["done_per_s"].as_f64().unwrap_or_default();
    for case in &mut samples {
        case.sort_by(|a, b| done(a).total_cmp(&done(b)));
    }
    let rows: Vec<Value> = samples.into_iter().filter_map(|mut case| case.drain(runs / 2..).next()).collect();
    bench.host_first(false)?;
    let effort = if options.quick { scale::SHORT } else { scale::WHOLE };
    let scale = if options.no_scale { Vec::new() } else { scale::measure(folder, effort)? };
    Ok((rows, modelled(strategies, options), scale, first))
}

/// Runs of strategies over loads (in parts of the saturating one), without a competitor, for the laboratory: each run of each
/// case, strategy by strategy, load by load.
pub(crate) fn sweep(
    folder: &Path,
    strategies: &[Events],
    loads: &[f64],
    runs: usize,
    length: Duration,
) -> Result<Vec<Vec<Value>>> {
    let socket = folder.join("events.sock");
    let daemon = Daemon::start(config::parse(&scale::limited(NO_LIMIT), "the benchmark's network")?, &socket)?;
    let places = Places::find()?;
    let work = Duration::from_micros(3);
    let bench = Bench { engine: &daemon.engine, socket: &socket, places, length, work };
    bench.host_first(true)?;
    let saturating = bench.saturating()?;
    let mut samples = vec![Vec::new(); strategies.len() * loads.len()];
    for _ in 0..runs {
        let mut cases = samples.iter_mut();
        for events in strategies {
            bench.host_first(*events != Events::Polling)?;
            for (load, case) in loads.iter().zip(&mut cases) {
                case.push(bench.case(*events, load * saturating, false)?);
            }
        }
    }
    Ok(samples)
}

fn modelled(strategies: &[Events], options: &EventsOptions) -> Vec<Value> {
    let costs = overload::Costs::default();
    let length = Duration::from_millis(if options.quick { 5 } else { 200 });
    let mut rows = Vec::new();
    for events in strategies.iter().copied() {
        for load in options.loads() {
            let o = overload::run(events, costs, load * 200_000.0, length);
            rows.push(json!({
                "events": events, "offered_per_s": o.offered, "done_per_s": o.done, "p50_us": o.p50.as_secs_f64() * 1e6,
                "p99_us": o.p99.as_secs_f64() * 1e6, "host_share": o.host_share, "interrupts_per_s": o.interrupts,
            }));
        }
    }
    rows
}

/// The processor that host and application share, and the sender's.
#[derive(Clone, Copy)]
struct Places {
    all: Processors,
    shared: usize,
    sender: usize,
}

impl Places {
    fn find() -> Result<Self> {
        let all = Processors::allowed()?;
        let mut numbers = all.numbers();
        match (numbers.next(), numbers.next()) {
            (Some(shared), Some(sender)) => Ok(Places { all, shared, sender }),
            _ => Err(anyhow!("two processors are needed, and this process may use one only (taskset, cgroup?)")),
        }
    }
}

struct Bench<'a> {
    engine: &'a EngineHandle,
    socket: &'a Path,
    places: Places,
    length: Duration,
    work: Duration,
}

/// What the receiving application has seen.
#[derive(Default)]
struct Seen {
    done: u64,
    latencies_us: Vec<f64>,
    busy: f64,
}

impl Bench<'_> {
    /// Puts the host's thread on the shared processor, before the application if it may. True if it goes first.
    fn host_first(&self, first: bool) -> Result<bool> {
        let cpu = self.places.shared;
        let set = self.engine.with(move |_| {
            pin(cpu)?;
            let wanted = if first { -20 } else { 0 };
            anyhow::Ok(rustix::process::setpriority_process(Some(rustix::thread::gettid()), wanted).is_ok())
        });
        Ok(set?? && first)
    }

    /// As much as can come: what is dealt with is the saturating load. Others on the machine only make it look smaller.
    fn saturating(&self) -> Result<f64> {
        let mut saturating = 10_000f64;
        for _ in 0..5 {
            let row = self.case(Events::default(), f64::INFINITY, false)?;
            saturating = saturating.max(row["done_per_s"].as_f64().unwrap_or_default());
        }
        Ok(saturating)
    }

    fn endpoint(&self, host: &str, events: Events) -> Result<(Endpoint, ChannelId)> {
        let geometry = Geometry { buffers: 16, buffer_octets: 2048, ..Geometry::default() };
        let config = EndpointConfig { host: host.into(), geometry, events, ..EndpointConfig::default() };
        let mut endpoint = Endpoint::create(self.socket, &config)?;
        let channel = endpoint.open(CircuitId::new(0, 100).context("0.100")?, OpenOptions::default())?;
        Ok((endpoint, channel))
    }

    /// One load for one strategy.
    fn case(&self, events: Events, per_second: f64, competitor: bool) -> Result<Value> {
        let (mut sender, to_beta) = self.endpoint("alpha", events)?;
        let (mut receiver, _) = self.endpoint("beta", events)?;
        let (end, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let epoch = Instant::now();
        let host_before = self.engine.with(|_| thread_seconds())?;
        let (offered, seen, seconds) = std::thread::scope(|scope| -> Result<_> {
            let application = scope.spawn(|| self.receive(&mut receiver, epoch, &end));
            if competitor {
                scope.spawn(|| {
                    let _ = pin(self.places.shared);
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let sending = scope.spawn(|| self.send(&mut sender, to_beta, epoch, per_second));
            let offered = sending.join().map_err(|_| anyhow!("the sender panicked"))?;
            let seconds = epoch.elapsed().as_secs_f64();
            end.store(true, Ordering::Relaxed);
            // What still waits is no part of the measurement; a host that never gives way is not asked either.
            let seen = application.join().map_err(|_| anyhow!("the application panicked"));
            over.store(true, Ordering::Relaxed);
            Ok((offered?, seen??, seconds))
        })?;
        let wall = epoch.elapsed().as_secs_f64();
        let host_busy = self.engine.with(|_| thread_seconds())? - host_before;
        let counts = self.engine.with(|core| {
            let host = core.host("beta").map(|(_, host)| host.endpoints());
            host.and_then(|all| all.last().map(|e| e.event_counts)).unwrap_or_default()
        })?;
        let mut latencies = seen.latencies_us;
        latencies.sort_by(f64::total_cmp);
        let at = |share: f64| latencies.get((latencies.len().saturating_sub(1) as f64 * share) as usize).copied();
        Ok(json!({
            "events": events, "competitor": competitor, "offered_per_s": offered as f64 / seconds,
            "done_per_s": seen.done as f64 / seconds, "p50_us": at(0.5), "p99_us": at(0.99),
            "host_share": host_busy / wall, "application_share": seen.busy / wall,
            "bells_per_s": counts.bells as f64 / seconds, "rests": counts.rests,
        }))
    }

    /// Offers SDUs evenly; those that find the ring full are lost. How many were offered.
    fn send(&self, sender: &mut Endpoint, to_beta: ChannelId, epoch: Instant, per_second: f64) -> Result<u64> {
        pin(self.places.sender)?;
        let mut sdu = [0u8; SDU_OCTETS];
        let mut offered = 0u64;
        loop {
            let elapsed = epoch.elapsed();
            if elapsed >= self.length {
                return Ok(offered);
            }
            if per_second.is_finite() && offered as f64 > elapsed.as_secs_f64() * per_second {
                std::hint::spin_loop();
                continue;
            }
            sdu[..8].copy_from_slice(&(elapsed.as_nanos() as u64).to_ne_bytes());
            // A full ring is the load's own fault.
            let _ = sender.send_copy(to_beta, &sdu);
            offered += 1;
        }
    }

    fn receive(&self, receiver: &mut Endpoint, epoch: Instant, end: &AtomicBool) -> Result<Seen> {
        pin(self.places.shared)?;
        let before = thread_seconds();
        let mut seen = Seen::default();
        while !end.load(Ordering::Relaxed) {
            let Some(sdu) = receiver.receive(Some(Duration::from_millis(2)))? else { continue };
            let mut sent = [0; 8];
            sent.copy_from_slice(&sdu[..8]);
            drop(sdu);
            let begin = Instant::now();
            while begin.elapsed() < self.work {
                std::hint::spin_loop();
            }
            if end.load(Ordering::Relaxed) {
                break;
            }
            seen.done += 1;
            let late = (epoch.elapsed().as_nanos() as u64).saturating_sub(u64::from_ne_bytes(sent));
            seen.latencies_us.push(late as f64 / 1e3);
        }
        seen.busy = thread_seconds() - before;
        self.places.all.stay()?;
        Ok(seen)
    }
}

fn figure(rows: &[Value], modelled: &[Value]) -> Result<String> {
    let series = |rows: &[Value], key: &str, competitor: Option<bool>| {
        let rows = rows.iter().filter(|r| competitor.is_none_or(|c| r["competitor"] == c));
        series(rows, "events", "offered_per_s", key)
    };
    let x = "SDUs offered per second";
    let panel = |title, y, log_y, series| Panel { title, x, y, log_y, series };
    draw(&[
        panel("Throughput, measured", "SDUs done per second", false, series(rows, "done_per_s", Some(false))),
        panel(
            "Throughput, with a computing competitor",
            "SDUs done per second",
            false,
            series(rows, "done_per_s", Some(true)),
        ),
        panel("Latency p50, measured", "microseconds", true, series(rows, "p50_us", Some(false))),
        panel("Latency p99, measured", "microseconds", true, series(rows, "p99_us", Some(false))),
        panel("The host's share of the shared processor", "share", false, series(rows, "host_share", Some(false))),
        panel("Throughput, modelled", "SDUs done per second", false, series(modelled, "done_per_s", None)),
    ])
}
