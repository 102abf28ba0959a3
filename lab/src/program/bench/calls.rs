//! `cellway-lab bench calls`: call set-ups and releases a second through switches in virtual time, all sides on one core, where time is
//! the thread's on a processor: what other programs take does not count. The same live, through a running daemon, in real time.
//! What SSCOP carries over a line that loses PDUs.

mod live;

use super::{median, processor, thread_seconds};
use crate::results::bench::BenchCalls;
use anyhow::Result;
use cellway::context::Context;
use cellway::output;
use serde_json::{Value, json};
use std::time::Duration;
use uni::simulation::load::Load;
use uni::simulation::loss;

/// What one switch is to reach, set-ups (and releases) a second.
const GOAL: f64 = 20_000.0;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct CallsOptions {
    /// Runs of each case; the medians are given
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Calls of each run
    #[arg(long, default_value_t = 10_000)]
    calls: usize,
    /// Calls under way at a time
    #[arg(long, default_value_t = 64)]
    under_way: usize,
    /// The most calls that stay up during the runs, over two pairs of hosts
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=120_000))]
    up: u32,
    /// The most calls that stay up during the live runs, over two pairs of hosts; at most 50000 by applications, which
    /// are one pair
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    live_up: u32,
    /// The part to measure
    #[arg(long, value_enum, default_value_t = Part::All)]
    part: Part,
    /// Set-ups and pings whose round trips are measured, one after another.
    #[arg(skip = 200u32)]
    round_trips: u32,
    /// Seconds of virtual time for which SSCOP carries messages at each loss.
    #[arg(skip = 600u64)]
    loss_seconds: u64,
}

/// Parts of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// All parts
    All,
    /// State machines alone, in virtual time
    Virtual,
    /// A running daemon, in real time
    Live,
    /// SSCOP over a line that loses PDUs, in virtual time
    Loss,
}

impl CallsOptions {
    fn has(&self, part: Part) -> bool {
        self.part == Part::All || self.part == part
    }
}

impl super::QuickOptions for CallsOptions {
    fn quick(self) -> Self {
        CallsOptions {
            runs: 1,
            calls: 100,
            under_way: 16,
            up: 100,
            live_up: 100,
            round_trips: 20,
            loss_seconds: 20,
            ..self
        }
    }
}

/// `cellway-lab bench calls`
pub(crate) fn run(context: &Context, options: &CallsOptions) -> Result<()> {
    let (mut rows, mut live, mut round_trip, mut sscop) = (Vec::new(), Vec::new(), None, Vec::new());
    if options.has(Part::Virtual) {
        for switches in [1, 5] {
            for up in levels(options.up as usize) {
                rows.push(case(options, switches, up)?);
            }
        }
    }
    if options.has(Part::Live) {
        live = live::rows(options.calls.max(1), options.under_way, options.runs, options.live_up as usize)?;
        round_trip = Some(live::round_trips(options.round_trips)?);
    }
    if options.has(Part::Loss) {
        sscop = losses(Duration::from_secs(options.loss_seconds))?;
    }
    let json = json!({
        "bench": "calls", "runs": options.runs, "calls": options.calls, "under_way": options.under_way,
        "goal_setups_per_s": GOAL, "goal_live_setups_per_s": live::GOAL,
        "processor": processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        "rows": rows, "live": live, "round_trip": round_trip, "sscop": sscop,
    });
    output::print_as::<BenchCalls>(context, &json, || {
        let number = |row: &Value, key: &str| row[key].as_f64().map_or_else(|| "-".to_owned(), |n| format!("{n:.0}"));
        let text = |row: &Value| {
            vec![
                row["driver"].as_str().unwrap_or("virtual time").to_owned(),
                number(row, "switches"),
                number(row, "up"),
                number(row, "setups_per_s"),
                format!("{} to {}", number(row, "least"), number(row, "greatest")),
                number(row, "octets_a_call"),
            ]
        };
        let mut parts = Vec::new();
        if !rows.is_empty() || !live.is_empty() {
            let head = ["driver", "switches", "calls up", "set-ups/s", "extremes", "octets a call"];
            parts.push(output::table(&head, &rows.iter().chain(&live).map(text).collect::<Vec<_>>()));
        }
        if let Some(trip) = &round_trip {
            parts.push(format!(
                "a set-up through five switches: {} us; five segment pings: {} us",
                number(trip, "setup_us"),
                number(trip, "five_segment_pings_us")
            ));
        }
        if !sscop.is_empty() {
            let row = |row: &Value| {
                ["loss_percent", "messages_per_s", "again", "held", "released"].map(|key| number(row, key))
            };
            let head = ["SSCOP, % of PDUs lost", "messages/s", "sent again", "kept at most", "connections released"];
            parts.push(output::table(&head, &sscop.iter().map(row).collect::<Vec<_>>()));
        }
        parts.join("\n")
    })
}

/// How many calls are up, up to a number and with it.
fn levels(most: usize) -> Vec<usize> {
    [1, 1000].into_iter().filter(|up| *up < most).chain([most]).collect()
}

/// SSCOP over a line with a delay of 5 ms that loses PDUs both ways. At 20 % it gives a connection up every ten minutes or so: one of
/// nine POLLs within 7 s has to be answered.
fn losses(length: Duration) -> Result<Vec<Value>> {
    let one = |percent: u64| -> Result<Value> {
        let figure = loss::run(percent, length, 18)?;
        Ok(json!({
            "loss_percent": percent, "messages_per_s": figure.messages_per_s, "again": figure.again, "held": figure.held,
            "released": figure.released,
        }))
    };
    [0, 1, 5, 20].into_iter().map(one).collect()
}

fn case(options: &CallsOptions, switches: usize, up: usize) -> Result<Value> {
    let mut load = Load::new(switches)?;
    let before = resident_octets();
    load.fill(up, options.under_way)?;
    let memory = resident_octets() - before;
    let mut rates = Vec::new();
    for _ in 0..options.runs.max(1) {
        let begin = thread_seconds();
        load.churn(options.calls.max(1), options.under_way)?;
        rates.push(options.calls.max(1) as f64 / (thread_seconds() - begin).max(1e-9));
    }
    let middle = median(&mut rates);
    // A few calls do not show in the memory of a process, which grows by pages and arenas.
    let octets = (up >= 10_000).then_some(memory / up as f64);
    Ok(json!({
        "switches": switches, "up": up, "setups_per_s": middle, "least": rates.first(), "greatest": rates.last(),
        "octets_a_call": octets, "reaches_goal": switches > 1 || middle >= GOAL,
    }))
}

/// The process's resident memory.
fn resident_octets() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
    kilobytes.unwrap_or(0.0) * 1024.0
}
