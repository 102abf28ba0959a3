//! System calls that rustix does not have.

use rustix::fd::{AsFd, AsRawFd};

/// The supplementary groups of whoever is at the other end of a UNIX socket, as they were when it connected; none if the
/// system does not say.
pub(crate) fn peer_groups(socket: impl AsFd) -> Vec<u32> {
    let mut groups = [0 as libc::gid_t; endpoint::seqpacket::MAX_GROUPS];
    let mut octets = size_of_val(&groups) as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; the kernel writes at most `octets` octets to `groups`, which
    // has as many and may hold any bits, and says in `octets` how many it has written.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut octets,
        )
    };
    // More than there is room for: the kernel refuses then, and the caller has the rights of the primary group.
    if done != 0 {
        return Vec::new();
    }
    groups[..octets as usize / size_of::<libc::gid_t>()].to_vec()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_groups_of_the_other_end_are_this_processs_own() {
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("Groups:")).unwrap();
        let own: Vec<u32> = line.split_whitespace().map(|g| g.parse().unwrap()).collect();
        assert_eq!(super::peer_groups(&near), own);
    }
}
