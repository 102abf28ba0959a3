//! A stream socket to somebody who is not trusted, over which octets come and no file descriptors.
//!
//! Whoever receives a descriptor (`SCM_RIGHTS`) in no buffer for it, or closes a socket in whose queue one lies, closes
//! that descriptor, and to close one can take as long as its maker likes (`SO_LINGER`, FUSE). So octets are looked at
//! before they are taken, which says whether a descriptor lies among them and closes none. If one does, the connection
//! is over: nothing more is taken from it or goes in, and the socket is closed by a thread that does nothing else. An
//! octet that comes out of band (`MSG_OOB`) lies among the others: else a look passes it over, and to take what is
//! behind it frees it.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendFlags, Shutdown, sockopt};
use rustix::process::{Pid, getpid};
use std::io::IoSliceMut;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct RawStream {
    /// There until it is dropped.
    socket: Option<OwnedFd>,
    /// What a child of `fork` closes is not ended.
    process: Pid,
}

impl From<OwnedFd> for RawStream {
    fn from(socket: OwnedFd) -> Self {
        // Every socket takes it.
        let _ = sockopt::set_socket_oobinline(&socket, true);
        RawStream { socket: Some(socket), process: getpid() }
    }
}

impl AsFd for RawStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Some(socket) => socket.as_fd(),
            None => unreachable!("taken when it is dropped"),
        }
    }
}

impl RawStream {
    /// Sends octets, all of them. Waits for nobody.
    ///
    /// # Errors
    /// The other side is gone, or does not read.
    pub(crate) fn send(&self, octets: &[u8]) -> Result<(), Errno> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = retry_on_intr(|| rustix::net::send(self, octets, flags))?;
        if sent == octets.len() { Ok(()) } else { Err(Errno::AGAIN) }
    }

    /// Receives as many octets as there are, and as `into` has; gives how many. None: the other side is gone.
    ///
    /// # Errors
    /// None is there, and `flags` say not to wait. Descriptors are ([`Errno::PROTO`]): the connection is over.
    pub(crate) fn receive(&self, into: &mut [u8], flags: RecvFlags) -> Result<usize, Errno> {
        let looked = retry_on_intr(|| {
            let mut none = RecvAncillaryBuffer::new(&mut []);
            rustix::net::recvmsg(self, &mut [IoSliceMut::new(into)], &mut none, flags | RecvFlags::PEEK)
        })?;
        if looked.flags.contains(ReturnFlags::CTRUNC) {
            self.end();
            return Err(Errno::PROTO);
        }
        match looked.bytes {
            0 => Ok(0),
            // What was looked at and no more: a descriptor may have come behind it.
            bytes => retry_on_intr(|| rustix::net::recv(self, &mut into[..bytes], flags)).map(|(bytes, _)| bytes),
        }
    }

    /// Nothing more goes either way; who waits for this socket hears of its end, here and at the other side.
    pub(crate) fn end(&self) {
        if getpid() == self.process {
            // One whose other end is gone is ended.
            let _ = rustix::net::shutdown(self, Shutdown::Both);
        }
    }
}

impl Drop for RawStream {
    fn drop(&mut self) {
        if getpid() != self.process {
            return;
        }
        // Then no more comes than is there.
        self.end();
        let mut octets = [0; 4096];
        let last = loop {
            match self.receive(&mut octets, RecvFlags::DONTWAIT) {
                Ok(1..) => {}
                last => break last,
            }
        };
        if last == Err(Errno::PROTO) {
            self.socket.take().into_iter().for_each(close_elsewhere);
        }
    }
}

/// Closes on a thread of its own, or never where the system has no thread.
fn close_elsewhere(socket: OwnedFd) {
    static CLOSER: OnceLock<Sender<OwnedFd>> = OnceLock::new();
    let closer = CLOSER.get_or_init(|| {
        let (sender, receiver) = channel::<OwnedFd>();
        let run = move || receiver.into_iter().for_each(drop);
        // Without it, nobody receives.
        let _ = std::thread::Builder::new().name("closer".into()).spawn(run);
        sender
    });
    if let Err(unsent) = closer.send(socket) {
        std::mem::forget(unsent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SocketFlags, SocketType, socketpair};
    use std::io::IoSlice;
    use std::mem::MaybeUninit;

    fn pair() -> (RawStream, OwnedFd) {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        (a.into(), b)
    }

    fn pass(socket: &OwnedFd, octets: &[u8], fd: BorrowedFd<'_>) -> Result<usize, Errno> {
        pass_by(socket, octets, fd, SendFlags::empty())
    }

    fn pass_by(socket: &OwnedFd, octets: &[u8], fd: BorrowedFd<'_>, flags: SendFlags) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        let fds = [fd];
        assert!(rights.push(SendAncillaryMessage::ScmRights(&fds)));
        let flags = flags | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        rustix::net::sendmsg(socket, &[IoSlice::new(octets)], &mut rights, flags)
    }

    /// Whether nobody has closed the other end of a pipe.
    fn is_open(end: &OwnedFd) -> bool {
        let mut fds = [PollFd::new(end, PollFlags::empty())];
        poll(&mut fds, Some(&Timespec::default())) == Ok(0)
    }

    #[test]
    fn octets_come_and_with_the_first_descriptor_the_connection_is_over() {
        let (bare, peer) = pair();
        let (passed, end) = rustix::pipe::pipe().unwrap();
        let mut octets = [0; 16];
        assert_eq!(bare.receive(&mut octets, RecvFlags::DONTWAIT), Err(Errno::AGAIN));
        for _ in 0..3 {
            rustix::net::send(&peer, b"octets", SendFlags::empty()).unwrap();
        }
        assert_eq!(bare.receive(&mut octets[..10], RecvFlags::DONTWAIT), Ok(10));
        assert_eq!(&octets[..10], b"octetsocte");
        assert_eq!(bare.receive(&mut octets, RecvFlags::DONTWAIT), Ok(8));
        rustix::net::send(&peer, b"before", SendFlags::empty()).unwrap();
        pass(&peer, b"x", passed.as_fd()).unwrap();
        drop(passed);
        for _ in 0..2 {
            assert_eq!(bare.receive(&mut octets, RecvFlags::empty()), Err(Errno::PROTO));
        }
        assert_eq!(pass(&peer, b"x", end.as_fd()), Err(Errno::PIPE));
        assert_eq!(bare.send(b"x"), Err(Errno::PIPE));
        // What was passed is closed with the socket, elsewhere.
        assert!(is_open(&end), "it lies in the queue");
        drop(bare);
        let begin = std::time::Instant::now();
        while is_open(&end) {
            assert!(begin.elapsed().as_secs() < 20, "it is never closed");
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_octet_out_of_band_comes_among_the_others_and_so_does_its_descriptor() {
        let mut octets = [0; 16];
        for behind in [&b""[..], b"behind"] {
            let (bare, peer) = pair();
            let (passed, end) = rustix::pipe::pipe().unwrap();
            rustix::net::send(&peer, b"x", SendFlags::OOB).unwrap();
            assert_eq!(bare.receive(&mut octets, RecvFlags::DONTWAIT), Ok(1), "none that poll tells of is left");
            rustix::net::send(&peer, b"before", SendFlags::empty()).unwrap();
            pass_by(&peer, b"x", passed.as_fd(), SendFlags::OOB).unwrap();
            drop(passed);
            rustix::net::send(&peer, behind, SendFlags::empty()).unwrap();
            let before = bare.receive(&mut octets, RecvFlags::DONTWAIT);
            assert!(matches!(before, Ok(6) | Err(Errno::PROTO)), "{before:?}");
            for _ in 0..2 {
                assert_eq!(bare.receive(&mut octets, RecvFlags::DONTWAIT), Err(Errno::PROTO));
                assert!(is_open(&end), "it lies in the queue");
            }
        }
    }

    #[test]
    fn the_other_side_hears_of_the_end() {
        let (bare, peer) = pair();
        bare.send(b"last").unwrap();
        drop(bare);
        let mut octets = [0; 16];
        assert_eq!(rustix::net::recv(&peer, &mut octets[..], RecvFlags::empty()).unwrap().1, 4);
        assert_eq!(rustix::net::recv(&peer, &mut octets[..], RecvFlags::empty()).unwrap().1, 0);
        let (bare, peer) = pair();
        drop(peer);
        assert_eq!(bare.receive(&mut octets, RecvFlags::empty()), Ok(0));
    }
}
