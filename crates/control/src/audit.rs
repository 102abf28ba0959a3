//! The log of changes: a JSON line for each, with who asked, what was done, and the revision that it made.

use crate::plan::Line;
use serde_json::{Value, json};
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
    /// The daemon itself: nobody has confirmed a description on trial.
    Daemon,
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Who::Operator => f.write_str("operator"),
            Who::User(uid) => write!(f, "user {uid}"),
            Who::Peer => f.write_str("peer"),
            Who::Daemon => f.write_str("daemon"),
        }
    }
}

/// A line of the log.
#[derive(Debug, Clone)]
pub struct Entry {
    what: Value,
    /// Entries before it for which there was no room.
    pub left_out: u64,
}

impl Entry {
    /// The change's number.
    pub fn revision(&self) -> u64 {
        self.what["revision"].as_u64().unwrap_or_default()
    }

    /// The line, with its end.
    pub fn line(&self) -> String {
        let mut what = self.what.clone();
        if self.left_out > 0 {
            what["left_out"] = self.left_out.into();
        }
        format!("{what}\n")
    }
}

/// What is logged. Peers can ask for changes without end: of theirs the log has so many a second, and how many were
/// left out.
#[derive(Debug, Default)]
pub struct Audit {
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
    /// The entry of a change, if it is to have one.
    pub fn entry(&mut self, who: &Who, verb: &str, revision: u64, lines: &[Line]) -> Option<Entry> {
        let left_out = match who {
            Who::Peer => self.peers.take(Instant::now())?,
            _ => 0,
        };
        let unix = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let texts: Vec<String> = lines.iter().take(MAX_LINES).map(Line::text).collect();
        let mut what = json!({
            "unix_seconds": unix.as_secs(), "who": who.to_string(), "verb": verb, "revision": revision,
            "objects": lines.len(), "what": texts,
        });
        if left_out > 0 {
            what["peers_left_out"] = left_out.into();
        }
        Some(Entry { what, left_out: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_peers_without_end_fill_no_disk_and_are_counted() {
        let mut audit = Audit::default();
        let of_peers = (0..1000).filter_map(|revision| audit.entry(&Who::Peer, "change", revision, &[]));
        assert_eq!(of_peers.count(), PEERS_AT_ONCE as usize);
        assert!(audit.entry(&Who::User(7), "change", 1000, &[]).unwrap().line().contains("user 7"));
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
