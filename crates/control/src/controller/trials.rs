//! Descriptions on trial: how the controller begins and ends one ([`crate::trial`]).

use super::{Controller, DISK_PATIENCE, May};
use crate::asking::Asking;
use crate::intent::{ChangeOutcome, Intent, Prepared};
use crate::state::stored::TrialRecord;
use crate::trial::TrialState;
use anyhow::{Result, anyhow};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// After a description on trial could not be undone, the next attempt.
const UNDO_AGAIN: Duration = Duration::from_secs(5);

impl Controller {
    /// What is needed to go back from a description on trial is on the disk before the first step, where a state is
    /// kept.
    pub(super) fn announce(&self, intent: &mut Intent, prepared: &Prepared) -> Result<()> {
        let Some(trial) = prepared.trial() else { return Ok(()) };
        intent.announce(trial);
        match self.not_kept(DISK_PATIENCE) {
            Some(why) => Err(anyhow!("nothing was changed: what is needed to undo it cannot be kept: {why}")),
            None => Ok(()),
        }
    }

    pub(super) fn note_trial(&self, intent: &Intent) {
        *self.trial_until.lock().unwrap_or_else(PoisonError::into_inner) = intent.trial().map(|trial| trial.until);
    }

    /// The time that is left to confirm the description on trial; `None`: none is. Nobody waits for a change.
    pub fn trial_left(&self) -> Option<Duration> {
        let until = *self.trial_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Ends the trial of a description: it stays, or what was before is so again.
    ///
    /// # Errors
    /// None is on trial, or a step failed, and everything is as it was.
    pub fn end_trial<'a>(&self, undo: bool, asking: impl Into<Asking<'a>>, may: May<'_>) -> Result<ChangeOutcome> {
        let asking = &asking.into();
        let mut intent = self.intent_for(asking, may)?;
        let none = || anyhow!("no description is on trial: it was confirmed or undone before (see the log of changes)");
        let trial = intent.trial().cloned().ok_or_else(none)?;
        if !undo {
            let outcome = intent.confirm(asking);
            self.note_trial(&intent);
            return Ok(outcome);
        }
        let wanted = (*trial.before).clone();
        let undone = self.describe(intent, wanted, |intent, _| intent.prepare_undo(&trial), asking, false);
        if undone.is_err() {
            // Again in a while.
            let again = Instant::now() + UNDO_AGAIN;
            *self.trial_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(again);
        }
        undone
    }

    /// The daemon starts with the description before one that nobody has confirmed.
    pub(crate) fn start_before(&self, undone: TrialRecord) {
        self.intent().start_before(TrialState::Undone(undone));
    }
}
