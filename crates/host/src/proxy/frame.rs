//! Packets between the processes of the proxy: a few octets of what only they know, then the packet as it came or goes.

use endpoint::control::MAX_PACKET_OCTETS;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// Octets before the packet.
pub(super) const HEAD: usize = 4;
/// From the user proxy: the connection has a bell.
pub(super) const HAS_BELL: u8 = 1;
/// From the user proxy: a descriptor came that nobody may have.
pub(super) const REFUSED_FD: u8 = 2;
/// From the user proxy: each descriptor is memory that is sealed, and all of whose pages are there.
pub(super) const IS_WHOLE: u8 = 4;
/// To the user proxy: the last descriptor is its, to be the bell.
pub(crate) const KEEP_BELL: u8 = 1;
/// To the user proxy: the first descriptor is memory, to be sealed once the client has mapped it: when it says the next
/// thing.
pub(crate) const SEAL_MEMORY: u8 = 2;
/// To the user proxy: the first descriptor is memory whose pages are all to be made then, before it is sealed.
pub(crate) const MAKE_PAGES: u8 = 4;
/// Most file descriptors of one packet that is passed on.
pub(super) const MAX_FDS: usize = 4;
/// Most that the system lets one packet bring. There is room for all: the system would close the others in the thread
/// that receives.
const SCM_MAX_FD: usize = 253;

/// One packet.
#[derive(Debug, Default)]
pub(super) struct Frame {
    pub(super) head: [u8; HEAD],
    pub(super) octets: Vec<u8>,
    pub(super) fds: Vec<OwnedFd>,
}

/// What a receive found.
pub(super) enum ReceiveResult {
    /// A packet.
    Frame(Frame),
    /// Nothing yet.
    Nothing,
    /// The other side has gone.
    End,
}

/// A pair of connected sockets of packets.
pub(super) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends without waiting.
pub(super) fn send(to: impl AsFd, parts: &[&[u8]], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        rights.push(SendAncillaryMessage::ScmRights(fds));
    }
    let parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    loop {
        match rustix::net::sendmsg(&to, &parts, &mut rights, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Whether nothing was sent since the system had no memory, or too many descriptors of this user's were on their way.
/// Nothing tells when it has room.
pub(super) fn is_out_of_room(e: Errno) -> bool {
    matches!(e, Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM)
}

/// Receives without waiting; the first `head` octets are the head.
pub(super) fn receive(from: impl AsFd, head: usize) -> ReceiveResult {
    let mut octets = vec![0; HEAD + MAX_PACKET_OCTETS];
    // The first error may be that the other side left something unread; what it sent is there all the same.
    for _ in 0..2 {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SCM_MAX_FD))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut octets)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let n = match rustix::net::recvmsg(&from, &mut parts, &mut rights, flags) {
            Ok(message) => message.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return ReceiveResult::Nothing,
            Err(Errno::CONNRESET) => continue,
            Err(_) => return ReceiveResult::End,
        };
        let mut frame = Frame::default();
        for message in rights.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                frame.fds.extend(more);
            }
        }
        // Descriptors may come with nothing beside them.
        if n < head || (n == 0 && frame.fds.is_empty()) {
            return ReceiveResult::End;
        }
        octets.truncate(n);
        frame.head[..head].copy_from_slice(&octets[..head]);
        octets.drain(..head);
        frame.octets = octets;
        return ReceiveResult::Frame(frame);
    }
    ReceiveResult::End
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sys;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Resource, Rlimit, Uid, getrlimit, setrlimit};
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_thread_uid};
    use std::os::fd::AsRawFd;
    use std::sync::{Mutex, PoisonError};
    use std::time::{Duration, Instant};

    /// Descriptors that may be on their way.
    const FEW: u64 = 256;

    /// Those of all of a user's processes are counted together.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// Runs a test in a process of its own in which so many descriptors are on their way that the system lets none be
    /// sent, until the test makes room.
    pub(in crate::proxy) fn while_many_are_on_their_way(test: impl FnOnce(&dyn Fn())) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let (ours, theirs) = pair().unwrap();
        let mut child = sys::fork_child(c"test", &[theirs.as_raw_fd()], || {
            // A user of whom there is nobody else, where that may be had.
            let number = 1 << 20 | std::process::id();
            let _ = set_thread_uid(Uid::from_raw(number));
            let mut sets = capabilities(None).unwrap();
            sets.effective -= CapabilitySet::SYS_RESOURCE | CapabilitySet::SYS_ADMIN;
            set_capabilities(None, sets).unwrap();
            let limit = getrlimit(Resource::Nofile);
            setrlimit(Resource::Nofile, Rlimit { current: Some(FEW), ..limit }).unwrap();
            let (from, to) = pair().unwrap();
            while send(&from, &[b"many"], &[from.as_fd(); 4]) != Err(Errno::TOOMANYREFS) {}
            test(&|| while let ReceiveResult::Frame(_) = receive(&to, 0) {});
            send(&theirs, &[b"done"], &[]).unwrap();
        })
        .unwrap();
        drop(theirs);
        let mut fds = [PollFd::new(&ours, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&Timespec { tv_sec: 20, tv_nsec: 0 }));
        assert!(matches!(receive(&ours, 0), ReceiveResult::Frame(_)), "it has not done so");
        child.end(Duration::from_secs(1));
    }

    /// Waits until something has gone: others of this user's may have some on their way too.
    pub(in crate::proxy) fn until(mut has_gone: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !has_gone() {
            assert!(begin.elapsed() < Duration::from_secs(10), "there is no room");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
