//! Round trips of datagrams over the kernel's loopback, by each way to wait for them: asleep, looking without rest,
//! with the kernel's busy polling, through io_uring. Measured beside the host interface's own event
//! strategies.

use io_uring::{IoUring, opcode, types};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// How to wait for a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// A blocking `recv`: asleep until the kernel wakes the thread.
    Asleep,
    /// A `recv` that does not block, again and again.
    Looking,
    /// A blocking `recv` on a socket with `SO_BUSY_POLL`.
    BusyPoll,
    /// A receive and a wait for its completion by io_uring.
    Ring,
}

/// One end.
enum End {
    Socket(UdpSocket, bool),
    Ring(UdpSocket, Box<IoUring>),
}

impl End {
    fn new(socket: UdpSocket, waiting: Waiting) -> io::Result<Self> {
        match waiting {
            Waiting::Ring => Ok(End::Ring(socket, Box::new(IoUring::new(8)?))),
            Waiting::Looking => {
                socket.set_nonblocking(true)?;
                Ok(End::Socket(socket, true))
            }
            Waiting::BusyPoll => {
                let micros: libc::c_int = 50;
                let octets = size_of_val(&micros) as libc::socklen_t;
                // SAFETY: the option's value is an int of this size, which the kernel only reads.
                let done = unsafe {
                    libc::setsockopt(
                        socket.as_raw_fd(),
                        libc::SOL_SOCKET,
                        libc::SO_BUSY_POLL,
                        (&raw const micros).cast(),
                        octets,
                    )
                };
                if done != 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(End::Socket(socket, false))
            }
            Waiting::Asleep => Ok(End::Socket(socket, false)),
        }
    }

    fn send(&mut self, octets: &[u8]) -> io::Result<()> {
        let (End::Socket(socket, _) | End::Ring(socket, _)) = self;
        loop {
            match socket.send(octets) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::hint::spin_loop(),
                other => return other.map(|_| ()),
            }
        }
    }

    /// The octets of the next datagram.
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            End::Socket(socket, looks) => loop {
                match socket.recv(into) {
                    Err(e) if *looks && e.kind() == io::ErrorKind::WouldBlock => std::hint::spin_loop(),
                    other => return other,
                }
            },
            End::Ring(socket, ring) => {
                let fd = types::Fd(socket.as_raw_fd());
                let entry = opcode::Recv::new(fd, into.as_mut_ptr(), into.len() as u32).build();
                // SAFETY: socket and buffer live until this function returns, which is after the completion has been
                // seen.
                unsafe { ring.submission().push(&entry) }.map_err(io::Error::other)?;
                loop {
                    // Interrupted, or out of resources for the moment: the request is still the kernel's, so it is
                    // waited for.
                    if ring.submit_and_wait(1).is_err() {
                        std::thread::yield_now();
                    }
                    if let Some(completion) = ring.completion().next() {
                        let result = completion.result();
                        return if result < 0 {
                            Err(io::Error::from_raw_os_error(-result))
                        } else {
                            Ok(result as usize)
                        };
                    }
                }
            }
        }
    }
}

/// Microseconds of round trips of `octets` octets (at least 2) between two threads, for `length`; in no order.
///
/// # Errors
/// The kernel has no such way to wait, or refuses it to this process.
pub fn round_trips(octets: usize, waiting: Waiting, length: Duration) -> io::Result<Vec<f64>> {
    let sockets = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
    sockets[0].connect(sockets[1].local_addr()?)?;
    sockets[1].connect(sockets[0].local_addr()?)?;
    let [a, b] = sockets;
    let (mut here, mut there) = (End::new(a, waiting)?, End::new(b, waiting)?);
    let data = vec![0x42; octets.max(2)];
    std::thread::scope(|scope| {
        let echo = scope.spawn(move || -> io::Result<()> {
            let mut buffer = vec![0; 1 << 16];
            loop {
                // A single octet is the end.
                match there.receive(&mut buffer)? {
                    0 | 1 => return Ok(()),
                    n => there.send(&buffer[..n])?,
                }
            }
        });
        let (mut times, mut buffer, begin) = (Vec::new(), vec![0; 1 << 16], Instant::now());
        let result = (|| -> io::Result<()> {
            while times.is_empty() || begin.elapsed() < length {
                let one = Instant::now();
                here.send(&data)?;
                here.receive(&mut buffer)?;
                times.push(one.elapsed().as_secs_f64() * 1e6);
            }
            Ok(())
        })();
        here.send(&[0])?;
        echo.join().map_err(|_| io::Error::other("the other end panicked"))??;
        result.map(|()| times)
    })
}

/// Whether this kernel lets this process open a socket of AF_XDP.
///
/// # Errors
/// It does not.
pub fn xdp() -> io::Result<()> {
    let family = rustix::net::AddressFamily::from_raw(libc::AF_XDP as u16);
    rustix::net::socket(family, rustix::net::SocketType::RAW, None).map(drop).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_come_back_whatever_way_is_waited_for_them() {
        for waiting in [Waiting::Asleep, Waiting::Looking, Waiting::BusyPoll, Waiting::Ring] {
            match round_trips(100, waiting, Duration::from_millis(5)) {
                Ok(times) => assert!(!times.is_empty() && times.iter().all(|us| *us > 0.0), "{waiting:?}"),
                // A kernel without it, or one that does not let this process.
                Err(e) => println!("skipped: {waiting:?}: {e}"),
            }
        }
    }
}
