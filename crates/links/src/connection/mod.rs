//! One TCP connection, and what all protocols on it have in common: octets by TCP alone or by TLS ([`Stream`],
//! [`Tls`]), what waits to be sent ([`Out`]), how a stranger's first octets are judged ([`Judgement`]), and why a
//! connection is given up ([`LinkError`]).

mod out;
mod stream;
mod tls;

pub(crate) use out::Out;
pub(crate) use stream::Stream;
pub use tls::{Tls, TlsError, TlsTexts};

use rustix::net::sockopt;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// A connection on which nothing comes is asked after this time, and then so often, whether it is still there.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(10), Duration::from_secs(5), 4);
/// Octets that the peer's machine does not take in this time end the connection: a line was cut, or the peer hangs.
const UNANSWERED: Duration = Duration::from_secs(30);

/// What the first octets of a connection show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Not enough to tell.
    Open,
    /// A message of the protocol.
    Speaks,
    /// What no peer of the link sends.
    Nonsense(LinkError),
}

/// Judges the first octets of a connection, of which there may be more.
pub(crate) type Judge = fn(&[u8]) -> Judgement;

/// Octets that a judge wants to see at most.
pub(crate) const JUDGED_OCTETS: usize = 1536;

/// Why a peer's connection is given up. Its octets cannot be brought into step again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// A head that no `atmtcp` sends: a giant PDU, a VPI beyond the standard's.
    #[error("the peer speaks no atmtcp: {0}")]
    BadHead(wire::Error),
    /// A TLS handshake where none was expected.
    #[error("the peer speaks TLS: this link needs `tls` too, or the peer's none")]
    Tls,
    /// What is no batch of cells.
    #[error("the peer sends no cells: its link needs `tcp` too, or this one `atmtcp` ({0})")]
    NoCells(wire::Error),
}

/// A TLS record of a handshake, version 3.something (RFC 8446 5.1).
pub(crate) fn begins_tls(octets: &[u8]) -> bool {
    octets.starts_with(&[0x16, 3])
}

/// Makes a connection one that does not block and does not wait for more to send, and has the system notice a peer that
/// is gone without a word.
pub(crate) fn prepare(socket: &TcpStream) -> io::Result<()> {
    let (idle, interval, count) = KEEP_ALIVE;
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, idle)?;
    sockopt::set_tcp_keepintvl(socket, interval)?;
    sockopt::set_tcp_keepcnt(socket, count)?;
    sockopt::set_tcp_user_timeout(socket, UNANSWERED.as_millis() as u32)?;
    Ok(())
}
