//! How a command that waits for data says that it is ready: a line on standard error for people, and a line of a file
//! descriptor for scripts (`--ready-fd`).

use crate::context::Context;
use crate::output;
use anyhow::{Context as _, Result};
use clap::Args;
use control::results;
use std::fs::{File, OpenOptions};
use std::io::Write;

/// Where readiness is told.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Ready {
    /// Write the line `ready` to this file descriptor, a pipe or a file, once nothing that is sent is lost for want of a
    /// receiver
    #[arg(long = "ready-fd", value_name = "N")]
    fd: Option<u32>,
}

impl Ready {
    /// Whether it can be told: known before there is anything to tell.
    ///
    /// # Errors
    /// There is no such descriptor, or it cannot be written to.
    pub fn check(self) -> Result<()> {
        self.open().map(drop)
    }

    fn open(self) -> Result<Option<File>> {
        let Some(fd) = self.fd else { return Ok(None) };
        // A descriptor by its number, without taking it away from whoever else uses it.
        let opened = OpenOptions::new().append(true).open(format!("/proc/self/fd/{fd}"));
        let opened =
            opened.with_context(|| format!("--ready-fd {fd}: expected a pipe or a file that is open to write"));
        opened.map(Some)
    }

    /// Tells it.
    ///
    /// # Errors
    /// The descriptor cannot be written to.
    pub fn say(self, context: &Context, what: &str) -> Result<()> {
        if context.json {
            output::announce(&results::Ready { ready: what.to_owned() })?;
        } else {
            output::note(format_args!("cellway: ready at {what}"));
        }
        let Some(mut file) = self.open()? else { return Ok(()) };
        match file.write_all(b"ready\n") {
            // Whoever was to hear of it has gone, which is no reason not to receive.
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written.context("--ready-fd"),
        }
    }
}
