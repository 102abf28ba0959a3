//! Scheduling that is entirely synchronous: the only interrupt is the clock's, which drives the scheduler (UPWARDS,
//! Smith 1990; Smith 2002, section 2). In a tick the network is looked at first, then tasks run in a fixed order, each
//! to its end; what they tell each other is in shared memory. No doorbell is asked for, nobody is woken, nothing
//! preempts.
//!
//! In: the time. Out: which slot runs next. [`Schedule`] decides, in virtual time as live; [`Executive`] has a network
//! and tasks run by it; [`Executive::run_live`] is the shell that sleeps from tick to tick, on one thread. What one
//! thread cannot do: other programs of the machine still preempt it, and other interrupts of the machine still come.

use net::Network;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;
use wire::Time;

/// When a task has its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// In every so-manieth tick.
    pub every: u32,
    /// The first of them.
    pub first: u32,
    /// How long it should take at most; longer is counted, as nothing interrupts it.
    pub budget: Duration,
}

/// What has come of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Ticks served.
    pub ticks: u64,
    /// Ticks that came while the tasks of an earlier one ran: not made up for.
    pub missed: u64,
    /// Turns that took longer than their budget.
    pub overruns: u64,
    /// The longest turn.
    pub longest: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    slot: Slot,
    /// Turns that had come by the tick that was served last.
    turns: u64,
}

/// The scheduler: a table of slots.
#[derive(Debug, Clone)]
pub struct Schedule {
    period: Duration,
    begun: Time,
    tick: u64,
    slots: Vec<Entry>,
    /// The slot of this tick that is considered next.
    next: usize,
    /// What has come of it.
    pub counts: Counts,
}

impl Schedule {
    /// A clock that ticks each `period` after `begun`.
    pub fn new(period: Duration, begun: Time) -> Self {
        let period = period.max(Duration::from_nanos(1));
        Schedule { period, begun, tick: 0, slots: Vec::new(), next: 0, counts: Counts::default() }
    }

    /// Adds a slot behind the others; gives its number.
    pub fn add(&mut self, slot: Slot) -> usize {
        self.slots.push(Entry { slot, turns: turns(slot, self.tick) });
        self.next = self.slots.len();
        self.slots.len() - 1
    }

    /// The next tick.
    pub fn poll_timeout(&self) -> Time {
        let nanos = self.period.as_nanos() as u64;
        Time::from_nanos(self.begun.as_nanos().saturating_add(nanos.saturating_mul(self.tick + 1)))
    }

    /// The clock ticks. False, if it does not yet.
    pub fn handle_tick(&mut self, now: Time) -> bool {
        if now < self.poll_timeout() {
            return false;
        }
        let tick = now.since(self.begun).as_nanos() as u64 / self.period.as_nanos() as u64;
        self.counts.ticks += 1;
        self.counts.missed += tick - self.tick - 1;
        (self.tick, self.next) = (tick, 0);
        true
    }

    /// The slot whose turn it is in this tick. One whose tick was missed has its turn in the next one, once.
    pub fn poll_slot(&mut self) -> Option<usize> {
        while let Some(entry) = self.slots.get_mut(self.next) {
            self.next += 1;
            let turns = turns(entry.slot, self.tick);
            if std::mem::replace(&mut entry.turns, turns) < turns {
                return Some(self.next - 1);
            }
        }
        None
    }

    /// A turn is over.
    pub fn handle_turn(&mut self, slot: usize, took: Duration) {
        self.counts.longest = self.counts.longest.max(took);
        let budget = self.slots.get(slot).map_or(Duration::MAX, |entry| entry.slot.budget);
        self.counts.overruns += u64::from(took > budget);
    }
}

/// How many turns a slot has had when a tick is over.
fn turns(slot: Slot, tick: u64) -> u64 {
    tick.checked_sub(u64::from(slot.first)).map_or(0, |since| since / u64::from(slot.every.max(1)) + 1)
}

/// A task: runs to its end, and is given the time of its tick.
pub type Task = Box<dyn FnMut(Time)>;

/// A network and tasks under one schedule.
pub struct Executive {
    network: Network,
    schedule: Schedule,
    tasks: Vec<Task>,
    rounds: u32,
}

impl std::fmt::Debug for Executive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executive").field("schedule", &self.schedule).finish_non_exhaustive()
    }
}

impl Executive {
    /// A clock that ticks each `period` after `begun`; each tick begins with `rounds` rounds of the network at most.
    pub fn new(network: Network, period: Duration, rounds: u32, begun: Time) -> Self {
        Executive { network, schedule: Schedule::new(period, begun), tasks: Vec::new(), rounds: rounds.max(1) }
    }

    /// Adds a task behind the others.
    pub fn add_task(&mut self, slot: Slot, task: impl FnMut(Time) + 'static) {
        self.schedule.add(slot);
        self.tasks.push(Box::new(task));
    }

    /// The network, between two ticks.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// What has come of the schedule.
    pub fn counts(&self) -> Counts {
        self.schedule.counts
    }

    /// The next tick.
    pub fn poll_timeout(&self) -> Time {
        self.schedule.poll_timeout()
    }

    /// Serves a tick: the network, then each task whose turn it is. `clock` tells what turns take.
    pub fn handle_timeout(&mut self, now: Time, mut clock: impl FnMut() -> Time) {
        if !self.schedule.handle_tick(now) {
            return;
        }
        for _ in 0..self.rounds {
            if !self.network.run(now) {
                break;
            }
        }
        let mut begun = clock();
        while let Some(slot) = self.schedule.poll_slot() {
            if let Some(task) = self.tasks.get_mut(slot) {
                task(now);
            }
            let ended = clock();
            self.schedule.handle_turn(slot, ended.since(begun));
            begun = ended;
        }
    }

    /// Runs on this thread and this machine's clock until `stop`, which is asked after each tick.
    ///
    /// # Errors
    /// The system's clock cannot be waited for.
    pub fn run_live(&mut self, mut stop: impl FnMut() -> bool) -> std::io::Result<()> {
        let begun = monotonic();
        let clock = || Time::ZERO + monotonic().saturating_sub(begun);
        loop {
            let due = begun + self.poll_timeout().since(Time::ZERO);
            let until = Timespec { tv_sec: due.as_secs() as i64, tv_nsec: due.subsec_nanos().into() };
            match clock_nanosleep_absolute(ClockId::Monotonic, &until) {
                Ok(()) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.handle_timeout(clock(), clock);
            if stop() {
                return Ok(());
            }
        }
    }
}

fn monotonic() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn slots_have_their_ticks_in_order_and_a_missed_turn_comes_once() {
        let mut schedule = Schedule::new(MS, Time::ZERO);
        let slot = |every, first| Slot { every, first, budget: MS };
        for (every, first) in [(1, 0), (4, 2), (1, 0)] {
            schedule.add(slot(every, first));
        }
        assert!(!schedule.handle_tick(Time::from_nanos(999_999)));
        let mut served = Vec::new();
        // Ticks 4 to 6 are missed, and with them the second slot's turn of tick 6.
        for micros in [1000, 2100, 3000, 7500, 8000, 9000, 10_000] {
            assert!(schedule.handle_tick(Time::from_micros(micros)));
            served.push(std::iter::from_fn(|| schedule.poll_slot()).collect::<Vec<_>>());
        }
        let (both, all) = (vec![0, 2], vec![0, 1, 2]);
        assert_eq!(served, [both.clone(), all.clone(), both.clone(), all.clone(), both.clone(), both, all]);
        assert_eq!((schedule.counts.ticks, schedule.counts.missed), (7, 3));
        assert_eq!(schedule.poll_timeout(), Time::from_millis(11));
    }

    #[test]
    fn a_turn_beyond_its_budget_is_counted() {
        let mut schedule = Schedule::new(MS, Time::ZERO);
        let slot = schedule.add(Slot { every: 1, first: 0, budget: MS / 2 });
        schedule.handle_turn(slot, MS / 2);
        schedule.handle_turn(slot, MS);
        assert_eq!((schedule.counts.overruns, schedule.counts.longest), (1, MS));
    }
}
