//! The C library's names. Each function looks whether its descriptor is a socket of ours, and goes on to the C
//! library's own if it is not.
//!
//! `open`, `fcntl` and `ioctl` are variadic in C; with the calling conventions of Linux on x86-64 and AArch64 a
//! function with one more argument of a register's size is called the same way.
//!
//! In test programs of this crate the names are not taken.

mod copying;
mod descriptors;
mod files;
mod folder;
mod process;
mod sockets;
mod streams;
mod transfer;
mod wait;

use crate::real::set_errno;
use libc::{c_int, ssize_t};
use rustix::io::Errno;

/// An answer as C has it.
fn status(result: Result<(), Errno>) -> c_int {
    number(result.map(|()| 0))
}

fn number(result: Result<c_int, Errno>) -> c_int {
    result.unwrap_or_else(|e| {
        set_errno(e.raw_os_error());
        -1
    })
}

fn size(result: Result<usize, Errno>) -> ssize_t {
    result.map_or_else(
        |e| {
            set_errno(e.raw_os_error());
            -1
        },
        |n| n as ssize_t,
    )
}
