//! A connection ends when no process has its other end, wherever a client has left a copy of that: in its own bell, in the
//! queue of a connection, in a capture's socket, in another socket in one of these.
//! A test program of its own: it counts its process's mappings and raises its bound of descriptors.

use endpoint::control::{Request, Response};
use endpoint::seqpacket::{Packets, Peer};
use endpoint::{DataPath, Events};
use host::service::Handler;
use hostile::{Field, Ground, Raw, lingering, mappings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::CircuitId;

/// An end that does not come within this never comes.
const SOON: Duration = Duration::from_secs(40);
/// Most descriptors of one packet here.
const MOST: usize = 200;

/// One ground at a time: what the service has is counted in this process.
fn alone() -> MutexGuard<'static, ()> {
    static GROUND: Mutex<()> = Mutex::new(());
    GROUND.lock().unwrap_or_else(PoisonError::into_inner)
}

fn until(what: &str, is_so: impl FnMut() -> bool) {
    hostile::within(SOON, what, is_so);
}

/// Sends descriptors over a socket, beside octets, without waiting.
fn pass(over: impl AsFd, octets: &[u8], fds: &[BorrowedFd<'_>]) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    assert!(rights.push(SendAncillaryMessage::ScmRights(fds)));
    sendmsg(over, &[IoSlice::new(octets)], &mut rights, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
}

fn hello() -> Vec<u8> {
    serde_json::to_vec(&Request::hello()).unwrap()
}

fn greet(ground: &Ground) -> Packets {
    let packets = Packets::connect(ground.socket()).unwrap();
    packets.send(&Request::hello(), &[]).unwrap();
    let answer = packets.receive::<Response>().unwrap().expect("an answer").0;
    assert!(matches!(answer, Response::Welcome { .. }), "{answer:?}");
    packets
}

fn endpoints(ground: &Ground) -> usize {
    ground.engine().with(|core| core.host("alpha").unwrap().1.endpoints().len()).unwrap()
}

/// Nothing of eve's is left, and circuit 0.200 is free for others. An innocent connection was served all the time.
fn assert_over(ground: &Ground, innocent: &Packets, way: &str) {
    until(way, || endpoints(ground) == 0 && mappings(Raw::GEOMETRY) == 0);
    innocent.send(&Request::hello(), &[]).unwrap();
    assert!(matches!(innocent.receive(), Ok(Some((Response::Welcome { .. }, _)))), "{way}");
    drop(Raw::new(ground.socket(), "alpha", 200));
    until(way, || endpoints(ground) == 0);
}

#[test]
fn a_copy_of_a_connection_in_its_own_bell_does_not_keep_it_open() {
    let _alone = alone();
    let ground = Ground::two_circuits();
    let innocent = greet(&ground);
    let own_bell = || {
        let (near, far) = UnixStream::pair().unwrap();
        (Raw::with_bell(ground.socket(), "alpha", 200, far.as_fd()), OwnedFd::from(near))
    };
    let services_bell = || {
        let mut raw = Raw::new(ground.socket(), "alpha", 200);
        let bell = raw.fds.pop().unwrap();
        (raw, bell)
    };
    for (name, new) in [("the service's", &services_bell as &dyn Fn() -> (Raw, OwnedFd)), ("the client's", &own_bell)] {
        for inside in 0..4 {
            let (raw, bell) = new();
            let (near, far) = UnixStream::pair().unwrap();
            match inside {
                0 => drop(pass(&bell, b"x", &[raw.packets.as_fd()]).unwrap()),
                // Both of its descriptors, behind octets, with more behind them.
                1 => {
                    rustix::io::write(&bell, &[0; 100]).unwrap();
                    pass(&bell, b"x", &[raw.packets.as_fd(), bell.as_fd()]).unwrap();
                    rustix::io::write(&bell, &[0; 100]).unwrap();
                }
                2 => {
                    pass(&near, b"x", &[raw.packets.as_fd(), near.as_fd()]).unwrap();
                    pass(&bell, b"x", &[far.as_fd()]).unwrap();
                }
                _ => {
                    let octet = [rustix::io::IoSlice::new(b"x")];
                    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                    let mut rights = SendAncillaryBuffer::new(&mut space);
                    let own = [raw.packets.as_fd()];
                    rights.push(SendAncillaryMessage::ScmRights(&own));
                    // Some systems have none that are out of band here.
                    let _ = sendmsg(&bell, &octet, &mut rights, SendFlags::OOB | SendFlags::NOSIGNAL);
                }
            }
            drop((raw, bell, near, far));
            assert_over(&ground, &innocent, &format!("{name} bell, {inside}"));
        }
    }
}

#[test]
fn a_bell_with_a_descriptor_in_it_and_a_socket_that_listens_are_refused() {
    let _alone = alone();
    let ground = Ground::two_circuits();
    let innocent = greet(&ground);
    let folder = tempfile::tempdir().unwrap();
    for way in ["with a descriptor", "alone", "a listener"] {
        let packets = greet(&ground);
        let (near, far) = UnixStream::pair().unwrap();
        let bell = match way {
            "with a descriptor" => {
                pass(&near, b"x", &[packets.as_fd(), near.as_fd()]).unwrap();
                OwnedFd::from(far)
            }
            "alone" => {
                use rustix::net::{AddressFamily, SocketType, socket};
                socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap()
            }
            _ => {
                let listener = std::os::unix::net::UnixListener::bind(folder.path().join("l")).unwrap();
                let visitor = UnixStream::connect(folder.path().join("l")).unwrap();
                pass(&visitor, b"x", &[packets.as_fd(), visitor.as_fd()]).unwrap();
                listener.into()
            }
        };
        let (geometry, events, path) = (Raw::GEOMETRY, Events::Interrupt, DataPath::Shared);
        let create = Request::CreateEndpoint { host: "alpha".into(), geometry, events, path };
        packets.send(&create, &[bell.as_fd()]).unwrap();
        let (answer, _) = packets.receive::<Response>().unwrap().unwrap();
        assert!(matches!(answer, Response::Refused { .. }), "{way}: {answer:?}");
        drop((packets, bell, near));
        assert_over(&ground, &innocent, way);
    }
}

#[test]
fn thirty_endpoints_each_in_the_bell_of_another_end_and_give_their_memory_back() {
    let _alone = alone();
    let ground = Ground::two_circuits();
    let innocent = greet(&ground);
    let mut ring: Vec<Raw> = vec![Raw::new(ground.socket(), "alpha", 200)];
    let create = || {
        let packets = greet(&ground);
        let (geometry, events, path) = (Raw::GEOMETRY, Events::Interrupt, DataPath::Shared);
        packets.send(&Request::CreateEndpoint { host: "alpha".into(), geometry, events, path }, &[]).unwrap();
        let (_, fds) = packets.receive::<Response>().unwrap().unwrap();
        (packets, fds)
    };
    let others: Vec<(Packets, Vec<OwnedFd>)> = (1..30).map(|_| create()).collect();
    let first = ring.remove(0);
    let all: Vec<(&Packets, &OwnedFd)> =
        others.iter().map(|(packets, fds)| (packets, &fds[2])).chain([(&first.packets, &first.fds[2])]).collect();
    assert_eq!(endpoints(&ground), 30);
    for (at, (_, bell)) in all.iter().enumerate() {
        // The first that is seen ends its own; it may have been seen by now.
        let _ = pass(bell, b"x", &[all[(at + 1) % all.len()].0.as_fd()]);
    }
    drop(all);
    drop((first, others));
    assert_over(&ground, &innocent, "a ring of thirty");
}

#[test]
fn a_copy_of_a_connection_that_nobody_reads_in_its_own_queue_does_not_keep_it_open() {
    let _alone = alone();
    let ground = Ground::two_circuits();
    let innocent = greet(&ground);
    for way in 0..4 {
        let (raw, other) = (Raw::new(ground.socket(), "alpha", 200), greet(&ground));
        let copies = [raw.packets.as_fd(), other.as_fd()];
        let question = || rustix::net::send(&raw.packets, &hello(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        match way {
            // A packet of nothing but descriptors, which ends the other connection; and one that is read.
            0 => drop((pass(&other, b"", &copies), pass(&raw.packets, &hello(), &copies))),
            // With each of the questions whose answers nobody takes.
            1 => while pass(&raw.packets, &hello(), &copies).is_ok() {},
            // Behind all that are read, and as many in the other connection.
            way => {
                fill(question);
                if way == 3 {
                    fill(|| rustix::net::send(&other, &hello(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL));
                }
                for packets in [&raw.packets, &other] {
                    sockopt::set_socket_send_buffer_size(packets, 400_000).unwrap();
                    pass(packets, &hello(), &copies).unwrap();
                }
            }
        }
        drop((raw, other));
        assert_over(&ground, &innocent, &format!("way {way}"));
    }
}

/// Sends until nobody takes any more.
fn fill(send: impl Fn() -> Result<usize, Errno>) {
    let mut refused = 0;
    while refused < 20 {
        if send().is_ok() {
            refused = 0;
        } else {
            refused += 1;
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Says much to whoever manages.
struct Talker;

impl Handler for Talker {
    fn admit(&self, _: Peer) -> Result<(), String> {
        Ok(())
    }
    fn may_open(&self, _: Peer, _: &str, _: CircuitId) -> Result<(), String> {
        Ok(())
    }
    fn manage(&self, _: Peer, _: serde_json::Value, fds: Vec<OwnedFd>) -> Result<String, String> {
        let mut to = UnixStream::from(fds.into_iter().next().ok_or("a capture needs a socket")?);
        std::thread::spawn(move || while to.write(&[7; 4096]).is_ok() {});
        Ok("1".into())
    }
}

#[test]
fn a_copy_of_a_connection_in_a_captures_socket_does_not_keep_it_open() {
    let _alone = alone();
    let circuit = |vci: u16| (format!("alpha 0.{vci}"), format!("beta 0.{vci}"));
    let (a, b) = circuit(200);
    let ground = Ground::build()
        .handler(Arc::new(Talker))
        .host("alpha")
        .host("beta")
        .link("alpha", "beta", net::LinkConfig::default())
        .circuit(&a, &b, traffic::Contract::default())
        .up();
    let innocent = greet(&ground);
    for says_first in [false, true] {
        let raw = Raw::new(ground.socket(), "alpha", 200);
        let (ours, theirs) = UnixStream::pair().unwrap();
        raw.packets.send(&Request::Manage(json!({})), &[theirs.as_fd()]).unwrap();
        raw.packets.receive::<Response>().unwrap();
        // Something has come; nobody takes it.
        let mut fds = [PollFd::new(&ours, PollFlags::IN)];
        assert_eq!(poll(&mut fds, Some(&Timespec { tv_sec: 20, tv_nsec: 0 })), Ok(1));
        if says_first {
            (&ours).write_all(b"end").unwrap();
        }
        // Refused, if its end has been heard.
        let _ = pass(&ours, b"x", &[raw.packets.as_fd(), ours.as_fd(), theirs.as_fd()]);
        drop((raw, ours, theirs));
        assert_over(&ground, &innocent, &format!("a capture, {says_first}"));
    }
}

#[test]
fn a_copy_of_a_connection_in_a_circle_of_sockets_that_no_process_has_does_not_keep_it_open() {
    let _alone = alone();
    let ground = Ground::two_circuits();
    let innocent = greet(&ground);
    let raw = Raw::new(ground.socket(), "alpha", 200);
    let (near, far) = UnixStream::pair().unwrap();
    pass(&near, b"x", &[raw.packets.as_fd(), near.as_fd(), far.as_fd()]).unwrap();
    drop((raw, near, far));
    assert_over(&ground, &innocent, "a circle");
}

#[test]
fn connections_in_the_queue_of_one_that_waits_for_a_place_give_theirs_back() {
    let _alone = alone();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let ground = Ground::two_circuits();
    let crowd: Vec<Packets> = (0..1024).map(|_| greet(&ground)).collect();
    let late = Packets::connect(ground.socket()).unwrap();
    late.send(&Request::hello(), &[]).unwrap();
    for some in crowd.chunks(MOST) {
        let fds: Vec<BorrowedFd<'_>> = some.iter().map(AsFd::as_fd).collect();
        pass(&late, &hello(), &fds).unwrap();
    }
    pass(&late, &hello(), &[late.as_fd()]).unwrap();
    drop((crowd, late));
    let next = Packets::connect(ground.socket()).unwrap();
    next.send(&Request::hello(), &[]).unwrap();
    let mut fds = [PollFd::new(&next, PollFlags::IN)];
    let soon = Timespec { tv_sec: SOON.as_secs() as i64, tv_nsec: 0 };
    assert_eq!(poll(&mut fds, Some(&soon)), Ok(1), "the next one has no place");
    assert!(matches!(next.receive(), Ok(Some((Response::Welcome { .. }, _)))));
}

#[test]
fn a_copy_of_a_connection_behind_what_is_never_closed_does_not_keep_it_open() {
    let _alone = alone();
    let ground = Ground::two_circuits();
    for turned in [false, true] {
        let mut raw = Raw::new(ground.socket(), "alpha", 200);
        let bell = raw.fds.pop().unwrap();
        // The close of one waits for its far end, which is closed before or behind it.
        let (slow, far) = lingering(Duration::from_secs(100_000));
        let mut fds = [slow.as_fd(), raw.packets.as_fd(), far.as_fd()];
        if turned {
            fds.reverse();
        }
        let (near, inner) = UnixStream::pair().unwrap();
        pass(&near, b"x", &fds).unwrap();
        pass(&bell, b"x", &[inner.as_fd()]).unwrap();
        drop((raw, bell, slow, far, near, inner));
        until("turned", || endpoints(&ground) == 0);
        until("the next one", || {
            let next = Packets::connect(ground.socket()).unwrap();
            next.send(&Request::hello(), &[]).is_ok() && matches!(next.receive::<Response>(), Ok(Some(_)))
        });
    }
}
