//! The thread that writes what is to outlive the daemon: the state and the log of changes.
//!
//! A disk may be full, or may stall. Whoever changes the network hands over what is to be written and goes on; a
//! command then asks what has become of it, without holding anybody up. What could not be written is tried again.

use crate::audit::{Audit, Entry, Who};
use crate::plan::Line;
use crate::state::StateFolder;
use crate::state::audit_log::AuditLog;
use crate::state::stored::Stored;
use anyhow::{Context as _, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, WaitTimeoutResult};
use std::time::{Duration, Instant};

/// After an attempt that has failed, the next one.
const RETRY: Duration = Duration::from_secs(5);
/// Who ends the daemon waits so long for a last attempt.
const LAST_PATIENCE: Duration = Duration::from_secs(3);
/// A disk that takes longer for one attempt is slow.
const SLOW: Duration = Duration::from_secs(2);
/// Entries of the log that wait at most.
const MAX_ENTRIES: usize = 1024;

/// Where something is kept.
trait Disk {
    fn write_state(&mut self, stored: &Stored) -> Result<()>;
    fn append(&mut self, entry: &Entry) -> Result<()>;
    /// Opens the log anew.
    fn reopen(&mut self) -> Result<()>;
}

struct Folder {
    state: StateFolder,
    log: AuditLog,
}

impl Disk for Folder {
    fn write_state(&mut self, stored: &Stored) -> Result<()> {
        self.state.write(stored).context("the state")
    }

    fn reopen(&mut self) -> Result<()> {
        self.log.reopen().context("the log of changes")
    }

    fn append(&mut self, entry: &Entry) -> Result<()> {
        self.log.append(entry).context("the log of changes")
    }
}

/// What is to be written: a state, entries of the log, and how many of them there was no room for.
type Work = (Option<Stored>, VecDeque<Entry>, u64);

/// How it is with what is to outlive the daemon: the state, and the log of changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptStatus {
    /// Why changes that are in force are not kept for a restart, or not in the log of changes; `null`: all are, or are
    /// being written.
    pub not_kept: Option<String>,
    /// Whether something waits to be written.
    pub waits: bool,
    /// Lines of the log of changes that were left out for want of room while the disk took none.
    pub log_left_out: u64,
}

/// What waits for the thread.
#[derive(Default)]
struct Tray {
    /// The newest state, if it is not kept yet.
    state: Option<Stored>,
    entries: VecDeque<Entry>,
    /// Entries for which there was no room, and that no line of the log has told of yet.
    left_out: u64,
    /// All of them since the start.
    ever_left_out: u64,
    /// The log is to be opened anew.
    reopens: bool,
    /// Changes that were handed over, and those that an attempt was made for.
    given: u64,
    tried: u64,
    /// Why the last attempt has failed.
    failure: Option<String>,
    /// Since when something waits for its first attempt.
    waits_since: Option<Instant>,
    ends: bool,
    over: bool,
}

impl Tray {
    fn is_empty(&self) -> bool {
        self.state.is_none() && self.entries.is_empty() && !self.reopens
    }

    /// Puts back what could not be written, before what has come since.
    fn take_back(&mut self, (state, mut entries, left_out): Work) {
        self.left_out += left_out;
        if self.state.is_none() {
            self.state = state;
        }
        entries.append(&mut self.entries);
        if let Some(more) = entries.len().checked_sub(MAX_ENTRIES) {
            entries.truncate(MAX_ENTRIES);
            self.left_out += more as u64;
            self.ever_left_out += more as u64;
        }
        self.entries = entries;
    }

    fn put(&mut self, state: Option<Stored>, entry: Option<Entry>) {
        self.given += 1;
        self.waits_since.get_or_insert_with(Instant::now);
        if state.is_some() {
            self.state = state;
        }
        if let Some(entry) = entry {
            if self.entries.len() < MAX_ENTRIES {
                self.entries.push_back(entry);
            } else {
                self.left_out += 1;
                self.ever_left_out += 1;
            }
        }
    }
}

#[derive(Default)]
struct Shared {
    tray: Mutex<Tray>,
    /// Something was put in, or the end is near.
    given: Condvar,
    /// An attempt was made.
    tried: Condvar,
}

impl Shared {
    fn tray(&self) -> MutexGuard<'_, Tray> {
        self.tray.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for attempts of the thread's while it is `so`.
    fn wait<'a>(
        &self,
        tray: MutexGuard<'a, Tray>,
        patience: Duration,
        so: impl Fn(&Tray) -> bool,
    ) -> (MutexGuard<'a, Tray>, WaitTimeoutResult) {
        let waited = self.tried.wait_timeout_while(tray, patience, |tray| so(tray));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread's life.
    fn run(&self, mut disk: impl Disk, retry: Duration) {
        let mut tray = self.tray();
        loop {
            let is_idle = |tray: &mut Tray| tray.is_empty() && !tray.ends;
            tray = self.given.wait_while(tray, is_idle).unwrap_or_else(PoisonError::into_inner);
            let (number, is_last) = (tray.given, tray.ends);
            let work = (tray.state.take(), std::mem::take(&mut tray.entries), std::mem::take(&mut tray.left_out));
            let reopens = std::mem::take(&mut tray.reopens);
            drop(tray);
            if reopens && let Err(e) = disk.reopen() {
                // The next line tries again.
                tracing::error!("not opened anew: {e:#}");
            }
            let (back, failure) = attempt(&mut disk, work);
            tray = self.tray();
            if let Some(e) = &failure {
                tracing::error!("not kept: {e}");
            }
            tray.take_back(back);
            (tray.tried, tray.failure) = (number, failure);
            tray.waits_since = (tray.tried < tray.given).then(Instant::now);
            self.tried.notify_all();
            if is_last {
                break;
            }
            if tray.failure.is_some() {
                let has_nothing_new = |tray: &mut Tray| !tray.ends && tray.tried == tray.given;
                let waited = self.given.wait_timeout_while(tray, retry, has_nothing_new);
                tray = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        drop(tray);
        // Whoever waits for the end may have the folder then.
        drop(disk);
        self.tray().over = true;
        self.tried.notify_all();
    }
}

/// Writes what it can. Gives what it could not, and why.
fn attempt(disk: &mut impl Disk, (state, mut entries, mut left_out): Work) -> (Work, Option<String>) {
    let mut failure = None;
    while let Some(entry) = entries.front_mut() {
        entry.left_out += std::mem::take(&mut left_out);
        if let Err(e) = disk.append(entry) {
            failure = Some(format!("{e:#}"));
            break;
        }
        entries.pop_front();
    }
    let state = state.filter(|kept| match disk.write_state(kept) {
        Ok(()) => false,
        Err(e) => {
            failure = Some(format!("{e:#}"));
            true
        }
    });
    ((state, entries, left_out), failure)
}

/// See the module's head. Without a folder nothing is kept.
#[derive(Default)]
pub struct StateWriter {
    shared: Option<Arc<Shared>>,
    before: Option<Stored>,
    audit: Mutex<Audit>,
}

impl StateWriter {
    /// Of a folder. `reset`: what it has and cannot be used is set aside.
    ///
    /// # Errors
    /// What it has cannot be used, the log cannot be opened, or the system has no thread.
    pub fn of(state: StateFolder, reset: bool) -> Result<Self> {
        // What cannot be used is left alone, the log beside it as well.
        let before = state.read(reset)?;
        let log = state.log()?;
        StateWriter::start(before, Folder { state, log }, RETRY)
    }

    fn start(before: Option<Stored>, disk: impl Disk + Send + 'static, retry: Duration) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("state-writer".into()).spawn(move || of_thread.run(disk, retry));
        thread.context("a thread that keeps the state")?;
        Ok(StateWriter { shared: Some(shared), before, audit: Mutex::default() })
    }

    /// What was kept before this daemon.
    pub fn before(&self) -> Option<&Stored> {
        self.before.as_ref()
    }

    /// Something is to be kept without a line in the log.
    pub fn keep(&self, state: impl FnOnce() -> Stored) {
        let Some(shared) = &self.shared else { return };
        shared.tray().put(Some(state()), None);
        shared.given.notify_all();
    }

    /// The log of changes is opened anew before its next line: somebody may have moved the file away.
    pub fn reopen_log(&self) {
        let Some(shared) = &self.shared else { return };
        shared.tray().reopens = true;
        shared.given.notify_all();
    }

    /// How it is with what is kept; `None` where nothing is.
    pub fn look(&self) -> Option<KeptStatus> {
        let tray = self.shared.as_ref()?.tray();
        let waits = tray.state.is_some() || !tray.entries.is_empty();
        let under_way = tray.tried < tray.given && !tray.over;
        let slow = tray.waits_since.map(|since| since.elapsed()).filter(|waits| under_way && *waits > SLOW);
        let not_kept = match (&tray.failure, slow) {
            (Some(failure), _) => Some(failure.clone()),
            (None, Some(waits)) => Some(format!("the disk has taken more than {} s", waits.as_secs())),
            (None, None) => None,
        };
        Some(KeptStatus { not_kept, waits: waits || under_way, log_left_out: tray.ever_left_out })
    }

    /// A change was made. `state`: what is to be so again after a restart, if the change touches it.
    pub fn record(&self, state: impl FnOnce() -> Option<Stored>, who: &Who, verb: &str, revision: u64, lines: &[Line]) {
        tracing::info!("revision {revision}: {who}: {verb}, {} objects", lines.len());
        let Some(shared) = &self.shared else { return };
        let entry = self.audit.lock().unwrap_or_else(PoisonError::into_inner).entry(who, verb, revision, lines);
        let state = state();
        if state.is_some() || entry.is_some() {
            shared.tray().put(state, entry);
            shared.given.notify_all();
        }
    }

    /// Waits until an attempt was made to write what has been recorded so far. Gives why it is not kept.
    pub fn wait(&self, patience: Duration) -> Option<String> {
        let shared = self.shared.as_ref()?;
        let tray = shared.tray();
        let number = tray.given;
        let (tray, ended) = shared.wait(tray, patience, |tray| tray.tried < number && !tray.over);
        match ended.timed_out() {
            true => Some(format!("the disk has taken more than {} s", patience.as_secs_f64())),
            false => tray.failure.clone(),
        }
    }

    /// Writes what waits, for a last time, and gives the folder up. What is recorded later is not kept.
    pub fn end(&self) {
        let Some(shared) = &self.shared else { return };
        let mut tray = shared.tray();
        if std::mem::replace(&mut tray.ends, true) {
            return;
        }
        shared.given.notify_all();
        if shared.wait(tray, LAST_PATIENCE, |tray| !tray.over).1.timed_out() {
            tracing::error!("not kept: the disk takes too long, and the daemon ends");
        }
    }
}

impl Drop for StateWriter {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
