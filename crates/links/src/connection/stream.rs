//! One connection's octets, by TCP alone or by TLS on it. Nothing blocks.

use super::tls::Session;
use crate::sys;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

/// A connection.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: TcpStream,
    session: Option<Session>,
}

impl Stream {
    pub(crate) fn new(socket: TcpStream, session: Option<Session>) -> Self {
        Stream { socket, session }
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.session.is_some()
    }

    /// Goes on with what TLS agrees on first. True if octets can pass; an error says why they never will.
    pub(crate) fn shake_hands(&mut self) -> Result<bool, String> {
        self.session.as_mut().map_or(Ok(true), |session| session.shake_hands(&mut self.socket))
    }

    /// Whether the peer has said something in the handshake that deserved an answer.
    pub(crate) fn has_answered(&self) -> bool {
        self.session.as_ref().is_some_and(Session::has_answered)
    }

    /// [`Read::read`].
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.read(&mut self.socket, into),
            None => self.socket.read(into),
        }
    }

    /// [`Write::write`].
    pub(crate) fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.write(&mut self.socket, octets),
            None => self.socket.write(octets),
        }
    }

    /// Hands on what TLS has kept.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.session.as_mut().map_or(Ok(()), |session| session.flush(&mut self.socket))
    }

    /// Whether TLS keeps something for the socket.
    pub(crate) fn wants_write(&self) -> bool {
        self.session.as_ref().is_some_and(Session::wants_write)
    }

    /// Of `taken` octets that were written, those that the peer's system has acknowledged, as far as can be told: never
    /// more.
    pub(crate) fn acknowledged(&mut self, taken: u64) -> u64 {
        let Ok(waiting) = sys::unacknowledged(self.socket.as_fd()) else { return 0 };
        match &mut self.session {
            Some(session) => session.acknowledged(waiting),
            None => taken.saturating_sub(waiting),
        }
    }

    /// Lets the system send nothing more of what was written.
    pub(crate) fn abort(&mut self) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.socket, Some(std::time::Duration::ZERO));
    }

    /// Tells the peer the end, where there is a word for it.
    pub(crate) fn end(&mut self) {
        if let Some(session) = &mut self.session {
            session.end(&mut self.socket);
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
