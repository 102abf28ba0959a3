//! `cellway-lab`: the papers' experiments, published, modelled and measured on this machine.

mod audit;
mod calibrate;
mod data;
mod exercise;
mod explorer;
mod figure;
mod grid;
mod labels;
mod live;
mod page;
mod predictions;
mod provenance;
mod report;
mod sensitivity;
mod sweep;
mod text;
mod tidy;
mod trace;
mod verify;

use crate::results::{ExperimentRow, LabList, LabRun, Listed};
use ::lab::evidence;
use ::lab::experiment::{self, Experiment, ExperimentOutcome, Live, Published, Row, Verdict};
use ::lab::experiments;
use ::lab::model::Profile;
use anyhow::{Context as _, Result, bail};
use cellway::client;
use cellway::context::Context;
use cellway::output;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Experiments.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the experiments, with their questions
    List,
    /// Run experiments and show each number: published, modelled, measured
    Run(Run),
    /// Run all experiments, or a shard of them, and write a page, figures, a table and the data
    Report(report::ReportOptions),
    /// Run one experiment over values of a machine's constant; writes tidy CSV
    Sweep(sweep::SweepOptions),
    /// Run one experiment over several constants and seeds: curves with intervals; by several processes, resumable
    Grid(grid::GridOptions),
    /// Change every constant that no paper gives, and list the rows that move
    Sensitivity(sensitivity::SensitivityOptions),
    /// Run every experiment with other constants, without mechanisms, with other seeds and in full: what decides each row
    Audit(audit::AuditOptions),
    /// Show what was foretold before the model ran, and what came of it
    Predictions(predictions::PredictionsOptions),
    /// Run a report's models again, and compare their rows to the octet
    Verify(verify::VerifyOptions),
    /// Follow one PDU of an experiment through all units: a table, a picture, or a trace for Perfetto
    Trace(trace::TraceOptions),
    /// An exercise with drawn numbers, its solution, or the marks of a class
    Exercise(exercise::ExerciseOptions),
    /// Write one page with the models as WebAssembly, sliders and the published numbers (`scripts/explorer` calls it)
    Explorer(explorer::ExplorerOptions),
    /// Measure this machine, and write a profile like those in machines/
    Calibrate(calibrate::CalibrateOptions),
}

/// Options of all runs.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// The same seed gives the same virtual time and output, to the octet
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Shorter bursts with the same effects; under a minute
    #[arg(long)]
    quick: bool,
    /// Omit measurements on this machine
    #[arg(long)]
    no_measure: bool,
    /// A machine's profile, as `calibrate` writes it. A profile with the name of a paper's machine replaces that
    /// machine; any other describes this machine (may be repeated)
    #[arg(long, value_name = "FILE")]
    machine: Vec<PathBuf>,
}

/// Experiments to run.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Names of experiments, or prefixes of names: seed000, seed003-tables
    #[arg(required_unless_present = "all")]
    names: Vec<String>,
    /// Run all experiments
    #[arg(long)]
    all: bool,
    /// The folder for the figures; with --json none are drawn
    #[arg(long, default_value = "out/lab", value_name = "FOLDER")]
    figures: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// `cellway-lab`
pub(crate) fn run(context: &Context, command: &LabCommand) -> Result<()> {
    match command {
        LabCommand::List => list(context),
        LabCommand::Run(options) => run_some(context, options),
        LabCommand::Report(options) => report::run(context, options),
        LabCommand::Sweep(options) => sweep::run(context, options),
        LabCommand::Grid(options) => grid::run(context, options),
        LabCommand::Sensitivity(options) => sensitivity::run(context, options),
        LabCommand::Audit(options) => audit::run(context, options),
        LabCommand::Predictions(options) => predictions::run(context, options),
        LabCommand::Verify(options) => verify::run(context, options),
        LabCommand::Trace(options) => trace::run(context, options),
        LabCommand::Exercise(options) => exercise::run(context, options),
        LabCommand::Explorer(options) => explorer::write(context, options),
        LabCommand::Calibrate(options) => calibrate::run(context, options),
    }
}

fn list(context: &Context) -> Result<()> {
    let of = |e: &&dyn Experiment| Listed { name: e.name().to_owned(), title: e.title().to_owned() };
    let json = LabList { experiments: experiments::ALL.iter().map(of).collect() };
    output::print(context, &json, || {
        let rows: Vec<Vec<String>> =
            experiments::ALL.iter().map(|e| vec![format!("{:<20}  {}", e.name(), e.title())]).collect();
        output::table(&["experiment"], &rows)
    })
}

fn run_some(context: &Context, options: &Run) -> Result<()> {
    let chosen = if options.all { experiments::ALL.to_vec() } else { chosen(&options.names)? };
    let outcomes = perform(&chosen, &options.common)?;
    let json = LabRun {
        lab: "run".to_owned(),
        seed: options.common.seed,
        quick: options.common.quick,
        measured_on: (!options.common.no_measure).then(machine),
        rows: outcomes.iter().flat_map(rows_of).collect(),
        summary: named(summary(&outcomes)),
        evidence: evidence::papers(&outcomes)?,
        cells: outcomes.iter().map(|o| o.cells).sum(),
        traces: outcomes.iter().map(|o| (o.experiment.clone(), o.happened())).collect(),
    };
    let drawn = if context.json { Vec::new() } else { draw_all(&outcomes, &options.figures, &json)? };
    output::print(context, &json, || {
        let on = json.measured_on.as_ref().map_or(String::new(), |on| format!("measured on: {on}\n"));
        let drawn: String = drawn.iter().map(|path| format!("figure: {}\n", path.display())).collect();
        text(&outcomes) + &on + &drawn
    })
}

/// Draws the figures of a run; their paths.
fn draw_all(outcomes: &[ExperimentOutcome], folder: &Path, run: &LabRun) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for figure in outcomes.iter().flat_map(|outcome| &outcome.figures) {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let name = format!("{}.svg", figure.name);
        report::write(folder, &name, &figure::draw(figure, run.measured_on.as_deref())?)?;
        paths.push(folder.join(name));
    }
    Ok(paths)
}

/// Experiments of these names, or whose names begin so.
fn chosen(names: &[String]) -> Result<Vec<&'static dyn Experiment>> {
    let begins = |e: &dyn Experiment, name: &String| e.name().starts_with(name.as_str());
    if let Some(name) = names.iter().find(|name| !experiments::ALL.iter().any(|e| begins(*e, name))) {
        bail!("no experiment {name}: see cellway-lab list");
    }
    Ok(experiments::ALL.iter().copied().filter(|e| names.iter().any(|name| begins(*e, name))).collect())
}

/// The processor, how many of them, and how many threads wanted one in the last minute.
fn machine() -> String {
    let processor = crate::bench::processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    format!("{processor}, {cores} cores, load average {load} at the end")
}

/// The profiles that were given.
fn machines(common: &Common) -> Result<Vec<Profile>> {
    profiles(&common.machine)
}

/// The profiles in these files.
fn profiles(files: &[PathBuf]) -> Result<Vec<Profile>> {
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Profile::parse(&text).with_context(|| path.display().to_string())
    };
    files.iter().map(read).collect()
}

/// A machine of this name: one that was given, or one that comes with the program.
fn machine_named(given: &[Profile], name: &str) -> Result<Profile> {
    match given.iter().find(|machine| machine.name == name) {
        Some(machine) => Ok(machine.clone()),
        None => Ok(Profile::named(name)?),
    }
}

/// Runs experiments one after another, with a bar on a terminal.
fn perform(chosen: &[&'static dyn Experiment], common: &Common) -> Result<Vec<ExperimentOutcome>> {
    let bar =
        if std::io::stderr().is_terminal() { ProgressBar::new(chosen.len() as u64) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let historical: Vec<String> = Profile::built_in()?.into_iter().map(|machine| machine.name).collect();
    let (historical, mut own): (Vec<_>, Vec<_>) =
        machines(common)?.into_iter().partition(|machine| historical.contains(&machine.name));
    let profile = own.pop();
    if let Some(machine) = profile.as_ref().filter(|_| common.no_measure || !own.is_empty()) {
        bail!(
            "unknown machine {}: take a paper's name, or drop --no-measure and give one profile of this machine",
            machine.name
        );
    }
    let mut here = if common.no_measure { None } else { Some(live::Here::new(common.quick, profile)) };
    let flag = client::interrupted()?;
    if let Some(here) = &mut here {
        here.stop_at(flag.clone());
    }
    let mut outcomes = Vec::new();
    for experiment in chosen {
        bar.set_message(experiment.name());
        let live = here.as_mut().map(|h| h as &mut dyn Live);
        let outcome = experiment::run_on(&historical, *experiment, common.seed, common.quick, live)
            .with_context(|| format!("experiment {}", experiment.name()))?;
        if !client::goes_on(&flag) {
            bar.finish_and_clear();
            bail!("interrupted: nothing is left behind");
        }
        outcomes.push(outcome);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(outcomes)
}

/// The rows of an experiment, each with the experiment's name.
fn rows_of(outcome: &ExperimentOutcome) -> Vec<ExperimentRow> {
    let of = |row: &Row| ExperimentRow { experiment: outcome.experiment.clone(), row: row.clone() };
    outcome.rows.iter().map(of).collect()
}

fn named(summary: BTreeMap<&str, usize>) -> BTreeMap<String, usize> {
    summary.into_iter().map(|(verdict, n)| (verdict.to_owned(), n)).collect()
}

/// How many rows there are of each kind of evidence.
fn summary(outcomes: &[ExperimentOutcome]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for row in outcomes.iter().flat_map(|o| &o.rows) {
        *counts.entry(row.verdict.name()).or_default() += 1;
    }
    counts
}

/// Six significant digits, four behind the point at most, and not in powers of ten.
fn digits(x: f64) -> String {
    let places = if x == 0.0 { 0 } else { (5 - x.abs().log10().floor() as i32).clamp(0, 4) };
    let text = format!("{x:.*}", places as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Three significant digits: a measurement has no more.
fn rough(x: f64) -> String {
    let unit = if x == 0.0 { 1.0 } else { 10f64.powf(x.abs().log10().floor() - 2.0) };
    digits((x / unit).round() * unit)
}

fn published(row: &Row) -> String {
    match &row.published {
        Published::Number(n) => digits(*n),
        Published::Range(a, b) => format!("{} to {}", digits(*a), digits(*b)),
        Published::Words(words) if words.is_empty() => String::new(),
        Published::Words(words) => format!("\"{words}\""),
    }
}

fn modelled(row: &Row) -> String {
    row.modelled.map_or(String::new(), digits)
}

fn measured(row: &Row) -> String {
    row.measured.map_or(String::new(), |m| format!("{} ({} to {})", rough(m.median), rough(m.least), rough(m.greatest)))
}

fn deviation(row: &Row) -> String {
    row.deviation.map_or(String::new(), |d| format!("{:+.1} %", d * 100.0))
}

/// The kind of evidence; where the printed digits are not met, how near is near enough.
fn verdict(row: &Row) -> String {
    let near = row.bound.filter(|_| row.to_the_digit == Some(false) && row.verdict != Verdict::Contradicted);
    match near {
        Some(bound) => format!("{}, within {:.0} %", row.verdict.name(), bound * 100.0),
        None => row.verdict.name().into(),
    }
}

fn text(outcomes: &[ExperimentOutcome]) -> String {
    let mut text = String::new();
    outcomes.iter().for_each(|outcome| text.push_str(&text::rows(outcome)));
    let counts: Vec<String> = summary(outcomes).into_iter().map(|(verdict, n)| format!("{n} {verdict}")).collect();
    text.push_str(&counts.join(", "));
    text.push('\n');
    text.push_str(&evidence_text(outcomes));
    text
}

/// A paper's name; one that the project does not implement is marked.
fn paper_name(paper: &evidence::Paper) -> String {
    if paper.seed { paper.name.to_owned() } else { format!("{} (no seed)", paper.name) }
}

/// Predictions against degrees of freedom, by paper.
fn evidence_text(outcomes: &[ExperimentOutcome]) -> String {
    let papers = evidence::papers(outcomes).unwrap_or_default();
    // A paper that is no seed is counted apart.
    let total = |of: fn(&evidence::Paper) -> usize| papers.iter().filter(|p| p.seed).map(of).sum::<usize>();
    let row = |name: &str, n: [usize; 8]| {
        std::iter::once(name.to_owned()).chain(n.map(|n| n.to_string())).collect::<Vec<_>>()
    };
    let counts = |p: &evidence::Paper| {
        [
            p.predictions,
            p.to_the_digit,
            p.contradicted,
            p.freedom(),
            p.calibrated,
            p.assumed,
            p.choices,
            p.behind_predictions,
        ]
    };
    let mut rows: Vec<Vec<String>> = papers.iter().map(|p| row(&paper_name(p), counts(p))).collect();
    rows.push(row(
        "all seeds",
        [
            total(|p| p.predictions),
            total(|p| p.to_the_digit),
            total(|p| p.contradicted),
            total(evidence::Paper::freedom),
            total(|p| p.calibrated),
            total(|p| p.assumed),
            total(|p| p.choices),
            total(|p| p.behind_predictions),
        ],
    ));
    let head = [
        "distinct facts",
        "predicted",
        "to the digit",
        "contradicted",
        "degrees of freedom",
        "calibrated",
        "assumed",
        "choices",
        "constants behind predictions",
    ];
    output::table(&head, &rows)
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_have_four_digits_at_most_behind_the_point() {
        let all = [0.0, 1607.2, 135.367, 0.38, 3.0, 16.6665, 142_222.2].map(super::digits);
        assert_eq!([44_974.8, 0.074_61, 98.128, 0.0].map(super::rough), ["45000", "0.0746", "98.1", "0"]);
        assert_eq!(all, ["0", "1607.2", "135.367", "0.38", "3", "16.6665", "142222"]);
    }
}
