//! The thread that writes what is to outlive the daemon: the state and the log of changes.
//!
//! A disk may be full, or may stall. Whoever changes the network hands over what is to be written and goes on; a
//! command then asks what has become of it, without holding anybody up. What could not be written is tried again.

use crate::audit::{Audit, Entry, Log, Who};
use crate::plan::Line;
use crate::sources::commands::Kept;
use crate::state::StateFolder;
use anyhow::{Context as _, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, WaitTimeoutResult};
use std::time::Duration;

/// After an attempt that has failed, the next one.
const RETRY: Duration = Duration::from_secs(5);
/// Who ends the daemon waits so long for a last attempt.
const LAST_PATIENCE: Duration = Duration::from_secs(3);
/// Entries of the log that wait at most.
const MAX_ENTRIES: usize = 1024;

/// Where something is kept.
trait Disk {
    fn write_state(&mut self, kept: &Kept) -> Result<()>;
    fn append(&mut self, entry: &Entry) -> Result<()>;
}

struct Files {
    state: StateFolder,
    log: Log,
}

impl Disk for Files {
    fn write_state(&mut self, kept: &Kept) -> Result<()> {
        self.state.write(kept).context("the state")
    }

    fn append(&mut self, entry: &Entry) -> Result<()> {
        self.log.append(entry).context("the log of changes")
    }
}

/// What is to be written: a state, entries of the log, and how many of them there was no room for.
type Work = (Option<Kept>, VecDeque<Entry>, u64);

/// What waits for the thread.
#[derive(Default)]
struct Tray {
    /// The newest state, if it is not kept yet.
    state: Option<Kept>,
    entries: VecDeque<Entry>,
    /// Entries for which there was no room.
    left_out: u64,
    /// Changes that were handed over, and those that an attempt was made for.
    given: u64,
    tried: u64,
    /// Why the last attempt has failed.
    failure: Option<String>,
    ends: bool,
    over: bool,
}

impl Tray {
    fn is_empty(&self) -> bool {
        self.state.is_none() && self.entries.is_empty()
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
        }
        self.entries = entries;
    }

    fn put(&mut self, state: Option<Kept>, entry: Option<Entry>) {
        self.given += 1;
        if state.is_some() {
            self.state = state;
        }
        if let Some(entry) = entry {
            if self.entries.len() < MAX_ENTRIES {
                self.entries.push_back(entry);
            } else {
                self.left_out += 1;
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
            drop(tray);
            let (back, failure) = attempt(&mut disk, work);
            tray = self.tray();
            if let Some(e) = &failure {
                tracing::error!("not kept: {e}");
            }
            tray.take_back(back);
            (tray.tried, tray.failure) = (number, failure);
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
    before: Option<Kept>,
    audit: Mutex<Audit>,
}

impl StateWriter {
    /// Of a folder. `reset`: what it has and cannot be used is set aside.
    ///
    /// # Errors
    /// What it has cannot be used, the log cannot be opened, or the system has no thread.
    pub fn of(state: StateFolder, reset: bool) -> Result<Self> {
        let log = Log::new(state.log()?);
        let before = state.read(reset)?;
        StateWriter::start(before, Files { state, log }, RETRY)
    }

    fn start(before: Option<Kept>, disk: impl Disk + Send + 'static, retry: Duration) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("state-writer".into()).spawn(move || of_thread.run(disk, retry));
        thread.context("a thread that keeps the state")?;
        Ok(StateWriter { shared: Some(shared), before, audit: Mutex::default() })
    }

    /// What was kept before this daemon.
    pub fn before(&self) -> Option<&Kept> {
        self.before.as_ref()
    }

    /// A change was made. `state`: what is to be so again after a restart, if the change touches it.
    pub fn record(&self, state: impl FnOnce() -> Option<Kept>, who: &Who, verb: &str, revision: u64, lines: &[Line]) {
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
mod tests {
    use super::*;
    use crate::objects::ObjectId;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Instant;

    /// Does as it is told: each attempt at something waits for whether it succeeds.
    struct Told {
        orders: Receiver<bool>,
        done: Sender<String>,
    }

    impl Told {
        fn act(&self, what: String) -> Result<()> {
            let succeeds = self.orders.recv().unwrap_or(true);
            let _ = self.done.send(format!("{what} {succeeds}"));
            if succeeds { Ok(()) } else { anyhow::bail!("no space left") }
        }
    }

    impl Disk for Told {
        fn write_state(&mut self, kept: &Kept) -> Result<()> {
            self.act(format!("state {}", kept.down.len()))
        }
        fn append(&mut self, entry: &Entry) -> Result<()> {
            self.act(format!("entry {} +{}", entry.revision(), entry.left_out))
        }
    }

    fn kept(n: usize) -> Option<Kept> {
        let down = (0..n).map(|i| ObjectId::Link(format!("a - s:{i}"), 0)).collect();
        Some(Kept { down, ..Kept::default() })
    }

    fn state_writer(retry: Duration) -> (StateWriter, Sender<bool>, Receiver<String>) {
        let ((order, orders), (done, seen)) = (channel(), channel());
        (StateWriter::start(None, Told { orders, done }, retry).unwrap(), order, seen)
    }

    fn change(state_writer: &StateWriter, n: usize) {
        state_writer.record(|| kept(n), &Who::Operator, "change", n as u64, &[]);
    }

    #[test]
    fn what_cannot_be_written_is_told_and_tried_again_in_order() {
        let (state_writer, order, seen) = state_writer(RETRY);
        change(&state_writer, 1);
        order.send(false).unwrap();
        order.send(false).unwrap();
        assert!(state_writer.wait(Duration::from_secs(10)).unwrap().contains("no space left"));
        // The next change is a reason to try at once; of states the newest is written.
        change(&state_writer, 2);
        (0..3).for_each(|_| order.send(true).unwrap());
        assert_eq!(state_writer.wait(Duration::from_secs(10)), None);
        let all: Vec<String> = seen.try_iter().collect();
        assert_eq!(all, ["entry 1 +0 false", "state 1 false", "entry 1 +0 true", "entry 2 +0 true", "state 2 true"]);
    }

    #[test]
    fn a_disk_that_stalls_holds_up_nobody_and_what_does_not_fit_is_counted() {
        let (state_writer, order, seen) = state_writer(RETRY);
        let begin = Instant::now();
        change(&state_writer, 1);
        // The thread has taken the first, and stands in it.
        while !state_writer.shared.as_ref().unwrap().tray().is_empty() {
            std::thread::yield_now();
        }
        (2..=MAX_ENTRIES + 4).for_each(|n| change(&state_writer, n));
        let said = state_writer.wait(Duration::from_millis(20)).unwrap();
        assert!(said.contains("more than 0.02 s"), "{said}");
        drop(state_writer);
        assert!(begin.elapsed() < LAST_PATIENCE * 3, "{:?}", begin.elapsed());
        // Later it goes on, to the last.
        drop(order);
        let all: Vec<String> = seen.iter().collect();
        assert_eq!(all.len(), 1 + 1 + MAX_ENTRIES + 1);
        assert_eq!(all[..3], ["entry 1 +0 true", "state 1 true", "entry 2 +3 true"]);
        assert_eq!(*all.last().unwrap(), format!("state {} true", MAX_ENTRIES + 4));
    }

    #[test]
    fn what_failed_is_tried_again_without_another_change() {
        let (state_writer, order, seen) = state_writer(Duration::from_millis(1));
        change(&state_writer, 1);
        [true, false, false, true].into_iter().for_each(|succeeds| order.send(succeeds).unwrap());
        let all: Vec<String> = seen.iter().take(4).collect();
        assert_eq!(all, ["entry 1 +0 true", "state 1 false", "state 1 false", "state 1 true"]);
        drop(order);
        drop(state_writer);
        assert_eq!(seen.iter().count(), 0);
    }

    #[test]
    fn what_failed_is_tried_once_more_at_the_end() {
        let (state_writer, order, seen) = state_writer(RETRY);
        change(&state_writer, 1);
        [true, false].into_iter().for_each(|succeeds| order.send(succeeds).unwrap());
        assert!(state_writer.wait(Duration::from_secs(10)).is_some());
        order.send(true).unwrap();
        drop(state_writer);
        let all: Vec<String> = seen.iter().collect();
        assert_eq!(all, ["entry 1 +0 true", "state 1 false", "state 1 true"]);
    }

    #[test]
    fn entries_that_come_back_go_before_those_that_came_since_and_are_bounded() {
        let entry = |n| Audit::default().entry(&Who::Operator, "change", n, &[]).unwrap();
        let mut tray = Tray::default();
        (1..=3).for_each(|n| tray.put(kept(n as usize), Some(entry(n))));
        let back = (kept(9), (0..MAX_ENTRIES as u64 - 1).map(|n| entry(100 + n)).collect(), 5);
        tray.take_back(back);
        assert_eq!((tray.entries.len(), tray.left_out), (MAX_ENTRIES, 7));
        assert_eq!((tray.entries[0].revision(), tray.entries[MAX_ENTRIES - 1].revision()), (100, 1));
        assert_eq!(tray.state, kept(3), "what is newer wins");
        tray.put(None, Some(entry(4)));
        assert_eq!((tray.entries.len(), tray.left_out, tray.given), (MAX_ENTRIES, 8, 4));
        assert_eq!(tray.state, kept(3));
    }
}
