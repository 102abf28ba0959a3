//! The proxy: processes of their own between applications and the service.
//!
//! An application can pass any file descriptor along with a packet, and closing one can take as long as its maker likes
//! (`SO_LINGER`, FUSE). So neither the engine's nor the service's thread ever holds, receives or closes one:
//!
//! - the **acceptor** ([`acceptor`]), one process, accepts connections, asks the kernel who it is, and hands each to
//!   its user's proxy. Where it ends, the service has the **spawner** ([`spawner`]) start another one, and user proxies
//!   and their connections stay;
//! - a **user proxy** ([`user_proxy`]), a process for each user, has the connections. It passes packets on to the
//!   service over sockets of the service's own, with memory files only; it rings the bells that clients have passed
//!   ([`bell_table`]), and carries what a capture writes. What holds it up holds up its user, and it can be killed at any
//!   time. It ends connections whose clients leave descriptors where nobody takes them ([`watch`]);
//! - the service ([`Connections`]) has one end of a socket pair for each connection, which nobody but a user proxy can
//!   reach.
//!
//! All of them are bounded: connections of a user by the board's slots, packets on their way by one a direction and
//! connection, connections that have said nothing by number and time.

mod acceptor;
mod bell_table;
mod carrier;
mod closer;
mod connections;
mod frame;
mod messages;
mod slot;
mod slots;
mod spawner;
mod stuck;
#[cfg(test)]
mod transit;
mod user_proxy;
mod watch;

pub use bell_table::BellTable;
pub use connections::Accepting;
pub(crate) use connections::Connections;
pub(crate) use frame::{KEEP_BELL, MAKE_PAGES, SEAL_MEMORY};

use crate::sys;
use endpoint::control::Response;
use endpoint::seqpacket::{PacketError, Peer};
use frame::{Frame, HAS_BELL, HEAD, IS_WHOLE, REFUSED_FD, ReceiveResult};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::Arc;

/// A connection that has come.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) line: ProxiedConnection,
    pub(crate) peer: Peer,
}

/// The service's end of one connection.
#[derive(Debug)]
pub(crate) struct ProxiedConnection {
    end: Arc<OwnedFd>,
    slot: u32,
    board: Arc<BellTable>,
    has_bell: bool,
    refused_fd: bool,
    /// Answers that the user proxy has not taken yet.
    out: VecDeque<Frame>,
    /// The system had no room for the first of them, and nothing tells when it has.
    is_withheld: bool,
}

/// A packet from a client: its text, the memory files that came along, whether another descriptor was refused, and
/// whether the files are sealed with all their pages.
#[derive(Default)]
pub(crate) struct Packet {
    pub(crate) octets: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
    pub(crate) refused_fd: bool,
    pub(crate) is_whole: bool,
}

/// Further descriptors of the memory files of a packet. Memory ends with its last descriptor, which takes as long as a
/// client has filled it: that is left to the reaper.
#[derive(Debug)]
pub(crate) struct Kept(Vec<OwnedFd>);

impl Packet {
    /// To be dropped after all others.
    pub(crate) fn keep(&self) -> Kept {
        Kept(self.fds.iter().filter_map(|fd| fd.try_clone().ok()).collect())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            crate::reaper::dispose(std::mem::take(&mut self.0));
        }
    }
}

impl ProxiedConnection {
    fn new(end: Arc<OwnedFd>, slot: u32, board: Arc<BellTable>) -> Self {
        let out = VecDeque::new();
        ProxiedConnection { end, slot, board, has_bell: false, refused_fd: false, out, is_withheld: false }
    }

    /// The next packet; `None` if none has come.
    ///
    /// # Errors
    /// The client has gone.
    pub(crate) fn receive(&mut self) -> Result<Option<Packet>, PacketError> {
        match frame::receive(&*self.end, HEAD) {
            ReceiveResult::Nothing => Ok(None),
            ReceiveResult::End => Err(PacketError::Closed),
            ReceiveResult::Frame(Frame { head, octets, fds }) => {
                self.has_bell = head[0] & HAS_BELL != 0;
                self.refused_fd = head[0] & REFUSED_FD != 0;
                let is_whole = head[0] & IS_WHOLE != 0;
                Ok(Some(Packet { octets, fds, refused_fd: self.refused_fd, is_whole }))
            }
        }
    }

    /// The client's bell, if it has passed one.
    pub(crate) fn bell(&self) -> Option<(Arc<BellTable>, u32)> {
        self.has_bell.then(|| (self.board.clone(), self.slot))
    }

    /// Lets the user proxy ring the descriptor that goes along last with an answer.
    pub(crate) fn new_bell(&self) -> (Arc<BellTable>, u32) {
        (self.board.clone(), self.slot)
    }

    /// Sends an answer, or keeps it until the user proxy takes it. `for_proxy`: what the user proxy is to do with the
    /// descriptors ([`KEEP_BELL`], [`SEAL_MEMORY`], [`MAKE_PAGES`]).
    ///
    /// # Errors
    /// The client has gone.
    pub(crate) fn send(&mut self, response: &Response, fds: Vec<OwnedFd>, for_proxy: u8) -> Result<(), PacketError> {
        let octets = serde_json::to_vec(response).map_err(|e| PacketError::Malformed(e.to_string()))?;
        if octets.len() > endpoint::control::MAX_PACKET_OCTETS {
            return Err(PacketError::Malformed(format!("{} octets in one message", octets.len())));
        }
        self.out.push_back(Frame { head: [for_proxy, 0, 0, 0], octets, fds });
        self.flush()
    }

    /// Whether an answer has not come as far as the user proxy.
    pub(crate) fn has_untaken(&self) -> bool {
        self.is_behind() || sys::untaken(&*self.end) > 0
    }

    /// Whether answers wait for the user proxy.
    pub(crate) fn is_behind(&self) -> bool {
        !self.out.is_empty()
    }

    /// Whether they wait for the system, and are to be sent again though nothing tells of it.
    pub(crate) fn is_withheld(&self) -> bool {
        self.is_withheld
    }

    /// Sends what waits, as far as it can.
    ///
    /// # Errors
    /// The client has gone.
    pub(crate) fn flush(&mut self) -> Result<(), PacketError> {
        self.is_withheld = false;
        while let Some(frame) = self.out.front() {
            let fds: Vec<_> = frame.fds.iter().map(OwnedFd::as_fd).collect();
            match frame::send(&*self.end, &[&frame.head, &frame.octets], &fds) {
                Ok(()) => {
                    if let Some(Frame { fds, .. }) = self.out.pop_front()
                        && !fds.is_empty()
                    {
                        crate::reaper::dispose(fds);
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(e) if frame::is_out_of_room(e) => {
                    self.is_withheld = true;
                    return Ok(());
                }
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(PacketError::Closed),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Another handle of the same connection, for answers from elsewhere.
    pub(crate) fn also(&self) -> ProxiedConnection {
        ProxiedConnection::new(self.end.clone(), self.slot, self.board.clone())
    }

    /// The connection itself, to be cut.
    pub(crate) fn end(&self) -> Arc<OwnedFd> {
        self.end.clone()
    }
}

impl AsFd for ProxiedConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

impl Drop for ProxiedConnection {
    fn drop(&mut self) {
        // What is left unread in it may hold memory, which takes time to end.
        crate::reaper::dispose((self.end.clone(), std::mem::take(&mut self.out)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_whose_descriptors_the_system_has_no_room_for_waits_and_the_connection_goes_on() {
        frame::tests::while_many_are_on_their_way(|make_room| {
            let (end, user_proxy) = frame::pair().unwrap();
            let mut line = ProxiedConnection::new(Arc::new(end), 0, Arc::new(BellTable::create().unwrap().0));
            let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
            line.send(&Response::Memory, vec![fd], 0).expect("the connection goes on");
            for _ in 0..2 {
                assert!(line.is_behind() && line.is_withheld());
                line.flush().expect("the connection goes on");
            }
            make_room();
            frame::tests::until(|| line.flush().is_ok() && !line.is_behind());
            assert!(!line.is_withheld());
            let ReceiveResult::Frame(frame) = frame::receive(&user_proxy, HEAD) else { panic!("nothing has come") };
            assert_eq!(frame.fds.len(), 1);
        });
    }
}
