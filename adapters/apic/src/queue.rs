//! A queue with a bypass: what belongs to low-latency connections goes before all else. The chip has one wherever
//! something waits.

use std::collections::VecDeque;

/// Two queues in the order in which they are served.
#[derive(Debug, Clone)]
pub(super) struct Bypass<T> {
    low_latency: VecDeque<T>,
    other: VecDeque<T>,
    most: usize,
    bypass: bool,
}

impl<T> Bypass<T> {
    /// Room for `most` in either queue. Without `bypass` there is one queue.
    pub(super) fn new(most: usize, bypass: bool) -> Self {
        let most = most.max(1);
        let low_latency = VecDeque::with_capacity(if bypass { most } else { 0 });
        Bypass { low_latency, other: VecDeque::with_capacity(most), most, bypass }
    }

    fn queue(&mut self, low_latency: bool) -> &mut VecDeque<T> {
        if low_latency && self.bypass { &mut self.low_latency } else { &mut self.other }
    }

    /// How many more of this kind fit.
    pub(super) fn room(&mut self, low_latency: bool) -> usize {
        let most = self.most;
        most - self.queue(low_latency).len()
    }

    /// How many of this kind wait.
    pub(super) fn waiting(&mut self, low_latency: bool) -> usize {
        self.queue(low_latency).len()
    }

    /// The first of one of the two queues.
    pub(super) fn front_of(&self, low_latency: bool) -> Option<&T> {
        if low_latency { self.low_latency.front() } else { self.other.front() }
    }

    /// The same, taken.
    pub(super) fn pop_of(&mut self, low_latency: bool) -> Option<T> {
        if low_latency { self.low_latency.pop_front() } else { self.other.pop_front() }
    }

    /// Whether one more of this kind fits.
    pub(super) fn has_room(&mut self, low_latency: bool) -> bool {
        self.room(low_latency) > 0
    }

    /// False: there is no room.
    pub(super) fn push(&mut self, low_latency: bool, item: T) -> bool {
        let fits = self.has_room(low_latency);
        if fits {
            self.queue(low_latency).push_back(item);
        }
        fits
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        self.low_latency.pop_front().or_else(|| self.other.pop_front())
    }

    /// Takes out what `goes`, and gives it to `gone`.
    pub(super) fn take_out(&mut self, goes: impl Fn(&T) -> bool, mut gone: impl FnMut(&T)) {
        for queue in [&mut self.low_latency, &mut self.other] {
            queue.retain(|item| {
                let goes = goes(item);
                if goes {
                    gone(item);
                }
                !goes
            });
        }
    }

    pub(super) fn len(&self) -> usize {
        self.low_latency.len() + self.other.len()
    }
}
