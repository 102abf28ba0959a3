//! How an application gets on with what it was given: whether it takes SDUs, is behind, holds up the thread that waits for
//! it, or has stopped. In: how many SDUs it has taken, ever, and the time. Out: its pace.

use std::time::Duration;
use wire::Time;

/// An application with SDUs to take that has taken none for so long, while the host was looking, is held up by the host
/// perhaps: they may share a processor.
const STALL: Duration = crate::events::machine::STALL;
/// One that has taken none for so long waits for something else than the processor. Shorter would not do: its processor
/// may be another's meanwhile.
const STOPPED: Duration = Duration::from_millis(5);

/// What an application that has SDUs to take does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// It has taken some since it was looked at last.
    Takes,
    /// It has not.
    Idle,
    /// It has taken none for so long that it may wait for the processor.
    Stalled,
    /// It waits for something else: nobody waits for it until it takes an SDU.
    Stopped,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// How many it had taken, and since when it has taken no more; while it has any to take.
    watched: Option<(u32, Time)>,
    /// Its receive ring is nearly full: its senders pause.
    backlogged: bool,
    /// How many it had taken when it had stopped.
    stopped: Option<u32>,
}

impl Progress {
    /// It has something to take. False if that was known, or it has stopped.
    pub(crate) fn watch(&mut self, consumed: u32, now: Time) -> bool {
        if self.watched.is_some() || self.has_stopped(consumed) {
            return false;
        }
        self.watched = Some((consumed, now));
        true
    }

    /// It has taken all.
    pub(crate) fn forget(&mut self) {
        self.watched = None;
    }

    /// Whether it has something to take, as far as is known.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.is_some()
    }

    /// What it does. One that has stopped is watched no more.
    pub(crate) fn look(&mut self, consumed: u32, now: Time) -> Pace {
        let Some((before, since)) = &mut self.watched else {
            return if self.has_stopped(consumed) { Pace::Stopped } else { Pace::Takes };
        };
        if *before != consumed {
            (*before, *since) = (consumed, now);
            return Pace::Takes;
        }
        let idle = now.since(*since);
        if idle < STALL {
            return Pace::Idle;
        }
        if idle < STOPPED {
            return Pace::Stalled;
        }
        (self.watched, self.stopped) = (None, Some(consumed));
        Pace::Stopped
    }

    /// Whether it has stopped, and has taken nothing since.
    pub(crate) fn has_stopped(&mut self, consumed: u32) -> bool {
        self.stopped.take_if(|at| *at != consumed);
        self.stopped.is_some()
    }

    /// Whether its senders pause.
    pub(crate) fn is_backlogged(&self) -> bool {
        self.backlogged
    }

    /// Its senders pause from now on, or no longer.
    pub(crate) fn set_backlogged(&mut self, backlogged: bool) {
        self.backlogged = backlogged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_that_takes_nothing_is_stalled_then_stopped_and_neither_once_it_takes_an_sdu() {
        let at = |micros| Time::from_micros(micros);
        let mut progress = Progress::default();
        assert!(progress.watch(7, at(0)) && !progress.watch(7, at(1)));
        assert_eq!(progress.look(7, at(49)), Pace::Idle);
        assert_eq!(progress.look(8, at(60)), Pace::Takes);
        assert_eq!(progress.look(8, at(109)), Pace::Idle, "since it took one");
        assert_eq!(progress.look(8, at(110)), Pace::Stalled);
        assert_eq!(progress.look(8, at(5059)), Pace::Stalled);
        assert_eq!(progress.look(8, at(5060)), Pace::Stopped);
        assert!(progress.has_stopped(8) && !progress.is_watched() && !progress.watch(8, at(6000)));
        assert!(!progress.has_stopped(9) && progress.watch(9, at(6000)));
        assert_eq!(progress.look(9, at(6049)), Pace::Idle);
    }
}
