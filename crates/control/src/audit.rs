//! The log of changes: a JSON line for each, with who asked, what was done, and the revision that it made.

use crate::plan::Line;
use anyhow::{Context as _, Result};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Lines of one change that are written out; of more, only how many.
const MAX_LINES: usize = 1000;

/// Changes of peers that are recorded at once.
const PEERS_AT_ONCE: u32 = 64;
/// Each time that passes, one more is.
const PEERS_PACE: Duration = Duration::from_secs(1);

/// Who asks for a change, for the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// Whoever started the daemon, or sent it a signal.
    Operator,
    /// A command of this user.
    User(u32),
    /// A peer.
    Peer,
}

/// The log; without a file, changes go to the daemon's log alone.
/// Peers can ask for changes without end: of theirs it holds so many a second, and how many were left out.
#[derive(Debug, Default)]
pub struct Audit {
    file: Option<File>,
    peers: PeersShare,
}

/// How many changes of peers may be recorded.
#[derive(Debug, Default)]
struct PeersShare {
    /// Those that were, less what time has given back; and when that was reckoned.
    used: u32,
    reckoned: Option<Instant>,
    left_out: u64,
}

impl PeersShare {
    /// One more change; gives how many were left out before it, unless it is left out too.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let last = *self.reckoned.get_or_insert(now);
        let paces = now.duration_since(last).as_secs() / PEERS_PACE.as_secs();
        let paces = u32::try_from(paces).unwrap_or(u32::MAX);
        self.used = self.used.saturating_sub(paces);
        self.reckoned = Some(if self.used == 0 { now } else { last + PEERS_PACE.saturating_mul(paces) });
        if self.used >= PEERS_AT_ONCE {
            self.left_out += 1;
            return None;
        }
        self.used += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Audit {
    /// Appends to a file, which its user alone may read.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let file = file.with_context(|| format!("the audit log {}", path.display()))?;
        Ok(Audit { file: Some(file), peers: PeersShare::default() })
    }

    /// Records a change.
    pub fn record(&mut self, who: &Who, verb: &str, revision: u64, lines: &[Line]) {
        let who = match who {
            Who::Operator => "operator".to_owned(),
            Who::User(uid) => format!("user {uid}"),
            Who::Peer => "peer".to_owned(),
        };
        tracing::info!("revision {revision}: {who}: {verb}, {} objects", lines.len());
        let Some(file) = &mut self.file else { return };
        let left_out = match who == "peer" {
            true => self.peers.take(Instant::now()),
            false => Some(0),
        };
        let Some(left_out) = left_out else { return };
        let unix = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let what: Vec<String> = lines.iter().take(MAX_LINES).map(Line::text).collect();
        let mut entry = json!({
            "unix_seconds": unix.as_secs(), "who": who, "verb": verb, "revision": revision, "objects": lines.len(),
            "what": what,
        });
        if left_out > 0 {
            entry["peers_left_out"] = left_out.into();
        }
        let written = writeln!(file, "{entry}").and_then(|()| file.flush());
        if let Err(e) = written {
            tracing::error!("the audit log: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_peers_without_end_fill_no_disk_and_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let mut audit = Audit::open(&path).unwrap();
        for revision in 0..1000 {
            audit.record(&Who::Peer, "change", revision, &[]);
        }
        audit.record(&Who::User(7), "change", 1000, &[]);
        let lines = || std::fs::read_to_string(&path).unwrap();
        assert_eq!(lines().lines().count(), PEERS_AT_ONCE as usize + 1);
        assert!(lines().lines().last().unwrap().contains("user 7"));
        let begin = Instant::now();
        let mut share = PeersShare::default();
        assert_eq!((0..100).filter(|_| share.take(begin).is_some()).count(), 64);
        let mut after = |pace: f64| share.take(begin + PEERS_PACE.mul_f64(pace));
        assert_eq!((after(0.9), after(1.5), after(1.9)), (None, Some(37), None));
        // Nothing of a pace is lost to those that come within it.
        assert_eq!((after(2.1), after(2.2), after(1000.0)), (Some(1), None, Some(1)));
        let idle = (0..100).filter(|_| share.take(begin + PEERS_PACE * 1000).is_some()).count();
        assert_eq!(idle, 63);
    }
}
