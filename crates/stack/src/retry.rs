//! When a station that could not be reached is called again: after 1 s, 2 s, 4 s, ..., 64 s at most.

use std::time::Duration;
use wire::Time;

const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(64);

/// A station that could not be reached.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Retry {
    due: Time,
    wait: Duration,
}

impl Retry {
    /// It could not be reached, again.
    pub(crate) fn fail(&mut self, now: Time) {
        self.wait = (self.wait * 2).clamp(FIRST, LAST);
        self.due = now + self.wait;
    }

    /// When it may be called again.
    pub(crate) const fn due(&self) -> Time {
        self.due
    }

    /// Whether it may be called.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.due <= now
    }

    /// Whether the failure is so long ago that it counts no more.
    pub(crate) fn is_forgotten(&self, now: Time) -> bool {
        self.due + LAST <= now
    }
}
