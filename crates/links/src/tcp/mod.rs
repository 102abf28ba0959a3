//! Links on TCP: one connection at a time, made or awaited, made again when it ends; by TLS where it is to be.
//!
//! [`Shell`] is a link's end. What its octets are, its protocol says: frames of ATM over TCP ([`crate::atmtcp`]) or
//! cells ([`crate::cells`]). Connections come from the connection acceptor (`connection_acceptor`).

mod shell;
mod speech;
mod watch;

pub use crate::connection::{Tls, TlsError, TlsTexts};
pub use shell::Shell;

use std::io;
use std::net::{SocketAddr, TcpStream};

/// Who makes the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The peer connects to this address. While one is connected, others wait.
    Listen(SocketAddr),
    /// This side connects, and tries again after half a second, a second, two, ... thirty.
    Connect(SocketAddr),
}

/// A socket whose connection is under way.
fn start_connect(address: SocketAddr) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    match connect(&fd, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(fd.into()),
        Err(error) => Err(error.into()),
    }
}
