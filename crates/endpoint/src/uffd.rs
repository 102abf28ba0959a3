//! Write protection of this process's own memory by userfaultfd: whoever writes there waits until somebody lets it go
//! on. User-mode faults only, which need no privilege (Linux 5.11; shared memory: 5.19).

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, Updater, opcode};
use rustix::mm::UserfaultfdFlags;

// linux/userfaultfd.h
const UFFD_USER_MODE_ONLY: u32 = 1;
const UFFD_API: u64 = 0xAA;
const FEATURE_PAGEFAULT_FLAG_WP: u64 = 1 << 0;
const FEATURE_WP_SHMEM: u64 = 1 << 12;
const REGISTER_MODE_WP: u64 = 1 << 1;
const WRITEPROTECT_MODE_WP: u64 = 1 << 0;
const EVENT_PAGEFAULT: u8 = 0x12;
const MESSAGE_OCTETS: usize = 32;
/// Where a message of a fault has its address.
const ADDRESS_AT: usize = 16;

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Range {
    start: u64,
    octets: u64,
}

#[repr(C)]
struct Register {
    range: Range,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct WriteProtect {
    range: Range,
    mode: u64,
}

const API: Opcode = opcode::read_write::<Api>(0xAA, 0x3F);
const REGISTER: Opcode = opcode::read_write::<Register>(0xAA, 0x00);
const WAKE: Opcode = opcode::read::<Range>(0xAA, 0x02);
const WRITEPROTECT: Opcode = opcode::read_write::<WriteProtect>(0xAA, 0x06);

/// Memory whose writers wait.
#[derive(Debug)]
pub(crate) struct WriteFaults(OwnedFd);

impl WriteFaults {
    /// Of no memory yet.
    ///
    /// # Errors
    /// What the system forbids or has not, and why.
    pub(crate) fn open() -> Result<Self, (&'static str, Errno)> {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::from_bits_retain(UFFD_USER_MODE_ONLY);
        let flags = flags | UserfaultfdFlags::NONBLOCK;
        // SAFETY: the descriptor is given no memory but what `register` names, whose faults its user answers.
        let fd = unsafe { rustix::mm::userfaultfd(flags) }.map_err(|e| ("userfaultfd", e))?;
        let mut api = Api { api: UFFD_API, features: FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_SHMEM, ioctls: 0 };
        // SAFETY: the opcode is that of `struct uffdio_api`, which `Api` is.
        unsafe { rustix::ioctl::ioctl(&fd, Updater::<API, Api>::new(&mut api)) }
            .map_err(|e| ("write protection of shared memory by userfaultfd", e))?;
        Ok(WriteFaults(fd))
    }

    /// Takes in pages of a mapping of this process. They are not protected by that.
    pub(crate) fn register(&self, start: u64, octets: u64) -> Result<(), Errno> {
        let mut register = Register { range: Range { start, octets }, mode: REGISTER_MODE_WP, ioctls: 0 };
        // SAFETY: the opcode is that of `struct uffdio_register`. It changes no octet, only who is told of faults.
        unsafe { rustix::ioctl::ioctl(&self.0, Updater::<REGISTER, Register>::new(&mut register)) }
    }

    /// Protects pages that were registered, or lets them be written and whoever waits there go on.
    pub(crate) fn protect(&self, start: u64, octets: u64, protects: bool) -> Result<(), Errno> {
        let mode = if protects { WRITEPROTECT_MODE_WP } else { 0 };
        let mut range = WriteProtect { range: Range { start, octets }, mode };
        // SAFETY: the opcode is that of `struct uffdio_writeprotect`. It changes no octet, only when a write goes on.
        unsafe { rustix::ioctl::ioctl(&self.0, Updater::<WRITEPROTECT, WriteProtect>::new(&mut range)) }
    }

    /// Lets whoever waits in these pages try again.
    pub(crate) fn wake(&self, start: u64, octets: u64) {
        // SAFETY: the opcode is that of `struct uffdio_range`. A thread that is woken too early faults again.
        let _ = unsafe { rustix::ioctl::ioctl(&self.0, Setter::<WAKE, Range>::new(Range { start, octets })) };
    }

    /// The address of a write that waits; `None` if none does.
    pub(crate) fn next(&self) -> Option<u64> {
        let mut message = [0u8; MESSAGE_OCTETS];
        let whole = rustix::io::read(&self.0, &mut message) == Ok(MESSAGE_OCTETS) && message[0] == EVENT_PAGEFAULT;
        let address = message[ADDRESS_AT..].first_chunk().copied().map(u64::from_ne_bytes);
        address.filter(|_| whole)
    }
}

impl AsFd for WriteFaults {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
