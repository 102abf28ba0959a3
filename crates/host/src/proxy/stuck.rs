//! What the acceptor could not end at once: user proxies that were killed, and connections with descriptors inside that
//! no user proxy can have.
//!
//! To close such a connection may take as long as whoever made a descriptor inside likes, and a process that does
//! nothing else closes it. There are few of these: one of a user, 16 in all, and two for all that is too much to be
//! held here: one gathers it while the other closes what it has gathered before.

use super::frame;
use crate::sys::{self, Child};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use rustix::io::Errno;

/// Processes that close connections, at most one of a user ...
const MAX_DISPOSERS: usize = 16;
/// ... as long as no more connections than this wait for one: then one more gathers all of them.
const MAX_HELD: usize = 1024;

/// See the module's head.
#[derive(Default)]
pub(super) struct Stuck {
    children: Vec<(u32, Child)>,
    /// Connections with descriptors inside, which wait for a process to close them.
    held: Vec<(u32, OwnedFd)>,
    /// Processes that close connections, and whose.
    disposers: Vec<(Option<u32>, Child)>,
    /// The process that has what is too much to be held, while another one closes what such a process had before.
    gatherer: Option<Gatherer>,
}

/// A process that is given connections, and closes them when it is told that there are no more.
struct Gatherer {
    child: Child,
    channel: OwnedFd,
}

impl Stuck {
    /// Kills a user's proxy, and ends the connections that wait for it. One that cannot die now is remembered.
    pub(super) fn end(&mut self, uid: u32, waiting: impl IntoIterator<Item = OwnedFd>, child: Child) {
        for client in waiting {
            self.dismiss(uid, client);
        }
        child.kill();
        self.children.push((uid, child));
        self.look_again();
    }

    /// Whether a user proxy that was killed has not ended.
    pub(super) fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// How many of a user's.
    pub(super) fn count(&self, uid: u32) -> usize {
        self.children.iter().filter(|(user, _)| *user == uid).count()
    }

    /// Whether connections are being closed, or are to be.
    pub(super) fn closes(&self) -> bool {
        !self.held.is_empty() || !self.disposers.is_empty() || self.gatherer.is_some()
    }

    /// What has ended is forgotten, and what can be closed now is closed.
    pub(super) fn look_again(&mut self) {
        self.children.retain_mut(|(_, child)| !child.has_ended());
        self.disposers.retain_mut(|(_, child)| !child.has_ended());
        if self.gatherer.as_mut().is_some_and(|gatherer| gatherer.child.has_ended()) {
            self.gatherer = None;
        }
        if self.held.len() >= MAX_HELD {
            self.gather();
        }
        // It closes what it has once no other one does.
        if self.disposers.iter().all(|(of, _)| of.is_some())
            && let Some(Gatherer { child, .. }) = self.gatherer.take()
        {
            self.disposers.push((None, child));
        }
        let mut users: Vec<u32> = self.held.iter().map(|(uid, _)| *uid).collect();
        users.sort_unstable();
        users.dedup();
        users.retain(|uid| {
            let is_stuck = self.children.iter().any(|(user, _)| user == uid);
            !is_stuck && !self.disposers.iter().any(|(user, _)| *user == Some(*uid))
        });
        for uid in users {
            if self.disposers.iter().filter(|(of, _)| of.is_some()).count() >= MAX_DISPOSERS {
                break;
            }
            self.dispose(uid);
        }
    }

    /// Ends a connection that no user proxy can have.
    pub(super) fn dismiss(&mut self, uid: u32, client: OwnedFd) {
        // From here on nothing more can be put into it.
        let _ = rustix::net::shutdown(&client, rustix::net::Shutdown::Both);
        if endpoint::passed::lie_in(&client) {
            self.held.push((uid, client));
        }
    }

    /// Closes what is held of a user in a process of its own. If there is none to be had, it is held on.
    fn dispose(&mut self, of: u32) {
        let Ok((ours, theirs)) = frame::pair() else { return };
        let meant = self.held.iter().filter(|(uid, _)| *uid == of).map(|(_, client)| client);
        let keep: Vec<RawFd> = meant.chain([&theirs]).map(AsRawFd::as_raw_fd).collect();
        let begun = sys::fork_child(c"cellway-proxy", &keep, || {
            // Once the other end has gone, so have the acceptor's copies: the end of those that this process has may
            // take time.
            while poll(&mut [PollFd::new(&theirs, PollFlags::IN)], None) == Err(Errno::INTR) {}
        });
        if let Ok(child) = begun {
            self.held.retain(|(uid, _)| *uid != of);
            drop(ours);
            self.disposers.push((Some(of), child));
        }
    }

    /// Gives all that is held to the process that gathers it, as far as it has room. What there is none for is held on.
    fn gather(&mut self) {
        if self.gatherer.is_none() {
            self.gatherer = Gatherer::begin();
        }
        let Some(gatherer) = &self.gatherer else { return };
        while let Some((_, client)) = self.held.last()
            && gatherer.give(client)
        {
            // That process has it, and closes it later.
            self.held.pop();
        }
    }
}

impl Gatherer {
    fn begin() -> Option<Self> {
        let (channel, theirs) = frame::pair().ok()?;
        let child = sys::fork_child(c"cellway-proxy", &[theirs.as_raw_fd()], || {
            let mut gathered = Vec::new();
            loop {
                let _ = poll(&mut [PollFd::new(&theirs, PollFlags::IN)], None);
                match frame::receive(&theirs, 0) {
                    frame::ReceiveResult::Frame(frame) => gathered.push(frame.fds),
                    frame::ReceiveResult::Nothing => {}
                    // The end of a process waits for fewer things than that of a descriptor (`SO_LINGER`).
                    frame::ReceiveResult::End => return std::mem::forget(gathered),
                }
            }
        });
        Some(Gatherer { child: child.ok()?, channel })
    }

    /// False if there is no room now.
    fn give(&self, client: &OwnedFd) -> bool {
        frame::send(&self.channel, &[b"gather"], &[client.as_fd()]).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::Timespec;
    use std::time::{Duration, Instant};

    /// In a process of its own: however much comes while what came before takes its time to close, it is in few
    /// processes, and is closed in the end.
    fn hold_while_others_close() {
        let closes_for_ever = || sys::fork_child(c"test", &[], || std::thread::sleep(Duration::from_secs(60))).unwrap();
        let disposers = vec![(Some(1), closes_for_ever()), (None, closes_for_ever())];
        let mut stuck = Stuck { disposers, ..Stuck::default() };
        let (end, ours) = rustix::pipe::pipe().unwrap();
        for _ in 0..5 * MAX_HELD {
            stuck.held.push((1, ours.try_clone().unwrap()));
            stuck.look_again();
            assert!(stuck.disposers.len() <= 2, "{} processes", stuck.disposers.len());
        }
        drop(ours);
        let until = |stuck: &mut Stuck, so: fn(&Stuck) -> bool| {
            let begin = Instant::now();
            while !so(stuck) {
                stuck.look_again();
                assert!(begin.elapsed() < Duration::from_secs(10), "{} are held", stuck.held.len());
                std::thread::yield_now();
            }
        };
        until(&mut stuck, |stuck| stuck.held.len() < MAX_HELD);
        let is_open = || {
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(&end, PollFlags::empty())], Some(&none)) == Ok(0)
        };
        assert!(is_open());
        stuck.disposers.iter().for_each(|(_, child)| child.kill());
        until(&mut stuck, |stuck| !stuck.closes());
        assert!(!is_open(), "not all are closed");
    }

    #[test]
    fn connections_that_wait_to_be_closed_are_in_few_processes_and_not_all_at_the_gate() {
        let (ours, theirs) = frame::pair().unwrap();
        let mut child = sys::fork_child(c"test", &[theirs.as_raw_fd()], || {
            hold_while_others_close();
            frame::send(&theirs, &[b"done"], &[]).unwrap();
        })
        .unwrap();
        drop(theirs);
        let mut fds = [PollFd::new(&ours, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&Timespec { tv_sec: 20, tv_nsec: 0 }));
        assert!(matches!(frame::receive(&ours, 0), frame::ReceiveResult::Frame(_)), "it has not done so");
        child.end(Duration::from_secs(1));
    }
}
