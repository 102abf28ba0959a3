//! How the engine gets a shard from the thread that runs it, and gives it back.
//!
//! A shard is owned by whoever works on it: by its thread, or, while a command is carried out, by the engine's. The engine asks
//! for it; the thread hands it over after the round under way, and has it back after the command. A thread that sleeps is woken for
//! that. Each shard has a round at least between two commands.

use super::part::Part;
use net::Shard;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Looks, with a yield between two, before a thread sleeps until it gets what it waits for: a command takes microseconds.
const YIELDS: u32 = 64;

/// A shard with what its thread has beside it.
pub(super) struct Loan {
    pub(super) shard: Box<Shard>,
    pub(super) part: Box<Part>,
}

#[derive(Default)]
enum Place {
    /// The thread has it.
    #[default]
    Empty,
    /// For the thread.
    Given(Loan),
    /// For the engine.
    Returned(Loan),
    /// The thread is to end.
    Stopped,
}

/// Where a shard is handed over.
#[derive(Default)]
pub(super) struct Berth {
    /// The thread looks here between two rounds.
    wanted: Arc<AtomicBool>,
    place: Mutex<Place>,
    changed: Condvar,
}

impl Berth {
    /// Whether the engine asks for the shard.
    pub(super) fn wanted(&self) -> &Arc<AtomicBool> {
        &self.wanted
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `f` finds in the place what it looks for.
    fn wait<R>(&self, mut f: impl FnMut(&mut Place) -> Option<R>) -> R {
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

    fn put(&self, place: Place) {
        *self.lock() = place;
        self.changed.notify_one();
    }

    /// The engine asks for the shard; it has to wake the thread then ([`net::Bell::rouse`]).
    pub(super) fn ask(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// The engine waits for the shard that it has asked for.
    pub(super) fn receive(&self) -> Loan {
        let loan = self.wait(|place| match std::mem::take(place) {
            Place::Returned(loan) => Some(loan),
            other => {
                *place = other;
                None
            }
        });
        self.wanted.store(false, Ordering::Relaxed);
        loan
    }

    /// The engine gives the shard back.
    pub(super) fn give(&self, loan: Loan) {
        self.put(Place::Given(loan));
    }

    /// The engine, which has the shard, ends the thread.
    pub(super) fn stop(&self) {
        self.put(Place::Stopped);
    }

    /// The thread waits for its shard; `None`: it is to end.
    fn take(&self) -> Option<Loan> {
        self.wait(|place| match std::mem::take(place) {
            Place::Given(loan) => Some(Some(loan)),
            Place::Stopped => Some(None),
            other => {
                *place = other;
                None
            }
        })
    }
}

/// The life of a shard's thread.
pub(super) fn work(berth: &Arc<Berth>) {
    while let Some(mut loan) = berth.take() {
        let Loan { shard, part } = &mut loan;
        part.meter.resume(part.now());
        loop {
            part.turn(shard, None, false);
            if part.is_wanted() {
                break;
            }
        }
        part.meter.pause(part.now());
        berth.put(Place::Returned(loan));
    }
}
