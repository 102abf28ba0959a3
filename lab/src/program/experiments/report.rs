//! `cellway-lab report`: the page, its figures, the table as CSV and all as JSON; shards and their merging.

use super::data::{Data, field};
use super::{Common, deviation, measured, modelled, page, perform, published, summary};
use crate::results::LabReport;
use ::lab::experiment::ExperimentOutcome;
use ::lab::experiments;
use anyhow::{Context as _, Result, bail};
use cellway::context::Context;
use cellway::output;
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

/// Which part of the experiments: K of N.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(super) k: usize,
    pub(super) n: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (k, n) = text.split_once('/')?;
            let (k, n) = (k.parse().ok()?, n.parse().ok()?);
            (1 <= k && k <= n).then_some(Shard { k, n })
        };
        parse().ok_or_else(|| format!("{text}: a shard is K/N with K from 1 to N, like 2/4"))
    }
}

/// Options of a report.
#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// Only experiments with these names or prefixes [default: all]
    #[arg(conflicts_with_all = ["shard", "merge"])]
    names: Vec<String>,
    /// The folder for the report
    #[arg(long, default_value = "out/lab", value_name = "FOLDER")]
    out: PathBuf,
    /// Run only part K of N, and write shard-K-of-N.json for --merge
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Run nothing; make the report from the files of shards
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "shard")]
    merge: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Joins shards: each experiment once, in the order of the list.
fn merge(parts: Vec<Data>) -> Result<Data> {
    let Some(first) = parts.first() else { bail!("nothing to merge") };
    let (seed, quick, measured_on) = (first.seed, first.quick, first.measured_on.clone());
    if parts.iter().any(|p| (p.seed, p.quick) != (seed, quick)) {
        bail!("shards of different runs: seed and --quick have to be the same");
    }
    let provenance = first.provenance.clone();
    if parts.iter().any(|p| p.provenance != provenance) {
        bail!("shards of different programs or machines: make all of them with one program and the same --machine");
    }
    let mut outcomes: Vec<ExperimentOutcome> = parts.into_iter().flat_map(|p| p.outcomes).collect();
    let place = |o: &ExperimentOutcome| experiments::ALL.iter().position(|e| e.name() == o.experiment);
    outcomes.sort_by_key(place);
    let names: Vec<&str> = outcomes.iter().map(|o| o.experiment.as_str()).collect();
    let wanted: Vec<&str> = experiments::ALL.iter().map(|e| e.name()).collect();
    if names != wanted {
        bail!("the shards have {}; all of {} are needed, each once", names.join(", "), wanted.join(", "));
    }
    Ok(Data { seed, quick, measured_on, provenance, outcomes })
}

fn csv(data: &Data) -> String {
    let mut text =
        String::from("experiment,id,what,unit,published,modelled,measured,deviation,to_the_digit,verdict,note\n");
    for outcome in &data.outcomes {
        for row in &outcome.rows {
            let fields = [
                &outcome.experiment,
                &row.id,
                &row.what,
                &row.unit,
                &published(row),
                &modelled(row),
                &measured(row),
                &deviation(row),
                &row.to_the_digit.map_or(String::new(), |same| same.to_string()),
                &row.verdict.name().to_owned(),
                &row.note,
            ];
            text.push_str(&fields.map(|f| field(f)).join(","));
            text.push('\n');
        }
    }
    text
}

pub(super) fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

/// `cellway-lab report`
pub(super) fn run(context: &Context, options: &ReportOptions) -> Result<()> {
    let begin = Instant::now();
    let data = if options.merge.is_empty() {
        let chosen: Vec<_> = match options.shard {
            Some(shard) => experiments::shard(shard.k, shard.n).collect(),
            None if options.names.is_empty() => experiments::ALL.to_vec(),
            None => super::chosen(&options.names)?,
        };
        let outcomes = perform(&chosen, &options.common)?;
        let measured_on = (!options.common.no_measure).then(super::machine);
        let provenance = Some(super::provenance::of(&options.common)?);
        Data { seed: options.common.seed, quick: options.common.quick, measured_on, provenance, outcomes }
    } else {
        let read = |path: &PathBuf| -> Result<Data> {
            let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            serde_json::from_str(&text).with_context(|| format!("{} is no part of a report", path.display()))
        };
        merge(options.merge.iter().map(read).collect::<Result<_>>()?)?
    };
    let whole = serde_json::to_string_pretty(&data)?;
    fs::create_dir_all(&options.out).with_context(|| format!("making {}", options.out.display()))?;
    let mut left = Vec::new();
    if let Some(shard) = options.shard {
        left.push(format!("shard-{}-of-{}.json", shard.k, shard.n));
        write(&options.out, &left[0], &whole)?;
    } else {
        let mut figures = Vec::new();
        for figure in data.outcomes.iter().flat_map(|o| &o.figures) {
            let svg = super::figure::draw(figure, data.measured_on.as_deref())?;
            left.push(format!("{}.svg", figure.name));
            write(&options.out, &left[left.len() - 1], &svg)?;
            figures.push((figure.name.clone(), svg));
        }
        let html = page::html(&data, &figures)?;
        for (name, text) in [
            ("report.json", &whole),
            ("rows.csv", &csv(&data)),
            ("tidy-rows.csv", &super::tidy::rows(&data)),
            ("tidy-curves.csv", &super::tidy::curves(&data)),
            ("report.html", &html),
        ] {
            write(&options.out, name, text)?;
            left.push(name.into());
        }
    }
    let counts = summary(&data.outcomes);
    let json = LabReport {
        lab: "report".to_owned(),
        folder: options.out.clone(),
        files: left.clone(),
        summary: super::named(counts.clone()),
        seed: data.seed,
        seconds: begin.elapsed().as_secs_f64(),
    };
    output::print(context, &json, || {
        let counts: Vec<String> = counts.iter().map(|(verdict, n)| format!("{n} {verdict}")).collect();
        let last = left.last().map_or("", String::as_str);
        format!(
            "{}\n{} in {:.1} s\n{}",
            super::evidence_text(&data.outcomes),
            counts.join(", "),
            begin.elapsed().as_secs_f64(),
            options.out.join(last).display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(names: &[&str], seed: u64) -> Data {
        let outcome = |name: &&str| ExperimentOutcome {
            experiment: (*name).into(),
            title: String::new(),
            rows: Vec::new(),
            figures: Vec::new(),
            trace: 0,
            cells: 0,
            constants: Default::default(),
        };
        Data { seed, quick: true, measured_on: None, provenance: None, outcomes: names.iter().map(outcome).collect() }
    }

    #[test]
    fn shards_come_together_in_the_order_of_the_list_and_only_whole() {
        let of = |k| experiments::shard(k, 2).map(|e| e.name()).collect::<Vec<_>>();
        let merged = merge(vec![part(&of(2), 1), part(&of(1), 1)]).unwrap();
        assert!(merged.outcomes.iter().zip(experiments::ALL).all(|(o, e)| o.experiment == e.name()));
        assert!(merge(vec![part(&of(1), 1)]).is_err());
        assert!(merge(vec![part(&of(1), 1), part(&of(2), 2)]).is_err());
        assert!(merge(vec![part(&of(1), 1), part(&of(1), 1), part(&of(2), 1)]).is_err());
        assert!(merge(Vec::new()).is_err());
    }

    #[test]
    fn a_shard_is_k_of_n_and_fields_with_commas_are_quoted() {
        assert_eq!("2/4".parse(), Ok(Shard { k: 2, n: 4 }));
        for bad in ["0/4", "5/4", "2", "a/b", "1/0"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
        assert_eq!(field("a, \"b\""), "\"a, \"\"b\"\"\"");
    }
}
