//! The state folder: what commands added, removed and took down, kept for a restart, and the log of changes.
//!
//! `state.json` has a line with the version, the octets and the check sum (SHA-256) of what follows, and JSON
//! ([`mod@format`]). It is written beside, flushed to the disk, and renamed; what was there before becomes `state.1.json`. A
//! file that is torn is noticed by its first line, and the one before is used. What cannot be used is never overwritten:
//! it is renamed to `NAME.set-aside-N`. Until what is there has been read, and can be used, nothing is changed.
//!
//! One daemon has the folder, as long as it holds the lock of the file `lock`: the system releases it however that
//! daemon ends.

pub mod audit_log;
pub mod files;
pub mod format;
pub mod stored;

use crate::folder;
use anyhow::{Context as _, Result, anyhow, bail};
use audit_log::AuditLog;
use files::Files;
use format::{Found, MAX_OCTETS, found, written};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, openat, statat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stored::Stored;

const LOCK: &str = "lock";
/// So long a process that a daemon has just started, or left behind, may have the lock's descriptor before it closes it.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
const NEW: &str = "state.new";
const CURRENT: &str = "state.json";
const BEFORE: &str = "state.1.json";

/// The folder.
#[derive(Debug)]
pub struct StateFolder {
    path: PathBuf,
    folder: OwnedFd,
    files: Files,
    last: Option<Stored>,
    lock: File,
}

impl StateFolder {
    /// Takes a folder, and makes it, for its user alone, if it is not there.
    ///
    /// # Errors
    /// It cannot be made, others may write in it, a file in it is none that this user alone may write, or another
    /// daemon has it.
    pub fn open(folder: &Path) -> Result<Self> {
        StateFolder::open_with(folder, Files::default())
    }

    /// The same with other calls to write its files.
    ///
    /// # Errors
    /// As above.
    pub fn open_with(folder: &Path, files: Files) -> Result<Self> {
        let opened = || -> Result<Self> {
            let found = folder::prepare(folder, "choose another folder with --state")?;
            // To be flushed, it has to be open for more than its path.
            let found = openat(found, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let lock = lock(&found)?;
            Ok(StateFolder { path: folder.to_path_buf(), folder: found, files, last: None, lock })
        };
        opened().with_context(|| format!("the state folder {}", folder.display()))
    }

    /// The log of changes, to be appended to.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn log(&self) -> Result<AuditLog> {
        let opened = || AuditLog::open(self.folder.try_clone()?, self.files.clone());
        opened().with_context(|| self.said(audit_log::NAME))
    }

    /// What was kept; of a torn file, what the one before has. `None` without either. `reset`: what cannot be used is
    /// set aside.
    ///
    /// # Errors
    /// What was kept cannot be used.
    pub fn read(&self, reset: bool) -> Result<Option<Stored>> {
        let stored = self.stored(reset)?;
        // Of one length, it takes the place of the one before on a full disk, too; without it the lock is one as well.
        let _ = self.lock.write_all_at(format!("{:10}\n", std::process::id()).as_bytes(), 0);
        self.remove_new()?;
        Ok(stored)
    }

    fn stored(&self, reset: bool) -> Result<Option<Stored>> {
        let (current, before) = (self.look(CURRENT)?, self.look(BEFORE)?);
        let why = match (&current, &before) {
            (Found::Whole(_), Found::Torn(why) | Found::Foreign(why)) => {
                let aside = self.set_aside(BEFORE)?;
                tracing::warn!("{} {why}; it is {aside} now", self.said(BEFORE));
                None
            }
            (Found::Nothing, Found::Whole(_)) => {
                tracing::warn!("{} is not there; using the one before", self.said(CURRENT));
                None
            }
            (Found::Whole(_), _) | (Found::Nothing, Found::Nothing) => None,
            (Found::Torn(why), Found::Whole(_)) => {
                tracing::warn!("{} {why}; using the one before", self.said(CURRENT));
                None
            }
            (Found::Nothing, Found::Torn(why) | Found::Foreign(why)) => Some(format!("{} {why}", self.said(BEFORE))),
            (Found::Foreign(why), _) | (Found::Torn(why), Found::Nothing) => {
                Some(format!("{} {why}", self.said(CURRENT)))
            }
            (Found::Torn(why), Found::Torn(also) | Found::Foreign(also)) => {
                Some(format!("{} {why}, and {BEFORE} {also}", self.said(CURRENT)))
            }
        };
        let Some(why) = why else {
            return Ok([current, before].into_iter().find_map(|found| match found {
                Found::Whole(stored) => Some(*stored),
                _ => None,
            }));
        };
        if !reset {
            bail!(
                "{why}: start the program that wrote it, or bring it back from a copy, or start from the description \
                 alone with --state-reset, which sets it aside; nothing was changed"
            );
        }
        tracing::warn!("{why}; starting from the description alone");
        for (name, found) in [(CURRENT, current), (BEFORE, before)] {
            if !matches!(found, Found::Nothing) {
                // Before the line: without a log its parts are not evaluated.
                let aside = self.set_aside(name)?;
                tracing::warn!("{} is {aside} now", self.said(name));
            }
        }
        Ok(None)
    }

    /// Keeps something, if it is not what was kept last.
    ///
    /// # Errors
    /// The system refuses it; what was kept before still is.
    pub fn write(&mut self, stored: &Stored) -> Result<()> {
        if self.last.as_ref() == Some(stored) {
            return Ok(());
        }
        let octets = written(stored)?;
        self.remove_new()?;
        let files = self.files.clone();
        let new = self.file(NEW, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY)?;
        let new = new.with_context(|| self.said(NEW))?;
        files.0.write(&new, &octets)?;
        files.0.sync(&new)?;
        match self.look(CURRENT)? {
            Found::Nothing => {}
            // Only a whole file takes the place of the one before.
            Found::Whole(_) => files.0.rename(&self.folder, CURRENT, BEFORE)?,
            Found::Torn(_) | Found::Foreign(_) => drop(self.set_aside(CURRENT)?),
        }
        files.0.rename(&self.folder, NEW, CURRENT)?;
        files.0.sync_folder(&self.folder)?;
        self.last = Some(stored.clone());
        Ok(())
    }

    /// What a file is called in messages.
    fn said(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn file(&self, name: &str, flags: OFlags) -> Result<Option<File>> {
        self.files.0.open(&self.folder, name, flags).with_context(|| self.said(name))
    }

    /// Removes what a write that failed has left: a new one is never written into a file that is there.
    fn remove_new(&self) -> Result<()> {
        match self.files.0.remove(&self.folder, NEW) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                Err(anyhow!(e).context(format!("removing {}", self.said(NEW))))
            }
            _ => Ok(()),
        }
    }

    fn look(&self, name: &str) -> Result<Found> {
        let Some(file) = self.file(name, OFlags::RDONLY)? else { return Ok(Found::Nothing) };
        let mut all = Vec::new();
        file.take(MAX_OCTETS + 1).read_to_end(&mut all).with_context(|| self.said(name))?;
        Ok(found(&all))
    }

    /// Gives a file a name that stays. Nobody else makes names here, by the lock and the folder's rights.
    fn set_aside(&self, name: &str) -> Result<String> {
        let free = |aside: &String| match statat(&self.folder, aside, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Some(Ok(aside.clone())),
            Err(e) => Some(Err(e)),
            Ok(_) => None,
        };
        let moved = || -> std::io::Result<String> {
            let mut names = (1u64..).map(|n| format!("{name}.set-aside-{n}"));
            let aside = names.find_map(|aside| free(&aside)).unwrap_or(Err(Errno::EXIST))?;
            self.files.0.rename(&self.folder, name, &aside)?;
            self.files.0.sync_folder(&self.folder)?;
            Ok(aside)
        };
        moved().with_context(|| format!("setting {} aside", self.said(name)))
    }
}

/// The lock, for as long as the file is open. Who has it writes so into the file once the folder can be used.
fn lock(folder: &OwnedFd) -> Result<File> {
    let file = folder::file_in(folder, LOCK, OFlags::CREATE | OFlags::RDWR).context(LOCK)?.context(LOCK)?;
    let begun = Instant::now();
    let mut locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
    while locked == Err(Errno::WOULDBLOCK) && begun.elapsed() < LOCK_PATIENCE {
        std::thread::sleep(LOCK_PATIENCE / 50);
        locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
    }
    match locked {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut text = String::new();
            let _ = (&file).take(32).read_to_string(&mut text);
            let pid = text.trim().parse::<u32>().map_or_else(|_| String::new(), |pid| format!(" (process {pid})"));
            bail!("another daemon{pid} has it: stop that one, or choose another folder with --state");
        }
        Err(e) => return Err(anyhow!(e).context(LOCK)),
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
