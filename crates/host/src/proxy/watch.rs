//! Sockets into which clients write, and that are not read at once: the user proxy hears when something comes, to see
//! whether it is descriptors.

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Between two looks: a client that writes all the time costs little.
const REST: Duration = Duration::from_millis(100);

/// See the module's head.
pub(super) struct Watch {
    epoll: OwnedFd,
    rests_until: Cell<Option<Instant>>,
}

impl Watch {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Watch { epoll: epoll::create(CreateFlags::CLOEXEC)?, rests_until: Cell::new(None) })
    }

    /// Watches a socket of this slot, for as long as it is open.
    pub(super) fn add(&self, socket: &OwnedFd, slot: u32) -> Result<(), Errno> {
        epoll::add(&self.epoll, socket, EventData::new_u64(slot.into()), EventFlags::IN | EventFlags::ET)
    }

    /// What to poll it for now.
    pub(super) fn wanted(&self) -> PollFlags {
        if self.timeout().is_none() { PollFlags::IN } else { PollFlags::empty() }
    }

    /// When to poll it again, if not now.
    pub(super) fn timeout(&self) -> Option<Duration> {
        let left = self.rests_until.get()?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Slots into whose sockets something has come since it was asked last.
    pub(super) fn take(&self) -> Vec<u32> {
        self.rests_until.set(Some(Instant::now() + REST));
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
        let mut slots = Vec::new();
        loop {
            let n = epoll::wait(&self.epoll, &mut events, Some(&Timespec::default())).unwrap_or(0);
            slots.extend(events[..n].iter().map(|event| { event.data }.u64() as u32));
            if n < events.len() {
                return slots;
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
