//! `cellway-lab bench sar`: segmentation and reassembly on one core, beside memcpy of the same SDUs over the same working
//! set, and beside two ways to do it that are common. All of a run's cases follow each other, and the runs repeat: what
//! else the machine does meets all alike. Medians are given.

mod cases;
mod circuits;
mod peers;

use super::figure::{Panel, Series, draw, series};
use super::{median, number, processor, thread_seconds};
use crate::results::bench::BenchSar;
use ::sar::Kernel;
use anyhow::{Context as _, Result, bail};
use cases::Case;
use cellway::context::Context;
use cellway::output;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct SarOptions {
    /// Runs of each case, interleaved; the medians are given
    #[arg(long, default_value_t = 9)]
    runs: usize,
    /// Milliseconds of each measurement
    #[arg(long, default_value_t = 20)]
    millis: u64,
    /// Only this kernel [default: each that this machine supports; an unknown name gives their list]
    #[arg(long)]
    kernel: Option<String>,
    /// Only SDUs of these sizes, in octets
    #[arg(long, value_delimiter = ',', default_values_t = cases::SIZES)]
    sdu: Vec<usize>,
    /// Omit the cases that move between cache and main memory
    #[arg(long)]
    no_dram: bool,
    /// Omit the curve over the number of circuits
    #[arg(long)]
    no_circuits: bool,
    /// Where that curve ends.
    #[arg(skip = usize::MAX)]
    most_circuits: usize,
    /// Draw the figure into this file (SVG)
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
}

/// How long one pass takes, in seconds of this thread on a processor (what other programs take from it does not
/// count): passes until `length` is over, after one that warms up.
fn seconds_per_pass(length: Duration, mut pass: impl FnMut()) -> f64 {
    pass();
    let (begin, busy) = (Instant::now(), thread_seconds());
    let mut passes = 0u32;
    while passes == 0 || begin.elapsed() < length {
        pass();
        passes += 1;
    }
    (thread_seconds() - busy) / f64::from(passes)
}

impl super::QuickOptions for SarOptions {
    fn quick(self) -> Self {
        SarOptions { runs: 1, millis: 1, sdu: vec![40, 1500], no_dram: true, most_circuits: 1024, ..self }
    }
}

/// `cellway-lab bench sar`
pub(crate) fn run(context: &Context, options: &SarOptions) -> Result<()> {
    let length = Duration::from_millis(options.millis.clamp(1, 10_000));
    let runs = options.runs.max(1);
    let kernels = match &options.kernel {
        None => Kernel::all().to_vec(),
        Some(name) => {
            let names: Vec<_> = Kernel::all().iter().map(|k| k.name()).collect();
            vec![Kernel::by_name(name).with_context(|| format!("this machine has the kernels {}", names.join(", ")))?]
        }
    };
    if let Some(octets) = options.sdu.iter().find(|n| !(1..=wire::aal5::MAX_SDU_OCTETS).contains(n)) {
        bail!("an SDU of {octets} octets: AAL5 carries 1 to 65535");
    }
    let sets: &[cases::WorkingSet] =
        if options.no_dram { &[cases::WorkingSet::L2] } else { &[cases::WorkingSet::L2, cases::WorkingSet::Dram] };
    let mut cases: Vec<Case> = sets.iter().flat_map(|set| options.sdu.iter().map(|n| Case::new(*n, *set))).collect();

    let bar = output::progress(Some((runs * (cases.len() + 1)) as u64));
    let mut mixed = circuits::Mixed::new(kernels[0], if options.no_circuits { 0 } else { options.most_circuits });
    for _ in 0..runs {
        for case in &mut cases {
            case.run(&kernels, length)?;
            bar.inc(1);
        }
        mixed.run(length)?;
        bar.inc(1);
    }
    bar.finish_and_clear();

    let rows: Vec<Value> = cases.iter_mut().flat_map(Case::rows).collect();
    let interleaved = mixed.interleaved();
    let curve = mixed.curve();
    if let Some(path) = &options.figure {
        std::fs::write(path, figure(&rows, &curve)?).with_context(|| path.display().to_string())?;
    }
    let json = json!({
        "bench": "sar", "runs": runs, "run_millis": options.millis,
        "processor": processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        "kernels": Kernel::all().iter().map(|k| k.name()).collect::<Vec<_>>(),
        "rows": rows, "interleaved": interleaved, "circuits": curve,
    });
    output::print_as::<BenchSar>(context, &json, || text(&rows, &interleaved, &curve))
}

/// Ratios to memcpy over the size of the SDU, and the cost of a cell over the number of circuits.
fn figure(rows: &[Value], curve: &[Value]) -> Result<String> {
    let of_memcpy = |title, set: &str, key: &str| {
        let rows = rows.iter().filter(|r| r["working_set"] == set);
        let series = series(rows, "kernel", "sdu_octets", key);
        Panel { title, x: "octets of the SDU", y: "of memcpy", log_y: false, series }
    };
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap_or_default();
    let points = curve.iter().map(|r| (number(r, "circuits"), number(r, "nanoseconds_per_cell"))).collect();
    draw(&[
        of_memcpy("Segmentation, in the second-level cache", "l2", "segment_vs_memcpy"),
        of_memcpy("Reassembly, in the second-level cache", "l2", "reassemble_vs_memcpy"),
        of_memcpy("Segmentation, from and to main memory", "dram", "segment_vs_memcpy"),
        Panel {
            title: "Reassembly with lookup",
            x: "circuits",
            y: "nanoseconds per cell",
            log_y: false,
            series: Series::from([("PDUs of one to three cells, random order".to_owned(), points)]),
        },
    ])
}

fn text(rows: &[Value], interleaved: &[Value], curve: &[Value]) -> String {
    let f = |row: &Value, key: &str, digits: usize| number(row[key].as_f64(), digits);
    let table: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row["sdu_octets"].to_string(),
                row["working_set"].as_str().unwrap_or_default().into(),
                row["kernel"].as_str().unwrap_or_default().into(),
                f(row, "segment_gbit_s", 1),
                f(row, "segment_vs_memcpy", 2),
                f(row, "reassemble_gbit_s", 1),
                f(row, "reassemble_vs_memcpy", 2),
                f(row, "both_vs_memcpy", 2),
                f(row, "memcpy_gbit_s", 0),
                row["segment_pdus_per_s"].as_f64().map_or_else(String::new, |v| format!("{:.1}", v / 1e6)),
                row["reassemble_pdus_per_s"].as_f64().map_or_else(String::new, |v| format!("{:.1}", v / 1e6)),
            ]
        })
        .collect();
    let head = [
        "SDU",
        "set",
        "kernel",
        "segment Gbit/s",
        "of memcpy",
        "reassemble",
        "of memcpy",
        "both",
        "memcpy",
        "MPDU/s out",
        "in",
    ];
    let mut out = output::table(&head, &table);
    let line = |row: &Value| {
        vec![
            row["circuits"].to_string(),
            row["order"].as_str().unwrap_or_default().into(),
            row["batch_cells"].to_string(),
            row["cell_octets"].to_string(),
            format!("{:.0}", row["cells_per_s"].as_f64().unwrap_or_default() / 1e6),
            format!("{:.2}", row["nanoseconds_per_cell"].as_f64().unwrap_or_default()),
        ]
    };
    let table: Vec<_> = interleaved.iter().chain(curve).map(line).collect();
    out.push_str("\nCells of many circuits, reassembled with lookup\n");
    out.push_str(&output::table(
        &["circuits", "order", "cells a call", "octets a cell", "million cells/s", "ns/cell"],
        &table,
    ));
    out
}
