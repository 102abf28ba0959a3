//! `cellway config`: a description is checked, or shown with its defaults.

use crate::context::Context;
use crate::kinds::kinds;
use crate::output;
use anyhow::{Context as _, Result};
use clap::Subcommand;
use control::config::{self, Whole};
use control::description::{explained, load, rehearse};
use control::diagnostic::Diagnostics;
use control::protocol::{Checked, Upgraded};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Inspection of descriptions.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Read a description and report its errors
    Check {
        /// The file
        file: PathBuf,
    },
    /// Write today's names of keys over old ones, in place; nothing else in the file changes
    Upgrade {
        /// The file
        file: PathBuf,
    },
    /// Print a description with every key: its value or default, and a comment for a key that is not set
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
            let renamed = config.renamed.clone();
            renamed.iter().for_each(|key| output::note(format_args!("warning: {key}")));
            let json = Checked { file: file.clone(), stations, links, circuits, problems: Vec::new(), renamed };
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
        ConfigCommand::Upgrade { file } => {
            let (text, folder) = config::read(file)?;
            let (upgraded, keys) = config::upgrade(&kinds(), &text, &file.display().to_string(), &folder)?;
            if keys > 0 {
                replace(file, &upgraded).with_context(|| format!("writing {}", file.display()))?;
            }
            let json = Upgraded { file: file.clone(), keys };
            output::print(context, &json, || match keys {
                0 => format!("{}: no key has an old name", file.display()),
                n => format!("{}: {n} keys have their new names", file.display()),
            })
        }
        ConfigCommand::Show { file } => {
            let mut config = load(&kinds(), file)?;
            config.file.link.iter_mut().for_each(config::Link::spell_out);
            let text = config::shown(&config.file).context("showing the description")?;
            output::print(context, &Whole(config.file), || text)
        }
    }
}

/// Another text for a file, at once or not at all, with the rights that it has.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let file = file.canonicalize()?;
    let rights = file.metadata()?.permissions();
    let mut new = file.clone().into_os_string();
    new.push(".new");
    // What has that name already is somebody's.
    let mut out = std::fs::File::create_new(&new)?;
    let written = out.write_all(text.as_bytes()).and_then(|()| out.sync_all());
    let replaced =
        written.and_then(|()| std::fs::set_permissions(&new, rights)).and_then(|()| std::fs::rename(&new, &file));
    replaced.inspect_err(|_| drop(std::fs::remove_file(&new)))
}
