//! What the system knows of a socket and no safe crate asks it.

#![allow(unsafe_code, reason = "requests without a safe wrapper")]

pub(crate) mod datagrams;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Octets that a TCP socket was given and the peer's system has not acknowledged (`SIOCOUTQ`, tcp(7)).
pub(crate) fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut octets: libc::c_int = 0;
    // SAFETY: the descriptor is open while it is borrowed, and the request writes one int, for which there is room.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut octets) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(octets.max(0) as u64) }
}
