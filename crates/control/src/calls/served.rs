//! What is known of a program that signals for a host: its session, and the calls that it has indicated and that have
//! no answer yet.

use super::shares::User;
use endpoint::calls::Event;
use std::collections::{BTreeMap, VecDeque};

/// A call that was indicated and has no answer yet.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// `None`: it is refused as soon as it is the oldest.
    pub(super) call: Option<u64>,
    /// What its application is told when it is the oldest, until it has been.
    pub(super) event: Option<Event>,
}

/// The program that signals for a host.
#[derive(Debug, Default)]
pub(super) struct Program {
    /// Its session and user, while there is one.
    pub(super) served: Option<(u64, User)>,
    /// By listener, the oldest first.
    pub(super) waiting: BTreeMap<u64, VecDeque<Waiting>>,
    pub(super) orders: u64,
    pub(super) reports: u64,
    /// Reports of calls or listenings that are not there, or that cannot be understood.
    pub(super) ignored: u64,
    /// Calls that were refused for a limit.
    pub(super) limited: u64,
}

impl Program {
    pub(super) fn is_there(&self) -> bool {
        self.served.is_some()
    }

    /// The listener at which a call is the oldest.
    pub(super) fn listener_of_oldest(&self, call: u64) -> Option<u64> {
        let oldest = |queue: &VecDeque<Waiting>| queue.front().is_some_and(|waiting| waiting.call == Some(call));
        self.waiting.iter().find(|(_, queue)| oldest(queue)).map(|(listener, _)| *listener)
    }

    /// A call is not to be answered: gives its listener.
    pub(super) fn refuse(&mut self, call: u64) -> Option<u64> {
        for (listener, queue) in &mut self.waiting {
            if let Some(waiting) = queue.iter_mut().find(|waiting| waiting.call == Some(call)) {
                *waiting = Waiting::default();
                return Some(*listener);
            }
        }
        None
    }
}
