//! One connection's octets, by TCP alone or by TLS on it. Nothing blocks.

use super::tls::Session;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

/// A connection.
#[derive(Debug)]
pub(super) struct Stream {
    socket: TcpStream,
    session: Option<Session>,
}

impl Stream {
    pub(super) fn plain(socket: TcpStream) -> Self {
        Stream { socket, session: None }
    }

    pub(super) fn tls(socket: TcpStream, session: Session) -> Self {
        Stream { socket, session: Some(session) }
    }

    pub(super) fn is_tls(&self) -> bool {
        self.session.is_some()
    }

    /// Goes on with what TLS agrees on first. True if octets can pass; an error says why they never will.
    pub(super) fn shake_hands(&mut self) -> Result<bool, String> {
        self.session.as_mut().map_or(Ok(true), |session| session.shake_hands(&mut self.socket))
    }

    /// [`Read::read`].
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.read(&mut self.socket, into),
            None => self.socket.read(into),
        }
    }

    /// [`Write::write`].
    pub(super) fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.write(&mut self.socket, octets),
            None => self.socket.write(octets),
        }
    }

    /// Hands on what TLS has kept.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.session.as_mut().map_or(Ok(()), |session| session.flush(&mut self.socket))
    }

    /// Whether TLS keeps something for the socket.
    pub(super) fn wants_write(&self) -> bool {
        self.session.as_ref().is_some_and(Session::wants_write)
    }

    /// Tells the peer the end, where there is a word for it.
    pub(super) fn end(&mut self) {
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
