//! `cellway-lab bench switch`: the cell switch on one core, beside a copy of the same cells. All of a run's measurements
//! follow each other, and the runs repeat: what else the machine does meets all alike. Medians are given, of ratios too.

mod cases;

use super::{median, processor, thread_seconds};
use crate::results::bench::BenchSwitch;
use anyhow::{Result, bail};
use cases::{CELLS, Case, Order, Work};
use cellway::context::Context;
use cellway::output;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct SwitchOptions {
    /// Runs of each case, interleaved; the medians are given
    #[arg(long, default_value_t = 9)]
    runs: usize,
    /// Milliseconds of each measurement
    #[arg(long, default_value_t = 20)]
    millis: u64,
    /// Only these numbers of circuits, up to 8 million
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 100_000, 1_000_000])]
    circuits: Vec<usize>,
    /// Only these numbers of ports
    #[arg(long, value_delimiter = ',', default_values_t = [2, 16])]
    ports: Vec<u16>,
}

/// Cells per second of the thread's time on a processor.
fn rate(case: &mut Case, work: Work, length: Duration) -> f64 {
    let (mut seconds, mut cells) = (0.0, 0);
    case.fill();
    case.pass(work);
    let begin = Instant::now();
    while cells == 0 || begin.elapsed() < length {
        case.fill();
        let before = thread_seconds();
        cells += case.pass(work);
        seconds += thread_seconds() - before;
    }
    cells as f64 / seconds
}

impl super::QuickOptions for SwitchOptions {
    fn quick(self) -> Self {
        SwitchOptions { runs: 1, millis: 1, circuits: vec![1000], ports: vec![16] }
    }
}

/// `cellway-lab bench switch`
pub(crate) fn run(context: &Context, options: &SwitchOptions) -> Result<()> {
    let (runs, length) = (options.runs.max(1), Duration::from_millis(options.millis.clamp(1, 10_000)));
    if options.circuits.iter().any(|n| !(64..=8_000_000).contains(n)) {
        bail!("--circuits takes numbers from 64 to 8000000");
    }
    if options.ports.iter().any(|n| !(1..=256).contains(n)) {
        bail!("--ports takes numbers from 1 to 256");
    }
    let orders = [Order::Random, Order::Once, Order::Twice];
    let bar = output::progress(Some((options.circuits.len() * options.ports.len() * orders.len()) as u64));
    let mut rows = Vec::new();
    for circuits in &options.circuits {
        for ports in &options.ports {
            for order in orders {
                rows.push(measure(*circuits, *ports, order, runs, length));
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    let json = json!({
        "bench": "switch",
        "processor": processor(),
        "runs": runs,
        "run_seconds": length.as_secs_f64(),
        "cells_of_a_pass": CELLS,
        "rows": rows,
    });
    output::print_as::<BenchSwitch>(context, &json, || text(&rows))
}

fn measure(circuits: usize, ports: u16, order: Order, runs: usize, length: Duration) -> Value {
    let (mut case, setup_seconds) = Case::new(circuits, ports, order);
    let mut rates = vec![Vec::new(); Work::ALL.len()];
    for _ in 0..runs {
        for (rates, work) in rates.iter_mut().zip(Work::ALL) {
            rates.push(rate(&mut case, work, length));
        }
    }
    let of = |work: Work| &rates[work as usize];
    let versus = |work: Work| {
        let mut ratios: Vec<f64> = of(work).iter().zip(of(Work::Copy)).map(|(rate, copy)| rate / copy).collect();
        median(&mut ratios)
    };
    json!({
        "circuits": circuits,
        "ports": ports,
        "order": order.name(),
        "setup_seconds": setup_seconds,
        "copy_cells_per_s": median(&mut of(Work::Copy).clone()),
        "cells_per_s": median(&mut of(Work::Queue).clone()),
        "translate_vs_copy": versus(Work::Translate),
        "police_vs_copy": versus(Work::Police),
        "switch_vs_copy": versus(Work::Queue),
        "contracts_vs_copy": versus(Work::Contracts),
        "cut_through_vs_copy": versus(Work::CutThrough),
    })
}

fn text(rows: &[Value]) -> String {
    let f = |row: &Value, key: &str, scale: f64, digits: usize| {
        format!("{:.digits$}", row[key].as_f64().unwrap_or_default() * scale)
    };
    let table: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row["circuits"].to_string(),
                row["ports"].to_string(),
                row["order"].as_str().unwrap_or_default().into(),
                f(row, "cells_per_s", 1e-6, 1),
                f(row, "translate_vs_copy", 1.0, 3),
                f(row, "police_vs_copy", 1.0, 3),
                f(row, "switch_vs_copy", 1.0, 3),
                f(row, "contracts_vs_copy", 1.0, 3),
                f(row, "cut_through_vs_copy", 1.0, 3),
                f(row, "copy_cells_per_s", 1e-6, 0),
                f(row, "setup_seconds", 1.0, 2),
            ]
        })
        .collect();
    let head = [
        "circuits",
        "ports",
        "order",
        "million cells/s",
        "translate/copy",
        "policed/copy",
        "switch/copy",
        "contracts/copy",
        "cut-through/copy",
        "copy",
        "set up, s",
    ];
    output::table(&head, &table)
}
