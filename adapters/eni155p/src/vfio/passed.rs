//! What comes over a socket beside octets. A client is gone when no process has its end of the connection: so no descriptor
//! may be kept, or lie unread, that is this end or leads to it. And to close one may take as long as who passed it likes.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::net::Shutdown;

/// Whether a descriptor is a file, a pipe or an eventfd, of which none leads to others.
pub(super) fn is_plain(fd: &OwnedFd) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap_or_default();
    let link = link.as_os_str().as_encoded_bytes();
    link.starts_with(b"/") || link.starts_with(b"pipe:") || link == b"anon_inode:[eventfd]"
}

/// Whether descriptors lie in a UNIX socket, or in those that wait there to be accepted. True if the system does not say.
pub(super) fn lie_in(socket: BorrowedFd<'_>) -> bool {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", socket.as_raw_fd())).unwrap_or_default();
    let count = info.lines().find_map(|line| line.strip_prefix("scm_fds:")).and_then(|n| n.trim().parse::<u32>().ok());
    count != Some(0)
}

/// Ends a connection, with what was kept of it: elsewhere, if there are descriptors that a client has passed.
pub(super) fn end(stream: OwnedFd, kept: impl IntoIterator<Item = OwnedFd>) {
    // From here on nothing more can be put into it.
    let _ = rustix::net::shutdown(&stream, Shutdown::Both);
    let kept: Vec<OwnedFd> = kept.into_iter().collect();
    if !kept.is_empty() || lie_in(stream.as_fd()) {
        // Where there is no thread to be had, this one drops them.
        let _ = std::thread::Builder::new().name("closer".into()).spawn(move || drop((stream, kept)));
    }
}
