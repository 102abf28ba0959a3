//! Asking again: after 1 s, 2 s, 4 s, ..., 64 s at most, so that a silent peer costs nothing.

use std::time::Duration;
use wire::Time;

const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(64);

/// When to ask next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    next: Time,
    wait: Duration,
    asked: Option<Time>,
}

impl Backoff {
    /// Ask at `at` first.
    pub const fn new(at: Time) -> Self {
        Backoff { next: at, wait: FIRST, asked: None }
    }

    /// When to ask.
    pub const fn next(&self) -> Time {
        self.next
    }

    /// Whether it is time to ask; if so, the next time is later by twice the wait before.
    pub fn is_due(&mut self, now: Time) -> bool {
        if self.next > now {
            return false;
        }
        self.asked = Some(now);
        self.next = now + self.wait;
        self.wait = (self.wait * 2).min(LAST);
        true
    }

    /// The peer lives: ask now, though no more often than each second.
    pub fn hurry(&mut self, now: Time) {
        let soon = self.asked.map_or(now, |at| now.max(at + FIRST));
        self.next = self.next.min(soon);
        self.wait = FIRST;
    }
}
