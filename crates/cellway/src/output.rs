//! How results and errors are shown: for people, or as JSON.
//!
//! All that this program prints goes through here, and no `println!` is in it: that panics where a pipe has no reader
//! any more. Such a write to standard output fails, the command ends by that error, and [`has_no_reader`] says that it
//! is none. What is said on standard error is lost then, and the command goes on. SIGPIPE stays ignored, as Rust has
//! it: the daemon and each client have sockets that they would die of.

use crate::causes::with_causes;
use crate::context::Context;
use crate::exit_status::{self, Usage};
use anyhow::{Context as _, Result};
use control::diagnostic::Diagnostics;
use control::history::WrongRevision;
use control::results::Failed;
pub use control::text::{drops, table};
use endpoint::calls::CallError;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, StdoutLock, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a command prints with `--json`: a type that `cellway schema` shows ([`crate::schema`] lists them).
pub trait Printed: Serialize + JsonSchema {}

/// Somebody has closed the pipe that standard output is.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Standard output.
pub struct Stdout(StdoutLock<'static>);

/// Standard output, of which nobody else writes until this is dropped.
pub fn stdout() -> Stdout {
    Stdout(io::stdout().lock())
}

impl Write for Stdout {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.write(octets).inspect_err(heed)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().inspect_err(heed)
    }
}

/// A write to standard output has failed.
pub fn heed(e: &io::Error) {
    if e.kind() == ErrorKind::BrokenPipe {
        CLOSED.store(true, Ordering::Relaxed);
    }
}

/// Whether whoever read our output has gone: a command that ends by that has not failed.
pub fn has_no_reader() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Says a line on standard error, if somebody reads that.
pub fn note(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Prints a result: a line of JSON if that is asked for, else `text`.
pub fn print(context: &Context, json: &impl Printed, text: impl FnOnce() -> String) -> Result<()> {
    print_lines(&shown(context, json, text)?)
}

/// The same for a command whose data may be on standard output: then the result goes to standard error.
pub fn print_beside(
    context: &Context,
    data_is_there: bool,
    json: &impl Printed,
    text: impl FnOnce() -> String,
) -> Result<()> {
    if data_is_there {
        note(format_args!("{}", shown(context, json, text)?));
        return Ok(());
    }
    print(context, json, text)
}

fn shown(context: &Context, json: &impl Printed, text: impl FnOnce() -> String) -> Result<String> {
    Ok(if context.json { serde_json::to_string(json)? } else { text().trim_end().to_owned() })
}

/// Prints one of several results of a command, a line of JSON, at once.
pub fn say(json: &impl Printed) -> Result<()> {
    print_lines(&serde_json::to_string(json)?)
}

/// Says on standard error, in a line of JSON, that something has begun whose result comes later on standard output.
pub fn announce(json: &impl Printed) -> Result<()> {
    note(format_args!("{}", serde_json::to_string(json)?));
    Ok(())
}

/// Prints figures that were put together as JSON, as the type that they are of.
pub fn print_as<T: Printed + DeserializeOwned>(
    context: &Context,
    json: &Value,
    text: impl FnOnce() -> String,
) -> Result<()> {
    if !context.json {
        return print_lines(text().trim_end());
    }
    let figures: T = serde_json::from_value(json.clone()).context("the figures are not of their type")?;
    print_lines(&serde_json::to_string(&figures)?)
}

/// Prints an answer as it came, JSON text of a `T`, without making objects of it.
pub fn print_text<T: Printed>(text: &str) -> Result<()> {
    print_lines(text)
}

/// Prints lines.
pub fn print_lines(text: &str) -> Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        writeln!(out)?;
    }
    Ok(out.flush()?)
}

/// Prints an error with its causes; what is wrong with a description with its lines.
pub fn print_error(context: &Context, e: &anyhow::Error) {
    if let Some(wrong) = e.downcast_ref::<Diagnostics>() {
        if context.json {
            let problems = Some(wrong.all().to_vec());
            let failed = Failed { problems, ..Failed::new(wrong.to_string(), exit_status_of(e)) };
            let _ = announce(&failed);
        } else {
            note(format_args!("{}", wrong.rendered(io::stderr().is_terminal())));
        }
        return;
    }
    let said = with_causes(e);
    if context.json {
        let wrong_revision = e.downcast_ref::<WrongRevision>().cloned();
        let _ = announce(&Failed { wrong_revision, ..Failed::new(said, exit_status_of(e)) });
    } else {
        note(format_args!("cellway: {said}"));
    }
}

/// Nothing was wrong, but something would change.
#[derive(Debug)]
pub(crate) struct WouldChange;

impl fmt::Display for WouldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the network differs from the description")
    }
}

impl std::error::Error for WouldChange {}

/// Says an error, and gives the program's exit status.
pub fn exit_code(context: &Context, result: Result<()>) -> ExitCode {
    // What a buffer still has may find no room.
    match result.and_then(|()| Ok(stdout().flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if has_no_reader() => ExitCode::SUCCESS,
        Err(e) => {
            if !e.is::<WouldChange>() {
                print_error(context, &e);
            }
            ExitCode::from(exit_status_of(&e))
        }
    }
}

/// Why the program ends, as its exit status.
pub fn exit_status_of(e: &anyhow::Error) -> u8 {
    if e.is::<WouldChange>() {
        exit_status::WOULD_CHANGE
    } else if e.is::<WrongRevision>() {
        exit_status::WRONG_REVISION
    } else if e.chain().any(|cause| cause.is::<Usage>()) {
        exit_status::USAGE
    } else if e.chain().any(is_no_service) {
        exit_status::NO_SERVICE
    } else {
        exit_status::FAILED
    }
}

/// Whether a cause is that there is no service, or that it does not answer.
fn is_no_service(cause: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(e) = cause.downcast_ref::<endpoint::Error>() {
        return e.is_no_service();
    }
    if let Some(CallError::Service(e)) = cause.downcast_ref::<CallError>() {
        return e.is_no_service();
    }
    let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    inner.is_some_and(|inner| is_no_service(inner))
}

/// Says what is wrong with a command line, or shows the help that it asks for; gives the program's exit status.
pub fn print_usage(e: &clap::Error) -> ExitCode {
    if !e.use_stderr() {
        return match e.print().and_then(|()| stdout().flush()) {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => {
                note(format_args!("cellway: {e}"));
                ExitCode::from(exit_status::FAILED)
            }
            _ => ExitCode::SUCCESS,
        };
    }
    let json = std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json");
    if json {
        let text = e.render().to_string();
        let error = text.trim().trim_start_matches("error: ").to_owned();
        let _ = announce(&Failed::new(error, exit_status::USAGE));
    } else {
        let _ = e.print();
    }
    ExitCode::from(exit_status::USAGE)
}

/// Completions for a shell.
pub fn completions(shell: clap_complete::Shell, command: &mut clap::Command, name: &str) -> Result<()> {
    // It panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, command, name, &mut script);
    Ok(stdout().write_all(&script)?)
}

/// A progress bar of so many octets, on a terminal only.
pub fn progress(octets: Option<u64>) -> indicatif::ProgressBar {
    if !io::stderr().is_terminal() {
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
