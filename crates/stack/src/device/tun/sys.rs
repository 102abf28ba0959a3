//! The one system call of this crate that no crate offers without `unsafe`.
#![allow(unsafe_code)]

use rustix::ioctl::{IntegerSetter, Opcode, ioctl, opcode};
use std::ffi::c_uint;
use std::io;
use std::os::fd::BorrowedFd;

/// `linux/if_tun.h`
const TUNSETOFFLOAD: Opcode = opcode::write::<c_uint>(b'T', 208);

/// Lets a device with virtio headers leave nothing over: its stack cuts packets and completes checksums itself. Packets
/// with work left over can still be written to it.
///
/// # Errors
/// As the system says.
pub(super) fn leave_nothing(device: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes a mask of features by value; the kernel reads and writes no memory of ours for it.
    unsafe { ioctl(device, IntegerSetter::<TUNSETOFFLOAD>::new_usize(0)) }?;
    Ok(())
}
