//! How the threads of this process wait for SDUs before they sleep. A process that has sent an SDU since its last wait
//! may get an answer soon, and waits as endpoints with the default event strategy do ([`endpoint::waiting`]). One that
//! only receives sleeps at once.

use endpoint::Events;
use endpoint::waiting::{Next, Patience, Waiting};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the waits of one socket have taught.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    // Only tried: who is interrupted while it holds this must not wait for itself, nor a child for a thread that it
    // does not have.
    patience: Mutex<Patience>,
    /// Something was sent since the last wait.
    sent: AtomicBool,
    /// When the present wait began, in nanoseconds of the monotonic clock. It is set when a thread is about to sleep,
    /// and is 0 when no thread waits.
    since_nanos: AtomicU64,
}

fn monotonic_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Waits {
    /// An SDU is sent.
    #[inline]
    pub(crate) fn handle_sent(&self) {
        self.sent.store(true, Ordering::Relaxed);
    }

    /// Looks until something `has_come`, or it is time to sleep. `is_elsewhere`: the host runs on another processor.
    pub(crate) fn look(&self, is_elsewhere: impl Fn() -> bool, has_come: impl Fn() -> bool) {
        if !self.sent.load(Ordering::Relaxed) {
            return;
        }
        self.sent.store(false, Ordering::Relaxed);
        let begin = Instant::now();
        let mut patience = self.patience.try_lock().map(|patience| *patience).unwrap_or_default();
        let mut waiting = Waiting::of(Events::default());
        let (mut elsewhere, mut yielded) = (is_elsewhere(), None);
        while !has_come() {
            match waiting.handle_nothing(elsewhere) {
                Next::Look => std::hint::spin_loop(),
                Next::Yield => {
                    std::thread::yield_now();
                    elsewhere = is_elsewhere();
                }
                Next::Sleep => {
                    let waited = begin.elapsed();
                    if !patience.lasts(waited, *yielded.get_or_insert(waited)) {
                        let since = monotonic_nanos().saturating_sub(waited.as_nanos() as u64).max(1);
                        let _ = self.since_nanos.compare_exchange(0, since, Ordering::Relaxed, Ordering::Relaxed);
                        if let Ok(mut learnt) = self.patience.try_lock() {
                            *learnt = patience;
                        }
                        return;
                    }
                    yielded = Some(waited);
                    std::thread::yield_now();
                }
            }
        }
    }

    /// An SDU was received.
    #[inline]
    pub(crate) fn handle_received(&self) {
        if self.since_nanos.load(Ordering::Relaxed) != 0 {
            let since = self.since_nanos.swap(0, Ordering::Relaxed);
            let waited = Duration::from_nanos(monotonic_nanos().saturating_sub(since));
            if let Ok(mut patience) = self.patience.try_lock() {
                patience.handle_sleep(waited);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Looks for as long as that may take, after something was sent; how often.
    fn looks(waits: &Waits) -> u32 {
        waits.handle_sent();
        let looks = Cell::new(0);
        waits.look(|| false, || looks.replace(looks.get() + 1) == u32::MAX);
        looks.get()
    }

    #[test]
    fn a_wait_that_ended_in_a_short_sleep_makes_patient_and_one_that_ended_in_a_long_one_does_not() {
        let waits = Waits::default();
        assert_eq!(looks(&waits), 9, "one before each of eight yields, and one before the sleep");
        assert_ne!(waits.since_nanos.load(Ordering::Relaxed), 0, "it may sleep now");
        waits.since_nanos.store(1, Ordering::Relaxed);
        waits.handle_received();
        assert_eq!(*waits.patience.lock().unwrap(), Patience::default(), "a long sleep");
        waits.handle_received();
        looks(&waits);
        waits.since_nanos.store(u64::MAX, Ordering::Relaxed);
        waits.handle_received();
        assert_ne!(*waits.patience.lock().unwrap(), Patience::default(), "a short one");
        assert_eq!(waits.since_nanos.load(Ordering::Relaxed), 0, "no wait is under way");
    }

    #[test]
    fn who_has_sent_nothing_since_its_last_wait_does_not_look() {
        let waits = Waits::default();
        let never = || unreachable!("nobody looks");
        waits.look(|| false, never);
        looks(&waits);
        waits.look(|| false, never);
    }

    #[test]
    fn what_comes_while_it_looks_ends_no_sleep() {
        let waits = Waits::default();
        let left = Cell::new(3);
        waits.handle_sent();
        waits.look(|| false, || left.replace(left.get() - 1) == 0);
        assert_eq!(waits.since_nanos.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_holds_what_was_learnt_holds_nobody_up() {
        let waits = Waits::default();
        let held = waits.patience.lock().unwrap();
        assert_eq!(looks(&waits), 9);
        waits.handle_received();
        assert_eq!(*held, Patience::default());
    }
}
