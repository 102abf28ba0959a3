//! Who asks for a change, and what comes with the request: the revision that the client expects, and the id under which
//! it may ask again ([`crate::once`]).

use crate::audit::Who;
use crate::history::WrongRevision;
use crate::once::Ticket;
use crate::outcome::ChangeOutcome;

/// What a change is answered with, JSON text, once it is known what it came to.
pub type Answering<'a> = &'a dyn Fn(&ChangeOutcome) -> serde_json::Result<String>;

/// A change as it is asked for.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// Who asks.
    pub who: &'a Who,
    /// The number of the last change that the client knows of.
    pub expect: Option<u64>,
    /// The id under which it is asked for, and how its answer is made.
    pub once: Option<(&'a Ticket, Answering<'a>)>,
}

impl<'a> From<&'a Who> for Asking<'a> {
    fn from(who: &'a Who) -> Self {
        Asking { who, expect: None, once: None }
    }
}

impl Asking<'_> {
    /// Refuses a change whose client does not know the last one, of this number.
    ///
    /// # Errors
    /// What has changed since, which `since` knows.
    pub(crate) fn check(&self, last: u64, since: impl FnOnce(u64) -> WrongRevision) -> Result<(), WrongRevision> {
        match self.expect {
            Some(expected) if expected != last => Err(since(expected)),
            _ => Ok(()),
        }
    }

    /// A change was made: who asks for it again, now or after a restart, gets this answer.
    pub(crate) fn settle(&self, outcome: &ChangeOutcome) {
        let Some((ticket, answering)) = self.once else { return };
        match answering(outcome) {
            Ok(answer) => ticket.settle(Ok(answer)),
            Err(e) => tracing::error!("an answer: {e}"),
        }
    }
}
