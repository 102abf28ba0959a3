//! Processes of a daemon, as `/proc` tells of them.

use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// What is waited for happens within this time, on a machine under load too.
const PATIENCE: Duration = Duration::from_secs(30);

/// The parent and the name of a process.
fn of(id: u32) -> Option<(u32, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (head, rest) = stat.rsplit_once(") ")?;
    // Field 3 of proc(5) is the state: one that has ended and was not waited for is none any more.
    let mut fields = rest.split(' ');
    let lives = fields.next().is_some_and(|state| state != "Z");
    let parent = fields.next()?.parse().ok()?;
    lives.then(|| (parent, head.split_once(" (").map_or("", |(_, name)| name).to_owned()))
}

fn all() -> impl Iterator<Item = (u32, u32, String)> {
    let ids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| of(id).map(|(parent, name)| (id, parent, name)))
}

/// Children of a process that are called so and live.
pub fn children(parent: u32, name: &str) -> Vec<u32> {
    all().filter(|(_, of, called)| *of == parent && called == name).map(|(id, ..)| id).collect()
}

/// The one child of this name, once it is there.
///
/// # Panics
/// If there is none, or there are several.
pub fn child(parent: u32, name: &str) -> u32 {
    until(name, || children(parent, name).len() == 1);
    children(parent, name)[0]
}

/// All processes that a process has started, and those have.
pub fn descendants(of: u32) -> Vec<u32> {
    let all: Vec<_> = all().collect();
    let mut found = vec![of];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(all.iter().filter(|(_, of, _)| *of == parent).map(|(id, ..)| *id));
        at += 1;
    }
    found.split_off(1)
}

/// Kills a process.
pub fn kill(id: u32) {
    // One that has ended meanwhile is as dead.
    let _ = Pid::from_raw(id as i32).map(|id| kill_process(id, Signal::KILL));
}

/// Waits until something is so.
///
/// # Panics
/// If it is not within half a minute.
pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    within(PATIENCE, what, is_so);
}

/// The same for who has another patience.
///
/// # Panics
/// If it is not within that time.
pub fn within(patience: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < patience, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
