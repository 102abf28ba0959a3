//! `cellway-lab predictions`: what was foretold before the model ran, and what came of it.

use crate::results::{Foretold, LabPredictions};
use ::lab::registry::{self, Fate, Fulfilment, Registration, Registrations};
use anyhow::{Context as _, Result, bail};
use cellway::context::Context;
use cellway::output;
use clap::Args;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Options of the registrations.
#[derive(Debug, Args)]
pub(crate) struct PredictionsOptions {
    /// Files of registrations [default: those that come with the program]
    files: Vec<PathBuf>,
    /// Ask the model again, and show its present answers beside those of the first run
    #[arg(long)]
    now: bool,
    /// Run registrations for the first time and write their outcomes to this file. The hashes have to be those of this
    /// program
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

fn read(options: &PredictionsOptions) -> Result<Vec<Registrations>> {
    if options.files.is_empty() {
        return Ok(registry::built_in()?);
    }
    let one = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        registry::parse(&text).with_context(|| path.display().to_string())
    };
    options.files.iter().map(one).collect()
}

/// Runs registrations that were made for this program.
fn record(files: &[Registrations], hashes: &[String; 2]) -> Result<BTreeMap<String, Fulfilment>> {
    let mut outcomes = BTreeMap::new();
    for file in files {
        if [&file.model, &file.constants] != [&hashes[0], &hashes[1]] {
            bail!(
                "the registrations are for model {} and constants {}; this program has {} and {}",
                file.model,
                file.constants,
                hashes[0],
                hashes[1]
            );
        }
        for registration in &file.prediction {
            outcomes.insert(registration.id.clone(), registration.run()?);
        }
    }
    Ok(outcomes)
}

fn shown(fulfilment: &Fulfilment) -> [String; 3] {
    let number = |value: Option<f64>| value.map_or(String::new(), super::digits);
    [fulfilment.fate.name().to_owned(), number(fulfilment.left), number(fulfilment.right)]
}

fn table(json: &LabPredictions) -> String {
    let rows: Vec<Vec<String>> = json
        .predictions
        .iter()
        .map(|(id, foretold)| {
            let [fate, left, right] = shown(&foretold.outcome);
            let now = foretold.now.as_ref().map_or(String::new(), |now| shown(now).join(" "));
            let cut: String = foretold.says.chars().take(70).collect();
            vec![id.clone(), cut, left, right, fate, now]
        })
        .collect();
    let counts: Vec<String> = json.summary.iter().map(|(fate, n)| format!("{n} {fate}")).collect();
    let head = ["name", "foretold", "left", "right", "outcome", "now"];
    format!(
        "{}{}\nmodel {}, constants {}\n",
        output::table(&head, &rows),
        counts.join(", "),
        json.model,
        json.constants
    )
}

/// `cellway-lab predictions`
pub(super) fn run(context: &Context, options: &PredictionsOptions) -> Result<()> {
    let (files, hashes) = (read(options)?, registry::hashes()?);
    let mut outcomes = registry::recorded()?.outcome;
    if let Some(path) = &options.record {
        outcomes = record(&files, &hashes)?;
        let text = toml::to_string(&registry::Outcomes { outcome: outcomes.clone() })?;
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    let open = Fulfilment { fate: Fate::Open, left: None, right: None };
    let all: Vec<&Registration> = files.iter().flat_map(|file| &file.prediction).collect();
    let mut predictions = BTreeMap::new();
    let mut summary = BTreeMap::new();
    for registration in all {
        let outcome = outcomes.get(&registration.id).copied().unwrap_or(open);
        *summary.entry(outcome.fate.name().to_owned()).or_default() += 1;
        let now = if options.now { Some(registration.run()?) } else { None };
        let (says, from) = (registration.says.clone(), registration.from.clone());
        predictions.insert(registration.id.clone(), Foretold { says, from, outcome, now });
    }
    let [model, constants] = hashes;
    let json = LabPredictions { lab: "predictions".to_owned(), model, constants, summary, predictions };
    output::print(context, &json, || table(&json))
}
