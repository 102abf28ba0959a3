//! A window that another program reads: one that was not forked from its owner, or that has called `exec` since.
//!
//! Such a process has no mapping of the window's frames, and cannot get one to write by: the memory is sealed against
//! further writable mappings ([`crate::shared::seal`]). It can map the frames to read them, by a descriptor that the
//! owner passes. Frames are not pages: which frame a page lies on changes with each replacement. So the program has a
//! place with the window's pages, and a thread that puts them on other frames as the owner orders, as a child's does
//! ([`super::child`]). In: orders, each answered when it has been carried out. Out: answers. It writes nothing, so
//! nothing has to be protected there, and no page is copied because of it.

use super::child::{self, Frames, MOVES, READY, Remote};
use super::{PAGE, Window};
use crate::raw_stream::RawStream;
use crate::seqpacket::{PacketError, Packets};
use crate::shared_copy;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};
use rustix::net::Shutdown;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::thread::JoinHandle;

/// Most frames of a window: a descriptor names them by 16 bits.
const MAX_FRAMES: usize = u16::MAX as usize;

/// What goes along with the descriptors: of the frames, of the socket for orders, of the one whose end tells that the
/// reader has gone.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Admission {
    /// Octets of the window.
    octets: u64,
    /// Octets of its frames.
    frames: u64,
}

fn errno(e: PacketError) -> Errno {
    match e {
        PacketError::Closed => Errno::PIPE,
        PacketError::System(e) => e,
        PacketError::Malformed(_) => Errno::PROTO,
    }
}

impl Window {
    /// Gives another program the window to read: the one that calls [`ReaderView::take`] at the other end of `socket`.
    /// Waits until it has. It can read all of the window's frames, also those that SDUs are received into. Until it
    /// ends, each call that replaces pages waits for it, ten seconds for an order at most. One that does not answer
    /// then, or not as it should, is forgotten: its pages stay what they are.
    ///
    /// # Errors
    /// The window has as many views as it can, or the program does not answer.
    pub fn admit_reader(&self, socket: &Packets) -> Result<(), Errno> {
        let ([orders, their_orders], [reports, their_reports]) = (child::pair()?, child::pair()?);
        // It has nothing to report, and no descriptor to pass.
        rustix::net::shutdown(&reports, Shutdown::Read)?;
        let admission = Admission { octets: self.octets as u64, frames: self.pool.len() as u64 };
        let passed = [self.file.as_fd(), their_orders.as_fd(), their_reports.as_fd()];
        socket.send(&admission, &passed).map_err(errno)?;
        drop((their_orders, their_reports));
        child::share(self, Remote::new(orders, reports, true))
    }
}

/// A window in another program, to be read. Each page of it is what the same page of the window is.
#[derive(Debug)]
pub struct ReaderView {
    follower: Arc<Follower>,
    thread: Option<JoinHandle<()>>,
}

/// What the program's thread does.
#[derive(Debug)]
struct Follower {
    frames: Frames,
    start: u64,
    octets: usize,
    orders: RawStream,
    /// Says by its end that this has ended.
    _reports: RawStream,
    stop: OwnedFd,
}

impl ReaderView {
    /// Takes the window that comes over `socket`. Waits for it, if the socket does so. `None`, if none has come.
    ///
    /// # Errors
    /// What came is no window, its owner has gone, or the system has no room.
    pub fn take(socket: &Packets) -> Result<Option<Self>, Errno> {
        let Some((admission, passed)) = socket.receive::<Admission>().map_err(errno)? else { return Ok(None) };
        let [memory, orders, reports] = <[OwnedFd; 3]>::try_from(passed).map_err(|_| Errno::PROTO)?;
        let size = |octets: u64| {
            let octets = usize::try_from(octets).ok()?;
            (octets.is_multiple_of(PAGE) && (1..=MAX_FRAMES).contains(&(octets / PAGE))).then_some(octets)
        };
        let (octets, whole) = size(admission.octets).zip(size(admission.frames)).ok_or(Errno::PROTO)?;
        // Memory that shrinks would end who reads it.
        let seals = rustix::fs::fcntl_get_seals(&memory)?;
        if !seals.contains(SealFlags::SHRINK) || rustix::fs::fstat(&memory)?.st_size < whole as i64 {
            return Err(Errno::INVAL);
        }
        // SAFETY: new mappings at addresses of the kernel's choice overlap nothing of this process.
        let (frames, start) = unsafe {
            let frames = rustix::mm::mmap(ptr::null_mut(), whole, ProtFlags::READ, MapFlags::SHARED, &memory, 0)?;
            let frames = Frames { start: frames.expose_provenance() as u64, octets: whole };
            (frames, rustix::mm::mmap_anonymous(ptr::null_mut(), octets, ProtFlags::empty(), MapFlags::PRIVATE)?)
        };
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let start = start.expose_provenance() as u64;
        let (orders, reports) = (orders.into(), reports.into());
        let follower = Arc::new(Follower { frames, start, octets, orders, _reports: reports, stop });
        child::answer(&follower.orders, 0, Ok(()))?;
        follower.take_pages()?;
        let own = follower.clone();
        let thread = std::thread::Builder::new().name("window".into()).spawn(move || own.run());
        Ok(Some(ReaderView { follower, thread: Some(thread.map_err(|_| Errno::AGAIN)?) }))
    }

    /// Octets of the window.
    pub fn len(&self) -> usize {
        self.follower.octets
    }

    /// Never: a window has a page.
    pub fn is_empty(&self) -> bool {
        self.follower.octets == 0
    }

    /// Where it is in this process, as long as this lives. The owner and its children change it at any time; a store
    /// there ends the process.
    pub fn as_ptr(&self) -> *const u8 {
        ptr::with_exposed_provenance(self.follower.start as usize)
    }

    /// Reads octets. Panics if they are not inside.
    pub fn read(&self, at: usize, octets: &mut [u8]) {
        // SAFETY: the view is mapped with this many octets as long as this lives: pages are exchanged under the
        // system's own lock, never taken away. An atomic has its octet's layout and may change under a shared
        // reference; nobody stores by this one.
        let all = unsafe { std::slice::from_raw_parts(self.as_ptr().cast::<AtomicU8>(), self.len()) };
        shared_copy::copy_out(&all[at..at + octets.len()], octets);
    }
}

impl Follower {
    /// Carries out orders until one says that all pages are there, and they are: who reads where none is ends the
    /// process.
    fn take_pages(&self) -> Result<(), Errno> {
        let mut there = vec![false; self.octets / PAGE];
        loop {
            let (kind, mapped) = self.follow()?;
            there[mapped].fill(true);
            if kind & READY != 0 {
                return there.iter().all(|there| *there).then_some(()).ok_or(Errno::PROTO);
            }
        }
    }

    /// Carries out the next order, and says so; gives its kind, and which pages it has mapped.
    fn follow(&self) -> Result<(u32, Range<usize>), Errno> {
        let [number, kind, page, pages, frame] = child::next_order(&self.orders)?;
        let done = self.carry_out(kind, [page, pages, frame].map(|n| n as usize * PAGE));
        child::answer(&self.orders, number, done)?;
        let has_mapped = done.is_ok() && kind & MOVES != 0;
        Ok((kind, if has_mapped { page as usize..page as usize + pages as usize } else { 0..0 }))
    }

    fn carry_out(&self, kind: u32, [at, octets, frame]: [usize; 3]) -> Result<(), Errno> {
        if at + octets > self.octets || frame + octets > self.frames.octets {
            return Err(Errno::RANGE);
        }
        if kind & MOVES != 0 {
            let [from, to] = [self.frames.start + frame as u64, self.start + at as u64].map(child::place);
            // SAFETY: over pages of this view, which stay mapped with the same length; who reads there expects others
            // to write at any time. From pages of the frames, which stay mapped too (an old length of 0).
            unsafe { rustix::mm::mremap_fixed(from, 0, octets, MremapFlags::MAYMOVE, to) }?;
        }
        Ok(())
    }

    fn run(&self) {
        loop {
            let mut fds = [PollFd::new(&self.orders, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let stopped = !fds[1].revents().is_empty();
            // The owner may be gone: then the pages stay what they are.
            if stopped || !fds[0].revents().is_empty() && self.follow().is_err() {
                return;
            }
        }
    }
}

impl Drop for ReaderView {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.follower.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // SAFETY: the view's own place, all of it; references into it have ended with this value.
        let _ = unsafe { rustix::mm::munmap(child::place(self.follower.start), self.follower.octets) };
    }
}
