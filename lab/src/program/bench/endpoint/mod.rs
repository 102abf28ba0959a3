//! `cellway-lab bench endpoint`: messages between two processes on two cores, by a direct circuit, beside the machine's limits
//! and beside peers, all in the same run and interleaved.
//!
//! In: nothing but the machine (and, for iceoryx2, the program in `bench/peers`, which is built apart). Out: for each way
//! and size the time of a round trip and the rate one way, each as a ratio to the limit and to iceoryx2.

mod child;
mod iceoryx;
mod interface;
mod limits;
mod pipes;

use super::{median, number};
use crate::results::bench::BenchEndpoint;
use anyhow::{Context as _, Result, bail};
use cellway::context::Context;
use cellway::output;
use child::{Kind, Pair};
use clap::Args;
use control::config;
use control::daemon::Daemon;
use endpoint::direct::DirectGeometry;
use iceoryx::Iceoryx;
use pipes::Wait;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Options of `bench endpoint`.
#[derive(Debug, Args)]
pub(crate) struct EndpointOptions {
    /// Runs of each case, interleaved; the median is given
    #[arg(long, default_value_t = 9)]
    runs: usize,
    /// Thousands of round trips and of messages in each run of the fastest case; slower ones have fewer
    #[arg(long, default_value_t = 20)]
    thousands: usize,
    /// The two processors, far enough apart to have separate caches
    #[arg(long, num_args = 2, default_values_t = [0, 1])]
    processors: Vec<usize>,
    /// The program that measures iceoryx2 (cargo build --release --manifest-path bench/peers/Cargo.toml)
    #[arg(long, default_value = "bench/peers/target/release/peers")]
    peers: PathBuf,
    /// Only paths whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// The second process is started with this
    #[arg(long, hide = true)]
    other_process: Option<PathBuf>,
    /// ... on this processor
    #[arg(long, hide = true, default_value_t = 1)]
    processor: usize,
}

/// What carries the messages of a case.
#[derive(Debug, Clone, Copy)]
enum Way {
    Pipe(usize),
    Iceoryx,
}

/// One thing that is measured.
struct Case {
    path: &'static str,
    events: &'static str,
    octets: usize,
    way: Way,
    /// How much slower than the fastest, about: so much less is measured in a run.
    cost: usize,
    trips: bool,
    rate: bool,
    trip_ns: Vec<f64>,
    message_ns: Vec<f64>,
}

const SIZES: [usize; 6] = [40, 64, 1024, 4096, 9184, 65_536];
const BATCHES: usize = 20;
/// The circuit with a contract, whose sender offers as much as it can.
const CONTRACT: &str = "interface, contract";

impl super::QuickOptions for EndpointOptions {
    fn quick(self) -> Self {
        EndpointOptions { runs: 1, thousands: 1, ..self }
    }
}

/// `cellway-lab bench endpoint`
pub(crate) fn run(context: &Context, options: &EndpointOptions) -> Result<()> {
    if let Some(folder) = &options.other_process {
        return child::run(folder, options.processor);
    }
    if std::thread::available_parallelism()?.get() < 2 {
        bail!("two processors are needed: on one, nothing can be said of messages between two");
    }
    let folder = std::env::temp_dir().join(format!("cellway-bench-{}", std::process::id()));
    let result = measure(&folder, options);
    let _ = std::fs::remove_dir_all(&folder);
    let json = result?;
    output::print_as::<BenchEndpoint>(context, &json, || text(&json))
}

/// Blocks that suit messages of one size: an odd number of cache lines, and not more of them than the caches like.
fn geometry(octets: usize) -> DirectGeometry {
    let lines = octets.div_ceil(64) | 1;
    let blocks = (256 * 1024 / octets).clamp(16, 512) as u32;
    DirectGeometry { ring: 256, returns: 1024, blocks, block_octets: lines as u32 * 64 }
}

fn network() -> String {
    let mut text = String::from("[host.alpha]\n[host.beta]\n[[link]]\nends=[\"alpha\",\"beta\"]\n");
    for vci in 100..140 {
        text.push_str(&format!("[[circuit]]\nends=[\"alpha 0.{vci}\",\"beta 0.{vci}\"]\n"));
    }
    text.push_str(&interface::circuits());
    text
}

fn cases(pair: &mut Pair, iceoryx: bool) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut add = |path, events, octets, way, cost, trips, rate| {
        let (trip_ns, message_ns) = (Vec::new(), Vec::new());
        cases.push(Case { path, events, octets, way, cost, trips, rate, trip_ns, message_ns });
    };
    let line = Way::Pipe(pair.open(Kind::Line { slots: 0 })?);
    add("cache-line", "polling", 8, line, 1, true, false);
    let written = Way::Pipe(pair.open(Kind::Line { slots: 16 })?);
    for octets in [4096, 9184, 65_536] {
        add("write-read", "polling", octets, written, octets / 512, false, true);
    }
    let mut vci = 100;
    let mut direct = |pair: &mut Pair, octets, wait, touch| {
        vci += 1;
        anyhow::Ok(Way::Pipe(pair.open(Kind::Direct { vci, geometry: geometry(octets), wait, touch })?))
    };
    for octets in SIZES {
        add("direct", "polling", octets, direct(pair, octets, Wait::Polling, true)?, 1 + octets / 1024, true, true);
    }
    // Beside what is held against it: how long an idle core takes to wake up changes within seconds.
    let event = Way::Pipe(pair.open(Kind::Event)?);
    add("eventfd", "blocking", 8, event, 50, true, false);
    for octets in [40, 64, 1024, 9184] {
        add("direct", "blocking", octets, direct(pair, octets, Wait::Blocking, true)?, 50, true, false);
    }
    for octets in [40, 64, 1024, 9184] {
        let way = direct(pair, octets, Wait::SpinThenBlock, true)?;
        add("direct", "spin-then-block", octets, way, 2 + octets / 1024, true, true);
    }
    for octets in [64, 1024, 65_536] {
        add("direct, untouched", "polling", octets, direct(pair, octets, Wait::Polling, false)?, 1, false, true);
    }
    let plain = Way::Pipe(pair.open(Kind::Interface { vci: interface::BEST_EFFORT_VCI })?);
    let contract = Way::Pipe(pair.open(Kind::Interface { vci: interface::CONTRACT_VCI })?);
    for octets in [64, 1024, 9184] {
        add("interface", "hybrid", octets, plain, 400, true, false);
        add(CONTRACT, "hybrid", octets, contract, 25 * interface::cells(octets), false, true);
    }
    for (path, kind, cost) in [
        ("unix datagram", Kind::UnixDatagram, 20),
        ("unix stream", Kind::UnixStream, 20),
        ("tcp loopback", Kind::Tcp, 40),
        ("pipe", Kind::Pipe, 20),
    ] {
        let way = Way::Pipe(pair.open(kind.clone())?);
        let blocking = Way::Pipe(pair.open(Kind::Blocking(Box::new(kind)))?);
        for octets in [64, 1024, 9184] {
            add(path, "polling", octets, way, cost + octets / 512, true, true);
            add(path, "blocking", octets, blocking, cost + octets / 512, false, true);
        }
    }
    if iceoryx {
        for octets in SIZES {
            add("iceoryx2", "polling", octets, Way::Iceoryx, 4 + octets / 1024, true, true);
        }
    }
    Ok(cases)
}

fn measure(folder: &Path, options: &EndpointOptions) -> Result<Value> {
    let [here, there] = <[usize; 2]>::try_from(options.processors.clone()).unwrap_or([0, 1]);
    let socket = folder.join("cellway.sock");
    let _daemon = Daemon::start(config::parse(&network(), "the benchmark's network")?, &socket)?;
    let mut iceoryx = options.peers.exists().then(|| Iceoryx::start(&options.peers, here, there)).transpose()?;
    super::pin(here)?;
    let mut pair = Pair::start(folder, there)?;
    let mut cases = cases(&mut pair, iceoryx.is_some())?;
    if let Some(only) = &options.only {
        cases.retain(|c| c.path.contains(only.as_str()) || ["cache-line", "eventfd"].contains(&c.path));
    }
    let bar = output::progress(Some((options.runs * cases.len()) as u64));
    for _ in 0..options.runs.max(1) {
        for case in &mut cases {
            let batch = (options.thousands * 1000 / BATCHES / case.cost).max(4);
            let failed = || format!("{}, {} octets", case.path, case.octets);
            if case.trips {
                case.trip_ns.push(match (case.way, &mut iceoryx) {
                    (Way::Pipe(pipe), _) => pair.round_trip(pipe, case.octets, batch, BATCHES).with_context(failed)?,
                    (Way::Iceoryx, Some(peer)) => peer.ask("trip", case.octets, batch, BATCHES).with_context(failed)?,
                    (Way::Iceoryx, None) => bail!("iceoryx2 is not there"),
                });
            }
            if case.rate {
                let batch = batch * 4;
                case.message_ns.push(match (case.way, &mut iceoryx) {
                    (Way::Pipe(pipe), _) => pair.one_way(pipe, case.octets, batch, BATCHES).with_context(failed)?,
                    (Way::Iceoryx, Some(peer)) => peer.ask("rate", case.octets, batch, BATCHES).with_context(failed)?,
                    (Way::Iceoryx, None) => bail!("iceoryx2 is not there"),
                });
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(report(&cases, options))
}

/// The middle of the runs' own ratios: a machine that moves its processors about between runs does not distort it.
fn ratio(a: &[f64], b: Option<&[f64]>) -> Option<f64> {
    let mut ratios: Vec<f64> = a.iter().zip(b?).map(|(a, b)| a / b).collect();
    (!ratios.is_empty()).then(|| median(&mut ratios))
}

fn report(cases: &[Case], options: &EndpointOptions) -> Value {
    let find = |path: &'static str, octets: usize| cases.iter().filter(move |c| c.path == path && c.octets == octets);
    let middle = |values: &[f64]| (!values.is_empty()).then(|| median(&mut values.to_vec()));
    let trips = |path, octets| find(path, octets).map(|c| &c.trip_ns[..]).find(|ns| !ns.is_empty());
    // Of a peer's two ways to wait, the faster one.
    let messages = |path, octets| {
        let measured = find(path, octets).map(|c| &c.message_ns[..]).filter(|ns| !ns.is_empty());
        measured.min_by(|a, b| middle(a).unwrap_or_default().total_cmp(&middle(b).unwrap_or_default()))
    };
    // A ratio of rates is the inverse one of times.
    let faster = |case: &Case, path, octets| ratio(&case.message_ns, messages(path, octets)).map(|r| 1.0 / r);
    let (line, event) = (trips("cache-line", 8), trips("eventfd", 8));
    // Of a direct circuit whose ends wait as an endpoint's do: they look for a while, then sleep.
    let sleeping =
        |octets| cases.iter().find(|c| c.events == "spin-then-block" && c.octets == octets).map(|c| &c.trip_ns[..]);
    let row = |case: &Case| {
        let rate = middle(&case.message_ns).map(|ns| 1e9 / ns);
        // A message inside the line is held against the shortest that the goal names for iceoryx2: 64 octets.
        let peer_octets = case.octets.max(64);
        json!({
            "path": case.path, "events": case.events, "octets": case.octets,
            "rtt_ns": middle(&case.trip_ns), "rtt_least_ns": case.trip_ns.iter().copied().reduce(f64::min),
            "rate_per_s": rate, "gbyte_s": rate.map(|r| r * case.octets as f64 / 1e9),
            "rtt_vs_cache_line": ratio(&case.trip_ns, line), "rtt_vs_eventfd": ratio(&case.trip_ns, event),
            "rtt_vs_direct": (case.path == "interface").then(|| ratio(&case.trip_ns, sleeping(case.octets))).flatten(),
            "rate_vs_contract": rate.filter(|_| case.path == CONTRACT)
                .map(|r| r * interface::cells(case.octets) as f64 / f64::from(interface::CONTRACT_CELLS)),
            "rtt_vs_iceoryx2": ratio(&case.trip_ns, trips("iceoryx2", peer_octets)),
            "rate_vs_iceoryx2": faster(case, "iceoryx2", peer_octets),
            "rate_vs_write_read": faster(case, "write-read", case.octets),
            "rate_vs_unix_datagram": faster(case, "unix datagram", case.octets),
            "rate_vs_tcp": faster(case, "tcp loopback", case.octets),
        })
    };
    json!({
        "bench": "endpoint", "runs": options.runs, "processors": options.processors,
        "cache_line_rtt_ns": line.and_then(middle), "eventfd_rtt_ns": event.and_then(middle),
        "iceoryx2": trips("iceoryx2", 64).is_some(), "rows": cases.iter().map(row).collect::<Vec<_>>(),
    })
}

fn text(json: &Value) -> String {
    let row = |row: &Value| {
        let f = |key: &str, scale: f64, digits: usize| number(row[key].as_f64().map(|value| value / scale), digits);
        vec![
            row["path"].as_str().unwrap_or_default().to_owned(),
            row["events"].as_str().unwrap_or_default().to_owned(),
            row["octets"].to_string(),
            f("rtt_ns", 1.0, 0),
            f("rtt_vs_cache_line", 1.0, 2),
            f("rtt_vs_iceoryx2", 1.0, 2),
            f("rate_per_s", 1000.0, 0),
            f("gbyte_s", 1.0, 2),
            f("rate_vs_iceoryx2", 1.0, 2),
            f("rate_vs_write_read", 1.0, 2),
        ]
    };
    let rows: Vec<_> = json["rows"].as_array().into_iter().flatten().map(row).collect();
    let head = [
        "path",
        "events",
        "octets",
        "RTT ns",
        "of cache line",
        "of iceoryx2",
        "1000/s",
        "GB/s",
        "x iceoryx2",
        "of write-read",
    ];
    let mut text = output::table(&head, &rows);
    for row in json["rows"].as_array().into_iter().flatten() {
        let octets = &row["octets"];
        if let Some(kept) = row["rate_vs_contract"].as_f64() {
            text.push_str(&format!(
                "\n{octets} octets, {} cells/s: {kept:.4} of the contract",
                interface::CONTRACT_CELLS
            ));
        }
        if let Some(cost) = row["rtt_vs_direct"].as_f64() {
            text.push_str(&format!(
                "\n{octets} octets through the interface: {cost:.1} round trips of a direct circuit"
            ));
        }
    }
    if json["iceoryx2"] != true {
        text.push_str("\niceoryx2 was not measured: cargo build --release --manifest-path bench/peers/Cargo.toml\n");
    }
    text
}
