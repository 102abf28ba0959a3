//! A limit on the processor time that a thread spends on what comes to nothing.
//!
//! A host takes SDUs from a ring and carries them to a receiver whose ring is full. Where each SDU rings doorbells
//! (`interrupt`) and the thread shares a processor with the receiver and goes first, it can keep all of it: the
//! receiver never gets to take what would make room (receive livelock). So while much of what is carried is turned
//! away, the thread keeps to its cycle limit (Mogul and Ramakrishnan, *Eliminating receive livelock in an
//! interrupt-driven kernel*, 1997, section 7): it sleeps once it has used its share of a window. Whoever has something
//! else for it wakes it as from any sleep.
//!
//! Nobody pays for others: the limit holds only while the thread has nothing else to do. In the same window no SDU has
//! come to an application whose ring was not full lately, and nothing has passed a link that leaves the thread. It also
//! holds only while so much is turned away that the rest of its time is enough for what is not: with a limit of one
//! half while that is one half or more. So who is flooded gets no less for it.

use std::time::Duration;
use wire::Time;

/// How often a thread looks how it gets on.
const WINDOW: Duration = Duration::from_micros(400);
/// Of a processor; without another being set.
const LIMIT: f64 = 0.5;

/// A ring that was full so lately is full whenever nothing is taken from it.
const LATELY: Duration = Duration::from_millis(1);

/// SDUs that came for applications.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReceiveOutcome {
    /// Given to those whose receive rings were full lately, ...
    pub(crate) given: u64,
    /// ... dropped because one was full, ...
    pub(crate) turned_away: u64,
    /// ... and given to others.
    pub(crate) others: u64,
}

impl ReceiveOutcome {
    pub(crate) fn add(&mut self, more: ReceiveOutcome) {
        self.given += more.given;
        self.turned_away += more.turned_away;
        self.others += more.others;
    }

    /// The same, come for an application whose ring was full then.
    pub(crate) fn of(self, full: Option<Time>, now: Time) -> Self {
        match full.is_some_and(|full| now.since(full) < LATELY) {
            true => self,
            false => ReceiveOutcome { given: 0, others: self.others + self.given, ..self },
        }
    }

    /// What share of it was turned away; none if others got something.
    fn in_vain(self) -> f64 {
        match self.others {
            0 => self.turned_away as f64 / (self.given + self.turned_away).max(1) as f64,
            _ => 0.0,
        }
    }
}

/// What came for one application: its counters as they were last.
#[derive(Debug, Default)]
pub(crate) struct OutcomeMeter {
    given: u64,
    turned_away: u64,
    /// When its ring was found full last, as that was seen.
    full: Option<Time>,
}

impl OutcomeMeter {
    /// What has come since this was asked last, of counters that only grow.
    #[inline]
    pub(crate) fn take(&mut self, given: u64, turned_away: u64, now: Time) -> ReceiveOutcome {
        let more = |before: &mut u64, n: u64| n.wrapping_sub(std::mem::replace(before, n));
        let outcome = ReceiveOutcome {
            given: more(&mut self.given, given),
            turned_away: more(&mut self.turned_away, turned_away),
            others: 0,
        };
        if outcome.turned_away > 0 {
            self.full = Some(now);
        }
        outcome.of(self.full, now)
    }
}

/// How a thread gets on.
#[derive(Debug)]
pub(crate) struct CycleLimit {
    limit: f64,
    since: Time,
    /// The thread's processor time then.
    busy: Duration,
}

impl Default for CycleLimit {
    fn default() -> Self {
        CycleLimit { limit: LIMIT, since: Time::ZERO, busy: Duration::ZERO }
    }
}

impl CycleLimit {
    /// Shares of a processor from a tenth; 1: no limit.
    pub(crate) fn set_limit(&mut self, limit: f64) {
        self.limit = limit.clamp(0.1, 1.0);
    }

    pub(crate) fn limit(&self) -> f64 {
        self.limit
    }

    /// Whether it is time for [`CycleLimit::owes`].
    #[inline]
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.limit < 1.0 && now.since(self.since) >= WINDOW
    }

    /// For how long the thread would have to sleep now, so as to have used no more than its limit since the last time.
    /// `busy`: its processor time ever.
    pub(crate) fn owes(&mut self, now: Time, busy: Duration) -> Option<Duration> {
        let (all, used) = (now.since(self.since), busy.saturating_sub(self.busy));
        self.begin(now, busy);
        // However late it looks, and coarse the clock of its time is: no longer than after one window of nothing but
        // work.
        let owed = used.div_f64(self.limit).saturating_sub(all).min(WINDOW.div_f64(self.limit) - WINDOW);
        (!owed.is_zero()).then_some(owed)
    }

    /// Whether so much of what was carried was turned away, and nothing was for anybody else, that the limit holds.
    pub(crate) fn is_in_vain(&self, outcome: ReceiveOutcome) -> bool {
        outcome.in_vain() >= 1.0 - self.limit
    }

    /// Measures from now on.
    pub(crate) fn begin(&mut self, now: Time, busy: Duration) {
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
        let mut cycle_limit = CycleLimit::default();
        cycle_limit.set_limit(0.75);
        cycle_limit.begin(at(500), us(100));
        assert!(!cycle_limit.is_due(at(899)) && cycle_limit.is_due(at(900)));
        assert_eq!(cycle_limit.owes(at(940), us(520)), Some(us(120)), "420 of 440 and 120");
        assert_eq!(cycle_limit.owes(at(1340), us(820)), None, "300 of 400");
        assert_eq!(cycle_limit.owes(at(1740), us(1123)), Some(us(4)), "303 of 404");
        assert_eq!(cycle_limit.owes(at(11_740), us(11_123)), Some(WINDOW.div_f64(0.75) - WINDOW), "at most");
        cycle_limit.begin(at(14_000), us(13_000));
        assert_eq!(cycle_limit.owes(at(15_000), us(13_100)), None, "asleep most of the time");
    }

    #[test]
    fn a_limit_is_a_share_of_a_processor_from_a_tenth_and_a_whole_one_is_none() {
        let owes = |limit: Option<f64>| {
            let mut cycle_limit = CycleLimit::default();
            limit.into_iter().for_each(|limit| cycle_limit.set_limit(limit));
            cycle_limit.is_due(at(400)).then(|| cycle_limit.owes(at(400), us(400))).flatten()
        };
        assert_eq!(owes(None), Some(us(400)), "half");
        assert_eq!((owes(Some(0.1)), owes(Some(0.0))), (Some(us(3600)), Some(us(3600))));
        assert_eq!((owes(Some(1.0)), owes(Some(2.0))), (None, None));
    }

    #[test]
    fn the_limit_holds_while_what_is_not_turned_away_needs_no_more_and_nobody_else_gets_anything() {
        const HALF: ReceiveOutcome = ReceiveOutcome { given: 40, turned_away: 40, others: 0 };
        let mut cycle_limit = CycleLimit::default();
        assert!(cycle_limit.is_in_vain(HALF));
        assert!(!cycle_limit.is_in_vain(ReceiveOutcome::default()), "of those that no host sees");
        assert!(!cycle_limit.is_in_vain(ReceiveOutcome { turned_away: 39, ..HALF }));
        assert!(!cycle_limit.is_in_vain(ReceiveOutcome { given: 41, ..HALF }), "somebody takes what he is given");
        assert!(!cycle_limit.is_in_vain(ReceiveOutcome { others: 1, ..HALF }), "somebody else waits for something");
        cycle_limit.set_limit(0.25);
        let three_quarters = ReceiveOutcome { given: 20, turned_away: 60, others: 0 };
        assert!(
            cycle_limit.is_in_vain(three_quarters)
                && !cycle_limit.is_in_vain(ReceiveOutcome { given: 21, ..three_quarters })
        );
        let mut sum = HALF;
        sum.add(ReceiveOutcome { given: 1, turned_away: 2, others: 3 });
        assert_eq!(sum, ReceiveOutcome { given: 41, turned_away: 42, others: 3 });
    }

    #[test]
    fn who_was_full_a_millisecond_ago_is_somebody_else() {
        let came = ReceiveOutcome { given: 3, turned_away: 2, others: 0 };
        assert_eq!(came.of(Some(at(500)), at(1499)), came);
        let others = ReceiveOutcome { given: 0, turned_away: 2, others: 3 };
        assert_eq!((came.of(Some(at(500)), at(1500)), came.of(None, at(1500))), (others, others));
    }
}
