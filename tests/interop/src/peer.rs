//! A peer: a child process whose output is read line by line with a deadline, and which is killed when the test ends.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// A running peer.
pub struct Peer {
    name: String,
    child: Child,
    lines: Receiver<String>,
    log: Vec<String>,
}

impl Peer {
    /// Starts a program with its standard output and error read as lines. Standard input is empty.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        Self::spawn(command.stdin(Stdio::null()))
    }

    /// The same with a standard input that can be written.
    pub fn start_with_input(command: &mut Command) -> anyhow::Result<(Self, ChildStdin)> {
        let mut peer = Self::spawn(command.stdin(Stdio::piped()))?;
        let input = peer.child.stdin.take().ok_or_else(|| anyhow::anyhow!("{}: no standard input", peer.name))?;
        Ok((peer, input))
    }

    fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
        let (sender, lines) = channel();
        if let Some(out) = child.stdout.take() {
            read_lines(out, sender.clone());
        }
        if let Some(err) = child.stderr.take() {
            read_lines(err, sender);
        }
        Ok(Peer { name, child, lines, log: Vec::new() })
    }

    /// Waits for a line that contains `what`; everything before it goes to the log.
    pub fn wait_for(&mut self, what: &str, within: Duration) -> anyhow::Result<String> {
        let deadline = Instant::now() + within;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.log.push(line.clone());
                    if line.contains(what) {
                        return Ok(line);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    anyhow::bail!("{}: no {what:?} within {within:?}; it said:\n{}", self.name, self.log.join("\n"))
                }
                Err(RecvTimeoutError::Disconnected) => {
                    anyhow::bail!("{}: ended without {what:?}; it said:\n{}", self.name, self.log.join("\n"))
                }
            }
        }
    }

    /// Waits for the end of its output and of the process.
    pub fn wait(&mut self, within: Duration) -> anyhow::Result<(ExitStatus, &[String])> {
        let deadline = Instant::now() + within;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.log.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    anyhow::bail!("{}: not ended within {within:?}; it said:\n{}", self.name, self.log.join("\n"))
                }
            }
        }
        Ok((self.child.wait()?, &self.log))
    }

    /// What it has said so far.
    pub fn log(&mut self) -> &[String] {
        self.log.extend(self.lines.try_iter());
        &self.log
    }

    /// What it has said up to the line that was waited for last, and no more.
    pub fn heard(&self) -> &[String] {
        &self.log
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as `kill -9` does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            self.log.extend(self.lines.try_iter());
            eprintln!("--- {} said:\n{}", self.name, self.log.join("\n"));
        }
    }
}

fn read_lines(stream: impl Read + Send + 'static, sender: Sender<String>) {
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        // A peer's output is not always UTF-8, and a console ends its lines with a carriage return.
        while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            if sender.send(text).is_err() {
                break;
            }
        }
    });
}
