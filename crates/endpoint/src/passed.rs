//! Descriptors on their way through UNIX sockets. Whoever is to see that a peer has gone asks whether they lie somewhere, for
//! they may be the peer's end, and has circles of them collected.

use rustix::fd::{AsFd, AsRawFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// Whether descriptors lie in a UNIX socket, or in those that wait there to be accepted. True if the system does not say.
pub fn lie_in(socket: impl AsFd) -> bool {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", socket.as_fd().as_raw_fd())).unwrap_or_default();
    let count = info.lines().find_map(|line| line.strip_prefix("scm_fds:")).and_then(|n| n.trim().parse::<u32>().ok());
    count != Some(0)
}

/// Has the system close sockets that only lie in each other: any process can leave such a circle, with its end of a connection
/// in it. Linux looks for them when a UNIX socket is closed (`net/unix/garbage.c`), which on a quiet machine may be never.
pub fn collect_circles() {
    drop(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::io::IoSlice;
    use std::mem::MaybeUninit;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_connection_ends_though_its_other_end_lies_in_a_circle() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        assert!(!lie_in(&far));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        let fds = [theirs.as_fd(), near.as_fd(), far.as_fd()];
        assert!(rights.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&near, &[IoSlice::new(b"x")], &mut rights, SendFlags::empty()).unwrap();
        assert!(lie_in(&far));
        drop((theirs, near, far));
        collect_circles();
        let mut fds = [PollFd::new(&ours, PollFlags::IN)];
        let soon = Timespec { tv_sec: 20, tv_nsec: 0 };
        assert_eq!(poll(&mut fds, Some(&soon)), Ok(1), "still open");
    }
}
