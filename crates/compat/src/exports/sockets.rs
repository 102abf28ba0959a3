//! Sockets: making, connecting, options, `ioctl`.

use super::{number, status};
use crate::abi::{AF_ATMPVC, AF_ATMSVC};
use crate::socket::Socket;
use crate::{ioctl as requests, memory, options, real, table};
use libc::{c_int, c_ulong, c_void, sockaddr, socklen_t};
use rustix::fd::IntoRawFd;
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
    let (fd, socket) = Socket::create(domain, kind, protocol, flags)?;
    let fd = fd.into_raw_fd();
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

unsafe fn connect_ours(socket: &Socket, address: *const sockaddr, octets: socklen_t) -> Result<(), Errno> {
    if octets as usize > MAX_ADDRESS {
        return Err(Errno::INVAL);
    }
    // SAFETY: as the program says to bind or connect.
    socket.connect(unsafe { memory::octets(address.cast(), octets as usize) }?)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn bind(fd: c_int, address: *const sockaddr, octets: socklen_t) -> c_int {
    // SAFETY: the program's arguments, passed on with the program's promises, here and in all functions below.
    unsafe {
        match table::get(fd) {
            Some(socket) => status(connect_ours(&socket, address, octets)),
            None => real::bind(fd, address, octets),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn connect(fd: c_int, address: *const sockaddr, octets: socklen_t) -> c_int {
    // SAFETY: as for `bind`.
    unsafe {
        match table::get(fd) {
            Some(socket) => status(connect_ours(&socket, address, octets)),
            None => real::connect(fd, address, octets),
        }
    }
}

/// Passive opening is for calls.
fn no_calls(socket: &Socket) -> Errno {
    if socket.family == AF_ATMSVC { crate::socket::no_calls() } else { Errno::OPNOTSUPP }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    match table::get(fd) {
        Some(socket) => status(Err(no_calls(&socket))),
        // SAFETY: no memory is involved.
        None => unsafe { real::listen(fd, backlog) },
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn accept(fd: c_int, address: *mut sockaddr, octets: *mut socklen_t) -> c_int {
    match table::get(fd) {
        Some(socket) => status(Err(no_calls(&socket))),
        // SAFETY: as for `bind`.
        None => unsafe { real::accept(fd, address, octets) },
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn accept4(fd: c_int, address: *mut sockaddr, octets: *mut socklen_t, flags: c_int) -> c_int {
    match table::get(fd) {
        Some(socket) => status(Err(no_calls(&socket))),
        // SAFETY: as for `bind`.
        None => unsafe { real::accept4(fd, address, octets, flags) },
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn getsockname(fd: c_int, address: *mut sockaddr, octets: *mut socklen_t) -> c_int {
    // SAFETY: as for `bind`.
    unsafe {
        match table::get(fd) {
            Some(socket) => status(options::name(&socket, address.cast(), octets)),
            None => real::getsockname(fd, address, octets),
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn getpeername(fd: c_int, address: *mut sockaddr, octets: *mut socklen_t) -> c_int {
    // SAFETY: as for `bind`.
    unsafe {
        match table::get(fd) {
            Some(socket) => status(options::name(&socket, address.cast(), octets)),
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
            Some(answer) => status(answer),
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
