//! Commands of the laboratory's program, `cellway-lab`, called by the names that they have here: this becomes that
//! program.

use crate::context::Context;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The laboratory's program.
const PROGRAM: &str = "cellway-lab";

/// Whatever follows.
#[derive(Debug, Args)]
pub(crate) struct Words {
    /// What `cellway-lab` is given
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    words: Vec<OsString>,
}

/// The program: beside this one, or else where the shell would find it.
fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().and_then(|path| path.canonicalize()).context("finding this program's folder")?;
    let beside = own.with_file_name(PROGRAM);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::iter::once(beside).chain(std::env::split_paths(&path).map(|folder| folder.join(PROGRAM)));
    match places.find(|place| place.is_file()) {
        Some(place) => Ok(place),
        None => bail!(
            "{PROGRAM} is not installed: it has the experiments and benchmarks (make build, or cargo build --release -p cellway-lab, \
             makes it; it is looked for beside this program and in PATH)"
        ),
    }
}

/// `cellway lab`, `cellway bench`
pub(crate) fn run(context: &Context, command: Option<&str>, Words { words }: &Words) -> Result<()> {
    let program = program()?;
    let mut other = Command::new(&program);
    other.arg("--socket").arg(&context.socket).args(context.json.then_some("--json")).args(command).args(words);
    Err(other.exec()).with_context(|| format!("running {}", program.display()))
}
