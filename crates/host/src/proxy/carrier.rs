//! Carries what a capture writes from the service to a client's socket, on a thread of its own.

use super::closer::Closer;
use super::slot::Slot;
use endpoint::passed;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Captures of one user at the same time.
const MAX_CARRIERS: usize = 16;
const PIECE_OCTETS: usize = 64 * 1024;

/// How many there are of a user proxy's.
pub(super) type Carriers = Arc<AtomicUsize>;

/// Carries octets from the service to a client's socket, and the client's end to the service: on a thread of its own.
/// Gives the service's end.
pub(super) fn carry(to: OwnedFd, slot: Arc<Slot>, carriers: &Carriers, closer: &Closer) -> Option<OwnedFd> {
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (Ok((ours, theirs)), 0..MAX_CARRIERS) = (pair, carriers.fetch_add(1, Ordering::Relaxed)) else {
        carriers.fetch_sub(1, Ordering::Relaxed);
        closer.close(to);
        return None;
    };
    let (count, closer) = (carriers.clone(), closer.clone());
    let thread = std::thread::Builder::new().spawn(move || {
        carry_on(&ours, &to);
        drop(ours);
        closer.end(to);
        count.fetch_sub(1, Ordering::Relaxed);
        slot.end();
    });
    if thread.is_err() {
        carriers.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    Some(theirs)
}

fn carry_on(from: &OwnedFd, to: &OwnedFd) {
    let _ = sockopt::set_socket_send_buffer_size(to, 4 * PIECE_OCTETS);
    let mut piece = vec![0; PIECE_OCTETS];
    let mut pending = 0..0;
    let mut client_talks = true;
    loop {
        let out = if pending.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let talk = if client_talks { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = [PollFd::new(to, out | talk), PollFd::new(from, PollFlags::IN)];
        // While the client is to take what there is, the service's end would keep this thread awake.
        let heard = if pending.is_empty() { &mut fds[..] } else { &mut fds[..1] };
        if !matches!(poll(heard, None), Ok(_) | Err(Errno::INTR)) {
            return;
        }
        let (client, service) = (fds[0].revents(), fds[1].revents());
        if client.intersects(PollFlags::ERR | PollFlags::NVAL) {
            return;
        }
        if client_talks && client.intersects(PollFlags::IN | PollFlags::HUP) {
            // Whatever it says ends the capture; it goes on reading until the service has ended it. From here on
            // nothing more can be put into its socket, where the client's other end might lie, and keep this one open.
            client_talks = false;
            let _ = rustix::net::shutdown(to, rustix::net::Shutdown::Read);
            if passed::lie_in(to) {
                return;
            }
            let _ = rustix::net::shutdown(from, rustix::net::Shutdown::Write);
        } else if client.contains(PollFlags::HUP) {
            return;
        }
        if pending.is_empty() && !service.is_empty() {
            match rustix::net::recv(from, &mut piece[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => {
                    let _ = rustix::net::shutdown(to, rustix::net::Shutdown::Write);
                    return;
                }
                Ok((n, _)) => pending = 0..n,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return,
            }
        }
        if !pending.is_empty() {
            match rustix::net::send(to, &piece[pending.clone()], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(n) => pending.start += n,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}
