//! The last changes of a network: what a client that expects another revision is told.

use crate::audit::Who;
use crate::plan::Line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;

/// Changes that are remembered.
const CHANGES: usize = 64;
/// Lines of one change that are; of more, only how many.
const LINES: usize = 16;

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    /// Its number.
    pub revision: u64,
    /// Who asked for it: `operator`, `user N`, `peer` or `daemon`.
    pub who: String,
    /// What was asked for: `apply`, `add`, `remove`, `link down`, `link up`, `undo`, `peer`.
    pub verb: String,
    /// Objects that it added, changed or removed.
    pub objects: usize,
    /// The first of these, in words.
    pub what: Vec<String>,
}

/// The expected revision is not the current one: nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrongRevision {
    /// The revision that the request expected.
    pub expected_revision: u64,
    /// The number of the last change.
    pub revision: u64,
    /// The changes since, the oldest first.
    pub changes_since: Vec<Changed>,
    /// Whether these are all: the daemon remembers its last 64.
    pub complete: bool,
}

impl fmt::Display for WrongRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongRevision { expected_revision, revision, .. } = self;
        write!(f, "revision {expected_revision} was expected, and the current one is {revision}: nothing was done")?;
        if expected_revision > revision {
            return write!(f, "; the daemon has not made that revision: was it started anew, without --state?");
        }
        if !self.complete {
            write!(f, "\n  earlier changes are not remembered")?;
        }
        for change in &self.changes_since {
            write!(f, "\n  revision {}: {}: {}", change.revision, change.who, change.verb)?;
            change.what.iter().try_for_each(|line| write!(f, "\n    {line}"))?;
            if change.objects > change.what.len() {
                write!(f, "\n    and {} more", change.objects - change.what.len())?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for WrongRevision {}

/// The last changes, the oldest first.
#[derive(Debug, Default)]
pub struct History(VecDeque<Changed>);

impl History {
    /// A change was made.
    pub fn note(&mut self, who: &Who, verb: &str, revision: u64, lines: &[Line]) {
        if self.0.len() == CHANGES {
            self.0.pop_front();
        }
        let what = lines.iter().take(LINES).map(Line::text).collect();
        let (who, verb) = (who.to_string(), verb.to_owned());
        self.0.push_back(Changed { revision, who, verb, objects: lines.len(), what });
    }

    /// What was done after the expected revision.
    pub fn since(&self, expected_revision: u64, revision: u64) -> WrongRevision {
        let changes_since: Vec<Changed> =
            self.0.iter().filter(|change| change.revision > expected_revision).cloned().collect();
        let complete = revision.saturating_sub(expected_revision) == changes_since.len() as u64;
        WrongRevision { expected_revision, revision, changes_since, complete }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_changes_are_told_and_that_earlier_ones_are_forgotten() {
        let mut history = History::default();
        (1..=CHANGES as u64 + 6).for_each(|n| history.note(&Who::User(7), "add", n, &[]));
        let revision = CHANGES as u64 + 6;
        let known = history.since(revision - 2, revision);
        assert_eq!(known.changes_since.iter().map(|c| c.revision).collect::<Vec<_>>(), [revision - 1, revision]);
        assert!(known.complete && known.to_string().contains("user 7: add"), "{known}");
        let old = history.since(3, revision);
        assert_eq!((old.changes_since.len(), old.complete), (CHANGES, false));
        assert!(old.to_string().contains("not remembered"), "{old}");
        assert!(history.since(revision + 9, revision).to_string().contains("started anew"));
    }
}
