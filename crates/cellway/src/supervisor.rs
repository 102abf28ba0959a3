//! The notifications to a service manager such as systemd (sd_notify(3)): `READY=1` once the network is up, `WATCHDOG=1`
//! while the engine works, `STOPPING=1` at the end.
//!
//! `WATCHDOG=1` is sent by the daemon's main thread, after the engine has answered between two rounds. The engine answers
//! only when it has borrowed all shards. So the notification stops if the main thread, the engine or any shard hangs,
//! and the service manager restarts the daemon. Without `NOTIFY_SOCKET` in the environment nothing is sent.

use host::engine::EngineHandle;
use sd_notify::NotifyState;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Probes within the service manager's time limit: some may be late on a loaded machine.
const PROBES: u32 = 4;

/// The daemon's side.
#[derive(Debug)]
pub(crate) struct Supervisor {
    watchdog: Option<Watchdog>,
}

impl Supervisor {
    /// Tells that the network is up, and starts the watchdog if the service manager wants one. `status` is what
    /// `systemctl status` shows.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(crate) fn ready(engine: &EngineHandle, status: &str) -> std::io::Result<Self> {
        let limit = sd_notify::watchdog_enabled();
        let engine = engine.named("watchdog");
        let start = |limit: Duration| Watchdog::start(limit / PROBES, move || engine.with(|_| ()).is_ok());
        let watchdog = limit.map(start).transpose()?;
        send(&[NotifyState::Ready, NotifyState::Status(status)]);
        Ok(Supervisor { watchdog })
    }

    /// Tells that the daemon works, if the engine has answered since the last time. Called again and again.
    pub(crate) fn turn(&mut self) {
        if self.watchdog.as_mut().is_some_and(Watchdog::has_progress) {
            send(&[NotifyState::Watchdog]);
        }
    }

    /// Tells that the daemon ends in order.
    pub(crate) fn stopping(&self) {
        send(&[NotifyState::Stopping]);
    }
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(states) {
        tracing::warn!("the service manager cannot be notified (NOTIFY_SOCKET): {e}");
    }
}

/// Whether the engine still answers. A thread of its own asks, so that nobody else waits for an engine that hangs.
#[derive(Debug)]
struct Watchdog {
    answers: Arc<AtomicU64>,
    seen: u64,
}

impl Watchdog {
    /// Probes each `interval`, until a probe says that there is nothing left to ask.
    fn start(interval: Duration, mut probe: impl FnMut() -> bool + Send + 'static) -> std::io::Result<Self> {
        let answers = Arc::new(AtomicU64::new(0));
        let count = answers.clone();
        let ask = move || {
            while probe() {
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(interval);
            }
        };
        std::thread::Builder::new().name("watchdog".into()).spawn(ask)?;
        Ok(Watchdog { answers, seen: 0 })
    }

    /// Whether a probe has been answered since the last call.
    fn has_progress(&mut self) -> bool {
        let answers = self.answers.load(Ordering::Relaxed);
        std::mem::replace(&mut self.seen, answers) != answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;
    use std::time::Instant;

    const INTERVAL: Duration = Duration::from_millis(1);

    /// Waits for progress; false if there is none for a time in which there would be a thousand probes.
    fn progresses(watchdog: &mut Watchdog) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < 1000 * INTERVAL {
            if watchdog.has_progress() {
                return true;
            }
            std::thread::sleep(INTERVAL);
        }
        false
    }

    /// The same with no bound in time but that of a test that hangs.
    fn wait_for_progress(watchdog: &mut Watchdog) {
        let begun = Instant::now();
        while !progresses(watchdog) {
            assert!(begun.elapsed() < Duration::from_secs(60), "no progress");
        }
    }

    #[test]
    fn an_engine_that_hangs_makes_no_progress_and_one_that_sleeps_does() {
        let engine = host::engine::start(net::Network::sharded(2, 16, 2048)).unwrap();
        let asked = engine.clone();
        let mut watchdog = Watchdog::start(INTERVAL, move || asked.with(|_| ()).is_ok()).unwrap();
        wait_for_progress(&mut watchdog);
        let (release, released) = sync_channel::<()>(0);
        let (hangs, hanging) = sync_channel(0);
        let blocked = engine.clone();
        let command = std::thread::spawn(move || {
            blocked.with(move |_| {
                let _ = hangs.send(());
                let _ = released.recv();
            })
        });
        hanging.recv().unwrap();
        // The answers that were on their way when it began to hang.
        while progresses(&mut watchdog) {}
        assert!(!progresses(&mut watchdog));
        drop(release);
        wait_for_progress(&mut watchdog);
        command.join().unwrap().unwrap();
        engine.stop();
    }

    #[test]
    fn a_watchdog_ends_with_the_engine() {
        let engine = host::engine::start(net::Network::sharded(1, 16, 2048)).unwrap();
        let asked = engine.clone();
        let (ended, end) = sync_channel(1);
        let probe = move || {
            let goes_on = asked.with(|_| ()).is_ok();
            if !goes_on {
                let _ = ended.send(());
            }
            goes_on
        };
        let mut watchdog = Watchdog::start(INTERVAL, probe).unwrap();
        wait_for_progress(&mut watchdog);
        engine.stop();
        end.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}
