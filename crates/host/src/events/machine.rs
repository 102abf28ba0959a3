//! The strategies themselves: when to look at one endpoint, how much to take, when to tell its application.
//!
//! In: wake-ups (a doorbell, a due time) and what a look found. Out: how much the next look may take, and what comes
//! after this one. No clock, no system call: the engine drives it on this machine's clock, the laboratory in virtual
//! time.

use endpoint::Events;
use endpoint::events::ASLEEP_HERTZ;
use endpoint::waiting::YIELDS;
use std::time::Duration;
use wire::Time;

/// A `hybrid` endpoint at which nothing happens for so long goes back to interrupts.
pub const LINGER: Duration = Duration::from_micros(20);
/// A `hybrid` endpoint that has used its quota while applications are behind rests so long at most.
pub const REST: Duration = Duration::from_millis(1);
/// So many SDUs leave between two rests for receivers that are behind, of a `hybrid` endpoint that sends to no others, or
/// of a channel: each may be lost.
pub const PRESSED_QUOTA: u32 = 8;
/// A `hybrid` endpoint's quota is this part of its send ring at least: with many small SDUs a look at a time would
/// bring few octets.
const BURST_OF_RING: u32 = 16;
/// An application with SDUs to take that has taken none for so long, while the host was looking, is held up by the host
/// perhaps: they may share a processor.
pub const STALL: Duration = Duration::from_micros(50);
/// `soft`: the loop passes at least this often.
pub const SOFT_BACKUP: Duration = Duration::from_millis(1);

/// What a look at an endpoint found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Descriptors taken, or SDUs delivered: anything that was done.
    pub worked: bool,
    /// More waits.
    pub waiting: bool,
    /// Some application on this machine is behind with its receive ring.
    pub pressed: bool,
    /// Some application on this machine gets on only while the host sleeps ([`STALL`]).
    pub stalled: bool,
}

/// What to do with the endpoint after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Look again in the next round.
    Stay,
    /// Ask for its doorbell and look no more until it rings.
    Arm,
    /// Look again at this time.
    At(Time),
}

/// The strategy of one endpoint.
#[derive(Debug, Clone)]
pub struct Machine {
    kind: Events,
    /// Descriptors of a full send ring: what one tick takes at most.
    slots: u32,
    budget: u32,
    quiet_since: Option<Time>,
    /// Looks since then.
    quiet_looks: u32,
    /// It waits for [`Next::At`], not for a doorbell.
    waits: bool,
}

impl Machine {
    /// A strategy for an endpoint whose send ring has `slots` slots.
    pub fn new(kind: Events, slots: u32) -> Self {
        let mut machine = Machine { kind, slots, budget: 0, quiet_since: None, quiet_looks: 0, waits: true };
        machine.handle_wake();
        machine
    }

    /// Which it is.
    pub fn kind(&self) -> Events {
        self.kind
    }

    /// Whether an application is told of each SDU as it comes (else at the end of a round, or at a tick).
    pub fn tells_at_once(&self) -> bool {
        self.kind == Events::Interrupt
    }

    /// Whether an application is told at ticks only.
    pub fn tells_at_ticks(&self) -> bool {
        matches!(self.kind, Events::Clocked { .. } | Events::Soft { .. })
    }

    /// Whether its times are for points that the loop passes anyway, and need no alarm of their own before
    /// [`SOFT_BACKUP`].
    pub fn is_soft(&self) -> bool {
        matches!(self.kind, Events::Soft { .. })
    }

    /// Whether it is `hybrid`: an SDU for its application is a reason to look at it, since an answer may follow, and a
    /// pause of it ends once its receivers have caught up, not at a time of its own.
    pub fn is_hybrid(&self) -> bool {
        matches!(self.kind, Events::Hybrid { .. })
    }

    /// Whether others make room for its application when that is behind.
    pub fn is_protected(&self) -> bool {
        self.kind != Events::Interrupt
    }

    /// A doorbell rang, or the time of [`Next::At`] has come.
    pub fn handle_wake(&mut self) {
        (self.quiet_since, self.quiet_looks) = (None, 0);
        let waited = std::mem::take(&mut self.waits);
        self.budget = match self.kind {
            Events::Interrupt | Events::Polling => u32::MAX,
            Events::Clocked { .. } | Events::Soft { .. } => self.slots,
            // Not with each doorbell: many that bring one descriptor each must use up the quota too.
            Events::Hybrid { quota } if waited => self.burst(quota),
            Events::Hybrid { .. } => self.budget,
        };
    }

    /// Descriptors that a `hybrid` endpoint may send until somebody is seen to be behind: its quota, and a small part
    /// of its ring at least.
    fn burst(&self, quota: u32) -> u32 {
        quota.max(self.slots / BURST_OF_RING).max(1)
    }

    /// How many descriptors the next look may take. While an application is behind, a tick takes none.
    pub fn quota(&self, pressed: bool) -> u32 {
        if pressed && self.tells_at_ticks() { 0 } else { self.budget }
    }

    /// The same for an endpoint whose circuits all have credits: they hold it back where an application is behind.
    pub fn lossless_quota(&self) -> u32 {
        if self.is_hybrid() { u32::MAX } else { self.budget }
    }

    /// All its receivers are behind: it sends a few until the next rest, which is to find out whether they get on.
    pub fn handle_pressure(&mut self) {
        if self.is_hybrid() {
            self.budget = self.budget.min(PRESSED_QUOTA);
        }
    }

    /// Whether it sends less while its receivers are behind.
    pub fn pauses(&self) -> bool {
        self.tells_at_ticks() || self.is_hybrid()
    }

    /// Descriptors were taken.
    pub fn handle_taken(&mut self, n: u32) {
        if !matches!(self.kind, Events::Interrupt | Events::Polling) {
            self.budget = self.budget.saturating_sub(n);
        }
    }

    /// The end of a look at `now`.
    pub fn handle_look(&mut self, look: Look, now: Time) -> Next {
        match self.kind {
            Events::Polling => Next::Stay,
            Events::Interrupt if look.waiting => Next::Stay,
            Events::Interrupt => Next::Arm,
            Events::Clocked { .. } | Events::Soft { .. } if look.waiting && self.budget > 0 && !look.pressed => {
                Next::Stay
            }
            Events::Clocked { hertz } => Next::At(next_tick(now, hertz)),
            Events::Soft { hertz } => Next::At(now + period(hertz)),
            Events::Hybrid { quota } => {
                if !look.pressed {
                    self.budget = self.burst(quota);
                } else if self.budget == 0 {
                    self.waits = true;
                    return Next::At(now + REST);
                }
                if look.worked || look.waiting {
                    (self.quiet_since, self.quiet_looks) = (None, 0);
                    return Next::Stay;
                }
                let since = *self.quiet_since.get_or_insert(now);
                self.quiet_looks += 1;
                // The thread yields between two looks. Where that does not give an application the processor that it is
                // waiting for, the thread sleeps after a few.
                let tired = look.stalled && self.quiet_looks > YIELDS;
                if !tired && now.since(since) < LINGER { Next::Stay } else { Next::Arm }
            }
        }
    }
}

fn period(hertz: u32) -> Duration {
    Duration::from_nanos(1_000_000_000 / u64::from(hertz.max(1)))
}

/// The clock's next tick after `now`. All clocks of a rate tick together: one alarm serves all circuits. Those between
/// whose ticks the thread sleeps tick at multiples of the shortest such period: different ones together do not keep it
/// awake.
fn next_tick(now: Time, hertz: u32) -> Time {
    let nanos = period(hertz).as_nanos() as u64;
    let tick = (now.as_nanos() / nanos + 1) * nanos;
    let shortest = period(ASLEEP_HERTZ).as_nanos() as u64;
    Time::from_nanos(if nanos < shortest { tick } else { tick.next_multiple_of(shortest) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Look = Look { worked: false, waiting: false, pressed: false, stalled: false };
    const MORE: Look = Look { worked: true, waiting: true, ..NOTHING };

    fn us(n: u64) -> Time {
        Time::from_micros(n)
    }

    #[test]
    fn an_interrupt_per_event_and_none_while_there_is_work() {
        let mut m = Machine::new(Events::Interrupt, 8);
        assert_eq!(m.handle_look(MORE, us(0)), Next::Stay);
        assert_eq!(m.handle_look(NOTHING, us(1)), Next::Arm);
        assert_eq!(Machine::new(Events::Polling, 8).handle_look(NOTHING, us(1_000_000)), Next::Stay);
    }

    #[test]
    fn a_clock_ticks_at_multiples_of_its_period_and_takes_a_ring_at_most() {
        let mut m = Machine::new(Events::Clocked { hertz: 1000 }, 8);
        assert_eq!(m.handle_look(MORE, us(1300)), Next::Stay);
        m.handle_taken(8);
        assert_eq!(m.handle_look(MORE, us(1301)), Next::At(us(2000)));
        m.handle_wake();
        assert_eq!((m.quota(false), m.quota(true)), (8, 0));
        assert_eq!(m.handle_look(NOTHING, us(2000)), Next::At(us(3000)));
    }

    #[test]
    fn different_clocks_tick_together_four_thousand_times_a_second_at_most_and_each_as_often_as_it_is_to() {
        let mut all = std::collections::BTreeSet::new();
        for hertz in [1, 50, 999, 1000, 1001, 2999, 3000, 3001, 3998, 3999, 4000] {
            let mut now = Time::ZERO;
            for _ in 0..hertz {
                now = next_tick(now, hertz);
                all.insert(now.as_nanos());
            }
            assert!((us(999_990)..us(1_000_250)).contains(&now), "{hertz} Hz: a second ends at {now:?}");
        }
        assert!(all.len() <= 4001, "{} ticks", all.len());
        // A faster one keeps its thread awake, and its times.
        assert_eq!(next_tick(us(110), 10_000), us(200));
    }

    #[test]
    fn hybrid_lingers_then_goes_back_to_interrupts() {
        let mut m = Machine::new(Events::default(), 8);
        assert_eq!(m.handle_look(MORE, us(10)), Next::Stay);
        assert_eq!(m.handle_look(NOTHING, us(11)), Next::Stay);
        assert_eq!(m.handle_look(NOTHING, us(30)), Next::Stay);
        assert_eq!(m.handle_look(NOTHING, us(31)), Next::Arm);
    }

    #[test]
    fn hybrid_rests_when_its_quota_is_used_and_an_application_is_behind() {
        let mut m = Machine::new(Events::Hybrid { quota: 4 }, 8);
        m.handle_taken(4);
        assert_eq!(m.handle_look(MORE, us(10)), Next::Stay, "nobody is behind");
        assert_eq!(m.quota(true), 4);
        m.handle_taken(3);
        let pressed = Look { pressed: true, ..MORE };
        assert_eq!(m.handle_look(pressed, us(11)), Next::Stay, "one is left");
        m.handle_taken(1);
        assert_eq!(m.handle_look(pressed, us(12)), Next::At(us(12) + REST));
        m.handle_wake();
        assert_eq!(m.quota(true), 4);
    }

    #[test]
    fn hybrid_takes_a_sixteenth_of_a_large_ring_at_once() {
        assert_eq!(Machine::new(Events::Hybrid { quota: 32 }, 512).quota(false), 32);
        let mut m = Machine::new(Events::Hybrid { quota: 32 }, 1024);
        assert_eq!(m.quota(false), 64);
        m.handle_taken(64);
        assert_eq!(m.handle_look(MORE, us(1)), Next::Stay);
        assert_eq!(m.quota(true), 64);
    }

    #[test]
    fn hybrid_takes_few_for_those_that_are_behind() {
        let mut m = Machine::new(Events::Hybrid { quota: 32 }, 64);
        m.handle_pressure();
        assert_eq!(m.quota(true), PRESSED_QUOTA);
        m.handle_taken(PRESSED_QUOTA);
        assert_eq!(m.handle_look(Look { pressed: true, ..MORE }, us(1)), Next::At(us(1) + REST));
        m.handle_wake();
        assert_eq!(m.quota(true), 32, "until it is seen again that they are behind");
    }

    #[test]
    fn hybrid_looks_a_few_times_where_an_application_gets_on_only_while_it_sleeps() {
        let mut m = Machine::new(Events::default(), 8);
        let stalled = Look { stalled: true, ..NOTHING };
        assert_eq!(m.handle_look(Look { stalled: true, ..MORE }, us(10)), Next::Stay, "there is work");
        for _ in 0..YIELDS {
            assert_eq!(m.handle_look(stalled, us(11)), Next::Stay);
        }
        assert_eq!(m.handle_look(stalled, us(11)), Next::Arm);
    }

    #[test]
    fn descriptors_that_come_with_a_doorbell_each_use_up_the_quota_too() {
        let mut m = Machine::new(Events::Hybrid { quota: 4 }, 8);
        let pressed = Look { worked: true, waiting: false, pressed: true, stalled: true };
        for i in 0..3 {
            m.handle_wake();
            m.handle_taken(1);
            assert_eq!(m.handle_look(pressed, us(i)), Next::Stay);
            let quiet = Look { worked: false, ..pressed };
            assert_eq!((0..=YIELDS).map(|_| m.handle_look(quiet, us(i))).last(), Some(Next::Arm));
        }
        m.handle_wake();
        m.handle_taken(1);
        assert_eq!(m.handle_look(pressed, us(9)), Next::At(us(9) + REST));
    }
}
