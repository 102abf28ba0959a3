//! `cellway-lab grid`: an experiment over several constants and seeds, by several processes, resumable, with curves and
//! intervals.
//!
//! A point is one combination of values and one seed. Its rows are one file, written whole or not at all, so a run that
//! was interrupted goes on where it ended, and processes on several machines can share a folder.

mod curves;
mod plan;

use super::{Common, data, tidy};
use crate::results::study::LabGrid;
use ::lab::experiment::{ExperimentOutcome, Row, run_on};
use ::lab::experiments;
use ::lab::model::Profile;
use anyhow::{Context as _, Result, bail};
use cellway::context::Context;
use cellway::{client, output};
use clap::{Args, ValueEnum};
use plan::{Axis, Plan, Seeds};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Other systems that run the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scheduler {
    /// HyperQueue: `hq submit`
    Hyperqueue,
    /// Slurm: a script for `sbatch`
    Slurm,
}

/// Options of a grid.
#[derive(Debug, Args)]
pub(crate) struct GridOptions {
    /// The experiment
    experiment: String,
    /// Constants and their values: MACHINE.CONSTANT=FROM..TO or FROM..TO/POINTS; the first is the curves' axis
    #[arg(required = true)]
    axes: Vec<Axis>,
    /// The seeds, from the first to the last
    #[arg(long, default_value = "1..5", value_name = "FIRST..LAST")]
    seeds: Seeds,
    /// The folder for the points, the tables and the curves
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Processes on this machine
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    jobs: u32,
    /// Run only part K of N: every N-th point
    #[arg(long, value_name = "K/N", conflicts_with = "jobs")]
    shard: Option<super::report::Shard>,
    /// Run nothing; print the commands that run this grid in parts elsewhere
    #[arg(long, value_enum, value_name = "SYSTEM")]
    print: Option<Scheduler>,
    /// With --print: the number of parts
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    parts: u32,
    /// Shorter bursts with the same effects
    #[arg(long)]
    quick: bool,
    /// A profile in place of the paper's machine of its name (may be repeated)
    #[arg(long, value_name = "FILE")]
    machine: Vec<PathBuf>,
}

impl GridOptions {
    fn common(&self, seed: u64) -> Common {
        Common { seed, quick: self.quick, no_measure: true, machine: self.machine.clone() }
    }

    /// The arguments that make the same grid again.
    fn arguments(&self) -> Vec<String> {
        let mut all = vec!["grid".to_owned(), self.experiment.clone()];
        all.extend(self.axes.iter().map(Axis::to_string));
        all.extend(["--seeds".to_owned(), self.seeds.to_string(), "--out".to_owned(), self.out.display().to_string()]);
        all.extend(self.quick.then(|| "--quick".to_owned()));
        all.extend(self.machine.iter().flat_map(|path| ["--machine".to_owned(), path.display().to_string()]));
        all
    }
}

const HEAD: &str = "point,seed,values,experiment,id,what,unit,published_from,published_to,modelled,verdict";

fn number(n: Option<f64>) -> String {
    n.map_or(String::new(), |n| n.to_string())
}

/// A point's rows, each number with all its digits.
fn lines(plan: &Plan, point: usize, outcome: &ExperimentOutcome) -> String {
    let (values, seed) = plan.point(point);
    let values: Vec<String> = values.iter().map(f64::to_string).collect();
    let line = |row: &Row| {
        let (from, to) = tidy::ends(row);
        let fields = [
            point.to_string(),
            seed.to_string(),
            values.join(" "),
            outcome.experiment.clone(),
            row.id.clone(),
            tidy::what(row).to_owned(),
            row.unit.clone(),
            number(from),
            number(to),
            number(row.modelled),
            row.verdict.name().to_owned(),
        ];
        fields.map(|field| data::field(&field)).join(",") + "\n"
    };
    outcome.rows.iter().map(line).collect()
}

fn file_of(folder: &Path, point: usize) -> PathBuf {
    folder.join("points").join(format!("{point:06}.csv"))
}

/// Writes a file whole: whoever sees it sees all of it.
fn write_whole(path: &Path, text: &str) -> Result<()> {
    let begun = path.with_extension(format!("{}.part", std::process::id()));
    fs::write(&begun, text)
        .and_then(|()| fs::rename(&begun, path))
        .with_context(|| format!("writing {}", path.display()))
}

/// Runs the points of a part that are not there yet; how many it ran.
fn run_points(options: &GridOptions, plan: &Plan) -> Result<usize> {
    let Some(experiment) = experiments::named(&options.experiment) else {
        bail!("no experiment {}: see cellway-lab list", options.experiment);
    };
    let machines = super::machines(&options.common(1))?;
    let (k, n) = options.shard.map_or((1, 1), |shard| (shard.k, shard.n));
    let flag = client::interrupted()?;
    let mut ran = 0;
    for point in (0..plan.points()).filter(|point| point % n == k - 1) {
        let path = file_of(&options.out, point);
        if path.exists() {
            continue;
        }
        if !client::goes_on(&flag) {
            bail!("interrupted: {ran} points were run and are kept; the same command goes on");
        }
        let (values, seed) = plan.point(point);
        let here = plan.machines(&machines, &values)?;
        let outcome = run_on(&here, experiment, seed, options.quick, None)?;
        if let Some(unread) = plan.unread(&outcome.constants) {
            bail!("{} does not read {unread}", options.experiment);
        }
        write_whole(&path, &lines(plan, point, &outcome))?;
        ran += 1;
    }
    Ok(ran)
}

/// Runs the same grid in so many processes.
fn spread(options: &GridOptions) -> Result<()> {
    let program = std::env::current_exe().context("looking for this program")?;
    let part = |k: u32| {
        let mut command = Command::new(&program);
        command.args(options.arguments()).arg("--shard").arg(format!("{k}/{}", options.jobs));
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("starting a part")
    };
    let children = (1..=options.jobs).map(part).collect::<Result<Vec<_>>>()?;
    let mut failed = 0;
    for mut child in children {
        failed += usize::from(!child.wait().context("waiting for a part")?.success());
    }
    if failed > 0 {
        bail!("{failed} of {} processes failed; the points of the others are kept", options.jobs);
    }
    Ok(())
}

/// The commands for another system.
fn elsewhere(options: &GridOptions, scheduler: Scheduler) -> String {
    let quoted = |argument: &String| {
        let plain = argument.chars().all(|c| c.is_alphanumeric() || "-_=./".contains(c));
        if plain { argument.clone() } else { format!("'{}'", argument.replace('\'', "'\\''")) }
    };
    let whole = options.arguments().iter().map(quoted).collect::<Vec<_>>().join(" ");
    let parts = options.parts;
    match scheduler {
        Scheduler::Hyperqueue => format!(
            "hq submit --array 1-{parts} --wait bash -c 'exec cellway-lab {} --shard $HQ_TASK_ID/{parts}'\ncellway-lab {whole}\n",
            whole.replace('\'', "'\\''")
        ),
        Scheduler::Slurm => format!(
            "sbatch --wait --array=1-{parts} --wrap 'cellway-lab {} --shard $SLURM_ARRAY_TASK_ID/{parts}'\ncellway-lab {whole}\n",
            whole.replace('\'', "'\\''")
        ),
    }
}

/// `cellway-lab grid`
pub(super) fn run(context: &Context, options: &GridOptions) -> Result<()> {
    if let Some(scheduler) = options.print {
        return output::print_lines(&elsewhere(options, scheduler));
    }
    let machines: Vec<Profile> = super::machines(&options.common(1))?;
    let plan = Plan::new(options, &machines)?;
    plan.settle(&options.out)?;
    let before = plan.present(&options.out);
    if options.jobs > 1 {
        spread(options)?;
    } else {
        run_points(options, &plan)?;
    }
    let present = plan.present(&options.out);
    let mut files = Vec::new();
    if present == plan.points() && options.shard.is_none() {
        files = curves::write(&plan, &options.out)?;
    }
    let (folder, points) = (options.out.clone(), plan.points());
    let json = LabGrid { lab: "grid".to_owned(), folder, points, present, before, files: files.clone() };
    output::print(context, &json, || {
        let at = options.out.display();
        match files.len() {
            0 => format!("{present} of {points} points in {at}"),
            n => format!("{points} points in {at}, {before} of them from before; {n} files:\n{}", files.join("\n")),
        }
    })
}

#[cfg(test)]
mod tests;
