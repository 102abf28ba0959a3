//! `cellway-lab verify`: runs a report's models again and compares them to the octet.

use super::data::Data;
use super::provenance;
use crate::results::LabVerify;
use ::lab::experiment::{ExperimentOutcome, Verdict, run_on};
use ::lab::experiments;
use anyhow::{Context as _, Result, bail};
use cellway::context::Context;
use cellway::output;
use clap::Args;
use std::path::PathBuf;

/// What to verify.
#[derive(Debug, Args)]
pub(crate) struct VerifyOptions {
    /// A report's data, as `cellway-lab report` writes it
    #[arg(value_name = "report.json")]
    file: PathBuf,
}

/// What a model gave: without what was measured, which is of one machine.
fn modelled(outcome: &ExperimentOutcome) -> Result<String> {
    let mut outcome = outcome.clone();
    outcome.rows.retain(|row| row.verdict != Verdict::Today);
    for row in &mut outcome.rows {
        row.measured = None;
    }
    Ok(serde_json::to_string(&(&outcome.rows, outcome.trace, outcome.cells))?)
}

/// Runs all of a report again: experiments that differ, and how many rows were measured.
fn compare(data: &Data) -> Result<(Vec<String>, usize)> {
    let profiles = data.provenance.as_ref().map_or_else(Vec::new, |from| from.profiles.clone());
    let (mut other, mut measured) = (Vec::new(), 0);
    for outcome in &data.outcomes {
        measured += outcome.rows.iter().filter(|row| row.measured.is_some()).count();
        let Some(experiment) = experiments::named(&outcome.experiment) else {
            other.push(format!("{}: this program has no such experiment", outcome.experiment));
            continue;
        };
        let again = run_on(&profiles, experiment, data.seed, data.quick, None)?;
        if modelled(&again)? != modelled(outcome)? {
            other.push(outcome.experiment.clone());
        }
    }
    Ok((other, measured))
}

/// `cellway-lab verify`
pub(super) fn run(context: &Context, options: &VerifyOptions) -> Result<()> {
    let path = options.file.display();
    let text = std::fs::read_to_string(&options.file).with_context(|| format!("reading {path}"))?;
    let data: Data = serde_json::from_str(&text).with_context(|| format!("{path} is no report"))?;
    let (other, measured) = compare(&data)?;
    if !other.is_empty() {
        bail!("the models give something else than {path}: {}", other.join(", "));
    }
    let same = data.provenance.as_ref().zip(provenance::binary().ok()).is_some_and(|(from, own)| from.binary == own);
    let rows = data.outcomes.iter().map(|outcome| outcome.rows.len()).sum();
    let json =
        LabVerify { lab: "verify".to_owned(), experiments: data.outcomes.len(), rows, measured, same_program: same };
    output::print(context, &json, || {
        let program = if same { "this program" } else { "another program" };
        format!(
            "{} experiments of {program} give the same modelled rows, to the octet; {measured} measured rows are of one machine and did \
             not run again",
            json.experiments
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::lab::experiment::run;

    #[test]
    fn a_report_with_one_changed_digit_is_found_out() {
        let experiment = experiments::named("seed000-arithmetic").unwrap();
        let outcome = run(experiment, 3, true, None).unwrap();
        let mut data = Data { seed: 3, quick: true, measured_on: None, provenance: None, outcomes: vec![outcome] };
        assert!(compare(&data).unwrap().0.is_empty());
        let row = &mut data.outcomes[0].rows[0];
        row.modelled = row.modelled.map(|value| value + 1e-9);
        assert_eq!(compare(&data).unwrap().0, ["seed000-arithmetic"]);
    }
}
