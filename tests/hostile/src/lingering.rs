//! Descriptors whose last close takes time.

use rustix::fd::OwnedFd;
use rustix::net::sockopt;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// A socket whose last close takes so long, and its far end, which keeps the data from being taken meanwhile.
pub fn lingering(time: Duration) -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    while (&socket).write(&[0; 65_536]).is_ok() {}
    sockopt::set_socket_linger(&socket, Some(time)).unwrap();
    (socket.into(), far)
}
