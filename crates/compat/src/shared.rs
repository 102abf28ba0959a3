//! What the processes that share a socket have in common, after a fork or an `exec`: a page of memory with the socket's
//! settings, the locks that say whose turn it is on its rings, and what a new program needs to take the socket over.

use crate::abi::{Address, Called, SAP_OCTETS};
use crate::descriptors::Hidden;
use crate::qos::{QOS_OCTETS, Qos};
use rustix::fd::OwnedFd;
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// The page's name among a process's descriptors.
pub(crate) const NAME: &str = "cellway-socket";

/// A lock between threads and processes, with what it guards. It outlives a holder that is killed.
#[repr(C)]
pub(crate) struct Lock<T> {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by a guard only, of which the mutex gives one at a time, to any thread or process.
unsafe impl<T: Send> Sync for Lock<T> {}

/// A held lock.
pub(crate) struct Guard<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    /// Makes the lock's mutex, which is zero so far.
    fn initialise(&self) {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the attributes are initialised before use and destroyed after; nobody knows this mutex yet. None of
        // these calls fails with the constants given.
        unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            libc::pthread_mutexattr_setpshared(attributes.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutexattr_settype(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ERRORCHECK);
            libc::pthread_mutex_init(self.mutex.get(), attributes.as_ptr());
            libc::pthread_mutexattr_destroy(attributes.as_mut_ptr());
        }
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// `EDEADLK`: this thread holds it, and is in a signal handler now.
    pub(crate) fn lock(&self) -> Result<Guard<'_, T>, Errno> {
        // SAFETY: the mutex was initialised before anybody was given this value, and lives as long as it.
        match unsafe { libc::pthread_mutex_lock(self.mutex.get()) } {
            0 => Ok(Guard(self)),
            libc::EOWNERDEAD => {
                // A holder was killed. What is guarded is settings of plain numbers, or rings whose indices are
                // published by one store: each is as before or as after.
                // SAFETY: as above, and the mutex is held now.
                unsafe { libc::pthread_mutex_consistent(self.mutex.get()) };
                Ok(Guard(self))
            }
            other => Err(Errno::from_raw_os_error(other)),
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the mutex is held as long as this guard lives.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, under an exclusive borrow of the one guard.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this thread holds the mutex.
        unsafe { libc::pthread_mutex_unlock(self.0.mutex.get()) };
    }
}

/// What a program has said about a socket. All zero is a value of it: no QoS, no address.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Settings {
    pub(crate) qos: Qos,
    pub(crate) has_qos: bool,
    pub(crate) connected: bool,
    /// Interface, VPI and VCI of a connected socket; of another, what an earlier bind left open.
    pub(crate) address: Address,
    pub(crate) partial: bool,
    /// Of a socket for calls: what is asked for above ATM, and whether the call is to be to many.
    pub(crate) sap: [u8; SAP_OCTETS],
    pub(crate) multipoint: bool,
    /// Of a socket for calls: its own address and the other side's.
    pub(crate) local: Called,
    pub(crate) remote: Called,
    pub(crate) bound: bool,
    pub(crate) stage: Stage,
    /// Why the last call failed, as an errno, until it has been told.
    pub(crate) error: i32,
    /// The call that the circuit is of.
    pub(crate) call: u64,
}

/// Where a socket for calls stands. Zero is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Stage(pub(crate) u8);

impl Stage {
    /// It neither calls nor listens.
    pub(crate) const IDLE: Stage = Stage(0);
    /// It calls, and nobody waits for the answer.
    pub(crate) const CALLING: Stage = Stage(1);
    /// The call has been answered or has failed, and the program has not asked since.
    pub(crate) const CALLED: Stage = Stage(2);
    /// It is presented calls.
    pub(crate) const LISTENING: Stage = Stage(3);
    /// It is the control socket of a program that signals.
    pub(crate) const SIGNALLING: Stage = Stage(4);
}

/// What a program that was started by `exec` needs to find and use a socket that it has inherited: numbers of this
/// library's descriptors, which an `exec` keeps. All zero: none.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Estate {
    /// The kernel's number of the socket that is the program's end.
    pub(crate) near_inode: u64,
    pub(crate) family: i32,
    pub(crate) kind: i32,
    /// The pair's other end, until the host has it.
    pub(crate) far: i32,
    /// Of a connected socket: the way to the service, the segment and the host's doorbell.
    pub(crate) session: i32,
    pub(crate) memory: i32,
    pub(crate) wake_host: i32,
    pub(crate) channel: u32,
}

/// Says that a page is one, and how it is laid out.
const MAGIC: u64 = u64::from_le_bytes(*b"CWSOCK04");

/// The page.
#[repr(C)]
pub(crate) struct Shared {
    magic: AtomicU64,
    pub(crate) estate: Lock<Estate>,
    pub(crate) settings: Lock<Settings>,
    /// Whose turn it is to send.
    pub(crate) send: Lock<()>,
    /// Whose turn it is to receive.
    pub(crate) receive: Lock<()>,
    /// Bells that were promised and had not come when somebody gave up waiting for them: they may be there one day.
    /// Changed in turns to receive.
    pub(crate) bells_owed: AtomicU32,
    /// Processes that have the socket.
    pub(crate) owners: AtomicU32,
    /// Cells leave with their loss priority set.
    pub(crate) clp: AtomicBool,
    /// Somebody watches the descriptor in a way that this library does not see begin.
    pub(crate) watched: AtomicBool,
    /// Somebody asks when SDUs came.
    pub(crate) stamped: AtomicBool,
    /// When the last one was read, nanoseconds since 1970.
    pub(crate) stamp: AtomicU64,
}

/// The page as it is mapped here.
pub(crate) struct Mapped {
    page: NonNull<Shared>,
    /// For those who inherit it.
    pub(crate) fd: Hidden<OwnedFd>,
}

// SAFETY: a mapping is not tied to a thread, and `Shared` is made for many.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// A page for a new socket. It stays common to all that this process forks.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn create(protocol: i32) -> Result<Self, Errno> {
        let fd = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&fd, size_of::<Shared>() as u64)?;
        let mapped = Self::map(Hidden::new(&fd)?)?;
        // All zero is a value of each field: booleans, numbers, and mutexes that are initialised next.
        mapped.magic.store(MAGIC, std::sync::atomic::Ordering::Relaxed);
        mapped.estate.initialise();
        mapped.settings.initialise();
        mapped.send.initialise();
        mapped.receive.initialise();
        mapped.owners.store(1, std::sync::atomic::Ordering::Relaxed);
        mapped.settings.lock()?.qos = Qos::of_protocol(protocol);
        Ok(mapped)
    }

    /// A page that the program before an `exec` made.
    ///
    /// # Errors
    /// `EINVAL`: it is not one, or of another edition of this library.
    pub(crate) fn inherit(fd: OwnedFd) -> Result<Self, Errno> {
        let hidden = Hidden::here(fd)?;
        if rustix::fs::fstat(&hidden.0)?.st_size != size_of::<Shared>() as i64 {
            return Err(Errno::INVAL);
        }
        let mapped = Self::map(hidden)?;
        let magic = mapped.magic.load(std::sync::atomic::Ordering::Relaxed);
        if magic == MAGIC { Ok(mapped) } else { Err(Errno::INVAL) }
    }

    fn map(fd: Hidden<OwnedFd>) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let octets = size_of::<Shared>();
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of this process.
        let page = unsafe { rustix::mm::mmap(std::ptr::null_mut(), octets, access, MapFlags::SHARED, &fd.0, 0) }?;
        Ok(Mapped { page: NonNull::new(page.cast::<Shared>()).ok_or(Errno::NOMEM)?, fd })
    }
}

impl Deref for Mapped {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        // SAFETY: the mapping is at least as long as a `Shared`, page-aligned, filled with zeros, which are a value of
        // it, and stays until this is dropped. Other processes change it by the locks and atomics only.
        unsafe { self.page.as_ref() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `create` with this size; no reference outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), size_of::<Shared>()) };
    }
}

const _: () = assert!(size_of::<Shared>() <= 4096 && QOS_OCTETS <= 128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_tells_a_thread_that_has_it_already() {
        let page = Mapped::create(13).unwrap();
        let settings = page.settings.lock().unwrap();
        assert_eq!(settings.qos.aal(), 13);
        assert_eq!(page.settings.lock().err(), Some(Errno::DEADLK));
        drop(settings);
        assert!(!page.settings.lock().unwrap().connected);
    }
}
