//! Small services of the system's.

use rustix::fd::AsFd;
use rustix::net::SendFlags;
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
