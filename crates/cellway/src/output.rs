//! How results and errors are shown: for people, or as JSON.

use crate::Context;
use anyhow::Result;
use serde_json::Value;
use std::io::{ErrorKind, IsTerminal, Write};

/// Prints a result: `json` if asked for, else `text`.
pub(crate) fn print(context: &Context, json: &Value, text: impl FnOnce() -> String) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if context.json {
        serde_json::to_writer_pretty(&mut out, json)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", text().trim_end())?;
    }
    Ok(())
}

/// Prints an error with all its causes.
pub(crate) fn print_error(context: &Context, e: &anyhow::Error) {
    if context.json {
        eprintln!("{}", serde_json::json!({ "error": format!("{e:#}") }));
    } else {
        eprintln!("cellway: {e:#}");
    }
}

/// Whether whoever read our output has gone: that is no error.
pub(crate) fn is_broken_pipe(e: &anyhow::Error) -> bool {
    e.chain().any(|cause| match cause.downcast_ref::<std::io::Error>() {
        Some(io) => io.kind() == ErrorKind::BrokenPipe,
        None => {
            cause.downcast_ref::<serde_json::Error>().and_then(|j| j.io_error_kind()) == Some(ErrorKind::BrokenPipe)
        }
    })
}

/// A progress bar of so many octets, on a terminal only.
pub(crate) fn progress(octets: Option<u64>) -> indicatif::ProgressBar {
    if !std::io::stderr().is_terminal() {
        return indicatif::ProgressBar::hidden();
    }
    match octets {
        Some(n) => indicatif::ProgressBar::new(n).with_style(
            indicatif::ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {bytes_per_sec}")
                .unwrap_or_else(|_| indicatif::ProgressStyle::default_bar()),
        ),
        None => indicatif::ProgressBar::new_spinner(),
    }
}

/// A table with its columns aligned: the first left, the others right.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let all = || std::iter::once(head.iter().map(ToString::to_string).collect()).chain(rows.iter().cloned());
    let widths: Vec<usize> = (0..head.len())
        .map(|i| all().map(|r: Vec<String>| r.get(i).map_or(0, |c| c.chars().count())).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in all() {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(i, (cell, width))| if i == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}
