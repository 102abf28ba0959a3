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

/// What a machine is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// The processor, at interrupt level.
    Interrupts,
    /// The processor, in a process.
    Task(usize),
    /// The I/O bus.
    Transfer,
}

/// A part of a piece of work: which resource had it, from when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupation {
    /// See there.
    pub resource: Resource,
    /// From when.
    pub from: Time,
    /// To when.
    pub to: Time,
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
    /// Who runs from now on, as of the last change.
    chosen: usize,
    /// How many processes have something to do.
    ready: usize,
    /// Refills of all counters that are due: nobody had anything to do.
    refills: u32,
    transfer: Option<(Work, T)>,
    /// Seconds of: interrupt level, process level, I/O bus, memory bus.
    busy: [f64; 4],
    /// Occupations since the last look, where somebody records: two for each advance.
    record: Option<Vec<Occupation>>,
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
            chosen: 0,
            ready: 0,
            refills: 0,
            transfer: None,
            busy: [0.0; 4],
            record: None,
        }
    }
}

/// Speeds of two users of one bus, given the shares that they want: all they want if it is there, else up to half, and
/// what the other leaves.
fn speeds(processor: Option<Work>, transfer: Option<Work>) -> (f64, f64) {
    let [processor, transfer] = [processor, transfer].map(|work| work.map_or(0.0, |work| work.memory));
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

/// The earlier of two moments that may be.
pub(super) fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        _ => a.or(b),
    }
}

/// The next whole number, of what is not negative: [`f64::ceil`] without a call of the C library's. Signed numbers are converted by
/// one instruction.
fn ceil(x: f64) -> u64 {
    match x as i64 {
        i64::MAX => x as u64,
        whole => whole as u64 + u64::from((whole as f64) < x),
    }
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
        self.catch_up();
        let rested = self.tasks[number].queue.is_empty();
        if let Some(scheduler) = self.scheduler
            && rested
            && self.tasks[number].counter > self.tasks[self.current].counter + scheduler.slack
        {
            self.preempt = number != self.current;
        }
        self.tasks[number].queue.push_back((work, token));
        self.ready += usize::from(rested);
        self.chosen = self.choose();
    }

    /// Everybody gets a quantum and half of what it had. Whether that changed anything.
    fn refill(&mut self, quantum: f64) -> bool {
        self.tasks.iter_mut().fold(false, |changed, task| {
            let counter = task.counter.max(0.0) / 2.0 + quantum;
            changed | (std::mem::replace(&mut task.counter, counter) != counter)
        })
    }

    /// Makes the refills that are due; after so many that they change nothing, no more.
    fn catch_up(&mut self) {
        let due = std::mem::take(&mut self.refills);
        if let Some(scheduler) = self.scheduler {
            let _ = (0..due).find(|_| !self.refill(scheduler.quantum));
        }
    }

    /// Whether everybody who could run has used up its time.
    fn used_up(&self) -> bool {
        self.tasks.iter().all(|t| t.queue.is_empty() || t.counter <= DONE_SECONDS)
    }

    /// Who runs from now on.
    #[inline]
    fn choose(&self) -> usize {
        let current = &self.tasks[self.current];
        let goes_on = !current.queue.is_empty() && current.counter > DONE_SECONDS && !self.preempt;
        if self.scheduler.is_none() || goes_on || self.ready == 0 {
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
    fn slice(&self) -> Option<f64> {
        let scheduler = self.scheduler.filter(|_| self.ready > 1)?;
        let counter = self.tasks[self.chosen].counter;
        Some(if self.used_up() { counter / 2.0 + scheduler.quantum } else { counter })
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

    /// Records occupations from now on. Whoever asks for this takes them after each advance.
    pub fn record(&mut self) {
        self.record = Some(Vec::new());
    }

    /// What was recorded since the last call.
    pub fn take_record(&mut self) -> Vec<Occupation> {
        self.record.as_mut().map(core::mem::take).unwrap_or_default()
    }

    fn wants(&self) -> (Option<Work>, Option<Work>) {
        let running = self.interrupts.front().or_else(|| self.tasks[self.chosen].queue.front());
        (running.map(|(w, _)| *w), self.transfer.as_ref().map(|(w, _)| *w))
    }

    /// When something will be done; `None` if there is nothing to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        let (running, transfer) = self.wants();
        if running.is_none() && transfer.is_none() {
            return None;
        }
        let (fast, slow) = speeds(running, transfer);
        let after = |seconds: f64| Time::from_nanos(self.now.as_nanos() + ceil(seconds.max(0.0) * 1e9));
        // Mostly nothing is in the way: a division takes as long as all the rest.
        let at = |work: Work, speed: f64| after(if speed == 1.0 { work.seconds } else { work.seconds / speed });
        let processor = earlier(running.map(|work| at(work, fast)), self.slice().map(after));
        earlier(processor, transfer.map(|work| at(work, slow)))
    }

    /// [`Machine::advance`] where there is nothing to do.
    fn rest(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.refills = self.refills.saturating_add(u32::from(self.scheduler.is_some()));
    }

    /// Time passes until `now`, which is not after [`Machine::poll_timeout`]; gives what was done to `done`.
    pub fn advance(&mut self, now: Time, mut done: impl FnMut(T)) {
        let (running, transfer) = self.wants();
        if running.is_none() && transfer.is_none() {
            return self.rest(now);
        }
        let (fast, slow) = speeds(running, transfer);
        let passed = now.as_nanos().saturating_sub(self.now.as_nanos()) as i64 as f64 / 1e9;
        let from = self.now;
        self.now = self.now.max(now);
        let chosen = self.chosen;
        if let Some(scheduler) = self.scheduler {
            if self.ready == 0 {
                self.refills = self.refills.saturating_add(1);
            } else {
                if self.used_up() {
                    self.refill(scheduler.quantum);
                }
                self.tasks[chosen].counter -= passed;
            }
            (self.current, self.preempt) = (chosen, false);
        }
        let interrupt = !self.interrupts.is_empty();
        let queue = if interrupt { &mut self.interrupts } else { &mut self.tasks[self.current].queue };
        if let Some((work, _)) = queue.front_mut() {
            work.seconds -= passed * fast;
            self.busy[usize::from(!interrupt)] += passed;
            self.busy[3] += passed * fast * work.memory;
            if let Some(record) = &mut self.record {
                let resource = if interrupt { Resource::Interrupts } else { Resource::Task(self.current) };
                record.push(Occupation { resource, from, to: self.now });
            }
            if work.seconds < DONE_SECONDS
                && let Some((_, token)) = queue.pop_front()
            {
                self.ready -= usize::from(!interrupt && queue.is_empty());
                done(token);
            }
        }
        self.chosen = self.choose();
        if let Some((work, _)) = &mut self.transfer {
            work.seconds -= passed * slow;
            self.busy[2] += passed;
            self.busy[3] += passed * slow * work.memory;
            if let Some(record) = &mut self.record {
                record.push(Occupation { resource: Resource::Transfer, from, to: self.now });
            }
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
    fn whoever_has_rested_has_gathered_time_when_it_wakes_up() {
        let mut machine = Machine::scheduled(Scheduler { quantum: 0.2, slack: 0.03 }, &[1.0; 2]);
        machine.submit(Level::Task(0), Work::cached(0.1), 0);
        machine.advance(Time::from_millis(100), |_| {});
        let left = |machine: &Machine<u32>| [0, 1].map(|task| (machine.tasks[task].counter * 1e3).round());
        assert_eq!((left(&machine), machine.poll_timeout()), ([100.0, 200.0], None));
        machine.advance(Time::from_millis(200), |_| unreachable!());
        assert_eq!(left(&machine), [100.0, 200.0], "nobody has asked");
        machine.submit(Level::Task(0), Work::cached(0.1), 0);
        assert_eq!(left(&machine), [250.0, 300.0]);
        assert_eq!(machine.poll_timeout(), Some(Time::from_millis(300)));
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
        let [none, quarter, half, all] = [0.0, 0.25, 0.5, 1.0].map(|memory| Some(Work { seconds: 1.0, memory }));
        assert_eq!(speeds(none, all), (1.0, 1.0));
        assert_eq!(speeds(None, all), (1.0, 1.0));
        assert_eq!(speeds(half, all), (1.0, 0.5));
        assert_eq!(speeds(all, quarter), (0.75, 1.0));
    }
}
