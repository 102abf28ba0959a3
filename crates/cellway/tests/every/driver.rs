//! Runs one command as a row says, and keeps what it printed.

use super::table::{End, Row};
use super::{Place, WAIT};
use crate::up::within;
use std::fs::OpenOptions;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

/// What is on the other side of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Somebody who reads all.
    Patient,
    /// Nobody any more, as after `| head -1`.
    Gone,
    /// A disk without room.
    Full,
}

impl Reader {
    fn stdio(self) -> Stdio {
        match self {
            Reader::Patient => Stdio::piped(),
            Reader::Gone => {
                let (reader, writer) = std::io::pipe().unwrap();
                drop(reader);
                writer.into()
            }
            Reader::Full => OpenOptions::new().write(true).open("/dev/full").unwrap().into(),
        }
    }
}

type Text = Arc<Mutex<Vec<u8>>>;

fn gather(mut from: impl Read + Send + 'static) -> Text {
    let text = Text::default();
    let into = text.clone();
    std::thread::spawn(move || {
        let mut octets = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut octets) {
            into.lock().unwrap().extend_from_slice(&octets[..n]);
        }
    });
    text
}

/// A command that does not outlive its test.
pub struct Running {
    child: Child,
    out: Text,
    err: Text,
}

/// What a command came to.
pub struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    pub fn start(place: &Place, words: &[String], reader: Reader) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellway"));
        // No library is needed: what `run` runs is not of interest here.
        command.env("CELLWAY_SOCKET", &place.socket).env("CELLWAY_COMPAT", &place.net).arg("--json").args(words);
        command.stdin(Stdio::null()).stdout(reader.stdio()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = child.stdout.take().map(gather).unwrap_or_default();
        let err = gather(child.stderr.take().unwrap());
        Running { child, out, err }
    }

    fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    fn has_line(text: &Text) -> bool {
        text.lock().unwrap().contains(&b'\n')
    }

    pub fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Whether it has a socket: it is asking.
    pub fn has_socket(&self) -> bool {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).into_iter().flatten();
        let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count() > 0
    }

    pub fn end(mut self, what: &str) -> Ended {
        within(WAIT, &format!("{what} ends"), || self.is_over());
        let status = self.child.wait().unwrap();
        // The readers come to the end of both pipes.
        let whole = |text: &Text| Arc::strong_count(text) == 1;
        within(WAIT, &format!("all that {what} printed"), || whole(&self.out) && whole(&self.err));
        let read = |text: &Text| String::from_utf8(text.lock().unwrap().clone()).unwrap();
        Ended { status, out: read(&self.out), err: read(&self.err) }
    }
}

/// Runs another command again and again until `done`.
fn cause(place: &Place, words: &[&str], mut done: impl FnMut() -> bool) {
    let words = place.words(words);
    let mut other = Running::start(place, &words, Reader::Patient);
    within(WAIT, &format!("{words:?} has its effect"), || {
        if other.is_over() {
            other = Running::start(place, &words, Reader::Patient);
        }
        done()
    });
}

/// Runs a row's command in a network that is in order; `None` where it runs elsewhere.
pub fn drive(place: &Place, row: &Row, reader: Reader) -> Option<Ended> {
    let words = place.command(row.command, row.words);
    let start = || Running::start(place, &words, reader);
    let what = row.command;
    Some(match row.end {
        End::Elsewhere(_) => return None,
        End::Itself => start().end(what),
        End::With(other) => {
            let before = place.open_channels();
            let other = Running::start(place, &place.words(other), Reader::Patient);
            within(WAIT, &format!("the other end of {what} is there"), || place.open_channels() > before);
            let ended = start().end(what);
            drop(other);
            within(WAIT, "both have gone", || place.open_channels() <= before);
            ended
        }
        End::ToldAfterOutput | End::ToldAfterNote => {
            let mut running = start();
            let of = if row.end == End::ToldAfterNote { running.err.clone() } else { running.out.clone() };
            within(WAIT, &format!("{what} says a line"), || running.is_over() || Running::has_line(&of));
            drop(of);
            if !running.is_over() {
                running.signal("-INT");
            }
            running.end(what)
        }
        End::Caused(other) => {
            let mut running = start();
            let of = running.out.clone();
            cause(place, other, || running.is_over() || Running::has_line(&of));
            drop(of);
            if !running.is_over() {
                running.signal("-INT");
            }
            running.end(what)
        }
        End::Tried(other, word) => {
            let _other = Running::start(place, &place.words(other), Reader::Patient);
            let mut running = start();
            if reader != Reader::Patient {
                return Some(running.end(what));
            }
            within(WAIT, &format!("{what} says {word}"), || {
                let says = String::from_utf8_lossy(&running.out.lock().unwrap()).contains(word);
                if !says && running.is_over() {
                    running = start();
                }
                says
            });
            running.signal("-INT");
            running.end(what)
        }
        End::Fed(other) => {
            let mut running = start();
            cause(place, other, || running.is_over());
            running.end(what)
        }
    })
}
