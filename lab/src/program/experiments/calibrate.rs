//! `cellway-lab calibrate`: this machine's constants, measured ([`super::live::profile`]), as a file.

use super::live::{Here, profile};
use crate::results::Calibrated;
use ::lab::model::Profile;
use anyhow::{Context as _, Result};
use cellway::context::Context;
use cellway::output;
use clap::Args;
use std::path::PathBuf;

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct CalibrateOptions {
    /// The file for the profile [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Shorter measurements
    #[arg(long)]
    quick: bool,
    /// Passes over all constants; the profile has their medians
    #[arg(long, default_value_t = 15)]
    passes: usize,
}

/// `cellway-lab calibrate`
pub(super) fn run(context: &Context, options: &CalibrateOptions) -> Result<()> {
    let mut here = Here::new(options.quick, None);
    let profile = profile::profile(&mut here, if options.quick { options.passes.min(5) } else { options.passes })?;
    let text = toml::to_string(&profile)?;
    // What is written can be read again.
    Profile::parse(&text)?;
    if let Some(path) = &options.out {
        std::fs::write(path, &text).with_context(|| format!("writing {}", path.display()))?;
    }
    let doubtful: Vec<&str> = profile
        .constants
        .iter()
        .filter(|(_, c)| c.why.as_ref().is_some_and(|why| why.contains("uncertain")))
        .map(|(name, _)| name.as_str())
        .collect();
    if !doubtful.is_empty() {
        output::note(format_args!("cellway: uncertain on this machine now: {}", doubtful.join(", ")));
    }
    output::print(context, &Calibrated::from(&profile), || match &options.out {
        Some(path) => path.display().to_string(),
        None => text,
    })
}
