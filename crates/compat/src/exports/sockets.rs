//! Sockets: making, connecting, options, `ioctl`.

use super::transfer::done;
use super::{number, status};
use crate::abi::{AF_ATMPVC, AF_ATMSVC};
use crate::socket::Socket;
use crate::table::Held;
use crate::{calls, ioctl as requests, memory, options, real, table};
use libc::{c_int, c_ulong, c_void, sockaddr, socklen_t};
use rustix::fd::{IntoRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketFlags;

/// Types of socket that the kernel knows.
const KINDS: c_int = 10;
/// Most octets of an address (`struct sockaddr_storage`).
const MAX_ADDRESS: usize = 128;

fn create(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int, Errno> {
    let flags = kind & (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    let kind = kind & !flags;
    if !(0..KINDS).contains(&kind) || kind == libc::SOCK_STREAM {
        return Err(Errno::INVAL);
    }
    let flags = SocketFlags::from_bits_truncate(flags as u32);
    let (end, socket) = Socket::create(domain, kind, protocol, flags)?;
    place(end, socket)
}

/// Gives the program a socket.
fn place(end: OwnedFd, socket: Socket) -> Result<c_int, Errno> {
    let fd = end.into_raw_fd();
    if fd as usize >= crate::descriptors::MAX_FDS {
        // SAFETY: this function's own descriptor.
        unsafe { real::close(fd) };
        return Err(Errno::MFILE);
    }
    table::insert(fd, socket);
    Ok(fd)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain == AF_ATMPVC || domain == AF_ATMSVC {
        return number(create(domain, kind, protocol));
    }
    // SAFETY: no memory is involved.
    unsafe { real::socket(domain, kind, protocol) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
    if domain == AF_ATMPVC || domain == AF_ATMSVC {
        return status(Err(Errno::OPNOTSUPP));
    }
    // SAFETY: as the program says.
    unsafe { real::socketpair(domain, kind, protocol, pair) }
}

unsafe fn address<'a>(address: *const sockaddr, octets: socklen_t) -> Result<&'a [u8], Errno> {
    if octets as usize > MAX_ADDRESS {
        return Err(Errno::INVAL);
    }
    // SAFETY: as the program says to bind or connect.
    unsafe { memory::octets(address.cast(), octets as usize) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn bind(fd: c_int, name: *const sockaddr, octets: socklen_t) -> c_int {
    // SAFETY: the program's arguments, passed on with the program's promises, here and in all functions below.
    unsafe {
        match table::get(fd) {
            Some(socket) if socket.family == AF_ATMSVC => {
                status(address(name, octets).and_then(|name| calls::bind(&socket, name)))
            }
            Some(socket) => status(address(name, octets).and_then(|name| socket.connect(name))),
            None => real::bind(fd, name, octets),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn connect(fd: c_int, name: *const sockaddr, octets: socklen_t) -> c_int {
    // SAFETY: as for `bind`.
    unsafe {
        match table::get(fd) {
            Some(socket) if socket.family == AF_ATMSVC => {
                status(address(name, octets).and_then(|name| calls::connect(fd, &socket, name)))
            }
            Some(socket) => status(address(name, octets).and_then(|name| socket.connect(name))),
            None => real::connect(fd, name, octets),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    match table::get(fd) {
        Some(socket) if socket.family == AF_ATMSVC => status(calls::listen(&socket)),
        Some(_) => status(Err(Errno::OPNOTSUPP)),
        // SAFETY: no memory is involved.
        None => unsafe { real::listen(fd, backlog) },
    }
}

unsafe fn accept_ours(
    socket: Held,
    address: *mut sockaddr,
    octets: *mut socklen_t,
    flags: c_int,
) -> Result<c_int, Errno> {
    if socket.family != AF_ATMSVC {
        return Err(Errno::OPNOTSUPP);
    }
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return Err(Errno::INVAL);
    }
    let flags = SocketFlags::from_bits_truncate(flags as u32);
    done(socket, calls::wait_for_call, |socket| {
        let (end, new) = calls::accept(socket, flags)?;
        if !address.is_null() {
            // SAFETY: as the program says to accept.
            unsafe { options::name(&new, true, address.cast(), octets) }?;
        }
        Ok(place(end, new)?)
    })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn accept(fd: c_int, address: *mut sockaddr, octets: *mut socklen_t) -> c_int {
    // SAFETY: as for `bind`.
    unsafe {
        match table::get(fd) {
            Some(socket) => number(accept_ours(socket, address, octets, 0)),
            None => real::accept(fd, address, octets),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn accept4(fd: c_int, address: *mut sockaddr, octets: *mut socklen_t, flags: c_int) -> c_int {
    // SAFETY: as for `bind`.
    unsafe {
        match table::get(fd) {
            Some(socket) => number(accept_ours(socket, address, octets, flags)),
            None => real::accept4(fd, address, octets, flags),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn getsockname(fd: c_int, address: *mut sockaddr, octets: *mut socklen_t) -> c_int {
    // SAFETY: as for `bind`.
    unsafe {
        match table::get(fd) {
            Some(socket) => status(options::name(&socket, false, address.cast(), octets)),
            None => real::getsockname(fd, address, octets),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn getpeername(fd: c_int, address: *mut sockaddr, octets: *mut socklen_t) -> c_int {
    // SAFETY: as for `bind`.
    unsafe {
        match table::get(fd) {
            Some(socket) => status(options::name(&socket, true, address.cast(), octets)),
            None => real::getpeername(fd, address, octets),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    octets: socklen_t,
) -> c_int {
    // SAFETY: as for `bind`.
    unsafe {
        match table::get(fd) {
            // The length of the pair's queue is this library's own affair, and nobody can tell.
            Some(_) if level == libc::SOL_SOCKET && name == libc::SO_SNDBUF => status(Ok(())),
            Some(socket) if level != libc::SOL_SOCKET => status(options::set(&socket, level, name, value, octets)),
            _ => real::setsockopt(fd, level, name, value, octets),
        }
    }
}

unsafe fn get_int(value: *mut c_void, octets: *mut socklen_t, answer: c_int) -> Result<(), Errno> {
    let answer = answer.to_ne_bytes();
    // SAFETY: as the program says to getsockopt.
    unsafe {
        let room = memory::get(octets)?;
        if room.cast_signed() < 0 {
            return Err(Errno::INVAL);
        }
        let room = (room as usize).min(answer.len());
        memory::put_octets(value, &answer[..room])?;
        memory::put(octets, room as socklen_t)
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    octets: *mut socklen_t,
) -> c_int {
    // SAFETY: as for `bind`.
    unsafe {
        match table::get(fd) {
            Some(socket) if level != libc::SOL_SOCKET => status(options::get(&socket, level, name, value, octets)),
            Some(socket) => match options::of_socket_level(&socket, name) {
                Some(answer) => status(get_int(value, octets, answer)),
                None => real::getsockopt(fd, level, name, value, octets),
            },
            None => real::getsockopt(fd, level, name, value, octets),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if table::contains(fd) {
        // A PVC has nothing to shut down.
        return 0;
    }
    // SAFETY: no memory is involved.
    unsafe { real::shutdown(fd, how) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // SAFETY: as for `bind`.
    unsafe {
        match table::get(fd).and_then(|socket| requests::request(&socket, request, argument)) {
            Some(answer) => number(answer),
            None => {
                let result = real::ioctl(fd, request, argument);
                match request {
                    libc::FIOCLEX | libc::FIONCLEX if table::contains(fd) => super::descriptors::note_flags(fd),
                    libc::FIOASYNC if table::contains(fd) => super::descriptors::note_signals(fd),
                    _ => {}
                }
                result
            }
        }
    }
}
