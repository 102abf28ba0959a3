//! A plan being carried out: a state machine that performs a few steps at a time, and undoes them all if one fails.
//!
//! In: a [`Target`] between two rounds, and the far ends of links that it asks for ([`Progress::Make`]), which are made elsewhere
//! since making one may take long. Out: the target as the plan wants it, or as it was.

use crate::config::Shell;
use crate::objects::ObjectId;
use crate::plan::Plan;
use crate::step::{Step, StepError, Target};
use net::external::External;
use std::collections::{HashMap, VecDeque};

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
    /// What was done is dropped with all the rest, and not where it is done.
    done: Vec<(Step, ObjectId)>,
    undo: Vec<Step>,
    made: Option<Result<Box<dyn External>, String>>,
    /// Far ends that were made before the first step, by their links.
    ready: HashMap<ObjectId, Box<dyn External>>,
    /// What was there has been taken away for the step that comes next.
    cleared: bool,
    failure: Option<Failure>,
}

impl Execution {
    /// Begins.
    pub fn new(plan: Plan) -> Self {
        let left: VecDeque<_> = plan.steps.into_iter().zip(plan.subjects).collect();
        let (done, undo) = (Vec::with_capacity(left.len()), Vec::with_capacity(left.len()));
        Execution { left, done, undo, made: None, ready: HashMap::new(), cleared: false, failure: None }
    }

    /// The far ends that the plan needs, each with its link, and whether something of the plan has to go before it can be made:
    /// a socket that listens where another one does. Those that do not wait are best made before the first step: if one cannot
    /// be, nothing was touched.
    pub fn needs(&self) -> Vec<(ObjectId, Box<Shell>, bool)> {
        let goes = self.left.iter().any(|(step, _)| matches!(step, Step::Attach { had: Some(_), .. }));
        let needs = self.left.iter().filter(|(step, _)| !is_adapter(step)).filter_map(|(step, _)| match step {
            Step::Attach { link, shell: Some(shell), .. } => Some((link.clone(), shell.clone(), goes)),
            _ => None,
        });
        needs.collect()
    }

    /// A far end that was made before the first step.
    pub fn prepare(&mut self, link: ObjectId, made: Box<dyn External>) {
        self.ready.insert(link, made);
    }

    /// What was asked for by [`Progress::Make`], or why it cannot be made.
    pub fn give(&mut self, made: Result<Box<dyn External>, String>) {
        self.made = Some(made);
    }

    /// Performs steps while `goes_on` allows it; at least one.
    pub fn run(&mut self, target: &mut dyn Target, mut goes_on: impl FnMut() -> bool) -> Progress {
        loop {
            while target.advance() {
                if !goes_on() {
                    return Progress::More;
                }
            }
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
                self.done.push((step, subject));
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
        match self.made.take().or_else(|| self.ready.remove(link).map(Ok)) {
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
