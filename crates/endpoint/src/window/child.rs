//! A window that a child process shares: what either writes, both see, and pages are replaced in both.
//!
//! A process can change its own page tables only. So the child has a thread that carries out the orders of the window's
//! owner, by the same `mremap` as here, on a mapping of the frames that it got by `fork`: the memory is sealed, and
//! nobody maps it anew. In: orders over a socket, each answered when it has been carried out; writes of the child to
//! pages that are leaving. Out: answers; such writes as reports over another socket, which the owner answers by orders.
//! The owner waits for the answers, so what it has replaced or protected when a call returns is replaced or protected
//! in both.
//!
//! A child that ends, or closes its sockets, is no longer waited for. One that stops without an answer is a failure of
//! the window.
//!
//! Another program, which reads only ([`super::reader`]), takes the same orders. It is not trusted: the owner gives it
//! up once it does anything but answer each order in time, and orders nothing more there.

use super::{PAGE, State, Window};
use crate::raw_stream::RawStream;
use crate::shared::SharedMemory;
use crate::shared_copy;
use crate::uffd::WriteFaults;
use remap::spaces::Process;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::thread::JoinHandle;

/// How long the owner waits for an answer.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Looks of that length.
const LOOKS: u32 = 10;

/// Pages are put on other frames.
pub(super) const MOVES: u32 = 1;
/// Pages may be written; else they are protected.
const WRITABLE: u32 = 2;
/// Whoever waits in a page tries again.
const WAKE: u32 = 4;
/// The child has all pages.
pub(super) const READY: u32 = 8;

pub(super) fn place(address: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(address as usize)
}

/// What a child is to do: to which of its pages, and where they lie.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Order {
    pub(super) page: u32,
    pub(super) pages: u32,
    pub(super) frame: u32,
    pub(super) moves: bool,
    pub(super) writable: bool,
}

/// Sends numbers together. Waits for nobody: who takes each before the next is sent always has room.
pub(super) fn send(socket: &RawStream, numbers: &[u32]) -> Result<(), Errno> {
    let octets: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    socket.send(&octets)
}

/// Receives so many numbers that were sent together.
pub(super) fn receive<const N: usize>(socket: &RawStream) -> Result<[u32; N], Errno> {
    let mut octets = [0u8; 32];
    match socket.receive(&mut octets[..4 * N], RecvFlags::empty())? {
        0 => Err(Errno::PIPE),
        n if n == 4 * N => {
            let words = octets.as_chunks::<4>().0;
            Ok(std::array::from_fn(|word| u32::from_ne_bytes(words[word])))
        }
        _ => Err(Errno::PROTO),
    }
}

/// The next order: its number, its kind, and page, pages and frame.
pub(super) fn next_order(orders: &RawStream) -> Result<[u32; 5], Errno> {
    receive(orders)
}

/// Answers an order: its number, and 0 or why it could not be carried out.
pub(super) fn answer(orders: &RawStream, number: u32, done: Result<(), Errno>) -> Result<(), Errno> {
    send(orders, &[number, done.err().map_or(0, |e| e.raw_os_error() as u32)])
}

/// A child or a reader, as the owner sees it.
#[derive(Debug)]
pub(super) struct Remote {
    orders: RawStream,
    reports: Arc<RawStream>,
    /// The number of the last order. Number 0 is answered without one: all is ready to take orders.
    number: u32,
    /// It writes nothing, and is not trusted.
    reads_only: bool,
}

impl Remote {
    pub(super) fn new(orders: OwnedFd, reports: OwnedFd, reads_only: bool) -> Self {
        Remote { orders: orders.into(), reports: Arc::new(reports.into()), number: 0, reads_only }
    }

    pub(super) fn reads_only(&self) -> bool {
        self.reads_only
    }

    /// Whether its process has ended, or closed its sockets.
    pub(super) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&*self.reports, PollFlags::empty())];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|n| n > 0)
    }

    fn await_answer(&self) -> Result<(), Errno> {
        let mut fds = [PollFd::new(&self.orders, PollFlags::IN)];
        let mut look = || rustix::io::retry_on_intr(|| poll(&mut fds, Some(&PATIENCE)));
        // Several looks in place of a long one: if all processes were stopped meanwhile, the child has its time after
        // that.
        match (0..LOOKS).map(|_| look()).find(|found| *found != Ok(0)).unwrap_or(Ok(0))? {
            0 => Err(Errno::TIMEDOUT),
            _ => match receive(&self.orders)? {
                [number, _] if number != self.number => Err(Errno::PROTO),
                [_, 0] => Ok(()),
                // What the system numbers errors by.
                [_, code @ 1..=4095] => Err(Errno::from_raw_os_error(code as i32)),
                _ => Err(Errno::PROTO),
            },
        }
    }

    fn order(&mut self, [kind, page, pages, frame]: [u32; 4]) -> Result<(), Errno> {
        self.number = self.number.wrapping_add(1);
        send(&self.orders, &[self.number, kind, page, pages, frame])?;
        self.await_answer()
    }

    /// Has an order carried out.
    pub(super) fn carry_out(&mut self, order: Order) -> Result<(), Errno> {
        let kind = if order.moves { MOVES } else { 0 } | if order.writable { WRITABLE } else { 0 };
        self.order([kind, order.page, order.pages, order.frame])
    }

    /// Lets whoever waits in a page try again.
    pub(super) fn wake(&mut self, page: u32) -> Result<(), Errno> {
        self.order([WAKE, page, 1, 0])
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Whoever serves it hears that it is forgotten.
        self.reports.end();
    }
}

/// A second mapping of a window's frames: one that a child inherits, or another program's own.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) start: u64,
    pub(super) octets: usize,
}

impl Frames {
    fn of(pool: &SharedMemory) -> Result<Self, Errno> {
        let octets = pool.len();
        // SAFETY: the pool stays mapped; a shared mapping is made once more (an old length of 0), at an address of the
        // kernel's choice.
        let start = unsafe { rustix::mm::mremap(place(pool.address()), 0, octets, MremapFlags::MAYMOVE) }?;
        let frames = Frames { start: start.expose_provenance() as u64, octets };
        // SAFETY: the mapping just made; the advice changes nothing in this process.
        unsafe { rustix::mm::madvise(place(frames.start), octets, Advice::LinuxDoFork) }?;
        Ok(frames)
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: this value's own mapping, to which nobody has a reference.
        let _ = unsafe { rustix::mm::munmap(place(self.start), self.octets) };
    }
}

/// A child's place at a window. Made before `fork`; afterwards the parent calls [`Seat::keep`] and the child
/// [`Seat::take`]. Another child that is made between them inherits frames and sockets too, so one child is made after
/// the other.
#[derive(Debug)]
pub struct Seat<'a> {
    window: &'a Window,
    frames: Frames,
    /// Here and there.
    orders: [OwnedFd; 2],
    reports: [OwnedFd; 2],
}

pub(super) fn pair() -> Result<[OwnedFd; 2], Errno> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map(|(a, b)| [a, b])
}

impl Window {
    /// A place for a child that is about to be made.
    ///
    /// # Errors
    /// The system has no room; or it forbids faults ([`Window::why_not`]): then pages could not be protected in the
    /// child.
    pub fn seat(&self) -> Result<Seat<'_>, Errno> {
        self.keeper.as_ref().ok_or(Errno::OPNOTSUPP)?;
        Ok(Seat { window: self, frames: Frames::of(&self.pool)?, orders: pair()?, reports: pair()? })
    }
}

impl Seat<'_> {
    /// In the parent: gives the child the window's pages. Waits until the child has called [`Seat::take`].
    ///
    /// # Errors
    /// The window has as many views as it can, or the child does not answer.
    pub fn keep(self) -> Result<(), Errno> {
        let Seat { window, frames, orders: [orders, theirs], reports: [reports, their_reports] } = self;
        drop((frames, theirs, their_reports));
        share(window, Remote::new(orders, reports, false))
    }

    /// In the child: gives it the window. The parent's own [`Window`] is of no use here.
    ///
    /// # Errors
    /// The system forbids faults or has no room, or the parent has not called [`Seat::keep`].
    pub fn take(self) -> Result<ChildView, Errno> {
        let Seat { window, frames, orders: [theirs, orders], reports: [their_reports, reports] } = self;
        drop((theirs, their_reports));
        let octets = window.octets;
        let faults = WriteFaults::open().map_err(|(_, e)| e)?;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of this process.
        let start =
            unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), octets, ProtFlags::empty(), MapFlags::PRIVATE) }?;
        let start = start.expose_provenance() as u64;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (orders, reports) = (orders.into(), reports.into());
        let follower = Arc::new(Follower { frames, start, octets, faults, orders, reports, stop });
        answer(&follower.orders, 0, Ok(()))?;
        while !follower.follow()? {}
        let own = follower.clone();
        let thread = std::thread::Builder::new().name("window".into()).spawn(move || own.run());
        Ok(ChildView { follower, thread: Some(thread.map_err(|_| Errno::AGAIN)?) })
    }
}

/// Gives the window's pages to who has taken a place at it, and serves it from now on. Waits until it is there.
pub(super) fn share(window: &Window, remote: Remote) -> Result<(), Errno> {
    remote.await_answer()?;
    let (reports, reads_only) = (remote.reports.clone(), remote.reads_only);
    let mut state = window.with_room();
    let process = state.real.add_remote(window.octets, remote).ok_or(Errno::MFILE)?;
    let shared = give_pages(window, &mut state, process).and_then(|()| match &window.keeper {
        Some(keeper) => keeper.serve(process, reports, reads_only),
        // Nothing is protected, and nobody reports.
        None => Ok(()),
    });
    if shared.is_err() {
        state.real.forget(process);
        state.clear_gone();
    }
    shared
}

/// Puts all pages of a window where they belong in a child or a reader.
fn give_pages(window: &Window, state: &mut State, process: Process) -> Result<(), Errno> {
    let State { spaces, real, .. } = state;
    let failures = real.failures();
    spaces.share((Process(0), 0), window.octets, (process, 0), real).map_err(|_| Errno::NOMEM)?;
    real.flush();
    let failed = real.failures() != failures;
    match real.remote(process) {
        Some(remote) if !failed => remote.order([READY, 0, 0, 0]),
        _ => Err(Errno::PIPE),
    }
}

/// What a child's thread does.
#[derive(Debug)]
struct Follower {
    frames: Frames,
    start: u64,
    octets: usize,
    faults: WriteFaults,
    orders: RawStream,
    reports: RawStream,
    stop: OwnedFd,
}

impl Follower {
    /// Carries out the next order, and says so; true if it was the one that says that all pages are there.
    fn follow(&self) -> Result<bool, Errno> {
        let [number, kind, page, pages, frame] = next_order(&self.orders)?;
        let done = self.carry_out(kind, [page, pages, frame].map(|n| n as usize * PAGE));
        answer(&self.orders, number, done)?;
        Ok(kind & READY != 0)
    }

    fn carry_out(&self, kind: u32, [at, octets, frame]: [usize; 3]) -> Result<(), Errno> {
        if at + octets > self.octets || frame + octets > self.frames.octets {
            return Err(Errno::RANGE);
        }
        let (address, octets) = (self.start + at as u64, octets as u64);
        if kind & (WAKE | READY) != 0 {
            self.faults.wake(address, octets);
            return Ok(());
        }
        if kind & MOVES != 0 {
            let from = place(self.frames.start + frame as u64);
            // SAFETY: over pages of this view, which stay mapped with the same length; who reads or writes there
            // expects others to write at any time. From pages of the frames, which stay mapped too (an old length of
            // 0).
            unsafe { rustix::mm::mremap_fixed(from, 0, octets as usize, MremapFlags::MAYMOVE, place(address)) }?;
            self.faults.register(address, octets)?;
            self.faults.wake(address, octets);
        }
        if kind & MOVES == 0 || kind & WRITABLE == 0 {
            self.faults.protect(address, octets, kind & WRITABLE == 0)?;
        }
        Ok(())
    }

    fn run(&self) {
        loop {
            let mut fds = [
                PollFd::new(&self.orders, PollFlags::IN),
                PollFd::new(&self.faults, PollFlags::IN),
                PollFd::new(&self.stop, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if !fds[2].revents().is_empty() {
                return;
            }
            let ordered = !fds[0].revents().is_empty();
            while let Some(address) = self.faults.next() {
                let page = (address - self.start) / PAGE as u64;
                if send(&self.reports, &[page as u32]).is_err() {
                    // The owner is behind with these, or gone, which shows below: who waits there faults again.
                    self.faults.wake(self.start + page * PAGE as u64, PAGE as u64);
                    break;
                }
            }
            if ordered && self.follow().is_err() {
                // The owner is gone, and sends nothing any more.
                let _ = self.faults.protect(self.start, self.octets as u64, false);
                return;
            }
        }
    }
}

/// A window in a child of its owner. Each page of it is what the same page of the window is.
#[derive(Debug)]
pub struct ChildView {
    follower: Arc<Follower>,
    thread: Option<JoinHandle<()>>,
}

impl ChildView {
    /// Its memory, which any thread may write at any time; a write to a page that is leaving waits for a copy of the
    /// page.
    pub fn octets(&self) -> &[AtomicU8] {
        let start = ptr::with_exposed_provenance::<AtomicU8>(self.follower.start as usize);
        // SAFETY: the view is mapped with this many octets as long as this lives: pages are exchanged under the
        // system's own lock, never taken away. An atomic has its octet's layout and may change under a shared
        // reference.
        unsafe { std::slice::from_raw_parts(start, self.follower.octets) }
    }

    /// Writes octets. Panics if they are not inside.
    pub fn write(&self, at: usize, octets: &[u8]) {
        shared_copy::copy_in(octets, &self.octets()[at..at + octets.len()]);
    }

    /// Reads octets. Panics if they are not inside.
    pub fn read(&self, at: usize, octets: &mut [u8]) {
        shared_copy::copy_out(&self.octets()[at..at + octets.len()], octets);
    }
}

impl Drop for ChildView {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.follower.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // SAFETY: the view's own place, all of it; references into it have ended with this value.
        let _ = unsafe { rustix::mm::munmap(place(self.follower.start), self.follower.octets) };
    }
}

/// Takes reports of a child: pages that it waits to write. `Err` when it has gone.
pub(super) fn next_report(reports: &RawStream) -> Result<u32, Errno> {
    receive::<1>(reports).map(|[page]| page)
}
