//! Clock division (Smith 2002, section 3.2): the machine's interval timer goes faster than the kernel's clock, and each of
//! its users has every so-manieth of its ticks. So a device is looked at often, and time is kept as before.
//!
//! In: the time. Out: how many of each user's ticks are due, and when the timer is next. As PA-RISC's interval timer, it is
//! set to the last moment plus a period, so that ticks do not drift with how late they are served.

use core::time::Duration;
use wire::Time;

/// What a tick of a user is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    /// Each counts: time of day, and process times.
    MadeUpFor,
    /// A look now is as good as several: devices.
    Forgotten,
}

#[derive(Debug, Clone, Copy)]
struct User {
    divisor: u64,
    missed: Missed,
    /// Ticks of the timer that it has seen.
    seen: u64,
}

/// The timer.
#[derive(Debug, Clone)]
pub struct Division {
    period: Duration,
    begun: Time,
    ticks: u64,
    users: Vec<User>,
    /// Interrupts of the timer that were served.
    pub interrupts: u64,
}

impl Division {
    /// A timer that interrupts each `period` after `now`.
    pub fn new(period: Duration, now: Time) -> Self {
        let period = period.max(Duration::from_nanos(1));
        Division { period, begun: now, ticks: 0, users: Vec::new(), interrupts: 0 }
    }

    /// Gives every `divisor`th tick to a new user; gives its number.
    pub fn add(&mut self, divisor: u32, missed: Missed) -> usize {
        self.users.push(User { divisor: u64::from(divisor.max(1)), missed, seen: self.ticks });
        self.users.len() - 1
    }

    /// The timer's next interrupt.
    pub fn poll_timeout(&self) -> Time {
        self.at(self.ticks + 1)
    }

    fn at(&self, tick: u64) -> Time {
        let nanos = self.period.as_nanos() as u64;
        Time::from_nanos(self.begun.as_nanos().saturating_add(nanos.saturating_mul(tick)))
    }

    /// Serves the timer's interrupt, if it has come. Late, it stands for all ticks since.
    pub fn handle_timeout(&mut self, now: Time) {
        if now < self.poll_timeout() {
            return;
        }
        self.interrupts += 1;
        self.ticks = now.since(self.begun).as_nanos() as u64 / self.period.as_nanos() as u64;
    }

    /// How many of a user's ticks are due; they are not any more.
    pub fn poll_due(&mut self, user: usize) -> u64 {
        let ticks = self.ticks;
        let Some(user) = self.users.get_mut(user) else { return 0 };
        let due = ticks / user.divisor - user.seen / user.divisor;
        user.seen = ticks;
        if user.missed == Missed::Forgotten { due.min(1) } else { due }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_of_2000_hz_keeps_a_clock_of_100_and_looks_500_times_a_second() {
        let mut timer = Division::new(Duration::from_micros(500), Time::ZERO);
        let [clock, device] = [timer.add(20, Missed::MadeUpFor), timer.add(4, Missed::Forgotten)];
        let mut due = [0; 2];
        for _ in 0..2000 {
            // Served up to 400 us late, which makes no later tick later.
            let late = Duration::from_micros(timer.interrupts * 37 % 400);
            timer.handle_timeout(timer.poll_timeout() + late);
            due[0] += timer.poll_due(clock);
            due[1] += timer.poll_due(device);
        }
        assert_eq!((due, timer.interrupts), ([100, 500], 2000));
        assert_eq!(timer.poll_timeout(), Time::from_micros(2001 * 500));
    }

    #[test]
    fn time_that_a_processor_spent_elsewhere_is_kept_and_its_looks_are_not_made_up_for() {
        let mut timer = Division::new(Duration::from_micros(500), Time::from_millis(3));
        let [clock, device] = [timer.add(20, Missed::MadeUpFor), timer.add(4, Missed::Forgotten)];
        timer.handle_timeout(Time::from_millis(3));
        assert_eq!((timer.poll_due(clock), timer.poll_due(device), timer.interrupts), (0, 0, 0));
        timer.handle_timeout(Time::from_micros(3_000 + 35_200));
        assert_eq!((timer.poll_due(clock), timer.poll_due(device), timer.interrupts), (3, 1, 1));
        assert_eq!((timer.poll_due(clock), timer.poll_due(device)), (0, 0));
        assert_eq!(timer.poll_timeout(), Time::from_micros(3_000 + 35_500));
    }
}
