//! One processor, one host, one application, and more arriving than they can take: the event strategies of
//! [`host::events::machine`] under load, in virtual time (seed 004, section 3.1; Mogul and Ramakrishnan's receive livelock).
//!
//! The host works at interrupt level: it goes before the application. Only the poller is a process like the application, and
//! shares the processor with it. An arrival that finds the adapter's ring full is lost and costs nothing; one that
//! finds the application's ring full has cost the host its work.

use crate::model::{Profile, ProfileError};
use endpoint::Events;
use host::events::machine::{Look, Machine, Next, STALL};
use std::collections::VecDeque;
use std::time::Duration;
use wire::Time;

/// Descriptors of one look.
const BATCH: u32 = 64;

/// What things cost, and how much waits where.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// An interrupt, or a clock's tick: C of the paper.
    pub interrupt: Duration,
    /// The host's work for one SDU: alpha.
    pub host: Duration,
    /// The application's work for one SDU.
    pub application: Duration,
    /// A look that finds nothing.
    pub look: Duration,
    /// SDUs that wait in the adapter, and in the application's receive ring.
    pub ring: u32,
}

impl Default for Costs {
    /// A machine of today, its interrupts by eventfd, its application doing as much as the host.
    fn default() -> Self {
        let us = |n: u64| Duration::from_nanos(n * 1000);
        Costs { interrupt: us(4), host: us(1), application: us(3), look: Duration::from_nanos(100), ring: 256 }
    }
}

impl Costs {
    /// A machine's, as `cellway-lab calibrate` has measured them, for an application that works for `work` on each SDU.
    ///
    /// # Errors
    /// The profile lacks a constant.
    pub fn of(machine: &Profile, work: Duration) -> Result<Self, ProfileError> {
        let us = |name: &str| Ok(Duration::from_secs_f64(machine.get(name)?.max(0.0) * 1e-6));
        Ok(Costs {
            interrupt: us("interrupt_us")?,
            // At no cost at all, time would stand still.
            host: us("host_us")?.max(Duration::from_nanos(1)),
            application: us("application_us")? + work,
            ..Costs::default()
        })
    }
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverloadOutcome {
    /// SDUs offered per second.
    pub offered: f64,
    /// SDUs that the application has dealt with, per second.
    pub done: f64,
    /// From arrival until the application is done: median.
    pub p50: Duration,
    /// The same: 99 of 100 are faster.
    pub p99: Duration,
    /// The host's share of the processor.
    pub host_share: f64,
    /// Interrupts and ticks per second.
    pub interrupts: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Armed,
    Looking,
    Until(Time),
}

struct Model {
    costs: Costs,
    machine: Machine,
    mode: Mode,
    now: Time,
    period: Duration,
    next_arrival: Time,
    adapter: VecDeque<Time>,
    ring: VecDeque<Time>,
    /// What is left of the application's work on its SDU.
    working: Duration,
    pressed: bool,
    /// Since when the host has been looking while SDUs wait for the application, which gets the processor afterwards only.
    looking_since: Option<Time>,
    stalled: bool,
    busy: Duration,
    interrupts: u64,
    latencies: Vec<Duration>,
}

/// Offers `per_second` SDUs, evenly, for `length`.
pub fn run(events: Events, costs: Costs, per_second: f64, length: Duration) -> OverloadOutcome {
    let mut model = Model {
        costs,
        machine: Machine::new(events, costs.ring),
        mode: Mode::Looking,
        now: Time::ZERO,
        period: Duration::from_secs_f64(1.0 / per_second),
        next_arrival: Time::ZERO,
        adapter: VecDeque::new(),
        ring: VecDeque::new(),
        working: Duration::ZERO,
        pressed: false,
        looking_since: None,
        stalled: false,
        busy: Duration::ZERO,
        interrupts: 0,
        latencies: Vec::new(),
    };
    let end = Time::ZERO + length;
    while model.now < end {
        model.step();
    }
    let seconds = model.now.as_secs_f64();
    model.latencies.sort();
    let at = |share: f64| {
        let last = model.latencies.len().saturating_sub(1);
        model.latencies.get((last as f64 * share) as usize).copied().unwrap_or_default()
    };
    OverloadOutcome {
        offered: per_second,
        done: model.latencies.len() as f64 / seconds,
        p50: at(0.5),
        p99: at(0.99),
        host_share: model.busy.as_secs_f64() / seconds,
        interrupts: model.interrupts as f64 / seconds,
    }
}

impl Model {
    fn step(&mut self) {
        self.arrive();
        match self.mode {
            Mode::Armed if !self.adapter.is_empty() => self.interrupt(),
            Mode::Until(time) if time <= self.now => self.interrupt(),
            Mode::Looking => {
                let before = self.now;
                self.look();
                if self.machine.kind() == Events::Polling {
                    // A process like the other one: the scheduler gives both the same.
                    let slice = self.now.since(before);
                    self.apply(self.now + slice);
                }
            }
            Mode::Armed => self.apply(self.next_arrival),
            Mode::Until(time) => self.apply(time),
        }
    }

    /// What has come until now.
    fn arrive(&mut self) {
        while self.next_arrival <= self.now {
            if self.adapter.len() < self.costs.ring as usize {
                self.adapter.push_back(self.next_arrival);
            }
            self.next_arrival += self.period;
        }
    }

    fn spend(&mut self, time: Duration) {
        self.now += time;
        self.busy += time;
    }

    fn interrupt(&mut self) {
        self.spend(self.costs.interrupt);
        self.interrupts += 1;
        self.machine.handle_wake();
        self.mode = Mode::Looking;
    }

    /// The host's look, as in `host`: some descriptors, then what comes next.
    fn look(&mut self) {
        self.arrive();
        self.press();
        let mut taken = 0;
        let quota = BATCH.min(self.machine.quota(self.pressed && self.machine.is_protected()));
        while taken < quota {
            let Some(arrived) = self.adapter.pop_front() else { break };
            self.spend(self.costs.host);
            taken += 1;
            if self.ring.len() < self.costs.ring as usize {
                self.ring.push_back(arrived);
            }
        }
        self.spend(self.costs.look);
        self.machine.handle_taken(taken);
        self.press();
        self.arrive();
        let protected = self.machine.is_protected();
        if self.ring.is_empty() {
            (self.looking_since, self.stalled) = (None, false);
        } else {
            self.stalled |= self.now.since(*self.looking_since.get_or_insert(self.now)) >= STALL;
        }
        let pressed = protected && self.pressed;
        let stalled = protected && self.stalled;
        let look = Look { worked: taken > 0, waiting: !self.adapter.is_empty(), pressed, stalled };
        self.mode = match self.machine.handle_look(look, self.now) {
            Next::Stay => Mode::Looking,
            Next::Arm => Mode::Armed,
            Next::At(time) => Mode::Until(time),
        };
    }

    fn press(&mut self) {
        let (n, slots) = (self.ring.len(), self.costs.ring as usize);
        self.pressed = n > slots / 4 * 3 || (self.pressed && n > slots / 4);
    }

    /// The application works until `until` at most, or until it has caught up and the host waits for that.
    fn apply(&mut self, until: Time) {
        while self.now < until {
            let Some(arrived) = self.ring.front().copied() else {
                if self.pressed {
                    // It says so by its doorbell, and the host ends its rest.
                    self.pressed = false;
                    if matches!(self.machine.kind(), Events::Hybrid { .. }) && matches!(self.mode, Mode::Until(_)) {
                        self.mode = Mode::Until(self.now);
                        return;
                    }
                }
                self.now = until;
                return;
            };
            if self.working.is_zero() {
                self.working = self.costs.application;
            }
            let step = self.working.min(until.since(self.now));
            self.now += step;
            self.working -= step;
            if self.working.is_zero() {
                self.looking_since = None;
                self.ring.pop_front();
                self.latencies.push(self.now.since(arrived));
            }
        }
        self.press();
    }
}

/// The highest rate that is dealt with nearly whole, found by trying.
pub fn saturation(events: Events, costs: Costs) -> OverloadOutcome {
    let length = Duration::from_millis(200);
    let mut best = run(events, costs, 1000.0, length);
    let mut rate = 2000.0;
    while rate < 4e6 {
        let outcome = run(events, costs, rate, length);
        if outcome.done > best.done {
            best = outcome;
        }
        rate *= 1.1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENTLE: [Events; 4] = [
        Events::Polling,
        Events::Clocked { hertz: 1000 },
        Events::Hybrid { quota: 256 },
        Events::Soft { hertz: 10_000 },
    ];

    #[test]
    fn at_ten_times_the_saturating_load_interrupts_livelock_and_the_others_stay_at_their_maximum() {
        let costs = Costs::default();
        let length = Duration::from_millis(500);
        let share = |events: Events| {
            let best = saturation(events, costs);
            run(events, costs, 10.0 * best.offered, length).done / best.done
        };
        let interrupts = share(Events::Interrupt);
        assert!(interrupts < 0.05, "{interrupts} of its maximum: no livelock");
        for events in GENTLE {
            let kept = share(events);
            assert!(kept > 0.95, "{events}: {kept} of its maximum");
        }
    }

    #[test]
    fn the_costs_are_those_of_the_profile_and_none_is_made_up() {
        let constant =
            |name: &str, value: f64| format!("{name} = {{ value = {value:?}, unit = 'us', source = 'a test' }}\n");
        let head = "name = 'x'\ntitle = 'X'\n[constants]\n";
        let all = [("interrupt_us", 7.5), ("host_us", 0.25), ("application_us", 0.5)];
        let text = all.iter().fold(String::from(head), |text, (name, value)| text + &constant(name, *value));
        let costs = Costs::of(&Profile::parse(&text).unwrap(), Duration::from_micros(3)).unwrap();
        let nanos = [costs.interrupt, costs.host, costs.application].map(|cost| cost.as_nanos());
        assert_eq!(nanos, [7500, 250, 3500]);
        for (missing, _) in all {
            let text = text.lines().filter(|line| !line.starts_with(missing)).collect::<Vec<_>>().join("\n");
            assert!(Costs::of(&Profile::parse(&text).unwrap(), Duration::ZERO).is_err(), "without {missing}");
        }
    }

    #[test]
    fn when_little_comes_interrupts_and_hybrid_are_quick_and_cost_little() {
        for events in [Events::Interrupt, Events::default()] {
            let outcome = run(events, Costs::default(), 1000.0, Duration::from_millis(500));
            assert!(outcome.p99 < Duration::from_micros(50), "{events}: {:?}", outcome.p99);
            assert!(outcome.host_share < 0.05, "{events}: {}", outcome.host_share);
            assert!((outcome.done / 1000.0 - 1.0).abs() < 0.02, "{events}: {}", outcome.done);
        }
        let clocked = run(Events::Clocked { hertz: 1000 }, Costs::default(), 1000.0, Duration::from_millis(500));
        assert!(clocked.p99 < Duration::from_micros(1100) && clocked.interrupts < 1010.0, "{clocked:?}");
    }

    #[test]
    fn the_paper_s_capacity_of_interrupts_and_of_clocks_is_met() {
        // 1 / (C + alpha) and (1 - beta C) / alpha, with no work of an application's.
        let us = |n: u64| Duration::from_nanos(n * 1000);
        let costs = Costs { interrupt: us(10), host: us(2), application: us(1), look: Duration::ZERO, ring: 4096 };
        let clocked = saturation(Events::Clocked { hertz: 1000 }, costs).done;
        let limit = (1.0 - 1000.0 * 10e-6) / 3e-6;
        assert!(clocked > 0.9 * limit && clocked <= 1.01 * limit, "{clocked} of {limit}");
    }
}
