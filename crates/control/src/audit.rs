//! The log of changes: a JSON line for each, with who asked, what was done, and the revision that it made.

use crate::plan::Line;
use anyhow::{Context as _, Result};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

/// Lines of one change that are written out; of more, only how many.
const MAX_LINES: usize = 1000;

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
#[derive(Debug, Default)]
pub struct Audit(Option<File>);

impl Audit {
    /// Appends to a file, which its user alone may read.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        Ok(Audit(Some(file.with_context(|| format!("the audit log {}", path.display()))?)))
    }

    /// Records a change.
    pub fn record(&mut self, who: &Who, verb: &str, revision: u64, lines: &[Line]) {
        let who = match who {
            Who::Operator => "operator".to_owned(),
            Who::User(uid) => format!("user {uid}"),
            Who::Peer => "peer".to_owned(),
        };
        tracing::info!("revision {revision}: {who}: {verb}, {} objects", lines.len());
        let Some(file) = &mut self.0 else { return };
        let unix = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let what: Vec<String> = lines.iter().take(MAX_LINES).map(Line::text).collect();
        let entry = json!({
            "unix_seconds": unix.as_secs(), "who": who, "verb": verb, "revision": revision, "objects": lines.len(),
            "what": what,
        });
        let written = writeln!(file, "{entry}").and_then(|()| file.flush());
        if let Err(e) = written {
            tracing::error!("the audit log: {e}");
        }
    }
}
