//! Descriptors: closing, duplicating.

use super::status;
use crate::descriptors::{MAX_FDS, borrow, is_hidden, next_hidden};
use crate::table::Held;
use crate::{real, table};
use libc::{c_int, c_uint, c_void};
use rustix::fd::RawFd;
use rustix::fs::OFlags;
use rustix::io::{Errno, FdFlags};
use std::sync::atomic::{AtomicU32, Ordering};

/// The process whose table this memory holds. A child of `vfork` has its parent's memory, but descriptors of its own:
/// what it closes stays open here.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// At the beginning of a process, and of a forked one.
pub(super) fn note_process() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
}

/// Whether the table is this process's.
pub(super) fn is_own_memory() -> bool {
    !is_borrowed_memory()
}

fn is_borrowed_memory() -> bool {
    PROCESS.load(Ordering::Relaxed) != std::process::id()
}

/// A descriptor that has just been made from another one.
fn note_copy(held: Option<Held>, new: RawFd) {
    if new < 0 || is_borrowed_memory() {
        return;
    }
    match held {
        Some(held) => {
            table::share(new, held);
            note_flags(new);
        }
        None => drop(table::remove(new)),
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub(super) unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if is_hidden(fd) {
        return status(Err(Errno::BADF));
    }
    if table::contains(fd)
        && !is_borrowed_memory()
        && let Some(ended) = table::remove(fd)
    {
        // The number may be another's as soon as it is closed: the table forgets it first, and the socket ends after.
        // SAFETY: the program closes its descriptor.
        unsafe { rustix::io::close(fd) };
        drop(ended);
        return 0;
    }
    // SAFETY: the program closes its descriptor.
    unsafe { real::close(fd) }
}

/// Closes or marks the program's descriptors in a range, and leaves out those of this library.
unsafe fn close_between(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let keeps = flags & libc::CLOSE_RANGE_CLOEXEC as c_int != 0;
    let limit = |fd: c_uint| fd.min(MAX_FDS as c_uint) as RawFd;
    let mut ended = Vec::new();
    if !keeps && !is_borrowed_memory() {
        ended.extend(table::descriptors(limit(first), limit(last)).filter_map(table::remove));
    }
    let mut from = first;
    let result = loop {
        let hidden = next_hidden(limit(from)).map(|fd| fd as c_uint).filter(|fd| *fd <= last);
        let to = hidden.map_or(last, |fd| fd.wrapping_sub(1));
        if to >= from && to != c_uint::MAX || hidden.is_none() {
            // SAFETY: the program closes its descriptors.
            let closed = unsafe { real::close_range(from, to, flags) };
            if closed != 0 {
                break closed;
            }
        }
        match hidden {
            Some(fd) if fd < last => from = fd + 1,
            _ => break 0,
        }
    };
    drop(ended);
    result
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: as the program says.
    unsafe {
        if table::is_empty() || first > last {
            return real::close_range(first, last, flags);
        }
        close_between(first, last, flags)
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn closefrom(first: c_int) {
    // SAFETY: as the program says.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    let held = table::get(fd);
    // SAFETY: no memory is involved.
    let new = unsafe { real::dup(fd) };
    if held.is_some() {
        note_copy(held, new);
    }
    new
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn dup2(fd: c_int, new: c_int) -> c_int {
    // SAFETY: no memory is involved.
    unsafe { dup_to(fd, new, || real::dup2(fd, new)) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn dup3(fd: c_int, new: c_int, flags: c_int) -> c_int {
    // SAFETY: no memory is involved.
    unsafe { dup_to(fd, new, || real::dup3(fd, new, flags)) }
}

/// `make` duplicates `fd` as `new`, over whatever that was.
unsafe fn dup_to(fd: c_int, new: c_int, make: impl FnOnce() -> c_int) -> c_int {
    if is_hidden(new) {
        // A number that the program cannot know.
        return status(Err(Errno::BADF));
    }
    let held = table::get(fd);
    let made = make();
    if made >= 0 && fd != new {
        note_copy(held, made);
    }
    made
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub(super) unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: as the program says.
    let result = unsafe { real::fcntl(fd, command, argument) };
    note_fcntl(fd, command, result);
    result
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: as the program says.
    let result = unsafe { real::fcntl64(fd, command, argument) };
    note_fcntl(fd, command, result);
    result
}

fn note_fcntl(fd: c_int, command: c_int, result: c_int) {
    if !table::contains(fd) || result < 0 {
        return;
    }
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            note_copy(table::get(fd), result);
        }
        libc::F_SETFD => note_flags(fd),
        libc::F_SETFL => note_signals(fd),
        _ => {}
    }
}

/// Where SDUs are told of by a signal (`O_ASYNC`), the program may receive one for each signal, and wait for the next
/// without a word.
pub(super) fn note_signals(fd: RawFd) {
    let flags = rustix::fs::fcntl_getfl(borrow(fd)).unwrap_or(OFlags::empty());
    if flags.contains(OFlags::from_bits_retain(libc::O_ASYNC as u32))
        && let Some(socket) = table::get(fd)
    {
        socket.announce_wait(true);
    }
}

/// What this library keeps for a socket is inherited over `exec` if one of the socket's descriptors is.
pub(super) fn note_flags(fd: RawFd) {
    let Some(socket) = table::get(fd) else { return };
    if is_borrowed_memory() {
        return;
    }
    let inherited = table::descriptors(0, RawFd::MAX)
        .filter(|other| table::get(*other).is_some_and(|other| table::same(&socket, &other)))
        .any(|fd| rustix::io::fcntl_getfd(borrow(fd)).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC)));
    socket.set_inherited(inherited);
}
