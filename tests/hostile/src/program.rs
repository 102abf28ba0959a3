//! The built program: `cellway up` as a process of its own.

use crate::field::Field;
use interop::up::Up;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A daemon, and a way to give it commands.
pub struct Program {
    up: Mutex<Up>,
    socket: PathBuf,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Program {
    /// Brings up the network of a description.
    pub fn up(description: &str) -> Self {
        Self::up_with(description, &[])
    }

    /// The same with further words of `cellway up`.
    pub fn up_with(description: &str, words: &[&str]) -> Self {
        let up = Up::with(description, words);
        Program { socket: up.path("socket"), up: Mutex::new(up) }
    }

    fn daemon(&self) -> MutexGuard<'_, Up> {
        self.up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The daemon's process.
    pub fn id(&self) -> u32 {
        self.daemon().id()
    }

    /// Waits for a line of the daemon's log.
    ///
    /// # Panics
    /// If it does not come.
    pub fn wait_for(&self, what: &str) -> String {
        self.daemon().wait_for(what)
    }

    /// Runs a command of `cellway` to its end; gives what it printed.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&self, line: &str) -> String {
        let output = self.daemon().run(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a command of `cellway`; gives its results, if it succeeds.
    pub fn try_run(&self, words: &[&str]) -> Option<serde_json::Value> {
        let mut command = self.daemon().command("--json");
        let output = command.args(words).output().ok().filter(|output| output.status.success())?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// File descriptors that the daemon has open: what each is, sorted.
    ///
    /// # Panics
    /// If the daemon is gone.
    pub fn descriptors(&self) -> Vec<String> {
        let folder = format!("/proc/{}/fd", self.daemon().id());
        let all = std::fs::read_dir(folder).expect("the daemon runs").flatten();
        let what = all.map(|fd| std::fs::read_link(fd.path()).map_or(String::new(), |to| to.display().to_string()));
        // The numbers of sockets are no use.
        let mut kinds: Vec<String> = what.map(|to| to.split(":[").next().unwrap_or_default().to_owned()).collect();
        kinds.sort();
        kinds
    }

    /// Memory of the daemon's own that is in use, in KiB: without what it shares with clients.
    ///
    /// # Panics
    /// If the daemon is gone.
    pub fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.daemon().id()));
        let status = status.expect("the daemon runs");
        let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        anonymous.and_then(|text| text.trim().split(' ').next()?.parse().ok()).expect("a number of KiB")
    }

    /// Lets the daemon read another description.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn reload(&self, description: &str) {
        let daemon = self.daemon();
        // The daemon may be reading for the signal before this one: it finds the old description or the new one, whole.
        let next = daemon.path("net.toml.next");
        std::fs::write(&next, description).expect("the description is written");
        std::fs::rename(next, daemon.path("net.toml")).expect("the description is put in its place");
        daemon.hang_up();
    }
}

impl Field for Program {
    fn socket(&self) -> &Path {
        &self.socket
    }
}
