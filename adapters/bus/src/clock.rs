//! The time of an element that is simulated (a Myrinet, a desk) beside the time of the network that it is in. Both
//! run at one rate; where the element cannot keep up, its own stands still for a while.

use core::time::Duration;
use wire::Time;

/// An element that is further behind than this lets the time between go.
const MOST_BEHIND: Duration = Duration::from_millis(5);

/// See the module's head.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    outer: Time,
    inner: Time,
    stood: Duration,
}

impl Clock {
    /// `inner` is now.
    pub fn set(&mut self, outer: Time, inner: Time) {
        (self.outer, self.inner) = (outer, inner);
    }

    /// The element's time at a moment of its network.
    pub fn inner(&self, outer: Time) -> Time {
        self.inner + outer.since(self.outer)
    }

    /// The network's time at a moment of the element.
    pub fn outer(&self, inner: Time) -> Time {
        self.outer + inner.since(self.inner)
    }

    /// The element has come to `inner` only.
    pub fn behind(&mut self, outer: Time, inner: Time) {
        let by = self.inner(outer).since(inner);
        if by > MOST_BEHIND {
            self.stood += by;
            self.set(outer, inner);
        }
    }

    /// How long it has stood still in all.
    pub fn stood(&self) -> Duration {
        self.stood
    }
}
