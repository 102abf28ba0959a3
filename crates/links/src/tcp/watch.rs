//! What a link waits for: its bell, and sockets that come and go, behind one descriptor that stays.
//!
//! The thread that waits registers that descriptor once. What a link waits for it says itself, where it changes.

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

const BELL: u64 = 0;
const SOCKET: u64 = 1;

/// What has happened.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ready {
    pub(super) bell: bool,
    pub(super) readable: bool,
    pub(super) writable: bool,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Watch {
    epoll: OwnedFd,
    told: Option<(RawFd, EventFlags)>,
}

impl Watch {
    pub(super) fn new(bell: BorrowedFd<'_>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, bell, EventData::new_u64(BELL), EventFlags::IN)?;
        Ok(Watch { epoll, told: None })
    }

    /// Waits for this of `socket` from now on, and for nothing of the one before.
    pub(super) fn tell(&mut self, socket: BorrowedFd<'_>, readable: bool, writable: bool) {
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, readable);
        wanted.set(EventFlags::OUT, writable);
        let told = (socket.as_raw_fd(), wanted);
        if self.told == Some(told) {
            return;
        }
        let data = EventData::new_u64(SOCKET);
        let done = if wanted.is_empty() {
            // An error would be heard even where nothing is asked for.
            epoll::delete(&self.epoll, socket).or_else(|e| if e == Errno::NOENT { Ok(()) } else { Err(e) })
        } else {
            epoll::modify(&self.epoll, socket, data, wanted)
                .or_else(|e| if e == Errno::NOENT { epoll::add(&self.epoll, socket, data, wanted) } else { Err(e) })
        };
        // What failed is tried again the next time.
        self.told = done.is_ok().then_some(told);
    }

    /// Waits for nothing of `socket` any more, which goes elsewhere or is closed.
    pub(super) fn forget(&mut self, socket: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, socket);
        self.told = None;
    }

    /// What has happened by now.
    pub(super) fn poll(&self) -> Ready {
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 2];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let n = epoll::wait(&self.epoll, &mut events[..], Some(&now)).unwrap_or(0);
        let mut ready = Ready::default();
        for event in &events[..n] {
            let flags = event.flags;
            let broken = flags.intersects(EventFlags::HUP | EventFlags::ERR);
            if event.data.u64() == BELL {
                ready.bell = true;
            } else {
                ready.readable |= broken || flags.contains(EventFlags::IN);
                ready.writable |= broken || flags.contains(EventFlags::OUT);
            }
        }
        ready
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
