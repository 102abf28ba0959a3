//! Sending and receiving, by all their names.
//!
//! A thread may be cancelled while it waits. So nothing waits to be dropped then: the call's hold on its socket is kept
//! where the end of the thread finds it.

use super::{number, size};
use crate::data::Pause;
use crate::memory::{self, Parts, part};
use crate::socket::Socket;
use crate::system::now_nanos;
use crate::table::Held;
use crate::{ancillary, real, signalling, table};
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};
use rustix::io::Errno;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

/// Does something on a socket, again after each wait.
pub(super) fn done<T: Copy>(
    socket: Held,
    wait: impl Fn(&Socket) -> Result<(), Errno>,
    once: impl Fn(&Socket) -> Result<T, Pause>,
) -> Result<T, Errno> {
    let socket = ManuallyDrop::new(socket);
    let result = loop {
        match once(&socket) {
            Ok(done) => break Ok(done),
            Err(Pause::Failed(e)) => break Err(e),
            Err(Pause::Wait) => {
                table::waits(Some(&socket));
                let waited = wait(&socket);
                table::waits(None);
                if let Err(e) = waited {
                    break Err(e);
                }
            }
        }
    };
    drop(ManuallyDrop::into_inner(socket));
    result
}

/// Sends one SDU; a circuit that has ended says so with a signal too.
pub(super) unsafe fn send_ours(socket: Held, parts: Result<Parts<'_>, Errno>, flags: c_int) -> Result<usize, Errno> {
    if signalling::is_control(&socket) {
        // SAFETY: the program's buffers, by the caller.
        return unsafe { send_message_of_signalling(&socket, parts?) };
    }
    // SAFETY: the program's buffers, by the caller.
    let once = |socket: &Socket| unsafe { socket.live()?.send(socket.shared(), socket.near(), parts?) };
    let sent = done(socket, |socket| socket.live()?.wait_writable(socket.near(), flags), once);
    if sent == Err(Errno::PIPE) {
        // SAFETY: a signal to this thread, as the kernel sends it.
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    sent
}

/// Takes one message from a program that signals.
unsafe fn send_message_of_signalling(socket: &Socket, parts: Parts<'_>) -> Result<usize, Errno> {
    let mut message = [0; signalling::MESSAGE_OCTETS];
    if parts.octets() != message.len() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the program's buffers, by the caller.
    unsafe { parts.gather(|at, part| message[at..at + part.len()].copy_from_slice(part)) };
    signalling::send(socket, &message).map(|()| message.len())
}

/// Gives one message that waits to a program that signals: nothing at the end.
unsafe fn receive_message_of_signalling(socket: &Socket, parts: Parts<'_>) -> Result<(usize, bool), Pause> {
    let Some(message) = signalling::receive(socket)? else { return Ok((0, false)) };
    let octets = parts.octets().min(message.len());
    // SAFETY: the program's buffers, by the caller.
    unsafe { parts.scatter(octets, |at, part| part.copy_from_slice(&message[at..at + part.len()])) };
    Ok((octets, octets < message.len()))
}

pub(super) unsafe fn receive_ours(
    socket: Held,
    parts: Result<Parts<'_>, Errno>,
    flags: c_int,
) -> Result<(usize, bool), Errno> {
    if signalling::is_control(&socket) {
        let wait = |socket: &Socket| real::wait_readable(socket.near(), flags).map(drop);
        // SAFETY: the program's buffers, by the caller.
        return done(socket, wait, |socket| unsafe { receive_message_of_signalling(socket, parts?) });
    }
    let wait = |socket: &Socket| socket.live()?.wait_readable(socket.near(), flags);
    done(socket, wait, |socket| {
        let live = socket.live()?;
        if flags & !(libc::MSG_DONTWAIT | libc::MSG_PEEK) != 0 {
            return Err(Errno::OPNOTSUPP.into());
        }
        // SAFETY: the program's buffers, by the caller.
        unsafe { live.receive(socket.shared(), socket.near(), parts, flags) }
    })
}

/// `EINVAL` is what `readv` and `writev` say to too many parts.
unsafe fn vector<'a>(parts: *const iovec, count: c_int) -> Result<Parts<'a>, Errno> {
    let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
    // SAFETY: as the program says.
    unsafe { Parts::of(parts, count, Errno::INVAL) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub(super) unsafe extern "C-unwind" fn read(fd: c_int, into: *mut c_void, octets: size_t) -> ssize_t {
    // SAFETY: the program's arguments, passed on with the program's promises, here and in all functions below.
    unsafe {
        match table::get(fd) {
            // The file system answers this before the socket is asked.
            Some(_) if octets == 0 => 0,
            Some(socket) => size(receive_ours(socket, Parts::new(&part(into, octets)), 0).map(|(octets, _)| octets)),
            None => real::read(fd, into, octets),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn __read_chk(fd: c_int, into: *mut c_void, octets: size_t, room: size_t) -> ssize_t {
    check_room(octets, room);
    // SAFETY: as for `read`.
    unsafe { read(fd, into, octets) }
}

/// What the C library does for a program that was compiled to be careful and is about to overflow a buffer.
fn check_room(octets: size_t, room: size_t) {
    if octets > room {
        std::process::abort();
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: as for `read`.
    unsafe {
        match table::get(fd) {
            Some(socket) => match vector(parts, count) {
                Ok(parts) if parts.octets() == 0 => 0,
                parts => size(receive_ours(socket, parts, 0).map(|(octets, _)| octets)),
            },
            None => real::readv(fd, parts, count),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn recv(fd: c_int, into: *mut c_void, octets: size_t, flags: c_int) -> ssize_t {
    // SAFETY: as for `read`.
    unsafe {
        match table::get(fd) {
            Some(socket) => {
                size(receive_ours(socket, Parts::new(&part(into, octets)), flags).map(|(octets, _)| octets))
            }
            None => real::recv(fd, into, octets, flags),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    into: *mut c_void,
    octets: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    check_room(octets, room);
    // SAFETY: as for `read`.
    unsafe { recv(fd, into, octets, flags) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    into: *mut c_void,
    octets: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_octets: *mut socklen_t,
) -> ssize_t {
    // SAFETY: as for `read`.
    unsafe {
        match table::get(fd) {
            Some(socket) => {
                let received = receive_ours(socket, Parts::new(&part(into, octets)), flags);
                if received.is_ok() && !from.is_null() {
                    // A circuit has one far end, and says nothing of it.
                    let _ = memory::put(from_octets, 0);
                }
                size(received.map(|(octets, _)| octets))
            }
            None => real::recvfrom(fd, into, octets, flags, from, from_octets),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    into: *mut c_void,
    octets: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_octets: *mut socklen_t,
) -> ssize_t {
    check_room(octets, room);
    // SAFETY: as for `read`.
    unsafe { recvfrom(fd, into, octets, flags, from, from_octets) }
}

unsafe fn receive_message(socket: Held, fd: c_int, message: *mut msghdr, flags: c_int) -> Result<usize, Errno> {
    // SAFETY: as the program says to recvmsg.
    unsafe {
        let head = memory::get(message)?;
        let parts = Parts::of(head.msg_iov, head.msg_iovlen, Errno::MSGSIZE);
        let (octets, truncated) = receive_ours(socket, parts, flags)?;
        (*message).msg_flags = if truncated { libc::MSG_TRUNC } else { 0 };
        (*message).msg_namelen = 0;
        ancillary::put_time(fd, message, now_nanos)?;
        Ok(octets)
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: as for `read`.
    unsafe {
        match table::get(fd) {
            Some(socket) => size(receive_message(socket, fd, message, flags)),
            None => real::recvmsg(fd, message, flags),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if !table::contains(fd) {
        // SAFETY: as for `read`.
        return unsafe { real::recvmmsg(fd, messages, count, flags, timeout) };
    }
    // SAFETY: as the program says to recvmmsg.
    let end = match unsafe { end_of(timeout) } {
        Ok(end) => end,
        Err(e) => return number(Err(e)),
    };
    let wait_for_one = flags & libc::MSG_WAITFORONE != 0;
    let mut flags = flags & !libc::MSG_WAITFORONE;
    let one = |message| {
        // SAFETY: one of the program's messages.
        let octets = unsafe { receive_message(table::get(fd).ok_or(Errno::BADF)?, fd, message, flags) };
        if wait_for_one {
            flags |= libc::MSG_DONTWAIT;
        }
        octets
    };
    // The time limit is looked at after each message, and not while one is waited for.
    let goes_on = || {
        let Some(end) = end else { return true };
        let left = end.saturating_duration_since(Instant::now());
        let left = timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        // SAFETY: as above.
        let _ = unsafe { memory::put(timeout, left) };
        left.tv_sec > 0 || left.tv_nsec > 0
    };
    each_message(messages, count, one, goes_on)
}

/// When the time is over that a program gives; `None`: never.
///
/// # Safety
/// A pointer that is not null is to a time.
unsafe fn end_of(time: *const timespec) -> Result<Option<Instant>, Errno> {
    if time.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller says.
    let timespec { tv_sec, tv_nsec } = unsafe { memory::get(time) }?;
    let seconds = u64::try_from(tv_sec).map_err(|_| Errno::INVAL)?;
    let nanos = u32::try_from(tv_nsec).ok().filter(|nanos| *nanos < 1_000_000_000).ok_or(Errno::INVAL)?;
    Ok(Instant::now().checked_add(Duration::new(seconds, nanos)))
}

/// One message after another as long as none fails and it `goes_on` after each: how many, or the first one's failure.
fn each_message(
    messages: *mut mmsghdr,
    count: c_uint,
    mut one: impl FnMut(*mut msghdr) -> Result<usize, Errno>,
    goes_on: impl Fn() -> bool,
) -> c_int {
    for i in 0..count {
        // SAFETY: the program gave as many messages.
        let message = unsafe { messages.add(i as usize) };
        let done = memory::check(message).and_then(|()| {
            // SAFETY: as above.
            let head = unsafe { &raw mut (*message).msg_hdr };
            one(head)
        });
        match done {
            // SAFETY: as above.
            Ok(octets) => unsafe { (*message).msg_len = octets as c_uint },
            Err(e) if i == 0 => return number(Err(e)),
            Err(_) => return i as c_int,
        }
        if !goes_on() {
            return i as c_int + 1;
        }
    }
    count as c_int
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub(super) unsafe extern "C-unwind" fn write(fd: c_int, from: *const c_void, octets: size_t) -> ssize_t {
    // SAFETY: as for `read`.
    unsafe {
        match table::get(fd) {
            Some(socket) => size(send_ours(socket, Parts::new(&part(from, octets)), 0)),
            None => real::write(fd, from, octets),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: as for `read`.
    unsafe {
        match table::get(fd) {
            Some(socket) => size(send_ours(socket, vector(parts, count), 0)),
            None => real::writev(fd, parts, count),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn send(fd: c_int, from: *const c_void, octets: size_t, flags: c_int) -> ssize_t {
    // SAFETY: as for `read`.
    unsafe {
        match table::get(fd) {
            Some(socket) => size(send_ours(socket, Parts::new(&part(from, octets)), flags)),
            None => real::send(fd, from, octets, flags),
        }
    }
}

/// A PVC has its far end already.
fn no_address(socket: &Socket, address: *const c_void) -> Result<(), Errno> {
    socket.live()?;
    if address.is_null() { Ok(()) } else { Err(Errno::ISCONN) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    from: *const c_void,
    octets: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_octets: socklen_t,
) -> ssize_t {
    // SAFETY: as for `read`.
    unsafe {
        match table::get(fd) {
            Some(socket) => {
                let parts = part(from, octets);
                let parts = no_address(&socket, to.cast()).and_then(|()| Parts::new(&parts));
                size(send_ours(socket, parts, flags))
            }
            None => real::sendto(fd, from, octets, flags, to, to_octets),
        }
    }
}

unsafe fn send_message(socket: Held, message: *const msghdr, flags: c_int) -> Result<usize, Errno> {
    // SAFETY: as the program says to sendmsg.
    unsafe {
        let head = memory::get(message)?;
        no_address(&socket, head.msg_name)?;
        let parts = Parts::of(head.msg_iov, head.msg_iovlen, Errno::MSGSIZE);
        send_ours(socket, parts, flags)
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: as for `read`.
    unsafe {
        match table::get(fd) {
            Some(socket) => size(send_message(socket, message, flags)),
            None if ancillary::passes_ours(message) => size(Err(Errno::OPNOTSUPP)),
            None => real::sendmsg(fd, message, flags),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    if table::contains(fd) {
        // SAFETY: one of the program's messages.
        let one = |message: *mut msghdr| unsafe { send_message(table::get(fd).ok_or(Errno::BADF)?, message, flags) };
        return each_message(messages, count, one, || true);
    }
    // SAFETY: as for `read`.
    unsafe { real::sendmmsg(fd, messages, count, flags) }
}
