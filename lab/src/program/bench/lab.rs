//! `cellway-lab bench lab`: how many cells a second virtual time carries on one core.
//! Time is the thread's on a processor: what other programs take does not count.

use super::{median, processor, thread_seconds};
use crate::results::bench::BenchLab;
use ::lab::speed::Scene;
use anyhow::{Result, ensure};
use cellway::context::Context;
use cellway::output;
use serde_json::{Value, json};

/// What the laboratory is to reach, cells a second on one core.
const GOAL: f64 = 10e6;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct LabOptions {
    /// Runs of each scene, interleaved; the medians are given
    #[arg(long, default_value_t = 9)]
    runs: usize,
    /// Cells of each run
    #[arg(long, default_value_t = 400_000)]
    cells: u64,
}

impl super::QuickOptions for LabOptions {
    fn quick(self) -> Self {
        LabOptions { runs: 1, cells: 10_000 }
    }
}

/// `cellway-lab bench lab`
pub(crate) fn run(context: &Context, options: &LabOptions) -> Result<()> {
    let runs = options.runs.max(1);
    let cells = options.cells.clamp(10_000, 100_000_000);
    let mut samples = vec![Vec::new(); Scene::ALL.len()];
    let bar = output::progress(Some((runs * Scene::ALL.len()) as u64));
    for _ in 0..runs {
        for (scene, rates) in Scene::ALL.into_iter().zip(&mut samples) {
            let before = thread_seconds();
            let carried = scene.run(cells)?;
            let seconds = thread_seconds() - before;
            ensure!(carried >= cells, "the scene {} carried {carried} of {cells} cells", scene.name());
            rates.push(carried as f64 / seconds.max(1e-9));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let row = |(scene, rates): (Scene, &mut Vec<f64>)| {
        let median = median(rates);
        json!({
            "scene": scene.name(), "what": scene.what(), "cells_per_s": median,
            "least": rates.first(), "greatest": rates.last(),
            "times_oc3c": median / wire::CellRate::OC3C.cells_per_s(), "reaches_goal": median >= GOAL,
        })
    };
    let rows: Vec<Value> = Scene::ALL.into_iter().zip(&mut samples).map(row).collect();
    let json = json!({
        "bench": "lab", "runs": runs, "cells": cells, "goal_cells_per_s": GOAL,
        "processor": processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned()), "rows": rows,
    });
    output::print_as::<BenchLab>(context, &json, || {
        let text = |row: &Value| {
            let millions = |key: &str| format!("{:.1}", row[key].as_f64().unwrap_or_default() / 1e6);
            vec![
                row["scene"].as_str().unwrap_or_default().to_owned(),
                millions("cells_per_s"),
                format!("{} to {}", millions("least"), millions("greatest")),
                format!("{:.0}", row["times_oc3c"].as_f64().unwrap_or_default()),
                row["what"].as_str().unwrap_or_default().to_owned(),
            ]
        };
        let head = ["scene", "million cells/s", "extremes", "of OC-3c", "in the loop"];
        output::table(&head, &rows.iter().map(text).collect::<Vec<_>>())
    })
}
