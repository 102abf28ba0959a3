//! A plan being carried out: a state machine that performs a few steps at a time, and undoes them all if one fails.
//!
//! In: a [`Target`] between two rounds, and what it asks for ([`Progress::Make`]): far ends of links, switches and other
//! elements, which are made elsewhere since making one may take long. Out: the target as the plan wants it, or as it was.

use crate::config::Shell;
use crate::objects::ObjectId;
use crate::plan::Plan;
use crate::step::{Need, PreparedResource, Step, StepError, Target};
use std::collections::{HashMap, VecDeque};

/// What comes next.
#[derive(Debug)]
pub enum Progress {
    /// More steps, in another slice.
    More,
    /// Make this, and give it to [`Execution::give`]. What was in its place has gone.
    Make(Need),
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
    made: Option<Result<PreparedResource, String>>,
    /// What was made before the first step, for what the plan wants and not for what was there.
    ready: HashMap<ObjectId, PreparedResource>,
    /// What was there has been taken away for the step that comes next.
    cleared: bool,
    /// What the step that comes next needs has to be made though it is there.
    anew: bool,
    failure: Option<Failure>,
}

impl Execution {
    /// Begins.
    pub fn new(plan: Plan) -> Self {
        let left: VecDeque<_> = plan.steps.into_iter().zip(plan.subjects).collect();
        let (done, undo) = (Vec::with_capacity(left.len()), Vec::with_capacity(left.len()));
        Execution { left, done, undo, made: None, ready: HashMap::new(), cleared: false, anew: false, failure: None }
    }

    /// What the plan needs, each with its object, and whether something of the plan has to go before it can be made: a
    /// socket that listens where another one does. What does not wait is best made before the first step: if it cannot
    /// be, nothing was touched.
    pub fn needs(&self) -> Vec<(ObjectId, Need, bool)> {
        let goes = self.left.iter().any(|(step, _)| matches!(step, Step::Attach { had: Some(_), .. }));
        // An adapter's socket is made beside the one that goes.
        let waits = |need: &Need| goes && !matches!(need, Need::Shell(shell) if matches!(**shell, Shell::Adapter(_)));
        let mut needs = Vec::new();
        for (object, need) in self.left.iter().filter_map(|(step, _)| step.need()) {
            let waits = waits(&need);
            needs.push((object, need, waits));
        }
        needs
    }

    /// What was made before the first step.
    pub fn prepare(&mut self, object: ObjectId, made: PreparedResource) {
        self.ready.insert(object, made);
    }

    /// What was asked for by [`Progress::Make`], or why it cannot be made.
    pub fn give(&mut self, made: Result<PreparedResource, String>) {
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
                let need = self.needed(&step);
                self.left.push_front((step, subject));
                need.map_or(Progress::More, Progress::Make)
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
                let need = self.needed(&step);
                self.undo.push(step);
                return need.map_or(Progress::More, Progress::Make);
            }
            // Only what is outside can fail here: a port that somebody else has taken meanwhile. The rest goes back all
            // the same.
            Err(cause) => tracing::error!("cannot put back: {cause}"),
        }
        Progress::More
    }

    fn needed(&mut self, step: &Step) -> Option<Need> {
        let anew = std::mem::take(&mut self.anew);
        step.need().map(|(_, need)| match need {
            Need::Shell(shell) if anew => Need::Anew(shell),
            need => need,
        })
    }

    /// Performs a step, if what it needs has been made: `None` if not.
    fn perform(&mut self, step: &Step, target: &mut dyn Target) -> Result<Option<Step>, StepError> {
        let Some((object, _)) = step.need() else { return target.perform(step, None).map(Some) };
        let had = match step {
            Step::Attach { had, .. } => had.clone(),
            _ => None,
        };
        let clear = |had| Step::Attach { link: object.clone(), shell: None, had };
        let ready = if self.failure.is_none() && self.made.is_none() { self.ready.remove(&object) } else { None };
        match self.made.take().or(ready.map(Ok)) {
            None => {
                // A socket listens where the one before it did: that one goes first.
                if had.is_some() && !self.cleared {
                    target.perform(&clear(had), None)?;
                    self.cleared = true;
                }
                Ok(None)
            }
            Some(Ok(made)) => {
                self.cleared = false;
                match target.perform(step, Some(made)) {
                    Err(StepError::Anew) => {
                        self.anew = true;
                        Ok(None)
                    }
                    done => done.map(Some),
                }
            }
            Some(Err(cause)) => {
                if std::mem::take(&mut self.cleared) && self.failure.is_none() {
                    self.undo.push(Step::Attach { link: object, shell: had, had: None });
                }
                Err(StepError::Shell(cause))
            }
        }
    }
}
