//! Manual pages, made of the command line: of the program, of one command, or of all of them.

use crate::exit_status::Usage;
use crate::output;
use anyhow::{Context as _, Result};
use clap::{Args, Command};
use std::path::PathBuf;

/// Which pages, and where to.
#[derive(Debug, Args)]
pub struct Man {
    /// The command: `man circuit add` [default: the program]
    command: Vec<String>,
    /// Write the pages of the program and of every command to this folder, a file each
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    to: Option<PathBuf>,
}

/// Prints the page, or writes all of them.
///
/// # Errors
/// There is no such command, or the pages cannot be written.
pub fn run(man: &Man, mut program: Command) -> Result<()> {
    if let Some(folder) = &man.to {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        return clap_mangen::generate_to(program, folder).with_context(|| folder.display().to_string());
    }
    program.build();
    let mut command = &program;
    for name in &man.command {
        let found = command.find_subcommand(name);
        command =
            found.ok_or_else(|| Usage::error(format!("no command `{name}` of `{}`: see --help", words(command))))?;
    }
    Ok(clap_mangen::Man::new(command.clone()).render(&mut output::stdout())?)
}

/// A command's words, as they are typed.
fn words(command: &Command) -> String {
    command.get_bin_name().unwrap_or(command.get_name()).to_owned()
}
