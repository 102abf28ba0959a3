//! A limit on the processor time that a thread spends on what comes to nothing.
//!
//! A host takes SDUs from a ring and carries them to a receiver whose ring is full. Where each SDU rings doorbells
//! (`interrupt`) and the thread shares a processor with the receiver and goes first, it can keep all of it: the receiver never
//! gets to take what would make room (receive livelock). So while much of what is carried is turned away, the thread keeps to
//! its cycle limit (Mogul and Ramakrishnan, *Eliminating receive livelock in an interrupt-driven kernel*, 1997, section 7): it
//! sleeps once it has used its share of a window. Whoever has something else for it wakes it as from any sleep.
//!
//! With a limit of one half that is so while half of all SDUs or more are turned away. So the other half of its time is enough
//! for those that are not, and no receiver gets less for it.

use std::time::Duration;
use wire::Time;

/// How often a thread looks how it gets on.
const WINDOW: Duration = Duration::from_micros(400);
/// Of a processor; without another being set.
const LIMIT: f64 = 0.5;

/// SDUs that hosts have carried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Taken from applications, ...
    pub(crate) taken: u64,
    /// ... given to applications, ...
    pub(crate) given: u64,
    /// ... and dropped because a receive ring was full.
    pub(crate) turned_away: u64,
}

impl Carried {
    pub(crate) fn add(&mut self, other: Carried) {
        self.taken += other.taken;
        self.given += other.given;
        self.turned_away += other.turned_away;
    }

    /// What share of it was turned away. What leaves for elsewhere was taken and is not turned away here.
    fn in_vain(self) -> f64 {
        let all = self.taken.max(self.given + self.turned_away);
        self.turned_away as f64 / all.max(1) as f64
    }
}

/// How a thread gets on.
#[derive(Debug)]
pub(super) struct Effort {
    limit: f64,
    since: Time,
    /// The thread's processor time then.
    busy: Duration,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { limit: LIMIT, since: Time::ZERO, busy: Duration::ZERO }
    }
}

impl Effort {
    /// Shares of a processor from a tenth; 1: no limit.
    pub(super) fn set_limit(&mut self, limit: f64) {
        self.limit = limit.clamp(0.1, 1.0);
    }

    pub(super) fn limit(&self) -> f64 {
        self.limit
    }

    /// Whether it is time for [`Effort::owes`].
    #[inline]
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.limit < 1.0 && now.since(self.since) >= WINDOW
    }

    /// For how long the thread would have to sleep now, so as to have used no more than its limit since the last time. `busy`:
    /// its processor time ever.
    pub(super) fn owes(&mut self, now: Time, busy: Duration) -> Option<Duration> {
        let (all, used) = (now.since(self.since), busy.saturating_sub(self.busy));
        self.begin(now, busy);
        // However late it looks, and coarse the clock of its time is: no longer than after one window of nothing but work.
        let owed = used.div_f64(self.limit).saturating_sub(all).min(WINDOW.div_f64(self.limit) - WINDOW);
        (!owed.is_zero()).then_some(owed)
    }

    /// Whether so much of what was carried is turned away that the limit holds.
    pub(super) fn is_in_vain(&self, carried: Carried) -> bool {
        carried.in_vain() >= 1.0 - self.limit
    }

    /// Measures from now on.
    pub(super) fn begin(&mut self, now: Time, busy: Duration) {
        (self.since, self.busy) = (now, busy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    fn at(n: u64) -> Time {
        Time::ZERO + us(n)
    }

    #[test]
    fn a_thread_owes_what_it_has_used_beyond_its_limit() {
        let mut effort = Effort::default();
        effort.set_limit(0.75);
        effort.begin(at(500), us(100));
        assert!(!effort.is_due(at(899)) && effort.is_due(at(900)));
        assert_eq!(effort.owes(at(940), us(520)), Some(us(120)), "420 of 440 and 120");
        assert_eq!(effort.owes(at(1340), us(820)), None, "300 of 400");
        assert_eq!(effort.owes(at(1740), us(1123)), Some(us(4)), "303 of 404");
        assert_eq!(effort.owes(at(11_740), us(11_123)), Some(WINDOW.div_f64(0.75) - WINDOW), "at most");
        effort.begin(at(14_000), us(13_000));
        assert_eq!(effort.owes(at(15_000), us(13_100)), None, "asleep most of the time");
    }

    #[test]
    fn a_limit_is_a_share_of_a_processor_from_a_tenth_and_a_whole_one_is_none() {
        let owes = |limit: Option<f64>| {
            let mut effort = Effort::default();
            limit.into_iter().for_each(|limit| effort.set_limit(limit));
            effort.is_due(at(400)).then(|| effort.owes(at(400), us(400))).flatten()
        };
        assert_eq!(owes(None), Some(us(400)), "half");
        assert_eq!((owes(Some(0.1)), owes(Some(0.0))), (Some(us(3600)), Some(us(3600))));
        assert_eq!((owes(Some(1.0)), owes(Some(2.0))), (None, None));
    }

    #[test]
    fn the_limit_holds_while_what_is_not_turned_away_needs_no_more() {
        const HALF: Carried = Carried { taken: 80, given: 40, turned_away: 40 };
        let mut effort = Effort::default();
        assert!(effort.is_in_vain(HALF));
        assert!(effort.is_in_vain(Carried { taken: 0, ..HALF }), "they come from elsewhere");
        assert!(!effort.is_in_vain(Carried::default()), "of those that no host sees");
        assert!(!effort.is_in_vain(Carried { turned_away: 39, ..HALF }));
        assert!(!effort.is_in_vain(Carried { given: 41, ..HALF }), "somebody takes what he is given");
        assert!(!effort.is_in_vain(Carried { taken: 81, ..HALF }), "some of it goes elsewhere");
        effort.set_limit(0.25);
        let three_quarters = Carried { taken: 80, given: 20, turned_away: 60 };
        assert!(effort.is_in_vain(three_quarters) && !effort.is_in_vain(Carried { given: 21, ..three_quarters }));
        let mut sum = HALF;
        sum.add(Carried { taken: 1, given: 2, turned_away: 3 });
        assert_eq!(sum, Carried { taken: 81, given: 42, turned_away: 43 });
    }
}
