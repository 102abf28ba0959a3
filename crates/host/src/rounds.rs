//! How long the engine's thread computes in one round, in its own processor time: what other programs take from it does
//! not count.
//!
//! A round is one run of the network with what comes before the next: commands, a slice of a job, doorbells, sockets.
//! Asking for a thread's processor time is a system call, and a round may take less than a microsecond. So a round is
//! timed by the clock that it reads anyway, and only one that seems long is asked about: it had the processor time
//! since the last question, less that of the short rounds in between.

use std::time::Duration;
use wire::Time;

/// A round that seems shorter than this is taken at its word.
const SUSPECT: Duration = Duration::from_micros(200);
/// Time in short rounds after which the processor time is asked for anew: what other programs took of it adds up to an
/// error.
const STALE: Duration = Duration::from_millis(5);
/// Sleeps after which it is asked for anew: what going to sleep and waking up took of it, some microseconds each, adds
/// up too.
const SLEEPS: u32 = 16;
/// What a round is said to have done that no command had most of: run the network, and hear doorbells and sockets.
pub(crate) const NETWORK: &str = "network";
/// How long the longest round is remembered as a recent one, at least; twice that at most.
const WINDOW: Duration = Duration::from_secs(60);

/// Processor time that the calling thread has had.
pub fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}

/// Measures rounds. `clock`: the processor time of the thread that runs them.
#[derive(Debug)]
pub(crate) struct Rounds {
    clock: fn() -> Duration,
    /// When the round under way began; `None` before the first.
    begun: Option<Time>,
    /// The processor time when it was asked for last.
    asked: Duration,
    /// Time in short rounds since then.
    since: Duration,
    /// Sleeps since then; as many as may be before the first question.
    sleeps: u32,
    longest: Duration,
    /// Whose command or slice the longest round was for the most part, or [`NETWORK`].
    longest_work: &'static str,
    /// The longest command or slice of the round under way, and whose it was.
    noted: (Duration, &'static str),
    /// The longest of this window and of the one before.
    recent: [Duration; 2],
    window_begun: Time,
}

impl Rounds {
    pub(crate) fn new(clock: fn() -> Duration) -> Self {
        let (asked, since, longest, recent) = Default::default();
        let (noted, window_begun) = ((Duration::ZERO, NETWORK), Time::ZERO);
        let (begun, sleeps, longest_work) = (None, SLEEPS, NETWORK);
        Rounds { clock, begun, asked, since, sleeps, longest, longest_work, noted, recent, window_begun }
    }

    /// A round begins, and the one before has ended.
    pub(crate) fn begin(&mut self, now: Time) {
        self.end(now);
        if self.begun.is_none() && self.sleeps >= SLEEPS {
            self.ask();
        }
        self.begun = Some(now);
    }

    /// If none is under way, one begins: the thread has been doing something else.
    pub(crate) fn resume(&mut self, now: Time) {
        if self.begun.is_none() {
            self.begin(now);
        }
    }

    /// The round under way has ended, and the thread does something else, such as sleeping.
    pub(crate) fn pause(&mut self, now: Time) {
        self.end(now);
        self.begun = None;
        self.sleeps = self.sleeps.saturating_add(1);
    }

    /// A command or a slice has had so much of the round under way.
    pub(crate) fn note(&mut self, work: &'static str, took: Duration) {
        if took > self.noted.0 {
            self.noted = (took, work);
        }
    }

    fn end(&mut self, now: Time) {
        let (noted, work) = std::mem::replace(&mut self.noted, (Duration::ZERO, NETWORK));
        let Some(begun) = self.begun else { return };
        let seemed = now.since(begun);
        let took = if seemed < SUSPECT {
            self.since += seemed;
            if self.since >= STALE {
                self.ask();
            }
            seemed
        } else {
            let (before, since) = (self.asked, self.since);
            self.ask();
            self.asked.saturating_sub(before).saturating_sub(since)
        };
        if took > self.longest {
            self.longest = took;
            self.longest_work = if noted >= took / 2 { work } else { NETWORK };
        }
        let age = now.since(self.window_begun);
        if age >= WINDOW {
            self.recent = [Duration::ZERO, if age < WINDOW * 2 { self.recent[0] } else { Duration::ZERO }];
            self.window_begun = now;
        }
        self.recent[0] = self.recent[0].max(took);
    }

    fn ask(&mut self) {
        (self.asked, self.since, self.sleeps) = ((self.clock)(), Duration::ZERO, 0);
    }

    /// The longest round since the beginning, or since [`Rounds::clear`].
    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }

    /// What the longest round was for the most part.
    pub(crate) fn longest_work(&self) -> &'static str {
        self.longest_work
    }

    /// The longest round of the last one to two minutes.
    pub(crate) fn longest_lately(&self) -> Duration {
        self.recent[0].max(self.recent[1])
    }

    /// Forgets how long rounds took.
    pub(crate) fn clear(&mut self) {
        (self.longest, self.recent) = Default::default();
        self.longest_work = NETWORK;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local!(static PROCESSOR: Cell<Duration> = const { Cell::new(Duration::ZERO) });

    /// A meter, and what the time is.
    struct Thread(Rounds, Time);

    impl Thread {
        fn new() -> Self {
            let mut rounds = Rounds::new(|| PROCESSOR.get());
            rounds.begin(Time::ZERO);
            Thread(rounds, Time::ZERO)
        }

        /// A round: so long by the clock, so long on the processor.
        fn round(&mut self, seems: u64, takes: u64) {
            PROCESSOR.set(PROCESSOR.get() + Duration::from_micros(takes));
            self.1 += Duration::from_micros(seems);
            self.0.begin(self.1);
        }
    }

    #[test]
    fn time_that_others_take_does_not_count() {
        let mut thread = Thread::new();
        for _ in 0..50 {
            thread.round(10, 10);
        }
        assert_eq!(thread.0.longest(), Duration::from_micros(10));
        thread.round(40_000, 300);
        assert_eq!(thread.0.longest(), Duration::from_micros(300));
        thread.round(700, 700);
        thread.round(10, 10);
        assert_eq!(thread.0.longest(), Duration::from_micros(700));
        // Asleep: no round.
        thread.0.pause(thread.1);
        thread.1 += Duration::from_secs(1);
        thread.0.begin(thread.1);
        assert_eq!(thread.0.longest(), Duration::from_micros(700));
        thread.0.clear();
        assert_eq!(thread.0.longest(), Duration::ZERO);
    }

    #[test]
    fn what_many_sleeps_take_is_not_the_next_long_rounds() {
        let mut thread = Thread::new();
        for _ in 0..100 {
            thread.0.pause(thread.1);
            PROCESSOR.set(PROCESSOR.get() + Duration::from_micros(3));
            thread.1 += Duration::from_millis(1);
            thread.0.begin(thread.1);
            thread.round(1, 1);
        }
        thread.round(700, 400);
        let longest = thread.0.longest().as_micros();
        assert!((400..=400 + 3 * u128::from(SLEEPS)).contains(&longest), "{longest}");
    }

    #[test]
    fn the_longest_round_is_said_to_be_whose_command_had_most_of_it() {
        let mut thread = Thread::new();
        let us = Duration::from_micros;
        thread.0.note("apply", us(250));
        thread.0.note("status", us(200));
        thread.round(400, 400);
        assert_eq!((thread.0.longest(), thread.0.longest_work()), (us(400), "apply"));
        // A short command in a long round of the network; the note before is not of this round.
        thread.0.note("status", us(100));
        thread.round(900, 900);
        assert_eq!((thread.0.longest(), thread.0.longest_work()), (us(900), NETWORK));
        thread.round(950, 950);
        assert_eq!(thread.0.longest_work(), NETWORK);
        thread.0.note("status", us(500));
        thread.round(600, 600);
        assert_eq!((thread.0.longest(), thread.0.longest_work()), (us(950), NETWORK));
    }

    #[test]
    fn a_long_round_is_remembered_as_recent_for_one_to_two_minutes() {
        let mut thread = Thread::new();
        thread.round(900, 900);
        for second in 1..200 {
            thread.0.pause(thread.1);
            thread.1 = Time::ZERO + Duration::from_secs(second);
            thread.0.begin(thread.1);
            thread.round(1, 1);
            let remembered = thread.0.longest_lately() == Duration::from_micros(900);
            assert!(remembered || second >= 60, "forgotten after {second} s");
            assert!(!remembered || second <= 120, "remembered after {second} s");
        }
        assert_eq!(thread.0.longest(), Duration::from_micros(900));
    }
}
