//! `cellway import`: a description from what other software has.

use crate::context::Context;
use crate::exit_status::OrUsage as _;
use crate::output;
use anyhow::{Context as _, Result};
use clap::Args;
use control::import::{Format, Imported, import};
use std::io::Read as _;
use std::path::PathBuf;

/// No more of a file is read.
const MAX_OCTETS: u64 = 64 << 20;

/// Make a description of other software's files: the ATM switches of a GNS3 project (.gns3) or of a dynagen file (.net).
/// Or of a site's atmsigd.conf, hosts.atm and lecs.conf, of which several may be given. No service is asked
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// What they are [default: by their names and contents]
    #[arg(long, value_parser = ["gns3", "dynagen", "atmsigd", "hosts", "lecs"])]
    format: Option<String>,
}

/// `cellway import`
pub(crate) fn run(context: &Context, command: &Import) -> Result<()> {
    let read = |path: &PathBuf| -> Result<(String, String)> {
        let name = path.display().to_string();
        let mut text = String::new();
        let file = std::fs::File::open(path).with_context(|| name.clone())?;
        file.take(MAX_OCTETS).read_to_string(&mut text).with_context(|| name.clone())?;
        Ok((name, text))
    };
    let files = command.files.iter().map(read).collect::<Result<Vec<_>>>()?;
    let named = |name: &String| Format::NAMES.iter().find(|(known, _)| known == name).map(|(_, format)| *format);
    let imported: Imported = import(&files, command.format.as_ref().and_then(named)).or_usage()?;
    if !context.json {
        imported.remarks.iter().for_each(|remark| output::note(format_args!("cellway: {remark}")));
    }
    output::print(context, &imported, || imported.description.clone())
}
