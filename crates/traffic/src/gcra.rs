//! The generic cell rate algorithm (I.371, TM 4.0 section 4.4.2): whether a cell conforms.
//!
//! Two forms that decide alike (a property test says so): [`Gcra`] schedules virtually and is what the rest uses;
//! [`LeakyBucket`] is the continuous-state form, kept as its witness.

use crate::clock::Fine;
use wire::Time;

/// GCRA(I, L) by virtual scheduling.
#[derive(Debug, Clone, Copy)]
pub struct Gcra {
    increment: Fine,
    limit: Fine,
    theoretical_arrival: Fine,
}

impl Gcra {
    /// `increment` I: the interval of the contract's rate; `limit` L: how early a cell may come.
    pub fn new(increment: Fine, limit: Fine) -> Self {
        Gcra { increment, limit, theoretical_arrival: Fine::ZERO }
    }

    /// Whether a cell that arrives at `now` conforms; only a cell that does moves the schedule.
    pub fn arrive(&mut self, now: Time) -> bool {
        let conforms = self.would_conform(now);
        if conforms {
            self.theoretical_arrival = self.theoretical_arrival.max(Fine::from(now)).plus(self.increment);
        }
        conforms
    }

    /// Whether a cell at `now` would conform.
    pub fn would_conform(&self, now: Time) -> bool {
        // ta < TAT - L, without going below zero.
        Fine::from(now).plus(self.limit) >= self.theoretical_arrival
    }

    /// The first moment at which a cell conforms.
    pub fn next_conforming(&self) -> Time {
        self.theoretical_arrival.minus(self.limit).ceil()
    }
}

/// GCRA(I, L) as a leaky bucket of depth L + I that drains continuously.
#[derive(Debug, Clone, Copy)]
pub struct LeakyBucket {
    increment: Fine,
    limit: Fine,
    content: Fine,
    last_conforming: Fine,
}

impl LeakyBucket {
    /// `increment` I and `limit` L as for [`Gcra::new`].
    pub fn new(increment: Fine, limit: Fine) -> Self {
        LeakyBucket { increment, limit, content: Fine::ZERO, last_conforming: Fine::ZERO }
    }

    /// Whether a cell that arrives at `now` conforms. Times must not go backwards.
    pub fn arrive(&mut self, now: Time) -> bool {
        let now = Fine::from(now);
        let content = self.content.minus(now.minus(self.last_conforming));
        if content > self.limit {
            return false;
        }
        self.content = content.plus(self.increment);
        self.last_conforming = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::CellRate;

    #[test]
    fn cells_at_the_contracts_rate_conform_forever_and_faster_ones_do_not() {
        let interval = Fine::interval(CellRate::from_cells_per_s(1e6).unwrap());
        let mut at_rate = Gcra::new(interval, Fine::ZERO);
        assert!((0..10_000).all(|i| at_rate.arrive(Time::from_micros(i))));
        let mut faster = Gcra::new(interval, Fine::ZERO);
        let conforming = (0..10_000).filter(|i| faster.arrive(Time::from_nanos(i * 500))).count();
        assert_eq!(conforming, 5_000);
    }

    #[test]
    fn the_limit_is_the_burst_that_tm_4_0_says() {
        // MBS = floor(1 + L / (I - delta)) back-to-back cells at distance delta conform.
        let (i, l, delta) = (10_000u64, 45_000u64, 2_500u64);
        let mut gcra = Gcra::new(Fine::from_nanos(i), Fine::from_nanos(l));
        let burst = (0..100).take_while(|n| gcra.arrive(Time::from_nanos(n * delta))).count() as u64;
        assert_eq!(burst, 1 + l / (i - delta));
    }

    #[test]
    fn the_next_conforming_moment_conforms_and_the_one_before_does_not() {
        let mut gcra = Gcra::new(Fine::interval(CellRate::OC3C), Fine::from_nanos(1_000));
        let mut now = Time::from_micros(5);
        for _ in 0..1000 {
            assert!(gcra.arrive(now));
            let next = gcra.next_conforming();
            if next > now {
                assert!(!gcra.would_conform(Time::from_nanos(next.as_nanos() - 1)));
            }
            now = next.max(now);
        }
    }

    proptest! {
        #[test]
        fn virtual_scheduling_and_leaky_bucket_decide_alike(
            increment in 1u64..100_000, limit in 0u64..500_000, gaps in proptest::collection::vec(0u64..150_000, 1..300),
        ) {
            let (i, l) = (Fine::from_nanos(increment), Fine::from_nanos(limit));
            let (mut scheduling, mut bucket) = (Gcra::new(i, l), LeakyBucket::new(i, l));
            let mut now = 0;
            for gap in gaps {
                now += gap;
                prop_assert_eq!(scheduling.arrive(Time::from_nanos(now)), bucket.arrive(Time::from_nanos(now)));
            }
        }
    }
}
