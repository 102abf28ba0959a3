//! ATM over TCP by hand, for tests that play an end of a link themselves: frames on a stream, and a port for it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use wire::CircuitId;
use wire::atmtcp::{HEAD_OCTETS, Head};

/// A port of this machine at which nobody listens just now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Connects as soon as somebody listens, who has `patience` for that, and for each read afterwards.
pub fn connect(port: u16, patience: Duration) -> TcpStream {
    let deadline = Instant::now() + patience;
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => {
                stream.set_read_timeout(Some(patience)).unwrap();
                return stream;
            }
            Err(error) => assert!(Instant::now() < deadline, "nobody listens on {port}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Writes a frame.
pub fn send(stream: &mut impl Write, circuit: CircuitId, octets: &[u8]) {
    stream.write_all(&Head { circuit, octets: octets.len() }.to_octets()).unwrap();
    stream.write_all(octets).unwrap();
}

/// Reads the next frame: its circuit, 0.0 if it is a control text, and its octets.
pub fn receive(stream: &mut impl Read) -> (CircuitId, Vec<u8>) {
    let mut head = [0; HEAD_OCTETS];
    stream.read_exact(&mut head).unwrap();
    let head = Head::parse(&head).unwrap();
    let mut octets = vec![0; head.octets];
    stream.read_exact(&mut octets).unwrap();
    (head.circuit, octets)
}
