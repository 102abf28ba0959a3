//! A description on trial: it is in force, and what was before is so again unless somebody confirms it in time.
//!
//! What is needed to go back is kept in the state folder before the first step is made. A daemon that is started anew
//! while a description is on trial goes back: nobody has confirmed it. As long as its file still has that description,
//! later starts take the one before as well.

use crate::config::Config;
use crate::sources::commands::Commands;
use crate::state::stored::{Described, TrialRecord, digest};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A description on trial, and what the network goes back to.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The description before it.
    pub before: Arc<Config>,
    /// What commands wanted before it.
    pub commands: Commands,
    /// How long it is on trial.
    pub within: Duration,
    /// When it is undone.
    pub until: Instant,
    /// The same for a restart.
    pub record: TrialRecord,
}

/// Whether a description is on trial, or was.
#[derive(Debug, Clone, Default)]
pub enum TrialState {
    /// None is.
    #[default]
    None,
    /// One is about to be applied, or is in force.
    Pending(Box<Trial>),
    /// One was, and nobody has confirmed it.
    Undone(TrialRecord),
}

impl Trial {
    /// Of the description `wanted` after the one `before`.
    pub fn new(wanted: &Config, before: Arc<Config>, commands: Commands, within: Duration) -> Self {
        let described = Described {
            name: before.source.name.to_string(),
            folder: before.folder.clone(),
            text: before.source.text.to_string(),
        };
        let record = TrialRecord { digest: digest_of(wanted), before: described, undone: false };
        Trial { before, commands, within, until: Instant::now() + within, record }
    }

    /// The time that is left to confirm it.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

impl TrialState {
    /// The one on trial.
    pub fn pending(&self) -> Option<&Trial> {
        match self {
            TrialState::Pending(trial) => Some(trial),
            _ => None,
        }
    }

    /// What is kept of it.
    pub fn record(&self) -> Option<&TrialRecord> {
        match self {
            TrialState::None => None,
            TrialState::Pending(trial) => Some(&trial.record),
            TrialState::Undone(record) => Some(record),
        }
    }
}

impl TrialRecord {
    /// Nobody has confirmed it.
    #[must_use]
    pub fn into_undone(self) -> Self {
        TrialRecord { undone: true, ..self }
    }

    /// Whether a description is the one that was on trial.
    pub fn is_of(&self, config: &Config) -> bool {
        self.digest == digest_of(config)
    }
}

fn digest_of(config: &Config) -> String {
    digest(config.source.text.as_bytes())
}
