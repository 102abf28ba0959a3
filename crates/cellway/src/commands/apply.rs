//! `cellway apply`: a running network becomes what a description says, by the difference, whole or not at all.

use crate::client::ask_with_text;
use crate::context::Context;
use crate::output::{self, WouldChange};
use anyhow::Result;
use clap::Args;
use control::diagnostic::{Diagnostics, Source};
use control::plan::Line;
use control::protocol::{Applied, Request};
use std::path::PathBuf;

/// Makes a running network what a description says: what does not change goes on undisturbed, what commands have added
/// stays as far as it fits, and if a step fails everything is as it was.
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The description
    file: PathBuf,
    /// Only show what would be done; exit status 4 if anything would
    #[arg(long)]
    dry_run: bool,
    /// Also apply a description that is empty, or has none of the stations that there are: all of them are removed
    #[arg(long)]
    allow_empty: bool,
}

fn text(applied: &Applied) -> String {
    let mut text: String = applied.changes.iter().map(|line| Line::text(line) + "\n").collect();
    for name in &applied.dropped {
        text.push_str(&format!("- {name}, which does not fit the description any more\n"));
    }
    let done = if applied.dry_run { "would be done" } else { "done" };
    text.push_str(&format!(
        "{done}: {} added, {} changed, {} removed; circuits: {} interrupted, {} unchanged; revision {}",
        applied.added,
        applied.changed,
        applied.removed,
        applied.interrupted.len(),
        applied.unchanged_circuits,
        applied.revision,
    ));
    text
}

/// `cellway apply`
pub(crate) fn run(context: &Context, apply: &Apply) -> Result<()> {
    let name = apply.file.display().to_string();
    let (text_of_file, folder) = control::config::read(&apply.file)?;
    let source = Source::new(&name, &text_of_file);
    let (dry_run, allow_empty) = (apply.dry_run, apply.allow_empty);
    let request = Request::ApplyFile { name, folder, dry_run, allow_empty };
    let applied: Applied = ask_with_text(context, &request, &text_of_file)?;
    if !applied.problems.is_empty() {
        if context.json {
            output::print(context, &applied, String::new)?;
        }
        return Err(Diagnostics::new(source, applied.problems).into());
    }
    output::print(context, &applied, || text(&applied))?;
    if apply.dry_run && !(applied.changes.is_empty() && applied.dropped.is_empty()) {
        return Err(WouldChange.into());
    }
    Ok(())
}
