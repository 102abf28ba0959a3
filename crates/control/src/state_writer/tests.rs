//! What is written when, and what becomes of what cannot be.

use super::*;
use crate::objects::ObjectId;
use crate::sources::commands::Kept;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Does as it is told: each attempt at something waits for whether it succeeds.
struct Told {
    orders: Receiver<bool>,
    done: Sender<String>,
}

impl Told {
    fn act(&self, what: String) -> Result<()> {
        let succeeds = self.orders.recv().unwrap_or(true);
        let _ = self.done.send(format!("{what} {succeeds}"));
        if succeeds { Ok(()) } else { anyhow::bail!("no space left") }
    }
}

impl Disk for Told {
    fn write_state(&mut self, stored: &Stored) -> Result<()> {
        self.act(format!("state {}", stored.commands.down.len()))
    }
    fn reopen(&mut self) -> Result<()> {
        self.act("log".to_owned())
    }
    fn append(&mut self, entry: &Entry) -> Result<()> {
        self.act(format!("entry {} +{}", entry.revision(), entry.left_out))
    }
}

fn kept(n: usize) -> Option<Stored> {
    let down = (0..n).map(|i| ObjectId::Link(format!("a - s:{i}"), 0)).collect();
    Some(Stored { commands: Kept { down, ..Kept::default() }, ..Stored::default() })
}

fn state_writer(retry: Duration) -> (StateWriter, Sender<bool>, Receiver<String>) {
    let ((order, orders), (done, seen)) = (channel(), channel());
    (StateWriter::start(None, Told { orders, done }, retry).unwrap(), order, seen)
}

fn change(state_writer: &StateWriter, n: usize) {
    state_writer.record(|| kept(n), &Who::Operator, "change", n as u64, &[]);
}

#[test]
fn what_cannot_be_written_is_told_and_tried_again_in_order() {
    let (state_writer, order, seen) = state_writer(RETRY);
    change(&state_writer, 1);
    order.send(false).unwrap();
    order.send(false).unwrap();
    assert!(state_writer.wait(Duration::from_secs(10)).unwrap().contains("no space left"));
    // The next change is a reason to try at once; of states the newest is written.
    change(&state_writer, 2);
    (0..3).for_each(|_| order.send(true).unwrap());
    assert_eq!(state_writer.wait(Duration::from_secs(10)), None);
    let all: Vec<String> = seen.try_iter().collect();
    assert_eq!(all, ["entry 1 +0 false", "state 1 false", "entry 1 +0 true", "entry 2 +0 true", "state 2 true"]);
}

#[test]
fn a_disk_that_stalls_holds_up_nobody_and_what_does_not_fit_is_counted() {
    let (state_writer, order, seen) = state_writer(RETRY);
    let begin = Instant::now();
    change(&state_writer, 1);
    // The thread has taken the first, and stands in it.
    while !state_writer.shared.as_ref().unwrap().tray().is_empty() {
        std::thread::yield_now();
    }
    (2..=MAX_ENTRIES + 4).for_each(|n| change(&state_writer, n));
    let said = state_writer.wait(Duration::from_millis(20)).unwrap();
    assert!(said.contains("more than 0.02 s"), "{said}");
    drop(state_writer);
    assert!(begin.elapsed() < LAST_PATIENCE * 3, "{:?}", begin.elapsed());
    // Later it goes on, to the last.
    drop(order);
    let all: Vec<String> = seen.iter().collect();
    assert_eq!(all.len(), 1 + 1 + MAX_ENTRIES + 1);
    assert_eq!(all[..3], ["entry 1 +0 true", "state 1 true", "entry 2 +3 true"]);
    assert_eq!(*all.last().unwrap(), format!("state {} true", MAX_ENTRIES + 4));
}

#[test]
fn what_failed_is_tried_again_without_another_change() {
    let (state_writer, order, seen) = state_writer(Duration::from_millis(1));
    change(&state_writer, 1);
    [true, false, false, true].into_iter().for_each(|succeeds| order.send(succeeds).unwrap());
    let all: Vec<String> = seen.iter().take(4).collect();
    assert_eq!(all, ["entry 1 +0 true", "state 1 false", "state 1 false", "state 1 true"]);
    drop(order);
    drop(state_writer);
    assert_eq!(seen.iter().count(), 0);
}

#[test]
fn what_failed_is_tried_once_more_at_the_end() {
    let (state_writer, order, seen) = state_writer(RETRY);
    change(&state_writer, 1);
    [true, false].into_iter().for_each(|succeeds| order.send(succeeds).unwrap());
    assert!(state_writer.wait(Duration::from_secs(10)).is_some());
    order.send(true).unwrap();
    drop(state_writer);
    let all: Vec<String> = seen.iter().collect();
    assert_eq!(all, ["entry 1 +0 true", "state 1 false", "state 1 true"]);
}

#[test]
fn entries_that_come_back_go_before_those_that_came_since_and_are_bounded() {
    let entry = |n| Audit::default().entry(&Who::Operator, "change", n, &[]).unwrap();
    let mut tray = Tray::default();
    (1..=3).for_each(|n| tray.put(kept(n as usize), Some(entry(n))));
    let back = (kept(9), (0..MAX_ENTRIES as u64 - 1).map(|n| entry(100 + n)).collect(), 5);
    tray.take_back(back);
    assert_eq!((tray.entries.len(), tray.left_out), (MAX_ENTRIES, 7));
    assert_eq!((tray.entries[0].revision(), tray.entries[MAX_ENTRIES - 1].revision()), (100, 1));
    assert_eq!(tray.state, kept(3), "what is newer wins");
    tray.put(None, Some(entry(4)));
    assert_eq!((tray.entries.len(), tray.left_out, tray.given), (MAX_ENTRIES, 8, 4));
    assert_eq!(tray.state, kept(3));
}

#[test]
fn what_is_not_kept_is_told_until_it_is_and_the_log_is_opened_anew_when_asked() {
    let (state_writer, order, seen) = state_writer(Duration::from_millis(1));
    change(&state_writer, 1);
    order.send(true).unwrap();
    order.send(false).unwrap();
    assert!(state_writer.wait(Duration::from_secs(10)).is_some());
    let told = state_writer.look().unwrap();
    assert!(told.waits && told.not_kept.unwrap().contains("no space left"));
    state_writer.reopen_log();
    drop(order);
    while state_writer.look().unwrap().not_kept.is_some() {
        std::thread::yield_now();
    }
    state_writer.end();
    drop(state_writer);
    let all: Vec<String> = seen.iter().collect();
    assert!(all.contains(&"log true".to_owned()) && all.last().unwrap() == "state 1 true", "{all:?}");
}
