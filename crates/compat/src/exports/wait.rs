//! Waiting on many descriptors: the C library's own, after our sockets among them have been told.

use crate::{real, table};
use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};

fn announce(fd: c_int, watched: bool) {
    if let Some(socket) = table::get(fd) {
        socket.announce_wait(watched);
    }
}

/// # Safety
/// As the program says to `poll`.
unsafe fn announce_poll(fds: *const pollfd, count: nfds_t) {
    if table::is_empty() || fds.is_null() {
        return;
    }
    for i in 0..count as usize {
        // SAFETY: as the caller says.
        announce(unsafe { (*fds.add(i)).fd }, false);
    }
}

/// # Safety
/// As the program says to `select`.
unsafe fn announce_select(count: c_int, read: *const fd_set) {
    if table::is_empty() || read.is_null() {
        return;
    }
    let bits = libc::c_ulong::BITS as usize;
    for fd in table::descriptors(0, count - 1) {
        // A set may be longer than the type says, where a program made it so.
        // SAFETY: the set has a bit for each descriptor below `count`.
        let word = unsafe { *read.cast::<libc::c_ulong>().add(fd as usize / bits) };
        if word >> (fd as usize % bits) & 1 != 0 {
            announce(fd, false);
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the program's arguments, passed on with the program's promises, here and in all functions below.
    unsafe {
        announce_poll(fds, count);
        real::poll(fds, count, timeout)
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, _room: size_t) -> c_int {
    // SAFETY: as for `poll`.
    unsafe { poll(fds, count, timeout) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: as for `poll`.
    unsafe {
        announce_poll(fds, count);
        real::ppoll(fds, count, timeout, mask)
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    _room: size_t,
) -> c_int {
    // SAFETY: as for `poll`.
    unsafe { ppoll(fds, count, timeout, mask) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: as for `poll`.
    unsafe {
        announce_select(count, read);
        real::select(count, read, write, except, timeout)
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: as for `poll`.
    unsafe {
        announce_select(count, read);
        real::pselect(count, read, write, except, timeout, mask)
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    announce(fd, true);
    // SAFETY: as for `poll`.
    unsafe { real::epoll_ctl(epoll, operation, fd, event) }
}
