//! `cellway apply`: a running network becomes what a description says, by the difference, whole or not at all.

use crate::client::{change, change_with_text};
use crate::context::Context;
use crate::output::{self, WouldChange};
use crate::units;
use anyhow::Result;
use clap::Args;
use control::diagnostic::{Diagnostics, Source};
use control::plan::Line;
use control::protocol::{Applied, Request, TrialEnded};
use std::path::PathBuf;
use std::time::Duration;

/// Applies a description to a running network. Unchanged objects keep running undisturbed. What commands have added,
/// removed, taken down or up stays so unless it conflicts with the description, and is shown under "kept from commands".
/// If a step fails, all changes are undone.
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The description
    file: PathBuf,
    /// Show the changes and make none; exit status 4 if there are any
    #[arg(long)]
    dry_run: bool,
    /// Apply even an empty description, or one with none of the present stations: all of them are removed
    #[arg(long)]
    allow_empty: bool,
    /// Forget what commands have added, removed, taken down or up: the network becomes what the description says
    #[arg(long)]
    exact: bool,
    /// Apply only if this is the number of the last change; otherwise exit status 5, and what has changed since
    #[arg(long, value_name = "REVISION")]
    expect: Option<u64>,
    /// Undo all of it unless `cellway confirm` comes within this time, also if the daemon is started anew meanwhile
    #[arg(long, value_name = "TIME", value_parser = trial_time)]
    confirm: Option<Duration>,
}

/// A trial has at least a second, and ends on the same day.
fn trial_time(text: &str) -> Result<Duration, String> {
    let time = units::seconds(text)?;
    let most = Duration::from_secs(24 * 3600);
    match (Duration::from_secs(1)..=most).contains(&time) {
        true => Ok(time),
        false => Err("1 s to 24 h".to_owned()),
    }
}

/// Keep a description that was applied with `--confirm`, or undo it
#[derive(Debug, Args)]
pub(crate) struct Confirm {
    /// Undo it now
    #[arg(long)]
    undo: bool,
    /// Only if this is the number of the last change; otherwise exit status 5, and what has changed since
    #[arg(long, value_name = "REVISION")]
    expect: Option<u64>,
}

fn text(applied: &Applied) -> String {
    let mut text: String = applied.changes.iter().map(|line| Line::text(line) + "\n").collect();
    for name in &applied.dropped {
        text.push_str(&format!("- {name}, which does not fit the description any more\n"));
    }
    if !applied.kept.is_empty() {
        text.push_str("kept from commands:\n");
        text.extend(applied.kept.iter().map(|kept| format!("  {}\n", kept.text())));
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
    if let Some(seconds) = applied.confirm_seconds {
        text.push_str(&format!("\nundone in {seconds} s unless confirmed: `cellway confirm`"));
    }
    text
}

/// `cellway apply`
pub(crate) fn run(context: &Context, apply: &Apply) -> Result<()> {
    let name = apply.file.display().to_string();
    let (text_of_file, folder) = control::config::read(&apply.file)?;
    let source = Source::new(&name, &text_of_file);
    let (dry_run, allow_empty, exact) = (apply.dry_run, apply.allow_empty, apply.exact);
    let confirm_seconds = apply.confirm.map(|time| time.as_secs());
    let request = Request::ApplyFile { name, folder, dry_run, allow_empty, exact, confirm_seconds };
    let applied: Applied = change_with_text(context, &request, apply.expect, &text_of_file)?;
    if !applied.problems.is_empty() {
        if context.json {
            output::print(context, &applied, String::new)?;
        }
        return Err(Diagnostics::new(source, applied.problems).into());
    }
    report(context, &applied)
}

/// `cellway confirm`
pub(crate) fn confirm(context: &Context, confirm: &Confirm) -> Result<()> {
    let ended: TrialEnded = change(context, &Request::Confirm { undo: confirm.undo }, confirm.expect)?;
    let done = if ended.confirmed { "confirmed" } else { "undone" };
    output::print(context, &ended, || format!("{done}: revision {}", ended.revision))
}

/// Prints what applying a description came to. A dry run that shows changes ends with exit status 4.
pub(crate) fn report(context: &Context, applied: &Applied) -> Result<()> {
    output::print(context, applied, || text(applied))?;
    if applied.dry_run && !(applied.changes.is_empty() && applied.dropped.is_empty()) {
        return Err(WouldChange.into());
    }
    Ok(())
}
