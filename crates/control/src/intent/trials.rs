//! Descriptions on trial, and what a client is told of changes that others have made.

use super::{ChangeOutcome, Intent, Next, Prepared};
use crate::asking::Asking;
use crate::config::Config;
use crate::history::WrongRevision;
use crate::once::Book;
use crate::plan::Impossible;
use crate::sources::file;
use crate::state::stored::Stored;
use crate::trial::{Trial, TrialState};
use anyhow::{Result, bail};
use std::sync::Arc;
use std::time::Duration;

impl Intent {
    /// Answers to changes that were asked for under an id.
    pub fn book(&self) -> &Arc<Book> {
        &self.book
    }

    /// What was done after the revision that a client expects.
    pub fn changes_since(&self, expected: u64) -> WrongRevision {
        self.history.since(expected, self.revision)
    }

    /// The description on trial.
    pub fn trial(&self) -> Option<&Trial> {
        self.trial.pending()
    }

    /// The daemon starts with the description before one that nobody has confirmed.
    pub fn start_before(&mut self, trial: TrialState) {
        self.trial = trial;
    }

    /// Refuses a change while a description is on trial: what was before it would not be so again.
    ///
    /// # Errors
    /// One is.
    pub fn refuse_during_trial(&self) -> Result<()> {
        let Some(trial) = self.trial() else { return Ok(()) };
        bail!(
            "a description is on trial for {} s more: keep it (`cellway confirm`) or undo it (`cellway confirm --undo`) first",
            trial.left().as_secs()
        )
    }

    /// Refuses a description that was on trial and that nobody has confirmed: the signal that a file is read again comes
    /// when a log is rotated, too.
    ///
    /// # Errors
    /// It is that one.
    pub fn refuse_undone(&self, wanted: &Config) -> Result<()> {
        match self.trial.record() {
            Some(record) if record.undone && record.is_of(wanted) => bail!(
                "{} was on trial, and nobody has confirmed it: `cellway apply` applies it all the same",
                wanted.source.name
            ),
            _ => Ok(()),
        }
    }

    /// The trial of a description that is to be applied.
    pub fn trial_of(&self, wanted: &Config, within: Duration) -> Trial {
        Trial::new(wanted, self.config.clone(), self.commands.clone(), within)
    }

    /// Keeps what is needed to go back before a description on trial is applied.
    pub fn announce(&mut self, trial: &Trial) {
        self.reserve();
        let (commands, trial) = (trial.commands.kept(), Some(trial.record.clone()));
        self.state_writer.keep(|| Stored { commands, trial, ..self.stored() });
    }

    /// What was before the description on trial.
    ///
    /// # Errors
    /// All that cannot be.
    pub fn prepare_undo(&mut self, trial: &Trial) -> Result<Prepared, Impossible> {
        let (file, commands) = (file::objects(&trial.before), trial.commands.clone());
        let (mut prepared, dropped) = self.reconcile(&file, &commands)?;
        (prepared.verb, prepared.dropped) = ("undo", dropped);
        prepared.trial = TrialState::Undone(trial.record.clone().into_undone());
        prepared.next = Next::Description { config: Box::new((*trial.before).clone()), file, commands };
        Ok(prepared)
    }

    /// The description on trial stays.
    pub fn confirm(&mut self, asking: &Asking<'_>) -> ChangeOutcome {
        self.trial = TrialState::None;
        let outcome = ChangeOutcome { revision: self.revision, ..ChangeOutcome::default() };
        asking.settle(&outcome);
        self.reserve();
        self.state_writer.record(|| Some(self.stored()), asking.who, "confirm", self.revision, &[]);
        outcome
    }
}
