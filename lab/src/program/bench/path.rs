//! `cellway-lab bench path`: one-way throughput and round trip from application to application through two hosts and a switch.
//! On cell links the sender lends its memory and the receiver reads each SDU where the sender has written it; rows whose flow ends in
//! `copied` are of applications that do not agree to that, and of a host that copies. With credits nothing is lost. Best effort loses the PDUs for which the receiver has no buffer in time; its figure is what arrived.
//! Beside it, in the same run, the limits: memcpy, a relay of UNIX datagrams, and a direct circuit, which has no network in it.

mod direct;
mod limits;
mod peers;
mod round_trip;

use super::{median, number, pin};
use crate::results::bench::BenchPath;
use anyhow::{Context as _, Result, bail};
use cellway::context::Context;
use cellway::output;
use control::config;
use control::daemon::Daemon;
use control::processors::Processors;
use endpoint::Events;
use limits::relay;
use round_trip::round_trip;
use serde_json::{Value, json};
use stack::flood::{Flood, Handover, flood, memcpy_gbit_s};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::CircuitId;

const SIZES: [usize; 4] = [64, 1500, 9188, 65_535];
/// Octets of a round trip.
const ECHO_OCTETS: usize = 64;
/// The circuit of best effort, and that with credits where the links carry them.
const BEST_EFFORT: u16 = 100;
const CREDIT: u16 = 101;
/// One of best effort with a peak rate that it does not reach: the switch polices it, and the host paces it.
const CONTRACT: u16 = 102;
/// One that two processes have to themselves.
const DIRECT: u16 = 103;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct PathOptions {
    /// Runs of each case, interleaved; minimum and median are given
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Milliseconds of each run
    #[arg(long, default_value_t = 300)]
    millis: u64,
    /// Only PDUs of these octets
    #[arg(long, value_name = "OCTETS", value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Only these cases, by a part of "cells credit 2 cores", "cells best-effort 2 cores", "cells contract 2 cores",
    /// "cells credit-copied 2 cores", "frames best-effort 2 cores", "cells credit 1 core", "cells credit-copied 1 core", "none direct 2 cores", "round-trip"
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Also DPDK's memif through a forwarder and through Open vSwitch, with frames of up to 9216 octets: each side
    /// polls on its own processor. Needs Debian's dpdk-dev, librte-net-memif23, librte-bus-vdev23,
    /// librte-mempool-ring23 and openvswitch-switch-dpdk
    #[arg(long)]
    peers: bool,
}

fn network(frames: bool) -> String {
    let carries = if frames { "frames" } else { "cells" };
    let mut text = format!(
        "[host.alpha]\n[host.beta]\n[switch.s1]\n[[link]]\nends=[\"alpha\",\"s1:0\"]\ncarries=\"{carries}\"\n[[link]]\nends=[\"beta\",\"s1:1\"]\ncarries=\"{carries}\"\n[[circuit]]\nends=[\"alpha 0.{BEST_EFFORT}\",\"beta 0.{BEST_EFFORT}\"]\n"
    );
    if !frames {
        text += &format!("[[circuit]]\nends=[\"alpha 0.{CREDIT}\",\"beta 0.{CREDIT}\"]\nflow=\"credit\"\n");
        text += &format!("[[circuit]]\nends=[\"alpha 0.{CONTRACT}\",\"beta 0.{CONTRACT}\"]\npcr=\"400 Gbit/s\"\n");
        text += &format!("[[circuit]]\nends=[\"alpha 0.{DIRECT}\",\"beta 0.{DIRECT}\"]\n");
    }
    text
}

/// A network of the benchmark, whose threads may be kept on one processor.
struct Stage {
    daemon: Daemon,
    socket: PathBuf,
    on: Option<usize>,
}

impl Stage {
    fn new(folder: &Path, name: &str, frames: bool, on: Option<usize>) -> Result<Self> {
        let socket = folder.join(name);
        let config = config::parse(&network(frames), "the benchmark's network")?;
        let everywhere = Processors::allowed()?;
        // Threads that the daemon starts stay where the one is that starts it.
        on.map_or(Ok(()), pin)?;
        let daemon = Daemon::start(config, &socket);
        everywhere.stay()?;
        Ok(Stage { daemon: daemon?, socket, on })
    }
}

/// A case: its stage, and what it is called.
struct Case {
    stage: usize,
    link: &'static str,
    flow: &'static str,
    cores: usize,
    vci: u16,
    handover: Handover,
}

const CASES: [Case; 8] = [
    Case { stage: 0, link: "cells", flow: "credit", cores: 2, vci: CREDIT, handover: Handover::Lent },
    Case { stage: 0, link: "cells", flow: "best-effort", cores: 2, vci: BEST_EFFORT, handover: Handover::Lent },
    Case { stage: 0, link: "cells", flow: "contract", cores: 2, vci: CONTRACT, handover: Handover::Lent },
    Case { stage: 0, link: "cells", flow: "credit-copied", cores: 2, vci: CREDIT, handover: Handover::Copied },
    Case { stage: 1, link: "frames", flow: "best-effort", cores: 2, vci: BEST_EFFORT, handover: Handover::Copied },
    Case { stage: 2, link: "cells", flow: "credit", cores: 1, vci: CREDIT, handover: Handover::Lent },
    Case { stage: 2, link: "cells", flow: "credit-copied", cores: 1, vci: CREDIT, handover: Handover::Copied },
    Case { stage: 0, link: "none", flow: "direct", cores: 2, vci: DIRECT, handover: Handover::Lent },
];

impl Case {
    fn name(&self) -> String {
        let cores = if self.cores == 1 { "1 core" } else { "2 cores" };
        format!("{} {} {cores}", self.link, self.flow)
    }

    /// A flood, with all threads where the case has them.
    fn run(&self, stage: &Stage, pdu_octets: usize, length: Duration) -> Result<Flood> {
        let everywhere = Processors::allowed()?;
        if self.cores == 1 {
            stage.on.map_or(Ok(()), pin)?;
        }
        let flood = match self.vci {
            DIRECT => direct::flood(&stage.socket, circuit(self.vci)?, pdu_octets, length),
            vci => flood(&stage.socket, circuit(vci)?, pdu_octets, self.handover, length).map_err(Into::into),
        };
        everywhere.stay()?;
        flood
    }
}

fn circuit(vci: u16) -> Result<CircuitId> {
    CircuitId::new(0, vci).context("a VCI")
}

/// How the round trip's threads wait and where they are: by default, and polling with the engine beside the applications.
struct Echo {
    waiting: &'static str,
    /// The default, or another strategy.
    events: Option<Events>,
    stage: usize,
}

const ECHOES: [Echo; 2] = [
    Echo { waiting: "default", events: None, stage: 0 },
    Echo { waiting: "polling 0,1,0", events: Some(Events::Polling), stage: 3 },
];

#[derive(Default)]
struct Samples {
    rate: Vec<f64>,
    lost: Vec<f64>,
    processors: Vec<f64>,
}

impl super::QuickOptions for PathOptions {
    fn quick(self) -> Self {
        PathOptions { runs: 1, millis: 20, ..self }
    }
}

/// `cellway-lab bench path`
pub(crate) fn run(context: &Context, options: &PathOptions) -> Result<()> {
    let length = Duration::from_millis(options.millis.clamp(20, 60_000));
    let folder = std::env::temp_dir().join(format!("cellway-bench-{}", std::process::id()));
    let result = measure(&folder, options, length);
    let _ = std::fs::remove_dir_all(&folder);
    let (rows, echoes) = result?;
    let json = json!({
        "bench": "path", "runs": options.runs, "run_seconds": length.as_secs_f64(), "rows": rows, "round_trips": echoes,
    });
    output::print_as::<BenchPath>(context, &json, || {
        let head = [
            "link",
            "flow",
            "cores",
            "PDU octets",
            "PDUs/s",
            "least",
            "Gbit/s",
            "lost",
            "of relay",
            "of memcpy",
            "processors",
        ];
        let rows: Vec<Vec<String>> = rows.iter().map(row_text).collect();
        let mut text = if rows.is_empty() { String::new() } else { output::table(&head, &rows) };
        for row in &echoes {
            let f = |key: &str| number(row[key].as_f64(), 1);
            let (way, octets) = (row["waiting"].as_str().unwrap_or_default(), &row["pdu_octets"]);
            text += &format!(
                "\nround trip of {octets} octets, {way}: {} us, least {} us, p99 {} us",
                f("us"),
                f("us_min"),
                f("p99_us")
            );
        }
        text
    })
}

fn row_text(row: &Value) -> Vec<String> {
    let f = |key: &str, digits: usize| format!("{:.digits$}", row[key].as_f64().unwrap_or_default());
    vec![
        row["link"].as_str().unwrap_or_default().into(),
        row["flow"].as_str().unwrap_or_default().into(),
        row["cores"].to_string(),
        row["pdu_octets"].to_string(),
        f("pdus_per_s", 0),
        f("pdus_per_s_min", 0),
        f("gbit_s", 2),
        format!("{:.1}%", 100.0 * row["lost_share"].as_f64().unwrap_or_default()),
        f("vs_relay", 2),
        f("vs_memcpy", 3),
        f("processors", 2),
    ]
}

/// Beside what a circuit with a contract carries, what the same without one does.
fn compare_contracts(rows: &mut [Value]) {
    let rate = |row: &Value| row["pdus_per_s"].as_f64().unwrap_or_default();
    let of = |row: &Value| (row["flow"] == "best-effort").then(|| (row["pdu_octets"].clone(), rate(row)));
    let without: Vec<(Value, f64)> = rows.iter().filter(|row| row["link"] == "cells").filter_map(of).collect();
    for row in rows.iter_mut().filter(|row| row["flow"] == "contract") {
        let same = without.iter().find(|(octets, _)| *octets == row["pdu_octets"]);
        row["vs_best_effort"] = same.map_or(Value::Null, |(_, without)| json!(rate(row) / without));
    }
}

fn measure(folder: &Path, options: &PathOptions, length: Duration) -> Result<(Vec<Value>, Vec<Value>)> {
    let runs = options.runs.max(1);
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let sizes = if options.sizes.is_empty() { SIZES.to_vec() } else { options.sizes.clone() };
    let processors: Vec<usize> = Processors::allowed()?.numbers().collect();
    let first = processors.first().copied().unwrap_or_default();
    let cases: Vec<&Case> = CASES.iter().filter(|case| wanted(&case.name())).collect();
    // Nothing is said of places where there is one processor only.
    let placed = processors.contains(&0) && processors.contains(&1);
    let echoes: Vec<_> = ECHOES.iter().filter(|echo| wanted("round-trip") && (placed || echo.stage == 0)).collect();
    let mut stages = vec![
        Stage::new(folder, "cells.sock", false, None)?,
        Stage::new(folder, "frames.sock", true, None)?,
        Stage::new(folder, "one.sock", false, Some(first))?,
    ];
    if placed {
        stages.push(Stage::new(folder, "placed.sock", false, Some(1))?);
    }
    let bar = output::progress(Some((runs * (sizes.len() * cases.len() + echoes.len())) as u64));
    let mut samples: Vec<Samples> = (0..sizes.len() * cases.len()).map(|_| Samples::default()).collect();
    let mut limits = vec![(Vec::new(), Vec::new()); sizes.len()];
    let mut trips = vec![(Vec::new(), Vec::new()); echoes.len()];
    for _ in 0..runs {
        for (j, &pdu_octets) in sizes.iter().enumerate().filter(|_| !cases.is_empty()) {
            // The limits in the same run, so that they meet the same machine.
            limits[j].0.push(memcpy_gbit_s(pdu_octets, length / 10));
            limits[j].1.push(relay(pdu_octets, length)?);
            for (i, case) in cases.iter().enumerate() {
                let flood = case.run(&stages[case.stage], pdu_octets, length)?;
                let Samples { rate, lost, processors } = &mut samples[i * sizes.len() + j];
                rate.push(flood.arrived as f64 / flood.seconds.max(1e-9));
                lost.push(1.0 - flood.arrived as f64 / (flood.sent.max(1)) as f64);
                processors.push(flood.processors);
                bar.inc(1);
            }
        }
        for (echo, (medians, p99s)) in echoes.iter().zip(&mut trips) {
            let how = (echo.events.unwrap_or_default(), echo.stage != 0);
            let (us, p99) = round_trip(&stages[echo.stage].socket, circuit(CREDIT)?, ECHO_OCTETS, how, length)?;
            medians.push(us);
            p99s.push(p99);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    stages.into_iter().for_each(|stage| drop(stage.daemon));
    let limits: Vec<(f64, f64)> = limits.iter_mut().map(|(memcpy, relay)| (median(memcpy), median(relay))).collect();
    let row = |(at, samples): (usize, &mut Samples)| {
        let (case, j) = (cases[at / sizes.len()], at % sizes.len());
        let ((memcpy, relay), pdu_octets) = (limits[j], sizes[j]);
        let pdus_per_s = median(&mut samples.rate);
        let gbit_s = pdus_per_s * pdu_octets as f64 * 8.0 / 1e9;
        json!({
            "link": case.link, "flow": case.flow, "cores": case.cores, "pdu_octets": pdu_octets,
            "pdus_per_s": pdus_per_s, "pdus_per_s_min": samples.rate.first(), "pdus_per_s_max": samples.rate.last(),
            "gbit_s": gbit_s, "lost_share": median(&mut samples.lost).max(0.0), "processors": median(&mut samples.processors),
            "relay_pdus_per_s": relay, "vs_relay": pdus_per_s / relay,
            "memcpy_gbit_s": memcpy, "vs_memcpy": gbit_s / memcpy,
        })
    };
    let mut rows: Vec<Value> = samples.iter_mut().enumerate().map(row).collect();
    compare_contracts(&mut rows);
    if options.peers {
        let [first, second, ..] = processors[..] else { bail!("--peers needs two processors: both sides poll") };
        for (j, &pdu_octets) in sizes.iter().enumerate().filter(|(_, octets)| **octets <= peers::LONGEST) {
            for switch in peers::Switch::ALL {
                let (memcpy, relay) = limits[j];
                let rates = peers::flood(folder, switch, pdu_octets, [first, second])?;
                let gbit_s = rates.pdus_per_s * pdu_octets as f64 * 8.0 / 1e9;
                let of = |limit: f64, rate: f64| (limit > 0.0).then_some(rate / limit);
                rows.push(json!({
                    "link": "memif", "flow": switch.name(), "cores": 2, "pdu_octets": pdu_octets,
                    "pdus_per_s": rates.pdus_per_s, "pdus_per_s_min": null, "pdus_per_s_max": null, "gbit_s": gbit_s,
                    "lost_share": rates.lost_share, "processors": rates.processors, "relay_pdus_per_s": relay,
                    "vs_relay": of(relay, rates.pdus_per_s), "memcpy_gbit_s": memcpy, "vs_memcpy": of(memcpy, gbit_s),
                }));
            }
        }
    }
    let trips = echoes.iter().zip(&mut trips).map(|(echo, (medians, p99s))| {
        json!({
            "waiting": echo.waiting, "pdu_octets": ECHO_OCTETS, "us": median(medians), "us_min": medians.first(),
            "p99_us": median(p99s),
        })
    });
    let trips = trips.collect();
    Ok((rows, trips))
}
