//! Steps of calls that are queued, leave together, and are answered together: one round trip to the service for many of
//! them.
//!
//! In: steps. Out: one outcome for each, in their order, beside the session's events.

use super::{Answer, MAX_STEPS, Request, Session, Step, StepOutcome};
use crate::client::Error;

/// Requests without an answer, at most: a service that waits for its answers to be taken always has room for one more
/// request.
const WINDOW: usize = 2;

fn is_refusal(outcome: &StepOutcome) -> bool {
    matches!(outcome, StepOutcome::Refused(_))
}

impl Session {
    /// Queues a step. It leaves with the next request, so with [`Session::next_event`] where no event is there yet, by
    /// [`Session::flush`], or when [`MAX_STEPS`] are queued; then this waits if the service is two requests behind.
    ///
    /// Each step has an outcome, which [`Session::next_outcome`] gives in the order of the steps. The outcome of a call
    /// comes before its first event if it is taken first.
    ///
    /// ```no_run
    /// use endpoint::calls::{Event, StepOutcome, Sap, Session, Step};
    /// use wire::q2931::CauseValue;
    ///
    /// // Answers all calls, and releases each as soon as it is up.
    /// let mut session = Session::open("/run/cellway/socket".as_ref(), "beta")?;
    /// session.listen(None, Sap::LLC)?;
    /// while let Some(event) = session.next_event(None)? {
    ///     match event {
    ///         Event::Incoming { call, .. } => session.queue(Step::Accept { call })?,
    ///         Event::Connected { call, .. } => session.queue(Step::Release { call, cause: CauseValue::NORMAL.0 })?,
    ///         _ => {}
    ///     }
    ///     while let Some(outcome) = session.next_outcome() {
    ///         if let StepOutcome::Refused(reason) = outcome {
    ///             eprintln!("{reason}");
    ///         }
    ///     }
    /// }
    /// # Ok::<(), endpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The service has gone.
    pub fn queue(&mut self, step: Step) -> Result<(), Error> {
        self.queue.push(step);
        if self.queue.len() >= MAX_STEPS {
            self.flush()?;
        }
        Ok(())
    }

    /// Sends what is queued; does not wait for its outcomes.
    ///
    /// # Errors
    /// The service has gone.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.queue.is_empty() { Ok(()) } else { self.send_steps(false) }
    }

    /// Sends what is queued, and waits until each step has its outcome. It does not wait for events.
    ///
    /// # Errors
    /// The service has gone.
    pub fn settle(&mut self) -> Result<(), Error> {
        self.flush()?;
        if self.open.iter().all(|steps| *steps == 0) {
            return Ok(());
        }
        if self.waits {
            // The request that waits is answered when another one comes.
            self.send_steps(false)?;
        }
        self.finish_open()
    }

    /// The outcome of the oldest step whose outcome was not taken yet, if it has come. It does not wait: outcomes come
    /// while [`Session::next_event`] waits, and with [`Session::settle`]. An application takes them all: they are kept
    /// until then.
    pub fn next_outcome(&mut self) -> Option<StepOutcome> {
        let outcome = self.outcomes.pop_front()?;
        self.refused -= usize::from(is_refusal(&outcome));
        Some(outcome)
    }

    /// Steps that are queued, or have left and have no outcome yet.
    pub fn unsettled(&self) -> usize {
        self.queue.len() + self.open.iter().sum::<usize>()
    }

    /// Sends what is queued, perhaps nothing; `wait`: the answer waits for an event.
    pub(super) fn send_steps(&mut self, wait: bool) -> Result<(), Error> {
        while self.open.len() >= WINDOW {
            self.finish_one()?;
        }
        let steps = std::mem::take(&mut self.queue);
        let n = steps.len();
        // A service of an older version knows no steps, and is not asked for any by who takes none.
        let bare = wait && n == 0;
        let request = if bare { Request::Wait } else { Request::Steps { host: self.host.clone(), steps, wait } };
        self.send(&request)?;
        self.open.push_back(n);
        self.waits = wait;
        Ok(())
    }

    /// Takes the oldest answer that is still to come.
    pub(super) fn finish_one(&mut self) -> Result<(), Error> {
        let steps = self.open.pop_front().unwrap_or(0);
        self.waits &= !self.open.is_empty();
        match self.connection.finish_manage() {
            Ok(Answer::Events(events)) => self.events.extend(events),
            Ok(Answer::Stepped { outcomes, events }) => {
                self.refused += outcomes.iter().filter(|outcome| is_refusal(outcome)).count();
                self.outcomes.extend(outcomes);
                self.events.extend(events);
            }
            Ok(other) => return Err(Error::Protocol(format!("{other:?}"))),
            // All of them: each step has its outcome in any case.
            Err(Error::Refused { reason, .. }) if steps > 0 => {
                self.refused += steps;
                self.outcomes.extend(std::iter::repeat_n(StepOutcome::Refused(reason), steps));
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Takes all answers that are still to come; a request that waits must have another one behind it.
    pub(super) fn finish_open(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        for _ in 0..self.open.len() {
            result = result.and(self.finish_one());
        }
        result
    }
}
