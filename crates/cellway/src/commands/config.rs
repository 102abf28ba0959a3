//! `cellway config`: a description is checked, or shown with its defaults.

use crate::context::Context;
use crate::output;
use anyhow::{Context as _, Result};
use clap::Subcommand;
use control::config::load;
use control::controller::rehearse;
use std::path::PathBuf;

/// Looking at descriptions.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Read a description and say what is wrong with it
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
            let config = load(file)?;
            rehearse(&config).with_context(|| file.display().to_string())?;
            let d = &config.description;
            let json = serde_json::json!({
                "file": file, "stations": d.stations.len(), "links": d.links.len(), "circuits": d.circuits.len(),
            });
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
            let config = load(file)?;
            let json = serde_json::to_value(&config.file)?;
            output::print(context, &json, || toml::to_string_pretty(&config.file).unwrap_or_else(|e| e.to_string()))
        }
    }
}
