//! What a change came to.

use crate::deviations::Deviation;
use crate::plan::{Line, Summary};
use std::time::Duration;

/// What a change came to.
#[derive(Debug, Clone, Default)]
pub struct ChangeOutcome {
    /// The change's number; without a change, the last one's.
    pub revision: u64,
    /// What was, or would be, done.
    pub lines: Vec<Line>,
    /// The same as numbers.
    pub summary: Summary,
    /// Circuits that stay as they were.
    pub unchanged_circuits: usize,
    /// Circuits that were, or would be, interrupted.
    pub interrupted: Vec<String>,
    /// Objects of commands and peers that do not fit any more.
    pub dropped: Vec<String>,
    /// What commands have made of the description, and stays so.
    pub kept: Vec<Deviation>,
    /// The link or circuit that a command named, by its name in output.
    pub subject: String,
    /// Circuits that went with a link.
    pub removed_circuits: Vec<String>,
    /// How long the description is on trial.
    pub confirm_within: Option<Duration>,
}
