//! `cellway-lab sweep`: one experiment over values of a machine's constant, as tidy CSV; parts of it, and their merging.

use super::Common;
use crate::results::LabSweep;
use ::lab::experiment::{ExperimentOutcome, run_on};
use ::lab::experiments;
use anyhow::{Context as _, Result, bail};
use cellway::context::Context;
use cellway::output;
use clap::Args;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

/// A constant of a machine and the values that it takes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Range {
    pub(super) machine: String,
    pub(super) constant: String,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (name, range) = text.split_once('=')?;
            let (machine, constant) = name.split_once('.')?;
            let (from, to) = range.split_once("..")?;
            let (from, to): (f64, f64) = (from.parse().ok()?, to.parse().ok()?);
            let range = Range { machine: machine.into(), constant: constant.into(), from, to };
            (from.is_finite() && to.is_finite() && from >= 0.0 && to >= from).then_some(range)
        };
        parse().ok_or_else(|| {
            format!("invalid range \"{text}\": expected MACHINE.CONSTANT=FROM..TO, like rs6000-320.write_us=200..800")
        })
    }
}

/// Options of a sweep.
#[derive(Debug, Args)]
pub(crate) struct SweepOptions {
    /// The experiment
    #[arg(required_unless_present = "merge")]
    experiment: Option<String>,
    /// The constant and its values: MACHINE.CONSTANT=FROM..TO
    #[arg(required_unless_present = "merge")]
    range: Option<Range>,
    /// Number of values, evenly spaced, including both ends
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    points: u32,
    /// Run only part K of N: every N-th point
    #[arg(long, value_name = "K/N")]
    shard: Option<super::report::Shard>,
    /// The file for the CSV [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Run nothing; join the files of shards
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["experiment", "shard"])]
    merge: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
}

const HEAD: &str =
    "point,machine,constant,value,experiment,id,what,unit,published_from,published_to,modelled,verdict,fact";

/// One point's rows, each number with all its digits.
fn lines(point: u32, range: &Range, value: f64, outcome: &ExperimentOutcome) -> Vec<String> {
    let number = |n: Option<f64>| n.map_or(String::new(), |n| n.to_string());
    let of = |row: &::lab::experiment::Row| {
        let (from, to) = super::tidy::ends(row);
        let fields = [
            point.to_string(),
            range.machine.clone(),
            range.constant.clone(),
            value.to_string(),
            outcome.experiment.clone(),
            row.id.clone(),
            super::tidy::what(row).to_owned(),
            row.unit.clone(),
            number(from),
            number(to),
            number(row.modelled),
            row.verdict.name().to_owned(),
            row.fact.clone(),
        ];
        fields.map(|f| super::data::field(&f)).join(",")
    };
    outcome.rows.iter().map(of).collect()
}

/// Runs the points of a part.
fn sweep(options: &SweepOptions, name: &str, range: &Range) -> Result<Vec<String>> {
    let Some(experiment) = experiments::named(name) else { bail!("no experiment {name}: see cellway-lab list") };
    let machines = super::machines(&options.common)?;
    let (k, n) = options.shard.map_or((1, 1), |shard| (shard.k as u32, shard.n as u32));
    let mut all = vec![HEAD.to_owned()];
    for point in (0..options.points).filter(|point| point % n == k - 1) {
        let value = range.from + (range.to - range.from) * f64::from(point) / f64::from(options.points - 1);
        let mut changed = super::machine_named(&machines, &range.machine)?;
        changed.set(&range.constant, value)?;
        let mut here = machines.clone();
        here.retain(|machine| machine.name != range.machine);
        here.push(changed);
        let outcome = run_on(&here, experiment, options.common.seed, options.common.quick, None)?;
        if !outcome.constants.contains(&format!("{}.{}", range.machine, range.constant)) {
            bail!("{name} does not read {} of machine {}", range.constant, range.machine);
        }
        all.extend(lines(point, range, value, &outcome));
    }
    Ok(all)
}

/// Joins parts by point. Each point once, none missing.
fn merge(parts: &[String]) -> Result<Vec<String>> {
    let mut rows: Vec<(u32, &str)> = Vec::new();
    let mut first_of: Vec<u32> = Vec::new();
    for part in parts {
        let mut lines = part.lines();
        if lines.next() != Some(HEAD) {
            bail!("no part of a sweep: it does not begin with \"{HEAD}\"");
        }
        let mut last = None;
        for line in lines {
            let point = line.split(',').next().and_then(|p| p.parse().ok());
            let Some(point) = point else { bail!("no point in line \"{line}\"") };
            if last != Some(point) {
                first_of.push(point);
                last = Some(point);
            }
            rows.push((point, line));
        }
    }
    first_of.sort_unstable();
    if let Some(wrong) = first_of.iter().zip(0..).position(|(point, wanted)| *point != wanted) {
        bail!("point {wrong} is missing, or there twice: every part is needed once");
    }
    // Stable: the rows of a point stay in their order.
    rows.sort_by_key(|(point, _)| *point);
    Ok(std::iter::once(HEAD.to_owned()).chain(rows.into_iter().map(|(_, line)| line.to_owned())).collect())
}

/// `cellway-lab sweep`
pub(super) fn run(context: &Context, options: &SweepOptions) -> Result<()> {
    let lines = match (&options.experiment, &options.range) {
        (Some(name), Some(range)) => sweep(options, name, range)?,
        _ => {
            let read = |path: &PathBuf| fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
            merge(&options.merge.iter().map(read).collect::<Result<Vec<_>>>()?)?
        }
    };
    let text = lines.join("\n") + "\n";
    let json = LabSweep { lab: "sweep".to_owned(), rows: lines.len() - 1, file: options.out.clone() };
    if let Some(path) = &options.out {
        fs::write(path, &text).with_context(|| format!("writing {}", path.display()))?;
        return output::print(context, &json, || format!("{} rows in {}", lines.len() - 1, path.display()));
    }
    output::print(context, &json, || text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(shard: Option<&str>) -> SweepOptions {
        SweepOptions {
            experiment: Some("seed001-pipeline".into()),
            range: "rs6000-320.word_ns=80..120".parse().ok(),
            points: 5,
            shard: shard.map(|s| s.parse().unwrap()),
            out: None,
            merge: Vec::new(),
            common: Common { seed: 1, quick: true, no_measure: true, machine: Vec::new() },
        }
    }

    fn part(shard: Option<&str>) -> Result<Vec<String>> {
        let options = options(shard);
        sweep(&options, "seed001-pipeline", options.range.as_ref().unwrap())
    }

    #[test]
    fn parts_of_a_sweep_come_together_to_the_last_digit_and_only_whole() {
        let whole = part(None).unwrap();
        assert!(whole.len() > 20 && whole.iter().any(|line| line.starts_with("4,rs6000-320,word_ns,120,")));
        let parts = ["2/2", "1/2"].map(|shard| part(Some(shard)).unwrap().join("\n"));
        assert_eq!(merge(&parts).unwrap(), whole);
        assert!(merge(&parts[..1]).is_err());
        assert!(merge(&[parts[0].clone(), parts[0].clone()]).is_err());
        assert!(merge(&["x".into()]).is_err());
    }

    #[test]
    fn a_range_names_machine_constant_and_two_ends_and_the_experiment_has_to_use_the_machine() {
        for bad in ["", "a=1..2", "a.b=1", "a.b=2..1", "a.b=x..2", "a.b=-1..2", "a.b=0..inf"] {
            assert!(bad.parse::<Range>().is_err(), "{bad}");
        }
        let mut other = options(None);
        other.range = "hp9000-755.poll_us=1..2".parse().ok();
        let wrong = sweep(&other, "seed001-pipeline", other.range.as_ref().unwrap());
        assert!(wrong.unwrap_err().to_string().contains("does not read"));
    }
}
