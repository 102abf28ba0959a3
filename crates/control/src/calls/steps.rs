//! Steps of calls that an application asks for together: taken one after the other under one lock, answered by one
//! message, and what follows from them is carried out and sent once.

use super::applications::{Refusal, User};
use super::call_controller::CallController;
use super::setup::Wanted;
use endpoint::calls::{Answer, Sap, StepOutcome, Traffic};
use wire::Time;
use wire::aesa::Aesa;
use wire::q2931::CauseValue;

/// A step that has been read, and that the user may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Call.
    Call {
        /// Whom.
        to: Aesa,
        /// The service access point.
        sap: Sap,
        /// To the called user, and from there.
        ways: Box<[Traffic; 2]>,
    },
    /// Answer a call.
    Accept(u64),
    /// Refuse or end a call.
    Release(u64, CauseValue),
}

impl CallController {
    /// Takes steps of a session; one that was refused already keeps its reason. `None`: the session waits for its next
    /// events, and [`CallController::take_reply`] gives the answer then.
    ///
    /// Only a session that `waits`, has nothing to hear, and was refused nothing, waits.
    pub fn steps(
        &mut self,
        session: u64,
        user: User,
        host: &str,
        steps: Vec<Result<Step, String>>,
        waits: bool,
        now: Time,
    ) -> Option<Answer> {
        let one = |step: Result<Step, String>| {
            let outcome = step.and_then(|step| self.step(session, user, host, &step, now).map_err(|e| e.to_string()));
            outcome.unwrap_or_else(StepOutcome::Refused)
        };
        let outcomes: Vec<StepOutcome> = steps.into_iter().map(one).collect();
        let is_refused = outcomes.iter().any(|outcome| matches!(outcome, StepOutcome::Refused(_)));
        self.book.session(session).stepped = Some(outcomes);
        if waits && !is_refused { self.wait(session, usize::MAX) } else { self.take_events(session, true) }
    }

    fn step(&mut self, session: u64, user: User, host: &str, step: &Step, now: Time) -> Result<StepOutcome, Refusal> {
        match step {
            Step::Call { to, sap, ways } => {
                let wanted = Wanted { sap: *sap, forward: &ways[0], backward: &ways[1], multipoint: false };
                match self.call(session, user, host, *to, wanted, now)? {
                    Answer::Calling { call } => Ok(StepOutcome::Calling { call }),
                    _ => Ok(StepOutcome::Done),
                }
            }
            Step::Accept(number) => {
                let circuit =
                    self.book.calls.get(number).and_then(|call| call.circuit).ok_or(Refusal::NoCall(*number))?;
                self.accept(session, user, *number, now)?;
                Ok(StepOutcome::Accepted { call: *number, circuit: circuit.to_string() })
            }
            Step::Release(number, cause) => self.release(session, *number, *cause, now).map(|_| StepOutcome::Done),
        }
    }
}
