//! The hand-over and the rule for sleeping under every order that the memory model allows
//! (`RUSTFLAGS="--cfg loom" cargo test --release -p cellway-net --lib loom`; `scripts/test loom` does it).

use super::Mailbox;
use crate::bell::Bell;
use loom::sync::Notify;
use loom::thread;
use std::sync::Arc;
use std::task::Wake;

/// What a thread sleeps on: a notification stays until it is waited for, as an event of an eventfd does.
struct Pillow(Notify);

impl Wake for Pillow {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// A thread with its bell.
struct Sleeper {
    bell: Arc<Bell>,
    pillow: Arc<Pillow>,
}

impl Sleeper {
    fn new() -> Self {
        let (bell, pillow) = (Arc::new(Bell::default()), Arc::new(Pillow(Notify::new())));
        bell.set_waker(pillow.clone().into());
        Sleeper { bell, pillow }
    }

    /// Sleeps until it is called, unless it has been. Loom reports a thread that nobody wakes.
    fn rest(&self) {
        if self.bell.prepare_sleep() {
            self.pillow.0.wait();
            self.bell.awake();
        }
        self.bell.answer();
    }
}

fn hand_over(items: u32) {
    loom::model(move || {
        let mailbox = Arc::new(Mailbox::new(0));
        let (giver, taker) = (Sleeper::new(), Sleeper::new());
        let (to_giver, to_taker, other) = (giver.bell.clone(), taker.bell.clone(), mailbox.clone());
        let gives = thread::spawn(move || {
            for item in 1..=items {
                while !other.give(|content| *content = item, &to_taker, 0) {
                    giver.rest();
                }
            }
        });
        for item in 1..=items {
            let mut got = 0;
            let mut empty = |content: &mut u32| {
                got = std::mem::take(content);
                true
            };
            while mailbox.take(&mut empty, &to_giver, 1) != Some(true) {
                taker.rest();
            }
            assert_eq!(got, item);
        }
        gives.join().unwrap();
    });
}

#[test]
fn one_that_waits_for_a_hand_over_is_woken() {
    hand_over(1);
}

#[test]
fn one_that_waits_for_an_empty_mailbox_is_woken_and_nothing_is_lost() {
    hand_over(3);
}

#[test]
fn a_thread_that_is_roused_sees_why() {
    loom::model(|| {
        let sleeper = Sleeper::new();
        let wanted = Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let (bell, wants) = (sleeper.bell.clone(), wanted.clone());
        let rouses = thread::spawn(move || {
            wants.store(true, loom::sync::atomic::Ordering::Relaxed);
            bell.rouse();
        });
        if sleeper.bell.prepare_sleep() {
            if !wanted.load(loom::sync::atomic::Ordering::Relaxed) {
                sleeper.pillow.0.wait();
            }
            sleeper.bell.awake();
        }
        rouses.join().unwrap();
        assert!(wanted.load(loom::sync::atomic::Ordering::Relaxed));
    });
}
