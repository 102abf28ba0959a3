//! How much a UDP link's socket should hold: what the link may carry while its thread is late.

use crate::sys::datagrams;
use rustix::net::sockopt;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;
use wire::CellRate;

/// How late whoever reads the socket may be.
const LATE: Duration = Duration::from_millis(100);
/// What the system needs for a datagram of few cells, beyond its octets: it counts whole buffers.
const OCTETS_OF_A_CELL: f64 = 832.0;
/// Where the link has no rate.
const UNLIMITED_OCTETS: usize = 16 << 20;
/// The least and the most that is asked for. The system takes the memory only for what waits.
const BOUNDS: [usize; 2] = [4 << 20, 64 << 20];

/// Octets that a socket's buffer should have for a link of this rate: 100 ms of it, one cell to a datagram.
pub fn buffer_octets(rate: Option<CellRate>) -> usize {
    let octets =
        rate.map_or(UNLIMITED_OCTETS as f64, |rate| rate.cells_per_s() * LATE.as_secs_f64() * OCTETS_OF_A_CELL);
    (octets as usize).clamp(BOUNDS[0], BOUNDS[1])
}

/// Asks the system for buffers of so many octets. More than the administrator allows needs a right; where that is not
/// given, the socket has what is allowed, and `doctor` says so.
pub(super) fn set_buffers(socket: &UdpSocket, octets: usize) {
    let _ = sockopt::set_socket_recv_buffer_size_force(socket, octets)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, octets));
    let _ = datagrams::set_send_buffer_force(socket.as_fd(), octets)
        .or_else(|_| sockopt::set_socket_send_buffer_size(socket, octets));
}

/// Octets that a socket gets where it asks for so many.
///
/// # Errors
/// No socket to be had.
pub fn granted_octets(octets: usize) -> io::Result<usize> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    set_buffers(&socket, octets);
    // The system says twice of what was asked for: half is for its own (socket(7)).
    let granted = [sockopt::socket_recv_buffer_size(&socket)?, sockopt::socket_send_buffer_size(&socket)?];
    Ok(granted[0].min(granted[1]) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_holds_what_its_link_carries_in_a_tenth_of_a_second() {
        let octets = |rate: f64| buffer_octets(CellRate::from_cells_per_s(rate));
        // OC-3c: 353 207 cell/s.
        assert_eq!(octets(353_207.0), 29_386_822);
        assert_eq!((octets(100.0), octets(1e9)), (BOUNDS[0], BOUNDS[1]));
        assert_eq!(buffer_octets(None), UNLIMITED_OCTETS);
    }
}
