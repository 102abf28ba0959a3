//! The spawner: a process that starts acceptors for the service.
//!
//! It begins with the service, while that has little memory, and does nothing else: it takes no octet of a client's. An
//! acceptor that begins later is a copy of it, and so the engine's rounds copy no page of theirs for it. Acceptors are
//! children of the service's process, as the spawner is.

use super::acceptor;
use super::frame::{self, Frame, ReceiveResult};
use crate::sys::{self, Child};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::time::Duration;

/// How long the first acceptor is waited for.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// The service's side.
#[derive(Debug)]
pub(super) struct Spawner {
    channel: OwnedFd,
    child: Child,
}

impl Spawner {
    /// Starts one, for acceptors of what comes to `listener`.
    pub(super) fn begin(listener: &OwnedFd) -> Result<Self, Errno> {
        let (channel, theirs) = frame::pair()?;
        let keep = [listener, &theirs].map(AsRawFd::as_raw_fd);
        let child = sys::fork_child(c"cellway-spawn", &keep, || run(listener, &theirs))?;
        Ok(Spawner { channel, child })
    }

    /// Asks for an acceptor that has this end of the service's channel.
    ///
    /// # Errors
    /// The spawner has gone, or has no room.
    pub(super) fn ask(&self, acceptors_end: &OwnedFd) -> Result<(), Errno> {
        frame::send(&self.channel, &[b"begin"], &[acceptors_end.as_fd()])
    }

    /// The acceptor that began last, if one has begun since this was asked.
    pub(super) fn take_begun(&self) -> Option<Child> {
        let mut last = None;
        while let ReceiveResult::Frame(frame) = frame::receive(&self.channel, 0) {
            last = frame.octets.first_chunk::<4>().map(|word| i32::from_ne_bytes(*word)).or(last);
        }
        last.map(Child::of)
    }

    /// Waits for the first acceptor.
    pub(super) fn wait_begun(&self) -> Result<Child, Errno> {
        let waited =
            rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(&self.channel, PollFlags::IN)], Some(&PATIENCE)));
        waited.and_then(|_| self.take_begun().ok_or(Errno::AGAIN))
    }

    /// Ends it.
    pub(super) fn end(&mut self) {
        let _ = rustix::net::shutdown(&self.channel, rustix::net::Shutdown::Both);
        self.child.end(Duration::from_secs(2));
    }
}

/// The spawner's whole life.
fn run(listener: &OwnedFd, service: &OwnedFd) {
    loop {
        let _ = poll(&mut [PollFd::new(service, PollFlags::IN)], None);
        match frame::receive(service, 0) {
            ReceiveResult::Frame(Frame { fds, .. }) => {
                let Some(end) = fds.into_iter().next() else { continue };
                let keep = [listener, &end].map(AsRawFd::as_raw_fd);
                let begun = sys::fork_sibling(c"cellway-accept", &keep, || acceptor::run(listener, &end));
                // Where there is no process to be had, the service sees the end gone, and asks again later.
                if let Ok(id) = begun {
                    let _ = frame::send(service, &[&id.to_ne_bytes()], &[]);
                }
            }
            ReceiveResult::Nothing => {}
            ReceiveResult::End => return,
        }
    }
}
