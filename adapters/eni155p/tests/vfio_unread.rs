//! A client of an adapter is gone when no process has its end of the connection, wherever it has left a copy of that.

use eni155p::Config;
use eni155p::vfio::apart::Apart;
use eni155p::vfio::protocol::{HEADER_OCTETS, command};
use eni155p::vfio::server::Server;
use net::External as _;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt};
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);

fn message(of: u16, payload: &[u8]) -> Vec<u8> {
    let size = (HEADER_OCTETS + payload.len()) as u32;
    let parts = [&1u16.to_ne_bytes()[..], &of.to_ne_bytes(), &size.to_ne_bytes(), &[0; 8], payload];
    parts.concat()
}

fn attach(path: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(&message(command::VERSION, b"\0\0\x01\0{\"capabilities\":{}}\0")).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    assert!(stream.read(&mut [0; 256]).unwrap() > HEADER_OCTETS);
    stream
}

/// Sends without waiting; false if there is no room, or nobody reads.
fn pass(over: &UnixStream, octets: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    assert!(rights.push(SendAncillaryMessage::ScmRights(fds)));
    sendmsg(over, &[IoSlice::new(octets)], &mut rights, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
}

/// Sends until nobody takes any more.
fn fill(stream: &UnixStream, octets: &[u8]) {
    stream.set_nonblocking(true).unwrap();
    let mut refused = 0;
    while refused < 20 {
        match (&*stream).write(octets) {
            Ok(_) => refused = 0,
            Err(_) => refused += 1,
        }
        std::thread::sleep(Duration::from_millis(if refused > 0 { 10 } else { 0 }));
    }
}

#[test]
fn a_client_that_has_left_its_own_end_in_a_connection_is_gone_and_the_next_one_attaches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let adapter = Apart::start(Server::listen(&path, Config::default()).unwrap()).unwrap();
    let read = message(command::REGION_READ, &[&0u64.to_ne_bytes()[..], &[0; 4], &4096u32.to_ne_bytes()].concat());
    for way in 0..7 {
        let (stream, waiting) = (attach(&path), UnixStream::connect(&path).unwrap());
        let own = [stream.as_fd(), waiting.as_fd()];
        let (near, far) = UnixStream::pair().unwrap();
        match way {
            // With an unfinished message, by itself and in another socket; with more than it can have; with a whole one.
            0 => drop(pass(&stream, &read[..10], &own[..1])),
            1 => drop((pass(&near, b"x", &[own[0], near.as_fd()]), pass(&stream, &read[..10], &[far.as_fd()]))),
            2 => drop(pass(&stream, &read[..10], &[own[0]; 20])),
            3 => drop(pass(&stream, &read, &own)),
            4 => while pass(&stream, &read, &own) {},
            // Behind questions whose answers nobody takes.
            5 => {
                fill(&stream, &read);
                sockopt::set_socket_send_buffer_size(&stream, 400_000).unwrap();
                assert!(pass(&stream, &read[..1], &own));
            }
            // In one that waits for this one's end.
            _ => assert!(pass(&waiting, b"x", &own)),
        }
        drop((stream, waiting, near, far));
        let begin = Instant::now();
        while !adapter.status().starts_with("waits") {
            assert!(begin.elapsed() < SOON, "way {way}: {}", adapter.status());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    drop(attach(&path));
}
