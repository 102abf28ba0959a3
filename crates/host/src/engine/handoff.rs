//! How the engine gets a shard from the thread that runs it, and gives it back.
//!
//! A shard is owned by whoever works on it: by its thread, or, while a command is carried out, by the engine's. The
//! engine asks for it; the thread hands it over after the round under way, and has it back after the command. A thread
//! that sleeps is woken for that. Each shard has a round at least between two commands.

use super::shard_loop::ShardLoop;
use net::Shard;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Looks, with a yield between two, before a thread sleeps until it gets what it waits for: a command takes
/// microseconds.
const YIELDS: u32 = 64;

/// A shard with what its thread has beside it.
pub(super) struct ShardLease {
    pub(super) shard: Box<Shard>,
    pub(super) shard_loop: Box<ShardLoop>,
}

#[derive(Default)]
enum HandoffState {
    /// The thread has it.
    #[default]
    Empty,
    /// For the thread.
    Given(ShardLease),
    /// For the engine.
    Returned(ShardLease),
    /// The thread is to end.
    Stopped,
}

/// Where a shard is handed over.
#[derive(Default)]
pub(super) struct ShardHandoff {
    /// The thread looks here between two rounds.
    wanted: Arc<AtomicBool>,
    place: Mutex<HandoffState>,
    changed: Condvar,
}

impl ShardHandoff {
    /// Whether the engine asks for the shard.
    pub(super) fn wanted(&self) -> &Arc<AtomicBool> {
        &self.wanted
    }

    fn lock(&self) -> MutexGuard<'_, HandoffState> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `f` finds in the place what it looks for.
    fn wait<R>(&self, mut f: impl FnMut(&mut HandoffState) -> Option<R>) -> R {
        for _ in 0..YIELDS {
            if let Some(found) = f(&mut self.lock()) {
                return found;
            }
            std::thread::yield_now();
        }
        let mut place = self.lock();
        loop {
            if let Some(found) = f(&mut place) {
                return found;
            }
            place = self.changed.wait(place).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn put(&self, place: HandoffState) {
        *self.lock() = place;
        self.changed.notify_one();
    }

    /// The engine asks for the shard; it has to wake the thread then ([`net::Bell::rouse`]).
    pub(super) fn ask(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// The engine waits for the shard that it has asked for.
    pub(super) fn receive(&self) -> ShardLease {
        let lease = self.wait(|place| match std::mem::take(place) {
            HandoffState::Returned(lease) => Some(lease),
            other => {
                *place = other;
                None
            }
        });
        self.wanted.store(false, Ordering::Relaxed);
        lease
    }

    /// The engine gives the shard back.
    pub(super) fn give(&self, lease: ShardLease) {
        self.put(HandoffState::Given(lease));
    }

    /// The engine, which has the shard, ends the thread.
    pub(super) fn stop(&self) {
        self.put(HandoffState::Stopped);
    }

    /// The thread waits for its shard; `None`: it is to end.
    fn take(&self) -> Option<ShardLease> {
        self.wait(|place| match std::mem::take(place) {
            HandoffState::Given(lease) => Some(Some(lease)),
            HandoffState::Stopped => Some(None),
            other => {
                *place = other;
                None
            }
        })
    }
}

/// The life of a shard's thread.
pub(super) fn work(handoff: &Arc<ShardHandoff>) {
    while let Some(mut lease) = handoff.take() {
        let ShardLease { shard, shard_loop } = &mut lease;
        shard_loop.meter.resume(shard_loop.now());
        loop {
            shard_loop.turn(shard, None, false);
            if shard_loop.is_wanted() {
                break;
            }
        }
        shard_loop.meter.pause(shard_loop.now());
        handoff.put(HandoffState::Returned(lease));
    }
}
