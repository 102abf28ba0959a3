//! What comes over a socket beside octets. A client is gone when no process has its end of the connection: so no descriptor
//! may be kept, or lie unread, that is this end or leads to it. And to close one may take as long as who passed it likes.

use endpoint::passed::lie_in;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{FileType, fstat};
use rustix::net::Shutdown;

/// Whether a descriptor is a regular file, a pipe or an eventfd, of which none leads to others.
pub(super) fn is_plain(fd: &OwnedFd) -> bool {
    match fstat(fd).map(|is| FileType::from_raw_mode(is.st_mode)) {
        Ok(FileType::RegularFile | FileType::Fifo) => true,
        Ok(_) => std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
            .is_ok_and(|link| link.as_os_str() == "anon_inode:[eventfd]"),
        Err(_) => false,
    }
}

/// Ends a connection, with what was kept of it: elsewhere, if there are descriptors that a client has passed.
pub(super) fn end(stream: OwnedFd, kept: impl IntoIterator<Item = OwnedFd>) {
    // From here on nothing more can be put into it.
    let _ = rustix::net::shutdown(&stream, Shutdown::Both);
    let kept: Vec<OwnedFd> = kept.into_iter().collect();
    if !kept.is_empty() || lie_in(&stream) {
        // Where there is no thread to be had, this one drops them.
        let _ = std::thread::Builder::new().name("closer".into()).spawn(move || drop((stream, kept)));
    }
}
