//! The one policy by which a thread waits for another: for room or messages of an endpoint or a direct circuit, and the
//! engine for work.
//!
//! It spins only while the other side is known to run on another processor, gives its own processor away
//! [`YIELDS`] times, and then sleeps. A thread that spins where the thread that it waits for wants to run holds it
//! up for a whole time slice. An application that has slept for a short time goes on yielding at its next waits
//! ([`Patience`]). Pure arithmetic: the callers look, yield and sleep.

use crate::control::Events;
use std::time::Duration;

/// A thread that waits gives its processor away so often before it sleeps.
pub const YIELDS: u32 = 8;
/// Looks between two yields, about two microseconds, while the other side runs on another processor.
pub const LOOKS: u32 = 100;
/// The same for who never sleeps: its processor may be another poller's too, and a yield to nobody is cheap.
pub const POLLING_LOOKS: u32 = 8;
/// A thread that sleeps is woken as a futex for so long; after that by a descriptor, beside which it hears of the end.
pub const DOZE: Duration = Duration::from_millis(10);

/// A thread that is patient goes on giving its processor away for so long. To wake one that sleeps takes tens of
/// microseconds, more where its processor sleeps too, and each round trip has several.
pub const PATIENCE: Duration = Duration::from_micros(200);
/// A yield that took longer gave the processor to somebody who needs it for longer: the thread sleeps.
pub const LONG_YIELD: Duration = Duration::from_micros(50);
/// Sleeps before a thread whose patience was in vain has some again, ...
const IMPATIENT_SLEEPS: u8 = 16;
/// ... and where it gave its processor to somebody who needs it.
const IMPATIENT_SLEEPS_BESIDE: u8 = 255;

/// What a thread that found nothing does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Looks again at once.
    Look,
    /// Gives its processor away, then looks.
    Yield,
    /// Sleeps.
    Sleep,
}

/// One wait.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// Looks between two yields.
    looks: u32,
    /// Looks until the next yield.
    left: u32,
    /// Yields until it sleeps; `None`: it never does.
    yields: Option<u32>,
}

impl Waiting {
    /// A wait with `looks` looks between two yields and `yields` of them before a sleep; `None`: without one.
    pub fn new(looks: u32, yields: Option<u32>) -> Self {
        Waiting { looks, left: looks, yields }
    }

    /// An application's wait for its host, by the endpoint's event strategy.
    pub fn of(events: Events) -> Self {
        match events {
            Events::Interrupt | Events::Clocked { .. } | Events::Soft { .. } => Waiting::new(0, Some(0)),
            Events::Hybrid { .. } => Waiting::new(LOOKS, Some(YIELDS)),
            Events::Polling => Waiting::new(POLLING_LOOKS, None),
        }
    }

    /// A look has found nothing. `elsewhere`: the other side is known to run on another processor.
    #[inline]
    pub fn handle_nothing(&mut self, elsewhere: bool) -> Next {
        if elsewhere && self.left > 0 {
            self.left -= 1;
            return Next::Look;
        }
        self.left = self.looks;
        match &mut self.yields {
            None => Next::Yield,
            Some(0) => Next::Sleep,
            Some(yields) => {
                *yields -= 1;
                Next::Yield
            }
        }
    }
}

/// Whether a thread goes on giving its processor away before it sleeps, learnt from its waits. Two that answer each
/// other would else both sleep, each for as long as it takes to wake the other. For waits after something was sent: who
/// only receives has more to take after a sleep, and takes it together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Patience {
    patient: bool,
    /// Somebody else needs the processor.
    beside: bool,
    /// Sleeps that count for nothing.
    vain: u8,
}

impl Patience {
    /// Whether the thread yields once more, which has waited for so long, and had when it yielded last.
    #[inline]
    pub fn lasts(&mut self, waited: Duration, last: Duration) -> bool {
        self.beside |= self.patient && waited.saturating_sub(last) >= LONG_YIELD;
        self.patient && !self.beside && waited < PATIENCE
    }

    /// A wait has ended in a sleep, after `waited` in all.
    pub fn handle_sleep(&mut self, waited: Duration) {
        if self.patient {
            let vain = if self.beside { IMPATIENT_SLEEPS_BESIDE } else { IMPATIENT_SLEEPS };
            *self = Patience { vain, ..Patience::default() };
        } else if self.vain > 0 {
            self.vain -= 1;
        } else {
            // Part of the time went into waking and being woken: twice as long might have been short enough.
            self.patient = waited <= 2 * PATIENCE;
        }
    }
}

/// The processor that this thread runs on, counted from 1.
pub fn processor() -> u32 {
    rustix::thread::sched_getcpu() as u32 + 1
}

/// Whether a thread that has published `theirs` ([`processor`]; 0: unknown, or asleep) runs on another processor than
/// this one.
pub fn is_elsewhere(theirs: u32) -> bool {
    theirs != 0 && theirs != processor()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(mut waiting: Waiting, elsewhere: bool, most: usize) -> Vec<Next> {
        let mut all = Vec::new();
        while all.len() < most && all.last() != Some(&Next::Sleep) {
            all.push(waiting.handle_nothing(elsewhere));
        }
        all
    }

    #[test]
    fn where_the_other_side_may_want_this_processor_it_gets_it_eight_times_before_a_sleep() {
        let all = steps(Waiting::of(Events::default()), false, 1000);
        assert_eq!(all.len(), 9);
        assert!(all[..8].iter().all(|step| *step == Next::Yield));
    }

    #[test]
    fn a_thread_spins_only_while_the_other_side_runs_elsewhere() {
        let all = steps(Waiting::of(Events::default()), true, 10_000);
        assert_eq!(all.iter().filter(|step| **step == Next::Yield).count(), 8);
        assert_eq!(all.iter().filter(|step| **step == Next::Look).count(), 9 * LOOKS as usize);
    }

    #[test]
    fn who_slept_for_a_short_time_yields_for_longer_until_that_was_in_vain() {
        const US: fn(u64) -> Duration = Duration::from_micros;
        let mut patience = Patience::default();
        assert!(!patience.lasts(US(60), US(0)));
        patience.handle_sleep(US(401));
        assert!(!patience.lasts(US(0), US(0)), "a long sleep is no reason");
        patience.handle_sleep(US(400));
        assert!(patience.lasts(US(199), US(150)));
        assert!(!patience.lasts(US(200), US(199)), "not for ever");
        patience.handle_sleep(US(300));
        let sleeps_until_patient = |patience: &mut Patience| {
            let mut sleeps = 0;
            while !patience.lasts(US(0), US(0)) {
                patience.handle_sleep(US(100));
                sleeps += 1;
            }
            sleeps
        };
        assert_eq!(sleeps_until_patient(&mut patience), 17);
        assert!(!patience.lasts(US(60), US(10)), "somebody needs the processor");
        assert!(!patience.lasts(US(61), US(60)), "and gets it");
        patience.handle_sleep(US(300));
        assert_eq!(sleeps_until_patient(&mut patience), 256);
    }

    #[test]
    fn an_interrupt_is_slept_for_and_a_poller_never_sleeps() {
        assert_eq!(steps(Waiting::of(Events::Interrupt), false, 10), [Next::Sleep]);
        assert!(steps(Waiting::of(Events::Polling), false, 100).iter().all(|step| *step == Next::Yield));
        assert!(!steps(Waiting::of(Events::Polling), true, 1000).contains(&Next::Sleep));
    }
}
