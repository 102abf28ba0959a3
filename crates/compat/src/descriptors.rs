//! Descriptors of this library's own in the program's table: kept out of the program's way, and safe from its `close`.
//!
//! They get high numbers, so that the program's are the lowest as always, and are marked here: a program that closes
//! all descriptors that it does not know would otherwise end its circuits.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::atomic::{AtomicU64, Ordering};

/// Descriptors beyond are not served.
pub(crate) const MAX_FDS: usize = 1 << 16;

/// Below are the program's, where it may have 1024.
const USUAL_FIRST: u64 = 512;
/// Below are the program's, however few it may have.
pub(crate) const LEAST_FIRST: RawFd = 16;

static HIDDEN: [AtomicU64; MAX_FDS / 64] = [const { AtomicU64::new(0) }; MAX_FDS / 64];

fn word(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((HIDDEN.get(fd / 64)?, 1 << (fd % 64)))
}

/// Whether a number is one of this library's own.
pub(crate) fn is_hidden(fd: RawFd) -> bool {
    word(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// The first hidden number from `first` on.
pub(crate) fn next_hidden(first: RawFd) -> Option<RawFd> {
    (first.max(0)..MAX_FDS as RawFd).find(|fd| is_hidden(*fd))
}

fn mark(fd: RawFd, hidden: bool) {
    if let Some((word, bit)) = word(fd) {
        if hidden {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

/// A descriptor of the library's own, or what wraps one.
#[derive(Debug)]
pub(crate) struct Hidden<T: AsFd = OwnedFd>(pub(crate) T);

impl<T: AsFd + From<OwnedFd>> Hidden<T> {
    /// Moves a descriptor out of the program's way.
    ///
    /// # Errors
    /// No number is free.
    pub(crate) fn new(fd: impl AsFd) -> Result<Self, Errno> {
        let moved = match rustix::io::fcntl_dupfd_cloexec(&fd, first()) {
            // A socket takes six descriptors where the kernel's takes one: what the program may have is not less for
            // it.
            Err(Errno::MFILE | Errno::INVAL) if raise_limit() => rustix::io::fcntl_dupfd_cloexec(&fd, first())?,
            moved => moved?,
        };
        Self::here(moved)
    }

    /// Hides a descriptor where it is: it was hidden before an `exec`.
    ///
    /// # Errors
    /// Its number is too high.
    pub(crate) fn here(fd: OwnedFd) -> Result<Self, Errno> {
        if word(fd.as_raw_fd()).is_none() {
            return Err(Errno::MFILE);
        }
        mark(fd.as_raw_fd(), true);
        Ok(Hidden(fd.into()))
    }
}

impl<T: AsFd> Hidden<T> {
    /// Its number.
    pub(crate) fn number(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Descriptors that are hidden now get this number or a higher one. Where the limit has been another, others are below.
fn first() -> RawFd {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (limit / 2).clamp(LEAST_FIRST as u64, USUAL_FIRST) as RawFd
}

/// Lets the process have as many descriptors as it may, or as are served. False if it has them already.
fn raise_limit() -> bool {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(u64::MAX).min(MAX_FDS as u64);
    let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
    limit.current.is_some_and(|now| now < wanted) && setrlimit(Resource::Nofile, raised).is_ok()
}

/// Whether a program that this one starts by `exec` gets a descriptor.
pub(crate) fn set_inherited(fd: RawFd, inherited: bool) {
    let flags = if inherited { FdFlags::empty() } else { FdFlags::CLOEXEC };
    // Fails for a descriptor that is not open, which nobody gets.
    let _ = rustix::io::fcntl_setfd(borrow(fd), flags);
}

/// A descriptor that was inherited, for this library to own.
pub(crate) fn inherit(fd: RawFd) -> Option<OwnedFd> {
    if rustix::io::fcntl_getfd(borrow(fd)).is_err() {
        return None;
    }
    // SAFETY: it is open, and it is this library's: the page of a socket says so, which only this library writes.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Has a number be another descriptor from now on, in one step.
///
/// # Errors
/// As `dup2`.
pub(crate) fn replace(number: RawFd, by: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: whoever owns the number goes on owning it: it is open before and after, and is not closed here.
    let mut old = std::mem::ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
    rustix::io::dup3(by, &mut old, rustix::io::DupFlags::CLOEXEC)
}

impl<T: AsFd> Drop for Hidden<T> {
    fn drop(&mut self) {
        // The number is an ordinary one again when the descriptor itself is closed, just after this.
        mark(self.0.as_fd().as_raw_fd(), false);
    }
}

/// A descriptor that the program gave with a call that is under way.
pub(crate) fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: only used for the time of one call of the program's on this descriptor. If another thread of the program
    // closes it meanwhile, system calls on it fail or meet its successor: as they would without this library.
    unsafe { BorrowedFd::borrow_raw(fd) }
}
