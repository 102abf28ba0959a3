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

/// Prints JSON text that came so, as [`print()`] would print what it means.
pub(crate) fn print_json(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(&indented(text))?;
    Ok(())
}

/// JSON text with a line for each element, as serde_json prints it, without making objects of it.
fn indented(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() * 2);
    let mut depth = 0;
    let new_line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    let octets = text.as_bytes();
    let mut at = 0;
    while let Some(octet) = octets.get(at).copied() {
        let mut end = at + 1;
        match octet {
            b'"' => {
                while octets.get(end).is_some_and(|octet| *octet != b'"') {
                    end += if octets[end] == b'\\' { 2 } else { 1 };
                }
                end = (end + 1).min(octets.len());
                out.extend_from_slice(&octets[at..end]);
            }
            b'[' | b'{' => {
                out.push(octet);
                if matches!(octets.get(end), Some(b']' | b'}')) {
                    out.push(octets[end]);
                    end += 1;
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(octet);
            }
            b',' => {
                out.push(octet);
                new_line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => out.push(octet),
        }
        at = end;
    }
    out.push(b'\n');
    out
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
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        for (i, (cell, width)) in cells.zip(&widths).enumerate() {
            let blanks = width - cell.chars().count();
            if i == 0 {
                text.push_str(cell);
                text.extend(std::iter::repeat_n(' ', blanks));
            } else {
                text.extend(std::iter::repeat_n(' ', blanks + 2));
                text.push_str(cell);
            }
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    };
    line(&mut head.iter().copied());
    rows.iter().for_each(|row| line(&mut row.iter().map(String::as_str)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn text_is_indented_as_objects_are() {
        for text in [
            r#"{"a":[],"b":{},"c":[1,-2.5e3,null,true,[{}]],"d":{"e":"x,:{}[]\\\"","f":"\\\\"},"\u00e4":[[1],[2,{"g":3}]]}"#,
            "[]",
            "7",
            r#""a\"b""#,
        ] {
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            let compact = serde_json::to_string(&value).unwrap();
            let pretty = serde_json::to_string_pretty(&value).unwrap() + "\n";
            assert_eq!(String::from_utf8(indented(&compact)).unwrap(), pretty);
        }
        indented("[\"no end\\");
    }

    #[test]
    fn columns_are_aligned_and_lines_end_without_blanks() {
        let rows = [vec!["ä".to_owned(), "1".into(), String::new()], vec!["long".to_owned(), "22".into(), "x".into()]];
        assert_eq!(table(&["a", "n", "why"], &rows), "a      n  why\nä      1\nlong  22    x\n");
    }

    #[test]
    fn a_cause_is_said_once() {
        let cause = || std::io::Error::from_raw_os_error(2);
        let named = anyhow::Error::from(cause()).context(format!("no file: {} (is it there?)", cause()));
        assert_eq!(with_causes(&named).matches("No such file").count(), 1);
        let other: anyhow::Error = Err::<(), _>(cause()).context("reading it").unwrap_err();
        assert_eq!(with_causes(&other), format!("reading it: {}", cause()));
    }
}
