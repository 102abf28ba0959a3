//! iceoryx2 as a peer: a program of its own (`bench/peers`), asked in lines over its standard input.

use anyhow::{Context as _, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The running program.
pub(super) struct Iceoryx {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Drop for Iceoryx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Iceoryx {
    /// Starts its two processes on these processors.
    pub(super) fn start(program: &Path, here: usize, there: usize) -> Result<Self> {
        let mut child = Command::new(program)
            .args(["iceoryx2", &here.to_string(), &there.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let to = child.stdin.take().context("its standard input")?;
        let from = BufReader::new(child.stdout.take().context("its standard output")?);
        Ok(Iceoryx { child, to, from })
    }

    /// Nanoseconds of one `trip` (round trip) or `rate` (message one way): the middle of `batches` batches.
    pub(super) fn ask(&mut self, what: &str, octets: usize, batch: usize, batches: usize) -> Result<f64> {
        let asked = writeln!(self.to, "{what} {octets} {batch} {batches}").and_then(|()| self.to.flush());
        if let Err(e) = asked {
            // Not passed on as it is: the program takes a broken pipe for a reader of its own output that left.
            bail!("the peers' program does not listen: {e}");
        }
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        match line.trim().parse() {
            Ok(nanos) => Ok(nanos),
            Err(_) => bail!("the peers' program said: {line}"),
        }
    }
}
