//! The file of the log of changes, `audit.jsonl`: whole lines, in files of bounded size and number.
//!
//! A full file becomes `audit.1.jsonl`, that one `audit.2.jsonl`, and so on; the oldest is removed. Whoever rotates it
//! by other means (logrotate) moves the file away and has it opened anew ([`AuditLog::reopen`]).

use super::files::Files;
use crate::audit::Entry;
use anyhow::{Context as _, Result};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;

/// The file that is written.
pub(super) const NAME: &str = "audit.jsonl";
/// Octets of a file: the next line goes to a new one.
const MAX_OCTETS: u64 = 8 << 20;
/// Files before the one that is written.
const OLD_FILES: usize = 4;

/// The log, open to be appended to.
#[derive(Debug)]
pub struct AuditLog {
    folder: OwnedFd,
    files: Files,
    /// `None`: it could not be opened the last time.
    file: Option<File>,
    max_octets: u64,
}

impl AuditLog {
    /// In a folder.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(super) fn open(folder: OwnedFd, files: Files) -> Result<Self> {
        let mut log = AuditLog { folder, files, file: None, max_octets: MAX_OCTETS };
        log.reopen()?;
        Ok(log)
    }

    /// Opens the file anew: somebody has moved it away.
    ///
    /// # Errors
    /// It cannot be opened; the next line tries again.
    pub fn reopen(&mut self) -> Result<()> {
        self.file = None;
        self.opened().map(drop)
    }

    fn opened(&mut self) -> Result<&File> {
        if self.file.is_none() {
            let flags = OFlags::CREATE | OFlags::RDWR | OFlags::APPEND;
            let file = self.files.0.open(&self.folder, NAME, flags)?.context(NAME)?;
            end_last_line(&self.files, &file)?;
            self.file = Some(file);
        }
        self.file.as_ref().context(NAME)
    }

    /// Writes a line, whole or not at all.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn append(&mut self, entry: &Entry) -> Result<()> {
        let line = entry.line();
        let max_octets = self.max_octets;
        let mut before = self.opened()?.metadata()?.len();
        if before > 0 && before + line.len() as u64 > max_octets {
            self.rotate()?;
            before = 0;
        }
        let files = self.files.clone();
        let file = self.opened()?;
        let written = files.0.write(file, line.as_bytes());
        if written.is_err() {
            // Part of it may be there: a disk is full in the middle of a line.
            let _ = files.0.cut(file, before);
        }
        Ok(written?)
    }

    /// The oldest first: a daemon that dies in the middle leaves a number out and loses nothing.
    fn rotate(&mut self) -> Result<()> {
        for n in (0..OLD_FILES).rev() {
            match self.files.0.rename(&self.folder, &old_name(n), &old_name(n + 1)) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(e).with_context(|| format!("renaming {} to {}", old_name(n), old_name(n + 1)));
                }
                _ => {}
            }
        }
        self.reopen()
    }
}

/// The file before the one that is written, and so on; 0 is the one that is written.
fn old_name(n: usize) -> String {
    if n == 0 { NAME.to_owned() } else { format!("audit.{n}.jsonl") }
}

/// A line that a power cut has torn does not run into the next one.
fn end_last_line(files: &Files, file: &File) -> io::Result<()> {
    let octets = file.metadata()?.len();
    let mut last = [b'\n'];
    if octets > 0 {
        file.read_exact_at(&mut last, octets - 1)?;
    }
    if last == [b'\n'] { Ok(()) } else { files.0.write(file, b"\n") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Audit, Who};
    use serde_json::Value;
    use std::path::Path;

    fn log(folder: &Path, max_octets: u64) -> AuditLog {
        let folder = File::open(folder).unwrap().into();
        AuditLog { max_octets, ..AuditLog::open(folder, Files::default()).unwrap() }
    }

    fn entry(revision: u64, left_out: u64) -> Entry {
        let mut entry = Audit::default().entry(&Who::Operator, "change", revision, &[]).unwrap();
        entry.left_out = left_out;
        entry
    }

    /// Revisions of the lines of a file, each with how many were left out before it.
    fn lines(folder: &Path, name: &str) -> Vec<(u64, Option<u64>)> {
        let text = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| (line["revision"].as_u64().unwrap(), line["left_out"].as_u64())).collect()
    }

    #[test]
    fn the_log_has_whole_lines_and_names_what_was_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..2u64 {
            let mut log = log(folder.path(), MAX_OCTETS);
            [0, 1].into_iter().for_each(|n| log.append(&entry(2 * round + n, 3 * n)).unwrap());
        }
        assert_eq!(lines(folder.path(), NAME), [(0, None), (1, Some(3)), (2, None), (3, Some(3))]);
    }

    #[test]
    fn a_full_log_is_rotated_and_its_files_are_bounded_in_size_and_number() {
        let folder = tempfile::tempdir().unwrap();
        let max_octets = 4 * entry(1000, 0).line().len() as u64;
        let mut log = log(folder.path(), max_octets);
        (1000..1030).for_each(|n| log.append(&entry(n, 0)).unwrap());
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap()).collect();
        assert_eq!(files.len(), 1 + OLD_FILES);
        assert!(files.iter().all(|file| file.metadata().unwrap().len() <= max_octets));
        let names = (0..=OLD_FILES).rev().map(old_name);
        let all: Vec<u64> = names.flat_map(|name| lines(folder.path(), &name)).map(|(n, _)| n).collect();
        assert_eq!(all, (1012..1030).collect::<Vec<_>>(), "the newest, without a gap");
    }

    #[test]
    fn a_log_that_was_moved_away_is_opened_anew_when_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = log(folder.path(), MAX_OCTETS);
        log.append(&entry(1, 0)).unwrap();
        std::fs::rename(folder.path().join(NAME), folder.path().join("moved")).unwrap();
        log.append(&entry(2, 0)).unwrap();
        log.reopen().unwrap();
        log.append(&entry(3, 0)).unwrap();
        assert_eq!(lines(folder.path(), "moved"), [(1, None), (2, None)]);
        assert_eq!(lines(folder.path(), NAME), [(3, None)]);
    }

    #[test]
    fn a_line_that_was_torn_does_not_run_into_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(NAME), "{\"revi").unwrap();
        log(folder.path(), MAX_OCTETS).append(&entry(7, 0)).unwrap();
        let text = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!((text.lines().count(), last["revision"].as_u64()), (2, Some(7)));
    }
}
