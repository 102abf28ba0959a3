//! `cellway config`: a description is checked, or shown with its defaults.

use crate::context::Context;
use crate::kinds::kinds;
use crate::output;
use anyhow::Result;
use clap::Subcommand;
use control::config::Whole;
use control::description::{explained, load, rehearse};
use control::diagnostic::Diagnostics;
use control::protocol::Checked;
use std::path::PathBuf;

/// Inspection of descriptions.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Read a description and report its errors
    Check {
        /// The file
        file: PathBuf,
    },
    /// Print a description with every default filled in
    Show {
        /// The file
        file: PathBuf,
    },
}

/// `cellway config`
pub fn run(context: &Context, command: &ConfigCommand) -> Result<()> {
    match command {
        ConfigCommand::Check { file } => {
            let checked = load(&kinds(), file).and_then(|config| match rehearse(&config) {
                Ok(()) => Ok(config),
                Err(e) => Err(explained(&config, e.into())),
            });
            let config = match checked {
                Err(e) if context.json => {
                    if let Some(wrong) = e.downcast_ref::<Diagnostics>() {
                        let problems = wrong.all().to_vec();
                        output::print(
                            context,
                            &Checked { file: file.clone(), problems, ..Checked::default() },
                            String::new,
                        )?;
                    }
                    return Err(e);
                }
                checked => checked?,
            };
            let d = &config.description;
            let (stations, links, circuits) = (d.stations.len(), d.links.len(), d.circuits.len());
            let json = Checked { file: file.clone(), stations, links, circuits, problems: Vec::new() };
            output::print(context, &json, || {
                format!(
                    "{}: {} stations, {} links, {} circuits: in order",
                    file.display(),
                    d.stations.len(),
                    d.links.len(),
                    d.circuits.len()
                )
            })
        }
        ConfigCommand::Show { file } => {
            let config = load(&kinds(), file)?;
            output::print(context, &Whole(config.file.clone()), || {
                toml::to_string_pretty(&config.file).unwrap_or_else(|e| e.to_string())
            })
        }
    }
}
