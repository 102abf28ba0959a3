//! Small services of the system's.

use rustix::fd::AsFd;
use rustix::net::{RecvFlags, SendFlags};
use rustix::thread::CapabilitySet;

/// Whether this process may what root may.
pub(crate) fn is_capable(what: CapabilitySet) -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(what))
}

/// Nanoseconds since 1970.
pub(crate) fn now_nanos() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_nanos() as u64)
}

/// Fills a socket's queue to its other end: it is not writable until that has been emptied.
pub(crate) fn fill(fd: impl AsFd) {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    while matches!(rustix::net::send(&fd, &[0; 1024], flags), Ok(1..)) {}
}

/// Empties the queue of a socket's other end, which is writable then.
pub(crate) fn empty(fd: impl AsFd) {
    let mut octets = [0; 4096];
    while matches!(rustix::net::recv(&fd, &mut octets[..], RecvFlags::DONTWAIT), Ok((1.., _))) {}
}

/// Leaves all signals to the program's own threads.
pub(crate) fn block_signals() {
    let mut all = std::mem::MaybeUninit::uninit();
    // SAFETY: the set is filled before it is used; a thread may block what it likes for itself.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut());
    }
}
