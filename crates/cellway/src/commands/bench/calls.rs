//! `cellway bench calls`: call set-ups and releases a second through switches in virtual time, all sides on one core.
//! Time is the thread's on a processor: what other programs take does not count.

use super::{median, processor, thread_seconds};
use crate::context::Context;
use crate::output;
use anyhow::Result;
use serde_json::{Value, json};
use uni::simulation::load::Load;

/// What one switch is to reach, set-ups (and releases) a second.
const GOAL: f64 = 20_000.0;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Runs of each case; the medians are given
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Calls of each run
    #[arg(long, default_value_t = 10_000)]
    calls: usize,
    /// Calls under way at a time
    #[arg(long, default_value_t = 64)]
    under_way: usize,
    /// The most calls that stay up meanwhile, over two pairs of hosts
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=120_000))]
    up: u32,
}

/// `cellway bench calls`
pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    let mut rows = Vec::new();
    for switches in [1, 5] {
        for up in [1, 1000, options.up as usize].into_iter().filter(|up| *up <= options.up as usize) {
            rows.push(case(options, switches, up)?);
        }
    }
    let json = json!({
        "bench": "calls", "runs": options.runs, "calls": options.calls, "under_way": options.under_way,
        "goal_setups_per_s": GOAL, "processor": processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        "rows": rows,
    });
    output::print(context, &json, || {
        let text = |row: &Value| {
            let number = |key: &str| format!("{:.0}", row[key].as_f64().unwrap_or_default());
            vec![
                number("switches"),
                number("up"),
                number("setups_per_s"),
                format!("{} to {}", number("least"), number("greatest")),
                number("octets_a_call"),
            ]
        };
        let head = ["switches", "calls up", "set-ups/s", "extremes", "octets a call"];
        output::table(&head, &rows.iter().map(text).collect::<Vec<_>>())
    })
}

fn case(options: &Options, switches: usize, up: usize) -> Result<Value> {
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
