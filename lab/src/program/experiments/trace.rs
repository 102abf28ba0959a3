//! `cellway-lab trace`: one PDU of an experiment, event by event over all units.

use crate::results::study::LabTrace;
use ::lab::experiments;
use ::lab::microscope::{self, SCENES, Scene, View};
use anyhow::{Context as _, Result, bail};
use cellway::context::Context;
use cellway::output;
use clap::{Args, ValueEnum};
use std::fs;
use std::path::PathBuf;

/// How the PDU is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table
    Text,
    /// A picture: a lane for each unit
    Svg,
    /// The trace event format of Chrome and Perfetto
    Perfetto,
    /// Everything
    Json,
}

/// Options of a trace.
#[derive(Debug, Args)]
pub(crate) struct TraceOptions {
    /// The experiment; without one, the experiments and scenes that can be traced are listed
    experiment: Option<String>,
    /// Which of its runs [default: the first that is listed]
    #[arg(long)]
    scene: Option<String>,
    /// The number of the PDU; number 0 of a burst is the small start datagram
    #[arg(long, default_value_t = 20)]
    pdu: u64,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The file to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// A shorter burst with the same effects
    #[arg(long)]
    quick: bool,
    /// A profile in place of the paper's machine of its name (may be repeated)
    #[arg(long, value_name = "FILE")]
    machine: Vec<PathBuf>,
}

fn list() -> String {
    let row = |scene: &Scene| vec![scene.experiment.to_owned(), scene.name.to_owned(), scene.title.to_owned()];
    output::table(&["experiment", "scene", "shows"], &SCENES.iter().map(row).collect::<Vec<_>>())
}

fn chosen(experiment: &str, name: Option<&str>) -> Result<&'static Scene> {
    if let Some(scene) = microscope::scene(experiment, name) {
        return Ok(scene);
    }
    let known: Vec<&str> = microscope::scenes_of(experiment).map(|scene| scene.name).collect();
    match (name, experiments::named(experiment)) {
        (Some(name), _) if !known.is_empty() => bail!("no scene {name} of {experiment}: it has {}", known.join(", ")),
        (_, Some(_)) => bail!("{experiment} has no scene to trace: cellway-lab trace lists those that have"),
        _ => bail!("no experiment {experiment}: see cellway-lab list"),
    }
}

fn shown(view: &View, format: Format) -> Result<String> {
    Ok(match format {
        Format::Text => view.text(),
        Format::Svg => microscope::svg(view),
        Format::Perfetto => serde_json::to_string(&view.perfetto())? + "\n",
        Format::Json => serde_json::to_string_pretty(view)? + "\n",
    })
}

/// `cellway-lab trace`
pub(super) fn run(context: &Context, options: &TraceOptions) -> Result<()> {
    let Some(experiment) = &options.experiment else {
        return output::print(context, &LabTrace::scenes(), list);
    };
    let scene = chosen(experiment, options.scene.as_deref())?;
    let looked = scene.run(&super::profiles(&options.machine)?, options.quick)?;
    let view = View::new(scene, &looked, options.pdu)?;
    let text = shown(&view, options.format)?;
    let Some(path) = &options.out else {
        if context.json {
            return output::say(&LabTrace::new(&view, None));
        }
        return output::print_lines(&text);
    };
    fs::write(path, &text).with_context(|| format!("writing {}", path.display()))?;
    output::print(context, &LabTrace::new(&view, Some(path.clone())), || {
        format!("PDU {} of {}, {}: {}", view.pdu, view.experiment, view.scene, path.display())
    })
}
