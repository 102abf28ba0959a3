//! A plan being carried out: a state machine that performs a few steps at a time, and undoes them all if one fails.
//!
//! In: a [`Target`] between two rounds, and the far ends of links that it asks for ([`Progress::Make`]), which are made elsewhere
//! since making one may take long. Out: the target as the plan wants it, or as it was.

use crate::config::Shell;
use crate::objects::ObjectId;
use crate::plan::Plan;
use crate::step::{Step, StepError, Target};
use net::external::External;
use std::collections::VecDeque;

/// What comes next.
#[derive(Debug)]
pub enum Progress {
    /// More steps, in another slice.
    More,
    /// Make what is outside at a link, and give it to [`Execution::give`]. What was there has gone.
    Make(Box<Shell>),
    /// All is as the plan wants it.
    Done,
    /// All is as it was, for a step failed.
    Undone(Failure),
}

/// Why a plan was not carried out.
#[derive(Debug, thiserror::Error)]
#[error("{subject}: {cause}")]
pub struct Failure {
    /// The object whose step failed.
    pub subject: ObjectId,
    /// What was wrong.
    pub cause: StepError,
}

/// A plan being carried out.
pub struct Execution {
    left: VecDeque<(Step, ObjectId)>,
    undo: Vec<Step>,
    made: Option<Result<Box<dyn External>, String>>,
    /// What was there has been taken away for the step that comes next.
    cleared: bool,
    failure: Option<Failure>,
}

impl Execution {
    /// Begins.
    pub fn new(plan: Plan) -> Self {
        let left = plan.steps.into_iter().zip(plan.subjects).collect();
        Execution { left, undo: Vec::new(), made: None, cleared: false, failure: None }
    }

    /// What was asked for by [`Progress::Make`], or why it cannot be made.
    pub fn give(&mut self, made: Result<Box<dyn External>, String>) {
        self.made = Some(made);
    }

    /// Performs steps while `goes_on` allows it; at least one.
    pub fn run(&mut self, target: &mut dyn Target, mut goes_on: impl FnMut() -> bool) -> Progress {
        loop {
            let progress = if self.failure.is_none() { self.step(target) } else { self.step_back(target) };
            match progress {
                Progress::More if goes_on() => {}
                progress => return progress,
            }
        }
    }

    fn step(&mut self, target: &mut dyn Target) -> Progress {
        let Some((step, subject)) = self.left.pop_front() else { return Progress::Done };
        match self.perform(&step, target) {
            Ok(Some(inverse)) => {
                self.undo.push(inverse);
                Progress::More
            }
            Ok(None) => {
                let shell = shell_of(&step).cloned().map(Box::new);
                self.left.push_front((step, subject));
                shell.map_or(Progress::More, Progress::Make)
            }
            Err(cause) => {
                self.failure = Some(Failure { subject, cause });
                Progress::More
            }
        }
    }

    fn step_back(&mut self, target: &mut dyn Target) -> Progress {
        let Some(step) = self.undo.pop() else {
            return self.failure.take().map_or(Progress::Done, Progress::Undone);
        };
        match self.perform(&step, target) {
            Ok(Some(_)) => {}
            Ok(None) => {
                let shell = shell_of(&step).cloned().map(Box::new);
                self.undo.push(step);
                return shell.map_or(Progress::More, Progress::Make);
            }
            // Only what is outside can fail here: a port that somebody else has taken meanwhile. The rest goes back all the same.
            Err(cause) => tracing::error!("cannot put back: {cause}"),
        }
        Progress::More
    }

    /// Performs a step, if what it needs has been made: `None` if not.
    fn perform(&mut self, step: &Step, target: &mut dyn Target) -> Result<Option<Step>, StepError> {
        let Step::Attach { link, shell: Some(_), had } = step else { return target.perform(step, None).map(Some) };
        if is_adapter(step) {
            // One that lives on with another cable is not made again; only the target knows.
            return target.perform(step, None).map(Some);
        }
        match self.made.take() {
            None => {
                // A socket listens where the one before it did: that one goes first.
                let clear = Step::Attach { link: link.clone(), shell: None, had: had.clone() };
                if had.is_some() && !self.cleared {
                    target.perform(&clear, None)?;
                    self.cleared = true;
                }
                Ok(None)
            }
            Some(Ok(made)) => {
                self.cleared = false;
                target.perform(step, Some(made)).map(Some)
            }
            Some(Err(cause)) => {
                if std::mem::take(&mut self.cleared) && self.failure.is_none() {
                    self.undo.push(Step::Attach { link: link.clone(), shell: had.clone(), had: None });
                }
                Err(StepError::Shell(cause))
            }
        }
    }
}

fn shell_of(step: &Step) -> Option<&Shell> {
    match step {
        Step::Attach { shell, .. } => shell.as_deref(),
        _ => None,
    }
}

fn is_adapter(step: &Step) -> bool {
    matches!(shell_of(step), Some(Shell::Adapter(_)))
}
