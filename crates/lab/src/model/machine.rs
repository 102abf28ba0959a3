//! Processor, memory bus and I/O bus of a machine in virtual time.
//!
//! In: pieces of work, each with its time at full speed and the share of the memory bus that it takes meanwhile; the time.
//! Out: what is done, and when something will be next. The processor does one piece at a time, interrupts first; what
//! they interrupt goes on afterwards. The I/O bus carries one transfer at a time. Where processor and I/O bus together
//! want more than the memory bus has, each gets up to half, and what one leaves the other takes: that is the contention.

use std::collections::VecDeque;
use wire::Time;

/// Who goes first at the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Before all processes.
    Interrupt,
    /// In turn with the others, piece by piece; the same as `Task(0)`.
    Process,
    /// A process of its own, where a [`Scheduler`] says who goes on; in turn with the others where there is none.
    Task(usize),
}

/// Time slices as Linux 1.2 and 1.3 have them: each process has a counter, which running takes down. Who has most left goes on
/// when the one that runs has used up its counter or has nothing to do. If nobody who could run has any left, everybody gets a
/// quantum and half of what it had, so a process that slept has more. It takes the processor at once if it has `slack` more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scheduler {
    /// Seconds of a full counter.
    pub quantum: f64,
    /// Seconds that a process which wakes up has to be ahead to go first.
    pub slack: f64,
}

#[derive(Debug)]
struct Task<T> {
    queue: VecDeque<(Work, T)>,
    counter: f64,
}

/// A piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Work {
    /// How long it takes if nothing is in its way, in seconds.
    pub seconds: f64,
    /// The share of the memory bus that it takes then, 0 to 1.
    pub memory: f64,
}

impl Work {
    /// Work out of the cache.
    pub const fn cached(seconds: f64) -> Self {
        Work { seconds, memory: 0.0 }
    }

    /// One piece after the other, as one: the share is the mean.
    pub fn and(self, other: Work) -> Work {
        let seconds = self.seconds + other.seconds;
        if seconds <= 0.0 {
            return Work::default();
        }
        Work { seconds, memory: (self.seconds * self.memory + other.seconds * other.memory) / seconds }
    }
}

/// Below this many seconds of work, it is done: times are whole nanoseconds.
const DONE_SECONDS: f64 = 0.5e-9;

/// A machine whose pieces of work are told apart by `T`.
#[derive(Debug)]
pub struct Machine<T> {
    now: Time,
    interrupts: VecDeque<(Work, T)>,
    tasks: Vec<Task<T>>,
    scheduler: Option<Scheduler>,
    /// Who runs, or ran last.
    current: usize,
    preempt: bool,
    transfer: Option<(Work, T)>,
    /// Seconds of: interrupt level, process level, I/O bus, memory bus.
    busy: [f64; 4],
}

impl<T> Default for Machine<T> {
    fn default() -> Self {
        Machine {
            now: Time::ZERO,
            interrupts: VecDeque::new(),
            tasks: vec![Task { queue: VecDeque::new(), counter: 0.0 }],
            scheduler: None,
            current: 0,
            preempt: false,
            transfer: None,
            busy: [0.0; 4],
        }
    }
}

/// Speeds of two users of one bus, given the shares that they want: all they want if it is there, else up to half, and
/// what the other leaves.
fn speeds(processor: f64, transfer: f64) -> (f64, f64) {
    if processor + transfer <= 1.0 {
        (1.0, 1.0)
    } else if processor <= 0.5 {
        (1.0, (1.0 - processor) / transfer)
    } else if transfer <= 0.5 {
        ((1.0 - transfer) / processor, 1.0)
    } else {
        (0.5 / processor, 0.5 / transfer)
    }
}

/// The next whole number, of what is not negative: [`f64::ceil`] without a call of the C library's.
fn ceil(x: f64) -> u64 {
    let whole = x as u64;
    whole.saturating_add(u64::from((whole as f64) < x))
}

impl<T> Machine<T> {
    /// A machine whose processes share it by time slices; each begins with so many quanta.
    pub fn scheduled(scheduler: Scheduler, quanta: &[f64]) -> Self {
        let task = |quanta: &f64| Task { queue: VecDeque::new(), counter: quanta * scheduler.quantum };
        Machine { tasks: quanta.iter().map(task).collect(), scheduler: Some(scheduler), ..Machine::default() }
    }

    /// Gives the processor a piece of work.
    pub fn submit(&mut self, level: Level, work: Work, token: T) {
        let number = match level {
            Level::Interrupt => return self.interrupts.push_back((work, token)),
            Level::Task(number) if self.scheduler.is_some() => number.min(self.tasks.len() - 1),
            Level::Process | Level::Task(_) => 0,
        };
        if let Some(scheduler) = self.scheduler
            && self.tasks[number].queue.is_empty()
            && self.tasks[number].counter > self.tasks[self.current].counter + scheduler.slack
        {
            self.preempt = number != self.current;
        }
        self.tasks[number].queue.push_back((work, token));
    }

    /// Whether everybody who could run has used up its time.
    fn used_up(&self) -> bool {
        self.scheduler.is_some() && self.tasks.iter().all(|t| t.queue.is_empty() || t.counter <= DONE_SECONDS)
    }

    /// Who runs from now on.
    fn chosen(&self) -> usize {
        let current = &self.tasks[self.current];
        let goes_on = !current.queue.is_empty() && current.counter > DONE_SECONDS && !self.preempt;
        if self.scheduler.is_none() || goes_on {
            return self.current;
        }
        let ready = self.tasks.iter().enumerate().filter(|(_, task)| !task.queue.is_empty());
        // Of two that are equal the one that did not run last.
        let best = ready.max_by(|(i, a), (j, b)| {
            a.counter.total_cmp(&b.counter).then((*j == self.current).cmp(&(*i == self.current)))
        });
        best.map_or(self.current, |(number, _)| number)
    }

    /// Seconds until the running process has used up its time, if others wait.
    fn slice(&self, chosen: usize) -> Option<f64> {
        let scheduler = self.scheduler?;
        let waiting = self.tasks.iter().filter(|task| !task.queue.is_empty()).count();
        let counter = self.tasks[chosen].counter;
        let left = if self.used_up() { counter / 2.0 + scheduler.quantum } else { counter };
        (waiting > 1).then_some(left)
    }

    /// Gives the I/O bus a transfer; hands it back if the bus is busy.
    pub fn transfer(&mut self, work: Work, token: T) -> Result<(), T> {
        match self.transfer {
            Some(_) => Err(token),
            None => {
                self.transfer = Some((work, token));
                Ok(())
            }
        }
    }

    /// Whether the I/O bus is busy.
    pub fn transfers(&self) -> bool {
        self.transfer.is_some()
    }

    /// Pieces of work that wait or run at a level.
    pub fn waiting(&self, level: Level) -> usize {
        match level {
            Level::Interrupt => self.interrupts.len(),
            Level::Process => self.tasks[0].queue.len(),
            Level::Task(number) => self.tasks.get(number).map_or(0, |task| task.queue.len()),
        }
    }

    /// Seconds that the processor has spent in interrupts, in processes; the I/O bus; the memory bus.
    pub fn busy(&self) -> [f64; 4] {
        self.busy
    }

    fn wants(&self) -> (Option<Work>, Option<Work>) {
        let running = self.interrupts.front().or_else(|| self.tasks[self.chosen()].queue.front());
        (running.map(|(w, _)| *w), self.transfer.as_ref().map(|(w, _)| *w))
    }

    fn speeds(&self) -> (f64, f64) {
        let (running, transfer) = self.wants();
        speeds(running.map_or(0.0, |w| w.memory), transfer.map_or(0.0, |w| w.memory))
    }

    /// When something will be done; `None` if there is nothing to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        let (running, transfer) = self.wants();
        let (fast, slow) = self.speeds();
        let after = |work: Option<Work>, speed: f64| {
            work.map(|w| Time::from_nanos(self.now.as_nanos() + ceil(w.seconds.max(0.0) / speed * 1e9)))
        };
        let slice = self.slice(self.chosen()).map(|s| Time::from_nanos(self.now.as_nanos() + ceil(s.max(0.0) * 1e9)));
        after(running, fast).into_iter().chain(after(transfer, slow)).chain(slice).min()
    }

    /// Time passes until `now`, which is not after [`Machine::poll_timeout`]; gives what was done to `done`.
    pub fn advance(&mut self, now: Time, mut done: impl FnMut(T)) {
        let (fast, slow) = self.speeds();
        let passed = now.since(self.now).as_secs_f64();
        self.now = self.now.max(now);
        if let Some(scheduler) = self.scheduler {
            let chosen = self.chosen();
            if self.used_up() {
                self.tasks.iter_mut().for_each(|task| task.counter = task.counter.max(0.0) / 2.0 + scheduler.quantum);
            }
            (self.current, self.preempt) = (chosen, false);
            if !self.tasks[chosen].queue.is_empty() {
                self.tasks[chosen].counter -= passed;
            }
        }
        let interrupt = !self.interrupts.is_empty();
        let queue = if interrupt { &mut self.interrupts } else { &mut self.tasks[self.current].queue };
        if let Some((work, _)) = queue.front_mut() {
            work.seconds -= passed * fast;
            self.busy[usize::from(!interrupt)] += passed;
            self.busy[3] += passed * fast * work.memory;
            if work.seconds < DONE_SECONDS
                && let Some((_, token)) = queue.pop_front()
            {
                done(token);
            }
        }
        if let Some((work, _)) = &mut self.transfer {
            work.seconds -= passed * slow;
            self.busy[2] += passed;
            self.busy[3] += passed * slow * work.memory;
            if work.seconds < DONE_SECONDS
                && let Some((_, token)) = self.transfer.take()
            {
                done(token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(machine: &mut Machine<u32>) -> Vec<(u64, u32)> {
        let mut log = Vec::new();
        while let Some(at) = machine.poll_timeout() {
            machine.advance(at, |token| log.push((at.as_nanos(), token)));
        }
        log
    }

    #[test]
    fn an_interrupt_goes_first_and_what_it_interrupted_goes_on() {
        let mut machine = Machine::default();
        machine.submit(Level::Process, Work::cached(1e-6), 1);
        machine.advance(Time::from_nanos(400), |_| unreachable!());
        machine.submit(Level::Interrupt, Work::cached(2e-6), 2);
        assert_eq!(run(&mut machine), [(2_400, 2), (3_000, 1)]);
        assert!((machine.busy()[1] - 1e-6).abs() < 1e-12);
    }

    #[test]
    fn copying_and_a_transfer_that_both_want_the_whole_memory_bus_take_as_long_as_one_after_the_other() {
        let mut machine = Machine::default();
        machine.submit(Level::Process, Work { seconds: 4e-6, memory: 1.0 }, 1);
        machine.transfer(Work { seconds: 1e-6, memory: 1.0 }, 2).unwrap();
        assert_eq!(run(&mut machine), [(2_000, 2), (5_000, 1)]);
        assert!((machine.busy()[3] - 5e-6).abs() < 1e-12, "the memory bus rests at no time");
    }

    #[test]
    fn two_that_always_have_work_take_turns_by_slices_and_a_sleeper_goes_first() {
        let mut machine = Machine::scheduled(Scheduler { quantum: 0.2, slack: 0.03 }, &[1.0; 2]);
        let piece = Work::cached(0.01);
        (0..100).for_each(|_| (0..2).for_each(|task| machine.submit(Level::Task(task), piece, task as u32)));
        let log = run(&mut machine);
        let switches = log.windows(2).filter(|w| w[0].1 != w[1].1).count();
        assert!((8..=12).contains(&switches), "2 s in slices of 0.2: {switches} switches");
        assert_eq!(log.len(), 200);
        let mut machine = Machine::scheduled(Scheduler { quantum: 0.2, slack: 0.03 }, &[1.0; 2]);
        (0..20).for_each(|_| machine.submit(Level::Task(0), piece, 0));
        machine.advance(Time::from_millis(10), |_| {});
        machine.submit(Level::Task(1), piece, 1);
        machine.advance(Time::from_millis(20), |token| {
            assert_eq!(token, 0, "ten milliseconds are not enough to be ahead")
        });
        let mut machine = Machine::scheduled(Scheduler { quantum: 0.2, slack: 0.03 }, &[1.0; 2]);
        (0..20).for_each(|_| machine.submit(Level::Task(0), piece, 0));
        (1..=5).for_each(|n| machine.advance(Time::from_millis(10 * n), |_| {}));
        machine.submit(Level::Task(1), piece, 1);
        machine.advance(Time::from_millis(60), |token| assert_eq!(token, 1, "50 ms are"));
    }

    #[test]
    fn moments_are_rounded_up() {
        for (x, whole) in
            [(0.0, 0), (1.0, 1), (1.0 + 1e-9, 2), (2.999, 3), (1e15, 1_000_000_000_000_000), (1e30, u64::MAX)]
        {
            assert_eq!(ceil(x), whole);
            assert_eq!(ceil(x), x.ceil() as u64);
        }
    }

    #[test]
    fn work_out_of_the_cache_delays_no_transfer() {
        assert_eq!(speeds(0.0, 1.0), (1.0, 1.0));
        assert_eq!(speeds(0.5, 1.0), (1.0, 0.5));
        assert_eq!(speeds(1.0, 0.25), (0.75, 1.0));
    }
}
