//! `cellway-lab simulate`: a user's own network and scenario in virtual time.

use crate::results::simulate::Simulated;
use ::lab::simulate::{Outcome, Scenario, run as simulate};
use anyhow::{Context as _, Result, bail};
use cellway::context::Context;
use cellway::{kinds, output};
use clap::Args;
use std::path::{Path, PathBuf};

/// Scenarios are short texts.
const MAX_SCENARIO_OCTETS: u64 = 1 << 20;

/// Runs a network in virtual time, by the code that runs it live: traffic, faults and changes at times, expectations.
///
/// The same files and the same seed give the same result, to the octet. It ends with status 1 if an expectation is not
/// met: a scenario is a test. docs/simulating.md has the keys of a scenario.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The network's description, as for `cellway up`
    network: PathBuf,
    /// The scenario
    scenario: PathBuf,
    /// The seed of traffic and of links' faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// `cellway-lab simulate`
pub(crate) fn run(context: &Context, options: &Simulate) -> Result<()> {
    let kinds = kinds::kinds();
    let config = control::description::load(&kinds, &options.network)?;
    let name = options.scenario.display();
    let octets = std::fs::metadata(&options.scenario).with_context(|| name.to_string())?.len();
    if octets > MAX_SCENARIO_OCTETS {
        bail!("{name}: {octets} octets: expected {MAX_SCENARIO_OCTETS} at most");
    }
    let text = std::fs::read_to_string(&options.scenario).with_context(|| name.to_string())?;
    let scenario = Scenario::parse(&text).with_context(|| name.to_string())?;
    let folder = options.scenario.parent().unwrap_or(Path::new(""));
    let outcome = simulate(&kinds, &config, &scenario, folder, options.seed).with_context(|| name.to_string())?;
    let missed = outcome.expectations.iter().filter(|expectation| !expectation.met).count();
    let all = outcome.expectations.len();
    let simulated = Simulated(outcome);
    output::print(context, &simulated, || to_text(&simulated.0))?;
    if missed > 0 {
        bail!("{missed} of {all} expectations are not met");
    }
    Ok(())
}

fn to_text(outcome: &Outcome) -> String {
    let sources: Vec<Vec<String>> = outcome
        .sources
        .iter()
        .map(|source| {
            let numbers = [source.sent, source.refused, source.received, source.lost, source.lost_cells];
            let micros = |of: fn(&::lab::simulate::Delay) -> f64| {
                source.delay_s.as_ref().map_or_else(|| "-".to_owned(), |delay| format!("{:.1}", of(delay) * 1e6))
            };
            let mut row = vec![source.source.clone(), source.from.clone(), source.category.clone()];
            row.extend(numbers.map(|number| number.to_string()));
            row.push(format!("{:.3}", source.bits_per_s * 1e-6));
            row.extend([micros(|delay| delay.mean), micros(|delay| delay.p99), micros(|delay| delay.max)]);
            row
        })
        .collect();
    let head = [
        "source",
        "from",
        "category",
        "sent",
        "refused",
        "received",
        "lost",
        "cells lost",
        "Mbit/s",
        "delay, us",
        "p99",
        "max",
    ];
    let mut text = output::table(&head, &sources);
    let dropped: Vec<Vec<String>> = (outcome.dropped.iter())
        .map(|row| vec![row.place.clone(), row.direction.clone(), row.reason.clone(), row.count.to_string()])
        .collect();
    if !dropped.is_empty() {
        text += &format!("\n{}", output::table(&["dropped at", "way", "reason", "cells or frames"], &dropped));
    }
    if !outcome.expectations.is_empty() {
        text.push('\n');
    }
    for expectation in &outcome.expectations {
        let met = if expectation.met { "met:    " } else { "NOT MET:" };
        text += &format!("{met} {}: {}\n", expectation.says, expectation.found);
    }
    let Outcome { seconds, carried, seed, trace, .. } = outcome;
    text + &format!(
        "\n{seconds:.3} s of virtual time, {carried} cells and frames on links; seed {seed}, trace {trace}\n"
    )
}
