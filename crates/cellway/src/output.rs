//! How results and errors are shown: for people, or as JSON.

use crate::context::Context;
use anyhow::Result;
use control::diagnostic::Diagnostics;
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write};

/// Prints a result: `json` if asked for, else `text`.
pub(crate) fn print(context: &Context, json: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if context.json {
        serde_json::to_writer_pretty(&mut out, json)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", text().trim_end())?;
    }
    Ok(())
}

/// Prints an error with its causes; what is wrong with a description with its lines.
pub(crate) fn print_error(context: &Context, e: &anyhow::Error) {
    if let Some(wrong) = e.downcast_ref::<Diagnostics>() {
        if context.json {
            eprintln!("{}", serde_json::json!({ "error": wrong.to_string(), "problems": wrong.all() }));
        } else {
            eprintln!("{}", wrong.rendered(std::io::stderr().is_terminal()));
        }
        return;
    }
    let said = with_causes(e);
    if context.json {
        eprintln!("{}", serde_json::json!({ "error": said }));
    } else {
        eprintln!("cellway: {said}");
    }
}

/// An error and its causes, but for those that it names itself.
fn with_causes(e: &anyhow::Error) -> String {
    e.chain().fold(String::new(), |said, cause| match cause.to_string() {
        cause if said.is_empty() => cause,
        cause if said.contains(&cause) => said,
        cause => format!("{said}: {cause}"),
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn a_cause_is_said_once() {
        let cause = || std::io::Error::from_raw_os_error(2);
        let named = anyhow::Error::from(cause()).context(format!("no file: {} (is it there?)", cause()));
        assert_eq!(with_causes(&named).matches("No such file").count(), 1);
        let other: anyhow::Error = Err::<(), _>(cause()).context("reading it").unwrap_err();
        assert_eq!(with_causes(&other), format!("reading it: {}", cause()));
    }
}
